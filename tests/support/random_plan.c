/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/random_plan.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

static uint64_t mix(uint64_t value)
{
    value += 0x9e3779b97f4a7c15u;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
    return value ^ (value >> 31);
}

static uint32_t below(random_plan *plan, uint32_t bound)
{
    plan->random = mix(plan->random);
    return (uint32_t)((plan->random >> 32) * bound >> 32);
}

static bool chance(random_plan *plan, uint32_t percent)
{
    return below(plan, 100) < percent;
}

/* ---- the machine ---- */

static void make_buffers(random_plan *plan)
{
    plan->buffer_count = 2 + below(plan, PLAN_SHARED_MAX - 1);
    bool has_large = chance(plan, 8);
    bool is_mixed = plan->gpu_count != 0 && chance(plan, 60);
    for (uint32_t i = 0; i < plan->buffer_count; i++) {
        plan_buffer *buffer = &plan->buffers[i];
        uint32_t size = chance(plan, 60) ? 8 + below(plan, 250) : 2000 + below(plan, 14000);
        if (has_large && i < 2)
            size = 100000 + below(plan, 100000);
        buffer->size_bytes = size;
        buffer->device = below(plan, plan->device_count);
        if (is_mixed && chance(plan, 40))
            buffer->place = chance(plan, 50) ? PLAN_PINNED : PLAN_PAGEABLE;
        buffer->is_wrapped = buffer->place != PLAN_PINNED && chance(plan, 40);
        buffer->is_released_early = chance(plan, 50);
    }
}

/* A buffer for one batch alone. */
static uint32_t add_private_buffer(random_plan *plan)
{
    uint32_t index = plan->buffer_count + plan->private_count++;
    plan->buffers[index].size_bytes = chance(plan, 50) ? 200 : 20000;
    plan->buffers[index].device = below(plan, plan->device_count);
    return index;
}

static void make_engine(random_plan *plan)
{
    static const uint32_t inline_bytes[] = {1, 64, 64, 64, 1024, 4096};
    plan->device_count = 2 + below(plan, 4);
    plan->worker_count = 1 + below(plan, 3);
    plan->is_embedded = chance(plan, 50);
    plan->inline_copy_bytes = inline_bytes[below(plan, 6)];
    plan->stream_depth = chance(plan, 50) ? 1 + below(plan, 4) : 0;
    plan->max_nodes = chance(plan, 15) ? 20 + below(plan, 40) : 0;
    plan->flight_records = chance(plan, 20) ? 64 : 0;
    plan->spin_ns = chance(plan, 20) ? 20000 : 0;
    plan->is_cut_short = chance(plan, 12);
    plan->is_executor_lifo = chance(plan, 50);
    plan->is_engine_first = chance(plan, 50);
    if (plan->gpu_count == 0)
        return;
    plan->parked_streams = 1 + below(plan, 3);
    plan->staging_bytes = (64u << below(plan, 3)) << 10;
    plan->asks_events = chance(plan, 30);
}

/* ---- spans ---- */

static plan_span span_of_size(random_plan *plan, uint32_t buffer, uint32_t size)
{
    uint32_t room = plan->buffers[buffer].size_bytes - size;
    return (plan_span){buffer, room == 0 ? 0 : below(plan, room + 1), size};
}

static uint32_t random_size(random_plan *plan, uint32_t size_bytes)
{
    switch (below(plan, 8)) {
    case 0:
        return size_bytes;
    case 1:
        return size_bytes / 2;
    case 2:
        return 1 + below(plan, size_bytes > 16 ? 16 : size_bytes);
    default:
        return 1 + below(plan, size_bytes);
    }
}

static plan_span random_span(random_plan *plan)
{
    uint32_t buffer = below(plan, plan->buffer_count);
    return span_of_size(plan, buffer, random_size(plan, plan->buffers[buffer].size_bytes));
}

static bool spans_meet(plan_span left, plan_span right)
{
    return left.buffer == right.buffer && left.offset < right.offset + right.size &&
           right.offset < left.offset + left.size;
}

