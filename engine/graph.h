/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The graph: firing edges, resolving, retiring. Everything here is called with the baton.
 */
#ifndef FRY_ENGINE_GRAPH_H
#define FRY_ENGINE_GRAPH_H

#include "engine/turn.h"

/* Moves a node's state: this alone does, and only forward. */
void fry_graph_set_state(fry_turn *turn, fry_node *node, fry_node_state state);

/* Of a node that enters, and was refused before: fry_node_refuse has set status and error. */
void fry_graph_fail_refused(fry_turn *turn, fry_node *node);

/* Of a node that is about to enter, and to fail: it waits for nothing but that. */
void fry_graph_drop_edges(fry_node *node);

/* A promise was resolved outside. */
void fry_graph_promise_ended(fry_turn *turn, fry_node *node);

/* Does up to `budget` pieces of work that need nothing but the baton. Returns how many. */
size_t fry_graph_work(fry_turn *turn, size_t budget);

/*
 * Fails an unresolved node now. `error` is its own (caused: the first cause's), one reference given
 * away, or NULL: one that names it is made when somebody asks. Nothing happens if a promise was
 * resolved outside.
 */
void fry_graph_fail(fry_turn *turn, fry_node *node, ferry_status status, fry_error *error,
                    bool caused);

/* The operation's hardware or function has come to its end. */
void fry_graph_complete(fry_turn *turn, fry_node *node);

/* Puts a node where fry_graph_work finds it. */
void fry_graph_schedule(fry_turn *turn, fry_node *node);

/* Does what a node taken out of a queue is due for. */
void fry_graph_step(fry_turn *turn, fry_node *node);

/* Issued: successors on devices that can wait for it go on; those that wait for `issued` too. */
void fry_graph_issued(fry_turn *turn, fry_node *node);

/* Others may have their devices wait for it from now on. Of any issued node. */
void fry_graph_flush(const fry_node *node);

/* Later readers of what failed see this node's status; it fails as soon as the turn comes to it. */
void fry_graph_note_failure(fry_turn *turn, fry_node *node, fry_error *cause);

/*
 * The node has failed, or is about to, and may be at its memory for ever, since its device is lost.
 * What may only touch that once it is quiet never will, and fails.
 */
void fry_graph_stuck(fry_turn *turn, fry_node *node);

/* `node`, which the graph holds until `from` retires, fails with it if that never comes. */
void fry_graph_share_stuck(fry_turn *turn, fry_node *node, const fry_node *from);

/* Whether the graph has something to do that needs no event. */
static inline bool fry_graph_has_work(const ferry_engine *engine)
{
    return engine->failing.first != NULL || engine->ready.first != NULL ||
           engine->backlog.first != NULL || !fry_stack_is_empty(&engine->inbox);
}

/* One thing less holds the node. */
void fry_graph_let_go(fry_turn *turn, fry_node *node, const fry_node *from);

#endif
