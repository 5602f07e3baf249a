/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups' lives, on the loop.
 *
 *     JOINING ── joined ──► HERE ── fenced ──► FENCED
 *        │                   │                    │   left, released, shut down
 *        └──── cancelled ────┴──► LEAVING ◄───────┘
 *                                   │  in the steps below
 *                                   ▼
 *                                  OVER, until the handle is given back
 *
 * Leaving takes steps (fry_membership_leaving). Those with the baton are in fry_memberships_look:
 *
 *  ENTERS   What was submitted before the errand enters the graph. When the errand is seen, all of
 *           that has entered, or is in the inbox or the backlog. The inbox is taken only while the
 *           backlog is empty. So all has entered once the inbox was taken and the backlog is empty.
 *  LINGERS  Nothing is taken any more; receives fail, and so do messages to oneself. Connections
 * stay, and new ones are made, until each send has ended, because its receive was there or its
 *           receiver is dead. After linger_ns the rest fails.
 *  PARTS    Each connection tells its other end what that end has yet to hear (fry_peer_part).
 *  ENDS     Routes end: channels are destroyed.
 *  TELLS    The store is told; then links and net/group are closed.
 *
 * A shutdown begins with PARTS, and gives it a moment; a fenced member begins with ENDS. A death
 * ends its route in each of these steps, and with the route what waits for it. Asking to leave
 * again, or giving the handle back, changes nothing.
 *
 * A group is freed when its handle is back and no operation can name one of its routes any more.
 * Those in peers are gone (`open`). Those that were submitted have entered: the loop waits until it
 * sees inbox and backlog empty with the baton. An operation that enters when the group takes none
 * is refused, and forgets its route.
 */
#include "engine/messages/groups.h"

#include "engine/engine.h"
#include "engine/graph/turn.h"
#include "engine/ground/ground.h"
#include "engine/ground/refusal.h"
#include "engine/messages/alone.h"
#include "engine/messages/ending.h"
#include "engine/messages/errand.h"
#include "engine/messages/members.h"
#include "engine/messages/membership.h"
#include "engine/messages/message.h"
#include "engine/messages/notices.h"
#include "engine/messages/pairing.h"
#include "engine/messages/route.h"
#include "engine/messages/symmetric.h"
#include "engine/messages/window.h"
#include "net/group/members.h"
#include "net/peer/any.h"

#include <stdio.h>

#define REFRESH_NS 100000000 /* how old members' leases in a group's answers may be */
#define PART_NS 200000000    /* the least time for parting, however long it lingered */

/* The role. */
static void note_any(ferry_group *group)
{
    group->has_any_news = true;
    fry_store_relaxed(&group->members->has_looks, 1);
}

static void group_set_life(ferry_group *group, fry_membership_life life)
{
    fry_store_release(&group->life, life); /* pairs with fry_membership_takes */
    group->members->has_steps = true;
    note_any(group);
}

static void set_leaving(ferry_group *group, fry_membership_leaving leaving)
{
    fry_store_relaxed(&group->leaving, (uint8_t)leaving);
    group->is_late = group->has_timer = false;
    group->members->has_steps = true;
    fry_store_relaxed(&group->members->has_looks, 1);
}

static void leaving_is_late(fry_timer *timer)
{
    ferry_group *group = timer->arg;
    if (!group->has_timer)
        return; /* the timer was the last step's; this step has yet to set it */
    group->is_late = true;
    group->members->has_steps = true;
    fry_store_relaxed(&group->members->has_looks, 1);
}

/* ---- members ---- */

static void describe(const ferry_group *group, uint32_t rank, ferry_member_info *info)
{
    const fry_group_member *member = fry_group_member_at(group->net, rank);
    if (member == NULL)
        return;
    const fry_route *route = &group->routes[rank];
    info->struct_size = sizeof *info;
    info->state = member->state;
    info->rank = rank;
    info->incarnation = member->incarnation;
    info->last_seen_ns = member->last_seen_ns;
    info->device_count = member->device_count;
    info->first_device = member->first_device;
    if (route->link != NULL)
        info->is_on_this_host = fry_link_is_local(route->link);
    (void)snprintf(info->host, sizeof info->host, "%s", member->host);
    info->pid = member->pid;
}

