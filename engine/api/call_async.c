/* SPDX-License-Identifier: Apache-2.0 */
/* ferry_call_async, and its row. tasks/later.c has what happens between begin and the end. */
#include "engine/api/call_async.h"

#include "engine/api/call.h"
#include "engine/api/request.h"
#include "engine/engine.h"
#include "engine/graph/kind.h"
#include "engine/graph/node.h"
#include "engine/graph/promise.h"
#include "engine/ground/refusal.h"
#include "engine/tasks/executor.h"
#include "engine/tasks/later.h"

fry_node *fry_request_call_async(fry_request *request, ferry_executor *executor,
                                 ferry_begin_fn begin, ferry_cancel_fn cancel, void *arg,
                                 fry_refusal *why_p)
{
    ferry_engine *engine = request->engine;
    *why_p = begin != NULL ? fry_executor_check(engine, executor)
                           : fry_refuse(engine, FRY_REFUSED_BEGIN_FN);
    fry_node *node = *why_p == FRY_TAKEN ? fry_request_node(request, FERRY_OP_ASYNC, why_p) : NULL;
    if (node == NULL)
        return NULL;
    node->op.async = (fry_call_async_op){
        .call = {.executor = fry_call_executor(engine, executor), .begin = begin, .arg = arg},
        .cancel = cancel};
    return node;
}

ferry_future *ferry_call_async(ferry_engine *engine, ferry_executor *executor, ferry_begin_fn begin,
                               ferry_cancel_fn cancel, void *arg, const ferry_op_options *options)
{
    fry_request request;
    fry_refusal why = fry_request_open(&request, engine, options);
    fry_node *node = why == FRY_TAKEN
                         ? fry_request_call_async(&request, executor, begin, cancel, arg, &why)
                         : NULL;
    if (node == NULL)
        return fry_request_refuse_writes(&request, engine, why, NULL);
    return fry_request_submit(&request, node);
}

/* ---- its row ---- */

/* It is over; or it failed while begin ran, which has returned. */
static void arrive(fry_turn *turn, fry_node *node)
{
    if (fry_later_is_cancelling(node))
        fry_call_start(turn, node); /* the loop's, once more */
    else
        fry_call_arrive(turn, node);
}

static bool stop(fry_node *node)
{
    uint8_t not_begun = FRY_CALL_NOT_BEGUN;
    return !fry_cas(&node->outside, &not_begun, FRY_LATER_NEVER);
}

static void failed(fry_turn *turn, fry_node *node, bool is_under_way)
{
    if (is_under_way && fry_later_failed(node) == FRY_LATER_CANCEL)
        fry_call_start(turn, node);
}

static void free_value(ferry_engine *engine, fry_node *node)
{
    fry_value_free(engine, node->op.async.value);
}

static void describe(const ferry_engine *engine, const fry_node *node, fry_kind_view *view)
{
    uint8_t outside = fry_load_relaxed(&node->outside);
    (void)engine;
    if (node->state < FRY_NODE_READY || node->state == FRY_NODE_QUIET)
        return;
    if ((outside & FRY_LATER_RETURNED) != 0)
        view->reason = FRY_DUMP_OUTSIDE;
    else if ((outside & FRY_LATER_BEGUN) != 0)
        view->reason = FRY_DUMP_FUNCTION;
    else if (node->unconfirmed == 0)
        view->reason = node->op.async.call.executor == NULL ? FRY_DUMP_LOOP : FRY_DUMP_EXECUTOR;
}

const fry_op_kind fry_kind_async = {
    .traits = FRY_KIND_STAYS | FRY_KIND_ENDS_OUTSIDE,
    .free = free_value,
    .arrive = arrive,
    .start = fry_call_start,
    .stop = stop,
    .failed = failed,
    .describe = describe,
};
