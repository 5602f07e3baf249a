/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data hazards: how operations enter and leave each buffer's lists of writers and readers.
 *
 * A buffer lists segments (segment.h), in trees by offset:
 *  - pieces (piece.h): disjoint spans, each with its last writer, or with a few readers of exactly
 *    that span. Bytes in no piece have no writer to wait for;
 *  - reads (crowd.h): spans that overlap others, with one reader each;
 *  - layers (layer.h): crowds of reads that a write has divided, few of them;
 *  - poison (poison.h): disjoint spans whose last writer failed.
 *
 * A read is ordered after the writer of each piece that it overlaps (READ edges) and is listed as
 * one entry: a piece where there is none, a reader of a piece that is exactly its span, or else a
 * read. A write cuts all that it overlaps at its own two ends, is ordered after the writers and
 * readers within (ORDER edges), removes their entries and is listed as one piece. So disjoint spans
 * never meet. Removed entries need not be listed any more: later operations are ordered behind the
 * write, which retires only after the operations that it replaced (see graph.c).
 *
 * *Cost.* n accesses cost O(n log n) in time, entries and edges, however they overlap:
 *  - a read is one entry. It takes an edge for each writer that it follows, or O(log n) edges by
 *    sums if many reads follow many writers (sum.h);
 *  - a write adds one piece and a cut at each end. At most FRY_FEW reads are cut there; more go
 *    into a layer, once each, and layers cost O(n log n) in all (layer.h). The write takes one edge
 *    for each entry that it removes, so once for each entry made, and at most two for each of
 *    O(log n) layers.
 *
 * *Pieces.* Entering goes in steps of bounded size, and can stop between any two (entering.h). Each
 * step leaves correct lists: a cut describes the same in more entries, an edge removes nothing, and
 * a write removes entries only when it is ordered after all of them and has the segment that will
 * list it. Nothing else enters meanwhile, and what leaves only makes lists shorter, so no entry
 * needs a second look. The exception: a piece may become poison, so poison is looked for after the
 * pieces.
 *
 * *Room.* Each step reserves what it takes before it begins, so no step fails half-way. If there is
 * no room, the operation is refused with the accesses listed so far. That is the same as an
 * operation with those accesses alone that is cancelled before it starts: it retires in order, and
 * what it would have written is poisoned. All buffers that it writes are poisoned as a whole, since
 * its other accesses are not listed.
 *
 * *Accesses of one operation* may overlap. The operation reads what others wrote before it, and is
 * not ordered after itself. So it goes over its accesses four times: reads are ordered, spans that
 * are read and written enter, spans that are written enter, then reads are listed. So none of its
 * own reads is listed while its writes cut and remove what they overlap, and none of its own writes
 * is listed while it sums up writers. If its accesses cannot overlap, as in nearly all operations,
 * one pass is enough.
 */
#include "engine/graph/hazard.h"

#include "engine/engine.h"
#include "engine/graph/access.h"
#include "engine/graph/access_read.h"
#include "engine/graph/access_write.h"
#include "engine/graph/buffer.h"
#include "engine/graph/crowd.h"
#include "engine/graph/entering.h"
#include "engine/graph/kind.h"
#include "engine/graph/layer.h"
#include "engine/graph/node.h"
#include "engine/graph/piece.h"
#include "engine/graph/poison.h"
#include "engine/graph/segment.h"
#include "engine/graph/stock.h"
#include "engine/graph/sum.h"
#include "engine/graph/turn.h"
#include "engine/graph/use.h"

#define REFUSED UINT8_MAX /* the phase of a refused node */

/* Returns what was reserved and not taken. */
static inline void unstock(fry_turn *turn, fry_entering *in)
{
    if (fry_unlikely(in->has_stocked)) {
        in->has_stocked = false;
        fry_stock_return(turn->engine, turn->context);
    }
}

/* ---- an operation's accesses ---- */

static void accesses_rewind(fry_entering *in, const fry_node *node)
{
    in->own = 0;
    in->use = node->uses;
    in->row = 0;
}

static const fry_use *access_at(const fry_entering *in, const fry_node *node, fry_use *local)
{
    return fry_node_span(node, in->own, local) ? local : in->use;
}

static void access_advance(fry_entering *in, const fry_use *access)
{
    if (access == in->use)
        in->use = access->next;
    else
        in->own++;
    in->row = 0;
}

static bool enter_rows(fry_turn *turn, fry_entering *in, fry_node *node, const fry_use *access)
{
    fry_use row = *access;
    for (; in->row < access->row_count; in->row++) {
        if (in->row != 0) {
            row.begin = access->begin + in->row * access->pitch_bytes;
            row.end = access->end + in->row * access->pitch_bytes;
        }
        if (!((row.mode & FERRY_WRITE) != 0 ? fry_access_write : fry_access_read)(turn, in, node,
                                                                                  &row))
            return false;
    }
    return true;
}

static bool is_due(const fry_entering *in, ferry_access_mode mode)
{
    static const ferry_access_mode modes[FRY_PASSES] = {FERRY_READ, FERRY_READ_WRITE, FERRY_WRITE,
                                                        FERRY_READ};
    return in->is_apart || mode == modes[in->pass];
}

/* Whether no two of the node's accesses can overlap. */
static bool are_apart(const fry_node *node)
{
    if (node->kind == FERRY_OP_COPY)
        return !fry_node_has_more_uses(node);
    return node->uses == NULL ||
           (node->uses->next == NULL && !fry_kind_has(node, FRY_KIND_ONE_SPAN));
}

