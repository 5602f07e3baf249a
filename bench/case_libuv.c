/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libuv: how long until a callback runs in a libuv loop, of an engine embedded in that loop as
 * examples/libuv_loop.c does it, against what libuv offers by itself.
 *   copy-SIZE  from the submit of a copy that a host worker does, against a thread that is handed a
 *              memcpy by mutex and condition and says so by uv_async_send
 *   promise    from just before another thread resolves a promise, against uv_async_send
 *   call       from the end of a function in libuv's pool, against uv_queue_work
 *   call-whole the same from the submit
 *   Ns-idle    how often the kernel runs the loop's thread or one of the engine's meanwhile, with
 *              nothing in flight
 * Rounds alternate; ferry's handles are out of the loop in its rival's. The loop's thread is pinned
 * to one CPU and whoever wakes it to another (case_wake.c says why); in `promise` and `call` the
 * kernel has said that the loop's thread sleeps, and before every round that the others do.
 */
#include "bench/bench.h"
#include "bench/procfs.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#define SETTLE_NS 20000 /* after the kernel says "sleeps", before the round goes on */
#define BLOCKS 21       /* a ratio is of the medians of a block */
#define MEMORY_MAX_BYTES ((size_t)1 << 20)

typedef enum worker_job {
    JOB_NONE,
    JOB_MEMCPY,
    JOB_SEND,
    JOB_RESOLVE,
    JOB_WATCH,
    JOB_END
} worker_job;

/* One loop and all that wakes it; one round at a time is under way. */
typedef struct libuv_bench {
    uv_loop_t loop;
    uv_prepare_t before_sleep;
    uv_poll_t readable;
    uv_idle_t awake;
    uv_async_t async;
    uv_work_t work;
    ferry_engine *engine;
    ferry_buffer *source, *target;
    ferry_executor pool;
    ferry_task *task;
    ferry_promise *promise;
    ferry_waiter waiters[2]; /* in turn: the last round's callback may not have returned */
    bench_threads wakers;
    bench_threads watched; /* the loop's and the engine's */
    int64_t watch_ns;
    uint64_t wakeups;
    pid_t loop_thread;
    pthread_t worker;
    pthread_mutex_t mutex;
    pthread_cond_t has_job;
    worker_job job; /* with the mutex */
    size_t size_bytes;
    bool waits_for_sleep; /* the function in the pool does, and says when it ends */
    bool is_embedded;
    bool work_is_busy; /* libuv has yet to give `work` back */
    bool is_done;
    unsigned round;
    int64_t start_ns; /* written before the wake that ends the round */
    int64_t called_ns;
} libuv_bench;

/* ---- ferry in libuv's loop ---- */

static void do_nothing(uv_idle_t *idle)
{
    (void)idle;
}

static void progress(uv_prepare_t *prepare)
{
    libuv_bench *bench = prepare->data;
    if (ferry_engine_progress(bench->engine, 0) > 0 ||
        ferry_engine_arm(bench->engine) == FERRY_E_BUSY)
        (void)uv_idle_start(&bench->awake, do_nothing);
    else
        (void)uv_idle_stop(&bench->awake);
}

static void wake_up(uv_poll_t *poll, int status, int events)
{
    (void)poll, (void)status, (void)events;
}

static void set_embedded(libuv_bench *bench, bool is_embedded)
{
    if (is_embedded == bench->is_embedded)
        return;
    bench->is_embedded = is_embedded;
    if (is_embedded) {
        (void)uv_prepare_start(&bench->before_sleep, progress);
        (void)uv_poll_start(&bench->readable, UV_READABLE, wake_up);
    } else {
        (void)uv_idle_stop(&bench->awake);
        (void)uv_prepare_stop(&bench->before_sleep);
        (void)uv_poll_stop(&bench->readable);
    }
    (void)uv_run(&bench->loop, UV_RUN_NOWAIT); /* tells the kernel of the descriptor */
}

static void run_task(uv_work_t *work)
{
    ferry_task_run(((libuv_bench *)work->data)->task);
}

