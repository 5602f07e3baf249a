/* SPDX-License-Identifier: Apache-2.0 */
/* Their rooms are used from the front, so that a connection without notices touches none. */
#include "net/peer/untaken.h"

#include "net/peer/match.h"
#include "net/peer/state.h"

uint8_t *fry_untaken_room(fry_peer_connection *connection)
{
    fry_finds *windows = connection->windows;
    size_t index = windows->notice_fresh;
    if (windows->notice_free_count > 0)
        index = windows->notice_free[--windows->notice_free_count];
    else if (index == FRY_NOTICES_UNTAKEN)
        return NULL;
    else
        windows->notice_fresh++;
    return connection->notice_rooms + index * FRY_NOTICE_BYTES;
}

void fry_untaken_give_room(fry_peer_connection *connection, uint8_t *room)
{
    fry_finds *windows = connection->windows;
    size_t index = (size_t)(room - connection->notice_rooms) / FRY_NOTICE_BYTES;
    windows->notice_free[windows->notice_free_count++] = (uint16_t)index;
}

void fry_untaken_add(fry_peer_connection *connection, fry_record *record)
{
    fry_peer *peer = connection->peer;
    fry_finds *windows = connection->windows;
    record->next = NULL;
    if (windows->notice_last != NULL)
        windows->notice_last->next = record;
    else
        windows->notice_first = record;
    windows->notice_last = record;
    peer->options.events->noticed(peer->turn, peer);
}

fry_record *fry_untaken_pop(fry_peer_connection *connection)
{
    fry_finds *windows = connection->windows;
    fry_record *record = windows != NULL ? windows->notice_first : NULL;
    if (record == NULL)
        return NULL;
    windows->notice_first = record->next;
    if (record->next == NULL)
        windows->notice_last = NULL;
    return record;
}
