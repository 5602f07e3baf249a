/* SPDX-License-Identifier: Apache-2.0 */
/* Figures of engines and scopes. */
#include "tests/support/play.h"

#include <stdlib.h>

SCENE_SUITE(stats);

static ferry_stats stats_of(ferry_engine *of_engine, const ferry_scope *scope)
{
    ferry_stats stats = FERRY_STATS_INIT;
    ASSERT_STATUS(ferry_stats_read(of_engine, scope, &stats), FERRY_OK);
    cr_assert_eq(stats.struct_size, sizeof stats);
    return stats;
}

static uint64_t failed_with(const ferry_stats *stats, ferry_status status)
{
    for (uint64_t i = 0; i < stats->failure_count; i++) {
        if (stats->failures[i].status == status)
            return stats->failures[i].count;
    }
    return 0;
}

static void begin_counting(ferry_loop_mode loop)
{
    scene_options(loop)->stats = 1;
    (void)engine();
}

static ferry_status fail_with_own_number(void *arg)
{
    (void)arg;
    return (ferry_status)-4711;
}

Test(stats, operations_bytes_and_failures)
{
    begin_counting(FERRY_LOOP_EMBEDDED);
    play("buffer a 100000 of 1; buffer b 100000; promise p;"
         "copy b <- a; copy b[0:10] <- a[0:10]; r = rows 5 b[0:10] pitch 20 <- a[0:10] pitch 30;"
         "n = nop after p; c = call failing; d = nop deadline 10; wait r OK; settle");
    ferry_stats stats = stats_of(engine(), NULL);
    cr_assert_eq(stats.entered, 7);
    cr_assert_eq(stats.resolved_by_kind[FERRY_OP_COPY], 3);
    cr_assert_eq(stats.resolved_by_kind[FERRY_OP_CALL], 1);
    cr_assert_eq(stats.bytes_by_way[FERRY_WAY_HOST], 100000 + 10 + 50);
    cr_assert_eq(failed_with(&stats, FERRY_E_FAILED), 1);
    uint64_t waiting = stats.in_flight;
    cr_assert_eq(waiting, 2, "the promise and what waits for it: %zu", (size_t)waiting);
    (void)own(ferry_call(engine(), NULL, fail_with_own_number, NULL, NULL));
    play("cancel p; settle");
    stats = stats_of(engine(), NULL);
    cr_assert_eq(stats.in_flight, 0);
    cr_assert_eq(stats.resolved, 8);
    cr_assert_eq(failed_with(&stats, FERRY_E_FAILED), 2, "and a number of the user's own");
    cr_assert_eq(failed_with(&stats, FERRY_E_CANCELLED), 1);
    cr_assert_eq(failed_with(&stats, FERRY_E_DEPENDENCY), 1);
    cr_assert_eq(stats.failure_count, 3);
}

/* Copies of a batch that leave nothing in the graph count too. */
Test(stats, copies_without_a_node)
{
    enum { MANY = 300 };
    static ferry_op ops[MANY];
    begin_counting(FERRY_LOOP_EMBEDDED);
    play("buffer a 64 of 1; buffer b 64");
    for (int i = 0; i < MANY; i++)
        ops[i] = (ferry_op){.kind = FERRY_OP_COPY, .dst = the_span("b"), .src = the_span("a")};
    EXPECT(own(ferry_batch(engine(), ops, sizeof *ops, MANY, NULL, NULL)), OK);
    ferry_stats stats = stats_of(engine(), NULL);
    cr_assert_eq(stats.resolved_by_kind[FERRY_OP_COPY], MANY);
    cr_assert_eq(stats.resolved_by_kind[FERRY_OP_BATCH], 1);
    cr_assert_eq(stats.bytes_by_way[FERRY_WAY_HOST], MANY * 64);
    cr_assert_eq(stats.entered, MANY + 1);
}

Test(stats, latencies_of_one_in_so_many)
{
    begin_counting(FERRY_LOOP_EMBEDDED);
    play("promise p");
    uint64_t every = stats_of(engine(), NULL).latency_every;
    ferry_future *after = the_future("p");
    ferry_op_options options = behind(&after, 1);
    for (uint64_t i = 0; i < 10 * every; i++)
        ferry_future_release(ferry_nop(engine(), &options));
    play("step 5000; keep p; settle");
    ferry_stats stats = stats_of(engine(), NULL);
    uint64_t in_bucket = stats.latency_counts[12]; /* 4096 up to 8192 */
    cr_assert(in_bucket >= 9 && in_bucket <= 11, "%zu", (size_t)in_bucket);
    cr_assert_eq(stats.latency_count, in_bucket);
    cr_assert_eq(stats.latency_sum_ns, in_bucket * 5000);
}

