/* SPDX-License-Identifier: Apache-2.0 */
/* What the two ends do together: steps that rank 0 names and both run. */
#ifndef PERF_RUN_H
#define PERF_RUN_H

#include "tools/perf_end.h"

/* What one line of the report tells. */
typedef struct perf_line {
    perf_test test;
    size_t size_bytes;
    uint64_t iterations; /* messages, of one direction */
    uint32_t window;
    double seconds;
    double latency_s[3]; /* PERF_LAT: least, median, 99th percentile */
} perf_line;

/* Rank 0: runs all that the options name, and prints it. */
int perf_run_driver(perf_end *end);

/* Rank 1: runs what rank 0 says until that is all. */
int perf_run_follower(perf_end *end);

/* Called by rank 0 for the heading and for each line. */
int perf_report_begin(const perf_end *end);
int perf_report_line(const perf_options *options, const perf_line *line);

#endif
