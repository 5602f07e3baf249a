/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/messages/transfer.h"

#include "engine/engine.h"
#include "engine/graph/graph.h"
#include "engine/graph/node.h"
#include "engine/messages/groups.h"
#include "engine/messages/members.h"
#include "engine/messages/message.h"
#include "engine/messages/route.h"

void fry_transfer_fail(fry_turn *turn, fry_transfer *transfer, const fry_fault *from)
{
    fry_node *node = transfer->node;
    if (node == NULL || node->state >= FRY_NODE_RESOLVED)
        return;
    fry_fault fault = *from;
    fault.op = node->future.id;
    fault.label = fry_node_label(node);
    fry_error *error = fry_error_create(&turn->engine->memory, &fault, NULL, "%s",
                                        fault.message[0] != '\0' ? fault.message
                                                                 : ferry_status_text(fault.status));
    fry_graph_fail(turn, node, fault.status, error, false);
}

/* The loop makes the error. */
void fry_transfer_refuse_for(fry_turn *turn, fry_transfer *transfer, const fry_fault *fault)
{
    fry_members *members = transfer->route->group->members;
    transfer->fault = *fault;
    transfer->status = fault->status;
    transfer->flags = FRY_TRANSFER_RESOLVED | FRY_TRANSFER_QUIET | FRY_TRANSFER_FAULTED;
    fry_queue_push(&members->faulted, &transfer->link);
    turn->wake = true;
}

void fry_transfer_refuse(fry_turn *turn, fry_transfer *transfer, fry_refusal why)
{
    const fry_fault fault = fry_error_fault(fry_refusal_error(why));
    fry_transfer_refuse_for(turn, transfer, &fault);
}

void fry_transfer_copies_are_over(fry_turn *turn, fry_transfer *transfer)
{
    const fry_peer_events *events = transfer->route->group->members->message_events;
    if (transfer->copies != 0)
        return;
    if ((transfer->flags & FRY_TRANSFER_ENDS) != 0)
        events->quiet(turn, &transfer->message);
    else if ((transfer->flags & FRY_TRANSFER_UNTOUCHED) != 0)
        events->untouched(turn, &transfer->message);
}
