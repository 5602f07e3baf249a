/* SPDX-License-Identifier: Apache-2.0 */
/* Engines whose loop is run by whoever the mode says. */
#ifndef FRY_BENCH_LOOP_MODE_H
#define FRY_BENCH_LOOP_MODE_H

#include "bench/bench.h"

#include <pthread.h>
#include <stdatomic.h>

typedef enum bench_loop_mode {
    BENCH_LOOP_THREAD,   /* the engine's own thread */
    BENCH_LOOP_EMBEDDED, /* a thread of the bench's, in poll */
    BENCH_LOOP_ATTACHED, /* a thread of the bench's, in libev */
    BENCH_LOOP_MODE_COUNT,
} bench_loop_mode;

typedef struct bench_loop {
    ferry_engine *engine;
    bench_loop_mode mode;
    pthread_t thread;
    struct ev_loop *ev_loop;
    ferry_waiter stopper;
    atomic_bool is_stopping;
} bench_loop;

const char *bench_loop_mode_name(bench_loop_mode mode);

/* Fail the bench where they can't. `loop` stays in place until it is closed. */
void bench_loop_open(bench_loop *loop, bench_loop_mode mode);
void bench_loop_close(bench_loop *loop);

#endif
