/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exit: a process ends while a thread of it reads pinned words, of the driver's memory, or of its
 * own that the driver pins, as ferry's loop does; or asks the driver too. What comes of it is seen
 * by a parent.
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

enum { DRIVERS, DRIVERS_AND_QUERY, OWN };

static const char *const shapes[] = {"words", "words-and-query", "own-words"};
static const char *const bodies[] = {"exit-body", "exit-body-query", "exit-body-own"};

static uint32_t own_words[WORDS] __attribute__((aligned(4096)));
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
    if (which->variant == OWN) {
        PROBE_CALL(cuMemHostRegister, own_words, sizeof own_words, CU_MEMHOSTREGISTER_PORTABLE);
        words = own_words;
    } else {
        words = probe_pinned(WORDS * sizeof *words);
    }
    if (which->variant == DRIVERS_AND_QUERY) {
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
    int64_t begin_ns = bench_now_ns();
    probe_child child = probe_child_start(probe_case_find(bodies[which->variant]), false, false);
    bool is_by_itself = probe_child_end(&child, CHILD_LIMIT_NS, &status, how, sizeof how);
    probe_row(shapes[which->variant], (double)(bench_now_ns() - begin_ns) / 1e6, "ms",
              is_by_itself && status == 0 ? PROBE_YES : PROBE_NO, "%s", how);
}
