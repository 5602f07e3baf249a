/* SPDX-License-Identifier: Apache-2.0 */
/* Copies: ferry_copy and ferry_copy_rows, and a copy's row. */
#include "engine/api/copy.h"

#include "engine/api/request.h"
#include "engine/api/spans.h"
#include "engine/engine.h"
#include "engine/graph/buffer.h"
#include "engine/graph/kind.h"
#include "engine/graph/lane.h"
#include "engine/graph/node.h"
#include "engine/graph/refused_writes.h"
#include "engine/graph/use.h"
#include "engine/ground/refusal.h"

/* ---- making one ---- */

/* Inline, because each copy comes here. */
static inline __attribute__((always_inline)) fry_refusal
check_copy(ferry_engine *engine, const ferry_span *dst, const ferry_span *src)
{
    if (fry_unlikely(dst->size_bytes != src->size_bytes))
        return fry_refuse(engine, FRY_REFUSED_COPY_SIZES);
    if (fry_unlikely(dst->size_bytes == 0))
        return FRY_TAKEN;
    fry_refusal why = fry_span_check_written(engine, dst);
    if (fry_likely(why == FRY_TAKEN))
        why = fry_span_check_open(engine, src);
    if (fry_unlikely(why != FRY_TAKEN))
        return why;
    if (fry_unlikely(!fry_buffers_can_copy(dst->buffer, src->buffer)))
        return fry_refuse(engine, FRY_REFUSED_COPY_BACKENDS);
    uintptr_t to = (uintptr_t)dst->buffer->data + dst->offset_bytes;
    uintptr_t from = (uintptr_t)src->buffer->data + src->offset_bytes;
    if (to < from + src->size_bytes && from < to + dst->size_bytes)
        return fry_refuse(engine, FRY_REFUSED_COPY_OVERLAP);
    return FRY_TAKEN;
}

static inline void init_copy(fry_node *node, const ferry_span *dst, const ferry_span *src,
                             size_t size_bytes)
{
    node->op.copy = (fry_copy_op){.dst = dst->buffer,
                                  .src = src->buffer,
                                  .dst_offset = dst->offset_bytes,
                                  .src_offset = src->offset_bytes,
                                  .size_bytes = size_bytes};
    if (fry_likely(size_bytes != 0)) {
        fry_node_init_spans(node);
        node->op.copy.stand.lane =
            fry_lane_between(dst->buffer, src->buffer, fry_node_copy_plain_bytes(node));
    } else { /* the buffers of empty spans mean nothing */
        node->op.copy.dst = node->op.copy.src = NULL;
    }
}

static inline __attribute__((always_inline)) fry_node *
make_copy(fry_request *request, const ferry_span *dst, const ferry_span *src, fry_refusal *why_p)
{
    *why_p = check_copy(request->engine, dst, src);
    fry_node *node =
        fry_likely(*why_p == FRY_TAKEN) ? fry_request_node(request, FERRY_OP_COPY, why_p) : NULL;
    if (fry_likely(node != NULL))
        init_copy(node, dst, src, dst->size_bytes);
    return node;
}

fry_refusal fry_request_check_copy(ferry_engine *engine, const ferry_span *dst,
                                   const ferry_span *src)
{
    return check_copy(engine, dst, src);
}

fry_node *fry_request_copy(fry_request *request, const ferry_span *dst, const ferry_span *src,
                           fry_refusal *why_p)
{
    return make_copy(request, dst, src, why_p);
}

static uintptr_t address_of(const fry_rows *rows)
{
    return (uintptr_t)rows->buffer->data + rows->offset;
}

/*
 * The rows of each side are in order of address. So of two rows that don't meet, the first meets
 * none of the other side's later rows either.
 */
static bool rows_meet(const fry_rows *dst, const fry_rows *src)
{
    uintptr_t to = address_of(dst), from = address_of(src);
    uint32_t to_left = dst->count, from_left = src->count;
    while (to_left > 0 && from_left > 0) {
        if (to < from + src->row_bytes && from < to + dst->row_bytes)
            return true;
        if (to < from) {
            to += dst->pitch_bytes;
            to_left--;
        } else {
            from += src->pitch_bytes;
            from_left--;
        }
    }
    return false;
}

fry_refusal fry_request_check_rows(ferry_engine *engine, const fry_row_span *dst,
                                   const fry_row_span *src)
{
    if (dst->first.size_bytes != src->first.size_bytes)
        return fry_refuse(engine, FRY_REFUSED_COPY_SIZES);
    if (fry_rows_are_empty(dst))
        return FRY_TAKEN;
    fry_refusal why = fry_rows_check(engine, dst);
    if (why == FRY_TAKEN)
        why = fry_rows_check(engine, src);
    if (why == FRY_TAKEN &&
        (fry_buffer_is_barred(dst->first.buffer) || fry_buffer_is_barred(src->first.buffer)))
        why = fry_refused_barred(engine);
    if (why == FRY_TAKEN && dst->first.buffer->is_source)
        why = fry_refuse(engine, FRY_REFUSED_SPAN_SOURCE);
    if (why != FRY_TAKEN)
        return why;
    if (!fry_buffers_can_copy(dst->first.buffer, src->first.buffer))
        return fry_refuse(engine, FRY_REFUSED_COPY_BACKENDS);
    fry_rows to = fry_rows_of(dst), from = fry_rows_of(src);
    return rows_meet(&to, &from) ? fry_refuse(engine, FRY_REFUSED_COPY_OVERLAP) : FRY_TAKEN;
}

