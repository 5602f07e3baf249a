/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/promise.h"

#include "base/options.h"
#include "engine/engine.h"
#include "engine/graph/node.h"
#include "engine/ground/ground.h"
#include "engine/ground/refusal.h"
#include "engine/loop/late.h"
#include "engine/tasks/executor.h"
#include "engine/tasks/later.h"
#include "engine/tasks/on_cancel.h"

#define VALUE_BYTES_MAX 65536

static ferry_future *future_of(ferry_promise *promise)
{
    return (ferry_future *)(void *)promise;
}

ferry_status ferry_promise_create(ferry_engine *engine, ferry_promise **promise_p)
{
    ferry_status status = fry_engine_check_open(engine);
    if (status != FERRY_OK || promise_p == NULL)
        return status != FERRY_OK ? status : FERRY_E_INVALID;
    fry_refusal why = fry_promise_make(engine, promise_p);
    fry_late_call_ends(engine);
    return why == FRY_TAKEN ? FERRY_OK : fry_refusal_status(why);
}

ferry_future *ferry_promise_future(ferry_promise *promise)
{
    if (promise == NULL)
        return fry_refusal_future(NULL, FRY_REFUSED_PROMISE_NULL);
    ferry_engine *engine = fry_engine_of(future_of(promise));
    fry_refusal why = fry_engine_refusal(engine);
    return why == FRY_TAKEN ? ferry_future_retain(future_of(promise))
                            : fry_refusal_future(engine, why);
}

/* Whether there is nothing to resolve: what ends later may have failed, and still wait for that. */
static bool is_resolved(const ferry_future *future)
{
    const fry_node *node = fry_node_of(future);
    return node->kind == FERRY_OP_ASYNC ? fry_later_is_ended(node) : fry_future_is_resolved(future);
}

/* It has been resolved, or is about to be: what the caller is told. */
static ferry_status was_resolved(const ferry_future *future)
{
    if (fry_node_of(future)->kind != FERRY_OP_ASYNC &&
        fry_load_acquire(&fry_node_of(future)->outside) != FRY_OUTSIDE_RESOLVED) {
        int32_t ended = fry_load_relaxed(&future->status);
        if (ended == FERRY_E_CANCELLED || ended == FERRY_E_SHUTDOWN || ended == FERRY_E_DEADLINE)
            return (ferry_status)ended;
    }
    fry_log_line(&fry_engine_of(future)->log, FERRY_LOG_WARNING, "promise %llu was resolved twice",
                 (unsigned long long)future->id);
    return FERRY_E_INVALID;
}

static bool resolve(ferry_promise *promise, ferry_status status, const char *message)
{
    fry_node *node = fry_node_of(future_of(promise));
    if (node->kind != FERRY_OP_ASYNC) {
        bool is_first = fry_promise_end(promise, status, "user", message) == FERRY_OK;
        if (is_first)
            fry_on_cancel_let_go(node);
        return is_first;
    }
    fry_error *error = NULL;
    if (status != FERRY_OK) {
        fry_fault fault = fry_node_fault(node, status);
        fault.domain = "user";
        error = fry_error_create(&fry_engine_of(&node->future)->memory, &fault, NULL, "%s",
                                 message != NULL ? message : "");
    }
    bool is_first = fry_later_end(node, error, NULL);
    if (!is_first)
        fry_error_release(error);
    return is_first;
}

/* Takes the value if it is the first. */
static bool resolve_value(ferry_promise *promise, fry_value *value)
{
    fry_node *node = fry_node_of(future_of(promise));
    if (node->kind == FERRY_OP_ASYNC)
        return fry_later_end(node, NULL, value);
    bool is_first = fry_promise_end_with(promise, FERRY_OK, NULL, value) == FERRY_OK;
    if (is_first)
        fry_on_cancel_let_go(node);
    return is_first;
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
        fry_log_line(
            &engine->log, FERRY_LOG_WARNING,
            "resolving a promise with %s is refused: the status must be FERRY_OK or negative",
            ferry_status_name(status));
        return FERRY_E_INVALID;
    }
    if (!resolve(promise, status, message))
        return was_resolved(future);
    fry_late_call_ends(engine);
    return FERRY_OK;
}

