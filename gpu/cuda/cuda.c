/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/cuda/cuda.h"

#include "base/module/forward.h"
#include "gpu/backend.h"
#include "gpu/cuda/apart.h"
#include "gpu/cuda/bounce.h"
#include "gpu/cuda/context.h"
#include "gpu/cuda/driver.h"
#include "gpu/cuda/event.h"
#include "gpu/cuda/firing.h"
#include "gpu/cuda/graph.h"
#include "gpu/cuda/lost.h"
#include "gpu/cuda/memory.h"
#include "gpu/cuda/native.h"
#include "gpu/cuda/pinned.h"
#include "gpu/cuda/reclaim.h"
#include "gpu/cuda/share.h"
#include "gpu/cuda/spare.h"
#include "gpu/cuda/staged.h"
#include "gpu/cuda/staging.h"
#include "gpu/cuda/stream.h"
#include "gpu/cuda/word.h"
#include "gpu/device.h"

#include <ferry/device.h>
#include <ferry/info.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FIRST_WORD_NS ((int64_t)1000000000) /* a slower driver counts as wordless */
#define FIRST_WORD_LOOK_NS 20000
#define PAGE_BYTES ((size_t)4096)

/* --- the device operations --- */

static const fry_device_ops cuda_ops;

static bool is_cuda(const fry_device *device)
{
    return device->ops == &cuda_ops;
}

static ferry_status status_of(CUresult result)
{
    return result == CUDA_SUCCESS               ? FERRY_OK
           : result == CUDA_ERROR_OUT_OF_MEMORY ? FERRY_E_NO_MEMORY
                                                : FERRY_E_DEVICE;
}

static void cuda_describe(fry_device *base, fry_device_facts *facts)
{
    fry_cuda_device *device = fry_cuda_device_of(base);
    facts->stream_count = FRY_CUDA_DIRECTIONS + FRY_CUDA_WAYS + device->parked_count;
    fry_cuda_memory_describe(device, facts);
    facts->model = device->model;
    facts->driver = fry_cuda_driver_text();
    facts->lowest_priority = device->lowest_priority;
    facts->highest_priority = device->highest_priority;
    fry_cuda_add_capability(facts, FERRY_CAN_COPY_INLINE,
                            "small copies need a call to the driver too");
    fry_cuda_add_capability(facts, FERRY_CAN_WAIT_ON_DEVICE, NULL);
    fry_cuda_add_capability(facts, FERRY_CAN_COPY_ROWS, NULL);
    fry_cuda_add_capability(facts, FERRY_CAN_STOP_COPIES, "the driver can't take a copy back");
    fry_cuda_add_capability(facts, FERRY_CAN_USE_HOST_POINTERS,
                            "the CPU can't access a GPU's memory");
    fry_cuda_add_capability(facts, FERRY_CAN_WRITE_WORDS, device->wordless);
    fry_cuda_add_capability(facts, FERRY_CAN_BATCH_COPIES, fry_cuda_batchless(device));
    fry_cuda_add_capability(facts, FERRY_CAN_PRIORITIZE,
                            device->highest_priority < device->lowest_priority
                                ? NULL
                                : "the driver gives all streams one priority");
    fry_cuda_add_capability(facts, FERRY_CAN_RECORD_EVENTS, NULL);
    fry_cuda_add_capability(facts, FERRY_CAN_PARK_COPIES, device->parkless);
    fry_cuda_add_capability(facts, FERRY_CAN_SHARE_MEMORY, fry_cuda_shareless());
}

static fry_stream *cuda_stream_at(fry_device *base, size_t index)
{
    const fry_cuda_device *device = fry_cuda_device_of(base);
    if (index < device->stream_count)
        return &device->streams[index].stream;
    index -= device->stream_count;
    return index < FRY_CUDA_WAYS ? &device->staged[index].stream : NULL;
}

