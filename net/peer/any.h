/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any source: the receives of a group that take from whoever sends, and its probes; shared by the
 * group's peers. With the baton, like these.
 *
 * Two lists. `waiting` has receives that name no member or no tag, and probes, which have no
 * message yet. `unmatched` has messages of all peers that have no receive yet, in the order in
 * which they came. Receives that name both stand in their peer's table as always, and so do
 * messages; but no place is kept there for either (fry_tag_entry.count): a message is *first* of
 * its peer and tag once all that were sent before it with that tag are launched and taken, and only
 * then may a receive have it. So a message that is not ready holds up those behind it, which it
 * does not without any source; in return any receive can take it, and those of one peer and tag
 * stay in order.
 *
 * Who gets a message. All receives and probes of the group are numbered as they enter (`place`). A
 * first message goes to the one of the lowest place that it suits, waiting here or in the table: by
 * comparing two, the first in the table and the first here. Both are asked for at each of two
 * moments: when a message becomes first (fry_receive_offer), and when a receive enters (seek.c),
 * which takes the first message that suits it. Between the two nothing changes that could make
 * another pair, so no message and receive that suit each other ever wait side by side. A receive
 * that is withdrawn before it has a message leaves no ghost: it held no message's place.
 *
 * Room. A connection's slots bound the messages that wait here. If the other end may enter more
 * sends than there are slots, all slots may be taken by messages behind one that finds none: then
 * the newest is refused, which gives its slot to another (fry_any_is_stuck). Else a slot comes back
 * when a receive takes one of the first messages, of which there is one.
 *
 * What it costs. A message that comes walks `waiting`, which is bounded by waiting_max; a receive
 * that names no member or no tag walks `unmatched`, which the peers' unexpected_max bound.
 */
#ifndef FRY_NET_PEER_ANY_H
#define FRY_NET_PEER_ANY_H

#include "net/peer/match.h"
#include "net/peer/peer.h"

/* A kept message of a connection with any source; one for each record, of the same index. */
typedef struct fry_unmatched {
    TAILQ_ENTRY(fry_unmatched) entry; /* in fry_any.unmatched, while no receive has it */
    fry_peer_connection *connection;
    fry_record *record;
} fry_unmatched;

struct fry_any {
    const fry_memory *memory;
    const fry_peer_events *events;
    TAILQ_HEAD(, fry_message) waiting;
    TAILQ_HEAD(, fry_unmatched) unmatched;
    uint64_t places; /* given so far */
    uint32_t waiting_count, waiting_max;
    bool is_alone; /* nobody else is left in the group: those that name no member don't wait */
};

/* Opens it; its peers are opened with it, and closed before. NULL: no memory. */
fry_any *fry_any_open(const fry_memory *memory, const fry_peer_events *events,
                      uint32_t waiting_max);
void fry_any_close(fry_any *any);

/* Whom a failure is about. */
typedef enum fry_any_whose {
    FRY_ANY_OF_RANK, /* those that name that member */
    FRY_ANY_OF_NONE, /* those that name none */
    FRY_ANY_OF_ALL,
} fry_any_whose;

/* Fails those that wait, with their events. rank: with FRY_ANY_OF_RANK. */
void fry_any_fail(fry_any *any, fry_any_whose whose, int32_t rank, ferry_status status,
                  const fry_fault *fault, void *turn);

/* ---- for the files of a peer ---- */

/* Adds one that waits from now on. It is not a peer's. */
void fry_any_add(fry_any *any, fry_message *message);
void fry_any_leave(fry_any *any, fry_message *message);

/* The first that waits, of a place before that one, and that a message suits. NULL: none. */
fry_message *fry_any_find(const fry_any *any, int32_t rank, ferry_tag tag, uint64_t before);

/* Keeps a message, which is in its table already, in the order of coming; and takes it out. */
void fry_any_keep(fry_peer_connection *connection, fry_record *record);
void fry_any_take(fry_peer_connection *connection, const fry_record *record);

/* The first kept message that suits one that enters; NULL: none. */
fry_unmatched *fry_any_look(const fry_any *any, const fry_seek *seek, ferry_tag tag);

/* Whether the connection has as many messages as it may, and none of them may be taken. */
bool fry_any_is_stuck(const fry_peer_connection *connection);

/* The connection keeps no messages any more. */
void fry_any_forget(fry_any *any, const fry_peer_connection *connection);

#endif
