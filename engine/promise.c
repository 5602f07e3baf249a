/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Promises: nodes that somebody outside resolves. The handle is a reference to the node.
 *
 * Resolving and entering the graph may happen at once: whoever moves `outside` second does the
 * rest. A resolver that finds it ENTERED sends the node through the inbox again; one that finds it
 * ENTERING leaves it to the entering, which then finds it RESOLVED.
 */
#include "engine/promise.h"

#include "engine/context.h"
#include "engine/engine.h"
#include "engine/ground.h"
#include "engine/node.h"
#include "engine/refusal.h"
#include "engine/trace.h"
#include "engine/turn.h"
#include "engine/waiter.h"

static ferry_future *future_of(ferry_promise *promise)
{
    return (ferry_future *)(void *)promise;
}

fry_refusal fry_promise_make(ferry_engine *engine, ferry_promise **promise_p)
{
    fry_refusal why = FRY_REFUSED_NO_MEMORY;
    fry_context *context = fry_context_get(engine);
    fry_node *node =
        context != NULL ? fry_node_create(engine, context, FERRY_OP_PROMISE, &why) : NULL;
    if (node == NULL)
        return why;
    fry_trace(engine, node, FERRY_TRACE_SUBMITTED, 0);
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
        fry_error_facts facts = {.status = status, .domain = domain, .op = future->id};
        error = message != NULL ? fry_error_create(&engine->memory, &facts, "%s", message)
                                : fry_error_create(&engine->memory, &facts, NULL);
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
        status = error->public_.status; /* they never differ */
    if (!fry_future_claim(future, status)) {
        fry_error_release(error);
        return FERRY_E_BUSY;
    }
    if (value != NULL) { /* shown by the seal */
        node->op.promise.value = value;
        node->has_value = 1;
    }
    if (error != NULL)
        fry_future_set_error(future, error, false);
    fry_future_seal(future);
    fry_context *context = fry_context_get(engine);
    if (fry_exchange(&node->outside, FRY_OUTSIDE_RESOLVED) == FRY_OUTSIDE_ENTERED)
        fry_turn_push(engine, context, node);
    if (fry_has_callbacks(engine))
        fry_wake(engine);
    return FERRY_OK;
}
