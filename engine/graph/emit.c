/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trace records: one for each transition of an operation, in the ring of the thread that makes it.
 */
#include "engine/graph/emit.h"

#include "engine/engine.h"
#include "engine/graph/kind.h"
#include "engine/graph/lane.h"
#include "engine/graph/node.h"
#include "engine/ground/context.h"
#include "engine/ground/ground.h"
#include "engine/ground/ring.h"
#include "engine/trace/bell.h"

#define NONE 65535

/* The baton's holder makes both transitions. */
static void nvtx_emit(ferry_engine *engine, const fry_node *node, ferry_trace_what what)
{
    if (what == FERRY_TRACE_ISSUED)
        fry_nvtx_start(engine->nvtx, node->future.id,
                       fry_node_label(node) != NULL
                           ? fry_node_label(node)
                           : ferry_op_kind_name((ferry_op_kind)fry_node_shown_kind(node)));
    else if (what == FERRY_TRACE_RESOLVED)
        fry_nvtx_end(engine->nvtx, node->future.id);
}

static void emit(ferry_engine *engine, const fry_node *node, ferry_trace_what what,
                 uint64_t waited_for, int64_t when_ns)
{
    uint32_t sinks = fry_load_relaxed(&engine->tracing);
    if (node->kind == FRY_OP_JOIN)
        return;
    if (fry_unlikely((sinks & FRY_SINK_NVTX) != 0))
        nvtx_emit(engine, node, what);
    if ((sinks & FRY_SINKS_WITH_RINGS) == 0)
        return;
    fry_context *context = fry_context_get(engine);
    fry_trace_ring *ring = context != NULL ? fry_ring_of(context) : NULL;
    if (fry_unlikely(ring == NULL)) {
        (void)fry_fetch_add(&engine->unrecorded, 1);
        return;
    }
    uint64_t flow = node->future.id;
    const fry_op_kind *kind = fry_kind(engine, node);
    uint64_t size_bytes = kind->moved_bytes != NULL ? kind->moved_bytes(node, &flow) : 0;
    ferry_status status =
        what == FERRY_TRACE_RESOLVED ? fry_future_status(&node->future) : FERRY_PENDING;
    bool has_lane = fry_node_is_on_stream(node) && node->op.stand.lane != NULL;
    const fry_stream *stream = has_lane ? node->op.stand.lane->stream : NULL;
    ferry_trace_record record = {
        .when_ns = when_ns,
        .op = node->future.id,
        .flow = flow,
        .size_bytes = size_bytes,
        .label = fry_node_label(node),
        .status = status,
        .device = has_lane ? stream->device->index : NONE,
        .stream = has_lane ? stream->index : NONE,
        .what = (uint8_t)what,
        .way = status == FERRY_OK ? node->way : 0,
        .kind = fry_node_shown_kind(node),
        .thread = context->number,
    };
    if (what == FERRY_TRACE_READY)
        record.waited_for = waited_for;
    else
        record.user_data = fry_node_user_data(node);
    uint64_t position = fry_trace_ring_write(ring, &record);
    if ((sinks & FRY_SINK_FILE) != 0)
        fry_bell_tell(position, ring->mask);
}

void fry_emit_now(ferry_engine *engine, const fry_node *node, ferry_trace_what what,
                  uint64_t waited_for)
{
    emit(engine, node, what, waited_for, fry_clock_now_ns(&engine->clock));
}

void fry_emit_begun(ferry_engine *engine, const fry_node *node, int64_t begun_ns)
{
    if (begun_ns != 0)
        emit(engine, node, FERRY_TRACE_BEGUN, 0, begun_ns);
}
