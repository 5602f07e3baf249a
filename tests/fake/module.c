/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A module that needs no driver: see tests/support/fake_module.h. Like a true one it links with
 * nothing of ferry's. Built several times, with what a test wants to be wrong with it:
 *
 *   FAKE_FOR_VERSION  the version it is made for
 *   FAKE_NAME         the backend that it is
 *   FAKE_ENTRY        what it calls its entry
 */
#include "gpu/backend.h"
#include "tests/support/fake_module.h"

#include <ferry/info.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#ifndef FAKE_FOR_VERSION
#define FAKE_FOR_VERSION FRY_MODULE_VERSION
#endif
#ifndef FAKE_NAME
#define FAKE_NAME "cuda"
#endif
#ifndef FAKE_ENTRY
#define FAKE_ENTRY fry_module_entry
#endif

#define RANGES_MAX 256
#define DEVICES_MAX 80
#define ALIGN_BYTES 256
#define FAKE_MEMORY_BYTES ((uint64_t)1 << 30)

__attribute__((visibility("default"))) fake_module fake_module_state = {.gpus = 1};

static const fry_module_host *host;

static void gate_pass(void)
{
    atomic_fetch_add(&fake_module_state.at_gate, 1);
    while (atomic_load(&fake_module_state.is_gated))
        (void)sched_yield();
}

/* ---- memory: which is whose ---- */

typedef struct range {
    const char *memory; /* NULL: unused */
    size_t size_bytes;
    const fry_device *device; /* NULL: pinned memory of the host's */
} range;

static pthread_mutex_t range_lock = PTHREAD_MUTEX_INITIALIZER;
static range ranges[RANGES_MAX];

/* The range that the memory lies in. With the lock. */
static range *range_of(const void *memory, size_t size_bytes)
{
    const char *begin = memory;
    for (size_t i = 0; i < RANGES_MAX; i++) {
        range *found = &ranges[i];
        if (found->memory != NULL && begin >= found->memory &&
            begin + size_bytes <= found->memory + found->size_bytes)
            return found;
    }
    return NULL;
}

static bool range_find(const void *memory, size_t size_bytes, range *copy)
{
    (void)pthread_mutex_lock(&range_lock);
    const range *found = range_of(memory, size_bytes);
    if (found != NULL)
        *copy = *found;
    (void)pthread_mutex_unlock(&range_lock);
    return found != NULL;
}

static bool range_add(const void *memory, size_t size_bytes, const fry_device *device)
{
    size_t i = 0;
    (void)pthread_mutex_lock(&range_lock);
    while (i < RANGES_MAX && ranges[i].memory != NULL)
        i++;
    if (i < RANGES_MAX)
        ranges[i] = (range){memory, size_bytes, device};
    (void)pthread_mutex_unlock(&range_lock);
    return i < RANGES_MAX;
}

static void range_remove(const void *memory)
{
    (void)pthread_mutex_lock(&range_lock);
    for (size_t i = 0; i < RANGES_MAX; i++) {
        if (ranges[i].memory == memory)
            ranges[i] = (range){0};
    }
    (void)pthread_mutex_unlock(&range_lock);
}

/* ---- devices ---- */

typedef struct fake_stream {
    fry_stream stream; /* first */
    uint64_t fired;    /* atomic; all that is issued while copies are not held */
} fake_stream;

typedef struct fake_device {
    fry_device device; /* first */
    fry_backend *backend;
    fake_stream streams[FAKE_STREAMS];
} fake_device;

struct fry_backend {
    fry_memory memory;
    fry_backend_options options;
    fake_device *devices[DEVICES_MAX];
    size_t device_count;
    bool is_stopped;
    /* Its thread, which tells the engine of what has fired. */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool has_news, is_ending;
};

static fake_device *fake_of(fry_device *device)
{
    return (fake_device *)(void *)device;
}

static void fake_describe(fry_device *device, fry_device_facts *facts)
{
    (void)device;
    facts->stream_count = FAKE_STREAMS;
    facts->capabilities = FERRY_CAN_WAIT_ON_DEVICE | FERRY_CAN_COPY_TO_PEERS;
    facts->memory_bytes = FAKE_MEMORY_BYTES;
    facts->memory_unused_bytes = FAKE_MEMORY_BYTES / 2;
    facts->peers = 2;
    facts->highest_priority = -5;
    facts->model = "fake GPU";
    facts->driver = "fake 1.0";
    facts->lacks[__builtin_ctz(FERRY_CAN_BATCH_COPIES)] = "its driver is too old";
}

static ferry_status fake_memory_alloc(fry_device *device, size_t size_bytes, fry_memory_kind kind,
                                      void **memory_p, fry_fault *fault)
{
    int status = atomic_load(&fake_module_state.alloc_status);
    if (status == FERRY_E_DEVICE)
        *fault = (fry_fault){.status = FERRY_E_DEVICE,
                             .rank = -1,
                             .native_code = FAKE_ALLOC_CODE,
                             .domain = "fake",
                             .message = "the driver gives no memory"};
    if (status != FERRY_OK)
        return (ferry_status)status;
    void *memory;
    if (posix_memalign(&memory, ALIGN_BYTES, size_bytes) != 0)
        return FERRY_E_NO_MEMORY;
    if (!range_add(memory, size_bytes, kind == FRY_MEMORY_PINNED ? NULL : device)) {
        free(memory);
        return FERRY_E_NO_MEMORY;
    }
    atomic_fetch_add(&fake_module_state.allocs, 1);
    atomic_fetch_add(&fake_module_state.live_allocations, 1);
    *memory_p = memory;
    return FERRY_OK;
}

