/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/access_write.h"

#include "engine/graph/access.h"
#include "engine/graph/buffer.h"
#include "engine/graph/crowd.h"
#include "engine/graph/entering.h"
#include "engine/graph/join.h"
#include "engine/graph/layer.h"
#include "engine/graph/node.h"
#include "engine/graph/piece.h"
#include "engine/graph/poison.h"
#include "engine/graph/segment.h"
#include "engine/graph/stock.h"
#include "engine/graph/turn.h"

/* Planted faults: tests/planted builds them and must find them. */
#ifdef FRY_PLANT_DROP_WAR
#define DROPS_READERS true
#else
#define DROPS_READERS false
#endif
#ifdef FRY_PLANT_DROP_STAIR
#define DROPS_STAIRS true
#else
#define DROPS_STAIRS false
#endif

/* ---- writes: cutting what overlaps at both ends ---- */

static bool cut_piece(fry_turn *turn, fry_entering *in, const fry_use *use, size_t offset)
{
    fry_segment *piece = fry_piece_from(use->buffer, offset);
    if (piece == NULL || piece->begin >= offset)
        return true;
    if (!fry_access_may_step(turn, in,
                             (fry_need){.segments = piece->node != NULL ? 1 : piece->reader_count}))
        return false;
    fry_piece_cut(turn, piece, offset);
    return true;
}

static bool cut_pieces(fry_turn *turn, fry_entering *in, fry_node *node, const fry_use *use)
{
    (void)node;
    return cut_piece(turn, in, use, use->begin) && cut_piece(turn, in, use, use->end);
}

static bool cut_poison(fry_turn *turn, fry_entering *in, fry_node *node, const fry_use *use)
{
    (void)node;
    if (fry_likely(use->buffer->poisons.rbh_root == NULL))
        return true;
    if (!fry_access_may_step(turn, in, (fry_need){.segments = 2}))
        return false;
    fry_poison_cut(turn, use->buffer, use->begin);
    fry_poison_cut(turn, use->buffer, use->end);
    return true;
}

static const fry_need layer_need = {.segments = 3, .joins = 1, .edges = 2};

static bool merge_layers(fry_turn *turn, fry_entering *in, fry_node *node, const fry_use *use)
{
    fry_layer *layer;
    (void)node;
    while (use->buffer->layers != NULL && (layer = fry_layer_to_merge(use->buffer)) != NULL) {
        if (!fry_access_may_step(turn, in, layer_need))
            return false;
        if (!fry_layer_merge_some(turn, layer))
            return true; /* without joins there are more layers */
    }
    return true;
}

/*
 * Moves the part of a read beyond the offset to the layer, or to a read of its own if there are no
 * joins. The part stays in the old entry until it is in the new ones, so it may be put in twice.
 */
static bool cut_end_off(fry_turn *turn, fry_entering *in, fry_segment *read, size_t offset)
{
    for (size_t at = offset, put; at < read->end; at = put) {
        if (!fry_access_may_step(turn, in, layer_need))
            return false;
        if (in->made == NULL)
            in->made = fry_layer_open(turn, read->buffer);
        put = fry_layer_put(turn, in->made, read->node, at, read->end);
        if (put == at) {
            fry_crowd_cut(turn, read, offset);
            return true;
        }
    }
    fry_crowd_end_at(turn, read, offset);
    return true;
}

static bool cut_begin_off(fry_turn *turn, fry_entering *in, fry_segment *read, size_t offset)
{
    if (!fry_access_may_step(turn, in, layer_need))
        return false;
    if (in->made == NULL)
        in->made = fry_layer_open(turn, read->buffer);
    size_t put = fry_layer_put(turn, in->made, read->node, read->begin, offset);
    if (put == read->begin)
        fry_crowd_cut(turn, read, offset);
    else
        fry_crowd_begin_at(turn, read, put);
    return true;
}

/*
 * Cuts reads at an offset: each of a few, or all into a layer, in the order that makes stairs.
 * is_end: the offset is the end of the write, so the parts behind it are cut off.
 */
static bool cut_reads_at(fry_turn *turn, fry_entering *in, const fry_use *use, size_t offset,
                         bool is_end)
{
    fry_segment *few[FRY_FEW + 1], *read;
    size_t count = fry_crowd_spanning(use->buffer, offset, few);
    if (count <= FRY_FEW && in->made == NULL) {
        if (count == 0)
            return true;
        if (!fry_access_may_step(turn, in, (fry_need){.segments = count}))
            return false;
        for (size_t i = 0; i < count; i++)
            fry_crowd_cut(turn, few[i], offset);
        return true;
    }
    while ((read = is_end ? fry_crowd_ends_last(use->buffer, offset)
                          : fry_crowd_begins_first(use->buffer, offset)) != NULL) {
        if (!(is_end ? cut_end_off : cut_begin_off)(turn, in, read, offset))
            return false;
    }
    return true;
}

