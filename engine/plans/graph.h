/* SPDX-License-Identifier: Apache-2.0 */
/* The graph of a plan that a GPU can begin at one command. */
#ifndef FRY_ENGINE_PLANS_GRAPH_H
#define FRY_ENGINE_PLANS_GRAPH_H

#include "engine/plans/plan.h"

/*
 * Makes the graph of a plan that is otherwise made, if it can have one. FRY_TAKEN, also if not;
 * FRY_REFUSED_NO_MEMORY.
 */
fry_refusal fry_plan_graph_make(ferry_plan *plan);
void fry_plan_graph_free(ferry_plan *plan);

#endif
