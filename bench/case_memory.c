/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory: what the engine's allocator hands out for each further live node, and how often anything
 * calls the heap once an engine has warmed up. `node` is a nop with its future, `edge` what one
 * edge adds, `access` what the two access entries of a copy add; `copy` is all of it.
 */
#include "bench/bench.h"
#include "bench/heap.h"

#include <stdio.h>
#include <stdlib.h>

#define STEADY_NODES 100000
#define COPY_BYTES 64

/* A kind of node that is kept alive while memory is counted. */
typedef struct growth_case {
    bool is_held; /* behind a promise, by one edge */
    bool is_copy; /* each on slices of its own */
    size_t from_nodes;
    size_t to_nodes;
} growth_case;

typedef struct growth_run {
    ferry_engine *engine;
    ferry_buffer *source;
    ferry_buffer *target;
    bench_gate gate;
    ferry_future **handles;
} growth_run;

static void submit_nodes(const growth_run *run, const growth_case *growth, size_t from, size_t to)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = &run->gate.future;
    options.after_count = growth->is_held ? 1 : 0;
    for (size_t i = from; i < to; i++) {
        if (growth->is_copy)
            run->handles[i] =
                ferry_copy(run->engine, (ferry_span){run->target, i * COPY_BYTES, COPY_BYTES},
                           (ferry_span){run->source, i * COPY_BYTES, COPY_BYTES}, &options);
        else
            run->handles[i] = ferry_nop(run->engine, &options);
    }
}

static double bytes_per_node(const growth_case *growth)
{
    bench_heap heap = {0};
    ferry_allocator allocator = bench_heap_allocator(&heap);
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.allocator = &allocator;
    /* Nobody else has the baton, so that all that is submitted enters. */
    options.loop = FERRY_LOOP_EMBEDDED;
    growth_run run = {.engine = bench_engine_open(&options)};
    run.handles = bench_alloc(growth->to_nodes * sizeof(*run.handles));
    if (growth->is_copy) {
        run.source = bench_buffer(run.engine, "host:0", growth->to_nodes * COPY_BYTES, 1);
        run.target = bench_buffer(run.engine, "host:1", growth->to_nodes * COPY_BYTES, 0);
    }
    if (growth->is_held)
        run.gate = bench_gate_create(run.engine);
    submit_nodes(&run, growth, 0, growth->from_nodes);
    uint64_t from_bytes = bench_heap_live_bytes(&heap);
    submit_nodes(&run, growth, growth->from_nodes, growth->to_nodes);
    uint64_t to_bytes = bench_heap_live_bytes(&heap);
    if (to_bytes <= from_bytes)
        bench_fail("memory: the engine takes no memory for more nodes, so it can't be counted");
    if (growth->is_held)
        bench_gate_open(&run.gate);
    for (size_t i = 0; i < growth->to_nodes; i++)
        bench_finish(run.handles[i]);
    if (growth->is_held)
        bench_gate_release(&run.gate);
    ferry_buffer_release(run.source);
    ferry_buffer_release(run.target);
    free(run.handles);
    bench_engine_close(run.engine);
    if (bench_heap_live_bytes(&heap) != 0)
        bench_fail("memory: %llu bytes are left after the engine",
                   (unsigned long long)bench_heap_live_bytes(&heap));
    return (double)(to_bytes - from_bytes) / (double)(growth->to_nodes - growth->from_nodes);
}

static void run_growth(void)
{
    static const growth_case node = {.from_nodes = 100000, .to_nodes = 500000};
    static const growth_case edge = {.is_held = true, .from_nodes = 100000, .to_nodes = 500000};
    static const growth_case copy = {
        .is_held = true, .is_copy = true, .from_nodes = 10000, .to_nodes = 50000};
    double node_bytes = bytes_per_node(&node);
    double edge_bytes = bytes_per_node(&edge);
    double copy_bytes = bytes_per_node(&copy);
    bench_report_value((bench_key){"memory", "node", "bytes_per_node", ""}, node_bytes);
    bench_report_value((bench_key){"memory", "edge", "bytes_per_node", ""},
                       edge_bytes - node_bytes);
    bench_report_value((bench_key){"memory", "access", "bytes_per_node", ""},
                       copy_bytes - edge_bytes);
    bench_report_value((bench_key){"memory", "copy", "bytes_per_node", ""}, copy_bytes);
}

static void copy_in_turn(ferry_engine *engine, ferry_buffer *target, ferry_buffer *source)
{
    for (size_t i = 0; i < STEADY_NODES; i++)
        bench_finish(
            ferry_copy(engine, ferry_buffer_span(target), ferry_buffer_span(source), NULL));
}

typedef enum steady_work { STEADY_OPEN, STEADY_HELD, STEADY_COPIES, STEADY_COUNT } steady_work;

static void run_steady_work(ferry_engine *engine, steady_work work, ferry_buffer *target,
                            ferry_buffer *source)
{
    switch (work) {
    case STEADY_OPEN:
        (void)bench_chain_ns(engine, STEADY_NODES, false);
        break;
    case STEADY_HELD:
        for (int i = 0; i < 10; i++)
            (void)bench_chain_ns(engine, STEADY_NODES / 10, true);
        break;
    case STEADY_COPIES:
    default:
        copy_in_turn(engine, target, source);
        break;
    }
}

static void run_steady(void)
{
    static const char *const names[STEADY_COUNT] = {"nops-open", "nops-held", "copies"};
    bench_heap heap = {0};
    ferry_allocator allocator = bench_heap_allocator(&heap);
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.allocator = &allocator;
    ferry_engine *engine = bench_engine_open(&options);
    ferry_buffer *source = bench_buffer(engine, "host:0", COPY_BYTES, 1);
    ferry_buffer *target = bench_buffer(engine, "host:1", COPY_BYTES, 0);
    /* Warm: never more nodes at once than here, however the threads interleave. */
    (void)bench_chain_ns(engine, STEADY_NODES, true);
    for (int work = 0; work < STEADY_COUNT; work++)
        run_steady_work(engine, (steady_work)work, target, source);
    uint64_t calls[STEADY_COUNT];
    for (int work = 0; work < STEADY_COUNT; work++) {
        uint64_t before = bench_heap_calls(&heap) + bench_process_heap_calls();
        run_steady_work(engine, (steady_work)work, target, source);
        calls[work] = bench_heap_calls(&heap) + bench_process_heap_calls() - before;
    }
    /* Reported afterwards: printing calls the heap too. */
    for (int work = 0; work < STEADY_COUNT; work++)
        bench_report_value((bench_key){"memory", names[work], "heap_calls", ""},
                           (double)calls[work]);
    ferry_buffer_release(source);
    ferry_buffer_release(target);
    bench_engine_close(engine);
}

/* The interposed heap must be the one that libraries really call. */
static void check_counting(void)
{
    if (!bench_process_heap_is_counted()) {
        (void)fprintf(stderr,
                      "ferry_bench: under a sanitizer only the engine's allocator counts\n");
        return;
    }
    uint64_t before = bench_process_heap_calls();
    bench_engine_close(bench_engine_open(NULL));
    if (bench_process_heap_calls() == before)
        bench_fail("memory: the library's heap calls are not seen");
}

void bench_memory(bool is_quick)
{
    (void)is_quick; /* counts, not times: there is nothing to repeat */
    check_counting();
    run_growth();
    run_steady();
}
