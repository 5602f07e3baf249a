/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events on users' streams. Nothing here has the baton: several threads may record at once.
 *
 * An *outside* stream is a ring of marks like any other, but the calling thread records each mark
 * on a user's stream. Its key says on which: the driver's number of the stream, which is never
 * given again. Events of one user's stream fire in order, so they may share a ring. Events of two
 * streams don't, so a ring changes its key only when everything in it has fired.
 *
 * The recording thread takes the ring's claim, by one exchange and without a wait, and keeps it
 * until the event has entered the graph: so numbers enter in order. A thread that finds the claim
 * taken uses another ring for the same stream, which costs only a ring.
 *
 * A *bridge* is a ring with a stream of ferry's that waits for foreign events: one that the user
 * recorded, or one on a stream of another context, where this context's events can't be recorded.
 */
#include "gpu/cuda/event.h"

#include "gpu/cuda/call.h"
#include "gpu/cuda/context.h"
#include "gpu/cuda/cuda.h"
#include "gpu/cuda/driver.h"
#include "gpu/cuda/lost.h"
#include "gpu/cuda/mark.h"
#include "gpu/cuda/spare.h"
#include "gpu/cuda/stream.h"
#include "gpu/cuda/word.h"
#include "gpu/device.h"

/*
 * Fails if the program's stream is being captured. Asking harms no capture; recording would become
 * a part of it, and on the legacy stream beside a captured one would break it.
 */
static ferry_status check_capture(fry_cuda_device *device, CUstream native, fry_fault *fault)
{
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult result;
    FRY_CUDA_ISSUE(result, fry_cuda.cuStreamIsCapturing(native, &capture));
    if (result != CUDA_SUCCESS)
        return fry_cuda_call_refuse(device, result, "cuStreamIsCapturing", fault);
    if (capture == CU_STREAM_CAPTURE_STATUS_NONE)
        return FERRY_OK;
    return fry_cuda_tell(fault, FERRY_E_CAPTURE, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                         "cuStreamIsCapturing");
}

/* --- rings --- */

/* The stream's number plus 1: 0 is no key. */
static ferry_status key_of(fry_cuda_device *device, CUstream native, uint64_t *key_p,
                           fry_fault *fault)
{
    unsigned long long id = 0;
    CUresult result;
    FRY_CUDA_ISSUE(result, fry_cuda.cuStreamGetId(native, &id));
    if (result != CUDA_SUCCESS)
        return fry_cuda_call_refuse(device, result, "cuStreamGetId", fault);
    *key_p = (uint64_t)id + 1;
    return FERRY_OK;
}

/* The slots of fired marks are in use until the baton's holder has seen them fire. */
static bool has_room(const fry_cuda_stream *ring)
{
    return ring->stream.issued - fry_load_acquire(&ring->fired) < FRY_STREAM_DEPTH;
}

/* A late word of one stream would overwrite an early word of the next. */
static bool is_unused(const fry_cuda_stream *ring)
{
    return fry_cuda_stream_peek(ring) == ring->stream.issued &&
           fry_cuda_stream_waits_for_no_word(ring);
}

/*
 * The same by the driver's word on the newest event, for rings that nobody has looked at since.
 * With the claim.
 */
static bool has_gone_idle(const fry_cuda_stream *ring)
{
    CUevent newest = fry_cuda_event_of(ring, ring->stream.issued);
    fry_cuda_scope scope;
    CUresult result =
        fry_cuda_enter_to_ask(&scope, fry_cuda_device_of(ring->stream.device)->context);
    if (result == CUDA_SUCCESS)
        FRY_CUDA_ISSUE(result, fry_cuda.cuEventQuery(newest));
    fry_cuda_leave(&scope);
    return result == CUDA_SUCCESS;
}

/* Claims a ring with nothing under way, as far as is known or the driver says. */
static fry_cuda_stream *claim_unused(fry_cuda_stream *rings, size_t count, uint64_t key,
                                     bool is_known_by_driver)
{
    for (size_t i = 0; i < count; i++) {
        fry_cuda_stream *ring = &rings[i];
        if (!fry_baton_take(&ring->claim))
            continue;
        if (has_room(ring) && (is_unused(ring) || (is_known_by_driver && has_gone_idle(ring)))) {
            fry_store_relaxed(&ring->key, key);
            return ring;
        }
        fry_baton_give(&ring->claim);
    }
    return NULL;
}

