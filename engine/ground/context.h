/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts: what each thread keeps for an engine. */
#ifndef FRY_ENGINE_GROUND_CONTEXT_H
#define FRY_ENGINE_GROUND_CONTEXT_H

#include "base/pool.h"
#include "base/trace.h"

#include <ferry/types.h>

/* A thread's caches of free slots, and its trace ring. */
typedef struct fry_context {
    struct fry_context *next; /* in the list of all contexts of the engine, or of idle ones */
    struct fry_context *next_idle;
    struct ferry_engine *engine;
    fry_pool_cache nodes, edges, uses, segments, readers, joins, transfers, notes, notices;
    fry_trace_ring *ring;      /* the ring in which its thread records; NULL: none */
    fry_trace_ring *next_ring; /* the ring that the thread will use next: a larger one, or the same;
                                  NULL: none */
    fry_trace_ring *past_ring; /* the ring before; readers may still use it */
    uint64_t ring_cursor;      /* how far the hooks have read; loop's role */
    uint64_t file_cursor;      /* how far the trace file's thread has read */
    uint64_t file_end;         /* how far that thread reads in this round */
    uint64_t next_id, last_id; /* operation numbers reserved for this thread */
    uint32_t number;
} fry_context;

/* The calling thread's last lookup: a cache of fry_context_find. */
typedef struct fry_context_slot {
    uint64_t engine_id;
    fry_context *context;
} fry_context_slot;

extern _Thread_local fry_context_slot fry_context_recent;

/* Like fry_context_get, for an engine that is not in the cache. */
fry_context *fry_context_find(ferry_engine *engine);
void fry_contexts_free(ferry_engine *engine);

/* Raises the pools' bounds for one more thread with caches. */
void fry_pools_add_cache(ferry_engine *engine);

/*
 * From register to unregister, a thread that ends gives back what it keeps for the engine.
 */
void fry_engine_register(ferry_engine *engine);
void fry_engine_unregister(ferry_engine *engine);

#endif
