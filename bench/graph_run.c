/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/graph_run.h"

#include <stdlib.h>

void bench_graph_run_open(bench_graph_run *run, ferry_engine *engine, const bench_dag *dag,
                          bool is_held)
{
    *run = (bench_graph_run){.engine = engine, .dag = dag, .is_held = is_held};
    run->handles = bench_alloc(dag->nodes * sizeof(*run->handles));
    run->after = bench_alloc((dag->most_predecessors + 1) * sizeof(*run->after));
}

void bench_graph_run_close(bench_graph_run *run)
{
    free(run->handles);
    free(run->after);
}

static void submit_graph(bench_graph_run *run, ferry_future *gate)
{
    const bench_dag *dag = run->dag;
    ferry_future **handles = run->handles;
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = run->after;
    for (uint32_t i = 0; i < dag->nodes; i++) {
        const uint32_t *predecessors = &dag->predecessors[dag->first[i]];
        size_t count = dag->first[i + 1] - dag->first[i];
        for (size_t k = 0; k < count; k++)
            run->after[k] = handles[predecessors[k]];
        options.after_count = count;
        if (i == 0 && gate != NULL) {
            run->after[0] = gate;
            options.after_count = 1;
        }
        handles[i] = ferry_nop(run->engine, &options);
        for (size_t k = 0; k < count; k++) {
            if (dag->last_use[predecessors[k]] == i)
                ferry_future_release(handles[predecessors[k]]);
        }
    }
}

void bench_graph_run_once(bench_graph_run *run)
{
    const bench_dag *dag = run->dag;
    bench_gate gate = {0};
    if (run->is_held)
        gate = bench_gate_create(run->engine);
    if (run->barrier != NULL)
        (void)pthread_barrier_wait(run->barrier);
    run->start_ns = bench_now_ns();
    submit_graph(run, gate.future);
    if (run->is_held) {
        if (ferry_future_poll(run->handles[dag->nodes - 1]) != FERRY_PENDING)
            bench_fail("a held graph has resolved before its promise");
        run->release_ns = bench_now_ns();
        bench_gate_open(&gate);
    }
    /* Newest first: it is among the last to resolve, and the others are mostly just looked at. */
    for (size_t i = dag->nodes; i-- > 0;) {
        if (dag->last_use[i] == BENCH_LAST_USE_NONE)
            bench_finish(run->handles[i]);
    }
    run->end_ns = bench_now_ns();
    if (run->is_held)
        bench_gate_release(&gate);
}