Test(stats, a_scope_has_figures_of_its_own)
{
    begin_counting(FERRY_LOOP_EMBEDDED);
    play("buffer a 1000 of 1; buffer b 1000; promise p; copy b <- a; settle");
    ferry_scope *scope = NULL;
    ASSERT_STATUS(ferry_scope_create(engine(), NULL, &scope), FERRY_OK);
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.scope = scope;
    (void)own(ferry_copy(engine(), the_span("b[0:100]"), the_span("a[0:100]"), &options));
    ferry_future *after = the_future("p");
    options.after = &after;
    options.after_count = 1;
    (void)own(ferry_nop(engine(), &options));
    scene_settle();
    ferry_stats stats = stats_of(NULL, scope);
    cr_assert(stats.entered == 2 && stats.resolved == 1 && stats.in_flight == 1);
    cr_assert_eq(stats.bytes_by_way[FERRY_WAY_HOST], 100);
    EXPECT(own(ferry_scope_cancel(scope)), OK);
    stats = stats_of(engine(), scope);
    cr_assert(stats.resolved == 2 && stats.in_flight == 0);
    cr_assert_eq(failed_with(&stats, FERRY_E_CANCELLED), 1);
    stats = stats_of(engine(), NULL);
    cr_assert_eq(stats.bytes_by_way[FERRY_WAY_HOST], 1100);
    cr_assert_eq(stats.resolved_by_kind[FERRY_OP_SCOPE], 1);
    ferry_scope_release(scope);
}

static void *look_on(void *arg)
{
    atomic_bool *is_over = arg;
    uint64_t resolved = 0;
    while (!atomic_load(is_over)) {
        ferry_stats stats = stats_of(engine(), NULL);
        cr_assert_geq(stats.resolved, resolved);
        resolved = stats.resolved;
    }
    return NULL;
}

Test(stats, another_thread_looks_on)
{
    begin_counting(FERRY_LOOP_THREAD);
    play("buffer a 64 of 1; buffer b 64");
    atomic_bool is_over = false;
    pthread_t thread = begin_thread(look_on, &is_over);
    for (int i = 0; i < 20000; i++) {
        ferry_future *copy = ferry_copy(engine(), the_span("b"), the_span("a"), NULL);
        if (i % 100 == 0)
            WAIT(copy, OK);
        ferry_future_release(copy);
    }
    WAIT(own(ferry_engine_drain(engine())), OK);
    atomic_store(&is_over, true);
    (void)end_thread(thread);
    ferry_stats stats = stats_of(engine(), NULL);
    cr_assert_eq(stats.resolved_by_kind[FERRY_OP_COPY], 20000);
    cr_assert_eq(stats.bytes_by_way[FERRY_WAY_HOST], 20000 * 64);
}

/* The loop's thread resolves them; whoever sees that finds them counted. */
Test(stats, what_has_resolved_is_counted)
{
    begin_counting(FERRY_LOOP_THREAD);
    ferry_scope *scope = NULL;
    ASSERT_STATUS(ferry_scope_create(engine(), NULL, &scope), FERRY_OK);
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.scope = scope;
    for (uint64_t i = 1; i <= 3000; i++) {
        ferry_future *call = ferry_call(engine(), NULL, count_call, scene_calls(), &options);
        while (ferry_future_poll(call) == FERRY_PENDING)
            continue;
        cr_assert_eq(stats_of(engine(), NULL).resolved_by_kind[FERRY_OP_CALL], i);
        cr_assert_eq(stats_of(NULL, scope).resolved, i);
        ferry_future_release(call);
    }
    ferry_scope_release(scope);
}

Test(stats, structs_of_other_versions)
{
    struct {
        size_t struct_size;
        uint64_t entered, resolved;
    } older = {.struct_size = sizeof older};
    struct {
        ferry_stats known;
        uint64_t later;
    } newer = {.known = {.struct_size = sizeof newer}, .later = 7};
    begin_counting(FERRY_LOOP_EMBEDDED);
    play("nop; settle");
    ASSERT_STATUS(ferry_stats_read(engine(), NULL, (ferry_stats *)(void *)&older), FERRY_OK);
    cr_assert(older.entered == 1 && older.resolved == 1);
    ASSERT_STATUS(ferry_stats_read(engine(), NULL, &newer.known), FERRY_OK);
    cr_assert(newer.known.entered == 1 && newer.later == 0);
}

Test(stats, wrong_arguments)
{
    ferry_stats stats = FERRY_STATS_INIT;
    ferry_scope *scope = NULL;
    ASSERT_STATUS(ferry_scope_create(engine(), NULL, &scope), FERRY_OK);
    ASSERT_STATUS(ferry_stats_read(engine(), NULL, &stats), FERRY_E_UNSUPPORTED);
    ASSERT_STATUS(ferry_stats_read(NULL, scope, &stats), FERRY_E_UNSUPPORTED);
    ASSERT_STATUS(ferry_stats_read(NULL, NULL, &stats), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_stats_read(engine(), NULL, NULL), FERRY_E_INVALID);
    ferry_engine_options plain = FERRY_ENGINE_OPTIONS_INIT;
    plain.loop = FERRY_LOOP_EMBEDDED;
    plain.stats = 1;
    ferry_engine *other = NULL;
    ASSERT_STATUS(ferry_engine_create(&plain, &other, NULL), FERRY_OK);
    ASSERT_STATUS(ferry_stats_read(other, scope, &stats), FERRY_E_INVALID);
    stats.struct_size = 3;
    ASSERT_STATUS(ferry_stats_read(other, NULL, &stats), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_engine_shutdown(other, -1), FERRY_OK);
    stats.struct_size = sizeof stats;
    ASSERT_STATUS(ferry_stats_read(other, NULL, &stats), FERRY_OK);
    ferry_engine_release(other);
    ferry_scope_release(scope);
    cr_assert_str_eq(ferry_way_name(FERRY_WAY_RECEIVED_NCCL), "received_nccl");
    cr_assert_str_eq(ferry_way_name((ferry_way)77), "?");
}
