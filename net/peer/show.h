/* SPDX-License-Identifier: Apache-2.0 */
/* Showing: sends that the other end reads where they are. For serve.c alone. */
#ifndef FRY_NET_PEER_SHOW_H
#define FRY_NET_PEER_SHOW_H

#include "net/peer/peer.h"

typedef struct fry_wire_header fry_wire_header;

/*
 * Says where the message's bytes are; message NULL: it has ended. There are a control and a free
 * piece of those to serve.
 */
void fry_show_place(fry_peer_connection *connection, fry_message *message, uint32_t slot,
                    uint32_t number);

/*
 * Handles a VIEWED. is_offered: that launch goes on. False: the other end broke the rules.
 */
bool fry_show_viewed(fry_peer_connection *connection, const fry_wire_header *header,
                     bool is_offered);

/* One whose HOLDS has waited for a control; NULL: there is none. It ends by being said. */
fry_slice *fry_show_seen(fry_peer_connection *connection);
void fry_show_holds(fry_slice *shown, bool is_offered);

/* The connection's channel was destroyed. */
void fry_show_destroyed(fry_peer_connection *connection);

#endif
