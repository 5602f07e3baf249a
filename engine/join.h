/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joins: nodes of ferry's own that stand for others.
 *
 * n readers of one span and then n small writes of it need n * n edges, one from each of the first
 * to each of the second. A join takes one edge from each of its *members* and gives one to each
 * successor: n + n. It is as far as the last of its members is:
 *  - it holds its successors until all members have resolved (edges AFTER, READ) or retired
 * (ORDER);
 *  - it fails with the first of them that fails, with the same root, if the edges into it carry
 *    failure; as any node that fails before it starts it still retires only when all of them have;
 *  - it is issued when all of them are, on at most FRY_JOIN_STANDS lanes: it stands where they
 *    stand, and whoever waits for it on a device waits for those (park.c). So a crowd of copies is
 *    overtaken as each of them would be.
 * To the graph it is a node like others, so nothing that is true of edges is different. No user
 * sees it: it is in no list of live nodes, leaves no trace records, and where a dump or a record
 * names what somebody waited for, one of its members is named in its place.
 *
 * It has three uses, which differ in who keeps it: the access lists keep it as the readers of some
 * bytes (layer.h) or as the writers of some (sum.h); nobody, but those that are ordered behind it,
 * where a node would have too many edges. *No node has more than some two thousand edges*, in or
 * out, so that whatever walks over them holds the baton for some ten microseconds:
 *  - of more than FRY_DEGREE_MAX edges into a node the others lead to joins of as many members;
 *  - of more than that out of a node, the others lead out of joins with it as the only member.
 * Edges of the natures ANY, ISSUED and QUIET are counted neither way. FERRY_OP_ALL and batches are
 * quiet when each of their members is, which a join does not say, so they keep all their edges.
 *
 * A join is let go when nobody keeps it and nothing is ordered behind it: as with edges that are
 * dropped, its members do not matter any more.
 *
 * Joins are an economy: without a slot for one the edges are made one by one, so nothing is refused
 * for want of joins, only slower.
 */
#ifndef FRY_ENGINE_JOIN_H
#define FRY_ENGINE_JOIN_H

#include "engine/engine.h"
#include "engine/kind.h"
#include "engine/node.h"
#include "engine/segment.h"
#include "engine/turn.h"

extern const fry_op_kind fry_kind_join;

static inline bool fry_node_is_join(const fry_node *node)
{
    return fry_unlikely(node->kind == FRY_OP_JOIN);
}

/* A new one, open: members may be added, and until it is closed it holds its successors. NULL:
 * there is no slot. */
fry_node *fry_join_open(fry_turn *turn);

/* Without the baton: sees to slots, as somebody found none (engine->joins_wanted). */
void fry_joins_stock(ferry_engine *engine);

/* The edge of one more member, in no list yet: edge.h attaches it. Takes an edge, reserved
 * before, of all but the first. */
fry_edge *fry_join_edge(fry_turn *turn, fry_node *join, fry_node *member, fry_edge_nature nature);

/* It has all its members. It may be gone as soon as the graph's work goes on. */
void fry_join_close(fry_turn *turn, fry_node *join);

/*
 * Whether a member can be added to what was closed: nobody has gone by what it stands for so far,
 * for all that keeps it is `keeper`, the one segment that lists it.
 */
bool fry_join_may_grow(const fry_node *join, const fry_segment *keeper);

static inline bool fry_node_has_many_successors(const fry_node *from)
{
    return fry_unlikely(fry_node_successor_count(from) == FRY_DEGREE_MAX);
}

static inline bool fry_join_is_between(const fry_node *node)
{
    return fry_node_is_join(node) && node->join.is_between;
}

/* Nobody keeps it and nothing is behind it. */
static inline bool fry_join_is_unused(const fry_node *join)
{
    return join->successors == NULL && join->listed == NULL && join->join.cached_at == NULL &&
           join->state < FRY_NODE_QUIET;
}

/* Somebody has let go of it: it goes with the graph's work, if nobody else wants it. */
static inline void fry_join_release(fry_node *join)
{
    if (!fry_join_is_unused(join) || (join->flags & FRY_NODE_QUEUED) != 0)
        return;
    join->flags |= FRY_NODE_QUEUED;
    fry_queue_push(&fry_engine_of(&join->future)->ready, &join->link);
}

/* It goes. */
void fry_join_give_edges(fry_turn *turn, fry_node *join);

/* How many of its members have yet to end. A join among them counts as one. */
static inline uint32_t fry_join_pending(const fry_node *join)
{
    uint32_t count = fry_node_holding(join) + join->unconfirmed;
    return count > 0 ? count : 1; /* it is about to end itself */
}

/* An operation that the join still stands for: some of its edges are looked at. NULL: none of those
 * is. */
const fry_node *fry_join_member(const fry_node *join);

#endif
