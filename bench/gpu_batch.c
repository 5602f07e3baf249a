/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu-batch: 10,000 slices of 4 KiB, each to a place of its own, from pinned memory to the GPU and
 * from there to there. `post`: time of the submitting calls alone, a slice; `done`: until all have
 * arrived. By ferry_batch and one by one by ferry_copy, by hand with one cudaMemcpyAsync each and
 * with one cudaMemcpyBatchAsync. Rounds of all ways alternate.
 */
#include "bench/gpu.h"
#include "bench/rivals/cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLICES ((size_t)10000)
#define SLICE_BYTES ((size_t)4096)
#define BUFFER_BYTES (SLICES * SLICE_BYTES)
#define WAIT_SPIN_NS INT64_C(1000000000)
#define WAYS 4

typedef struct batch_bench {
    ferry_engine *engine;
    void *stream;
    ferry_buffer *source, *target;
    ferry_op *ops;
    void **sources, **targets;
} batch_bench;

typedef struct way {
    const char *name; /* as a rival; "": ferry's own row */
    void (*submit)(batch_bench *bench);
    void (*finish)(batch_bench *bench);
    bench_samples post, done;
} way;

/* Not a stride of the source's order: neighbours must not be joined into one copy. */
static size_t place_of(size_t slice)
{
    return slice * 7 % SLICES;
}

static void submit_batch(batch_bench *bench)
{
    ferry_future_release(
        ferry_batch(bench->engine, bench->ops, sizeof *bench->ops, SLICES, NULL, NULL));
}

static void submit_one_by_one(batch_bench *bench)
{
    for (size_t i = 0; i < SLICES; i++)
        ferry_future_release(ferry_copy(bench->engine, bench->ops[i].dst, bench->ops[i].src, NULL));
}

static void finish_ferry(batch_bench *bench)
{
    bench_finish(ferry_engine_drain(bench->engine));
}

static void submit_bare(batch_bench *bench)
{
    for (size_t i = 0; i < SLICES; i++)
        cuda_copy(bench->targets[i], bench->sources[i], SLICE_BYTES, bench->stream);
}

static void submit_bare_batch(batch_bench *bench)
{
    if (!cuda_copy_batch(bench->targets, bench->sources, SLICE_BYTES, SLICES, bench->stream))
        submit_bare(bench);
}

static void finish_bare(batch_bench *bench)
{
    cuda_stream_synchronize(bench->stream);
}

static void round_of(batch_bench *bench, way *way, bool is_counted)
{
    int64_t begin_ns = bench_now_ns();
    way->submit(bench);
    int64_t posted_ns = bench_now_ns();
    way->finish(bench);
    int64_t done_ns = bench_now_ns();
    if (is_counted) {
        bench_samples_add(&way->post, (double)(posted_ns - begin_ns) / (double)SLICES);
        bench_samples_add(&way->done, (double)(done_ns - begin_ns) / (double)SLICES);
    }
}

/* All slices arrive at their places, whichever way. */
static void check_way(batch_bench *bench, way *way, uint64_t seed, bool is_from_host)
{
    uint8_t *scratch = cuda_memory_alloc(BUFFER_BYTES);
    uint8_t *arrived = bench_alloc(BUFFER_BYTES);
    uint8_t *sent = bench_alloc(BUFFER_BYTES);
    cuda_pattern_fill(scratch, BUFFER_BYTES, seed, bench->stream);
    cuda_stream_synchronize(bench->stream);
    cuda_copy_now(sent, scratch, BUFFER_BYTES);
    cuda_copy_now(ferry_buffer_data(bench->source), is_from_host ? sent : scratch, BUFFER_BYTES);
    round_of(bench, way, false);
    cuda_copy_now(arrived, ferry_buffer_data(bench->target), BUFFER_BYTES);
    for (size_t i = 0; i < SLICES; i++) {
        if (memcmp(arrived + place_of(i) * SLICE_BYTES, sent + i * SLICE_BYTES, SLICE_BYTES) != 0)
            bench_fail("gpu-batch: slice %zu arrived wrong by \"%s\"", i, way->name);
    }
    free(sent);
    free(arrived);
    cuda_memory_free(scratch);
}

