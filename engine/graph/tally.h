/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figures of an engine and of scopes (ferry_engine_options.stats). The baton's holder alone writes
 * them, by plain stores, so that an operation pays for no atomic; who reads them takes no lock, and
 * what it reads of an operation may be of one figure and not yet of another.
 *
 * Latencies are those of one operation in FRY_TALLY_EVERY, since two looks at the clock cost as
 * much as all else that a small operation does.
 */
#ifndef FRY_ENGINE_GRAPH_TALLY_H
#define FRY_ENGINE_GRAPH_TALLY_H

#include "engine/engine.h"
#include "engine/graph/node.h"

#include <ferry/stats.h>

#define FRY_TALLY_EVERY 64

struct fry_tally {
    uint64_t entered, resolved;
    uint64_t by_kind[FERRY_STATS_KINDS];
    uint64_t bytes[FERRY_STATS_WAYS];
    uint64_t failed[FERRY_STATS_FAILURES]; /* by place in FERRY_STATUS_MAP */
    uint64_t latency_count, latency_sum_ns;
    uint64_t latency[FERRY_STATS_BUCKETS];
};

static inline void fry_tally_add(uint64_t *figure, uint64_t more)
{
    fry_store_relaxed(figure, *figure + more);
}

/* For an engine that is to count; does nothing otherwise. FERRY_E_NO_MEMORY. */
ferry_status fry_tally_open(ferry_engine *engine);
void fry_tally_close(ferry_engine *engine);

/* A node enters, or a copy without one is made at once; it has resolved, with its status set. */
void fry_tally_enters(ferry_engine *engine, fry_node *node);
void fry_tally_resolves(ferry_engine *engine, fry_node *node);
void fry_tally_copied(ferry_engine *engine, size_t size_bytes);

/* Fills the user's struct. Any thread. */
void fry_tally_read(const fry_tally *tally, ferry_stats *stats);

#endif