static void on_task_gone(uv_work_t *work, int status)
{
    (void)status;
    ((libuv_bench *)work->data)->work_is_busy = false;
}

static void post(ferry_executor *executor, ferry_task *task)
{
    libuv_bench *bench = executor->arg;
    bench->task = task;
    bench->work_is_busy = true;
    if (uv_queue_work(&bench->loop, &bench->work, run_task, on_task_gone) != 0)
        bench_fail("libuv: uv_queue_work");
}

/* ---- the worker, and what ends a round ---- */

static void await_loop_sleep(libuv_bench *bench)
{
    bench_thread_await_sleep(bench->loop_thread);
    bench_spin_ns(SETTLE_NS);
    bench->start_ns = bench_now_ns();
}

static void watch(libuv_bench *bench)
{
    uint64_t before = bench_threads_switches(&bench->watched);
    bench_sleep_ns(bench->watch_ns);
    bench->wakeups = bench_threads_switches(&bench->watched) - before;
}

static void do_job(libuv_bench *bench, worker_job job)
{
    if (job == JOB_MEMCPY)
        memcpy(ferry_buffer_data(bench->target), ferry_buffer_data(bench->source),
               bench->size_bytes);
    else
        await_loop_sleep(bench);
    if (job == JOB_WATCH)
        watch(bench);
    if (job == JOB_RESOLVE)
        bench_check(ferry_promise_resolve(bench->promise, FERRY_OK, NULL), "libuv: resolve");
    else
        (void)uv_async_send(&bench->async);
}

static void *worker_main(void *arg)
{
    libuv_bench *bench = arg;
    for (;;) {
        (void)pthread_mutex_lock(&bench->mutex);
        while (bench->job == JOB_NONE)
            (void)pthread_cond_wait(&bench->has_job, &bench->mutex);
        worker_job job = bench->job;
        bench->job = JOB_NONE;
        (void)pthread_mutex_unlock(&bench->mutex);
        if (job == JOB_END)
            return NULL;
        do_job(bench, job);
    }
}

static void hand_over(libuv_bench *bench, worker_job job)
{
    (void)pthread_mutex_lock(&bench->mutex);
    bench->job = job;
    (void)pthread_mutex_unlock(&bench->mutex);
    (void)pthread_cond_signal(&bench->has_job);
}

static void end_round(libuv_bench *bench)
{
    bench->called_ns = bench_now_ns();
    bench->is_done = true;
}

static void on_async(uv_async_t *async)
{
    end_round(async->data);
}

static void on_work_done(uv_work_t *work, int status)
{
    (void)status;
    end_round(work->data);
}

static void on_ready(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)future;
    end_round(waiter->arg);
    bench_check(status, "libuv: operation");
}

/* ---- rounds ---- */

static void await_wakers_sleep(const libuv_bench *bench)
{
    for (size_t i = 0; i < bench->wakers.count; i++)
        bench_thread_await_sleep(bench->wakers.ids[i]);
}

static void begin_round(libuv_bench *bench, bool is_embedded)
{
    set_embedded(bench, is_embedded);
    await_wakers_sleep(bench);
    bench_spin_ns(SETTLE_NS);
    bench->is_done = false;
    bench->start_ns = bench_now_ns();
}

static double await_round_ns(libuv_bench *bench)
{
    while (!bench->is_done || bench->work_is_busy)
        (void)uv_run(&bench->loop, UV_RUN_ONCE);
    return (double)(bench->called_ns - bench->start_ns);
}

static double await_future_ns(libuv_bench *bench, ferry_future *future)
{
    ferry_waiter *waiter = &bench->waiters[bench->round++ % 2];
    *waiter = (ferry_waiter)FERRY_WAITER_INIT(on_ready, bench);
    bench_check(ferry_future_on_ready(future, waiter), "ferry_future_on_ready");
    ferry_future_release(future);
    return await_round_ns(bench);
}

static double ferry_copy_ns(libuv_bench *bench)
{
    begin_round(bench, true);
    return await_future_ns(
        bench, ferry_copy(bench->engine, (ferry_span){bench->target, 0, bench->size_bytes},
                          (ferry_span){bench->source, 0, bench->size_bytes}, NULL));
}

