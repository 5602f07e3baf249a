/* SPDX-License-Identifier: Apache-2.0 */
/* Handles of futures: references, and what can be read from them. */
#include "engine/engine.h"
#include "engine/graph/node.h"
#include "engine/ground/ground.h"
#include "engine/ground/refusal.h"

ferry_status ferry_future_poll(const ferry_future *future)
{
    if (fry_unlikely(future == NULL))
        return FERRY_E_INVALID;
    return fry_future_is_resolved(future) ? fry_future_status(future) : FERRY_PENDING;
}

ferry_future *ferry_future_retain(ferry_future *future)
{
    if (future == NULL)
        return NULL;
    if (fry_unlikely(fry_future_is_static(future))) {
        if (future->owner != NULL)
            fry_engine_retain(fry_engine_of(future));
        return future;
    }
    (void)fry_fetch_add(&future->references, 1);
    return future;
}

void ferry_future_release(ferry_future *future)
{
    if (future == NULL || future->owner == NULL)
        return;
    ferry_engine *engine = fry_engine_of(future);
    if (fry_unlikely(fry_engine_check(engine) != FERRY_OK))
        return;
    uint32_t references = fry_load_acquire(&future->references);
    if (fry_unlikely(references == FRY_FUTURE_STATIC)) {
        fry_engine_unretain(engine, 1);
        return;
    }
    /* The last holder needs no read-modify-write: no other thread can change the count. */
    if (references == 1 || fry_fetch_sub(&future->references, 1) == 1)
        future->owner->ops->released(future);
}

const ferry_error *ferry_future_error(const ferry_future *given)
{
    ferry_future *future = (ferry_future *)(uintptr_t)given; /* it keeps the error made here */
    if (future == NULL || !fry_future_is_resolved(future) || fry_future_status(future) == FERRY_OK)
        return NULL;
    if (fry_future_is_static(future))
        return &fry_refusal_error(fry_refusal_of(future))->public_;
    const ferry_engine *engine = fry_engine_of(future);
    /* A child of fork must not use the parent's allocator: another thread may have been in it. */
    const fry_memory *memory = fry_engine_check(engine) == FERRY_OK ? &engine->memory : NULL;
    return &fry_future_error_get(future, memory, fry_node_label(fry_node_of(future)))->public_;
}

ferry_engine *ferry_future_engine(const ferry_future *future)
{
    return future != NULL ? fry_engine_of(future) : NULL;
}

uint64_t ferry_future_id(const ferry_future *future)
{
    return future != NULL ? future->id : 0;
}
