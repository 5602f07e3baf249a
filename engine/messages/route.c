/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Routes: the engine's half of connections to other members. A connection has one state, its link's
 * (net/connect/link.h), and is moved on here whenever the next step needs the baton:
 *
 *     CONNECTED ── baton: attached (is_up)
 *         │ failed, dead, left: FRY_DUE_FAIL
 *         ▼
 *     baton: DETACHED ──► channel destroyed ──► baton: the peer is told: TOLD ──► memory freed
 *
 * Open messages are the peer's, and fail by fry_peer_detach in any state; messages that enter later
 * belong to the next connection. The next connection comes only after the last step, for which the
 * loop may have to wait, because it takes the baton. A link belongs to one incarnation: if the
 * member has another by now, the link is removed when its connection is over.
 */
#include "engine/messages/route.h"

#include "engine/engine.h"
#include "engine/graph/node.h"
#include "engine/graph/turn.h"
#include "engine/messages/ending.h"
#include "engine/messages/groups.h"
#include "engine/messages/members.h"
#include "net/connect/link_hear.h"
#include "net/connect/link_state.h"
#include "net/group/members.h"
#include "net/peer/connection.h"

#include <stdio.h>
#include <sys/epoll.h>

#define HELLO_TIMEOUT_NS INT64_C(10000000000)
#define LAST_ROUNDS_MAX 4096 /* rounds of progress for what a member said before it left */

/* Puts the route in `orders` for the loop's next turn. The role. */
static void order(fry_route *route)
{
    fry_members *members = route->group->members;
    if (route->is_ordered)
        return;
    route->is_ordered = true;
    fry_queue_push(&members->orders, &route->order_link);
    fry_store_relaxed(&members->has_orders, 1);
}

static fry_members *members_of(const fry_route *route)
{
    return route->group->members;
}

/* Whether it was due; it is no more. The role. */
static bool take_due(fry_route *route, uint32_t what)
{
    bool was_due = (route->due & what) != 0;
    route->due &= ~what;
    return was_due;
}

/* ---- the peer ---- */

fry_peer *fry_route_peer(fry_route *route)
{
    fry_peer *peer = fry_load_acquire(&route->peer);
    if (fry_likely(peer != NULL))
        return peer;
    fry_peer *made = fry_peer_open(&route->peer_options);
    if (made == NULL)
        return NULL;
    if (fry_cas(&route->peer, &peer, made))
        return made;
    fry_peer_close(made); /* another thread was faster */
    return peer;
}

/* ---- what the baton's holder keeps ---- */

/* The leaving of a group may go on. */
static void look_soon(fry_turn *turn, fry_members *members)
{
    fry_store_relaxed(&members->has_looks, 1);
    turn->wake = true;
}

void fry_route_poll(fry_route *route)
{
    fry_members *members = members_of(route);
    if (route->is_polled || !route->is_up)
        return;
    route->is_polled = true;
    LIST_INSERT_HEAD(&members->polled, route, polled);
    fry_store_relaxed(&members->has_polled, 1);
}

static void poll_no_more(fry_route *route)
{
    fry_members *members = members_of(route);
    if (!route->is_polled)
        return;
    LIST_REMOVE(route, polled);
    route->is_polled = false;
    fry_store_relaxed(&members->has_polled, !LIST_EMPTY(&members->polled));
}

void fry_route_opened(fry_route *route)
{
    fry_members *members = members_of(route);
    route->group->open++;
    if (route->open++ != 0)
        return;
    LIST_INSERT_HEAD(&members->open, route, opened);
    fry_store_relaxed(&members->has_open, 1);
}

void fry_route_closed(fry_turn *turn, fry_route *route)
{
    fry_members *members = members_of(route);
    if (fry_unlikely(--route->group->open == 0 &&
                     fry_load_relaxed(&route->group->leaving) != FRY_LEAVING_NOT))
        look_soon(turn, members);
    if (--route->open != 0)
        return;
    if (fry_unlikely(fry_load_relaxed(&route->is_ending))) {
        fry_ending_look_soon(route->group);
        turn->wake = true;
    }
    LIST_REMOVE(route, opened);
    fry_store_relaxed(&members->has_open, !LIST_EMPTY(&members->open));
}

void fry_route_launched(fry_turn *turn, fry_route *route)
{
    if (!route->is_up || route->is_polled)
        return;
    const fry_peer *peer = fry_route_made_peer(route);
    if (!fry_peer_is_busy(peer) && fry_peer_look_ns(peer) == route->look_ns)
        return;
    fry_route_poll(route);
    turn->wake = true;
}

