/* SPDX-License-Identifier: Apache-2.0 */
/*
 * room: how many operations the driver takes behind a kernel that is held until a call waits, and
 * whether it keeps another thread's calls out meanwhile. In one stream they stand behind the kernel
 * itself; in four behind an event of it, as ferry's parked streams do.
 */
#include "bench/probe.h"

#include <math.h>
#include <stdio.h>

#define STREAMS_MOST 4
#define COPY_BYTES ((size_t)4096)
#define BATCH 64                        /* copies in one call, */
#define BATCH_MOST 256                  /* and as many as ferry puts into one */
#define BLOCKED_NS (PROBE_HOLD_NS / 10) /* a call that takes so long has waited */

typedef struct room {
    int streams;
    size_t most;
    CUstream user;               /* the held kernel's */
    CUstream stands;             /* waits for it; what `wait` waits for is recorded there */
    CUstream each[STREAMS_MOST]; /* where the operations go */
    CUevent behind, outside;     /* the kernel; what stands */
    CUevent records[STREAMS_MOST];
    probe_ends up[STREAMS_MOST], across[STREAMS_MOST];
    CUdeviceptr dsts[STREAMS_MOST][BATCH_MOST], srcs[STREAMS_MOST][BATCH_MOST];
    size_t sizes[BATCH_MOST];
    uint32_t *words;
} room;

static void enqueue_copy(room *room, int i)
{
    probe_copy(&room->up[i], room->each[i]);
}

static void enqueue_copy_across(room *room, int i)
{
    probe_copy(&room->across[i], room->each[i]);
}

/* A driver that leaves out waits for what it waits for already takes any number of these. */
static void enqueue_wait(room *room, int i)
{
    PROBE_CALL(cuStreamWaitEvent, room->each[i], room->outside, CU_EVENT_WAIT_DEFAULT);
}

static void enqueue_record(room *room, int i)
{
    PROBE_CALL(cuEventRecord, room->records[i], room->each[i]);
}

static void enqueue_write(room *room, int i)
{
    probe_write(room->each[i], &room->words[i], 1);
}

static void enqueue_copies(room *room, int i, size_t count)
{
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    size_t first = 0;
    PROBE_CALL(cuMemcpyBatchAsync, room->dsts[i], room->srcs[i], room->sizes, count, &attributes,
               &first, 1, room->each[i]);
}

static void enqueue_batch(room *room, int i)
{
    enqueue_copies(room, i, BATCH);
}

static void enqueue_pair(room *room, int i)
{
    enqueue_copies(room, i, 2);
}

static void enqueue_most(room *room, int i)
{
    enqueue_copies(room, i, BATCH_MOST);
}

static const struct {
    const char *name;
    void (*enqueue)(room *room, int i);
} kinds[] = {
    {"copy", enqueue_copy},     {"copy-d2d", enqueue_copy_across}, {"wait", enqueue_wait},
    {"record", enqueue_record}, {"write", enqueue_write},          {"batch", enqueue_batch},
    {"batch-2", enqueue_pair},  {"batch-256", enqueue_most},
};

static void open_room(room *room, int streams)
{
    room->streams = streams;
    room->most = probe.is_smoke ? 2200 : 6000;
    room->user = probe_stream(gpu.lowest);
    room->stands = probe_stream(gpu.lowest);
    room->behind = probe_event(CU_EVENT_DISABLE_TIMING);
    room->outside = probe_event(CU_EVENT_DISABLE_TIMING);
    room->words = probe_pinned(STREAMS_MOST * sizeof *room->words);
    probe_other_open();
    for (int i = 0; i < streams; i++) {
        room->each[i] = streams == 1 ? room->user : probe_stream(gpu.lowest);
        room->records[i] = probe_event(CU_EVENT_DISABLE_TIMING);
        room->up[i] = probe_ends_make(PROBE_H2D, BATCH_MOST * COPY_BYTES);
        room->across[i] = probe_ends_make(PROBE_D2D, COPY_BYTES);
        for (size_t j = 0; j < BATCH_MOST; j++) {
            room->dsts[i][j] = room->up[i].dst + j * COPY_BYTES;
            room->srcs[i][j] = room->up[i].src + j * COPY_BYTES;
            room->sizes[j] = COPY_BYTES;
        }
        room->up[i].size_bytes = COPY_BYTES;
    }
}

