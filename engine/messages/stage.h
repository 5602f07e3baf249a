/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Staging: messages of GPU memory go through chunks of page-locked memory, piece by piece. The
 * comment at the top of stage.c says why it can't come to a standstill.
 */
#ifndef FRY_ENGINE_MESSAGES_STAGE_H
#define FRY_ENGINE_MESSAGES_STAGE_H

#include "engine/graph/kind.h"
#include "engine/graph/turn.h"
#include "net/peer/peer.h"

typedef struct fry_members fry_members;
typedef struct fry_stage fry_stage;

/* Each direction has chunks of its own. */
typedef enum fry_stage_way {
    FRY_STAGE_OUT = 0,
    FRY_STAGE_IN,
    FRY_STAGE_WAYS,
} fry_stage_way;

typedef struct fry_stages {
    /* Baton. */
    TAILQ_HEAD(, fry_slice) waiting[FRY_STAGE_WAYS]; /* pieces that have no chunk yet */
    fry_queue free[FRY_STAGE_WAYS];                  /* chunks */
    fry_queue due;                                   /* chunks with a next step for the loop */
    fry_stage *all;                                  /* NULL: not made yet */

    /* The role. */
    fry_device *from; /* chunks are to be made, by this device */
    fry_stage *made;
    ferry_buffer *buffer; /* of all chunks */
    ferry_status status;  /* of the last try */
} fry_stages;

void fry_stages_init(fry_stages *stages);
void fry_stages_free(ferry_engine *engine, fry_stages *stages);

/* What peers ask for: fry_peer_events. */
void fry_stage_serve(void *turn, fry_slice *slice);
void fry_stage_wants_place(void *turn, fry_slice *slice);
void fry_stage_landed(void *turn, fry_slice *slice);
void fry_stage_over(void *turn, fry_slice *slice);

/* Whether the loop has something to do here; with the baton. */
bool fry_stages_have_work(const fry_stages *stages);

/* Does it: the role and the baton. Returns how much. */
size_t fry_stages_run(fry_turn *turn, fry_members *members);

/* Makes the chunks, if they are wanted: the role, without the baton. Returns how much was done. */
size_t fry_stages_make(fry_members *members);

extern const fry_op_kind fry_kind_stage;

#endif