ferry_status ferry_promise_resolve_value(ferry_promise *promise, const void *data,
                                         size_t size_bytes)
{
    if (promise == NULL || (data == NULL && size_bytes != 0))
        return FERRY_E_INVALID;
    ferry_future *future = future_of(promise);
    ferry_engine *engine = fry_engine_of(future);
    ferry_status status = fry_engine_check(engine);
    if (status != FERRY_OK)
        return status;
    if (size_bytes > VALUE_BYTES_MAX) {
        fry_log_line(
            &engine->log, FERRY_LOG_WARNING,
            "resolving a promise with a value of %zu bytes is refused: it has 65536 at most",
            size_bytes);
        return FERRY_E_INVALID;
    }
    if (is_resolved(future))
        return was_resolved(future);
    fry_value *value = fry_value_make(engine, data, size_bytes, 0);
    if (value == NULL)
        return FERRY_E_NO_MEMORY;
    if (!resolve_value(promise, value)) {
        fry_value_free(engine, value);
        return was_resolved(future);
    }
    fry_late_call_ends(engine);
    return FERRY_OK;
}

ferry_status ferry_future_value(const ferry_future *future, ferry_value *value)
{
    static const ferry_value none = {.struct_size = sizeof none};
    if (future == NULL || value == NULL)
        return FERRY_E_INVALID;
    if (fry_struct_hand_out(value, &none, sizeof none) != FERRY_OK)
        return FERRY_E_INVALID;
    if (future->owner == NULL || fry_future_is_static(future) || !fry_future_is_resolved(future) ||
        fry_future_status(future) != FERRY_OK)
        return FERRY_E_NOT_FOUND;
    const fry_node *node = fry_node_of(future);
    const fry_value *kept = node->kind == FERRY_OP_PROMISE       ? node->op.promise.value
                            : node->kind == FERRY_OP_ASYNC       ? node->op.async.value
                            : node->kind == FERRY_OP_NOTICE_NEXT ? node->op.notice.value
                                                                 : NULL;
    if (kept == NULL)
        return FERRY_E_NOT_FOUND;
    ferry_value found = {
        .data = kept->bytes, .size_bytes = kept->size_bytes, .version = kept->version};
    return fry_struct_hand_out(value, &found, sizeof found);
}

ferry_status ferry_promise_on_cancel(ferry_promise *promise, ferry_waiter *waiter)
{
    if (promise == NULL || waiter == NULL || waiter->fn == NULL)
        return FERRY_E_INVALID;
    ferry_future *future = future_of(promise);
    ferry_engine *engine = fry_engine_of(future);
    ferry_status status = fry_engine_check(engine);
    if (status == FERRY_OK)
        status = fry_refusal_status(fry_executor_check(engine, waiter->executor));
    if (status == FERRY_OK && fry_node_of(future)->kind == FERRY_OP_ASYNC)
        status = FERRY_E_UNSUPPORTED;
    if (status != FERRY_OK)
        return status;
    fry_engine_retain(engine); /* the callback may drop the last other reference */
    status = fry_on_cancel_listen(fry_node_of(future), waiter);
    fry_late_call_ends(engine);
    fry_engine_unretain(engine, 1);
    return status;
}

void ferry_promise_release(ferry_promise *promise)
{
    if (promise == NULL || fry_engine_check(fry_engine_of(future_of(promise))) != FERRY_OK)
        return;
    ferry_engine *engine = fry_engine_of(future_of(promise));
    if (!is_resolved(future_of(promise))) {
        (void)resolve(promise, FERRY_E_BROKEN_PROMISE, NULL);
        fry_late_call_ends(engine);
    }
    ferry_future_release(future_of(promise)); /* perhaps the last to keep the engine */
}
