/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random copies between the blocks of four host devices, each behind the device waits that its
 * hazards ask for, against a model that runs them one after the other. Bursts of random length, so
 * that workers fall asleep and wake at every point. A plain program, so that it runs under
 * ThreadSanitizer, which proves what the bytes can't. Exit 0: all hold. A stream that is left with
 * all workers asleep shows as a wait that lasted LOST_NS.
 */
#include "base/clock.h"
#include "base/eventcount.h"
#include "gpu/host/copy.h"
#include "gpu/host/host.h"
#include "tests/support/stress.h"

#define LOST_NS (INT64_C(10000000000) * PATIENCE)
#define SECONDS_A_CASE (FRY_TSAN ? 1.8 : 0.7)
#define SECONDS_PING 0.5

#define DEVICES 4
#define BLOCKS                                                                                     \
    16 /* of a device; the last is written by copies that get cancelled, and never read */
#define SCRATCH (BLOCKS - 1)
#define BLOCK_BYTES 3000
#define DEVICE_BYTES ((size_t)BLOCKS * BLOCK_BYTES)
#define LARGE_BYTES (FRY_HOST_CHUNK_BYTES + 4096)

/* Who last wrote a block, and the last reader of it on each stream since; sequence 0: nobody. */
typedef struct block {
    fry_event writer;
    uint64_t readers[DEVICES];
} block;

typedef struct world {
    fry_host *host;
    fry_eventcount fired; /* notified by workers, slept on by the producer */
    fry_stream *streams[DEVICES];
    unsigned char *memory[DEVICES]; /* the devices' */
    unsigned char *model[DEVICES];  /* what it must become */
    unsigned char *large[2];        /* copied to and fro on device 0 now and then */
    block blocks[DEVICES][BLOCKS];
    uint64_t random;
    uint64_t copies, inline_copies, sleeps;
} world;

static void notify(void *arg)
{
    world *w = arg;
    fry_eventcount_notify(&w->fired, 1);
}

static uint64_t fired(fry_stream *stream)
{
    ferry_status status;
    uint64_t sequence = stream->device->ops->fired(stream, &status, NULL);
    CHECK(status == FERRY_OK);
    CHECK(sequence <= stream->issued);
    return sequence;
}

static void wait_fired(world *w, fry_stream *stream, uint64_t sequence)
{
    int64_t give_up_ns = fry_clock_monotonic_ns() + LOST_NS;
    while (fired(stream) < sequence) {
        CHECK(fry_clock_monotonic_ns() < give_up_ns);
        uint32_t key = fry_eventcount_prepare(&w->fired);
        if (fired(stream) >= sequence) {
            fry_eventcount_cancel(&w->fired);
            return;
        }
        w->sleeps++;
        fry_eventcount_commit(&w->fired, key, LOST_NS);
    }
}

static fry_event issue(world *w, fry_stream *stream, const fry_copy *copy, const fry_event *waits,
                       size_t wait_count)
{
    if (stream->issued - fired(stream) == FRY_STREAM_DEPTH)
        wait_fired(w, stream, stream->issued - below(&w->random, FRY_STREAM_DEPTH));
    fry_event event = {.stream = stream};
    CHECK(stream->device->ops->copy(stream, copy, waits, wait_count, &event.sequence, NULL) ==
          FERRY_OK);
    CHECK(event.sequence == stream->issued);
    w->copies++;
    return event;
}

static fry_copy plain(void *dst, const void *src, size_t size_bytes)
{
    return (fry_copy){.dst = dst, .src = src, .size_bytes = size_bytes, .row_count = 1};
}

static void add_wait(fry_event *waits, size_t *count, fry_event event)
{
    if (event.sequence == 0)
        return;
    CHECK(*count < FRY_STREAM_WAITS);
    waits[(*count)++] = event;
}

