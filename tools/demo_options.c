/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/demo_options.h"

#include "tools/demo_model.h"

#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define LIMITS(least, most) "(" TEXT(least) " to " TEXT(most) "; default "

static const char documentation[] =
    "Runs a pipeline-parallel forward pass of a multi-layer perceptron over several devices. "
    "Micro-batches move from stage to stage, and the weights of every layer stream from host:0 for "
    "every micro-batch, as ferry copies; their order comes from the buffers alone, and on GPUs "
    "from the events of the streams that compute. The output is compared bit for bit with a plain "
    "computation on one device, and the time with other ways to do the same work.\v"
    "Exit status: 0 done and verified, 1 something failed or the output differs, 2 bad options.";

static const struct argp_option option_list[] = {
    {"device", 'd', "KIND", 0,
     "host: host devices, layers computed by a thread (default); cuda: GPUs, layers computed by "
     "kernels. If there are fewer GPUs than stages, stages are on logical devices",
     0},
    {"stages", 's', "N", 0, "Stages, each on a device of its own " LIMITS(1, DEMO_STAGES_MAX) "4)",
     0},
    {"processes", 'p', "N", 0,
     "Processes that share the stages; each has its own engine and devices, and activations go "
     "from "
     "one process to the next as messages (1 to the number of stages; default 1)",
     0},
    {"layers", 'l', "N", 0, "Layers of each stage " LIMITS(1, DEMO_LAYERS_MAX) "3)", 0},
    {"micro-batches", 'm', "N", 0,
     "Micro-batches of a round " LIMITS(1, DEMO_MICRO_BATCHES_MAX) "20)", 0},
    {"width", 'w', "N", 0,
     "Width of a layer, a multiple of the least " LIMITS(DEMO_PANEL_COLUMNS,
                                                         DEMO_WIDTH_MAX) "1536)",
     0},
    {"rows", 'r', "N", 0,
     "Rows of a micro-batch " LIMITS(
         1, DEMO_ROWS_MAX) "as many as make computing a layer take as "
                           "long as copying its weights, measured at the start)",
     0},
    {"rounds", 'n', "N", 0,
     "Measured rounds, after one to warm up " LIMITS(1, DEMO_ROUNDS_MAX) "5)", 0},
    {"input", 'i', "FILE", 0,
     "File whose bytes are the input, repeated if there are too few (default /proc/self/exe, the "
     "tool itself)",
     0},
    {"trace", 't', "FILE", 0,
     "After the measured rounds, run the pipeline through ferry once more and record it into FILE, "
     "which `ferry trace' draws",
     0},
    {"json", 'j', NULL, 0, "Print the figures as one JSON object on the last line", 0},
    {0},
};

static size_t parse_number(const struct argp_state *state, const char *name, const char *text,
                           size_t maximum)
{
    char *end = NULL;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno || number < 1 || (unsigned long long)number > maximum)
        argp_error(state, "--%s is '%s'; it must be a number from 1 to %zu", name, text, maximum);
    return (size_t)number;
}

static void check(const struct argp_state *state, const demo_options *options)
{
    if (options->width % DEMO_PANEL_COLUMNS != 0)
        argp_error(state, "--width is %zu; it must be a multiple of %d", options->width,
                   DEMO_PANEL_COLUMNS);
    size_t runs = options->stages * options->layers * options->micro_batches;
    if (runs > DEMO_LAYER_RUNS_MAX)
        argp_error(state, "stages x layers x micro-batches is %zu; it must be at most %d", runs,
                   DEMO_LAYER_RUNS_MAX);
    if (options->processes > options->stages)
        argp_error(state, "--processes is %zu; it must be at most --stages, %zu",
                   options->processes, options->stages);
    if (options->processes > 1 && options->trace_path)
        argp_error(state, "--trace takes one process");
    size_t needed_bytes =
        options->processes * demo_options_memory_bytes(options, options->rows ? options->rows : 1);
    if (needed_bytes > DEMO_MEMORY_MAX_BYTES)
        argp_error(state, "these sizes need %zu MiB of memory; the limit is %zu MiB",
                   needed_bytes >> 20, DEMO_MEMORY_MAX_BYTES >> 20);
}

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
    demo_options *options = state->input;
    switch (key) {
    case 'd':
        options->is_cuda = strcmp(argument, "cuda") == 0;
        if (!options->is_cuda && strcmp(argument, "host") != 0)
            argp_error(state, "--device is '%s'; it must be host or cuda", argument);
        return 0;
    case 's':
        options->stages = parse_number(state, "stages", argument, DEMO_STAGES_MAX);
        return 0;
    case 'p':
        options->processes = parse_number(state, "processes", argument, DEMO_STAGES_MAX);
        return 0;
    case 'l':
        options->layers = parse_number(state, "layers", argument, DEMO_LAYERS_MAX);
        return 0;
    case 'm':
        options->micro_batches =
            parse_number(state, "micro-batches", argument, DEMO_MICRO_BATCHES_MAX);
        return 0;
    case 'w':
        options->width = parse_number(state, "width", argument, DEMO_WIDTH_MAX);
        return 0;
    case 'r':
        options->rows = parse_number(state, "rows", argument, DEMO_ROWS_MAX);
        return 0;
    case 'n':
        options->rounds = parse_number(state, "rounds", argument, DEMO_ROUNDS_MAX);
        return 0;
    case 'i':
        options->input_path = argument;
        return 0;
    case 't':
        options->trace_path = argument;
        return 0;
    case 'j':
        options->json = true;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument '%s'", argument);
        return EINVAL;
    case ARGP_KEY_SUCCESS:
        check(state, options);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

void demo_options_parse(demo_options *options, int argc, char **argv)
{
    static const struct argp parser = {
        .options = option_list, .parser = parse_option, .doc = documentation};
    *options = (demo_options){
        .processes = 1,
        .stages = 4,
        .layers = 3,
        .micro_batches = 20,
        .width = 1536,
        .rounds = 5,
        .input_path = "/proc/self/exe",
    };
    argp_err_exit_status = DEMO_EXIT_USAGE;
    if (argp_parse(&parser, argc, argv, 0, NULL, options) != 0)
        exit(DEMO_EXIT_USAGE);
}

size_t demo_options_memory_bytes(const demo_options *options, size_t rows)
{
    size_t weights =
        options->stages * (options->layers + 2); /* on host:0, and the double buffers */
    /* In, hidden and out of each stage, twice; input, output and the reference's two. */
    size_t activations = options->stages * 6 + options->micro_batches * 4;
    return sizeof(float) * options->width * (weights * options->width + activations * rows);
}
