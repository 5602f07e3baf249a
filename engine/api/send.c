/* SPDX-License-Identifier: Apache-2.0 */
/* Sends, receives, probes: checks the caller's arguments, and makes a node and the peer's slot. */
#include "engine/api/send.h"

#include "engine/api/request.h"
#include "engine/api/spans.h"
#include "engine/engine.h"
#include "engine/graph/buffer.h"
#include "engine/graph/emit.h"
#include "engine/graph/lane.h"
#include "engine/graph/node.h"
#include "engine/graph/turn.h"
#include "engine/ground/context.h"
#include "engine/ground/ground.h"
#include "engine/ground/refusal.h"
#include "engine/loop/late.h"
#include "engine/messages/groups.h"
#include "engine/messages/membership.h"
#include "engine/messages/message.h"
#include "engine/messages/pairing.h"
#include "engine/messages/route.h"
#include "engine/messages/transfer.h"

fry_refusal fry_request_check_message_span(ferry_engine *engine, bool is_written,
                                           const ferry_span *span)
{
    if (span->size_bytes == 0)
        return FRY_TAKEN;
    fry_refusal why =
        is_written ? fry_span_check_written(engine, span) : fry_span_check_open(engine, span);
    const ferry_device *device = why == FRY_TAKEN ? span->buffer->device : NULL;
    if (device != NULL && device->host_lane == NULL &&
        device->device->ops->memory_is_pinned == NULL)
        why = fry_refuse(engine, FRY_REFUSED_MESSAGE_DEVICE);
    return why;
}

fry_refusal fry_request_check_group(const ferry_group *group)
{
    fry_refusal why = fry_membership_refusal(group);
    if (why == FRY_REFUSED_GROUP_NOT_JOINED || (why == FRY_TAKEN && group->routes == NULL))
        return fry_refuse(group->engine, FRY_REFUSED_GROUP_NOT_JOINED);
    return why;
}

/* Of a group that has been joined: whom and what the message names. */
static fry_refusal check_names(ferry_engine *engine, ferry_op_kind kind, const ferry_group *group,
                               ferry_rank peer, ferry_tag tag)
{
    bool has_any = group->any != NULL, is_open = peer == FERRY_RANK_ANY && kind != FERRY_OP_SEND;
    if (!has_any && (is_open || kind == FERRY_OP_PROBE))
        return fry_refuse(engine, FRY_REFUSED_ANY_SOURCE_OFF);
    if (peer >= group->size && !is_open)
        return fry_refuse(engine, FRY_REFUSED_MESSAGE_RANK);
    if (has_any && kind == FERRY_OP_SEND && tag == FERRY_TAG_ANY)
        return fry_refuse(engine, FRY_REFUSED_MESSAGE_TAG_ANY);
    return FRY_TAKEN;
}

static fry_refusal check(ferry_engine *engine, ferry_op_kind kind, const ferry_group *group,
                         ferry_rank peer, ferry_tag tag, const ferry_span *span)
{
    if (group == NULL)
        return fry_refuse(engine, FRY_REFUSED_GROUP_NULL);
    if (group->engine != engine)
        return fry_refuse(engine, FRY_REFUSED_GROUP_ENGINE);
    fry_refusal why = fry_request_check_group(group);
    if (why != FRY_TAKEN)
        return why;
    why = check_names(engine, kind, group, peer, tag);
    return why == FRY_TAKEN ? fry_request_check_message_span(engine, kind == FERRY_OP_RECV, span)
                            : why;
}

void *fry_request_slot(fry_pool *pool, fry_pool_cache *cache, fry_refusal *why_p)
{
    ferry_status status = FERRY_OK;
    void *slot = fry_pool_take_or_grow(pool, cache, &status);
    if (slot == NULL && status == FERRY_E_AGAIN)
        fry_pool_refused(pool, 1);
    if (slot == NULL)
        *why_p = fry_refusal_of_want(status, FRY_REFUSED_MAX_NODES);
    return slot;
}

fry_transfer *fry_request_transfer(const fry_request *request, fry_refusal *why_p)
{
    return fry_request_slot(&request->engine->transfers, &request->context->transfers, why_p);
}

/* What a receive of a group with any source, or a probe, has besides: take.c. */
static void init_open(fry_transfer *transfer, fry_node *node, bool is_open)
{
    transfer->message.peer = NULL;
    transfer->landed.is_apart = true; /* so it gets no place on a device */
    if (is_open)
        node->op.message.rank = FRY_MESSAGE_RANK_ANY;
}

