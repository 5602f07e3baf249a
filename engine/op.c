/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public operations: checks what the caller gave, makes a node in the caller's thread, submits
 * it. What is refused is a static future; what it would have written is poisoned all the same, in
 * its place in program order (refused_writes.c).
 */
#include "engine/op.h"

#include "base/options.h"
#include "engine/buffer.h"
#include "engine/context.h"
#include "engine/engine.h"
#include "engine/executor.h"
#include "engine/ground.h"
#include "engine/late.h"
#include "engine/node.h"
#include "engine/refusal.h"
#include "engine/refused_writes.h"
#include "engine/room.h"
#include "engine/trace.h"
#include "engine/turn.h"

#define ACCESS_COUNT_MAX ((size_t)1 << 16)
#define ROW_COUNT_MAX ((size_t)1 << 16)
#define DEADLINE_MIN_NS (INT64_MIN / 2) /* so that it and a time can be subtracted */

/* Of one that is not empty. */
static inline fry_refusal check_span(ferry_engine *engine, const ferry_span *span)
{
    const ferry_buffer *buffer = span->buffer;
    if (fry_unlikely(buffer == NULL))
        return fry_refuse(engine, FRY_REFUSED_SPAN_NULL);
    if (fry_unlikely(buffer->engine != engine))
        return fry_refuse(engine, FRY_REFUSED_SPAN_ENGINE);
    if (fry_unlikely(span->offset_bytes > buffer->size_bytes ||
                     span->size_bytes > buffer->size_bytes - span->offset_bytes))
        return fry_refuse(engine, FRY_REFUSED_SPAN_OUTSIDE);
    return FRY_TAKEN;
}

/* And may be named just now. */
static inline fry_refusal check_open_span(ferry_engine *engine, const ferry_span *span)
{
    fry_refusal why = check_span(engine, span);
    if (fry_unlikely(why == FRY_TAKEN && fry_buffer_is_barred(span->buffer)))
        why = fry_refused_barred(engine);
    return why;
}

fry_refusal fry_request_check_span(ferry_engine *engine, const ferry_span *span)
{
    return span->size_bytes != 0 ? check_open_span(engine, span) : FRY_TAKEN;
}

/* They are not empty, and lie within their buffer, one behind the other. */
static fry_refusal check_rows(ferry_engine *engine, const fry_row_span *rows)
{
    ferry_span first = rows->first;
    fry_refusal why = check_span(engine, &first);
    if (why != FRY_TAKEN || rows->row_count <= 1)
        return why;
    if (rows->pitch_bytes < first.size_bytes)
        return fry_refuse(engine, FRY_REFUSED_ROWS_PITCH);
    size_t last_bytes;
    if (__builtin_mul_overflow(rows->pitch_bytes, rows->row_count - 1, &last_bytes))
        return fry_refuse(engine, FRY_REFUSED_ROWS_OVERFLOW);
    if (last_bytes > first.buffer->size_bytes - first.offset_bytes - first.size_bytes)
        return fry_refuse(engine, FRY_REFUSED_ROWS_OUTSIDE);
    if (rows->pitch_bytes != first.size_bytes && rows->row_count > ROW_COUNT_MAX)
        return fry_refuse(engine, FRY_REFUSED_ROWS_COUNT);
    return FRY_TAKEN;
}

static bool is_empty(const fry_row_span *rows)
{
    return rows->first.size_bytes == 0 || rows->row_count == 0;
}

/* Checked before. Rows without gaps are one. */
static fry_rows rows_of(const fry_row_span *rows)
{
    size_t row_bytes = rows->first.size_bytes, count = rows->row_count;
    bool is_one = count <= 1 || row_bytes == 0 || rows->pitch_bytes == row_bytes;
    return (fry_rows){.buffer = rows->first.buffer,
                      .offset = rows->first.offset_bytes,
                      .row_bytes = is_one ? row_bytes * count : row_bytes,
                      .pitch_bytes = rows->pitch_bytes,
                      .count = is_one ? 1 : (uint32_t)count};
}

static fry_rows row_of(ferry_span span)
{
    return (fry_rows){.buffer = span.buffer,
                      .offset = span.offset_bytes,
                      .row_bytes = span.size_bytes,
                      .count = 1};
}

