/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data hazards: what each buffer lists of who writes and reads it.
 *
 * A buffer lists segments that do not overlap, in a tree by offset; bytes in no segment are valid
 * and nobody is at them. A segment has its last writer, its readers since, or the error that
 * poisoned it. An access splits segments at its two ends, so disjoint slices never meet, and
 *  - a read is ordered after the writer of each piece (READ edge) and joins its readers;
 *  - a write is ordered after writer and readers of each piece (ORDER edges) and replaces the
 * pieces by one segment of its own. Replaced readers and writers need not be listed any more:
 * whoever comes later is ordered behind the replacing write, which retires only after them (see
 * graph.c).
 *
 * Rows are as many accesses.
 *
 * All of it happens with the baton, and entering must not fail half-way: fry_hazard_reserve counts
 * first what entering can take at most.
 */
#include "engine/dump.h"

struct fry_segment {
    RB_ENTRY(fry_segment) entry;
    ferry_buffer *buffer;
    size_t begin, end;
    fry_node *writer;                           /* last writer, while it is not retired */
    fry_segment *writer_next, *writer_previous; /* in writer->written */
    fry_error *poison;                          /* the last writer failed, with this root */
    fry_reader *readers;
};

struct fry_reader {
    fry_node *node;
    fry_segment *segment;
    fry_reader *next, *previous;           /* in segment->readers */
    fry_reader *node_next, *node_previous; /* in node->reads */
};
_Static_assert(sizeof(fry_segment) <= FRY_SEGMENT_BYTES, "engine.c opens the pool with this size");
_Static_assert(sizeof(fry_reader) <= FRY_READER_BYTES, "engine.c opens the pool with this size");

static int segment_compare(const fry_segment *left, const fry_segment *right)
{
    return left->begin < right->begin ? -1 : left->begin > right->begin;
}

/* RB_GENERATE_STATIC relies on a BSD's spelling of the attribute. */
RB_GENERATE_INTERNAL(fry_segment_tree, fry_segment, entry, segment_compare,
                     __attribute__((unused)) static)

/* Nobody looks at the pitch of one row. */
static void set_span(fry_use *use, ferry_buffer *buffer, size_t offset, size_t size_bytes,
                     ferry_access_mode mode)
{
    use->buffer = buffer;
    use->begin = offset;
    use->end = offset + size_bytes;
    use->row_count = 1;
    use->mode = mode;
}

/* A node's accesses as a list; the spans of copies and definitions are made into one in `local`. */
static fry_use *accesses_of(fry_node *node, fry_use local[2])
{
    if (node->kind == FERRY_OP_DEFINE) {
        const fry_rows *rows = &node->op.define;
        set_span(&local[0], rows->buffer, rows->offset, rows->row_bytes, FERRY_WRITE);
        local[0].next = NULL;
        local[0].pitch_bytes = rows->pitch_bytes;
        local[0].row_count = rows->count;
        return local;
    }
    if (fry_node_is_message(node)) {
        const fry_message_op *message = &node->op.message;
        if (message->size_bytes == 0)
            return node->uses;
        set_span(&local[0], message->buffer, message->offset, message->size_bytes,
                 node->kind == FERRY_OP_SEND ? FERRY_READ : FERRY_WRITE);
        local[0].next = node->uses;
        return local;
    }
    const fry_copy_op *copy = &node->op.copy;
    if (node->kind != FERRY_OP_COPY || copy->size_bytes == 0 || node->has_rows)
        return node->uses; /* empty segments would stand in others' places in the tree */
    set_span(&local[0], copy->src, copy->src_offset, copy->size_bytes, FERRY_READ);
    set_span(&local[1], copy->dst, copy->dst_offset, copy->size_bytes, FERRY_WRITE);
    local[0].next = &local[1];
    local[1].next = node->uses;
    return local;
}

/* The first segment that ends behind `offset`. */
static fry_segment *segment_from(const ferry_buffer *buffer, size_t offset)
{
    fry_segment *found = NULL;
    for (fry_segment *at = buffer->segments.rbh_root; at != NULL;) {
        if (at->end > offset) {
            found = at;
            at = RB_LEFT(at, entry);
        } else {
            at = RB_RIGHT(at, entry);
        }
    }
    return found;
}