/* Whether an event has fired, or its stream's order makes the wait for it one for nothing. */
static bool is_settled(const fry_stream *stream, const fry_event *event)
{
    return event->sequence == 0 || event->stream == stream ||
           fired(event->stream) >= event->sequence;
}

static void copy_block(world *w)
{
    size_t from = below(&w->random, DEVICES), to = below(&w->random, DEVICES);
    size_t src_index = below(&w->random, SCRATCH), dst_index = below(&w->random, BLOCKS);
    if (from == to && src_index == dst_index)
        return;
    block *src = &w->blocks[from][src_index], *dst = &w->blocks[to][dst_index];
    fry_stream *stream = w->streams[to];
    size_t rows = 1 + below(&w->random, 4), pitch = BLOCK_BYTES / rows;
    size_t row_bytes = 1 + below(&w->random, (uint32_t)pitch);
    size_t offset = below(&w->random, (uint32_t)(pitch - row_bytes + 1));
    size_t dst_at = dst_index * BLOCK_BYTES + offset, src_at = src_index * BLOCK_BYTES + offset;
    fry_copy copy = {.dst = w->memory[to] + dst_at,
                     .src = w->memory[from] + src_at,
                     .size_bytes = rows * row_bytes,
                     .row_count = rows,
                     .dst_pitch_bytes = pitch,
                     .src_pitch_bytes = pitch};

    fry_event waits[FRY_STREAM_WAITS];
    size_t wait_count = 0;
    add_wait(waits, &wait_count, src->writer);
    add_wait(waits, &wait_count, dst->writer);
    for (size_t i = 0; i < DEVICES; i++)
        add_wait(waits, &wait_count, (fry_event){w->streams[i], dst->readers[i]});
    bool is_free = true;
    for (size_t i = 0; i < wait_count; i++)
        is_free = is_free && is_settled(stream, &waits[i]);
    for (size_t row = 0; dst_index != SCRATCH && row < rows; row++)
        memcpy(w->model[to] + dst_at + row * pitch, w->model[from] + src_at + row * pitch,
               row_bytes);
    if (is_free && below(&w->random, 4) == 0 && stream->device->ops->copy_inline(stream, &copy)) {
        w->inline_copies++;
        return;
    }
    while (wait_count < FRY_STREAM_WAITS && below(&w->random, 3) == 0) {
        fry_stream *other = w->streams[below(&w->random, DEVICES)];
        add_wait(waits, &wait_count, (fry_event){other, other->issued});
    }
    fry_event event = issue(w, stream, &copy, waits, wait_count);
    src->readers[to] = event.sequence;
    *dst = (block){.writer = event};
    if (dst_index == SCRATCH)
        stream->device->ops->cancel(stream,
                                    event.sequence - below(&w->random, 2) * FRY_STREAM_DEPTH);
}

/* Longer than a chunk, and cancelled at some point: reads and writes what nobody else does. */
static void copy_large(world *w)
{
    fry_copy copy = plain(w->large[0], w->large[1], LARGE_BYTES);
    fry_event event = issue(w, w->streams[0], &copy, NULL, 0);
    if (below(&w->random, 2) == 0)
        wait_fired(w, w->streams[0], event.sequence - 1);
    w->streams[0]->device->ops->cancel(w->streams[0], event.sequence);
}

static void settle(world *w)
{
    for (size_t i = 0; i < DEVICES; i++)
        wait_fired(w, w->streams[i], w->streams[i]->issued);
    for (size_t i = 0; i < DEVICES; i++) {
        CHECK(memcmp(w->memory[i], w->model[i], DEVICE_BYTES - BLOCK_BYTES) == 0);
        /* Copying only ever makes blocks alike: put something new in. */
        size_t at = below(&w->random, DEVICE_BYTES - BLOCK_BYTES);
        w->memory[i][at] = w->model[i][at] = (unsigned char)below(&w->random, 256);
    }
}

