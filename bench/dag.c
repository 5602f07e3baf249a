/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/dag.h"

#include "bench/bench.h"

#include <stdlib.h>
#include <string.h>

#define FAN_WIDTH 1000
#define RANDOM_EDGES 4
#define RANDOM_WINDOW 1000

static const char *const shape_names[BENCH_SHAPE_COUNT] = {"chain", "tree", "fan", "random"};

const char *bench_shape_name(bench_shape shape)
{
    return shape_names[shape];
}

static uint32_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

static size_t random_predecessors(uint32_t node, uint32_t *predecessors, uint64_t *state)
{
    uint32_t window = node < RANDOM_WINDOW ? node : RANDOM_WINDOW;
    size_t count = 0;
    size_t wanted = window < RANDOM_EDGES ? window : RANDOM_EDGES;
    while (count < wanted) {
        uint32_t candidate = node - 1 - next_random(state) % window;
        size_t k = 0;
        while (k < count && predecessors[k] != candidate)
            k++;
        if (k == count)
            predecessors[count++] = candidate;
    }
    return count;
}

/* Writes the predecessors of a node, at most FAN_WIDTH, and says how many. */
static size_t find_predecessors(bench_shape shape, uint32_t node, uint32_t *predecessors,
                                uint64_t *state)
{
    if (node == 0)
        return 0;
    uint32_t place = node % (FAN_WIDTH + 1);
    switch (shape) {
    case BENCH_CHAIN:
        predecessors[0] = node - 1;
        return 1;
    case BENCH_TREE:
        predecessors[0] = (node - 1) / 2;
        return 1;
    case BENCH_FAN:
        if (place != 0) {
            predecessors[0] = node - place;
            return 1;
        }
        for (uint32_t k = 0; k < FAN_WIDTH; k++)
            predecessors[k] = node - FAN_WIDTH + k;
        return FAN_WIDTH;
    case BENCH_RANDOM:
    default:
        return random_predecessors(node, predecessors, state);
    }
}

void bench_dag_create(bench_dag *dag, bench_shape shape, size_t nodes)
{
    if (shape == BENCH_FAN)
        nodes = (nodes + FAN_WIDTH) / (FAN_WIDTH + 1) * (FAN_WIDTH + 1) + 1;
    *dag = (bench_dag){.nodes = nodes};
    dag->first = bench_alloc((nodes + 1) * sizeof *dag->first);
    /* No shape has more than RANDOM_EDGES a node on average. */
    dag->predecessors = bench_alloc((nodes * RANDOM_EDGES + FAN_WIDTH) * sizeof *dag->predecessors);
    dag->last_use = bench_alloc(nodes * sizeof *dag->last_use);
    memset(dag->last_use, 0xff, nodes * sizeof *dag->last_use);
    uint64_t state = 1;
    uint32_t used = 0;
    for (uint32_t i = 0; i < nodes; i++) {
        dag->first[i] = used;
        size_t count = find_predecessors(shape, i, &dag->predecessors[used], &state);
        for (size_t k = 0; k < count; k++)
            dag->last_use[dag->predecessors[used + k]] = i;
        if (count > dag->most_predecessors)
            dag->most_predecessors = count;
        used += (uint32_t)count;
    }
    dag->first[nodes] = used;
}

void bench_dag_destroy(bench_dag *dag)
{
    free(dag->first);
    free(dag->predecessors);
    free(dag->last_use);
    *dag = (bench_dag){0};
}
