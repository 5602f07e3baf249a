/* SPDX-License-Identifier: Apache-2.0 */
/* Who waits for futures, one after the other, in bench_await: a callback, or a coroutine. */
#ifndef FRY_BENCH_AWAIT_H
#define FRY_BENCH_AWAIT_H

#include <ferry/ferry.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bench_await_run {
    ferry_engine *engine;   /* embedded */
    ferry_promise *promise; /* of the future that is awaited now; the other side resolves it */
    size_t left;            /* futures to await, that one among them */
} bench_await_run;

/* Begins to await so many futures in a coroutine. Returns when it waits for the first. */
void bench_await_in_coroutine(bench_await_run *run);

#ifdef __cplusplus
}
#endif

#endif
