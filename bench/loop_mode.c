/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/loop_mode.h"

#include <ev.h>
#include <poll.h>

const char *bench_loop_mode_name(bench_loop_mode mode)
{
    static const char *const names[] = {"thread", "embedded", "attached"};
    return names[mode];
}

static void *embedded_main(void *arg)
{
    bench_loop *loop = arg;
    struct pollfd readable = {.fd = ferry_engine_fd(loop->engine), .events = POLLIN};
    while (!atomic_load(&loop->is_stopping)) {
        if (ferry_engine_progress(loop->engine, 0) > 0)
            continue;
        if (ferry_engine_arm(loop->engine) == FERRY_OK && poll(&readable, 1, -1) < 0)
            bench_fail("poll");
    }
    return NULL;
}

static void *attached_main(void *arg)
{
    (void)ev_run(((bench_loop *)arg)->ev_loop, 0); /* until the engine has left it */
    return NULL;
}

void bench_loop_open(bench_loop *loop, bench_loop_mode mode)
{
    static const ferry_loop_mode modes[] = {FERRY_LOOP_THREAD, FERRY_LOOP_EMBEDDED,
                                            FERRY_LOOP_ATTACHED};
    *loop = (bench_loop){.mode = mode};
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.loop = modes[mode];
    if (mode == BENCH_LOOP_ATTACHED) {
        loop->ev_loop = ev_loop_new(EVFLAG_AUTO);
        if (loop->ev_loop == NULL)
            bench_fail("no libev loop");
        options.ev_loop = loop->ev_loop;
    }
    loop->engine = bench_engine_open(&options);
    void *(*const mains[])(void *) = {NULL, embedded_main, attached_main};
    if (mode != BENCH_LOOP_THREAD && pthread_create(&loop->thread, NULL, mains[mode], loop) != 0)
        bench_fail("no thread for a loop");
}

static void stop(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)future, (void)status;
    atomic_store(&((bench_loop *)waiter->arg)->is_stopping, true);
}

void bench_loop_close(bench_loop *loop)
{
    if (loop->mode == BENCH_LOOP_EMBEDDED) {
        loop->stopper = (ferry_waiter)FERRY_WAITER_INIT(stop, loop);
        ferry_future *last = ferry_nop(loop->engine, NULL);
        bench_check(ferry_future_on_ready(last, &loop->stopper), "ferry_future_on_ready");
        ferry_future_release(last);
        (void)pthread_join(loop->thread, NULL);
    }
    bench_engine_close(loop->engine);
    if (loop->mode == BENCH_LOOP_ATTACHED) {
        (void)pthread_join(loop->thread, NULL);
        ev_loop_destroy(loop->ev_loop);
    }
}
