/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/perf_run.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIGURE_DIGITS 6

static int written(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return 0;
    fprintf(stderr, "ferry: writing the result: %s\n", strerror(errno));
    return EXIT_FAILURE;
}

int perf_report_begin(const perf_end *end)
{
    if (end->options->is_json)
        return 0;
    ferry_member_info member = FERRY_MEMBER_INFO_INIT;
    if (ferry_group_member(end->member.group, end->other, &member) == FERRY_OK)
        printf("the other end: process %lld on %s, %s\n", (long long)member.pid, member.host,
               member.is_on_this_host ? "this host" : "another host");
    printf("\n%-5s %12s %12s %6s %11s %11s %11s %11s %11s%s\n", "test", "bytes", "messages",
           "window", "least us", "median us", "p99 us", "GB/s", "M/s",
           perf_end_is_on_host(end) ? "" : "  device   way       ratio");
    return written();
}

static int print_json(const perf_line *line)
{
    json_t *object =
        json_pack("{s:s, s:I, s:I, s:i, s:f, s:f, s:f}", "test", line->name, "size_bytes",
                  (json_int_t)line->size_bytes, "iterations", (json_int_t)line->iterations,
                  "window", (int)line->window, "seconds", line->seconds, "bytes_per_s",
                  line->bytes_per_s, "messages_per_s", line->messages_per_s);
    static const char *const names[] = {"latency_least_us", "latency_median_us", "latency_p99_us"};
    for (size_t i = 0; i < 3 && object && line->latency_s[1] > 0; i++)
        json_object_set_new(object, names[i], json_real(line->latency_s[i] * 1e6));
    if (object && line->device) {
        json_object_set_new(object, "device", json_string(line->device));
        json_object_set_new(object, "way", json_string(line->way));
    }
    if (object && line->limit) {
        json_object_set_new(object, "limit", json_string(line->limit));
        json_object_set_new(object, "ratio", json_real(line->ratio));
    }
    int error = !object ||
                json_dumpf(object, stdout, JSON_COMPACT | JSON_REAL_PRECISION(FIGURE_DIGITS)) != 0;
    json_decref(object);
    putchar('\n');
    if (!error)
        return written();
    fputs("ferry: writing the result failed\n", stderr);
    return EXIT_FAILURE;
}

int perf_report_line(const perf_options *options, const perf_line *line)
{
    if (options->is_json)
        return print_json(line);
    printf("%-5s %12zu %12llu %6u ", line->name, line->size_bytes,
           (unsigned long long)line->iterations, line->window);
    if (line->latency_s[1] > 0)
        printf("%11.3f %11.3f %11.3f ", line->latency_s[0] * 1e6, line->latency_s[1] * 1e6,
               line->latency_s[2] * 1e6);
    else
        printf("%11s %11s %11s ", "", "", "");
    printf("%11.4f %11.5f", line->bytes_per_s / 1e9, line->messages_per_s / 1e6);
    if (line->device)
        printf("  %-8s %-8s", line->device, line->way);
    if (line->limit)
        printf("  %.3f of %s", line->ratio, line->limit);
    putchar('\n');
    return written();
}