void fry_access_finish_layer(fry_turn *turn, fry_entering *in)
{
    fry_layer *made = in->made;
    in->made = NULL;
    if (made != NULL)
        fry_layer_tidy(turn, made);
}

static bool cut_reads_at_end(fry_turn *turn, fry_entering *in, fry_node *node, const fry_use *use)
{
    (void)node;
    if (!cut_reads_at(turn, in, use, use->end, true))
        return false;
    fry_access_finish_layer(turn, in);
    return true;
}

static bool cut_reads_at_begin(fry_turn *turn, fry_entering *in, fry_node *node, const fry_use *use)
{
    (void)node;
    if (!cut_reads_at(turn, in, use, use->begin, false))
        return false;
    fry_access_finish_layer(turn, in);
    in->at = use->begin;
    return true;
}

/* ---- writes: ordering behind all within ---- */

static bool after_pieces(fry_turn *turn, fry_entering *in, fry_node *node, const fry_use *use)
{
    fry_edge_nature nature = (use->mode & FERRY_READ) != 0 ? FRY_EDGE_READ : FRY_EDGE_ORDER;
    fry_segment *piece = fry_piece_from(use->buffer, in->at);
    for (; piece != NULL && piece->begin < use->end; piece = fry_piece_next(piece)) {
        if (piece->node != NULL && !fry_access_order(turn, in, node, piece->node, nature))
            return false;
        if (piece->readers != NULL &&
            !fry_access_may_step(turn, in, fry_access_edges(in, piece->reader_count)))
            return false;
        for (fry_reader *reader = piece->readers; reader != NULL && !DROPS_READERS;
             reader = reader->next)
            fry_access_connect(turn, in, node, reader->node, FRY_EDGE_ORDER);
        in->at = piece->end;
    }
    if ((use->mode & FERRY_READ) != 0)
        fry_poison_read(turn, node, use);
    in->at = use->begin;
    in->last = NULL;
    return true;
}

static bool after_reads(fry_turn *turn, fry_entering *in, fry_node *node, const fry_use *use)
{
    fry_segment *read = fry_crowd_from(use->buffer, in->at, in->last);
    for (; read != NULL && read->begin < use->end;
         read = fry_crowd_from(use->buffer, in->at, read)) {
        if (!DROPS_READERS && !fry_access_order(turn, in, node, read->node, FRY_EDGE_ORDER))
            return false;
        in->at = read->begin;
        in->last = read;
    }
    in->at = use->begin;
    in->layer = use->buffer->layers;
    return true;
}

static bool after_layers(fry_turn *turn, fry_entering *in, fry_node *node, const fry_use *use)
{
    for (; in->layer != NULL; in->layer = in->layer->next, in->at = use->begin) {
        size_t at = in->at > use->begin ? in->at : use->begin;
        fry_segment *stair = fry_layer_first(in->layer, at, use->end);
        for (; stair != NULL && stair->begin < use->end; stair = fry_spans_next(stair)) {
            if (!DROPS_STAIRS && !fry_access_order(turn, in, node, stair->node, FRY_EDGE_ORDER))
                return false;
            in->at = stair->end;
        }
    }
    return true;
}

/* ---- writes: replacing ---- */

/* Takes the segment that will list the write; nothing is removed before that. */
static bool see_to_segment(fry_turn *turn, fry_entering *in, fry_node *node, const fry_use *use)
{
    (void)node;
    if (!fry_access_may_step(turn, in, (fry_need){.segments = 1}))
        return false;
    in->piece = fry_segment_take(turn, use->buffer, FRY_SEGMENT_PIECE, use->begin, use->end);
    in->layer = use->buffer->layers;
    return true;
}

static bool take_pieces(fry_turn *turn, fry_entering *in, fry_node *node, const fry_use *use)
{
    fry_segment *piece;
    (void)node;
    while ((piece = fry_piece_from(use->buffer, use->begin)) != NULL && piece->begin < use->end) {
        if (!fry_access_may_step(turn, in, (fry_need){0}))
            return false;
        fry_piece_remove(turn, piece);
    }
    return true;
}

static bool take_reads(fry_turn *turn, fry_entering *in, fry_node *node, const fry_use *use)
{
    fry_segment *read;
    (void)node;
    while ((read = fry_crowd_from(use->buffer, use->begin, NULL)) != NULL &&
           read->begin < use->end) {
        if (!fry_access_may_step(turn, in, (fry_need){0}))
            return false;
        fry_crowd_remove(turn, read);
    }
    return true;
}

