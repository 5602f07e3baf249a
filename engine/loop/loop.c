/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop: a tick of work, and the sleep between ticks.
 *
 * The sleep. The loop sets `asleep`, then looks once more, then waits for the poller. A thread that
 * has work for the loop publishes the work, passes a full barrier, then looks whether the loop is
 * asleep; the thread that moves it from asleep to awake writes the eventfd. Either the loop's last
 * look sees the work or the thread sees the loop asleep: sleeper.pml. What only the baton's
 * holder may look at, the loop looks at with the baton. If another thread has the baton the loop
 * stays awake, unless that thread is a waiting thread that helps, which wakes the loop when it
 * stops (handle.c).
 *
 * A wake only wakes: it may be called anywhere, also with the baton. Once the loop has stopped, a
 * wake does nothing, and the call that causes work does that work: late.c.
 */
#include "engine/loop/loop.h"

#include "engine/engine.h"
#include "engine/graph/buffer.h"
#include "engine/graph/cancel.h"
#include "engine/graph/emit.h"
#include "engine/graph/graph.h"
#include "engine/graph/join.h"
#include "engine/graph/lane.h"
#include "engine/graph/look.h"
#include "engine/graph/node.h"
#include "engine/graph/ready_queue.h"
#include "engine/graph/scope.h"
#include "engine/graph/turn.h"
#include "engine/graph/work.h"
#include "engine/graph/writable.h"
#include "engine/ground/callbacks.h"
#include "engine/ground/context.h"
#include "engine/ground/ground.h"
#include "engine/loop/source.h"
#include "engine/messages/members.h"
#include "engine/observe/watchdog.h"
#include "engine/tasks/task.h"
#include "engine/tasks/task_pool.h"
#include "engine/tasks/waiter.h"
#include "engine/trace/observe.h"

/* The loop goes on even if there is no memory for its thread's context. */
static fry_context *role_context(ferry_engine *engine)
{
    fry_context *context = fry_context_get(engine);
    return fry_likely(context != NULL) ? context : &engine->role_context;
}

/* ---- a tick ---- */

size_t fry_tick(ferry_engine *engine, size_t budget, bool with_callbacks)
{
    size_t done = 0;
    fry_turn turn;
    fry_link *calls = NULL, *frees = NULL;
    bool flight_is_due = false, watchdog_is_due = false;
    fry_members *members = fry_load_acquire(&engine->members); /* pairs with fry_members_get */
    if (fry_unlikely(members != NULL))
        done += fry_members_run(members);
    if (fry_turn_begin(&turn, engine, role_context(engine), true)) {
        engine->starved = engine->loop_wanted = false;
        if (fry_unlikely(fry_load_acquire(&engine->closing) != 0 && !engine->stop_graph))
            fry_cancel_all(&turn);
        if (fry_load_relaxed(&engine->requests.top) != NULL)
            done += fry_cancel_requested(&turn);
        done += fry_cancel_go_on(&turn);
        done += fry_lanes_poll(&turn);
        if (fry_unlikely(members != NULL))
            done += fry_members_turn(&turn, members);
        if (engine->deadlines.first != NULL)
            done += fry_expire_due(&turn, fry_clock_now_ns(&engine->clock));
        if (fry_unlikely(engine->rates.first != NULL))
            done += fry_scopes_begin_due(&turn, fry_clock_now_ns(&engine->clock));
        done += fry_graph_work(&turn, budget);
        calls = fry_calls_issue(&turn, with_callbacks);
        if (fry_frees_are_due(engine))
            frees = fry_buffers_forget(&turn, budget);
        flight_is_due = engine->flight_due != 0;
        watchdog_is_due = fry_watchdog_is_due(engine);
        done += fry_turn_end(&turn, budget) + (calls != NULL);
    }
    if (calls != NULL)
        fry_hand_out_calls(engine, calls);
    if (fry_unlikely(members != NULL))
        done += fry_members_finish(members, with_callbacks);
    size_t freed = frees != NULL ? fry_buffers_free(engine, frees) : 0;
    done += freed;
    if (fry_unlikely(flight_is_due))
        fry_flight_dump(engine);
    if (fry_unlikely(watchdog_is_due))
        fry_watchdog_bark(engine);
    if (fry_unlikely(fry_load_relaxed(&engine->joins_wanted) != 0))
        fry_joins_stock(engine);
    if (fry_unlikely(fry_load_relaxed(&engine->room_came) != 0))
        done += fry_room_look(engine);
    if (fry_unlikely(fry_load_relaxed(&engine->has_hooks) != 0))
        done += !fry_observe_pump(engine);
    if (with_callbacks)
        done += fry_run_callbacks(engine, budget);
    done += fry_tasks_stock(engine);
    if (freed != 0)
        fry_engine_unretain(engine, (int64_t)freed);
    return done;
}

