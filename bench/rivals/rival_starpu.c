/* SPDX-License-Identifier: Apache-2.0 */
/*
 * StarPU tasks with declared dependencies and an all but empty codelet: one submitter and one CPU
 * worker. A held graph is one whose head is submitted last. Destroying the tasks is not timed.
 */
#include "bench/rivals/rival.h"

#include <starpu.h>
#include <stdlib.h>

/* Indexed by node; what the codelet finds its run by. */
typedef struct starpu_node {
    rival_run *run;
    uint32_t index;
} starpu_node;

static void run_node(void *buffers[], void *arg)
{
    (void)buffers;
    starpu_node *node = arg;
    rival_body(node->run, node->index);
}

static struct starpu_codelet codelet = {
    .cpu_funcs = {run_node},
    .cpu_funcs_name = {"run_node"},
    .nbuffers = 0,
};

static bool open_starpu(void)
{
    struct starpu_conf conf;
    /* It writes files of its own; not into the home of whoever runs a benchmark. */
    if (setenv("STARPU_SILENT", "1", 0) != 0 || setenv("STARPU_HOME", "/tmp", 0) != 0 ||
        starpu_conf_init(&conf) != 0)
        return false;
    conf.ncpus = 1;
    conf.ncuda = 0;
    conf.nopencl = 0;
    conf.nmic = 0;
    conf.nmpi_ms = 0;
    conf.sched_policy_name = "eager";
    if (starpu_init(&conf) != 0)
        return false;
    starpu_pause();
    return true;
}

static bool submit_nodes(rival_run *run, struct starpu_task **tasks, starpu_node *nodes,
                         struct starpu_task **predecessors)
{
    const bench_dag *dag = run->dag;
    for (uint32_t i = 0; i < dag->nodes; i++) {
        nodes[i] = (starpu_node){run, i};
        tasks[i] = starpu_task_create();
        tasks[i]->cl = &codelet;
        tasks[i]->cl_arg = &nodes[i];
        tasks[i]->destroy = 0; /* later nodes name it, also after it has run */
        uint32_t count = dag->first[i + 1] - dag->first[i];
        for (uint32_t k = 0; k < count; k++)
            predecessors[k] = tasks[dag->predecessors[dag->first[i] + k]];
        if (count > 0)
            starpu_task_declare_deps_array(tasks[i], count, predecessors);
        if ((i > 0 || !run->is_held) && starpu_task_submit(tasks[i]) != 0)
            return false;
    }
    return true;
}

static bool run_starpu(rival_run *run)
{
    size_t nodes_count = run->dag->nodes;
    bool succeeded = false;
    struct starpu_task **tasks = calloc(nodes_count, sizeof(*tasks));
    starpu_node *nodes = calloc(nodes_count, sizeof(*nodes));
    struct starpu_task **predecessors =
        calloc(run->dag->most_predecessors + 1, sizeof(*predecessors));
    if (tasks == NULL || nodes == NULL || predecessors == NULL)
        goto done;
    starpu_resume();
    double start_ns = rival_now_ns();
    if (!submit_nodes(run, tasks, nodes, predecessors))
        goto done;
    double release_ns = rival_now_ns();
    if (run->is_held && starpu_task_submit(tasks[0]) != 0)
        goto done;
    if (starpu_task_wait_for_all() != 0)
        goto done;
    double end_ns = rival_now_ns();
    run->total_ns = end_ns - start_ns;
    run->run_ns = run->is_held ? end_ns - release_ns : -1;
    for (size_t i = 0; i < nodes_count; i++)
        starpu_task_destroy(tasks[i]);
    starpu_pause();
    succeeded = true;
done:
    free(predecessors);
    free(nodes);
    free(tasks);
    return succeeded;
}

/* Each run already leaves its worker paused. */
static void rest_starpu(void)
{
}

static void close_starpu(void)
{
    starpu_resume();
    starpu_shutdown();
}

const rival *rival_starpu(void)
{
    static const rival starpu = {"starpu", open_starpu, run_starpu, rest_starpu, close_starpu};
    return &starpu;
}
