/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lanes: an engine's view of a device's stream. Operations in a stream fire in order, so each lane
 * keeps its nodes in a queue and only looks at the head: a tick costs O(busy lanes).
 */
#include "engine/graph/lane.h"

#include "engine/engine.h"
#include "engine/graph/buffer.h"
#include "engine/graph/emit.h"
#include "engine/graph/graph.h"
#include "engine/graph/look.h"
#include "engine/graph/node.h"
#include "engine/graph/park.h"
#include "engine/graph/ready_queue.h"
#include "engine/graph/turn.h"

#define STREAMS_MAX 65535 /* in a trace record that index means none */

static void set_rows(fry_copy *copy, const fry_node *node)
{
    if (node->kind == FRY_OP_LAUNCH) {
        copy->row_count = 0;
        copy->graph = node->op.copy.graph;
        return;
    }
    const fry_use *src = node->uses, *dst = src->next;
    copy->row_count = src->row_count > dst->row_count ? src->row_count : dst->row_count;
    copy->src_pitch_bytes = src->pitch_bytes;
    copy->dst_pitch_bytes = dst->pitch_bytes;
}

/* Fields that a plain copy does not use are not even zeroed. */
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
    fry_stream *stream = node->op.copy.stand.lane->stream;
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

/* ---- flushing ---- */

static void lane_copied_to(ferry_engine *engine, fry_lane *lane)
{
    if (lane->stream->device->ops->flush == NULL)
        return;
    lane->needs_flush = true;
    if (!lane->is_unflushed) {
        lane->is_unflushed = true;
        lane->next_unflushed = engine->unflushed;
        engine->unflushed = lane;
        engine->has_errands = true;
    }
}

void fry_lanes_flush(ferry_engine *engine)
{
    fry_lane *lane = engine->unflushed;
    engine->unflushed = NULL;
    while (lane != NULL) {
        fry_lane *next = lane->next_unflushed;
        lane->is_unflushed = false;
        fry_lane_flush(lane);
        lane = next;
    }
}

/* ---- looking at polled lanes ---- */

/*
 * The usual time of copies like the lane's head, of which there is one; NULL: an outside event,
 * which has none.
 */
static int64_t *usual_of_head(fry_lane *lane)
{
    const fry_node *head = FRY_CONTAINER(lane->issued.first, const fry_node, link);
    if (head->kind == FERRY_OP_EVENT)
        return NULL;
    return &lane->usual_ns[fry_look_sort(head->op.copy.size_bytes)];
}

static int64_t next_look_ns(fry_lane *lane, int64_t now_ns)
{
    const int64_t *usual_ns = usual_of_head(lane);
    return lane->head_since_ns +
           fry_look_at_age_ns(now_ns - lane->head_since_ns, usual_ns != NULL ? *usual_ns : 0);
}

/*
 * If the loop's timer is set to later than the new head needs, or not at all, the loop must be
 * woken. Until the loop has set its timer anew this costs one wake, as a wake that finds it awake
 * is free.
 */
static void head_is_new(fry_turn *turn, fry_lane *lane, int64_t now_ns)
{
    lane->head_since_ns = now_ns;
    if (next_look_ns(lane, now_ns) < turn->engine->next_look_ns)
        turn->wake = true;
}

/* `count` nodes have fired: updates the usual time of those like the former head. */
static void heads_have_fired(fry_turn *turn, fry_lane *lane, int64_t *usual_ns, size_t count)
{
    int64_t now_ns = fry_clock_now_ns(&turn->engine->clock);
    if (usual_ns != NULL)
        *usual_ns = fry_look_usual_ns(*usual_ns, (now_ns - lane->head_since_ns) / (int64_t)count);
    if (lane->issued.first != NULL)
        head_is_new(turn, lane, now_ns);
}

int64_t fry_lanes_next_look_ns(ferry_engine *engine)
{
    engine->next_look_ns = INT64_MAX;
    if (fry_likely(fry_load_relaxed(&engine->watched) == 0))
        return INT64_MAX;
    int64_t first_ns = INT64_MAX;
    int64_t now_ns = fry_clock_now_ns(&engine->clock);
    for (fry_lane *lane = engine->busy; lane != NULL; lane = lane->next_busy) {
        if (!lane->is_watched || lane->issued.first == NULL)
            continue;
        int64_t look_ns = next_look_ns(lane, now_ns);
        first_ns = look_ns < first_ns ? look_ns : first_ns;
    }
    engine->next_look_ns = first_ns;
    return first_ns;
}

static void watch(ferry_engine *engine, fry_lane *lane, bool is_watched)
{
    if (lane->is_watched == is_watched)
        return;
    lane->is_watched = is_watched;
    uint32_t watched = engine->watched;
    fry_store_relaxed(&engine->watched, is_watched ? watched + 1 : watched - 1);
}