static void hold_all(room *room)
{
    probe_hold(room->user);
    PROBE_CALL(cuEventRecord, room->behind, room->user);
    PROBE_CALL(cuStreamWaitEvent, room->stands, room->behind, CU_EVENT_WAIT_DEFAULT);
    PROBE_CALL(cuEventRecord, room->outside, room->stands);
    for (int i = 0; i < room->streams && room->streams > 1; i++)
        PROBE_CALL(cuStreamWaitEvent, room->each[i], room->behind, CU_EVENT_WAIT_DEFAULT);
}

static void tell_room(const char *shape, size_t taken, int64_t waited_ns, bool stood)
{
    if (waited_ns >= BLOCKED_NS)
        probe_row(shape, (double)taken, "calls", PROBE_YES, "the next waited %.0f ms",
                  (double)waited_ns / 1e6);
    else if (stood)
        probe_row(shape, (double)taken, "calls", PROBE_NO, "none waited");
    else
        probe_row(shape, (double)taken, "calls", PROBE_NONE, "the calls took until the hold's end");
}

/* The answer to "room" is whether a call waits; to "-other", whether another thread's did then. */
static void try_kind(room *room, size_t kind, const char *suffix)
{
    char shape[64];
    const char *call;
    size_t taken = 0;
    int64_t took_ns = 0;
    hold_all(room);
    probe_other_begin();
    size_t most = kinds[kind].enqueue == enqueue_batch || kinds[kind].enqueue == enqueue_most
                      ? room->most / 2
                      : room->most;
    while (taken < most && probe_hold_stands()) {
        int64_t begin_ns = bench_now_ns();
        kinds[kind].enqueue(room, (int)(taken % (size_t)room->streams));
        took_ns = bench_now_ns() - begin_ns;
        taken++;
    }
    int64_t longest_ns = probe_other_end(&call);
    bool stood = probe_hold_end();
    bool has_waited = !stood && took_ns >= BLOCKED_NS;
    if (has_waited)
        taken--;
    (void)snprintf(shape, sizeof shape, "%s%s", kinds[kind].name, suffix);
    tell_room(shape, taken, has_waited ? took_ns : 0, stood);
    (void)snprintf(shape, sizeof shape, "%s%s-other", kinds[kind].name, suffix);
    if (!has_waited)
        probe_row(shape, NAN, "", PROBE_NONE, "no call waited");
    else
        probe_row(shape, (double)longest_ns / 1e6, "ms",
                  longest_ns >= took_ns / 2 ? PROBE_YES : PROBE_NO, "of %s", call);
}

void probe_room(const probe_case *which)
{
    static room room;
    const char *suffix = which->name + sizeof "room" - 1; /* "-1stream-8conn" */
    probe_gpu_open();
    open_room(&room, which->variant);
    for (size_t kind = 0; kind < sizeof kinds / sizeof kinds[0]; kind++) {
        char shape[64];
        (void)snprintf(shape, sizeof shape, "%s%s", kinds[kind].name, suffix);
        if (kinds[kind].enqueue == enqueue_batch && driver.cuMemcpyBatchAsync == NULL)
            probe_row_absent(shape, "cuMemcpyBatchAsync");
        else if (kinds[kind].enqueue == enqueue_write && driver.cuStreamWriteValue32 == NULL)
            probe_row_absent(shape, "cuStreamWriteValue32");
        else
            try_kind(&room, kind, suffix);
    }
}
