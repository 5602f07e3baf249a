/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/plans/plan.h"

#include "base/options.h"
#include "engine/engine.h"
#include "engine/graph/buffer.h"
#include "engine/ground/context.h"
#include "engine/ground/ground.h"
#include "engine/ground/refusal.h"
#include "engine/loop/late.h"
#include "engine/plans/graph.h"
#include "engine/plans/post_memory.h"

#include <string.h>

#define OP_BYTES_MAX 4096
#define INLINE_BYTES_MAX ((uint64_t)256 << 10) /* copied in one hold of the baton */

/* ---- giving back ---- */

static void free_steps(ferry_plan *plan)
{
    const fry_memory *memory = &plan->engine->memory;
    for (uint32_t i = 0; i < plan->count; i++)
        fry_plan_step_drop(plan->engine, &plan->steps[i]);
    if (plan->joined != plan->steps)
        fry_free(memory, plan->joined, plan->count * sizeof *plan->joined);
    fry_free(memory, plan->steps, plan->count * sizeof *plan->steps);
}

static void plan_free(ferry_plan *plan)
{
    const fry_memory *memory = &plan->engine->memory;
    fry_plan_posts_free(plan);
    fry_plan_graph_free(plan);
    fry_plan_order_free(memory, &plan->each);
    fry_plan_order_free(memory, &plan->whole);
    fry_free(memory, plan->buffers, plan->touch.count * sizeof(*plan->buffers));
    fry_plan_touch_free(memory, &plan->touch);
    free_steps(plan);
    fry_free(memory, plan, sizeof *plan);
}

void fry_plan_unretain(ferry_plan *plan)
{
    if (fry_fetch_sub(&plan->references, 1) == 1)
        plan_free(plan);
}

/* ---- making ---- */

/* False: the operation has bytes that this version does not know. */
static bool read_op(const char *given, size_t op_size_bytes, ferry_op *op)
{
    memset(op, 0, sizeof *op);
    memcpy(op, given, op_size_bytes < sizeof *op ? op_size_bytes : sizeof *op);
    for (size_t i = sizeof *op; i < op_size_bytes; i++) {
        if (given[i] != 0)
            return false;
    }
    return true;
}

/* *at_p: the operation that is refused. */
static fry_refusal keep_steps(ferry_plan *plan, fry_request *request, const char *ops,
                              size_t op_size_bytes, uint32_t count, uint32_t *at_p)
{
    if (count == 0)
        return FRY_TAKEN;
    plan->steps =
        fry_alloc_raw(&plan->engine->memory, count * sizeof *plan->steps, _Alignof(fry_plan_step));
    if (plan->steps == NULL)
        return FRY_REFUSED_NO_MEMORY;
    plan->joined = plan->steps;
    fry_refusal why = FRY_TAKEN;
    uint32_t kept = 0;
    for (; kept < count && why == FRY_TAKEN; kept++) {
        ferry_op op;
        why = read_op(ops + kept * op_size_bytes, op_size_bytes, &op)
                  ? fry_plan_step_keep(request, &op, &plan->steps[kept])
                  : fry_refuse(plan->engine, FRY_REFUSED_BATCH_OP_TAIL);
    }
    if (why == FRY_TAKEN) {
        plan->count = plan->joined_count = count;
        return FRY_TAKEN;
    }
    *at_p = kept - 1;
    for (uint32_t i = 0; i + 1 < kept; i++)
        fry_plan_step_drop(plan->engine, &plan->steps[i]);
    fry_free(&plan->engine->memory, plan->steps, count * sizeof *plan->steps);
    plan->steps = plan->joined = NULL;
    return why;
}

/* Joins neighbours, in a table of their own if there are any. */
static fry_refusal join_steps(ferry_plan *plan)
{
    bool has_any = false;
    for (uint32_t i = 1; i < plan->count && !has_any; i++) {
        fry_plan_step both = plan->steps[i - 1];
        has_any = fry_plan_step_join(&both, &plan->steps[i]);
    }
    if (!has_any)
        return FRY_TAKEN;
    fry_plan_step *parts =
        fry_alloc_raw(&plan->engine->memory, plan->count * sizeof *parts, _Alignof(fry_plan_step));
    if (parts == NULL)
        return FRY_REFUSED_NO_MEMORY;
    uint32_t count = 0;
    for (uint32_t i = 0; i < plan->count; i++) {
        if (count == 0 || !fry_plan_step_join(&parts[count - 1], &plan->steps[i]))
            parts[count++] = plan->steps[i];
    }
    plan->joined = parts;
    plan->joined_count = count;
    return FRY_TAKEN;
}

static fry_refusal order_steps(ferry_plan *plan)
{
    const fry_memory *memory = &plan->engine->memory;
    fry_refusal why =
        fry_plan_order_make(memory, plan->joined, plan->joined_count, &plan->whole, &plan->touch);
    if (why == FRY_TAKEN && plan->joined != plan->steps)
        why = fry_plan_order_make(memory, plan->steps, plan->count, &plan->each, NULL);
    return why == FRY_REFUSED_PLAN_OVERLAPS ? fry_refuse(plan->engine, why) : why;
}

