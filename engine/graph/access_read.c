/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/access_read.h"

#include "engine/graph/access.h"
#include "engine/graph/buffer.h"
#include "engine/graph/crowd.h"
#include "engine/graph/entering.h"
#include "engine/graph/join.h"
#include "engine/graph/node.h"
#include "engine/graph/piece.h"
#include "engine/graph/poison.h"
#include "engine/graph/segment.h"
#include "engine/graph/stock.h"
#include "engine/graph/sum.h"
#include "engine/graph/turn.h"

/* Orders the read behind the writers of what it reads. True: done. */
static bool read_pieces(fry_turn *turn, fry_entering *in, fry_node *node, const fry_use *use)
{
    fry_segment *piece = fry_piece_from(use->buffer, in->at);
    while (piece != NULL && piece->begin < use->end) {
        fry_segment *root = piece->spare == 0 ? fry_sum_root(piece, use->end) : NULL;
        fry_segment *missing;
        while (root != NULL && (missing = fry_sum_missing(root)) != NULL) {
            if (!fry_access_may_step(turn, in, (fry_need){.joins = 1, .edges = 2}))
                return false;
            if (!fry_sum_make(turn, missing))
                root = NULL; /* then one by one */
        }
        fry_node *writer = root != NULL ? root->sum : piece->node;
        if (writer == NULL || writer == &fry_sum_of_none) {
            if (!fry_access_may_step(turn, in, (fry_need){0}))
                return false;
        } else if (!fry_access_order(turn, in, node, writer, FRY_EDGE_READ)) {
            return false;
        }
        piece->spare = (uint8_t)(piece->spare - (piece->spare != 0));
        const fry_segment *last = root != NULL ? fry_sum_last(root) : piece;
        in->at = last->end;
        piece = fry_piece_next((fry_segment *)(uintptr_t)last);
    }
    return true;
}

/* Lists the read as one entry: a piece, a reader of a piece, or a read. */
static bool list_read(fry_turn *turn, fry_entering *in, fry_node *node, const fry_use *use)
{
    if (!fry_access_may_step(turn, in, (fry_need){.segments = 1, .readers = 1}))
        return false;
    if (fry_piece_enter_gap(turn, node, use))
        return true;
    fry_segment *piece = fry_piece_from(use->buffer, use->begin);
    if (piece->node == NULL && piece->begin == use->begin && piece->end == use->end &&
        piece->reader_count < FRY_FEW)
        fry_piece_add_reader(turn, piece, node);
    else
        fry_crowd_add(turn, node, use->buffer, use->begin, use->end);
    return true;
}

/* If there is one piece at most, as nearly always. False: there is more, or no room. */
bool fry_access_read_at_once(fry_turn *turn, fry_entering *in, fry_node *node, const fry_use *use)
{
    const ferry_buffer *buffer = use->buffer;
    if (fry_unlikely(buffer->poisons.rbh_root != NULL || buffer->wide_poison != NULL) ||
        !fry_access_may_step(turn, in, (fry_need){.segments = 1, .readers = 1}))
        return false;
    if (fry_piece_enter_gap(turn, node, use))
        return true;
    const fry_segment *piece = fry_piece_from(buffer, use->begin);
    if (piece->node == NULL || piece->begin > use->begin || piece->end < use->end ||
        fry_unlikely(in->edge_count >= FRY_DEGREE_MAX) ||
        !fry_access_may_step(turn, in, (fry_need){.segments = 1, .edges = 1}))
        return false;
    fry_access_connect(turn, in, node, piece->node, FRY_EDGE_READ);
    fry_crowd_add(turn, node, use->buffer, use->begin, use->end);
    return true;
}

enum { READ_BEGINS = 0, READ_PIECES, READ_LIST };

bool fry_access_read(fry_turn *turn, fry_entering *in, fry_node *node, const fry_use *use)
{
    if (in->pass == FRY_PASS_LIST)
        return list_read(turn, in, node, use);
    if (in->phase == READ_BEGINS) {
        if (in->is_apart && fry_access_read_at_once(turn, in, node, use))
            return true;
        fry_poison_meet_wide(turn, node, use);
        in->at = use->begin;
        in->phase = READ_PIECES;
    }
    if (in->phase == READ_PIECES) {
        if (!read_pieces(turn, in, node, use))
            return false;
        fry_poison_read(turn, node, use);
        in->phase = READ_LIST;
    }
    if (in->is_apart && !list_read(turn, in, node, use))
        return false;
    in->phase = READ_BEGINS;
    return true;
}
