/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/piece.h"

#include "engine/engine.h"
#include "engine/graph/buffer.h"
#include "engine/graph/crowd.h"
#include "engine/graph/live.h"
#include "engine/graph/node.h"
#include "engine/graph/segment.h"
#include "engine/graph/sum.h"
#include "engine/graph/turn.h"
#include "engine/ground/context.h"

static int by_begin(const fry_segment *left, const fry_segment *right)
{
    return left->begin < right->begin ? -1 : left->begin > right->begin;
}

#undef RB_AUGMENT
#define RB_AUGMENT(piece) fry_sum_changed(piece)

/* RB_GENERATE_STATIC relies on a BSD's spelling of the attribute. */
RB_GENERATE_INTERNAL(fry_pieces, fry_segment, entry, by_begin, __attribute__((unused)) static)

fry_segment *fry_piece_from(const ferry_buffer *buffer, size_t offset)
{
    fry_segment *found = NULL;
    for (fry_segment *at = buffer->pieces.rbh_root; at != NULL;) {
        if (at->end > offset) {
            found = at;
            at = RB_LEFT(at, entry);
        } else {
            at = RB_RIGHT(at, entry);
        }
    }
    return found;
}

fry_segment *fry_piece_next(fry_segment *piece)
{
    return fry_pieces_RB_NEXT(piece);
}

/* ---- the tree ---- */

/*
 * The piece behind which an unused span goes: the newest, as with slices of a buffer that are used
 * one after the other. NULL: the place must be searched.
 */
static fry_segment *gap_behind_newest(const fry_use *use)
{
    fry_segment *newest = use->buffer->newest;
    if (newest == NULL || newest->end > use->begin)
        return NULL;
    const fry_segment *next = fry_piece_next(newest);
    return next == NULL || next->begin >= use->end ? newest : NULL;
}

/* Does what RB_INSERT does once it has found the place. */
static void tree_insert_behind(struct fry_pieces *tree, fry_segment *previous, fry_segment *piece)
{
    bool is_right = RB_RIGHT(previous, entry) == NULL;
    fry_segment *parent = is_right ? previous : fry_piece_next(previous);
    RB_SET(piece, parent, entry);
    if (is_right)
        RB_RIGHT(parent, entry) = piece;
    else
        RB_LEFT(parent, entry) = piece;
    fry_sum_changed(parent);
    fry_pieces_RB_INSERT_COLOR(tree, piece);
}

/* `previous`: the piece before it; NULL: searches the place. */
static void insert_behind(fry_segment *previous, fry_segment *piece)
{
    ferry_buffer *buffer = piece->buffer;
    if (previous != NULL)
        tree_insert_behind(&buffer->pieces, previous, piece);
    else
        (void)fry_pieces_RB_INSERT(&buffer->pieces, piece);
    buffer->newest = piece;
    buffer->newest_gap_end = 0;
}

static fry_segment *take(fry_turn *turn, ferry_buffer *buffer, size_t begin, size_t end)
{
    fry_segment *piece = fry_segment_take(turn, buffer, FRY_SEGMENT_PIECE, begin, end);
    piece->spare = FRY_SUM_SPARE;
    return piece;
}

void fry_piece_insert_taken(fry_turn *turn, fry_node *writer, fry_segment *piece)
{
    piece->spare = FRY_SUM_SPARE;
    fry_segment_list(turn, piece, writer);
    insert_behind(NULL, piece);
}

void fry_piece_insert(fry_turn *turn, fry_node *writer, ferry_buffer *buffer, size_t begin,
                      size_t end)
{
    fry_piece_insert_taken(turn, writer, take(turn, buffer, begin, end));
}

void fry_piece_detach(fry_segment *piece)
{
    ferry_buffer *buffer = piece->buffer;
    fry_sum_changed(piece);
    if (buffer->newest == piece)
        buffer->newest = NULL;
    (void)fry_pieces_RB_REMOVE(&buffer->pieces, piece);
}

void fry_piece_remove(fry_turn *turn, fry_segment *piece)
{
    fry_piece_detach(piece);
    while (piece->readers != NULL)
        fry_piece_remove_reader(turn, piece->readers);
    if (piece->node != NULL)
        fry_segment_unlist(turn, piece);
    fry_segment_give(turn, piece);
}

void fry_piece_rewrite(fry_turn *turn, fry_segment *piece, fry_node *writer)
{
    fry_sum_changed(piece);
    while (piece->readers != NULL)
        fry_piece_remove_reader(turn, piece->readers);
    if (piece->node != NULL)
        fry_segment_unlist(turn, piece);
    piece->spare = FRY_SUM_SPARE;
    fry_segment_list(turn, piece, writer);
    piece->buffer->newest = piece;
    piece->buffer->newest_gap_end = 0;
}

void fry_piece_cut(fry_turn *turn, fry_segment *piece, size_t offset)
{
    if (piece->node != NULL) {
        fry_segment *right = take(turn, piece->buffer, offset, piece->end);
        piece->end = offset;
        fry_segment_list(turn, right, piece->node);
        insert_behind(piece, right);
        return;
    }
    for (const fry_reader *reader = piece->readers; reader != NULL; reader = reader->next)
        fry_crowd_add(turn, reader->node, piece->buffer, piece->begin, piece->end);
    fry_piece_remove(turn, piece);
}

/* ---- readers ---- */

