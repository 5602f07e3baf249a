/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/messages/symmetric_past.h"

#include <ferry/symmetric.h>
#include <string.h>

#define ROOM_LEAST 64

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ (hash >> 29);
}

uint64_t fry_symmetric_past_members(const ferry_group *group)
{
    uint64_t number = group->size;
    for (uint32_t i = 0; i < group->size; i++)
        number = mix(number, group->news[i].info.incarnation);
    return number;
}

void fry_symmetric_past_key(uint64_t key[2], uint64_t members, size_t size_bytes, const char *name)
{
    for (uint64_t i = 0; i < 2; i++) {
        key[i] = mix(mix(i + 1, members), size_bytes);
        for (const char *at = name; *at != '\0'; at++)
            key[i] = mix(key[i], (unsigned char)*at);
    }
}

fry_symmetric_past *fry_symmetric_past_find(const ferry_group *group, const uint64_t key[2])
{
    for (uint32_t i = 0; i < group->past_count; i++) {
        if (memcmp(group->past[i].key, key, sizeof group->past[i].key) == 0)
            return &group->past[i];
    }
    return NULL;
}

/* What members with other incarnations had does not come again. */
static void forget(ferry_group *group, uint64_t members)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < group->past_count; i++) {
        if (group->past[i].members == members)
            group->past[kept++] = group->past[i];
    }
    group->past_count = kept;
}

uint32_t fry_symmetric_past_wants(ferry_group *group, const uint64_t key[2], uint64_t members)
{
    if (group->past_count < group->past_room || fry_symmetric_past_find(group, key) != NULL)
        return 0;
    forget(group, members);
    if (group->past_count < group->past_room)
        return 0;
    return group->past_room != 0 ? 2 * group->past_room : ROOM_LEAST;
}

void fry_symmetric_past_move(ferry_group *group, fry_symmetric_past **past_p, uint32_t *room_p)
{
    fry_symmetric_past *past = *past_p;
    const uint32_t room = *room_p;
    if (group->past_count != 0)
        memcpy(past, group->past, group->past_count * sizeof *past);
    *past_p = group->past;
    *room_p = group->past_room;
    group->past = past;
    group->past_room = room;
}

uint32_t fry_symmetric_past_recall(ferry_group *group, const uint64_t key[2], uint64_t members)
{
    const fry_symmetric_past *past = fry_symmetric_past_find(group, key);
    if (past != NULL)
        return past->asks;
    group->past[group->past_count++] =
        (fry_symmetric_past){.key = {key[0], key[1]}, .members = members};
    return 0;
}
