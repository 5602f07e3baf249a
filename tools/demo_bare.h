/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan's steps without ferry: what the pipeline is compared with. Every function does its part
 * once and gives the seconds it took. No operation of the plan's engine may be in flight.
 */
#ifndef DEMO_BARE_H
#define DEMO_BARE_H

#include "tools/demo_plan.h"

/* All layers, on this thread. The plan is to be primed. */
int demo_bare_compute(demo_plan *plan, double *seconds_p);

/* All copies, on this thread. */
int demo_bare_copy(demo_plan *plan, double *seconds_p);

/* All steps in program order, on this thread. */
int demo_bare_serial(demo_plan *plan, double *seconds_p);

/*
 * All layers on one thread and all copies on another, each as fast as it can. The plan is to be
 * primed; the output means nothing. Returns 0, or an exit status after a message on stderr.
 */
int demo_bare_control(demo_plan *plan, double *seconds_p);

#endif
