/* SPDX-License-Identifier: Apache-2.0 */
/* What other members ask of this one's windows. With the baton. */
#ifndef FRY_ENGINE_MESSAGES_GRANT_H
#define FRY_ENGINE_MESSAGES_GRANT_H

#include "net/peer/peer.h"

/* fry_peer_events.reached. */
void fry_window_reached(void *turn, fry_peer *peer, void *window, const fry_reach *reach);

#endif
