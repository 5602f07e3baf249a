/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/played_plan.h"

#include <stdio.h>

ferry_span played_span(const played_plan *played, plan_span span)
{
    return (ferry_span){played->buffers[span.buffer], span.offset, span.size};
}

void played_hold_after(played_plan *played, uint32_t index, uint32_t count)
{
    played_op *live = &played->ops[index];
    for (; live->planned_after_count < count; live->planned_after_count++) {
        uint32_t earlier = played->plan.ops[index].after[live->planned_after_count];
        if (!played->outcomes[earlier].is_absent)
            live->after[live->after_count++] = ferry_future_retain(played->ops[earlier].future);
    }
}

static ferry_op_options options_of(const played_plan *played, uint32_t index,
                                   ferry_access *accesses)
{
    const plan_op *op = &played->plan.ops[index];
    const played_op *live = &played->ops[index];
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    for (uint32_t i = 0; i < op->access_count; i++)
        accesses[i] =
            (ferry_access){played_span(played, op->accesses[i].span), op->accesses[i].mode};
    options.accesses = accesses;
    options.access_count = op->access_count;
    options.after = live->after;
    options.after_count = live->after_count;
    options.deadline_ns = played->deadline_ns(op);
    options.label = plan_kind_name(op->kind);
    options.priority = op->priority;
    return options;
}

static ferry_future *submit_view(const played_plan *played, const played_op *live, plan_kind kind)
{
    if (live->after_count == 0)
        return NULL;
    if (kind == PLAN_ANY)
        return ferry_future_any(played->engine, live->after, live->after_count);
    return kind == PLAN_ISSUED ? ferry_future_issued(live->after[0])
                               : ferry_future_quiet(live->after[0]);
}

ferry_future *played_submit(played_plan *played, uint32_t index)
{
    const plan_op *op = &played->plan.ops[index];
    played_op *live = &played->ops[index];
    plan_outcome *seen = &played->outcomes[index];
    ferry_engine *engine = played->engine;
    ferry_access accesses[PLAN_ACCESSES_MAX];
    ferry_op_options options = options_of(played, index, accesses);
    ferry_span dst = played_span(played, op->dst), src = played_span(played, op->src);
    switch (op->kind) {
    case PLAN_COPY:
        return op->row_count == 1 ? ferry_copy(engine, dst, src, &options)
                                  : ferry_copy_rows(engine, dst, op->dst_pitch, src, op->src_pitch,
                                                    op->row_count, &options);
    case PLAN_CALL:
        return ferry_call(engine, played->executor_of(op->executor), played->call, live, &options);
    case PLAN_NOP:
        return ferry_nop(engine, &options);
    case PLAN_DEFINE:
        seen->status = ferry_buffer_define(dst, live->after_count != 0 ? live->after[0] : NULL);
        return NULL;
    case PLAN_PROMISE:
        seen->status = ferry_promise_create(engine, &live->promise);
        return seen->status == FERRY_OK ? ferry_promise_future(live->promise) : NULL;
    case PLAN_ALL:
        return ferry_future_all(engine, live->after, live->after_count);
    case PLAN_DRAIN:
        return ferry_engine_drain(engine);
    default:
        return submit_view(played, live, op->kind);
    }
}

static ferry_op member_of(const played_plan *played, played_op *live,
                          const ferry_op_options *options)
{
    const plan_op *op = &played->plan.ops[live->index];
    ferry_op member = {.kind = FERRY_OP_NOP, .options = options};
    if (op->kind == PLAN_COPY) {
        member.kind = FERRY_OP_COPY;
        member.dst = played_span(played, op->dst);
        member.src = played_span(played, op->src);
        member.row_count = op->row_count;
        member.dst_pitch_bytes = op->dst_pitch;
        member.src_pitch_bytes = op->src_pitch;
    } else if (op->kind == PLAN_CALL) {
        member.kind = FERRY_OP_CALL;
        member.executor = played->executor_of(op->executor);
        member.fn = played->call;
        member.arg = live;
    }
    return member;
}

void played_submit_batch(played_plan *played, uint32_t first, uint32_t index)
{
    const plan_op *batch = &played->plan.ops[index];
    ferry_op ops[PLAN_BATCH_MAX];
    ferry_op_options options[PLAN_BATCH_MAX];
    ferry_access accesses[PLAN_BATCH_MAX][PLAN_ACCESSES_MAX];
    ferry_future *each[PLAN_BATCH_MAX];
    for (uint32_t i = 0; i < batch->member_count; i++) {
        const plan_op *op = &played->plan.ops[first + i];
        played->ops[first + i].index = first + i;
        played_hold_after(played, first + i, op->own_after_count);
        options[i] = options_of(played, first + i, accesses[i]);
        if (op->has_batch_deadline)
            options[i].deadline_ns = 0;
        played_hold_after(played, first + i, op->after_count);
        ops[i] = member_of(played, &played->ops[first + i], &options[i]);
    }
    bool is_blind = batch->member_count != 0 && played->plan.ops[first].is_blind;
    ferry_op_options shared = options_of(played, index, NULL);
    played->ops[index].future = ferry_batch(played->engine, ops, sizeof ops[0], batch->member_count,
                                            is_blind ? NULL : each, &shared);
    for (uint32_t i = 0; i < batch->member_count; i++)
        played->ops[first + i].future = is_blind ? NULL : each[i];
}

void played_collect(played_plan *played, uint32_t index)
{
    played_op *live = &played->ops[index];
    plan_outcome *seen = &played->outcomes[index];
    if (live->future != NULL) {
        seen->status = ferry_future_poll(live->future);
        seen->id = ferry_future_id(live->future);
        const ferry_error *error = ferry_future_error(live->future);
        if (error != NULL) {
            seen->error_status = error->status;
            seen->error_op = error->op;
            seen->cause_status = error->cause != NULL ? error->cause->status : FERRY_OK;
            seen->cause_op = error->cause != NULL ? error->cause->op : 0;
        }
        ferry_future_release(live->future);
    }
    for (uint32_t i = 0; i < live->after_count; i++)
        ferry_future_release(live->after[i]);
    live->future = NULL;
    live->after_count = 0;
}

static bool keeps_mine(const played_plan *played, uint32_t buffer)
{
    for (uint32_t at = 0; at < played->plan.buffers[buffer].size_bytes; at++) {
        if (played->memory[buffer][at] != random_plan_mine(&played->plan, buffer, at))
            return false;
    }
    return true;
}

bool played_check(const played_plan *played, graph_oracle *oracle)
{
    const random_plan *plan = &played->plan;
    for (uint32_t i = plan->buffer_count; i < plan->buffer_count + plan->private_count; i++) {
        if (played->is_mine[i] && !keeps_mine(played, i)) {
            oracle->op = plan->op_count;
            (void)snprintf(oracle->why, sizeof oracle->why,
                           "buffer %u was touched after it was taken back", i);
            return false;
        }
    }
    if (!graph_oracle_check_outcomes(oracle, plan, played->outcomes))
        return false;
    for (uint32_t i = 0; i < plan->buffer_count; i++) {
        if (!graph_oracle_check_bytes(oracle, i, played->memory[i])) {
            oracle->op = plan->op_count;
            return false;
        }
    }
    return true;
}
