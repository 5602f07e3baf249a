/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Promises: nodes that somebody outside resolves. The handle is a reference to the node.
 *
 * Resolving and entering the graph may happen at once: whoever moves `outside` second does the
 * rest. A resolver that finds it ENTERED sends the node through the inbox again; one that finds it
 * ENTERING leaves it to the entering, which then finds it RESOLVED.
 */
#include "engine/graph.h"
#include "engine/late.h"

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

ferry_status ferry_promise_create(ferry_engine *engine, ferry_promise **promise_p)
{
    ferry_status status = fry_engine_check_open(engine);
    if (status != FERRY_OK || promise_p == NULL)
        return status != FERRY_OK ? status : FERRY_E_INVALID;
    fry_refusal why = fry_promise_make(engine, promise_p);
    fry_call_ends(engine);
    return why == FRY_TAKEN ? FERRY_OK : fry_refusal_status(why);
}

ferry_future *ferry_promise_future(ferry_promise *promise)
{
    if (promise == NULL)
        return fry_refused(NULL, FRY_REFUSED_PROMISE_NULL);
    ferry_engine *engine = fry_engine_of(future_of(promise));
    fry_refusal why = fry_engine_refusal(engine);
    return why == FRY_TAKEN ? ferry_future_retain(future_of(promise)) : fry_refused(engine, why);
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

void fry_value_free(ferry_engine *engine, fry_value *value)
{
    fry_free(&engine->memory, value, sizeof *value + value->size_bytes + 1);
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

ferry_status ferry_promise_resolve(ferry_promise *promise, ferry_status status, const char *message)
{
    if (promise == NULL)
        return FERRY_E_INVALID;
    ferry_future *future = future_of(promise);
    ferry_engine *engine = fry_engine_of(future);
    ferry_status checked = fry_engine_check(engine);
    if (checked != FERRY_OK)
        return checked;
    if (status > 0) {
        fry_log_line(&engine->log, FERRY_LOG_WARNING, "resolving a promise with %s is refused",
                     ferry_status_name(status));
        return FERRY_E_INVALID;
    }
    if (fry_promise_end(promise, status, "user", message) == FERRY_OK) {
        fry_call_ends(engine);
        return FERRY_OK;
    }
    if (fry_load_acquire(&fry_node_of(future)->outside) != FRY_OUTSIDE_RESOLVED) {
        int32_t ended = fry_load_relaxed(&future->status);
        if (ended == FERRY_E_CANCELLED || ended == FERRY_E_SHUTDOWN || ended == FERRY_E_DEADLINE)
            return (ferry_status)ended;
    }
    fry_log_line(&engine->log, FERRY_LOG_WARNING, "promise %llu was resolved twice",
                 (unsigned long long)future->id);
    return FERRY_E_INVALID;
}

void fry_promise_drop(ferry_promise *promise)
{
    if (!fry_future_is_resolved(future_of(promise)))
        (void)fry_promise_end(promise, FERRY_E_BROKEN_PROMISE, NULL, NULL);
    ferry_future_release(future_of(promise));
}

void ferry_promise_release(ferry_promise *promise)
{
    if (promise == NULL || fry_engine_check(fry_engine_of(future_of(promise))) != FERRY_OK)
        return;
    ferry_engine *engine = fry_engine_of(future_of(promise));
    fry_engine_retain(engine); /* the promise may be all that keeps it */
    fry_promise_drop(promise);
    fry_call_ends(engine);
    fry_engine_unretain(engine, 1);
}
