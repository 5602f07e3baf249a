/* SPDX-License-Identifier: Apache-2.0 */
/* A group's memory, and whether it takes operations. Any thread. */
#ifndef FRY_ENGINE_MESSAGES_MEMBERSHIP_H
#define FRY_ENGINE_MESSAGES_MEMBERSHIP_H

#include "engine/ground/refusal.h"
#include "engine/messages/groups.h"

/* Makes a group that has not joined; NULL: no memory. */
ferry_group *fry_membership_create(fry_members *members, const ferry_group_options *options);

/* Gives back a reference: that of its maker, or one that was retained. The last frees it. */
void fry_membership_unretain(ferry_group *group);

/* A window or a notice keeps its group's memory, whatever becomes of the group. Any thread. */
static inline void fry_membership_retain(ferry_group *group)
{
    (void)fry_fetch_add(&group->references, 1);
}

/* Frees what it knows of its members. */
void fry_membership_free_tables(ferry_group *group);

/* Whether the group takes operations: FERRY_OK, or the status they fail with. Any thread. */
ferry_status fry_membership_takes(const ferry_group *group);

/* The same as a refusal. */
fry_refusal fry_membership_refusal(const ferry_group *group);

#endif
