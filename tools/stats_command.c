/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/stats_command.h"

#include "tools/stats_client.h"
#include "tools/stats_model.h"
#include "tools/stats_prometheus.h"
#include "tools/stats_table.h"

#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXIT_FAILED 1

typedef struct stats_options {
    const char *path;
    bool is_json, is_prometheus;
} stats_options;

static const char documentation[] =
    "Shows the figures of an engine in another process: operations, bytes by the way that they "
    "went, failures by status, latencies. SOCKET is the path that the program gave its engine "
    "(ferry_engine_options.stats_path); it answers its own user and root.\v"
    "Bytes are those of operations that ended well. Latencies are the times from entering the "
    "graph to resolving, of one operation in so many; they are counted in classes, each twice as "
    "wide as the one before, so `below 2.05 us' is the end of a class.\n"
    "\nExit status: 0 done, 1 there is no such socket, nobody answers, or the answer can't be "
    "understood or written, 2 bad options.";

static error_t parse(int key, char *argument, struct argp_state *state)
{
    stats_options *options = state->input;
    switch (key) {
    case 'j':
        options->is_json = true;
        return 0;
    case 'p':
        options->is_prometheus = true;
        return 0;
    case ARGP_KEY_ARG:
        if (options->path)
            argp_error(state, "unexpected argument '%s'", argument);
        options->path = argument;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "which socket?");
        return EINVAL;
    case ARGP_KEY_SUCCESS:
        if (options->is_json && options->is_prometheus)
            argp_error(state, "--json or --prometheus, not both");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static bool print(const stats_options *options, const stats_model *model)
{
    if (options->is_prometheus)
        stats_prometheus_print(model, stdout);
    else if (!options->is_json)
        stats_table_print(model, stdout);
    else if (json_dumpf(model->document, stdout, JSON_COMPACT) != 0 || putchar('\n') == EOF)
        return false;
    return fflush(stdout) == 0 && !ferror(stdout);
}

int stats_command_run(int argc, char **argv)
{
    static const struct argp_option option_list[] = {
        {"json", 'j', NULL, 0, "One JSON object instead of a table", 0},
        {"prometheus", 'p', NULL, 0, "Prometheus's text format 0.0.4 instead of a table", 0},
        {0},
    };
    static const struct argp parser = {
        .options = option_list, .parser = parse, .args_doc = "SOCKET", .doc = documentation};
    stats_options options = {0};
    if (argp_parse(&parser, argc, argv, 0, NULL, &options) != 0)
        return EXIT_FAILED;
    json_t *answer = NULL;
    char problem[STATS_PROBLEM_BYTES], why[STATS_WHY_BYTES];
    if (stats_client_ask(options.path, "stats", -1, &answer, problem) != STATS_OK) {
        fprintf(stderr, "ferry: %s\n", problem);
        return EXIT_FAILED;
    }
    stats_model model;
    if (!stats_model_take(&model, answer, why)) {
        fprintf(stderr, "ferry: %s: %s\n", options.path, why);
        return EXIT_FAILED;
    }
    bool printed = print(&options, &model);
    if (!printed)
        fprintf(stderr, "ferry: writing the figures: %s\n", strerror(errno));
    stats_model_release(&model);
    return printed ? EXIT_SUCCESS : EXIT_FAILED;
}
