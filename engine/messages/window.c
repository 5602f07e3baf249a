/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows, from their opening to the moment after which nobody touches the memory.
 *
 *     NEW ── open ──────────────► USABLE ── close, release, the owner, ──► ENDING ──► OVER
 *      └─── find ──► SEEKING ───────┘       the connection's or the            ▲
 *                       └────────────────── membership's end ──────────────────┘
 *
 * Opening, finding and closing are operations of the graph, which the loop does, since they may
 * take memory and their failures make errors: they wait in members->windows_due. What peers tell
 * comes to whichever thread has the baton.
 *
 * When it is over. A window of this member: when each member that has found it has left it, or its
 * channel is destroyed (`grants`), and no transfer that serves one is left (`uses`). Both only
 * shrink once the window is ENDING, as it is not found any more, and what members may still ask of
 * it they ask before they leave it; a request that comes later, because words overtake one another,
 * finds no grant and is refused. A window of another member: when no get or put of this member uses
 * it, and then it is left.
 *
 * Memory. The handle, each transfer, and members while the window is listed have a reference to it,
 * and the window has one to its group: operations may ask a window for its group after that group
 * was left and released.
 */
#include "engine/messages/window.h"
#include "engine/messages/membership.h"

#include "engine/engine.h"
#include "engine/graph/emit.h"
#include "engine/graph/graph.h"
#include "engine/graph/node.h"
#include "engine/ground/ground.h"
#include "engine/ground/refusal.h"
#include "engine/messages/ending.h"
#include "engine/messages/groups.h"
#include "engine/messages/members.h"
#include "engine/messages/message.h"
#include "engine/messages/route.h"

#include <stdio.h>

static fry_members *members_of(const ferry_window *window)
{
    return window->group->members;
}

static void set_life(ferry_window *window, fry_window_life life)
{
    fry_store_release(&window->life, (uint8_t)life); /* pairs with fry_window_life_of */
}

static void tell_watch(fry_turn *turn, ferry_window *window)
{
    if (window->watch != NULL)
        window->watch->changed(turn, window);
}

/* ---- memory ---- */

ferry_window *fry_window_make(ferry_group *group, const char *name)
{
    ferry_window *window =
        fry_alloc(&group->engine->memory, sizeof *window, _Alignof(ferry_window));
    if (window == NULL)
        return NULL;
    window->references = 1;
    window->group = group;
    fry_membership_retain(group);
    (void)snprintf(window->name, sizeof window->name, "%s", name);
    window->found = (fry_found){.owner = window, .name = window->name};
    return window;
}

void fry_window_unretain(ferry_window *window)
{
    if (fry_fetch_sub(&window->references, 1) != 1)
        return;
    ferry_group *group = window->group;
    fry_free(&group->engine->memory, window, sizeof *window);
    fry_membership_unretain(group);
}

void fry_window_count(ferry_window *window)
{
    window->is_counted = window->group->options.kind == FERRY_GROUP_OPEN;
    if (window->is_counted)
        (void)fry_fetch_add(&window->route->windows, 1);
}

void fry_window_count_no_more(ferry_window *window)
{
    if (!window->is_counted)
        return;
    window->is_counted = false;
    (void)fry_fetch_sub(&window->route->windows, 1);
    fry_ending_look_soon(window->group);
}

void fry_window_release(ferry_window *window)
{
    if (fry_window_life_of(window) == FRY_WINDOW_OVER && !window->is_counted) {
        fry_window_unretain(window);
        return;
    }
    fry_members *members = members_of(window);
    fry_stack_push(&members->window_releases, &window->release_link);
    fry_wake(members->engine);
}

/* ---- lists ---- */

static void list(ferry_window *window)
{
    window->is_listed = true;
    fry_window_retain(window);
    TAILQ_INSERT_TAIL(&window->group->windows, window, entry);
}

