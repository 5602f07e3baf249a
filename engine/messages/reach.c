/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gets and puts: operations on windows of other members (net/peer/reach.c has how the bytes go).
 *
 * They are messages without a place among others, so nothing of them is the peer's before they
 * start; then the window is looked at, as it may have been found, or closed, after the submit. From
 * then on the rest is as with a receive and a send (message.c).
 *
 * For a get or a put of another member that needs this one, this engine makes an operation of its
 * own, a *give* or an *accept*, that nobody has a future of: it enters by the inbox, like any, in
 * the order in which such wishes come, is untracked, and counts as a use of the window until it is
 * quiet. Dumps and figures show it as a send or a receive. Who asked learns how it ended, as with
 * any message.
 */
#include "engine/messages/reach.h"
#include "engine/messages/membership.h"

#include "engine/engine.h"
#include "engine/graph/buffer.h"
#include "engine/graph/graph.h"
#include "engine/graph/node.h"
#include "engine/graph/turn.h"
#include "engine/ground/context.h"
#include "engine/ground/refusal.h"
#include "engine/messages/groups.h"
#include "engine/messages/message.h"
#include "engine/messages/route.h"
#include "engine/messages/transfer.h"
#include "engine/messages/window.h"
#include "net/peer/reach.h"

/* ---- this member's ---- */

/* It ends without the peer. */
static void let_go(fry_turn *turn, fry_transfer *transfer)
{
    transfer->node->op.message.transfer = NULL;
    fry_window_is_used_no_more(turn, transfer);
    fry_pool_give(&turn->engine->transfers, &turn->context->transfers, transfer);
}

static void start(fry_turn *turn, fry_node *node)
{
    fry_transfer *transfer = node->op.message.transfer;
    ferry_window *window = transfer->window;
    fry_message *message = &transfer->message;
    fry_route *route = transfer->route;
    fry_fault fault;
    if (message->is_staged && !message->is_send)
        fry_graph_begun(turn, node);
    else
        fry_graph_issued(turn, node);
    if (fry_window_refusal(window, message->is_send, node->op.message.tag, message->size_bytes,
                           &fault) != FERRY_OK) {
        fry_transfer_refuse_for(turn, transfer, &fault);
        return;
    }
    if (message->size_bytes == 0) {
        let_go(turn, transfer);
        fry_graph_complete(turn, node);
        return;
    }
    message->op = node->future.id;
    transfer->flags |= FRY_TRANSFER_ENTERED;
    window->uses++;
    fry_route_opened(route);
    if (fry_peer_reach(message, &window->found, node->op.message.tag, turn->gathers, turn)) {
        fry_route_launched(turn, route); /* the message may be gone */
        return;
    }
    fry_route_closed(turn, route);
    window->uses--; /* it is not ENDING */
    fry_transfer_refuse(turn, transfer, FRY_REFUSED_UNEXPECTED_MAX);
}

static void failed(fry_turn *turn, fry_node *node, bool is_under_way)
{
    fry_transfer *transfer = node->op.message.transfer;
    if (transfer == NULL)
        return;
    if ((transfer->flags & (FRY_TRANSFER_ENTERED | FRY_TRANSFER_RESOLVED)) == 0)
        let_go(turn, transfer); /* it has not started */
    else
        fry_messages_failed(turn, node, is_under_way);
}

const fry_op_kind fry_kind_get = {
    .traits = FRY_MESSAGE_TRAITS,
    .span = fry_messages_received_span,
    .discard = fry_messages_discard,
    .start = start,
    .stop = fry_messages_stop,
    .failed = failed,
    .moved_bytes = fry_messages_received_bytes,
    .describe = fry_messages_describe,
};

const fry_op_kind fry_kind_put = {
    .traits = FRY_MESSAGE_TRAITS,
    .span = fry_messages_sent_span,
    .discard = fry_messages_discard,
    .start = start,
    .stop = fry_messages_stop,
    .failed = failed,
    .moved_bytes = fry_messages_sent_bytes,
    .describe = fry_messages_describe,
};

/* ---- for other members ---- */

static bool enter(fry_turn *turn, fry_node *node, bool may_start)
{
    (void)may_start; /* the graph starts it */
    fry_transfer *transfer = node->op.message.transfer;
    fry_route *route = transfer->route;
    if (fry_unlikely(turn->engine->stop_graph)) {
        fry_messages_refuse(turn, node);
        return false;
    }
    transfer->message.op = node->future.id;
    fry_route_opened(route);
    if (fry_peer_answer_reach(fry_route_made_peer(route), &transfer->message, turn)) {
        transfer->flags |= FRY_TRANSFER_ENTERED;
        return false;
    }
    fry_route_closed(turn, route);
    fry_transfer_refuse(turn, transfer, FRY_REFUSED_NO_MEMORY);
    return false;
}

const fry_op_kind fry_kind_give = {
    .traits = FRY_MESSAGE_TRAITS,
    .span = fry_messages_sent_span,
    .discard = fry_messages_discard,
    .entered = enter,
    .start = fry_messages_start,
    .stop = fry_messages_stop,
    .failed = fry_messages_failed,
    .moved_bytes = fry_messages_sent_bytes,
    .describe = fry_messages_describe,
};

const fry_op_kind fry_kind_accept = {
    .traits = FRY_MESSAGE_TRAITS,
    .span = fry_messages_received_span,
    .discard = fry_messages_discard,
    .entered = enter,
    .start = fry_messages_start,
    .stop = fry_messages_stop,
    .failed = fry_messages_failed,
    .moved_bytes = fry_messages_received_bytes,
    .describe = fry_messages_describe,
};
