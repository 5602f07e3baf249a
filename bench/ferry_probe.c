/* SPDX-License-Identifier: Apache-2.0 */
/* ferry_probe: asks a GPU and its driver what ferry assumes of them. */
#include "bench/probe.h"

#include <argp.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define BUDGET_NS INT64_C(105000000000) /* of all cases; ending the last takes up to 4.5 s more */
#define LEAST_NS INT64_C(2000000000)    /* a case that has less is not tried */
#define NAME_BYTES 256

typedef struct command_line {
    const char *chosen; /* name of a case, "all", "list" or "table" */
    const char *path;   /* the table's rows */
    bool is_child;
} command_line;

static bool is_chosen(const command_line *line, const char *name)
{
    return line->chosen != NULL && strcmp(line->chosen, name) == 0;
}

static bool is_known(const char *name)
{
    return strcmp(name, "all") == 0 || strcmp(name, "list") == 0 || strcmp(name, "table") == 0 ||
           probe_case_find(name) != NULL || probe_case_has_rows(name);
}

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
    command_line *line = state->input;
    switch (key) {
    case 's':
        probe.is_smoke = true;
        return 0;
    case 'j':
        probe.is_json = true;
        return 0;
    case 'c':
        line->is_child = true;
        return 0;
    case 'd':
        probe.device = argument;
        return 0;
    case ARGP_KEY_ARG:
        if (is_chosen(line, "table") && line->path == NULL) {
            line->path = argument;
            return 0;
        }
        if (line->chosen != NULL || !is_known(argument))
            argp_error(state, "one CASE is wanted, and \"%s\" is no further one", argument);
        line->chosen = argument;
        return 0;
    case ARGP_KEY_END:
        if (line->chosen == NULL)
            line->chosen = "all";
        if (is_chosen(line, "table") && line->path == NULL)
            argp_error(state, "which FILE has the rows?");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    {"smoke", 's', NULL, 0, "So little that only the logic is tried", 0},
    {"json", 'j', NULL, 0, "One JSON object a line", 0},
    {"child", 'c', NULL, OPTION_HIDDEN, "", 0},
    {"device", 'd', "NAME", OPTION_HIDDEN, "", 0},
    {0},
};

static const struct argp parser = {
    .options = options,
    .parser = parse_option,
    .args_doc = "[CASE]\ntable FILE\nlist",
    .doc =
        "Asks GPU 0 and its driver what ferry assumes of them, in less than 110 s.\v"
        "CASE is one of those that \"list\" prints, the probe that its rows name, for all of that, "
        "or all (the default). Each runs in a process of its own, which is ended if it takes too "
        "long. A row's answer is null where there "
        "was none, and its note says why.\n"
        "\"table FILE\" reads what --json printed, \"-\" from stdin, and prints what it says of "
        "each assumption, as Markdown.\n"
        "The status is 0 if every case came to its end, 1 otherwise, 77 without a GPU.",
};

void probe_name(const probe_case *which)
{
    char name[NAME_BYTES];
    (void)which;
    const char *reason = probe_gpu_look(name, sizeof name);
    puts(reason != NULL ? reason : name);
    (void)fflush(stdout);
    _Exit(reason != NULL ? PROBE_NO_GPU : EXIT_SUCCESS);
}

/* Asked by a child, so that this process never starts the driver. */
static void find_device(char name[NAME_BYTES])
{
    const probe_case *which = probe_case_find("name");
    char how[64];
    int status;
    probe_child child = probe_child_start(which, false, true);
    FILE *file = fdopen(child.out, "r");
    child.out = -1;
    /* Bytes come only as it ends, and few: the pipe holds them. */
    bool is_by_itself =
        probe_child_end(&child, (int64_t)which->limit_s * 1000000000, &status, how, sizeof how);
    if (file == NULL || fgets(name, NAME_BYTES, file) == NULL)
        (void)snprintf(name, NAME_BYTES, "%s", how);
    if (file != NULL)
        (void)fclose(file);
    name[strcspn(name, "\n")] = '\0';
    if (is_by_itself && status == 0)
        return;
    (void)fprintf(stderr, "ferry_probe: no GPU: %s\n", name);
    exit(PROBE_NO_GPU);
}

/* Runs it in a child; a row of its own says how long it took and how it ended. */
static bool run_case(const probe_case *which, int64_t end_ns)
{
    char how[64];
    int status = 0;
    int64_t begin_ns = bench_now_ns();
    int64_t limit_ns = (int64_t)which->limit_s * 1000000000;
    probe.probe = "case";
    if (end_ns - begin_ns < LEAST_NS) {
        probe_row(which->name, NAN, "", PROBE_NONE, "not tried: the time is used up");
        return false;
    }
    if (limit_ns > end_ns - begin_ns)
        limit_ns = end_ns - begin_ns;
    probe_child child = probe_child_start(which, false, false);
    bool is_by_itself = probe_child_end(&child, limit_ns, &status, how, sizeof how);
    double took_ms = (double)(bench_now_ns() - begin_ns) / 1e6;
    bool is_answer = is_by_itself && status == 0;
    probe_row(which->name, took_ms, "ms", is_answer ? PROBE_YES : PROBE_NONE, "%s%s",
              is_answer ? "" : "no answer: ", how);
    return is_answer;
}

static bool is_wanted(const command_line *line, const probe_case *which)
{
    const char *hangs = getenv("FERRY_PROBE_HANG");
    if (is_chosen(line, "all"))
        return !which->is_hidden ||
               (strcmp(which->name, "hang") == 0 && hangs != NULL && strcmp(hangs, "1") == 0);
    return is_chosen(line, which->name) || (!which->is_hidden && is_chosen(line, which->probe));
}

static int run_cases(const command_line *line)
{
    static char name[NAME_BYTES];
    bool are_answers = true;
    int64_t end_ns = bench_now_ns() + BUDGET_NS;
    probe.device = "?";
    find_device(name);
    probe.device = name;
    if (!probe.is_json)
        printf("%s\n%-9s %-44s %12s %-8s %-4s %s\n", name, "probe", "case", "value", "unit", "yes?",
               "note");
    (void)fflush(stdout); /* the children write there, too */
    for (size_t i = 0; i < probe_case_count; i++) {
        if (is_wanted(line, &probe_cases[i]))
            are_answers = run_case(&probe_cases[i], end_ns) && are_answers;
    }
    return are_answers ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int run_child(const command_line *line)
{
    const probe_case *which = probe_case_find(line->chosen);
    if (which == NULL || probe.device == NULL)
        bench_fail("a child without a case");
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)signal(SIGPIPE, SIG_IGN);
    probe.probe = which->probe;
    which->run(which);
    (void)fflush(stdout);
    _Exit(EXIT_SUCCESS); /* threads are at work still; how that ends is asked by `exit-` alone */
}

int main(int argc, char **argv)
{
    command_line line = {0};
    error_t error = argp_parse(&parser, argc, argv, 0, NULL, &line);
    if (error != 0)
        bench_fail("%s", strerror(error));
    if (line.is_child)
        return run_child(&line);
    if (is_chosen(&line, "table")) {
        probe_table_print(line.path);
    } else if (is_chosen(&line, "list")) {
        for (size_t i = 0; i < probe_case_count; i++) {
            if (!probe_cases[i].is_hidden)
                puts(probe_cases[i].name);
        }
    } else {
        return run_cases(&line);
    }
    return EXIT_SUCCESS;
}