static void be_due(fry_turn *turn, ferry_window *window)
{
    fry_members *members = members_of(window);
    turn->wake = true;
    if (window->is_due)
        return;
    window->is_due = true;
    fry_window_retain(window);
    TAILQ_INSERT_TAIL(&members->windows_due, window, due);
}

/* ---- their operations ---- */

static void operation_is_done(fry_turn *turn, fry_node **node_p)
{
    fry_node *node = *node_p;
    *node_p = NULL;
    if (node == NULL || node->state >= FRY_NODE_RESOLVED)
        return;
    fry_emit(turn->engine, node, FERRY_TRACE_FIRED, 0);
    fry_graph_complete(turn, node);
}

/* On the loop. */
static void operation_fails(fry_turn *turn, fry_node **node_p, const fry_fault *from)
{
    fry_node *node = *node_p;
    *node_p = NULL;
    if (node == NULL || node->state >= FRY_NODE_RESOLVED)
        return;
    fry_fault fault = *from;
    fault.op = node->future.id;
    fault.label = fry_node_label(node);
    fry_error *error = fry_error_create(
        &turn->engine->memory, &fault, NULL, "window %s: %s", node->op.window.window->name,
        fault.message[0] != '\0' ? fault.message : ferry_status_text(fault.status));
    fry_graph_fail(turn, node, fault.status, error, false);
}

static fry_fault fault_of(const ferry_window *window, ferry_status status, const char *words)
{
    fry_fault fault = {.status = status, .rank = -1};
    if (!window->is_own)
        fault.rank = (int32_t)window->route->rank;
    (void)snprintf(fault.message, sizeof fault.message, "%s", words);
    return fault;
}

/* ---- the end ---- */

static void be_over(fry_turn *turn, ferry_window *window)
{
    bool was_listed = window->is_listed;
    set_life(window, FRY_WINDOW_OVER);
    window->is_listed = false;
    if (window->buffer != NULL)
        fry_buffer_unretain(window->buffer);
    window->buffer = NULL;
    turn->wake = true; /* the loop may have to free the buffer */
    if (was_listed)
        TAILQ_REMOVE(&window->group->windows, window, entry);
    operation_is_done(turn, &window->end);
    if (was_listed)
        fry_window_unretain(window);
}

/* ENDING: whether that is all. The window may be gone afterwards. */
static void look(fry_turn *turn, ferry_window *window)
{
    if (window->life != FRY_WINDOW_ENDING || window->uses != 0 || window->grants != 0)
        return;
    if (!window->is_own && window->found.state == FRY_FOUND_HERE) {
        fry_peer_leave_window(&window->found, turn);
        fry_route_launched(turn, window->route);
    }
    be_over(turn, window);
}

/* Operations that begin from now on fail with the fault. */
static void end(fry_turn *turn, ferry_window *window, const fry_fault *fault)
{
    if (window->life >= FRY_WINDOW_ENDING)
        return;
    bool was_seeking = window->life == FRY_WINDOW_SEEKING;
    window->fault = *fault;
    set_life(window, FRY_WINDOW_ENDING);
    tell_watch(turn, window);
    if (was_seeking && window->found.state != FRY_FOUND_GONE) {
        fry_peer_leave_window(&window->found, turn);
        fry_route_launched(turn, window->route);
    }
    const ferry_group *group = window->group;
    for (uint32_t i = 0; window->is_own && window->grants != 0 && i < group->size; i++) {
        fry_route *route = &group->routes[i];
        if (fry_route_made_peer(route) == NULL)
            continue;
        fry_peer_close_window(fry_route_made_peer(route), window, turn);
        fry_route_launched(turn, route);
    }
    look(turn, window);
}

void fry_window_is_used_no_more(fry_turn *turn, const fry_transfer *transfer)
{
    ferry_window *window = transfer->window;
    if (window->is_own || (transfer->flags & FRY_TRANSFER_ENTERED) != 0) {
        window->uses--;
        look(turn, window);
    }
    fry_window_unretain(window);
}