/* Leases are renewed without an event. */
void fry_membership_refresh(ferry_group *group)
{
    if (group->net == NULL || group->news == NULL)
        return;
    fry_store_release(&group->stop_step, fry_group_stop_step(group->net));
    int64_t now_ns = fry_reactor_now_ns(&group->members->reactor);
    if (now_ns - group->refreshed_ns < REFRESH_NS)
        return;
    group->refreshed_ns = now_ns;
    (void)pthread_mutex_lock(&group->lock);
    for (uint32_t i = 0; i < group->size; i++) {
        const fry_group_member *member = fry_group_member_at(group->net, i);
        if (member != NULL)
            group->news[i].info.last_seen_ns = member->last_seen_ns;
    }
    (void)pthread_mutex_unlock(&group->lock);
}

static void net_changed(void *arg, uint32_t rank)
{
    ferry_group *group = arg;
    if (!fry_membership_has_connections(group) || rank >= group->size)
        return;
    fry_route_sync(&group->routes[rank]);
    const fry_group_member *member = fry_group_member_at(group->net, rank);
    fry_ending_note(&group->routes[rank], member->state == FERRY_MEMBER_HERE);
    if (fry_load_relaxed(&group->life) != FRY_GROUP_HERE)
        return;
    note_any(group);
    fry_member_news *news = &group->news[rank];
    (void)pthread_mutex_lock(&group->lock);
    describe(group, rank, &news->info);
    (void)pthread_mutex_unlock(&group->lock);
    if (group->options.on_member == NULL)
        return;
    news->has_changed = news->info.state == FERRY_MEMBER_HERE;
    if (!news->has_changed) {
        news->ended = news->info;
        news->has_ended = true;
    }
    fry_store_relaxed(&group->members->has_callbacks, 1);
}

/* Nothing is told any more once a leave has resolved. */
static bool is_told(const ferry_group *group)
{
    return !group->is_handle_gone && fry_load_relaxed(&group->life) != FRY_GROUP_OVER;
}

static void tell(const ferry_group *group, fry_member_news *news)
{
    ferry_member_info ended = news->ended, info = news->info;
    bool has_ended = news->has_ended, has_changed = news->has_changed;
    news->has_ended = news->has_changed = false;
    if (has_ended)
        group->options.on_member(group->options.on_member_arg, (ferry_group *)(uintptr_t)group,
                                 &ended);
    if (has_changed)
        group->options.on_member(group->options.on_member_arg, (ferry_group *)(uintptr_t)group,
                                 &info);
}

size_t fry_memberships_tell(fry_members *members)
{
    if (members->orders.first != NULL || members->finishing.first != NULL)
        return 0; /* what the dead left open fails first */
    fry_callback_frame frame;
    fry_callbacks_begin(&frame, members->engine);
    size_t done = 0;
    fry_store_relaxed(&members->has_callbacks, 0);
    for (ferry_group *group = members->groups; group != NULL; group = group->next) {
        for (uint32_t i = 0; group->news != NULL && i < group->size; i++) {
            fry_member_news *news = &group->news[i];
            if (!is_told(group) || !(news->has_ended || news->has_changed))
                continue;
            if (done > 0 && fry_gives_up(members->engine)) {
                fry_store_relaxed(&members->has_callbacks, 1); /* in another tick */
                break;
            }
            tell(group, news);
            done++;
        }
    }
    fry_callbacks_end(&frame);
    return done;
}

/* ---- joining ---- */

static void join_fails(ferry_group *group, ferry_status status, fry_error *error)
{
    if (group->join != NULL)
        fry_promise_answer(group->join->promise, status, error, NULL, 0, 0);
    else
        fry_error_release(error);
    fry_membership_end(group, status);
}

static bool may_pair(const ferry_group_options *options)
{
    bool is_named = options->gpu_way == FERRY_GPU_WAY_NCCL || options->gpu_way == FERRY_GPU_WAY_ALL;
    return is_named && fry_pairings_are_here();
}

static bool may_view(const ferry_group_options *options)
{
    return options->gpu_way == FERRY_GPU_WAY_ANY || options->gpu_way == FERRY_GPU_WAY_IPC ||
           options->gpu_way == FERRY_GPU_WAY_ALL;
}

static void init_route(ferry_group *group, uint32_t rank)
{
    const ferry_group_options *options = &group->options;
    fry_route *route = &group->routes[rank];
    route->group = group;
    route->can_pair = may_pair(&group->options);
    route->rank = rank;
    route->peer_options = (fry_peer_options){.memory = &group->engine->memory,
                                             .log = &group->engine->log,
                                             .rank = (int32_t)rank,
                                             .own_rank = group->rank,
                                             .window_messages = options->window_messages,
                                             .unexpected_max = options->unexpected_max,
                                             .window_bytes = options->window_bytes,
                                             .any = group->any,
                                             .events = group->members->message_events,
                                             .arg = route};
}

