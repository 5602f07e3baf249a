/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serving: a send whose bytes stay until they are asked for (HELD, or PULLED and then dropped).
 *
 * The receiver asks for a piece when it has a place for it, so a post of a piece ends by itself,
 * whatever the two programs do. The sender keeps no order and no count: it brings what is asked
 * for, as often as that is. What bounds it is that the other end may have no more than
 * FRY_CONNECTION_ASKED pieces outstanding. But a piece that it has given up, because its receive
 * was withdrawn, may stay with the channel until the other end makes progress, and it may ask for
 * others meanwhile. So a piece that finds FRY_CONNECTION_SERVED under way waits. Those that wait
 * are for launches that have not ended here, of which an honest end never wants as many as there is
 * room for: it tells of the withdrawal before it asks for more.
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
#include "net/peer/show.h"
#include "net/peer/state.h"
#include "net/peer/wire.h"

#include <string.h>

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
    fry_send_post_begins(message);
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

/* There is a free slice. */
static void serve_piece(fry_peer_connection *connection, fry_message *message, const fry_want *want)
{
    fry_slice *slice = connection->serves_free;
    connection->serves_free = slice->next;
    *slice = (fry_slice){.message = message,
                         .offset = want->offset,
                         .size_bytes = (uint32_t)want->size_bytes,
                         .number = want->number,
                         .slot = want->slot,
                         .state = FRY_SLICE_FILLING,
                         .is_staged = message->is_staged,
                         .connection = connection};
    message->flags |= FRY_MESSAGE_IN_PIECES;
    const fry_peer *peer = connection->peer;
    if (slice->is_staged)
        peer->options.events->serve(peer->turn, slice);
    else
        post(slice, (char *)message->memory + slice->offset);
}

static void recall(fry_peer_connection *connection, fry_connection_slot *slot)
{
    if (slot->is_recalled || slot->recall != 0)
        return;
    slot->recall = FERRY_E_CANCELLED;
    slot->recalled_op = 0;
    connection->recalls++; /* the next progress sends it */
}

fry_message *fry_serve_message(fry_peer_connection *connection, uint32_t slot_index,
                               uint32_t number)
{
    fry_connection_slot *slot = &connection->slots[slot_index];
    if (!slot->is_used || slot->number != number || connection->is_bye_said)
        return NULL;
    if (slot->message == NULL)
        recall(connection, slot);
    return slot->message;
}

/* Whether there is what it takes. */
static bool can_serve(const fry_peer_connection *connection, const fry_want *want)
{
    return connection->serves_free != NULL && (!want->is_view || connection->controls_free != NULL);
}

/* A view has an answer, also if its message has ended. */
static void serve(fry_peer_connection *connection, const fry_want *want)
{
    fry_message *message = fry_serve_message(connection, want->slot, want->number);
    if (want->is_view && !connection->is_bye_said)
        fry_show_place(connection, message, want->slot, want->number);
    else if (message != NULL)
        serve_piece(connection, message, want);
}

static void forget_ended(fry_peer_connection *connection)
{
    uint32_t count = connection->want_count;
    connection->want_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        fry_want want = connection->wants[i];
        if (want.is_view || fry_serve_message(connection, want.slot, want.number) != NULL)
            connection->wants[connection->want_count++] = want;
    }
}

/* False: the other end asks for more than agreed. */
static bool put_off(fry_peer_connection *connection, const fry_want *want)
{
    if (connection->want_count == FRY_CONNECTION_WANTED)
        forget_ended(connection);
    if (connection->want_count == FRY_CONNECTION_WANTED)
        return false;
    connection->wants[connection->want_count++] = *want;
    return true;
}

bool fry_serve_wanted(fry_peer_connection *connection, const fry_wire_header *header)
{
    bool is_view = header->kind == FRY_WIRE_VIEW;
    const fry_want want = {.offset = is_view ? 0 : header->offset,
                           .size_bytes = is_view ? 0 : header->size_bytes,
                           .slot = header->slot,
                           .number = header->number,
                           .is_view = is_view};
    if (want.slot >= connection->slots_fresh || want.size_bytes > FRY_SLICE_BYTES_MAX ||
        (int32_t)(want.number - connection->send_number) >= 0)
        return false;
    const fry_message *message = fry_serve_message(connection, want.slot, want.number);
    if (message == NULL && !is_view)
        return true;
    if (message != NULL &&
        ((message->flags & (FRY_MESSAGE_PULLED | FRY_MESSAGE_IN_PIECES)) == 0 ||
         want.offset > message->size_bytes || want.size_bytes > message->size_bytes - want.offset))
        return false;
    if (connection->want_count > 0 || !can_serve(connection, &want))
        return put_off(connection, &want);
    serve(connection, &want);
    return true;
}

bool fry_serve_viewed(fry_peer_connection *connection, const fry_wire_header *header)
{
    if (header->slot >= connection->slots_fresh)
        return false;
    fry_message *message = fry_serve_message(connection, header->slot, header->number);
    if (message != NULL)
        message->was_viewed = header->is_yes;
    return fry_show_viewed(connection, header, message != NULL);
}

static void say_seen(fry_peer_connection *connection)
{
    fry_slice *shown;
    while (connection->controls_free != NULL && fry_connection_is_live(connection) &&
           (shown = fry_show_seen(connection)) != NULL)
        fry_show_holds(shown, fry_serve_message(connection, shown->slot, shown->number) != NULL);
}

void fry_serve_go_on(fry_peer_connection *connection)
{
    say_seen(connection);
    while (connection->want_count > 0 && can_serve(connection, &connection->wants[0]) &&
           fry_connection_is_live(connection)) {
        fry_want want = connection->wants[0];
        connection->want_count--;
        memmove(connection->wants, connection->wants + 1, connection->want_count * sizeof(want));
        serve(connection, &want);
    }
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
    connection->want_count = 0;
    end_all(connection, FRY_SLICE_FILLING);
}

void fry_serve_destroyed(fry_peer_connection *connection)
{
    end_all(connection, FRY_SLICE_POSTED);
    fry_show_destroyed(connection);
}