/* On the loop. It ends before its operation fails, which only says what comes of that. */
static void fail_begin(fry_turn *turn, ferry_window *window, const fry_fault *fault)
{
    fry_window_retain(window);
    end(turn, window, fault);
    operation_fails(turn, &window->begin, fault);
    fry_window_unretain(window);
}

/* ---- beginning: the loop ---- */

static ferry_window *find_own(const ferry_group *group, const char *name, uint32_t *count_p)
{
    ferry_window *window;
    *count_p = 0;
    TAILQ_FOREACH(window, &group->windows, entry) {
        if (!window->is_own)
            continue;
        ++*count_p;
        if (window->life == FRY_WINDOW_USABLE && strcmp(window->name, name) == 0)
            return window;
    }
    return NULL;
}

static void announce(fry_turn *turn, const ferry_window *window)
{
    const ferry_group *group = window->group;
    for (uint32_t i = 0; i < group->size; i++) {
        fry_route *route = &group->routes[i];
        if (fry_route_made_peer(route) == NULL)
            continue;
        fry_peer_window_opened(fry_route_made_peer(route), turn);
        fry_route_launched(turn, route);
    }
}

static void open_own(fry_turn *turn, ferry_window *window)
{
    uint32_t count;
    fry_fault fault;
    bool is_taken = find_own(window->group, window->name, &count) != NULL;
    if (is_taken) {
        fault = fault_of(window, FERRY_E_CHANGED, "this member has a window of that name");
        fail_begin(turn, window, &fault);
    } else if (count >= FRY_WINDOWS_OWN_MOST) {
        fault = fault_of(window, FERRY_E_AGAIN, "this member has 1024 windows in the group");
        fail_begin(turn, window, &fault);
    } else {
        list(window);
        set_life(window, FRY_WINDOW_USABLE);
        tell_watch(turn, window);
        announce(turn, window);
        operation_is_done(turn, &window->begin);
    }
}

static void seek(fry_turn *turn, ferry_window *window)
{
    list(window);
    set_life(window, FRY_WINDOW_SEEKING);
    fry_peer_find(fry_route_made_peer(window->route), &window->found, turn); /* may lose it */
    fry_route_launched(turn, window->route);
}

void fry_window_begin(fry_turn *turn, ferry_window *window)
{
    if (window->is_own)
        open_own(turn, window);
    else
        seek(turn, window);
}

/*
 * Its handle was given back, and the loop has heard of that before its operation had started. The
 * same is said as if the operation had come first: a window was open, and was closed at once.
 */
static void begin_too_late(fry_turn *turn, ferry_window *window)
{
    if (window->is_own)
        operation_is_done(turn, &window->begin);
    else
        operation_fails(turn, &window->begin, &window->fault);
}

static void begin(fry_turn *turn, ferry_window *window)
{
    fry_refusal why = fry_membership_refusal(window->group);
    if (window->life != FRY_WINDOW_NEW) {
        begin_too_late(turn, window);
        return;
    }
    if (window->begin == NULL || why != FRY_TAKEN) { /* it has failed meanwhile */
        fry_fault fault = why != FRY_TAKEN
                              ? fry_error_fault(fry_refusal_error(why))
                              : fault_of(window, FERRY_E_NOT_FOUND, "it was not opened or found");
        fail_begin(turn, window, &fault);
    } else {
        fry_window_begin(turn, window);
    }
}

static void end_as_closed(fry_turn *turn, ferry_window *window)
{
    const fry_fault fault = fault_of(window, FERRY_E_NOT_FOUND, "it is closed");
    fail_begin(turn, window, &fault);
    if (window->life == FRY_WINDOW_OVER)
        operation_is_done(turn, &window->end);
}

void fry_window_end(fry_turn *turn, ferry_window *window)
{
    window->watch = NULL;
    end_as_closed(turn, window);
}

