/* SPDX-License-Identifier: Apache-2.0 */
/* States of waiters in the engine's hands, and the loop's lists of them. */
#ifndef FRY_ENGINE_TASKS_WAITER_LIST_H
#define FRY_ENGINE_TASKS_WAITER_LIST_H

#include "base/lf.h"

#include <ferry/future.h>

/* ferry_waiter.private_.state: where the waiter is, and who may touch it. See waiter.c. */
enum fry_waiter_state {
    FRY_WAITER_IDLE = 0,   /* the user's */
    FRY_WAITER_LISTED,     /* in its future's list, or held by a thread that resolves the future or
                              removes another waiter */
    FRY_WAITER_FIRED,      /* on engine->fired, or about to be pushed there */
    FRY_WAITER_DUE_INLINE, /* in the loop's lists: due_inline, due, tasks.waiters */
    FRY_WAITER_DUE,
    FRY_WAITER_DUE_FOR_TASK,
    FRY_WAITER_ON_CANCEL, /* in its promise: on_cancel.c */
    FRY_WAITER_POSTED,    /* an executor has a task for it, which `previous` is */
};

/* A list of the loop, for the holder of the role. Any waiter in it can be taken out. */
typedef struct fry_waiter_list {
    ferry_waiter *first, *last;
    size_t count;
} fry_waiter_list;

static inline void fry_waiter_list_push(fry_waiter_list *list, ferry_waiter *waiter)
{
    waiter->private_.next = NULL;
    waiter->private_.previous = list->last;
    if (list->last == NULL)
        list->first = waiter;
    else
        list->last->private_.next = waiter;
    list->last = waiter;
    list->count++;
}

static inline void fry_waiter_list_take_out(fry_waiter_list *list, const ferry_waiter *waiter)
{
    ferry_waiter *next = waiter->private_.next, *previous = waiter->private_.previous;
    if (previous == NULL)
        list->first = next;
    else
        previous->private_.next = next;
    if (next == NULL)
        list->last = previous;
    else
        next->private_.previous = previous;
    list->count--;
}

static inline ferry_waiter *fry_waiter_list_pop(fry_waiter_list *list)
{
    ferry_waiter *waiter = list->first;
    if (waiter == NULL)
        return NULL;
    list->first = waiter->private_.next;
    if (list->first == NULL)
        list->last = NULL;
    else
        list->first->private_.previous = NULL;
    list->count--;
    return waiter;
}

#endif
