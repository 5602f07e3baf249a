/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OpenMP tasks with `depend`, in a team of two of which one submits. libgomp runs a new task in the
 * submitter once 64 tasks a thread are waiting, so nothing can be held for longer than that: a held
 * graph is run like an open one, and the run can't be told from the build.
 */
#include "bench/rivals/rival.h"

#include <omp.h>

static bool open_openmp(void)
{
    return omp_get_num_procs() >= 1;
}

static void submit_node(rival_run *run, uint32_t node)
{
    const uint32_t *predecessors = &run->dag->predecessors[run->dag->first[node]];
    uint32_t count = run->dag->first[node + 1] - run->dag->first[node];
    /* The marks also lend their addresses to the dependencies. */
    if (count == 0) {
#pragma omp task depend(out : run->done[node]) firstprivate(run, node)
        rival_body(run, node);
    } else if (count == 1) {
#pragma omp task depend(out                                                                        \
                        : run->done[node]) depend(in                                               \
                                                  : run->done[predecessors[0]])                    \
    firstprivate(run, node)
        rival_body(run, node);
    } else {
#pragma omp task depend(out                                                                        \
                        : run->done[node]) depend(iterator(uint32_t k = 0                          \
                                                           : count),                               \
                                                  in                                               \
                                                  : run->done[predecessors[k]])                    \
    firstprivate(run, node)
        rival_body(run, node);
    }
}

static bool run_openmp(rival_run *run)
{
    int threads = 0;
    /* The team is started before the clock is. */
#pragma omp parallel num_threads(2) shared(threads)
    {
#pragma omp single
        threads = omp_get_num_threads();
    }
#pragma omp parallel num_threads(2) shared(run)
    {
#pragma omp single
        {
            double start_ns = rival_now_ns();
            for (uint32_t i = 0; i < run->dag->nodes; i++)
                submit_node(run, i);
#pragma omp taskwait
            run->total_ns = rival_now_ns() - start_ns;
        }
    }
    run->run_ns = -1;
    return threads == 2;
}

/* Ends the team: its threads would spin for the next parallel region. */
static void rest_openmp(void)
{
    (void)omp_pause_resource_all(omp_pause_soft);
}

const rival *rival_openmp(void)
{
    static const rival openmp = {"openmp", open_openmp, run_openmp, rest_openmp, rest_openmp};
    return &openmp;
}
