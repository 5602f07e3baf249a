/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/plans/step.h"

#include "engine/api/call.h"
#include "engine/api/call_async.h"
#include "engine/api/copy.h"
#include "engine/api/notice.h"
#include "engine/api/reach.h"
#include "engine/api/request.h"
#include "engine/api/send.h"
#include "engine/api/spans.h"
#include "engine/engine.h"
#include "engine/graph/buffer.h"
#include "engine/graph/node.h"
#include "engine/ground/refusal.h"
#include "engine/messages/groups.h"
#include "engine/messages/membership.h"
#include "engine/messages/window.h"

#include <string.h>

/* ---- keeping one ---- */

/* The operation's own fields; what its kind ignores is not looked at. */
static void read_op(fry_plan_step *step, const ferry_op *op)
{
    const ferry_span none = {0};
    bool reads = op->kind == FERRY_OP_COPY || op->kind == FERRY_OP_SEND || op->kind == FERRY_OP_PUT;
    bool writes =
        op->kind == FERRY_OP_COPY || op->kind == FERRY_OP_RECV || op->kind == FERRY_OP_GET;
    *step = (fry_plan_step){
        .kind = (uint8_t)op->kind, .dst = writes ? op->dst : none, .src = reads ? op->src : none};
    if (op->kind == FERRY_OP_COPY) {
        step->rows.count = op->row_count > 1 ? op->row_count : 1;
        step->rows.dst_pitch_bytes = op->dst_pitch_bytes;
        step->rows.src_pitch_bytes = op->src_pitch_bytes;
    } else if (op->kind == FERRY_OP_GET || op->kind == FERRY_OP_PUT) {
        step->reach.window = op->window;
        step->reach.offset = op->window_offset;
    } else if (fry_plan_step_is_message(step)) {
        step->message.group = op->group;
        step->message.tag = op->tag;
        step->message.peer = op->peer;
    } else if (op->kind == FERRY_OP_NOTICE) {
        step->notice.group = op->group;
        step->notice.peer = op->peer;
        step->notice.data = (void *)(uintptr_t)op->data;
        step->notice.size_bytes = op->data_bytes;
    } else {
        step->call.executor = op->executor;
        step->call.fn = op->fn;
        step->call.begin = op->begin;
        step->call.cancel = op->cancel;
        step->call.arg = op->arg;
    }
}

static fry_refusal check_kind(ferry_engine *engine, const ferry_op *op)
{
    switch (op->kind) {
    case FERRY_OP_COPY:
    case FERRY_OP_CALL:
    case FERRY_OP_ASYNC:
    case FERRY_OP_NOP:
    case FERRY_OP_SEND:
    case FERRY_OP_GET:
    case FERRY_OP_PUT:
    case FERRY_OP_NOTICE:
        return FRY_TAKEN;
    case FERRY_OP_RECV:
        if (op->peer == FERRY_RANK_ANY || (op->group != NULL && op->group->any != NULL))
            break;
        return FRY_TAKEN;
    default:
        break;
    }
    return fry_refuse(engine, FRY_REFUSED_PLAN_OP_KIND);
}

static fry_refusal check_options(ferry_engine *engine, const ferry_op_options *options)
{
    bool is_of_posts = options->after_count != 0 || options->deadline_ns != 0 ||
                       options->user_data != 0 || options->queue != NULL || options->scope != NULL;
    return is_of_posts ? fry_refuse(engine, FRY_REFUSED_PLAN_OP_OPTIONS) : FRY_TAKEN;
}

/*
 * Makes the step's node once, as a post will, and gives it back: so an operation is checked by the
 * same lines wherever it comes from. It also keeps a label that is to be copied.
 */
static fry_refusal try_node(fry_request *request, fry_plan_step *step)
{
    fry_refusal why = FRY_TAKEN;
    const ferry_op_options options = request->options;
    step->label = options.label;
    fry_node *node = fry_plan_step_node(request, step, &why);
    request->options = options;
    if (node == NULL)
        return why;
    step->label = node->label;
    fry_node_discard(request->engine, request->context, node);
    return FRY_TAKEN;
}

/* Empty spans mean nothing. */
static fry_refusal keep_accesses(const fry_request *request, fry_plan_step *step)
{
    const ferry_op_options *options = &request->options;
    if (options->access_count == 0)
        return FRY_TAKEN;
    step->accesses =
        fry_alloc_raw(&request->engine->memory, options->access_count * sizeof *step->accesses,
                      _Alignof(ferry_access));
    if (step->accesses == NULL)
        return FRY_REFUSED_NO_MEMORY;
    memcpy(step->accesses, options->accesses, options->access_count * sizeof *step->accesses);
    step->access_count = (uint32_t)options->access_count;
    return FRY_TAKEN;
}

static void free_accesses(const ferry_engine *engine, fry_plan_step *step)
{
    fry_free(&engine->memory, step->accesses, step->access_count * sizeof *step->accesses);
}

