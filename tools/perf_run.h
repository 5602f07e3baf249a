/* SPDX-License-Identifier: Apache-2.0 */
/* What the two ends do together: steps that rank 0 names and both run. */
#ifndef PERF_RUN_H
#define PERF_RUN_H

#include "tools/perf_end.h"

/* What one line of the report tells. */
typedef struct perf_line {
    perf_test test;
    const char *name; /* of the test, or "d2h", "h2d", "d2d": copies, as PERF_BW */
    size_t size_bytes;
    uint64_t iterations; /* messages, of one direction */
    uint32_t window;
    double seconds;
    double latency_s[3]; /* least, median, 99th percentile; 0: not measured */
    double messages_per_s;
    double bytes_per_s;
    const char *device; /* NULL, as the rest: there are host messages alone */
    const char *way;    /* of the bytes */
    const char *limit;  /* what could be fastest of all; NULL: it was not measured */
    double ratio;       /* of the limit's bandwidth */
} perf_line;

/* Rank 0: runs all that the options name, and prints it. */
int perf_run_driver(perf_end *end);

/* Rank 1: runs what rank 0 says until that is all. */
int perf_run_follower(perf_end *end);

/* Called by rank 0 for the heading and for each line. */
int perf_report_begin(const perf_end *end);
int perf_report_line(const perf_options *options, const perf_line *line);

#endif
