/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joins: nodes of ferry's own that stand for others.
 *
 * n readers of one span and then n small writes of it need n * n edges, one from each reader to
 * each write. A join takes one edge from each of its *members* and gives one to each successor: 2 *
 * n edges. A join is as far as the last of its members:
 *  - it holds its successors until all members have resolved (edges AFTER, READ) or retired
 *    (ORDER);
 *  - it fails with the first member that fails, with the same root, if the edges into it carry
 *    failure. Like any node that fails before it starts, it retires only when all members have;
 *  - it is issued when all members are, on at most FRY_JOIN_STANDS lanes. It stands where they
 *    stand, and a device that waits for the join waits for all of them (park.c). So a crowd of
 *    copies is overtaken as each copy would be.
 * To the graph it is a node like others, and its edges are like others. No user sees it: it is in
 * no list of live nodes and leaves no trace records, and a dump or a record names one of its
 * members instead.
 *
 * Joins have three uses, which differ in what keeps them. The access lists keep a join as the
 * readers of some bytes (layer.h) or as the writers of some (sum.h). A join that stands in because
 * a node would have too many edges is kept only by its successors. *No node has more than some two
 * thousand edges*, in or out, so a walk over them holds the baton for some ten microseconds:
 *  - of more than FRY_DEGREE_MAX edges into a node, the further ones lead to joins of as many
 *    members;
 *  - of more than that out of a node, the further ones lead out of joins with the node as only
 *    member.
 * Edges of the natures ANY, ISSUED and QUIET are not counted. FERRY_OP_ALL and batches are quiet
 * when each of their members is, which a join does not tell, so they keep all their edges.
 *
 * A join is let go when nothing keeps it and nothing is ordered behind it: as with dropped edges,
 * its members no longer matter.
 *
 * Joins only save work: without a slot for a join the edges are made one by one. Nothing is refused
 * for lack of joins; it is only slower.
 */
#ifndef FRY_ENGINE_GRAPH_JOIN_H
#define FRY_ENGINE_GRAPH_JOIN_H

#include "engine/engine.h"
#include "engine/graph/kind.h"
#include "engine/graph/node.h"
#include "engine/graph/segment.h"
#include "engine/graph/turn.h"
#include "engine/ground/ground.h"

extern const fry_op_kind fry_kind_join;

static inline bool fry_node_is_join(const fry_node *node)
{
    return fry_unlikely(node->kind == FRY_OP_JOIN);
}

/*
 * Opens a new join: members may be added, and it holds its successors until it is closed. NULL:
 * there is no slot.
 */
fry_node *fry_join_open(fry_turn *turn);

/* Makes slots after a thread found none (engine->joins_wanted). Without the baton. */
void fry_joins_stock(ferry_engine *engine);

/*
 * Makes the edge of another member, in no list yet: edge.h attaches it. Takes an edge, reserved
 * before, except for the first member.
 */
fry_edge *fry_join_edge(fry_turn *turn, fry_node *join, fry_node *member, fry_edge_nature nature);

/* Closes a join that has all its members. It may be gone once the graph's work goes on. */
void fry_join_close(fry_turn *turn, fry_node *join);

/*
 * Whether a closed join can take another member: nothing depends on its present members, because
 * only `keeper`, the one segment that lists it, keeps it.
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

/* Whether nothing keeps it and nothing is behind it. */
static inline bool fry_join_is_unused(const fry_node *join)
{
    return join->successors == NULL && join->listed == NULL && join->join.cached_at == NULL &&
           join->state < FRY_NODE_QUIET;
}

/* Called when something lets go of it: it retires with the graph's work if it is unused. */
static inline void fry_join_release(fry_node *join)
{
    if (!fry_join_is_unused(join) || (join->flags & FRY_NODE_QUEUED) != 0)
        return;
    join->flags |= FRY_NODE_QUEUED;
    fry_queue_push(&fry_engine_of(&join->future)->ready, &join->link);
}

/* Gives its edges back as it retires. */
void fry_join_give_edges(fry_turn *turn, fry_node *join);

/* How many members have yet to end. A join among them counts as one. */
static inline uint32_t fry_join_pending(const fry_node *join)
{
    uint32_t count = fry_node_holding(join) + join->unconfirmed;
    return count > 0 ? count : 1; /* it is about to end */
}

/* An operation that the join still stands for; looks at some of its edges. NULL: found none. */
const fry_node *fry_join_member(const fry_node *join);

#endif