static void release(fry_turn *turn, ferry_window *window)
{
    if (window->is_due && window->begins) { /* what was submitted before comes first */
        window->begins = false;
        begin(turn, window);
    }
    end_as_closed(turn, window);
    fry_window_count_no_more(window);
    fry_window_unretain(window);
}

bool fry_windows_have_work(const fry_members *members)
{
    return !TAILQ_EMPTY(&members->windows_due) ||
           fry_load_relaxed(&members->window_releases.top) != NULL;
}

size_t fry_windows_turn(fry_turn *turn, fry_members *members)
{
    size_t done = 0;
    ferry_window *window;
    fry_link *item = fry_stack_take_all(&members->window_releases);
    while (item != NULL) {
        window = FRY_CONTAINER(item, ferry_window, release_link);
        item = item->next;
        release(turn, window);
        done++;
    }
    while ((window = TAILQ_FIRST(&members->windows_due)) != NULL) {
        TAILQ_REMOVE(&members->windows_due, window, due);
        bool begins = window->begins, ends = window->ends;
        window->is_due = window->begins = window->ends = false;
        if (begins)
            begin(turn, window);
        if (ends)
            end_as_closed(turn, window);
        fry_window_unretain(window);
        done++;
    }
    return done;
}

void fry_windows_stop(fry_turn *turn, ferry_group *group)
{
    ferry_window *window, *next;
    TAILQ_FOREACH_SAFE(window, &group->windows, entry, next) {
        if (window->life != FRY_WINDOW_SEEKING)
            continue;
        const fry_fault fault = {
            .status = FERRY_E_DEAD, .rank = group->rank, .message = "this member leaves the group"};
        fail_begin(turn, window, &fault);
    }
}

bool fry_windows_end(fry_turn *turn, ferry_group *group)
{
    ferry_window *window, *next;
    TAILQ_FOREACH_SAFE(window, &group->windows, entry, next) {
        const fry_fault fault = {.status = FERRY_E_DEAD,
                                 .rank = group->rank,
                                 .message = "this member has left the group"};
        fail_begin(turn, window, &fault);
    }
    return TAILQ_EMPTY(&group->windows);
}

/* ---- what peers tell ---- */

void fry_window_found(void *arg, fry_found *found)
{
    fry_turn *turn = arg;
    ferry_window *window = found->owner;
    window->rights = found->rights;
    window->size_bytes = found->size_bytes;
    set_life(window, FRY_WINDOW_USABLE);
    tell_watch(turn, window);
    operation_is_done(turn, &window->begin);
}

void fry_window_closing(void *turn, fry_found *found)
{
    ferry_window *window = found->owner;
    const fry_fault fault = fault_of(window, FERRY_E_NOT_FOUND, "its owner has closed it");
    end(turn, window, &fault);
}

void fry_window_lost(void *turn, fry_found *found, ferry_status status, const fry_fault *from)
{
    ferry_window *window = found->owner;
    fry_fault fault = *from;
    fault.status = status;
    if (fault.rank < 0)
        fault.rank = (int32_t)window->route->rank;
    fail_begin(turn, window, &fault);
}

/* The window of this member that the other means by the name; NULL: there is none. */
static ferry_window *find_meant(fry_turn *turn, const fry_route *route, const char *name)
{
    ferry_window *window;
    TAILQ_FOREACH(window, &route->group->windows, entry) {
        if (!window->is_own || window->life != FRY_WINDOW_USABLE)
            continue;
        if (window->watch != NULL ? window->watch->is_meant(turn, window, route->rank, name)
                                  : strcmp(window->name, name) == 0)
            return window;
    }
    return NULL;
}