/* What is wrong with them, of this version. */
static inline fry_refusal check_options(const ferry_engine *engine, const ferry_op_options *given)
{
    if (fry_unlikely(given->after == NULL && given->after_count != 0))
        return FRY_REFUSED_AFTER_ARRAY;
    if (fry_unlikely(given->after_count > engine->after_count_max))
        return FRY_REFUSED_AFTER_COUNT;
    if (fry_unlikely(given->accesses == NULL && given->access_count != 0))
        return FRY_REFUSED_ACCESS_ARRAY;
    if (fry_unlikely(given->access_count > ACCESS_COUNT_MAX ||
                     given->access_count + FRY_COPY_SPANS > engine->span_count_max))
        return FRY_REFUSED_ACCESS_COUNT;
    if (fry_unlikely(given->reserved != 0))
        return FRY_REFUSED_OPTIONS_RESERVED;
    if (fry_unlikely(given->priority < FERRY_PRIORITY_LOW || given->priority > FERRY_PRIORITY_HIGH))
        return FRY_REFUSED_PRIORITY;
    return FRY_TAKEN;
}

fry_refusal fry_request_options(fry_request *request, ferry_engine *engine,
                                const ferry_op_options *options)
{
    if (fry_likely(options->struct_size == sizeof *options))
        request->options = *options;
    else if (fry_options_read(&request->options, sizeof request->options, options) != FERRY_OK)
        return fry_refuse(engine, FRY_REFUSED_OPTIONS_SIZE);
    fry_refusal why = check_options(engine, &request->options);
    return fry_likely(why == FRY_TAKEN) ? FRY_TAKEN : fry_refuse(engine, why);
}

/* The options first: without memory for a context they still say what would have been written. */
fry_refusal fry_request_open(fry_request *request, ferry_engine *engine,
                             const ferry_op_options *options)
{
    request->engine = engine;
    request->context = NULL;
    request->shared = NULL;
    if (options == NULL) /* else request_options writes all of it */
        memset(&request->options, 0, sizeof request->options);
    fry_refusal why = fry_engine_refusal_open(engine);
    if (fry_likely(why == FRY_TAKEN) && options != NULL)
        why = fry_request_options(request, engine, options);
    if (fry_unlikely(why != FRY_TAKEN))
        return why;
    request->context = fry_context_get(engine);
    return fry_likely(request->context != NULL) ? FRY_TAKEN : FRY_REFUSED_NO_MEMORY;
}

/* Of one that is no static future. */
static bool takes_edge(const ferry_future *future, fry_edge_nature nature)
{
    return (nature != FRY_EDGE_AFTER && nature != FRY_EDGE_READ) ||
           !fry_future_is_resolved(future) || fry_future_status(future) != FERRY_OK;
}

fry_refusal fry_request_add_after(fry_request *request, fry_node *node, ferry_future *future,
                                  fry_edge_nature nature)
{
    ferry_engine *engine = request->engine;
    if (fry_unlikely(future == NULL))
        return fry_refuse(engine, FRY_REFUSED_AFTER_NULL);
    if (fry_unlikely(fry_future_is_static(future))) {
        if (fry_future_status(future) == FERRY_OK) { /* the quiet of one that was refused */
            if (nature == FRY_EDGE_ANY)
                node->flags |= FRY_NODE_SATISFIED;
            return FRY_TAKEN;
        }
        /* It has failed already; so will this one, in its place in program order. */
        if (nature != FRY_EDGE_QUIET)
            fry_node_refuse(node, FERRY_E_DEPENDENCY, fry_refusal_error(fry_refusal_of(future)),
                            true);
        return FRY_TAKEN;
    }
    if (fry_unlikely(future->owner != &engine->owner))
        return fry_refuse(engine, FRY_REFUSED_AFTER_ENGINE);
    if (!takes_edge(future, nature))
        return FRY_TAKEN;
    return fry_node_add_edge(engine, request->context, node, fry_node_of(future), nature);
}

static uint64_t count_edges(ferry_future *const *futures, size_t count, fry_edge_nature nature)
{
    uint64_t edges = 0;
    for (size_t i = 0; i < count; i++) {
        const ferry_future *future = futures[i];
        edges += future != NULL && !fry_future_is_static(future) && takes_edge(future, nature);
    }
    return edges;
}

