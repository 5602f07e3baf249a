/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals that end it are blocked, and come by a descriptor that all waiting watches: so it ends at
 * once and with a whole page, whatever it waits for.
 */
#include "tools/top_command.h"

#include "tools/stats_client.h"
#include "tools/top_page.h"

#include <argp.h>
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define EXIT_FAILED 1
#define INTERVAL_MIN_S 0.01
#define INTERVAL_MAX_S 3600.0

typedef struct top_options {
    const char *path;
    double interval_s;
    bool is_once;
} top_options;

typedef struct top {
    const top_options *options;
    int stop_fd;
    stats_model before, now; /* without a document: there is none */
    json_t *dump;
    char no_dump[STATS_PROBLEM_BYTES];
} top;

static const char documentation[] =
    "Shows what an engine in another process does now: how many operations resolve and how many "
    "bytes go in a second, what operations wait for, and those that have lived longest. SOCKET is "
    "the path that the program gave its engine (ferry_engine_options.stats_path). Ctrl-C ends "
    "it.\v"
    "Each page takes a dump of the engine, of its 16384 oldest operations at most; the program "
    "goes on meanwhile.\n"
    "\nExit status: 0 it was ended by a signal, or the one page was printed, 1 the process went "
    "away, there is no such socket, or the answer can't be understood or written, 2 bad options.";

static error_t parse(int key, char *argument, struct argp_state *state)
{
    top_options *options = state->input;
    char *end = NULL;
    switch (key) {
    case 'i':
        options->interval_s = strtod(argument, &end);
        if (end == argument || *end != '\0' || !(options->interval_s >= INTERVAL_MIN_S) ||
            options->interval_s > INTERVAL_MAX_S)
            argp_error(state, "--interval is '%s'; it must be a number of seconds, 0.01 to 3600",
                       argument);
        return 0;
    case 'o':
        options->is_once = true;
        return 0;
    case ARGP_KEY_ARG:
        if (options->path)
            argp_error(state, "unexpected argument '%s'", argument);
        options->path = argument;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "which socket?");
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* ---- reading ---- */

/* Moves what was read to `before`, and reads again. */
static stats_result read_figures(top *at, char problem[STATS_PROBLEM_BYTES])
{
    json_t *answer = NULL;
    char why[STATS_WHY_BYTES];
    stats_model_release(&at->before);
    at->before = at->now;
    at->now = (stats_model){0};
    stats_result result =
        stats_client_ask(at->options->path, "stats", at->stop_fd, &answer, problem);
    if (result != STATS_OK)
        return result;
    if (stats_model_take(&at->now, answer, why))
        return STATS_OK;
    (void)snprintf(problem, STATS_PROBLEM_BYTES, "%s: %s", at->options->path, why);
    return STATS_FAILED;
}

static stats_result read_dump(top *at, char problem[STATS_PROBLEM_BYTES])
{
    json_decref(at->dump);
    at->dump = NULL;
    stats_result result =
        stats_client_ask(at->options->path, "dump", at->stop_fd, &at->dump, problem);
    if (result != STATS_REFUSED)
        return result;
    (void)snprintf(at->no_dump, sizeof(at->no_dump), "%s", problem);
    return STATS_OK;
}

/* ---- showing ---- */

static stats_result show(const top *at, char problem[STATS_PROBLEM_BYTES])
{
    bool is_same =
        at->before.document && at->before.pid == at->now.pid && at->before.engine == at->now.engine;
    struct winsize size = {0};
    top_view view = {.before = is_same ? &at->before : NULL,
                     .now = &at->now,
                     .dump = at->dump,
                     .no_dump = at->no_dump};
    if (isatty(STDOUT_FILENO) == 1 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) {
        view.columns = size.ws_col;
        view.rows = at->options->is_once ? 0 : size.ws_row;
        view.is_live = !at->options->is_once;
    }
    bool is_printed = top_page_print(&view, stdout);
    if (is_printed && !view.is_live && !at->options->is_once)
        putchar('\n');
    if (is_printed && fflush(stdout) == 0 && !ferror(stdout))
        return STATS_OK;
    (void)snprintf(problem, STATS_PROBLEM_BYTES, "writing the page: %s", strerror(errno));
    return STATS_FAILED;
}

static stats_result rest(const top *at)
{
    struct pollfd stop = {.fd = at->stop_fd, .events = POLLIN};
    int timeout_ms = (int)ceil(at->options->interval_s * 1000);
    return poll(&stop, 1, timeout_ms) > 0 ? STATS_STOPPED : STATS_OK;
}

static void clear_terminal(const top_options *options)
{
    if (!options->is_once && isatty(STDOUT_FILENO) == 1)
        fputs("\033[H\033[2J", stdout);
}

/* A first page without rates comes at once, but a page that is the only one waits for them. */
static stats_result run(top *at, char problem[STATS_PROBLEM_BYTES])
{
    stats_result result = read_figures(at, problem);
    if (result == STATS_OK)
        clear_terminal(at->options);
    if (result == STATS_OK && at->options->is_once)
        result = rest(at);
    if (result == STATS_OK && at->options->is_once)
        result = read_figures(at, problem);
    while (result == STATS_OK) {
        result = read_dump(at, problem);
        if (result == STATS_OK)
            result = show(at, problem);
        if (result == STATS_OK && at->options->is_once)
            break;
        if (result == STATS_OK)
            result = rest(at);
        if (result == STATS_OK)
            result = read_figures(at, problem);
    }
    return result;
}

/* The process that was shown before it went away; 0: none was. */
static int64_t shown_process(const top *at)
{
    return at->now.document ? at->now.pid : at->before.document ? at->before.pid : 0;
}

static int run_until_stopped(const top_options *options, int stop_fd)
{
    char problem[STATS_PROBLEM_BYTES] = "";
    top at = {.options = options, .stop_fd = stop_fd};
    stats_result result = run(&at, problem);
    int64_t process = shown_process(&at);
    if (result == STATS_GONE && process != 0)
        fprintf(stderr, "ferry: process %lld went away: %s\n", (long long)process, problem);
    else if (result != STATS_OK && result != STATS_STOPPED)
        fprintf(stderr, "ferry: %s\n", problem);
    stats_model_release(&at.before);
    stats_model_release(&at.now);
    json_decref(at.dump);
    return result == STATS_OK || result == STATS_STOPPED ? EXIT_SUCCESS : EXIT_FAILED;
}

int top_command_run(int argc, char **argv)
{
    static const struct argp_option option_list[] = {
        {"interval", 'i', "S", 0, "Seconds from page to page (0.01 to 3600; default 1)", 0},
        {"once", 'o', NULL, 0, "Print one page, with the rates of one interval, and end", 0},
        {0},
    };
    static const struct argp parser = {
        .options = option_list, .parser = parse, .args_doc = "SOCKET", .doc = documentation};
    top_options options = {.interval_s = 1};
    if (argp_parse(&parser, argc, argv, 0, NULL, &options) != 0)
        return EXIT_FAILED;
    sigset_t ends;
    (void)sigemptyset(&ends);
    (void)sigaddset(&ends, SIGINT);
    (void)sigaddset(&ends, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &ends, NULL);
    int stop_fd = signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
    if (stop_fd < 0) {
        fprintf(stderr, "ferry: a descriptor for signals: %s\n", strerror(errno));
        return EXIT_FAILED;
    }
    int result = run_until_stopped(&options, stop_fd);
    (void)close(stop_fd);
    return result;
}
