/* SPDX-License-Identifier: Apache-2.0 */
/* Measuring: time, medians, and how many rows make a layer weigh as much as its copy. */
#ifndef DEMO_MEASURE_H
#define DEMO_MEASURE_H

#include "tools/demo_plan.h"

/*
 * Measures the copy of a layer's weights and layers of growing row counts on the plan's weight
 * buffers, and sets *rows_p to the count whose layer takes most nearly as long as the copy. Returns
 * 0 or an exit status, with a message on stderr.
 */
int demo_calibrate_rows(const demo_plan *plan, size_t *rows_p);

/* Now, in seconds, for differences. */
double demo_now_s(void);

/* Sorts values and returns the one in the middle, or between the two there. */
double demo_median(double *values, size_t count);

#endif
