/* SPDX-License-Identifier: Apache-2.0 */
/* Options of `ferry trace`. */
#ifndef TRACE_OPTIONS_H
#define TRACE_OPTIONS_H

#include "tools/trace_layout.h"

/* Exit statuses. */
#define TRACE_EXIT_DAMAGED 1 /* the file is cut or garbled; what is whole of it was drawn */
#define TRACE_EXIT_NOTHING 2 /* nothing could be read, or not be written; or a bad command line */

typedef struct trace_options {
    const char *paths[TRACE_FILES_MAX]; /* "-": standard input */
    size_t path_count;
    const char *output; /* the picture's. "-": standard output; NULL: after the first path */
    const char *html;   /* the page's; NULL: none */
    trace_view view;
    bool json;
} trace_options;

/*
 * Parses the command line; argv[0] is the command as shown in messages. Does not return on --help
 * (exit 0) or on a mistake (message on stderr, exit TRACE_EXIT_NOTHING).
 */
void trace_options_parse(trace_options *options, int argc, char **argv);

#endif
