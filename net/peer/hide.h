/* SPDX-License-Identifier: Apache-2.0 */
/* Hiding: memory that was shown is to be freed, and the other end closes what it has open of it. */
#ifndef FRY_NET_PEER_HIDE_H
#define FRY_NET_PEER_HIDE_H

#include "net/peer/peer.h"

typedef struct fry_wire_header fry_wire_header;

/*
 * Asks the other end to close that memory (events->hidden: it has). One at a time; not asked, and
 * never answered, if there is no connection.
 */
void fry_peer_hide(fry_peer *peer, uint64_t generation, void *turn);

/* The engine's answer to `hide`. */
void fry_peer_has_closed(fry_peer *peer, void *turn);

/* ---- for the files of a peer ---- */

/* Handles HIDE and HIDDEN. False: the other end broke the rules. */
bool fry_hide_heard(fry_peer_connection *connection, const fry_wire_header *header);

/* Says what had to wait for a control, as far as possible. */
void fry_hide_go_on(fry_peer_connection *connection);

#endif