static bool make_tables(ferry_group *group)
{
    const fry_memory *memory = &group->engine->memory;
    group->size = fry_group_size(group->net);
    group->rank = fry_group_rank(group->net);
    group->routes = fry_alloc(memory, group->size * sizeof *group->routes, _Alignof(fry_route));
    group->news = fry_alloc(memory, group->size * sizeof *group->news, _Alignof(fry_member_news));
    uint32_t any_max = group->options.any_source_max;
    if (any_max != 0)
        group->any = fry_any_open(memory, group->members->message_events, any_max);
    uint32_t events_most = fry_happenings_most(group->options.events_max, group->size);
    bool has_ring = fry_happenings_open(memory, &group->happenings, events_most);
    if (group->routes == NULL || group->news == NULL || (any_max != 0 && group->any == NULL) ||
        !has_ring) {
        fry_membership_free_tables(group);
        group->routes = NULL;
        group->news = NULL;
        group->any = NULL;
        return false;
    }
    group->plain_size = any_max != 0 ? 0 : group->size;
    for (uint32_t i = 0; i < group->size; i++) {
        init_route(group, i);
        describe(group, i, &group->news[i].info);
    }
    return true;
}

static void net_joined(void *arg, ferry_status status, fry_error *error)
{
    ferry_group *group = arg;
    if (fry_load_relaxed(&group->life) != FRY_GROUP_JOINING)
        return;
    if (status != FERRY_OK) {
        join_fails(group, status, error != NULL ? fry_error_retain(error) : NULL);
        return;
    }
    if (!make_tables(group)) {
        join_fails(group, FERRY_E_NO_MEMORY, NULL);
        return;
    }
    fry_links_set_own(group->links, (uint32_t)group->rank, fry_group_start(group->net));
    group_set_life(group, FRY_GROUP_HERE);
    for (uint32_t i = 0; i < group->size; i++) {
        fry_route_sync(&group->routes[i]);
        describe(group, i, &group->news[i].info);
    }
    if (group->join != NULL)
        fry_promise_answer(group->join->promise, FERRY_OK, NULL, NULL, 0, 0);
}

static void net_fenced(void *arg, fry_error *error)
{
    ferry_group *group = arg;
    const char *why = error != NULL ? error->public_.message : "this member was declared dead";
    fry_log_line(&group->engine->log, FERRY_LOG_ERROR, "job %s: %s", group->options.job, why);
    if (fry_load_relaxed(&group->life) == FRY_GROUP_JOINING) {
        join_fails(group, FERRY_E_FENCED, error != NULL ? fry_error_retain(error) : NULL);
        return;
    }
    if (fry_load_relaxed(&group->life) == FRY_GROUP_HERE)
        group_set_life(group, FRY_GROUP_FENCED);
    else if (group->leaving == FRY_LEAVING_LINGERS || group->leaving == FRY_LEAVING_PARTS)
        set_leaving(group, FRY_LEAVING_ENDS);
    else
        return;
    fry_fault fault = {.status = FERRY_E_FENCED, .rank = group->rank};
    (void)snprintf(fault.message, sizeof fault.message, "%s", why);
    for (uint32_t i = 0; i < group->size; i++)
        fry_route_end(&group->routes[i], &fault);
    if (group->leaving == FRY_LEAVING_ENTERS)
        fry_membership_end(group, FERRY_E_FENCED);
}

static void net_happened(void *arg, uint32_t rank, ferry_member_state what, uint64_t incarnation,
                         uint64_t number)
{
    ferry_group *group = arg;
    if (fry_load_relaxed(&group->life) != FRY_GROUP_HERE)
        return;
    const fry_happening happening = {
        .event = {.what = what, .rank = rank, .incarnation = incarnation}, .number = number};
    fry_happenings_add(group, &happening);
}

