/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank of an open group is given away again when no member holds anything of who had it
 * (net/group/seats.c). What this member holds of another one is its connection, the operations that
 * name it, and the windows that were found of it. All of that ends because the member has ended,
 * but the program's handle of a window, which goes when the program gives it back: gets and puts by
 * it must fail by the old member's name, and never reach the next one of that rank.
 *
 * Routes of members that have ended stand in a list of the group. Whoever takes away the last of
 * something says so (fry_ending_look_soon), and the loop looks at the list, with the baton, since
 * operations are counted with it. It says in the next step that the member may be forgotten.
 */
#include "engine/messages/ending.h"

#include "engine/messages/groups.h"
#include "engine/messages/members.h"
#include "net/group/members.h"
#include "net/group/seats.h"

void fry_ending_look_soon(ferry_group *group)
{
    if (fry_load_relaxed(&group->life) != FRY_GROUP_HERE)
        return; /* nobody looks any more, and what is noted would keep the loop awake */
    fry_store_relaxed(&group->has_ending_news, 1);
    fry_store_relaxed(&group->members->has_looks, 1);
}

static void take_out(fry_route *route)
{
    if (!route->is_ending)
        return;
    fry_store_relaxed(&route->is_ending, false);
    LIST_REMOVE(route, ending);
}

void fry_ending_note(fry_route *route, bool is_here)
{
    ferry_group *group = route->group;
    take_out(route);
    route->has_let_go = false;
    if (is_here || !fry_group_is_open(group->net))
        return;
    fry_store_relaxed(&route->is_ending, true);
    LIST_INSERT_HEAD(&group->endings, route, ending);
    fry_ending_look_soon(group);
}

static bool is_clear(const fry_route *route)
{
    return route->link == NULL && route->open == 0 && !route->is_ordered && !route->is_finishing &&
           fry_load_acquire(&route->windows) == 0;
}

void fry_endings_look(ferry_group *group)
{
    fry_route *route, *next;
    fry_store_relaxed(&group->has_ending_news, 0);
    LIST_FOREACH_SAFE(route, &group->endings, ending, next) {
        if (!is_clear(route))
            continue;
        route->has_let_go = true;
        group->has_let_go = group->members->has_steps = true;
    }
}

void fry_endings_step(ferry_group *group)
{
    fry_route *route, *next;
    if (!group->has_let_go)
        return;
    group->has_let_go = false;
    LIST_FOREACH_SAFE(route, &group->endings, ending, next) {
        if (!route->has_let_go)
            continue;
        take_out(route);
        route->has_let_go = false;
        if (group->net != NULL)
            fry_group_let_go(group->net, route->rank);
    }
}
