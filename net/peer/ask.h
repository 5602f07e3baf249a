/* SPDX-License-Identifier: Apache-2.0 */
/* Asking: receives that get their message in pieces. */
#ifndef FRY_NET_PEER_ASK_H
#define FRY_NET_PEER_ASK_H

#include "net/peer/peer.h"

typedef struct fry_record fry_record;
typedef struct fry_wire_header fry_wire_header;

/* The engine's answers: to `wants_place`, the place, which stays until `over`; to `landed`. */
void fry_peer_placed(fry_slice *slice, void *memory, void *turn);
void fry_peer_stored(fry_slice *slice, void *turn);

/*
 * The answer to `shown`: nobody here reads the bytes any more. has_all: they have been read, all of
 * them; false: the message is to come in pieces.
 */
void fry_peer_viewed(fry_slice *view, bool has_all, void *turn);

/* ---- for the files of a peer ---- */

/* Whether a ready receive gets the message in pieces; and whether it can. */
bool fry_ask_is_for(const fry_record *record, const fry_message *message);
bool fry_ask_can(const fry_peer_connection *connection, const fry_record *record,
                 const fry_message *message);

/* Begins to receive it. From then on its record is in by_slot, under message->number. */
void fry_ask_begin(fry_peer_connection *connection, fry_record *record, fry_message *message);

/* No piece comes for the receive any more, except those of message->posts. Returns its record. */
fry_record *fry_ask_end(fry_peer_connection *connection, const fry_message *message);

/* The receive has all its bytes: it is over. */
void fry_ask_has_all(fry_peer_connection *connection, fry_record *record);

/* A receive that should have come otherwise comes in pieces, from the next fry_ask_go_on on. */
void fry_ask_instead(fry_peer_connection *connection, fry_record *record);

/* Handles SHOW and HOLDS. False: the other end broke the rules. */
bool fry_ask_view_heard(fry_peer_connection *connection, const fry_wire_header *header);

/* Asks for more, as far as possible; whether it is. */
bool fry_ask_can_go_on(const fry_peer_connection *connection);
void fry_ask_go_on(fry_peer_connection *connection);

/* Handles a PIECE. False: the other end broke the rules. */
bool fry_ask_arrived(fry_peer_connection *connection, const fry_wire_header *header,
                     const fry_arrival *arrival);

/* The connection was detached; its channel was destroyed. */
void fry_ask_detach(fry_peer_connection *connection);
void fry_ask_destroyed(fry_peer_connection *connection);

#endif
