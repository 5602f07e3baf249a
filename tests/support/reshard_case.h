/* SPDX-License-Identifier: Apache-2.0 */
/* Random reshards from a seed, and who has which element: told element by element, as an oracle. */
#ifndef FERRY_TESTS_RESHARD_CASE_H
#define FERRY_TESTS_RESHARD_CASE_H

#include <ferry/reshard.h>
#include <stdbool.h>

enum { RESHARD_DIMENSIONS = 4, RESHARD_AXES = 5, RESHARD_POSITIONS = 32, RESHARD_MEMBERS = 16 };

/* A layout, and what it points to. */
typedef struct reshard_case_layout {
    ferry_layout layout;
    ferry_mesh_axis axes[RESHARD_AXES];
    ferry_rank ranks[RESHARD_POSITIONS];
    ferry_split splits[RESHARD_DIMENSIONS];
    const char *names[RESHARD_DIMENSIONS][RESHARD_AXES];
    uint32_t position_count;
} reshard_case_layout;

typedef struct reshard_case {
    uint64_t random;
    uint64_t shape[RESHARD_DIMENSIONS];
    size_t dimension_count;
    uint64_t element_bytes;
    uint64_t element_count;
    uint32_t member_count; /* ranks are below it */
    reshard_case_layout sides[2];
} reshard_case;

/* The next number below that. */
uint64_t reshard_case_next(uint64_t *random, uint64_t below);

/*
 *  members    at most so many, and at least 2
 *  elements   about so many at most
 * The case must stay where it is: it points into itself.
 */
void reshard_case_make(reshard_case *self, uint64_t seed, uint32_t members, uint64_t elements);

/* The reshard, which the caller releases. NULL, with a line on stderr: it is refused. */
ferry_reshard *reshard_case_create(const reshard_case *self);

/* Whose position it is. */
ferry_rank reshard_case_rank(const reshard_case *self, int side, uint32_t position);

/* Whether a position has an element, which is numbered in row-major order. */
bool reshard_case_has(const reshard_case *self, int side, uint32_t position, uint64_t element);

/* The number of the index-th element of a box, in row-major order. */
uint64_t reshard_case_element(const reshard_case *self, const uint64_t *offset,
                              const uint64_t *extent, uint64_t index);

#endif
