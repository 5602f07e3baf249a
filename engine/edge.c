/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/edge.h"

#include "engine/batch_node.h"
#include "engine/context.h"
#include "engine/engine.h"
#include "engine/graph.h"
#include "engine/join.h"
#include "engine/node.h"
#include "engine/park.h"
#include "engine/turn.h"

static bool was_issued(const fry_node *node)
{
    return (node->flags & FRY_NODE_WAS_ISSUED) != 0;
}

void fry_edge_attach(fry_turn *turn, fry_edge *edge)
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
            return;
        if (resolved && !failed)
            return;
        if (resolved && edge->nature == FRY_EDGE_AFTER &&
            (to->kind != FERRY_OP_ALL || from->state == FRY_NODE_QUIET))
            return;
        if (resolved) /* it may still be writing: what `to` names, or what `to` is made of */
            edge->nature = to->kind == FERRY_OP_ALL ? FRY_EDGE_QUIET : FRY_EDGE_ORDER;
        break;
    case FRY_EDGE_ORDER:
        if ((from->flags & FRY_NODE_RETIRED) != 0)
            return;
        break;
    case FRY_EDGE_ANY:
        if (failed)
            fry_graph_note_failure(turn, to, fry_future_root_error(&from->future));
        if (resolved)
            to->flags |= FRY_NODE_SATISFIED;
        if ((to->flags & FRY_NODE_SATISFIED) != 0)
            return;
        break;
    case FRY_EDGE_ISSUED:
        if (was_issued(from) && !resolved)
            fry_graph_flush(from); /* who hears of it can have a device wait for it */
        if (was_issued(from) || (resolved && !failed))
            return;
        if (failed) {
            fry_graph_note_failure(turn, to, fry_future_root_error(&from->future));
            return;
        }
        break;
    case FRY_EDGE_QUIET:
        if (from->state == FRY_NODE_QUIET)
            return;
        break;
    case FRY_EDGE_MEMBER:
        if (failed)
            fry_batch_note_failure(turn, to, fry_future_root_error(&from->future));
        if (resolved && from->state != FRY_NODE_QUIET)
            fry_batch_counts_late(to, from);
        if (resolved && fry_unlikely(from->is_stuck))
            fry_graph_share_stuck(turn, to, from);
        if (resolved)
            return;
        fry_edge_link_first(edge);
        fry_edge_hold(edge);
        return;
    }
    if (fry_node_has_many_successors(from) && edge->nature <= FRY_EDGE_ORDER &&
        !fry_join_is_between(to) && to->kind != FERRY_OP_ALL)
        edge->from = from = fry_join_between(turn, from);
    fry_edge_link(edge);
    if (edge->nature <= FRY_EDGE_ORDER &&
        fry_lane_can_overtake(from, to, (fry_edge_nature)edge->nature))
        fry_edge_move_to_device(edge);
    else
        fry_edge_hold(edge);
    if (fry_unlikely(from->is_stuck) && from->state >= FRY_NODE_RESOLVED &&
        (edge->nature == FRY_EDGE_ORDER || to->kind == FERRY_OP_ALL))
        fry_graph_share_stuck(turn, to, from);
}

void fry_graph_connect(fry_turn *turn, fry_node *from, fry_node *to, fry_edge_nature nature)
{
    /* Neighbouring segments often have the same writer. */
    const fry_edge *newest = to->edges;
    if (newest != NULL && newest->from == from && newest->state != FRY_EDGE_LOOSE) {
        if (newest->nature == nature || newest->nature == FRY_EDGE_READ)
            return;
        if (newest->nature == FRY_EDGE_ORDER && from->state >= FRY_NODE_RESOLVED) {
            /* It failed, or it would be retired: all it still does is order memory. */
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
