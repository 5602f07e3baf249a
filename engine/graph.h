/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The graph: firing edges, resolving, retiring. Everything here is called with the baton.
 */
#ifndef FRY_ENGINE_GRAPH_H
#define FRY_ENGINE_GRAPH_H

#include "engine/turn.h"

/* Of a node that enters, and was refused before: fry_node_refuse has set status and error. */
void fry_graph_fail_refused(fry_turn *turn, fry_node *node);

/* Of a node that is about to enter, and to fail: it waits for nothing but that. */
void fry_graph_drop_edges(fry_node *node);

/* A promise was resolved outside. */
void fry_graph_promise_ended(fry_turn *turn, fry_node *node);

/*
 * Fails an unresolved node now. `error` is its own (caused: the first cause's), one reference given
 * away, or NULL: one that names it is made when somebody asks. Nothing happens if a promise was
 * resolved outside.
 */
void fry_graph_fail(fry_turn *turn, fry_node *node, ferry_status status, fry_error *error,
                    bool caused);

/* The operation's hardware or function has come to its end. */
void fry_graph_complete(fry_turn *turn, fry_node *node);

/* Does what a node taken out of a queue is due for; out of the failing queue. */
void fry_graph_step(fry_turn *turn, fry_node *node);
void fry_graph_step_failing(fry_turn *turn, fry_node *node);

/* Issued: successors on devices that can wait for it go on; those that wait for `issued` too. */
void fry_graph_issued(fry_turn *turn, fry_node *node);

/*
 * The node has failed, or is about to, and may be at its memory for ever, since its device is lost.
 * What may only touch that once it is quiet never will, and fails.
 */
void fry_graph_stuck(fry_turn *turn, fry_node *node);

#endif
