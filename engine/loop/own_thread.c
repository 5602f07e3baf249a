/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine's own thread: it has the loop's role for good, and sleeps on the poller itself. It
 * uses nothing of libev, so with nothing in flight it never wakes.
 */
#include "engine/loop/own_thread.h"

#include "base/futex.h"
#include "engine/engine.h"
#include "engine/ground/callbacks.h"
#include "engine/loop/late.h"
#include "engine/loop/loop.h"

#include <sched.h>
#include <signal.h>

#define BACK_OFF_PAUSES 64
#define BACK_OFFS_BEFORE_YIELD 4

static void spin(ferry_engine *engine)
{
    int64_t end_ns = fry_clock_monotonic_ns() + engine->spin_ns;
    do {
        for (int i = 0; i < 16; i++) {
            if (fry_tick(engine, FRY_TICK_BUDGET, true) != 0)
                end_ns = fry_clock_monotonic_ns() + engine->spin_ns;
            fry_pause();
        }
    } while (fry_clock_monotonic_ns() < end_ns && fry_load_relaxed(&engine->closing) == 0);
}

/*
 * Another thread works on the graph, with the nodes in its cache. The loop looks away for a while:
 * if it watched the baton, it would take it in the middle of that work, and everything would move
 * to this core. Or the baton's holder has lost its CPU, perhaps to this thread, and would not get
 * it back before the end of the scheduler's slice.
 */
static void back_off(int times)
{
    for (int i = 0; i < BACK_OFF_PAUSES; i++)
        fry_pause();
    if (times >= BACK_OFFS_BEFORE_YIELD)
        (void)sched_yield();
}

static void *loop_thread(void *arg)
{
    ferry_engine *engine = arg;
    (void)fry_baton_take(&engine->role); /* for good */
    for (int times = 0;;) {
        if (fry_tick(engine, FRY_TICK_BUDGET, true) != 0) {
            times = 0;
            continue;
        }
        if (fry_unlikely(fry_load_relaxed(&engine->closing) != 0) && fry_loop_try_stop(engine))
            break;
        if (engine->spin_ns != 0)
            spin(engine);
        if (fry_arm(engine) && !fry_is_due(engine) && !fry_callbacks_are_due(engine)) {
            (void)fry_poller_wait(&engine->poller, -1);
            times = 0;
        } else {
            back_off(times++);
        }
        fry_disarm(engine);
    }
    fry_baton_give(&engine->role);
    fry_late_work(engine); /* work that came between the last look and this give */
    fry_store_seq_cst(&engine->stopped, 1);
    fry_futex_wake(&engine->stopped, INT32_MAX);
    return NULL;
}

ferry_status fry_own_thread_start(ferry_engine *engine)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&engine->thread, NULL, loop_thread, engine);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed != 0)
        return FERRY_E_SYSTEM;
    (void)pthread_setname_np(engine->thread, "ferry-loop");
    engine->has_thread = true;
    return FERRY_OK;
}

bool fry_own_thread_end(ferry_engine *engine, int64_t end_ns)
{
    while (fry_load_acquire(&engine->stopped) == 0) {
        int64_t left_ns = fry_clock_left_ns(end_ns);
        if (left_ns == 0)
            return false;
        fry_futex_wait(&engine->stopped, 0, left_ns);
    }
    if (engine->has_thread)
        (void)pthread_join(engine->thread, NULL); /* it runs no user code any more */
    engine->has_thread = false;
    return true;
}
