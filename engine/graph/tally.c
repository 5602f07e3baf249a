/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/tally.h"

#include "engine/graph/buffer.h"
#include "engine/graph/kind.h"
#include "engine/graph/scope.h"

_Static_assert((size_t)FRY_OP_JOIN <= FERRY_STATS_KINDS, "kinds that users see have room");
_Static_assert(FERRY_WAYS <= FERRY_STATS_WAYS, "and ways");

ferry_status fry_tally_open(ferry_engine *engine)
{
    if (engine->options.stats == 0)
        return FERRY_OK;
    engine->tally = fry_alloc(&engine->memory, sizeof *engine->tally, FRY_CACHE_LINE);
    return engine->tally != NULL ? FERRY_OK : FERRY_E_NO_MEMORY;
}

void fry_tally_close(ferry_engine *engine)
{
    if (engine->tally != NULL)
        fry_free(&engine->memory, engine->tally, sizeof *engine->tally);
}

/* ---- what is counted where ---- */

/* The places of statuses in FERRY_STATUS_MAP. */
#define PLACE(name, value, text) PLACE_OF_##name,
enum { FERRY_STATUS_MAP(PLACE) STATUSES };
#undef PLACE
_Static_assert(STATUSES <= FERRY_STATS_FAILURES, "statuses have room");

static const ferry_status statuses[] = {
#define STATUS(name, value, text) name,
    FERRY_STATUS_MAP(STATUS)
#undef STATUS
};

/* Numbers of users' own count as FERRY_E_FAILED. */
static size_t place_of(ferry_status status)
{
    switch (status) {
#define CASE(name, value, text)                                                                    \
    case name:                                                                                     \
        return PLACE_OF_##name;
        FERRY_STATUS_MAP(CASE)
#undef CASE
    }
    return PLACE_OF_FERRY_E_FAILED;
}

/* ---- counting ---- */

void fry_tally_counts_failure(fry_tally *tally, ferry_status status)
{
    fry_tally_add(&tally->failed[place_of(status)], 1);
}

void fry_tally_counts_device_copy(fry_tally *tally, const fry_node *node)
{
    if (node->op.copy.size_bytes == 0)
        return;
    ferry_way way = fry_tally_device_way(node->op.copy.dst, node->op.copy.src);
    fry_tally_add(&tally->bytes[way], node->op.copy.size_bytes);
}

void fry_tally_counts_launch(fry_tally *tally, const fry_node *node)
{
    uint64_t bytes[FERRY_STATS_WAYS] = {0};
    fry_kind(fry_engine_of(&node->future), node)->moved_by_way(node, bytes);
    for (size_t way = 0; way < FERRY_STATS_WAYS; way++)
        fry_tally_add(&tally->bytes[way], bytes[way]);
}

void fry_tally_counts_message(fry_tally *tally, const fry_node *node)
{
    static const ferry_way sent[] = {FERRY_WAY_SENT, FERRY_WAY_SENT_STAGED, FERRY_WAY_SENT_IPC,
                                     FERRY_WAY_SENT_NCCL};
    size_t way = (size_t)sent[node->way] + !fry_node_is_sent(node);
    uint64_t flow,
        size_bytes = fry_kind(fry_engine_of(&node->future), node)->moved_bytes(node, &flow);
    fry_tally_add(&tally->bytes[way], size_bytes);
}

/* ---- latencies ---- */

void fry_tally_times(const ferry_engine *engine, fry_node *node)
{
    node->is_timed = true;
    node->entered_ns = fry_clock_now_ns(&engine->clock);
}

static size_t bucket_of(uint64_t ns)
{
    size_t bucket = ns == 0 ? 0 : (size_t)(63 - __builtin_clzll(ns));
    return bucket < FERRY_STATS_BUCKETS ? bucket : FERRY_STATS_BUCKETS - 1;
}

static void count_latency(fry_tally *tally, uint64_t ns)
{
    fry_tally_add(&tally->latency_count, 1);
    fry_tally_add(&tally->latency_sum_ns, ns);
    fry_tally_add(&tally->latency[bucket_of(ns)], 1);
}

void fry_tally_counts_latency(const ferry_engine *engine, const fry_node *node)
{
    int64_t taken_ns = fry_clock_now_ns(&engine->clock) - node->entered_ns;
    uint64_t ns = taken_ns > 0 ? (uint64_t)taken_ns : 0;
    count_latency(engine->tally, ns);
    if (fry_node_has_note(node) && node->note->scope != NULL)
        count_latency(node->note->scope->tally, ns);
}

/* ---- reading ---- */

static void read_all(uint64_t *to, const uint64_t *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = fry_load_relaxed(&from[i]);
}

static void read_failures(const fry_tally *tally, ferry_stats *stats)
{
    for (size_t i = 0; i < STATUSES; i++) {
        uint64_t count = fry_load_relaxed(&tally->failed[i]);
        if (count != 0)
            stats->failures[stats->failure_count++] =
                (ferry_stats_failure){.status = statuses[i], .count = count};
    }
}

void fry_tally_read(const fry_tally *tally, ferry_stats *stats)
{
    read_all(stats->resolved_by_kind, tally->by_kind, FRY_OP_JOIN);
    stats->resolved_by_kind[FERRY_OP_RECV] += fry_load_relaxed(&tally->by_kind[FRY_OP_TAKE]) +
                                              fry_load_relaxed(&tally->by_kind[FRY_OP_ACCEPT]);
    stats->resolved_by_kind[FERRY_OP_PLAN] += fry_load_relaxed(&tally->by_kind[FRY_OP_LAUNCH]);
    stats->resolved_by_kind[FERRY_OP_SEND] += fry_load_relaxed(&tally->by_kind[FRY_OP_GIVE]);
    for (size_t kind = 0; kind < FRY_OP_JOIN; kind++)
        stats->resolved += stats->resolved_by_kind[kind];
    stats->entered = fry_load_relaxed(&tally->entered);
    stats->in_flight = stats->entered > stats->resolved ? stats->entered - stats->resolved : 0;
    read_all(stats->bytes_by_way, tally->bytes, FERRY_STATS_WAYS);
    read_failures(tally, stats);
    stats->latency_every = FRY_TALLY_EVERY;
    stats->latency_count = fry_load_relaxed(&tally->latency_count);
    stats->latency_sum_ns = fry_load_relaxed(&tally->latency_sum_ns);
    read_all(stats->latency_counts, tally->latency, FERRY_STATS_BUCKETS);
}

const char *ferry_way_name(ferry_way way)
{
    switch (way) {
#define NAME_CASE(name, value, text)                                                               \
    case name:                                                                                     \
        return text;
        FERRY_WAY_MAP(NAME_CASE)
#undef NAME_CASE
    case FERRY_WAYS:
        break;
    }
    return "?";
}