/* Between two GPUs the source sends: writes across a bus need no answer, reads do. */
static fry_stream *cuda_copy_stream(fry_device *dst, fry_device *src, bool is_pageable)
{
    fry_cuda_device *from = is_cuda(src) ? fry_cuda_device_of(src) : NULL;
    fry_cuda_device *to = is_cuda(dst) ? fry_cuda_device_of(dst) : NULL;
    if (from == NULL)
        return is_pageable ? &to->staged[FRY_CUDA_WAY_IN].stream
                           : fry_cuda_main(to, FRY_CUDA_FROM_HOST);
    if (to == NULL)
        return is_pageable ? &from->staged[FRY_CUDA_WAY_OUT].stream
                           : fry_cuda_main(from, FRY_CUDA_TO_HOST);
    return fry_cuda_memory_reaches(from, to) ? fry_cuda_main(from, FRY_CUDA_ON_DEVICE)
                                             : &to->staged[FRY_CUDA_WAY_PEER].stream;
}

static fry_stream *cuda_small_stream(fry_device *dst, size_t size_bytes)
{
    fry_cuda_device *to = fry_cuda_device_of(dst);
    if (size_bytes > FRY_CUDA_BOUNCED_BYTES ||
        to->streams[FRY_CUDA_FROM_HOST].bounce.memory == NULL)
        return NULL;
    return fry_cuda_main(to, FRY_CUDA_FROM_HOST);
}

static fry_stream *cuda_parked_stream(fry_stream *main, size_t index)
{
    fry_cuda_device *device = fry_cuda_device_of(main->device);
    if (!fry_cuda_stream_is_native(main) || index >= device->parked_apart)
        return NULL;
    return &fry_cuda_parked(device)[index].stream;
}

/* A call to the driver takes longer than many copies, and the memory may be a GPU's. */
static bool cuda_copy_inline(fry_stream *stream, const fry_copy *copy)
{
    (void)stream, (void)copy;
    return false;
}

static ferry_status cuda_copy(fry_stream *stream, const fry_copy *copy, const fry_event *waits,
                              size_t wait_count, uint64_t *sequence_p, fry_fault *fault)
{
    return fry_cuda_stream_is_native(stream)
               ? fry_cuda_stream_copy(stream, copy, waits, wait_count, sequence_p, fault)
               : fry_cuda_staging_copy(stream, copy, waits, wait_count, sequence_p, fault);
}

static void cuda_flush(fry_stream *stream)
{
    if (fry_cuda_stream_is_native(stream))
        fry_cuda_stream_flush(stream);
    else
        fry_cuda_staging_flush(stream);
}

/* No device knows how far a staged stream is. */
static bool cuda_can_wait(const fry_stream *stream, const fry_stream *other)
{
    if (!is_cuda(other->device) ||
        fry_cuda_device_of(other->device)->backend != fry_cuda_device_of(stream->device)->backend)
        return false;
    return fry_cuda_stream_is_native(stream) ? fry_cuda_stream_is_native(other)
                                             : fry_cuda_staging_can_wait(stream, other);
}

static uint64_t cuda_fired(fry_stream *stream, ferry_status *status_p, fry_fault *fault)
{
    return fry_cuda_stream_is_native(stream) ? fry_cuda_stream_fired(stream, status_p, fault)
                                             : fry_cuda_staging_fired(stream, status_p, fault);
}

static ferry_status cuda_outcome(fry_stream *stream, uint64_t sequence, fry_fault *fault)
{
    return fry_cuda_stream_is_native(stream) ? fry_cuda_stream_outcome(stream, sequence, fault)
                                             : fry_cuda_staging_outcome(stream, sequence, fault);
}

/* The driver tells this only by events with times around each copy. */
static int64_t cuda_begun_ns(fry_stream *stream, uint64_t sequence)
{
    return fry_cuda_stream_is_native(stream) ? 0 : fry_cuda_staging_begun_ns(stream, sequence);
}

/* The driver does not take operations back. */
static void cuda_cancel(fry_stream *stream, uint64_t sequence)
{
    if (!fry_cuda_stream_is_native(stream))
        fry_cuda_staging_cancel(stream, sequence);
}

