/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scope's own node, whose future all get who close or cancel the scope.
 *
 * So that closing and cancelling can't fail, the node is made with the scope. It is submitted only
 * when the scope is closed, as what lives long without anybody waiting for it is no business of
 * dumps and watchdogs. `outside` is as a promise's: the node ends in the graph when it has entered
 * and the count is zero, whichever comes last. If the scope is released and was never closed,
 * nobody has the future, and the node only passes through the graph when the count is zero.
 *
 * The node has a reference for the handle, one for the count, and one for its life in the graph.
 * The scope's memory goes with it.
 *
 * Cancelling. As with a batch, the loop walks the operations, the newest first, in pieces; they
 * all name one error of the scope's. An operation that enters during the walk or later sees
 * that error, and fails as it enters. During the walk the scope is held as by one more operation.
 */
#include "engine/graph/scope_node.h"

#include "engine/graph/cancel.h"
#include "engine/graph/due.h"
#include "engine/graph/emit.h"
#include "engine/graph/graph.h"
#include "engine/graph/live.h"
#include "engine/graph/scope.h"
#include "engine/graph/tally.h"
#include "engine/ground/ground.h"
#include "engine/ground/refusal.h"

/* ---- making, closing ---- */

size_t fry_scope_bytes(bool counts)
{
    return sizeof(ferry_scope) + (counts ? sizeof(fry_tally) : 0);
}

ferry_scope *fry_scope_make(ferry_engine *engine, fry_context *context, fry_refusal *why_p)
{
    fry_node *own = fry_node_create(engine, context, FERRY_OP_SCOPE, why_p);
    if (own == NULL)
        return NULL;
    ferry_status status = FERRY_OK;
    fry_pool_cache cache = {0}; /* threads keep none: most make few */
    ferry_scope *scope = fry_pool_take_or_grow(&engine->scopes, &cache, &status);
    fry_pool_flush(&engine->scopes, &cache);
    own->op.scope.scope = scope;
    if (scope == NULL) {
        fry_node_discard_new(engine, context, own);
        *why_p = fry_refusal_of_want(status, FRY_REFUSED_MAX_NODES);
        return NULL;
    }
    memset(scope, 0, fry_scope_bytes(engine->tally != NULL));
    (void)pthread_mutex_init(&scope->closing, NULL);
    scope->engine = engine;
    scope->own = own;
    if (engine->tally != NULL)
        scope->tally = (fry_tally *)(void *)(scope + 1);
    for (size_t i = 0; i < FRY_RANKS; i++)
        TAILQ_INIT(&scope->waiting[i]);
    own->label = "scope";
    own->future.references++; /* for the count */
    return scope;
}

static void free_scope(ferry_engine *engine, fry_node *own)
{
    ferry_scope *scope = own->op.scope.scope;
    fry_error_release(scope->why);
    (void)pthread_mutex_destroy(&scope->closing);
    fry_pool_cache cache = {0};
    fry_pool_give(&engine->scopes, &cache, scope);
    fry_pool_flush(&engine->scopes, &cache);
}

/* Returns whether it was closed; if not, the caller is counted now. */
static bool set_bits(ferry_scope *scope, uint64_t bits)
{
    uint64_t held = fry_load_relaxed(&scope->held);
    while (!fry_cas_weak(&scope->held, &held,
                         (held | bits) + ((held & FRY_SCOPE_CLOSED) == 0 ? 1 : 0)))
        ;
    return (held & FRY_SCOPE_CLOSED) != 0;
}

static void submit_own(ferry_scope *scope)
{
    fry_emit(scope->engine, scope->own, FERRY_TRACE_SUBMITTED, 0);
    fry_graph_share(scope->own);
    fry_stack_push(&scope->engine->inbox, &scope->own->link);
}

/*
 * The lock: a thread that finds the scope closed gives its user the future of the node, and what
 * the user submits behind that must come behind it in the inbox. It is the scope's own, because a
 * record that is made meanwhile may take engine->cold.
 */
void fry_scope_set(ferry_scope *scope, fry_context *context, uint64_t bits)
{
    ferry_engine *engine = scope->engine;
    fry_node *own = scope->own;
    (void)pthread_mutex_lock(&scope->closing);
    bool is_closed = set_bits(scope, bits);
    if (!is_closed && (bits & FRY_SCOPE_CLOSED) != 0)
        submit_own(scope);
    (void)pthread_mutex_unlock(&scope->closing);
    if (!is_closed)
        (void)fry_scope_count_down(scope);
    else if ((bits & FRY_SCOPE_RELEASED) != 0)
        ferry_future_release(&own->future); /* the handle's */
    if (!is_closed)
        fry_turn_help(engine, context);
}

/* ---- cancelling ---- */

