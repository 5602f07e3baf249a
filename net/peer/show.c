/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Showing: the sender's half of net/peer/view.c, which has the arguments.
 *
 * A message that is shown counts as one that the channel reads (fry_message.posts), until the other
 * end says VIEWED, which it does once for each SHOW with a place. VIEW and VIEWED name a launch: if
 * that has ended meanwhile, they are about the message that was shown and no other.
 */
#include "net/peer/show.h"

#include "net/peer/connection.h"
#include "net/peer/state.h"
#include "net/peer/wire.h"

static fry_slice *slices_of(const fry_peer_connection *connection)
{
    return connection->slices + FRY_CONNECTION_ASKED;
}

static void is_over(fry_slice *shown)
{
    fry_message *message = shown->message;
    shown->connection->shown--;
    fry_slice_end(&shown->connection->serves_free, shown, true);
    fry_send_post_is_over(message);
}

static void take_slice(fry_peer_connection *connection, fry_message *message, uint32_t slot,
                       uint32_t number)
{
    fry_slice *shown = connection->serves_free;
    connection->serves_free = shown->next;
    connection->shown++;
    *shown = (fry_slice){.message = message,
                         .number = number,
                         .slot = slot,
                         .state = FRY_SLICE_SHOWN,
                         .is_view = true,
                         .connection = connection};
    message->flags |= FRY_MESSAGE_IN_PIECES;
    fry_send_post_begins(message);
}

void fry_show_place(fry_peer_connection *connection, fry_message *message, uint32_t slot,
                    uint32_t number)
{
    const fry_peer *peer = connection->peer;
    fry_wire_header header = {.kind = FRY_WIRE_SHOW, .slot = slot, .number = number};
    header.is_yes = message != NULL && message->is_staged && peer->options.events->show != NULL &&
                    peer->options.events->show(peer->turn, message, &header.place);
    if (header.is_yes)
        take_slice(connection, message, slot, number);
    (void)fry_connection_send(connection, &header);
}

void fry_show_holds(fry_slice *shown, bool is_offered)
{
    fry_peer_connection *connection = shown->connection;
    const fry_wire_header header = {
        .kind = FRY_WIRE_HOLDS, .slot = shown->slot, .number = shown->number};
    connection->unsaid -= shown->state == FRY_SLICE_SEEN;
    is_over(shown);
    if (is_offered)
        (void)fry_connection_send(connection, &header);
}

bool fry_show_viewed(fry_peer_connection *connection, const fry_wire_header *header,
                     bool is_offered)
{
    fry_slice *slices = slices_of(connection), *shown = NULL;
    for (size_t i = 0; i < FRY_CONNECTION_SERVED && shown == NULL; i++) {
        if (slices[i].state == FRY_SLICE_SHOWN && slices[i].slot == header->slot &&
            slices[i].number == header->number)
            shown = &slices[i];
    }
    if (shown == NULL)
        return false;
    if (header->is_yes && is_offered && connection->controls_free == NULL) {
        shown->state = FRY_SLICE_SEEN;
        connection->unsaid++;
    } else {
        fry_show_holds(shown, header->is_yes && is_offered);
    }
    return true;
}

fry_slice *fry_show_seen(fry_peer_connection *connection)
{
    fry_slice *slices = slices_of(connection);
    for (size_t i = 0; i < FRY_CONNECTION_SERVED && connection->unsaid > 0; i++) {
        if (slices[i].state == FRY_SLICE_SEEN)
            return &slices[i];
    }
    return NULL;
}

void fry_show_destroyed(fry_peer_connection *connection)
{
    fry_slice *slices = slices_of(connection);
    connection->unsaid = connection->shown = 0;
    for (size_t i = 0; i < FRY_CONNECTION_SERVED; i++) {
        if (slices[i].state == FRY_SLICE_SHOWN || slices[i].state == FRY_SLICE_SEEN)
            fry_slice_end(&connection->serves_free, &slices[i], true);
    }
}
