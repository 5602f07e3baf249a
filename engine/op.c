/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public operations: checks what the caller gave, makes a node in the caller's thread, submits
 * it. What is refused is a static future; what it would have written is poisoned all the same, in
 * its place in program order, by a node from a small reserve.
 */
#include "engine/graph.h"

typedef struct fry_request {
    ferry_engine *engine;
    fry_context *context;
    ferry_op_options options;
} fry_request;

static ferry_status refuse(ferry_engine *engine, ferry_status status, const char *why)
{
    fry_log_line(&engine->log, FERRY_LOG_WARNING, "%s", why);
    return status;
}

static ferry_status check_span(ferry_engine *engine, ferry_span span)
{
    if (span.buffer == NULL)
        return refuse(engine, FERRY_E_INVALID, "a span without a buffer is refused");
    if (span.buffer->engine != engine)
        return refuse(engine, FERRY_E_INVALID, "a span of another engine's buffer is refused");
    if (span.offset_bytes > span.buffer->size_bytes ||
        span.size_bytes > span.buffer->size_bytes - span.offset_bytes)
        return refuse(engine, FERRY_E_INVALID, "a span outside its buffer is refused");
    return FERRY_OK;
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

static ferry_status request_options(fry_request *request, ferry_engine *engine,
                                    const ferry_op_options *options)
{
    if (fry_likely(options->struct_size == sizeof *options)) {
        request->options = *options;
    } else {
        ferry_status status = fry_options_read(&request->options, sizeof request->options, options);
        if (status != FERRY_OK)
            return refuse(engine, status, "operation options of a size that can't be are refused");
    }
    const ferry_op_options *given = &request->options;
    if ((given->after == NULL && given->after_count != 0) ||
        given->after_count > engine->after_count_max ||
        (given->accesses == NULL && given->access_count != 0) ||
        given->access_count > engine->access_count_max || given->deadline_ns < 0)
        return refuse(engine, FERRY_E_INVALID, "operation options out of their limits are refused");
    return FERRY_OK;
}

/* The options first: without memory for a context they still say what would have been written. */
static ferry_status request_open(fry_request *request, ferry_engine *engine,
                                 const ferry_op_options *options)
{
    ferry_status status = fry_engine_check_open(engine);
    if (fry_likely(status == FERRY_OK) && options != NULL)
        status = request_options(request, engine, options);
    if (fry_unlikely(status != FERRY_OK))
        return status;
    request->engine = engine;
    request->context = fry_context_get(engine);
    return fry_likely(request->context != NULL) ? FERRY_OK : FERRY_E_NO_MEMORY;
}

/* Of one that is no static future. */
static bool takes_edge(const ferry_future *future, fry_edge_nature nature)
{
    return nature != FRY_EDGE_AFTER || !fry_future_is_resolved(future) ||
           fry_future_status(future) != FERRY_OK;
}

static ferry_status add_after(fry_request *request, fry_node *node, ferry_future *future,
                              fry_edge_nature nature)
{
    ferry_engine *engine = request->engine;
    if (fry_unlikely(future == NULL))
        return refuse(engine, FERRY_E_INVALID, "waiting for a null future is refused");
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
        return refuse(engine, FERRY_E_INVALID, "waiting for another engine's future is refused");
    if (!takes_edge(future, nature))
        return FERRY_OK;
    return fry_node_add_edge(engine, request->context, node, fry_node_of(future), nature);
}

/* The bound came in the midst of a list. */
static void note_lacking_edges(ferry_engine *engine, const fry_node *node,
                               ferry_future *const *after, size_t count, fry_edge_nature nature)
{
    uint64_t needed = 0, found = 0;
    for (size_t i = 0; i < count; i++)
        needed +=
            after[i] != NULL && !fry_future_is_static(after[i]) && takes_edge(after[i], nature);
    for (const fry_edge *edge = node->edges; edge != NULL; edge = edge->sibling)
        found++;
    if (needed <= found)
        needed = found + 1; /* some have resolved this moment */
    fry_edges_refused(engine, needed, needed - found);
}

static void note_lacking_uses(ferry_engine *engine, const ferry_op_options *options)
{
    uint64_t needed = 0;
    for (size_t i = 0; i < options->access_count; i++)
        needed += options->accesses[i].span.size_bytes != 0;
    fry_pool_refused(&engine->uses, needed);
}

static ferry_status add_access(fry_request *request, fry_node *node, const ferry_access *access)
{
    ferry_status status = check_span(request->engine, access->span);
    if (status != FERRY_OK)
        return status;
    if (access->mode < FERRY_READ || access->mode > FERRY_READ_WRITE)
        return refuse(request->engine, FERRY_E_INVALID, "an access of no known mode is refused");
    if (access->span.size_bytes == 0)
        return FERRY_OK;
    return fry_node_add_use(request->engine, request->context, node, access);
}

/* The node with all that the options say, or NULL. */
static fry_node *request_node(fry_request *request, ferry_op_kind kind, ferry_status *status_p)
{
    const ferry_op_options *options = &request->options;
    fry_node *node = fry_node_create(request->engine, request->context, kind, status_p);
    if (fry_unlikely(node == NULL))
        return NULL;
    node->label = options->label;
    if (options->deadline_ns != 0) {
        node->flags |= FRY_NODE_HAS_DEADLINE;
        node->deadline_ns = options->deadline_ns;
    }
    ferry_status status = FERRY_OK;
    for (size_t i = 0; status == FERRY_OK && i < options->after_count; i++)
        status = add_after(request, node, options->after[i], FRY_EDGE_AFTER);
    if (fry_unlikely(status == FERRY_E_AGAIN))
        note_lacking_edges(request->engine, node, options->after, options->after_count,
                           FRY_EDGE_AFTER);
    for (size_t i = 0; status == FERRY_OK && i < options->access_count; i++) {
        status = add_access(request, node, &options->accesses[i]);
        if (fry_unlikely(status == FERRY_E_AGAIN))
            note_lacking_uses(request->engine, options);
    }
    if (fry_likely(status == FERRY_OK))
        return node;
    fry_node_discard(request->engine, request->context, node);
    *status_p = status;
    return NULL;
}

static ferry_future *request_submit(fry_request *request, fry_node *node)
{
    fry_trace(request->engine, node, FERRY_TRACE_SUBMITTED, 0);
    fry_turn_submit(request->engine, request->context, node);
    return &node->future;
}

/* ---- refused writes ---- */

static void poison_refused(ferry_engine *engine, fry_context *context, ferry_span span,
                           ferry_status status)
{
    if (span.size_bytes == 0)
        return;
    fry_node *node = context != NULL ? fry_node_create_reserve(engine, context) : NULL;
    if (node == NULL) {
        fry_store_release(&span.buffer->refused, status); /* pairs with take_refusal in hazard.c */
        return;
    }
    node->op.copy = (fry_copy_op){
        .dst = span.buffer, .dst_offset = span.offset_bytes, .size_bytes = span.size_bytes};
    fry_node_init_spans(node);
    node->refusal = (int16_t)status;
    fry_turn_submit(engine, context, node);
    ferry_future_release(&node->future);
}

/* Refused for want of room, not for being wrong: what it would have written is not valid now. */
static ferry_future *refuse_writes(const fry_request *request, ferry_engine *engine,
                                   ferry_status status, const ferry_span *dst)
{
    if (status != FERRY_E_AGAIN && status != FERRY_E_NO_MEMORY)
        return fry_refused(engine, status);
    fry_context *context = request->context; /* NULL: there was no memory even for that */
    if (dst != NULL && check_span(engine, *dst) == FERRY_OK)
        poison_refused(engine, context, *dst, status);
    for (size_t i = 0; i < request->options.access_count; i++) {
        const ferry_access *access = &request->options.accesses[i];
        if ((access->mode & FERRY_WRITE) != 0 && check_span(engine, access->span) == FERRY_OK)
            poison_refused(engine, context, access->span, status);
    }
    return fry_refused(engine, status);
}

/* ---- operations ---- */

static ferry_status check_copy(ferry_engine *engine, ferry_span dst, ferry_span src)
{
    ferry_status status = check_span(engine, dst);
    if (fry_likely(status == FERRY_OK))
        status = check_span(engine, src);
    if (fry_unlikely(status != FERRY_OK))
        return status;
    if (dst.size_bytes != src.size_bytes)
        return refuse(engine, FERRY_E_INVALID, "a copy between spans of two sizes is refused");
    uintptr_t to = (uintptr_t)dst.buffer->data + dst.offset_bytes;
    uintptr_t from = (uintptr_t)src.buffer->data + src.offset_bytes;
    if (to < from + src.size_bytes && from < to + dst.size_bytes)
        return refuse(engine, FERRY_E_INVALID, "a copy between overlapping spans is refused");
    return FERRY_OK;
}

ferry_future *ferry_copy(ferry_engine *engine, ferry_span dst, ferry_span src,
                         const ferry_op_options *options)
{
    fry_request request = {0};
    ferry_status status = request_open(&request, engine, options);
    if (fry_likely(status == FERRY_OK))
        status = check_copy(engine, dst, src);
    if (fry_unlikely(status != FERRY_OK))
        return refuse_writes(&request, engine, status, &dst);
    fry_node *node = request_node(&request, FERRY_OP_COPY, &status);
    if (fry_unlikely(node == NULL))
        return refuse_writes(&request, engine, status, &dst);

    fry_device *to = dst.buffer->device->device;
    node->op.copy = (fry_copy_op){.dst = dst.buffer,
                                  .src = src.buffer,
                                  .dst_offset = dst.offset_bytes,
                                  .src_offset = src.offset_bytes,
                                  .size_bytes = dst.size_bytes};
    node->sequence = 0;
    node->lane = NULL;
    if (dst.size_bytes != 0) {
        fry_node_init_spans(node);
        node->lane = &engine->lanes[to->ops->copy_stream(to, src.buffer->device->device)->index];
    }
    return request_submit(&request, node);
}

ferry_future *ferry_call(ferry_engine *engine, ferry_executor *executor, ferry_call_fn fn,
                         void *arg, const ferry_op_options *options)
{
    fry_request request = {0};
    ferry_status status = request_open(&request, engine, options);
    if (status == FERRY_OK && fn == NULL)
        status = refuse(engine, FERRY_E_INVALID, "a call of no function is refused");
    if (status == FERRY_OK)
        status = fry_executor_check(engine, executor);
    fry_node *node = status == FERRY_OK ? request_node(&request, FERRY_OP_CALL, &status) : NULL;
    if (node == NULL)
        return refuse_writes(&request, engine, status, NULL);
    node->op.call = (fry_call){.executor = executor, .fn = fn, .arg = arg};
    return request_submit(&request, node);
}

ferry_future *ferry_nop(ferry_engine *engine, const ferry_op_options *options)
{
    fry_request request = {0};
    ferry_status status = request_open(&request, engine, options);
    fry_node *node =
        fry_likely(status == FERRY_OK) ? request_node(&request, FERRY_OP_NOP, &status) : NULL;
    if (fry_unlikely(node == NULL))
        return refuse_writes(&request, engine, status, NULL);
    return request_submit(&request, node);
}

ferry_future *ferry_engine_drain(ferry_engine *engine)
{
    fry_request request = {0};
    ferry_status status = request_open(&request, engine, NULL);
    fry_node *node = status == FERRY_OK ? request_node(&request, FERRY_OP_DRAIN, &status) : NULL;
    return node != NULL ? request_submit(&request, node) : fry_refused(engine, status);
}

static ferry_future *combine(ferry_engine *engine, ferry_op_kind kind, fry_edge_nature nature,
                             ferry_future *const *futures, size_t count)
{
    fry_request request = {0};
    ferry_status status = request_open(&request, engine, NULL);
    if (status == FERRY_OK && ((futures == NULL && count != 0) || count > engine->after_count_max ||
                               (kind == FERRY_OP_ANY && count == 0)))
        status = refuse(engine, FERRY_E_INVALID, "combining no or too many futures is refused");
    if (status != FERRY_OK)
        return fry_refused(engine, status);
    fry_node *node = request_node(&request, kind, &status);
    if (node == NULL)
        return fry_refused(engine, status);
    for (size_t i = 0; status == FERRY_OK && i < count; i++)
        status = add_after(&request, node, futures[i], nature);
    if (status == FERRY_OK)
        return request_submit(&request, node);
    if (status == FERRY_E_AGAIN)
        note_lacking_edges(engine, node, futures, count, nature);
    fry_node_discard(engine, request.context, node);
    return fry_refused(engine, status);
}

ferry_future *ferry_future_all(ferry_engine *engine, ferry_future *const *futures, size_t count)
{
    return combine(engine, FERRY_OP_ALL, FRY_EDGE_AFTER, futures, count);
}

ferry_future *ferry_future_any(ferry_engine *engine, ferry_future *const *futures, size_t count)
{
    return combine(engine, FERRY_OP_ANY, FRY_EDGE_ANY, futures, count);
}

/* A future of another moment of the same operation. */
static ferry_future *view(ferry_future *future, ferry_op_kind kind, fry_edge_nature nature)
{
    if (future == NULL || future->owner == NULL)
        return fry_refused(NULL, future == NULL           ? FERRY_E_INVALID
                                 : kind == FERRY_OP_QUIET ? FERRY_OK
                                                          : fry_future_status(future));
    ferry_engine *engine = fry_engine_of(future);
    ferry_status status = fry_engine_check(engine);
    if (status != FERRY_OK)
        return fry_refused(engine, status);
    if (fry_future_is_static(future) && kind == FERRY_OP_QUIET)
        return fry_refused(engine, FERRY_OK);
    return combine(engine, kind, nature, &future, 1);
}

ferry_future *ferry_future_issued(ferry_future *future)
{
    return view(future, FERRY_OP_ISSUED, FRY_EDGE_ISSUED);
}

ferry_future *ferry_future_quiet(ferry_future *future)
{
    return view(future, FERRY_OP_QUIET, FRY_EDGE_QUIET);
}

ferry_status ferry_buffer_define(ferry_span span, ferry_future *future)
{
    ferry_engine *engine = span.buffer != NULL ? span.buffer->engine : NULL;
    fry_request request = {0};
    ferry_status status = request_open(&request, engine, NULL);
    if (status == FERRY_OK)
        status = check_span(engine, span);
    if (status == FERRY_OK && span.size_bytes == 0)
        status = refuse(engine, FERRY_E_INVALID, "defining no bytes is refused");
    if (status != FERRY_OK)
        return status;
    fry_node *node = request_node(&request, FERRY_OP_DEFINE, &status);
    if (node == NULL) {
        ferry_future_release(refuse_writes(&request, engine, status, &span));
        return status;
    }
    node->op.copy = (fry_copy_op){
        .dst = span.buffer, .dst_offset = span.offset_bytes, .size_bytes = span.size_bytes};
    fry_node_init_spans(node);
    if (future != NULL)
        status = add_after(&request, node, future, FRY_EDGE_AFTER);
    if (status != FERRY_OK) {
        if (status == FERRY_E_AGAIN)
            note_lacking_edges(engine, node, &future, 1, FRY_EDGE_AFTER);
        fry_node_discard(engine, request.context, node);
        ferry_future_release(refuse_writes(&request, engine, status, &span));
        return status;
    }
    ferry_future_release(request_submit(&request, node));
    return FERRY_OK;
}
