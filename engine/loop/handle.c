/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for futures, and cancelling their operations. */
#include "engine/loop/handle.h"

#include "engine/engine.h"
#include "engine/graph/kind.h"
#include "engine/graph/lane.h"
#include "engine/graph/node.h"
#include "engine/graph/turn.h"
#include "engine/ground/context.h"
#include "engine/ground/ground.h"
#include "engine/loop/embedded.h"
#include "engine/loop/late.h"
#include "engine/loop/loop.h"
#include "engine/messages/members.h"

#define HELP_BUDGET 4096
#define LOOKS_PER_CLOCK 16 /* looks at what comes from other members */

void fry_help_ends(ferry_engine *engine, fry_context *context)
{
    fry_turn turn;
    (void)fry_fetch_sub(&engine->helpers, 1); /* pairs with the look in fry_arm */
    if (fry_turn_begin(&turn, engine, context, false)) {
        turn.wake = fry_loop_is_needed(engine);
        /*
         * The timer for that look may have run out meanwhile: then the loop came, and found no
         * baton. Nothing is in flight now, and the next operation wakes the loop: loop_sleep.pml.
         */
        if (!turn.wake)
            engine->next_look_ns = INT64_MAX;
        (void)fry_turn_end(&turn, 0);
    } else {
        fry_wake(engine);
    }
}

/*
 * Does graph work that another thread left, instead of idling: the future may depend on it, and it
 * is in this core's cache, so the thread goes on over several holds of the baton. Meanwhile the
 * loop may sleep without a look at the graph (fry_arm). So a thread that stops helping wakes the
 * loop if the loop would have seen anything.
 */
static bool help(ferry_engine *engine)
{
    if (fry_load_relaxed(&engine->work_left) == 0)
        return false;
    fry_context *context = fry_context_get(engine);
    fry_turn turn;
    size_t done = 0, some = 1;
    if (context == NULL)
        return false;
    (void)fry_fetch_add(&engine->helpers, 1);
    while (some != 0 && done < HELP_BUDGET && fry_load_relaxed(&engine->work_left) != 0 &&
           fry_turn_begin(&turn, engine, context, false)) {
        turn.goes_on = true;
        some = fry_turn_end(&turn, HELP_BUDGET - done);
        done += some;
    }
    fry_help_ends(engine, context);
    return done != 0;
}

/*
 * Looks at polled lanes, as the loop does by its timer, but at once. The loop finds the baton taken
 * for a moment only; its timer stays, and the loop is woken if a new head needs an earlier look.
 */
static bool look(ferry_engine *engine)
{
    if (fry_likely(fry_load_relaxed(&engine->watched) == 0))
        return false;
    fry_context *context = fry_context_get(engine);
    fry_turn turn;
    if (context == NULL || !fry_turn_begin(&turn, engine, context, false))
        return false;
    size_t done = fry_lanes_poll(&turn);
    done += fry_turn_end(&turn, HELP_BUDGET);
    return done != 0;
}

/* Whether the future may depend on another member; the loop need not be woken for that. */
static bool may_come(const ferry_engine *engine)
{
    const fry_members *members = fry_load_acquire(&engine->members);
    return fry_unlikely(members != NULL) && (fry_load_relaxed(&members->has_open) != 0 ||
                                             fry_load_relaxed(&members->has_polled) != 0);
}

/*
 * Looks until nothing has come for as long as a thread spins. The loop leaves channels alone
 * meanwhile: members.c. Returns whether anything came.
 */
static bool watch_members(ferry_engine *engine, const ferry_future *future, int64_t end_ns)
{
    fry_members *members = fry_load_acquire(&engine->members);
    int64_t now_ns = fry_clock_monotonic_ns(), idle_ns = now_ns;
    bool has_come = false;
    (void)fry_fetch_add(&members->watchers, 1);
    do {
        for (int i = 0; i < LOOKS_PER_CLOCK && !fry_future_is_resolved(future); i++) {
            if (fry_members_look(engine, future)) {
                has_come = true;
                idle_ns = now_ns;
            }
        }
        now_ns = fry_clock_monotonic_ns();
    } while (!fry_future_is_resolved(future) && now_ns - idle_ns < engine->wait_spin_ns &&
             now_ns < end_ns && fry_load_relaxed(&engine->work_left) == 0);
    (void)fry_fetch_sub(&members->watchers, 1);
    return has_come;
}

