/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/observe/stats_json.h"

#include "engine/engine.h"

#include <inttypes.h>
#include <unistd.h>

static void print_number(fry_text *text, const char *name, uint64_t value)
{
    fry_text_print(text, ",\n\"%s\":%" PRIu64, name, value);
}

/* A member of an object of counts: only what has happened is shown. */
static void print_count(fry_text *text, bool *is_first_p, const char *name, uint64_t count)
{
    if (count == 0)
        return;
    fry_text_print(text, "%s\"%s\":%" PRIu64, *is_first_p ? "" : ",", name, count);
    *is_first_p = false;
}

static void print_kinds(fry_text *text, const ferry_stats *stats)
{
    bool is_first = true;
    fry_text_string(text, ",\n\"resolved_by_kind\":{");
    for (size_t i = 0; i < FERRY_STATS_KINDS; i++)
        print_count(text, &is_first, ferry_op_kind_name((ferry_op_kind)i),
                    stats->resolved_by_kind[i]);
    fry_text_string(text, "}");
}

static void print_ways(fry_text *text, const ferry_stats *stats)
{
    bool is_first = true;
    fry_text_string(text, ",\n\"bytes_by_way\":{");
    for (size_t i = 0; i < FERRY_WAYS; i++)
        print_count(text, &is_first, ferry_way_name((ferry_way)i), stats->bytes_by_way[i]);
    fry_text_string(text, "}");
}

static void print_failures(fry_text *text, const ferry_stats *stats)
{
    bool is_first = true;
    fry_text_string(text, ",\n\"failures\":{");
    for (size_t i = 0; i < stats->failure_count && i < FERRY_STATS_FAILURES; i++)
        print_count(text, &is_first, ferry_status_name(stats->failures[i].status),
                    stats->failures[i].count);
    fry_text_string(text, "}");
}

void fry_stats_json_print(fry_text *text, const ferry_engine *engine, const ferry_stats *stats)
{
    fry_text_print(text, "{\"format\":%d,\n\"version\":\"%s\"", FRY_STATS_FORMAT, ferry_version());
    print_number(text, "pid", (uint64_t)getpid());
    print_number(text, "engine", engine->id);
    print_number(text, "time_ns", (uint64_t)fry_clock_monotonic_ns());
    print_number(text, "entered", stats->entered);
    print_number(text, "resolved", stats->resolved);
    print_number(text, "in_flight", stats->in_flight);
    print_kinds(text, stats);
    print_ways(text, stats);
    print_failures(text, stats);
    print_number(text, "latency_every", stats->latency_every);
    print_number(text, "latency_count", stats->latency_count);
    print_number(text, "latency_sum_ns", stats->latency_sum_ns);
    fry_text_string(text, ",\n\"latency_counts\":[");
    for (size_t i = 0; i < FERRY_STATS_BUCKETS; i++)
        fry_text_print(text, "%s%" PRIu64, i == 0 ? "" : ",", stats->latency_counts[i]);
    fry_text_string(text, "]}\n");
}

void fry_stats_json_error(fry_text *text, ferry_status status, const char *words)
{
    fry_text_print(text, "{\"format\":%d,\"version\":\"%s\",\"error\":\"%s\",\"message\":\"%s\"}\n",
                   FRY_STATS_FORMAT, ferry_version(), ferry_status_name(status), words);
}
