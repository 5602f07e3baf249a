/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lanes: an engine's view of a device's stream. What stands in a stream fires in order, so each
 * lane keeps its nodes in a queue and only the head is looked at: a tick costs O(busy lanes).
 */
#include "engine/graph.h"

#define STREAMS_MAX 65535 /* that index of a trace record means none */

static void lane_mark_busy(ferry_engine *engine, fry_lane *lane)
{
    if (!lane->busy) {
        lane->busy = true;
        lane->next_busy = engine->busy;
        engine->busy = lane;
    }
}

static void set_rows(fry_copy *copy, const fry_node *node)
{
    const fry_use *src = node->uses, *dst = src->next;
    copy->row_count = src->row_count > dst->row_count ? src->row_count : dst->row_count;
    copy->src_pitch_bytes = src->pitch_bytes;
    copy->dst_pitch_bytes = dst->pitch_bytes;
}

/* What a plain copy has no use for is not even zeroed. */
static inline void plain_copy_of(fry_copy *copy, const fry_copy_op *op)
{
    copy->dst = (char *)op->dst->data + op->dst_offset;
    copy->src = (const char *)op->src->data + op->src_offset;
    copy->size_bytes = op->size_bytes;
    copy->row_count = 1;
}

static inline void copy_of(fry_copy *copy, const fry_node *node)
{
    plain_copy_of(copy, &node->op.copy);
    if (fry_unlikely(node->has_rows))
        set_rows(copy, node);
}

bool fry_lane_copy_inline(const fry_node *node)
{
    fry_stream *stream = node->lane->stream;
    fry_copy copy;
    copy_of(&copy, node);
    return stream->device->ops->copy_inline(stream, &copy);
}

bool fry_lane_copy_plain_inline(const fry_lane *lane, const fry_copy_op *op)
{
    fry_copy copy;
    plain_copy_of(&copy, op);
    return lane->stream->device->ops->copy_inline(lane->stream, &copy);
}

bool fry_lane_can_overtake(const fry_node *from, const fry_node *to)
{
    if (from->state != FRY_NODE_ISSUED || from->kind != FERRY_OP_COPY ||
        to->kind != FERRY_OP_COPY || to->lane == NULL || to->unconfirmed == UINT16_MAX)
        return false;
    if (from->lane == to->lane)
        return true;
    return to->device_waits < FRY_STREAM_WAITS - 1 &&
           to->lane->stream->device->ops->can_wait(to->lane->stream, from->lane->stream);
}

/* Events the device must wait for; one a stream, the latest. Order within the stream is implied. */
static size_t collect_waits(const fry_node *node, fry_event waits[FRY_STREAM_WAITS])
{
    size_t count = 0;
    for (const fry_edge *edge = node->edges; edge != NULL; edge = edge->sibling) {
        if (edge->state != FRY_EDGE_ON_DEVICE || edge->from->lane == node->lane)
            continue;
        fry_stream *stream = edge->from->lane->stream;
        uint64_t sequence = edge->from->sequence;
        size_t at = 0;
        while (at < count && waits[at].stream != stream)
            at++;
        if (at == count)
            waits[count++] = (fry_event){stream, sequence};
        else if (waits[at].sequence < sequence)
            waits[at].sequence = sequence;
    }
    return count;
}

void fry_lane_issue(fry_turn *turn, fry_node *node)
{
    fry_lane *lane = node->lane;
    fry_stream *stream = lane->stream;
    const fry_device_ops *ops = stream->device->ops;
    fry_event waits[FRY_STREAM_WAITS];
    fry_copy copy;
    copy_of(&copy, node);
    size_t wait_count = node->device_waits != 0 ? collect_waits(node, waits) : 0;

    if (lane->in_flight == 0 && wait_count == 0 && ops->copy_inline(stream, &copy)) {
        fry_graph_issued(turn, node);
        fry_trace(turn->engine, node, FERRY_TRACE_FIRED, 0);
        fry_graph_complete(turn, node);
        return;
    }
    node->flags |= FRY_NODE_QUEUED;
    if (lane->in_flight >= turn->engine->stream_depth ||
        !fry_ready_queue_is_empty(&lane->backlog)) {
        fry_ready_queue_push(&lane->backlog, &node->link, fry_node_priority(node));
        return;
    }
    fry_native_error native;
    ferry_status status = ops->copy(stream, &copy, waits, wait_count, &node->sequence, &native);
    if (status != FERRY_OK) {
        node->flags &= (uint16_t)~FRY_NODE_QUEUED;
        fry_graph_fail(turn, node, status, NULL, false);
        return;
    }
    lane->in_flight++;
    fry_queue_push(&lane->issued, &node->link);
    lane_mark_busy(turn->engine, lane);
    fry_graph_issued(turn, node);
}

