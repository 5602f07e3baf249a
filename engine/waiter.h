/* SPDX-License-Identifier: Apache-2.0 */
/* Waiters, from being fired to being called or taken back: waiter.c. */
#ifndef FRY_ENGINE_WAITER_H
#define FRY_ENGINE_WAITER_H

#include "engine/ground.h"
#include "engine/waiter_list.h"

/* As ferry_future_on_ready, on the loop, of a waiter that is new and whole. */
void fry_future_listen(ferry_future *future, ferry_waiter *waiter);

/* On the loop: has those called whose futures have resolved, or posts them; at most so many, and
 * all that are inline. Returns how many. */
size_t fry_run_callbacks(ferry_engine *engine, size_t budget);

/* Its future has resolved. Any thread, with the baton or without. */
void fry_fire_waiter(fry_future_owner *owner, ferry_waiter *waiter);

/* Any thread: some have been fired, or could be posted. */
static inline bool fry_has_callbacks(const ferry_engine *engine)
{
    return fry_load_seq_cst(&engine->fired.top) != NULL ||
           fry_tasks_can_go_on(&engine->tasks, FRY_TASKS_FOR_WAITERS);
}

/* The loop's role: some wait for their turn. */
static inline bool fry_is_due(const ferry_engine *engine)
{
    return engine->due.first != NULL || engine->due_inline.first != NULL;
}

/* Takes the waiter out of ferry's hands and calls it. */
void fry_waiter_call(ferry_waiter *waiter);

/* fn of a waiter that only brings the thread that waits in embedded mode out of its sleep. */
void fry_waiter_is_embedded(ferry_waiter *waiter, ferry_future *future, ferry_status status);

/* Takes one back before its callback begins. With the role, as a callback has it; without it, of
 * one that is LISTED. False: it has begun, or it is not to be had. */
bool fry_waiter_take_back(ferry_engine *engine, ferry_waiter *waiter);
bool fry_waiter_take_out(ferry_waiter *waiter);

#endif
