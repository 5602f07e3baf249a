/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Embedded mode: the user's threads are the loop. One at a time holds its role: whoever calls
 * ferry_engine_progress, or waits for a future.
 *
 * Several threads may wait at once. The one that has the role sleeps on the poller; a waiter of its
 * own on the future writes the eventfd when another thread resolves it. The others park on their
 * futures. Who gives the role back hands it to one of those: it gives, then looks at the list; they
 * list themselves and mark the future parked, then try the role, then sleep; so either the try
 * succeeds or the nudge, which clears the mark and wakes, finds them (the argument of
 * base/baton.h).
 */
#include "engine/graph.h"

#include <poll.h>

typedef struct fry_embedded_waiter {
    struct fry_embedded_waiter *next;
    ferry_future *future;
} fry_embedded_waiter;

static bool may_progress(const ferry_engine *engine)
{
    return fry_engine_check(engine) == FERRY_OK && engine->embedded &&
           fry_callback_engine != engine;
}

/* Gives the role back and has every parked thread try for it: one alone might be leaving, its own
 * future resolved, and take the hand-over with it. */
static void role_give(ferry_engine *engine)
{
    fry_baton_give(&engine->role);
    if (fry_load_seq_cst(&engine->embedded_waiters) == NULL)
        return;
    (void)pthread_mutex_lock(&engine->cold);
    for (fry_embedded_waiter *waiter = engine->embedded_waiters; waiter != NULL;
         waiter = waiter->next)
        fry_future_nudge(waiter->future);
    (void)pthread_mutex_unlock(&engine->cold);
}

size_t ferry_engine_progress(ferry_engine *engine, size_t budget)
{
    if (!may_progress(engine) || !fry_baton_take(&engine->role))
        return 0;
    engine->user_armed = false;
    fry_disarm(engine);
    (void)fry_poller_wait(&engine->poller, 0);
    size_t done = fry_tick(engine, budget == 0 ? FRY_TICK_BUDGET : budget, true);
    role_give(engine);
    return done;
}

ferry_status ferry_engine_arm(ferry_engine *engine)
{
    ferry_status status = fry_engine_check(engine);
    if (status != FERRY_OK)
        return status;
    if (!engine->embedded)
        return FERRY_E_INVALID;
    if (fry_callback_engine == engine || !fry_baton_take(&engine->role))
        return FERRY_E_BUSY;
    /* One that has stopped has nothing more to wake for. */
    bool armed = fry_load_relaxed(&engine->asleep) == FRY_STOPPED || fry_arm(engine, true);
    engine->user_armed = armed;
    role_give(engine);
    return armed ? FERRY_OK : FERRY_E_BUSY;
}

int64_t ferry_engine_timeout_ns(const ferry_engine *given)
{
    ferry_engine *engine = (ferry_engine *)(uintptr_t)given; /* only its baton is written */
    if (!may_progress(engine))
        return -1;
    fry_context *context = fry_context_get(engine);
    fry_turn turn;
    if (context == NULL || !fry_turn_begin(&turn, engine, context, false))
        return 0;
    bool work = fry_graph_has_work(engine) || !fry_ready_queue_is_empty(&engine->calls);
    int64_t timer_ns = fry_next_timer_ns(engine);
    (void)fry_turn_end(&turn, 1);
    if (work || fry_has_callbacks(engine) || fry_load_relaxed(&engine->has_due) != 0 ||
        fry_load_acquire(&engine->requests.top) != NULL)
        return 0;
    if (timer_ns == INT64_MAX)
        return -1;
    int64_t now_ns = fry_clock_now_ns(&engine->clock);
    return timer_ns > now_ns ? timer_ns - now_ns : 0;
}

int ferry_engine_fd(const ferry_engine *engine)
{
    return fry_engine_check(engine) == FERRY_OK ? engine->poller.epoll_fd : -1;
}

/* ---- waiting ---- */

void fry_waiter_is_embedded(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)waiter, (void)future,
        (void)status; /* never called: fry_fire_waiter knows it by address */
}