/* The thread is about to sleep: leaves the polled channels to the loop. */
static void watch_no_more(ferry_engine *engine)
{
    fry_members *members = fry_load_acquire(&engine->members);
    if (fry_likely(members == NULL) || fry_load_relaxed(&members->has_polled) == 0)
        return;
    fry_store_seq_cst(&members->must_arm, 1);
    fry_fence(); /* pairs with the fence in fry_arm */
    fry_wake(engine);
}

static ferry_status wait_threaded(ferry_engine *engine, ferry_future *future, int64_t timeout_ns)
{
    int64_t start_ns = fry_clock_monotonic_ns();
    int64_t passed_ns = 0, idle_from_ns = 0;
    uint32_t key;
    while (!fry_future_is_resolved(future)) {
        if (timeout_ns >= 0 && passed_ns >= timeout_ns)
            return FERRY_PENDING;
        if (help(engine) || look(engine)) {
            idle_from_ns = fry_clock_monotonic_ns() - start_ns;
        } else if (passed_ns - idle_from_ns < engine->wait_spin_ns && may_come(engine)) {
            int64_t end_ns = timeout_ns < 0 || timeout_ns > INT64_MAX - start_ns
                                 ? INT64_MAX
                                 : start_ns + timeout_ns;
            if (watch_members(engine, future, end_ns))
                idle_from_ns = fry_clock_monotonic_ns() - start_ns;
        } else if (passed_ns - idle_from_ns < engine->wait_spin_ns) {
            for (int i = 0; i < 32 && !fry_future_is_resolved(future); i++)
                fry_pause();
        } else if (fry_future_prepare_park(future, &key)) {
            watch_no_more(engine);
            fry_future_commit_park(future, key, timeout_ns < 0 ? -1 : timeout_ns - passed_ns);
        }
        passed_ns = fry_clock_monotonic_ns() - start_ns;
    }
    return fry_future_status(future);
}

ferry_status ferry_future_wait(ferry_future *future, int64_t timeout_ns)
{
    if (future == NULL)
        return FERRY_E_INVALID;
    if (fry_future_is_resolved(future))
        return fry_future_status(future);
    ferry_engine *engine = fry_engine_of(future);
    ferry_status status = fry_engine_check(engine);
    if (status != FERRY_OK)
        return status;
    if (timeout_ns == 0)
        return FERRY_PENDING;
    if (fry_is_in_callback(engine)) {
        fry_log_line(&engine->log, FERRY_LOG_WARNING,
                     "ferry_future_wait is refused in a callback of the future's engine");
        return FERRY_E_DEADLOCK;
    }
    /*
     * A waiting thread does the engine's work, and may be listed as a waiter on its own stack: it
     * must not be cancelled by pthread_cancel there.
     */
    int cancel_state;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    status = engine->embedded ? fry_embedded_wait(engine, future, timeout_ns)
                              : wait_threaded(engine, future, timeout_ns);
    fry_late_call_ends(engine);
    (void)pthread_setcancelstate(cancel_state, NULL);
    return status;
}

/*
 * An operation that failed early, as a batch may, still goes on. A node's kind never changes; a
 * static future has no node.
 */
static bool may_still_be_cancelled(const ferry_future *future)
{
    if (!fry_future_is_resolved(future))
        return true;
    return fry_future_status(future) != FERRY_OK && future->owner != NULL &&
           !fry_future_is_static(future) &&
           fry_kind(fry_engine_of(future), fry_node_of(future))->awaits != NULL &&
           fry_load_acquire(&fry_node_of(future)->state) != FRY_NODE_QUIET;
}

ferry_status ferry_future_cancel(ferry_future *future)
{
    if (future == NULL)
        return FERRY_E_INVALID;
    if (!may_still_be_cancelled(future))
        return FERRY_OK;
    ferry_engine *engine = fry_engine_of(future);
    ferry_status status = fry_engine_check(engine);
    if (status != FERRY_OK)
        return status;
    fry_node *node = fry_node_of(future);
    if (fry_exchange(&node->requested, 1) != 0)
        return FERRY_OK;
    (void)fry_fetch_add(&future->references, 1); /* for the stack of requests */
    fry_stack_push(&engine->requests, &node->request_link);
    fry_wake(engine);
    fry_late_call_ends(engine);
    return FERRY_OK;
}
