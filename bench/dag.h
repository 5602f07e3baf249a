/* SPDX-License-Identifier: Apache-2.0 */
/* The graphs that ferry and its rivals build, computed beforehand. C and C++. */
#ifndef FRY_BENCH_DAG_H
#define FRY_BENCH_DAG_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum bench_shape {
    BENCH_CHAIN,  /* each after the one before */
    BENCH_TREE,   /* node i after node (i - 1) / 2 */
    BENCH_FAN,    /* 1 -> 1000 -> 1, repeated; the 1 at the end is the next one's head */
    BENCH_RANDOM, /* each after 4 different ones among the 1000 before it */
    BENCH_SHAPE_COUNT,
} bench_shape;

#define BENCH_LAST_USE_NONE UINT32_MAX

/*
 * Nodes in an order in which every edge points to an earlier one; node 0 is the only one without
 * predecessors. The predecessors of i are predecessors[first[i]] to predecessors[first[i + 1] - 1],
 * all different.
 */
typedef struct bench_dag {
    size_t nodes;
    size_t most_predecessors;
    uint32_t *first;        /* nodes + 1 */
    uint32_t *predecessors; /* first[nodes] */
    uint32_t *last_use;     /* the last node that comes after this one, or BENCH_LAST_USE_NONE */
} bench_dag;

const char *bench_shape_name(bench_shape shape);

/* `nodes` is rounded to what the shape needs. Always the same graph for the same arguments. */
void bench_dag_create(bench_dag *dag, bench_shape shape, size_t nodes);
void bench_dag_destroy(bench_dag *dag);

#ifdef __cplusplus
}
#endif
#endif
