/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hol: four streams each hold a copy that waits for an event of a held kernel, as ferry's parked
 * streams do; sixteen others each have a copy that is ready. Do those end while the first stand?
 * More streams than connections, so that some share one whatever the driver's way to deal them out.
 */
#include "bench/probe.h"

#include <stdio.h>
#include <string.h>

#define PARKED 4
#define READY 16
#define COPY_BYTES ((size_t)65536)
#define LIMIT_NS (PROBE_HOLD_NS / 3) /* what has not ended by then is held up */

typedef struct queues {
    CUstream user;
    CUevent behind;
    CUstream parked[PARKED];
    CUstream ready[READY];
} queues;

typedef struct copies {
    probe_ends parked[PARKED], ready[READY];
} copies;

static void open_queues(queues *queues, bool is_other_priority)
{
    queues->user = probe_stream(gpu.lowest);
    queues->behind = probe_event(CU_EVENT_DISABLE_TIMING);
    for (size_t i = 0; i < READY; i++) {
        if (i < PARKED)
            queues->parked[i] = probe_stream(gpu.lowest);
        queues->ready[i] = probe_stream(is_other_priority ? gpu.highest : gpu.lowest);
    }
}

static int count_stuck(const queues *queues)
{
    int stuck = 0;
    for (size_t i = 0; i < READY; i++)
        stuck += driver.cuStreamQuery(queues->ready[i]) == CUDA_ERROR_NOT_READY;
    return stuck;
}

/* The answer is whether all that were ready ended. */
static void try_pair(const queues *queues, const copies *parked, const copies *ready,
                     const char *shape)
{
    probe_hold_running(queues->user);
    PROBE_CALL(cuEventRecord, queues->behind, queues->user);
    for (size_t i = 0; i < PARKED; i++) {
        PROBE_CALL(cuStreamWaitEvent, queues->parked[i], queues->behind, CU_EVENT_WAIT_DEFAULT);
        probe_copy(&parked->parked[i], queues->parked[i]);
    }
    int64_t begin_ns = bench_now_ns(), took_ns;
    int stuck;
    for (size_t i = 0; i < READY; i++)
        probe_copy(&ready->ready[i], queues->ready[i]);
    do {
        stuck = count_stuck(queues);
        took_ns = bench_now_ns() - begin_ns;
    } while (stuck > 0 && took_ns < LIMIT_NS);
    bool was_held = driver.cuStreamQuery(queues->parked[0]) == CUDA_ERROR_NOT_READY;
    bool stood = probe_hold_end();
    if (!stood || !was_held)
        probe_row(shape, stuck, "copies", PROBE_NONE, "the kernel ended too early");
    else
        probe_row(shape, stuck, "copies", stuck == 0 ? PROBE_YES : PROBE_NO,
                  "held up, of %d; %.1f us", READY, (double)took_ns / 1e3);
}

void probe_head_of_line(const probe_case *which)
{
    static copies copies[PROBE_WAYS];
    static queues queues[2];
    const char *suffix = which->name + sizeof "hol" - 1; /* "-8conn" */
    probe_gpu_open();
    for (probe_way way = 0; way < PROBE_WAYS; way++) {
        for (size_t i = 0; i < PARKED; i++)
            copies[way].parked[i] = probe_ends_make(way, COPY_BYTES);
        for (size_t i = 0; i < READY; i++)
            copies[way].ready[i] = probe_ends_make(way, COPY_BYTES);
    }
    for (int is_other = 0; is_other < 2; is_other++) {
        open_queues(&queues[is_other], is_other);
        for (size_t i = 0; i < (size_t)PROBE_WAYS * PROBE_WAYS; i++) {
            size_t parked = i / PROBE_WAYS, ready = i % PROBE_WAYS;
            char shape[64];
            (void)snprintf(shape, sizeof shape, "%s-behind-%s-%s%s", probe_way_names[ready],
                           probe_way_names[parked], is_other ? "other" : "same", suffix);
            try_pair(&queues[is_other], &copies[parked], &copies[ready], shape);
        }
    }
}