/* ---- sleeping ---- */

/* With the baton: whether the graph has nothing for a tick to do. */
static bool is_idle_locked(const ferry_engine *engine)
{
    return !engine->loop_wanted && !fry_graph_has_work(engine) && engine->cancelled.first == NULL &&
           engine->loop_ready.first == NULL && fry_ready_queue_is_empty(&engine->calls);
}

/*
 * With the baton: closing was asked for, and either the graph has not been told, or nothing is left
 * in it, no thread is at a device, and all groups have ended. What ends them later wakes the loop.
 */
static bool may_stop_locked(const ferry_engine *engine)
{
    if (fry_likely(fry_load_seq_cst(&engine->closing) == 0))
        return false;
    const fry_members *members = fry_load_acquire(&engine->members);
    return !engine->stop_graph || (TAILQ_EMPTY(&engine->live) && TAILQ_EMPTY(&engine->promises) &&
                                   fry_load_seq_cst(&engine->outside_calls) == 0 &&
                                   (members == NULL || fry_members_are_over(members)));
}

bool fry_loop_is_needed(const ferry_engine *engine)
{
    return !is_idle_locked(engine) || engine->busy != NULL || engine->deadlines.first != NULL ||
           engine->rates.first != NULL || fry_load_relaxed(&engine->closing) != 0;
}

/* What fry_arm finds out before a sleep. */
typedef struct rest {
    bool idle;        /* there is nothing to do */
    bool has_looked;  /* with the baton */
    bool watches;     /* if has_looked: the loop looks at lanes by its timer */
    int64_t next_ns;  /* if has_looked: when the sources are next due, by the engine's clock */
    int64_t again_ns; /* the same by the monotonic clock */
} rest;

/* Looks with the baton if it is free. */
static void look_once_more(ferry_engine *engine, rest *rest)
{
    fry_turn turn;
    if (fry_turn_begin(&turn, engine, role_context(engine), true)) {
        rest->has_looked = true;
        if (fry_unlikely(fry_load_relaxed(&engine->has_hooks) != 0))
            engine->has_errands = true; /* from now on turns wake the loop for their records */
        rest->idle = is_idle_locked(engine) && fry_sources_arm(&turn) && !may_stop_locked(engine);
        rest->next_ns = fry_sources_next_ns(engine);
        rest->watches = engine->next_look_ns != INT64_MAX;
        (void)fry_turn_end(&turn, 1);
        return;
    }
    /*
     * The holder may be a waiting thread, which wakes the loop if it leaves anything. It need not
     * know of new hooks yet.
     */
    const fry_members *members = fry_load_acquire(&engine->members);
    bool is_looked_at = members != NULL && fry_load_seq_cst(&members->watchers) != 0;
    rest->idle = (fry_load_seq_cst(&engine->helpers) != 0 || is_looked_at) &&
                 fry_load_seq_cst(&engine->closing) == 0 &&
                 fry_load_relaxed(&engine->has_hooks) == 0 &&
                 (members == NULL || !fry_members_have_work(members));
}

