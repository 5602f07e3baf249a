/* SPDX-License-Identifier: Apache-2.0 */
/* A layout as the planner keeps it: checked, with the blocks of its positions and their owners. */
#ifndef FRY_ENGINE_RESHARD_LAYOUT_H
#define FRY_ENGINE_RESHARD_LAYOUT_H

#include "engine/reshard/box.h"
#include "engine/reshard/wrong.h"

/* The array that two layouts are of. */
typedef struct fry_reshard_array {
    uint32_t dimension_count;
    uint64_t shape[FRY_RESHARD_DIMENSIONS]; /* 1 past the dimensions */
    uint64_t element_bytes;
    uint64_t size_bytes; /* below 2^63 */
} fry_reshard_array;

/* A member that has a block, and the first of its positions that do. */
typedef struct fry_reshard_owner {
    ferry_rank rank;
    uint32_t position;
} fry_reshard_owner;

/*
 * Blocks are numbered in row-major order of their places. Those that some position has are all of
 * them, since each combination of places on the axes has a position.
 */
typedef struct fry_reshard_layout {
    uint32_t position_count;
    uint32_t block_count;
    uint32_t rank_count;                            /* ranks are below it */
    uint32_t split_counts[FRY_RESHARD_DIMENSIONS];  /* blocks of a dimension */
    uint64_t block_extents[FRY_RESHARD_DIMENSIONS]; /* of all but the last */
    ferry_rank *ranks;                              /* of each position */
    uint32_t *indices;                              /* among those of its rank, likewise */
    uint32_t *blocks;                               /* likewise */
    uint32_t *by_block;                             /* positions, by block and then by number */
    uint32_t *block_positions; /* where a block's begin there; one more: the end */
    fry_reshard_owner *owners; /* by block and then by first position */
    uint32_t *block_owners;    /* where a block's begin there; one more: the end */
} fry_reshard_layout;

ferry_status fry_reshard_array_read(fry_reshard_array *array, const uint64_t *shape,
                                    size_t dimension_count, uint64_t element_bytes,
                                    fry_reshard_wrong *wrong);

/*
 * Reads a layout of the array.
 *  name  "from" or "to", for what is wrong
 * _free gives back what was made, also after a failure; `layout` is zeroed before.
 */
ferry_status fry_reshard_layout_read(fry_reshard_layout *layout, const fry_memory *memory,
                                     const fry_reshard_array *array, const ferry_layout *given,
                                     const char *name, fry_reshard_wrong *wrong);
void fry_reshard_layout_free(fry_reshard_layout *layout, const fry_memory *memory);

/* The places of a block, one a dimension. */
void fry_reshard_layout_places(const fry_reshard_layout *layout, uint32_t block,
                               uint32_t places[FRY_RESHARD_DIMENSIONS]);

/* The box of a block, which may be empty: then its extent is 0 in some dimension. */
void fry_reshard_layout_box(const fry_reshard_layout *layout, const fry_reshard_array *array,
                            const uint32_t places[FRY_RESHARD_DIMENSIONS], fry_reshard_box *box);

/* The box of a position's part. */
void fry_reshard_layout_part(const fry_reshard_layout *layout, const fry_reshard_array *array,
                             uint32_t position, fry_reshard_box *box);

#endif
