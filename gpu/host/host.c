/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host devices and the workers behind them.
 *
 * A worker goes round the streams, claims a runnable one (fry_host_stream_is_runnable), works off
 * some of it and gives it back. A worker that finds none sleeps on the eventcount that all share.
 *
 * No runnable stream is left with every worker asleep. A stream becomes runnable in three ways: an
 * operation is issued, a wait fires, a claim is given back.
 *  1. Before a worker sleeps, it prepares (a full barrier) and then looks at all streams once more.
 *     So it has looked since it fired or gave back anything itself, and since others, before their
 *     own last looks, fired or gave back anything.
 *  2. If a look passes over a claimed stream, the claimer looks at the stream again, by 1. The last
 *     thread to give the stream back finds no other claimer to leave it to.
 *  3. The producer stores `issued`, then looks at the claim (both seq_cst). Claimed: the give comes
 *     later, so the claimer's next look, after the give, sees what was issued. Not claimed: the
 *     producer notifies. Either that sees a worker preparing or asleep and wakes one, which starts
 *     over and looks again, or every worker has yet to look.
 * So the event that made a stream runnable last is followed by a look that finds the stream.
 *
 * A runnable stream does not wait for a busy worker while another sleeps: before each operation a
 * worker looks for streams that could run beside it, and wakes one more worker for them
 * (`hand_on`).
 */
#include "gpu/host/host.h"

#include "base/clock.h"
#include "base/eventcount.h"
#include "base/futex.h"
#include "base/shared.h"
#include "gpu/device.h"
#include "gpu/host/copy.h"
#include "gpu/host/stream.h"

#include <assert.h>
#include <errno.h>
#include <ferry/info.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_DEVICES 64
#define MAX_WORKERS 8

/* Operations of one claim: enough to make claiming cheap, few enough to be fair. */
#define OPERATIONS_A_CLAIM 16

#define SMALL_ALIGN_BYTES 64
#define LARGE_ALIGN_BYTES 4096
#define LARGE_BYTES ((size_t)64 << 10) /* from here on buffers are aligned to a page */
#define HUGE_BYTES ((size_t)2 << 20)   /* and from here on to a huge page */

typedef struct host_device {
    fry_device device;
    fry_host *host;
} host_device;

typedef struct worker {
    fry_host *host;
    pthread_t thread;
    uint32_t cursor; /* the stream to look at first */
} worker;

struct fry_host {
    fry_eventcount idle; /* where workers sleep */
    uint32_t stopping;   /* atomic */
    uint32_t at_work;    /* futex: workers that have not ended */

    /* Only read after opening, except for the workers' own fields. */
    fry_memory memory __attribute__((aligned(FRY_CACHE_LINE)));
    fry_host_options options;
    fry_host_stream *streams; /* for each device the stream to it */
    uint32_t running_count;   /* workers that exist */
    host_device devices[MAX_DEVICES];
    worker workers[MAX_WORKERS];
};

static fry_host_stream *host_stream(fry_stream *stream)
{
    return (fry_host_stream *)(void *)stream;
}

static fry_host *host_of(const fry_device *device)
{
    return ((const host_device *)(const void *)device)->host;
}

/* --- workers --- */

static bool any_runnable(const fry_host *host)
{
    for (uint32_t i = 0; i < host->options.device_count; i++) {
        if (fry_host_stream_is_runnable(&host->streams[i]))
            return true;
    }
    return false;
}

static fry_host_stream *claim_next(worker *self)
{
    const fry_host *host = self->host;
    uint32_t count = host->options.device_count;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t index = (self->cursor + i) % count;
        fry_host_stream *stream = &host->streams[index];
        if (fry_host_stream_is_runnable(stream) && fry_baton_take(&stream->claim)) {
            self->cursor = index + 1;
            return stream;
        }
    }
    return NULL;
}

/*
 * Wakes a sleeper before the caller is busy. The fence is between what the caller last fired and
 * its look for sleepers, as prepare is between a sleeper and its last look: one sees the other.
 */
static void hand_on(fry_host *host)
{
    if (host->options.worker_count == 1)
        return;
    fry_fence();
    if (fry_load_relaxed(&host->idle.sleepers) != 0 && any_runnable(host))
        fry_eventcount_notify(&host->idle, 1);
}

static void work_off(fry_host *host, fry_host_stream *stream)
{
    for (int i = 0; i < OPERATIONS_A_CLAIM && fry_host_stream_is_ready(stream); i++) {
        hand_on(host);
        fry_host_stream_run(stream, &host->options);
        host->options.notify.fn(host->options.notify.arg);
    }
}