void fry_piece_add_reader(fry_turn *turn, fry_segment *piece, fry_node *node)
{
    fry_reader *reader = fry_pool_take(&turn->engine->readers, &turn->context->readers);
    reader->node = node;
    reader->piece = piece;
    reader->previous = NULL;
    reader->next = piece->readers;
    if (reader->next != NULL)
        reader->next->previous = reader;
    piece->readers = reader;
    piece->reader_count++;
    reader->node_previous = NULL;
    reader->node_next = node->reads;
    if (reader->node_next != NULL)
        reader->node_next->node_previous = reader;
    node->reads = reader;
    fry_live_load_add(turn->engine, 1);
}

void fry_piece_remove_reader(fry_turn *turn, fry_reader *reader)
{
    if (reader->previous != NULL)
        reader->previous->next = reader->next;
    else
        reader->piece->readers = reader->next;
    if (reader->next != NULL)
        reader->next->previous = reader->previous;
    if (reader->node_previous != NULL)
        reader->node_previous->node_next = reader->node_next;
    else
        reader->node->reads = reader->node_next;
    if (reader->node_next != NULL)
        reader->node_next->node_previous = reader->node_previous;
    reader->piece->reader_count--;
    fry_live_load_add(turn->engine, -1);
    fry_pool_give(&turn->engine->readers, &turn->context->readers, reader);
}

/* ---- spans that nobody uses ---- */

/* Needs one look with disjoint slices. */
bool fry_piece_enter_gap(fry_turn *turn, fry_node *node, const fry_use *use)
{
    fry_segment *previous = gap_behind_newest(use);
    if (previous == NULL) {
        const fry_segment *first = fry_piece_from(use->buffer, use->begin);
        if (first != NULL && first->begin < use->end)
            return false;
    }
    fry_segment *piece = take(turn, use->buffer, use->begin, use->end);
    if ((use->mode & FERRY_WRITE) != 0)
        fry_segment_list(turn, piece, node);
    else
        fry_piece_add_reader(turn, piece, node);
    insert_behind(previous, piece);
    return true;
}

/*
 * Puts a piece into the tree by its span, if nobody uses the span. Spans used one after the other
 * go behind the newest piece without a search: a piece that entered since would be the newest, and
 * pieces that left make gaps larger, so what was free behind it still is.
 */
static bool enter_gap_of(ferry_buffer *buffer, fry_segment *piece)
{
    size_t begin = piece->begin, end = piece->end;
    fry_segment *newest = buffer->newest;
    if (newest != NULL && newest->end <= begin && end <= buffer->newest_gap_end) {
        tree_insert_behind(&buffer->pieces, newest, piece);
        buffer->newest = piece;
        return true;
    }
    fry_segment *parent = NULL, **at = &buffer->pieces.rbh_root;
    size_t gap_end = SIZE_MAX;
    while (*at != NULL) {
        parent = *at;
        if (end <= parent->begin) {
            gap_end = parent->begin;
            at = &RB_LEFT(parent, entry);
        } else if (begin >= parent->end) {
            at = &RB_RIGHT(parent, entry);
        } else {
            return false;
        }
    }
    RB_SET(piece, parent, entry);
    *at = piece;
    if (parent != NULL)
        fry_sum_changed(parent);
    fry_pieces_RB_INSERT_COLOR(&buffer->pieces, piece);
    buffer->newest = piece;
    buffer->newest_gap_end = gap_end;
    return true;
}

bool fry_piece_enter_alone(fry_turn *turn, fry_node *node, const fry_use *use)
{
    ferry_buffer *buffer = use->buffer;
    bool reads = use->mode == FERRY_READ;
    if (fry_unlikely(buffer->has_more))
        return false;
    fry_segment *piece = fry_pool_take(&turn->engine->segments, &turn->context->segments);
    if (fry_unlikely(piece == NULL))
        return false;
    fry_reader *reader = NULL;
    if (reads && fry_unlikely((reader = fry_pool_take(&turn->engine->readers,
                                                      &turn->context->readers)) == NULL))
        goto without_reader;
    piece->begin = use->begin;
    piece->end = use->end;
    piece->sum = NULL;
    if (!enter_gap_of(buffer, piece))
        goto not_alone;
    piece->buffer = buffer;
    piece->node = reads ? NULL : node;
    piece->next = piece->previous = NULL;
    piece->readers = reader;
    piece->kind = FRY_SEGMENT_PIECE;
    piece->reader_count = reads;
    piece->spare = FRY_SUM_SPARE;
    if (reads) {
        *reader = (fry_reader){.node = node, .piece = piece};
        node->reads = reader;
    } else {
        node->listed = piece;
    }
    fry_live_load_add(turn->engine, 1);
    return true;

not_alone:
    if (reads)
        fry_pool_give(&turn->engine->readers, &turn->context->readers, reader);
without_reader:
    fry_pool_give(&turn->engine->segments, &turn->context->segments, piece);
    return false;
}

/* The only piece that lists the node, if nobody else is at the piece; or NULL. */
static inline fry_segment *lone_piece(const fry_node *node)
{
    const fry_reader *reader = node->reads;
    fry_segment *listed = node->listed;
    if (reader != NULL)
        return listed == NULL && reader->node_next == NULL && reader->piece->reader_count == 1
                   ? reader->piece
                   : NULL;
    return listed != NULL && listed->next == NULL && listed->kind == FRY_SEGMENT_PIECE ? listed
                                                                                       : NULL;
}

bool fry_piece_leave_alone(fry_turn *turn, fry_node *node)
{
    fry_segment *piece = lone_piece(node);
    if (piece == NULL)
        return false;
    if (node->reads != NULL)
        fry_pool_give(&turn->engine->readers, &turn->context->readers, node->reads);
    node->reads = NULL;
    node->listed = NULL;
    fry_live_load_add(turn->engine, -1);
    fry_piece_detach(piece);
    fry_segment_give(turn, piece);
    return true;
}
