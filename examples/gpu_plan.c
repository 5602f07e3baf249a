/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same copies again and again, as one command to the GPU: a plan of blocks that lie scattered
 * in pinned memory and go into a table on the GPU. The engine posts it; then the program replays it
 * as a part of a CUDA graph of its own. Build it with -lferry and -lcudart.
 */
#include <cuda_runtime_api.h>
#include <ferry/ferry.h>
#include <stdio.h>
#include <string.h>

enum { BLOCKS = 100, ROUNDS = 3 };
#define BLOCK_BYTES ((size_t)16 << 10)

typedef struct program {
    ferry_engine *engine;
    ferry_device *gpu;
    ferry_buffer *blocks, *table, *back;
    ferry_plan *plan;
    cudaStream_t stream;
} program;

static int complain(const char *what, ferry_error *error)
{
    (void)fprintf(stderr, "%s: %s\n", what, error != NULL ? error->message : "failed");
    ferry_error_release(error);
    return 1;
}

static int open_all(program *p)
{
    ferry_error *error = NULL;
    if (ferry_engine_create(NULL, &p->engine, &error) != FERRY_OK ||
        ferry_device_open(p->engine, "cuda:0", NULL, &p->gpu, &error) != FERRY_OK)
        return complain("no GPU", error);
    ferry_device *host = ferry_device_find(p->engine, "host:0");
    if (ferry_buffer_alloc_kind(host, 2 * BLOCKS * BLOCK_BYTES, FERRY_MEMORY_PINNED, &p->blocks) !=
            FERRY_OK ||
        ferry_buffer_alloc_kind(host, BLOCKS * BLOCK_BYTES, FERRY_MEMORY_PINNED, &p->back) !=
            FERRY_OK ||
        ferry_buffer_alloc(p->gpu, BLOCKS * BLOCK_BYTES, &p->table) != FERRY_OK ||
        cudaStreamCreateWithFlags(&p->stream, cudaStreamNonBlocking) != cudaSuccess)
        return complain("setting up", NULL);
    return 0;
}

/* Every other block, into the table; then the whole table back. */
static int prepare(program *p)
{
    ferry_op ops[BLOCKS + 1];
    ferry_error *error = NULL;
    for (size_t i = 0; i < BLOCKS; i++)
        ops[i] = (ferry_op){.kind = FERRY_OP_COPY,
                            .dst = {p->table, i * BLOCK_BYTES, BLOCK_BYTES},
                            .src = {p->blocks, 2 * i * BLOCK_BYTES, BLOCK_BYTES}};
    ops[BLOCKS] = (ferry_op){.kind = FERRY_OP_COPY,
                             .dst = ferry_buffer_span(p->back),
                             .src = ferry_buffer_span(p->table)};
    if (ferry_plan_create(p->engine, ops, sizeof ops[0], BLOCKS + 1, &p->plan, &error) != FERRY_OK)
        return complain("the plan", error);
    ferry_plan_info info = FERRY_PLAN_INFO_INIT;
    (void)ferry_plan_describe(p->plan, &info);
    (void)printf("%d copies, %s\n", BLOCKS + 1,
                 info.graph_count != 0 ? "one command" : "one by one");
    return info.graph_count == 0;
}

/* Whether the plan has brought what `fill` wrote. */
static int check(const program *p, int value, const char *who)
{
    const unsigned char *bytes = ferry_buffer_data(p->back);
    for (size_t i = 0; i < BLOCKS * BLOCK_BYTES; i++) {
        if (bytes[i] != value)
            return complain(who, NULL);
    }
    (void)printf("%s brought %d\n", who, value);
    return 0;
}

static void fill(const program *p, int value)
{
    memset(ferry_buffer_data(p->blocks), value, 2 * BLOCKS * BLOCK_BYTES);
}

static int post(const program *p)
{
    int result = 0;
    for (int round = 1; round <= ROUNDS && result == 0; round++) {
        fill(p, round);
        ferry_future *posted = ferry_plan_post(p->plan, NULL, 0, NULL);
        if (ferry_future_wait(posted, -1) != FERRY_OK)
            result = complain("posting", NULL);
        ferry_future_release(posted);
        if (result == 0)
            result = check(p, round, "a post");
    }
    return result;
}

/* The program's graph has the copies between what else it captures; here there is nothing else. */
static int replay(const program *p)
{
    cudaGraph_t graph;
    cudaGraphExec_t step;
    ferry_error *error = NULL;
    if (cudaStreamBeginCapture(p->stream, cudaStreamCaptureModeThreadLocal) != cudaSuccess)
        return complain("capturing", NULL);
    ferry_status status = ferry_plan_enqueue(p->plan, p->gpu, p->stream, &error);
    if (cudaStreamEndCapture(p->stream, &graph) != cudaSuccess || status != FERRY_OK)
        return complain("the plan on a stream", error);
    if (cudaGraphInstantiate(&step, graph, 0) != cudaSuccess)
        return complain("instantiating", NULL);
    int result = 0;
    for (int round = 1; round <= ROUNDS && result == 0; round++) {
        fill(p, 10 + round);
        if (cudaGraphLaunch(step, p->stream) != cudaSuccess ||
            cudaStreamSynchronize(p->stream) != cudaSuccess)
            result = complain("replaying", NULL);
        else
            result = check(p, 10 + round, "a replay");
    }
    (void)cudaGraphExecDestroy(step);
    (void)cudaGraphDestroy(graph);
    return result;
}

int main(void)
{
    program p = {0};
    if (open_all(&p) != 0 || prepare(&p) != 0 || post(&p) != 0 || replay(&p) != 0)
        return 1;
    ferry_plan_release(p.plan);
    ferry_buffer_release(p.blocks);
    ferry_buffer_release(p.table);
    ferry_buffer_release(p.back);
    (void)cudaStreamDestroy(p.stream);
    ferry_engine_release(p.engine);
    return 0;
}
