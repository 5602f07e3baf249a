/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts: what a thread keeps of an engine. */
#ifndef FRY_ENGINE_CONTEXT_H
#define FRY_ENGINE_CONTEXT_H

#include "base/pool.h"
#include "base/trace.h"

#include <ferry/types.h>

/* Caches of free slots, and the thread's trace ring. */
typedef struct fry_context {
    struct fry_context *next; /* all of the engine's, or idle ones */
    struct fry_context *next_idle;
    struct ferry_engine *engine;
    fry_pool_cache nodes, edges, uses, segments, readers, joins, transfers;
    fry_trace_ring *ring;      /* where its thread records; NULL: nowhere */
    fry_trace_ring *next_ring; /* a larger one it is to go on in, or the same; NULL: none */
    fry_trace_ring *past_ring; /* the one it went on from; readers may still have it */
    uint64_t ring_cursor;      /* how far the hooks have read; loop's role */
    uint64_t file_cursor;      /* how far the trace file has; its thread's */
    uint64_t file_end;         /* and how far it will, this time */
    uint64_t next_id, last_id; /* operation numbers set aside for this thread */
    uint32_t number;
} fry_context;

/* What the calling thread looked up last; a cache of fry_context_find's. */
typedef struct fry_context_slot {
    uint64_t engine_id;
    fry_context *context;
} fry_context_slot;

extern _Thread_local fry_context_slot fry_context_recent;

/* As fry_context_get, of any engine. */
fry_context *fry_context_find(ferry_engine *engine);
void fry_contexts_free(ferry_engine *engine);

/* One more thread keeps caches: the bounds must not count what is in them. */
void fry_pools_add_cache(ferry_engine *engine);

/* Between the two, a thread that ends gives back what it keeps of the engine. */
void fry_engine_register(ferry_engine *engine);
void fry_engine_unregister(ferry_engine *engine);

#endif
