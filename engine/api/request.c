/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/api/request.h"

#include "base/intern.h"
#include "base/options.h"
#include "engine/api/spans.h"
#include "engine/engine.h"
#include "engine/graph/completion.h"
#include "engine/graph/due.h"
#include "engine/graph/node.h"
#include "engine/graph/refused_writes.h"
#include "engine/graph/room.h"
#include "engine/graph/scope.h"
#include "engine/graph/turn.h"
#include "engine/ground/context.h"
#include "engine/ground/ground.h"
#include "engine/ground/refusal.h"
#include "engine/loop/late.h"

#define ACCESS_COUNT_MAX ((size_t)1 << 16)
#define DEADLINE_MIN_NS (INT64_MIN / 2) /* so that subtracting a time can't overflow */

/* Checks options of this version's size. */
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
    if (fry_unlikely((given->flags & ~(uint32_t)(FERRY_OP_LABEL_COPIED | FERRY_OP_UNTRACKED)) != 0))
        return FRY_REFUSED_OPTIONS_FLAGS;
    if (fry_unlikely(given->queue != NULL) && given->queue->engine != engine)
        return FRY_REFUSED_QUEUE_ENGINE;
    if (fry_unlikely(given->scope != NULL) && given->scope->engine != engine)
        return FRY_REFUSED_SCOPE_ENGINE;
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

/*
 * Reads the options first: without memory for a context they still say what would have been
 * written.
 */
fry_refusal fry_request_open(fry_request *request, ferry_engine *engine,
                             const ferry_op_options *options)
{
    request->engine = engine;
    request->context = NULL;
    request->shared = NULL;
    if (options == NULL) { /* else fry_request_options writes all of them */
        /* In two: for one more word than this, the compiler calls for a string instruction. */
        memset(&request->options, 0, __builtin_offsetof(ferry_op_options, scope));
        request->options.scope = NULL;
    }
    fry_refusal why = fry_engine_refusal_open(engine);
    if (fry_likely(why == FRY_TAKEN) && options != NULL)
        why = fry_request_options(request, engine, options);
    if (fry_unlikely(why != FRY_TAKEN))
        return why;
    request->context = fry_context_get(engine);
    return fry_likely(request->context != NULL) ? FRY_TAKEN : FRY_REFUSED_NO_MEMORY;
}

/* For a future that is not static. */
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
        if (fry_future_status(future) == FERRY_OK) { /* the quiet future of a refused operation */
            if (nature == FRY_EDGE_ANY)
                node->flags |= FRY_NODE_SATISFIED;
            return FRY_TAKEN;
        }
        /* The future has failed already: this node fails too, in its place in program order. */
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
        needed = found + 1; /* some have resolved at this moment */
    fry_edges_refused(request->engine, needed, needed - found);
}

void fry_request_lacks_uses(const fry_request *request, uint64_t rows)
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
        if (access->mode < FERRY_READ || access->mode > FERRY_READ_WRITE)
            return fry_refuse(engine, FRY_REFUSED_ACCESS_MODE);
        why = access->mode == FERRY_READ ? fry_span_check_open(engine, &access->span)
                                         : fry_span_check_written(engine, &access->span);
        if (why != FRY_TAKEN)
            return why;
        fry_rows row = fry_row_of(access->span);
        why = fry_node_add_use(engine, request->context, node, &row, access->mode);
    }
    if (fry_unlikely(why == FRY_REFUSED_MAX_ACCESSES))
        fry_request_lacks_uses(request, 0);
    return why;
}

static const char *kept_label(ferry_engine *engine, const char *label)
{
    const char *kept = fry_intern_text(&engine->labels, &engine->memory, label);
    return kept != NULL ? kept : "(a label that was not kept)";
}

static __attribute__((cold, noinline)) void take_flags(const fry_request *request, fry_node *node)
{
    const ferry_op_options *options = &request->options;
    node->is_untracked = (options->flags & FERRY_OP_UNTRACKED) != 0;
    if ((options->flags & FERRY_OP_LABEL_COPIED) != 0 && options->label != NULL)
        node->label = kept_label(request->engine, options->label);
}

static void set_deadline(fry_node *node, int64_t deadline_ns)
{
    if (deadline_ns < DEADLINE_MIN_NS)
        deadline_ns = DEADLINE_MIN_NS;
    if ((node->flags & FRY_NODE_HAS_DEADLINE) != 0 && node->deadline.when_ns <= deadline_ns)
        return;
    node->flags |= FRY_NODE_HAS_DEADLINE;
    node->deadline.when_ns = deadline_ns;
}

static fry_refusal add_note(const fry_request *request, fry_node *node)
{
    ferry_queue *queue = request->options.queue;
    ferry_scope *scope = request->options.scope;
    fry_refusal why =
        fry_node_add_note(request->engine, request->context, node, request->options.user_data);
    if (why == FRY_TAKEN && scope != NULL)
        why = fry_scope_expect(scope, node);
    if (why == FRY_TAKEN && scope != NULL && scope->deadline_ns != 0)
        set_deadline(node, scope->deadline_ns);
    return why == FRY_TAKEN && queue != NULL ? fry_completion_expect(queue, node) : why;
}

/* Makes a node with all that the options say; NULL: *why_p says why. */
fry_node *fry_request_node(fry_request *request, ferry_op_kind kind, fry_refusal *why_p)
{
    const ferry_op_options *options = &request->options, *shared = request->shared;
    fry_node *node = fry_node_create(request->engine, request->context, kind, why_p);
    if (fry_unlikely(node == NULL))
        return NULL;
    node->label = options->label;
    if (fry_unlikely(options->flags != 0))
        take_flags(request, node);
    if (fry_unlikely(options->priority != FERRY_PRIORITY_NORMAL))
        node->priority = (unsigned)options->priority & 3u;
    if (options->deadline_ns != 0)
        set_deadline(node, options->deadline_ns);
    fry_refusal why = FRY_TAKEN;
    if (fry_unlikely((options->user_data | (uintptr_t)options->queue | (uintptr_t)options->scope) !=
                     0))
        why = add_note(request, node);
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
    fry_node_discard_new(request->engine, request->context, node);
    *why_p = why;
    return NULL;
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

/* ---- refused writes ---- */

/* If the reason is lack of room, or a cancelled scope, marks what the operation would have written
 * as not valid. */
ferry_future *fry_request_refuse_writes(const fry_request *request, ferry_engine *engine,
                                        fry_refusal why, const fry_row_span *dst)
{
    if (!fry_refusal_poisons(why) || (request->options.flags & FERRY_OP_UNTRACKED) != 0)
        return fry_refusal_future(engine, why);
    fry_context *context = request->context; /* NULL: there was no memory for a context */
    if (dst != NULL && !fry_rows_are_empty(dst) && fry_rows_check(engine, dst) == FRY_TAKEN) {
        fry_rows rows = fry_rows_of(dst);
        fry_refused_write(engine, context, &rows, why);
    }
    for (size_t i = 0; i < request->options.access_count; i++) {
        const ferry_access *access = &request->options.accesses[i];
        if ((access->mode & FERRY_WRITE) != 0 && access->span.size_bytes != 0 &&
            fry_span_check(engine, &access->span) == FRY_TAKEN) {
            fry_rows row = fry_row_of(access->span);
            fry_refused_write(engine, context, &row, why);
        }
    }
    fry_late_call_ends(engine);
    return fry_refusal_future(engine, why);
}