static fry_refusal keep_data(const ferry_engine *engine, fry_plan_step *step)
{
    if (step->kind != FERRY_OP_NOTICE || step->notice.size_bytes == 0)
        return FRY_TAKEN;
    void *copy = fry_alloc_raw(&engine->memory, step->notice.size_bytes, 1);
    if (copy == NULL)
        return FRY_REFUSED_NO_MEMORY;
    memcpy(copy, step->notice.data, step->notice.size_bytes);
    step->notice.data = copy;
    return FRY_TAKEN;
}

static ferry_group *group_of(const fry_plan_step *step)
{
    if (fry_plan_step_is_message(step))
        return step->message.group;
    return step->kind == FERRY_OP_NOTICE ? step->notice.group : NULL;
}

static ferry_window *window_of(const fry_plan_step *step)
{
    return step->kind == FERRY_OP_GET || step->kind == FERRY_OP_PUT ? step->reach.window : NULL;
}

static void hold(const fry_plan_step *step)
{
    if (step->dst.buffer != NULL)
        fry_buffer_retain(step->dst.buffer);
    if (step->src.buffer != NULL)
        fry_buffer_retain(step->src.buffer);
    for (uint32_t i = 0; i < step->access_count; i++) {
        if (step->accesses[i].span.size_bytes != 0)
            fry_buffer_retain(step->accesses[i].span.buffer);
    }
    if (group_of(step) != NULL)
        fry_membership_retain(group_of(step));
    if (window_of(step) != NULL)
        fry_window_retain(window_of(step));
}

fry_refusal fry_plan_step_keep(fry_request *request, const ferry_op *op, fry_plan_step *step)
{
    ferry_engine *engine = request->engine;
    memset(&request->options, 0, sizeof request->options);
    fry_refusal why = check_kind(engine, op);
    if (why == FRY_TAKEN && op->options != NULL)
        why = fry_request_options(request, engine, op->options);
    if (why == FRY_TAKEN)
        why = check_options(engine, &request->options);
    if (why != FRY_TAKEN)
        return why;
    read_op(step, op);
    step->is_apart = (request->options.flags & FERRY_OP_UNTRACKED) != 0;
    step->priority = (int8_t)request->options.priority;
    why = try_node(request, step);
    if (step->dst.size_bytes == 0)
        step->dst.buffer = NULL;
    if (step->src.size_bytes == 0)
        step->src.buffer = NULL;
    if (why == FRY_TAKEN)
        why = keep_accesses(request, step);
    if (why == FRY_TAKEN && (why = keep_data(engine, step)) != FRY_TAKEN)
        free_accesses(engine, step);
    if (why == FRY_TAKEN)
        hold(step);
    return why;
}

void fry_plan_step_drop(ferry_engine *engine, fry_plan_step *step)
{
    if (step->dst.buffer != NULL)
        fry_buffer_unretain(step->dst.buffer);
    if (step->src.buffer != NULL)
        fry_buffer_unretain(step->src.buffer);
    for (uint32_t i = 0; i < step->access_count; i++) {
        if (step->accesses[i].span.size_bytes != 0)
            fry_buffer_unretain(step->accesses[i].span.buffer);
    }
    free_accesses(engine, step);
    if (step->kind == FERRY_OP_NOTICE && step->notice.size_bytes != 0)
        fry_free(&engine->memory, step->notice.data, step->notice.size_bytes);
    if (window_of(step) != NULL)
        fry_window_unretain(window_of(step));
    if (group_of(step) != NULL)
        fry_membership_unretain(group_of(step));
}

/* ---- its node ---- */

static fry_node *copy_node(fry_request *request, const fry_plan_step *step, fry_refusal *why_p)
{
    if (step->rows.count <= 1)
        return fry_request_copy(request, &step->dst, &step->src, why_p);
    fry_row_span dst = {step->dst, step->rows.dst_pitch_bytes, step->rows.count};
    fry_row_span src = {step->src, step->rows.src_pitch_bytes, step->rows.count};
    return fry_request_copy_rows(request, &dst, &src, why_p);
}

static fry_node *node_of(fry_request *request, const fry_plan_step *step, fry_refusal *why_p)
{
    switch ((ferry_op_kind)step->kind) {
    case FERRY_OP_COPY:
        return copy_node(request, step, why_p);
    case FERRY_OP_SEND:
        return fry_request_message(request, FERRY_OP_SEND, step->message.group, step->message.peer,
                                   step->message.tag, &step->src, why_p);
    case FERRY_OP_RECV:
        return fry_request_message(request, FERRY_OP_RECV, step->message.group, step->message.peer,
                                   step->message.tag, &step->dst, why_p);
    case FERRY_OP_GET:
        return fry_request_reach(request, FERRY_OP_GET, step->reach.window, step->reach.offset,
                                 &step->dst, why_p);
    case FERRY_OP_PUT:
        return fry_request_reach(request, FERRY_OP_PUT, step->reach.window, step->reach.offset,
                                 &step->src, why_p);
    case FERRY_OP_NOTICE:
        return fry_request_notice(request, step->notice.group, step->notice.peer, step->notice.data,
                                  step->notice.size_bytes, why_p);
    case FERRY_OP_CALL:
        return fry_request_call(request, step->call.executor, step->call.fn, step->call.arg, why_p);
    case FERRY_OP_ASYNC:
        return fry_request_call_async(request, step->call.executor, step->call.begin,
                                      step->call.cancel, step->call.arg, why_p);
    default:
        return fry_request_node(request, FERRY_OP_NOP, why_p);
    }
}

