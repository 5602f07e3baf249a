/* SPDX-License-Identifier: Apache-2.0 */
/*
 * await: what `co_await future` costs beside a waiter with a callback. Both make a promise, wait
 * for its future, and go on when it has been resolved, on the loop of an embedded engine. Blocks of
 * the two alternate; `over` is the difference of two blocks next to each other, for one future.
 */
#include "bench/await.h"

#include "bench/bench.h"

#define BLOCK 512

typedef struct callback_run {
    bench_await_run run; /* first: its address is the whole's */
    ferry_waiter waiter;
} callback_run;

static void await_next(callback_run *self);

static void on_ready(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)future;
    callback_run *self = waiter->arg;
    bench_check(status, "await: promise");
    if (--self->run.left > 0)
        await_next(self);
}

static void await_next(callback_run *self)
{
    bench_check(ferry_promise_create(self->run.engine, &self->run.promise), "promise_create");
    ferry_future *future = ferry_promise_future(self->run.promise);
    self->waiter = (ferry_waiter)FERRY_WAITER_INIT(on_ready, self);
    bench_check(ferry_future_on_ready(future, &self->waiter), "future_on_ready");
    ferry_future_release(future);
}

static void await_with_callback(bench_await_run *run)
{
    await_next((callback_run *)(void *)run);
}

static double block_ns(ferry_engine *engine, void (*begin)(bench_await_run *run))
{
    callback_run self = {.run = {.engine = engine, .left = BLOCK}};
    int64_t start_ns = bench_now_ns();
    begin(&self.run);
    while (self.run.left > 0) {
        size_t left = self.run.left;
        ferry_promise *promise = self.run.promise;
        bench_check(ferry_promise_resolve(promise, FERRY_OK, NULL), "promise_resolve");
        ferry_promise_release(promise);
        while (self.run.left == left)
            (void)ferry_engine_progress(engine, 0);
    }
    return (double)(bench_now_ns() - start_ns) / BLOCK;
}

void bench_await(bool is_quick)
{
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.loop = FERRY_LOOP_EMBEDDED;
    ferry_engine *engine = bench_engine_open(&options);
    bench_samples callback = {0}, coroutine = {0}, over = {0};
    int blocks = is_quick ? 200 : 4000;
    for (int i = -blocks / 10; i < blocks; i++) {
        double callback_ns = block_ns(engine, await_with_callback);
        double coroutine_ns = block_ns(engine, bench_await_in_coroutine);
        if (i < 0)
            continue; /* warm-up */
        bench_samples_add(&callback, callback_ns);
        bench_samples_add(&coroutine, coroutine_ns);
        bench_samples_add(&over, coroutine_ns - callback_ns);
    }
    bench_report((bench_key){"await", "callback", "latency_ns", ""}, &callback);
    bench_report((bench_key){"await", "coroutine", "latency_ns", ""}, &coroutine);
    bench_report((bench_key){"await", "over", "latency_ns", ""}, &over);
    bench_samples_free(&callback);
    bench_samples_free(&coroutine);
    bench_samples_free(&over);
    bench_engine_close(engine);
}
