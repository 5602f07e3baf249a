/* SPDX-License-Identifier: Apache-2.0 */
/* Edges: in and out of their predecessor's list, and taking effect. With the baton. */
#ifndef FRY_ENGINE_EDGE_H
#define FRY_ENGINE_EDGE_H

#include "engine/graph.h"

static inline void fry_edge_link(fry_edge *edge)
{
    fry_node *from = edge->from;
    edge->next = NULL;
    edge->previous = from->successors_last;
    if (edge->previous != NULL)
        edge->previous->next = edge;
    else
        from->successors_first = edge;
    from->successors_last = edge;
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

/*
 * On the device it is a status edge, counted in `unconfirmed`. A definition has no operation that
 * would fire behind what it waits for, so to it every edge is one.
 */
static inline bool fry_edge_is_counted(const fry_edge *edge)
{
    return fry_edge_carries_failure(edge) || edge->to->kind == FERRY_OP_DEFINE;
}

/* The successor's device waits from now on; the edge stays to carry status, or the order if the
 * successor is never issued. */
static inline void fry_edge_move_to_device(fry_edge *edge)
{
    fry_node *to = edge->to;
    edge->state = FRY_EDGE_ON_DEVICE;
    if (to->kind == FERRY_OP_DEFINE && to->lane == NULL)
        to->lane = edge->from->lane;
    if (edge->from->lane != to->lane)
        to->device_waits++;
    if (fry_edge_is_counted(edge))
        to->unconfirmed++;
}

/* The graph waits in place of the device, which the successor has not been issued to. */
static inline void fry_edge_take_from_device(fry_edge *edge)
{
    fry_node *to = edge->to;
    if (edge->from->lane != to->lane)
        to->device_waits--;
    if (fry_edge_is_counted(edge))
        to->unconfirmed--;
    fry_edge_hold(edge);
}

/* Lets a new edge take effect, given how far its predecessor has come. */
void fry_edge_attach(fry_turn *turn, fry_edge *edge);

#endif
