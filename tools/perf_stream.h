/* SPDX-License-Identifier: Apache-2.0 */
/* The loops that are timed: messages of one step, of either end. */
#ifndef PERF_STREAM_H
#define PERF_STREAM_H

#include "tools/perf_end.h"

#define PERF_STEP_VERSION 5
#define PERF_SAMPLES_MAX 100000

/* What rank 0 tells rank 1 to do; all zero but the version: that was all. */
typedef struct perf_step {
    uint32_t version;
    uint32_t test; /* perf_test */
    uint64_t size_bytes;
    uint64_t iterations; /* 0: the end */
    uint32_t window;
    uint32_t is_checked;
    uint32_t is_batch;
    uint32_t is_shared; /* the window's memory, if it is the host's */
    uint32_t reserved;
    uint32_t number;                    /* of the step: what bytes are made of */
    char devices[2][PERF_DEVICE_BYTES]; /* where the ends have the messages, by rank */
} perf_step;

typedef struct perf_samples {
    double *values_s; /* room for PERF_SAMPLES_MAX; NULL: none are wanted */
    size_t count;
} perf_samples;

/* Has memory for a step at this end. */
int perf_stream_prepare(perf_end *end, const perf_step *step);

/* Runs a step to its end at this end; gives how long it took here. */
int perf_stream_run(perf_end *end, const perf_step *step, perf_samples *samples, double *seconds_p);

#endif