static const fry_device_ops cuda_ops = {
    .backend = "cuda",
    .describe = cuda_describe,
    .memory_alloc = fry_cuda_memory_alloc,
    .memory_free = fry_cuda_memory_free,
    .memory_is_here = fry_cuda_memory_is_here,
    .memory_is_pinned = fry_cuda_memory_is_pinned,
    .memory_is_off_host = fry_cuda_memory_is_off_host,
    .memory_share = fry_cuda_memory_share,
    .memory_open_shared = fry_cuda_memory_open_shared,
    .memory_close_shared = fry_cuda_memory_close_shared,
    .native_enter = fry_cuda_native_enter,
    .native_stream_open = fry_cuda_native_stream_open,
    .native_stream_is_idle = fry_cuda_native_stream_is_idle,
    .native_stream_close = fry_cuda_native_stream_close,
    .stream_at = cuda_stream_at,
    .copy_stream = cuda_copy_stream,
    .small_stream = cuda_small_stream,
    .parked_stream = cuda_parked_stream,
    .copy_inline = cuda_copy_inline,
    .copy = cuda_copy,
    .flush = cuda_flush,
    .can_wait = cuda_can_wait,
    .fired = cuda_fired,
    .outcome = cuda_outcome,
    .begun_ns = cuda_begun_ns,
    .cancel = cuda_cancel,
    .event_record = fry_cuda_event_record,
    .event_entered = fry_cuda_event_entered,
    .event_wrap = fry_cuda_event_wrap,
    .stream_wait = fry_cuda_stream_wait,
    .graph_make = fry_cuda_graph_make,
    .graph_free = fry_cuda_graph_free,
    .graph_enqueue = fry_cuda_graph_enqueue,
};

/* --- opening --- */

static ferry_status refuse(fry_fault *fault, ferry_status status, const char *why)
{
    *fault = (fry_fault){.status = status, .rank = -1};
    (void)snprintf(fault->message, sizeof fault->message, "%s", why);
    return status;
}

static ferry_status refuse_call(fry_fault *fault, CUresult result, const char *call)
{
    return fry_cuda_tell(fault, status_of(result), result, call);
}

/* A number without sign or leading zeros; NULL: there is none. */
static const char *parse_number(const char *text, uint32_t *number_p)
{
    char *end;
    if (*text < '0' || *text > '9' || (text[0] == '0' && text[1] >= '0' && text[1] <= '9'))
        return NULL;
    unsigned long number = strtoul(text, &end, 10);
    if (end - text > 9)
        return NULL;
    *number_p = (uint32_t)number;
    return end;
}

/* "cuda:N" and "cuda:N/K". */
static bool parse_name(const char *name, uint32_t *ordinal_p, uint32_t *logical_p)
{
    static const char prefix[] = "cuda:";
    *logical_p = 0;
    if (strncmp(name, prefix, sizeof prefix - 1) != 0)
        return false;
    const char *rest = parse_number(name + sizeof prefix - 1, ordinal_p);
    if (rest != NULL && *rest == '/') {
        rest = parse_number(rest + 1, logical_p);
        if (*logical_p == 0 || *logical_p > FRY_CUDA_LOGICAL_MAX)
            return false;
    }
    return rest != NULL && *rest == '\0';
}

static size_t streams_bytes(const fry_cuda_device *device)
{
    return device->stream_count * sizeof *device->streams;
}

/* Takes the context to work in, and checks that it is one of the GPU. */
static ferry_status take_context(fry_cuda_device *device, void *native_context, fry_fault *fault)
{
    CUresult result = fry_cuda.cuDeviceGet(&device->gpu, (int)device->ordinal);
    if (result != CUDA_SUCCESS)
        return refuse_call(fault, result, "cuDeviceGet");
    fry_cuda_scope scope;
    if (native_context == NULL) {
        result = fry_cuda_relax(&scope); /* the call may make the context */
        if (result == CUDA_SUCCESS)
            result = fry_cuda.cuDevicePrimaryCtxRetain(&device->context, device->gpu);
        fry_cuda_leave(&scope);
        device->is_primary = result == CUDA_SUCCESS;
        return result == CUDA_SUCCESS ? FERRY_OK
                                      : refuse_call(fault, result, "cuDevicePrimaryCtxRetain");
    }
    CUdevice gpu = -1;
    device->context = native_context;
    result = fry_cuda_enter(&scope, device->context);
    if (result == CUDA_SUCCESS)
        result = fry_cuda.cuCtxGetDevice(&gpu);
    fry_cuda_leave(&scope);
    if (result != CUDA_SUCCESS)
        return fry_cuda_tell(fault, FERRY_E_INVALID, result, "the native context given");
    return gpu == device->gpu
               ? FERRY_OK
               : refuse(fault, FERRY_E_INVALID, "the native context is of another GPU");
}

