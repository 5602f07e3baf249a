/* SPDX-License-Identifier: Apache-2.0 */
/* The figures of a trace. What they mean is said where they are printed (trace_report.c). */
#ifndef TRACE_SUMMARY_H
#define TRACE_SUMMARY_H

#include "tools/trace_path.h"

#define TRACE_TALLIES_MAX 64

/* Operations of one kind and status. */
typedef struct trace_tally {
    const char *kind; /* NULL: all that found no room */
    const char *status;
    size_t count;
    uint64_t size_bytes;
} trace_tally;

typedef struct trace_row_figures {
    int64_t busy_ns;       /* at least one operation ran */
    int64_t waiting_ns;    /* at least one waited */
    double waiting_sum_ns; /* of all operations */
    uint32_t longest;      /* the operation that ran longest; TRACE_NO_OP: there is none */
} trace_row_figures;

typedef struct trace_summary {
    trace_tally tallies[TRACE_TALLIES_MAX];
    size_t tally_count;
    uint64_t size_bytes; /* of those that succeeded */
    size_t failed_count;
    trace_row_figures *rows; /* one for each of the model's */
    int64_t streams_busy_ns; /* at least one stream was busy */
    int64_t calls_busy_ns;   /* at least one row of calls was */
    int64_t both_busy_ns;    /* one of each */
    double busy_sum_ns;      /* of all streams and calls */
    trace_path path;
} trace_summary;

/* model is finished and has operations. The summary is to be released either way. */
trace_result trace_summary_make(const trace_model *model, trace_summary *summary);

void trace_summary_release(trace_summary *summary);

/* both_busy_ns relative to the smaller of the two busy times; 0 if one of them is 0. */
double trace_summary_overlap(const trace_summary *summary);

/* Streams and calls that were busy at the same time, on average over the span. */
double trace_summary_concurrency(const trace_model *model, const trace_summary *summary);

#endif
