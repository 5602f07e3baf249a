/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public operations: checks what the caller gave, makes a node in the caller's thread, submits
 * it. What is refused is a static future; what it would have written is poisoned all the same, in
 * its place in program order, by a node from a small reserve.
 */
#include "engine/request.h"

#define ACCESS_COUNT_MAX ((size_t)1 << 16)
#define ROW_COUNT_MAX ((size_t)1 << 16)

ferry_status fry_request_refuse(ferry_engine *engine, ferry_status status, const char *why)
{
    fry_log_line(&engine->log, FERRY_LOG_WARNING, "%s", why);
    return status;
}

ferry_status fry_request_check_span(ferry_engine *engine, const ferry_span *span)
{
    const ferry_buffer *buffer = span->buffer;
    if (buffer == NULL)
        return fry_request_refuse(engine, FERRY_E_INVALID, "a span without a buffer is refused");
    if (buffer->engine != engine)
        return fry_request_refuse(engine, FERRY_E_INVALID,
                                  "a span of another engine's buffer is refused");
    if (span->offset_bytes > buffer->size_bytes ||
        span->size_bytes > buffer->size_bytes - span->offset_bytes)
        return fry_request_refuse(engine, FERRY_E_INVALID, "a span outside its buffer is refused");
    return FERRY_OK;
}