/* Puts the source's use first, before the options' accesses: fry_node.has_rows. */
static fry_refusal add_rows(fry_request *request, fry_node *node, const fry_rows *dst,
                            const fry_rows *src)
{
    fry_refusal why = fry_node_add_use(request->engine, request->context, node, dst, FERRY_WRITE);
    if (why == FRY_TAKEN)
        why = fry_node_add_use(request->engine, request->context, node, src, FERRY_READ);
    if (fry_unlikely(why == FRY_REFUSED_MAX_ACCESSES))
        fry_request_lacks_uses(request, FRY_COPY_SPANS);
    node->has_rows = true;
    return why;
}

/*
 * Whether there is room for the rows when nothing else has any. Rows that nothing else of their
 * node can touch take no more than a segment and a reader each.
 */
static bool rows_fit(const fry_request *request, size_t count)
{
    const ferry_engine *engine = request->engine;
    size_t access_count = request->options.access_count;
    return access_count == 0 ? count <= engine->options.max_accesses
                             : count + access_count <= engine->span_count_max;
}

fry_node *fry_request_copy_rows(fry_request *request, const fry_row_span *dst,
                                const fry_row_span *src, fry_refusal *why_p)
{
    ferry_engine *engine = request->engine;
    fry_refusal why = fry_request_check_rows(engine, dst, src);
    if (why == FRY_TAKEN && !rows_fit(request, fry_rows_of(dst).count + fry_rows_of(src).count))
        why = fry_refuse(engine, FRY_REFUSED_ROWS_ROOM);
    fry_node *node = why == FRY_TAKEN ? fry_request_node(request, FERRY_OP_COPY, &why) : NULL;
    *why_p = why;
    if (node == NULL)
        return NULL;
    fry_rows written = fry_rows_of(dst), read = fry_rows_of(src);
    if (written.count > 1 || read.count > 1)
        *why_p = add_rows(request, node, &written, &read);
    if (*why_p != FRY_TAKEN) {
        fry_node_discard(engine, request->context, node);
        return NULL;
    }
    init_copy(node, &dst->first, &src->first, dst->first.size_bytes * dst->row_count);
    return node;
}

ferry_future *ferry_copy(ferry_engine *engine, ferry_span dst, ferry_span src,
                         const ferry_op_options *options)
{
    fry_request request;
    fry_refusal why = fry_request_open(&request, engine, options);
    fry_node *node = fry_likely(why == FRY_TAKEN) ? make_copy(&request, &dst, &src, &why) : NULL;
    if (fry_unlikely(node == NULL)) {
        fry_row_span written = {.first = dst, .row_count = 1};
        return fry_request_refuse_writes(&request, engine, why, &written);
    }
    return fry_request_submit(&request, node);
}

ferry_future *ferry_copy_rows(ferry_engine *engine, ferry_span dst, size_t dst_pitch_bytes,
                              ferry_span src, size_t src_pitch_bytes, size_t row_count,
                              const ferry_op_options *options)
{
    fry_row_span to = {.first = dst, .pitch_bytes = dst_pitch_bytes, .row_count = row_count};
    fry_row_span from = {.first = src, .pitch_bytes = src_pitch_bytes, .row_count = row_count};
    fry_request request;
    fry_refusal why = fry_request_open(&request, engine, options);
    fry_node *node = why == FRY_TAKEN ? fry_request_copy_rows(&request, &to, &from, &why) : NULL;
    if (node == NULL)
        return fry_request_refuse_writes(&request, engine, why, &to);
    return fry_request_submit(&request, node);
}

/* ---- its row ---- */

static bool span(const fry_node *node, uint8_t index, fry_use *use)
{
    return fry_node_copy_span(node, index, use);
}

static bool stop(fry_node *node)
{
    fry_lane_cancel(node);
    return true;
}

static uint64_t moved_bytes(const fry_node *node, uint64_t *flow_p)
{
    (void)flow_p;
    return node->op.copy.size_bytes;
}

static void describe(const ferry_engine *engine, const fry_node *node, fry_kind_view *view)
{
    const fry_lane *lane = node->op.copy.stand.lane;
    (void)engine;
    view->has_size = true;
    view->size_bytes = node->op.copy.size_bytes;
    view->shown_stream = lane != NULL ? lane->stream : NULL;
    if (node->state == FRY_NODE_READY) /* it may be held because it found no parked stream */
        view->reason = fry_node_holding(node) != 0 ? FRY_DUMP_OPERATIONS : FRY_DUMP_STREAM;
}

/*
 * The graph itself starts a copy that moves bytes (fry_lane_issue); an empty copy completes at
 * once.
 */
const fry_op_kind fry_kind_copy = {
    .traits = FRY_KIND_ON_STREAM | FRY_KIND_STAYS,
    .span = span,
    .stop = stop,
    .moved_bytes = moved_bytes,
    .describe = describe,
};