fry_node *fry_plan_step_node(fry_request *request, const fry_plan_step *step, fry_refusal *why_p)
{
    if (step->label != NULL)
        request->options.label = step->label;
    request->options.priority = (ferry_priority)step->priority;
    fry_node *node = node_of(request, step, why_p);
    if (node != NULL)
        node->is_untracked = true;
    return node;
}

/* ---- its spans ---- */

/* Of a side of a copy with rows that have gaps; 1: the rows are one span. */
static size_t row_count(const fry_plan_step *step, const ferry_span *first, size_t pitch_bytes)
{
    if (first->buffer == NULL)
        return 0;
    bool is_one = step->kind != FERRY_OP_COPY || pitch_bytes == first->size_bytes;
    return is_one ? 1 : step->rows.count;
}

static ferry_span row_at(const fry_plan_step *step, const ferry_span *first, size_t pitch_bytes,
                         size_t count, size_t index)
{
    ferry_span row = *first;
    if (count == 1 && step->kind == FERRY_OP_COPY)
        row.size_bytes *= step->rows.count;
    row.offset_bytes += index * pitch_bytes;
    return row;
}

bool fry_plan_step_access(const fry_plan_step *step, size_t index, ferry_access *access)
{
    if (step->is_apart)
        return false;
    bool is_copy = step->kind == FERRY_OP_COPY;
    size_t from_pitch = is_copy && step->rows.count > 1 ? step->rows.src_pitch_bytes : 0;
    size_t to_pitch = is_copy && step->rows.count > 1 ? step->rows.dst_pitch_bytes : 0;
    size_t read = row_count(step, &step->src, from_pitch);
    size_t written = row_count(step, &step->dst, to_pitch);
    if (index < read) {
        *access = (ferry_access){row_at(step, &step->src, from_pitch, read, index), FERRY_READ};
        return true;
    }
    index -= read;
    if (index < written) {
        *access = (ferry_access){row_at(step, &step->dst, to_pitch, written, index), FERRY_WRITE};
        return true;
    }
    index -= written;
    if (index >= step->access_count)
        return false;
    *access = step->accesses[index];
    return true;
}

uint64_t fry_plan_step_bytes(const fry_plan_step *step)
{
    if (step->kind == FERRY_OP_COPY)
        return (uint64_t)step->dst.size_bytes * step->rows.count;
    return step->kind == FERRY_OP_NOTICE ? step->notice.size_bytes
                                         : step->dst.size_bytes + step->src.size_bytes;
}

/* ---- joining neighbours ---- */

static bool touch(const ferry_span *first, const ferry_span *second)
{
    return first->buffer == second->buffer &&
           first->offset_bytes + first->size_bytes == second->offset_bytes;
}

static bool meet(const ferry_span *dst, const ferry_span *src)
{
    uintptr_t to = (uintptr_t)dst->buffer->data + dst->offset_bytes;
    uintptr_t from = (uintptr_t)src->buffer->data + src->offset_bytes;
    return to < from + src->size_bytes && from < to + dst->size_bytes;
}

static bool are_alike(const fry_plan_step *step, const fry_plan_step *next)
{
    return step->kind == next->kind && step->is_apart == next->is_apart &&
           step->priority == next->priority && step->label == next->label &&
           step->access_count == 0 && next->access_count == 0 && fry_plan_step_bytes(step) != 0 &&
           fry_plan_step_bytes(next) != 0;
}

bool fry_plan_step_join(fry_plan_step *step, const fry_plan_step *next)
{
    if (!fry_plan_step_ends_alone(step) || !are_alike(step, next))
        return false;
    fry_plan_step both = *step;
    both.dst.size_bytes += next->dst.size_bytes;
    both.src.size_bytes += next->src.size_bytes;
    if (step->kind == FERRY_OP_COPY) {
        /* The second may read what the first has written, as one copy would not. */
        if (step->rows.count != 1 || next->rows.count != 1 || !touch(&step->dst, &next->dst) ||
            !touch(&step->src, &next->src) || meet(&both.dst, &both.src))
            return false;
    } else if (step->reach.window != next->reach.window ||
               step->reach.offset + fry_plan_step_bytes(step) != next->reach.offset ||
               !(step->kind == FERRY_OP_GET ? touch(&step->dst, &next->dst)
                                            : touch(&step->src, &next->src))) {
        return false;
    }
    *step = both;
    return true;
}
