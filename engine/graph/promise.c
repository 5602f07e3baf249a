/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Promises: nodes that are resolved from outside. The handle is a reference to the node.
 *
 * Resolving and entering the graph may happen at the same time: the thread that moves `outside`
 * second does the rest. A resolver that finds ENTERED sends the node through the inbox again. A
 * resolver that finds ENTERING leaves the rest to the entering thread, which then finds RESOLVED.
 */
#include "engine/graph/promise.h"

#include "engine/engine.h"
#include "engine/graph/cancel.h"
#include "engine/graph/emit.h"
#include "engine/graph/graph.h"
#include "engine/graph/kind.h"
#include "engine/graph/live.h"
#include "engine/graph/node.h"
#include "engine/graph/room.h"
#include "engine/graph/turn.h"
#include "engine/ground/callbacks.h"
#include "engine/ground/context.h"
#include "engine/ground/ground.h"
#include "engine/ground/refusal.h"

ferry_waiter fry_promise_was_resolved, fry_promise_has_failed;

static ferry_future *future_of(ferry_promise *promise)
{
    return (ferry_future *)(void *)promise;
}

void fry_value_free(ferry_engine *engine, fry_value *value)
{
    if (value != NULL)
        fry_free(&engine->memory, value, sizeof *value + value->size_bytes + 1);
}

fry_value *fry_value_make(ferry_engine *engine, const void *bytes, size_t size_bytes,
                          uint64_t version)
{
    fry_value *value =
        fry_alloc_raw(&engine->memory, sizeof *value + size_bytes + 1, _Alignof(fry_value));
    if (value == NULL)
        return NULL;
    *value = (fry_value){.size_bytes = size_bytes, .version = version};
    if (size_bytes != 0)
        memcpy(value->bytes, bytes, size_bytes);
    value->bytes[size_bytes] = '\0';
    return value;
}

fry_refusal fry_promise_make(ferry_engine *engine, ferry_promise **promise_p)
{
    fry_refusal why = FRY_REFUSED_NO_MEMORY;
    fry_context *context = fry_context_get(engine);
    fry_node *node =
        context != NULL ? fry_node_create(engine, context, FERRY_OP_PROMISE, &why) : NULL;
    if (node == NULL)
        return why;
    node->op.promise.value = NULL;
    node->op.promise.on_cancel = NULL;
    fry_emit(engine, node, FERRY_TRACE_SUBMITTED, 0);
    fry_turn_submit(engine, context, node);
    *promise_p = (ferry_promise *)(void *)node;
    return FRY_TAKEN;
}

ferry_status fry_promise_end(ferry_promise *promise, ferry_status status, const char *domain,
                             const char *message)
{
    ferry_future *future = future_of(promise);
    ferry_engine *engine = fry_engine_of(future);
    fry_error *error = NULL;
    if (status != FERRY_OK) {
        const fry_fault fault = {.status = status, .rank = -1, .domain = domain, .op = future->id};
        error =
            fry_error_create(&engine->memory, &fault, NULL, "%s", message != NULL ? message : "");
    }
    return fry_promise_end_with(promise, status, error, NULL);
}

ferry_status fry_promise_end_with(ferry_promise *promise, ferry_status status, fry_error *error,
                                  fry_value *value)
{
    ferry_future *future = future_of(promise);
    ferry_engine *engine = fry_engine_of(future);
    fry_node *node = fry_node_of(future);
    if (error != NULL)
        status = error->public_.status; /* the same in both */
    if (!fry_future_claim(future, status)) {
        fry_error_release(error);
        return FERRY_E_BUSY;
    }
    node->op.promise.value = value; /* published by the seal */
    if (error != NULL)
        fry_future_set_error(future, error, false);
    fry_future_seal(future);
    fry_context *context = fry_context_get(engine);
    if (fry_exchange(&node->outside, FRY_OUTSIDE_RESOLVED) == FRY_OUTSIDE_ENTERED)
        fry_turn_push(engine, context, node);
    if (fry_callbacks_are_due(engine))
        fry_wake(engine);
    return FERRY_OK;
}

void fry_promise_answer(ferry_promise *promise, ferry_status status, fry_error *error,
                        const void *value, size_t value_bytes, uint64_t version)
{
    ferry_engine *engine = fry_engine_of(future_of(promise));
    fry_value *kept = NULL;
    if (status == FERRY_OK && (value != NULL || version != 0)) {
        kept = fry_value_make(engine, value, value_bytes, version);
        if (kept == NULL)
            status = FERRY_E_NO_MEMORY;
    }
    if (status != FERRY_OK && error == NULL) {
        const fry_fault fault = {.status = status, .rank = -1, .op = future_of(promise)->id};
        error = fry_error_create(&engine->memory, &fault, NULL, NULL);
    }
    if (fry_promise_end_with(promise, status, error, kept) != FERRY_OK)
        fry_value_free(engine, kept); /* it was cancelled meanwhile */
}

/* ---- its row ---- */

/* The promise was resolved outside. */
static void arrive(fry_turn *turn, fry_node *node)
{
    fry_graph_promise_ended(turn, node);
}

static bool enter(fry_turn *turn, fry_node *node)
{
    fry_live_enter(turn->engine, node);
    if (fry_unlikely((node->flags & FRY_NODE_RESERVE) != 0))
        fry_writable_enters(turn->engine);
    fry_live_stamp(turn, node);
    uint8_t entering = FRY_OUTSIDE_ENTERING;
    bool entered = fry_cas(&node->outside, &entering, FRY_OUTSIDE_ENTERED);
    if (entered && node->refusal != FERRY_OK) {
        fry_graph_fail(turn, node, (ferry_status)node->refusal, node->op.promise.refusal_error,
                       false);
        return true;
    }
    if (node->refusal != FERRY_OK)
        fry_error_release(node->op.promise.refusal_error);
    if (!entered)
        arrive(turn, node); /* resolved before it entered */
    else if (turn->engine->stop_graph)
        fry_graph_fail(turn, node, FERRY_E_SHUTDOWN, NULL, false);
    return true;
}

/*
 * A promise's error may only be set after the claim, so until the promise enters, the error is kept
 * in refusal_error.
 */
static void cancel(fry_turn *turn, fry_node *node)
{
    if (node->state != FRY_NODE_NEW) {
        fry_cancel_node(turn, node);
        return;
    }
    node->op.promise.refusal_error =
        fry_node_error(node, FERRY_E_CANCELLED, NULL); /* set once: see `requested` */
    node->refusal = FERRY_E_CANCELLED;
}

/* It was cancelled, or the engine shuts down: engine/tasks/on_cancel.c. */
static void failed(fry_turn *turn, fry_node *node, bool is_under_way)
{
    fry_future_owner *owner = &turn->engine->owner;
    ferry_waiter *waiter = fry_exchange(&node->op.promise.on_cancel, &fry_promise_has_failed);
    (void)is_under_way;
    if (waiter != NULL)
        owner->ops->fire(owner, waiter);
}

static void free_value(ferry_engine *engine, fry_node *node)
{
    fry_value_free(engine, node->op.promise.value);
}

static void describe(const ferry_engine *engine, const fry_node *node, fry_kind_view *view)
{
    (void)engine;
    if (node->state == FRY_NODE_WAITING && !fry_future_is_resolved(&node->future))
        view->reason = FRY_DUMP_OUTSIDE;
}

const fry_op_kind fry_kind_promise = {
    .free = free_value,
    .enter = enter,
    .arrive = arrive,
    .failed = failed,
    .cancel = cancel,
    .describe = describe,
};
