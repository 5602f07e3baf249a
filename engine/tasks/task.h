/* SPDX-License-Identifier: Apache-2.0 */
/* Functions: nodes that call the user's code. Where they run: executor.h. */
#ifndef FRY_ENGINE_TASKS_TASK_H
#define FRY_ENGINE_TASKS_TASK_H

#include "engine/graph/node.h"
#include "engine/graph/turn.h"
#include "engine/ground/ground.h"

/* READY functions become ISSUED; returns them as a list for fry_hand_out_calls. With the baton. */
fry_link *fry_calls_issue(fry_turn *turn, bool with_callbacks);

/* Runs or posts them. On the loop, without the baton. */
void fry_hand_out_calls(ferry_engine *engine, fry_link *calls);

/*
 * Runs a function in the calling thread, which its executor chose; the caller then releases the
 * reference that kept the node.
 */
void fry_task_run_call(fry_node *node);

#endif