/*
 * Claims a ring for the key (0: for one use); NULL: none is left. Only the claimer reads and writes
 * `issued` and `key`, so they are read again after the claim.
 */
static fry_cuda_stream *claim_ring(fry_cuda_stream *rings, size_t count, uint64_t key)
{
    for (size_t i = 0; i < count && key != 0; i++) {
        fry_cuda_stream *ring = &rings[i];
        if (fry_load_relaxed(&ring->key) != key || !fry_baton_take(&ring->claim))
            continue;
        bool is_ours = fry_load_relaxed(&ring->key) == key;
        if (is_ours && has_room(ring))
            return ring;
        fry_baton_give(&ring->claim);
        if (is_ours)
            return NULL;
    }
    fry_cuda_stream *unused = claim_unused(rings, count, key, false);
    return unused != NULL || !fry_cuda_stream_is_programs(rings)
               ? unused
               : claim_unused(rings, count, key, true);
}

static fry_cuda_stream *claim_outside(fry_cuda_device *device, uint64_t key)
{
    return claim_ring(fry_cuda_outside(device), FRY_CUDA_OUTSIDE_COUNT, key);
}

/*
 * All bridges together have one stream's room. Threads that check at once may each add one wait too
 * many; half of the driver's room is left for that.
 */
static bool have_bridges_room(fry_cuda_device *device)
{
    const fry_cuda_stream *bridges = fry_cuda_bridges(device);
    uint64_t waits = 0;
    for (size_t i = 0; i < FRY_CUDA_BRIDGE_COUNT; i++) {
        uint64_t fired = fry_cuda_stream_peek(&bridges[i]); /* first: `issued` is not behind it */
        waits += fry_load_relaxed(&bridges[i].stream.issued) - fired;
    }
    return (waits + 1) * (1 + FRY_CUDA_MARK_ENTRIES) <= FRY_CUDA_QUEUE_ENTRIES;
}

static fry_cuda_stream *claim_bridge(fry_cuda_device *device, uint64_t key)
{
    if (!have_bridges_room(device))
        return NULL;
    return claim_ring(fry_cuda_bridges(device), FRY_CUDA_BRIDGE_COUNT, key);
}

/* Puts a mark on the native stream. If this fails, the caller still has the claim. */
static ferry_status mark_ring(fry_cuda_device *device, fry_cuda_stream *ring, CUstream native,
                              fry_event *event_p, fry_fault *fault)
{
    ferry_status status = fry_cuda_stream_make(ring, false);
    if (status == FERRY_OK) {
        fry_store_relaxed(&ring->stream.issued, ring->stream.issued + 1);
        CUresult result = fry_cuda_stream_mark(ring, native);
        if (result != CUDA_SUCCESS) {
            fry_store_relaxed(&ring->stream.issued, ring->stream.issued - 1);
            status = fry_cuda_call_refuse(device, result, "cuEventRecord", fault);
        }
    }
    if (status == FERRY_OK)
        *event_p = (fry_event){&ring->stream, ring->stream.issued};
    return status;
}

static ferry_status mark_outside(fry_cuda_device *device, fry_cuda_stream *ring, CUstream native,
                                 fry_event *event_p, fry_fault *fault)
{
    ferry_status status = mark_ring(device, ring, native, event_p, fault);
    if (status != FERRY_OK)
        fry_baton_give(&ring->claim);
    return status;
}

/* Marks the bridge's wait. If this fails, the wait is a stray one. */
static ferry_status mark_bridge(fry_cuda_device *device, fry_cuda_stream *bridge,
                                fry_event *event_p, fry_fault *fault)
{
    ferry_status status = mark_ring(device, bridge, bridge->native, event_p, fault);
    if (status == FERRY_OK)
        return status;
    bridge->has_stray_wait = true;
    fry_baton_give(&bridge->claim);
    return status;
}

/*
 * A wait without a mark can't be taken back. Later events of the same stream come after the awaited
 * one anyway, but events of other streams must not stand behind it. So once nothing else is on the
 * bridge, it gets another stream. The driver frees the old one after the wait.
 */