static void give_context(fry_cuda_device *device)
{
    if (!device->is_primary)
        return;
    fry_cuda_scope scope;
    (void)fry_cuda_relax(&scope);
    (void)fry_cuda.cuDevicePrimaryCtxRelease(device->gpu);
    fry_cuda_leave(&scope);
}

/* A cache line for each word, in whole pages: the memory behind has its own pages. */
static size_t words_bytes(const fry_cuda_device *device)
{
    return ((size_t)device->stream_count * FRY_CACHE_LINE + PAGE_BYTES - 1) / PAGE_BYTES *
           PAGE_BYTES;
}

/* Gives the memory behind the words to the bounce rings for copies from the host. */
static void share_bounces(fry_cuda_device *device)
{
    char *memory = device->words.memory;
    if (memory == NULL)
        return;
    memory += words_bytes(device);
    device->streams[FRY_CUDA_FROM_HOST].bounce.memory = memory;
    for (uint32_t i = 0; i < FRY_CUDA_SPARE_COUNT; i++) {
        memory += FRY_CUDA_BOUNCE_BYTES;
        fry_cuda_spares(device)[FRY_CUDA_FROM_HOST * FRY_CUDA_SPARE_COUNT + i].bounce.memory =
            memory;
    }
}

/*
 * Whether streams can write words is tried on the first stream: only then a driver says
 * CUDA_ERROR_NOT_SUPPORTED. Without words, events tell, unless words were asked for.
 */
static ferry_status make_words(fry_cuda_device *device, ferry_completion completion,
                               fry_fault *fault)
{
    if (completion == FERRY_COMPLETION_EVENTS) {
        device->wordless = "the device was opened with FERRY_COMPLETION_EVENTS";
        return FERRY_OK;
    }
    const char *call;
    size_t bytes = words_bytes(device) + (size_t)(1 + FRY_CUDA_SPARE_COUNT) * FRY_CUDA_BOUNCE_BYTES;
    CUresult result = fry_cuda_pinned_take(&device->words, bytes, &call);
    if (result != CUDA_SUCCESS)
        return refuse_call(fault, result, call);
    result = fry_cuda.cuMemHostGetDevicePointer(&device->words_address, device->words.memory, 0);
    return result == CUDA_SUCCESS ? FERRY_OK
                                  : refuse_call(fault, result, "cuMemHostGetDevicePointer");
}

static void free_words(fry_cuda_device *device)
{
    if (!device->has_stray_words && fry_cuda_lost(device) == CUDA_SUCCESS)
        fry_cuda_pinned_give(&device->words);
    device->words = (fry_cuda_pinned){0};
}

/* Waits for the number: the host may see it after the stream is done. */
static bool word_comes(const uint32_t *word, uint32_t number)
{
    const int64_t until_ns = fry_clock_monotonic_ns() + FIRST_WORD_NS;
    while (fry_load_acquire(word) != number) {
        if (fry_clock_monotonic_ns() >= until_ns)
            return false;
        (void)nanosleep(&(struct timespec){.tv_nsec = FIRST_WORD_LOOK_NS}, NULL);
    }
    return true;
}

/* The memory can't be freed while a number may still be written. */
static void give_up_words(fry_cuda_device *device)
{
    device->has_stray_words = true;
    fry_log_line(device->backend->options.log, FERRY_LOG_WARNING,
                 "%s: a number that cuStreamWriteValue32 was to write did not come; ferry queries "
                 "the driver instead",
                 device->device.name);
}

/* Has the first stream write a number, and checks that it comes. */
static CUresult try_word(fry_cuda_device *device)
{
    fry_cuda_stream *first = &device->streams[0];
    uint32_t before = first->words[0];
    CUresult result = fry_cuda.cuStreamWriteValue32(first->native, first->word_address, ~before,
                                                    CU_STREAM_WRITE_VALUE_DEFAULT);
    if (result != CUDA_SUCCESS)
        return result;
    result = fry_cuda.cuStreamSynchronize(first->native);
    /* A wait that was refused once may succeed now. */
    bool is_done =
        result == CUDA_SUCCESS || fry_cuda.cuStreamSynchronize(first->native) == CUDA_SUCCESS;
    if (is_done && word_comes(first->words, ~before)) {
        fry_store_relaxed(first->words, before);
        return result;
    }
    give_up_words(device);
    return result != CUDA_SUCCESS ? result : CUDA_ERROR_NOT_SUPPORTED;
}

