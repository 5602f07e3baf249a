/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph: building, submitting and resolving graphs of operations that do nothing. The time is that
 * from the first submit until the submitter has seen every node without successors resolved; a
 * handle is released at its last use. Rivals run the same graph on as many threads (the submitter
 * and one more), in rounds that alternate with ferry's.
 */
#include "bench/bench.h"
#include "bench/dag.h"
#include "bench/graph_run.h"
#include "bench/rivals/rival.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODES 10000
#define RUNS_A_ROUND 5
#define SUBMITTERS 2
#define RIVALS_MAX 3

/* A rival and what it took. */
typedef struct rival_figures {
    const rival *rival;
    bench_samples total;
    bench_samples run;
    bench_samples total_ratio;
    bench_samples run_ratio;
} rival_figures;

typedef struct graph_case {
    ferry_engine *engine;
    bench_dag dag;
    bool is_held;
    char name[32];     /* "chain-held" */
    char run_name[32]; /* "chain-run" */
    bench_samples total;
    bench_samples run;
    rival_figures rivals[RIVALS_MAX];
    size_t rival_count;
    uint8_t *done;
} graph_case;

static bool has_run_figures(const graph_case *graph)
{
    return graph->is_held;
}

static void run_ferry(graph_case *graph)
{
    bench_graph_run run;
    bench_graph_run_open(&run, graph->engine, &graph->dag, graph->is_held);
    double nodes = (double)graph->dag.nodes;
    for (int i = 0; i < RUNS_A_ROUND; i++) {
        bench_graph_run_once(&run);
        bench_samples_add(&graph->total, (double)(run.end_ns - run.start_ns) / nodes);
        if (has_run_figures(graph))
            bench_samples_add(&graph->run, (double)(run.end_ns - run.release_ns) / nodes);
    }
    bench_graph_run_close(&run);
}

static rival_run run_rival_once(graph_case *graph, const rival *rival, bool is_checked)
{
    memset(graph->done, 0, graph->dag.nodes);
    rival_run run = {.dag = &graph->dag,
                     .is_held = graph->is_held,
                     .is_checked = is_checked,
                     .done = graph->done};
    if (!rival->run(&run))
        bench_fail("%s failed on %s", rival->name, graph->name);
    if (memchr(graph->done, 0, graph->dag.nodes) != NULL || run.early != 0)
        bench_fail("%s left out or misplaced nodes of %s", rival->name, graph->name);
    return run;
}

/* The median of the newest samples, those of one round. */
static double round_median(const bench_samples *samples)
{
    bench_samples newest = {.values = samples->values + samples->count - RUNS_A_ROUND,
                            .count = RUNS_A_ROUND};
    return bench_samples_quantile(&newest, 0.5);
}

/* A ratio is between neighbours in time, so that the machine's mood cancels out. */
static void run_rival(graph_case *graph, rival_figures *figures)
{
    double nodes = (double)graph->dag.nodes;
    bool has_run = has_run_figures(graph);
    for (int i = 0; i < RUNS_A_ROUND; i++) {
        rival_run run = run_rival_once(graph, figures->rival, false);
        bench_samples_add(&figures->total, run.total_ns / nodes);
        has_run = has_run && run.run_ns >= 0;
        if (has_run)
            bench_samples_add(&figures->run, run.run_ns / nodes);
    }
    figures->rival->rest();
    bench_samples_add(&figures->total_ratio,
                      round_median(&figures->total) / round_median(&graph->total));
    if (has_run)
        bench_samples_add(&figures->run_ratio,
                          round_median(&figures->run) / round_median(&graph->run));
}

static void report_graph(graph_case *graph)
{
    bench_report((bench_key){"graph", graph->name, "ns_per_node", ""}, &graph->total);
    for (size_t r = 0; r < graph->rival_count; r++) {
        rival_figures *figures = &graph->rivals[r];
        const char *name = figures->rival->name;
        bench_report((bench_key){"graph", graph->name, "ns_per_node", name}, &figures->total);
        bench_report((bench_key){"graph", graph->name, "ratio", name}, &figures->total_ratio);
    }
    if (!has_run_figures(graph))
        return;
    bench_report((bench_key){"graph", graph->run_name, "ns_per_node", ""}, &graph->run);
    for (size_t r = 0; r < graph->rival_count; r++) {
        rival_figures *figures = &graph->rivals[r];
        const char *name = figures->rival->name;
        if (figures->run.count == 0)
            continue;
        bench_report((bench_key){"graph", graph->run_name, "ns_per_node", name}, &figures->run);
        bench_report((bench_key){"graph", graph->run_name, "ratio", name}, &figures->run_ratio);
    }
}

