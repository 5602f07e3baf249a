/* SPDX-License-Identifier: Apache-2.0 */
/* Samples, and the rows a benchmark prints. */
#ifndef FRY_BENCH_REPORT_H
#define FRY_BENCH_REPORT_H

#include <stdbool.h>
#include <stddef.h>

/* Grows as needed; zero it first. */
typedef struct bench_samples {
    double *values;
    size_t count;
    size_t capacity;
    bool larger_is_better; /* which end of the samples p99 looks at: always the bad one */
} bench_samples;

void bench_samples_add(bench_samples *samples, double value);
void bench_samples_free(bench_samples *samples);

/* The value that `share` (0 to 1) of the samples are no worse than; 0.5 is the median. */
double bench_samples_quantile(const bench_samples *samples, double share);

/* What a row tells of. */
typedef struct bench_key {
    const char *bench;  /* the CASE of the command line */
    const char *shape;  /* key "case" */
    const char *metric; /* one of report.c's list, which gives the unit */
    const char *rival;  /* "" on ferry's rows */
} bench_key;

/* How a metric is written in tables. */
typedef struct bench_metric {
    const char *name;
    const char *unit; /* of the values */
    const char *table_unit;
    double table_scale; /* what a value is divided by in a table */
} bench_metric;

/* Fails the bench if there is none of that name. */
const bench_metric *bench_metric_find(const char *name);

/* What rows of a run without a GPU give as "device". Nothing is judged by them. */
#define BENCH_EMULATED "emulated"

/*
 * Rows go to stdout: JSON objects, one a line, or a table.
 *  device  of a GPU's figures: its name, or BENCH_EMULATED; in each object. NULL: no GPU's
 */
void bench_report_open(bool is_json, const char *device);

/* One row: the median, the 99th percentile on the bad side, and how many samples there were. */
void bench_report(bench_key key, const bench_samples *samples);

/* A row of one value that was counted or computed from medians. */
void bench_report_value(bench_key key, double value);

#endif