static ferry_status try_words(fry_cuda_device *device, ferry_completion completion,
                              fry_fault *fault)
{
    if (device->words.memory == NULL)
        return FERRY_OK;
    CUresult result = try_word(device);
    if (result == CUDA_SUCCESS)
        return FERRY_OK;
    bool is_refused = fry_cuda_is_refusal(result) && result != CUDA_ERROR_OUT_OF_MEMORY;
    if (!is_refused || completion == FERRY_COMPLETION_WORDS)
        return refuse_call(fault, result, "cuStreamWriteValue32");
    for (uint32_t i = 0; i < device->stream_count; i++) {
        device->streams[i].is_worded = 0;
        device->streams[i].words = NULL;
        device->streams[i].bounce.memory = NULL;
    }
    device->wordless = "the driver does not support cuStreamWriteValue32 on this GPU";
    free_words(device);
    return FERRY_OK;
}

/* Nothing is under way. A word that a stream wrote and that was given up may be on its way yet. */
static void unmake_streams(fry_cuda_device *device)
{
    for (uint32_t i = 0; i < device->stream_count; i++) {
        fry_cuda_stream *stream = &device->streams[i];
        device->has_stray_words |= stream->words != NULL && !fry_cuda_stream_has_words(stream);
        fry_cuda_stream_unmake(stream);
    }
    fry_free(&device->backend->memory, device->streams, streams_bytes(device));
}

static void init_streams(fry_cuda_device *device)
{
    device->has_tellers = fry_cuda_queue_count() >= FRY_CUDA_TELLER_QUEUES;
    const fry_cuda_stream *parked = fry_cuda_parked(device), *outside = fry_cuda_outside(device);
    const fry_cuda_stream *spares = fry_cuda_spares(device);
    for (uint32_t i = 0; i < device->stream_count; i++) {
        fry_cuda_stream *stream = &device->streams[i];
        fry_cuda_stream_init(stream, device,
                             stream < parked    ? FRY_STREAM_MAIN
                             : stream < outside ? FRY_STREAM_PARKED
                             : stream < spares  ? FRY_STREAM_OUTSIDE
                                                : FRY_STREAM_SPARE);
    }
    share_bounces(device);
}

/* In a scope. Spare streams get only their host memory. */
static ferry_status make_streams(fry_cuda_device *device, fry_fault *fault)
{
    CUresult result =
        fry_cuda.cuCtxGetStreamPriorityRange(&device->lowest_priority, &device->highest_priority);
    if (result != CUDA_SUCCESS)
        return refuse_call(fault, result, "cuCtxGetStreamPriorityRange");
    for (uint32_t i = 0; i < device->stream_count; i++) {
        fry_cuda_stream *stream = &device->streams[i];
        if (stream->stream.kind != FRY_STREAM_OUTSIDE &&
            fry_cuda_stream_make(stream, true) != FERRY_OK)
            return refuse(fault, FERRY_E_NO_MEMORY, "no memory for a stream");
    }
    for (fry_cuda_stream *stream = device->streams; stream < fry_cuda_outside(device); stream++) {
        fry_cuda_level level =
            stream < fry_cuda_parked(device) ? FRY_CUDA_LEVEL_MAIN : FRY_CUDA_LEVEL_PARKED;
        result = fry_cuda_stream_make_native(stream, fry_cuda_priority(device, level));
        if (result != CUDA_SUCCESS)
            return refuse_call(fault, result, "cuStreamCreateWithPriority");
        result = fry_cuda_stream_make_events(stream, FRY_CUDA_EVENTS_AHEAD);
        if (result != CUDA_SUCCESS)
            return refuse_call(fault, result, "cuEventCreate");
    }
    return FERRY_OK;
}