static fry_segment *segment_next(fry_segment *segment)
{
    return fry_segment_tree_RB_NEXT(segment);
}

static void written_link(fry_segment *segment, fry_node *writer)
{
    segment->writer = writer;
    segment->writer_previous = NULL;
    segment->writer_next = NULL;
    if (writer == NULL)
        return;
    segment->writer_next = writer->written;
    if (writer->written != NULL)
        writer->written->writer_previous = segment;
    writer->written = segment;
}

static void written_unlink(fry_segment *segment)
{
    if (segment->writer == NULL)
        return;
    if (segment->writer_previous != NULL)
        segment->writer_previous->writer_next = segment->writer_next;
    else
        segment->writer->written = segment->writer_next;
    if (segment->writer_next != NULL)
        segment->writer_next->writer_previous = segment->writer_previous;
    segment->writer = NULL;
}

/*
 * The segment behind which a span goes that nobody is at: the one that entered last, as with slices
 * of a buffer that are used one after the other. NULL: look for it.
 */
static fry_segment *gap_behind_newest(const fry_use *use)
{
    fry_segment *newest = use->buffer->newest;
    if (newest == NULL || newest->end > use->begin)
        return NULL;
    const fry_segment *next = segment_next(newest);
    return next == NULL || next->begin >= use->end ? newest : NULL;
}

/* What RB_INSERT does once it has found where. */
static void tree_insert_behind(struct fry_segment_tree *tree, fry_segment *previous,
                               fry_segment *segment)
{
    bool is_right = RB_RIGHT(previous, entry) == NULL;
    fry_segment *parent = is_right ? previous : segment_next(previous);
    RB_SET(segment, parent, entry);
    if (is_right)
        RB_RIGHT(parent, entry) = segment;
    else
        RB_LEFT(parent, entry) = segment;
    fry_segment_tree_RB_INSERT_COLOR(tree, segment);
}

/* `previous`: the one before it, or NULL to look for where it belongs. */
static fry_segment *segment_insert_behind(fry_turn *turn, fry_segment *previous,
                                          ferry_buffer *buffer, size_t begin, size_t end,
                                          fry_node *writer, fry_error *poison)
{
    fry_segment *segment = fry_pool_take(&turn->engine->segments, &turn->context->segments);
    segment->buffer = buffer;
    segment->begin = begin;
    segment->end = end;
    segment->poison = fry_error_retain(poison);
    segment->readers = NULL;
    written_link(segment, writer);
    fry_load_add(turn->engine, writer != NULL);
    if (previous != NULL)
        tree_insert_behind(&buffer->segments, previous, segment);
    else
        (void)fry_segment_tree_RB_INSERT(&buffer->segments, segment);
    buffer->newest = segment;
    buffer->newest_gap_end = 0;
    return segment;
}

static fry_segment *segment_insert(fry_turn *turn, ferry_buffer *buffer, size_t begin, size_t end,
                                   fry_node *writer, fry_error *poison)
{
    return segment_insert_behind(turn, NULL, buffer, begin, end, writer, poison);
}

static void reader_insert(fry_turn *turn, fry_segment *segment, fry_node *node)
{
    fry_reader *reader = fry_pool_take(&turn->engine->readers, &turn->context->readers);
    reader->node = node;
    reader->segment = segment;
    reader->previous = NULL;
    reader->next = segment->readers;
    if (reader->next != NULL)
        reader->next->previous = reader;
    segment->readers = reader;
    reader->node_previous = NULL;
    reader->node_next = node->reads;
    if (reader->node_next != NULL)
        reader->node_next->node_previous = reader;
    node->reads = reader;
    fry_load_add(turn->engine, 1);
}

static void reader_remove(fry_turn *turn, fry_reader *reader)
{
    if (reader->previous != NULL)
        reader->previous->next = reader->next;
    else
        reader->segment->readers = reader->next;
    if (reader->next != NULL)
        reader->next->previous = reader->previous;
    if (reader->node_previous != NULL)
        reader->node_previous->node_next = reader->node_next;
    else
        reader->node->reads = reader->node_next;
    if (reader->node_next != NULL)
        reader->node_next->node_previous = reader->node_previous;
    fry_load_add(turn->engine, -1);
    fry_pool_give(&turn->engine->readers, &turn->context->readers, reader);
}

