/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How often this member has asked for symmetric memory of each name and size: counts outlive the
 * memory (symmetric.c). With group->lock, and nothing here allocates, as the loop takes that lock.
 */
#ifndef FRY_ENGINE_MESSAGES_SYMMETRIC_PAST_H
#define FRY_ENGINE_MESSAGES_SYMMETRIC_PAST_H

#include "engine/messages/groups.h"

/* A past memory, or one to come: what must not be forgotten. */
struct fry_symmetric_past {
    uint64_t key[2];
    uint64_t members;
    uint32_t asks;
};

/* A number for the incarnations of the group's members. */
uint64_t fry_symmetric_past_members(const ferry_group *group);

/* A key of a name and size, for those members. Needs no lock. */
void fry_symmetric_past_key(uint64_t key[2], uint64_t members, size_t size_bytes, const char *name);

/* NULL: there is none. Valid while the lock is kept. */
fry_symmetric_past *fry_symmetric_past_find(const ferry_group *group, const uint64_t key[2]);

/*
 * For how many counts a larger table has to have room, so that one more of that key finds a place;
 * 0: it has one. More than FERRY_SYMMETRIC_NAMES_MAX: there can't be one. What members with other
 * incarnations had is forgotten if there is no room.
 */
uint32_t fry_symmetric_past_wants(ferry_group *group, const uint64_t key[2], uint64_t members);

/* Moves all counts into a larger table; the caller gets the one before in its place, to free it. */
void fry_symmetric_past_move(ferry_group *group, fry_symmetric_past **past_p, uint32_t *room_p);

/* How often this member has asked. Makes a count of 0 if there is none; there is room. */
uint32_t fry_symmetric_past_recall(ferry_group *group, const uint64_t key[2], uint64_t members);

#endif
