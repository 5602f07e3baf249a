/* SPDX-License-Identifier: Apache-2.0 */
/* Sends: launched once, answered once. */
#ifndef FRY_NET_PEER_SEND_H
#define FRY_NET_PEER_SEND_H

#include "net/peer/peer.h"

typedef struct fry_wire_header fry_wire_header;
typedef struct fry_wire_run fry_wire_run;

/*
 * Enters a ready send and launches it, or gathers it if `gathers`. Allowed only right after
 * fry_peer_can_send has said that this can be done at once: there is a connection, and room, and
 * nothing that must go before it.
 */
bool fry_peer_can_send(const fry_peer *peer, const fry_message *message, bool gathers);
void fry_peer_send(fry_peer *peer, fry_message *message, bool gathers, void *turn);

/* ---- for the files of a peer ---- */

/*
 * Launches a send if possible, or makes it wait. gathers: others follow before the connection is
 * flushed.
 */
void fry_send_start(fry_message *message, bool gathers);
void fry_send_withdraw(fry_message *message, const fry_fault *fault);
void fry_sends_start_waiting(fry_peer *peer);

/*
 * Asks the other end for a get or a put that is READY, and enters the get or starts the put, now or
 * when there is a control: fry_sends_ask, in progress. The connection is attached.
 */
void fry_send_ask(fry_message *message);
void fry_sends_ask(fry_peer_connection *connection);
void fry_send_withdraw_untold(fry_message *message);

/* Launches notices that wait, as far as possible: notice.c. gathers: see fry_peer_gather. */
void fry_sends_notify(fry_peer *peer, bool gathers);

/* Launches a ghost that is apart, as soon as possible. */
void fry_send_poison(fry_message *ghost);
void fry_send_stop_waiting(fry_message *message);
void fry_sends_recall(fry_peer_connection *connection);

/* Handles an acknowledgement. False: the slot is empty. */
bool fry_send_acknowledged(fry_peer_connection *connection, uint32_t slot);
bool fry_sends_acknowledged(fry_peer_connection *connection, fry_wire_run run);
bool fry_send_refused(fry_peer_connection *connection, const fry_wire_header *header);

#endif
