/* SPDX-License-Identifier: Apache-2.0 */
/* Notices that have come, and that nobody has taken yet: a connection's. */
#ifndef FRY_NET_PEER_UNTAKEN_H
#define FRY_NET_PEER_UNTAKEN_H

#include "net/peer/peer.h"

typedef struct fry_record fry_record;

#define FRY_NOTICE_BYTES ((size_t)4096)
#define FRY_NOTICES_UNTAKEN 256 /* of one sender, that its receiver has yet to take */

/* Where the bytes of one are kept. NULL: there are more than were agreed. */
uint8_t *fry_untaken_room(fry_peer_connection *connection);
void fry_untaken_give_room(fry_peer_connection *connection, uint8_t *room);

/* Its turn has come: it can be taken. */
void fry_untaken_add(fry_peer_connection *connection, fry_record *record);

/* The first, taken out, without an answer; NULL: none. */
fry_record *fry_untaken_pop(fry_peer_connection *connection);

#endif
