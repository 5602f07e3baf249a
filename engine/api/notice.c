/* SPDX-License-Identifier: Apache-2.0 */
/* Notices: checks the caller's arguments, and makes a node. engine/messages/notices.c does it. */
#include "engine/api/notice.h"

#include "engine/api/request.h"
#include "engine/api/send.h"
#include "engine/engine.h"
#include "engine/graph/node.h"
#include "engine/ground/context.h"
#include "engine/ground/refusal.h"
#include "engine/messages/groups.h"
#include "engine/messages/membership.h"
#include "engine/messages/notices.h"
#include "engine/messages/route.h"
#include "engine/messages/transfer.h"
#include "net/peer/notice.h"

#include <string.h>

_Static_assert(FRY_NOTICE_BYTES == FERRY_NOTICE_BYTES_MAX, "one number for both");

static void *take_slot(const fry_request *request, fry_refusal *why_p)
{
    return fry_request_slot(&request->engine->notices, &request->context->notices, why_p);
}

/* ---- sending ---- */

static fry_refusal check(ferry_engine *engine, ferry_group *group, ferry_rank peer,
                         const void *data, size_t size_bytes)
{
    if (group == NULL)
        return fry_refuse(engine, FRY_REFUSED_GROUP_NULL);
    if (group->engine != engine)
        return fry_refuse(engine, FRY_REFUSED_GROUP_ENGINE);
    if (size_bytes > FERRY_NOTICE_BYTES_MAX)
        return fry_refuse(engine, FRY_REFUSED_NOTICE_SIZE);
    if (data == NULL && size_bytes != 0)
        return fry_refuse(engine, FRY_REFUSED_NOTICE_DATA);
    fry_refusal why = fry_request_check_group(group);
    if (why == FRY_TAKEN && peer >= group->size)
        why = fry_refuse(engine, FRY_REFUSED_MESSAGE_RANK);
    if (why == FRY_TAKEN && fry_route_peer(&group->routes[peer]) == NULL)
        why = FRY_REFUSED_NO_MEMORY;
    return why;
}

/* NULL: *why_p says why, and nothing is left behind. */
static fry_node *make_notice(fry_request *request, fry_route *route, const void *data,
                             size_t size_bytes, fry_refusal *why_p)
{
    const ferry_span none = {0};
    fry_node *node = fry_request_node(request, FERRY_OP_NOTICE, why_p);
    if (node == NULL)
        return NULL;
    fry_transfer *transfer = fry_request_transfer(request, why_p);
    void *bytes = transfer != NULL && size_bytes != 0 ? take_slot(request, why_p) : NULL;
    if (transfer != NULL && (bytes != NULL || size_bytes == 0)) {
        fry_transfer_init(transfer, node, route, 0, &none, true);
        transfer->message.is_apart = transfer->message.is_notice = true;
        transfer->message.memory = bytes;
        transfer->message.size_bytes = size_bytes;
        if (size_bytes != 0)
            memcpy(bytes, data, size_bytes);
        node->op.message.size_bytes = size_bytes & FRY_BUFFER_BYTES_MAX;
        node->op.message.group = route->group;
        fry_membership_retain(route->group);
        return node;
    }
    if (transfer != NULL)
        fry_pool_give(&request->engine->transfers, &request->context->transfers, transfer);
    fry_node_discard_new(request->engine, request->context, node);
    return NULL;
}

fry_node *fry_request_notice(fry_request *request, ferry_group *group, ferry_rank peer,
                             const void *data, size_t size_bytes, fry_refusal *why_p)
{
    *why_p = check(request->engine, group, peer, data, size_bytes);
    return *why_p == FRY_TAKEN ? make_notice(request, &group->routes[peer], data, size_bytes, why_p)
                               : NULL;
}

ferry_future *ferry_notice_send(ferry_group *group, ferry_rank peer, const void *data,
                                size_t size_bytes, const ferry_op_options *options)
{
    if (group == NULL)
        return fry_refusal_future(NULL, FRY_REFUSED_GROUP_NULL);
    ferry_engine *engine = group->engine;
    fry_request request;
    fry_refusal why = fry_request_open(&request, engine, options);
    fry_node *node =
        why == FRY_TAKEN ? fry_request_notice(&request, group, peer, data, size_bytes, &why) : NULL;
    if (node == NULL)
        return fry_request_refuse_writes(&request, engine, why, NULL);
    return fry_request_submit(&request, node);
}

/* ---- taking ---- */

static fry_node *make_next(fry_request *request, ferry_group *group, fry_refusal *why_p)
{
    fry_node *node = fry_request_node(request, FERRY_OP_NOTICE_NEXT, why_p);
    if (node == NULL)
        return NULL;
    fry_value *value = take_slot(request, why_p);
    if (value == NULL) {
        fry_node_discard_new(request->engine, request->context, node);
        return NULL;
    }
    node->op.notice = (fry_notice_op){.value = value, .group = group};
    fry_membership_retain(group);
    return node;
}

ferry_future *ferry_notice_next(ferry_group *group, int64_t deadline_ns)
{
    if (group == NULL)
        return fry_refusal_future(NULL, FRY_REFUSED_GROUP_NULL);
    ferry_engine *engine = group->engine;
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.deadline_ns = deadline_ns;
    fry_request request;
    fry_refusal why = fry_request_open(&request, engine, &options);
    if (why == FRY_TAKEN && deadline_ns < 0)
        why = FRY_REFUSED_DEADLINE;
    if (why == FRY_TAKEN)
        why = fry_request_check_group(group);
    fry_node *node = why == FRY_TAKEN ? make_next(&request, group, &why) : NULL;
    return node != NULL ? fry_request_submit(&request, node) : fry_refusal_future(engine, why);
}
