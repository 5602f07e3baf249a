/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs that come out of captures, instantiating and launching them. A launch is one operation of
 * its stream that runs the nodes in capture order, which is one of the orders that the graph
 * allows; what it does not order, and touches the same bytes, is caught when it is captured.
 */
#include "tests/emu/graph.h"

#include <stdlib.h>
#include <string.h>

struct CUgraph_st {
    emu_object object;
    emu_nodes *nodes; /* a reference */
};

struct CUgraphExec_st {
    emu_object object;
    emu_nodes *nodes;       /* a reference */
    CUstream last_stream;   /* a reference: where it was launched last, or NULL */
    uint64_t last_sequence; /* its place there */
};

/* ---- What is ordered before what ------------------------------------------------------------ */

static void frontier_reserve(emu_frontier *frontier, size_t size)
{
    if (size <= frontier->size)
        return;
    uint32_t *counts = emu_allocate(size * sizeof(*counts));
    if (frontier->size > 0)
        memcpy(counts, frontier->counts, frontier->size * sizeof(*counts));
    free(frontier->counts);
    *frontier = (emu_frontier){counts, size};
}

void emu_frontier_join(emu_frontier *frontier, const emu_frontier *other)
{
    frontier_reserve(frontier, other->size);
    for (size_t i = 0; i < other->size; i++) {
        if (frontier->counts[i] < other->counts[i])
            frontier->counts[i] = other->counts[i];
    }
}

void emu_frontier_set(emu_frontier *frontier, size_t slot, uint32_t count)
{
    frontier_reserve(frontier, slot + 1);
    frontier->counts[slot] = count;
}

uint32_t emu_frontier_get(const emu_frontier *frontier, size_t slot)
{
    return slot < frontier->size ? frontier->counts[slot] : 0;
}

void emu_frontier_free(emu_frontier *frontier)
{
    free(frontier->counts);
    *frontier = (emu_frontier){0};
}

/* ---- Nodes ---------------------------------------------------------------------------------- */

emu_nodes *emu_nodes_new(void)
{
    emu_nodes *nodes = emu_allocate(sizeof(*nodes));
    nodes->references = 1;
    return nodes;
}

void emu_nodes_drop(emu_nodes *nodes)
{
    if (--nodes->references > 0)
        return;
    for (size_t i = 0; i < nodes->count; i++) {
        CUstream stream = nodes->nodes[i].operation->stream;
        emu_operation_free(nodes->nodes[i].operation);
        emu_object_drop(stream);
    }
    free(nodes->nodes);
    free(nodes);
}

/* The first pair of accesses that two operations must not have in no order, or false. */
static bool conflict(const emu_operation *one, const emu_operation *other, const emu_access **at_p)
{
    for (size_t i = 0; i < one->access_count; i++) {
        for (size_t j = 0; j < other->access_count; j++) {
            if (emu_accesses_conflict(&one->accesses[i], &other->accesses[j])) {
                *at_p = &one->accesses[i];
                return true;
            }
        }
    }
    return false;
}

static void check_order(const emu_nodes *nodes, const emu_operation *operation,
                        const emu_frontier *before)
{
    const emu_access *at;
    for (size_t i = 0; i < nodes->count; i++) {
        const emu_node *node = &nodes->nodes[i];
        if (emu_frontier_get(before, node->slot) < node->position &&
            conflict(operation, node->operation, &at))
            emu_catch(EMU_CATCH_UNORDERED,
                      "%s and %s are captured into one graph in no order, both at %p",
                      node->operation->name, operation->name, (void *)at->start);
    }
}

void emu_nodes_add(emu_nodes *nodes, CUstream stream, emu_operation *operation, size_t slot,
                   const emu_frontier *before)
{
    /* The operation's own stream says whose context it runs in. */
    operation->stream = stream;
    emu_object_hold(stream);
    emu_check_parts(operation);
    check_order(nodes, operation, before);
    if (nodes->count == nodes->room) {
        nodes->room = nodes->room == 0 ? 8 : nodes->room * 2;
        nodes->nodes = realloc(nodes->nodes, nodes->room * sizeof(*nodes->nodes));
        if (nodes->nodes == NULL)
            abort();
    }
    nodes->nodes[nodes->count++] = (emu_node){operation, slot, emu_frontier_get(before, slot) + 1};
}

/* ---- Graphs --------------------------------------------------------------------------------- */

static void free_graph(emu_object *object)
{
    emu_nodes_drop(((CUgraph)object)->nodes);
}

static void free_executable(emu_object *object)
{
    CUgraphExec executable = (CUgraphExec)object;
    emu_nodes_drop(executable->nodes);
    if (executable->last_stream != NULL)
        emu_object_drop(executable->last_stream);
}

