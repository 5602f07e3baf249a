/* SPDX-License-Identifier: Apache-2.0 */
/* Futures of other futures' moments: all, any, issued, quiet, drain. */
#include "engine/request.h"

ferry_future *ferry_engine_drain(ferry_engine *engine)
{
    fry_request request;
    ferry_status status = fry_request_open(&request, engine, NULL);
    fry_node *node =
        status == FERRY_OK ? fry_request_node(&request, FERRY_OP_DRAIN, &status) : NULL;
    return node != NULL ? fry_request_submit(&request, node) : fry_refused(engine, status);
}

static ferry_future *combine(ferry_engine *engine, ferry_op_kind kind, fry_edge_nature nature,
                             ferry_future *const *futures, size_t count)
{
    fry_request request;
    ferry_status status = fry_request_open(&request, engine, NULL);
    if (status == FERRY_OK && ((futures == NULL && count != 0) || count > engine->after_count_max ||
                               (kind == FERRY_OP_ANY && count == 0)))
        status = fry_request_refuse(engine, FERRY_E_INVALID,
                                    "combining no or too many futures is refused");
    if (status != FERRY_OK)
        return fry_refused(engine, status);
    fry_node *node = fry_request_node(&request, kind, &status);
    if (node == NULL)
        return fry_refused(engine, status);
    for (size_t i = 0; status == FERRY_OK && i < count; i++)
        status = fry_request_add_after(&request, node, futures[i], nature);
    if (status == FERRY_OK)
        return fry_request_submit(&request, node);
    if (status == FERRY_E_AGAIN)
        fry_request_lacks_edges(&request, node, futures, count, nature);
    fry_node_discard(engine, request.context, node);
    return fry_refused(engine, status);
}

ferry_future *ferry_future_all(ferry_engine *engine, ferry_future *const *futures, size_t count)
{
    return combine(engine, FERRY_OP_ALL, FRY_EDGE_AFTER, futures, count);
}

ferry_future *ferry_future_any(ferry_engine *engine, ferry_future *const *futures, size_t count)
{
    return combine(engine, FERRY_OP_ANY, FRY_EDGE_ANY, futures, count);
}

/* A future of another moment of the same operation. */
static ferry_future *view(ferry_future *future, ferry_op_kind kind, fry_edge_nature nature)
{
    if (future == NULL || future->owner == NULL)
        return fry_refused(NULL, future == NULL           ? FERRY_E_INVALID
                                 : kind == FERRY_OP_QUIET ? FERRY_OK
                                                          : fry_future_status(future));
    ferry_engine *engine = fry_engine_of(future);
    ferry_status status = fry_engine_check(engine);
    if (status != FERRY_OK)
        return fry_refused(engine, status);
    if (fry_future_is_static(future) && kind == FERRY_OP_QUIET)
        return fry_refused(engine, FERRY_OK);
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
