/* SPDX-License-Identifier: Apache-2.0 */
/* Hidden: memory that was shown to neighbours and is to be freed. With the baton. */
#ifndef FRY_ENGINE_MESSAGES_HIDDEN_H
#define FRY_ENGINE_MESSAGES_HIDDEN_H

#include "engine/graph/buffer.h"
#include "engine/graph/turn.h"
#include "net/peer/peer.h"

typedef struct fry_route fry_route;

typedef struct fry_hiding {
    LIST_HEAD(, fry_route) showing;    /* routes whose member may have some of it open */
    TAILQ_HEAD(, ferry_buffer) hidden; /* the oldest first */
    uint64_t next;                     /* serial number of the next in `hidden` */
} fry_hiding;

void fry_hiding_init(fry_hiding *hiding);

/* The buffer's memory was shown to the route's member. */
void fry_hidden_shown(fry_route *route, ferry_buffer *buffer, uint64_t generation);

/* engine->members_hide: true: it is kept until no neighbour has it open, then freed again. */
bool fry_hidden_take(fry_turn *turn, ferry_buffer *buffer);

/* fry_peer_events. */
void fry_hidden_is_closed(void *turn, fry_peer *peer);

/* The route's connection is over. */
void fry_hidden_part(fry_turn *turn, fry_route *route);

#endif