void fry_request_lacks_edges(const fry_request *request, const fry_node *node,
                             ferry_future *const *futures, size_t count, fry_edge_nature nature)
{
    uint64_t found = 0, needed = count_edges(futures, count, nature);
    if (request->shared != NULL)
        needed += count_edges(request->shared->after, request->shared->after_count, nature);
    for (const fry_edge *edge = node->edges; edge != NULL; edge = edge->sibling)
        found++;
    if (needed <= found)
        needed = found + 1; /* some have resolved this moment */
    fry_edges_refused(request->engine, needed, needed - found);
}

static void note_lacking_uses(const fry_request *request, uint64_t rows)
{
    const ferry_op_options *options = &request->options;
    uint64_t needed = rows;
    for (size_t i = 0; i < options->access_count; i++)
        needed += options->accesses[i].span.size_bytes != 0;
    fry_pool_refused(&request->engine->uses, needed);
}

static fry_refusal add_accesses(const fry_request *request, fry_node *node)
{
    ferry_engine *engine = request->engine;
    fry_refusal why = FRY_TAKEN;
    for (size_t i = 0; why == FRY_TAKEN && i < request->options.access_count; i++) {
        const ferry_access *access = &request->options.accesses[i];
        if (access->span.size_bytes == 0)
            continue;
        why = check_open_span(engine, &access->span);
        if (why != FRY_TAKEN)
            return why;
        if (access->mode < FERRY_READ || access->mode > FERRY_READ_WRITE)
            return fry_refuse(engine, FRY_REFUSED_ACCESS_MODE);
        fry_rows row = row_of(access->span);
        why = fry_node_add_use(engine, request->context, node, &row, access->mode);
    }
    if (fry_unlikely(why == FRY_REFUSED_MAX_ACCESSES))
        note_lacking_uses(request, 0);
    return why;
}

/* The node with all that the options say, or NULL. */
fry_node *fry_request_node(fry_request *request, ferry_op_kind kind, fry_refusal *why_p)
{
    const ferry_op_options *options = &request->options, *shared = request->shared;
    fry_node *node = fry_node_create(request->engine, request->context, kind, why_p);
    if (fry_unlikely(node == NULL))
        return NULL;
    if (fry_node_is_message(node))
        node->op.message.transfer = NULL; /* until it has one: it may be discarded without */
    node->label = options->label;
    if (fry_unlikely(options->priority != FERRY_PRIORITY_NORMAL))
        node->flags |= options->priority > 0 ? FRY_NODE_HIGH : FRY_NODE_LOW;
    if (options->deadline_ns != 0) {
        node->flags |= FRY_NODE_HAS_DEADLINE;
        node->deadline.when_ns =
            options->deadline_ns > DEADLINE_MIN_NS ? options->deadline_ns : DEADLINE_MIN_NS;
    }
    fry_refusal why = FRY_TAKEN;
    for (size_t i = 0; why == FRY_TAKEN && i < options->after_count; i++)
        why = fry_request_add_after(request, node, options->after[i], FRY_EDGE_AFTER);
    for (size_t i = 0; why == FRY_TAKEN && shared != NULL && i < shared->after_count; i++)
        why = fry_request_add_after(request, node, shared->after[i], FRY_EDGE_AFTER);
    if (fry_unlikely(why == FRY_REFUSED_MAX_EDGES))
        fry_request_lacks_edges(request, node, options->after, options->after_count,
                                FRY_EDGE_AFTER);
    else if (why == FRY_TAKEN && options->access_count != 0)
        why = add_accesses(request, node);
    if (fry_likely(why == FRY_TAKEN))
        return node;
    fry_node_discard(request->engine, request->context, node);
    *why_p = why;
    return NULL;
}

/* In line, where it is called in this file: a call would be a thirtieth of what a nop costs. */
static inline __attribute__((always_inline)) ferry_future *submit(fry_request *request,
                                                                  fry_node *node)
{
    if (fry_unlikely((request->options.after_count | request->options.access_count) >
                     FRY_HOLDING_STEPS))
        fry_request_share_large(request, node);
    fry_trace(request->engine, node, FERRY_TRACE_SUBMITTED, 0);
    fry_turn_submit(request->engine, request->context, node);
    fry_call_ends(request->engine);
    return &node->future;
}

ferry_future *fry_request_submit(fry_request *request, fry_node *node)
{
    return submit(request, node);
}

