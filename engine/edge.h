/* SPDX-License-Identifier: Apache-2.0 */
/* Edges: into and out of their predecessor's list, and taking effect. With the baton. */
#ifndef FRY_ENGINE_EDGE_H
#define FRY_ENGINE_EDGE_H

#include "engine/join.h"
#include "engine/lane.h"
#include "engine/node.h"
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

/* Links the edge ahead of all others, where fry_batch_of looks for it. */
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

/* Drops an edge whose successor is gone or no longer waits for it. */
static inline void fry_edge_abandon(fry_edge *edge)
{
    fry_node *from = edge->from;
    fry_edge_unlink(edge);
    if (fry_node_is_join(from) && from->successors_first == NULL)
        fry_join_release(from);
}

/*
 * Whether an edge on the device is a status edge, counted in `unconfirmed`. For a definition or a
 * join every edge is: they have no operation that would fire behind what they wait for.
 */
static inline bool fry_edge_is_counted(const fry_edge *edge)
{
    return fry_edge_carries_failure(edge) || edge->to->kind == FERRY_OP_DEFINE ||
           fry_node_is_join(edge->to);
}

/* How many streams other than `lane` an issued node is on. */
static inline uint8_t fry_stands_elsewhere(const fry_node *from, const fry_lane *lane)
{
    if (fry_likely(!fry_node_is_join(from)))
        return from->lane != lane;
    uint8_t count = 0;
    for (size_t i = 0; i < from->stand_count; i++)
        count = (uint8_t)(count + (fry_node_stand(from, i).lane != lane));
    return count;
}

static inline void fry_device_waits_add(fry_node *to, uint32_t count)
{
    to->device_waits = (to->device_waits + count) & 0x7f;
}

/*
 * Moves the wait to the successor's device; the edge stays, to carry the status, or the order if
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
    if (to->kind == FERRY_OP_DEFINE && to->lane == NULL)
        to->lane = edge->from->lane;
    fry_device_waits_add(to, fry_stands_elsewhere(edge->from, to->lane));
}

/* Moves the wait back to the graph, because the successor was not issued. */
static inline void fry_edge_take_from_device(fry_edge *edge)
{
    fry_node *to = edge->to;
    if (!fry_node_is_join(to))
        fry_device_waits_add(to, 0u - fry_stands_elsewhere(edge->from, to->lane));
    if (fry_edge_is_counted(edge))
        to->unconfirmed--;
    fry_edge_hold(edge);
}

/* Adds an edge, for which there is room, and lets it take effect. */
void fry_graph_connect(fry_turn *turn, fry_node *from, fry_node *to, fry_edge_nature nature);

/* Lets a new edge take effect, according to its predecessor's state. */
void fry_edge_attach(fry_turn *turn, fry_edge *edge);

#endif
