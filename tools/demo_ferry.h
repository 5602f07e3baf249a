/* SPDX-License-Identifier: Apache-2.0 */
/* The plan's steps through ferry: copies on its worker, layers as calls on the demo's executor. */
#ifndef DEMO_FERRY_H
#define DEMO_FERRY_H

#include "tools/demo_executor.h"
#include "tools/demo_plan.h"

/*
 * How many ticks may be submitted and unfinished. Ferry starts a copy as soon as its buffer is
 * free, so with everything submitted at once the first weights of the last stages would be copied
 * ahead of those the first stage needs next. Too few, and copying or computing runs dry when the
 * submitting thread gets a CPU late, since both CPUs of a small machine are busy.
 */
#define DEMO_LOOKAHEAD_TICKS 8

/*
 * Runs all steps once and gives the seconds from the first submit until the last future resolved.
 * Returns 0 when every operation succeeded, none of them still touching memory; otherwise an exit
 * status after a message on stderr that says which operation failed first and why. Then the engine
 * is shut down.
 */
int demo_ferry_run(demo_plan *plan, demo_executor *executor, double *seconds_p);

/*
 * Submits the step, which is no layer: a copy, or a message to or from the process that has the
 * neighbouring stage. The caller releases the future.
 */
ferry_future *demo_ferry_move(demo_plan *plan, const demo_step *step,
                              const ferry_op_options *options);

/* Tells of a future that has failed, with its label and cause, and returns an exit status; else 0.
 */
int demo_ferry_check(ferry_future *future, const char *label);

/* Resolved is not yet quiet, and the caller goes on to touch the memory. Returns as above. */
int demo_ferry_wait_quiet(demo_plan *plan);

#endif
