/* SPDX-License-Identifier: Apache-2.0 */
/* Who is there: records of starts, and what was told of each rank. The loop. */
#ifndef FRY_NET_GROUP_MEMBERS_H
#define FRY_NET_GROUP_MEMBERS_H

#include "net/group/presence.h"

const fry_group_member *fry_group_member_at(const fry_group *group, uint32_t rank); /* NULL: none */

/* Reports that the kernel has seen a member on this host end; the roster tells the others. */
void fry_group_report_death(fry_group *group, uint32_t rank, uint64_t start);

/*
 * In an open group: says that the caller holds nothing more of the starts of that rank, of which it
 * was told that the last has ended. The rank may be given away once all members have said so. No
 * effect while that rank is HERE, as was told.
 */
void fry_group_let_go(fry_group *group, uint32_t rank);

/* ---- for the files of a group ---- */

void fry_group_member_told(fry_store_watch *watch, fry_store_event event,
                           const fry_store_entry *entry);
bool fry_group_is_named(const fry_group *group, uint64_t id); /* by the roster, or by a view */

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
