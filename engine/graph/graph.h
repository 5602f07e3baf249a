/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The graph: firing edges, resolving, retiring. Everything here is called with the baton.
 */
#ifndef FRY_ENGINE_GRAPH_GRAPH_H
#define FRY_ENGINE_GRAPH_GRAPH_H

#include "engine/graph/turn.h"

/* Fails an entering node that was refused before: fry_node_refuse has set status and error. */
void fry_graph_fail_refused(fry_turn *turn, fry_node *node);

/* For a node that enters and will fail: nothing but its entering holds it any more. */
void fry_graph_drop_edges(fry_node *node);

/* A promise was resolved outside. */
void fry_graph_promise_ended(fry_turn *turn, fry_node *node);

/*
 * Fails an unresolved node now. Takes a reference to `error`, which is its own, or with `caused`
 * that of the first cause; NULL: one that names the node is made when somebody asks. Nothing
 * happens to a promise that was resolved outside.
 */
void fry_graph_fail(fry_turn *turn, fry_node *node, ferry_status status, fry_error *error,
                    bool caused);

/* The operation's hardware or function has ended. */
void fry_graph_complete(fry_turn *turn, fry_node *node);

/*
 * Does the next step of a node that was taken out of a queue; _failing: out of the failing queue.
 */
void fry_graph_step(fry_turn *turn, fry_node *node);
void fry_graph_step_failing(fry_turn *turn, fry_node *node);

/*
 * Records that it is issued: successors whose devices can wait for it go on, as do those of
 * ferry_future_issued.
 */
void fry_graph_issued(fry_turn *turn, fry_node *node);

/* It is ISSUED, and nobody is told: a receive whose last bytes a device will bring. */
void fry_graph_begun(fry_turn *turn, fry_node *node);

/* That copy stands there now, so others may wait for it on their devices. */
void fry_graph_lands(fry_turn *turn, fry_node *node, fry_stand stand);

/*
 * The node has failed, or is about to, and may touch its memory for ever, because its device is
 * lost. Operations that may touch that memory only after it is quiet fail.
 */
void fry_graph_stuck(fry_turn *turn, fry_node *node);

#endif
