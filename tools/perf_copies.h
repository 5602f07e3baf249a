/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between a GPU and page-locked memory, and within the GPU: what messages of GPU memory
 * cannot be faster than.
 */
#ifndef PERF_COPIES_H
#define PERF_COPIES_H

#include "tools/perf_stream.h"

typedef enum perf_copy_way {
    PERF_FROM_GPU,
    PERF_TO_GPU,
    PERF_ON_GPU,
} perf_copy_way;

/*
 * Copies between this end's area `out` and its mirror, or from `out` to `in`, as many at once as
 * the step's window: for some time, or as many as step->iterations says if that is not 0. Checks
 * bytes before that. Gives the number of copies and how long they took.
 */
int perf_copies_run(perf_end *end, const perf_step *step, perf_copy_way way, double time_s,
                    uint64_t *count_p, double *seconds_p);

#endif
