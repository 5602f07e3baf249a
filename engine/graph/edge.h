/* SPDX-License-Identifier: Apache-2.0 */
/* Edges: entering and leaving their predecessor's list, and taking effect. With the baton. */
#ifndef FRY_ENGINE_GRAPH_EDGE_H
#define FRY_ENGINE_GRAPH_EDGE_H

#include "engine/graph/due.h"
#include "engine/graph/join.h"
#include "engine/graph/kind.h"
#include "engine/graph/lane.h"
#include "engine/graph/node.h"
#include "engine/graph/stand.h"
#include "engine/graph/turn.h"

/*
 * A node's successors are a stack through its edges, the newest first: adding an edge touches the
 * node's first line and the edge, and no neighbour. Successors start in the order in which they
 * were added, nevertheless. When all edges fire (fire_everything in graph.c), this is done the
 * newest first, and each successor comes before those that became ready in the same walk: turning
 * the stack over first costs 30 ns a node, since it waits for each edge alone, with nothing beside
 * to do. When some of the edges stay, the stack is turned over, and they are pushed again.
 *
 * To remove an edge from the middle, the edge before it must be known. This is noted when the first
 * edge leaves, and from then on for each new edge (FRY_NODE_BOTH_WAYS), until the stack is taken.
 * So a stack that no edge leaves pays nothing, and n removals take n steps and one walk over the
 * edges there. That walk is short, since a stack of FRY_DEGREE_MAX edges goes both ways in any
 * case.
 */
static inline void fry_successors_note_previous(fry_node *node)
{
    if ((node->flags & FRY_NODE_BOTH_WAYS) != 0)
        return;
    node->flags |= FRY_NODE_BOTH_WAYS;
    fry_edge *previous = NULL;
    for (fry_edge *edge = node->successors; edge != NULL; edge = edge->next) {
        edge->previous = previous;
        previous = edge;
    }
}

static inline void fry_edge_link(fry_edge *edge)
{
    fry_node *from = edge->from;
    if (fry_unlikely(fry_node_successor_count(from) == FRY_DEGREE_MAX))
        fry_successors_note_previous(from);
    else
        fry_node_count_successor(from);
    edge->next = from->successors;
    from->successors = edge;
    if (fry_unlikely((from->flags & FRY_NODE_BOTH_WAYS) != 0)) {
        edge->previous = NULL;
        if (edge->next != NULL)
            edge->next->previous = edge;
    }
}

/* Takes all successors, newest first; the node has none after that. */
static inline fry_edge *fry_successors_take(fry_node *node)
{
    fry_edge *newest = node->successors;
    node->successors = NULL;
    fry_node_forget_successors(node);
    node->flags &= (uint16_t)~FRY_NODE_BOTH_WAYS;
    return newest;
}

/* The same, oldest first. */
static inline fry_edge *fry_successors_take_in_order(fry_node *node)
{
    fry_edge *edge = fry_successors_take(node), *oldest = NULL;
    while (edge != NULL) {
        fry_edge *older = edge->next;
        edge->next = oldest;
        oldest = edge;
        edge = older;
    }
    return oldest;
}

static inline void fry_edge_unlink(fry_edge *edge)
{
    fry_node *from = edge->from;
    if (from->successors == edge) {
        from->successors = edge->next;
        if (edge->next == NULL) {
            fry_node_forget_successors(from);
            from->flags &= (uint16_t)~FRY_NODE_BOTH_WAYS;
        } else {
            edge->next->previous = NULL; /* read only with FRY_NODE_BOTH_WAYS */
        }
    } else {
        fry_successors_note_previous(from);
        edge->previous->next = edge->next;
        if (edge->next != NULL)
            edge->next->previous = edge->previous;
    }
    edge->state = FRY_EDGE_LOOSE;
}

static inline void fry_edge_hold(fry_edge *edge)
{
    edge->state = FRY_EDGE_HOLDING;
    fry_node_hold(edge->to);
}

static inline bool fry_edge_carries_failure(const fry_edge *edge)
{
    return edge->nature == FRY_EDGE_AFTER || edge->nature == FRY_EDGE_READ;
}

/* Drops an edge whose successor is gone or waits for it no longer. */
static inline void fry_edge_abandon(fry_edge *edge)
{
    fry_node *from = edge->from;
    fry_edge_unlink(edge);
    if (fry_node_is_join(from) && from->successors == NULL)
        fry_join_release(from);
}

/*
 * Whether an edge on the device is a status edge, counted in `unconfirmed`. For a definition or a
 * join every edge is one: these have no operation that would fire behind their predecessors.
 */
static inline bool fry_edge_is_counted(const fry_edge *edge)
{
    return fry_edge_carries_failure(edge) || fry_node_stands(edge->to);
}

/* On how many streams besides `lane` an issued node stands. */
static inline uint8_t fry_stands_elsewhere(const fry_node *from, const fry_lane *lane)
{
    if (fry_likely(!fry_node_is_join(from)))
        return from->op.stand.lane != lane;
    uint8_t count = 0;
    for (size_t i = 0; i < from->join.stand_count; i++)
        count = (uint8_t)(count + (fry_node_stand(from, i).lane != lane));
    return count;
}

static inline void fry_node_add_device_waits(fry_node *to, uint32_t count)
{
    to->device_waits = (to->device_waits + count) & 0xf;
}

/*
 * Moves the wait to the successor's device. The edge stays, to carry the status, or the order if
 * the successor is never issued.
 */
static inline void fry_edge_move_to_device(fry_edge *edge)
{
    fry_node *to = edge->to;
    edge->state = FRY_EDGE_ON_DEVICE;
    if (fry_edge_is_counted(edge))
        to->unconfirmed++;
    if (fry_node_is_join(to)) {
        fry_join_stand(to, edge->from);
        return;
    }
    if (to->op.stand.lane == NULL) /* a definition: its first predecessor says where */
        to->op.stand.lane = fry_node_stand(edge->from, 0).lane;
    fry_node_add_device_waits(to, fry_stands_elsewhere(edge->from, to->op.stand.lane));
}

/* Moves the wait back to the graph, because the successor was not issued. */
static inline void fry_edge_take_from_device(fry_edge *edge)
{
    fry_node *to = edge->to;
    if (!fry_node_is_join(to))
        fry_node_add_device_waits(to, 0u - fry_stands_elsewhere(edge->from, to->op.stand.lane));
    if (fry_edge_is_counted(edge))
        to->unconfirmed--;
    fry_edge_hold(edge);
}

/* Other devices may wait for the node, which has been issued, from now on. */
static inline void fry_node_flush(const fry_node *node)
{
    if (fry_node_has_place(node) && node->op.stand.lane != NULL)
        fry_lane_flush(node->op.stand.lane);
}

/*
 * Lets a new edge take effect as far as its predecessor's state allows. If the predecessor has very
 * many successors already, a join comes between.
 */
void fry_edge_attach(fry_turn *turn, fry_edge *edge);

/* Adds an edge, reserved before, and lets it take effect. */
void fry_graph_connect(fry_turn *turn, fry_node *from, fry_node *to, fry_edge_nature nature);

/* Adds a member to a join. Takes an edge, reserved before, except for the first. */
void fry_join_add(fry_turn *turn, fry_node *join, fry_node *member, fry_edge_nature nature);

/* The same with a given edge, which is in no list. */
void fry_join_adopt(fry_turn *turn, fry_node *join, fry_edge *edge);

#endif