/* They lie within their buffer, one behind the other. */
static ferry_status check_rows(ferry_engine *engine, const fry_row_span *rows)
{
    ferry_span first = rows->first;
    ferry_status status = fry_request_check_span(engine, &first);
    if (status != FERRY_OK || rows->row_count <= 1 || first.size_bytes == 0)
        return status;
    if (rows->pitch_bytes < first.size_bytes)
        return fry_request_refuse(engine, FERRY_E_INVALID,
                                  "a pitch smaller than its row is refused");
    size_t last_bytes;
    if (__builtin_mul_overflow(rows->pitch_bytes, rows->row_count - 1, &last_bytes))
        return fry_request_refuse(engine, FERRY_E_INVALID,
                                  "a pitch and a number of rows that overflow are refused");
    if (last_bytes > first.buffer->size_bytes - first.offset_bytes - first.size_bytes)
        return fry_request_refuse(engine, FERRY_E_INVALID,
                                  "rows of which the last is outside its buffer are refused");
    if (rows->pitch_bytes != first.size_bytes && rows->row_count > ROW_COUNT_MAX)
        return fry_request_refuse(engine, FERRY_E_INVALID, "more than 65536 rows are refused");
    return FERRY_OK;
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

/* Copies what the caller's version of the struct has; the rest is zero, which is the default. */
ferry_status fry_options_read(void *options, size_t size_bytes, const void *given)
{
    memset(options, 0, size_bytes);
    if (given == NULL)
        return FERRY_OK;
    size_t given_bytes;
    memcpy(&given_bytes, given, sizeof given_bytes);
    if (given_bytes < sizeof given_bytes || given_bytes > FRY_OPTIONS_BYTES_MAX)
        return FERRY_E_INVALID;
    for (size_t i = size_bytes; i < given_bytes; i++) {
        if (((const char *)given)[i] != 0)
            return FERRY_E_INVALID;
    }
    memcpy(options, given, given_bytes < size_bytes ? given_bytes : size_bytes);
    return FERRY_OK;
}

ferry_status fry_request_options(fry_request *request, ferry_engine *engine,
                                 const ferry_op_options *options)
{
    if (fry_likely(options->struct_size == sizeof *options)) {
        request->options = *options;
    } else {
        ferry_status status = fry_options_read(&request->options, sizeof request->options, options);
        if (status != FERRY_OK)
            return fry_request_refuse(engine, status,
                                      "operation options of a size that can't be are refused");
    }
    const ferry_op_options *given = &request->options;
    if ((given->after == NULL && given->after_count != 0) ||
        given->after_count > engine->after_count_max ||
        (given->accesses == NULL && given->access_count != 0) ||
        given->access_count > ACCESS_COUNT_MAX ||
        given->access_count + FRY_COPY_SPANS > engine->span_count_max || given->deadline_ns < 0 ||
        given->reserved != 0)
        return fry_request_refuse(engine, FERRY_E_INVALID,
                                  "operation options out of their limits are refused");
    if (fry_unlikely(given->priority < FERRY_PRIORITY_LOW || given->priority > FERRY_PRIORITY_HIGH))
        return fry_request_refuse(engine, FERRY_E_INVALID,
                                  "an operation of no known priority is refused");
    return FERRY_OK;
}

/* The options first: without memory for a context they still say what would have been written. */
ferry_status fry_request_open(fry_request *request, ferry_engine *engine,
                              const ferry_op_options *options)
{
    request->engine = engine;
    request->context = NULL;
    request->shared = NULL;
    if (options == NULL) /* else request_options writes all of it */
        memset(&request->options, 0, sizeof request->options);
    ferry_status status = fry_engine_check_open(engine);
    if (fry_likely(status == FERRY_OK) && options != NULL)
        status = fry_request_options(request, engine, options);
    if (fry_unlikely(status != FERRY_OK))
        return status;
    request->context = fry_context_get(engine);
    return fry_likely(request->context != NULL) ? FERRY_OK : FERRY_E_NO_MEMORY;
}

/* Of one that is no static future. */
static bool takes_edge(const ferry_future *future, fry_edge_nature nature)
{
    return (nature != FRY_EDGE_AFTER && nature != FRY_EDGE_READ) ||
           !fry_future_is_resolved(future) || fry_future_status(future) != FERRY_OK;
}

ferry_status fry_request_add_after(fry_request *request, fry_node *node, ferry_future *future,
                                   fry_edge_nature nature)
{
    ferry_engine *engine = request->engine;
    if (fry_unlikely(future == NULL))
        return fry_request_refuse(engine, FERRY_E_INVALID, "waiting for a null future is refused");
    if (fry_unlikely(fry_future_is_static(future))) {
        if (fry_future_status(future) == FERRY_OK) { /* the quiet of one that was refused */
            if (nature == FRY_EDGE_ANY)
                node->flags |= FRY_NODE_SATISFIED;
            return FERRY_OK;
        }
        /* It has failed already; so will this one, in its place in program order. */
        if (node->refusal == FERRY_OK && nature != FRY_EDGE_QUIET) {
            node->refusal = FERRY_E_DEPENDENCY;
            fry_future_set_error(&node->future, fry_error_static(fry_future_status(future)), true);
        }
        return FERRY_OK;
    }
    if (fry_unlikely(future->owner != &engine->owner))
        return fry_request_refuse(engine, FERRY_E_INVALID,
                                  "waiting for another engine's future is refused");
    if (!takes_edge(future, nature))
        return FERRY_OK;
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

static ferry_status add_accesses(const fry_request *request, fry_node *node)
{
    ferry_engine *engine = request->engine;
    ferry_status status = FERRY_OK;
    for (size_t i = 0; status == FERRY_OK && i < request->options.access_count; i++) {
        const ferry_access *access = &request->options.accesses[i];
        status = fry_request_check_span(engine, &access->span);
        if (status != FERRY_OK)
            return status;
        if (access->mode < FERRY_READ || access->mode > FERRY_READ_WRITE)
            return fry_request_refuse(engine, FERRY_E_INVALID,
                                      "an access of no known mode is refused");
        fry_rows row = row_of(access->span);
        if (row.row_bytes != 0)
            status = fry_node_add_use(engine, request->context, node, &row, access->mode);
    }
    if (fry_unlikely(status == FERRY_E_AGAIN))
        note_lacking_uses(request, 0);
    return status;
}

/* The node with all that the options say, or NULL. */
fry_node *fry_request_node(fry_request *request, ferry_op_kind kind, ferry_status *status_p)
{
    const ferry_op_options *options = &request->options, *shared = request->shared;
    fry_node *node = fry_node_create(request->engine, request->context, kind, status_p);
    if (fry_unlikely(node == NULL))
        return NULL;
    node->label = options->label;
    if (fry_unlikely(options->priority != FERRY_PRIORITY_NORMAL))
        node->flags |= options->priority > 0 ? FRY_NODE_HIGH : FRY_NODE_LOW;
    if (options->deadline_ns != 0) {
        node->flags |= FRY_NODE_HAS_DEADLINE;
        node->deadline_ns = options->deadline_ns;
    }
    ferry_status status = FERRY_OK;
    for (size_t i = 0; status == FERRY_OK && i < options->after_count; i++)
        status = fry_request_add_after(request, node, options->after[i], FRY_EDGE_AFTER);
    for (size_t i = 0; status == FERRY_OK && shared != NULL && i < shared->after_count; i++)
        status = fry_request_add_after(request, node, shared->after[i], FRY_EDGE_AFTER);
    if (fry_unlikely(status == FERRY_E_AGAIN))
        fry_request_lacks_edges(request, node, options->after, options->after_count,
                                FRY_EDGE_AFTER);
    else if (status == FERRY_OK && options->access_count != 0)
        status = add_accesses(request, node);
    if (fry_likely(status == FERRY_OK))
        return node;
    fry_node_discard(request->engine, request->context, node);
    *status_p = status;
    return NULL;
}

ferry_future *fry_request_submit(fry_request *request, fry_node *node)
{
    fry_trace(request->engine, node, FERRY_TRACE_SUBMITTED, 0);
    fry_turn_submit(request->engine, request->context, node);
    return &node->future;
}

/* ---- nodes of copies and calls ---- */

static ferry_status refuse_backends(ferry_engine *engine)
{
    return fry_request_refuse(
        engine, FERRY_E_UNSUPPORTED,
        "a copy between devices of two backends is refused: take it through a "
        "host buffer");
}

static inline ferry_status check_copy(ferry_engine *engine, const ferry_span *dst,
                                      const ferry_span *src)
{
    ferry_status status = fry_request_check_span(engine, dst);
    if (fry_likely(status == FERRY_OK))
        status = fry_request_check_span(engine, src);
    if (fry_unlikely(status != FERRY_OK))
        return status;
    if (dst->size_bytes != src->size_bytes)
        return fry_request_refuse(engine, FERRY_E_INVALID,
                                  "a copy between spans of two sizes is refused");
    if (fry_unlikely(!fry_buffers_can_copy(dst->buffer, src->buffer)))
        return refuse_backends(engine);
    uintptr_t to = (uintptr_t)dst->buffer->data + dst->offset_bytes;
    uintptr_t from = (uintptr_t)src->buffer->data + src->offset_bytes;
    if (to < from + src->size_bytes && from < to + dst->size_bytes)
        return fry_request_refuse(engine, FERRY_E_INVALID,
                                  "a copy between overlapping spans is refused");
    return FERRY_OK;
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
    if (size_bytes != 0) {
        fry_node_init_spans(node);
        node->lane = fry_lane_between(dst->buffer, src->buffer);
    }
}

static inline fry_node *make_copy(fry_request *request, const ferry_span *dst,
                                  const ferry_span *src, ferry_status *status_p)
{
    *status_p = check_copy(request->engine, dst, src);
    fry_node *node = fry_likely(*status_p == FERRY_OK)
                         ? fry_request_node(request, FERRY_OP_COPY, status_p)
                         : NULL;
    if (fry_likely(node != NULL))
        init_copy(node, dst, src, dst->size_bytes);
    return node;
}

ferry_status fry_request_check_copy(ferry_engine *engine, const ferry_span *dst,
                                    const ferry_span *src)
{
    return check_copy(engine, dst, src);
}

fry_node *fry_request_copy(fry_request *request, const ferry_span *dst, const ferry_span *src,
                           ferry_status *status_p)
{
    return make_copy(request, dst, src, status_p);
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

ferry_status fry_request_check_rows(ferry_engine *engine, const fry_row_span *dst,
                                    const fry_row_span *src)
{
    ferry_status status = check_rows(engine, dst);
    if (status == FERRY_OK)
        status = check_rows(engine, src);
    if (status != FERRY_OK)
        return status;
    if (dst->first.size_bytes != src->first.size_bytes)
        return fry_request_refuse(engine, FERRY_E_INVALID,
                                  "a copy between rows of two sizes is refused");
    if (!fry_buffers_can_copy(dst->first.buffer, src->first.buffer))
        return refuse_backends(engine);
    fry_rows to = rows_of(dst), from = rows_of(src);
    if (to.row_bytes != 0 && rows_meet(&to, &from))
        return fry_request_refuse(engine, FERRY_E_INVALID,
                                  "a copy between overlapping rows is refused");
    return FERRY_OK;
}

/* Ahead of the options' accesses, what is read first: fry_node.has_rows. */
static ferry_status add_rows(fry_request *request, fry_node *node, const fry_rows *dst,
                             const fry_rows *src)
{
    ferry_status status =
        fry_node_add_use(request->engine, request->context, node, dst, FERRY_WRITE);
    if (status == FERRY_OK)
        status = fry_node_add_use(request->engine, request->context, node, src, FERRY_READ);
    if (fry_unlikely(status == FERRY_E_AGAIN))
        note_lacking_uses(request, FRY_COPY_SPANS);
    node->has_rows = true;
    return status;
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
                                const fry_row_span *src, ferry_status *status_p)
{
    ferry_status status = fry_request_check_rows(request->engine, dst, src);
    if (status == FERRY_OK && !rows_fit(request, rows_of(dst).count + rows_of(src).count))
        status = fry_request_refuse(request->engine, FERRY_E_INVALID,
                                    "more rows than max_accesses has room for are refused");
    fry_node *node = status == FERRY_OK ? fry_request_node(request, FERRY_OP_COPY, &status) : NULL;
    *status_p = status;
    if (node == NULL)
        return NULL;
    fry_rows written = rows_of(dst), read = rows_of(src);
    if (written.count > 1 || read.count > 1)
        *status_p = add_rows(request, node, &written, &read);
    if (*status_p != FERRY_OK) {
        fry_node_discard(request->engine, request->context, node);
        return NULL;
    }
    init_copy(node, &dst->first, &src->first, dst->first.size_bytes * dst->row_count);
    return node;
}

fry_node *fry_request_call(fry_request *request, ferry_executor *executor, ferry_call_fn fn,
                           void *arg, ferry_status *status_p)
{
    *status_p = FERRY_OK;
    if (fn == NULL)
        *status_p = fry_request_refuse(request->engine, FERRY_E_INVALID,
                                       "a call of no function is refused");
    if (*status_p == FERRY_OK)
        *status_p = fry_executor_check(request->engine, executor);
    fry_node *node =
        *status_p == FERRY_OK ? fry_request_node(request, FERRY_OP_CALL, status_p) : NULL;
    if (node == NULL)
        return NULL;
    executor = fry_executor_for(request->engine, executor);
    if (executor == ferry_executor_inline())
        executor = NULL; /* no function goes ahead of others */
    node->op.call = (fry_call){.executor = executor, .fn = fn, .arg = arg};
    return node;
}

/* Where what it waits for stands on a device is found out as it enters. */
static void init_define(fry_node *node, fry_rows rows)
{
    node->op.define = rows;
    node->has_rows = rows.count > 1;
    node->lane = NULL;
    node->sequence = 0;
    fry_node_init_spans(node);
}

/* ---- refused writes ---- */

static void poison_refused(ferry_engine *engine, fry_context *context, fry_rows rows,
                           ferry_status status)
{
    if (rows.row_bytes == 0)
        return;
    fry_node *node = context != NULL ? fry_node_create_reserve(engine, context) : NULL;
    if (node == NULL) {
        fry_store_release(&rows.buffer->refused, status); /* pairs with take_refusal in hazard.c */
        return;
    }
    init_define(node, rows);
    node->refusal = (int16_t)status;
    fry_turn_submit(engine, context, node);
    ferry_future_release(&node->future);
}

/* Refused for want of room, not for being wrong: what it would have written is not valid now. */
ferry_future *fry_request_refuse_writes(const fry_request *request, ferry_engine *engine,
                                        ferry_status status, const fry_row_span *dst)
{
    if (status != FERRY_E_AGAIN && status != FERRY_E_NO_MEMORY)
        return fry_refused(engine, status);
    fry_context *context = request->context; /* NULL: there was no memory even for that */
    if (dst != NULL && check_rows(engine, dst) == FERRY_OK)
        poison_refused(engine, context, rows_of(dst), status);
    for (size_t i = 0; i < request->options.access_count; i++) {
        const ferry_access *access = &request->options.accesses[i];
        if ((access->mode & FERRY_WRITE) != 0 &&
            fry_request_check_span(engine, &access->span) == FERRY_OK)
            poison_refused(engine, context, row_of(access->span), status);
    }
    return fry_refused(engine, status);
}

/* ---- operations ---- */

ferry_future *ferry_copy(ferry_engine *engine, ferry_span dst, ferry_span src,
                         const ferry_op_options *options)
{
    fry_request request;
    ferry_status status = fry_request_open(&request, engine, options);
    fry_node *node =
        fry_likely(status == FERRY_OK) ? make_copy(&request, &dst, &src, &status) : NULL;
    if (fry_unlikely(node == NULL)) {
        fry_row_span written = {.first = dst, .row_count = 1};
        return fry_request_refuse_writes(&request, engine, status, &written);
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
    ferry_status status = fry_request_open(&request, engine, options);
    fry_node *node =
        status == FERRY_OK ? fry_request_copy_rows(&request, &to, &from, &status) : NULL;
    if (node == NULL)
        return fry_request_refuse_writes(&request, engine, status, &to);
    return fry_request_submit(&request, node);
}

ferry_future *ferry_call(ferry_engine *engine, ferry_executor *executor, ferry_call_fn fn,
                         void *arg, const ferry_op_options *options)
{
    fry_request request;
    ferry_status status = fry_request_open(&request, engine, options);
    fry_node *node =
        status == FERRY_OK ? fry_request_call(&request, executor, fn, arg, &status) : NULL;
    if (node == NULL)
        return fry_request_refuse_writes(&request, engine, status, NULL);
    return fry_request_submit(&request, node);
}

ferry_future *ferry_nop(ferry_engine *engine, const ferry_op_options *options)
{
    fry_request request;
    ferry_status status = fry_request_open(&request, engine, options);
    fry_node *node =
        fry_likely(status == FERRY_OK) ? fry_request_node(&request, FERRY_OP_NOP, &status) : NULL;
    if (fry_unlikely(node == NULL))
        return fry_request_refuse_writes(&request, engine, status, NULL);
    return fry_request_submit(&request, node);
}

ferry_status ferry_buffer_define(ferry_span span, ferry_future *future)
{
    ferry_engine *engine = span.buffer != NULL ? span.buffer->engine : NULL;
    fry_request request;
    ferry_status status = fry_request_open(&request, engine, NULL);
    if (status == FERRY_OK)
        status = fry_request_check_span(engine, &span);
    if (status == FERRY_OK && span.size_bytes == 0)
        status = fry_request_refuse(engine, FERRY_E_INVALID, "defining no bytes is refused");
    if (status != FERRY_OK)
        return status;
    fry_row_span defined = {.first = span, .row_count = 1};
    fry_node *node = fry_request_node(&request, FERRY_OP_DEFINE, &status);
    if (node == NULL) {
        ferry_future_release(fry_request_refuse_writes(&request, engine, status, &defined));
        return status;
    }
    init_define(node, row_of(span));
    if (future != NULL)
        status = fry_request_add_after(&request, node, future, FRY_EDGE_READ);
    if (status != FERRY_OK) {
        if (status == FERRY_E_AGAIN)
            fry_request_lacks_edges(&request, node, &future, 1, FRY_EDGE_READ);
        fry_node_discard(engine, request.context, node);
        ferry_future_release(fry_request_refuse_writes(&request, engine, status, &defined));
        return status;
    }
    ferry_future_release(fry_request_submit(&request, node));
    return FERRY_OK;
}
