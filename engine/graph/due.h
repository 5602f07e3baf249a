/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues of due nodes: the graph's work takes nodes from them, and edges put nodes into them. All
 * code for edges stands on this file, which knows nothing of what a node does. With the baton;
 * inline, because each edge that fires comes here.
 */
#ifndef FRY_ENGINE_GRAPH_DUE_H
#define FRY_ENGINE_GRAPH_DUE_H

#include "engine/engine.h"
#include "engine/graph/emit.h"
#include "engine/graph/node.h"
#include "engine/graph/turn.h"

/* Behind which node the next one comes in the queue of ready nodes. */
static inline fry_link *fry_graph_last_ready(const fry_turn *turn)
{
    return fry_queue_last(&turn->engine->ready);
}

/* Puts a node where fry_graph_work finds it, behind one that is there (NULL: before all). */
static inline void fry_graph_schedule_behind(fry_turn *turn, fry_link *before, fry_node *node)
{
    if ((node->flags & FRY_NODE_QUEUED) != 0)
        return;
    node->flags |= FRY_NODE_QUEUED;
    __builtin_prefetch(&node->edges, 1); /* its second line; the first is in the cache */
    fry_queue_push_behind(&turn->engine->ready, before, &node->link);
}

static inline void fry_graph_schedule(fry_turn *turn, fry_node *node)
{
    fry_graph_schedule_behind(turn, fry_graph_last_ready(turn), node);
}

/* The loop does the node's next step, since that may take memory from the system. */
static inline void fry_graph_schedule_on_loop(fry_turn *turn, fry_node *node)
{
    if ((node->flags & FRY_NODE_QUEUED) != 0)
        return;
    node->flags |= FRY_NODE_QUEUED;
    fry_queue_push(&turn->engine->loop_ready, &node->link);
    turn->wake = true;
}

/* A join takes the number of its last member to end, for which its successors waited. */
static inline void fry_join_name_last(fry_node *node, const fry_node *from)
{
    if (fry_unlikely(node->kind == FRY_OP_JOIN))
        node->future.id = from->future.id;
}

/* One thing less holds the node. If it was the last one, the node is ready, behind `before`. */
static inline void fry_graph_let_go_behind(fry_turn *turn, fry_link *before, fry_node *node,
                                           const fry_node *from)
{
    if (fry_node_unhold(node) == 0) {
        fry_join_name_last(node, from);
        if (node->state == FRY_NODE_WAITING && (node->flags & FRY_NODE_FAILING) == 0)
            fry_emit(turn->engine, node, FERRY_TRACE_READY, from->future.id);
        fry_graph_schedule_behind(turn, before, node);
    }
}

static inline void fry_graph_let_go(fry_turn *turn, fry_node *node, const fry_node *from)
{
    fry_graph_let_go_behind(turn, fry_graph_last_ready(turn), node, from);
}

/*
 * Notes that the node fails with this cause, once its turn comes. Later readers of what it would
 * have written see its status.
 */
void fry_graph_note_failure(fry_turn *turn, fry_node *node, fry_error *cause);

/*
 * Makes a node that has yet to enter, or is entering, fail with this status and error as it enters.
 * Takes the reference to `error`; NULL: an error that names the node is made when somebody asks.
 * is_cause: the error is another operation's. The first call wins.
 */
void fry_node_refuse(fry_node *node, ferry_status status, fry_error *error, bool is_cause);

#endif
