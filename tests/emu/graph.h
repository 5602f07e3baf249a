/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs: the operations that a capture took, in the order in which they were captured. */
#ifndef EMU_GRAPH_H
#define EMU_GRAPH_H

#include "tests/emu/driver.h"

/*
 * How much of each captured stream is ordered before a place: of slot i the first counts[i] nodes.
 * Slots past the end have 0.
 */
typedef struct emu_frontier {
    uint32_t *counts;
    size_t size;
} emu_frontier;

/* What is ordered before one of the two is now ordered before `frontier`. */
void emu_frontier_join(emu_frontier *frontier, const emu_frontier *other);
void emu_frontier_set(emu_frontier *frontier, size_t slot, uint32_t count);
uint32_t emu_frontier_get(const emu_frontier *frontier, size_t slot);
void emu_frontier_free(emu_frontier *frontier);

/* One captured operation: the position-th of its slot, counted from 1. */
typedef struct emu_node {
    emu_operation *operation; /* its `stream` is a reference */
    size_t slot;
    uint32_t position;
} emu_node;

/* A graph's nodes, shared by what is instantiated of it and by launches that are under way. */
typedef struct emu_nodes {
    unsigned references;
    emu_node *nodes;
    size_t count, room;
} emu_nodes;

/* All with the lock. */
emu_nodes *emu_nodes_new(void);
void emu_nodes_drop(emu_nodes *nodes);

/*
 * Adds an operation, which it takes over, as the next of a slot; `before` is what is ordered before
 * it. Catches what touches the same bytes in no order.
 */
void emu_nodes_add(emu_nodes *nodes, CUstream stream, emu_operation *operation, size_t slot,
                   const emu_frontier *before);

/* A graph of the nodes, whose reference it takes. */
CUgraph emu_graph_new(emu_nodes *nodes);

#endif
