/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks of an open group, which are given away more than once: seats.c. The loop. */
#ifndef FRY_NET_GROUP_SEATS_H
#define FRY_NET_GROUP_SEATS_H

#include "net/group/text.h"

typedef struct fry_presence fry_presence;

/* Whether members come and go; of a group that this member has joined. */
bool fry_group_is_open(const fry_group *group);

/* Whether the record is of a start that wants an open group. */
bool fry_seat_is_wanted(uint32_t size, uint32_t size_min);

/* Marks a holder that has ended. */
void fry_seat_end(fry_group_roster *roster, uint32_t rank, bool has_left);

/*
 * For a roster that is written again after a store has lost it: what was acknowledged before counts
 * no more.
 */
void fry_seats_begin_anew(fry_group_roster *roster);

/* Whether nobody has the rank, nor anything of who had it; so the roster and the members say. */
bool fry_seat_is_free(fry_group *group, const fry_group_roster *roster, uint32_t rank);

/* A free rank that a candidate can have; NULL: none. */
fry_group_slot *fry_seat_for(fry_group *group, fry_group_roster *roster,
                             const fry_presence *candidate, uint64_t place);

/* A member's word was read; entry NULL: it is gone. False: no memory, and it counts as none. */
bool fry_seats_acknowledged(fry_group *group, fry_presence *presence, const fry_store_entry *entry);

/* Counts as told what happened before this member was let in; it has just joined. */
void fry_seats_begin(fry_group *group);

/* Tells the caller what has happened, in order. */
void fry_seats_tell(fry_group *group);

/*
 * Whether the store would know more of this member if it wrote its word; the word, for `key`, which
 * is written then; `is_held`, by rank, says what it has in it.
 */
bool fry_seats_have_word(const fry_group *group);
size_t fry_seats_word(fry_group *group, const char *key, char *text, bool *is_held);
void fry_seats_word_is_said(fry_group *group, const bool *is_held);
#define FRY_SEATS_WORD_BYTES(size)                                                                 \
    (FRY_GROUP_CLEAR_TEXT_BYTES(size) + FRY_GROUP_SET_TEXT_BYTES(size))

/* Tells the end of a holder that is about to be replaced, if it has yet to be told. */
void fry_seat_is_replaced(fry_group *group, uint32_t rank);

/* What the store had of this member's acknowledgement is lost. */
void fry_seats_are_lost(fry_group *group);

/* Says who still holds something of ranks that ended. False: nobody does. */
bool fry_seats_name_holders(fry_group *group, char *text, size_t text_bytes);

#endif
