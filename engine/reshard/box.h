/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes of an array: ranges of indices, one a dimension. */
#ifndef FRY_ENGINE_RESHARD_BOX_H
#define FRY_ENGINE_RESHARD_BOX_H

#include <ferry/reshard.h>
#include <stdbool.h>

#define FRY_RESHARD_DIMENSIONS FERRY_RESHARD_DIMENSIONS_MAX

typedef struct fry_reshard_box {
    uint64_t offset[FRY_RESHARD_DIMENSIONS];
    uint64_t extent[FRY_RESHARD_DIMENSIONS]; /* 1 past the array's dimensions */
} fry_reshard_box;

/* How many elements. */
uint64_t fry_reshard_box_count(const fry_reshard_box *box);

/*
 * How many elements of a box lie in a row from dimension `from` on: cuts at multiples of this leave
 * all dimensions from there on whole.
 */
uint64_t fry_reshard_box_unit(const fry_reshard_box *box, uint32_t from);

/*
 * The elements of a box in row-major order from `begin` on, up to `end`, as boxes: each call gives
 * one, as large as may be, and moves *begin_p behind it. False: there are no more. At most two for
 * each dimension.
 */
bool fry_reshard_box_next(const fry_reshard_box *box, uint64_t *begin_p, uint64_t end,
                          fry_reshard_box *part);

/*
 * The multiple nearest to `at` of as large a unit of the box as is at most `slack`; 1 at least. The
 * two ends of the box are multiples of all.
 */
uint64_t fry_reshard_box_near(const fry_reshard_box *box, uint64_t at, uint64_t slack);

/*
 * The elements of a box, as they lie in two larger ones that hold their own in row-major order:
 * rows of equal length, and levels of such rows, from the innermost on.
 */
typedef struct fry_reshard_rows {
    uint64_t row_bytes;
    uint64_t source_bytes, target_bytes; /* where the first row begins */
    uint32_t level_count;                /* 0: it is one run at both ends */
    struct {
        uint64_t count, source_pitch_bytes, target_pitch_bytes;
    } levels[FRY_RESHARD_DIMENSIONS];
} fry_reshard_rows;

/* `box` lies within both. */
void fry_reshard_rows_of(const fry_reshard_box *box, const fry_reshard_box *source,
                         const fry_reshard_box *target, uint64_t element_bytes,
                         fry_reshard_rows *rows);

/* Whether a box lies in one run within another. */
bool fry_reshard_box_is_run(const fry_reshard_box *box, const fry_reshard_box *within);

#endif
