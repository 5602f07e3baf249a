/* SPDX-License-Identifier: Apache-2.0 */
/* The schedule of a reshard: its moves, and what each member has to do with them. */
#ifndef FRY_ENGINE_RESHARD_SCHEDULE_H
#define FRY_ENGINE_RESHARD_SCHEDULE_H

#include "engine/reshard/layout.h"

typedef struct fry_reshard_move {
    uint32_t source, target; /* positions; the source's is in the layout `side` */
    uint8_t side;            /* ferry_reshard_side */
    bool is_packed, is_unpacked;
} fry_reshard_move;

/* Unchanged once it is made. */
struct ferry_reshard {
    fry_memory memory;
    fry_reshard_array array;
    fry_reshard_layout layouts[2]; /* by ferry_reshard_side */
    fry_reshard_move *moves;
    uint64_t *boxes; /* of each move: where it begins in each dimension, and its extents */
    size_t move_count, moves_most;
    ferry_reshard_member *members; /* by rank; without struct_size */
    uint32_t rank_count;
    ferry_reshard_info info; /* likewise */
};

/*
 * Computes the moves; array and layouts have been read. _free gives back all that a reshard holds,
 * also after a failure.
 */
ferry_status fry_reshard_schedule_make(ferry_reshard *reshard, fry_reshard_wrong *wrong);
void fry_reshard_schedule_free(ferry_reshard *reshard);

/* The box of a move. */
void fry_reshard_schedule_box(const ferry_reshard *reshard, size_t index, fry_reshard_box *box);

/* Whose position a move comes from, and whose it goes to. */
ferry_rank fry_reshard_schedule_source(const ferry_reshard *reshard, const fry_reshard_move *move);
ferry_rank fry_reshard_schedule_target(const ferry_reshard *reshard, const fry_reshard_move *move);

#endif
