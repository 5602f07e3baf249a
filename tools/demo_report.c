/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/demo_report.h"

#include "tools/demo_cuda.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIGURE_DIGITS 6

static double ideal_s(const demo_result *result)
{
    double compute_s = result->way_s[DEMO_WAY_COMPUTE];
    double copy_s = result->way_s[DEMO_WAY_COPY];
    return compute_s > copy_s ? compute_s : copy_s;
}

static double efficiency(const demo_result *result)
{
    return result->way_s[DEMO_WAY_CONTROL] / result->way_s[DEMO_WAY_FERRY];
}

static void print_row(const char *name, double value, const char *meaning)
{
    printf("  %-18s %10.6f   %s\n", name, value, meaning);
}

static void print_table(const demo_plan *plan, const demo_result *result)
{
    const demo_options *options = &plan->options;
    const double *way_s = result->way_s;
    printf("%zu stages of %zu layers, %zu x %zu; %zu micro-batches of %zu rows of %s\n",
           options->stages, options->layers, options->width, options->width, options->micro_batches,
           options->rows, options->input_path);
    if (plan->cuda)
        printf("on %s\n", demo_cuda_gpus(plan->cuda));
    if (options->processes > 1)
        printf("by %zu processes; figures of steps are the last one's, times are until all were "
               "done, with a barrier\n",
               options->processes);
    printf("a round: %zu layer runs, %zu copies of %.1f MiB in all; medians of %zu rounds\n\n",
           plan->layer_step_count, plan->step_count - plan->layer_step_count,
           (double)plan->copy_bytes / (1 << 20), options->rounds);
    bool is_cuda = plan->cuda;
    print_row("compute_s", way_s[DEMO_WAY_COMPUTE],
              is_cuda ? "all layers alone, a stream for each stage"
                      : "all layers alone, on one thread");
    print_row("copy_s", way_s[DEMO_WAY_COPY],
              is_cuda ? "all copies alone, streams for each direction and stage"
                      : "all copies alone, on one thread");
    print_row("serial_s", way_s[DEMO_WAY_SERIAL],
              is_cuda ? "both in program order, each waited for"
                      : "both in program order, on one thread");
    print_row(
        "control_s", way_s[DEMO_WAY_CONTROL],
        is_cuda && options->processes > 1
            ? "each process's stages by hand at once, with streams and events, and no messages"
        : is_cuda ? "the pipeline by hand, with the same streams and an event a step"
                  : "both at once on two bare threads, no dependencies: the most that can "
                    "overlap here");
    print_row("ideal_s", ideal_s(result), "the larger of compute_s and copy_s");
    print_row("ferry_s", way_s[DEMO_WAY_FERRY], "the pipeline through ferry");
    print_row("efficiency", efficiency(result), "control_s / ferry_s");
    print_row("copy_s/compute_s", way_s[DEMO_WAY_COPY] / way_s[DEMO_WAY_COMPUTE],
              "how copying and computing weigh");
    print_row("ferry_s/serial_s", way_s[DEMO_WAY_FERRY] / way_s[DEMO_WAY_SERIAL],
              "what is left of the naive program's time");
    printf("  %-18s %10s   %s\n", "verified", result->is_verified ? "yes" : "NO",
           "output against the plain computation on one device, bit for bit");
}

static int print_json(const demo_plan *plan, const demo_result *result)
{
    const double *way_s = result->way_s;
    json_t *object = json_pack("{s:s, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:b}", "device",
                               plan->cuda ? demo_cuda_gpus(plan->cuda) : "host", "processes",
                               (int)plan->options.processes, "compute_s", way_s[DEMO_WAY_COMPUTE],
                               "copy_s", way_s[DEMO_WAY_COPY], "serial_s", way_s[DEMO_WAY_SERIAL],
                               "control_s", way_s[DEMO_WAY_CONTROL], "ideal_s", ideal_s(result),
                               "ferry_s", way_s[DEMO_WAY_FERRY], "efficiency", efficiency(result),
                               "verified", (int)result->is_verified);
    int error = !object || json_dumpf(object, stdout, JSON_REAL_PRECISION(FIGURE_DIGITS)) != 0;
    json_decref(object);
    if (!error)
        putchar('\n');
    return error;
}

int demo_report_print(const demo_plan *plan, const demo_result *result)
{
    print_table(plan, result);
    int error = plan->options.json ? print_json(plan, result) : 0;
    if (fflush(stdout) == 0 && !ferror(stdout) && !error)
        return 0;
    fprintf(stderr, "ferry: writing the result: %s\n", strerror(errno));
    return EXIT_FAILURE;
}