static void *worker_main(void *arg)
{
    worker *self = arg;
    fry_host *host = self->host;
    for (;;) {
        fry_host_stream *stream = claim_next(self);
        if (stream != NULL) {
            work_off(host, stream);
            fry_baton_give(&stream->claim);
            continue;
        }
        uint32_t key = fry_eventcount_prepare(&host->idle);
        if (fry_load_relaxed(&host->stopping) != 0) {
            fry_eventcount_cancel(&host->idle);
            if (fry_fetch_sub(&host->at_work, 1) == 1)
                fry_futex_wake(&host->at_work, INT_MAX); /* the stopper joins before it frees */
            return NULL;
        }
        if (any_runnable(host))
            fry_eventcount_cancel(&host->idle);
        else
            fry_eventcount_commit(&host->idle, key, -1);
    }
}

/* Workers take no signals: those are for the program's own threads. */
static bool start_worker(fry_host *host)
{
    uint32_t index = host->running_count;
    worker *started = &host->workers[index];
    *started = (worker){.host = host, .cursor = index};

    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int refused = pthread_create(&started->thread, NULL, worker_main, started);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (refused != 0)
        return false;
    (void)fry_fetch_add(&host->at_work, 1);

    char name[16];
    (void)snprintf(name, sizeof name, "ferry-host-%u", index % MAX_WORKERS);
    (void)pthread_setname_np(started->thread, name);
    host->running_count++;
    return true;
}

/* A worker may be in a user's callback, called after the loop had stopped. */
static bool end_workers(fry_host *host, int64_t end_ns)
{
    fry_store_relaxed(&host->stopping, 1);
    fry_eventcount_notify(&host->idle, INT_MAX);
    uint32_t at_work;
    while ((at_work = fry_load_acquire(&host->at_work)) != 0) {
        int64_t left_ns = fry_clock_left_ns(end_ns);
        if (left_ns == 0)
            return false;
        fry_futex_wait(&host->at_work, at_work, left_ns);
    }
    while (host->running_count > 0) {
        (void)pthread_join(host->workers[host->running_count - 1].thread, NULL);
        host->running_count--;
    }
    return true;
}

/* --- the device operations --- */

static ferry_status alloc_shared(size_t size_bytes, void **memory_p, fry_fault *fault)
{
    *memory_p = fry_shared_alloc(size_bytes);
    if (*memory_p != NULL)
        return FERRY_OK;
    *fault = (fry_fault){.status = FERRY_E_NO_MEMORY, .rank = -1, .native_code = errno};
    fault->domain = "errno";
    (void)snprintf(fault->message, sizeof fault->message, "shared memory: %s",
                   strerrordesc_np(errno));
    return FERRY_E_NO_MEMORY;
}

static ferry_status host_memory_alloc(fry_device *device, size_t size_bytes, fry_memory_kind kind,
                                      void **memory_p, fry_fault *fault)
{
    if (kind == FRY_MEMORY_SHARED)
        return alloc_shared(size_bytes, memory_p, fault);
    if (kind != FRY_MEMORY_DEFAULT)
        return FERRY_E_UNSUPPORTED;
    size_t align_bytes = size_bytes < LARGE_BYTES  ? SMALL_ALIGN_BYTES
                         : size_bytes < HUGE_BYTES ? LARGE_ALIGN_BYTES
                                                   : HUGE_BYTES;
    void *memory = fry_alloc_raw(&host_of(device)->memory, size_bytes, align_bytes);
    if (memory == NULL)
        return FERRY_E_NO_MEMORY;
    /*
     * A kernel without huge pages refuses, and nothing is lost. With them another process reads
     * this memory a quarter faster, because it takes hold of fewer pages. The rest of a last page
     * is not asked for: nobody wanted that memory.
     */
    if (size_bytes >= HUGE_BYTES)
        (void)madvise(memory, size_bytes - size_bytes % HUGE_BYTES, MADV_HUGEPAGE);
    *memory_p = memory;
    return FERRY_OK;
}

static void host_memory_free(fry_device *device, void *memory, size_t size_bytes,
                             fry_memory_kind kind)
{
    if (kind == FRY_MEMORY_SHARED)
        fry_shared_free(memory);
    else
        fry_free(&host_of(device)->memory, memory, size_bytes);
}

static fry_stream *host_stream_at(fry_device *device, size_t index)
{
    return index == 0 ? &host_of(device)->streams[device->index].stream : NULL;
}

static fry_stream *host_copy_stream(fry_device *dst, fry_device *src, bool is_pageable)
{
    (void)src, (void)is_pageable;
    return &host_of(dst)->streams[dst->index].stream;
}

static bool host_copy_inline(fry_stream *stream, const fry_copy *copy)
{
    if (copy->size_bytes > host_of(stream->device)->options.inline_copy_bytes ||
        !fry_host_stream_is_empty(host_stream(stream)))
        return false;
    if (fry_likely(copy->row_count == 1))
        memcpy(copy->dst, copy->src, copy->size_bytes);
    else
        fry_host_copy_whole(copy);
    return true;
}

static ferry_status host_copy(fry_stream *stream, const fry_copy *copy, const fry_event *waits,
                              size_t wait_count, uint64_t *sequence_p, fry_fault *fault)
{
    fry_host_stream *to = host_stream(stream);
    if (!fry_host_stream_issue(to, copy, waits, wait_count)) {
        *fault = (fry_fault){.status = FERRY_E_DEVICE, .rank = -1};
        return FERRY_E_DEVICE;
    }
    *sequence_p = stream->issued;
    if (fry_load_seq_cst(&to->claim.taken) == 0)
        fry_eventcount_notify(&host_of(stream->device)->idle, 1);
    return FERRY_OK;
}