/*
 * With a user's clock nobody knows when it reaches a time, so the loop looks at intervals of real
 * time: devices don't go by that clock, and a shutdown must not hang on it.
 */
static int64_t next_step_ns(ferry_engine *engine, const rest *rest)
{
    bool has_steps = rest->watches || (fry_load_relaxed(&engine->closing) != 0 &&
                                       fry_members_next_ns(engine) != INT64_MAX);
    return has_steps ? fry_clock_monotonic_ns() + FRY_LOOK_STEP_MAX_NS : INT64_MAX;
}

/* False: the time has come already. */
static bool set_timer(ferry_engine *engine, const rest *rest)
{
    fry_poller *poller = &engine->poller;
    int64_t timer_ns = rest->again_ns;
    if (!rest->has_looked) {
        /* The timer stays, or is set earlier: new deadlines wake the loop. */
        if (timer_ns != INT64_MAX && (poller->timer_ns == 0 || poller->timer_ns > timer_ns))
            fry_poller_set_timer(poller, timer_ns);
        return true;
    }
    int64_t next_ns = rest->next_ns;
    if (next_ns != INT64_MAX && next_ns <= fry_clock_now_ns(&engine->clock))
        return false; /* a kernel timer set to the past would cost an interrupt */
    if (!engine->clock.is_real)
        next_ns = next_step_ns(engine, rest);
    timer_ns = next_ns < timer_ns ? next_ns : timer_ns;
    fry_poller_set_timer(poller, timer_ns == INT64_MAX ? 0 : timer_ns);
    return true;
}

bool fry_arm(ferry_engine *engine)
{
    if (fry_unlikely(fry_load_relaxed(&engine->asleep) == FRY_STOPPED))
        return false; /* for good; what was submitted late is being refused */
    fry_store_seq_cst(&engine->asleep, FRY_ASLEEP);
    fry_fence(); /* pairs with the barrier before fry_wake */
    rest rest = {.next_ns = INT64_MAX, .again_ns = INT64_MAX};
    look_once_more(engine, &rest);
    if (rest.idle)
        rest.again_ns = fry_sources_again_ns(engine, rest.has_looked);
    bool idle = rest.idle && fry_load_seq_cst(&engine->requests.top) == NULL &&
                !fry_frees_are_due(engine) && fry_load_seq_cst(&engine->inbox.top) == NULL &&
                !fry_tasks_can_go_on(&engine->tasks, FRY_TASKS_FOR_CALLS) &&
                fry_load_seq_cst(&engine->room_came) == 0 && !fry_observe_is_due(engine) &&
                set_timer(engine, &rest);
    if (!idle)
        fry_disarm(engine);
    return idle;
}

/* ---- ending ---- */

static bool nothing_left(ferry_engine *engine)
{
    /*
     * This comes first: a thread that has left a device has put its event into the graph. See
     * event.c.
     */
    if (fry_load_seq_cst(&engine->outside_calls) != 0)
        return false;
    fry_turn turn;
    if (!fry_turn_begin(&turn, engine, role_context(engine), true))
        return false;
    bool nothing = is_idle_locked(engine) && engine->stop_graph && may_stop_locked(engine);
    (void)fry_turn_end(&turn, 1);
    return nothing && !fry_is_due(engine) && !fry_callbacks_are_due(engine) &&
           fry_load_seq_cst(&engine->requests.top) == NULL && !fry_frees_are_due(engine);
}

bool fry_loop_try_stop(ferry_engine *engine)
{
    if (!nothing_left(engine))
        return false;
    if (fry_unlikely(fry_load_relaxed(&engine->has_hooks) != 0)) {
        /*
         * Another thread may have recorded the end of an operation since the tick looked. It has
         * given the baton back by now, and nothing that is left can record another end.
         */
        if (!fry_observe_pump(engine) || !nothing_left(engine)) /* hooks may have left work */
            return false;
    }
    fry_store_seq_cst(&engine->asleep, FRY_STOPPED);
    return true;
}