static void report_figure(const char *direction, const char *figure, way ways[WAYS], bool is_post)
{
    char shape[32];
    (void)snprintf(shape, sizeof shape, "%s-%s", direction, figure);
    double ferry_ns = bench_samples_quantile(is_post ? &ways[0].post : &ways[0].done, 0.5);
    for (size_t i = 0; i < WAYS; i++) {
        const bench_samples *samples = is_post ? &ways[i].post : &ways[i].done;
        bench_report((bench_key){"gpu-batch", shape, "latency_ns", ways[i].name}, samples);
        /* How many times faster ferry_batch is. */
        if (i > 0)
            bench_report_value((bench_key){"gpu-batch", shape, "ratio", ways[i].name},
                               bench_samples_quantile(samples, 0.5) / ferry_ns);
    }
}

static void run_direction(batch_bench *bench, const char *direction, bool is_smoke)
{
    way ways[WAYS] = {
        {.name = "", .submit = submit_batch, .finish = finish_ferry},
        {.name = "ferry_copy", .submit = submit_one_by_one, .finish = finish_ferry},
        {.name = "cudaMemcpyAsync", .submit = submit_bare, .finish = finish_bare},
        {.name = "cudaMemcpyBatchAsync", .submit = submit_bare_batch, .finish = finish_bare},
    };
    for (size_t i = 0; i < SLICES; i++) {
        size_t place = place_of(i) * SLICE_BYTES;
        bench->ops[i] = (ferry_op){.kind = FERRY_OP_COPY,
                                   .dst = {bench->target, place, SLICE_BYTES},
                                   .src = {bench->source, i * SLICE_BYTES, SLICE_BYTES}};
        bench->targets[i] = (uint8_t *)ferry_buffer_data(bench->target) + place;
        bench->sources[i] = (uint8_t *)ferry_buffer_data(bench->source) + i * SLICE_BYTES;
    }
    for (size_t i = 0; i < WAYS; i++)
        check_way(bench, &ways[i], i + 1, direction[0] == 'h');
    bench_rounds rounds =
        is_smoke ? bench_rounds_begin(1, 1, 0) : bench_rounds_begin(5, 51, INT64_C(2500000000));
    while (bench_rounds_next(&rounds)) {
        for (size_t i = 0; i < WAYS; i++)
            round_of(bench, &ways[(i + (size_t)rounds.done) % WAYS], true);
    }
    report_figure(direction, "post", ways, true);
    report_figure(direction, "done", ways, false);
    for (size_t i = 0; i < WAYS; i++) {
        bench_samples_free(&ways[i].post);
        bench_samples_free(&ways[i].done);
    }
}

void bench_gpu_batch(bool is_smoke)
{
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    ferry_device *device;
    options.wait_spin_ns = WAIT_SPIN_NS;
    batch_bench bench = {.engine =
                             bench_gpu_engine(&options, FERRY_COMPLETION_DEFAULT, 0, &device)};
    bench.stream = cuda_stream_open(true);
    bench.ops = bench_alloc(SLICES * sizeof *bench.ops);
    bench.sources = bench_alloc(SLICES * sizeof *bench.sources);
    bench.targets = bench_alloc(SLICES * sizeof *bench.targets);
    ferry_buffer *pinned = bench_pinned_buffer(bench.engine, BUFFER_BYTES);
    ferry_buffer *from = bench_gpu_buffer(device, BUFFER_BYTES);
    bench.target = bench_gpu_buffer(device, BUFFER_BYTES);
    bench.source = pinned;
    run_direction(&bench, "h2d", is_smoke);
    bench.source = from;
    run_direction(&bench, "d2d", is_smoke);
    ferry_buffer_release(pinned);
    ferry_buffer_release(from);
    ferry_buffer_release(bench.target);
    free(bench.ops);
    free(bench.sources);
    free(bench.targets);
    cuda_stream_close(bench.stream);
    bench_engine_close(bench.engine);
}
