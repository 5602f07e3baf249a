/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/tally.h"

#include "engine/graph/buffer.h"
#include "engine/graph/kind.h"
#include "engine/graph/scope.h"

_Static_assert(FRY_OP_JOIN <= FERRY_STATS_KINDS, "kinds that users see have room");
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

static ferry_way way_of_copy(const fry_node *node)
{
    const ferry_device *to = node->op.copy.dst->device, *from = node->op.copy.src->device;
    if (fry_likely(to->host_lane != NULL))
        return fry_likely(from->host_lane != NULL) ? FERRY_WAY_HOST : FERRY_WAY_FROM_DEVICE;
    if (from->host_lane != NULL)
        return FERRY_WAY_TO_DEVICE;
    return to == from ? FERRY_WAY_ON_DEVICE : FERRY_WAY_BETWEEN_DEVICES;
}

static ferry_way way_of_message(const fry_node *node)
{
    static const ferry_way sent[] = {FERRY_WAY_SENT, FERRY_WAY_SENT_STAGED, FERRY_WAY_SENT_IPC,
                                     FERRY_WAY_SENT_NCCL};
    return (ferry_way)(sent[node->way] + (node->kind == FERRY_OP_RECV));
}

/* ---- counting ---- */

static uint64_t floor_log2(uint64_t number)
{
    return number == 0 ? 0 : (uint64_t)(63 - __builtin_clzll(number));
}

static void count_latency(fry_tally *tally, int64_t taken_ns)
{
    uint64_t ns = taken_ns > 0 ? (uint64_t)taken_ns : 0, bucket = floor_log2(ns);
    fry_tally_add(&tally->latency_count, 1);
    fry_tally_add(&tally->latency_sum_ns, ns);
    fry_tally_add(&tally->latency[bucket < FERRY_STATS_BUCKETS ? bucket : FERRY_STATS_BUCKETS - 1],
                  1);
}

static void count_end(fry_tally *tally, const fry_node *node, ferry_status status)
{
    fry_tally_add(&tally->resolved, 1);
    fry_tally_add(&tally->by_kind[node->kind], 1);
    if (fry_unlikely(status != FERRY_OK))
        fry_tally_add(&tally->failed[place_of(status)], 1);
    else if (fry_likely(node->kind == FERRY_OP_COPY) && node->op.copy.size_bytes != 0)
        fry_tally_add(&tally->bytes[way_of_copy(node)], node->op.copy.size_bytes);
    else if (node->kind == FERRY_OP_SEND || node->kind == FERRY_OP_RECV)
        fry_tally_add(&tally->bytes[way_of_message(node)], node->op.message.size_bytes);
}

static fry_tally *tally_of_scope(const fry_node *node)
{
    return fry_node_has_note(node) && node->note->scope != NULL ? node->note->scope->tally : NULL;
}

void fry_tally_enters(ferry_engine *engine, fry_node *node)
{
    if (node->kind >= FRY_OP_JOIN)
        return;
    fry_tally_add(&engine->tally->entered, 1);
    fry_tally *of_scope = tally_of_scope(node);
    if (fry_unlikely(of_scope != NULL))
        fry_tally_add(&of_scope->entered, 1);
    if (fry_unlikely(engine->tally_left-- == 0)) {
        engine->tally_left = FRY_TALLY_EVERY - 1;
        node->is_timed = true;
        node->entered_ns = fry_clock_now_ns(&engine->clock);
    }
}

void fry_tally_resolves(ferry_engine *engine, fry_node *node)
{
    if (node->kind >= FRY_OP_JOIN)
        return;
    ferry_status status = fry_future_status(&node->future);
    fry_tally *of_scope = tally_of_scope(node);
    count_end(engine->tally, node, status);
    if (fry_unlikely(of_scope != NULL))
        count_end(of_scope, node, status);
    if (fry_likely(!node->is_timed))
        return;
    int64_t taken_ns = fry_clock_now_ns(&engine->clock) - node->entered_ns;
    count_latency(engine->tally, taken_ns);
    if (of_scope != NULL)
        count_latency(of_scope, taken_ns);
}

void fry_tally_copied(ferry_engine *engine, size_t size_bytes)
{
    fry_tally *tally = engine->tally;
    fry_tally_add(&tally->entered, 1);
    fry_tally_add(&tally->resolved, 1);
    fry_tally_add(&tally->by_kind[FERRY_OP_COPY], 1);
    fry_tally_add(&tally->bytes[FERRY_WAY_HOST], size_bytes);
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
    stats->resolved = fry_load_relaxed(&tally->resolved);
    stats->entered = fry_load_relaxed(&tally->entered);
    stats->in_flight = stats->entered > stats->resolved ? stats->entered - stats->resolved : 0;
    read_all(stats->resolved_by_kind, tally->by_kind, FERRY_STATS_KINDS);
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
