/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/outside_work.h"

#include <ferry/ferry.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLAGS_BYTES ((PLAN_OPS_MAX + 1) * sizeof(uint32_t)) /* the last is always 1 */

static void fail(const outside_op *op, const char *what, ferry_status status)
{
    (void)fprintf(stderr, "seed %llu op %u: %s: %s\n", (unsigned long long)op->plan->seed,
                  op->index, what, ferry_status_name(status));
    exit(1);
}

bool outside_work_open(outside_work *work, uint32_t gpu_count)
{
    memset(work, 0, sizeof *work);
    while (work->gpu_count < gpu_count && work->gpu_count < OUTSIDE_GPUS_MAX) {
        user_gpu *gpu = user_gpu_open((int)work->gpu_count);
        if (gpu == NULL)
            return false;
        work->gpus[work->gpu_count++] = gpu;
    }
    work->flags = user_gpu_alloc_pinned(work->gpus[0], FLAGS_BYTES);
    work->bytes =
        user_gpu_alloc_pinned(work->gpus[0], (size_t)PLAN_OPS_MAX * PLAN_OUTSIDE_BYTES_MAX);
    for (uint32_t i = 0; i < PLAN_OPS_MAX; i++)
        work->gates[i].flag = &work->flags[i];
    work->are_queues_shared = getenv("FERRY_EMU_QUEUES") != NULL;
    return true;
}

void outside_work_close(outside_work *work)
{
    if (work->gpu_count == 0)
        return;
    user_gpu_free_pinned(work->gpus[0], work->flags);
    user_gpu_free_pinned(work->gpus[0], work->bytes);
    for (uint32_t i = 0; i < work->gpu_count; i++)
        user_gpu_close(work->gpus[i]);
}

void outside_work_begin(outside_work *work)
{
    memset(work->flags, 0, FLAGS_BYTES);
    work->flags[PLAN_OPS_MAX] = 1;
}

static void open_gate(const outside_gate *gate)
{
    __atomic_store_n(gate->flag, 1, __ATOMIC_RELEASE);
}

void outside_open_gate(outside_work *work, uint32_t index)
{
    open_gate(&work->gates[index]);
}

void outside_open_gates(outside_work *work, const random_plan *plan)
{
    for (uint32_t i = 0; i < plan->op_count; i++) {
        if (plan->ops[i].is_gated)
            open_gate(&work->gates[i]);
    }
}

void outside_work_finish(outside_work *work)
{
    for (uint32_t i = 0; i < work->gpu_count; i++)
        user_gpu_finish(work->gpus[i]);
}

static ferry_status open_gate_call(void *arg)
{
    open_gate(arg);
    return FERRY_OK;
}

static user_gpu *gpu_of(const outside_work *work, const outside_op *op)
{
    return work->gpus[op->plan->ops[op->index].gpu];
}

static void wait_at_gate(const outside_work *work, const outside_op *op)
{
    user_gpu_wait_flag(gpu_of(work, op), op->plan->ops[op->index].stream,
                       work->gates[op->index].flag, 1);
}

static ferry_future *record(const outside_work *work, const outside_op *op)
{
    size_t stream = op->plan->ops[op->index].stream;
    return ferry_event_record(op->device, user_gpu_stream(gpu_of(work, op), stream));
}

static unsigned char *bytes_of(const outside_work *work, uint32_t index)
{
    return work->bytes + (size_t)index * PLAN_OUTSIDE_BYTES_MAX;
}

/*
 * Behind what stands in the stream, which may wait for what the program does later. A copy that
 * waits in a queue of the hardware's holds up the copies of other streams in it, ferry's too, and
 * so the program might wait for ever for one of those: docs/threading.md tells programs to have
 * more queues. Where they are few a kernel copies, as those have queues of their own.
 */
