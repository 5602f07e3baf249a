/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread goes round the staged streams and does what can be done on each. After a round without
 * any progress it sleeps on an eventcount: for ever, unless a stream says that it watches a device.
 *
 * No stream could go on while the thread sleeps for ever. A stream waits for one of three things.
 * For a flush: it stores `flushed` and then notifies, and either the notifier sees the thread
 * preparing to sleep, or the thread's last round sees the store. For a device: then the stream says
 * so. For another staged stream, which only this thread moves: a stream that moves or dies causes
 * one more round. A chain of such streams ends at a flush or a device, because operations wait only
 * for earlier ones.
 *
 * The thread uses neither blocking waits nor callbacks of the driver: while it waited for one
 * stream the others would stand still, and a callback holds up the stream that calls it.
 */
#include "gpu/cuda/staging.h"

#include "base/eventcount.h"
#include "gpu/cuda/cuda.h"
#include "gpu/cuda/driver.h"
#include "gpu/cuda/lost.h"
#include "gpu/cuda/ring.h"
#include "gpu/cuda/spare.h"
#include "gpu/cuda/staged.h"
#include "gpu/cuda/stream.h"
#include "gpu/cuda/thread.h"
#include "gpu/device.h"

#include <limits.h>
#include <sys/prctl.h>

#define DEVICES_MAX 64 /* that an engine opens */

/* Pauses between rounds without progress: none for SPIN_NS, then ever longer sleeps. */
#define SPIN_NS ((int64_t)20000)
#define SLEEP_LEAST_NS ((int64_t)50000)
#define SLEEP_MOST_NS ((int64_t)1000000)
#define SLEEP_SHARE 8 /* of the time since the last progress */

#define TIMER_SLACK_NS 1000UL /* the default would double the shortest sleeps */

struct fry_cuda_staging {
    fry_eventcount idle;
    uint32_t is_stopping;  /* atomic */
    uint32_t device_count; /* atomic; grows */

    fry_backend *backend __attribute__((aligned(FRY_CACHE_LINE)));
    bool has_thread; /* the baton's; of the stopping thread when nobody takes the baton any more */
    pthread_t thread;
    fry_cuda_staged *staged[DEVICES_MAX]; /* FRY_CUDA_WAYS of each device */
};

/* --- the thread --- */

static bool go_round(fry_cuda_staging *staging, bool *is_watching)
{
    bool has_moved = false, has_fired = false;
    uint32_t count = fry_load_acquire(&staging->device_count);
    *is_watching = false;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t way = 0; way < FRY_CUDA_WAYS; way++) {
            fry_cuda_staged *staged = &staging->staged[i][way];
            uint64_t fired = fry_load_relaxed(&staged->fired);
            bool was_dead = staged->is_dead;
            has_moved |= fry_cuda_staged_step(staged);
            *is_watching |= staged->is_watching;
            has_fired |= fry_load_relaxed(&staged->fired) != fired || staged->is_dead != was_dead;
        }
    }
    if (has_fired)
        staging->backend->options.notify.fn(staging->backend->options.notify.arg);
    return has_moved;
}

/* How long to sleep, with no progress since since_ns; 0: not at all. */
static int64_t sleep_for_ns(int64_t since_ns)
{
    int64_t still_ns = fry_clock_monotonic_ns() - since_ns;
    if (still_ns < SPIN_NS)
        return 0;
    int64_t sleep_ns = still_ns / SLEEP_SHARE;
    if (sleep_ns < SLEEP_LEAST_NS)
        return SLEEP_LEAST_NS;
    return sleep_ns > SLEEP_MOST_NS ? SLEEP_MOST_NS : sleep_ns;
}

static void *staging_main(void *arg)
{
    fry_cuda_staging *staging = arg;
    int64_t moved_ns = fry_clock_monotonic_ns();
    bool is_watching;
    (void)prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS);
    for (;;) {
        if (go_round(staging, &is_watching)) {
            moved_ns = fry_clock_monotonic_ns();
            continue;
        }
        int64_t sleep_ns = is_watching ? sleep_for_ns(moved_ns) : -1;
        if (sleep_ns == 0) {
            fry_pause();
            continue;
        }
        uint32_t key = fry_eventcount_prepare(&staging->idle);
        if (fry_load_relaxed(&staging->is_stopping) != 0) {
            fry_eventcount_cancel(&staging->idle);
            return NULL;
        }
        /* The look that a notifier relies on. It may also find nothing to watch any more. */
        if (go_round(staging, &is_watching) || (is_watching && sleep_ns < 0)) {
            moved_ns = fry_clock_monotonic_ns();
            fry_eventcount_cancel(&staging->idle);
        } else {
            fry_eventcount_commit(&staging->idle, key, is_watching ? sleep_ns : -1);
        }
    }
}