static ferry_status open_net(ferry_group *group, fry_error **error_p)
{
    static const fry_group_events events = {.joined = net_joined,
                                            .changed = net_changed,
                                            .happened = net_happened,
                                            .fenced = net_fenced};
    const ferry_group_options *options = &group->options;
    char endpoint[FRY_ENDPOINT_BYTES];
    _Static_assert(sizeof endpoint <= FRY_GROUP_RECORD_BYTES, "a member's record has it");
    fry_links_options links = {.reactor = &group->members->reactor,
                               .network = options->network,
                               .opener = group->engine->connection_opener,
                               .job = options->job,
                               .secret = options->secret,
                               .secret_bytes = options->secret_bytes,
                               .lease_ns = options->lease_ns,
                               .window_messages = options->window_messages,
                               .unexpected_max = options->unexpected_max,
                               .window_bytes = options->window_bytes,
                               .has_views = may_view(options),
                               .has_pairs = may_pair(options),
                               .registration_cache_bytes = options->registration_cache_bytes};
    ferry_status status =
        fry_links_open(&links, &fry_route_link_events, &group->links, endpoint, error_p);
    if (status != FERRY_OK)
        return status;
    fry_group_options net = {.reactor = &group->members->reactor,
                             .secret = options->secret,
                             .secret_bytes = options->secret_bytes,
                             .store = options->store,
                             .store_options = {.user = options->store_user,
                                               .password = options->store_password,
                                               .ca_path = options->store_ca_path,
                                               .certificate_path = options->store_certificate_path,
                                               .key_path = options->store_key_path},
                             .job = options->job,
                             .size = options->size,
                             .size_min = options->size_min,
                             .is_open = options->kind == FERRY_GROUP_OPEN,
                             .rank = options->has_rank ? (int32_t)options->rank : FRY_RANK_ANY,
                             .device_count = options->device_count != 0
                                                 ? options->device_count
                                                 : fry_engine_device_count(group->engine),
                             .place = options->place,
                             .endpoint = endpoint,
                             .lease_ns = options->lease_ns,
                             .deadline_ns = options->deadline_ns};
    return fry_group_open(&net, &events, group, &group->net, error_p);
}

void fry_membership_begin(fry_members *members, ferry_group *group, bool is_over)
{
    group->timer = (fry_timer){.fn = leaving_is_late, .arg = group};
    group->next = members->groups;
    members->groups = group;
    members->has_steps = true;
    if (is_over || fry_load_relaxed(&members->engine->closing) != 0) {
        fry_membership_end(group, FERRY_E_SHUTDOWN);
        return;
    }
    fry_error *error = NULL;
    ferry_status status = open_net(group, &error);
    if (status != FERRY_OK)
        join_fails(group, status, error);
}

void fry_membership_join_is_over(ferry_group *group)
{
    if (fry_load_relaxed(&group->life) == FRY_GROUP_JOINING)
        fry_membership_end(group, FERRY_E_CANCELLED);
}

/* ---- leaving ---- */

void fry_membership_end(ferry_group *group, ferry_status status)
{
    uint32_t life = fry_load_relaxed(&group->life);
    group->members->has_steps = true;
    if (group->leaving == FRY_LEAVING_PARTS && group->linger_until_ns != 0) {
        group->linger_until_ns = 0; /* from now on only as long as parting itself takes */
        group->has_timer = false;
        return;
    }
    if (life == FRY_GROUP_OVER ||
        (life == FRY_GROUP_LEAVING && group->leaving > FRY_LEAVING_LINGERS))
        return;
    group->end_status = status;
    group->linger_until_ns = 0;
    set_leaving(group, life == FRY_GROUP_HERE || life == FRY_GROUP_LEAVING ? FRY_LEAVING_PARTS
                                                                           : FRY_LEAVING_ENDS);
    group_set_life(group, FRY_GROUP_LEAVING);
}

void fry_membership_leave_in_order(ferry_group *group)
{
    if (group->leaving != FRY_LEAVING_NOT)
        return; /* leaving goes on as it began, even if the handle is given back */
    if (fry_load_relaxed(&group->life) != FRY_GROUP_HERE) {
        fry_membership_end(group, FERRY_E_CANCELLED);
        return;
    }
    group->end_status = FERRY_E_CANCELLED;
    set_leaving(group, FRY_LEAVING_ENTERS);
}

static fry_fault fault_of_leaving(const ferry_group *group)
{
    fry_fault fault = {.status = group->end_status, .rank = group->rank};
    (void)snprintf(fault.message, sizeof fault.message, "this member leaves job %s",
                   group->options.job);
    return fault;
}

static void end_routes(ferry_group *group)
{
    if (group->links != NULL)
        fry_links_leave(group->links); /* tells the other ends of connections */
    fry_fault fault = fault_of_leaving(group);
    for (uint32_t i = 0; group->routes != NULL && i < group->size; i++)
        fry_route_end(&group->routes[i], &fault);
}