bool fry_window_sought(void *turn, fry_peer *peer, const char *name, fry_grant *grant)
{
    const fry_route *route = fry_peer_arg(peer);
    ferry_window *window = find_meant(turn, route, name);
    if (window == NULL || fry_membership_takes(route->group) != FERRY_OK)
        return false;
    bool is_host = window->buffer->device->host_lane != NULL;
    bool is_read = is_host && (window->rights & FERRY_WINDOW_GET) != 0;
    *grant = (fry_grant){.window = window,
                         .rights = window->rights,
                         .size_bytes = window->size_bytes,
                         .address = is_read ? (uintptr_t)window->buffer->data + window->offset : 0,
                         .shared = is_read && window->buffer->kind == FRY_MEMORY_SHARED
                                       ? window->buffer->data
                                       : NULL,
                         .shared_offset = window->offset};
    window->grants++;
    return true;
}

void fry_window_left(void *turn, fry_peer *peer, void *arg, uint32_t told)
{
    ferry_window *window = arg;
    const fry_route *route = fry_peer_arg(peer);
    window->grants--;
    if (window->watch != NULL)
        window->watch->left(turn, window, route->rank, told);
    look(turn, window);
}

/* ---- what operations ask ---- */

ferry_status fry_window_refusal(const ferry_window *window, bool is_put, uint64_t offset,
                                uint64_t size_bytes, fry_fault *fault)
{
    *fault = (fry_fault){.status = FERRY_OK};
    if (window->life >= FRY_WINDOW_ENDING)
        *fault = window->fault;
    else if (window->life != FRY_WINDOW_USABLE)
        *fault = fault_of(window, FERRY_E_NOT_FOUND, "the window has not been found yet");
    else
        (void)fry_window_check(window, is_put, offset, size_bytes, fault);
    return fault->status;
}

ferry_status fry_window_check(const ferry_window *window, bool is_put, uint64_t offset,
                              uint64_t size_bytes, fry_fault *fault)
{
    *fault = (fry_fault){.status = FERRY_OK};
    if ((window->rights & (is_put ? FERRY_WINDOW_PUT : FERRY_WINDOW_GET)) == 0)
        *fault = fault_of(window, FERRY_E_INVALID, "the window's rights do not allow this");
    else if (offset > window->size_bytes || size_bytes > window->size_bytes - offset)
        *fault = fault_of(window, FERRY_E_INVALID, "the bytes reach past the end of the window");
    return fault->status;
}

/* ---- their rows ---- */

static void start(fry_turn *turn, fry_node *node)
{
    ferry_window *window = node->op.window.window;
    fry_graph_issued(turn, node);
    if (node->op.window.is_close) {
        window->end = node;
        window->ends = true;
    } else {
        window->begin = node;
        window->begins = true;
    }
    be_due(turn, window);
}

/* It was cancelled, or its deadline has passed; or this file has failed it. */
static void failed(fry_turn *turn, fry_node *node, bool is_under_way)
{
    (void)is_under_way;
    ferry_window *window = node->op.window.window;
    if (window->end == node)
        window->end = NULL;
    if (window->begin == node) /* whatever its life: it may be over before this has begun */
        window->begin = NULL;
    if (node->op.window.is_close)
        return;
    const fry_fault fault = fault_of(window, FERRY_E_NOT_FOUND, "it was not opened or found");
    if (window->life == FRY_WINDOW_SEEKING)
        end(turn, window, &fault);
}

static void freed(ferry_engine *engine, fry_node *node)
{
    (void)engine;
    fry_window_unretain(node->op.window.window);
}

static void describe(const ferry_engine *engine, const fry_node *node, fry_kind_view *view)
{
    (void)engine;
    if (node->state != FRY_NODE_ISSUED)
        return;
    const ferry_window *window = node->op.window.window;
    view->reason = window->is_due ? FRY_DUMP_LOOP : FRY_DUMP_MEMBER;
}

const fry_op_kind fry_kind_window = {
    .traits = FRY_KIND_STAYS,
    .free = freed,
    .start = start,
    .failed = failed,
    .describe = describe,
};

const fry_op_kind fry_kind_find = {
    .traits = FRY_KIND_STAYS,
    .free = freed,
    .start = start,
    .failed = failed,
    .describe = describe,
};
