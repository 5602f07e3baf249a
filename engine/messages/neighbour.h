/* SPDX-License-Identifier: Apache-2.0 */
/* Neighbours: processes of this host whose GPU memory is read where it is. With the baton. */
#ifndef FRY_ENGINE_MESSAGES_NEIGHBOUR_H
#define FRY_ENGINE_MESSAGES_NEIGHBOUR_H

#include "engine/graph/turn.h"
#include "net/peer/peer.h"

typedef struct fry_members fry_members;

/* fry_peer_events. */
bool fry_neighbour_show(void *turn, fry_message *message, fry_place *place_p);
void fry_neighbour_shown(void *turn, fry_slice *view, const fry_place *place);

void fry_neighbour_hide(void *turn, fry_peer *peer, uint64_t generation);

/* What is open of that member is closed, once nobody reads it; and it has nothing open here. */
void fry_neighbour_gone(void *turn, fry_peer *peer);

/*
 * Lets views go on whose memory has been opened, or not; the loop opens and closes. Returns how
 * much was done.
 */
size_t fry_neighbours_run(fry_turn *turn, fry_members *members);

#endif
