/* SPDX-License-Identifier: Apache-2.0 */
/* What the demo prints in the end. */
#ifndef DEMO_REPORT_H
#define DEMO_REPORT_H

#include "tools/demo_plan.h"

/* The ways the work is done; each is timed once a round. On GPUs the control has dependencies. */
typedef enum demo_way {
    DEMO_WAY_COMPUTE,
    DEMO_WAY_COPY,
    DEMO_WAY_SERIAL,
    DEMO_WAY_CONTROL,
    DEMO_WAY_FERRY,
} demo_way;

#define DEMO_WAY_COUNT 5

typedef struct demo_result {
    double way_s[DEMO_WAY_COUNT]; /* medians */
    bool is_verified;
} demo_result;

/*
 * Prints a table to stdout, and the JSON object behind it if the options ask for it. Returns 0, or
 * an exit status after a message on stderr if it could not be written.
 */
int demo_report_print(const demo_plan *plan, const demo_result *result);

#endif
