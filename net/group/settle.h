/* SPDX-License-Identifier: Apache-2.0 */
/* Restoring what a store has lost. The loop. */
#ifndef FRY_NET_GROUP_SETTLE_H
#define FRY_NET_GROUP_SETTLE_H

#include "net/group/group.h"

/* Whether this member has yet to restore what the store has lost. */
bool fry_group_has_to_restore(const fry_group *group);

/*
 * Whether rounds can begin; if not, `work` runs again when they may. For a member that has joined.
 */
bool fry_group_is_settled(fry_group *group);

/* Notes that the store has lost its past, as the watch says or its contents show. */
void fry_group_note_another_store(fry_group *group);

#endif