plan_span plan_dst_row(const plan_op *op, uint32_t row)
{
    return (plan_span){op->dst.buffer, op->dst.offset + row * op->dst_pitch, op->dst.size};
}

plan_span plan_src_row(const plan_op *op, uint32_t row)
{
    return (plan_span){op->src.buffer, op->src.offset + row * op->src_pitch, op->src.size};
}

static bool rows_meet(const plan_op *op)
{
    for (uint32_t i = 0; i < op->row_count; i++) {
        for (uint32_t j = 0; j < op->row_count; j++) {
            if (spans_meet(plan_dst_row(op, i), plan_src_row(op, j)))
                return true;
        }
    }
    return false;
}

/* The first of so many rows; where they are many they leave others room between them. */
static plan_span first_row(random_plan *plan, const plan_op *op, uint32_t buffer, uint32_t size,
                           uint32_t *pitch_p)
{
    uint32_t gaps = op->row_count - 1;
    uint32_t most = (plan->buffers[buffer].size_bytes - size) / gaps;
    uint32_t pitch = *pitch_p;
    if (pitch == 0 || pitch > most)
        pitch = chance(plan, 20) ? size : size + below(plan, most - size + 1);
    *pitch_p = pitch;
    plan_span span = span_of_size(plan, buffer, gaps * pitch + size);
    span.size = size;
    return span;
}

static void make_rows(random_plan *plan, plan_op *op)
{
    op->row_count = 2 + below(plan, chance(plan, 50) ? 4 : PLAN_ROWS_MAX - 1);
    do {
        uint32_t from = below(plan, plan->buffer_count);
        uint32_t to = chance(plan, 40) ? from : below(plan, plan->buffer_count);
        uint32_t room = plan->buffers[from].size_bytes;
        if (plan->buffers[to].size_bytes < room)
            room = plan->buffers[to].size_bytes;
        if (op->row_count > room)
            op->row_count = room;
        uint32_t most = room / op->row_count;
        uint32_t size = random_size(plan, chance(plan, 70) && most > 3 ? most / 3 : most);
        op->src_pitch = 0;
        op->src = first_row(plan, op, from, size, &op->src_pitch);
        op->dst_pitch = chance(plan, 60) ? op->src_pitch : 0;
        op->dst = first_row(plan, op, to, size, &op->dst_pitch);
    } while (rows_meet(op));
}

static void make_copy_spans(random_plan *plan, plan_op *op)
{
    if (chance(plan, 35)) {
        make_rows(plan, op);
        return;
    }
    op->row_count = 1;
    do {
        uint32_t from = below(plan, plan->buffer_count), to = below(plan, plan->buffer_count);
        uint32_t most = plan->buffers[from].size_bytes;
        if (plan->buffers[to].size_bytes < most)
            most = plan->buffers[to].size_bytes;
        uint32_t size = chance(plan, 2) ? 0 : random_size(plan, most);
        op->src = span_of_size(plan, from, size);
        op->dst = span_of_size(plan, to, size);
    } while (spans_meet(op->src, op->dst));
}

static void make_accesses(random_plan *plan, plan_op *op, uint32_t most)
{
    op->access_count = below(plan, most + 1);
    for (uint32_t i = 0; i < op->access_count; i++) {
        op->accesses[i].span = random_span(plan);
        op->accesses[i].mode = (ferry_access_mode)(FERRY_READ + below(plan, 3));
    }
}

/* ---- operations ---- */

static ferry_status random_failure(random_plan *plan)
{
    static const ferry_status failures[] = {FERRY_E_FAILED, FERRY_E_DEVICE, FERRY_E_NOT_FOUND,
                                            FERRY_E_INVALID};
    return failures[below(plan, 4)];
}

