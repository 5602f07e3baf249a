/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan's steps on GPUs: the pipeline through ferry, and what it is compared with. Every
 * function does its part once, with nothing in flight before and after, and gives the seconds it
 * took. Returns 0, or an exit status after a message on stderr.
 */
#ifndef DEMO_GPU_H
#define DEMO_GPU_H

#include "tools/demo_plan.h"

/* All layers, each stage's on its stream. The plan is to be primed. */
int demo_gpu_compute(demo_plan *plan, double *seconds_p);

/* All copies, each stage's on a stream a direction. */
int demo_gpu_copy(demo_plan *plan, double *seconds_p);

/* All steps in program order, each waited for. */
int demo_gpu_serial(demo_plan *plan, double *seconds_p);

/* All steps on those streams, each behind the events of those it needs. */
int demo_gpu_control(demo_plan *plan, double *seconds_p);

/* The copies by ferry; layers on those streams, told of to ferry and waiting for it by events. */
int demo_gpu_ferry(demo_plan *plan, double *seconds_p);

#endif
