/* SPDX-License-Identifier: Apache-2.0 */
/* Posts that are one command to a GPU. */
#ifndef FRY_ENGINE_PLANS_LAUNCH_H
#define FRY_ENGINE_PLANS_LAUNCH_H

#include "engine/graph/kind.h"
#include "engine/plans/plan.h"

/*
 * Makes the node of a post of all of a plan with a graph, without its accesses. It holds the plan.
 * NULL: *why_p says why, and nothing is left behind.
 */
fry_node *fry_plan_launch_node(fry_request *request, ferry_plan *plan, fry_refusal *why_p);

extern const fry_op_kind fry_kind_launch;

#endif
