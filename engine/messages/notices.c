/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who takes the next waits in the group, in order, and the routes that have notices stand in the
 * group, too: as long as both lists have somebody, the first of the one gets the first notice of
 * the first of the other, which then goes to the end. So an operation that takes one costs no look
 * at other members, and no member starves. A route that is listed may have lost what it had, with
 * its connection.
 *
 * It keeps the group's memory until its future is gone, which may be long after the group was left.
 */
#include "engine/messages/notices.h"

#include "engine/engine.h"
#include "engine/graph/emit.h"
#include "engine/graph/graph.h"
#include "engine/graph/node.h"
#include "engine/ground/context.h"
#include "engine/ground/refusal.h"
#include "engine/messages/groups.h"
#include "engine/messages/members.h"
#include "engine/messages/membership.h"
#include "engine/messages/message.h"
#include "engine/messages/route.h"
#include "net/peer/notice.h"

static void wait(ferry_group *group, fry_node *node)
{
    node->op.notice.is_waiting = true;
    TAILQ_INSERT_TAIL(&group->nexts, node, op.notice.entry);
}

static void wait_no_more(ferry_group *group, fry_node *node)
{
    node->op.notice.is_waiting = false;
    TAILQ_REMOVE(&group->nexts, node, op.notice.entry);
}

static void take(fry_turn *turn, fry_route *route, fry_node *node, size_t size_bytes)
{
    fry_notice_op *op = &node->op.notice;
    op->sent_op = fry_peer_take_notice(fry_route_made_peer(route), op->value->bytes, turn);
    op->value->bytes[size_bytes] = '\0';
    op->value->size_bytes = size_bytes;
    op->value->version = 0;
    op->met = (fry_message_met){.came = size_bytes + 1, .rank = route->rank};
    fry_store_release(&node->outside, FRY_OUTSIDE_FLOWS); /* pairs with moved_bytes */
    fry_route_launched(turn, route);                      /* its sender is to hear of it */
    fry_emit(turn->engine, node, FERRY_TRACE_FIRED, 0);
    fry_graph_complete(turn, node);
}

/* What ends may begin others: both lists are looked at anew each time. */
static void match(fry_turn *turn, ferry_group *group)
{
    fry_route *route;
    fry_node *node;
    while ((route = TAILQ_FIRST(&group->noticing)) != NULL &&
           (node = TAILQ_FIRST(&group->nexts)) != NULL) {
        size_t size_bytes, next_bytes;
        const fry_peer *peer = fry_route_made_peer(route);
        TAILQ_REMOVE(&group->noticing, route, noticing);
        route->has_notices = false;
        if (!fry_peer_has_notice(peer, &size_bytes))
            continue;
        wait_no_more(group, node);
        take(turn, route, node, size_bytes);
        if (route->has_notices || !fry_peer_has_notice(peer, &next_bytes))
            continue;
        route->has_notices = true;
        TAILQ_INSERT_TAIL(&group->noticing, route, noticing);
    }
}

void fry_notices_come(void *arg, fry_peer *peer)
{
    fry_turn *turn = arg;
    fry_route *route = fry_peer_arg(peer);
    ferry_group *group = route->group;
    if (!route->has_notices) {
        route->has_notices = true;
        TAILQ_INSERT_TAIL(&group->noticing, route, noticing);
    }
    match(turn, group);
}

static void start_next(fry_turn *turn, fry_node *node)
{
    ferry_group *group = node->op.notice.group;
    fry_graph_issued(turn, node);
    if (fry_unlikely(fry_membership_refusal(group) != FRY_TAKEN)) {
        node->op.notice.is_refused = true;
        TAILQ_INSERT_TAIL(&group->members->nexts_refused, node, op.notice.entry);
        turn->wake = true;
        return;
    }
    wait(group, node);
    match(turn, group);
}

static void end_wait(fry_node *node)
{
    fry_notice_op *op = &node->op.notice;
    if (op->is_waiting)
        wait_no_more(op->group, node);
    if (op->is_refused)
        TAILQ_REMOVE(&op->group->members->nexts_refused, node, op.notice.entry);
    op->is_refused = false;
}

/* On the loop. */
static void fail(fry_turn *turn, fry_node *node, fry_refusal why)
{
    end_wait(node);
    fry_graph_fail(turn, node, fry_refusal_status(why), fry_error_retain(fry_refusal_error(why)),
                   false);
}

void fry_notices_look(fry_turn *turn, ferry_group *group)
{
    fry_refusal why = fry_membership_refusal(group);
    fry_node *node;
    while (why != FRY_TAKEN && (node = TAILQ_FIRST(&group->nexts)) != NULL)
        fail(turn, node, why);
}

size_t fry_notices_turn(fry_turn *turn, fry_members *members)
{
    size_t done = 0;
    fry_node *node;
    while ((node = TAILQ_FIRST(&members->nexts_refused)) != NULL) {
        fail(turn, node, fry_membership_refusal(node->op.notice.group));
        done++;
    }
    return done;
}

static void next_failed(fry_turn *turn, fry_node *node, bool is_under_way)
{
    (void)turn;
    (void)is_under_way;
    end_wait(node);
}

static void next_is_freed(ferry_engine *engine, fry_node *node)
{
    fry_context *context = fry_context_get(engine);
    fry_pool_cache cache = {0};
    fry_pool_cache *own = context != NULL ? &context->notices : &cache;
    fry_pool_give(&engine->notices, own, node->op.notice.value);
    if (context == NULL)
        fry_pool_flush(&engine->notices, &cache);
    fry_membership_unretain(node->op.notice.group);
}

static uint64_t moved_bytes(const fry_node *node, uint64_t *flow_p)
{
    const fry_notice_op *op = &node->op.notice;
    if (fry_load_acquire(&node->outside) != FRY_OUTSIDE_FLOWS) /* pairs with take */
        return 0;
    *flow_p = fry_flow_of(op->met.rank, op->sent_op);
    return op->met.came - 1;
}

static void describe_next(const ferry_engine *engine, const fry_node *node, fry_kind_view *view)
{
    (void)engine;
    if (node->state == FRY_NODE_ISSUED)
        view->reason = FRY_DUMP_MEMBER;
}

const fry_op_kind fry_kind_notice_next = {
    .traits = FRY_KIND_STAYS,
    .free = next_is_freed,
    .start = start_next,
    .failed = next_failed,
    .moved_bytes = moved_bytes,
    .describe = describe_next,
};
