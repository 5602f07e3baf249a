/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loops: the figures of `graph` and `submit` again, with the engine's loop run by its own thread,
 * by a thread in poll (embedded) and by a thread in libev (attached). Rounds of the three
 * alternate; a ratio is to the own thread's of the same round.
 */
#include "bench/graph_run.h"
#include "bench/loop_mode.h"

#include <stdio.h>
#include <string.h>

#define NODES 10000
#define RUNS_A_ROUND 5
#define COPY_BYTES 64
#define COPIES 2000

typedef struct mode_figures {
    bench_samples value;
    bench_samples ratio;
} mode_figures;

typedef double (*measure_fn)(ferry_engine *engine, void *arg);

typedef struct graph_shape {
    bench_dag dag;
    bool is_held;
} graph_shape;

static double measure_graph(ferry_engine *engine, void *arg)
{
    const graph_shape *shape = arg;
    bench_graph_run run;
    bench_samples samples = {0};
    bench_graph_run_open(&run, engine, &shape->dag, shape->is_held);
    for (int i = 0; i < RUNS_A_ROUND; i++) {
        bench_graph_run_once(&run);
        bench_samples_add(&samples, (double)(run.end_ns - run.start_ns) / (double)shape->dag.nodes);
    }
    bench_graph_run_close(&run);
    double median = bench_samples_quantile(&samples, 0.5);
    bench_samples_free(&samples);
    return median;
}

static double measure_submit(ferry_engine *engine, void *arg)
{
    (void)arg;
    ferry_buffer *source = bench_buffer(engine, "host:0", COPY_BYTES, 1);
    ferry_buffer *target = bench_buffer(engine, "host:1", COPY_BYTES, 0);
    bench_finish(ferry_copy(engine, ferry_buffer_span(target), ferry_buffer_span(source), NULL));
    int64_t start_ns = bench_now_ns();
    for (int i = 0; i < COPIES; i++)
        bench_finish(
            ferry_copy(engine, ferry_buffer_span(target), ferry_buffer_span(source), NULL));
    double each_ns = (double)(bench_now_ns() - start_ns) / COPIES;
    ferry_buffer_release(source);
    ferry_buffer_release(target);
    return each_ns;
}

static void run_modes(bench_loop loops[BENCH_LOOP_MODE_COUNT], const char *what, const char *metric,
                      measure_fn measure, void *arg, int rounds)
{
    mode_figures figures[BENCH_LOOP_MODE_COUNT] = {0};
    for (int round = -2; round < rounds; round++) {
        double own = 0;
        for (int mode = 0; mode < BENCH_LOOP_MODE_COUNT; mode++) {
            double value = measure(loops[mode].engine, arg);
            own = mode == BENCH_LOOP_THREAD ? value : own;
            if (round < 0)
                continue; /* warm-up */
            bench_samples_add(&figures[mode].value, value);
            bench_samples_add(&figures[mode].ratio, value / own);
        }
    }
    for (int mode = 0; mode < BENCH_LOOP_MODE_COUNT; mode++) {
        char name[64];
        (void)snprintf(name, sizeof name, "%s-%s", what,
                       bench_loop_mode_name((bench_loop_mode)mode));
        bench_report((bench_key){"loops", name, metric, ""}, &figures[mode].value);
        if (mode != BENCH_LOOP_THREAD)
            bench_report((bench_key){"loops", name, "ratio", "own thread"}, &figures[mode].ratio);
        bench_samples_free(&figures[mode].value);
        bench_samples_free(&figures[mode].ratio);
    }
}

void bench_loops(bool is_quick)
{
    bench_loop loops[BENCH_LOOP_MODE_COUNT];
    for (int mode = 0; mode < BENCH_LOOP_MODE_COUNT; mode++)
        bench_loop_open(&loops[mode], (bench_loop_mode)mode);
    for (int shape = 0; shape < BENCH_SHAPE_COUNT; shape++) {
        graph_shape graph = {0};
        bench_dag_create(&graph.dag, (bench_shape)shape, NODES);
        for (int is_held = 1; is_held >= 0; is_held--) {
            char what[32];
            graph.is_held = is_held != 0;
            (void)snprintf(what, sizeof what, "%s-%s", bench_shape_name((bench_shape)shape),
                           is_held ? "held" : "open");
            run_modes(loops, what, "ns_per_node", measure_graph, &graph, is_quick ? 5 : 21);
        }
        bench_dag_destroy(&graph.dag);
    }
    run_modes(loops, "submit", "latency_ns", measure_submit, NULL, is_quick ? 51 : 201);
    for (int mode = 0; mode < BENCH_LOOP_MODE_COUNT; mode++)
        bench_loop_close(&loops[mode]);
}
