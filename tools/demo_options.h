/* SPDX-License-Identifier: Apache-2.0 */
/* Options of `ferry demo pipeline`. */
#ifndef DEMO_OPTIONS_H
#define DEMO_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

/* Exit status for a command line that can't be run. */
#define DEMO_EXIT_USAGE 2

#define DEMO_STAGES_MAX 63 /* with host:0 as many devices as an engine has at most */
#define DEMO_LAYERS_MAX 64
#define DEMO_MICRO_BATCHES_MAX 4096
#define DEMO_WIDTH_MAX 4096
#define DEMO_ROWS_MAX 1024
#define DEMO_ROUNDS_MAX 1000
#define DEMO_LAYER_RUNS_MAX 100000
#define DEMO_MEMORY_MAX_BYTES ((size_t)4 << 30)

typedef struct demo_options {
    bool is_cuda;     /* on GPUs, not on host devices */
    size_t processes; /* that have the stages between them; 1: this one */
    size_t stages;
    size_t layers; /* of each stage */
    size_t micro_batches;
    size_t width; /* of a layer, a multiple of DEMO_PANEL_COLUMNS */
    size_t rows;  /* of a micro-batch; 0: calibrated */
    size_t rounds;
    const char *input_path;
    const char *trace_path; /* NULL: no trace */
    bool json;
} demo_options;

/*
 * Parses the command line; argv[0] is the command as shown in messages. Does not return on --help
 * (exit 0) or on a mistake (message on stderr, exit DEMO_EXIT_USAGE).
 */
void demo_options_parse(demo_options *options, int argc, char **argv);

/* Bytes of all buffers together if a micro-batch has that many rows. */
size_t demo_options_memory_bytes(const demo_options *options, size_t rows);

#endif
