/* SPDX-License-Identifier: Apache-2.0 */
/* Other task graphs, running the same graph as ferry on two threads. C and C++. */
#ifndef FRY_BENCH_RIVAL_H
#define FRY_BENCH_RIVAL_H

#include "bench/dag.h"

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * One run of a graph. Every node's body marks it as done, so that a rival that forgets nodes is
 * noticed; with `is_checked` it also looks whether its predecessors are, which is not for timing.
 */
typedef struct rival_run {
    const bench_dag *dag;
    bool is_held; /* nothing may start before all nodes are submitted */
    bool is_checked;
    uint8_t *done;   /* a byte a node, all zero at the start */
    uint32_t early;  /* out, checked runs: nodes that ran before a predecessor */
    double total_ns; /* out: building and running */
    double run_ns; /* out: from the release of the head to the end; negative: can't be told apart */
} rival_run;

typedef struct rival {
    const char *name;
    bool (*open)(void);          /* starts its threads; false: it won't work here */
    bool (*run)(rival_run *run); /* false: it failed */
    void (*rest)(void);          /* its threads use no CPU until the next run */
    void (*close)(void);
} rival;

const rival *rival_onetbb(void);
const rival *rival_openmp(void);
const rival *rival_starpu(void);

/* What every rival's node does. */
static inline void rival_body(rival_run *run, uint32_t node)
{
    if (run->is_checked) {
        const bench_dag *dag = run->dag;
        for (uint32_t k = dag->first[node]; k < dag->first[node + 1]; k++) {
            if (__atomic_load_n(&run->done[dag->predecessors[k]], __ATOMIC_ACQUIRE) == 0)
                (void)__atomic_fetch_add(&run->early, 1, __ATOMIC_RELAXED);
        }
    }
    __atomic_store_n(&run->done[node], (uint8_t)1, __ATOMIC_RELEASE);
}

static inline double rival_now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

#ifdef __cplusplus
}
#endif
#endif
