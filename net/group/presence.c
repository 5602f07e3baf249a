/* SPDX-License-Identifier: Apache-2.0 */
#include "net/group/presence.h"

#include "net/group/state.h"

static int by_id(fry_presence *left, fry_presence *right)
{
    return left->id < right->id ? -1 : left->id > right->id;
}

RB_GENERATE_INTERNAL(fry_presences, fry_presence, entry, by_id, static __attribute__((unused)))

/* bsd's macros take a tree that they could change. */
static fry_presences *tree_of(const fry_group *group)
{
    return (fry_presences *)(uintptr_t)&group->presences;
}

fry_presence *fry_group_presence(const fry_group *group, uint64_t id)
{
    fry_presence key = {.id = id};

    return RB_FIND(fry_presences, tree_of(group), &key);
}

fry_presence *fry_group_presence_first(const fry_group *group)
{
    return RB_MIN(fry_presences, tree_of(group));
}

fry_presence *fry_group_presence_next(const fry_group *group, fry_presence *presence)
{
    (void)group;
    return RB_NEXT(fry_presences, tree_of(group), presence);
}

void fry_group_presence_add(fry_group *group, fry_presence *presence)
{
    RB_INSERT(fry_presences, &group->presences, presence);
    group->presence_count++;
}

void fry_group_presence_remove(fry_group *group, fry_presence *presence)
{
    RB_REMOVE(fry_presences, &group->presences, presence);
    group->presence_count--;
}
