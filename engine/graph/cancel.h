/* SPDX-License-Identifier: Apache-2.0 */
/* What ends operations early. On the loop, with the baton. */
#ifndef FRY_ENGINE_GRAPH_CANCEL_H
#define FRY_ENGINE_GRAPH_CANCEL_H

#include "engine/graph/turn.h"

#define FRY_CANCEL_LOOKS_A_CLOCK 32 /* looks of a walk before it reads the clock again */

/* Cancels the operations whose cancel was requested. Returns how many. */
size_t fry_cancel_requested(fry_turn *turn);

/*
 * Goes on cancelling the operations of batches and scopes, for less than a millisecond. Returns how
 * much was done.
 */
size_t fry_cancel_go_on(fry_turn *turn);

/* Fails operations with a deadline of now_ns (engine's clock) or before. Returns how many. */
size_t fry_expire_due(fry_turn *turn, int64_t now_ns);

/* Stops the graph: nothing enters it any more, and what is in it is cancelled. */
void fry_cancel_all(fry_turn *turn);

/* Cancels one operation that has not resolved. If it is in the inbox, it fails as it enters. */
void fry_cancel_node(fry_turn *turn, fry_node *node);

#endif