/* A layer that loses its last stair is gone; the walk goes on with the next. */
static bool take_stairs(fry_turn *turn, fry_entering *in, fry_node *node, const fry_use *use)
{
    (void)node;
    while (in->layer != NULL) {
        fry_segment *stair = fry_layer_first(in->layer, use->begin, use->end);
        if (!fry_access_may_step(turn, in, (fry_need){0}))
            return false;
        if (stair == NULL || !fry_layer_take(turn, stair, use->begin, use->end))
            in->layer = in->layer->next;
    }
    return true;
}

static bool take_poison(fry_turn *turn, fry_entering *in, fry_node *node, const fry_use *use)
{
    (void)node;
    do {
        if (!fry_access_may_step(turn, in, (fry_need){0}))
            return false;
    } while (fry_poison_take_some(turn, use));
    return true;
}

static bool list_write(fry_turn *turn, fry_entering *in, fry_node *node, const fry_use *use)
{
    (void)use;
    fry_piece_insert_taken(turn, node, in->piece);
    in->piece = NULL;
    return true;
}

/*
 * Orders the write behind `piece`, of the same span or NULL, and behind the few reads, all within
 * its span, and replaces them.
 */
static bool write_over(fry_turn *turn, fry_entering *in, fry_node *node, const fry_use *use,
                       fry_segment *piece)
{
    fry_edge_nature nature = (use->mode & FERRY_READ) != 0 ? FRY_EDGE_READ : FRY_EDGE_ORDER;
    fry_segment *reads[FRY_FEW];
    size_t count = fry_crowd_within(use->buffer, use->begin, use->end, reads);
    if (count == SIZE_MAX || DROPS_READERS || in->edge_count + 2 * FRY_FEW > FRY_DEGREE_MAX ||
        !fry_access_may_step(turn, in, (fry_need){.segments = 1, .edges = 2 * FRY_FEW}))
        return false;
    for (size_t i = 0; i < count; i++) {
        fry_access_connect(turn, in, node, reads[i]->node, FRY_EDGE_ORDER);
        fry_crowd_remove(turn, reads[i]);
    }
    if (piece == NULL) {
        fry_piece_insert(turn, node, use->buffer, use->begin, use->end);
        return true;
    }
    if (piece->node != NULL)
        fry_access_connect(turn, in, node, piece->node, nature);
    for (fry_reader *reader = piece->readers; reader != NULL; reader = reader->next)
        fry_access_connect(turn, in, node, reader->node, FRY_EDGE_ORDER);
    fry_piece_rewrite(turn, piece, node);
    return true;
}

/*
 * If there are a piece and a few reads at most, as nearly always: all phases in one. False: there
 * is more, or no room for what that takes at most.
 */
bool fry_access_write_at_once(fry_turn *turn, fry_entering *in, fry_node *node, const fry_use *use)
{
    const ferry_buffer *buffer = use->buffer;
    if (fry_unlikely(buffer->poisons.rbh_root != NULL || buffer->layers != NULL ||
                     buffer->wide_poison != NULL) ||
        !fry_access_may_step(turn, in, (fry_need){.segments = 1}))
        return false;
    bool has_reads = buffer->reads.rbh_root != NULL;
    if (!has_reads && fry_piece_enter_gap(turn, node, use))
        return true;
    fry_segment *piece = fry_piece_from(buffer, use->begin);
    if (piece == NULL || piece->begin >= use->end)
        return write_over(turn, in, node, use, NULL);
    return piece->begin == use->begin && piece->end == use->end &&
           write_over(turn, in, node, use, piece);
}

typedef bool write_phase(fry_turn *turn, fry_entering *in, fry_node *node, const fry_use *use);

static write_phase *const write_phases[] = {
    cut_pieces,   cut_poison,  merge_layers, cut_reads_at_end, cut_reads_at_begin,
    after_pieces, after_reads, after_layers, see_to_segment,   take_pieces,
    take_reads,   take_stairs, take_poison,  list_write,
};

bool fry_access_write(fry_turn *turn, fry_entering *in, fry_node *node, const fry_use *use)
{
    if (in->phase == 0) {
        if (fry_access_write_at_once(turn, in, node, use))
            return true;
        fry_poison_meet_wide(turn, node, use);
    }
    for (; in->phase < sizeof write_phases / sizeof *write_phases; in->phase++) {
        if (!write_phases[in->phase](turn, in, node, use))
            return false;
    }
    in->phase = 0;
    return true;
}
