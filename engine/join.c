/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/join.h"

#include "engine/context.h"
#include "engine/edge.h"
#include "engine/engine.h"
#include "engine/graph.h"
#include "engine/lane.h"
#include "engine/node.h"
#include "engine/segment.h"
#include "engine/turn.h"

#define MEMBER_LOOKS 64  /* at edges, for one to name */
#define JOINS_STOCKED 64 /* slots for those who may not make any */

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
    join->holding = 1;
    return join;
}

void fry_joins_stock(ferry_engine *engine)
{
    fry_store_relaxed(&engine->joins_wanted, 0);
    (void)fry_pool_fill(&engine->joins, JOINS_STOCKED); /* or as many as there are */
}

void fry_join_add(fry_turn *turn, fry_node *join, fry_node *member, fry_edge_nature nature)
{
    fry_edge *edge = &join->join.edge;
    if (join->member_count++ != 0)
        edge = fry_pool_take(&turn->engine->edges, &turn->context->edges);
    edge->from = member;
    edge->to = join;
    edge->nature = (uint8_t)nature;
    edge->sibling = join->edges;
    join->edges = edge;
    fry_edge_attach(turn, edge);
}

void fry_join_adopt(fry_turn *turn, fry_node *join, fry_edge *edge)
{
    join->member_count++;
    edge->to = join;
    edge->sibling = join->edges;
    join->edges = edge;
    fry_edge_attach(turn, edge);
}

/* As in ferry_future_any: of edges ANY one is enough, and may have been there before. */
void fry_join_close(fry_turn *turn, fry_node *join)
{
    if ((join->flags & FRY_NODE_SATISFIED) != 0)
        join->holding = 1;
    if (--join->holding == 0)
        fry_graph_schedule(turn, join);
}

bool fry_join_may_grow(const fry_node *join, const fry_segment *keeper)
{
    return fry_node_is_join(join) && join->state == FRY_NODE_WAITING &&
           (join->flags & FRY_NODE_FAILING) == 0 && join->successors_first == NULL &&
           join->member_count < FRY_DEGREE_MAX && join->join.cached_at == NULL &&
           fry_segment_is_alone(keeper);
}

fry_node *fry_join_between(fry_turn *turn, fry_node *from)
{
    fry_node *newest = from->successors_last->to;
    if (fry_join_is_between(newest) && newest->state < FRY_NODE_RESOLVED &&
        !fry_node_has_many_successors(newest))
        return newest;
    fry_node *join = fry_join_open(turn);
    if (join == NULL) {
        fry_store_relaxed(&turn->engine->joins_wanted, 1);
        turn->wake = true;
        return from;
    }
    join->is_between = 1;
    fry_join_add(turn, join, from, FRY_EDGE_READ);
    fry_join_close(turn, join);
    return join;
}

bool fry_join_is_unused(const fry_node *join)
{
    return join->successors_first == NULL && join->listed == NULL && join->join.cached_at == NULL &&
           join->state < FRY_NODE_QUIET;
}

void fry_join_release(fry_node *join)
{
    if (!fry_join_is_unused(join) || (join->flags & FRY_NODE_QUEUED) != 0)
        return;
    join->flags |= FRY_NODE_QUEUED;
    fry_queue_push(&fry_engine_of(&join->future)->ready, &join->link);
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

/* ---- standing on devices ---- */

static bool has_stand(const fry_node *join, const fry_lane *lane)
{
    for (size_t i = 0; i < join->stand_count; i++) {
        if (fry_node_stand(join, i).lane == lane)
            return true;
    }
    return false;
}

bool fry_join_can_stand(const fry_node *join, const fry_node *member)
{
    size_t count = join->stand_count;
    for (size_t i = 0; i < fry_node_stand_count(member); i++)
        count += !has_stand(join, fry_node_stand(member, i).lane);
    return count <= FRY_JOIN_STANDS;
}

static void stand(fry_node *join, fry_stand at)
{
    for (size_t i = 0; i < join->stand_count; i++) {
        uint64_t *sequence = i == 0 ? &join->sequence : &join->join.others[i - 1].sequence;
        if (fry_node_stand(join, i).lane == at.lane) {
            *sequence = *sequence > at.sequence ? *sequence : at.sequence;
            return;
        }
    }
    if (join->stand_count == 0) {
        join->lane = at.lane;
        join->sequence = at.sequence;
    } else {
        join->join.others[join->stand_count - 1] = at;
    }
    join->stand_count++;
}

void fry_join_stand(fry_node *join, const fry_node *member)
{
    for (size_t i = 0; i < fry_node_stand_count(member); i++)
        stand(join, fry_node_stand(member, i));
}

/* ---- naming ---- */

/* A join of joins leads to further ones, each entered before it. */
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
