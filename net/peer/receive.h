/* SPDX-License-Identifier: Apache-2.0 */
/* Receives: what comes over the connection, in the order in which it was launched. */
#ifndef FRY_NET_PEER_RECEIVE_H
#define FRY_NET_PEER_RECEIVE_H

#include "net/peer/peer.h"

typedef struct fry_record fry_record;
typedef struct fry_wire_header fry_wire_header;

void fry_receive_ready(fry_message *message);
void fry_receive_withdraw(fry_message *message, const fry_fault *fault);

/* With any source: the first messages of the tag go to whoever waits for them. */
void fry_receive_offer(fry_peer_connection *connection, ferry_tag tag);

/* A message has come for a receive that was withdrawn: turns it away. */
void fry_receive_meet_ghost(fry_peer_connection *connection, fry_record *record,
                            fry_message *ghost);

/* Stops receives: messages without a receive get none any more, and no receive has a place. */
void fry_receives_stop(fry_peer *peer);

/* Handles the other end's BYE, which takes effect once everything sent before it has come. */
void fry_connection_hear_bye(fry_peer_connection *connection);

/* Handles a launch, in its turn: a message, a recall, or BYE. Its header is valid by itself. */
void fry_receive_launch(fry_peer_connection *connection, const fry_wire_header *header,
                        const fry_arrival *arrival);

#endif
