/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Those that name a member fail with that member's connection (fry_peer_detach). Those that name
 * none are looked at here, when a member's state or this group's life has changed.
 */
#include "engine/messages/alone.h"

#include "engine/messages/groups.h"
#include "engine/messages/members.h"
#include "net/group/members.h"
#include "net/peer/any.h"

#include <stdio.h>

/* Whether all other members have died or left, and no others can come. */
static bool are_others_gone(const ferry_group *group)
{
    if (group->options.kind == FERRY_GROUP_OPEN)
        return false;
    for (uint32_t i = 0; i < group->size; i++) {
        const fry_group_member *member = fry_group_member_at(group->net, i);
        if ((int32_t)i != group->rank && (member == NULL || (member->state != FERRY_MEMBER_DEAD &&
                                                             member->state != FERRY_MEMBER_LEFT)))
            return false;
    }
    return group->size > 1;
}

static bool has_connection(const ferry_group *group)
{
    for (uint32_t i = 0; i < group->size; i++) {
        if ((int32_t)i != group->rank && group->routes[i].is_up)
            return true;
    }
    return false;
}

/* What the last ones sent comes first: the look at the end of their connections goes on here. */
static void look_whether_alone(fry_turn *turn, ferry_group *group)
{
    fry_fault fault = {.status = FERRY_E_DEAD, .rank = -1};
    group->any->is_alone = false;
    if (!are_others_gone(group))
        return;
    group->has_any_news = has_connection(group);
    if (group->has_any_news)
        return;
    group->any->is_alone = true;
    (void)snprintf(fault.message, sizeof fault.message, "no other member is left in job %s",
                   group->options.job);
    fry_any_fail(group->any, FRY_ANY_OF_NONE, -1, FERRY_E_DEAD, &fault, turn);
}

/* This member is out of the group. */
static void fail_all(fry_turn *turn, ferry_group *group, bool is_fenced)
{
    fry_fault fault = {.status = is_fenced ? FERRY_E_FENCED : group->end_status,
                       .rank = group->rank};
    (void)snprintf(fault.message, sizeof fault.message, "this member %s job %s",
                   is_fenced ? "lost its place in" : "leaves", group->options.job);
    fry_any_fail(group->any, FRY_ANY_OF_ALL, -1, fault.status, &fault, turn);
}

void fry_alone_look(fry_turn *turn, ferry_group *group)
{
    uint32_t life = fry_load_relaxed(&group->life);
    group->has_any_news = false;
    if (life == FRY_GROUP_HERE)
        look_whether_alone(turn, group);
    else
        fail_all(turn, group, life == FRY_GROUP_FENCED);
}
