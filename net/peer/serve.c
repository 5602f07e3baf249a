/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serving: a send whose bytes stay until they are asked for (HELD, or PULLED and then dropped).
 *
 * The receiver asks for a piece when it has a place for it, so a post of a piece ends by itself,
 * whatever the two programs do. The sender keeps no order and no count: it brings what is asked
 * for, as often as that is. What bounds it is that the other end may have no more than
 * FRY_CONNECTION_ASKED pieces outstanding.
 *
 * A send is quiet when its slot was answered, or it was withdrawn, and no post of it or of a piece
 * is under way (fry_message.posts). Bytes that the engine is getting for a piece are the engine's
 * matter.
 *
 * Asked and answered may cross: a WANT names the launch by slot and number, and one for a launch
 * that has ended means nothing. A WANT for a launch that was withdrawn is answered by a recall, if
 * none was sent: a pulled send that is withdrawn as its data was dropped is not recalled otherwise.
 */
#include "net/peer/serve.h"

#include "base/lf.h"
#include "net/peer/connection.h"
#include "net/peer/fault.h"
#include "net/peer/state.h"
#include "net/peer/wire.h"

static void end(fry_slice *slice)
{
    fry_slice_end(&slice->connection->serves_free, slice, false);
}

static void is_over(fry_slice *slice)
{
    fry_message *message = slice->message;
    end(slice);
    fry_send_post_is_over(message);
}

static void posted(fry_post *post, ferry_status status, const fry_fault *fault)
{
    fry_slice *slice = post->arg;
    fry_peer_connection *connection = slice->connection;
    if (!post->is_pulled)
        connection->posting--;
    is_over(slice);
    if (status != FERRY_OK)
        fry_connection_fail(connection, FERRY_E_PEER, fault, "a message could not be sent");
}

static void post(fry_slice *slice, void *memory)
{
    fry_peer_connection *connection = slice->connection;
    fry_message *message = slice->message;
    const fry_wire_header header = {.kind = FRY_WIRE_PIECE,
                                    .slot = slice->slot,
                                    .number = slice->number,
                                    .size_bytes = slice->size_bytes,
                                    .offset = slice->offset};
    uint8_t bytes[FRY_HEADER_BYTES_MAX];
    size_t header_bytes = fry_wire_pack(bytes, &header);
    slice->state = FRY_SLICE_POSTED;
    slice->memory = memory;
    slice->post = (fry_post){.data = memory,
                             .size_bytes = slice->size_bytes,
                             .is_pulled = slice->size_bytes > connection->eager_bytes_max,
                             .done = posted,
                             .arg = slice};
    if (message->state == FRY_MESSAGE_UNDER_WAY && message->posts == 0)
        message->posts = 1; /* its own post */
    message->posts++;
    message->state = FRY_MESSAGE_UNDER_WAY;
    bool is_pulled = slice->post.is_pulled;
    connection->posting += !is_pulled;
    if (fry_connection_post(connection, &slice->post, bytes, header_bytes) != FRY_POST_DONE)
        return;
    connection->posting -= !is_pulled;
    is_over(slice);
}

void fry_peer_served(fry_slice *slice, void *memory, void *turn)
{
    fry_peer_connection *connection = slice->connection;
    connection->peer->turn = turn;
    if (fry_connection_is_live(connection))
        post(slice, memory);
    else
        slice->memory = memory; /* it ends as the connection is detached */
}

/* False: the other end asks for more than agreed. */
static bool serve(fry_peer_connection *connection, fry_message *message,
                  const fry_wire_header *header)
{
    fry_slice *slice = connection->serves_free;
    if (slice == NULL)
        return false;
    connection->serves_free = slice->next;
    *slice = (fry_slice){.message = message,
                         .offset = header->offset,
                         .size_bytes = (uint32_t)header->size_bytes,
                         .number = header->number,
                         .slot = header->slot,
                         .state = FRY_SLICE_FILLING,
                         .is_staged = message->is_staged,
                         .connection = connection};
    message->flags |= FRY_MESSAGE_IN_PIECES;
    const fry_peer *peer = connection->peer;
    if (slice->is_staged)
        peer->options.events->serve(peer->turn, slice);
    else
        post(slice, (char *)message->memory + slice->offset);
    return true;
}

static void recall(fry_peer_connection *connection, fry_connection_slot *slot)
{
    if (slot->is_recalled || slot->recall != 0)
        return;
    slot->recall = FERRY_E_CANCELLED;
    slot->recalled_op = 0;
    connection->recalls++; /* the next progress sends it */
}

bool fry_serve_wanted(fry_peer_connection *connection, const fry_wire_header *header)
{
    if (header->slot >= connection->slots_fresh || header->size_bytes > FRY_SLICE_BYTES_MAX ||
        (int32_t)(header->number - connection->send_number) >= 0)
        return false;
    fry_connection_slot *slot = &connection->slots[header->slot];
    if (!slot->is_used || slot->number != header->number || connection->is_bye_said)
        return true; /* that launch has ended */
    fry_message *message = slot->message;
    if (message == NULL) {
        recall(connection, slot);
        return true;
    }
    return (message->flags & (FRY_MESSAGE_PULLED | FRY_MESSAGE_IN_PIECES)) != 0 &&
           header->offset <= message->size_bytes &&
           header->size_bytes <= message->size_bytes - header->offset &&
           serve(connection, message, header);
}

static fry_slice *slices_of(const fry_peer_connection *connection)
{
    return connection->slices + FRY_CONNECTION_ASKED;
}

void fry_serve_end(fry_peer_connection *connection, const fry_message *message)
{
    fry_slice *slices = slices_of(connection);
    for (size_t i = 0; i < FRY_CONNECTION_SERVED; i++) {
        if (slices[i].state == FRY_SLICE_FILLING && slices[i].message == message)
            end(&slices[i]);
    }
}

static void end_all(fry_peer_connection *connection, fry_slice_state state)
{
    fry_slice *slices = slices_of(connection);
    for (size_t i = 0; i < FRY_CONNECTION_SERVED; i++) {
        if (slices[i].state == state)
            end(&slices[i]);
    }
}

void fry_serve_detach(fry_peer_connection *connection)
{
    end_all(connection, FRY_SLICE_FILLING);
}

void fry_serve_destroyed(fry_peer_connection *connection)
{
    end_all(connection, FRY_SLICE_POSTED);
}
