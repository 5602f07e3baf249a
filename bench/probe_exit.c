/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exit: a process ends while a thread of it reads pinned words, as ferry's loop does, or asks the
 * driver too. What comes of it is seen by a parent.
 */
#include "bench/probe.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define LINGER_NS INT64_C(50000000)
#define WORDS 1024
#define CHILD_LIMIT_NS INT64_C(4000000000)

static uint32_t *words;
static CUevent asked; /* NULL: the driver is not asked */
static _Atomic uint64_t turns;
static _Atomic uint32_t sum; /* so that the reads are made */

static void *read_always(void *unused)
{
    (void)unused;
    for (;;) {
        for (size_t i = 0; i < WORDS; i++)
            sum += probe_word(&words[i]);
        if (asked != NULL)
            (void)driver.cuEventQuery(asked);
        turns++;
    }
    return NULL;
}

/* Registered before the driver is there, so it runs after the driver's: the thread reads on. */
static void linger(void)
{
    bench_spin_ns(LINGER_NS);
}

void probe_exit_body(const probe_case *which)
{
    pthread_t thread;
    if (atexit(linger) != 0)
        bench_fail("cannot register a function");
    probe_gpu_open();
    words = probe_pinned(WORDS * sizeof *words);
    if (which->variant != 0) {
        CUstream stream = probe_stream(0);
        asked = probe_event(CU_EVENT_DISABLE_TIMING);
        PROBE_CALL(cuEventRecord, asked, stream);
    }
    if (pthread_create(&thread, NULL, read_always, NULL) != 0)
        bench_fail("cannot start a thread");
    while (turns == 0)
        continue;
    exit(EXIT_SUCCESS);
}

void probe_exit(const probe_case *which)
{
    char how[64];
    int status;
    const char *body = which->variant != 0 ? "exit-body-query" : "exit-body";
    const char *shape = which->variant != 0 ? "words-and-query" : "words";
    int64_t begin_ns = bench_now_ns();
    probe_child child = probe_child_start(probe_case_find(body), false, false);
    bool is_by_itself = probe_child_end(&child, CHILD_LIMIT_NS, &status, how, sizeof how);
    probe_row(shape, (double)(bench_now_ns() - begin_ns) / 1e6, "ms",
              is_by_itself && status == 0 ? PROBE_YES : PROBE_NO, "%s", how);
}