static void segment_remove(fry_turn *turn, fry_segment *segment)
{
    while (segment->readers != NULL)
        reader_remove(turn, segment->readers);
    fry_load_add(turn->engine, -(int64_t)(segment->writer != NULL));
    written_unlink(segment);
    fry_error_release(segment->poison);
    if (segment->buffer->newest == segment)
        segment->buffer->newest = NULL;
    (void)fry_segment_tree_RB_REMOVE(&segment->buffer->segments, segment);
    fry_pool_give(&turn->engine->segments, &turn->context->segments, segment);
}

static bool segments_are_alike(const fry_segment *left, const fry_segment *right)
{
    return left->end == right->begin && left->writer == right->writer &&
           left->poison == right->poison && left->readers == NULL && right->readers == NULL;
}

/* Removes a segment that says nothing any more, or joins it to neighbours that say the same. */
static void segment_tidy(fry_turn *turn, fry_segment *segment)
{
    if (segment->readers != NULL)
        return;
    if (segment->writer == NULL && segment->poison == NULL) {
        segment_remove(turn, segment);
        return;
    }
    fry_segment *next = segment_next(segment);
    if (next != NULL && segments_are_alike(segment, next)) {
        segment->end = next->end;
        segment_remove(turn, next);
    }
    fry_segment *previous = fry_segment_tree_RB_PREV(segment);
    if (previous != NULL && segments_are_alike(previous, segment)) {
        previous->end = segment->end;
        segment_remove(turn, segment);
    }
}

/* Cuts the segment that spans `offset` in two, if there is one. */
static void split_at(fry_turn *turn, ferry_buffer *buffer, size_t offset)
{
    fry_segment *left = segment_from(buffer, offset);
    if (left == NULL || left->begin >= offset)
        return;
    size_t end = left->end;
    left->end = offset;
    fry_segment *right = segment_insert(turn, buffer, offset, end, left->writer, left->poison);
    /* In the same order: enter_read looks for the entering node at the head. */
    const fry_reader *reader = left->readers;
    while (reader != NULL && reader->next != NULL)
        reader = reader->next;
    for (; reader != NULL; reader = reader->previous)
        reader_insert(turn, right, reader->node);
}

/* ---- reserving ---- */

static uint64_t count_readers(const fry_segment *segment)
{
    uint64_t count = 0;
    for (const fry_reader *reader = segment->readers; reader != NULL; reader = reader->next)
        count++;
    return count;
}

/*
 * The most that entering one access takes, given what is listed before the node enters. Summed over
 * the node's accesses it holds whatever order they enter in and however they overlap:
 *  - segments: two cuts, one of its own, one for each gap, and one for a gap that another access
 * has cut in two;
 *  - readers: those of a piece that is cut, once a cut, and the node itself in every segment there
 * is or will be;
 *  - edges: a piece's writer, and the readers listed or copied by a cut. A write takes the pieces
 * it is ordered after out of the tree, so each part of them counts once; a read has one edge to the
 *    neighbouring parts of a piece.
 * It must not grow faster than the accesses: a node may have many thousands.
 */
static inline void need_of(const fry_use *use, fry_need *need)
{
    uint64_t pieces = 0, listed = 0, cut = 0;
    fry_segment *segment = segment_from(use->buffer, use->begin);
    for (; segment != NULL && segment->begin < use->end; segment = segment_next(segment)) {
        uint64_t readers = count_readers(segment);
        pieces++;
        listed += readers;
        if (segment->begin < use->begin || segment->end > use->end)
            cut += 2 * readers;
    }
    uint64_t segments = 2 + 1 + (pieces + 1) + 1;
    need->segments += segments;
    need->readers += cut + 2 + pieces + segments;
    need->edges += pieces + 2 + listed + cut;
    need->spans++;
}

/*
 * The same for one of many rows, where nothing else of its node touches its bytes: exactly what it
 * takes. Other rows may cut a segment that it stands in too, but outside of it.
 */
