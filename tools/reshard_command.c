/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/reshard_command.h"

#include "tools/reshard_layout.h"
#include "tools/reshard_report.h"
#include "tools/reshard_svg.h"

#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MOVES_SHOWN 64

static const char documentation[] =
    "Computes how an array that lies over the members of a group in one way comes to lie in "
    "another, and prints the moves, what each member sends and receives, and the bound of that. "
    "Nothing is moved; no member need be there.\v"
    "LAYOUT is AXIS=SIZE,...[@RANKS]:[SPLIT,...]: the axes of a mesh, whose device each position "
    "is (RANK or FIRST-LAST, with commas; default 0, 1, ...), and for each dimension the axes that "
    "split it, outermost first, with + between them, or - for none. For example\n\n"
    "  ferry reshard --shape 8192x4096 --from 'data=4,model=2:[data,model]' --to "
    "'data=8@8-15:[-,data]'\n\n";

static const char exit_statuses[] =
    "\n\nExit status: 0 done, 1 the layouts do not match the shape, or the picture could not be "
    "written, 2 bad options.";

enum {
    KEY_FROM = 0x100,
    KEY_TO,
    KEY_SVG,
    KEY_MOVES,
};

static const struct argp_option option_list[] = {
    {"shape", 's', "SIZES", 0, "Sizes of the array's dimensions: 64,128 or 64x128", 0},
    {"from", KEY_FROM, "LAYOUT", 0, "How it lies", 0},
    {"to", KEY_TO, "LAYOUT", 0, "How it is to lie", 0},
    {"element-bytes", 'e', "N", 0, "Bytes of an element (default 4)", 0},
    {"moves", KEY_MOVES, "N", 0, "List at most so many moves (default 64)", 0},
    {"svg", KEY_SVG, "FILE", 0, "Draw who sends how much to whom", 0},
    {"json", 'j', NULL, 0, "Print one JSON object", 0},
    {0},
};

typedef struct reshard_options {
    reshard_layout layouts[2];
    const char *texts[2]; /* the layouts as given */
    const char *shape_text, *svg;
    uint64_t shape[FERRY_RESHARD_DIMENSIONS_MAX];
    size_t dimension_count;
    uint64_t element_bytes, moves_max;
    bool json;
} reshard_options;

static uint64_t parse_number(const struct argp_state *state, const char *name, const char *text)
{
    char *end = NULL;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (end == text || *end != '\0' || errno || *text == '-')
        argp_error(state, "--%s is '%s'; it must be a number", name, text);
    return number;
}

static void parse_layout(reshard_options *options, const struct argp_state *state, int side,
                         const char *text)
{
    char why[RESHARD_LAYOUT_WHY_BYTES];
    options->texts[side] = text;
    if (!reshard_layout_parse(&options->layouts[side], text, why))
        argp_error(state, "--%s: %s", side == FERRY_RESHARD_FROM ? "from" : "to", why);
}

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
    reshard_options *options = state->input;
    char why[RESHARD_LAYOUT_WHY_BYTES];
    switch (key) {
    case 's':
        options->shape_text = argument;
        options->dimension_count = reshard_shape_parse(options->shape, argument, why);
        if (options->dimension_count == 0)
            argp_error(state, "--shape: %s", why);
        return 0;
    case KEY_FROM:
        parse_layout(options, state, FERRY_RESHARD_FROM, argument);
        return 0;
    case KEY_TO:
        parse_layout(options, state, FERRY_RESHARD_TO, argument);
        return 0;
    case 'e':
        options->element_bytes = parse_number(state, "element-bytes", argument);
        return 0;
    case KEY_MOVES:
        options->moves_max = parse_number(state, "moves", argument);
        return 0;
    case KEY_SVG:
        options->svg = argument;
        return 0;
    case 'j':
        options->json = true;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "'%s' is not an option", argument);
        return EINVAL;
    case ARGP_KEY_END:
        if (!options->shape_text || !options->texts[0] || !options->texts[1])
            argp_error(state, "--shape, --from and --to are needed");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Adds what follows the options in --help. */
static char *filter_help(int key, const char *text, void *input)
{
    (void)input;
    if (key != ARGP_KEY_HELP_POST_DOC)
        return (char *)text;
    char *all = NULL;
    return asprintf(&all, "%s%s%s", text, reshard_report_definitions, exit_statuses) < 0 ? NULL
                                                                                         : all;
}

static int draw(const reshard_report *report, const char *path)
{
    FILE *file = fopen(path, "we");
    bool is_drawn = file && reshard_svg_write(report, file);
    if (file && (ferror(file) | fclose(file)) != 0)
        is_drawn = false;
    if (!is_drawn)
        fprintf(stderr, "ferry reshard: '%s' could not be written: %s\n", path, strerror(errno));
    return is_drawn ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int show(const reshard_options *options, const ferry_reshard *reshard)
{
    reshard_report report = {
        .reshard = reshard,
        .info = FERRY_RESHARD_INFO_INIT,
        .dimension_count = options->dimension_count,
        .moves_max = options->moves_max,
        .from = options->texts[FERRY_RESHARD_FROM],
        .to = options->texts[FERRY_RESHARD_TO],
        .shape = options->shape_text,
    };
    (void)ferry_reshard_describe(reshard, &report.info);
    if (options->json)
        reshard_report_json(&report, stdout);
    else
        reshard_report_text(&report, stdout);
    return options->svg ? draw(&report, options->svg) : EXIT_SUCCESS;
}

int reshard_command_run(int argc, char **argv)
{
    static const struct argp parser = {.options = option_list,
                                       .parser = parse_option,
                                       .doc = documentation,
                                       .help_filter = filter_help};
    static reshard_options options = {.element_bytes = 4, .moves_max = MOVES_SHOWN};
    ferry_reshard *reshard = NULL;
    ferry_error *error = NULL;
    if (argp_parse(&parser, argc, argv, 0, NULL, &options) != 0)
        return EXIT_FAILURE;
    if (ferry_reshard_create(options.shape, options.dimension_count, options.element_bytes,
                             &options.layouts[FERRY_RESHARD_FROM].layout,
                             &options.layouts[FERRY_RESHARD_TO].layout, &reshard,
                             &error) != FERRY_OK) {
        fprintf(stderr, "ferry reshard: %s\n", error->message);
        ferry_error_release(error);
        return EXIT_FAILURE;
    }
    int result = show(&options, reshard);
    ferry_reshard_release(reshard);
    return result;
}