/* On the loop: a cancel of the scope's future. */
static void cancel(fry_turn *turn, fry_node *own)
{
    ferry_scope *scope = own->op.scope.scope;
    uint64_t held = fry_load_relaxed(&scope->held);
    do {
        if ((held & FRY_SCOPE_COUNT) == 0)
            return; /* it has ended */
    } while (!fry_cas_weak(&scope->held, &held, (held | FRY_SCOPE_CANCELLED) + 1));
    scope->why = fry_node_error(own, FERRY_E_CANCELLED, "the scope was cancelled");
    fry_queue_push(&turn->engine->cancelled, &own->request_link);
    turn->wake = true;
}

static void cancel_member(fry_turn *turn, const ferry_scope *scope, fry_node *member)
{
    const fry_op_kind *kind = fry_kind(turn->engine, member);
    fry_emit(turn->engine, member, FERRY_TRACE_CANCEL, 0);
    if (member->state == FRY_NODE_NEW) {
        fry_node_refuse(member, FERRY_E_CANCELLED, fry_error_retain(scope->why), true);
    } else if (kind->cancel == NULL) {
        fry_graph_fail(turn, member, FERRY_E_CANCELLED, fry_error_retain(scope->why), true);
    } else {
        kind->cancel(turn, member);
    }
}

/* The next to look at, which the walk will not meet again; NULL: there is none. */
static fry_node *next_to_cancel(ferry_scope *scope)
{
    fry_note *note = LIST_FIRST(&scope->members);
    if (note != NULL) {
        LIST_REMOVE(note, member);
        LIST_INSERT_HEAD(&scope->ending, note, member);
        return note->node;
    }
    note = fry_scope_next_waiting(scope);
    return note != NULL ? note->node : NULL;
}

static size_t walk(fry_turn *turn, fry_node *own, int64_t end_ns, size_t left)
{
    ferry_scope *scope = own->op.scope.scope;
    fry_node *node;
    while (left != 0 && (node = next_to_cancel(scope)) != NULL) {
        if (node->state < FRY_NODE_RESOLVED)
            cancel_member(turn, scope, node);
        left--;
        if (left % FRY_CANCEL_LOOKS_A_CLOCK == 0 && fry_clock_monotonic_ns() >= end_ns)
            return 0;
    }
    return left;
}

static void walk_ends(fry_turn *turn, fry_node *own)
{
    (void)turn;
    (void)fry_scope_count_down(own->op.scope.scope); /* with the baton: the turn sees the inbox */
}

/* ---- its row ---- */

/* The count is zero. If it had failed, as the engine stops, nothing is left to do. */
static void arrive(fry_turn *turn, fry_node *own)
{
    if (own->state < FRY_NODE_RESOLVED)
        fry_graph_complete(turn, own);
    ferry_future_release(&own->future); /* the count's */
}

/* Released, with a count of zero, and never closed. */
static void pass(fry_turn *turn, fry_node *own)
{
    fry_graph_complete(turn, own);
    ferry_future_release(&own->future); /* the handle's */
    ferry_future_release(&own->future); /* the count's */
}

static bool enter(fry_turn *turn, fry_node *own)
{
    fry_live_enter(turn->engine, own);
    fry_live_stamp(turn, own);
    if ((fry_load_relaxed(&own->op.scope.scope->held) & FRY_SCOPE_CLOSED) == 0) {
        pass(turn, own);
        return true;
    }
    uint8_t entering = FRY_OUTSIDE_ENTERING;
    if (!fry_cas(&own->outside, &entering, FRY_OUTSIDE_ENTERED))
        fry_graph_complete(turn, own); /* the count was zero before */
    else if (turn->engine->stop_graph)
        fry_graph_fail(turn, own, FERRY_E_SHUTDOWN, NULL, false);
    return true;
}

/* The engine stops. Whoever counts down to zero finds that nothing waits for it. */
static void failed(fry_turn *turn, fry_node *own, bool is_under_way)
{
    (void)turn;
    (void)is_under_way;
    (void)fry_exchange(&own->outside, FRY_OUTSIDE_RESOLVED);
}

/* `more` counts operations that are not quiet. A walk holds the scope like one more. */
static void describe(const ferry_engine *engine, const fry_node *own, fry_kind_view *view)
{
    const ferry_scope *scope = own->op.scope.scope;
    (void)engine;
    view->reason = FRY_DUMP_OPERATIONS;
    view->more = fry_load_relaxed(&scope->held) & FRY_SCOPE_COUNT;
}

const fry_op_kind fry_kind_scope = {
    .free = free_scope,
    .enter = enter,
    .arrive = arrive,
    .failed = failed,
    .cancel = cancel,
    .walk = walk,
    .walk_ends = walk_ends,
    .describe = describe,
};
