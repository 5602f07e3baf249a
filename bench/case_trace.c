/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace: what one trace point costs. `on`: chains on an engine with a flight recorder against the
 * same chains on one without, rounds alternating, divided by the records a node makes. `off`: what
 * is left then is a load and a branch that is never taken. One binary can't be compared with itself
 * without them, so `off-branch` times just that, many in a row, less the same loop without. With a
 * trace file: case_trace_file.c.
 */
#include "bench/bench.h"

#include <stdlib.h>

#define NODES 10000
#define RECORDS (UINT32_C(1) << 17)
#define POINTS_A_TURN 4 /* as often as the loops below are unrolled */
#define TURNS 1000000

static double points_per_node(void)
{
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.flight_records = RECORDS;
    ferry_engine *engine = bench_engine_open(&options);
    /* Room for what this thread, the loop and two more could have recorded. */
    size_t capacity = 4 * (size_t)RECORDS;
    ferry_trace_record *records = bench_alloc(capacity * sizeof *records);
    size_t before =
        ferry_engine_flight_records(engine, records, sizeof(ferry_trace_record), capacity);
    (void)bench_chain_ns(engine, NODES, false);
    bench_finish(ferry_engine_drain(engine));
    size_t after =
        ferry_engine_flight_records(engine, records, sizeof(ferry_trace_record), capacity);
    free(records);
    bench_engine_close(engine);
    if (after - before < NODES || after - before >= RECORDS)
        bench_fail("trace: %zu records of %d nodes", after - before, NODES);
    return (double)(after - before) / NODES;
}

static void run_on(bool is_quick)
{
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    ferry_engine *off_engine = bench_engine_open(&options);
    options.flight_records = 4096;
    ferry_engine *on_engine = bench_engine_open(&options);
    double points = points_per_node();
    bench_samples off = {0};
    bench_samples on = {0};
    bench_samples point = {0};
    int rounds = is_quick ? 101 : 501;
    for (int round = -5; round < rounds; round++) {
        double off_ns = (double)bench_chain_ns(off_engine, NODES, false) / NODES;
        double on_ns = (double)bench_chain_ns(on_engine, NODES, false) / NODES;
        if (round < 0)
            continue; /* warm-up */
        bench_samples_add(&off, off_ns);
        bench_samples_add(&on, on_ns);
        bench_samples_add(&point, (on_ns - off_ns) / points);
    }
    bench_report((bench_key){"trace", "chain-off", "ns_per_node", ""}, &off);
    bench_report((bench_key){"trace", "chain-on", "ns_per_node", ""}, &on);
    bench_report((bench_key){"trace", "on", "latency_ns", ""}, &point);
    bench_samples_free(&off);
    bench_samples_free(&on);
    bench_samples_free(&point);
    bench_engine_close(off_engine);
    bench_engine_close(on_engine);
}

static uint32_t is_tracing; /* atomic; the compiler can't know that it stays 0 */
static uint64_t recorded;

static __attribute__((noinline)) void record_point(uint64_t turn)
{
    recorded += turn;
}

static inline __attribute__((always_inline)) void trace_point(uint64_t turn)
{
    if (__builtin_expect(__atomic_load_n(&is_tracing, __ATOMIC_RELAXED) != 0, 0))
        record_point(turn);
}

/* Something to do between points, and the same in both loops: it keeps them from being merged. */
static inline __attribute__((always_inline)) void work_step(uint64_t turn)
{
    __asm__ volatile("" : : "r"(turn) : "memory");
}

static double empty_turn_ns(void)
{
    int64_t start_ns = bench_now_ns();
    for (uint64_t turn = 0; turn < TURNS; turn++) {
/* Written out, or the points would carry the cost of a loop that the empty turn lacks. */
#pragma GCC unroll 4
        for (int k = 0; k < POINTS_A_TURN; k++)
            work_step(turn);
    }
    return (double)(bench_now_ns() - start_ns) / TURNS;
}

static double points_turn_ns(void)
{
    int64_t start_ns = bench_now_ns();
    for (uint64_t turn = 0; turn < TURNS; turn++) {
#pragma GCC unroll 4
        for (int k = 0; k < POINTS_A_TURN; k++) {
            work_step(turn);
            trace_point(turn);
        }
    }
    return (double)(bench_now_ns() - start_ns) / TURNS;
}

static void run_off(bool is_quick)
{
    bench_samples point = {0};
    int rounds = is_quick ? 51 : 201;
    for (int round = 0; round < rounds; round++) {
        double empty_ns = empty_turn_ns();
        bench_samples_add(&point, (points_turn_ns() - empty_ns) / POINTS_A_TURN);
    }
    if (recorded != 0)
        bench_fail("trace: a point that is off has recorded");
    bench_report((bench_key){"trace", "off-branch", "latency_ns", ""}, &point);
    bench_samples_free(&point);
}

void bench_trace(bool is_quick)
{
    run_on(is_quick);
    run_off(is_quick);
    bench_trace_file(is_quick);
}