static void fake_memory_free(fry_device *device, void *memory, size_t size_bytes,
                             fry_memory_kind kind)
{
    range found;
    if (!range_find(memory, size_bytes, &found) || found.size_bytes != size_bytes ||
        found.device != (kind == FRY_MEMORY_PINNED ? NULL : device))
        abort(); /* of another kind, size or device: a driver would be as helpful */
    range_remove(memory);
    free(memory);
    if (fake_of(device)->backend->is_stopped)
        atomic_store(&fake_module_state.was_freed_stopped, true);
    atomic_fetch_add(&fake_module_state.frees, 1);
    atomic_fetch_sub(&fake_module_state.live_allocations, 1);
}

static bool fake_memory_is_here(fry_device *device, const void *memory, size_t size_bytes)
{
    range found;
    return range_find(memory, size_bytes, &found) && found.device == device;
}

static bool fake_memory_is_pinned(fry_device *device, const void *memory, size_t size_bytes)
{
    (void)device;
    range found;
    atomic_fetch_add(&fake_module_state.pinned_asked, 1);
    if (atomic_load(&fake_module_state.gates_pinned))
        gate_pass();
    return range_find(memory, size_bytes, &found) && found.device == NULL;
}

static bool fake_memory_is_off_host(fry_device *device, const void *memory, size_t size_bytes)
{
    (void)device;
    range found;
    return range_find(memory, size_bytes, &found) && found.device != NULL;
}

static fry_stream *fake_stream_at(fry_device *device, size_t index)
{
    return index < FAKE_STREAMS ? &fake_of(device)->streams[index].stream : NULL;
}

static const fry_device_ops fake_device_ops;

static fry_stream *fake_copy_stream(fry_device *dst, fry_device *src, bool is_pageable)
{
    bool is_own = dst->ops == &fake_device_ops && src->ops == &fake_device_ops;
    fry_device *of = dst->ops == &fake_device_ops ? dst : src;
    return &fake_of(of)->streams[is_own ? 2 : is_pageable ? 1 : 0].stream;
}

static void tell(fry_backend *self, bool is_ending)
{
    (void)pthread_mutex_lock(&self->lock);
    self->has_news = true;
    self->is_ending = is_ending;
    (void)pthread_cond_signal(&self->changed);
    (void)pthread_mutex_unlock(&self->lock);
}

static void *tell_engine(void *arg)
{
    fry_backend *self = arg;
    for (bool is_over = false; !is_over;) {
        (void)pthread_mutex_lock(&self->lock);
        while (!self->has_news)
            (void)pthread_cond_wait(&self->changed, &self->lock);
        self->has_news = false;
        is_over = self->is_ending;
        (void)pthread_mutex_unlock(&self->lock);
        if (!is_over)
            self->options.notify.fn(self->options.notify.arg);
    }
    return NULL;
}

static bool fake_copy_inline(fry_stream *stream, const fry_copy *copy)
{
    (void)stream, (void)copy;
    return false;
}

static ferry_status fake_copy(fry_stream *stream, const fry_copy *copy, const fry_event *waits,
                              size_t wait_count, uint64_t *sequence_p, fry_fault *fault)
{
    (void)waits, (void)wait_count, (void)fault;
    size_t row_bytes = fry_copy_row_bytes(copy);
    for (size_t i = 0; i < copy->row_count; i++)
        memcpy((char *)copy->dst + i * (copy->row_count > 1 ? copy->dst_pitch_bytes : 0),
               (const char *)copy->src + i * (copy->row_count > 1 ? copy->src_pitch_bytes : 0),
               row_bytes);
    fake_stream *self = (fake_stream *)(void *)stream;
    atomic_fetch_add(&fake_module_state.copies[self - fake_of(stream->device)->streams], 1);
    *sequence_p = ++stream->issued;
    tell(fake_of(stream->device)->backend, false);
    return FERRY_OK;
}

static bool fake_can_wait(const fry_stream *stream, const fry_stream *other)
{
    return stream->device->ops == other->device->ops;
}

static uint64_t fake_fired(fry_stream *stream, ferry_status *status_p, fry_fault *fault)
{
    (void)fault;
    fake_stream *self = (fake_stream *)(void *)stream;
    *status_p = FERRY_OK;
    if (!atomic_load(&fake_module_state.holds_copies))
        self->fired = stream->issued;
    return self->fired;
}

static int64_t fake_begun_ns(fry_stream *stream, uint64_t sequence)
{
    (void)stream, (void)sequence;
    return 0;
}

