/* SPDX-License-Identifier: Apache-2.0 */
/* What those that move a message's bytes say of it. With the baton. */
#ifndef FRY_ENGINE_MESSAGES_TRANSFER_H
#define FRY_ENGINE_MESSAGES_TRANSFER_H

#include "base/fault.h"
#include "engine/graph/buffer.h"
#include "engine/graph/turn.h"
#include "engine/ground/refusal.h"
#include "engine/messages/groups.h"
#include "engine/messages/message.h"
#include "engine/messages/pairing.h"
#include "engine/messages/route.h"

/*
 * Sets up a node, which is new, as a message of a span, and its transfer. The other fields are set
 * as it enters, before they are read. Any thread.
 */
static inline void fry_transfer_init(fry_transfer *transfer, fry_node *node, fry_route *route,
                                     ferry_tag tag, const ferry_span *span, bool is_send)
{
    transfer->flags = 0;
    transfer->copies = 0;
    transfer->node = node;
    transfer->route = route;
    transfer->message.owner = transfer;
    transfer->message.is_staged = span->size_bytes != 0 && span->buffer->device->host_lane == NULL;
    transfer->message.memory = span->size_bytes != 0 && !transfer->message.is_staged
                                   ? (char *)span->buffer->data + span->offset_bytes
                                   : NULL;
    transfer->message.size_bytes = span->size_bytes;
    transfer->message.tag = tag;
    transfer->message.is_send = is_send;
    transfer->message.is_apart = false;
    transfer->window = NULL;
    transfer->message.may_view = transfer->message.is_staged && !transfer->message.is_send &&
                                 span->buffer->device->device->ops->memory_open_shared != NULL;
    transfer->message.may_join =
        transfer->message.is_staged && fry_pairing_takes(route, span->buffer->device);
    if (transfer->message.is_staged) {
        transfer->is_in_lot = false;
        transfer->landed = (fry_landed){0};
        transfer->ahead = NULL;
    }
    node->op.message = (fry_message_op){.transfer = transfer,
                                        .buffer = span->size_bytes != 0 ? span->buffer : NULL,
                                        .offset = span->offset_bytes,
                                        .rank = (uint16_t)route->rank,
                                        .size_bytes = span->size_bytes & FRY_BUFFER_BYTES_MAX,
                                        .tag = tag};
    node->is_staged = transfer->message.is_staged;
    if (transfer->message.is_send)
        node->op.message.flow = fry_flow_of((uint32_t)route->group->rank, node->future.id);
    if (span->size_bytes != 0)
        fry_node_init_spans(node);
}

/* On the loop: fails a message's node, unless it is over, with words of this end's. */
void fry_transfer_fail(fry_turn *turn, fry_transfer *transfer, const fry_fault *fault);

/*
 * The message goes to nobody, and the loop fails its node, with those words of this end's, or for
 * that reason.
 */
void fry_transfer_refuse_for(fry_turn *turn, fry_transfer *transfer, const fry_fault *fault);
void fry_transfer_refuse(fry_turn *turn, fry_transfer *transfer, fry_refusal why);

/*
 * One of transfer->copies is over: the peer may be done with the message, or with its memory, and
 * wait for the last of them.
 */
void fry_transfer_copies_are_over(fry_turn *turn, fry_transfer *transfer);

#endif
