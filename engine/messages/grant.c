/* SPDX-License-Identifier: Apache-2.0 */
/* A get or a put of another member's becomes an operation here (reach.c), or is refused. */
#include "engine/messages/grant.h"

#include "engine/engine.h"
#include "engine/graph/node.h"
#include "engine/graph/turn.h"
#include "engine/ground/context.h"
#include "engine/ground/refusal.h"
#include "engine/messages/groups.h"
#include "engine/messages/membership.h"
#include "engine/messages/message.h"
#include "engine/messages/route.h"
#include "engine/messages/transfer.h"
#include "engine/messages/window.h"
#include "net/peer/reach.h"

#include <stdio.h>

/* Makes the operation. FRY_TAKEN: it will enter. */
static fry_refusal make(fry_turn *turn, fry_route *route, ferry_window *window,
                        const fry_reach *reach)
{
    ferry_engine *engine = turn->engine;
    fry_context *context = turn->context;
    fry_refusal why = FRY_REFUSED_NO_MEMORY;
    fry_node *node = fry_node_create(
        engine, context, (ferry_op_kind)(reach->is_put ? FRY_OP_ACCEPT : FRY_OP_GIVE), &why);
    if (node == NULL)
        return why;
    ferry_status status = FERRY_OK;
    fry_transfer *transfer =
        fry_pool_take_or_grow(&engine->transfers, &context->transfers, &status);
    if (transfer == NULL) {
        fry_node_discard_new(engine, context, node);
        return fry_refusal_of_want(status, FRY_REFUSED_MAX_NODES);
    }
    const ferry_span span = {window->buffer, window->offset + (size_t)reach->offset,
                             (size_t)reach->size_bytes};
    fry_transfer_init(transfer, node, route, reach->tag, &span, !reach->is_put);
    transfer->message.is_apart = true;
    transfer->message.is_notice = false;
    transfer->message.may_join = false;
    transfer->landed.is_apart = true; /* nothing is queued behind it on a device */
    transfer->message.reach_number = reach->epoch;
    transfer->window = window;
    fry_window_retain(window);
    window->uses++;
    node->is_untracked = true;
    node->label = "for another member";
    node->future.references = 1; /* its life's: nobody has its future */
    fry_graph_share(node);
    fry_stack_push(&engine->inbox, &node->link); /* this turn's end, or what follows it, takes it */
    return FRY_TAKEN;
}

/* Why this member does not do it; FERRY_OK: it does. */
static ferry_status check(const fry_route *route, const ferry_window *window,
                          const fry_reach *reach, fry_fault *fault)
{
    fry_refusal why = fry_membership_refusal(route->group);
    bool may_still_give = route->group->leaving == FRY_LEAVING_LINGERS && !reach->is_put;
    if (why != FRY_TAKEN && !may_still_give) {
        *fault = fry_error_fault(fry_refusal_error(why));
        return fault->status;
    }
    if (window == NULL) {
        *fault = (fry_fault){.status = FERRY_E_NOT_FOUND, .rank = -1};
        (void)snprintf(fault->message, sizeof fault->message,
                       "the window was closed, or left, meanwhile");
        return fault->status;
    }
    return fry_window_check(window, reach->is_put, reach->offset, reach->size_bytes, fault);
}

void fry_window_reached(void *arg, fry_peer *peer, void *window, const fry_reach *reach)
{
    fry_turn *turn = arg;
    fry_route *route = fry_peer_arg(peer);
    fry_fault fault;
    if (check(route, window, reach, &fault) == FERRY_OK) {
        fry_refusal why = make(turn, route, window, reach);
        if (why == FRY_TAKEN)
            return;
        fault = fry_error_fault(fry_refusal_error(why));
    }
    fry_peer_refuse_reach(peer, reach, &fault, turn);
    fry_route_launched(turn, route);
}