static void fake_cancel(fry_stream *stream, uint64_t sequence)
{
    (void)stream, (void)sequence;
}

static const fry_device_ops fake_device_ops = {
    .backend = "cuda",
    .describe = fake_describe,
    .memory_alloc = fake_memory_alloc,
    .memory_free = fake_memory_free,
    .memory_is_here = fake_memory_is_here,
    .memory_is_pinned = fake_memory_is_pinned,
    .memory_is_off_host = fake_memory_is_off_host,
    .stream_at = fake_stream_at,
    .copy_stream = fake_copy_stream,
    .copy_inline = fake_copy_inline,
    .copy = fake_copy,
    .can_wait = fake_can_wait,
    .fired = fake_fired,
    .begun_ns = fake_begun_ns,
    .cancel = fake_cancel,
};

/* ---- the backend ---- */

static uint32_t fake_probe(const char **reason)
{
    int gpus = atomic_load(&fake_module_state.gpus);
    atomic_fetch_add(&fake_module_state.probes, 1);
    *reason = gpus == 0 ? "no driver: it is a fake" : "fake GPUs";
    return (uint32_t)gpus;
}

static ferry_status fake_open(const fry_memory *memory, const fry_backend_options *options,
                              fry_backend **backend_p)
{
    int status = atomic_load(&fake_module_state.open_status);
    atomic_fetch_add(&fake_module_state.opens, 1);
    if (status != FERRY_OK)
        return (ferry_status)status;
    fry_backend *self = host->alloc(memory, sizeof *self, _Alignof(fry_backend));
    if (self == NULL)
        return FERRY_E_NO_MEMORY;
    self->memory = *memory;
    self->options = *options;
    (void)pthread_mutex_init(&self->lock, NULL);
    (void)pthread_cond_init(&self->changed, NULL);
    if (pthread_create(&self->thread, NULL, tell_engine, self) != 0)
        abort();
    *backend_p = self;
    return FERRY_OK;
}

static ferry_status fake_device_open(fry_backend *self, const fry_device_request *request,
                                     fry_device **device_p, fry_fault *fault)
{
    atomic_fetch_add(&fake_module_state.device_opens, 1);
    atomic_store(&fake_module_state.parked_count, request->parked_count);
    atomic_store(&fake_module_state.staging_bytes, request->staging_bytes);
    atomic_store(&fake_module_state.native_context, request->native_context);
    gate_pass();
    int status = atomic_load(&fake_module_state.device_open_status);
    if (status != FERRY_OK) {
        *fault = (fry_fault){.status = (ferry_status)status,
                             .rank = -1,
                             .native_code = FAKE_DRIVER_CODE,
                             .domain = "fake",
                             .message = "it was told to fail"};
        return (ferry_status)status;
    }
    fake_device *device = host->alloc(&self->memory, sizeof *device, _Alignof(fake_device));
    if (device == NULL) {
        *fault =
            (fry_fault){.status = FERRY_E_NO_MEMORY, .rank = -1, .message = "no memory for a GPU"};
        return FERRY_E_NO_MEMORY;
    }
    device->device.ops = &fake_device_ops;
    device->backend = self;
    (void)snprintf(device->device.name, sizeof device->device.name, "%s", request->name);
    for (size_t i = 0; i < FAKE_STREAMS; i++)
        device->streams[i].stream.device = &device->device;
    self->devices[self->device_count++] = device;
    host->log_line(self->options.log, FERRY_LOG_INFO, "fake GPU %s is open", request->name);
    *device_p = &device->device;
    return FERRY_OK;
}

static ferry_status fake_stop(fry_backend *self)
{
    atomic_fetch_add(&fake_module_state.stops, 1);
    if (atomic_load(&fake_module_state.busy_stops) > 0) {
        atomic_fetch_sub(&fake_module_state.busy_stops, 1);
        return FERRY_E_BUSY;
    }
    tell(self, true);
    (void)pthread_join(self->thread, NULL);
    self->is_stopped = true;
    return FERRY_OK;
}

static void fake_destroy(fry_backend *self)
{
    fry_memory memory = self->memory;
    atomic_fetch_add(&fake_module_state.destroys, 1);
    if (!self->is_stopped)
        abort();
    for (size_t i = 0; i < self->device_count; i++)
        host->free(&memory, self->devices[i], sizeof *self->devices[i]);
    host->free(&memory, self, sizeof *self);
}

static const fry_backend_ops backend_ops = {
    .module = {FAKE_NAME},
    .probe = fake_probe,
    .open = fake_open,
    .device_open = fake_device_open,
    .stop = fake_stop,
    .destroy = fake_destroy,
};

__attribute__((visibility("default"))) const fry_module_ops *
FAKE_ENTRY(const fry_module_host *given, const char **reason);

const fry_module_ops *FAKE_ENTRY(const fry_module_host *given, const char **reason)
{
    atomic_fetch_add(&fake_module_state.entries, 1);
    gate_pass();
    if (given->version != FAKE_FOR_VERSION || given->size_bytes != sizeof *given) {
        *reason = "made for another version of ferry";
        return NULL;
    }
    host = given;
    return &backend_ops.module;
}
