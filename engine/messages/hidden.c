/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that was shown to neighbours is not freed before they have closed it: CUDA leaves open
 * what happens else. A buffer that is to be freed waits in `hidden`, with a serial number. Each
 * member that may have memory open is asked for one buffer after the other (net/peer/hide.c);
 * `hide_next` of its route is the serial of the one that it is asked for, or will be. A buffer
 * counts the members that have yet to answer, or to lose their connection; then it is freed.
 *
 * A member that was shown something first after a buffer was hidden is not asked for that one: its
 * hide_next begins behind it.
 */
#include "engine/messages/hidden.h"

#include "engine/engine.h"
#include "engine/messages/groups.h"
#include "engine/messages/members.h"
#include "engine/messages/route.h"
#include "net/peer/hide.h"

static fry_hiding *hiding_of(const fry_route *route)
{
    return &route->group->members->hiding;
}

void fry_hiding_init(fry_hiding *hiding)
{
    LIST_INIT(&hiding->showing);
    TAILQ_INIT(&hiding->hidden);
}

void fry_hidden_shown(fry_route *route, ferry_buffer *buffer, uint64_t generation)
{
    fry_hiding *hiding = hiding_of(route);
    buffer->shown_generation = generation;
    if (route->is_showing)
        return;
    route->is_showing = true;
    route->hide_next = hiding->next;
    LIST_INSERT_HEAD(&hiding->showing, route, showing);
}

static ferry_buffer *find(const fry_hiding *hiding, uint64_t serial)
{
    ferry_buffer *buffer;
    TAILQ_FOREACH(buffer, &hiding->hidden, hidden) {
        if (buffer->hide_serial == serial)
            return buffer;
    }
    return NULL;
}

/* Asks for the next one, if there is one. */
static void ask(fry_turn *turn, fry_route *route)
{
    const ferry_buffer *buffer = find(hiding_of(route), route->hide_next);
    route->is_hiding = buffer != NULL;
    if (buffer == NULL)
        return;
    fry_peer_hide(fry_route_made_peer(route), buffer->shown_generation, turn);
    fry_route_launched(turn, route);
}

static void is_closed_by_one(fry_turn *turn, fry_hiding *hiding, ferry_buffer *buffer)
{
    if (--buffer->hide_awaited != 0)
        return;
    TAILQ_REMOVE(&hiding->hidden, buffer, hidden);
    buffer->shown_generation = 0;
    fry_stack_push(&turn->engine->frees, &buffer->free_link);
    turn->wake = true;
}

bool fry_hidden_take(fry_turn *turn, ferry_buffer *buffer)
{
    fry_hiding *hiding = &turn->engine->members->hiding;
    fry_route *route;
    if (LIST_EMPTY(&hiding->showing))
        return false;
    buffer->hide_serial = hiding->next++;
    buffer->hide_awaited = 0;
    TAILQ_INSERT_TAIL(&hiding->hidden, buffer, hidden);
    LIST_FOREACH(route, &hiding->showing, showing) {
        buffer->hide_awaited++;
        if (!route->is_hiding)
            ask(turn, route);
    }
    return true;
}

void fry_hidden_is_closed(void *arg, fry_peer *peer)
{
    fry_turn *turn = arg;
    fry_route *route = fry_peer_arg(peer);
    fry_hiding *hiding = hiding_of(route);
    ferry_buffer *buffer = find(hiding, route->hide_next++);
    if (buffer != NULL)
        is_closed_by_one(turn, hiding, buffer);
    ask(turn, route);
}

void fry_hidden_part(fry_turn *turn, fry_route *route)
{
    fry_hiding *hiding = hiding_of(route);
    ferry_buffer *buffer, *next;
    if (!route->is_showing)
        return;
    LIST_REMOVE(route, showing);
    route->is_showing = route->is_hiding = false;
    TAILQ_FOREACH_SAFE(buffer, &hiding->hidden, hidden, next) {
        if (buffer->hide_serial >= route->hide_next)
            is_closed_by_one(turn, hiding, buffer);
    }
}
