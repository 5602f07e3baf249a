/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process's part of a demo that runs as several: the stages it has, and the group in which it
 * meets the others. The functions return 0, or an exit status after a message on stderr; with one
 * process alone they do nothing.
 */
#ifndef DEMO_PART_H
#define DEMO_PART_H

#include "tools/demo_options.h"

#include <ferry/ferry.h>

/* What activations go from process to process by. */
#define DEMO_TAG 1

typedef struct demo_part {
    size_t rank, count; /* count 0: one process, with all stages */
    size_t first, end;  /* its stages */
    const char *store;  /* where they meet */
    ferry_group *group; /* NULL: one process, or not joined */
} demo_part;

/* A part of some processes: rank of options->processes. */
demo_part demo_part_of(const demo_options *options, size_t rank, const char *store);
demo_part demo_part_whole(const demo_options *options);

/* The last one has the output, and tells what came of it. */
bool demo_part_is_last(const demo_part *part);

int demo_part_join(demo_part *part, ferry_engine *engine);

/* Returns when all have come. */
int demo_part_meet(const demo_part *part);

/* The first one gives the rows that it found to the others. */
int demo_part_share_rows(const demo_part *part, size_t *rows_p);

/* Leaves the group. */
void demo_part_leave(demo_part *part);

#endif
