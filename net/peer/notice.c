/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notices.
 *
 * A notice is launched like a message, in the order of launches, with its data, and answered like
 * one. But it has no receive: the other end keeps it in the order of coming until somebody takes
 * the next, and only then answers. So a sender's operation says that its notice was taken.
 *
 * Room. A notice takes no part in the window for messages' data: who takes no notices holds up
 * notices alone. The receiver has room for FRY_NOTICES_UNTAKEN of each sender, which launches no
 * more than that; others wait with the sender, in order (fry_peer.notices), and are nobody's
 * business there. Those that were launched hold a slot each until they are taken.
 *
 * A notice that is withdrawn before it was launched is never heard of; one that was launched may be
 * taken all the same.
 */
#include "net/peer/notice.h"

#include "base/lf.h"
#include "net/peer/connection.h"
#include "net/peer/match.h"
#include "net/peer/send.h"
#include "net/peer/state.h"
#include "net/peer/untaken.h"

#include <string.h>

/* ---- the sender ---- */

bool fry_peer_notify(fry_peer *peer, fry_message *message, bool gathers, void *turn)
{
    peer->turn = turn;
    if (peer->send_count >= peer->options.unexpected_max)
        return false;
    message->is_apart = message->is_notice = true;
    message->is_read = false;
    message->tag = 0;
    if (!fry_peer_enter(peer, message, turn))
        return false;
    message->state = FRY_MESSAGE_READY;
    message->is_untold = true;
    TAILQ_INSERT_TAIL(&peer->notices, message, waiting);
    fry_sends_notify(peer, gathers);
    return true;
}

/* ---- the receiver ---- */

static const fry_record *first(const fry_peer *peer)
{
    const fry_peer_connection *connection = peer->connection;
    bool is_live = connection != NULL && fry_connection_is_live(connection);
    return is_live && connection->windows != NULL ? connection->windows->notice_first : NULL;
}

bool fry_peer_has_notice(const fry_peer *peer, size_t *size_bytes_p)
{
    const fry_record *record = first(peer);
    if (record == NULL)
        return false;
    *size_bytes_p = (size_t)record->size_bytes;
    return true;
}

uint64_t fry_peer_take_notice(fry_peer *peer, void *memory, void *turn)
{
    fry_peer_connection *connection = peer->connection;
    fry_record *record = fry_untaken_pop(connection);
    uint32_t slot = record->slot;
    uint64_t op = record->op;
    peer->turn = turn;
    if (record->size_bytes > 0)
        memcpy(memory, record->notice, (size_t)record->size_bytes);
    fry_connection_give_record(connection, record);
    fry_connection_acknowledge(connection, slot);
    return op;
}