static void run_shape(ferry_engine *engine, bench_shape shape, bool is_held,
                      const rival *const *rivals, size_t rival_count, int rounds)
{
    graph_case graph = {.engine = engine, .is_held = is_held, .rival_count = rival_count};
    const char *name = bench_shape_name(shape);
    (void)snprintf(graph.name, sizeof graph.name, "%s-%s", name, is_held ? "held" : "open");
    (void)snprintf(graph.run_name, sizeof graph.run_name, "%s-run", name);
    bench_dag_create(&graph.dag, shape, NODES);
    graph.done = bench_alloc(graph.dag.nodes);
    for (size_t r = 0; r < rival_count; r++) {
        graph.rivals[r].rival = rivals[r];
        graph.rivals[r].total_ratio.larger_is_better = true;
        graph.rivals[r].run_ratio.larger_is_better = true;
        (void)run_rival_once(&graph, rivals[r], true);
        rivals[r]->rest();
    }
    for (int round = 0; round < rounds; round++) {
        run_ferry(&graph);
        for (size_t r = 0; r < rival_count; r++)
            run_rival(&graph, &graph.rivals[r]);
    }
    report_graph(&graph);
    for (size_t r = 0; r < rival_count; r++) {
        bench_samples_free(&graph.rivals[r].total);
        bench_samples_free(&graph.rivals[r].run);
        bench_samples_free(&graph.rivals[r].total_ratio);
        bench_samples_free(&graph.rivals[r].run_ratio);
    }
    bench_samples_free(&graph.total);
    bench_samples_free(&graph.run);
    bench_dag_destroy(&graph.dag);
    free(graph.done);
}

/* Two submitters of one engine, each with a graph of its own: the time is until both are done. */

typedef struct submitter {
    pthread_t thread;
    bench_graph_run run;
    int repeats;
    int64_t *starts_ns; /* by repeat */
    int64_t *ends_ns;
} submitter;

static void *submitter_main(void *arg)
{
    submitter *self = arg;
    for (int i = 0; i < self->repeats; i++) {
        bench_graph_run_once(&self->run);
        self->starts_ns[i] = self->run.start_ns;
        self->ends_ns[i] = self->run.end_ns;
    }
    return NULL;
}

static void run_two_submitters(ferry_engine *engine, bench_shape shape, bool is_held, int repeats)
{
    bench_dag dag;
    submitter submitters[SUBMITTERS];
    pthread_barrier_t barrier;
    bench_dag_create(&dag, shape, NODES);
    (void)pthread_barrier_init(&barrier, NULL, SUBMITTERS);
    for (int s = 0; s < SUBMITTERS; s++) {
        submitter *self = &submitters[s];
        *self = (submitter){.repeats = repeats};
        bench_graph_run_open(&self->run, engine, &dag, is_held);
        self->run.barrier = &barrier;
        self->starts_ns = bench_alloc((size_t)repeats * sizeof *self->starts_ns);
        self->ends_ns = bench_alloc((size_t)repeats * sizeof *self->ends_ns);
        if (pthread_create(&self->thread, NULL, submitter_main, self) != 0)
            bench_fail("cannot start a thread");
    }
    for (int s = 0; s < SUBMITTERS; s++)
        (void)pthread_join(submitters[s].thread, NULL);
    bench_samples samples = {0};
    for (int i = 0; i < repeats; i++) {
        int64_t start_ns = INT64_MAX;
        int64_t end_ns = 0;
        for (int s = 0; s < SUBMITTERS; s++) {
            if (submitters[s].starts_ns[i] < start_ns)
                start_ns = submitters[s].starts_ns[i];
            if (submitters[s].ends_ns[i] > end_ns)
                end_ns = submitters[s].ends_ns[i];
        }
        bench_samples_add(&samples, (double)(end_ns - start_ns) / (double)(SUBMITTERS * dag.nodes));
    }
    char name[32];
    (void)snprintf(name, sizeof name, "%s-%s-2sub", bench_shape_name(shape),
                   is_held ? "held" : "open");
    bench_report((bench_key){"graph", name, "ns_per_node", ""}, &samples);
    bench_samples_free(&samples);
    for (int s = 0; s < SUBMITTERS; s++) {
        bench_graph_run_close(&submitters[s].run);
        free(submitters[s].starts_ns);
        free(submitters[s].ends_ns);
    }
    (void)pthread_barrier_destroy(&barrier);
    bench_dag_destroy(&dag);
}

static size_t open_rivals(const rival **rivals)
{
    size_t count = 0;
#ifdef FERRY_BENCH_TBB
    rivals[count++] = rival_onetbb();
#endif
#ifdef FERRY_BENCH_OPENMP
    rivals[count++] = rival_openmp();
#endif
#ifdef FERRY_BENCH_STARPU
    rivals[count++] = rival_starpu();
#endif
    size_t kept = 0;
    for (size_t r = 0; r < count; r++) {
        if (rivals[r]->open())
            rivals[kept++] = rivals[r];
        else
            (void)fprintf(stderr, "ferry_bench: %s does not start, left out\n", rivals[r]->name);
    }
    return kept;
}

void bench_graph(bool is_quick)
{
    const rival *rivals[RIVALS_MAX] = {NULL};
    size_t rival_count = open_rivals(rivals);
    ferry_engine *engine = bench_engine_open(NULL);
    for (int s = 0; s < BENCH_SHAPE_COUNT; s++) {
        for (int is_open = 0; is_open <= 1; is_open++)
            run_shape(engine, (bench_shape)s, is_open == 0, rivals, rival_count, is_quick ? 5 : 21);
    }
    for (size_t r = 0; r < rival_count; r++)
        rivals[r]->close();
    for (int s = 0; s < BENCH_SHAPE_COUNT; s++) {
        for (int is_open = 0; is_open <= 1; is_open++)
            run_two_submitters(engine, (bench_shape)s, is_open == 0, is_quick ? 25 : 101);
    }
    bench_engine_close(engine);
}
