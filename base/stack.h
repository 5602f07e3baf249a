/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An intrusive stack that any thread pushes on and whose reader takes all at once: the inbox.
 *
 * The push that wins its compare-and-swap first comes first: that is the order fry_stack_take_all
 * gives back. Nothing is popped singly, so an address that came back (ABA) does no harm: a push
 * only needs the head to be what its item points at, whatever happened meanwhile.
 */
#ifndef FRY_BASE_STACK_H
#define FRY_BASE_STACK_H

#include "base/lf.h"

#include <stddef.h>

typedef struct fry_link {
    struct fry_link *next;
} fry_link;

typedef struct fry_stack {
    fry_link *top;
} fry_stack;

/*
 * Pushes a chain at once: `newest` leads through `next` to `oldest`. Its items stay together and in
 * their order, since they land by one compare-and-swap. Any thread. Full barrier: what the pusher
 * looks at next is read after the items can be seen.
 */
static inline void fry_stack_push_chain(fry_stack *stack, fry_link *newest, fry_link *oldest)
{
    fry_link *top = fry_load_relaxed(&stack->top);
    do {
        oldest->next = top;
    } while (!fry_cas_weak(&stack->top, &top, newest)); /* pairs with take_all */
}

static inline void fry_stack_push(fry_stack *stack, fry_link *item)
{
    fry_stack_push_chain(stack, item, item);
}

static inline bool fry_stack_is_empty(const fry_stack *stack)
{
    return fry_load_seq_cst(&stack->top) == NULL;
}

/* Takes everything, oldest first. */
static inline fry_link *fry_stack_take_all(fry_stack *stack)
{
    fry_link *item = fry_exchange(&stack->top, NULL);
    fry_link *ordered = NULL;
    while (item != NULL) {
        fry_link *next = item->next;
        item->next = ordered;
        ordered = item;
        item = next;
    }
    return ordered;
}

/* A first-in first-out list of the same items, for one owner. */
typedef struct fry_queue {
    fry_link *first;
    fry_link *last;
} fry_queue;

/* The item that was added last; NULL: the queue is empty. */
static inline fry_link *fry_queue_last(const fry_queue *queue)
{
    return queue->first == NULL ? NULL : queue->last;
}

/* Adds an item behind one that is in the queue; NULL: before all. */
static inline void fry_queue_push_behind(fry_queue *queue, fry_link *before, fry_link *item)
{
    fry_link **place = before == NULL ? &queue->first : &before->next;
    item->next = *place;
    *place = item;
    if (item->next == NULL)
        queue->last = item;
}

static inline void fry_queue_push(fry_queue *queue, fry_link *item)
{
    item->next = NULL;
    if (queue->first == NULL)
        queue->first = item;
    else
        queue->last->next = item;
    queue->last = item;
}

static inline fry_link *fry_queue_pop(fry_queue *queue)
{
    fry_link *item = queue->first;
    if (item != NULL)
        queue->first = item->next;
    return item;
}

/* Appends a chain of items as fry_stack_take_all gives it. */
static inline void fry_queue_append(fry_queue *queue, fry_link *items)
{
    while (items != NULL) {
        fry_link *next = items->next;
        fry_queue_push(queue, items);
        items = next;
    }
}

#endif