/* An earlier op that has a future. */
static bool pick_earlier(random_plan *plan, uint32_t op, uint32_t *earlier_p)
{
    uint32_t window = plan->max_nodes != 0 || chance(plan, 70) ? PLAN_WINDOW : op;
    uint32_t first = op > window ? op - window : 0;
    if (op == first)
        return false;
    uint32_t earlier = first + below(plan, op - first);
    *earlier_p = earlier;
    return plan->ops[earlier].kind != PLAN_DEFINE && !plan->ops[earlier].is_blind;
}

/* Some that come before `bound`. */
static void add_after_before(random_plan *plan, plan_op *to, uint32_t bound, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t earlier;
        if (pick_earlier(plan, bound, &earlier))
            to->after[to->after_count++] = earlier;
    }
}

static void add_after(random_plan *plan, uint32_t op, uint32_t count)
{
    add_after_before(plan, &plan->ops[op], op, count);
}

static plan_kind random_kind(random_plan *plan)
{
    uint32_t dice = below(plan, 100);
    if (dice < 36)
        return PLAN_COPY;
    if (dice < 62)
        return PLAN_CALL;
    if (dice < 70)
        return PLAN_NOP;
    if (dice < 75)
        return PLAN_DEFINE;
    if (dice < 85)
        return PLAN_PROMISE;
    static const plan_kind rest[] = {PLAN_ALL,    PLAN_ALL,   PLAN_ANY,  PLAN_ANY,
                                     PLAN_ISSUED, PLAN_QUIET, PLAN_DRAIN};
    return rest[below(plan, 7)];
}

static ferry_priority random_priority(random_plan *plan)
{
    return chance(plan, 40) ? (ferry_priority)((int)below(plan, 3) - 1) : FERRY_PRIORITY_NORMAL;
}

static void make_deadline(random_plan *plan, plan_op *op)
{
    if (!chance(plan, 5))
        return;
    op->deadline = (plan_deadline)(1 + below(plan, 3));
    op->extra_ns = below(plan, 200000);
}

static void make_op(random_plan *plan, uint32_t index)
{
    plan_op *op = &plan->ops[index];
    op->kind = random_kind(plan);
    if (op->kind == PLAN_DEFINE && plan->is_cut_short)
        op->kind = PLAN_NOP; /* what shutdown made of a definition cannot be asked */
    bool fails = chance(plan, 7);
    op->priority = random_priority(plan);
    op->executor = (plan_executor)below(plan, 3);
    switch (op->kind) {
    case PLAN_COPY:
        make_copy_spans(plan, op);
        add_after(plan, index, chance(plan, 30) ? 1 + below(plan, 2) : 0);
        if (chance(plan, 6))
            make_accesses(plan, op, 2);
        make_deadline(plan, op);
        break;
    case PLAN_CALL:
        make_accesses(plan, op, 3);
        op->result = fails ? random_failure(plan) : FERRY_OK;
        add_after(plan, index, chance(plan, 40) ? 1 + below(plan, 3) : 0);
        make_deadline(plan, op);
        break;
    case PLAN_NOP:
        make_accesses(plan, op, 2);
        add_after(plan, index, below(plan, 4));
        make_deadline(plan, op);
        break;
    case PLAN_DEFINE:
        op->dst = random_span(plan);
        add_after(plan, index, below(plan, 2));
        break;
    case PLAN_PROMISE:
        op->result = chance(plan, 15) ? random_failure(plan) : FERRY_OK;
        op->is_dropped = chance(plan, 10);
        break;
    case PLAN_ALL:
        add_after(plan, index, below(plan, PLAN_AFTER_MAX + 1));
        break;
    case PLAN_ANY:
        add_after(plan, index, 1 + below(plan, PLAN_AFTER_MAX));
        break;
    case PLAN_ISSUED:
    case PLAN_QUIET:
        add_after(plan, index, 1);
        break;
    case PLAN_DRAIN:
    case PLAN_BATCH: /* make_batch; make_outside */
    case PLAN_EVENT:
    case PLAN_OUTSIDE_WRITE:
    case PLAN_OUTSIDE_READ:
        break;
    }
    bool needs_one = op->kind == PLAN_ANY || op->kind == PLAN_ISSUED || op->kind == PLAN_QUIET;
    if (needs_one && op->after_count == 0)
        op->kind = PLAN_NOP;
    op->has_waiter = op->kind != PLAN_DEFINE && chance(plan, 20);
    op->waiter_executor = (plan_executor)below(plan, 3);
}

