/* SPDX-License-Identifier: Apache-2.0 */
/* The command-line tool `ferry`: finds the command, and passes the rest of the line to it. */
#include "tools/demo_pipeline.h"
#include "tools/info_command.h"
#include "tools/kv_command.h"
#include "tools/perf_command.h"
#include "tools/reshard_command.h"
#include "tools/stats_command.h"
#include "tools/top_command.h"
#include "tools/trace_command.h"

#include <argp.h>
#include <errno.h>
#include <ferry/ferry.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXIT_USAGE 2

typedef struct command {
    const char *name;     /* the name shown, with the words before it */
    const char *words[2]; /* the second is NULL if there is none */
    int (*run)(int argc, char **argv);
} command;

static const command commands[] = {
    {"ferry demo kv", {"demo", "kv"}, kv_command_run_demo},
    {"ferry demo pipeline", {"demo", "pipeline"}, demo_pipeline_run},
    {"ferry info", {"info", NULL}, info_command_run},
    {"ferry kv", {"kv", NULL}, kv_command_run},
    {"ferry perf", {"perf", NULL}, perf_command_run},
    {"ferry reshard", {"reshard", NULL}, reshard_command_run},
    {"ferry stats", {"stats", NULL}, stats_command_run},
    {"ferry top", {"top", NULL}, top_command_run},
    {"ferry trace", {"trace", NULL}, trace_command_run},
};

/* The index of the command's own arguments, once it is found. */
typedef struct choice {
    const command *command;
    int next;
} choice;

static const char documentation[] =
    "Asynchronous transfers between devices.\v"
    "Commands:\n"
    "  demo kv          serve a paged cache to other processes for some seconds\n"
    "  demo pipeline    overlap copying and computing in a pipeline, and measure it\n"
    "  info             tell what ferry has and can do on this machine\n"
    "  kv               serve a paged cache to other processes, and measure that\n"
    "  perf             measure messages between two members of a group\n"
    "  reshard          tell how an array gets from one layout over members to another\n"
    "  stats SOCKET     show the figures of an engine in another process\n"
    "  top SOCKET       show what an engine in another process does now, live\n"
    "  trace FILE       draw a trace that ferry wrote as a timeline, and sum it up\n"
    "\n"
    "`ferry COMMAND --help' lists the options of a command.";

static void print_version(FILE *stream, struct argp_state *state)
{
    (void)state;
    fprintf(stream, "ferry %s\n", ferry_version());
}

static const command *find(const char *first, const char *second)
{
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        const command *candidate = &commands[i];
        const char *word = candidate->words[1];
        if (strcmp(candidate->words[0], first) == 0 && (!word || strcmp(word, second) == 0))
            return candidate;
    }
    return NULL;
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    choice *chosen = state->input;
    switch (key) {
    case ARGP_KEY_ARG: {
        const char *second = state->next < state->argc ? state->argv[state->next] : "";
        chosen->command = find(argument, second);
        bool is_demo = strcmp(argument, "demo") == 0;
        if (!chosen->command && is_demo && !*second)
            argp_error(state, "which demo? There are: kv, pipeline");
        else if (!chosen->command && is_demo)
            argp_error(state, "there is no demo '%s'; there are: kv, pipeline", second);
        else if (!chosen->command)
            argp_error(state, "unknown command '%s'", argument);
        /* The choice's last word. */
        chosen->next =
            chosen->command && !chosen->command->words[1] ? state->next - 1 : state->next;
        state->next = state->argc; /* the rest is the command's */
        return 0;
    }
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "a command is missing");
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int main(int argc, char **argv)
{
    static const struct argp parser = {
        .parser = parse, .args_doc = "COMMAND [OPTION...]", .doc = documentation};
    argp_program_version_hook = print_version;
    argp_err_exit_status = EXIT_USAGE;
    choice chosen = {0};
    if (argp_parse(&parser, argc, argv, ARGP_IN_ORDER, NULL, &chosen) != 0 || !chosen.command)
        return EXIT_USAGE;

    /* The command's argv[0] is its last word; the whole name is shown there. */
    char name[64];
    (void)snprintf(name, sizeof(name), "%s", chosen.command->name);
    argv[chosen.next] = name;
    return chosen.command->run(argc - chosen.next, argv + chosen.next);
}
