/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/report.h"

#include "bench/bench.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const bench_metric metrics[] = {
    {"ns_per_node", "ns", "ns", 1},
    {"latency_ns", "ns", "ns", 1},
    {"bytes_per_node", "bytes", "bytes", 1},
    {"heap_calls", "count", "calls", 1},
    {"driver_calls", "count", "calls", 1},
    {"wakeups", "count", "wake-ups", 1},
    {"rss_bytes", "bytes", "MiB", 1048576},
    {"ratio", "1", "x", 1},
    {"efficiency", "1", "", 1},
    {"duration_ns", "ns", "ms", 1e6},
    {"picture_bytes", "bytes", "KiB", 1024},
    {"records_per_s", "1/s", "M/s", 1e6},
    {"bandwidth_bytes_per_s", "bytes/s", "GB/s", 1e9},
    {"cpu_share", "1", "", 1},
    {"off_by", "1", "", 1},
    {"rounds", "count", "rounds", 1},
};

static bool is_json_wanted;
static const char *run_device; /* NULL: rows name none */
static char last_bench[32];    /* the table's heading is repeated for each bench */

void bench_samples_add(bench_samples *samples, double value)
{
    if (samples->count == samples->capacity) {
        samples->capacity = samples->capacity == 0 ? 64 : samples->capacity * 2;
        samples->values = realloc(samples->values, samples->capacity * sizeof *samples->values);
        if (samples->values == NULL)
            bench_fail("no memory for samples");
    }
    samples->values[samples->count++] = value;
}

void bench_samples_free(bench_samples *samples)
{
    free(samples->values);
    *samples = (bench_samples){.larger_is_better = samples->larger_is_better};
}

static int compare_values(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

double bench_samples_quantile(const bench_samples *samples, double share)
{
    if (samples->count == 0)
        bench_fail("a row without samples");
    double *sorted = bench_alloc(samples->count * sizeof *sorted);
    memcpy(sorted, samples->values, samples->count * sizeof *sorted);
    qsort(sorted, samples->count, sizeof *sorted, compare_values);
    double position = share * (double)(samples->count - 1);
    if (samples->larger_is_better)
        position = (double)(samples->count - 1) - position;
    size_t below = (size_t)floor(position);
    size_t above = below + 1 < samples->count ? below + 1 : below;
    double fraction = position - (double)below;
    double value = sorted[below] + fraction * (sorted[above] - sorted[below]);
    free(sorted);
    return value;
}

void bench_report_open(bool is_json, const char *device)
{
    is_json_wanted = is_json;
    run_device = device;
    last_bench[0] = '\0';
}

const bench_metric *bench_metric_find(const char *name)
{
    for (size_t i = 0; i < sizeof metrics / sizeof metrics[0]; i++) {
        if (strcmp(metrics[i].name, name) == 0)
            return &metrics[i];
    }
    bench_fail("unknown metric %s", name);
}

static void print_json(bench_key key, const bench_metric *form, const double *values, size_t n)
{
    json_t *row =
        json_pack("{s:s, s:s, s:s, s:s, s:f, s:f, s:f, s:I, s:s}", "bench", key.bench, "case",
                  key.shape, "metric", key.metric, "unit", form->unit, "value", values[0], "p50",
                  values[0], "p99", values[1], "n", (json_int_t)n, "rival", key.rival);
    if (row != NULL && run_device != NULL &&
        json_object_set_new(row, "device", json_string(run_device)) != 0)
        bench_fail("cannot name the device of a row");
    if (row == NULL || json_dumpf(row, stdout, JSON_COMPACT | JSON_REAL_PRECISION(7)) != 0)
        bench_fail("cannot print %s %s as JSON", key.bench, key.shape);
    json_decref(row);
    putchar('\n');
}

static void print_table(bench_key key, const bench_metric *form, const double *values, size_t n)
{
    if (strcmp(last_bench, key.bench) != 0) {
        (void)snprintf(last_bench, sizeof last_bench, "%s", key.bench);
        printf("\n%-8s %-20s %-22s %12s %12s %-8s %6s  %s\n", "bench", "case", "metric", "median",
               "p99", "unit", "n", "rival");
    }
    printf("%-8s %-20s %-22s %12.6g %12.6g %-8s %6zu  %s\n", key.bench, key.shape, key.metric,
           values[0] / form->table_scale, values[1] / form->table_scale, form->table_unit, n,
           key.rival);
}

static void print_row(bench_key key, double median, double p99, size_t n)
{
    const bench_metric *form = bench_metric_find(key.metric);
    double values[2] = {median, p99};
    if (is_json_wanted)
        print_json(key, form, values, n);
    else
        print_table(key, form, values, n);
    if (fflush(stdout) != 0)
        bench_fail("cannot write to stdout");
}

void bench_report(bench_key key, const bench_samples *samples)
{
    print_row(key, bench_samples_quantile(samples, 0.5), bench_samples_quantile(samples, 0.99),
              samples->count);
}

void bench_report_value(bench_key key, double value)
{
    print_row(key, value, value, 1);
}