/* ---- the program's own work on GPUs ---- */

/* A copy just before that the program can read the destination of. */
static bool is_readable(const random_plan *plan, uint32_t index)
{
    const plan_op *copy = &plan->ops[index - 1];
    return copy->kind == PLAN_COPY && copy->batch == 0 && copy->dst.size != 0 &&
           plan->buffers[copy->dst.buffer].place == PLAN_ON_DEVICE;
}

static void make_outside_span(random_plan *plan, plan_op *op)
{
    op->dst = random_span(plan);
    if (op->dst.size > PLAN_OUTSIDE_BYTES_MAX)
        op->dst.size = PLAN_OUTSIDE_BYTES_MAX;
}

/*
 * What the program does goes on when operations are cut short or refused, and then who comes later
 * would not wait for it: there it only records events.
 */
static void make_outside(random_plan *plan, uint32_t index)
{
    plan_op *op = &plan->ops[index];
    bool is_event = plan->is_cut_short || plan->max_nodes != 0 || chance(plan, 40);
    op->kind = PLAN_EVENT;
    op->executor = (plan_executor)below(plan, 3);
    if (!is_event && index > 0 && chance(plan, 70) && is_readable(plan, index)) {
        op->kind = PLAN_OUTSIDE_READ;
        op->dst = plan->ops[index - 1].dst;
        if (op->dst.size > PLAN_OUTSIDE_BYTES_MAX)
            op->dst.size = PLAN_OUTSIDE_BYTES_MAX;
    } else if (!is_event) {
        make_outside_span(plan, op);
        op->is_tried_at_once = chance(plan, 50);
        if (plan->buffers[op->dst.buffer].place == PLAN_ON_DEVICE)
            op->kind = PLAN_OUTSIDE_WRITE;
    }
    op->is_gated = op->kind == PLAN_EVENT && chance(plan, 60);
    uint32_t gpus = plan->gpu_count < plan->device_count ? plan->gpu_count : plan->device_count;
    op->gpu = op->kind == PLAN_EVENT ? below(plan, gpus)
                                     : plan->buffers[op->dst.buffer].device % plan->gpu_count;
    op->stream = below(plan, 3);
    op->has_waiter = chance(plan, 20);
    op->waiter_executor = (plan_executor)below(plan, 3);
}

/* ---- batches ---- */

/* What it writes it writes to the batch's own buffer, where nobody else is. One without a future
 * reads nothing there: what became of those before it is not known. */
static void make_private(random_plan *plan, plan_op *op, const plan_op *batch)
{
    uint32_t size = plan->buffers[batch->private_buffer].size_bytes;
    op->private_buffer = batch->private_buffer;
    op->is_taken_back = true;
    if (op->kind == PLAN_COPY) {
        op->row_count = 1;
        if (op->src.size > size)
            op->src.size = size;
        op->dst = span_of_size(plan, batch->private_buffer, op->src.size);
    }
    for (uint32_t i = 0; i < op->access_count; i++) {
        plan_access *access = &op->accesses[i];
        if ((access->mode & FERRY_WRITE) == 0)
            continue;
        access->span = span_of_size(plan, batch->private_buffer, random_size(plan, size));
        if (op->is_blind)
            access->mode = FERRY_WRITE;
    }
}

