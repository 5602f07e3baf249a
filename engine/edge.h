/* SPDX-License-Identifier: Apache-2.0 */
/* Edges: in and out of their predecessor's list, and taking effect. With the baton. */
#ifndef FRY_ENGINE_EDGE_H
#define FRY_ENGINE_EDGE_H

#include "engine/due.h"
#include "engine/join.h"
#include "engine/kind.h"
#include "engine/lane.h"
#include "engine/node.h"
#include "engine/stand.h"
#include "engine/turn.h"

static inline void fry_edge_link(fry_edge *edge)
{
    fry_node *from = edge->from;
    edge->next = NULL;
    edge->previous = from->successors_last;
    edge->rank = 0;
    if (edge->previous != NULL) {
        edge->previous->next = edge;
        edge->rank = edge->previous->rank + 1;
    } else {
        from->successors_first = edge;
    }
    from->successors_last = edge;
}

/* Ahead of all others: fry_batch_of looks for it there. */
static inline void fry_edge_link_first(fry_edge *edge)
{
    fry_node *from = edge->from;
    edge->rank = 0;
    edge->previous = NULL;
    edge->next = from->successors_first;
    if (edge->next != NULL)
        edge->next->previous = edge;
    else
        from->successors_last = edge;
    from->successors_first = edge;
}

static inline void fry_edge_unlink(fry_edge *edge)
{
    fry_node *from = edge->from;
    if (edge->previous != NULL)
        edge->previous->next = edge->next;
    else
        from->successors_first = edge->next;
    if (edge->next != NULL)
        edge->next->previous = edge->previous;
    else
        from->successors_last = edge->previous;
    edge->state = FRY_EDGE_LOOSE;
}

static inline void fry_edge_hold(fry_edge *edge)
{
    edge->state = FRY_EDGE_HOLDING;
    edge->to->holding++;
}

static inline bool fry_edge_carries_failure(const fry_edge *edge)
{
    return edge->nature == FRY_EDGE_AFTER || edge->nature == FRY_EDGE_READ;
}

/* The successor is gone, or does not wait for it any more. */
static inline void fry_edge_abandon(fry_edge *edge)
{
    fry_node *from = edge->from;
    fry_edge_unlink(edge);
    if (fry_node_is_join(from) && from->successors_first == NULL)
        fry_join_release(from);
}

/*
 * On the device it is a status edge, counted in `unconfirmed`. A definition or a join has no
 * operation that would fire behind what it waits for, so to those every edge is one.
 */
static inline bool fry_edge_is_counted(const fry_edge *edge)
{
    return fry_edge_carries_failure(edge) || fry_node_stands(edge->to);
}

/* Other streams than `lane` that an issued node stands on. */
static inline uint8_t fry_stands_elsewhere(const fry_node *from, const fry_lane *lane)
{
    if (fry_likely(!fry_node_is_join(from)))
        return from->op.stand.lane != lane;
    uint8_t count = 0;
    for (size_t i = 0; i < from->join.stand_count; i++)
        count = (uint8_t)(count + (fry_node_stand(from, i).lane != lane));
    return count;
}

static inline void fry_device_waits_add(fry_node *to, uint32_t count)
{
    to->device_waits = (to->device_waits + count) & 0x3f;
}

/* The successor's device waits from now on; the edge stays to carry status, or the order if the
 * successor is never issued. */
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
    if (to->op.stand.lane == NULL) /* a definition: the first that it waits for says where */
        to->op.stand.lane = fry_node_stand(edge->from, 0).lane;
    fry_device_waits_add(to, fry_stands_elsewhere(edge->from, to->op.stand.lane));
}

/* The graph waits in place of the device, which the successor has not been issued to. */
static inline void fry_edge_take_from_device(fry_edge *edge)
{
    fry_node *to = edge->to;
    if (!fry_node_is_join(to))
        fry_device_waits_add(to, 0u - fry_stands_elsewhere(edge->from, to->op.stand.lane));
    if (fry_edge_is_counted(edge))
        to->unconfirmed--;
    fry_edge_hold(edge);
}

/* Others may have their devices wait for it from now on. Of any issued node. */
static inline void fry_node_flush(const fry_node *node)
{
    if (fry_node_is_on_stream(node) && node->op.stand.lane != NULL)
        fry_lane_flush(node->op.stand.lane);
}

/* Lets a new edge take effect, given how far its predecessor has come. Where that has very many
 * successors already, a join comes between. */
void fry_edge_attach(fry_turn *turn, fry_edge *edge);

/* Adds an edge, reserved before, and lets it take effect. */
void fry_graph_connect(fry_turn *turn, fry_node *from, fry_node *to, fry_edge_nature nature);

/* One more member of a join. Takes an edge, reserved before, of all but the first. */
void fry_join_add(fry_turn *turn, fry_node *join, fry_node *member, fry_edge_nature nature);

/* The same, by an edge that there is, in no list. */
void fry_join_adopt(fry_turn *turn, fry_node *join, fry_edge *edge);

#endif