static void need_of_row(const fry_use *row, fry_need *need)
{
    bool writes = (row->mode & FERRY_WRITE) != 0;
    size_t at = row->begin;
    uint64_t gaps = 0;
    fry_segment *segment = segment_from(row->buffer, row->begin);
    for (; segment != NULL && segment->begin < row->end; segment = segment_next(segment)) {
        uint64_t readers = count_readers(segment);
        uint64_t cuts =
            (uint64_t)(segment->begin < row->begin) + (uint64_t)(segment->end > row->end);
        gaps += segment->begin > at;
        at = segment->end;
        need->segments += cuts;
        need->readers += cuts * readers + !writes;
        need->edges += 1 + (writes ? readers : 0);
    }
    gaps += at < row->end;
    need->spans++;
    need->segments += writes ? 1 : gaps;
    need->readers += writes ? 0 : gaps;
}

/* The next of an access's rows. */
static void row_advance(fry_use *row)
{
    row->begin += row->pitch_bytes;
    row->end += row->pitch_bytes;
}

static void need_of_rows(const fry_node *node, const fry_use *uses, fry_need *need)
{
    bool are_apart = node->kind == FERRY_OP_DEFINE || !fry_node_has_more_uses(node);
    for (const fry_use *use = uses; use != NULL; use = use->next) {
        fry_use row = *use;
        for (uint32_t i = 0; i < use->row_count; i++, row_advance(&row)) {
            if (are_apart)
                need_of_row(&row, need);
            else
                need_of(&row, need);
        }
    }
}

ferry_status fry_hazard_stock(ferry_engine *engine, fry_context *context, const fry_need *need,
                              bool may_grow, fry_lack *lack)
{
    if (fry_likely(fry_pool_cache_has(&context->segments, need->segments) &&
                   fry_pool_cache_has(&context->readers, need->readers) &&
                   fry_pool_cache_has(&context->edges, need->edges)))
        return FERRY_OK;
    const fry_pool_cache *last = &context->segments;
    ferry_status status =
        fry_pool_reserve(&engine->segments, &context->segments, need->segments, may_grow);
    if (status == FERRY_OK) {
        last = &context->readers;
        status = fry_pool_reserve(&engine->readers, &context->readers, need->readers, may_grow);
    }
    if (status == FERRY_OK) {
        last = &context->edges;
        status = fry_pool_reserve(&engine->edges, &context->edges, need->edges, may_grow);
    }
    if (fry_unlikely(status != FERRY_OK)) {
        *lack = (fry_lack){.count = last->missing, .is_of_edges = last == &context->edges};
        fry_hazard_unstock(engine, context);
    }
    return status;
}

void fry_hazard_unstock(ferry_engine *engine, fry_context *context)
{
    if (context->segments.reserved != NULL)
        fry_pool_unreserve(&engine->segments, &context->segments);
    if (context->readers.reserved != NULL)
        fry_pool_unreserve(&engine->readers, &context->readers);
    if (context->edges.reserved != NULL)
        fry_pool_unreserve(&engine->edges, &context->edges);
}

ferry_status fry_hazard_reserve(fry_turn *turn, fry_node *node)
{
    fry_use local[2];
    turn->need = (fry_need){0};
    const fry_use *use = accesses_of(node, local);
    if (fry_unlikely(node->has_rows)) {
        need_of_rows(node, use, &turn->need);
        use = NULL;
    }
    if (use != NULL && use->next == NULL && gap_behind_newest(use) != NULL) {
        /* All that its node touches: exactly what enter_gap takes. */
        turn->need = (fry_need){.spans = 1, .segments = 1, .readers = use->mode == FERRY_READ};
        use = NULL;
    }
    for (; use != NULL; use = use->next)
        need_of(use, &turn->need);
    return fry_hazard_stock(turn->engine, turn->context, &turn->need, turn->is_loop, &turn->lack);
}

/* ---- entering ---- */

/* Orders the node after what a piece lists. */
static void order_after(fry_turn *turn, fry_node *node, fry_segment *piece, ferry_access_mode mode)
{
    bool reads = (mode & FERRY_READ) != 0, writes = (mode & FERRY_WRITE) != 0;
    if (reads && piece->poison != NULL)
        fry_graph_note_failure(turn, node, piece->poison);
    if (piece->writer != NULL && piece->writer != node)
        fry_graph_connect(turn, piece->writer, node, reads ? FRY_EDGE_READ : FRY_EDGE_ORDER);
    if (!writes)
        return;
#ifdef FRY_PLANT_DROP_WAR
    return; /* a fault put there on purpose: tests/planted builds it and must see it */
#endif
    for (fry_reader *reader = piece->readers; reader != NULL; reader = reader->next) {
        if (reader->node != node)
            fry_graph_connect(turn, reader->node, node, FRY_EDGE_ORDER);
    }
}

