/* SPDX-License-Identifier: Apache-2.0 */
/* Gets and puts: bytes out of windows of the other end, and into them. reach.c. */
#ifndef FRY_NET_PEER_REACH_H
#define FRY_NET_PEER_REACH_H

#include "net/peer/peer.h"

typedef struct fry_wire_header fry_wire_header;

/* What gets may copy from mapped memory in a turn: its thread does nothing else meanwhile. */
#define FRY_REACH_COPIES_BYTES ((size_t)512 << 10)

/* What the other end asks for. */
struct fry_reach {
    ferry_tag tag;
    uint64_t offset, size_bytes; /* in the window; not checked */
    uint32_t epoch;              /* of which connection; for fry_peer_answer_reach */
    bool is_put;
};

/*
 * Does a get (a receive) or a put (a send) of a window that is HERE; the bytes are within it, and
 * there are some. The message must be new, and may be over when this returns. Its tag and is_apart
 * are set here. gathers: another get of this connection follows at once. False: too many are open.
 */
bool fry_peer_reach(fry_message *message, const fry_found *found, uint64_t offset, bool gathers,
                    void *turn);

/*
 * The owner does what the other end asked for, by a message that enters: that has set is_apart, the
 * tag, and the epoch as reach_number. False: the connection is over, or there was no memory, and
 * the other end hears of that; the message is not the peer's.
 */
bool fry_peer_answer_reach(fry_peer *peer, fry_message *message, void *turn);

/* The owner does not do what the other end asked for: that fails with the fault as cause. */
void fry_peer_refuse_reach(fry_peer *peer, const fry_reach *reach, const fry_fault *fault,
                           void *turn);

/* ---- for the files of a peer ---- */

/* Handles GET and PUT. False: the other end broke the rules. */
bool fry_reach_heard(fry_peer_connection *connection, const fry_wire_header *header);

#endif
