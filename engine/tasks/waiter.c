/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiters: callbacks on futures, from being registered to being called or taken back.
 *
 *     IDLE ── on_ready ──► LISTED ── resolved ──► FIRED ── the loop ──► DUE.. ──► called, IDLE
 *                                                            finds it    │
 *                                                                        └──► POSTED ──► run, IDLE
 *
 * A waiter of ferry_promise_on_cancel is ON_CANCEL in place of LISTED: on_cancel.c.
 *
 * Who may touch a waiter. LISTED: the thread that takes it out of its future's list, either by the
 * one exchange that seals the list or as a remover (futures/future.c). From then until FIRED the
 * sealing thread, for some steps in which it waits for nothing. On engine->fired nobody, until the
 * holder of the loop's role takes all of that stack. DUE..: the holder of the role. POSTED: the
 * thread that moves the task's word, to run it or to revoke it. The store of IDLE gives the memory
 * back to the user; the waiter is not read after that.
 *
 * Taking a waiter back. Any thread can take back a LISTED waiter, if it gets the future's list
 * before the seal. With the role, which a callback has, every waiter that has not begun can be
 * taken back: taking the fired stack makes FIRED waiters DUE, and DUE waiters are in lists that
 * allow removal. If a waiter is LISTED though its future is sealed, the sealing thread is about to
 * push it. Until then that thread runs no user code, and needs neither the role nor anything that a
 * callback may hold, so the remover waits for the push. FIRED is stored before the push, because
 * after it the waiter may have been called and freed. For a POSTED waiter the two moves of the
 * task's word decide. waiter_remove.pml checks this, and finds each planted mistake.
 */
#include "engine/tasks/waiter.h"

#include "base/back_off.h"
#include "engine/engine.h"
#include "engine/graph/node.h"
#include "engine/ground/callbacks.h"
#include "engine/ground/ground.h"
#include "engine/tasks/executor.h"
#include "engine/tasks/on_cancel.h"
#include "engine/tasks/task_pool.h"
#include "engine/tasks/waiter_list.h"

/* ---- being fired ---- */

void fry_waiter_is_embedded(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)waiter, (void)future,
        (void)status; /* never called: fry_fire_waiter knows it by address */
}

void fry_fire_waiter(fry_future_owner *owner, ferry_waiter *waiter)
{
    ferry_engine *engine = (ferry_engine *)owner;
    if (fry_unlikely(waiter->fn == fry_waiter_is_embedded)) {
        fry_store_relaxed(&engine->waiter_fired, 1);
        fry_store_release(&waiter->private_.state, FRY_WAITER_IDLE); /* its thread may return now */
        fry_fence();
        fry_wake(engine);
        return;
    }
    fry_store_relaxed(&waiter->private_.state, FRY_WAITER_FIRED); /* published by the push */
    fry_stack_push(&engine->fired, (fry_link *)(void *)&waiter->private_.next);
}

/* ---- on the loop ---- */

static ferry_waiter *waiter_of(fry_link *link)
{
    return FRY_CONTAINER(link, ferry_waiter, private_.next);
}

static fry_waiter_list *list_of(ferry_engine *engine, enum fry_waiter_state state)
{
    return state == FRY_WAITER_DUE_INLINE ? &engine->due_inline
           : state == FRY_WAITER_DUE      ? &engine->due
                                          : &engine->tasks.waiters;
}

static void enlist(ferry_engine *engine, ferry_waiter *waiter, enum fry_waiter_state state)
{
    fry_store_relaxed(&waiter->private_.state, state);
    fry_waiter_list_push(list_of(engine, state), waiter);
}

/* Makes the fired waiters due. */
static void collect(ferry_engine *engine)
{
    if (fry_load_relaxed(&engine->fired.top) == NULL)
        return;
    fry_link *fired = fry_stack_take_all(&engine->fired);
    while (fired != NULL) {
        ferry_waiter *waiter = waiter_of(fired);
        fired = fired->next;
        bool is_inline = fry_executor_for(engine, waiter->executor) == &fry_inline_executor;
        enlist(engine, waiter, is_inline ? FRY_WAITER_DUE_INLINE : FRY_WAITER_DUE);
    }
}

/* Gives the waiter back to the user first: its callback may register it again or free it. */
void fry_waiter_call(ferry_waiter *waiter)
{
    ferry_future *future = fry_load_relaxed(&waiter->private_.future);
    ferry_ready_fn fn = waiter->fn;
    fry_store_release(&waiter->private_.state, FRY_WAITER_IDLE);
    fn(waiter, future, fry_future_status(future));
    ferry_future_release(future);
}

static void post(ferry_executor *executor, fry_task *task, ferry_waiter *waiter)
{
    waiter->private_.previous = (ferry_waiter *)(void *)task;
    fry_store_relaxed(&waiter->private_.state, FRY_WAITER_POSTED); /* published with the task */
    fry_task_post(executor, task, FRY_TASK_WAITER, waiter,
                  fry_load_relaxed(&waiter->private_.future)->id);
}