static void enter_read(fry_turn *turn, fry_node *node, const fry_use *use)
{
    size_t at = use->begin;
    while (at < use->end) {
        fry_segment *piece = segment_from(use->buffer, at);
        if (piece == NULL || piece->begin > at) {
            size_t end = piece == NULL || piece->begin > use->end ? use->end : piece->begin;
            piece = segment_insert(turn, use->buffer, at, end, NULL, NULL);
        } else {
            order_after(turn, node, piece, use->mode);
        }
        if (piece->readers == NULL || piece->readers->node != node)
            reader_insert(turn, piece, node);
        at = piece->end;
    }
}

static void enter_write(fry_turn *turn, fry_node *node, const fry_use *use)
{
    fry_segment *piece = segment_from(use->buffer, use->begin);
    while (piece != NULL && piece->begin < use->end) {
        fry_segment *next = segment_next(piece);
        order_after(turn, node, piece, use->mode);
        segment_remove(turn, piece);
        piece = next;
    }
    (void)segment_insert(turn, use->buffer, use->begin, use->end, node, NULL);
}

static void heal_wide_poison(const fry_use *use)
{
    ferry_buffer *buffer = use->buffer;
    if (use->begin == 0 && use->end == buffer->size_bytes) {
        fry_error_release(buffer->wide_poison);
        buffer->wide_poison = NULL;
    }
}

/* ---- buffers that hold poison, for the dump ---- */

static void poisoned_add(ferry_buffer *buffer)
{
    ferry_engine *engine = buffer->engine;
    if (buffer->is_listed)
        return;
    buffer->is_listed = true;
    buffer->poisoned_previous = NULL;
    buffer->poisoned_next = engine->poisoned;
    if (engine->poisoned != NULL)
        engine->poisoned->poisoned_previous = buffer;
    engine->poisoned = buffer;
}

static void poisoned_remove(ferry_buffer *buffer)
{
    ferry_engine *engine = buffer->engine;
    if (!buffer->is_listed)
        return;
    buffer->is_listed = false;
    if (engine->dump_buffer == buffer) { /* the dump goes on behind it */
        engine->dump_buffer = buffer->poisoned_next;
        engine->dump_offset = 0;
    }
    if (buffer->poisoned_previous != NULL)
        buffer->poisoned_previous->poisoned_next = buffer->poisoned_next;
    else
        engine->poisoned = buffer->poisoned_next;
    if (buffer->poisoned_next != NULL)
        buffer->poisoned_next->poisoned_previous = buffer->poisoned_previous;
}

static void copy_poison(const ferry_buffer *buffer, size_t begin, size_t end,
                        const fry_error *error, fry_dump_poison *poison)
{
    *poison = (fry_dump_poison){.buffer = (uintptr_t)buffer->data,
                                .begin = begin,
                                .end = end,
                                .op = error->public_.op,
                                .status = error->public_.status,
                                .device = buffer->device->device->index};
    poison->has_label = fry_dump_copy_label(poison->label, error->public_.label);
}

size_t fry_hazard_copy_poison(ferry_engine *engine, fry_dump_poison *poisons, size_t capacity)
{
    size_t count = 0, looks = FRY_DUMP_SEGMENTS;
    while (engine->dump_buffer != NULL && count < capacity && looks != 0) {
        ferry_buffer *buffer = engine->dump_buffer;
        const fry_segment *segment = segment_from(buffer, engine->dump_offset);
        looks--;
        if (segment != NULL) {
            if (segment->poison != NULL)
                copy_poison(buffer, segment->begin, segment->end, segment->poison,
                            &poisons[count++]);
            engine->dump_offset = segment->end;
            continue;
        }
        if (buffer->wide_poison != NULL) {
            copy_poison(buffer, 0, buffer->size_bytes, buffer->wide_poison, &poisons[count]);
            poisons[count++].is_wide = true;
        }
        engine->dump_buffer = buffer->poisoned_next;
        engine->dump_offset = 0;
    }
    return count;
}

