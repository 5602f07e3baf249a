/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Outside events. The program's own threads call devices here, without the baton: an event must be
 * recorded at once, in the caller's thread and stream.
 *
 * Order. A device numbers the events of an outside stream, and keeps the stream for the caller
 * until event_entered. By then the node is in the inbox or the graph, so nodes stand in their lane
 * in the order of their numbers.
 *
 * Shutdown. A thread that is about to call a device counts itself in outside_calls, then looks
 * whether the engine closes. The loop, long after closing was set, looks at the count before it
 * looks whether anything is left (nothing_left in loop.c). All of these are sequentially
 * consistent. Either the caller sees closing and leaves the device alone, or its count came first.
 * Then the loop sees the count and does not stop, or sees that the call has ended: then the event
 * was in the inbox before the loop's look, stands in its lane, and the loop stops when it has
 * fired. So no backend is stopped while a caller is in it. A device may keep a caller for long, and
 * the loop sleeps meanwhile. A thread that leaves a device and finds the engine closing wakes the
 * loop: it counts itself off, then looks whether the loop sleeps; the loop sets `asleep`, then
 * looks at the count (fry_arm), as with any other work (sleeper.pml).
 */
#include "engine/api/event.h"

#include "engine/api/request.h"
#include "engine/engine.h"
#include "engine/graph/due.h"
#include "engine/graph/graph.h"
#include "engine/graph/kind.h"
#include "engine/graph/lane.h"
#include "engine/graph/live.h"
#include "engine/graph/node.h"
#include "engine/graph/turn.h"
#include "engine/ground/context.h"
#include "engine/ground/ground.h"
#include "engine/ground/refusal.h"
#include "engine/loop/late.h"

#define HURRY_NS 100000 /* how long a stream_wait that finds the baton taken tries at most */

static void outside_end(ferry_engine *engine)
{
    (void)fry_fetch_sub(&engine->outside_calls, 1);
    if (fry_likely(fry_load_seq_cst(&engine->closing) == 0))
        return;
    fry_wake(engine);
    fry_late_work(engine);
}

static bool outside_begin(ferry_engine *engine)
{
    (void)fry_fetch_add(&engine->outside_calls, 1);
    if (fry_likely(fry_load_seq_cst(&engine->closing) == 0))
        return true;
    outside_end(engine);
    return false;
}

static void say_why(ferry_device *device, const char *what, const fry_fault *fault)
{
    if (fault->domain != NULL)
        fry_log_line(&device->engine->log, FERRY_LOG_WARNING, "%s: %s: %s (%s %lld)",
                     device->device->name, what, fault->message, fault->domain,
                     (long long)fault->native_code);
    else
        fry_log_line(&device->engine->log, FERRY_LOG_WARNING, "%s: %s: %s", device->device->name,
                     what, ferry_status_text(fault->status));
}

/* ---- events ---- */

typedef struct outside_source {
    void *native_event; /* NULL: record one */
    void *native_stream;
    bool is_wrapped;
} outside_source;

static ferry_status call_device(fry_device *device, const outside_source *source, fry_event *event,
                                fry_fault *fault)
{
    return source->is_wrapped
               ? device->ops->event_wrap(device, source->native_event, source->native_stream, event,
                                         fault)
               : device->ops->event_record(device, source->native_stream, event, fault);
}

/* The device failed: returns a future that says so, with the driver's error. */
static ferry_future *submit_failed(fry_request *request, fry_node *node, fry_fault *fault)
{
    fault->op = node->future.id;
    fry_node_refuse(node, fault->status,
                    fry_error_create(&request->engine->memory, fault, NULL, NULL), false);
    return fry_request_submit(request, node);
}

static fry_refusal check_source(const ferry_device *device, const outside_source *source)
{
    if (source->is_wrapped && source->native_event == NULL)
        return fry_refuse(device->engine, FRY_REFUSED_EVENT_NULL);
    if (device->device->ops->event_record == NULL)
        return fry_refuse(device->engine, FRY_REFUSED_EVENT_DEVICE);
    return FRY_TAKEN;
}

/* The refusal for the device's answer. FERRY_E_DEVICE is none: a future has the driver's words. */
static fry_refusal event_refusal(ferry_status status)
{
    switch (status) {
    case FERRY_OK:
    case FERRY_E_DEVICE:
        return FRY_TAKEN;
    case FERRY_E_CAPTURE:
        return FRY_REFUSED_EVENT_CAPTURE;
    case FERRY_E_AGAIN:
        return FRY_REFUSED_EVENT_AGAIN;
    case FERRY_E_NO_MEMORY:
        return FRY_REFUSED_NO_MEMORY;
    default:
        return FRY_REFUSED_EVENT_INVALID;
    }
}

