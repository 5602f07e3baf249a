/* SPDX-License-Identifier: Apache-2.0 */
/* Building, submitting and resolving a graph of operations that do nothing, with ferry. */
#ifndef FRY_BENCH_GRAPH_RUN_H
#define FRY_BENCH_GRAPH_RUN_H

#include "bench/bench.h"
#include "bench/dag.h"

#include <pthread.h>

/* One submitter's run of a graph. */
typedef struct bench_graph_run {
    ferry_engine *engine;
    const bench_dag *dag;
    bool is_held;
    ferry_future **handles; /* by node; released ones are stale */
    ferry_future **after;   /* room for the most predecessors of a node */
    int64_t start_ns;
    int64_t release_ns;
    int64_t end_ns;
    pthread_barrier_t *barrier; /* NULL, or where submitters start together */
} bench_graph_run;

void bench_graph_run_open(bench_graph_run *run, ferry_engine *engine, const bench_dag *dag,
                          bool is_held);
void bench_graph_run_close(bench_graph_run *run);

/* Sets start_ns, end_ns and, of a held graph, release_ns. */
void bench_graph_run_once(bench_graph_run *run);

#endif
