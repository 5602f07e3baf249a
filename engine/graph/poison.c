/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/poison.h"

#include "engine/engine.h"
#include "engine/graph/buffer.h"
#include "engine/graph/due.h"
#include "engine/graph/lane.h"
#include "engine/graph/node.h"
#include "engine/graph/segment.h"
#include "engine/graph/turn.h"

/* ---- buffers that hold poison, for the dump ---- */

static void poisoned_add(ferry_buffer *buffer)
{
    ferry_engine *engine = buffer->engine;
    if (buffer->is_listed)
        return;
    buffer->is_listed = true;
    LIST_INSERT_HEAD(&engine->poisoned, buffer, poisoned);
}

static void poisoned_remove(ferry_buffer *buffer)
{
    ferry_engine *engine = buffer->engine;
    if (!buffer->is_listed)
        return;
    buffer->is_listed = false;
    if (engine->dump_buffer == buffer) { /* the dump goes on behind this buffer */
        engine->dump_buffer = LIST_NEXT(buffer, poisoned);
        engine->dump_offset = 0;
    }
    LIST_REMOVE(buffer, poisoned);
}

/* ---- poison of a whole buffer ---- */

void fry_poison_whole(ferry_buffer *buffer, fry_error *why)
{
    if (buffer->wide_poison == NULL) {
        buffer->wide_poison = fry_error_retain(why);
        buffer->has_more = true;
        poisoned_add(buffer);
    }
}

void fry_poison_meet_wide(fry_turn *turn, fry_node *node, const fry_use *use)
{
    ferry_buffer *buffer = use->buffer;
    if (fry_likely(buffer->wide_poison == NULL))
        return;
    if ((use->mode & FERRY_READ) != 0)
        fry_graph_note_failure(turn, node, buffer->wide_poison);
    if ((use->mode & FERRY_WRITE) != 0 && use->begin == 0 && use->end == buffer->size_bytes) {
        fry_error_release(buffer->wide_poison);
        buffer->wide_poison = NULL;
        fry_buffer_look(buffer);
    }
}

/* ---- poison of spans ---- */

static fry_segment *first_within(const fry_use *use)
{
    fry_segment *first = fry_spans_from(&use->buffer->poisons, use->begin);
    return first != NULL && first->begin < use->end ? first : NULL;
}

void fry_poison_read(fry_turn *turn, fry_node *node, const fry_use *use)
{
    const fry_segment *first = first_within(use);
    if (fry_unlikely(first != NULL))
        fry_graph_note_failure(turn, node, first->poison);
}

void fry_poison_add(fry_segment *segment, fry_error *root)
{
    segment->kind = FRY_SEGMENT_POISON;
    segment->poison = fry_error_retain(root);
    fry_spans_insert(&segment->buffer->poisons, segment);
    segment->buffer->has_more = true;
    poisoned_add(segment->buffer);
}

static void remove_one(fry_turn *turn, fry_segment *segment)
{
    fry_spans_remove(&segment->buffer->poisons, segment);
    fry_buffer_look(segment->buffer);
    fry_error_release(segment->poison);
    fry_segment_give(turn, segment);
}

void fry_poison_cut(fry_turn *turn, ferry_buffer *buffer, size_t offset)
{
    fry_segment *left = fry_spans_from(&buffer->poisons, offset);
    if (left == NULL || left->begin >= offset)
        return;
    fry_segment *right = fry_segment_take(turn, buffer, FRY_SEGMENT_POISON, offset, left->end);
    left->end = offset;
    fry_poison_add(right, left->poison);
}

bool fry_poison_take_some(fry_turn *turn, const fry_use *use)
{
    fry_segment *first = first_within(use);
    if (first != NULL)
        remove_one(turn, first);
    return first != NULL;
}

void fry_poison_close(fry_turn *turn, ferry_buffer *buffer)
{
    while (buffer->poisons.rbh_root != NULL)
        remove_one(turn, buffer->poisons.rbh_root);
    poisoned_remove(buffer);
    fry_error_release(buffer->wide_poison);
    buffer->wide_poison = NULL;
}
