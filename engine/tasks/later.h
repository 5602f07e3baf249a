/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that begin what ends later: the promise that ends it, and its cancel: later.c. */
#ifndef FRY_ENGINE_TASKS_LATER_H
#define FRY_ENGINE_TASKS_LATER_H

#include "engine/graph/node.h"

/* fry_node.outside of an operation that ends later. Moves in later.c, and in its kind's `stop`. */
enum fry_later_state {
    FRY_LATER_BEGUN = FRY_CALL_BEGUN, /* begin was called, and the promise exists */
    FRY_LATER_NEVER = FRY_CALL_NEVER, /* a cancel came first */
    FRY_LATER_RETURNED = 1 << 2,      /* begin has returned */
    FRY_LATER_CLAIMED = 1 << 3,       /* a thread resolves the promise: only the first may */
    FRY_LATER_ENDED = 1 << 4,         /* the promise was resolved */
    FRY_LATER_FAILED = 1 << 5,        /* the operation has failed before that */
    FRY_LATER_CANCELLING = 1 << 6,    /* cancel is to be called, or runs */
};

/* What the thread that moved the state has to do. */
typedef enum fry_later_duty {
    FRY_LATER_NOTHING = 0,
    FRY_LATER_CANCEL, /* see to it that the loop calls cancel */
    FRY_LATER_OVER,   /* tell the graph that it is over */
} fry_later_duty;

/* Calls begin in the calling thread, which its executor chose. */
void fry_later_begin(fry_node *node);

/*
 * Resolves its promise, with the error's status. `error` (NULL: it succeeded) and `value` (NULL:
 * none; memory of the engine's) are taken. False: it had been resolved, and nothing was taken. Any
 * thread with the promise.
 */
bool fry_later_end(fry_node *node, fry_error *error, fry_value *value);

/* It has failed while under way. With the baton. FRY_LATER_CANCEL: the caller queues it. */
fry_later_duty fry_later_failed(fry_node *node);

/* Whether its promise was resolved, or is being resolved. */
static inline bool fry_later_is_ended(const fry_node *node)
{
    return (fry_load_acquire(&node->outside) & FRY_LATER_CLAIMED) != 0;
}

/* Whether the loop is to call its cancel. */
static inline bool fry_later_is_cancelling(const fry_node *node)
{
    return node->kind == FERRY_OP_ASYNC &&
           (fry_load_acquire(&node->outside) & FRY_LATER_CANCELLING) != 0;
}

/* Calls its cancel, unless its promise was resolved meanwhile. On the loop, without the baton. */
void fry_later_cancel(fry_node *node);

#endif
