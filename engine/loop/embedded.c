/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Engines without a thread of ferry's own: the user's threads are the loop. A thread that ticks (a
 * round of the user's loop, a thread that waits for a future, the thread that shuts down) has the
 * loop's role, for that tick alone. No thread sleeps with the role.
 *
 * Which thread sleeps on what:
 *   the user's loop    on user_poller, which becomes readable when the poller is readable, or when
 *                      there are callbacks, which only the user's loop may run
 *   a waiting thread   on the poller itself, so it takes nothing from the user's loop. Only the
 *                      thread that has the seat does so; the others park on their futures
 *
 * 1. No wake is lost between these two. One word (engine->asleep) says whether the next wake is
 *    written, and a thread that has the role may clear the word for its tick. So a thread that
 *    leaves the role looks whether any thread sleeps or has armed (armed_by, sleepers). If so it
 *    arms again, or, if there is work, wakes the poller, which wakes both of its readers. So while
 *    a thread sleeps and nobody has the role, either the next wake is written or the poller is
 *    readable.
 *    A sleeper's future may be resolved by a thread that found `asleep` cleared. waiter_fired
 *    records this, and a thread that leaves the role reads it after arming (rearm). A waiting
 *    thread that takes the role again at once leaves all this to its last leaving, before it sleeps
 *    or returns, or to the thread that has the role then.
 *    The user's loop may be several threads, one after the other or at once. An arm ends when its
 *    own thread makes progress or is told not to sleep, and not before: progress by another thread
 *    takes wakes off the descriptor that the sleeper may not have seen, and so arms again for the
 *    sleeper. armed_by names the thread, if it is one. If several have armed, nobody counts which
 *    are back, so every later round arms: correct, but slower.
 * 2. Arming waits for nobody. The arming thread first names itself in armed_by, so every thread
 *    that leaves the role later arms for it. If the role is taken, the arming thread sets
 *    arm_wanted, tries once more and goes to sleep. The holder looks at arm_wanted after giving the
 *    role back and, if it is set, takes the role again to arm in the other's place: the argument of
 *    base/baton.h.
 * 3. Callbacks run in the user's loop alone. A thread that leaves the role when callbacks are due
 *    and the user's loop sleeps wakes user_poller, which no waiting thread reads; once, until
 *    progress has taken that wake (user_woken).
 * 4. Parked threads wait for the seat or the role. A thread that gives one back then looks at their
 *    list. A parking thread lists itself and marks its future parked, then looks whether what it
 *    wants is free, then sleeps. The nudge clears the mark and wakes.
 * embedded_roles.pml checks 1 to 4, and finds each planted mistake.
 */
#include "engine/loop/embedded.h"

#include "base/back_off.h"
#include "base/futex.h"
#include "engine/engine.h"
#include "engine/graph/buffer.h"
#include "engine/graph/graph.h"
#include "engine/graph/ready_queue.h"
#include "engine/graph/turn.h"
#include "engine/graph/work.h"
#include "engine/ground/callbacks.h"
#include "engine/ground/context.h"
#include "engine/ground/ground.h"
#include "engine/loop/late.h"
#include "engine/loop/loop.h"
#include "engine/loop/source.h"
#include "engine/messages/members.h"
#include "engine/tasks/task_pool.h"
#include "engine/tasks/waiter.h"

#include <poll.h>

#define SHUTDOWN_LOOK_NS 1000000000 /* longest sleep of a shutdown without a timeout */

#define ARM_PAUSES 256 /* how long arming tries for the role, a few microseconds */
#define LOOK_TICKS 64  /* ticks of a shutdown that has no time left */
#define MOMENT_TICKS 8 /* ticks of a thread that begins to wait */
#define MOMENT_LOOKS 8 /* looks after each tick at what comes from other members */

typedef struct fry_embedded_waiter {
    struct fry_embedded_waiter *next;
    ferry_future *future;
    fry_baton *wanted; /* the seat or the role */
} fry_embedded_waiter;

/* ---- opening and closing ---- */

static void poller_is_readable(fry_watch *watch, uint32_t events)
{
    (void)events;
    ferry_engine *engine = watch->arg;
    (void)fry_poller_wait(&engine->poller, 0);
}

ferry_status fry_embedded_open(ferry_engine *engine)
{
    ferry_status status = fry_poller_open(&engine->user_poller);
    if (status != FERRY_OK)
        return status;
    engine->poller_watch =
        (fry_watch){.fd = engine->poller.epoll_fd, .fn = poller_is_readable, .arg = engine};
    return fry_poller_add(&engine->user_poller, &engine->poller_watch, POLLIN);
}

void fry_embedded_close(ferry_engine *engine)
{
    fry_poller_close(&engine->user_poller);
}

/* ---- the role ---- */

static void nudge(ferry_engine *engine, const fry_baton *given)
{
    if (fry_load_seq_cst(&engine->embedded_waiters) == NULL)
        return;
    (void)pthread_mutex_lock(&engine->cold);
    for (fry_embedded_waiter *waiter = engine->embedded_waiters; waiter != NULL;
         waiter = waiter->next) {
        if (waiter->wanted == given)
            fry_future_nudge(waiter->future);
    }
    (void)pthread_mutex_unlock(&engine->cold);
}

static bool callbacks_are_due(const ferry_engine *engine)
{
    const fry_members *members = fry_load_acquire(&engine->members);
    return fry_is_due(engine) || fry_callbacks_are_due(engine) ||
           (members != NULL && fry_load_relaxed(&members->has_callbacks) != 0);
}

/*
 * For sleepers, as the role is left: the next wake will be written, or the poller is woken now.
 * After the stop nothing can be armed, and the shutdown may have taken a waiting thread's wake.
 */
static void rearm(ferry_engine *engine)
{
    uint32_t asleep = fry_load_relaxed(&engine->asleep);
    if (asleep == FRY_AWAKE && (!fry_arm(engine) || fry_load_relaxed(&engine->waiter_fired) != 0))
        fry_wake_write(engine);
    else if (asleep == FRY_STOPPED && fry_load_relaxed(&engine->sleepers) != 0)
        fry_wake_write(engine);
}

static void wake_user_for_callbacks(ferry_engine *engine)
{
    if (fry_load_relaxed(&engine->armed_by) != FRY_NOBODY_ARMED && !engine->user_woken &&
        callbacks_are_due(engine)) {
        engine->user_woken = true;
        fry_poller_wake(&engine->user_poller);
    }
}

/*
 * `comes_back`: a waiting thread leaves the role and will take it again before it sleeps or
 * returns. Until then that thread does all work except callbacks, so nobody need be woken.
 */
static void role_give(ferry_engine *engine, bool comes_back)
{
    do {
        if (fry_load_acquire(&engine->arm_wanted) != 0)
            fry_store_relaxed(&engine->arm_wanted, 0);
        bool is_armed = fry_load_relaxed(&engine->armed_by) != FRY_NOBODY_ARMED;
        if (is_armed)
            engine->user_poller_is_due = true;
        if (!comes_back && (is_armed || fry_load_relaxed(&engine->sleepers) != 0))
            rearm(engine);
        wake_user_for_callbacks(engine);
        fry_baton_give(&engine->role);
        if (fry_unlikely(fry_load_relaxed(&engine->asleep) == FRY_STOPPED))
            fry_late_work(engine); /* work left to this thread because it had the role */
        nudge(engine, &engine->role);
        fry_eventcount_notify(&engine->role_free, INT32_MAX);
    } while (fry_load_seq_cst(&engine->arm_wanted) != 0 && fry_baton_take(&engine->role));
}

static void role_leave(ferry_engine *engine)
{
    role_give(engine, false);
}

bool fry_role_borrow(ferry_engine *engine)
{
    return (engine->embedded || fry_load_seq_cst(&engine->asleep) == FRY_STOPPED) &&
           fry_baton_take(&engine->role);
}

void fry_role_return(ferry_engine *engine)
{
    role_leave(engine);
}

/* ---- the user's loop ---- */

/* Records that the calling thread sleeps or is about to. */
static void announce(ferry_engine *engine, uintptr_t sleeper)
{
    uintptr_t by = FRY_NOBODY_ARMED;
    if (!fry_cas(&engine->armed_by, &by, sleeper) && by != sleeper)
        fry_store_seq_cst(&engine->armed_by, FRY_SEVERAL_ARMED);
}

/* Records that the sleeper does not sleep. With the role. */
static void withdraw(ferry_engine *engine, uintptr_t sleeper)
{
    uintptr_t by = sleeper;
    if (fry_load_relaxed(&engine->armed_by) == sleeper)
        (void)fry_cas(&engine->armed_by, &by, FRY_NOBODY_ARMED); /* or several have armed by now */
}

int64_t fry_embedded_progress(ferry_engine *engine, size_t budget, uintptr_t sleeper)
{
    if (fry_is_in_callback(engine))
        return FERRY_E_DEADLOCK;
    if (!fry_baton_take(&engine->role))
        return FERRY_E_BUSY;
    withdraw(engine, sleeper);
    fry_disarm(engine);
    if (engine->user_poller_is_due) {
        engine->user_woken = false;
        (void)fry_poller_wait(&engine->user_poller, 0);
    }
    engine->user_poller_is_due = false;
    size_t done = fry_tick(engine, budget == 0 ? FRY_TICK_BUDGET : budget, true);
    role_leave(engine);
    return (int64_t)done;
}

/*
 * A tick is short, so the role is usually free in a moment. Setting arm_wanted just before the
 * holder gives the role back, and being woken at once, could repeat for a while.
 */
static bool take_role_soon(ferry_engine *engine)
{
    for (int i = 0; i < ARM_PAUSES; i++) {
        if (fry_baton_take(&engine->role))
            return true;
        fry_pause();
    }
    return false;
}

ferry_status fry_embedded_arm(ferry_engine *engine, uintptr_t sleeper)
{
    if (fry_is_in_callback(engine))
        return FERRY_E_DEADLOCK;
    announce(engine, sleeper);
    if (!take_role_soon(engine)) {
        fry_store_seq_cst(&engine->arm_wanted, 1);
        if (!fry_baton_take(&engine->role))
            return FERRY_OK; /* the role's holder arms or wakes: see 2 */
        fry_store_relaxed(&engine->arm_wanted, 0);
    }
    /* A stopped engine has nothing more to wake for. */
    bool armed = fry_load_relaxed(&engine->asleep) == FRY_STOPPED ||
                 (fry_arm(engine) && !callbacks_are_due(engine));
    if (!armed)
        withdraw(engine, sleeper);
    engine->user_poller_is_due = true;
    role_leave(engine);
    return armed ? FERRY_OK : FERRY_E_BUSY;
}

/* An address that is the calling thread's own while the thread lives. */
static uintptr_t this_thread(void)
{
    return (uintptr_t)&fry_context_recent;
}

int64_t ferry_engine_progress(ferry_engine *engine, size_t budget)
{
    ferry_status status = fry_engine_check(engine);
    if (status != FERRY_OK)
        return status;
    if (!engine->embedded || engine->attachment != NULL)
        return FERRY_E_INVALID;
    return fry_embedded_progress(engine, budget, this_thread());
}

ferry_status ferry_engine_arm(ferry_engine *engine)
{
    ferry_status status = fry_engine_check(engine);
    if (status != FERRY_OK)
        return status;
    if (!engine->embedded || engine->attachment != NULL)
        return FERRY_E_INVALID;
    return fry_embedded_arm(engine, this_thread());
}

int64_t ferry_engine_timeout_ns(const ferry_engine *given)
{
    ferry_engine *engine = (ferry_engine *)(uintptr_t)given; /* only the baton is written */
    if (fry_engine_check(engine) != FERRY_OK || !engine->embedded || fry_is_in_callback(engine))
        return -1;
    fry_context *context = fry_context_get(engine);
    fry_turn turn;
    if (context == NULL || !fry_turn_begin(&turn, engine, context, false))
        return 0;
    bool work = fry_graph_has_work(engine) || engine->loop_ready.first != NULL ||
                !fry_ready_queue_is_empty(&engine->calls);
    int64_t timer_ns = fry_sources_next_ns(engine);
    (void)fry_turn_end(&turn, 1);
    fry_late_call_ends(engine);
    if (work || fry_callbacks_are_due(engine) || fry_load_relaxed(&engine->has_due) != 0 ||
        fry_load_acquire(&engine->requests.top) != NULL || fry_frees_are_due(engine) ||
        fry_tasks_can_go_on(&engine->tasks, FRY_TASKS_FOR_CALLS) ||
        fry_load_acquire(&engine->room_came) != 0)
        return 0;
    if (timer_ns == INT64_MAX)
        return -1;
    int64_t now_ns = fry_clock_now_ns(&engine->clock);
    return timer_ns > now_ns ? timer_ns - now_ns : 0;
}

int ferry_engine_fd(const ferry_engine *engine)
{
    if (fry_engine_check(engine) != FERRY_OK)
        return -1;
    return engine->embedded ? engine->user_poller.epoll_fd : engine->poller.epoll_fd;
}

/* ---- sleeping on the poller ---- */

static int64_t sooner_ns(int64_t left_ns, int64_t right_ns)
{
    return left_ns < 0          ? right_ns
           : right_ns < 0       ? left_ns
           : left_ns < right_ns ? left_ns
                                : right_ns;
}

/*
 * Leaves the role and sleeps until there is something to do or the time has passed. Called with the
 * role. `waiter` is NULL or the calling thread's waiter on the future that it waits for.
 */
static void poller_sleep(ferry_engine *engine, const ferry_waiter *waiter, int64_t timeout_ns)
{
    if (!fry_arm(engine)) {
        role_leave(engine);
        return;
    }
    (void)fry_fetch_add(&engine->sleepers, 1);
    /*
     * A thread that fired the waiter before `sleepers` counted this thread did not wake it. The
     * arm's fence pairs with the fence in fry_fire_waiter.
     */
    bool fired = waiter != NULL && fry_load_relaxed(&waiter->private_.state) == 0;
    role_leave(engine);
    int64_t sleep_ns = fired ? 0 : timeout_ns;
    if (!engine->clock.is_real) /* only its owner knows when a user's clock moves */
        sleep_ns = sooner_ns(sleep_ns, 1000000);
    struct pollfd readable = {.fd = engine->poller.epoll_fd, .events = POLLIN};
    struct timespec relative = {.tv_sec = sleep_ns / 1000000000, .tv_nsec = sleep_ns % 1000000000};
    (void)ppoll(&readable, 1, sleep_ns < 0 ? NULL : &relative, NULL);
    (void)fry_fetch_sub(&engine->sleepers, 1);
}

/*
 * Takes the wakes that the calling thread has had, which would keep the user's loop awake. With the
 * role.
 */
static void take_wakes(ferry_engine *engine)
{
    fry_store_relaxed(&engine->wake_written, 0);
    fry_disarm(engine);
    (void)fry_poller_wait(&engine->poller, 0);
}

/* ---- waiting ---- */

/*
 * Leaves the role and sleeps until there is work or another thread resolves the future. Called with
 * the seat and the role.
 */
static void seat_sleep(ferry_engine *engine, ferry_future *future, int64_t timeout_ns)
{
    ferry_waiter waiter = FERRY_WAITER_INIT(fry_waiter_is_embedded, NULL);
    waiter.private_.state = 1;
    fry_store_relaxed(&engine->waiter_fired, 0);
    if (!fry_future_add_waiter(future, &waiter)) {
        role_leave(engine);
        return;
    }
    poller_sleep(engine, &waiter, timeout_ns);
    if (!fry_future_remove_waiter(future, &waiter)) {
        for (unsigned tries = 0; fry_load_acquire(&waiter.private_.state) != 0; tries++)
            fry_back_off(tries); /* another thread is about to fire the waiter */
    }
    fry_store_relaxed(&engine->waiter_fired, 0);
}

/* Sleeps until the future is resolved or `wanted` is free. */
static void park(ferry_engine *engine, ferry_future *future, fry_baton *wanted, int64_t timeout_ns)
{
    fry_embedded_waiter self = {.future = future, .wanted = wanted};
    (void)pthread_mutex_lock(&engine->cold);
    self.next = engine->embedded_waiters;
    fry_store_seq_cst(&engine->embedded_waiters, &self);
    (void)pthread_mutex_unlock(&engine->cold);

    uint32_t key;
    if (fry_future_prepare_park(future, &key) && fry_load_seq_cst(&wanted->taken) != 0)
        fry_future_commit_park(future, key, timeout_ns);

    (void)pthread_mutex_lock(&engine->cold);
    fry_embedded_waiter **at = &engine->embedded_waiters;
    while (*at != &self)
        at = &(*at)->next;
    fry_store_seq_cst(at, self.next);
    (void)pthread_mutex_unlock(&engine->cold);
}

/* One step of a waiting thread that has the seat. Returns whether any work was done. */
static bool wait_once(ferry_engine *engine, ferry_future *future, int64_t left_ns, bool may_sleep,
                      bool *slept_p)
{
    if (!fry_baton_take(&engine->role)) {
        if (may_sleep)
            park(engine, future, &engine->role, left_ns);
        return false;
    }
    if (*slept_p || fry_load_relaxed(&engine->wake_written) != 0)
        take_wakes(engine);
    bool worked = fry_tick(engine, FRY_TICK_BUDGET, false) != 0;
    *slept_p = !worked && may_sleep;
    if (*slept_p)
        seat_sleep(engine, future, left_ns);
    else
        role_give(engine, true);
    return worked;
}

static bool role_is_wanted(const ferry_engine *engine)
{
    return fry_load_relaxed(&engine->arm_wanted) != 0 ||
           fry_load_relaxed(&engine->embedded_waiters) != NULL;
}

/*
 * Most futures are resolved at once or within microseconds. Taking the seat, reading the clock and
 * giving back the role after each tick would take as long. So a waiting thread first is the loop
 * for a moment, and leaves the role once. As it has not slept, it takes wakes off the poller only
 * if one was written.
 */
static void wait_a_moment(ferry_engine *engine, const ferry_future *future)
{
    if (engine->wait_spin_ns == 0 || !fry_baton_take(&engine->role))
        return;
    if (fry_load_relaxed(&engine->wake_written) != 0)
        take_wakes(engine);
    else
        fry_disarm(engine);
    size_t done = 0;
    for (int i = 0; i < MOMENT_TICKS && done < FRY_TICK_BUDGET; i++) {
        done += fry_tick(engine, FRY_TICK_BUDGET, false);
        for (int j = 0; j < MOMENT_LOOKS && !fry_future_is_resolved(future); j++)
            done += fry_members_look_on(engine, future);
        if (fry_future_is_resolved(future) || role_is_wanted(engine))
            break;
    }
    role_leave(engine);
}

ferry_status fry_embedded_wait(ferry_engine *engine, ferry_future *future, int64_t timeout_ns)
{
    wait_a_moment(engine, future);
    if (fry_future_is_resolved(future))
        return fry_future_status(future);
    int64_t start_ns = fry_clock_monotonic_ns();
    int64_t passed_ns = 0, idle_from_ns = 0;
    bool has_seat = false, slept = true; /* there may be wakes that nobody has taken */
    while (!fry_future_is_resolved(future)) {
        int64_t left_ns = timeout_ns < 0 ? -1 : timeout_ns - passed_ns;
        if (timeout_ns >= 0 && left_ns <= 0)
            break;
        if (!has_seat)
            has_seat = fry_baton_take(&engine->seat);
        bool may_sleep = passed_ns - idle_from_ns >= engine->wait_spin_ns;
        if (!has_seat)
            park(engine, future, &engine->seat, left_ns);
        else if (wait_once(engine, future, left_ns, may_sleep, &slept))
            idle_from_ns = fry_clock_monotonic_ns() - start_ns;
        passed_ns = fry_clock_monotonic_ns() - start_ns;
    }
    if (has_seat) {
        fry_baton_give(&engine->seat);
        nudge(engine, &engine->seat);
        if (fry_baton_take(&engine->role)) /* it may have left the role with comes_back; or see 1 */
            role_leave(engine);
    }
    return ferry_future_poll(future);
}

/* ---- ending ---- */

/* Another thread has the role: waits until that thread leaves it. */
static void wait_for_role(ferry_engine *engine, int64_t timeout_ns)
{
    uint32_t key = fry_eventcount_prepare(&engine->role_free);
    if (fry_load_seq_cst(&engine->role.taken) == 0)
        fry_eventcount_cancel(&engine->role_free);
    else
        fry_eventcount_commit(&engine->role_free, key, timeout_ns);
}

/*
 * With the role: ticks until there is nothing to do, or the time is over. The time is needed
 * because callbacks that submit again could go on for ever. `is_look`: does a bounded number of
 * ticks, whatever time they take.
 */
static bool tick_until_idle(ferry_engine *engine, int64_t end_ns, bool is_look)
{
    bool is_idle = false, is_over = false;
    if (!is_look)
        engine->give_up_ns = end_ns;
    for (int i = 0; !is_idle && !is_over; i++) {
        is_idle = fry_tick(engine, FRY_TICK_BUDGET, true) == 0;
        is_over = is_look ? i >= LOOK_TICKS : fry_clock_left_ns(end_ns) == 0;
    }
    return is_idle;
}

static bool progress_until_stopped(ferry_engine *engine, int64_t end_ns, bool is_look)
{
    for (;;) {
        int64_t left_ns = fry_clock_left_ns(end_ns);
        if (!fry_baton_take(&engine->role)) {
            if (left_ns == 0)
                return false;
            wait_for_role(engine, left_ns < 0 ? SHUTDOWN_LOOK_NS : left_ns);
            continue;
        }
        take_wakes(engine);
        bool is_idle = tick_until_idle(engine, end_ns, is_look);
        bool stopped = fry_loop_try_stop(engine);
        engine->give_up_ns = FRY_NEVER_NS;
        left_ns = fry_clock_left_ns(end_ns);
        if (!stopped && left_ns != 0 && is_idle && !callbacks_are_due(engine)) {
            poller_sleep(engine, NULL, left_ns < 0 ? SHUTDOWN_LOOK_NS : left_ns);
            continue;
        }
        if (stopped)
            fry_store_seq_cst(&engine->stopped, 1);
        role_leave(engine);
        if (stopped || left_ns == 0)
            return stopped;
    }
}

bool fry_embedded_end(ferry_engine *engine, int64_t end_ns, bool is_look)
{
    return fry_load_relaxed(&engine->asleep) == FRY_STOPPED ||
           progress_until_stopped(engine, end_ns, is_look);
}
