/* SPDX-License-Identifier: Apache-2.0 */
/* Notices that come, and who takes the next. notices.c. */
#ifndef FRY_ENGINE_MESSAGES_NOTICES_H
#define FRY_ENGINE_MESSAGES_NOTICES_H

#include "engine/graph/kind.h"
#include "engine/graph/turn.h"
#include "net/peer/peer.h"

#include <ferry/notice.h>

typedef struct fry_members fry_members;

/* fry_peer_events.noticed. */
void fry_notices_come(void *turn, fry_peer *peer);

/* On the loop, with the role and the baton: the membership may have ended, and with it waits. */
void fry_notices_look(fry_turn *turn, ferry_group *group);

/* Fails those that began after that. Returns how many. */
size_t fry_notices_turn(fry_turn *turn, fry_members *members);

/* A slot of engine->notices: the bytes of one that is sent, or the value of who takes one. */
#define FRY_NOTICE_SLOT_BYTES (sizeof(fry_value) + FERRY_NOTICE_BYTES_MAX + 1)

extern const fry_op_kind fry_kind_notice_next;

#endif
