/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Callbacks and functions: everything of the user's that ferry runs. All of it starts here, on the
 * loop, with the baton released; executors take it from there.
 */
#include "engine/graph.h"

_Thread_local ferry_engine *fry_callback_engine;

/* A mark, never posted to. */
static ferry_executor inline_executor = {.struct_size = sizeof inline_executor};

ferry_executor *ferry_executor_inline(void)
{
    return &inline_executor;
}

ferry_status fry_executor_check(ferry_engine *engine, const ferry_executor *executor)
{
    if (executor == NULL || executor == &inline_executor)
        return FERRY_OK;
    if (executor->struct_size == sizeof *executor && executor->post != NULL)
        return FERRY_OK;
    fry_log_line(&engine->log, FERRY_LOG_WARNING,
                 "an executor of another size, or one that can't be posted to, is refused");
    return FERRY_E_INVALID;
}

void ferry_task_run(ferry_task *task)
{
    if (task != NULL)
        task->run(task);
}

/* ---- functions ---- */

static fry_error *call_error(const fry_node *node, int result)
{
    fry_error_facts facts = {.status = (ferry_status)node->refusal,
                             .domain = "user",
                             .native_code = result,
                             .op = node->future.id,
                             .label = node->label};
    return fry_error_create(&fry_engine_of(&node->future)->memory, &facts,
                            "the function returned %s (%d)",
                            ferry_status_name((ferry_status)node->refusal), result);
}

/* On whatever thread the executor chose. The reference taken in fry_hand_out_calls keeps the node.
 */
static void call_run(ferry_task *task)
{
    fry_node *node = FRY_CONTAINER(task, fry_node, op.call.task);
    ferry_engine *engine = fry_engine_of(&node->future);
    if (fry_unlikely(fry_engine_check(engine) != FERRY_OK))
        return; /* a child of fork: the parent runs it */
    uint8_t not_begun = FRY_CALL_NOT_BEGUN;
    if (fry_cas(&node->begun, &not_begun, FRY_CALL_BEGUN)) {
        int result = node->op.call.fn(node->op.call.arg);
        bool is_status = result <= 0 && result >= INT16_MIN;
        node->refusal = (int16_t)(is_status ? result : FERRY_E_FAILED);
        if (result != FERRY_OK)
            node->op.call.error = call_error(node, result);
        fry_turn_push(engine, fry_context_get(engine), node);
    }
    ferry_future_release(&node->future);
}

void fry_hand_out_calls(ferry_engine *engine, fry_link *calls)
{
    ferry_engine *outer = fry_callback_engine;
    fry_callback_engine = engine;
    while (calls != NULL) {
        fry_node *node = FRY_CONTAINER(calls, fry_node, link);
        calls = calls->next; /* running it uses the link again */
        fry_call *call = &node->op.call;
        if (call->executor == NULL || call->executor == &inline_executor)
            call_run(&call->task);
        else
            call->executor->post(call->executor, &call->task);
    }
    fry_callback_engine = outer;
}

/* With the baton: READY functions become ISSUED, as a list for fry_hand_out_calls. */
fry_link *fry_calls_issue(fry_turn *turn)
{
    ferry_engine *engine = turn->engine;
    fry_queue issued = {0};
    fry_link *item;
    while ((item = fry_queue_pop(&engine->calls)) != NULL) {
        fry_node *node = FRY_CONTAINER(item, fry_node, link);
        if ((node->flags & FRY_NODE_RETIRED) != 0) {
            fry_graph_step(turn, node);
            continue;
        }
        node->flags &= (uint16_t)~FRY_NODE_QUEUED;
        if (node->state != FRY_NODE_READY)
            continue; /* failed meanwhile; retires when its order edges have fired */
        node->op.call.task.run = call_run;
        (void)fry_fetch_add(&node->future.references, 1);
        fry_graph_issued(turn, node);
        fry_queue_push(&issued, &node->link);
    }
    return issued.first;
}

/* ---- callbacks ---- */

void fry_fire_waiter(fry_future_owner *owner, ferry_waiter *waiter)
{
    ferry_engine *engine = (ferry_engine *)owner;
    if (fry_unlikely(waiter->fn == fry_waiter_is_embedded)) {
        fry_store_relaxed(&engine->waiter_fired, 1);
        fry_store_release(&waiter->private_.state, 0); /* its thread may return now */
        fry_fence();
        if (fry_load_relaxed(&engine->asleep) != FRY_AWAKE)
            (void)fry_wake_sleeper(engine); /* not fry_wake: this may be under the baton */
        return;
    }
    fry_stack_push(&engine->fired, (fry_link *)(void *)&waiter->private_.next);
}

static ferry_waiter *waiter_of(fry_link *link)
{
    return FRY_CONTAINER(link, ferry_waiter, private_.next);
}

bool fry_has_callbacks(const ferry_engine *engine)
{
    return fry_load_relaxed(&engine->fired.top) != NULL;
}

/* Inline ones go first; the others wait their turn in `due`. The role's holder. */
size_t fry_run_callbacks(ferry_engine *engine, size_t budget)
{
    ferry_engine *outer = fry_callback_engine;
    fry_callback_engine = engine;
    size_t count = 0;
    fry_link *fired = fry_has_callbacks(engine) ? fry_stack_take_all(&engine->fired) : NULL;
    while (fired != NULL) {
        ferry_waiter *waiter = waiter_of(fired);
        fired = fired->next;
        if (waiter->executor == &inline_executor) {
            fry_waiter_dispatch(waiter);
            count++;
        } else {
            fry_queue_push(&engine->due, (fry_link *)(void *)&waiter->private_.next);
        }
    }
    fry_link *item;
    while (count < budget && (item = fry_queue_pop(&engine->due)) != NULL) {
        fry_waiter_dispatch(waiter_of(item));
        count++;
    }
    fry_store_relaxed(&engine->has_due, engine->due.first != NULL);
    fry_callback_engine = outer;
    return count;
}
