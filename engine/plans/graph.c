/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan of copies that all stand on streams of one GPU is a graph of its device's (gpu/device.h),
 * which launch.c begins. The two branches of the graph have the copies to the host's memory, and
 * all others, each in the order of the array. That is more order than the spans ask for, but a copy
 * engine has it anyway.
 */
#include "engine/plans/graph.h"

#include "base/log.h"
#include "engine/engine.h"
#include "engine/graph/buffer.h"
#include "engine/graph/lane.h"
#include "engine/graph/tally.h"
#include "engine/ground/refusal.h"

/* ---- which plans ---- */

static bool is_second(const fry_plan_step *step)
{
    return step->dst.buffer->device->host_lane != NULL;
}

/* The device whose polled streams copy for the step; NULL: there is none. */
static fry_device *device_of(const fry_plan_step *step)
{
    if (step->kind != FERRY_OP_COPY || fry_plan_step_bytes(step) == 0)
        return NULL;
    ferry_buffer *dst = step->dst.buffer, *src = step->src.buffer;
    if (fry_buffers_are_hosts(dst, src))
        return NULL;
    const fry_stream *stream = fry_lane_between(dst, src, SIZE_MAX)->stream;
    return stream->is_polled && stream->device->ops->graph_make != NULL ? stream->device : NULL;
}

/* Not for one copy, which is one command already. */
static fry_device *device_of_all(const ferry_plan *plan)
{
    if (plan->joined_count < 2)
        return NULL;
    fry_device *device = device_of(&plan->joined[0]);
    for (uint32_t i = 1; i < plan->joined_count && device != NULL; i++) {
        if (device_of(&plan->joined[i]) != device ||
            plan->joined[i].priority != plan->joined[0].priority)
            device = NULL;
    }
    return device;
}

/* ---- making the graph ---- */

static void *address_of(const ferry_span *span)
{
    return (char *)span->buffer->data + span->offset_bytes;
}

static fry_copy copy_of(const fry_plan_step *step)
{
    bool has_rows = step->rows.count > 1;
    return (fry_copy){.dst = address_of(&step->dst),
                      .src = address_of(&step->src),
                      .size_bytes = fry_plan_step_bytes(step),
                      .row_count = has_rows ? step->rows.count : 1,
                      .dst_pitch_bytes = has_rows ? step->rows.dst_pitch_bytes : 0,
                      .src_pitch_bytes = has_rows ? step->rows.src_pitch_bytes : 0};
}

/* The copies in the plan's order; those that wait for one on the other branch say so. */
static void list_copies(const ferry_plan *plan, fry_graph_copy *copies)
{
    const fry_plan_order *order = &plan->whole;
    for (uint32_t i = 0; i < plan->joined_count; i++)
        copies[i] = (fry_graph_copy){.copy = copy_of(&plan->joined[i]),
                                     .is_second = is_second(&plan->joined[i])};
    for (uint32_t i = 0; i < plan->joined_count && order->waits != NULL; i++) {
        for (uint64_t j = order->first[i]; j < order->first[i + 1]; j++) {
            uint32_t next = order->next[j] & ~FRY_PLAN_AT_BEGIN;
            if (copies[next].is_second != copies[i].is_second)
                copies[next].is_behind = true;
        }
    }
}

static void say_why(const ferry_plan *plan, const fry_device *device, const fry_fault *fault)
{
    fry_log_line(&plan->engine->log, FERRY_LOG_WARNING,
                 "%s: a plan's copies will begin one by one: %s", device->name, fault->message);
}

static void be_launched(ferry_plan *plan, fry_device *device, fry_graph *graph)
{
    for (uint32_t i = 0; i < plan->joined_count; i++)
        plan->by_way[fry_tally_device_way(plan->joined[i].dst.buffer,
                                          plan->joined[i].src.buffer)] +=
            fry_plan_step_bytes(&plan->joined[i]);
    plan->graph = graph;
    plan->device = device;
}

fry_refusal fry_plan_graph_make(ferry_plan *plan)
{
    fry_device *device = device_of_all(plan);
    if (device == NULL)
        return FRY_TAKEN;
    const fry_memory *memory = &plan->engine->memory;
    size_t size_bytes = plan->joined_count * sizeof(fry_graph_copy);
    fry_graph_copy *copies = fry_alloc_raw(memory, size_bytes, _Alignof(fry_graph_copy));
    if (copies == NULL)
        return FRY_REFUSED_NO_MEMORY;
    list_copies(plan, copies);
    fry_graph *graph = NULL;
    fry_fault fault = {.rank = -1};
    ferry_status status =
        device->ops->graph_make(device, copies, plan->joined_count, &graph, &fault);
    fry_free(memory, copies, size_bytes);
    if (status == FERRY_OK)
        be_launched(plan, device, graph);
    else if (status == FERRY_E_NO_MEMORY)
        return FRY_REFUSED_NO_MEMORY;
    else
        say_why(plan, device, &fault);
    return FRY_TAKEN;
}

void fry_plan_graph_free(ferry_plan *plan)
{
    if (plan->graph != NULL)
        plan->device->ops->graph_free(plan->device, plan->graph);
}
