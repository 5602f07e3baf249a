/* SPDX-License-Identifier: Apache-2.0 */
/* Arrows from an operation to those that waited for it, and from a send to its receive. */
#ifndef TRACE_ARROWS_H
#define TRACE_ARROWS_H

#include "tools/trace_layout.h"
#include "tools/trace_path.h"

#include <stdio.h>

#define TRACE_ARROWS_MAX 200

typedef struct trace_arrows {
    size_t count;    /* between rows of the picture, of who waited */
    size_t messages; /* likewise, of messages */
    bool is_all;     /* false: too many, only those of the critical path are drawn */
} trace_arrows;

trace_arrows trace_arrows_choose(const trace_model *model, const trace_layout *layout);

/* All of them, pale, unless there are too many. */
void trace_arrows_write_all(const trace_arrows *arrows, const trace_model *model,
                            const trace_layout *layout, FILE *to);

/* Those of the critical path, bold; the last TRACE_ARROWS_MAX. */
void trace_arrows_write_path(const trace_model *model, const trace_path *path,
                             const trace_layout *layout, FILE *to);

#endif
