/* SPDX-License-Identifier: Apache-2.0 */
/* Windows' functions, in the caller's thread: engine/messages/window.c does what they ask. */
#include "engine/messages/window.h"
#include "base/options.h"
#include "engine/api/request.h"
#include "engine/api/send.h"
#include "engine/api/spans.h"
#include "engine/engine.h"
#include "engine/graph/node.h"
#include "engine/ground/ground.h"
#include "engine/ground/refusal.h"
#include "engine/loop/late.h"
#include "engine/messages/groups.h"
#include "engine/messages/membership.h"
#include "engine/messages/route.h"
#include "net/group/text.h"

#include <stdio.h>

_Static_assert(FRY_GROUP_KEY_BYTES + 1 == FRY_WINDOW_NAME_BYTES, "a name is like a key");

/* Makes the operation of a window, which it keeps. NULL: *why_p says why. */
static fry_node *node_of(fry_request *request, ferry_op_kind kind, ferry_window *window,
                         bool is_close, fry_refusal *why_p)
{
    fry_node *node = fry_request_node(request, kind, why_p);
    if (node == NULL)
        return NULL;
    node->op.window = (fry_window_op){.window = window, .is_close = is_close};
    fry_window_retain(window);
    return node;
}

static fry_refusal check_group(ferry_group *group, const char *name, ferry_window **window_p)
{
    if (group == NULL)
        return FRY_REFUSED_GROUP_NULL;
    ferry_engine *engine = group->engine;
    if (window_p == NULL)
        return fry_refuse(engine, FRY_REFUSED_WINDOW_NULL);
    fry_refusal why = fry_request_check_group(group);
    if (why == FRY_TAKEN && !fry_group_is_name(name, FRY_GROUP_KEY_BYTES, true))
        why = fry_refuse(engine, FRY_REFUSED_WINDOW_NAME);
    return why;
}

static ferry_future *refuse(const ferry_group *group, fry_refusal why)
{
    return fry_refusal_future(group != NULL ? group->engine : NULL, why);
}

/* Submits what opens or finds a new window, which is handed to the caller. */
static ferry_future *submit_begin(ferry_window *window, ferry_op_kind kind, int64_t deadline_ns,
                                  ferry_window **window_p)
{
    ferry_engine *engine = window->group->engine;
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.deadline_ns = deadline_ns;
    fry_request request;
    fry_refusal why = fry_request_open(&request, engine, &options);
    fry_node *node = why == FRY_TAKEN ? node_of(&request, kind, window, false, &why) : NULL;
    if (node == NULL) {
        if (window->buffer != NULL)
            fry_buffer_unretain(window->buffer);
        fry_window_count_no_more(window);
        fry_window_unretain(window);
        return fry_refusal_future(engine, why);
    }
    *window_p = window;
    return fry_request_submit(&request, node);
}

/* ---- opening, finding ---- */

static fry_refusal check_open(ferry_group *group, const ferry_span *span, const char *name,
                              ferry_window_rights rights, ferry_window **window_p)
{
    fry_refusal why = check_group(group, name, window_p);
    if (why != FRY_TAKEN)
        return why;
    if (rights < FERRY_WINDOW_GET || rights > FERRY_WINDOW_GET_PUT)
        return fry_refuse(group->engine, FRY_REFUSED_WINDOW_RIGHTS);
    if (span->size_bytes == 0)
        return fry_refuse(group->engine, FRY_REFUSED_SPAN_EMPTY);
    return fry_request_check_message_span(group->engine, (rights & FERRY_WINDOW_PUT) != 0, span);
}

ferry_future *ferry_window_open(ferry_group *group, ferry_span span, const char *name,
                                ferry_window_rights rights, ferry_window **window_p)
{
    if (window_p != NULL)
        *window_p = NULL;
    fry_refusal why = group != NULL ? fry_engine_refusal_open(group->engine) : FRY_TAKEN;
    if (why == FRY_TAKEN)
        why = check_open(group, &span, name, rights, window_p);
    if (why != FRY_TAKEN)
        return refuse(group, why);
    ferry_window *window = fry_window_make(group, name);
    if (window == NULL)
        return refuse(group, FRY_REFUSED_NO_MEMORY);
    window->is_own = true;
    window->rights = (uint8_t)rights;
    window->size_bytes = span.size_bytes;
    window->buffer = span.buffer;
    window->offset = span.offset_bytes;
    fry_buffer_retain(span.buffer);
    return submit_begin(window, FERRY_OP_WINDOW, 0, window_p);
}