/* In a scope of the device's context. */
static ferry_status furnish(fry_cuda_device *device, const fry_device_request *request,
                            fry_fault *fault)
{
    int pitch_max_bytes = 0;
    CUresult result =
        fry_cuda.cuDeviceGetAttribute(&pitch_max_bytes, CU_DEVICE_ATTRIBUTE_MAX_PITCH, device->gpu);
    if (result != CUDA_SUCCESS)
        return refuse_call(fault, result, "cuDeviceGetAttribute");
    device->pitch_max_bytes = (size_t)pitch_max_bytes;
    (void)fry_cuda.cuDeviceGetName(device->model, (int)sizeof device->model, device->gpu);

    ferry_status status = make_words(device, request->completion, fault);
    if (status != FERRY_OK)
        goto err_words;
    device->streams =
        fry_alloc(&device->backend->memory, streams_bytes(device), _Alignof(fry_cuda_stream));
    if (device->streams == NULL) {
        status = refuse(fault, FERRY_E_NO_MEMORY, "no memory for streams");
        goto err_words;
    }
    init_streams(device);
    status = make_streams(device, fault);
    if (status == FERRY_OK)
        status = try_words(device, request->completion, fault);
    if (status == FERRY_OK) {
        const char *call;
        result = fry_cuda_memory_open(device, &call);
        if (result == CUDA_SUCCESS)
            result = fry_cuda_apart_try(device, &call);
        if (result == CUDA_SUCCESS)
            return FERRY_OK;
        status = refuse_call(fault, result, call);
        fry_cuda_apart_close(device);
        fry_cuda_memory_close(device);
    }
    unmake_streams(device);
err_words:
    free_words(device);
    return status;
}

/* Gives an idle device's things back to the driver, if it still answers. */
static void unfurnish(fry_cuda_device *device)
{
    fry_cuda_scope scope = {0};
    if (fry_cuda_lost(device) == CUDA_SUCCESS)
        (void)fry_cuda_enter(&scope, device->context);
    fry_cuda_apart_close(device);
    fry_cuda_memory_close(device);
    unmake_streams(device);
    free_words(device);
    fry_cuda_leave(&scope);
}

/* Checks what needs no context. */
static ferry_status check_request(const fry_device_request *request, uint32_t *ordinal_p,
                                  uint32_t *logical_p, fry_fault *fault)
{
    uint32_t count;
    const char *text;
    if (!fry_cuda_load(&count, &text))
        return refuse(fault, FERRY_E_NOT_FOUND, text);
    if (!parse_name(request->name, ordinal_p, logical_p))
        return refuse(fault, FERRY_E_INVALID, "the name is none of \"cuda:N\" and \"cuda:N/K\"");
    if (*ordinal_p >= count) {
        *fault = (fry_fault){.status = FERRY_E_NOT_FOUND, .rank = -1};
        (void)snprintf(fault->message, sizeof fault->message,
                       "there is no GPU %u, the driver counts %u", *ordinal_p, count);
        return FERRY_E_NOT_FOUND;
    }
    if (request->completion > FERRY_COMPLETION_EVENTS)
        return refuse(fault, FERRY_E_INVALID, "completion is not a ferry_completion");
    if (request->parked_count > FRY_CUDA_PARKED_MAX)
        return refuse(fault, FERRY_E_INVALID, "too many parked streams");
    if (request->staging_bytes != 0 && (request->staging_bytes < FRY_CUDA_STAGING_LEAST_BYTES ||
                                        request->staging_bytes > FRY_CUDA_STAGING_MOST_BYTES))
        return refuse(fault, FERRY_E_INVALID, "staging_bytes is not from 64 KiB to 1 GiB");
    return FERRY_OK;
}

static ferry_status cuda_device_open(fry_backend *backend, const fry_device_request *request,
                                     fry_device **device_p, fry_fault *fault)
{
    uint32_t ordinal, logical;
    ferry_status status = check_request(request, &ordinal, &logical, fault);
    if (status != FERRY_OK)
        return status;
    fry_cuda_device *device =
        fry_alloc(&backend->memory, sizeof *device, _Alignof(fry_cuda_device));
    if (device == NULL)
        return refuse(fault, FERRY_E_NO_MEMORY, "no memory for a device");
    device->backend = backend;
    device->device.ops = &cuda_ops;
    device->number = backend->device_count;
    device->ordinal = ordinal;
    device->logical = logical;
    (void)snprintf(device->device.name, sizeof device->device.name, "%s", request->name);
    device->parked_count =
        request->parked_count != 0 ? request->parked_count : FRY_CUDA_PARKED_DEFAULT;
    device->stream_count = FRY_CUDA_DIRECTIONS + device->parked_count + FRY_CUDA_OUTSIDE_COUNT +
                           FRY_CUDA_BRIDGE_COUNT + FRY_CUDA_DIRECTIONS * FRY_CUDA_SPARE_COUNT;

    status = take_context(device, request->native_context, fault);
    if (status != FERRY_OK)
        goto err_context;
    fry_cuda_scope scope;
    CUresult result = fry_cuda_enter(&scope, device->context);
    status = result == CUDA_SUCCESS ? furnish(device, request, fault)
                                    : refuse_call(fault, result, "cuCtxPushCurrent");
    fry_cuda_leave(&scope);
    if (status != FERRY_OK)
        goto err_context;
    fry_cuda_memory_meet(device);
    status = fry_cuda_staging_add(backend->staging, device, request->staging_bytes);
    if (status != FERRY_OK) {
        (void)refuse(fault, status, "no memory for staged streams");
        goto err_furnished;
    }
    device->next = backend->devices;
    backend->device_count++;
    fry_store_release(&backend->devices, device); /* pairs with fry_cuda_memory_owner */
    *device_p = &device->device;
    return FERRY_OK;

err_furnished:
    unfurnish(device);
err_context:
    give_context(device);
    fry_free(&backend->memory, device, sizeof *device);
    return status;
}

