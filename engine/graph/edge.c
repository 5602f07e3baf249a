/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/edge.h"

#include "engine/engine.h"
#include "engine/graph/due.h"
#include "engine/graph/join.h"
#include "engine/graph/kind.h"
#include "engine/graph/node.h"
#include "engine/graph/park.h"
#include "engine/graph/stuck.h"
#include "engine/graph/turn.h"
#include "engine/ground/context.h"

static bool was_issued(const fry_node *node)
{
    return (node->flags & FRY_NODE_WAS_ISSUED) != 0;
}

/*
 * Lets a new edge take effect as far as its predecessor's state allows. True: the edge must be
 * placed, for the predecessor has yet to go further. False: the edge is done.
 */
static inline __attribute__((always_inline)) bool settle(fry_turn *turn, fry_edge *edge)
{
    fry_node *from = edge->from, *to = edge->to;
    bool resolved = from->state >= FRY_NODE_RESOLVED;
    bool failed = resolved && fry_future_status(&from->future) != FERRY_OK;

    edge->state = FRY_EDGE_LOOSE;
    switch ((fry_edge_nature)edge->nature) {
    case FRY_EDGE_AFTER:
    case FRY_EDGE_READ:
        if (failed)
            fry_graph_note_failure(turn, to, fry_future_root_error(&from->future));
        if (resolved && (from->flags & FRY_NODE_RETIRED) != 0)
            return false;
        if (resolved && !failed)
            return false;
        if (resolved && edge->nature == FRY_EDGE_AFTER &&
            (from->state == FRY_NODE_QUIET || !fry_kind_has(to, FRY_KIND_SEES_QUIET)))
            return false;
        if (resolved) /* `from` may still write what `to` names, or is part of `to` */
            edge->nature = fry_kind_has(to, FRY_KIND_SEES_QUIET) ? FRY_EDGE_QUIET : FRY_EDGE_ORDER;
        break;
    case FRY_EDGE_ORDER:
        if ((from->flags & FRY_NODE_RETIRED) != 0)
            return false;
        break;
    case FRY_EDGE_ANY:
        if (failed)
            fry_graph_note_failure(turn, to, fry_future_root_error(&from->future));
        if (resolved)
            to->flags |= FRY_NODE_SATISFIED;
        if ((to->flags & FRY_NODE_SATISFIED) != 0)
            return false;
        break;
    case FRY_EDGE_ISSUED:
        if (was_issued(from) && !resolved)
            fry_node_flush(from); /* those told can have a device wait for it */
        if (was_issued(from) || (resolved && !failed))
            return false;
        if (failed) {
            fry_graph_note_failure(turn, to, fry_future_root_error(&from->future));
            return false;
        }
        break;
    case FRY_EDGE_QUIET:
        if (from->state == FRY_NODE_QUIET)
            return false;
        break;
    }
    return true;
}

/* Puts a settled edge into its predecessor's list; there it holds, or waits on the device. */
static inline __attribute__((always_inline)) void place(fry_turn *turn, fry_edge *edge)
{
    fry_node *from = edge->from, *to = edge->to;
    fry_edge_link(edge);
    if (edge->nature <= FRY_EDGE_ORDER &&
        fry_lane_can_overtake(from, to, (fry_edge_nature)edge->nature))
        fry_edge_move_to_device(edge);
    else
        fry_edge_hold(edge);
    if (fry_unlikely((from->flags & FRY_NODE_STUCK) != 0) && from->state >= FRY_NODE_RESOLVED &&
        (edge->nature == FRY_EDGE_ORDER || fry_kind_has(to, FRY_KIND_SEES_QUIET)))
        fry_graph_share_stuck(turn, to, from);
}

/*
 * Returns a join that stands between `from`, which has too many successors, and further ones;
 * `from` if there is no slot for a join.
 */
static __attribute__((noinline)) fry_node *join_between(fry_turn *turn, fry_node *from)
{
    fry_node *newest = from->successors->to;
    if (fry_join_is_between(newest) && newest->state < FRY_NODE_RESOLVED &&
        !fry_node_has_many_successors(newest))
        return newest;
    fry_node *join = fry_join_open(turn);
    if (join == NULL) {
        fry_store_relaxed(&turn->engine->joins_wanted, 1);
        turn->wake = true;
        return from;
    }
    join->join.is_between = true;
    fry_edge *edge = fry_join_edge(turn, join, from, FRY_EDGE_READ);
    if (settle(turn, edge))
        place(turn, edge);
    fry_join_close(turn, join);
    return join;
}

void fry_edge_attach(fry_turn *turn, fry_edge *edge)
{
    if (!settle(turn, edge))
        return;
    if (fry_node_has_many_successors(edge->from) && edge->nature <= FRY_EDGE_ORDER &&
        !fry_join_is_between(edge->to) && !fry_kind_has(edge->to, FRY_KIND_OF_OTHERS))
        edge->from = join_between(turn, edge->from);
    place(turn, edge);
}

void fry_graph_connect(fry_turn *turn, fry_node *from, fry_node *to, fry_edge_nature nature)
{
    /* Neighbouring segments often have the same writer. */
    const fry_edge *newest = to->edges;
    if (newest != NULL && newest->from == from && newest->state != FRY_EDGE_LOOSE) {
        if (newest->nature == nature || newest->nature == FRY_EDGE_READ)
            return;
        if (newest->nature == FRY_EDGE_ORDER && from->state >= FRY_NODE_RESOLVED) {
            /* `from` failed, or it would be retired: it only orders memory now. */
            if (nature == FRY_EDGE_READ)
                fry_graph_note_failure(turn, to, fry_future_root_error(&from->future));
            return;
        }
    }
    fry_edge *edge = fry_pool_take(&turn->engine->edges, &turn->context->edges);
    edge->from = from;
    edge->to = to;
    edge->nature = (uint8_t)nature;
    edge->sibling = to->edges;
    to->edges = edge;
    fry_edge_attach(turn, edge);
}

void fry_join_add(fry_turn *turn, fry_node *join, fry_node *member, fry_edge_nature nature)
{
    fry_edge_attach(turn, fry_join_edge(turn, join, member, nature));
}

void fry_join_adopt(fry_turn *turn, fry_node *join, fry_edge *edge)
{
    join->join.member_count++;
    edge->to = join;
    edge->sibling = join->edges;
    join->edges = edge;
    fry_edge_attach(turn, edge);
}
