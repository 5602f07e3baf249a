/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A notice that is sent is a message without a span: its bytes are in a slot of the engine's, from
 * the call until the peer is done with it. It keeps the group's memory, because it may wait for
 * other operations until long after the group was left.
 */
#include "engine/messages/notify.h"

#include "engine/engine.h"
#include "engine/graph/graph.h"
#include "engine/graph/node.h"
#include "engine/ground/refusal.h"
#include "engine/messages/groups.h"
#include "engine/messages/membership.h"
#include "engine/messages/message.h"
#include "engine/messages/route.h"
#include "engine/messages/transfer.h"
#include "net/peer/notice.h"

static void start_notice(fry_turn *turn, fry_node *node)
{
    fry_transfer *transfer = node->op.message.transfer;
    fry_route *route = transfer->route;
    fry_refusal why = fry_membership_refusal(route->group);
    fry_graph_issued(turn, node);
    transfer->message.op = node->future.id;
    if (why != FRY_TAKEN) {
        fry_transfer_refuse(turn, transfer, why);
        return;
    }
    transfer->flags |= FRY_TRANSFER_ENTERED;
    fry_route_opened(route);
    bool gathers = fry_messages_gather(turn);
    if (fry_peer_notify(fry_route_made_peer(route), &transfer->message, gathers, turn)) {
        if (gathers) /* the message may be gone */
            fry_messages_note_gathered(turn, route);
        else
            fry_route_launched(turn, route);
        return;
    }
    fry_route_closed(turn, route);
    fry_transfer_refuse(turn, transfer, FRY_REFUSED_UNEXPECTED_MAX);
}

static void notice_failed(fry_turn *turn, fry_node *node, bool is_under_way)
{
    fry_transfer *transfer = node->op.message.transfer;
    if (transfer == NULL)
        return;
    if ((transfer->flags & (FRY_TRANSFER_ENTERED | FRY_TRANSFER_RESOLVED)) != 0) {
        fry_messages_failed(turn, node, is_under_way);
        return;
    }
    fry_messages_discard(turn->engine, turn->context, node); /* it has not started */
    node->op.message.transfer = NULL;
}

static void notice_is_freed(ferry_engine *engine, fry_node *node)
{
    (void)engine;
    fry_membership_unretain(node->op.message.group);
}

static int32_t rank_of(const fry_node *node)
{
    return (int32_t)node->op.message.rank;
}

/* What a batch holds waits for the operations before it there. */
static void describe(const ferry_engine *engine, const fry_node *node, fry_kind_view *view)
{
    fry_messages_describe(engine, node, view);
    if (node->state == FRY_NODE_WAITING && node->batch != NULL &&
        node->batch->kind == FERRY_OP_BATCH && node->batch->op.batch.notice == node)
        view->before = node->batch->future.id;
}

const fry_op_kind fry_kind_notice = {
    .traits = FRY_KIND_STAYS | FRY_KIND_ENDS_OUTSIDE,
    .discard = fry_messages_discard,
    .free = notice_is_freed,
    .start = start_notice,
    .stop = fry_messages_stop,
    .failed = notice_failed,
    .moved_bytes = fry_messages_sent_bytes,
    .describe = describe,
    .rank = rank_of,
};
