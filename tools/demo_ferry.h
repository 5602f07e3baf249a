/* SPDX-License-Identifier: Apache-2.0 */
/* The plan's steps through ferry: copies on its worker, layers as calls on the demo's executor. */
#ifndef DEMO_FERRY_H
#define DEMO_FERRY_H

#include "tools/demo_executor.h"
#include "tools/demo_plan.h"

/*
 * Runs all steps once and gives the seconds from the first submit until the last future resolved.
 * Returns 0 when every operation succeeded, none of them still touching memory; otherwise an exit
 * status after a message on stderr that says which operation failed first and why. Then the engine
 * is shut down.
 */
int demo_ferry_run(demo_plan *plan, demo_executor *executor, double *seconds_p);

#endif
