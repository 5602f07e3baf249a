/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A receive of a group with any source (FRY_OP_TAKE) takes its number among the group's as it
 * enters, so in program order, and waits apart from all peers unless it names member and tag. When
 * it meets a message it becomes that peer's (message_met), and from then on it is a receive like
 * others: the functions here hand on to those of FERRY_OP_RECV. While it waits apart its transfer
 * counts among those of the route to this very member.
 *
 * A probe enters nothing until it starts, as it has no place that matters to others.
 *
 * A receive of such a group has a kind of its own, so that others don't ask at each step whether
 * they are one.
 */
#include "engine/messages/take.h"
#include "engine/messages/membership.h"

#include "engine/engine.h"
#include "engine/graph/graph.h"
#include "engine/graph/node.h"
#include "engine/graph/turn.h"
#include "engine/ground/refusal.h"
#include "engine/messages/groups.h"
#include "engine/messages/message.h"
#include "engine/messages/route.h"
#include "engine/messages/transfer.h"
#include "net/peer/seek.h"

/* The peer of the member that it names; NULL: any member's. */
static fry_peer *named_peer(const fry_node *node)
{
    const fry_message_op *message = &node->op.message;
    return message->rank != FRY_MESSAGE_RANK_ANY ? fry_route_made_peer(message->transfer->route)
                                                 : NULL;
}

static bool is_apart(const fry_transfer *transfer)
{
    return (transfer->flags & FRY_TRANSFER_ENTERED) != 0 && fry_seek_is_apart(&transfer->message);
}

static fry_refusal refusal_of(fry_seek_result result)
{
    switch (result) {
    case FRY_SEEK_ENTERED:
        return FRY_TAKEN;
    case FRY_SEEK_FULL:
        return FRY_REFUSED_UNEXPECTED_MAX;
    case FRY_SEEK_MANY:
        return FRY_REFUSED_ANY_SOURCE_MAX;
    case FRY_SEEK_ALONE:
        break;
    }
    return FRY_REFUSED_ANY_SOURCE_ALONE;
}

/* A probe may be gone afterwards. */
static void seek(fry_turn *turn, fry_node *node)
{
    fry_transfer *transfer = node->op.message.transfer;
    fry_message *message = &transfer->message;
    fry_route *route = transfer->route;
    fry_any *any = route->group->any;
    fry_peer *peer = named_peer(node);
    bool takes_any_tag = node->op.message.tag == FERRY_TAG_ANY;
    fry_refusal why = fry_membership_refusal(route->group);
    message->op = node->future.id;
    if (why == FRY_TAKEN) {
        transfer->flags |= FRY_TRANSFER_ENTERED;
        fry_route_opened(route);
        why = refusal_of(node->kind == FERRY_OP_PROBE
                             ? fry_seek_probe(any, peer, takes_any_tag, message, turn)
                             : fry_seek_enter(any, peer, takes_any_tag, message, turn));
        if (why == FRY_TAKEN)
            return;
        fry_route_closed(turn, route);
    }
    fry_transfer_refuse(turn, transfer, why);
}

/* ---- receives ---- */

static bool take_entered(fry_turn *turn, fry_node *node, bool may_start)
{
    (void)may_start; /* the graph starts it */
    if (fry_unlikely(turn->engine->stop_graph))
        return fry_kind_recv.entered(turn, node, false);
    seek(turn, node);
    return false;
}

static void take_start(fry_turn *turn, fry_node *node)
{
    fry_transfer *transfer = node->op.message.transfer;
    if (!is_apart(transfer)) {
        fry_kind_recv.start(turn, node);
        return;
    }
    if (transfer->message.is_staged)
        fry_graph_begun(turn, node);
    else
        fry_graph_issued(turn, node);
    fry_seek_ready(&transfer->message);
}

/* It waits apart no more. */
static void leave(fry_turn *turn, fry_node *node, bool is_under_way)
{
    fry_transfer *transfer = node->op.message.transfer;
    if (!is_under_way) {
        transfer->node = NULL;
        node->op.message.transfer = NULL;
    }
    if ((transfer->flags & FRY_TRANSFER_RESOLVED) != 0)
        return;
    transfer->flags |= FRY_TRANSFER_RESOLVED;
    fry_seek_withdraw(&transfer->message, turn);
}

static void take_failed(fry_turn *turn, fry_node *node, bool is_under_way)
{
    const fry_transfer *transfer = node->op.message.transfer;
    if (transfer != NULL && is_apart(transfer))
        leave(turn, node, is_under_way);
    else
        fry_kind_recv.failed(turn, node, is_under_way);
}

static bool take_span(const fry_node *node, uint8_t index, fry_use *use)
{
    return fry_kind_recv.span(node, index, use);
}

static uint64_t take_moved_bytes(const fry_node *node, uint64_t *flow_p)
{
    const fry_message_op *message = &node->op.message;
    if (fry_load_acquire(&node->outside) != FRY_OUTSIDE_FLOWS) /* pairs with set_flow */
        return message->size_bytes;
    *flow_p = fry_flow_of(message->met.rank, message->offset);
    return message->met.came - 1;
}

/* ---- probes ---- */

static void probe_start(fry_turn *turn, fry_node *node)
{
    fry_graph_issued(turn, node);
    seek(turn, node);
}

static void probe_failed(fry_turn *turn, fry_node *node, bool is_under_way)
{
    fry_transfer *transfer = node->op.message.transfer;
    if (transfer == NULL)
        return;
    if ((transfer->flags & (FRY_TRANSFER_ENTERED | FRY_TRANSFER_RESOLVED)) != 0) {
        leave(turn, node, is_under_way);
        return;
    }
    node->op.message.transfer = NULL; /* it has not started */
    fry_pool_give(&turn->engine->transfers, &turn->context->transfers, transfer);
}

/* ---- both ---- */

static void discard(ferry_engine *engine, fry_context *context, fry_node *node)
{
    fry_kind_recv.discard(engine, context, node);
}

static bool stop(fry_node *node)
{
    (void)node;
    return true;
}

static void describe(const ferry_engine *engine, const fry_node *node, fry_kind_view *view)
{
    fry_kind_recv.describe(engine, node, view);
    if (node->op.message.met.came != 0)
        view->rank = node->op.message.met.rank;
    else if (node->op.message.rank == FRY_MESSAGE_RANK_ANY)
        view->rank = FERRY_RANK_ANY;
    if (node->kind == FERRY_OP_PROBE)
        view->has_size = false;
}

const fry_op_kind fry_kind_take = {
    .traits = FRY_KIND_STAYS | FRY_KIND_ONE_SPAN | FRY_KIND_ENDS_OUTSIDE,
    .span = take_span,
    .discard = discard,
    .entered = take_entered,
    .start = take_start,
    .stop = stop,
    .failed = take_failed,
    .moved_bytes = take_moved_bytes,
    .describe = describe,
};

const fry_op_kind fry_kind_probe = {
    .traits = FRY_KIND_STAYS | FRY_KIND_ENDS_OUTSIDE,
    .discard = discard,
    .start = probe_start,
    .stop = stop,
    .failed = probe_failed,
    .describe = describe,
};
