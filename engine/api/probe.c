/* SPDX-License-Identifier: Apache-2.0 */
/* Probes, and what is told of messages: rows in engine/messages/take.c. */
#include "base/options.h"
#include "engine/api/request.h"
#include "engine/api/send.h"
#include "engine/engine.h"
#include "engine/graph/node.h"
#include "engine/ground/refusal.h"
#include "engine/messages/groups.h"

ferry_future *ferry_message_probe(ferry_group *group, ferry_rank peer, ferry_tag tag,
                                  const ferry_op_options *options)
{
    if (group == NULL)
        return fry_refusal_future(NULL, FRY_REFUSED_GROUP_NULL);
    ferry_engine *engine = group->engine;
    const ferry_span none = {0};
    fry_request request;
    fry_refusal why = fry_request_open(&request, engine, options);
    fry_node *node = why == FRY_TAKEN ? fry_request_message(&request, FERRY_OP_PROBE, group, peer,
                                                            tag, &none, &why)
                                      : NULL;
    if (node == NULL)
        return fry_request_refuse_writes(&request, engine, why, NULL);
    return fry_request_submit(&request, node);
}

/* Whether the resolved node has met a message, or is of one that has gone. */
static bool has_message(const fry_node *node)
{
    if (node->kind == FERRY_OP_SEND || node->kind == FERRY_OP_RECV)
        return fry_future_status(&node->future) == FERRY_OK;
    bool meets = node->kind == FRY_OP_TAKE || node->kind == FERRY_OP_PROBE ||
                 node->kind == FERRY_OP_NOTICE_NEXT;
    return meets && node->op.message.met.came != 0;
}

ferry_status ferry_message_describe(const ferry_future *future, ferry_message_info *info)
{
    static const ferry_message_info none = {.struct_size = sizeof none, .rank = FERRY_RANK_NONE};
    if (future == NULL || info == NULL)
        return FERRY_E_INVALID;
    if (fry_struct_hand_out(info, &none, sizeof none) != FERRY_OK)
        return FERRY_E_INVALID;
    const fry_node *node = fry_node_of(future);
    if (future->owner == NULL || fry_future_is_static(future) || !fry_future_is_resolved(future) ||
        !has_message(node))
        return FERRY_E_NOT_FOUND;
    const fry_message_op *message = &node->op.message;
    bool is_plain = node->kind == FERRY_OP_SEND || node->kind == FERRY_OP_RECV;
    bool has_tag = node->kind != FERRY_OP_NOTICE_NEXT;
    ferry_message_info found = {.struct_size = sizeof found,
                                .rank = (ferry_rank)(is_plain ? message->rank : message->met.rank),
                                .tag = has_tag ? message->tag : 0,
                                .size_bytes =
                                    is_plain ? message->size_bytes : message->met.came - 1};
    return fry_struct_hand_out(info, &found, sizeof found);
}
