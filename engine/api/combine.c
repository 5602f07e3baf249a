/* SPDX-License-Identifier: Apache-2.0 */
/* Operations that only wait for others: nop, all, any, issued, quiet, drain. */
#include "engine/api/combine.h"

#include "engine/api/request.h"
#include "engine/engine.h"
#include "engine/graph/kind.h"
#include "engine/graph/node.h"
#include "engine/ground/ground.h"
#include "engine/ground/refusal.h"

ferry_future *ferry_nop(ferry_engine *engine, const ferry_op_options *options)
{
    fry_request request;
    fry_refusal why = fry_request_open(&request, engine, options);
    fry_node *node =
        fry_likely(why == FRY_TAKEN) ? fry_request_node(&request, FERRY_OP_NOP, &why) : NULL;
    if (fry_unlikely(node == NULL))
        return fry_request_refuse_writes(&request, engine, why, NULL);
    return fry_request_submit(&request, node);
}

ferry_future *ferry_engine_drain(ferry_engine *engine)
{
    fry_request request;
    fry_refusal why = fry_request_open(&request, engine, NULL);
    fry_node *node = why == FRY_TAKEN ? fry_request_node(&request, FERRY_OP_DRAIN, &why) : NULL;
    return node != NULL ? fry_request_submit(&request, node) : fry_refusal_future(engine, why);
}

static fry_refusal check(const ferry_engine *engine, ferry_op_kind kind,
                         ferry_future *const *futures, size_t count)
{
    if (futures == NULL && count != 0)
        return FRY_REFUSED_COMBINE_ARRAY;
    if (count > engine->after_count_max)
        return FRY_REFUSED_COMBINE_COUNT;
    return kind == FERRY_OP_ANY && count == 0 ? FRY_REFUSED_ANY_COUNT : FRY_TAKEN;
}

static ferry_future *combine(ferry_engine *engine, ferry_op_kind kind, fry_edge_nature nature,
                             ferry_future *const *futures, size_t count)
{
    fry_request request;
    fry_refusal why = fry_request_open(&request, engine, NULL);
    if (why != FRY_TAKEN)
        return fry_refusal_future(engine, why);
    why = check(engine, kind, futures, count);
    if (why != FRY_TAKEN)
        return fry_refusal_future(engine, fry_refuse(engine, why));
    fry_node *node = fry_request_node(&request, kind, &why);
    if (node == NULL)
        return fry_refusal_future(engine, why);
    for (size_t i = 0; why == FRY_TAKEN && i < count; i++)
        why = fry_request_add_after(&request, node, futures[i], nature);
    if (why == FRY_TAKEN) {
        request.options.after_count = count; /* the node has so many edges */
        return fry_request_submit(&request, node);
    }
    if (why == FRY_REFUSED_MAX_EDGES)
        fry_request_lacks_edges(&request, node, futures, count, nature);
    fry_node_discard(engine, request.context, node);
    return fry_refusal_future(engine, why);
}

ferry_future *ferry_future_all(ferry_engine *engine, ferry_future *const *futures, size_t count)
{
    return combine(engine, FERRY_OP_ALL, FRY_EDGE_AFTER, futures, count);
}

ferry_future *ferry_future_any(ferry_engine *engine, ferry_future *const *futures, size_t count)
{
    return combine(engine, FERRY_OP_ANY, FRY_EDGE_ANY, futures, count);
}

/* A future for another moment of the same operation. */
static ferry_future *view(ferry_future *future, ferry_op_kind kind, fry_edge_nature nature)
{
    if (future == NULL)
        return fry_refusal_future(NULL, FRY_REFUSED_FUTURE_NULL);
    bool is_static = fry_future_is_static(future);
    fry_refusal of_static =
        is_static && kind != FERRY_OP_QUIET ? fry_refusal_of(future) : FRY_TAKEN;
    ferry_engine *engine = fry_engine_of(future);
    if (engine == NULL)
        return fry_refusal_future(NULL, of_static);
    fry_refusal why = fry_engine_refusal(engine);
    if (why != FRY_TAKEN)
        return fry_refusal_future(engine, why);
    if (is_static && kind == FERRY_OP_QUIET)
        return fry_refusal_future(engine, of_static);
    return combine(engine, kind, nature, &future, 1);
}

ferry_future *ferry_future_issued(ferry_future *future)
{
    return view(future, FERRY_OP_ISSUED, FRY_EDGE_ISSUED);
}

ferry_future *ferry_future_quiet(ferry_future *future)
{
    return view(future, FERRY_OP_QUIET, FRY_EDGE_QUIET);
}

/* ---- their rows ---- */

/* All that was submitted before holds the drain: the graph lets it go when it is the oldest. */
static bool drain_entered(fry_turn *turn, fry_node *node, bool may_start)
{
    (void)may_start;
    if (TAILQ_FIRST(&turn->engine->live) != node)
        fry_node_hold(node);
    return false;
}

static void describe_drain(const ferry_engine *engine, const fry_node *node, fry_kind_view *view)
{
    if (fry_node_holding(node) != 0)
        view->before = TAILQ_FIRST(&engine->live)->future.id;
}

const fry_op_kind fry_kind_nop = {0};
const fry_op_kind fry_kind_issued = {0};
const fry_op_kind fry_kind_quiet = {0};
const fry_op_kind fry_kind_all = {.traits = FRY_KIND_OF_OTHERS | FRY_KIND_SEES_QUIET};
const fry_op_kind fry_kind_any = {.traits = FRY_KIND_UNCOUNTED};
const fry_op_kind fry_kind_drain = {
    .traits = FRY_KIND_UNCOUNTED,
    .entered = drain_entered,
    .describe = describe_drain,
};
