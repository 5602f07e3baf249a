/* SPDX-License-Identifier: Apache-2.0 */
/* Getting a rank, and letting others in. The loop. */
#ifndef FRY_NET_GROUP_JOIN_H
#define FRY_NET_GROUP_JOIN_H

#include "net/group/text.h"

/* Does what this member can do to get its rank, or to let others in. */
void fry_group_consider_join(fry_group *group);

/* Whether any start wants a rank that the roster could give it. */
bool fry_group_has_candidates(const fry_group *group);

/*
 * Adds the starts that can be let in to the roster, which is a copy of the group's; true: there
 * were some.
 */
bool fry_group_admit(fry_group *group, fry_group_roster *roster);

/*
 * Deletes the records of members that left and have no rank any more, after the roster was written.
 */
void fry_group_clear_words(fry_group *group);

/* Handles the store's refusal of the first lease or record. */
void fry_group_join_refused(fry_group *group, ferry_status status, const char *why);

#endif