/* The accesses are by buffer. */
static fry_refusal list_buffers(ferry_plan *plan)
{
    size_t count = plan->touch.count;
    if (count == 0)
        return FRY_TAKEN;
    plan->buffers = fry_alloc_raw(&plan->engine->memory, count * sizeof(*plan->buffers),
                                  _Alignof(ferry_buffer *));
    if (plan->buffers == NULL)
        return FRY_REFUSED_NO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        ferry_buffer *buffer = plan->touch.accesses[i].span.buffer;
        if (i == 0 || buffer != plan->touch.accesses[i - 1].span.buffer)
            plan->buffers[plan->buffer_count++] = buffer;
    }
    return FRY_TAKEN;
}

static void look_at_steps(ferry_plan *plan)
{
    plan->is_inline = true;
    for (uint32_t i = 0; i < plan->joined_count; i++) {
        const fry_plan_step *step = &plan->joined[i];
        plan->size_bytes += fry_plan_step_bytes(step);
        plan->is_inline = plan->is_inline && fry_plan_step_is_inline(plan->engine, step);
    }
    plan->is_inline = plan->is_inline && plan->size_bytes <= INLINE_BYTES_MAX;
}

static fry_refusal make(ferry_plan *plan, fry_request *request, const char *ops,
                        size_t op_size_bytes, uint32_t count, uint32_t *at_p)
{
    fry_refusal why = keep_steps(plan, request, ops, op_size_bytes, count, at_p);
    if (why == FRY_TAKEN)
        why = join_steps(plan);
    if (why == FRY_TAKEN)
        why = order_steps(plan);
    if (why == FRY_TAKEN)
        why = list_buffers(plan);
    if (why == FRY_TAKEN)
        look_at_steps(plan);
    if (why == FRY_TAKEN)
        why = fry_plan_graph_make(plan);
    return why;
}

static fry_refusal check(const ferry_op *ops, size_t op_size_bytes, size_t count,
                         ferry_plan *const *plan_p)
{
    if (plan_p == NULL)
        return FRY_REFUSED_PLAN_NULL;
    if (ops == NULL && count != 0)
        return FRY_REFUSED_BATCH_ARRAY;
    if (count > FERRY_PLAN_OPS_MAX)
        return FRY_REFUSED_BATCH_COUNT;
    if (op_size_bytes < sizeof(ferry_op_kind) || op_size_bytes > OP_BYTES_MAX)
        return FRY_REFUSED_BATCH_OP_SIZE;
    return FRY_TAKEN;
}

#define NO_OP UINT32_MAX

static ferry_status refuse(const ferry_engine *engine, fry_refusal why, uint32_t at,
                           ferry_error **error_p)
{
    ferry_status status = fry_refusal_status(why);
    if (error_p == NULL)
        return status;
    const fry_fault fault = {.status = status, .rank = -1};
    const char *text = fry_refusal_error(why)->public_.message;
    fry_error *error =
        at == NO_OP || engine == NULL
            ? fry_error_retain(fry_refusal_error(why))
            : fry_error_create(&engine->memory, &fault, NULL, "operation %u: %s", at, text);
    *error_p = &error->public_;
    return status;
}

ferry_status ferry_plan_create(ferry_engine *engine, const ferry_op *ops, size_t op_size_bytes,
                               size_t count, ferry_plan **plan_p, ferry_error **error_p)
{
    fry_request request;
    uint32_t at = NO_OP;
    fry_refusal why = fry_request_open(&request, engine, NULL);
    if (why == FRY_TAKEN) {
        fry_refusal wrong = check(ops, op_size_bytes, count, plan_p);
        why = wrong != FRY_TAKEN ? fry_refuse(engine, wrong) : why;
    }
    ferry_plan *plan = why == FRY_TAKEN ? fry_alloc(&engine->memory, sizeof *plan, 64) : NULL;
    if (plan == NULL)
        return refuse(engine, why == FRY_TAKEN ? FRY_REFUSED_NO_MEMORY : why, NO_OP, error_p);
    plan->engine = engine;
    plan->references = 1;
    why = make(plan, &request, (const char *)ops, op_size_bytes, (uint32_t)count, &at);
    if (why == FRY_TAKEN) {
        fry_engine_retain(engine); /* until its release */
        *plan_p = plan;
    } else {
        plan_free(plan);
    }
    fry_late_call_ends(engine);
    return why == FRY_TAKEN ? FERRY_OK : refuse(engine, why, at, error_p);
}

/* ---- the handle ---- */

ferry_status ferry_plan_describe(const ferry_plan *plan, ferry_plan_info *info)
{
    if (plan == NULL || info == NULL)
        return FERRY_E_INVALID;
    const ferry_plan_info own = {
        .struct_size = sizeof own,
        .op_count = plan->count,
        .part_count = plan->joined_count,
        .wait_count = plan->whole.wait_count,
        .access_count = plan->touch.count,
        .size_bytes = plan->size_bytes,
        .graph_count = plan->graph != NULL ? plan->joined_count : 0,
    };
    return fry_struct_hand_out(info, &own, sizeof own);
}

void ferry_plan_release(ferry_plan *plan)
{
    if (plan == NULL || fry_engine_check(plan->engine) != FERRY_OK)
        return;
    ferry_engine *engine = plan->engine;
    fry_plan_unretain(plan);
    fry_late_call_ends(engine);
    fry_engine_unretain(engine, 1); /* perhaps the last */
}
