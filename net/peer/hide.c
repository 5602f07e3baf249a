/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hiding. A member keeps memory of another open after it has read a message there
 * (net/peer/view.c), because opening takes long. Memory may not be freed while others have it open.
 * So its owner asks each member that it was shown to (HIDE), and frees it when all have closed it
 * (HIDDEN), or have no connection any more. Memory that has no open message is asked for, so nobody
 * reads it then.
 *
 * Each end asks once and waits for the answer. So one HIDE is open in each direction at most, and
 * neither end keeps a list of them.
 */
#include "net/peer/hide.h"

#include "net/peer/connection.h"
#include "net/peer/state.h"
#include "net/peer/wire.h"

static void say(fry_peer_connection *connection, fry_wire_kind kind)
{
    const fry_wire_header header = {.kind = (uint8_t)kind, .op = connection->hide_generation};
    (void)fry_connection_send(connection, &header);
}

void fry_hide_go_on(fry_peer_connection *connection)
{
    if (connection->hide_is_due && connection->controls_free != NULL) {
        connection->hide_is_due = false;
        say(connection, FRY_WIRE_HIDE);
    }
    if (connection->hidden_is_due && connection->controls_free != NULL &&
        fry_connection_is_live(connection)) {
        connection->hidden_is_due = false;
        say(connection, FRY_WIRE_HIDDEN);
    }
}

void fry_peer_hide(fry_peer *peer, uint64_t generation, void *turn)
{
    fry_peer_connection *connection = peer->connection;
    if (connection == NULL || !fry_connection_is_live(connection))
        return;
    peer->turn = turn;
    connection->hide_generation = generation;
    connection->hide_is_asked = connection->hide_is_due = true;
    fry_hide_go_on(connection);
}

void fry_peer_has_closed(fry_peer *peer, void *turn)
{
    fry_peer_connection *connection = peer->connection;
    if (connection == NULL || !fry_connection_is_live(connection))
        return;
    peer->turn = turn;
    connection->hide_is_heard = false;
    connection->hidden_is_due = true;
    fry_hide_go_on(connection);
}

bool fry_hide_heard(fry_peer_connection *connection, const fry_wire_header *header)
{
    fry_peer *peer = connection->peer;
    const fry_peer_events *events = peer->options.events;
    if (header->kind == FRY_WIRE_HIDDEN) {
        if (!connection->hide_is_asked || connection->hide_is_due)
            return false;
        connection->hide_is_asked = false;
        events->hidden(peer->turn, peer);
        return true;
    }
    if (connection->hide_is_heard || connection->hidden_is_due)
        return false;
    connection->hide_is_heard = true;
    events->hide(peer->turn, peer, header->op);
    return true;
}