ferry_future *ferry_window_find(ferry_group *group, ferry_rank owner, const char *name,
                                int64_t deadline_ns, ferry_window **window_p)
{
    if (window_p != NULL)
        *window_p = NULL;
    fry_refusal why = group != NULL ? fry_engine_refusal_open(group->engine) : FRY_TAKEN;
    if (why == FRY_TAKEN)
        why = check_group(group, name, window_p);
    if (why == FRY_TAKEN && owner >= group->size)
        why = fry_refuse(group->engine, FRY_REFUSED_MESSAGE_RANK);
    if (why == FRY_TAKEN && (int32_t)owner == group->rank)
        why = fry_refuse(group->engine, FRY_REFUSED_WINDOW_RANK);
    if (why == FRY_TAKEN && deadline_ns < 0)
        why = FRY_REFUSED_DEADLINE;
    if (why == FRY_TAKEN && fry_route_peer(&group->routes[owner]) == NULL)
        why = FRY_REFUSED_NO_MEMORY;
    if (why != FRY_TAKEN)
        return refuse(group, why);
    ferry_window *window = fry_window_make(group, name);
    if (window == NULL)
        return refuse(group, FRY_REFUSED_NO_MEMORY);
    window->route = &group->routes[owner];
    fry_window_count(window);
    return submit_begin(window, FERRY_OP_FIND, deadline_ns, window_p);
}

/* ---- closing ---- */

ferry_future *ferry_window_close(ferry_window *window)
{
    if (window == NULL)
        return fry_refusal_future(NULL, FRY_REFUSED_WINDOW_NULL);
    ferry_engine *engine = window->group->engine;
    fry_request request;
    fry_refusal why = fry_request_open(&request, engine, NULL);
    if (why == FRY_TAKEN && fry_exchange(&window->end_asked, 1) != 0)
        return fry_refusal_future(engine, fry_refuse(engine, FRY_REFUSED_WINDOW_CLOSED));
    fry_node *node =
        why == FRY_TAKEN ? node_of(&request, FERRY_OP_WINDOW, window, true, &why) : NULL;
    if (node != NULL)
        return fry_request_submit(&request, node);
    if (fry_refusal_is_want(why))
        fry_store_relaxed(&window->end_asked, 0); /* it can be tried again */
    return fry_refusal_future(engine, why);
}

void ferry_window_release(ferry_window *window)
{
    if (window == NULL || fry_engine_check(window->group->engine) != FERRY_OK)
        return;
    ferry_engine *engine = window->group->engine;
    fry_engine_retain(engine); /* the window may be what keeps it */
    fry_window_release(window);
    fry_late_call_ends(engine);
    fry_engine_unretain(engine, 1);
}

/* ---- asking ---- */

ferry_status ferry_window_describe(const ferry_window *window, ferry_window_info *info)
{
    static const ferry_window_state states[] = {
        [FRY_WINDOW_NEW] = FERRY_WINDOW_PENDING,    [FRY_WINDOW_SEEKING] = FERRY_WINDOW_PENDING,
        [FRY_WINDOW_USABLE] = FERRY_WINDOW_IS_OPEN, [FRY_WINDOW_ENDING] = FERRY_WINDOW_IS_CLOSED,
        [FRY_WINDOW_OVER] = FERRY_WINDOW_IS_CLOSED,
    };
    if (window == NULL || info == NULL)
        return FERRY_E_INVALID;
    fry_window_life life = fry_window_life_of(window);
    ferry_window_info own = {.struct_size = sizeof own, .state = states[life]};
    bool is_known = window->is_own || life == FRY_WINDOW_USABLE;
    own.owner = window->is_own ? (ferry_rank)window->group->rank : window->route->rank;
    if (is_known) {
        own.rights = (ferry_window_rights)window->rights;
        own.size_bytes = window->size_bytes;
    }
    (void)snprintf(own.name, sizeof own.name, "%s", window->name);
    return fry_struct_hand_out(info, &own, sizeof own);
}
