/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Room in a thread's caches, for callers that may not take memory from the system, or not half-way.
 */
#ifndef FRY_ENGINE_GRAPH_STOCK_H
#define FRY_ENGINE_GRAPH_STOCK_H

#include "engine/ground/ground.h"

/* The slots that a step of entering a node takes at most. */
typedef struct fry_need {
    uint64_t segments, readers, edges, joins;
} fry_need;

/* What was missing, of the sort of slots that was looked for last. */
typedef struct fry_lack {
    uint64_t count;
    bool is_of_edges, is_of_joins;
} fry_lack;

/* Like fry_stock_fill, if not all of it is there. */
ferry_status fry_stock_refill(ferry_engine *engine, fry_context *context, const fry_need *need,
                              bool may_grow, fry_lack *lack);

static inline bool fry_stock_has(const fry_context *context, const fry_need *need)
{
    return fry_pool_cache_has(&context->segments, need->segments) &&
           fry_pool_cache_has(&context->readers, need->readers) &&
           fry_pool_cache_has(&context->edges, need->edges) &&
           fry_pool_cache_has(&context->joins, need->joins);
}

/*
 * Makes room in a thread's caches; may_grow: also from the system. If it fails, nothing is
 * reserved, and *lack says what was missing. fry_stock_return gives back what was not taken.
 */
static inline ferry_status fry_stock_fill(ferry_engine *engine, fry_context *context,
                                          const fry_need *need, bool may_grow, fry_lack *lack)
{
    if (fry_likely(fry_stock_has(context, need)))
        return FERRY_OK;
    return fry_stock_refill(engine, context, need, may_grow, lack);
}

void fry_stock_return(ferry_engine *engine, fry_context *context);

#endif
