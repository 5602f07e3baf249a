/* SPDX-License-Identifier: Apache-2.0 */
/* Gets and puts: checks the caller's arguments, and makes a node and the peer's slot. */
#include "engine/api/reach.h"

#include "engine/api/request.h"
#include "engine/api/send.h"
#include "engine/api/spans.h"
#include "engine/engine.h"
#include "engine/graph/node.h"
#include "engine/ground/context.h"
#include "engine/ground/refusal.h"
#include "engine/messages/groups.h"
#include "engine/messages/membership.h"
#include "engine/messages/message.h"
#include "engine/messages/transfer.h"
#include "engine/messages/window.h"

/* What is known of the window by now; the rest is looked at when the operation begins. */
static fry_refusal check_window(ferry_engine *engine, ferry_op_kind kind,
                                const ferry_window *window, uint64_t offset, uint64_t size_bytes)
{
    if (window->is_own)
        return fry_refuse(engine, FRY_REFUSED_WINDOW_OWN);
    if (fry_window_life_of(window) != FRY_WINDOW_USABLE)
        return FRY_TAKEN; /* what was closed or lost says why with the operation's number */
    uint8_t right = kind == FERRY_OP_PUT ? FERRY_WINDOW_PUT : FERRY_WINDOW_GET;
    if ((window->rights & right) == 0)
        return fry_refuse(engine, FRY_REFUSED_WINDOW_RIGHT);
    bool is_within = offset <= window->size_bytes && size_bytes <= window->size_bytes - offset;
    return is_within ? FRY_TAKEN : fry_refuse(engine, FRY_REFUSED_WINDOW_OUTSIDE);
}

static fry_refusal check(ferry_engine *engine, ferry_op_kind kind, const ferry_window *window,
                         uint64_t offset, const ferry_span *span)
{
    if (window == NULL)
        return fry_refuse(engine, FRY_REFUSED_WINDOW_NULL);
    if (window->group->engine != engine)
        return fry_refuse(engine, FRY_REFUSED_WINDOW_ENGINE);
    fry_refusal why = fry_membership_refusal(window->group);
    if (why == FRY_TAKEN)
        why = check_window(engine, kind, window, offset, span->size_bytes);
    return why == FRY_TAKEN ? fry_request_check_message_span(engine, kind == FERRY_OP_GET, span)
                            : why;
}

fry_node *fry_request_reach(fry_request *request, ferry_op_kind kind, ferry_window *window,
                            uint64_t offset, const ferry_span *span, fry_refusal *why_p)
{
    fry_refusal why = check(request->engine, kind, window, offset, span);
    fry_node *node = why == FRY_TAKEN ? fry_request_node(request, kind, &why) : NULL;
    fry_transfer *transfer = node != NULL ? fry_request_transfer(request, &why) : NULL;
    *why_p = why;
    if (transfer != NULL) {
        fry_transfer_init(transfer, node, window->route, offset, span, kind == FERRY_OP_PUT);
        transfer->message.may_join = false;
        transfer->message.is_apart = true;
        transfer->message.is_notice = false;
        transfer->window = window;
        fry_window_retain(window);
        return node;
    }
    if (node != NULL)
        fry_node_discard_new(request->engine, request->context, node);
    return NULL;
}

static ferry_future *submit(ferry_op_kind kind, ferry_window *window, uint64_t offset,
                            ferry_span span, const ferry_op_options *options)
{
    if (window == NULL)
        return fry_refusal_future(NULL, FRY_REFUSED_WINDOW_NULL);
    ferry_engine *engine = window->group->engine;
    fry_request request;
    fry_refusal why = fry_request_open(&request, engine, options);
    fry_node *node =
        why == FRY_TAKEN ? fry_request_reach(&request, kind, window, offset, &span, &why) : NULL;
    if (node == NULL) {
        fry_row_span written = {.first = span, .row_count = 1};
        return fry_request_refuse_writes(&request, engine, why,
                                         kind == FERRY_OP_GET ? &written : NULL);
    }
    return fry_request_submit(&request, node);
}

ferry_future *ferry_get(ferry_window *window, uint64_t offset, ferry_span span,
                        const ferry_op_options *options)
{
    return submit(FERRY_OP_GET, window, offset, span, options);
}

ferry_future *ferry_put(ferry_window *window, uint64_t offset, ferry_span span,
                        const ferry_op_options *options)
{
    return submit(FERRY_OP_PUT, window, offset, span, options);
}