void fry_lane_cancel(fry_node *node)
{
    fry_stream *stream = node->lane->stream;
    stream->device->ops->cancel(stream, node->sequence);
}

/* Room in the stream again: issues what waits for it. */
static void lane_refill(fry_turn *turn, fry_lane *lane)
{
    fry_ready_queue waiting = lane->backlog;
    lane->backlog = (fry_ready_queue){0};
    fry_link *item;
    while (lane->in_flight < turn->engine->stream_depth &&
           (item = fry_ready_queue_pop(&waiting)) != NULL)
        fry_graph_step(turn, FRY_CONTAINER(item, fry_node, link));
    fry_ready_queue_append(&waiting, &lane->backlog);
    lane->backlog = waiting;
}

static size_t lane_poll(fry_turn *turn, fry_lane *lane)
{
    fry_stream *stream = lane->stream;
    ferry_status status = FERRY_OK;
    fry_native_error native;
    uint64_t fired = stream->device->ops->fired(stream, &status, &native);
    size_t count = 0;
    fry_link *item;
    while ((item = lane->issued.first) != NULL) {
        fry_node *node = FRY_CONTAINER(item, fry_node, link);
        if (node->sequence > fired)
            break;
        (void)fry_queue_pop(&lane->issued);
        node->flags &= (uint16_t)~FRY_NODE_QUEUED;
        lane->in_flight--;
        count++;
        if (fry_unlikely(fry_load_relaxed(&turn->engine->tracing) != 0))
            fry_trace_emit_begun(turn->engine, node,
                                 stream->device->ops->begun_ns(stream, node->sequence));
        fry_trace(turn->engine, node, FERRY_TRACE_FIRED, 0);
        fry_graph_complete(turn, node);
    }
    if (status != FERRY_OK && item != NULL) {
        /* Struck, perhaps still at its memory: it fails now and is not quiet. */
        fry_node *node = FRY_CONTAINER(item, fry_node, link);
        if (node->state < FRY_NODE_RESOLVED) {
            if (turn->is_loop && turn->engine->flight_records != 0)
                turn->engine->flight_due = node->future.id;
            fry_error_facts facts = {.status = status, .op = node->future.id, .label = node->label};
            fry_graph_fail(turn, node, status,
                           fry_error_create(&turn->engine->memory, &facts, NULL), false);
        }
    }
    if (!fry_ready_queue_is_empty(&lane->backlog))
        lane_refill(turn, lane);
    return count;
}

size_t fry_lanes_poll(fry_turn *turn)
{
    size_t count = 0;
    fry_lane **at = &turn->engine->busy;
    while (*at != NULL) {
        fry_lane *lane = *at;
        count += lane_poll(turn, lane);
        if (lane->in_flight == 0 && fry_ready_queue_is_empty(&lane->backlog)) {
            lane->busy = false;
            *at = lane->next_busy;
        } else {
            at = &lane->next_busy;
        }
    }
    return count;
}

/* ---- devices ---- */

/*
 * What stands below the device's place in the table is read by any thread as soon as device_count
 * says so; the store that says it comes last (release), and the table itself never moves.
 */
ferry_status fry_device_attach(ferry_engine *engine, fry_device *device, ferry_device **handle_p)
{
    uint32_t index = engine->device_count, count = 0;
    while (device->ops->stream_at(device, count) != NULL)
        count++;
    if (index == FRY_DEVICES_MAX || count > STREAMS_MAX - engine->stream_count)
        return FERRY_E_AGAIN;
    fry_lane *lanes = NULL;
    if (count != 0) {
        lanes = fry_alloc(&engine->memory, count * sizeof *lanes, FRY_CACHE_LINE);
        if (lanes == NULL)
            return FERRY_E_NO_MEMORY;
    }
    device->index = (uint16_t)index;
    for (uint32_t i = 0; i < count; i++) {
        fry_stream *stream = device->ops->stream_at(device, i);
        stream->index = (uint16_t)(engine->stream_count + i);
        stream->lane = &lanes[i];
        lanes[i].stream = stream;
    }
    engine->stream_count += count;
    engine->devices[index] =
        (ferry_device){.device = device, .engine = engine, .lanes = lanes, .lane_count = count};
    if (handle_p != NULL)
        *handle_p = &engine->devices[index];
    fry_store_release(&engine->device_count, index + 1); /* pairs with fry_device_count */
    return FERRY_OK;
}

void fry_devices_detach(ferry_engine *engine)
{
    for (uint32_t i = 0; i < engine->device_count; i++) {
        ferry_device *device = &engine->devices[i];
        if (device->lanes != NULL)
            fry_free(&engine->memory, device->lanes, device->lane_count * sizeof *device->lanes);
    }
}
