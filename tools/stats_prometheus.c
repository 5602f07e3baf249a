/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each series has the label `engine`, the engine's number in its process, so that the figures of a
 * process's engines can stand in one file. Which process it is changes with each start, so it is a
 * label of ferry_info alone.
 */
#include "tools/stats_prometheus.h"

#include <inttypes.h>

static void print_head(FILE *to, const char *name, const char *type, const char *help)
{
    fprintf(to, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* In a label's value a backslash, a quote and the end of a line are escaped. */
static void print_label(FILE *to, const char *name, const char *value)
{
    fprintf(to, ",%s=\"", name);
    for (; *value; value++) {
        if (*value == '\n')
            fputs("\\n", to);
        else if (*value == '\\' || *value == '"')
            fprintf(to, "\\%c", *value);
        else
            putc(*value, to);
    }
    putc('"', to);
}

static void print_one(const stats_model *model, FILE *to, const char *name, const char *type,
                      const char *help, int64_t value)
{
    print_head(to, name, type, help);
    fprintf(to, "%s{engine=\"%" PRId64 "\"} %" PRId64 "\n", name, model->engine, value);
}

static void print_counts(const stats_model *model, FILE *to, const char *name, const char *help,
                         const char *label, json_t *counts)
{
    const char *key;
    json_t *count;
    print_head(to, name, "counter", help);
    json_object_foreach(counts, key, count)
    {
        fprintf(to, "%s{engine=\"%" PRId64 "\"", name, model->engine);
        print_label(to, label, key);
        fprintf(to, "} %" JSON_INTEGER_FORMAT "\n", json_integer_value(count));
    }
}

/* Nanoseconds as seconds, to the last digit. */
static void print_seconds(FILE *to, int64_t value_ns)
{
    fprintf(to, "%" PRId64 ".%09" PRId64, value_ns / 1000000000, value_ns % 1000000000);
}

/* `le` is the largest latency that a bucket and those before it hold. */
static void print_latencies(const stats_model *model, FILE *to)
{
    static const char name[] = "ferry_operation_latency_seconds";
    int64_t sum = 0;
    print_head(to, name, "histogram",
               "Time from entering to resolving, of one operation in "
               "ferry_operation_latency_every.");
    for (int i = 0; i < STATS_BUCKETS; i++) {
        sum += model->latency_counts[i];
        fprintf(to, "%s_bucket{engine=\"%" PRId64 "\",le=\"", name, model->engine);
        print_seconds(to, (INT64_C(2) << i) - 1);
        fprintf(to, "\"} %" PRId64 "\n", sum);
    }
    fprintf(to, "%s_bucket{engine=\"%" PRId64 "\",le=\"+Inf\"} %" PRId64 "\n", name, model->engine,
            sum);
    fprintf(to, "%s_sum{engine=\"%" PRId64 "\"} ", name, model->engine);
    print_seconds(to, model->latency_sum_ns);
    fprintf(to, "\n%s_count{engine=\"%" PRId64 "\"} %" PRId64 "\n", name, model->engine, sum);
}

void stats_prometheus_print(const stats_model *model, FILE *to)
{
    print_head(to, "ferry_info", "gauge", "The process and its version of ferry.");
    fprintf(to, "ferry_info{engine=\"%" PRId64 "\",pid=\"%" PRId64 "\"", model->engine, model->pid);
    print_label(to, "version", model->version);
    fputs("} 1\n", to);
    print_one(model, to, "ferry_operations_entered_total", "counter",
              "Operations that have entered the graph, promises among them.", model->entered);
    print_one(model, to, "ferry_operations_resolved_total", "counter",
              "Operations that have resolved, well or not.", model->resolved);
    print_one(model, to, "ferry_operations_in_flight", "gauge",
              "Operations that have entered and not resolved.", model->in_flight);
    print_counts(model, to, "ferry_operations_resolved_by_kind_total",
                 "Operations that have resolved, by kind.", "kind", model->kinds);
    print_counts(model, to, "ferry_operations_failed_total",
                 "Operations that have failed, by status.", "status", model->failures);
    print_counts(model, to, "ferry_bytes_total",
                 "Bytes of operations that ended well, by the way that they went.", "way",
                 model->ways);
    print_one(model, to, "ferry_operation_latency_every", "gauge",
              "Latencies are those of one operation in so many.", model->latency_every);
    print_latencies(model, to);
}