static bool enter_accesses(fry_turn *turn, fry_entering *in, fry_node *node)
{
    for (; in->pass < FRY_PASSES; in->pass++, accesses_rewind(in, node)) {
        fry_use local;
        const fry_use *access;
        while ((access = access_at(in, node, &local)) != NULL) {
            if (is_due(in, access->mode) && !enter_rows(turn, in, node, access))
                return false;
            access_advance(in, access);
        }
        if (in->is_apart)
            break;
    }
    return true;
}

static void accesses_begin(fry_entering *in, const fry_node *node)
{
    in->is_begun = true;
    in->is_apart = are_apart(node);
    in->pass = FRY_PASS_READ;
    in->phase = 0;
    accesses_rewind(in, node);
}

bool fry_hazard_enter(fry_turn *turn, fry_node *node)
{
    fry_entering *in = &turn->engine->entering;
    if (!in->is_begun)
        accesses_begin(in, node);
    bool is_done = enter_accesses(turn, in, node);
    unstock(turn, in);
    return is_done;
}

static inline bool enter_at_once(fry_turn *turn, fry_entering *in, fry_node *node,
                                 const fry_use *use)
{
    return (use->mode & FERRY_WRITE) != 0 ? fry_access_write_at_once(turn, in, node, use)
                                          : fry_access_read_at_once(turn, in, node, use);
}

static bool enter_spans(fry_turn *turn, fry_entering *in, fry_node *node)
{
    fry_use use;
    uint8_t count = 0;
    for (; fry_node_span(node, count, &use); count++) {
        if (!enter_at_once(turn, in, node, &use)) {
            accesses_begin(in, node);
            in->own = count;
            return false;
        }
    }
    return true;
}

bool fry_hazard_enter_at_once(fry_turn *turn, fry_node *node, uint32_t edge_count)
{
    fry_entering *in = &turn->engine->entering;
    if (fry_unlikely(node->has_rows || (node->uses != NULL && !are_apart(node))))
        return false;
    in->edge_count = edge_count;
    in->steps_left = FRY_ENTERING_STEPS;
    bool is_done = node->uses != NULL ? enter_at_once(turn, in, node, node->uses)
                                      : enter_spans(turn, in, node);
    unstock(turn, in);
    return is_done;
}

bool fry_hazard_enter_alone(fry_turn *turn, fry_node *node)
{
    fry_use use;
    return node->uses == NULL && fry_node_span(node, 0, &use) &&
           fry_piece_enter_alone(turn, node, &use);
}

/* ---- refusal ---- */

bool fry_hazard_refuse(fry_turn *turn, fry_node *node)
{
    fry_entering *in = &turn->engine->entering;
    if (in->phase != REFUSED) {
        in->phase = REFUSED;
        fry_access_finish_layer(turn, in);
        accesses_rewind(in, node);
    }
    fry_use local;
    const fry_use *access;
    while ((access = access_at(in, node, &local)) != NULL) {
        if (!fry_access_may_step(turn, in, (fry_need){0}))
            return false;
        if ((access->mode & FERRY_WRITE) != 0)
            fry_poison_whole(access->buffer, fry_future_root_error(&node->future));
        access_advance(in, access);
    }
    return true;
}

void fry_hazard_poison_buffer(ferry_buffer *buffer, fry_error *why)
{
    fry_poison_whole(buffer, why);
}

/* ---- leaving ---- */

static void leave_segment(fry_turn *turn, fry_node *node, fry_segment *segment)
{
    switch ((fry_segment_kind)segment->kind) {
    case FRY_SEGMENT_PIECE:
        fry_piece_detach(segment);
        fry_segment_unlist(turn, segment);
        if (fry_future_status(&node->future) != FERRY_OK)
            fry_poison_add(segment, fry_future_root_error(&node->future));
        else
            fry_segment_give(turn, segment);
        break;
    case FRY_SEGMENT_READ:
        fry_crowd_remove(turn, segment);
        break;
    case FRY_SEGMENT_STAIR:
        fry_layer_remove(turn, segment);
        break;
    case FRY_SEGMENT_POISON: /* has no user */
        break;
    }
}

bool fry_hazard_leave(fry_turn *turn, fry_node *node, uint32_t *steps_p)
{
    bool is_well = fry_future_status(&node->future) == FERRY_OK;
    if (fry_likely(is_well && fry_piece_leave_alone(turn, node)))
        return true;
    while (node->reads != NULL && *steps_p != 0) {
        fry_segment *piece = node->reads->piece;
        fry_piece_remove_reader(turn, node->reads);
        if (piece->readers == NULL)
            fry_piece_remove(turn, piece);
        --*steps_p;
    }
    while (node->listed != NULL && *steps_p != 0) {
        leave_segment(turn, node, node->listed);
        --*steps_p;
    }
    return node->reads == NULL && node->listed == NULL;
}

bool fry_hazard_join_leave(fry_turn *turn, fry_node *join, uint32_t *steps_p)
{
    if (join->join.cached_at != NULL)
        fry_sum_forget(join->join.cached_at);
    for (; join->listed != NULL && *steps_p != 0; --*steps_p)
        fry_layer_remove(turn, join->listed);
    return join->listed == NULL;
}

void fry_hazard_close(fry_turn *turn, ferry_buffer *buffer)
{
    while (buffer->pieces.rbh_root != NULL)
        fry_piece_remove(turn, buffer->pieces.rbh_root);
    while (buffer->reads.rbh_root != NULL)
        fry_crowd_remove(turn, buffer->reads.rbh_root);
    while (buffer->layers != NULL)
        fry_layer_remove(turn, buffer->layers->stairs.rbh_root);
    fry_poison_close(turn, buffer);
}