static double bare_copy_ns(libuv_bench *bench)
{
    begin_round(bench, false);
    hand_over(bench, JOB_MEMCPY);
    return await_round_ns(bench);
}

static double ferry_promise_ns(libuv_bench *bench)
{
    begin_round(bench, true);
    bench_check(ferry_promise_create(bench->engine, &bench->promise), "ferry_promise_create");
    ferry_future *future = ferry_promise_future(bench->promise);
    hand_over(bench, JOB_RESOLVE);
    double latency_ns = await_future_ns(bench, future);
    await_wakers_sleep(bench); /* who resolved it may be on its way back */
    ferry_promise_release(bench->promise);
    return latency_ns;
}

static double bare_async_ns(libuv_bench *bench)
{
    begin_round(bench, false);
    hand_over(bench, JOB_SEND);
    return await_round_ns(bench);
}

static ferry_status pool_function(void *arg)
{
    libuv_bench *bench = arg;
    if (bench->waits_for_sleep)
        await_loop_sleep(bench);
    return FERRY_OK;
}

static void pool_work(uv_work_t *work)
{
    (void)pool_function(work->data);
}

static double ferry_call_ns(libuv_bench *bench)
{
    begin_round(bench, true);
    return await_future_ns(bench,
                           ferry_call(bench->engine, &bench->pool, pool_function, bench, NULL));
}

static double bare_work_ns(libuv_bench *bench)
{
    begin_round(bench, false);
    if (uv_queue_work(&bench->loop, &bench->work, pool_work, on_work_done) != 0)
        bench_fail("libuv: uv_queue_work");
    return await_round_ns(bench);
}

typedef double (*round_fn)(libuv_bench *bench);

static void run_pair(libuv_bench *bench, const char *name, const char *rival, round_fn ferry_round,
                     round_fn rival_round, int rounds)
{
    bench_samples ferry = {0}, bare = {0}, ratio = {0};
    (void)ferry_round(bench);
    (void)rival_round(bench);
    for (int block = 0; block < BLOCKS; block++) {
        bench_samples ferry_block = {0}, bare_block = {0};
        for (int i = 0; i < rounds / BLOCKS; i++) {
            bench_samples_add(&ferry_block, ferry_round(bench));
            bench_samples_add(&bare_block, rival_round(bench));
        }
        for (size_t i = 0; i < ferry_block.count; i++) {
            bench_samples_add(&ferry, ferry_block.values[i]);
            bench_samples_add(&bare, bare_block.values[i]);
        }
        bench_samples_add(&ratio, bench_samples_quantile(&ferry_block, 0.5) /
                                      bench_samples_quantile(&bare_block, 0.5));
        bench_samples_free(&ferry_block);
        bench_samples_free(&bare_block);
    }
    bench_report((bench_key){"libuv", name, "latency_ns", ""}, &ferry);
    bench_report((bench_key){"libuv", name, "latency_ns", rival}, &bare);
    bench_report((bench_key){"libuv", name, "ratio", rival}, &ratio);
    bench_samples_free(&ferry);
    bench_samples_free(&bare);
    bench_samples_free(&ratio);
}

static void run_idle(libuv_bench *bench, bool is_quick)
{
    char name[32];
    bench->watch_ns = (is_quick ? 2 : 10) * INT64_C(1000000000);
    begin_round(bench, true);
    hand_over(bench, JOB_WATCH);
    (void)await_round_ns(bench);
    (void)snprintf(name, sizeof name, "%s-idle", is_quick ? "2s" : "10s");
    bench_report_value((bench_key){"libuv", name, "wakeups", ""}, (double)bench->wakeups);
}

/* ---- opening and closing ---- */

static void open_ferry(libuv_bench *bench)
{
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.loop = FERRY_LOOP_EMBEDDED;
    options.host_workers = 1;
    bench->engine = bench_engine_open(&options);
    bench->source = bench_buffer(bench->engine, "host:0", MEMORY_MAX_BYTES, 1);
    bench->target = bench_buffer(bench->engine, "host:1", MEMORY_MAX_BYTES, 0);
    bench->pool =
        (ferry_executor){.struct_size = sizeof(ferry_executor), .post = post, .arg = bench};
}

