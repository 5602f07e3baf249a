/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accesses: entering one span or row of an operation into a buffer's lists, step by step. hazard.c
 * has the rules and their argument, and visits the accesses of an operation. With the baton.
 *
 * Each function continues from what `in` says, and returns false if it stops before the access is
 * in.
 */
#ifndef FRY_ENGINE_GRAPH_ACCESS_H
#define FRY_ENGINE_GRAPH_ACCESS_H

#include "engine/graph/edge.h"
#include "engine/graph/entering.h"
#include "engine/graph/join.h"
#include "engine/graph/node.h"
#include "engine/graph/stock.h"
#include "engine/graph/turn.h"

/* Passes over an operation's accesses if they may overlap; otherwise the first pass is enough. */
enum { FRY_PASS_READ = 0, FRY_PASS_READ_WRITE, FRY_PASS_WRITE, FRY_PASS_LIST, FRY_PASSES };

/* Makes room for `need`; false: there is none, and `in` says what is to be done. */
bool fry_access_find_room(fry_turn *turn, fry_entering *in, const fry_need *need);

/* Whether there are steps and room left for a step that takes at most `need`. */
static inline bool fry_access_may_step(fry_turn *turn, fry_entering *in, fry_need need)
{
    if (fry_unlikely(in->steps_left == 0)) {
        in->stop = FRY_STOP_STEPS;
        return false;
    }
    in->steps_left--;
    return fry_likely(fry_stock_has(turn->context, &need)) || fry_access_find_room(turn, in, &need);
}

/* What `count` edges need: beyond FRY_DEGREE_MAX they lead to joins. */
static inline fry_need fry_access_edges(const fry_entering *in, uint32_t count)
{
    if (fry_likely(in->edge_count + count <= FRY_DEGREE_MAX))
        return (fry_need){.edges = count};
    return (fry_need){.edges = count + 2, .joins = 2};
}

/*
 * An open join for edges into an entering node that has FRY_DEGREE_MAX; the node itself if there is
 * no join. There is room for a join and two edges.
 */
fry_node *fry_access_gatherer(fry_turn *turn, fry_node *node, fry_edge_nature nature);

/* Connects an edge; there is room for it. */
static inline void fry_access_connect(fry_turn *turn, fry_entering *in, fry_node *node,
                                      fry_node *from, fry_edge_nature nature)
{
    if (from == node)
        return;
    if (fry_likely(in->edge_count < FRY_DEGREE_MAX)) {
        in->edge_count++;
        fry_graph_connect(turn, from, node, nature);
        return;
    }
    fry_node *to = fry_access_gatherer(turn, node, nature);
    if (to == node)
        fry_graph_connect(turn, from, node, nature);
    else
        fry_join_add(turn, to, from, nature);
}

static inline bool fry_access_order(fry_turn *turn, fry_entering *in, fry_node *node,
                                    fry_node *from, fry_edge_nature nature)
{
    if (!fry_access_may_step(turn, in, fry_access_edges(in, 1)))
        return false;
    fry_access_connect(turn, in, node, from, nature);
    return true;
}

#endif
