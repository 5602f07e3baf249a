/* SPDX-License-Identifier: Apache-2.0 */
/* Serving: the pieces of a send that the other end asks for. */
#ifndef FRY_NET_PEER_SERVE_H
#define FRY_NET_PEER_SERVE_H

#include "net/peer/peer.h"

typedef struct fry_wire_header fry_wire_header;

/* The engine's answer to `serve`: the piece's bytes, which stay until `over`. */
void fry_peer_served(fry_slice *slice, void *memory, void *turn);

/* ---- for the files of a peer ---- */

/*
 * The message of a launch that the other end names. NULL: it has ended, or it was withdrawn, which
 * the other end is told.
 */
fry_message *fry_serve_message(fry_peer_connection *connection, uint32_t slot, uint32_t number);

/* Handles a WANT or VIEW. False: the other end broke the rules. */
bool fry_serve_wanted(fry_peer_connection *connection, const fry_wire_header *header);

/* Handles a VIEWED. False: the other end broke the rules. */
bool fry_serve_viewed(fry_peer_connection *connection, const fry_wire_header *header);

/* Serves what had to wait, as far as possible. */
void fry_serve_go_on(fry_peer_connection *connection);

/* No piece of the send is posted any more. */
void fry_serve_end(fry_peer_connection *connection, const fry_message *message);

/* The connection was detached; its channel was destroyed. */
void fry_serve_detach(fry_peer_connection *connection);
void fry_serve_destroyed(fry_peer_connection *connection);

#endif