size_t fry_route_look(fry_turn *turn, fry_route *route)
{
    if (!route->is_up)
        return 0;
    size_t done = fry_peer_progress(fry_route_made_peer(route), turn);
    if (done != 0 && !route->is_polled) {
        fry_route_poll(route);
        turn->wake = true;
    }
    return done;
}

/* ---- what the peer tells, with the baton ---- */

static void ask(fry_turn *turn, fry_route *route, uint32_t what)
{
    turn->wake = true;
    route->asked |= what;
    if (route->is_asking)
        return;
    route->is_asking = true;
    fry_queue_push(&members_of(route)->asks, &route->ask_link);
}

void fry_route_wants_connection(void *turn, fry_peer *peer)
{
    ask(turn, fry_peer_arg(peer), FRY_DUE_WANT);
}

void fry_route_connection_failed(void *turn, fry_peer *peer, const fry_fault *fault)
{
    fry_route *route = fry_peer_arg(peer);
    route->connection_fault = *fault;
    ask(turn, route, FRY_DUE_FAIL);
}

void fry_route_parted(void *turn, fry_peer *peer)
{
    look_soon(turn, members_of(fry_peer_arg(peer)));
}

/* ---- with the role ---- */

static void finish_later(fry_route *route)
{
    fry_members *members = members_of(route);
    if (route->is_finishing)
        return;
    route->is_finishing = true;
    fry_queue_push(&members->finishing, &route->finish_link);
}

void fry_route_end(fry_route *route, const fry_fault *fault)
{
    if ((route->due & FRY_DUE_FAIL) == 0) /* else the first end says why */
        route->fault = *fault;
    route->due |= FRY_DUE_FAIL;
    order(route);
}

/* 0: it need not be looked at. */
static void set_look(fry_route *route, int64_t when_ns)
{
    fry_timers *times = &members_of(route)->look_times;
    if (route->look.when_ns == when_ns)
        return;
    if (route->look.when_ns != 0)
        fry_timers_remove(times, &route->look, NULL);
    route->look.when_ns = when_ns;
    if (when_ns != 0)
        fry_timers_add(times, &route->look, NULL);
}

fry_arming fry_route_arm(fry_turn *turn, fry_route *route)
{
    fry_peer *peer = fry_route_made_peer(route);
    fry_poller *poller = &members_of(route)->engine->poller;
    if (!route->is_watched)
        return FRY_ARMING_STUCK;
    fry_arming arming = fry_peer_arm(peer, turn);
    if (arming != FRY_ARMING_ARMED)
        return arming;
    if (fry_poller_change(poller, &route->watch, EPOLLIN | EPOLLONESHOT) != FERRY_OK)
        return FRY_ARMING_STUCK;
    route->look_ns = fry_peer_look_ns(peer);
    set_look(route, route->look_ns);
    return FRY_ARMING_ARMED;
}

bool fry_route_is_over(const fry_route *route)
{
    return (route->link == NULL || route->link->state == FRY_LINK_IDLE) && !route->is_ordered &&
           !route->is_finishing;
}

static void end(fry_route *route, ferry_status status, const char *what)
{
    fry_fault fault = {.status = status, .rank = (int32_t)route->rank};
    (void)snprintf(fault.message, sizeof fault.message, "member %u %s", route->rank, what);
    fry_route_end(route, &fault);
}

/* Ends a route to a member that is not here, with the reason. */
static void end_absent(fry_route *route)
{
    const fry_group_member *member =
        route->group->net != NULL ? fry_group_member_at(route->group->net, route->rank) : NULL;
    bool has_left = member != NULL && member->state == FERRY_MEMBER_LEFT;
    bool is_absent = member != NULL && member->state == FERRY_MEMBER_ABSENT;
    end(route, FERRY_E_DEAD,
        has_left    ? "has left"
        : is_absent ? "is not here: nobody has that rank"
                    : "has died");
}

static void want(fry_route *route)
{
    if (route->link == NULL || !fry_membership_keeps_connections(route->group)) {
        end_absent(route);
    } else if (!route->link->is_wanted) {
        int64_t now_ns = fry_reactor_now_ns(&members_of(route)->reactor);
        fry_link_want(route->link, now_ns + HELLO_TIMEOUT_NS + route->group->options.lease_ns);
    }
}

/* ---- what links tell: the role, without the baton ---- */

static void has_event(fry_route *route)
{
    route->due |= FRY_DUE_POLL;
    order(route);
}

