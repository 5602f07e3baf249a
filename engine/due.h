/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a node is due for: queues that the graph's work takes from, and how nodes come into them.
 * All that has to do with edges stands on this, and it knows nothing of what a node does. With the
 * baton; in line, since each edge that fires passes here.
 */
#ifndef FRY_ENGINE_DUE_H
#define FRY_ENGINE_DUE_H

#include "engine/engine.h"
#include "engine/node.h"
#include "engine/trace.h"
#include "engine/turn.h"

/* Puts a node where fry_graph_work finds it. */
static inline void fry_graph_schedule(fry_turn *turn, fry_node *node)
{
    if ((node->flags & FRY_NODE_QUEUED) != 0)
        return;
    node->flags |= FRY_NODE_QUEUED;
    __builtin_prefetch(&node->edges, 1); /* its second line; the first is here */
    fry_queue_push(&turn->engine->ready, &node->link);
}

/* Whatever a join let go waited for what was the last to let it go. */
static inline void fry_join_name_last(fry_node *node, const fry_node *from)
{
    if (fry_unlikely(node->kind == FRY_OP_JOIN))
        node->future.id = from->future.id;
}

/* One thing less holds the node. */
static inline void fry_graph_let_go(fry_turn *turn, fry_node *node, const fry_node *from)
{
    if (fry_node_unhold(node) == 0) {
        fry_join_name_last(node, from);
        if (node->state == FRY_NODE_WAITING && (node->flags & FRY_NODE_FAILING) == 0)
            fry_trace(turn->engine, node, FERRY_TRACE_READY, from->future.id);
        fry_graph_schedule(turn, node);
    }
}

/* Later readers of what failed see this node's status; it fails as soon as the turn comes to it. */
void fry_graph_note_failure(fry_turn *turn, fry_node *node, fry_error *cause);

/*
 * A node that has yet to enter, or just does, will fail with this status and error (NULL: one that
 * names it is made when somebody asks; is_cause: that is another's), which is taken. What came
 * first stays.
 */
void fry_node_refuse(fry_node *node, ferry_status status, fry_error *error, bool is_cause);

#endif
