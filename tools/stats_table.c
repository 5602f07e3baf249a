/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/stats_table.h"

#include "tools/trace_text.h"

#include <inttypes.h>
#include <string.h>

#define NAME_COLUMNS 26

/* Names come from the other process; columns are filled by characters, not bytes. */
static void print_name(FILE *to, const char *name)
{
    char clean[TRACE_TEXT_MAX_BYTES + 1];
    trace_text_clean(name, strlen(name), clean);
    size_t length = trace_text_length(clean);
    fprintf(to, "  %s%*s ", clean, length < NAME_COLUMNS ? (int)(NAME_COLUMNS - length) : 0, "");
}

static void print_number(FILE *to, const char *name, int64_t value)
{
    print_name(to, name);
    fprintf(to, "%20" PRId64 "\n", value);
}

static void print_counts(FILE *to, const char *title, json_t *counts, bool are_bytes)
{
    const char *name;
    json_t *count;
    fprintf(to, "\n%s\n", title);
    if (json_object_size(counts) == 0)
        fputs("  none\n", to);
    json_object_foreach(counts, name, count)
    {
        char figure[TRACE_FIGURE_BYTES];
        print_name(to, name);
        fprintf(to, "%20" JSON_INTEGER_FORMAT, json_integer_value(count));
        trace_text_bytes(figure, (double)json_integer_value(count));
        if (are_bytes && json_integer_value(count) >= 1000)
            fprintf(to, "  %s", figure);
        putc('\n', to);
    }
}

static void print_time(FILE *to, const char *name, const char *relation, double time_ns)
{
    char figure[TRACE_FIGURE_BYTES];
    trace_text_time(figure, time_ns);
    print_name(to, name);
    fprintf(to, "%s%s\n", relation, figure);
}

static void print_latencies(FILE *to, const stats_model *model)
{
    static const struct {
        const char *name;
        double share;
    } shares[] = {{"half of them", 0.5}, {"90 %", 0.9}, {"99 %", 0.99}, {"all", 1}};
    fprintf(to, "\nlatencies, of one operation in %" PRId64 "\n", model->latency_every);
    print_number(to, "measured", model->latency_count);
    if (model->latency_count == 0)
        return;
    print_time(to, "mean", "", (double)model->latency_sum_ns / (double)model->latency_count);
    for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]); i++)
        print_time(to, shares[i].name, "below ", stats_model_latency_ns(model, shares[i].share));
}

void stats_table_print(const stats_model *model, FILE *to)
{
    char version[TRACE_TEXT_MAX_BYTES + 1];
    trace_text_clean(model->version, strlen(model->version), version);
    fprintf(to, "ferry %s, process %" PRId64 ", engine %" PRId64 "\n\noperations\n", version,
            model->pid, model->engine);
    print_number(to, "entered", model->entered);
    print_number(to, "resolved", model->resolved);
    print_number(to, "in flight", model->in_flight);
    print_counts(to, "resolved, by kind", model->kinds, false);
    print_counts(to, "failed, by status", model->failures, false);
    print_counts(to, "bytes, by way", model->ways, true);
    print_latencies(to, model);
}