static void make_member(random_plan *plan, uint32_t index, uint32_t first, uint32_t batch_index)
{
    plan_op *op = &plan->ops[index];
    const plan_op *batch = &plan->ops[batch_index];
    uint32_t dice = below(plan, 10);
    op->kind = dice < 5 ? PLAN_COPY : dice < 8 ? PLAN_CALL : PLAN_NOP;
    op->batch = batch_index;
    op->is_blind = batch->is_blind;
    op->executor = (plan_executor)below(plan, 3);
    op->priority = random_priority(plan);
    if (op->kind == PLAN_COPY)
        make_copy_spans(plan, op);
    if (op->kind != PLAN_COPY || chance(plan, 10))
        make_accesses(plan, op, 2);
    if (batch->is_taken_back && chance(plan, 30)) { /* it may be under way then */
        op->kind = PLAN_CALL;
        op->executor = PLAN_OWN_THREAD;
        op->access_count = 1;
        op->accesses[0] = (plan_access){random_span(plan), FERRY_WRITE};
    }
    if (batch->is_taken_back)
        make_private(plan, op, batch);
    if (op->kind == PLAN_CALL && chance(plan, 7))
        op->result = random_failure(plan);
    add_after_before(plan, op, first, chance(plan, 30) ? 1 + below(plan, 2) : 0);
    op->own_after_count = op->after_count;
    for (uint32_t i = 0; i < batch->after_count; i++)
        op->after[op->after_count++] = batch->after[i];
    if (!op->is_blind)
        make_deadline(plan, op);
    else if (chance(plan, 10))
        op->deadline = PLAN_FAR;
    if (op->deadline == PLAN_NO_DEADLINE && batch->deadline != PLAN_NO_DEADLINE) {
        op->has_batch_deadline = true;
        op->deadline = batch->deadline;
    }
    op->has_waiter = !op->is_blind && chance(plan, 15);
    op->waiter_executor = (plan_executor)below(plan, 3);
}

/* Ops from `first` on and, behind them, the batch they are in; returns its index. What became of an
 * op without a future must follow from the plan. */
static uint32_t make_batch(random_plan *plan, uint32_t first)
{
    uint32_t count = below(plan, PLAN_BATCH_MAX + 1);
    if (first + count >= plan->op_count)
        count = plan->op_count - first - 1;
    uint32_t index = first + count;
    plan_op *batch = &plan->ops[index];
    batch->kind = PLAN_BATCH;
    batch->member_count = count;
    batch->priority = random_priority(plan);
    batch->is_blind = !plan->is_cut_short && plan->max_nodes == 0 && chance(plan, 40);
    if (!plan->is_cut_short && plan->private_count < PLAN_PRIVATE_MAX && chance(plan, 30)) {
        batch->is_taken_back = true;
        batch->private_buffer = add_private_buffer(plan);
    }
    bool waits = chance(plan, batch->is_taken_back ? 50 : 30);
    add_after_before(plan, batch, first, waits ? 1 + below(plan, 2) : 0);
    if (!batch->is_blind && chance(plan, 50))
        make_deadline(plan, batch);
    for (uint32_t i = first; i < index; i++)
        make_member(plan, i, first, index);
    batch->is_blind = false; /* it has a future itself */
    batch->has_waiter = chance(plan, 20);
    batch->waiter_executor = (plan_executor)below(plan, 3);
    return index;
}

/* ---- steps ---- */

static void add_step(random_plan *plan, plan_action action, uint32_t op, int64_t extra_ns)
{
    plan->steps[plan->step_count++] = (plan_step){action, op, extra_ns};
}

/* Who reads outside relies on the event alone to keep writers away; and what becomes of an op
 * without a future must follow from the plan. */
static bool may_be_cancelled(const random_plan *plan, uint32_t index)
{
    const plan_op *op = &plan->ops[index];
    if (op->kind == PLAN_OUTSIDE_READ)
        return false;
    return op->member_count == 0 || !plan->ops[index - 1].is_blind || op->is_taken_back;
}

/* A batch's ops with it. */
static void mark_cancelled(random_plan *plan, uint32_t index)
{
    for (uint32_t i = index - plan->ops[index].member_count; i <= index; i++)
        plan->ops[i].is_cancelled = true;
}