static void descriptor_is_readable(fry_watch *watch, uint32_t events)
{
    (void)events;
    fry_route *route = watch->arg;
    members_of(route)->called++; /* no group has a step because of it */
    has_event(route);
}

void fry_routes_look(fry_members *members)
{
    if (members->look_times.first == NULL)
        return;
    int64_t now_ns = fry_clock_monotonic_ns();
    while (fry_timers_next_ns(&members->look_times) <= now_ns) {
        fry_route *route = FRY_CONTAINER(members->look_times.first, fry_route, look);
        set_look(route, 0);
        has_event(route);
    }
}

static void link_connected(fry_link_peer *link)
{
    fry_route *route = fry_link_arg(link);
    fry_members *members = members_of(route);
    bool has_peer = fry_route_peer(route) != NULL;
    route->watch =
        (fry_watch){.fd = link->channel->event_fd, .fn = descriptor_is_readable, .arg = route};
    /* It waits for no event until it is armed. */
    route->is_watched =
        has_peer && fry_poller_add(&members->engine->poller, &route->watch, 0) == FERRY_OK;
    if (!has_peer)
        end(route, FERRY_E_NO_MEMORY, "cannot be reached: no memory");
    else if (!route->is_watched)
        fry_log_line(&members->engine->log, FERRY_LOG_INFO,
                     "the channel to member %u can't be watched, because the user's loop is nested "
                     "too deep: it is looked at every millisecond",
                     route->rank);
    if (!fry_membership_keeps_connections(route->group))
        end(route, FERRY_E_CANCELLED, "is disconnected: this member leaves the group");
    order(route);
}

static void link_failed(fry_link_peer *link, const fry_fault *fault)
{
    fry_fault told = *fault;
    if (told.status == FERRY_OK)
        told.status = FERRY_E_PEER;
    fry_route_end(fry_link_arg(link), &told);
}

/* The store will report this too; the bytes need not wait for it. */
static void link_died(fry_link_peer *link)
{
    fry_route *route = fry_link_arg(link);
    end(route, FERRY_E_DEAD, "has died: its process ended");
    if (route->group->net != NULL)
        fry_group_report_death(route->group->net, route->rank, link->incarnation);
}

static const fry_peer_options *link_peer_options(fry_link_peer *link)
{
    const fry_route *route = fry_link_arg(link);
    return &route->peer_options;
}

const fry_link_events fry_route_link_events = {
    .connected = link_connected,
    .failed = link_failed,
    .died = link_died,
    .peer_options = link_peer_options,
};

void fry_route_sync(fry_route *route)
{
    ferry_group *group = route->group;
    bool keeps_connections = fry_membership_keeps_connections(group);
    const fry_group_member *member =
        group->net != NULL ? fry_group_member_at(group->net, route->rank) : NULL;
    bool is_here = member != NULL && member->state == FERRY_MEMBER_HERE;
    bool is_absent = !is_here || (route->link != NULL && member->start != route->link->incarnation);
    if (route->link != NULL && (!keeps_connections || is_absent)) {
        if (is_absent && (route->due & FRY_DUE_PART) == 0 && fry_membership_has_connections(group))
            end_absent(route); /* after a restart too: what is open was the old one's */
        if (is_absent)
            route->due |= FRY_DUE_PART;
        if (fry_link_has_connection(route->link))
            return; /* the link stays until that is over */
        fry_link_remove(route->link);
        route->link = NULL;
        (void)take_due(route, FRY_DUE_PART);
    }
    if (route->link != NULL || !is_here || !keeps_connections)
        return;
    route->link = fry_link_add(group->links, route->rank, member->start, member->endpoint, route);
    if (route->link == NULL)
        fry_log_line(&group->engine->log, FERRY_LOG_ERROR, "no memory for a link to member %u",
                     route->rank);
}

/* ---- with role and baton ---- */

/*
 * What a member said before it left is still in the channel, above all its answers to what it
 * received, though the store or the kernel reported first that the member is gone.
 */
static void hear_last_words(fry_turn *turn, fry_route *route)
{
    fry_peer *peer = fry_route_made_peer(route);
    for (int i = 0; i < LAST_ROUNDS_MAX && fry_peer_progress(peer, turn) != 0; i++)
        continue;
}

