/* SPDX-License-Identifier: Apache-2.0 */
/* Whether receives and probes of any source (net/peer/any.h) wait in vain. */
#ifndef FRY_ENGINE_MESSAGES_ALONE_H
#define FRY_ENGINE_MESSAGES_ALONE_H

#include "engine/engine.h"
#include "engine/graph/turn.h"

/*
 * Fails those of the group that nobody can send to any more: this member is fenced or leaves, or no
 * other is left. For a group with has_any_news; the role and the baton.
 */
void fry_alone_look(fry_turn *turn, ferry_group *group);

#endif