/* ---- busy lanes ---- */

static void lane_mark_busy(ferry_engine *engine, fry_lane *lane)
{
    if (lane->is_busy)
        return;
    lane->is_busy = true;
    lane->next_busy = engine->busy;
    engine->busy = lane;
    if (lane->stream->is_polled && !lane->is_lost)
        watch(engine, lane, true);
}

static void lane_rests(ferry_engine *engine, fry_lane *lane)
{
    lane->is_busy = false;
    lane->outside.lane = NULL;
    watch(engine, lane, false);
}

static void lane_push(fry_turn *turn, fry_lane *lane, fry_node *node)
{
    node->flags |= FRY_NODE_QUEUED;
    fry_queue_push(&lane->issued, &node->link);
    lane_mark_busy(turn->engine, lane);
    if (lane->in_flight++ == 0 && lane->stream->is_polled)
        head_is_new(turn, lane, fry_clock_now_ns(&turn->engine->clock));
}

/* ---- failing ---- */

/* On the loop, because it makes an error. */
static void fail_by_device(fry_turn *turn, fry_node *node, const fry_fault *fault)
{
    ferry_engine *engine = turn->engine;
    if (engine->flight_records != 0)
        engine->flight_due = node->future.id;
    fry_fault own = *fault;
    own.op = node->future.id;
    own.label = fry_node_label(node);
    fry_graph_fail(turn, node, own.status, fry_error_create(&engine->memory, &own, NULL, NULL),
                   false);
}

/*
 * The device refused the copy. Its error takes memory, so a thread that is not the loop leaves this
 * to the loop, with the device's answer, which comes only once. Until then nothing is issued here.
 */
static void lane_refuses(fry_turn *turn, fry_lane *lane, fry_node *node, const fry_fault *fault)
{
    if (turn->is_loop) {
        fail_by_device(turn, node, fault);
        return;
    }
    node->flags |= FRY_NODE_QUEUED;
    lane->refused = node;
    lane->fault = *fault;
    lane_mark_busy(turn->engine, lane);
    turn->wake = true;
}

/* On the loop; the node may have been cancelled meanwhile, or even be over. */
static void fail_refused(fry_turn *turn, fry_lane *lane)
{
    fry_node *node = lane->refused;
    lane->refused = NULL;
    node->flags &= (uint16_t)~FRY_NODE_QUEUED;
    if (node->state < FRY_NODE_RESOLVED)
        fail_by_device(turn, node, &lane->fault);
    else
        fry_graph_step(turn, node);
}

/*
 * The device fails: nobody will learn whether the operations that stand here have fired. They fail
 * now, and may touch their memory for ever. But an operation with predecessors that have yet to
 * report how they ended waits for those, so that its status does not depend on which lane was
 * looked at first. A thread that is not the loop leaves this to the loop.
 */
static void lane_is_lost(fry_turn *turn, fry_lane *lane, const fry_fault *fault)
{
    ferry_engine *engine = turn->engine;
    const fry_node *newest = FRY_CONTAINER(lane->issued.last, const fry_node, link);
    if (!turn->is_loop) {
        turn->wake |= newest->op.stand.sequence > lane->failed_until;
        return;
    }
    lane->failed_until = newest->op.stand.sequence;
    if (!lane->is_lost) {
        lane->fault = *fault;
        lane->is_lost = true;
        engine->has_lost = true;
        watch(engine, lane, false); /* nothing more will be seen of it */
        fry_log_line(&engine->log, FERRY_LOG_ERROR, "%s fails: %s", lane->stream->device->name,
                     fault->message[0] != '\0' ? fault->message : ferry_status_text(fault->status));
    }
    for (fry_link *item = lane->issued.first; item != NULL; item = item->next) {
        fry_node *node = FRY_CONTAINER(item, fry_node, link);
        bool fails = node->state < FRY_NODE_RESOLVED && node->unconfirmed == 0 &&
                     (node->flags & FRY_NODE_FAILING) == 0;
        if (fails)
            fail_by_device(turn, node, &lane->fault);
        if (fails && engine->loss == NULL)
            engine->loss = fry_error_retain(fry_future_root_error(&node->future));
        if (fails || (node->flags & FRY_NODE_STUCK) == 0)
            fry_graph_stuck(turn, node);
    }
}

/* ---- issuing ---- */

/* On the loop a lost device's lane takes copies without room: they can only fail. */
static bool lane_takes(const fry_turn *turn, const fry_lane *lane)
{
    return fry_lane_has_room(lane) || (lane->is_lost && turn->is_loop);
}

static void wait_in_backlog(fry_turn *turn, fry_lane *lane, fry_node *node)
{
    node->flags |= FRY_NODE_QUEUED;
    fry_ready_queue_push(&lane->backlog, &node->link, fry_node_priority(node));
    if (fry_unlikely(lane->is_lost || lane->refused != NULL)) {
        lane_mark_busy(turn->engine, lane);
        turn->wake = true;
    }
}