static void take_back(random_plan *plan, uint32_t index)
{
    bool cancels = chance(plan, 70);
    if (cancels)
        mark_cancelled(plan, index);
    add_step(plan, PLAN_TAKE_BACK, index, cancels);
}

/* Promises, gates, and batches to be taken back. */
typedef struct open_ops {
    uint32_t ops[PLAN_OPS_MAX];
    uint32_t count;
} open_ops;

static void end_some(random_plan *plan, open_ops *open, plan_action action)
{
    uint32_t index = below(plan, open->count);
    if (action == PLAN_TAKE_BACK)
        take_back(plan, open->ops[index]);
    else
        add_step(plan, action, open->ops[index], 0);
    open->ops[index] = open->ops[--open->count];
}

static void make_steps(random_plan *plan, uint32_t submitted, open_ops *open, open_ops *gates,
                       open_ops *batches)
{
    uint32_t target;
    if (plan->ops[submitted].kind == PLAN_PROMISE)
        open->ops[open->count++] = submitted;
    if (plan->ops[submitted].is_gated)
        gates->ops[gates->count++] = submitted;
    if (open->count > 0 && (chance(plan, 10) || open->count > 6))
        end_some(plan, open, PLAN_END_PROMISE);
    if (gates->count > 0 && (chance(plan, 15) || gates->count > 5))
        end_some(plan, gates, PLAN_OPEN_GATE);
    if (plan->ops[submitted].kind == PLAN_BATCH && plan->ops[submitted].is_taken_back)
        batches->ops[batches->count++] = submitted;
    if (batches->count > 0 && chance(plan, 50))
        end_some(plan, batches, PLAN_TAKE_BACK);
    if (chance(plan, 4) && pick_earlier(plan, submitted + 1, &target) &&
        may_be_cancelled(plan, target)) {
        mark_cancelled(plan, target);
        add_step(plan, PLAN_CANCEL, target, 0);
    }
    if (chance(plan, 5) && pick_earlier(plan, submitted + 1, &target))
        add_step(plan, PLAN_REMOVE_WAITER, target, 0);
    if (chance(plan, 3) && pick_earlier(plan, submitted + 1, &target))
        add_step(plan, PLAN_WAIT, target, (int64_t)below(plan, 2) * 20000);
    if (chance(plan, 12))
        add_step(plan, PLAN_PROGRESS, 0, below(plan, 8));
}

void random_plan_make(random_plan *plan, uint64_t seed, uint32_t gpu_count)
{
    memset(plan, 0, sizeof *plan);
    plan->gpu_count = gpu_count;
    plan->seed = seed;
    plan->random = mix(seed);
    make_engine(plan);
    make_buffers(plan);
    plan->op_count = 10 + below(plan, chance(plan, 30) ? PLAN_OPS_MAX - 10 : 60);
    open_ops open = {.count = 0}, gates = {.count = 0}, batches = {.count = 0};
    for (uint32_t i = 0, last; i < plan->op_count; i = last + 1) {
        last = i;
        if (gpu_count != 0 && chance(plan, i > 0 && is_readable(plan, i) ? 40 : 14))
            make_outside(plan, i);
        else if (chance(plan, 10))
            last = make_batch(plan, i);
        else
            make_op(plan, i);
        add_step(plan, PLAN_SUBMIT, last, 0);
        for (uint32_t made = i; made <= last; made++)
            make_steps(plan, made, &open, &gates, &batches);
    }
    while (batches.count > 0)
        end_some(plan, &batches, PLAN_TAKE_BACK);
    while (open.count > 0 && !(plan->is_cut_short && chance(plan, 20)))
        end_some(plan, &open, PLAN_END_PROMISE);
}

/* ---- bytes ---- */

unsigned char random_plan_initial(const random_plan *plan, uint32_t buffer, uint32_t at)
{
    return (unsigned char)mix(plan->seed ^ ((uint64_t)(buffer + 1) << 32) ^ at);
}

