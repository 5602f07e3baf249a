/* SPDX-License-Identifier: Apache-2.0 */
/* Threads' trace rings, and the sinks that need them. */
#ifndef FRY_ENGINE_GROUND_RING_H
#define FRY_ENGINE_GROUND_RING_H

#include "engine/ground/context.h"

/* The users of records: bits of ferry_engine.tracing. */
typedef enum fry_sink {
    FRY_SINK_FLIGHT = 1 << 0, /* the flight recorder */
    FRY_SINK_HOOKS = 1 << 1,  /* the user's hooks */
    FRY_SINK_FILE = 1 << 2,   /* the process's trace file */
    FRY_SINK_NVTX = 1 << 3,   /* an NVTX tool; needs no rings */
} fry_sink;

#define FRY_SINKS_THAT_READ (FRY_SINK_HOOKS | FRY_SINK_FILE)
#define FRY_SINKS_WITH_RINGS (FRY_SINK_FLIGHT | FRY_SINKS_THAT_READ)

/*
 * Gives the context a ring that is large enough for the sinks; `cold` is held. FERRY_E_NO_MEMORY:
 * the ring is as before.
 */
ferry_status fry_ring_add(ferry_engine *engine, fry_context *context, uint32_t sinks);
void fry_rings_free(fry_context *context);

/* The calling thread's ring; NULL: there was no memory for one. */
fry_trace_ring *fry_ring_of(fry_context *context);

/* Turns a sink on or off; `cold` is held. On only after every context has its ring. */
void fry_sink_set(ferry_engine *engine, fry_sink sink, bool is_on);

#endif
