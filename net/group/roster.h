/* SPDX-License-Identifier: Apache-2.0 */
/* The roster: reading it, changing it, and who holds its ranks. The loop. */
#ifndef FRY_NET_GROUP_ROSTER_H
#define FRY_NET_GROUP_ROSTER_H

#include "net/group/text.h"

/* Takes note of a roster that was read or written; version 0: there is none. */
void fry_group_note_roster(fry_group *group, const void *text, size_t text_bytes, uint64_t version);
void fry_group_forget_roster(fry_group *group);
void fry_group_roster_is_gone(fry_group *group); /* its key was deleted */

/* State of the start that a slot names. */
typedef enum fry_group_holder {
    FRY_HOLDER_UNKNOWN, /* its record was not reported, and may exist */
    FRY_HOLDER_HERE,
    FRY_HOLDER_MISSING, /* it is missing and can't be judged yet; `work` runs again when it can */
    FRY_HOLDER_ENDED,
} fry_group_holder;
fry_group_holder fry_group_holder_of(fry_group *group, const fry_group_slot *slot);

/*
 * Makes a roster, new or as a copy of the group's to be changed. NULL: no memory, which is handled.
 */
fry_group_roster *fry_group_roster_make(fry_group *group, uint32_t size);
fry_group_roster *fry_group_roster_copy(fry_group *group);

/* Writes the roster in place of the known one; takes it. */
void fry_group_write_roster(fry_group *group, fry_group_roster *roster);

/*
 * Brings the store's roster up to this member's knowledge: deaths, members to let in, or all of it,
 * if the store has lost it.
 */
void fry_group_keep_roster(fry_group *group);

#endif
