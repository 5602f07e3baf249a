/* SPDX-License-Identifier: Apache-2.0 */
/* Who is there: records of starts, and what was told of each rank. The loop. */
#ifndef FRY_NET_GROUP_MEMBERS_H
#define FRY_NET_GROUP_MEMBERS_H

#include "net/group/group.h"

typedef struct fry_presence fry_presence;

const fry_group_member *fry_group_member_at(const fry_group *group, uint32_t rank); /* NULL: none */

/* Reports that the kernel has seen a member on this host end; the roster tells the others. */
void fry_group_report_death(fry_group *group, uint32_t rank, uint64_t start);

/* ---- for the files of a group ---- */

void fry_group_member_told(fry_store_watch *watch, fry_store_event event,
                           const fry_store_entry *entry);
fry_presence *fry_group_presence(const fry_group *group, uint64_t id); /* NULL: not known */
bool fry_group_is_named(const fry_group *group, uint64_t id); /* by the roster, or by a view */
fry_presence *fry_group_presence_first(const fry_group *group);
fry_presence *fry_group_presence_next(const fry_group *group, fry_presence *presence);

/* Lists the members soon, so that no member in the roster is unknown. */
void fry_group_want_list(fry_group *group, bool now);
/* Lists the members at once, whatever is known. */
void fry_group_list_now(fry_group *group);

/* Reports all changes since the last report. */
void fry_group_tell_members(fry_group *group);

/* Deletes the record of a member that is known to have ended. */
void fry_group_delete_presence(fry_group *group, fry_presence *presence);
void fry_group_forget_members(fry_group *group); /* frees */

/* Adds a start that is missing and was never seen. NULL: no memory. */
fry_presence *fry_group_presence_missing(fry_group *group, uint64_t id);

/* Whether a rank was reported HERE. */
bool fry_group_rank_is_here(const fry_group *group, uint32_t rank);

#endif