static void shed_stray_wait(fry_cuda_stream *bridge)
{
    if (!bridge->has_stray_wait || !is_unused(bridge))
        return;
    (void)fry_cuda.cuStreamDestroy(bridge->native);
    bridge->native = NULL;
    bridge->has_stray_wait = false;
}

/* Has the bridge wait for the event, with a mark behind that. */
static ferry_status cross_bridge(fry_cuda_device *device, fry_cuda_stream *bridge, CUevent awaited,
                                 fry_event *event_p, fry_fault *fault)
{
    shed_stray_wait(bridge);
    const char *call = "cuStreamCreateWithPriority";
    CUresult result =
        fry_cuda_stream_make_native(bridge, fry_cuda_priority(device, FRY_CUDA_LEVEL_BRIDGE));
    if (result == CUDA_SUCCESS) {
        call = "cuStreamWaitEvent";
        result = fry_cuda.cuStreamWaitEvent(bridge->native, awaited, CU_EVENT_WAIT_DEFAULT);
    }
    if (result == CUDA_SUCCESS)
        return mark_bridge(device, bridge, event_p, fault);
    fry_baton_give(&bridge->claim);
    return fry_cuda_call_refuse(device, result, call, fault);
}

/* --- recording --- */

/* Checks that the context is one of the device's GPU. */
static ferry_status check_gpu(fry_cuda_device *device, CUcontext context, fry_fault *fault)
{
    fry_cuda_scope scope;
    CUdevice gpu = -1;
    CUresult result = fry_cuda_enter(&scope, context);
    if (result == CUDA_SUCCESS)
        result = fry_cuda.cuCtxGetDevice(&gpu);
    fry_cuda_leave(&scope);
    if (result != CUDA_SUCCESS)
        return fry_cuda_call_refuse(device, result, "cuCtxGetDevice", fault);
    if (gpu == device->gpu)
        return FERRY_OK;
    return fry_cuda_tell(fault, FERRY_E_INVALID, CUDA_ERROR_INVALID_DEVICE,
                         "a stream of another device");
}

/*
 * Records on a stream of another context of the same GPU: an event of that context, used once, for
 * which a bridge waits. The bridge is claimed before, so events cross in the order of recording.
 */
static ferry_status record_foreign(fry_cuda_device *device, CUcontext context, CUstream native,
                                   uint64_t key, fry_event *event_p, fry_fault *fault)
{
    ferry_status status = check_gpu(device, context, fault);
    if (status != FERRY_OK)
        return status;
    fry_cuda_stream *bridge = claim_bridge(device, key);
    if (bridge == NULL)
        return FERRY_E_AGAIN;
    fry_cuda_scope scope;
    CUevent foreign = NULL;
    const char *call = "cuCtxPushCurrent";
    CUresult result = fry_cuda_enter(&scope, context);
    if (result == CUDA_SUCCESS) {
        call = "cuEventRecord";
        result = fry_cuda.cuEventCreate(&foreign, CU_EVENT_DISABLE_TIMING);
    }
    if (result == CUDA_SUCCESS)
        result = fry_cuda.cuEventRecord(foreign, native);
    fry_cuda_leave(&scope);
    if (result == CUDA_SUCCESS) {
        call = "cuCtxPushCurrent";
        result = fry_cuda_enter(&scope, device->context); /* cross_bridge may make a stream */
        if (result == CUDA_SUCCESS)
            status = cross_bridge(device, bridge, foreign, event_p, fault);
        fry_cuda_leave(&scope);
    }
    if (result != CUDA_SUCCESS) {
        fry_baton_give(&bridge->claim);
        status = fry_cuda_call_refuse(device, result, call, fault);
    }
    if (foreign != NULL)
        (void)fry_cuda.cuEventDestroy(foreign); /* the wait is for what was recorded */
    return status;
}

/* Whether a ring has had this stream. If so, its context is the device's: numbers come once. */
static bool is_known(fry_cuda_device *device, uint64_t key)
{
    const fry_cuda_stream *rings = fry_cuda_outside(device);
    for (size_t i = 0; i < FRY_CUDA_OUTSIDE_COUNT; i++) {
        if (fry_load_relaxed(&rings[i].key) == key)
            return true;
    }
    return false;
}

