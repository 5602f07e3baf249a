/* SPDX-License-Identifier: Apache-2.0 */
/* Notices: small messages that need no receive. notice.c. */
#ifndef FRY_NET_PEER_NOTICE_H
#define FRY_NET_PEER_NOTICE_H

#include "net/peer/peer.h"
#include "net/peer/untaken.h"

/*
 * Sends a notice: a new message, a send, with at most FRY_NOTICE_BYTES in `memory`. It ends well
 * when the other end has taken it; notices are taken in the order of these calls. is_apart and
 * is_notice are set here. gathers: as fry_peer_gather; fry_peer_flush must follow. False: too many
 * are open.
 */
bool fry_peer_notify(fry_peer *peer, fry_message *message, bool gathers, void *turn);

/* The size of the first notice that has come; false: there is none. */
bool fry_peer_has_notice(const fry_peer *peer, size_t *size_bytes_p);

/* Takes it: copies its bytes. There is one. Returns the number of the sender's operation. */
uint64_t fry_peer_take_notice(fry_peer *peer, void *memory, void *turn);

#endif
