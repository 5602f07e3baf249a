/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches: a post of all of a plan with a graph is an operation that stands in a stream of the
 * graph's device like a copy, and for which the stream begins the graph where it would copy. So it
 * waits on the device for what stands on devices, and others wait on the device for it. Nothing
 * else knows.
 */
#include "engine/plans/launch.h"

#include "engine/engine.h"
#include "engine/graph/buffer.h"
#include "engine/graph/kind.h"
#include "engine/graph/lane.h"
#include "engine/graph/node.h"
#include "engine/ground/ground.h"
#include "engine/ground/refusal.h"

#include <string.h>

/* ---- its posts ---- */

fry_node *fry_plan_launch_node(fry_request *request, ferry_plan *plan, fry_refusal *why_p)
{
    fry_node *node = fry_request_node(request, (ferry_op_kind)FRY_OP_LAUNCH, why_p);
    if (node == NULL)
        return NULL;
    ferry_buffer *dst = plan->joined[0].dst.buffer, *src = plan->joined[0].src.buffer;
    (void)fry_fetch_add(&plan->references, 1);
    node->has_rows = true;
    node->op.copy = (fry_copy_op){.dst = dst,
                                  .src = src,
                                  .graph = plan->graph,
                                  .owner = plan,
                                  .size_bytes = plan->size_bytes};
    fry_node_init_spans(node);
    node->op.copy.stand.lane = fry_lane_between(dst, src, SIZE_MAX);
    return node;
}

static void discard(ferry_engine *engine, fry_context *context, fry_node *node)
{
    (void)engine, (void)context;
    fry_plan_unretain(node->op.copy.owner);
}

static void freed(ferry_engine *engine, fry_node *node)
{
    (void)engine;
    fry_plan_unretain(node->op.copy.owner);
}

static void start(fry_turn *turn, fry_node *node)
{
    fry_lane_issue(turn, node);
}

static bool stop(fry_node *node)
{
    fry_lane_cancel(node);
    return true;
}

static uint64_t moved_bytes(const fry_node *node, uint64_t *flow_p)
{
    (void)flow_p;
    return node->op.copy.size_bytes;
}

static void moved_by_way(const fry_node *node, uint64_t *bytes_by_way)
{
    const ferry_plan *plan = node->op.copy.owner;
    memcpy(bytes_by_way, plan->by_way, sizeof plan->by_way);
}

static void describe(const ferry_engine *engine, const fry_node *node, fry_kind_view *view)
{
    (void)engine;
    view->has_size = true;
    view->size_bytes = node->op.copy.size_bytes;
    view->shown_stream = node->op.copy.stand.lane->stream;
    if (node->state == FRY_NODE_READY)
        view->reason = fry_node_holding(node) != 0 ? FRY_DUMP_OPERATIONS : FRY_DUMP_STREAM;
}

const fry_op_kind fry_kind_launch = {
    .traits = FRY_KIND_ON_STREAM | FRY_KIND_STAYS,
    .discard = discard,
    .free = freed,
    .start = start,
    .stop = stop,
    .moved_bytes = moved_bytes,
    .moved_by_way = moved_by_way,
    .describe = describe,
};

/* ---- the program's streams ---- */

static ferry_status give_error(const ferry_engine *engine, const fry_fault *fault,
                               ferry_error **error_p)
{
    if (error_p == NULL)
        return fault->status;
    fry_error *error =
        fry_error_create(&engine->memory, fault, NULL, "a plan on a stream: %s", fault->message);
    *error_p = &error->public_;
    return fault->status;
}

static ferry_status refuse(fry_refusal why, ferry_error **error_p)
{
    if (error_p != NULL)
        *error_p = &fry_error_retain(fry_refusal_error(why))->public_;
    return fry_refusal_status(why);
}

static fry_refusal check(const ferry_plan *plan, const ferry_device *device)
{
    ferry_engine *engine = plan->engine;
    if (device == NULL)
        return fry_refuse(engine, FRY_REFUSED_PLAN_DEVICE);
    if (plan->graph == NULL)
        return fry_refuse(engine, FRY_REFUSED_PLAN_NO_GRAPH);
    if (device->device != plan->device)
        return fry_refuse(engine, FRY_REFUSED_PLAN_DEVICE);
    for (size_t i = 0; i < plan->buffer_count; i++) {
        if (fry_buffer_is_barred(plan->buffers[i]))
            return fry_refused_barred(engine);
    }
    return FRY_TAKEN;
}

ferry_status ferry_plan_enqueue(ferry_plan *plan, ferry_device *device, void *native_stream,
                                ferry_error **error_p)
{
    fry_request request;
    if (plan == NULL)
        return refuse(FRY_REFUSED_PLAN_NULL, error_p);
    fry_refusal why = fry_request_open(&request, plan->engine, NULL);
    if (why == FRY_TAKEN)
        why = check(plan, device);
    if (why != FRY_TAKEN)
        return refuse(why, error_p);
    fry_fault fault = {.rank = -1};
    ferry_status status =
        plan->device->ops->graph_enqueue(plan->device, plan->graph, native_stream, &fault);
    return status == FERRY_OK ? FERRY_OK : give_error(plan->engine, &fault, error_p);
}
