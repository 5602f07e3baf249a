/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/demo_pipeline.h"

#include "tools/child_process.h"
#include "tools/demo_bare.h"
#include "tools/demo_ferry.h"
#include "tools/demo_gpu.h"
#include "tools/demo_measure.h"
#include "tools/demo_report.h"
#include "tools/progress_bar.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INPUT_MAX_BYTES ((size_t)64 << 20)

/* Ways take turns, so that other load on the machine strikes all alike. */
typedef struct demo_rounds {
    demo_plan *plan;
    demo_executor *executor;
    progress_bar bar;
    double *samples_s[DEMO_WAY_COUNT]; /* one for each round */
    bool is_verified;
} demo_rounds;

/* Reads at most what one round uses of a file: a byte for each number of the input. */
static int read_input(const demo_options *options, unsigned char **bytes_p, size_t *count_p)
{
    const char *path = options->input_path;
    size_t rows = options->rows ? options->rows : DEMO_ROWS_MAX;
    size_t wanted = options->micro_batches * rows * options->width;
    if (wanted > INPUT_MAX_BYTES)
        wanted = INPUT_MAX_BYTES;
    unsigned char *bytes = malloc(wanted);
    FILE *file = fopen(path, "rb");
    const char *problem = NULL;
    size_t count = 0;
    if (!bytes || !file) {
        problem = strerror(errno);
    } else {
        count = fread(bytes, 1, wanted, file);
        if (ferror(file))
            problem = strerror(errno);
        else if (count == 0)
            problem = "the file is empty";
    }
    if (file)
        fclose(file);
    if (problem) {
        fprintf(stderr, "ferry: reading '%s': %s\n", path, problem);
        free(bytes);
        return EXIT_FAILURE;
    }
    *bytes_p = bytes;
    *count_p = count;
    return 0;
}

static int run_ferry(demo_rounds *rounds, double *seconds_p)
{
    return rounds->plan->cuda ? demo_gpu_ferry(rounds->plan, seconds_p)
                              : demo_ferry_run(rounds->plan, rounds->executor, seconds_p);
}

static int run_way(demo_rounds *rounds, demo_way way, double *seconds_p)
{
    static const struct {
        const char *name;
        int (*on_hosts)(demo_plan *plan, double *seconds_p);
        int (*on_gpus)(demo_plan *plan, double *seconds_p);
    } ways[] = {
        [DEMO_WAY_COMPUTE] = {"computing alone", demo_bare_compute, demo_gpu_compute},
        [DEMO_WAY_COPY] = {"copying alone", demo_bare_copy, demo_gpu_copy},
        [DEMO_WAY_SERIAL] = {"one after the other", demo_bare_serial, demo_gpu_serial},
        [DEMO_WAY_CONTROL] = {"by hand", demo_bare_control, demo_gpu_control},
        [DEMO_WAY_FERRY] = {"through ferry", NULL, NULL},
    };
    demo_plan *plan = rounds->plan;
    progress_bar_show(&rounds->bar, ways[way].name);
    /*
     * Two bare threads without an order have no output; streams and events by hand have. A process
     * alone has none, since what it should get from another does not come.
     */
    bool is_whole = plan->part.count == 0;
    bool has_order = way == DEMO_WAY_SERIAL || (way == DEMO_WAY_CONTROL && plan->cuda);
    bool has_output = way == DEMO_WAY_FERRY || (has_order && is_whole);
    int result = has_output ? demo_plan_poison(plan) : demo_plan_prime(plan);
    if (!result)
        result = demo_part_meet(&plan->part);
    double begin_s = demo_now_s();
    if (!result && way == DEMO_WAY_FERRY)
        result = run_ferry(rounds, seconds_p);
    else if (!result)
        result = (plan->cuda ? ways[way].on_gpus : ways[way].on_hosts)(plan, seconds_p);
    if (!result && plan->part.count > 0) { /* the round ends when all are done */
        result = demo_part_meet(&plan->part);
        *seconds_p = demo_now_s() - begin_s;
    }
    if (has_output && !result && !demo_plan_verify(plan))
        rounds->is_verified = false;
    progress_bar_advance(&rounds->bar);
    return result;
}

/* Round 0 warms up. Each round begins with another way. */
static int run_rounds(demo_rounds *rounds)
{
    for (size_t round = 0; round <= rounds->plan->options.rounds; round++) {
        for (size_t i = 0; i < DEMO_WAY_COUNT; i++) {
            size_t way = (round + i) % DEMO_WAY_COUNT;
            double seconds = 0;
            int result = run_way(rounds, (demo_way)way, &seconds);
            if (result)
                return result;
            if (round > 0)
                rounds->samples_s[way][round - 1] = seconds;
        }
    }
    return 0;
}