/* --- what the engine calls --- */

static fry_cuda_staging *staging_of(const fry_cuda_staged *staged)
{
    return staged->device->backend->staging;
}

static fry_cuda_staged_slot *slot_of(fry_cuda_staged *staged, uint64_t sequence)
{
    return &staged->slots[sequence % FRY_STREAM_DEPTH];
}

/* Makes sure that the events exist before the thread waits for them. */
static ferry_status see_to_events(const fry_event *waits, size_t wait_count, fry_fault *fault)
{
    for (size_t i = 0; i < wait_count; i++) {
        fry_stream *other = waits[i].stream;
        if (!fry_cuda_stream_is_native(other))
            continue;
        fry_cuda_stream_flush(other); /* its operation may have been issued in this turn */
        if (fry_load_acquire(&fry_cuda_stream_of(other)->marked) >= waits[i].sequence)
            continue;
        const fry_cuda_device *dead_by = fry_cuda_dead_by(other);
        if (dead_by != NULL)
            return fry_cuda_tell_lost(dead_by, fault);
        return fry_cuda_tell(fault, FERRY_E_DEVICE, CUDA_ERROR_INVALID_VALUE, "cuEventRecord");
    }
    return FERRY_OK;
}

ferry_status fry_cuda_staging_copy(fry_stream *stream, const fry_copy *copy, const fry_event *waits,
                                   size_t wait_count, uint64_t *sequence_p, fry_fault *fault)
{
    fry_cuda_staged *staged = fry_cuda_staged_of(stream);
    fry_cuda_staging *staging = staging_of(staged);
    if (fry_cuda_lost(staged->device) != CUDA_SUCCESS)
        return fry_cuda_tell_lost(staged->device, fault);
    ferry_status status = see_to_events(waits, wait_count, fault);
    if (status != FERRY_OK)
        return status;
    if (!staging->has_thread && !(staging->has_thread = fry_cuda_thread_start(
                                      &staging->thread, "ferry-cuda", staging_main, staging)))
        return fry_cuda_tell(fault, FERRY_E_SYSTEM, CUDA_ERROR_OPERATING_SYSTEM, "making a thread");
    uint64_t sequence = ++stream->issued;
    fry_cuda_staged_slot *slot = slot_of(staged, sequence);
    slot->copy = *copy;
    slot->status = FERRY_OK;
    slot->wait_count = (uint32_t)wait_count;
    for (size_t i = 0; i < wait_count; i++)
        slot->waits[i] = waits[i];
    *sequence_p = sequence;
    return FERRY_OK;
}

void fry_cuda_staging_flush(fry_stream *stream)
{
    fry_cuda_staged *staged = fry_cuda_staged_of(stream);
    if (fry_load_relaxed(&staged->flushed) == stream->issued)
        return;
    fry_store_release(&staged->flushed, stream->issued); /* pairs with the thread's look */
    fry_eventcount_notify(&staging_of(staged)->idle, 1);
}

bool fry_cuda_staging_can_wait(const fry_stream *stream, const fry_stream *other)
{
    if (other->kind != FRY_STREAM_MAIN || other->device->ops != stream->device->ops)
        return false;
    return fry_cuda_device_of(other->device)->backend ==
           fry_cuda_device_of(stream->device)->backend;
}

uint64_t fry_cuda_staging_fired(fry_stream *stream, ferry_status *status_p, fry_fault *fault)
{
    fry_cuda_staged *staged = fry_cuda_staged_of(stream);
    uint64_t fired = fry_cuda_staged_fired(staged);
    stream->struck = fry_load_relaxed(&staged->failures);
    *status_p = FERRY_OK;
    if (fired != stream->issued && fry_cuda_lost(staged->device) != CUDA_SUCCESS)
        *status_p = fry_cuda_tell_lost(staged->device, fault);
    return fired;
}

