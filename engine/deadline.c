/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deadlines: a pairing heap whose links stand in the nodes, so that setting one takes no memory.
 * Fredman, Sedgewick, Sleator, Tarjan, "The pairing heap: a new form of self-adjusting heap"
 * (1986): add O(1), remove O(log n) amortised. heap_previous is the left sibling, or the parent of
 * a first child.
 */
#include "engine/deadline.h"

#include "engine/engine.h"
#include "engine/node.h"

static fry_node *heap_meld(fry_node *left, fry_node *right)
{
    if (left == NULL)
        return right;
    if (right == NULL)
        return left;
    if (right->deadline_ns < left->deadline_ns) {
        fry_node *swapped = left;
        left = right;
        right = swapped;
    }
    right->heap_previous = left;
    right->heap_next = left->heap_child;
    if (right->heap_next != NULL)
        right->heap_next->heap_previous = right;
    left->heap_child = right;
    left->heap_next = NULL;
    left->heap_previous = NULL;
    return left;
}

/* Melds a list of siblings in two passes, without recursion. */
static fry_node *heap_meld_siblings(fry_node *first)
{
    fry_node *pairs = NULL; /* melded pairs, last first, through heap_next */
    while (first != NULL) {
        fry_node *second = first->heap_next;
        fry_node *rest = second != NULL ? second->heap_next : NULL;
        first->heap_next = NULL;
        if (second != NULL)
            second->heap_next = NULL;
        fry_node *pair = heap_meld(first, second);
        pair->heap_next = pairs;
        pairs = pair;
        first = rest;
    }
    fry_node *root = NULL;
    while (pairs != NULL) {
        fry_node *next = pairs->heap_next;
        pairs->heap_next = NULL;
        root = heap_meld(root, pairs);
        pairs = next;
    }
    if (root != NULL)
        root->heap_previous = NULL;
    return root;
}

void fry_deadline_add(ferry_engine *engine, fry_node *node)
{
    node->flags |= FRY_NODE_HAS_DEADLINE;
    node->heap_child = node->heap_next = node->heap_previous = NULL;
    engine->deadlines = heap_meld(engine->deadlines, node);
}

void fry_deadline_remove(ferry_engine *engine, fry_node *node)
{
    node->flags &= (uint16_t)~FRY_NODE_HAS_DEADLINE;
    fry_node *children = heap_meld_siblings(node->heap_child);
    if (engine->deadlines == node) {
        engine->deadlines = children;
        return;
    }
    if (node->heap_previous->heap_child == node)
        node->heap_previous->heap_child = node->heap_next;
    else
        node->heap_previous->heap_next = node->heap_next;
    if (node->heap_next != NULL)
        node->heap_next->heap_previous = node->heap_previous;
    engine->deadlines = heap_meld(engine->deadlines, children);
}