static void detach(fry_turn *turn, fry_route *route)
{
    if (route->is_up && route->fault.status == FERRY_E_DEAD)
        hear_last_words(turn, route);
    route->asked &= FRY_DUE_WANT; /* what failed is over now */
    fry_peer *peer = fry_route_made_peer(route);
    if (peer != NULL) { /* else another thread may be making it */
        (void)fry_peer_detach(peer, route->fault.status, &route->fault, NULL, turn);
        poll_no_more(route);
        route->is_up = false;
    }
    if (fry_link_has_connection(route->link) && route->link->state < FRY_LINK_DETACHED)
        fry_link_set_state(route->link, FRY_LINK_DETACHED);
    finish_later(route); /* in any state: a leaving group waits for its last route */
}

/* What the baton's holder has asked for. */
static void take_asked(fry_route *route)
{
    uint32_t asked = route->asked;
    route->asked = 0;
    if ((asked & FRY_DUE_FAIL) != 0 && (route->due & FRY_DUE_FAIL) == 0) {
        if (route->connection_fault.status == FERRY_E_DEAD) {
            route->fault = route->connection_fault;
            route->due |= FRY_DUE_FAIL;
        } else { /* the member may have left, and its message about that been lost */
            route->due |= FRY_DUE_LOSE;
        }
    }
    route->due |= asked & FRY_DUE_WANT;
    if ((route->due & (FRY_DUE_LOSE | FRY_DUE_WANT)) != 0)
        finish_later(route);
}

static void attach(fry_turn *turn, fry_route *route)
{
    route->is_up = true;
    fry_route_poll(route);
    fry_peer_attach(fry_route_made_peer(route), route->link->connection, route->link->channel,
                    turn);
}

static void tell(fry_turn *turn, fry_route *route)
{
    fry_peer *peer = fry_route_made_peer(route);
    if (peer != NULL) /* else there was no memory for it when the connection came */
        fry_peer_destroyed(peer, route->link->connection, turn);
    fry_link_set_state(route->link, FRY_LINK_TOLD);
    finish_later(route);
}

static void step(fry_turn *turn, fry_route *route)
{
    if (take_due(route, FRY_DUE_POLL))
        fry_route_poll(route);
    take_asked(route);
    if (take_due(route, FRY_DUE_FAIL))
        detach(turn, route);
    if (!fry_link_has_connection(route->link))
        return;
    if (route->link->state < FRY_LINK_DETACHED && !route->is_up)
        attach(turn, route);
    else if (route->link->state == FRY_LINK_DESTROYED)
        tell(turn, route);
}

size_t fry_routes_step(fry_turn *turn, fry_members *members)
{
    size_t done = 0;
    fry_link *item;
    while ((item = fry_queue_pop(&members->asks)) != NULL) {
        fry_route *route = FRY_CONTAINER(item, fry_route, ask_link);
        route->is_asking = false;
        step(turn, route);
        done++;
    }
    if (members->orders.first == NULL)
        return done;
    fry_store_relaxed(&members->has_orders, 0);
    fry_queue orders = members->orders;
    members->orders = (fry_queue){0};
    while ((item = fry_queue_pop(&orders)) != NULL) {
        fry_route *route = FRY_CONTAINER(item, fry_route, order_link);
        route->is_ordered = false;
        step(turn, route);
        done++;
    }
    return done;
}

/* ---- without the baton again ---- */

static void destroy_channel(fry_route *route)
{
    if (route->is_watched)
        fry_poller_remove(&members_of(route)->engine->poller, &route->watch);
    route->is_watched = false;
    set_look(route, 0);
    fry_link_destroy(route->link);
    order(route);
}

static void finish(fry_route *route)
{
    bool is_lost = take_due(route, FRY_DUE_LOSE);
    if (fry_link_has_connection(route->link)) {
        if (is_lost)
            fry_link_lost(route->link, &route->connection_fault);
        if (route->link->state == FRY_LINK_DETACHED)
            destroy_channel(route);
        else if (route->link->state == FRY_LINK_TOLD)
            fry_link_over(route->link);
    }
    if (!fry_link_has_connection(route->link)) {
        fry_route_sync(route);
        if (take_due(route, FRY_DUE_WANT))
            want(route);
        if (route->is_ending)
            fry_ending_look_soon(route->group);
    }
    members_of(route)->has_steps = true;
}

size_t fry_routes_finish(fry_members *members)
{
    size_t done = 0;
    fry_queue finishing = members->finishing;
    members->finishing = (fry_queue){0};
    fry_link *item;
    while ((item = fry_queue_pop(&finishing)) != NULL) {
        fry_route *route = FRY_CONTAINER(item, fry_route, finish_link);
        route->is_finishing = false;
        finish(route);
        done++;
    }
    return done;
}