__attribute__((cold, noinline)) void fry_request_share_large(const fry_request *request,
                                                             fry_node *node)
{
    const ferry_op_options *options = &request->options, *shared = request->shared;
    size_t count = options->after_count + options->access_count;
    if (shared != NULL)
        count += shared->after_count;
    if (fry_unlikely(count > FRY_HOLDING_STEPS))
        fry_graph_share(node);
}

/* ---- nodes of copies and calls ---- */

static inline fry_refusal check_copy(ferry_engine *engine, const ferry_span *dst,
                                     const ferry_span *src)
{
    if (fry_unlikely(dst->size_bytes != src->size_bytes))
        return fry_refuse(engine, FRY_REFUSED_COPY_SIZES);
    if (fry_unlikely(dst->size_bytes == 0))
        return FRY_TAKEN;
    fry_refusal why = check_open_span(engine, dst);
    if (fry_likely(why == FRY_TAKEN))
        why = check_open_span(engine, src);
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
    node->sequence = 0;
    node->lane = NULL;
    if (fry_likely(size_bytes != 0)) {
        fry_node_init_spans(node);
        node->lane = fry_lane_between(dst->buffer, src->buffer, fry_copy_plain_bytes(node));
    } else { /* what they say of an empty span is nothing */
        node->op.copy.dst = node->op.copy.src = NULL;
    }
}

static inline fry_node *make_copy(fry_request *request, const ferry_span *dst,
                                  const ferry_span *src, fry_refusal *why_p)
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

/* The rows of either side come one behind the other, so of two that don't meet the first meets
 * nothing that follows either. */
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
    if (is_empty(dst))
        return FRY_TAKEN;
    fry_refusal why = check_rows(engine, dst);
    if (why == FRY_TAKEN)
        why = check_rows(engine, src);
    if (why == FRY_TAKEN &&
        (fry_buffer_is_barred(dst->first.buffer) || fry_buffer_is_barred(src->first.buffer)))
        why = fry_refused_barred(engine);
    if (why != FRY_TAKEN)
        return why;
    if (!fry_buffers_can_copy(dst->first.buffer, src->first.buffer))
        return fry_refuse(engine, FRY_REFUSED_COPY_BACKENDS);
    fry_rows to = rows_of(dst), from = rows_of(src);
    return rows_meet(&to, &from) ? fry_refuse(engine, FRY_REFUSED_COPY_OVERLAP) : FRY_TAKEN;
}

/* Ahead of the options' accesses, what is read first: fry_node.has_rows. */
static fry_refusal add_rows(fry_request *request, fry_node *node, const fry_rows *dst,
                            const fry_rows *src)
{
    fry_refusal why = fry_node_add_use(request->engine, request->context, node, dst, FERRY_WRITE);
    if (why == FRY_TAKEN)
        why = fry_node_add_use(request->engine, request->context, node, src, FERRY_READ);
    if (fry_unlikely(why == FRY_REFUSED_MAX_ACCESSES))
        note_lacking_uses(request, FRY_COPY_SPANS);
    node->has_rows = true;
    return why;
}

/* So that there is room when nothing else has any. Rows that nothing else of their node can touch
 * take no more than a segment and a reader each: need_of_row in hazard.c. */
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
    if (why == FRY_TAKEN && !rows_fit(request, rows_of(dst).count + rows_of(src).count))
        why = fry_refuse(engine, FRY_REFUSED_ROWS_ROOM);
    fry_node *node = why == FRY_TAKEN ? fry_request_node(request, FERRY_OP_COPY, &why) : NULL;
    *why_p = why;
    if (node == NULL)
        return NULL;
    fry_rows written = rows_of(dst), read = rows_of(src);
    if (written.count > 1 || read.count > 1)
        *why_p = add_rows(request, node, &written, &read);
    if (*why_p != FRY_TAKEN) {
        fry_node_discard(engine, request->context, node);
        return NULL;
    }
    init_copy(node, &dst->first, &src->first, dst->first.size_bytes * dst->row_count);
    return node;
}