static int measure(demo_plan *plan, demo_executor *executor, demo_result *outcome)
{
    size_t count = plan->options.rounds;
    double *samples_s = calloc(count * DEMO_WAY_COUNT, sizeof(double));
    if (!samples_s) {
        fputs("ferry: out of memory\n", stderr);
        return EXIT_FAILURE;
    }
    demo_rounds rounds = {.plan = plan, .executor = executor, .is_verified = true};
    for (size_t way = 0; way < DEMO_WAY_COUNT; way++)
        rounds.samples_s[way] = samples_s + way * count;
    progress_bar_begin(&rounds.bar, (count + 1) * DEMO_WAY_COUNT);
    rounds.bar.shown = rounds.bar.shown && demo_part_is_last(&plan->part);
    int result = run_rounds(&rounds);
    progress_bar_end(&rounds.bar);
    if (!result) {
        outcome->is_verified = rounds.is_verified;
        for (size_t way = 0; way < DEMO_WAY_COUNT; way++)
            outcome->way_s[way] = demo_median(rounds.samples_s[way], count);
    }
    free(samples_s);
    return result;
}

static int fail_trace(const demo_plan *plan, ferry_status status)
{
    fprintf(stderr, "ferry: recording into '%s': %s (%s)\n", plan->options.trace_path,
            ferry_status_text(status), ferry_status_name(status));
    return EXIT_FAILURE;
}

/* Runs once more through ferry, recorded. Not a measured round: recording takes time. */
static int trace_round(demo_plan *plan, demo_executor *executor, demo_result *outcome)
{
    demo_rounds rounds = {.plan = plan, .executor = executor};
    double seconds = 0;
    int result = demo_plan_poison(plan);
    if (result)
        return result;
    ferry_status status = ferry_trace_open(plan->options.trace_path);
    if (status != FERRY_OK)
        return fail_trace(plan, status);
    result = run_ferry(&rounds, &seconds);
    status = ferry_trace_close();
    if (status != FERRY_OK && !result)
        result = fail_trace(plan, status);
    if (!result && !demo_plan_verify(plan))
        outcome->is_verified = false;
    return result;
}

static int run_plan(demo_plan *plan)
{
    demo_executor executor;
    int error = demo_executor_start(&executor, plan->layer_step_count);
    if (error) {
        fprintf(stderr, "ferry: starting the computing thread: %s\n", strerror(error));
        return EXIT_FAILURE;
    }
    demo_result outcome = {0};
    int result = measure(plan, &executor, &outcome);
    if (!result && plan->options.trace_path)
        result = trace_round(plan, &executor, &outcome);
    /* The executor outlives every call: the engine has none in flight from here on. */
    demo_executor_stop(&executor);
    if (result)
        return result;
    if (demo_part_is_last(&plan->part))
        result = demo_report_print(plan, &outcome);
    return result || !outcome.is_verified ? EXIT_FAILURE : EXIT_SUCCESS;
}

typedef struct demo_process {
    const demo_options *options;
    demo_part part;
    const unsigned char *bytes; /* the input */
    size_t byte_count;
} demo_process;

static int run_part(void *arg)
{
    const demo_process *process = arg;
    demo_plan plan;
    int result =
        demo_plan_make(&plan, process->options, process->part, process->bytes, process->byte_count);
    if (!result)
        result = run_plan(&plan);
    demo_plan_release(&plan);
    return result;
}

/* Starts the other processes and watches them. */
static int run_processes(const demo_process *whole)
{
    char folder[CHILD_FOLDER_BYTES];
    char store[CHILD_FOLDER_BYTES + 8];
    demo_process parts[DEMO_STAGES_MAX];
    child_process children[DEMO_STAGES_MAX];
    size_t count = whole->options->processes;
    if (child_folder_make(folder) != 0)
        return EXIT_FAILURE;
    (void)snprintf(store, sizeof(store), "file:%s", folder);
    for (size_t i = 0; i < count; i++) {
        parts[i] = *whole;
        parts[i].part = demo_part_of(whole->options, i, store);
        children[i] = (child_process){.run = run_part, .arg = &parts[i]};
        (void)snprintf(children[i].name, sizeof(children[i].name), "process %zu of %zu", i + 1,
                       count);
    }
    int result = children_run(children, (int)count);
    child_folder_remove(folder);
    return result;
}

int demo_pipeline_run(int argc, char **argv)
{
    demo_options options;
    demo_options_parse(&options, argc, argv);
    unsigned char *bytes = NULL;
    size_t byte_count = 0;
    int result = read_input(&options, &bytes, &byte_count);
    if (result)
        return result;
    demo_process whole = {.options = &options,
                          .part = demo_part_whole(&options),
                          .bytes = bytes,
                          .byte_count = byte_count};
    result = options.processes > 1 ? run_processes(&whole) : run_part(&whole);
    free(bytes);
    return result;
}
