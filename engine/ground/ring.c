/* SPDX-License-Identifier: Apache-2.0 */
/* Each thread writes its own ring: base/trace.h. */
#include "engine/ground/ring.h"

#include "engine/engine.h"
#include "engine/ground/context.h"

fry_trace_ring *fry_ring_of(fry_context *context)
{
    fry_trace_ring *ring = fry_load_acquire(&context->ring);
    fry_trace_ring *next = fry_load_acquire(&context->next_ring);
    if (fry_likely(next == NULL || next == ring))
        return ring;
    fry_trace_ring_continue(next, ring);
    fry_store_relaxed(&context->past_ring, ring);
    fry_store_release(&context->ring, next);
    return next;
}

/*
 * A ring made for the flight recorder alone may be too small for a sink that reads behind the
 * recording thread. Only that thread can leave its ring, so it is given the larger one to go on in.
 */
ferry_status fry_ring_add(ferry_engine *engine, fry_context *context, uint32_t sinks)
{
    if ((sinks & FRY_SINKS_WITH_RINGS) == 0)
        return FERRY_OK;
    size_t records = engine->flight_records;
    if ((sinks & FRY_SINKS_THAT_READ) != 0 && records < engine->trace_records)
        records = engine->trace_records;
    const fry_trace_ring *largest = context->next_ring;
    if (largest == NULL)
        largest = fry_load_acquire(&context->ring);
    if (largest != NULL && largest->mask + 1 >= records)
        return FERRY_OK;
    fry_trace_ring *ring = fry_trace_ring_create(&engine->memory, records);
    if (ring == NULL)
        return FERRY_E_NO_MEMORY;
    fry_store_release(largest == NULL ? &context->ring : &context->next_ring, ring);
    return FERRY_OK;
}

void fry_rings_free(fry_context *context)
{
    const fry_memory *memory = &context->engine->memory;
    if (context->next_ring != context->ring)
        fry_trace_ring_destroy(memory, context->next_ring);
    fry_trace_ring_destroy(memory, context->past_ring);
    fry_trace_ring_destroy(memory, context->ring);
}

void fry_sink_set(ferry_engine *engine, fry_sink sink, bool is_on)
{
    uint32_t others = fry_load_relaxed(&engine->tracing) & ~(uint32_t)sink;
    fry_store_release(&engine->tracing, is_on ? others | (uint32_t)sink : others);
}
