/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/kv_report.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIGURE_DIGITS 6

/* Of all decode processes together. */
typedef struct kv_sum {
    kv_figures figures;
    double seconds;
    double raw_bytes_per_s;
    uint64_t least, most; /* requests of one of them */
    uint64_t third_resident, end_resident;
} kv_sum;

static double per_s(double count, int64_t duration_ns)
{
    return duration_ns > 0 ? count * 1e9 / (double)duration_ns : 0;
}

static void sum_up(const kv_outcome *outcome, kv_sum *sum)
{
    *sum = (kv_sum){.seconds = (double)outcome->duration_ns / 1e9, .least = UINT64_MAX};
    for (uint32_t i = 0; i < outcome->decoders; i++) {
        const kv_figures *figures = &outcome->figures[i];
        sum->figures.requests += figures->requests;
        sum->figures.bytes += figures->bytes;
        sum->figures.pages += figures->pages;
        sum->figures.verified += figures->verified;
        kv_times_sum(&sum->figures.ttft, &figures->ttft);
        sum->raw_bytes_per_s += per_s((double)figures->raw_bytes, figures->raw_ns);
        sum->third_resident += figures->third_resident;
        sum->end_resident += figures->end_resident;
        sum->least = figures->requests < sum->least ? figures->requests : sum->least;
        sum->most = figures->requests > sum->most ? figures->requests : sum->most;
    }
    sum->figures.duration_ns = outcome->duration_ns;
}

static bool is_verified(const kv_figures *figures)
{
    return figures->verified == figures->pages && figures->pages > 0;
}

static double efficiency(const kv_sum *sum)
{
    double bytes_per_s = per_s((double)sum->figures.bytes, sum->figures.duration_ns);
    return sum->raw_bytes_per_s > 0 ? bytes_per_s / sum->raw_bytes_per_s : 0;
}

static void print_row(const char *name, const kv_figures *figures)
{
    printf("%-5s %12llu %12.1f %11.4f %11.0f %11.0f  %s\n", name,
           (unsigned long long)figures->requests,
           per_s((double)figures->requests, figures->duration_ns),
           per_s((double)figures->bytes, figures->duration_ns) / 1e9,
           kv_times_quantile_us(&figures->ttft, 0.5), kv_times_quantile_us(&figures->ttft, 0.99),
           is_verified(figures) ? "yes" : "NO");
}

static void print_table(const kv_options *options, const kv_outcome *outcome, const kv_sum *sum)
{
    const kv_shape *shape = &options->shape;
    const double mib = 1 << 20;
    printf("a request: %u layers of %u pages of %llu bytes; %u requests fit the cache\n\n",
           (unsigned)shape->layers, (unsigned)shape->pages, (unsigned long long)shape->page_bytes,
           (unsigned)shape->room);
    printf("%-5s %12s %12s %11s %11s %11s  %s\n", "rank", "requests", "requests/s", "GB/s",
           "ttft us", "p99 us", "verified");
    for (uint32_t i = 0; i < outcome->decoders; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "%u", (unsigned)i + 1);
        print_row(name, &outcome->figures[i]);
    }
    print_row("all", &sum->figures);
    printf("\nraw: %.4f GB/s, of which the requests have %.3f; the fewest requests of one: %.3f of "
           "the most\n",
           sum->raw_bytes_per_s / 1e9, efficiency(sum), (double)sum->least / (double)sum->most);
    printf("memory after a third and at the end: prefill %.1f and %.1f MiB, the others together "
           "%.1f and %.1f MiB\n",
           (double)outcome->third_resident / mib, (double)outcome->end_resident / mib,
           (double)sum->third_resident / mib, (double)sum->end_resident / mib);
    printf("verified: %llu of %llu pages\n", (unsigned long long)sum->figures.verified,
           (unsigned long long)sum->figures.pages);
}

/* What stands in each row and in the sum. */
static json_t *pack(const kv_figures *figures)
{
    return json_pack("{s:I, s:f, s:f, s:f, s:f, s:f, s:b, s:I, s:I}", "requests",
                     (json_int_t)figures->requests, "seconds", (double)figures->duration_ns / 1e9,
                     "requests_per_s", per_s((double)figures->requests, figures->duration_ns),
                     "bytes_per_s", per_s((double)figures->bytes, figures->duration_ns), "ttft_us",
                     kv_times_quantile_us(&figures->ttft, 0.5), "ttft_p99_us",
                     kv_times_quantile_us(&figures->ttft, 0.99), "verified",
                     (int)is_verified(figures), "pages_verified", (json_int_t)figures->verified,
                     "pages_compared", (json_int_t)figures->pages);
}

static json_t *pack_each(const kv_outcome *outcome)
{
    json_t *each = json_array();
    for (uint32_t i = 0; each && i < outcome->decoders; i++) {
        json_t *row = pack(&outcome->figures[i]);
        if (!row || json_object_set_new(row, "rank", json_integer(i + 1)) != 0 ||
            json_array_append_new(each, row) != 0) {
            json_decref(each);
            return NULL;
        }
    }
    return each;
}

static int print_json(const kv_options *options, const kv_outcome *outcome, const kv_sum *sum)
{
    const kv_shape *shape = &options->shape;
    json_t *object = pack(&sum->figures);
    json_t *each = pack_each(outcome);
    json_t *more =
        json_pack("{s:f, s:f, s:i, s:I, s:i, s:i, s:i, s:f, s:I, s:I, s:I, s:I}", "raw_bytes_per_s",
                  sum->raw_bytes_per_s, "efficiency", efficiency(sum), "decoders",
                  (int)outcome->decoders, "page_bytes", (json_int_t)shape->page_bytes, "layers",
                  (int)shape->layers, "pages", (int)shape->pages, "room", (int)shape->room,
                  "fewest_of_most", (double)sum->least / (double)sum->most,
                  "prefill_third_resident_bytes", (json_int_t)outcome->third_resident,
                  "prefill_end_resident_bytes", (json_int_t)outcome->end_resident,
                  "decode_third_resident_bytes", (json_int_t)sum->third_resident,
                  "decode_end_resident_bytes", (json_int_t)sum->end_resident);
    int error = !object || !each || !more || json_object_update(object, more) != 0 ||
                json_object_set(object, "each", each) != 0 ||
                json_dumpf(object, stdout, JSON_COMPACT | JSON_REAL_PRECISION(FIGURE_DIGITS)) != 0;
    json_decref(object);
    json_decref(each);
    json_decref(more);
    putchar('\n');
    return error;
}

int kv_report_print(const kv_options *options, const kv_outcome *outcome)
{
    kv_sum sum;
    sum_up(outcome, &sum);
    int error = 0;
    if (options->is_json)
        error = print_json(options, outcome, &sum);
    else
        print_table(options, outcome, &sum);
    if (fflush(stdout) != 0 || ferror(stdout) || error) {
        fprintf(stderr, "ferry: writing the result: %s\n", strerror(errno));
        return EXIT_FAILURE;
    }
    return is_verified(&sum.figures) ? 0 : EXIT_FAILURE;
}