static void open_loop(libuv_bench *bench)
{
    if (uv_loop_init(&bench->loop) != 0 ||
        uv_prepare_init(&bench->loop, &bench->before_sleep) != 0 ||
        uv_idle_init(&bench->loop, &bench->awake) != 0 ||
        uv_async_init(&bench->loop, &bench->async, on_async) != 0 ||
        uv_poll_init(&bench->loop, &bench->readable, ferry_engine_fd(bench->engine)) != 0)
        bench_fail("libuv: no loop");
    bench->before_sleep.data = bench->async.data = bench->work.data = bench;
    bench->loop_thread = gettid();
}

/* Before any thread is pinned, so that none inherits another's CPU. */
static void open_threads(libuv_bench *bench)
{
    if (pthread_mutex_init(&bench->mutex, NULL) != 0 ||
        pthread_cond_init(&bench->has_job, NULL) != 0 ||
        pthread_create(&bench->worker, NULL, worker_main, bench) != 0)
        bench_fail("libuv: no thread");
    /* libuv starts its pool with the first work; one thread is enough for one work at a time. */
    (void)setenv("UV_THREADPOOL_SIZE", "1", 0);
    (void)bare_work_ns(bench);
}

static void close_handle(uv_handle_t *handle, void *unused)
{
    (void)unused;
    uv_close(handle, NULL);
}

static void close_all(libuv_bench *bench)
{
    hand_over(bench, JOB_END);
    (void)pthread_join(bench->worker, NULL);
    (void)pthread_cond_destroy(&bench->has_job);
    (void)pthread_mutex_destroy(&bench->mutex);
    uv_walk(&bench->loop, close_handle, NULL);
    (void)uv_run(&bench->loop, UV_RUN_DEFAULT);
    if (uv_loop_close(&bench->loop) != 0)
        bench_fail("libuv: something is left in the loop");
    ferry_buffer_release(bench->source);
    ferry_buffer_release(bench->target);
    bench_engine_close(bench->engine);
}

static void run_copies(libuv_bench *bench, int rounds)
{
    static const size_t sizes_bytes[] = {(size_t)16 << 10, (size_t)256 << 10, MEMORY_MAX_BYTES};
    for (size_t i = 0; i < sizeof sizes_bytes / sizeof sizes_bytes[0]; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "copy-%zuKiB", sizes_bytes[i] >> 10);
        bench->size_bytes = sizes_bytes[i];
        run_pair(bench, name, "uv_async", ferry_copy_ns, bare_copy_ns, rounds);
    }
}

void bench_libuv(bool is_quick)
{
    int rounds = is_quick ? 20 * BLOCKS : 200 * BLOCKS;
    bench_threads others;
    bench_threads_list(&others);
    libuv_bench bench = {0};
    open_ferry(&bench);
    open_loop(&bench);
    bench_threads_list(&bench.watched);
    bench_threads_subtract(&bench.watched, &others);
    bench.watched.ids[bench.watched.count++] = bench.loop_thread;
    open_threads(&bench);
    bench_threads_list(&bench.wakers);
    bench_threads_subtract(&bench.wakers, &others);
    cpu_set_t allowed = bench_cpus_allowed();
    bench_thread_pin(0, &allowed, 0);
    for (size_t i = 0; i < bench.wakers.count; i++)
        bench_thread_pin(bench.wakers.ids[i], &allowed, 1);

    run_copies(&bench, rounds);
    run_pair(&bench, "promise", "uv_async", ferry_promise_ns, bare_async_ns, rounds);
    run_pair(&bench, "call-whole", "uv_queue_work", ferry_call_ns, bare_work_ns, rounds);
    bench.waits_for_sleep = true;
    run_pair(&bench, "call", "uv_queue_work", ferry_call_ns, bare_work_ns, rounds);
    run_idle(&bench, is_quick);

    (void)sched_setaffinity(0, sizeof allowed, &allowed);
    close_all(&bench);
}
