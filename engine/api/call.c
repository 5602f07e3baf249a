/* SPDX-License-Identifier: Apache-2.0 */
/* Functions as operations: ferry_call, and a call's row. task.c runs the functions. */
#include "engine/api/call.h"

#include "engine/api/request.h"
#include "engine/engine.h"
#include "engine/graph/graph.h"
#include "engine/graph/kind.h"
#include "engine/graph/node.h"
#include "engine/graph/ready_queue.h"
#include "engine/graph/turn.h"
#include "engine/ground/refusal.h"
#include "engine/tasks/executor.h"

ferry_executor *fry_call_executor(const ferry_engine *engine, ferry_executor *executor)
{
    ferry_executor *found = fry_executor_for(engine, executor);
    return found != ferry_executor_inline() ? found : NULL; /* no function runs before others */
}

fry_node *fry_request_call(fry_request *request, ferry_executor *executor, ferry_call_fn fn,
                           void *arg, fry_refusal *why_p)
{
    ferry_engine *engine = request->engine;
    *why_p =
        fn != NULL ? fry_executor_check(engine, executor) : fry_refuse(engine, FRY_REFUSED_CALL_FN);
    fry_node *node = *why_p == FRY_TAKEN ? fry_request_node(request, FERRY_OP_CALL, why_p) : NULL;
    if (node == NULL)
        return NULL;
    node->op.call =
        (fry_call_op){.executor = fry_call_executor(engine, executor), .fn = fn, .arg = arg};
    return node;
}

ferry_future *ferry_call(ferry_engine *engine, ferry_executor *executor, ferry_call_fn fn,
                         void *arg, const ferry_op_options *options)
{
    fry_request request;
    fry_refusal why = fry_request_open(&request, engine, options);
    fry_node *node = why == FRY_TAKEN ? fry_request_call(&request, executor, fn, arg, &why) : NULL;
    if (node == NULL)
        return fry_request_refuse_writes(&request, engine, why, NULL);
    return fry_request_submit(&request, node);
}

/* ---- its row ---- */

/* Queues it for the loop to hand out. */
void fry_call_start(fry_turn *turn, fry_node *node)
{
    node->flags |= FRY_NODE_QUEUED;
    fry_ready_queue_push(&turn->engine->calls, &node->link, fry_node_priority(node));
    turn->wake = true;
}

/* The function has returned. */
void fry_call_arrive(fry_turn *turn, fry_node *node)
{
    if (node->state < FRY_NODE_RESOLVED && node->refusal != FERRY_OK) {
        node->flags |= FRY_NODE_FIRED;
        fry_error *error = node->op.call.error; /* its status may not fit in `refusal` */
        fry_graph_fail(turn, node, error->public_.status, error, false);
        return;
    }
    if (node->refusal != FERRY_OK)
        fry_error_release(node->op.call.error); /* it failed after the cancel */
    fry_graph_complete(turn, node);
}

static bool stop(fry_node *node)
{
    uint8_t not_begun = FRY_CALL_NOT_BEGUN;
    return !fry_cas(&node->outside, &not_begun, FRY_CALL_NEVER);
}

static void describe(const ferry_engine *engine, const fry_node *node, fry_kind_view *view)
{
    const ferry_executor *executor = node->op.call.executor;
    bool is_loops = executor == NULL || executor == ferry_executor_inline();
    bool has_begun = fry_load_relaxed(&node->outside) == FRY_CALL_BEGUN;
    (void)engine;
    if (node->state == FRY_NODE_RESOLVED)
        view->reason = FRY_DUMP_FUNCTION;
    else if (node->state == FRY_NODE_ISSUED && node->unconfirmed == 0 && has_begun)
        view->reason = FRY_DUMP_FUNCTION;
    else if (node->state == FRY_NODE_READY ||
             (node->state == FRY_NODE_ISSUED && node->unconfirmed == 0))
        view->reason = is_loops ? FRY_DUMP_LOOP : FRY_DUMP_EXECUTOR;
}

const fry_op_kind fry_kind_call = {
    .traits = FRY_KIND_STAYS | FRY_KIND_ENDS_OUTSIDE,
    .arrive = fry_call_arrive,
    .start = fry_call_start,
    .stop = stop,
    .describe = describe,
};