unsigned char random_plan_outside(const random_plan *plan, uint32_t op, uint32_t at)
{
    return (unsigned char)mix(plan->seed ^ ((uint64_t)(op + 1) << 40) ^ at);
}

unsigned char random_plan_mine(const random_plan *plan, uint32_t buffer, uint32_t at)
{
    return (unsigned char)~random_plan_initial(plan, buffer, at);
}

static uint64_t hash_of_reads(const plan_op *op, unsigned char *const *memory)
{
    uint64_t hash = 0;
    for (uint32_t i = 0; i < op->access_count; i++) {
        const plan_access *access = &op->accesses[i];
        if ((access->mode & FERRY_READ) != 0)
            hash = XXH3_64bits_withSeed(memory[access->span.buffer] + access->span.offset,
                                        access->span.size, hash);
    }
    return hash;
}

void random_plan_transform(const random_plan *plan, uint32_t index, unsigned char *const *memory)
{
    const plan_op *op = &plan->ops[index];
    uint64_t hash = mix(hash_of_reads(op, memory) ^ plan->seed ^ index);
    for (uint32_t i = 0; i < op->access_count; i++) {
        const plan_access *access = &op->accesses[i];
        unsigned char *bytes = memory[access->span.buffer] + access->span.offset;
        if ((access->mode & FERRY_WRITE) == 0)
            continue;
        for (uint32_t at = 0; at < access->span.size; at++) {
            unsigned char add = (unsigned char)((hash >> (at % 8 * 8)) + at * 7 + i);
            bytes[at] = access->mode == FERRY_WRITE ? add : (unsigned char)(bytes[at] + add);
        }
    }
}

/* ---- showing ---- */

const char *plan_kind_name(plan_kind kind)
{
#define PLAN_KIND_NAME_(name, text) [name] = (text),
    static const char *const names[] = {PLAN_KIND_MAP(PLAN_KIND_NAME_)};
#undef PLAN_KIND_NAME_
    return names[kind];
}

uint32_t plan_op_accesses(const plan_op *op, plan_access accesses[PLAN_TOUCHED_MAX])
{
    uint32_t count = 0;
    for (uint32_t row = 0; op->kind == PLAN_COPY && row < op->row_count; row++) {
        accesses[count++] = (plan_access){plan_src_row(op, row), FERRY_READ};
        accesses[count++] = (plan_access){plan_dst_row(op, row), FERRY_WRITE};
    }
    if (op->kind == PLAN_DEFINE || op->kind == PLAN_OUTSIDE_WRITE || op->kind == PLAN_OUTSIDE_READ)
        accesses[count++] = (plan_access){op->dst, FERRY_WRITE};
    for (uint32_t i = 0; i < op->access_count; i++)
        accesses[count++] = op->accesses[i];
    return count;
}

void random_plan_print_op(const random_plan *plan, uint32_t index)
{
    static const char *const modes[] = {"?", "r", "w", "rw"};
    const plan_op *op = &plan->ops[index];
    plan_access accesses[PLAN_TOUCHED_MAX];
    uint32_t count = plan_op_accesses(op, accesses);
    (void)fprintf(stderr, "  op %u %s", index, plan_kind_name(op->kind));
    for (uint32_t i = 0; i < count; i++)
        (void)fprintf(stderr, " %s:%u[%u+%u]", modes[accesses[i].mode], accesses[i].span.buffer,
                      accesses[i].span.offset, accesses[i].span.size);
    for (uint32_t i = 0; i < op->after_count; i++)
        (void)fprintf(stderr, " after:%u", op->after[i]);
    if (op->batch != 0)
        (void)fprintf(stderr, " in:%u%s", op->batch, op->is_blind ? " blind" : "");
    (void)fprintf(stderr, "%s%s%s%s\n", op->is_cancelled ? " cancelled" : "",
                  op->is_taken_back ? " private" : "",
                  op->deadline != PLAN_NO_DEADLINE ? " deadline" : "",
                  op->result != FERRY_OK ? " fails" : "");
}