static const fry_device_ops host_ops;

static bool host_can_wait(const fry_stream *stream, const fry_stream *other)
{
    return other->device->ops == &host_ops && host_of(other->device) == host_of(stream->device);
}

static uint64_t host_fired(fry_stream *stream, ferry_status *status_p, fry_fault *fault)
{
    (void)fault;
    *status_p = FERRY_OK; /* copying in memory can't fail */
    return fry_host_stream_fired(host_stream(stream));
}

static void host_cancel(fry_stream *stream, uint64_t sequence)
{
    fry_host_stream_skip(host_stream(stream), sequence);
}

static int64_t host_begun_ns(fry_stream *stream, uint64_t sequence)
{
    return fry_host_stream_begun_ns((fry_host_stream *)(void *)stream, sequence);
}

static void host_describe(fry_device *device, fry_device_facts *facts)
{
    (void)device;
    long page_bytes = sysconf(_SC_PAGESIZE);
    long pages = sysconf(_SC_PHYS_PAGES), unused_pages = sysconf(_SC_AVPHYS_PAGES);
    *facts = (fry_device_facts){
        .stream_count = 1,
        .capabilities = FERRY_CAN_COPY_INLINE | FERRY_CAN_WAIT_ON_DEVICE | FERRY_CAN_COPY_ROWS |
                        FERRY_CAN_STOP_COPIES | FERRY_CAN_USE_HOST_POINTERS,
    };
    if (page_bytes > 0 && pages > 0)
        facts->memory_bytes = (uint64_t)pages * (uint64_t)page_bytes;
    if (page_bytes > 0 && unused_pages > 0)
        facts->memory_unused_bytes = (uint64_t)unused_pages * (uint64_t)page_bytes;
}

static const fry_device_ops host_ops = {
    .backend = "host",
    .describe = host_describe,
    .memory_alloc = host_memory_alloc,
    .memory_free = host_memory_free,
    .stream_at = host_stream_at,
    .copy_stream = host_copy_stream,
    .copy_inline = host_copy_inline,
    .copy = host_copy,
    .can_wait = host_can_wait,
    .fired = host_fired,
    .begun_ns = host_begun_ns,
    .cancel = host_cancel,
};

/* --- open and close --- */

static void init_device(fry_host *host, uint32_t index)
{
    fry_device *device = &host->devices[index].device;
    device->ops = &host_ops;
    device->index = (uint16_t)index;
    (void)snprintf(device->name, sizeof device->name, "host:%u", index);
    host->devices[index].host = host;
    host->streams[index].stream.device = device;
    host->streams[index].stream.index = (uint16_t)index;
}

static size_t streams_bytes(const fry_host *host)
{
    return host->options.device_count * sizeof *host->streams;
}

ferry_status fry_host_open(const fry_memory *memory, const fry_host_options *options,
                           fry_host **host_p)
{
    assert(options->device_count >= 1 && options->device_count <= MAX_DEVICES);
    assert(options->worker_count >= 1 && options->worker_count <= MAX_WORKERS);
    assert(options->notify.fn != NULL);

    ferry_status status = FERRY_E_NO_MEMORY;
    fry_host *host = fry_alloc(memory, sizeof *host, _Alignof(fry_host));
    if (host == NULL)
        return status;
    host->memory = *memory;
    host->options = *options;
    host->streams = fry_alloc(memory, streams_bytes(host), _Alignof(fry_host_stream));
    if (host->streams == NULL)
        goto err_host;
    for (uint32_t i = 0; i < options->device_count; i++)
        init_device(host, i);

    status = FERRY_E_SYSTEM;
    while (host->running_count < options->worker_count) {
        if (!start_worker(host))
            goto err_workers;
    }
    *host_p = host;
    return FERRY_OK;

err_workers:
    (void)end_workers(host, FRY_NEVER_NS);
    fry_free(memory, host->streams, streams_bytes(host));
err_host:
    fry_free(memory, host, sizeof *host);
    return status;
}

fry_device *fry_host_device(fry_host *host, size_t index)
{
    return &host->devices[index].device;
}

ferry_status fry_host_stop(fry_host *host, int64_t end_ns)
{
    for (uint32_t i = 0; i < host->options.device_count; i++) {
        if (!fry_host_stream_is_empty(&host->streams[i]))
            return FERRY_E_BUSY;
    }
    return end_workers(host, end_ns) ? FERRY_OK : FERRY_E_DEADLINE;
}

void fry_host_destroy(fry_host *host)
{
    if (host == NULL)
        return;
    fry_memory memory = host->memory;
    fry_free(&memory, host->streams, streams_bytes(host));
    fry_free(&memory, host, sizeof *host);
}
