/* SPDX-License-Identifier: Apache-2.0 */
/* Gets and puts, and what this member does for those of others. With the baton. */
#ifndef FRY_ENGINE_MESSAGES_REACH_H
#define FRY_ENGINE_MESSAGES_REACH_H

#include "engine/graph/kind.h"
#include "net/peer/peer.h"

/* fry_peer_events. */
void fry_window_reached(void *turn, fry_peer *peer, void *window, const fry_reach *reach);

extern const fry_op_kind fry_kind_get, fry_kind_put, fry_kind_give, fry_kind_accept;

#endif