static ferry_status record_in_scope(fry_cuda_device *device, CUstream native, fry_event *event_p,
                                    fry_fault *fault)
{
    uint64_t key = 0;
    ferry_status status = check_capture(device, native, fault);
    if (status == FERRY_OK)
        status = key_of(device, native, &key, fault);
    if (status != FERRY_OK)
        return status;
    CUcontext context = device->context;
    CUresult result = CUDA_SUCCESS;
    if (!is_known(device, key))
        FRY_CUDA_ISSUE(result, fry_cuda.cuStreamGetCtx(native, &context));
    if (result != CUDA_SUCCESS)
        return fry_cuda_call_refuse(device, result, "cuStreamGetCtx", fault);
    if (context != device->context)
        return record_foreign(device, context, native, key, event_p, fault);
    fry_cuda_stream *ring = claim_outside(device, key);
    return ring != NULL ? mark_outside(device, ring, native, event_p, fault) : FERRY_E_AGAIN;
}

ferry_status fry_cuda_event_record(fry_device *base, void *native_stream, fry_event *event_p,
                                   fry_fault *fault)
{
    fry_cuda_device *device = fry_cuda_device_of(base);
    fry_cuda_scope scope;
    ferry_status status = fry_cuda_call_enter_to_issue(device, native_stream, &scope, fault);
    if (status == FERRY_OK)
        status = record_in_scope(device, native_stream, event_p, fault);
    fry_cuda_leave(&scope);
    return status;
}

void fry_cuda_event_entered(fry_event event)
{
    fry_baton_give(&fry_cuda_stream_of(event.stream)->claim);
}

/* Asks the stream first, because a query of an event recorded in a capture breaks the capture. */
static ferry_status wrap_in_scope(fry_cuda_device *device, CUevent awaited, CUstream native,
                                  fry_event *event_p, fry_fault *fault)
{
    ferry_status status = native != NULL ? check_capture(device, native, fault) : FERRY_OK;
    if (status != FERRY_OK)
        return status;
    CUresult result = fry_cuda.cuEventQuery(awaited);
    if (result == CUDA_SUCCESS) {
        *event_p = (fry_event){NULL, 0};
        return FERRY_OK;
    }
    if (result != CUDA_ERROR_NOT_READY)
        return fry_cuda_call_refuse(device, result, "cuEventQuery", fault);
    uint64_t key = 0;
    if (native != NULL)
        status = key_of(device, native, &key, fault);
    if (status != FERRY_OK)
        return status;
    fry_cuda_stream *bridge = claim_bridge(device, key);
    return bridge != NULL ? cross_bridge(device, bridge, awaited, event_p, fault) : FERRY_E_AGAIN;
}

ferry_status fry_cuda_event_wrap(fry_device *base, void *native_event, void *native_stream,
                                 fry_event *event_p, fry_fault *fault)
{
    fry_cuda_device *device = fry_cuda_device_of(base);
    fry_cuda_scope scope;
    ferry_status status = fry_cuda_call_enter(device, &scope, fault);
    if (status == FERRY_OK)
        status = wrap_in_scope(device, native_event, native_stream, event_p, fault);
    fry_cuda_leave(&scope);
    return status;
}

/* --- the other way round --- */

ferry_status fry_cuda_stream_wait(fry_device *base, void *native_stream, fry_event event,
                                  fry_fault *fault)
{
    fry_cuda_device *device = fry_cuda_device_of(base);
    if (!fry_cuda_stream_is_native(event.stream))
        return FERRY_E_UNSUPPORTED;
    const fry_cuda_device *lost = fry_cuda_dead_by(event.stream);
    if (lost != NULL) /* the mark may never come, and the program's stream would wait for ever */
        return fry_cuda_tell_lost(lost, fault);
    /* Acquire: the events of marks up to here are recorded. */
    if (fry_load_acquire(&fry_cuda_stream_of(event.stream)->marked) < event.sequence)
        return FERRY_E_NOT_ISSUED;
    fry_cuda_scope scope;
    ferry_status status = fry_cuda_call_enter_to_issue(device, native_stream, &scope, fault);
    if (status == FERRY_OK)
        status = check_capture(device, native_stream, fault);
    CUresult result;
    if (status == FERRY_OK && !fry_cuda_stream_wait_for(native_stream, &event, &result))
        status = fry_cuda_call_refuse(device, result, "cuStreamWaitEvent", fault);
    fry_cuda_leave(&scope);
    return status;
}