/* The node is made first, because a recorded event can't be taken back. */
static ferry_future *event_future(ferry_device *device, const outside_source *source)
{
    ferry_engine *engine = device != NULL ? device->engine : NULL;
    fry_request request;
    fry_refusal why =
        device != NULL ? fry_request_open(&request, engine, NULL) : FRY_REFUSED_DEVICE_NULL;
    if (why == FRY_TAKEN)
        why = check_source(device, source);
    fry_node *node = why == FRY_TAKEN ? fry_request_node(&request, FERRY_OP_EVENT, &why) : NULL;
    if (node == NULL)
        return fry_refusal_future(engine, why);
    node->op.event = (fry_event_op){{NULL, 0}};
    why = FRY_REFUSED_SHUTDOWN;
    if (!outside_begin(engine))
        goto err_node;
    fry_event event = {NULL, 0};
    fry_fault fault = {.rank = -1};
    ferry_status status = call_device(device->device, source, &event, &fault);
    fault.status = status;
    if (status != FERRY_OK)
        say_why(device, source->is_wrapped ? "wrapping an event fails" : "recording an event fails",
                &fault);
    why = event_refusal(status);
    if (why != FRY_TAKEN)
        goto err_outside;

    ferry_future *future;
    if (status == FERRY_E_DEVICE) {
        future = submit_failed(&request, node, &fault);
    } else if (event.stream == NULL) { /* it has fired */
        future = fry_request_submit(&request, node);
    } else {
        node->op.event.stand = (fry_stand){event.stream->lane, event.sequence};
        future = fry_request_submit(&request, node);
        device->device->ops->event_entered(event);
    }
    outside_end(engine);
    return future;

err_outside:
    outside_end(engine);
err_node:
    fry_node_discard(engine, request.context, node);
    return fry_refusal_future(engine, why);
}

ferry_future *ferry_event_record(ferry_device *device, void *native_stream)
{
    outside_source source = {.native_stream = native_stream};
    return event_future(device, &source);
}

ferry_future *ferry_event_wrap(ferry_device *device, void *native_event, void *native_stream)
{
    outside_source source = {
        .native_event = native_event, .native_stream = native_stream, .is_wrapped = true};
    return event_future(device, &source);
}

/* ---- the program's streams wait for ferry ---- */

/* A receive that gets a place on a device at its end. */
static bool is_receive_on_device(const fry_node *node)
{
    return (node->kind == FERRY_OP_RECV || node->kind == FERRY_OP_GET) && node->is_staged;
}

static ferry_status event_at(fry_stand stand, const fry_device *device, fry_event *event_p)
{
    fry_stream *stream = stand.lane->stream;
    if (stream->device->ops != device->ops)
        return FERRY_E_UNSUPPORTED;
    *event_p = (fry_event){stream, stand.sequence};
    return FERRY_OK;
}

/*
 * The same for a receive into a device's memory, which is not quiet. It gets its place once, after
 * it is ISSUED: the sequence number last (fry_graph_lands). One that failed without a place may
 * yet be written by its peer.
 */
static ferry_status find_landing(const ferry_future *future, const fry_device *device,
                                 fry_event *event_p)
{
    const fry_node *node = fry_node_of(future);
    fry_stand stand = {.sequence = fry_load_acquire(&node->op.message.stand.sequence)};
    if (stand.sequence == 0)
        return fry_future_is_resolved(future) ? FERRY_E_UNSUPPORTED : FERRY_E_NOT_ISSUED;
    stand.lane = node->op.message.stand.lane;
    return event_at(stand, device, event_p);
}

/*
 * Finds the event that a stream of the device must wait for. event_p->stream is NULL if there is
 * nothing to wait for.
 */
static ferry_status find_event(const ferry_future *future, const fry_device *device,
                               fry_event *event_p)
{
    *event_p = (fry_event){NULL, 0};
    if (fry_future_is_static(future) ||
        (fry_future_is_resolved(future) && fry_future_status(future) == FERRY_OK))
        return FERRY_OK;
    /*
     * The baton's holder writes the lane and the sequence number for the last time while the node
     * is READY, and then stores the state (release, set_state). A thread that sees ISSUED or a
     * later state by this load (acquire) sees both final values. The lane itself is as old as its
     * device.
     */
    const fry_node *node = fry_node_of(future);
    uint8_t state = fry_load_acquire(&node->state);
    if (state == FRY_NODE_QUIET)
        return FERRY_OK;
    if (is_receive_on_device(node))
        return find_landing(future, device, event_p);
    if (!fry_node_is_on_stream(node))
        return fry_future_is_resolved(future) &&
                       !fry_kind_has(node, FRY_KIND_ENDS_OUTSIDE | FRY_KIND_OF_OTHERS)
                   ? FERRY_OK
                   : FERRY_E_UNSUPPORTED;
    if (state < FRY_NODE_ISSUED)
        return FERRY_E_NOT_ISSUED;
    /*
     * The node never stood in a stream, and is over. Its status is set a moment after its state. A
     * caller that gets FERRY_OK must see that status: predecessors may still touch the node's
     * memory.
     */
    fry_stand stand = node->op.stand;
    if (stand.lane == NULL || stand.sequence == 0)
        return fry_future_is_resolved(future) ? FERRY_OK : FERRY_E_NOT_ISSUED;
    return event_at(stand, device, event_p);
}

