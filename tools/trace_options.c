/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/trace_options.h"

#include "tools/trace_report.h"

#include <argp.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

static const char documentation[] =
    "Draws a trace file that ferry wrote as a timeline (SVG), and sums it up. A row stands for a "
    "stream of a device, or for an engine's function calls. Solid slices show operations that "
    "ran, pale strips operations that waited; point at a slice to see its details. Several files "
    "of one job are drawn together: arrows lead from what sent to what received. If the processes "
    "ran "
    "on hosts whose clocks differ, so that messages would go back in time, the times of a file are "
    "shifted.\v";

static const char exit_statuses[] =
    "\nExit status: 0 done, 1 the file is cut short or garbled: its intact part is drawn and "
    "summed "
    "up, 2 there was nothing to draw, the picture could not be written, or bad options.";

static const struct argp_option option_list[] = {
    {"output", 'o', "FILE", 0,
     "Where the picture goes (default: beside the trace, ending in .svg); with `-' it goes to "
     "standard output and the summary to standard error",
     0},
    {"html", 'H', "FILE", 0,
     "Write one HTML file instead, to zoom and search in with a browser; it needs no network. With "
     "--output the picture is written too",
     0},
    {"width", 'w', "PX", 0,
     "Width of the picture (" TEXT(TRACE_WIDTH_MIN_PX) " to " TEXT(
         TRACE_WIDTH_MAX_PX) "; default 1200)",
     0},
    {"from", 'f', "MS", 0, "Draw from here on, in milliseconds from the beginning of the trace", 0},
    {"to", 't', "MS", 0, "Draw up to here. The summary is always of the whole trace", 0},
    {"json", 'j', NULL, 0, "Print the summary as one JSON object", 0},
    {0},
};

static size_t parse_width(const struct argp_state *state, const char *text)
{
    char *end = NULL;
    errno = 0;
    long width = strtol(text, &end, 10);
    if (end == text || *end != '\0' || errno || width < TRACE_WIDTH_MIN_PX ||
        width > TRACE_WIDTH_MAX_PX)
        argp_error(state, "--width is '%s'; it must be a number from %d to %d", text,
                   TRACE_WIDTH_MIN_PX, TRACE_WIDTH_MAX_PX);
    return (size_t)width;
}

static double parse_time(const struct argp_state *state, const char *name, const char *text)
{
    char *end = NULL;
    double time_ms = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(time_ms) || time_ms < 0)
        argp_error(state, "--%s is '%s'; it must be a number of milliseconds, not below 0", name,
                   text);
    return time_ms;
}

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
    trace_options *options = state->input;
    switch (key) {
    case 'o':
        options->output = argument;
        return 0;
    case 'H':
        options->html = argument;
        return 0;
    case 'w':
        options->view.width_px = parse_width(state, argument);
        return 0;
    case 'f':
        options->view.from_ms = parse_time(state, "from", argument);
        return 0;
    case 't':
        options->view.to_ms = parse_time(state, "to", argument);
        return 0;
    case 'j':
        options->json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (options->path_count == TRACE_FILES_MAX)
            argp_error(state, "more than %d files", TRACE_FILES_MAX);
        options->paths[options->path_count++] = argument;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "which trace file?");
        return EINVAL;
    case ARGP_KEY_SUCCESS:
        if (options->view.from_ms >= options->view.to_ms)
            argp_error(state, "--from must be before --to");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Adds what follows the options in --help; the figures are explained where printed. */
static char *filter_help(int key, const char *text, void *input)
{
    (void)input;
    if (key != ARGP_KEY_HELP_POST_DOC)
        return (char *)text;
    char *both = NULL;
    return asprintf(&both, "%s%s", trace_report_definitions, exit_statuses) < 0 ? NULL : both;
}

void trace_options_parse(trace_options *options, int argc, char **argv)
{
    static const struct argp parser = {.options = option_list,
                                       .parser = parse_option,
                                       .args_doc = "FILE...",
                                       .doc = documentation,
                                       .help_filter = filter_help};
    *options = (trace_options){.view = {.width_px = 1200, .to_ms = HUGE_VAL}};
    argp_err_exit_status = TRACE_EXIT_NOTHING;
    if (argp_parse(&parser, argc, argv, 0, NULL, options) != 0)
        exit(TRACE_EXIT_NOTHING);
}
