/* SPDX-License-Identifier: Apache-2.0 */
/* Waiters, from being fired until they are called or taken back: waiter.c. */
#ifndef FRY_ENGINE_TASKS_WAITER_H
#define FRY_ENGINE_TASKS_WAITER_H

#include "engine/ground/ground.h"
#include "engine/tasks/waiter_list.h"

/* Like ferry_future_on_ready, on the loop, for a new and valid waiter. */
void fry_waiter_listen(ferry_future *future, ferry_waiter *waiter);

/*
 * Calls or posts waiters whose futures have resolved: at most `budget`, and all inline ones.
 * Returns how many. On the loop.
 */
size_t fry_run_callbacks(ferry_engine *engine, size_t budget);

/* Fires a waiter whose future has resolved. Any thread, with or without the baton. */
void fry_fire_waiter(fry_future_owner *owner, ferry_waiter *waiter);

/* Gives the waiter back to the user and calls it. */
void fry_waiter_call(ferry_waiter *waiter);

/* fn of a waiter that only wakes the thread that waits in embedded mode. */
void fry_waiter_is_embedded(ferry_waiter *waiter, ferry_future *future, ferry_status status);

/*
 * Takes a waiter back before its callback begins. With the role, as a callback has it; or without
 * it if the waiter is LISTED. False: the callback has begun, or the waiter can't be taken back.
 */
bool fry_waiter_take_back(ferry_engine *engine, ferry_waiter *waiter);
bool fry_waiter_take_out(ferry_waiter *waiter);

#endif