/* Posts the waiters that have waited longest for a task, as far as there are tasks. */
static size_t post_waiting(ferry_engine *engine, size_t budget)
{
    fry_waiter_list *waiting = &engine->tasks.waiters;
    size_t count = 0;
    while (count < budget && waiting->first != NULL && !(count > 0 && fry_gives_up(engine))) {
        ferry_executor *executor = fry_executor_for(engine, waiting->first->executor);
        fry_task *task = executor != NULL ? fry_task_take_or_grow(engine) : NULL;
        if (executor != NULL && task == NULL)
            break;
        ferry_waiter *waiter = fry_waiter_list_pop(waiting);
        if (executor == NULL)
            fry_waiter_call(waiter); /* the executor went with the engine's handle */
        else
            post(executor, task, waiter);
        count++;
    }
    return count;
}

static void dispatch(ferry_engine *engine, ferry_waiter *waiter)
{
    ferry_executor *executor = fry_executor_for(engine, waiter->executor);
    if (executor == NULL || executor == &fry_inline_executor) {
        fry_waiter_call(waiter);
        return;
    }
    fry_task *task = NULL;
    if (engine->tasks.waiters.first == NULL) /* else it comes after those */
        task = fry_task_take_or_grow(engine);
    if (task != NULL)
        post(executor, task, waiter);
    else
        enlist(engine, waiter, FRY_WAITER_DUE_FOR_TASK);
}

/* Runs the inline waiters that are due now; those that become due meanwhile wait. */
static size_t run_inline(ferry_engine *engine)
{
    size_t count = 0, there_are = engine->due_inline.count;
    ferry_waiter *waiter; /* NULL early, if callbacks take others back */
    while (count < there_are && !(count > 0 && fry_gives_up(engine)) &&
           (waiter = fry_waiter_list_pop(&engine->due_inline)) != NULL) {
        fry_waiter_call(waiter);
        count++;
    }
    return count;
}

/*
 * Inline waiters go first, and don't use the budget of the others: each round may bring as many
 * inline ones as the budget, and the others would never be called. Called with the role. A shutdown
 * whose time is over runs at least one.
 */
size_t fry_run_callbacks(ferry_engine *engine, size_t budget)
{
    fry_callback_frame frame;
    fry_callbacks_begin(&frame, engine);
    collect(engine);
    size_t in_line = 0, others = 0;
    ferry_waiter *waiter;
    if (engine->due_inline.first != NULL)
        in_line = run_inline(engine);
    if (fry_unlikely(engine->tasks.waiters.first != NULL) && !(in_line > 0 && fry_gives_up(engine)))
        others = post_waiting(engine, budget);
    while (others < budget && !(in_line + others > 0 && fry_gives_up(engine)) &&
           (waiter = fry_waiter_list_pop(&engine->due)) != NULL) {
        dispatch(engine, waiter);
        others++;
    }
    fry_store_relaxed(&engine->has_due, fry_is_due(engine));
    fry_callbacks_end(&frame);
    return in_line + others;
}

void fry_waiter_listen(ferry_future *future, ferry_waiter *waiter)
{
    fry_store_relaxed(&waiter->private_.state, FRY_WAITER_LISTED);
    fry_store_relaxed(&waiter->private_.future, ferry_future_retain(future));
    if (!fry_future_add_waiter(future, waiter))
        fry_fire_waiter(future->owner, waiter);
}

/* ---- being taken back ---- */

/* Takes a waiter out of its future's list before the list is sealed. */
bool fry_waiter_take_out(ferry_waiter *waiter)
{
    if (!fry_future_remove_waiter(fry_load_relaxed(&waiter->private_.future), waiter))
        return false;
    fry_store_release(&waiter->private_.state, FRY_WAITER_IDLE);
    return true;
}

static bool remove_due(ferry_engine *engine, ferry_waiter *waiter, enum fry_waiter_state state)
{
    fry_waiter_list_take_out(list_of(engine, state), waiter);
    fry_store_relaxed(&engine->has_due, fry_is_due(engine));
    fry_store_release(&waiter->private_.state, FRY_WAITER_IDLE);
    return true;
}

/* An executor's thread may be about to call the waiter, which may then be freed. */
static bool remove_posted(ferry_waiter *waiter)
{
    if (!fry_task_revoke((fry_task *)(void *)waiter->private_.previous, waiter))
        return false;
    fry_store_release(&waiter->private_.state, FRY_WAITER_IDLE);
    return true;
}

/* With the role: takes back any waiter whose callback has not begun. */
bool fry_waiter_take_back(ferry_engine *engine, ferry_waiter *waiter)
{
    for (unsigned tries = 0;; tries++) {
        enum fry_waiter_state state = fry_load_acquire(&waiter->private_.state);
        switch (state) {
        case FRY_WAITER_IDLE:
            return false;
        case FRY_WAITER_LISTED:
            if (fry_waiter_take_out(waiter))
                return true;
            break; /* the sealing thread is about to push it */
        case FRY_WAITER_FIRED:
            collect(engine); /* pushed, or about to be */
            break;
        case FRY_WAITER_DUE_INLINE:
        case FRY_WAITER_DUE:
        case FRY_WAITER_DUE_FOR_TASK:
            return remove_due(engine, waiter, state);
        case FRY_WAITER_ON_CANCEL:
            if (fry_on_cancel_take_back(waiter))
                return true;
            break; /* whoever ended the promise is about to fire it or to let it go */
        case FRY_WAITER_POSTED:
            return remove_posted(waiter);
        }
        fry_back_off(tries);
    }
}