fry_node *fry_request_call(fry_request *request, ferry_executor *executor, ferry_call_fn fn,
                           void *arg, fry_refusal *why_p)
{
    ferry_engine *engine = request->engine;
    *why_p =
        fn != NULL ? fry_executor_check(engine, executor) : fry_refuse(engine, FRY_REFUSED_CALL_FN);
    fry_node *node = *why_p == FRY_TAKEN ? fry_request_node(request, FERRY_OP_CALL, why_p) : NULL;
    if (node == NULL)
        return NULL;
    executor = fry_executor_for(engine, executor);
    if (executor == ferry_executor_inline())
        executor = NULL; /* no function goes ahead of others */
    node->op.call = (fry_call){.executor = executor, .fn = fn, .arg = arg};
    return node;
}

/* ---- refused writes ---- */

/* Refused for want of room, not for being wrong: what it would have written is not valid now. */
ferry_future *fry_request_refuse_writes(const fry_request *request, ferry_engine *engine,
                                        fry_refusal why, const fry_row_span *dst)
{
    if (!fry_refusal_is_want(why))
        return fry_refused(engine, why);
    fry_context *context = request->context; /* NULL: there was no memory even for that */
    if (dst != NULL && !is_empty(dst) && check_rows(engine, dst) == FRY_TAKEN) {
        fry_rows rows = rows_of(dst);
        fry_refused_write(engine, context, &rows, why);
    }
    for (size_t i = 0; i < request->options.access_count; i++) {
        const ferry_access *access = &request->options.accesses[i];
        if ((access->mode & FERRY_WRITE) != 0 && access->span.size_bytes != 0 &&
            check_span(engine, &access->span) == FRY_TAKEN) {
            fry_rows row = row_of(access->span);
            fry_refused_write(engine, context, &row, why);
        }
    }
    fry_call_ends(engine);
    return fry_refused(engine, why);
}

/* ---- operations ---- */

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
    return submit(&request, node);
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
    return submit(&request, node);
}

ferry_future *ferry_call(ferry_engine *engine, ferry_executor *executor, ferry_call_fn fn,
                         void *arg, const ferry_op_options *options)
{
    fry_request request;
    fry_refusal why = fry_request_open(&request, engine, options);
    fry_node *node = why == FRY_TAKEN ? fry_request_call(&request, executor, fn, arg, &why) : NULL;
    if (node == NULL)
        return fry_request_refuse_writes(&request, engine, why, NULL);
    return submit(&request, node);
}

ferry_future *ferry_nop(ferry_engine *engine, const ferry_op_options *options)
{
    fry_request request;
    fry_refusal why = fry_request_open(&request, engine, options);
    fry_node *node =
        fry_likely(why == FRY_TAKEN) ? fry_request_node(&request, FERRY_OP_NOP, &why) : NULL;
    if (fry_unlikely(node == NULL))
        return fry_request_refuse_writes(&request, engine, why, NULL);
    return submit(&request, node);
}

static fry_node *make_define(fry_request *request, ferry_span span, ferry_future *future,
                             fry_refusal *why_p)
{
    fry_node *node = fry_request_node(request, FERRY_OP_DEFINE, why_p);
    if (node == NULL)
        return NULL;
    fry_rows row = row_of(span);
    fry_node_init_define(node, &row);
    if (future != NULL)
        *why_p = fry_request_add_after(request, node, future, FRY_EDGE_READ);
    if (*why_p == FRY_TAKEN)
        return node;
    if (*why_p == FRY_REFUSED_MAX_EDGES)
        fry_request_lacks_edges(request, node, &future, 1, FRY_EDGE_READ);
    fry_node_discard(request->engine, request->context, node);
    return NULL;
}

ferry_status ferry_buffer_define(ferry_span span, ferry_future *future)
{
    ferry_engine *engine = span.buffer != NULL ? span.buffer->engine : NULL;
    fry_request request;
    fry_refusal why = fry_request_open(&request, engine, NULL);
    if (why == FRY_TAKEN && span.size_bytes == 0)
        why = fry_refuse(engine, FRY_REFUSED_SPAN_EMPTY);
    if (why == FRY_TAKEN)
        why = check_open_span(engine, &span);
    fry_node *node = why == FRY_TAKEN ? make_define(&request, span, future, &why) : NULL;
    if (node == NULL) {
        fry_row_span defined = {.first = span, .row_count = 1};
        ferry_future_release(fry_request_refuse_writes(&request, engine, why, &defined));
        return fry_refusal_status(why);
    }
    ferry_future_release(submit(&request, node));
    return FERRY_OK;
}
