/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/join.h"

#include "engine/engine.h"
#include "engine/graph/due.h"
#include "engine/graph/edge.h"
#include "engine/graph/kind.h"
#include "engine/graph/lane.h"
#include "engine/graph/node.h"
#include "engine/graph/segment.h"
#include "engine/graph/turn.h"
#include "engine/ground/context.h"

#define MEMBER_LOOKS 64  /* edges looked at to find a member to name */
#define JOINS_STOCKED 64 /* slots for threads that may not make any */

fry_node *fry_join_open(fry_turn *turn)
{
    ferry_engine *engine = turn->engine;
    ferry_status status;
    fry_node *join = turn->is_loop
                         ? fry_pool_take_or_grow(&engine->joins, &turn->context->joins, &status)
                         : fry_pool_take(&engine->joins, &turn->context->joins);
    if (join == NULL)
        return NULL;
    memset((char *)join + sizeof(ferry_future), 0, sizeof *join - sizeof(ferry_future));
    fry_future_init(&join->future, &engine->owner, 1, 0);
    join->kind = FRY_OP_JOIN;
    join->flags = FRY_NODE_RESERVE | FRY_NODE_HAS_SPANS;
    join->state = FRY_NODE_WAITING;
    join->counts = 1;
    return join;
}

void fry_joins_stock(ferry_engine *engine)
{
    fry_store_relaxed(&engine->joins_wanted, 0);
    (void)fry_pool_fill(&engine->joins, JOINS_STOCKED); /* or as many as can be made */
}

fry_edge *fry_join_edge(fry_turn *turn, fry_node *join, fry_node *member, fry_edge_nature nature)
{
    fry_edge *edge = &join->join.edge;
    if (join->join.member_count++ != 0)
        edge = fry_pool_take(&turn->engine->edges, &turn->context->edges);
    edge->from = member;
    edge->to = join;
    edge->nature = (uint8_t)nature;
    edge->sibling = join->edges;
    join->edges = edge;
    return edge;
}

/* Like ferry_future_any: one of the ANY edges is enough, and may have fired before. */
void fry_join_close(fry_turn *turn, fry_node *join)
{
    if ((join->flags & FRY_NODE_SATISFIED) != 0)
        fry_node_set_holding(join, 1);
    if (fry_node_unhold(join) == 0)
        fry_graph_schedule(turn, join);
}

bool fry_join_may_grow(const fry_node *join, const fry_segment *keeper)
{
    return fry_node_is_join(join) && join->state == FRY_NODE_WAITING &&
           (join->flags & FRY_NODE_FAILING) == 0 && join->successors == NULL &&
           join->join.member_count < FRY_DEGREE_MAX && join->join.cached_at == NULL &&
           fry_segment_is_alone(keeper);
}

void fry_join_give_edges(fry_turn *turn, fry_node *join)
{
    fry_edge *edge = join->edges;
    join->edges = NULL;
    while (edge != NULL) {
        fry_edge *next = edge->sibling;
        if (edge->state != FRY_EDGE_LOOSE)
            fry_edge_abandon(edge);
        if (edge != &join->join.edge)
            fry_pool_give(&turn->engine->edges, &turn->context->edges, edge);
        edge = next;
        turn->steps++;
    }
}

/* ---- naming ---- */

/* A member of a join may be a join, which entered before it. */
const fry_node *fry_join_member(const fry_node *join)
{
    const fry_node *inner = NULL;
    const fry_edge *edge = join->edges;
    for (int looks = 0; edge != NULL && looks < MEMBER_LOOKS; looks++) {
        if (edge->state != FRY_EDGE_LOOSE && !fry_node_is_join(edge->from))
            return edge->from;
        if (edge->state != FRY_EDGE_LOOSE)
            inner = edge->from;
        edge = edge->sibling;
        if (edge == NULL && inner != NULL) {
            edge = inner->edges;
            inner = NULL;
        }
    }
    return NULL;
}

const fry_op_kind fry_kind_join = {.traits = FRY_KIND_STANDS};