static int64_t sooner_ns(int64_t left_ns, int64_t right_ns)
{
    return left_ns < 0          ? right_ns
           : right_ns < 0       ? left_ns
           : left_ns < right_ns ? left_ns
                                : right_ns;
}

/* With the role: sleeps until there is something to do or the future is resolved by another thread.
 */
static void role_sleep(ferry_engine *engine, ferry_future *future, int64_t timeout_ns)
{
    ferry_waiter waiter = FERRY_WAITER_INIT(fry_waiter_is_embedded, NULL);
    waiter.private_.state = 1;
    if (!fry_future_add_waiter(future, &waiter))
        return;
    if (fry_arm(engine, false)) {
        /* Who fired the waiter before this thread was known to sleep did not wake it. The arm's
         * fence pairs with the one in fry_fire_waiter. */
        bool fired = fry_load_relaxed(&waiter.private_.state) == 0;
        int64_t sleep_ns = fired ? 0 : timeout_ns;
        if (!engine->clock.is_real) /* nobody but its owner knows when it will say what */
            sleep_ns = sooner_ns(sleep_ns, 1000000);
        struct pollfd readable = {.fd = engine->poller.epoll_fd, .events = POLLIN};
        struct timespec relative = {.tv_sec = sleep_ns / 1000000000,
                                    .tv_nsec = sleep_ns % 1000000000};
        (void)ppoll(&readable, 1, sleep_ns < 0 ? NULL : &relative, NULL);
        fry_disarm(engine);
        (void)fry_poller_wait(&engine->poller, 0);
    }
    if (fry_future_remove_waiter(future, &waiter))
        return;
    while (fry_load_acquire(&waiter.private_.state) != 0) /* about to be fired */
        fry_pause();
}

/* Without the role: sleeps until the future is resolved or the role is free. */
static void parked_sleep(ferry_engine *engine, ferry_future *future, int64_t timeout_ns)
{
    fry_embedded_waiter self = {.future = future};
    (void)pthread_mutex_lock(&engine->cold);
    self.next = engine->embedded_waiters;
    fry_store_seq_cst(&engine->embedded_waiters, &self);
    (void)pthread_mutex_unlock(&engine->cold);

    uint32_t key;
    if (fry_future_prepare_park(future, &key)) {
        if (fry_baton_take(&engine->role))
            role_give(engine); /* free: the caller tries again, and so do the others */
        else
            fry_future_commit_park(future, key, timeout_ns);
    }
    (void)pthread_mutex_lock(&engine->cold);
    fry_embedded_waiter **at = &engine->embedded_waiters;
    while (*at != &self)
        at = &(*at)->next;
    fry_store_seq_cst(at, self.next);
    (void)pthread_mutex_unlock(&engine->cold);
}

/*
 * The user's loop may sleep on the descriptor meanwhile. What was to wake it has been taken by the
 * waiting thread, and callbacks are left for it: wakes it, or arms the descriptor again.
 */
static void rearm_for_user(ferry_engine *engine)
{
    if (engine->user_armed && fry_load_relaxed(&engine->asleep) != FRY_STOPPED &&
        !fry_arm(engine, true))
        fry_poller_wake(&engine->poller);
}

ferry_status fry_wait_embedded(ferry_engine *engine, ferry_future *future, int64_t timeout_ns)
{
    int64_t start_ns = fry_clock_monotonic_ns();
    while (!fry_future_is_resolved(future)) {
        int64_t left_ns = -1;
        if (timeout_ns >= 0) {
            left_ns = timeout_ns - (fry_clock_monotonic_ns() - start_ns);
            if (left_ns <= 0)
                return FERRY_PENDING;
        }
        if (!fry_baton_take(&engine->role)) {
            parked_sleep(engine, future, left_ns);
            continue;
        }
        if (fry_tick(engine, FRY_TICK_BUDGET, false) == 0)
            role_sleep(engine, future, left_ns);
        rearm_for_user(engine);
        role_give(engine);
    }
    return fry_future_status(future);
}