static ferry_status try_stream_wait(const ferry_future *future, fry_device *device,
                                    void *native_stream, fry_fault *fault)
{
    fry_event event;
    ferry_status status = find_event(future, device, &event);
    if (status == FERRY_OK && event.stream != NULL)
        status = device->ops->stream_wait(device, native_stream, event, fault);
    fault->status = status;
    return status;
}

/*
 * A program that submits a copy and then has its stream wait for it sometimes finds the copy still
 * in the inbox, because another thread has the baton. That thread takes the copy from the inbox
 * within some microseconds, or gives the baton back, and then this thread takes the copy. So a
 * little patience spares the program a wait on the host. False: no more.
 */
static bool hurry(ferry_engine *engine, const ferry_future *future, int64_t *end_ns)
{
    const fry_node *node = fry_node_of(future);
    uint8_t state = fry_load_acquire(&node->state);
    /* NEW: in the inbox. ISSUED: about to be flushed. Later: about to have a status. */
    if (state == FRY_NODE_WAITING || state == FRY_NODE_READY)
        return false; /* something else holds it */
    if (state == FRY_NODE_ISSUED && is_receive_on_device(node) &&
        fry_load_acquire(&node->op.message.stand.sequence) == 0)
        return false; /* its last bytes have not come */
    if (*end_ns == 0)
        *end_ns = fry_clock_monotonic_ns() + HURRY_NS;
    else if (fry_clock_monotonic_ns() >= *end_ns)
        return false;
    fry_context *context = fry_context_get(engine);
    fry_turn turn;
    if (context != NULL && fry_turn_begin(&turn, engine, context, false))
        (void)fry_turn_end(&turn, engine->submit_budget);
    else
        fry_pause();
    return true;
}

ferry_status ferry_future_stream_wait(ferry_future *future, ferry_device *device,
                                      void *native_stream)
{
    if (future == NULL || device == NULL)
        return FERRY_E_INVALID;
    ferry_engine *engine = device->engine;
    ferry_status status = fry_engine_check(engine);
    if (status != FERRY_OK)
        return status;
    if (future->owner != NULL && future->owner != &engine->owner)
        return fry_refusal_status(fry_refuse(engine, FRY_REFUSED_WAIT_ENGINE));
    fry_device *of = device->device;
    if (of->ops->stream_wait == NULL)
        return fry_refusal_status(fry_refuse(engine, FRY_REFUSED_EVENT_DEVICE));
    fry_event event;
    status = find_event(future, of, &event);
    if (status != FERRY_E_NOT_ISSUED && event.stream == NULL)
        return status;
    if (!outside_begin(engine))
        return FERRY_E_SHUTDOWN;
    fry_fault fault = {.rank = -1};
    int64_t end_ns = 0;
    do {
        status = try_stream_wait(future, of, native_stream, &fault);
    } while (status == FERRY_E_NOT_ISSUED && hurry(engine, future, &end_ns));
    outside_end(engine);
    if (status == FERRY_E_DEVICE || status == FERRY_E_CAPTURE)
        say_why(device, "making a stream wait for an operation fails", &fault);
    return status;
}

/* ---- its row ---- */

/*
 * The event stands in its stream whatever becomes of its future: the work of others is there, and
 * the device will record when that is done.
 */
static bool enter(fry_turn *turn, fry_node *node)
{
    if (node->op.event.stand.lane == NULL)
        return false;
    fry_live_enter(turn->engine, node);
    fry_live_stamp(turn, node);
    fry_lane_enter_event(turn, node);
    if (fry_unlikely(turn->engine->stop_graph))
        fry_node_refuse(node, FERRY_E_SHUTDOWN, NULL, false);
    if (fry_unlikely(node->refusal != FERRY_OK))
        fry_graph_fail_refused(turn, node);
    return true;
}

static bool stop(fry_node *node)
{
    (void)node;
    return true;
}

const fry_op_kind fry_kind_event = {
    .traits = FRY_KIND_ON_STREAM,
    .enter = enter,
    .stop = stop,
};