/* ---- entering uses ---- */

/* A refused write that not even a reserve node could stand for (see op.c). */
static void take_refusal(ferry_buffer *buffer)
{
    if (fry_unlikely(fry_load_acquire(&buffer->refused) != FERRY_OK)) {
        int32_t status = fry_exchange(&buffer->refused, FERRY_OK);
        if (buffer->wide_poison == NULL && status != FERRY_OK) {
            buffer->wide_poison = fry_error_static((ferry_status)status);
            poisoned_add(buffer);
        }
    }
}

/* Nobody is at any byte of it, as with disjoint slices: one look says so. */
static bool enter_gap(fry_turn *turn, fry_node *node, const fry_use *use)
{
    fry_segment *previous = gap_behind_newest(use);
    if (previous == NULL) {
        const fry_segment *first = segment_from(use->buffer, use->begin);
        if (first != NULL && first->begin < use->end)
            return false;
    }
    bool writes = (use->mode & FERRY_WRITE) != 0;
    fry_segment *segment = segment_insert_behind(turn, previous, use->buffer, use->begin, use->end,
                                                 writes ? node : NULL, NULL);
    if (!writes)
        reader_insert(turn, segment, node);
    return true;
}

static void enter_use(fry_turn *turn, fry_node *node, const fry_use *use)
{
    take_refusal(use->buffer);
    if (fry_unlikely(use->buffer->wide_poison != NULL)) {
        if ((use->mode & FERRY_READ) != 0)
            fry_graph_note_failure(turn, node, use->buffer->wide_poison);
        if ((use->mode & FERRY_WRITE) != 0)
            heal_wide_poison(use);
    }
    if (enter_gap(turn, node, use))
        return;
    split_at(turn, use->buffer, use->begin);
    split_at(turn, use->buffer, use->end);
    if ((use->mode & FERRY_WRITE) != 0)
        enter_write(turn, node, use);
    else
        enter_read(turn, node, use);
}

/* ---- messages alone at their bytes ---- */

/*
 * Puts a segment into the tree, by its span, if nobody is at that. Spans used one after the other
 * go behind the last: whatever entered since would be the newest, and what has left makes gaps
 * larger, so what was free behind it still is.
 */
static bool enter_gap_of(ferry_buffer *buffer, fry_segment *segment)
{
    size_t begin = segment->begin, end = segment->end;
    fry_segment *newest = buffer->newest;
    if (newest != NULL && newest->end <= begin && end <= buffer->newest_gap_end) {
        tree_insert_behind(&buffer->segments, newest, segment);
        buffer->newest = segment;
        return true;
    }
    fry_segment *parent = NULL, **at = &buffer->segments.rbh_root;
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
    RB_SET(segment, parent, entry);
    *at = segment;
    fry_segment_tree_RB_INSERT_COLOR(&buffer->segments, segment);
    buffer->newest = segment;
    buffer->newest_gap_end = gap_end;
    return true;
}

bool fry_hazard_enter_alone(fry_turn *turn, fry_node *node)
{
    const fry_message_op *message = &node->op.message;
    ferry_buffer *buffer = message->buffer;
    bool reads = node->kind == FERRY_OP_SEND;
    if (fry_unlikely(node->uses != NULL || buffer->wide_poison != NULL ||
                     fry_load_acquire(&buffer->refused) != FERRY_OK))
        return false;
    fry_segment *segment = fry_pool_take(&turn->engine->segments, &turn->context->segments);
    if (fry_unlikely(segment == NULL))
        return false;
    fry_reader *reader = NULL;
    if (reads && fry_unlikely((reader = fry_pool_take(&turn->engine->readers,
                                                      &turn->context->readers)) == NULL))
        goto without_reader;
    segment->begin = message->offset;
    segment->end = message->offset + message->size_bytes;
    if (!enter_gap_of(buffer, segment))
        goto not_alone;
    segment->buffer = buffer;
    segment->writer = reads ? NULL : node;
    segment->writer_next = segment->writer_previous = NULL;
    segment->poison = NULL;
    segment->readers = reader;
    if (reads) {
        *reader = (fry_reader){.node = node, .segment = segment};
        node->reads = reader;
    } else {
        node->written = segment;
    }
    fry_load_add(turn->engine, 1);
    return true;

not_alone:
    if (reads)
        fry_pool_give(&turn->engine->readers, &turn->context->readers, reader);
without_reader:
    fry_pool_give(&turn->engine->segments, &turn->context->segments, segment);
    return false;
}

