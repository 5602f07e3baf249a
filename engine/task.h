/* SPDX-License-Identifier: Apache-2.0 */
/* Functions: nodes that call what the user gave. Where they run: executor.h. */
#ifndef FRY_ENGINE_TASK_H
#define FRY_ENGINE_TASK_H

#include "engine/ground.h"
#include "engine/node.h"
#include "engine/turn.h"

/* With the baton: READY functions become ISSUED; gives them as a list for fry_hand_out_calls. */
fry_link *fry_calls_issue(fry_turn *turn, bool with_callbacks);

/* On the loop, without it: runs them, or posts them. */
void fry_hand_out_calls(ferry_engine *engine, fry_link *calls);

/* Runs a function, in the thread that its executor chose; the caller releases the reference that
 * kept its node. */
void fry_call_run(fry_node *node);

#endif
