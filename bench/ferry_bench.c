/* SPDX-License-Identifier: Apache-2.0 */
/* ferry_bench: measures ferry beside its rivals and physical limits. */
#include "bench/bench.h"
#include "bench/member.h"
#include "bench/table.h"

#include <argp.h>
#include <stdlib.h>
#include <string.h>

typedef struct bench_case {
    const char *name;
    void (*run)(bool is_quick);
} bench_case;

static const bench_case cases[] = {
    {"graph", bench_graph},
    {"submit", bench_submit},
    {"queue", bench_queue},
    {"scope", bench_scope},
    {"stats", bench_stats},
    {"wake", bench_wake},
    {"copy", bench_copy},
    {"overlap", bench_overlap},
    {"scale", bench_scale},
    {"memory", bench_memory},
    {"idle", bench_idle},
    {"trace", bench_trace},
    {"svg", bench_svg},
    {"loops", bench_loops},
    {"dump", bench_dump},
    {"batch", bench_batch},
    {"plan", bench_plan},
    {"reshard", bench_reshard},
    {"soak", bench_soak},
    {"p2p-lat", bench_p2p_lat},
    {"p2p-bw", bench_p2p_bw},
    {"p2p-rate", bench_p2p_rate},
    {"p2p-get", bench_p2p_get},
    {"p2p-notice", bench_p2p_notice},
    {"p2p-plan", bench_p2p_plan},
    {"p2p-overlap", bench_p2p_overlap},
    {"p2p-order", bench_p2p_order},
    {"join", bench_join},
    {"barrier", bench_barrier},
    {"members-idle", bench_members_idle},
#ifdef FERRY_BENCH_COROUTINES
    {"await", bench_await},
#endif
#ifdef FERRY_BENCH_LIBUV
    {"libuv", bench_libuv},
#endif
};

#define CASE_COUNT (sizeof cases / sizeof cases[0])

typedef struct command_line {
    const char *chosen; /* name of a case, "all", or "table" */
    const char *path;   /* the table's rows */
    bool is_quick;
    bool is_json;
} command_line;

static bool is_known(const char *name)
{
    for (size_t i = 0; i < CASE_COUNT; i++) {
        if (strcmp(cases[i].name, name) == 0)
            return true;
    }
    return strcmp(name, "all") == 0 || strcmp(name, "table") == 0;
}

static bool is_table(const command_line *line)
{
    return line->chosen != NULL && strcmp(line->chosen, "table") == 0;
}

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
    command_line *line = state->input;
    switch (key) {
    case 'q':
        line->is_quick = true;
        return 0;
    case 'j':
        line->is_json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (is_table(line) && line->path == NULL) {
            line->path = argument;
            return 0;
        }
        if (line->chosen != NULL || !is_known(argument))
            argp_error(state, "one CASE is wanted, and \"%s\" is no further one", argument);
        line->chosen = argument;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_usage(state);
        return 0;
    case ARGP_KEY_END:
        if (is_table(line) && line->path == NULL)
            argp_error(state, "which FILE has the rows?");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    {"quick", 'q', NULL, 0, "Fewer rounds and smaller ends of the ranges", 0},
    {"json", 'j', NULL, 0, "One JSON object a line instead of a table", 0},
    {0},
};

static const struct argp parser = {
    .options = options,
    .parser = parse_option,
    .args_doc = "CASE\ntable FILE",
    .doc =
        "Measures ferry; where there is a rival or a physical limit, in the same run.\v"
        "CASE is graph, submit, batch, plan, reshard, wake, copy, overlap, scale, memory, idle, "
        "trace, svg, loops, dump, soak, await (with C++20), libuv (where it is), p2p-lat, p2p-bw, "
        "p2p-rate, p2p-get, p2p-notice, p2p-plan, "
        "p2p-overlap, "
        "p2p-order, join, barrier, members-idle or all. Figures are medians; p99 looks at the bad "
        "side.\n\"table FILE\" reads what --json printed, \"-\" from stdin, and prints ferry "
        "beside each rival and each limit, as Markdown.",
};

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], BENCH_MEMBER) == 0)
        return bench_member_main(argc - 1, argv + 1);
    command_line line = {0};
    error_t error = argp_parse(&parser, argc, argv, 0, NULL, &line);
    if (error != 0)
        bench_fail("%s", strerror(error));
    if (is_table(&line)) {
        bench_table_print(line.path);
        return EXIT_SUCCESS;
    }
    bench_report_open(line.is_json, NULL);
    bool is_all = strcmp(line.chosen, "all") == 0;
    for (size_t i = 0; i < CASE_COUNT; i++) {
        if (is_all || strcmp(cases[i].name, line.chosen) == 0)
            cases[i].run(line.is_quick);
    }
    return EXIT_SUCCESS;
}