/* Whether one segment is all that the node is listed in, which says nothing else. */
static inline fry_segment *lone_segment(const fry_node *node)
{
    const fry_reader *reader = node->reads;
    fry_segment *segment = node->written;
    if (reader != NULL)
        return segment == NULL && reader->node_next == NULL && reader->next == NULL &&
                       reader->previous == NULL && reader->segment->writer == NULL &&
                       reader->segment->poison == NULL
                   ? reader->segment
                   : NULL;
    return segment != NULL && segment->writer_next == NULL && segment->readers == NULL &&
                   segment->poison == NULL
               ? segment
               : NULL;
}

/* Of a node that was well: out of the one list there is. */
static void leave_alone(fry_turn *turn, fry_node *node, fry_segment *segment)
{
    ferry_buffer *buffer = segment->buffer;
    if (node->reads != NULL)
        fry_pool_give(&turn->engine->readers, &turn->context->readers, node->reads);
    node->reads = NULL;
    node->written = NULL;
    if (buffer->newest == segment)
        buffer->newest = NULL;
    fry_load_add(turn->engine, -1);
    (void)fry_segment_tree_RB_REMOVE(&buffer->segments, segment);
    fry_pool_give(&turn->engine->segments, &turn->context->segments, segment);
}

static void enter_rows(fry_turn *turn, fry_node *node, const fry_use *use)
{
    fry_use row = *use;
    for (uint32_t i = 0; i < use->row_count; i++, row_advance(&row))
        enter_use(turn, node, &row);
}

/*
 * Where a node's accesses overlap, what it reads is what others wrote before it. So its reads enter
 * ahead of its writes: behind them it would find itself the last writer and miss a failure.
 */
void fry_hazard_enter(fry_turn *turn, fry_node *node)
{
    static const ferry_access_mode modes[] = {FERRY_READ, FERRY_READ_WRITE, FERRY_WRITE};
    fry_use local[2];
    fry_use *uses = accesses_of(node, local);
    if (fry_likely(node->uses == NULL && !node->has_rows)) {
        /* A copy's own two are in that order. */
        for (fry_use *use = uses; use != NULL; use = use->next)
            enter_use(turn, node, use);
    } else {
        for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
            for (fry_use *use = uses; use != NULL; use = use->next) {
                if (use->mode == modes[i])
                    enter_rows(turn, node, use);
            }
        }
    }
    fry_hazard_unstock(turn->engine, turn->context);
}

/* ---- leaving ---- */

void fry_hazard_leave(fry_turn *turn, fry_node *node)
{
    fry_segment *lone = lone_segment(node);
    bool failed = fry_future_status(&node->future) != FERRY_OK;
    if (fry_likely(lone != NULL && !failed)) {
        leave_alone(turn, node, lone);
        return;
    }
    while (node->reads != NULL) {
        fry_segment *segment = node->reads->segment;
        reader_remove(turn, node->reads);
        segment_tidy(turn, segment);
    }
    while (node->written != NULL) {
        fry_segment *segment = node->written;
        fry_load_add(turn->engine, -1);
        written_unlink(segment);
        if (failed) {
            segment->poison = fry_error_retain(fry_future_root_error(&node->future));
            poisoned_add(segment->buffer);
        }
        segment_tidy(turn, segment);
    }
}

void fry_hazard_poison_wide(fry_node *node, ferry_status status)
{
    fry_use local[2];
    for (fry_use *use = accesses_of(node, local); use != NULL; use = use->next) {
        if ((use->mode & FERRY_WRITE) != 0 && use->buffer->wide_poison == NULL) {
            use->buffer->wide_poison = fry_error_static(status);
            poisoned_add(use->buffer);
        }
    }
}

void fry_hazard_close(fry_turn *turn, ferry_buffer *buffer)
{
    while (buffer->segments.rbh_root != NULL)
        segment_remove(turn, buffer->segments.rbh_root);
    poisoned_remove(buffer);
    fry_error_release(buffer->wide_poison);
    buffer->wide_poison = NULL;
}
