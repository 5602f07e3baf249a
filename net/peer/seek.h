/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receives and probes of a group with any source, as the engine enters them: net/peer/any.h. Once a
 * receive has met a message it is that peer's, like any other.
 */
#ifndef FRY_NET_PEER_SEEK_H
#define FRY_NET_PEER_SEEK_H

#include "net/peer/peer.h"

typedef enum fry_seek_result {
    FRY_SEEK_ENTERED = 0,
    FRY_SEEK_FULL,  /* the peer has too many open, or there is no memory */
    FRY_SEEK_MANY,  /* as many wait as may */
    FRY_SEEK_ALONE, /* no other member is left that could send */
} fry_seek_result;

/*
 * Enters a receive, in program order: `tag` is set unless it takes_any_tag; peer NULL: of any
 * member. size_bytes is the most that it takes. If a message is there, it is met within this call,
 * and no more than that happens before the receive is ready.
 */
fry_seek_result fry_seek_enter(fry_any *any, fry_peer *peer, bool takes_any_tag,
                               fry_message *message, void *turn);

/* Enters a probe, which is over, with its events, when there is a message, perhaps at once. */
fry_seek_result fry_seek_probe(fry_any *any, fry_peer *peer, bool takes_any_tag,
                               fry_message *message, void *turn);

/* Whether it waits in no peer: then the functions below are for it, and not the peer's. */
static inline bool fry_seek_is_apart(const fry_message *message)
{
    return message->peer == NULL;
}

/* Like fry_peer_ready and fry_peer_withdraw; `quiet` comes within the call. */
void fry_seek_ready(fry_message *message);
void fry_seek_withdraw(fry_message *message, void *turn);

#endif