static void open_world(world *w, uint32_t workers)
{
    *w = (world){.random = UINT64_C(0x9e3779b97f4a7c15) + workers};
    fry_memory memory;
    fry_memory_init(&memory, NULL);
    fry_host_options options = {.device_count = DEVICES,
                                .worker_count = workers,
                                .inline_copy_bytes = 1024,
                                .notify = {notify, w}};
    CHECK(fry_host_open(&memory, &options, &w->host) == FERRY_OK);
    for (size_t i = 0; i < DEVICES; i++) {
        fry_device *device = fry_host_device(w->host, i);
        void *bytes;
        fry_fault fault;
        CHECK(device->ops->memory_alloc(device, DEVICE_BYTES, FRY_MEMORY_DEFAULT, &bytes, &fault) ==
              FERRY_OK);
        w->memory[i] = bytes;
        w->model[i] = malloc(DEVICE_BYTES);
        CHECK(w->model[i] != NULL);
        for (size_t at = 0; at < DEVICE_BYTES; at++)
            w->memory[i][at] = w->model[i][at] = (unsigned char)below(&w->random, 256);
        w->streams[i] = device->ops->copy_stream(device, device, false);
    }
    for (size_t i = 0; i < 2; i++) {
        w->large[i] = calloc(1, LARGE_BYTES);
        CHECK(w->large[i] != NULL);
    }
}

static void close_world(world *w)
{
    CHECK(fry_host_stop(w->host, FRY_NEVER_NS) == FERRY_OK);
    for (size_t i = 0; i < DEVICES; i++) {
        fry_device *device = fry_host_device(w->host, i);
        device->ops->memory_free(device, w->memory[i], DEVICE_BYTES, FRY_MEMORY_DEFAULT);
        free(w->model[i]);
    }
    fry_host_destroy(w->host);
    free(w->large[0]);
    free(w->large[1]);
}

/*
 * One copy after another, each issued within moments of the last one's firing: just when the worker
 * that ran it is on its way to sleep.
 */
static void ping(world *w, int64_t end_ns)
{
    for (uint64_t count = 0; (count & 63) != 0 || fry_clock_monotonic_ns() < end_ns; count++) {
        fry_stream *stream = w->streams[below(&w->random, DEVICES)];
        fry_copy copy = plain(w->large[0], w->large[1], 1);
        fry_event event = issue(w, stream, &copy, NULL, 0);
        for (int spins = 0; spins < 20000 && fired(stream) < event.sequence; spins++)
            fry_pause();
        wait_fired(w, stream, event.sequence);
        for (size_t pauses = below(&w->random, 64); pauses > 0; pauses--)
            fry_pause();
    }
}

static void run(uint32_t workers)
{
    world w;
    open_world(&w, workers);
    int64_t end_ns = fry_clock_monotonic_ns() + (int64_t)(SECONDS_A_CASE * 1e9);
    uint64_t bursts = 0;
    while (fry_clock_monotonic_ns() < end_ns) {
        /* Mostly a few, to meet workers on their way to sleep; now and then more than fit. */
        size_t length = below(&w.random, 48) == 0 ? below(&w.random, 3000) : below(&w.random, 12);
        for (size_t i = 0; i < length; i++)
            copy_block(&w);
        if (below(&w.random, 64) == 0)
            copy_large(&w);
        settle(&w);
        bursts++;
    }
    ping(&w, end_ns + (int64_t)(SECONDS_PING * 1e9));
    (void)printf("%u workers: %llu bursts, %llu copies, %llu inline, %llu sleeps\n", workers,
                 (unsigned long long)bursts, (unsigned long long)w.copies,
                 (unsigned long long)w.inline_copies, (unsigned long long)w.sleeps);
    CHECK(bursts > 0 && w.copies > 0 && w.inline_copies > 0 && w.sleeps > 0);
    close_world(&w);
}

int main(void)
{
    for (uint32_t workers = 1; workers <= 3; workers++)
        run(workers);
    return 0;
}