CUgraph emu_graph_new(emu_nodes *nodes)
{
    CUgraph graph = emu_object_new(EMU_OBJECT_GRAPH, sizeof(*graph), free_graph);
    graph->nodes = nodes;
    emu.counters.live_graphs++;
    return graph;
}

CUresult cuGraphDestroy(CUgraph handle)
{
    CUresult result = emu_enter(EMU_CALL_cuGraphDestroy);
    if (result != CUDA_SUCCESS)
        return result;
    CUgraph graph = emu_object_find(EMU_OBJECT_GRAPH, handle);
    if (graph == NULL)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    emu.counters.live_graphs--;
    emu_object_destroy(graph);
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuGraphInstantiate(CUgraphExec *executable_p, CUgraph handle, unsigned long long flags)
{
    CUresult result = emu_enter(EMU_CALL_cuGraphInstantiateWithFlags);
    if (result != CUDA_SUCCESS)
        return result;
    CUgraph graph = emu_object_find(EMU_OBJECT_GRAPH, handle);
    if (graph == NULL || executable_p == NULL)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    if ((flags & ~(unsigned long long)(CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                                       CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)) != 0)
        return emu_leave(CUDA_ERROR_NOT_SUPPORTED);
    CUgraphExec executable =
        emu_object_new(EMU_OBJECT_GRAPH_EXEC, sizeof(*executable), free_executable);
    executable->nodes = graph->nodes;
    graph->nodes->references++;
    emu.counters.live_graphs++;
    *executable_p = executable;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuGraphExecDestroy(CUgraphExec handle)
{
    CUresult result = emu_enter(EMU_CALL_cuGraphExecDestroy);
    if (result != CUDA_SUCCESS)
        return result;
    CUgraphExec executable = emu_object_find(EMU_OBJECT_GRAPH_EXEC, handle);
    if (executable == NULL)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    emu.counters.live_graphs--;
    emu_object_destroy(executable);
    return emu_leave(CUDA_SUCCESS);
}

/* ---- Launches ------------------------------------------------------------------------------- */

static CUresult run_graph(emu_operation *operation)
{
    const emu_nodes *nodes = *(emu_nodes **)operation->data;
    for (size_t i = 0; i < nodes->count; i++) {
        emu_operation *node = nodes->nodes[i].operation;
        int64_t begun_ns = emu.timing ? emu_now_ns() : 0;
        CUresult result = node->run == NULL ? CUDA_SUCCESS : node->run(node);
        if (emu.timing && node->kind == EMU_OPERATION_COPY)
            emu_engine_time(node, begun_ns); /* without an engine: a graph's copies wait for none */
        if (result != CUDA_SUCCESS)
            return result;
        if (node->complete == NULL)
            continue;
        emu_lock();
        node->complete(node);
        emu_unlock();
    }
    return CUDA_SUCCESS;
}

static void release_launch(emu_operation *operation)
{
    emu_nodes_drop(*(emu_nodes **)operation->data);
}

static emu_operation *new_launch(emu_nodes *nodes)
{
    emu_operation *operation =
        emu_operation_new(EMU_OPERATION_GRAPH, "cuGraphLaunch", sizeof(emu_nodes *));
    *(emu_nodes **)operation->data = nodes;
    nodes->references++;
    operation->run = run_graph;
    operation->release = release_launch;
    for (size_t i = 0; i < nodes->count; i++) {
        const emu_operation *node = nodes->nodes[i].operation;
        emu_module_check(node);
        for (size_t j = 0; j < node->access_count; j++)
            emu_operation_touches_as(operation, &node->accesses[j]);
    }
    return operation;
}

CUresult cuGraphLaunch(CUgraphExec handle, CUstream stream_handle)
{
    CUstream stream;
    CUresult result = emu_enter_stream(EMU_CALL_cuGraphLaunch, stream_handle, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    CUgraphExec executable = emu_object_find(EMU_OBJECT_GRAPH_EXEC, handle);
    if (executable == NULL)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    emu_operation *operation = new_launch(executable->nodes);
    if (stream->capture != NULL)
        return emu_leave(emu_enqueue(stream, operation));

    /* One launch of it at a time: this one begins behind the last, wherever that is. */
    CUstream last = executable->last_stream;
    if (last != NULL && last != stream && !emu_is_complete(last, executable->last_sequence, NULL))
        emu_operation_waits(operation, last, executable->last_sequence, NULL);
    emu_object_hold(executable);
    emu_object_hold(stream);
    result = emu_enqueue(stream, operation);
    if (result == CUDA_SUCCESS) {
        if (executable->last_stream != NULL)
            emu_object_drop(executable->last_stream);
        executable->last_stream = stream;
        executable->last_sequence = stream->issued; /* the lock was not given away since */
    } else {
        emu_object_drop(stream);
    }
    emu_object_drop(executable);
    return emu_leave(result);
}
