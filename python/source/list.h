/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ferry's threads hand to Python: a lock-free list that any thread pushes to and a thread with
 * the interpreter's lock takes whole. An exchange takes all, so no node is met again while a
 * pusher compares, and a fork at any moment leaves the list usable in the child.
 */
#ifndef FERRY_PYTHON_LIST_H
#define FERRY_PYTHON_LIST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct list_node {
    struct list_node *next;
};

typedef struct list {
    _Atomic(struct list_node *) newest;
} list;

/* True if the list was empty: whoever takes it has to be told. */
static inline bool list_push(list *list, struct list_node *node)
{
    struct list_node *newest = atomic_load(&list->newest);
    do
        node->next = newest;
    while (!atomic_compare_exchange_weak(&list->newest, &newest, node));
    return newest == NULL;
}

static inline bool list_is_empty(const list *list)
{
    return atomic_load_explicit(&list->newest, memory_order_relaxed) == NULL;
}

/* All nodes, the oldest first. */
static inline struct list_node *list_take(list *list)
{
    struct list_node *newest = atomic_exchange(&list->newest, NULL);
    struct list_node *oldest = NULL;
    while (newest) {
        struct list_node *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    return oldest;
}

#endif
