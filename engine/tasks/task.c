/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions: every user function that ferry runs starts on the loop, with the baton released;
 * executors take it from there.
 */
#include "engine/tasks/task.h"

#include "engine/engine.h"
#include "engine/graph/emit.h"
#include "engine/graph/graph.h"
#include "engine/graph/node.h"
#include "engine/graph/ready_queue.h"
#include "engine/graph/turn.h"
#include "engine/ground/ground.h"
#include "engine/tasks/later.h"
#include "engine/tasks/task_pool.h"

static fry_error *call_error(const fry_node *node, int result)
{
    fry_fault fault = fry_node_fault(node, (ferry_status)node->refusal);
    fault.domain = "user";
    fault.native_code = result;
    return fry_error_create(&fry_engine_of(&node->future)->memory, &fault, NULL,
                            "the function returned %s (%d)",
                            ferry_status_name((ferry_status)node->refusal), result);
}

/*
 * On the loop or a thread that the executor chose. The reference taken in issue_call keeps the
 * node; the caller releases it.
 */
void fry_task_run_call(fry_node *node)
{
    ferry_engine *engine = fry_engine_of(&node->future);
    uint8_t not_begun = FRY_CALL_NOT_BEGUN;
    if (node->kind == FERRY_OP_ASYNC) {
        fry_later_begin(node);
    } else if (fry_cas(&node->outside, &not_begun, FRY_CALL_BEGUN)) {
        fry_emit(engine, node, FERRY_TRACE_BEGUN, 0);
        int result = node->op.call.fn(node->op.call.arg);
        bool is_status = result <= 0 && result >= INT16_MIN;
        node->refusal = (int16_t)(is_status ? result : FERRY_E_FAILED);
        if (result != FERRY_OK) {
            node->op.call.error = call_error(node, result);
            node->refusal = (int16_t)node->op.call.error->public_.status;
        }
        fry_turn_push(engine, fry_context_get(engine), node);
    }
}

void fry_hand_out_calls(ferry_engine *engine, fry_link *calls)
{
    fry_callback_frame frame;
    fry_callbacks_begin(&frame, engine);
    while (calls != NULL) {
        fry_node *node = FRY_CONTAINER(calls, fry_node, link);
        calls = calls->next; /* running it reuses the link */
        const fry_call_op *call = &node->op.call;
        if (fry_unlikely(fry_later_is_cancelling(node))) {
            fry_later_cancel(node);
            ferry_future_release(&node->future);
        } else if (call->executor == NULL) {
            fry_task_run_call(node);
            ferry_future_release(&node->future);
        } else {
            fry_task_post(call->executor, call->task, FRY_TASK_CALL, node, node->future.id);
        }
    }
    fry_callbacks_end(&frame);
}

static bool is_to_run(const fry_node *node)
{
    return (node->flags & FRY_NODE_RETIRED) == 0 && node->state == FRY_NODE_READY;
}

/*
 * Takes a call out of its queue: it is handed out, or has failed meanwhile. One that ends later may
 * have failed long ago, and comes again to be cancelled.
 */
static void issue_call(fry_turn *turn, fry_node *node, fry_queue *issued)
{
    if ((node->flags & FRY_NODE_RETIRED) != 0) {
        fry_graph_step(turn, node);
        return;
    }
    node->flags &= (uint16_t)~FRY_NODE_QUEUED;
    if (node->state == FRY_NODE_READY)
        fry_graph_issued(turn, node);
    else if (!fry_later_is_cancelling(node))
        return; /* it retires when its order edges have fired */
    (void)fry_fetch_add(&node->future.references, 1);
    fry_queue_push(issued, &node->link);
}

static bool needs_task(const fry_node *node)
{
    return node->op.call.executor != NULL && is_to_run(node);
}

/* Takes a task for a call that needs one, at most *left_p more. False: there is none. */
static bool equip_call(fry_tasks *tasks, fry_node *node, uint32_t *left_p)
{
    if (!needs_task(node))
        return true;
    fry_task *task = *left_p != 0 ? fry_task_take(tasks) : NULL;
    if (task == NULL)
        return false;
    (*left_p)--;
    node->op.call.task = task;
    return true;
}

/*
 * With the baton: READY calls become ISSUED; returns them for fry_hand_out_calls. Calls that find
 * no task, or have other executors' calls before them, stay READY in a queue of their own, so that
 * the loop's functions pass them.
 */
fry_link *fry_calls_issue(fry_turn *turn, bool with_callbacks)
{
    ferry_engine *engine = turn->engine;
    fry_tasks *tasks = &engine->tasks;
    bool must_wait = !fry_ready_queue_is_empty(&tasks->calls);
    if (fry_likely(fry_ready_queue_is_empty(&engine->calls) && !must_wait))
        return NULL;
    fry_queue issued = {0};
    uint32_t left = fry_tasks_for_calls(tasks, with_callbacks);
    fry_link *item;
    while ((item = fry_ready_queue_pop(&engine->calls)) != NULL) {
        fry_node *node = FRY_CONTAINER(item, fry_node, link);
        if (!(must_wait && needs_task(node)) && equip_call(tasks, node, &left)) {
            issue_call(turn, node, &issued);
        } else {
            fry_ready_queue_push(&tasks->calls, item, fry_node_priority(node));
            must_wait = true; /* else a later call would get a task that comes back meanwhile */
        }
    }
    while ((item = fry_ready_queue_next(&tasks->calls)) != NULL) {
        fry_node *node = FRY_CONTAINER(item, fry_node, link);
        if (!equip_call(tasks, node, &left))
            break;
        (void)fry_ready_queue_pop(&tasks->calls);
        issue_call(turn, node, &issued);
    }
    return issued.first;
}