/* --- the backend --- */

static uint32_t cuda_probe(const char **reason)
{
    uint32_t count;
    const char *text;
    bool is_here = fry_cuda_load(&count, &text);
    if (reason != NULL)
        *reason = text;
    return is_here ? count : 0;
}

static void close_device(fry_cuda_device *device)
{
    unfurnish(device);
    give_context(device);
    fry_free(&device->backend->memory, device, sizeof *device);
}

static void free_backend(fry_backend *backend)
{
    fry_memory memory = backend->memory;
    fry_cuda_staging_close(backend->staging);
    while (backend->devices != NULL) {
        fry_cuda_device *device = backend->devices;
        backend->devices = device->next;
        close_device(device);
    }
    fry_cuda_reclaim_close(backend->reclaim);
    fry_free(&memory, backend, sizeof *backend);
}

static ferry_status cuda_open(const fry_memory *memory, const fry_backend_options *options,
                              fry_backend **backend_p)
{
    uint32_t count;
    const char *text;
    if (!fry_cuda_load(&count, &text))
        return FERRY_E_NOT_FOUND;
    fry_backend *backend = fry_alloc(memory, sizeof *backend, _Alignof(fry_backend));
    if (backend == NULL)
        return FERRY_E_NO_MEMORY;
    backend->memory = *memory;
    backend->options = *options;
    backend->staging = fry_cuda_staging_open(backend);
    backend->reclaim = fry_cuda_reclaim_open(backend);
    if (backend->staging == NULL || backend->reclaim == NULL) {
        free_backend(backend);
        return FERRY_E_NO_MEMORY;
    }
    *backend_p = backend;
    return FERRY_OK;
}

static bool is_idle(fry_cuda_device *device)
{
    for (uint32_t i = 0; i < device->stream_count; i++) {
        if (!fry_cuda_stream_is_idle(&device->streams[i]))
            return false;
    }
    return true;
}

static ferry_status cuda_stop(fry_backend *backend)
{
    for (fry_cuda_device *device = backend->devices; device != NULL; device = device->next) {
        if (!is_idle(device))
            return FERRY_E_BUSY;
    }
    if (!fry_cuda_staging_is_idle(backend->staging))
        return FERRY_E_BUSY;
    ferry_status status = fry_cuda_reclaim_stop(backend->reclaim);
    if (status == FERRY_OK)
        fry_cuda_staging_stop(backend->staging);
    return status;
}

static void cuda_destroy(fry_backend *backend)
{
    if (backend != NULL)
        free_backend(backend);
}

static const fry_backend_ops backend_ops = {
    .module = {"cuda"},
    .probe = cuda_probe,
    .open = cuda_open,
    .device_open = cuda_device_open,
    .stop = cuda_stop,
    .destroy = cuda_destroy,
};

const fry_module_ops *fry_module_entry(const fry_module_host *host, const char **reason);

__attribute__((visibility("default"))) const fry_module_ops *
fry_module_entry(const fry_module_host *host, const char **reason)
{
    if (host->version != FRY_MODULE_VERSION || host->size_bytes != sizeof *host) {
        *reason = "made for another version of ferry";
        return NULL;
    }
    fry_forward_init(host);
    return &backend_ops.module;
}