ferry_status fry_cuda_staging_outcome(fry_stream *stream, uint64_t sequence, fry_fault *fault)
{
    const fry_cuda_staged_slot *slot = slot_of(fry_cuda_staged_of(stream), sequence);
    return slot->status == FERRY_OK ? FERRY_OK
                                    : fry_cuda_tell(fault, slot->status, slot->code, slot->call);
}

int64_t fry_cuda_staging_begun_ns(fry_stream *stream, uint64_t sequence)
{
    return slot_of(fry_cuda_staged_of(stream), sequence)->begun_ns;
}

/* The argument at fry_host_stream_skip holds here too. */
void fry_cuda_staging_cancel(fry_stream *stream, uint64_t sequence)
{
    fry_cuda_staged *staged = fry_cuda_staged_of(stream);
    if (sequence <= stream->issued && sequence > fry_cuda_staged_fired(staged))
        fry_store_relaxed(&slot_of(staged, sequence)->skip_sequence, sequence);
}

/* --- open and close --- */

fry_cuda_staging *fry_cuda_staging_open(fry_backend *backend)
{
    fry_cuda_staging *staging =
        fry_alloc(&backend->memory, sizeof *staging, _Alignof(fry_cuda_staging));
    if (staging != NULL)
        staging->backend = backend;
    return staging;
}

/* Most copies are in or out; few are between GPUs that don't reach each other. */
static size_t share_of(fry_cuda_way way, size_t staging_bytes)
{
    size_t bytes = way == FRY_CUDA_WAY_PEER ? staging_bytes / 4 : staging_bytes / 8 * 3;
    return bytes - bytes % FRY_CUDA_RING_ALIGN_BYTES;
}

ferry_status fry_cuda_staging_add(fry_cuda_staging *staging, fry_cuda_device *device,
                                  size_t staging_bytes)
{
    uint32_t count = staging->device_count;
    if (staging_bytes == 0)
        staging_bytes = FRY_CUDA_STAGING_DEFAULT_BYTES;
    if (count == DEVICES_MAX)
        return FERRY_E_AGAIN;
    fry_cuda_staged *staged = fry_alloc(&staging->backend->memory, FRY_CUDA_WAYS * sizeof *staged,
                                        _Alignof(fry_cuda_staged));
    if (staged == NULL)
        return FERRY_E_NO_MEMORY;
    for (uint32_t way = 0; way < FRY_CUDA_WAYS; way++) {
        staged[way].stream.device = &device->device;
        staged[way].stream.kind = FRY_STREAM_MAIN;
        staged[way].device = device;
        staged[way].way = (fry_cuda_way)way;
        staged[way].ring_bytes = share_of((fry_cuda_way)way, staging_bytes);
    }
    device->staged = staged;
    staging->staged[count] = staged;
    fry_store_release(&staging->device_count, count + 1); /* pairs with go_round */
    return FERRY_OK;
}

bool fry_cuda_staging_is_idle(const fry_cuda_staging *staging)
{
    for (uint32_t i = 0; i < staging->device_count; i++) {
        for (uint32_t way = 0; way < FRY_CUDA_WAYS; way++) {
            const fry_cuda_staged *staged = &staging->staged[i][way];
            if (fry_cuda_staged_fired(staged) != staged->stream.issued)
                return false;
        }
    }
    return true;
}

void fry_cuda_staging_stop(fry_cuda_staging *staging)
{
    if (!staging->has_thread)
        return;
    fry_store_relaxed(&staging->is_stopping, 1); /* before the notify's barrier */
    fry_eventcount_notify(&staging->idle, INT_MAX);
    (void)pthread_join(staging->thread, NULL);
    staging->has_thread = false;
}

void fry_cuda_staging_close(fry_cuda_staging *staging)
{
    if (staging == NULL)
        return;
    fry_memory memory = staging->backend->memory;
    for (uint32_t i = 0; i < staging->device_count; i++) {
        for (uint32_t way = 0; way < FRY_CUDA_WAYS; way++)
            fry_cuda_staged_close(&staging->staged[i][way]);
        fry_free(&memory, staging->staged[i], FRY_CUDA_WAYS * sizeof *staging->staged[i]);
    }
    fry_free(&memory, staging, sizeof *staging);
}
