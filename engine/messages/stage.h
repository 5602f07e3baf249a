/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Staging: messages of GPU memory go through chunks of page-locked memory, piece by piece. The
 * comment at the top of stage.c says why it can't come to a standstill.
 */
#ifndef FRY_ENGINE_MESSAGES_STAGE_H
#define FRY_ENGINE_MESSAGES_STAGE_H

#include "engine/graph/kind.h"
#include "engine/graph/turn.h"
#include "engine/messages/import.h"
#include "net/peer/peer.h"

typedef struct fry_members fry_members;
typedef struct fry_stage fry_stage;
typedef struct fry_transfer fry_transfer;

#define FRY_STAGE_SMALL_BYTES 8192

/* Each direction has chunks of its own. */
typedef enum fry_stage_way {
    FRY_STAGE_OUT = 0,
    FRY_STAGE_IN,
    FRY_STAGE_WAYS,
    FRY_STAGE_VIEW = FRY_STAGE_WAYS, /* no chunk: out of an import */
} fry_stage_way;

#define FRY_STAGE_VIEWS_MOST 16 /* copies out of imports at once; further views wait for one */

typedef struct fry_stages {
    /* Baton. */
    fry_imports imports;
    LIST_HEAD(, fry_route) closing; /* routes whose members wait for imports to be closed */
    TAILQ_HEAD(, fry_slice) views;  /* those that wait for their import: `memory` */
    TAILQ_HEAD(, fry_slice) waiting[FRY_STAGE_WAYS]; /* pieces that have no chunk yet */
    TAILQ_HEAD(, fry_transfer) small;                /* likewise, small sends */
    fry_queue free[FRY_STAGE_WAYS + 1];              /* chunks; for views, too */
    fry_queue due;                                   /* chunks with a next step */
    fry_stage *for_views;                            /* FRY_STAGE_VIEWS_MOST */
    fry_stage *all;                                  /* NULL: not made yet */
    uint32_t copying;                                /* chunks whose copies are under way */
    uint32_t ahead, ahead_most;                      /* chunks that are ahead of their sends */

    /* The role. */
    fry_device *from; /* chunks are to be made, by this device */
    fry_stage *made;
    ferry_buffer *buffer; /* of all chunks */
    ferry_status status;  /* of the last try */
} fry_stages;

/* False: no memory. */
bool fry_stages_init(const ferry_engine *engine, fry_stages *stages);
void fry_stages_free(ferry_engine *engine, fry_stages *stages);

/* Whether a send is small enough to be copied to the host before the peer is told it is ready. */
static inline bool fry_stage_is_small(const fry_message *message)
{
    return message->is_staged && message->is_send && !message->may_join &&
           message->size_bytes <= FRY_STAGE_SMALL_BYTES;
}

/* Does that with a send that has entered, instead of fry_peer_ready. */
void fry_stage_start_small(fry_turn *turn, fry_transfer *transfer);

/* The send is quiet: it needs no chunk (FRY_TRANSFER_STAGES). */
void fry_stage_forget(fry_turn *turn, fry_transfer *transfer);

/* What peers ask for: fry_peer_events. */
void fry_stage_left(void *turn, fry_message *message);
void fry_stage_serve(void *turn, fry_slice *slice);
void fry_stage_wants_place(void *turn, fry_slice *slice);
void fry_stage_landed(void *turn, fry_slice *slice);
void fry_stage_over(void *turn, fry_slice *slice);

/* Whether there is something to do here; with the baton. */
bool fry_stages_have_work(const ferry_engine *engine, const fry_stages *stages);

/* Whether a lost device has all that views are copied with: none will come back. */
bool fry_stage_views_are_stuck(const ferry_engine *engine, const fry_stages *stages);

/* Does it, with the baton; the loop has the role, too, and wants chunks. Returns how much. */
size_t fry_stages_run(fry_turn *turn, fry_members *members);

/* A view's copy begins: into the receive, out of stage->import. */
void fry_stage_copy(fry_turn *turn, fry_stages *stages, fry_stage *stage);

/* Makes the chunks, if they are wanted: the role, without the baton. Returns how much was done. */
size_t fry_stages_make(fry_members *members);

extern const fry_op_kind fry_kind_stage;

#endif
