/* SPDX-License-Identifier: Apache-2.0 */
/* A plan as one command to a GPU. */
#ifndef FRY_ENGINE_PLANS_LAUNCH_H
#define FRY_ENGINE_PLANS_LAUNCH_H

#include "engine/graph/kind.h"
#include "engine/plans/plan.h"

/*
 * Makes the graph of a plan that is otherwise made, if it can have one. FRY_TAKEN, also if not;
 * FRY_REFUSED_NO_MEMORY.
 */
fry_refusal fry_plan_launch_make(ferry_plan *plan);
void fry_plan_launch_free(ferry_plan *plan);

/*
 * Makes the node of a post of all of a plan with a graph, without its accesses. It holds the plan.
 * NULL: *why_p says why, and nothing is left behind.
 */
fry_node *fry_plan_launch_node(fry_request *request, ferry_plan *plan, fry_refusal *why_p);

extern const fry_op_kind fry_kind_launch;

#endif
