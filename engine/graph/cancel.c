/* SPDX-License-Identifier: Apache-2.0 */
/* What ends operations early: requested cancels, deadlines, the engine's stop. */
#include "engine/graph/cancel.h"

#include "engine/engine.h"
#include "engine/graph/due.h"
#include "engine/graph/emit.h"
#include "engine/graph/graph.h"
#include "engine/graph/kind.h"
#include "engine/graph/node.h"
#include "engine/graph/turn.h"

/* Bounds of one tick of walks; the first to be reached ends it. */
#define LOOKS_A_TICK 2048 /* at operations */
#define TICK_NS 250000

void fry_cancel_node(fry_turn *turn, fry_node *node)
{
    if (node->state >= FRY_NODE_RESOLVED)
        return;
    fry_error *error = fry_node_error(node, FERRY_E_CANCELLED, NULL);
    if (node->state == FRY_NODE_NEW)
        fry_node_refuse(node, FERRY_E_CANCELLED, error, false);
    else
        fry_graph_fail(turn, node, FERRY_E_CANCELLED, error, false);
}

size_t fry_cancel_go_on(fry_turn *turn)
{
    ferry_engine *engine = turn->engine;
    if (fry_likely(engine->cancelled.first == NULL))
        return 0;
    size_t left = LOOKS_A_TICK;
    int64_t end_ns = fry_clock_monotonic_ns() + TICK_NS;
    while (engine->cancelled.first != NULL) {
        fry_node *node = FRY_CONTAINER(engine->cancelled.first, fry_node, request_link);
        const fry_op_kind *kind = fry_kind(engine, node);
        left = kind->walk(turn, node, end_ns, left);
        if (left == 0)
            break;
        (void)fry_queue_pop(&engine->cancelled);
        kind->walk_ends(turn, node);
        left--;
    }
    return LOOKS_A_TICK - left;
}

size_t fry_cancel_requested(fry_turn *turn)
{
    ferry_engine *engine = turn->engine;
    size_t count = 0;
    fry_link *item = fry_stack_take_all(&engine->requests);
    while (item != NULL) {
        fry_node *node = FRY_CONTAINER(item, fry_node, request_link);
        item = item->next;
        count++;
        fry_emit(engine, node, FERRY_TRACE_CANCEL, 0);
        const fry_op_kind *kind = fry_kind(engine, node);
        if (kind->cancel != NULL)
            kind->cancel(turn, node);
        else
            fry_cancel_node(turn, node);
        ferry_future_release(&node->future);
    }
    return count;
}

static fry_error *error_of_deadline(const fry_node *node)
{
    const fry_op_kind *kind = fry_kind(fry_engine_of(&node->future), node);
    fry_fault fault = fry_node_fault(node, FERRY_E_DEADLINE);
    char text[FRY_FAULT_MESSAGE_BYTES] = "";
    if (kind->lacks != NULL)
        fault.rank = kind->lacks(node, text, sizeof text);
    return fry_error_create(&fry_engine_of(&node->future)->memory, &fault, NULL, "%s", text);
}

static void expire(fry_turn *turn, fry_node *node)
{
    ferry_engine *engine = turn->engine;
    fry_log_line(&engine->log, FERRY_LOG_INFO, "op %llu%s%s passed its deadline",
                 (unsigned long long)node->future.id, fry_node_label(node) != NULL ? " " : "",
                 fry_node_label(node) != NULL ? fry_node_label(node) : "");
    if (engine->flight_records != 0 && engine->flight_due == 0)
        engine->flight_due = node->future.id;
    fry_graph_fail(turn, node, FERRY_E_DEADLINE, error_of_deadline(node), false);
}

size_t fry_expire_due(fry_turn *turn, int64_t now_ns)
{
    size_t count = 0;
    fry_timers_link *first; /* failing the node removes it */
    for (; (first = turn->engine->deadlines.first) != NULL && first->when_ns <= now_ns; count++)
        expire(turn, FRY_CONTAINER(first, fry_node, deadline));
    return count;
}

static void cancel_list(fry_turn *turn, struct fry_live_list *list)
{
    fry_node *node, *next; /* failing a node removes no other from the list */
    TAILQ_FOREACH_SAFE(node, list, live, next) {
        if (node->state < FRY_NODE_RESOLVED)
            fry_graph_fail(turn, node, FERRY_E_SHUTDOWN,
                           fry_node_error(node, FERRY_E_SHUTDOWN, NULL), false);
    }
}

void fry_cancel_all(fry_turn *turn)
{
    ferry_engine *engine = turn->engine;
    engine->stop_graph = engine->has_errands = true;
    cancel_list(turn, &engine->live);
    cancel_list(turn, &engine->promises);
}