void fry_lane_issue(fry_turn *turn, fry_node *node)
{
    fry_copy_op *op = &node->op.copy;
    if (fry_unlikely(op->stand.lane->is_lost)) /* another may serve by now */
        op->stand.lane = fry_lane_between(op->dst, op->src, fry_node_copy_plain_bytes(node));
    fry_lane *main = op->stand.lane, *lane = main;
    fry_waits waits;
    waits.count = 0;
    waits.outside.lane = NULL;
    if (node->edges != NULL && (lane = fry_lane_choose(node, &waits)) == NULL)
        return;
    fry_stream *stream = lane->stream;
    const fry_device_ops *ops = stream->device->ops;
    fry_copy copy;
    copy_of(&copy, node);
    if (lane->in_flight == 0 && waits.count == 0 && ops->copy_inline(stream, &copy)) {
        fry_graph_issued(turn, node);
        fry_emit(turn->engine, node, FERRY_TRACE_FIRED, 0);
        fry_graph_complete(turn, node);
        return;
    }
    if (!lane_takes(turn, lane) || !fry_ready_queue_is_empty(&lane->backlog)) {
        wait_in_backlog(turn, lane, node);
        return;
    }
    if (fry_unlikely(lane->is_lost)) {
        fail_by_device(turn, node, &lane->fault);
        return;
    }
    fry_fault fault;
    copy.is_read_now = fry_node_copy_is_read_now(node);
    ferry_status status =
        ops->copy(stream, &copy, waits.events, waits.count, &op->stand.sequence, &fault);
    if (fry_unlikely(status != FERRY_OK)) {
        lane_refuses(turn, lane, node, &fault);
        return;
    }
    op->stand.lane = lane;
    lane_push(turn, lane, node);
    lane_copied_to(turn->engine, lane);
    if (fry_unlikely(lane != main))
        fry_lane_parked(lane, main, &waits, op->stand.sequence);
    fry_graph_issued(turn, node);
}

void fry_lane_enter_event(fry_turn *turn, fry_node *node)
{
    fry_lane *lane = node->op.event.stand.lane;
    lane_push(turn, lane, node);
    turn->wake |= lane->is_lost; /* only the loop may fail it */
    fry_graph_issued(turn, node);
}

void fry_lane_cancel(fry_node *node)
{
    fry_stand stand = node->op.copy.stand;
    stand.lane->stream->device->ops->cancel(stand.lane->stream, stand.sequence);
}

/* The stream has room again: issues what waits for it. */
static void lane_refill(fry_turn *turn, fry_lane *lane)
{
    fry_ready_queue waiting = lane->backlog;
    lane->backlog = (fry_ready_queue){0};
    fry_link *item;
    while (lane_takes(turn, lane) && (item = fry_ready_queue_pop(&waiting)) != NULL)
        fry_graph_step(turn, FRY_CONTAINER(item, fry_node, link));
    fry_ready_queue_append(&waiting, &lane->backlog);
    lane->backlog = waiting;
}

/* ---- looking ---- */

static void trace_fired(fry_turn *turn, const fry_lane *lane, const fry_node *node)
{
    fry_stream *stream = lane->stream;
    if (node->kind == FERRY_OP_COPY)
        fry_emit_begun(turn->engine, node,
                       stream->device->ops->begun_ns(stream, node->op.copy.stand.sequence));
    fry_emit_now(turn->engine, node, FERRY_TRACE_FIRED, 0);
}

/* The lane's head has fired. False: it has failed, and only the loop may say so. */
static bool head_has_fired(fry_turn *turn, fry_lane *lane, fry_node *node)
{
    fry_stream *stream = lane->stream;
    fry_fault fault;
    ferry_status status = FERRY_OK;
    if (fry_unlikely(stream->struck != 0) && node->state < FRY_NODE_RESOLVED) {
        status = stream->device->ops->outcome(stream, node->op.stand.sequence, &fault);
        if (status != FERRY_OK && !turn->is_loop) {
            turn->wake = true;
            return false;
        }
    }
    (void)fry_queue_pop(&lane->issued);
    node->flags &= (uint16_t)~FRY_NODE_QUEUED;
    lane->in_flight--;
    if (fry_unlikely(fry_load_relaxed(&turn->engine->tracing) != 0))
        trace_fired(turn, lane, node);
    if (fry_likely(status == FERRY_OK)) {
        fry_graph_complete(turn, node);
    } else {
        node->flags |= FRY_NODE_FIRED; /* the operation has left its memory: quiet at once */
        fail_by_device(turn, node, &fault);
    }
    return true;
}

