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
#include "engine/graph/buffer.h"
#include "engine/graph/node.h"

#include <ferry/stats.h>

#define FRY_TALLY_EVERY 256 /* a power of two */

struct fry_tally {
    uint64_t entered;
    uint64_t by_kind[FRY_OP_KINDS]; /* that have resolved; also kinds that users don't see */
    uint64_t bytes[FERRY_STATS_WAYS];
    uint64_t failed[FERRY_STATS_FAILURES]; /* by place in FERRY_STATUS_MAP */
    uint64_t latency_count, latency_sum_ns;
    uint64_t latency[FERRY_STATS_BUCKETS];
};

/* For an engine that is to count; does nothing otherwise. FERRY_E_NO_MEMORY. */
ferry_status fry_tally_open(ferry_engine *engine);
void fry_tally_close(ferry_engine *engine);

static inline void fry_tally_add(uint64_t *figure, uint64_t more)
{
    fry_store_relaxed(figure, *figure + more);
}

/* The way of a copy that a GPU makes. */
static inline ferry_way fry_tally_device_way(const ferry_buffer *dst, const ferry_buffer *src)
{
    const ferry_device *to = dst->device, *from = src->device;
    return to->host_lane != NULL     ? FERRY_WAY_FROM_DEVICE
           : from->host_lane != NULL ? FERRY_WAY_TO_DEVICE
           : to == from              ? FERRY_WAY_ON_DEVICE
                                     : FERRY_WAY_BETWEEN_DEVICES;
}

/* What is seldom due of the two below. */
void fry_tally_times(const ferry_engine *engine, fry_node *node);
void fry_tally_counts_latency(const ferry_engine *engine, const fry_node *node);
void fry_tally_counts_failure(fry_tally *tally, ferry_status status);
void fry_tally_counts_launch(fry_tally *tally, const fry_node *node);
void fry_tally_counts_message(fry_tally *tally, const fry_node *node);
void fry_tally_counts_device_copy(fry_tally *tally, const fry_node *node);

/* A node enters. */
static inline void fry_tally_enters(const ferry_engine *engine, fry_node *node)
{
    fry_tally *tally = engine->tally;
    fry_tally_add(&tally->entered, 1);
    if (fry_unlikely(tally->entered % FRY_TALLY_EVERY == 0))
        fry_tally_times(engine, node);
}

/* It has resolved, with its status set; in the figures of the engine, or of its scope. */
static inline void fry_tally_resolves(fry_tally *tally, const fry_node *node)
{
    int32_t status = fry_load_relaxed(&node->future.status);
    fry_tally_add(&tally->by_kind[node->kind], 1);
    if (fry_unlikely(status != FERRY_OK)) {
        fry_tally_counts_failure(tally, (ferry_status)status);
    } else if (fry_likely(node->kind == FERRY_OP_COPY)) {
        const fry_lane *lane = node->op.copy.stand.lane; /* of host copies: the target's own */
        if (fry_likely(lane != NULL && lane == node->op.copy.dst->device->host_lane))
            fry_tally_add(&tally->bytes[FERRY_WAY_HOST], node->op.copy.size_bytes);
        else
            fry_tally_counts_device_copy(tally, node);
    } else if (fry_node_is_sent(node) || fry_node_is_received(node)) {
        fry_tally_counts_message(tally, node);
    } else if (fry_unlikely(node->kind == FRY_OP_LAUNCH)) {
        fry_tally_counts_launch(tally, node);
    }
}

/* A copy that needs no node was made. */
static inline void fry_tally_copied(const ferry_engine *engine, size_t size_bytes)
{
    fry_tally_add(&engine->tally->entered, 1);
    fry_tally_add(&engine->tally->by_kind[FERRY_OP_COPY], 1);
    fry_tally_add(&engine->tally->bytes[FERRY_WAY_HOST], size_bytes);
}

/* Fills the user's struct. Any thread. */
void fry_tally_read(const fry_tally *tally, ferry_stats *stats);

#endif