static bool routes_are_over(const ferry_group *group)
{
    for (uint32_t i = 0; group->routes != NULL && i < group->size; i++) {
        if (!fry_route_is_over(&group->routes[i]))
            return false;
    }
    return true;
}

static void net_left(void *arg)
{
    ferry_group *group = arg;
    group->has_left = true;
    group->members->has_steps = true;
}

/* Closes links and net/group; only memory is left. */
static void close_net(ferry_group *group)
{
    for (uint32_t i = 0; group->routes != NULL && i < group->size; i++) {
        if (group->routes[i].link != NULL)
            fry_link_remove(group->routes[i].link);
        group->routes[i].link = NULL;
    }
    if (group->links != NULL)
        fry_links_close(group->links);
    group->links = NULL;
    fry_group *net = group->net;
    group->net = NULL;
    fry_group_close(net);
}

/* Bounds the time of a step that waits for others. */
static void set_timer(ferry_group *group)
{
    fry_reactor *reactor = &group->members->reactor;
    const ferry_engine *engine = group->engine;
    int64_t until_ns = group->linger_until_ns;
    bool is_parting = group->leaving == FRY_LEAVING_PARTS;
    /* A user's clock may stand still, but the shutdown must go on. */
    if (!engine->clock.is_real && fry_load_relaxed(&engine->closing) != 0)
        leaving_is_late(&group->timer);
    if (is_parting && until_ns < fry_reactor_now_ns(reactor) + PART_NS)
        until_ns = fry_reactor_now_ns(reactor) + PART_NS;
    if (until_ns != INT64_MAX)
        fry_timer_set(reactor, &group->timer, until_ns);
}

/* One step of leaving without the baton. False: something has yet to happen. */
static bool leave(ferry_group *group)
{
    switch ((fry_membership_leaving)group->leaving) {
    case FRY_LEAVING_ENDS:
        if (!group->has_ended_routes) {
            group->has_ended_routes = true;
            fry_timer_stop(&group->members->reactor, &group->timer);
            end_routes(group);
        }
        if (!routes_are_over(group) || !group->has_none_open)
            return false;
        set_leaving(group, FRY_LEAVING_TELLS);
        if (group->net != NULL)
            fry_group_leave(group->net, net_left, group);
        else
            group->has_left = true;
        return true;
    case FRY_LEAVING_TELLS:
        if (!group->has_left)
            return false;
        close_net(group);
        group_set_life(group, FRY_GROUP_OVER);
        return true;
    case FRY_LEAVING_LINGERS:
    case FRY_LEAVING_PARTS:
        if (!group->has_timer) {
            group->has_timer = true;
            set_timer(group);
        }
        return false;
    default:
        return false;
    }
}

/* Answers the errands of a group that is over: it has left, and does nothing else any more. */
static void answer_errands(ferry_group *group)
{
    fry_errand *errand;
    LIST_FOREACH(errand, &group->errands, entry) {
        ferry_status status = errand->sort == FRY_ERRAND_LEAVE ? FERRY_OK : FERRY_E_CANCELLED;
        if (!fry_future_is_resolved((ferry_future *)(void *)errand->promise))
            fry_promise_answer(errand->promise, status, NULL, NULL, 0, 0);
    }
}

size_t fry_memberships_step(fry_members *members)
{
    size_t done = 0;
    bool is_closing = fry_load_relaxed(&members->engine->closing) != 0;
    members->has_steps = false;
    for (ferry_group **at = &members->groups; *at != NULL;) {
        ferry_group *group = *at;
        if (is_closing)
            fry_membership_end(group, FERRY_E_SHUTDOWN);
        while (fry_load_relaxed(&group->life) == FRY_GROUP_LEAVING && leave(group))
            done++;
        fry_membership_refresh(group);
        fry_endings_step(group);
        bool is_over = fry_load_relaxed(&group->life) == FRY_GROUP_OVER;
        if (is_over)
            answer_errands(group);
        if (is_over && group->is_handle_gone && group->is_quiet && LIST_EMPTY(&group->errands)) {
            *at = group->next;
            fry_membership_unretain(group);
            done++;
        } else {
            at = &group->next;
        }
    }
    if (done == 0)
        members->has_steps = false;
    return done;
}

/* ---- leaving, with the baton ---- */

/* Whether all that was submitted before has entered. */
static bool has_entered(const fry_turn *turn, ferry_group *group)
{
    const ferry_engine *engine = turn->engine;
    bool is_empty = fry_stack_is_empty(&engine->inbox);
    if (!group->has_seen_inbox) {
        group->has_seen_inbox = true;
        group->takes_awaited = engine->inbox_takes + (is_empty ? 0 : 1);
    }
    return engine->inbox_takes > group->takes_awaited ||
           (engine->inbox_takes == group->takes_awaited && engine->backlog.first == NULL);
}

