/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ferry in a libuv loop, with libuv's thread pool as executor. A prepare handle makes ferry's
 * progress, and arms ferry before libuv sleeps; a poll handle on ferry's descriptor ends that
 * sleep. A timer starts a transfer every few milliseconds: numbers are copied to another device and
 * added up in the pool, and a callback in the loop's thread gets their sum.
 */
#define _DEFAULT_SOURCE /* what uv.h needs of the system, also with -std=c11 */
#include <ferry/ferry.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

enum { TRANSFERS = 10, PERIOD_MS = 2, COUNT = 100000, SIZE_BYTES = COUNT * sizeof(size_t) };

typedef struct transfer {
    ferry_buffer *target;
    size_t sum;
    ferry_waiter waiter;
} transfer;

static uv_loop_t loop;
static uv_prepare_t before_sleep;
static uv_poll_t readable;
static uv_idle_t awake;
static uv_timer_t timer;
static pthread_t loop_thread;
static ferry_engine *engine;
static ferry_buffer *source;
static transfer transfers[TRANSFERS];
static size_t started, ended, right;

static void do_nothing(uv_idle_t *idle)
{
    (void)idle; /* libuv does not sleep while it is active */
}

static void close_handle(uv_handle_t *handle, void *unused)
{
    uv_close(handle, unused);
}

/* One round of ferry in each round of libuv, so that neither starves the other. */
static void progress(uv_prepare_t *prepare)
{
    int64_t done = ferry_engine_progress(engine, 0);
    if (ended == TRANSFERS)
        uv_walk(prepare->loop, close_handle, NULL);
    else if (done > 0 || ferry_engine_arm(engine) == FERRY_E_BUSY)
        uv_idle_start(&awake, do_nothing);
    else
        uv_idle_stop(&awake);
}

static void wake_up(uv_poll_t *poll, int status, int events)
{
    (void)poll, (void)status, (void)events; /* progress comes before the next sleep */
}

typedef struct pool_work {
    uv_work_t work; /* first: its address is the whole's */
    ferry_task *task;
} pool_work;

static void run_task(uv_work_t *work)
{
    ferry_task_run(((pool_work *)work)->task);
}

static void free_work(uv_work_t *work, int status)
{
    (void)status;
    free(work);
}

/* In the thread that makes ferry's progress: the loop's, which alone may call uv_queue_work. */
static void post(ferry_executor *executor, ferry_task *task)
{
    pool_work *posted = malloc(sizeof *posted);
    if (posted == NULL) {
        ferry_task_run(task); /* posting can't fail */
        return;
    }
    posted->task = task;
    uv_queue_work(executor->arg, &posted->work, run_task, free_work);
}

static ferry_status add_up(void *arg)
{
    transfer *self = arg;
    const size_t *numbers = ferry_buffer_data(self->target);
    for (size_t i = 0; i < COUNT; i++)
        self->sum += numbers[i];
    return pthread_equal(pthread_self(), loop_thread) ? FERRY_E_FAILED : FERRY_OK;
}

static void finish(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)future;
    transfer *self = waiter->arg;
    size_t first = (size_t)(self - transfers) * COUNT, last = first + COUNT - 1;
    right += status == FERRY_OK && self->sum == (first + last) * COUNT / 2 &&
             pthread_equal(pthread_self(), loop_thread);
    printf("%s: %zu to %zu make %zu\n", ferry_status_name(status), first, last, self->sum);
    ferry_buffer_release(self->target);
    ended++;
}

static void start(uv_timer_t *ticking)
{
    static ferry_executor pool = {sizeof pool, post, &loop};
    transfer *self = &transfers[started];
    ferry_buffer_alloc(ferry_device_at(engine, 1), SIZE_BYTES, &self->target);
    ferry_span slice = {source, started * SIZE_BYTES, SIZE_BYTES};
    ferry_access reads = {ferry_buffer_span(self->target), FERRY_READ};
    ferry_future_release(ferry_copy(engine, reads.span, slice, NULL));
    ferry_op_options options = {sizeof options, .accesses = &reads, .access_count = 1};
    ferry_future *added = ferry_call(engine, &pool, add_up, self, &options);
    self->waiter = (ferry_waiter)FERRY_WAITER_INIT(finish, self);
    ferry_future_on_ready(added, &self->waiter);
    ferry_future_release(added);
    if (++started == TRANSFERS)
        uv_timer_stop(ticking);
}

int main(void)
{
    ferry_engine_options options = {sizeof options, .loop = FERRY_LOOP_EMBEDDED};
    if (uv_loop_init(&loop) != 0 || ferry_engine_create(&options, &engine, NULL) != FERRY_OK ||
        ferry_buffer_alloc(ferry_device_at(engine, 0), TRANSFERS * SIZE_BYTES, &source) != FERRY_OK)
        return 1;
    for (size_t i = 0; i < TRANSFERS * COUNT; i++)
        ((size_t *)ferry_buffer_data(source))[i] = i;

    loop_thread = pthread_self();
    uv_prepare_init(&loop, &before_sleep);
    uv_prepare_start(&before_sleep, progress);
    uv_idle_init(&loop, &awake);
    uv_timer_init(&loop, &timer);
    uv_timer_start(&timer, start, PERIOD_MS, PERIOD_MS);
    if (uv_poll_init(&loop, &readable, ferry_engine_fd(engine)) != 0 ||
        uv_poll_start(&readable, UV_READABLE, wake_up) != 0)
        return 1;
    uv_run(&loop, UV_RUN_DEFAULT);
    ferry_buffer_release(source);
    ferry_engine_release(engine);
    printf("%zu of %d transfers are right\n", right, TRANSFERS);
    return right == TRANSFERS && uv_loop_close(&loop) == 0 ? 0 : 1;
}