static void copy(const outside_work *work, const outside_op *op, void *dst, const void *src)
{
    user_gpu *gpu = gpu_of(work, op);
    size_t stream = op->plan->ops[op->index].stream;
    if (work->are_queues_shared)
        user_gpu_copy_behind(gpu, stream, &work->flags[PLAN_OPS_MAX], dst, src, op->dst.size_bytes);
    else
        user_gpu_copy(gpu, stream, dst, src, op->dst.size_bytes);
}

ferry_future *outside_event(outside_work *work, const outside_op *op)
{
    work->totals.events++;
    if (op->plan->ops[op->index].is_gated)
        wait_at_gate(work, op);
    return record(work, op);
}

/* Whether ferry has nothing to do with the span any more. */
static bool is_free(const outside_op *op)
{
    ferry_access access = {op->dst, FERRY_WRITE};
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.accesses = &access;
    options.access_count = 1;
    ferry_future *nop = ferry_nop(op->engine, &options);
    bool is_done = ferry_future_poll(nop) == FERRY_OK;
    ferry_future_release(nop);
    return is_done;
}

/*
 * The stream waits at a gate that a function opens: one that writes the span, and so begins when
 * all that ferry does there has ended. What comes later is kept away by the definition.
 */
static void wait_for_span(outside_work *work, const outside_op *op)
{
    ferry_access access = {op->dst, FERRY_WRITE};
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.accesses = &access;
    options.access_count = 1;
    options.label = "opens a gate";
    ferry_future_release(
        ferry_call(op->engine, op->executor, open_gate_call, &work->gates[op->index], &options));
}

ferry_future *outside_write(outside_work *work, const outside_op *op)
{
    const plan_op *planned = &op->plan->ops[op->index];
    unsigned char *bytes = bytes_of(work, op->index);
    for (uint32_t at = 0; at < planned->dst.size; at++)
        bytes[at] = random_plan_outside(op->plan, op->index, at);
    bool is_at_once = planned->is_tried_at_once && is_free(op);
    void *dst = (char *)ferry_buffer_data(op->dst.buffer) + op->dst.offset_bytes;
    if (is_at_once) {
        copy(work, op, dst, bytes);
    } else {
        wait_for_span(work, op);
        user_gpu_copy_behind(gpu_of(work, op), planned->stream, work->gates[op->index].flag, dst,
                             bytes, op->dst.size_bytes);
    }
    work->totals.writes_at_once += is_at_once;
    work->totals.gated_writes += !is_at_once;
    ferry_future *written = record(work, op);
    ferry_status status = ferry_buffer_define(op->dst, written);
    if (status != FERRY_OK)
        fail(op, "defining", status);
    return written;
}

ferry_future *outside_read(outside_work *work, const outside_op *op, ferry_future *copied)
{
    void *stream = user_gpu_stream(gpu_of(work, op), op->plan->ops[op->index].stream);
    ferry_status status = ferry_future_stream_wait(copied, op->device, stream);
    if (status == FERRY_E_NOT_ISSUED || status == FERRY_E_UNSUPPORTED) {
        work->totals.reads_refused++;
        return NULL;
    }
    if (status != FERRY_OK)
        fail(op, "waiting for the copy", status);
    /* If it failed before it began then those before it may still be at the span. */
    status = ferry_future_poll(copied);
    if (status != FERRY_OK && status != FERRY_PENDING)
        return NULL;
    work->totals.reads++;
    copy(work, op, bytes_of(work, op->index),
         (const char *)ferry_buffer_data(op->dst.buffer) + op->dst.offset_bytes);
    /* Whoever writes the span later waits until it has been read. An operation that reads it would
     * keep nobody away if the copy has failed, as then it fails too. */
    ferry_future *read = record(work, op);
    status = ferry_buffer_define(op->dst, read);
    if (status != FERRY_OK)
        fail(op, "defining", status);
    return read;
}

const unsigned char *outside_read_bytes(const outside_work *work, uint32_t index)
{
    return bytes_of(work, index);
}
