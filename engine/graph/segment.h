/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segments: the entries of a buffer's access lists, spans with their users. Four kinds, each in its
 * own trees; hazard.c says what for. With the baton.
 */
#ifndef FRY_ENGINE_GRAPH_SEGMENT_H
#define FRY_ENGINE_GRAPH_SEGMENT_H

#include "engine/graph/buffer.h"
#include "engine/graph/live.h"
#include "engine/graph/turn.h"

#include <bsd/sys/tree.h>

typedef enum fry_segment_kind {
    FRY_SEGMENT_PIECE = 0, /* buffer->pieces: one writer, or a few readers of exactly that span */
    FRY_SEGMENT_POISON,    /* buffer->poisons: its last writer failed */
    FRY_SEGMENT_READ,      /* buffer->reads: one read of it */
    FRY_SEGMENT_STAIR,     /* a layer's: all readers of it, as a join if there are several */
} fry_segment_kind;

struct fry_segment {
    RB_ENTRY(fry_segment) entry;
    union {
        ferry_buffer *buffer;
        fry_layer *layer; /* of a stair */
    };
    size_t begin, end;
    fry_node *node; /* writer, reader, or the node that stands for readers; NULL: none */
    fry_segment *next, *previous; /* in node->listed */
    union {
        fry_reader *readers; /* of a piece without a writer */
        fry_error *poison;   /* the root of the failure */
        size_t most_end;     /* of a read: the greatest end in its subtree */
    };
    fry_node *sum;        /* of a piece: see sum.h */
    uint8_t kind;         /* fry_segment_kind */
    uint8_t reader_count; /* of a piece */
    uint8_t spare;        /* of a piece: see sum.h */
};

/* A reader of a piece. */
struct fry_reader {
    fry_node *node;
    fry_segment *piece;
    fry_reader *next, *previous;           /* in piece->readers */
    fry_reader *node_next, *node_previous; /* in node->reads */
};

/* Adds the segment to the node's list. Adds one to the number of objects in the graph. */
static inline void fry_segment_list(fry_turn *turn, fry_segment *segment, fry_node *node)
{
    segment->node = node;
    segment->previous = NULL;
    segment->next = node->listed;
    if (segment->next != NULL)
        segment->next->previous = segment;
    node->listed = segment;
    fry_live_load_add(turn->engine, 1);
}

static inline void fry_segment_unlist(fry_turn *turn, fry_segment *segment)
{
    if (segment->previous != NULL)
        segment->previous->next = segment->next;
    else
        segment->node->listed = segment->next;
    if (segment->next != NULL)
        segment->next->previous = segment->previous;
    segment->node = NULL;
    fry_live_load_add(turn->engine, -1);
}

/* Whether no other segment names its node. */
static inline bool fry_segment_is_alone(const fry_segment *segment)
{
    return segment->node->listed == segment && segment->next == NULL;
}

/* Takes a segment, which is in no tree and no list; there is room for one. */
static inline fry_segment *fry_segment_take(fry_turn *turn, ferry_buffer *buffer,
                                            fry_segment_kind kind, size_t begin, size_t end)
{
    fry_segment *segment = fry_pool_take(&turn->engine->segments, &turn->context->segments);
    segment->buffer = buffer;
    segment->begin = begin;
    segment->end = end;
    segment->node = NULL;
    segment->readers = NULL;
    segment->sum = NULL;
    segment->kind = (uint8_t)kind;
    segment->reader_count = 0;
    segment->spare = 0;
    return segment;
}

/* Frees a segment that is out of its tree and lists. */
static inline void fry_segment_give(fry_turn *turn, fry_segment *segment)
{
    fry_pool_give(&turn->engine->segments, &turn->context->segments, segment);
}

/* ---- trees of spans that don't overlap: poison, layers ---- */

/* The first span that ends behind `offset`. */
fry_segment *fry_spans_from(const struct fry_spans *spans, size_t offset);
fry_segment *fry_spans_next(fry_segment *segment);
void fry_spans_insert(struct fry_spans *spans, fry_segment *segment);
void fry_spans_remove(struct fry_spans *spans, fry_segment *segment);

#endif
