/* SPDX-License-Identifier: Apache-2.0 */
/*
 * teller: a stream of its own could wait for a copy's event and then write the copy's word, which
 * costs the copy's stream nothing (bubble). It would wait as long as the copy takes, in one of the
 * hardware's few queues. So:
 *
 * words-behind-W    sixteen streams of the program wait for a held kernel, each with a kernel or a
 *                   copy behind that; do the words of sixteen ready copies come meanwhile?
 * W-behind-tellers  sixteen tellers wait for a held kernel; do kernels or copies that are ready, in
 *                   sixteen streams, end meanwhile?
 *
 * Tellers have the highest priority and the program's streams the lowest ("other"), or all the
 * lowest ("same").
 */
#include "bench/probe.h"

#include <stdio.h>
#include <string.h>

#define STREAMS 16
#define COPY_BYTES ((size_t)65536)
#define LIMIT_NS (PROBE_HOLD_NS / 3) /* what has not ended by then is held up */
#define KERNEL PROBE_WAYS            /* beside the ways of a copy */

typedef struct teller_bench {
    CUstream user;
    CUevent behind;
    CUstream theirs[STREAMS], mains[STREAMS], tellers[STREAMS];
    CUevent copied[STREAMS];
    probe_ends ends[PROBE_WAYS][STREAMS], more[STREAMS];
    CUdeviceptr filled;
    uint32_t *words; /* a cache line each */
    uint32_t round;
} teller_bench;

static uint32_t *word_of(const teller_bench *bench, size_t i)
{
    return bench->words + i * 16;
}

static void open_bench(teller_bench *bench, bool is_other_priority)
{
    int priority = is_other_priority ? gpu.highest : gpu.lowest;
    bench->user = probe_stream(gpu.lowest);
    bench->behind = probe_event(CU_EVENT_DISABLE_TIMING);
    bench->filled = probe_memory(STREAMS * sizeof(uint32_t));
    bench->words = probe_pinned(STREAMS * 64);
    for (size_t i = 0; i < STREAMS; i++) {
        bench->theirs[i] = probe_stream(gpu.lowest);
        bench->mains[i] = probe_stream(priority);
        bench->tellers[i] = probe_stream(priority);
        bench->copied[i] = probe_event(CU_EVENT_DISABLE_TIMING);
        bench->more[i] = probe_ends_make(PROBE_D2H, COPY_BYTES);
        for (int way = 0; way < PROBE_WAYS; way++)
            bench->ends[way][i] = probe_ends_make((probe_way)way, COPY_BYTES);
    }
}

/* A kernel, or a copy, in the program's stream. */
static void put_work(const teller_bench *bench, int what, size_t i)
{
    if (what == KERNEL)
        probe_fill(bench->filled + i * sizeof(uint32_t), 1, bench->theirs[i]);
    else
        probe_copy(&bench->ends[what][i], bench->theirs[i]);
}

static void put_told_copy(const teller_bench *bench, size_t i)
{
    probe_copy(&bench->more[i], bench->mains[i]);
    PROBE_CALL(cuEventRecord, bench->copied[i], bench->mains[i]);
    PROBE_CALL(cuStreamWaitEvent, bench->tellers[i], bench->copied[i], CU_EVENT_WAIT_DEFAULT);
    probe_write(bench->tellers[i], word_of(bench, i), bench->round);
}

static int count_missing_words(const teller_bench *bench, int what)
{
    int missing = 0;
    (void)what;
    for (size_t i = 0; i < STREAMS; i++)
        missing += probe_word(word_of(bench, i)) != bench->round;
    return missing;
}

static int count_stuck_work(const teller_bench *bench, int what)
{
    int stuck = 0;
    (void)what;
    for (size_t i = 0; i < STREAMS; i++)
        stuck += driver.cuStreamQuery(bench->theirs[i]) == CUDA_ERROR_NOT_READY;
    return stuck;
}

typedef int (*count_stuck)(const teller_bench *bench, int what);

static void judge(const teller_bench *bench, count_stuck count, int what, const char *shape)
{
    int64_t begin_ns = bench_now_ns(), took_ns;
    int stuck;
    do {
        stuck = count(bench, what);
        took_ns = bench_now_ns() - begin_ns;
    } while (stuck > 0 && took_ns < LIMIT_NS);
    if (!probe_hold_end())
        probe_row(shape, stuck, "", PROBE_NONE, "the kernel ended too early");
    else
        probe_row(shape, stuck, "", stuck == 0 ? PROBE_YES : PROBE_NO, "held up, of %d; %.1f us",
                  STREAMS, (double)took_ns / 1e3);
}

static void try_words(teller_bench *bench, int what, const char *shape)
{
    bench->round++;
    probe_hold_running(bench->user);
    PROBE_CALL(cuEventRecord, bench->behind, bench->user);
    for (size_t i = 0; i < STREAMS; i++) {
        PROBE_CALL(cuStreamWaitEvent, bench->theirs[i], bench->behind, CU_EVENT_WAIT_DEFAULT);
        put_work(bench, what, i);
    }
    for (size_t i = 0; i < STREAMS; i++)
        put_told_copy(bench, i);
    judge(bench, count_missing_words, what, shape);
}

static void try_work(teller_bench *bench, int what, const char *shape)
{
    bench->round++;
    probe_hold_running(bench->user);
    PROBE_CALL(cuEventRecord, bench->behind, bench->user);
    for (size_t i = 0; i < STREAMS; i++) {
        PROBE_CALL(cuStreamWaitEvent, bench->tellers[i], bench->behind, CU_EVENT_WAIT_DEFAULT);
        probe_write(bench->tellers[i], word_of(bench, i), bench->round);
    }
    for (size_t i = 0; i < STREAMS; i++)
        put_work(bench, what, i);
    judge(bench, count_stuck_work, what, shape);
}

void probe_teller(const probe_case *which)
{
    static teller_bench benches[2];
    const char *suffix = which->name + sizeof "teller" - 1; /* "-8conn" */
    probe_gpu_open();
    for (int is_other = 0; is_other < 2; is_other++) {
        open_bench(&benches[is_other], is_other);
        for (int what = 0; what <= KERNEL; what++) {
            const char *name = what == KERNEL ? "kernel" : probe_way_names[what];
            const char *priority = is_other ? "other" : "same";
            char shape[64];
            (void)snprintf(shape, sizeof shape, "words-behind-%s-%s%s", name, priority, suffix);
            try_words(&benches[is_other], what, shape);
            (void)snprintf(shape, sizeof shape, "%s-behind-tellers-%s%s", name, priority, suffix);
            try_work(&benches[is_other], what, shape);
        }
    }
}