static size_t lane_poll(fry_turn *turn, fry_lane *lane)
{
    fry_stream *stream = lane->stream;
    ferry_status status = FERRY_OK;
    fry_fault fault;
    if (fry_unlikely(lane->refused != NULL) && turn->is_loop)
        fail_refused(turn, lane);
    size_t count = 0;
    fry_link *item = lane->issued.first;
    if (item != NULL) {
        int64_t *usual_ns = stream->is_polled ? usual_of_head(lane) : NULL;
        lane->fired = stream->device->ops->fired(stream, &status, &fault);
        for (; item != NULL; item = lane->issued.first, count++) {
            fry_node *node = FRY_CONTAINER(item, fry_node, link);
            if (node->op.stand.sequence > lane->fired)
                break;
            if (fry_unlikely(turn->steps >= FRY_HOLDING_STEPS)) {
                turn->wake = true; /* the baton has been held for long */
                break;
            }
            if (!head_has_fired(turn, lane, node))
                break;
        }
        if (count != 0 && stream->is_polled)
            heads_have_fired(turn, lane, usual_ns, count);
        if (fry_unlikely(status != FERRY_OK) && item != NULL)
            lane_is_lost(turn, lane, &fault);
    }
    if (!fry_ready_queue_is_empty(&lane->backlog))
        lane_refill(turn, lane);
    return count;
}

/*
 * No lane is added at the front of the list meanwhile: a copy in a lane's backlog waits for no
 * outside event, and never will, so it is issued to that same lane.
 */
size_t fry_lanes_poll(fry_turn *turn)
{
    size_t count = 0;
    fry_lane **at = &turn->engine->busy;
    while (*at != NULL) {
        fry_lane *lane = *at;
        count += lane_poll(turn, lane);
        if (lane->in_flight == 0 && lane->refused == NULL &&
            fry_ready_queue_is_empty(&lane->backlog)) {
            *at = lane->next_busy;
            lane_rests(turn->engine, lane);
        } else {
            at = &lane->next_busy;
        }
    }
    return count;
}

/* ---- devices ---- */

/* As many operations as the stream takes and the engine allows. */
static uint32_t depth_of(const ferry_engine *engine, const fry_stream *stream)
{
    uint32_t depth = fry_stream_depth(stream);
    if (stream->kind == FRY_STREAM_PARKED && depth > FRY_STREAM_DEPTH)
        depth = FRY_STREAM_DEPTH; /* the length of fry_lane.behind */
    return depth < engine->stream_depth ? depth : engine->stream_depth;
}

/*
 * Any thread reads the table below device_count. So the store of device_count comes last (release),
 * and the table never moves.
 */
ferry_status fry_lane_attach(ferry_engine *engine, fry_device *device, ferry_device **handle_p)
{
    uint32_t index = engine->device_count, count = 0, parked = 0;
    for (fry_stream *stream; (stream = device->ops->stream_at(device, count)) != NULL; count++)
        parked += stream->kind == FRY_STREAM_PARKED;
    if (index == FRY_DEVICES_MAX || count > STREAMS_MAX - engine->stream_count)
        return FERRY_E_AGAIN;
    size_t lane_bytes = count * sizeof(fry_lane) + parked * FRY_STREAM_DEPTH * sizeof(uint64_t);
    fry_lane *lanes = NULL;
    if (count != 0 && (lanes = fry_alloc(&engine->memory, lane_bytes, FRY_CACHE_LINE)) == NULL)
        return FERRY_E_NO_MEMORY;
    uint64_t *behind = lanes != NULL ? (uint64_t *)(void *)(lanes + count) : NULL;
    device->index = (uint16_t)index;
    for (uint32_t i = 0; i < count; i++) {
        fry_stream *stream = device->ops->stream_at(device, i);
        stream->index = (uint16_t)(engine->stream_count + i);
        stream->lane = &lanes[i];
        lanes[i].stream = stream;
        lanes[i].depth = depth_of(engine, stream);
        if (stream->kind == FRY_STREAM_PARKED) {
            lanes[i].behind = behind;
            behind += FRY_STREAM_DEPTH;
        }
    }
    engine->stream_count += count;
    engine->devices[index] = (ferry_device){.device = device,
                                            .engine = engine,
                                            .lanes = lanes,
                                            .lane_count = count,
                                            .lane_bytes = lane_bytes};
    if (handle_p != NULL)
        *handle_p = &engine->devices[index];
    fry_store_release(&engine->device_count, index + 1); /* pairs with fry_engine_device_count */
    return FERRY_OK;
}

void fry_devices_detach(ferry_engine *engine)
{
    for (uint32_t i = 0; i < engine->device_count; i++) {
        ferry_device *device = &engine->devices[i];
        if (device->lanes != NULL)
            fry_free(&engine->memory, device->lanes, device->lane_bytes);
    }
}
