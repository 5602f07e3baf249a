/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/stock.h"

#include "engine/engine.h"
#include "engine/ground/context.h"

ferry_status fry_stock_refill(ferry_engine *engine, fry_context *context, const fry_need *need,
                              bool may_grow, fry_lack *lack)
{
    const fry_pool_cache *last = &context->segments;
    ferry_status status =
        fry_pool_reserve(&engine->segments, &context->segments, need->segments, may_grow);
    if (status == FERRY_OK) {
        last = &context->readers;
        status = fry_pool_reserve(&engine->readers, &context->readers, need->readers, may_grow);
    }
    if (status == FERRY_OK) {
        last = &context->edges;
        status = fry_pool_reserve(&engine->edges, &context->edges, need->edges, may_grow);
    }
    if (status == FERRY_OK) {
        last = &context->joins;
        status = fry_pool_reserve(&engine->joins, &context->joins, need->joins, may_grow);
    }
    if (fry_unlikely(status != FERRY_OK)) {
        *lack = (fry_lack){.count = last->missing,
                           .is_of_edges = last == &context->edges,
                           .is_of_joins = last == &context->joins};
        fry_stock_return(engine, context);
    }
    return status;
}

void fry_stock_return(ferry_engine *engine, fry_context *context)
{
    if (context->segments.reserved != NULL)
        fry_pool_unreserve(&engine->segments, &context->segments);
    if (context->readers.reserved != NULL)
        fry_pool_unreserve(&engine->readers, &context->readers);
    if (context->edges.reserved != NULL)
        fry_pool_unreserve(&engine->edges, &context->edges);
    if (context->joins.reserved != NULL)
        fry_pool_unreserve(&engine->joins, &context->joins);
}
