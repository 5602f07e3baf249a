/* SPDX-License-Identifier: Apache-2.0 */
/* A member's standing in the store: its lease, and its record in that. The loop. */
#ifndef FRY_NET_GROUP_STAND_H
#define FRY_NET_GROUP_STAND_H

#include "net/group/group.h"

/*
 * Whether this member's record is in its lease, as far as is known. If not, nothing can be decided,
 * and `work` runs again when it is.
 */
bool fry_group_stands(const fry_group *group);

/* Takes a lease and writes the record, also after they were lost. */
void fry_group_register(fry_group *group);
void fry_group_keep_standing(fry_group *group);

/* Tells the store what this member of an open group acknowledges, if that has changed. */
void fry_group_acknowledge(fry_group *group);
size_t fry_group_own_text(fry_group *group, char *text);

#endif
