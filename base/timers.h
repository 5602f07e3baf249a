/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Timers by time: a heap whose links are in the timers themselves, so setting a timer takes no
 * memory and cannot fail. The heap reads no clock and calls nobody: its owner asks for the first
 * timer and removes it. One thread at a time.
 *
 * It is a pairing heap. Fredman, Sedgewick, Sleator, Tarjan, "The pairing heap: a new form of
 * self-adjusting heap" (1986): add O(1), remove O(log n) amortised. `previous` is the left sibling,
 * or the parent of a first child; the root has neither siblings nor a parent.
 */
#ifndef FRY_BASE_TIMERS_H
#define FRY_BASE_TIMERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The owner keeps the memory while the timer is in a heap, and knows whether it is. */
typedef struct fry_timers_link {
    int64_t when_ns; /* set before it is added; unchanged until it is removed */
    struct fry_timers_link *child, *next, *previous; /* private */
} fry_timers_link;

/* Zeroed: empty. */
typedef struct fry_timers {
    fry_timers_link *first; /* the timer that is due first; NULL: none */
} fry_timers;

/*
 * Whether left comes before right when both are due at the same time. A heap always uses the same
 * function, as a constant: the functions are inline, so a heap without one (NULL: any order) pays
 * nothing.
 */
typedef bool (*fry_timers_before_fn)(const fry_timers_link *left, const fry_timers_link *right);

#define FRY_TIMERS_INLINE static inline __attribute__((always_inline))

FRY_TIMERS_INLINE fry_timers_link *fry_timers_meld(fry_timers_link *left, fry_timers_link *right,
                                                   fry_timers_before_fn before)
{
    if (left == NULL)
        return right;
    if (right == NULL)
        return left;
    if (right->when_ns < left->when_ns ||
        (before != NULL && right->when_ns == left->when_ns && before(right, left))) {
        fry_timers_link *swapped = left;
        left = right;
        right = swapped;
    }
    right->previous = left;
    right->next = left->child;
    if (right->next != NULL)
        right->next->previous = right;
    left->child = right;
    left->next = NULL;
    left->previous = NULL;
    return left;
}

/* Melds a list of siblings in two passes, without recursion. */
FRY_TIMERS_INLINE fry_timers_link *fry_timers_meld_siblings(fry_timers_link *first,
                                                            fry_timers_before_fn before)
{
    fry_timers_link *pairs = NULL; /* melded pairs, last first, through `next` */
    while (first != NULL) {
        fry_timers_link *second = first->next;
        fry_timers_link *rest = second != NULL ? second->next : NULL;
        first->next = NULL;
        if (second != NULL)
            second->next = NULL;
        fry_timers_link *pair = fry_timers_meld(first, second, before);
        pair->next = pairs;
        pairs = pair;
        first = rest;
    }
    fry_timers_link *root = NULL;
    while (pairs != NULL) {
        fry_timers_link *next = pairs->next;
        pairs->next = NULL;
        root = fry_timers_meld(root, pairs, before);
        pairs = next;
    }
    if (root != NULL)
        root->previous = NULL;
    return root;
}

/* O(1). */
FRY_TIMERS_INLINE void fry_timers_add(fry_timers *timers, fry_timers_link *timer,
                                      fry_timers_before_fn before)
{
    timer->child = timer->next = timer->previous = NULL;
    timers->first = fry_timers_meld(timers->first, timer, before);
}

/* Removes a timer that was added and not removed since. O(log n), amortised. */
FRY_TIMERS_INLINE void fry_timers_remove(fry_timers *timers, fry_timers_link *timer,
                                         fry_timers_before_fn before)
{
    fry_timers_link *children = fry_timers_meld_siblings(timer->child, before);
    if (timers->first == timer) {
        timers->first = children;
        return;
    }
    if (timer->previous->child == timer)
        timer->previous->child = timer->next;
    else
        timer->previous->next = timer->next;
    if (timer->next != NULL)
        timer->next->previous = timer->previous;
    timers->first = fry_timers_meld(timers->first, children, before);
}

/* When the first timer is due; INT64_MAX: there is none. */
static inline int64_t fry_timers_next_ns(const fry_timers *timers)
{
    return timers->first != NULL ? timers->first->when_ns : INT64_MAX;
}

#endif