fry_node *fry_request_message(fry_request *request, ferry_op_kind kind, ferry_group *group,
                              ferry_rank peer, ferry_tag tag, const ferry_span *span,
                              fry_refusal *why_p)
{
    fry_refusal why = check(request->engine, kind, group, peer, tag, span);
    bool is_open = peer == FERRY_RANK_ANY;
    fry_route *route = NULL;
    if (why == FRY_TAKEN) {
        route = &group->routes[is_open ? (uint32_t)group->rank : peer];
        if (!is_open && fry_route_peer(route) == NULL)
            why = FRY_REFUSED_NO_MEMORY;
    }
    if (why == FRY_TAKEN && kind == FERRY_OP_RECV && group->any != NULL)
        kind = (ferry_op_kind)FRY_OP_TAKE;
    fry_node *node = why == FRY_TAKEN ? fry_request_node(request, kind, &why) : NULL;
    fry_transfer *transfer = node != NULL ? fry_request_transfer(request, &why) : NULL;
    *why_p = why;
    if (transfer != NULL) {
        fry_transfer_init(transfer, node, route, tag, span, kind == FERRY_OP_SEND);
        if (node->kind == FERRY_OP_PROBE || node->kind == FRY_OP_TAKE)
            init_open(transfer, node, is_open);
        return node;
    }
    if (node != NULL)
        fry_node_discard_new(request->engine, request->context, node);
    return NULL;
}

static inline bool is_plain_span(const ferry_engine *engine, ferry_op_kind kind,
                                 const ferry_span *span)
{
    const ferry_buffer *buffer = span->buffer;
    return buffer != NULL && buffer->engine == engine && span->offset_bytes <= buffer->size_bytes &&
           span->size_bytes <= buffer->size_bytes - span->offset_bytes &&
           buffer->device->host_lane != NULL && !fry_buffer_is_barred(buffer) &&
           !(kind == FERRY_OP_RECV && buffer->is_source);
}

fry_node *fry_request_plain_message(ferry_engine *engine, fry_context *context, ferry_op_kind kind,
                                    ferry_group *group, ferry_rank peer, ferry_tag tag,
                                    const ferry_span *span)
{
    if (fry_unlikely(group == NULL || group->engine != engine ||
                     fry_load_acquire(&group->life) != FRY_GROUP_HERE ||
                     peer >= group->plain_size ||
                     fry_route_made_peer(&group->routes[peer]) == NULL ||
                     !is_plain_span(engine, kind, span)))
        return NULL;
    fry_transfer *transfer = fry_pool_take(&engine->transfers, &context->transfers);
    if (fry_unlikely(transfer == NULL))
        return NULL;
    fry_refusal why;
    fry_node *node = fry_node_create(engine, context, kind, &why);
    if (fry_unlikely(node == NULL)) {
        fry_pool_give(&engine->transfers, &context->transfers, transfer);
        return NULL;
    }
    fry_transfer_init(transfer, node, &group->routes[peer], tag, span, kind == FERRY_OP_SEND);
    return node;
}

static inline ferry_future *submit_plain(ferry_op_kind kind, ferry_group *group, ferry_rank peer,
                                         ferry_tag tag, const ferry_span *span)
{
    ferry_engine *engine = group->engine;
    if (fry_unlikely(fry_engine_check_open(engine) != FERRY_OK))
        return NULL;
    fry_context *context = fry_context_get(engine);
    if (fry_unlikely(context == NULL))
        return NULL;
    fry_node *node = fry_request_plain_message(engine, context, kind, group, peer, tag, span);
    if (fry_unlikely(node == NULL))
        return NULL;
    fry_emit(engine, node, FERRY_TRACE_SUBMITTED, 0);
    fry_turn_submit(engine, context, node);
    fry_late_call_ends(engine);
    return &node->future;
}

static ferry_future *submit(ferry_op_kind kind, ferry_group *group, ferry_rank peer, ferry_tag tag,
                            ferry_span span, const ferry_op_options *options)
{
    if (group == NULL)
        return fry_refusal_future(NULL, FRY_REFUSED_GROUP_NULL);
    ferry_future *future = options == NULL ? submit_plain(kind, group, peer, tag, &span) : NULL;
    if (fry_likely(future != NULL))
        return future;
    ferry_engine *engine = group->engine;
    fry_request request;
    fry_refusal why = fry_request_open(&request, engine, options);
    fry_node *node = why == FRY_TAKEN
                         ? fry_request_message(&request, kind, group, peer, tag, &span, &why)
                         : NULL;
    if (node == NULL) {
        fry_row_span written = {.first = span, .row_count = 1};
        return fry_request_refuse_writes(&request, engine, why,
                                         kind == FERRY_OP_RECV ? &written : NULL);
    }
    return fry_request_submit(&request, node);
}

ferry_future *ferry_send(ferry_group *group, ferry_rank peer, ferry_tag tag, ferry_span span,
                         const ferry_op_options *options)
{
    return submit(FERRY_OP_SEND, group, peer, tag, span, options);
}

ferry_future *ferry_recv(ferry_group *group, ferry_rank peer, ferry_tag tag, ferry_span span,
                         const ferry_op_options *options)
{
    return submit(FERRY_OP_RECV, group, peer, tag, span, options);
}
