/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks: what stage.c and ahead.c know of one. With the baton. */
#ifndef FRY_ENGINE_MESSAGES_CHUNK_H
#define FRY_ENGINE_MESSAGES_CHUNK_H

#include "engine/graph/buffer.h"
#include "engine/graph/lane.h"
#include "engine/graph/live.h"
#include "engine/graph/node.h"
#include "engine/messages/message.h"
#include "engine/messages/stage.h"

typedef enum fry_stage_state {
    FRY_STAGE_FREE = 0,
    FRY_STAGE_HELD,    /* the peer has the chunk */
    FRY_STAGE_DUE,     /* in `due`: its bytes came, and are to be copied to the device */
    FRY_STAGE_COPYING, /* its node is in the graph */
    FRY_STAGE_COPIED,  /* in `due` */
} fry_stage_state;

/* A chunk. */
struct fry_stage {
    fry_node node;    /* first; COPYING */
    fry_slice *slice; /* whose bytes it has; NULL: nobody's any more */
    fry_transfer *transfer;
    fry_link link;      /* in `free` or `due` */
    fry_import *import; /* a view: what it reads, in place of a chunk */
    size_t offset;      /* in the buffer of all */
    uint8_t state, way;
    bool is_small;  /* of a whole small send, without a slice */
    bool is_landed; /* its bytes count in transfer->landed */
    bool is_ahead;  /* COPYING ahead of its send: ahead.c */
} __attribute__((aligned(64)));

static inline char *fry_chunk_bytes(const fry_stages *stages, const fry_stage *stage)
{
    return (char *)stages->buffer->data + stage->offset;
}

static inline void fry_chunk_give(fry_stages *stages, fry_stage *stage)
{
    stage->state = FRY_STAGE_FREE;
    stage->slice = NULL;
    fry_queue_push(&stages->free[stage->way], &stage->link);
}

/*
 * Makes the chunk's node a copy between it, at its offset in the buffer `chunks`, and the bytes
 * from `at` on of its message.
 */
static inline void fry_chunk_init_copy(fry_turn *turn, ferry_buffer *chunks, fry_stage *stage,
                                       uint64_t at, size_t size_bytes)
{
    const fry_node *of = stage->transfer->node;
    const fry_message_op *message = &of->op.message;
    bool is_in = stage->way != FRY_STAGE_OUT;
    size_t offset = message->offset + at;
    fry_node *node = &stage->node;
    fry_node_init_own(turn->engine, turn->context, node, FRY_OP_STAGE);
    node->priority = of->priority;
    node->label = fry_node_label(of);
    fry_copy_op *op = &node->op.copy;
    *op = (fry_copy_op){.dst = is_in ? message->buffer : chunks,
                        .src = is_in ? chunks : message->buffer,
                        .dst_offset = is_in ? offset : stage->offset,
                        .src_offset = is_in ? stage->offset : offset,
                        .size_bytes = size_bytes};
    op->stand.lane = fry_lane_between(op->dst, op->src, op->size_bytes);
}

/* It is in the graph from now on. */
static inline void fry_chunk_enter_copy(fry_turn *turn, fry_stages *stages, fry_stage *stage)
{
    stage->state = FRY_STAGE_COPYING;
    stage->transfer->copies++;
    stages->copying++;
    fry_live_enter(turn->engine, &stage->node);
    fry_live_stamp(turn, &stage->node);
}

#endif