/* Stops messages that no other member can complete any more, or, with with_sends, all. */
static void stop_messages(fry_turn *turn, ferry_group *group, bool with_sends)
{
    fry_fault fault = fault_of_leaving(group);
    for (uint32_t i = 0; i < group->size; i++) {
        fry_route *route = &group->routes[i];
        fry_peer *peer = fry_route_made_peer(route);
        if (peer == NULL)
            continue;
        fry_peer_stop(peer, with_sends || (int32_t)i == group->rank, group->end_status, &fault,
                      turn);
        fry_route_launched(turn, route); /* which tells the other end */
    }
}

static void begin_to_linger(fry_turn *turn, ferry_group *group)
{
    int64_t linger_ns =
        group->options.linger_ns != 0 ? group->options.linger_ns : group->options.lease_ns;
    int64_t now_ns = fry_reactor_now_ns(&group->members->reactor);
    group->linger_until_ns =
        linger_ns < 0 || linger_ns > INT64_MAX - now_ns ? INT64_MAX : now_ns + linger_ns;
    set_leaving(group, FRY_LEAVING_LINGERS);
    group_set_life(group, FRY_GROUP_LEAVING);
    fry_windows_stop(turn, group);
    stop_messages(turn, group, false);
}

/* True: no connection has anything left to tell, or the time is over. */
static bool have_parted(fry_turn *turn, ferry_group *group)
{
    bool have = true;
    for (uint32_t i = 0; group->routes != NULL && i < group->size; i++) {
        fry_route *route = &group->routes[i];
        if (route->is_up && (int32_t)i != group->rank &&
            !fry_peer_part(fry_route_made_peer(route), turn)) {
            have = false;
            fry_route_poll(route);
        }
    }
    return have || group->is_late;
}

static void look_at_leaving(fry_turn *turn, ferry_group *group)
{
    if (group->leaving == FRY_LEAVING_ENTERS && has_entered(turn, group))
        begin_to_linger(turn, group);
    if (group->leaving == FRY_LEAVING_LINGERS && group->is_late)
        stop_messages(turn, group, true);
    if (group->leaving == FRY_LEAVING_LINGERS && (group->open == 0 || group->is_late))
        set_leaving(group, FRY_LEAVING_PARTS);
    if (group->leaving == FRY_LEAVING_PARTS && have_parted(turn, group))
        set_leaving(group, FRY_LEAVING_ENDS);
    if (group->has_ended_routes && !group->has_none_open) {
        fry_symmetrics_end(turn, group);
        bool has_no_windows = fry_windows_end(turn, group);
        group->has_none_open = has_no_windows && group->open == 0;
        group->members->has_steps |= group->has_none_open;
        if (!has_no_windows) /* connections are about to be over, and nobody else looks again */
            fry_store_relaxed(&group->members->has_looks, 1);
    }
}

static void look_at_some(fry_turn *turn, ferry_group *group)
{
    if (fry_load_relaxed(&group->has_ending_news) != 0)
        fry_endings_look(group);
    if (group->leaving != FRY_LEAVING_NOT)
        look_at_leaving(turn, group);
    if (group->has_any_news) {
        fry_notices_look(turn, group);
        fry_symmetrics_look(turn, group);
    }
    if (group->has_any_news && group->any != NULL)
        fry_alone_look(turn, group);
    else
        group->has_any_news = false;
    if (group->leaving == FRY_LEAVING_ENTERS)
        fry_store_relaxed(&group->members->has_looks, 1);
}

void fry_memberships_look(fry_turn *turn, fry_members *members)
{
    ferry_engine *engine = turn->engine;
    fry_store_relaxed(&members->has_looks, 0);
    for (ferry_group *group = members->groups; group != NULL; group = group->next) {
        if (fry_unlikely((group->leaving | group->has_any_news |
                          fry_load_relaxed(&group->has_ending_news)) != 0)) /* each turn */
            look_at_some(turn, group);
        if (fry_load_relaxed(&group->life) == FRY_GROUP_OVER && group->is_handle_gone &&
            !group->is_quiet && group->open == 0 && engine->backlog.first == NULL &&
            fry_stack_is_empty(&engine->inbox)) {
            group->is_quiet = true;
            members->has_steps = true;
        }
    }
}
