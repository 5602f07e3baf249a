/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accesses: how one span, or one row, of an operation enters a buffer's lists, step by step.
 * hazard.c says how, and why that is right; it also goes over an operation's accesses. With the
 * baton.
 *
 * Each function goes on from what `in` says, and gives false if it stops before the access is in.
 */
#ifndef FRY_ENGINE_ACCESS_H
#define FRY_ENGINE_ACCESS_H

#include "engine/join.h"
#include "engine/segment.h"

/* What an operation whose accesses may overlap goes over them for; the first is enough for others.
 */
enum { FRY_PASS_READ = 0, FRY_PASS_READ_WRITE, FRY_PASS_WRITE, FRY_PASS_LIST, FRY_PASSES };

bool fry_access_read(fry_turn *turn, fry_entering *in, fry_node *node, const fry_use *use);
bool fry_access_write(fry_turn *turn, fry_entering *in, fry_node *node, const fry_use *use);

/*
 * All of it in one go, of one whose operation has none that overlap it. False: nothing was done, as
 * there is too much where it goes, or no room.
 */
bool fry_access_read_at_once(fry_turn *turn, fry_entering *in, fry_node *node, const fry_use *use);
bool fry_access_write_at_once(fry_turn *turn, fry_entering *in, fry_node *node, const fry_use *use);

/* A layer that was being made is left as it is. */
void fry_access_finish_layer(fry_turn *turn, fry_entering *in);

/* ---- steps ---- */

bool fry_access_find_room(fry_turn *turn, fry_entering *in, const fry_need *need);

/* Whether there are time and room for a step that takes so much at most. */
static inline bool fry_access_may_step(fry_turn *turn, fry_entering *in, fry_need need)
{
    const fry_context *context = turn->context;
    if (fry_unlikely(in->steps_left == 0)) {
        in->stop = FRY_STOP_STEPS;
        return false;
    }
    in->steps_left--;
    return fry_likely(fry_pool_cache_has(&context->segments, need.segments) &&
                      fry_pool_cache_has(&context->readers, need.readers) &&
                      fry_pool_cache_has(&context->edges, need.edges) &&
                      fry_pool_cache_has(&context->joins, need.joins)) ||
           fry_access_find_room(turn, in, &need);
}

/* What so many edges take: beyond FRY_DEGREE_MAX they lead to joins. */
static inline fry_need fry_access_edges(const fry_entering *in, uint32_t count)
{
    if (fry_likely(in->edge_count + count <= FRY_DEGREE_MAX))
        return (fry_need){.edges = count};
    return (fry_need){.edges = count + 2, .joins = 2};
}

/* With room for it. */
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
    fry_node *to = fry_entering_gatherer(turn, node, nature);
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
