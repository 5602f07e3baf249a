/* SPDX-License-Identifier: Apache-2.0 */
/* Waiters that are called if a promise fails before it is resolved: on_cancel.c. */
#ifndef FRY_ENGINE_TASKS_ON_CANCEL_H
#define FRY_ENGINE_TASKS_ON_CANCEL_H

#include "engine/graph/node.h"

/*
 * Registers a valid waiter; it may be fired at once. FERRY_OK; FERRY_E_INVALID: the waiter is in
 * use, or the promise has one or was resolved. Any thread with the promise.
 */
ferry_status fry_on_cancel_listen(fry_node *promise, ferry_waiter *waiter);

/* The caller has resolved the promise: its waiter is the user's again. */
void fry_on_cancel_let_go(fry_node *promise);

/*
 * Takes back a waiter that is ON_CANCEL, or was. False: another thread fires it or lets it go, and
 * will have moved its state soon. The caller drops the reference to the future.
 */
bool fry_on_cancel_take_back(ferry_waiter *waiter);

#endif
