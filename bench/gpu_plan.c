/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu-plan: 100 copies of 16 KiB, each to a place of its own on the GPU, again and again: the posts
 * of a plan, which are one command to the driver; the same plan put on a stream of the program's;
 * ferry_copy one by one; and by hand one cudaMemcpyAsync each. `post`: time of the submitting calls
 * alone, a copy; `done`: until all have arrived. Rounds of all ways alternate.
 */
#include "bench/gpu.h"
#include "bench/rivals/cuda.h"

#include <stdio.h>
#include <string.h>

enum { COPIES = 100, WAYS = 4 };
#define COPY_BYTES ((size_t)16384)
#define BUFFER_BYTES (COPIES * COPY_BYTES)
#define WAIT_SPIN_NS INT64_C(1000000000)

typedef struct plan_bench {
    ferry_engine *engine;
    ferry_device *device;
    void *stream;
    ferry_buffer *source, *target;
    ferry_op ops[COPIES];
    ferry_plan *plan;
} plan_bench;

typedef struct way {
    const char *name; /* as a rival; "": ferry's own row */
    void (*submit)(plan_bench *bench);
    void (*finish)(plan_bench *bench);
    bench_samples post, done;
} way;

/* Not a stride of the source's order: neighbours must not be joined into one copy. */
static size_t place_of(size_t copy)
{
    return copy * 7 % COPIES;
}

static void submit_plan(plan_bench *bench)
{
    ferry_future_release(ferry_plan_post(bench->plan, NULL, 0, NULL));
}

static void submit_on_stream(plan_bench *bench)
{
    bench_check(ferry_plan_enqueue(bench->plan, bench->device, bench->stream, NULL), "gpu-plan");
}

static void submit_one_by_one(plan_bench *bench)
{
    for (size_t i = 0; i < COPIES; i++)
        ferry_future_release(ferry_copy(bench->engine, bench->ops[i].dst, bench->ops[i].src, NULL));
}

static void submit_bare(plan_bench *bench)
{
    for (size_t i = 0; i < COPIES; i++)
        cuda_copy((char *)ferry_buffer_data(bench->target) + place_of(i) * COPY_BYTES,
                  (char *)ferry_buffer_data(bench->source) + i * COPY_BYTES, COPY_BYTES,
                  bench->stream);
}

static void finish_ferry(plan_bench *bench)
{
    bench_finish(ferry_engine_drain(bench->engine));
}

static void finish_stream(plan_bench *bench)
{
    cuda_stream_synchronize(bench->stream);
}

static void round_of(plan_bench *bench, way *way, bool is_counted)
{
    int64_t begin_ns = bench_now_ns();
    way->submit(bench);
    int64_t posted_ns = bench_now_ns();
    way->finish(bench);
    int64_t done_ns = bench_now_ns();
    if (is_counted) {
        bench_samples_add(&way->post, (double)(posted_ns - begin_ns) / COPIES);
        bench_samples_add(&way->done, (double)(done_ns - begin_ns) / COPIES);
    }
}

/* All arrive at their places, whichever way. */
static void check_way(plan_bench *bench, way *way, int salt)
{
    static unsigned char arrived[BUFFER_BYTES];
    unsigned char *sent = ferry_buffer_data(bench->source);
    for (size_t i = 0; i < BUFFER_BYTES; i++)
        sent[i] = (unsigned char)(i / COPY_BYTES * 31 + i + (size_t)salt);
    round_of(bench, way, false);
    cuda_copy_now(arrived, ferry_buffer_data(bench->target), BUFFER_BYTES);
    for (size_t i = 0; i < COPIES; i++) {
        if (memcmp(arrived + place_of(i) * COPY_BYTES, sent + i * COPY_BYTES, COPY_BYTES) != 0)
            bench_fail("gpu-plan: copy %zu arrived wrong by \"%s\"", i, way->name);
    }
}

static void report_figure(const char *figure, way ways[WAYS], bool is_post)
{
    double ferry_ns = bench_samples_quantile(is_post ? &ways[0].post : &ways[0].done, 0.5);
    for (size_t i = 0; i < WAYS; i++) {
        const bench_samples *samples = is_post ? &ways[i].post : &ways[i].done;
        bench_report((bench_key){"gpu-plan", figure, "latency_ns", ways[i].name}, samples);
        /* How many times faster the posts are. */
        if (i > 0)
            bench_report_value((bench_key){"gpu-plan", figure, "ratio", ways[i].name},
                               bench_samples_quantile(samples, 0.5) / ferry_ns);
    }
}

static void open_plan(plan_bench *bench)
{
    for (size_t i = 0; i < COPIES; i++)
        bench->ops[i] = (ferry_op){.kind = FERRY_OP_COPY,
                                   .dst = {bench->target, place_of(i) * COPY_BYTES, COPY_BYTES},
                                   .src = {bench->source, i * COPY_BYTES, COPY_BYTES}};
    bench_check(ferry_plan_create(bench->engine, bench->ops, sizeof bench->ops[0], COPIES,
                                  &bench->plan, NULL),
                "a plan");
    ferry_plan_info info = FERRY_PLAN_INFO_INIT;
    bench_check(ferry_plan_describe(bench->plan, &info), "a plan");
    if (info.graph_count != COPIES)
        bench_fail("gpu-plan: the plan is no graph here");
}

void bench_gpu_plan(bool is_smoke)
{
    static plan_bench bench;
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    way ways[WAYS] = {
        {.name = "", .submit = submit_plan, .finish = finish_ferry},
        {.name = "ferry_plan_enqueue", .submit = submit_on_stream, .finish = finish_stream},
        {.name = "ferry_copy", .submit = submit_one_by_one, .finish = finish_ferry},
        {.name = "cudaMemcpyAsync", .submit = submit_bare, .finish = finish_stream},
    };
    options.wait_spin_ns = WAIT_SPIN_NS;
    bench.engine = bench_gpu_engine(&options, FERRY_COMPLETION_DEFAULT, 0, &bench.device);
    bench.stream = cuda_stream_open(true);
    bench.source = bench_pinned_buffer(bench.engine, BUFFER_BYTES);
    bench.target = bench_gpu_buffer(bench.device, BUFFER_BYTES);
    open_plan(&bench);
    for (size_t i = 0; i < WAYS; i++)
        check_way(&bench, &ways[i], (int)i + 1);
    bench_rounds rounds =
        is_smoke ? bench_rounds_begin(1, 1, 0) : bench_rounds_begin(50, 2001, INT64_C(2000000000));
    while (bench_rounds_next(&rounds)) {
        for (size_t i = 0; i < WAYS; i++)
            round_of(&bench, &ways[(i + (size_t)rounds.done) % WAYS], true);
    }
    report_figure("post", ways, true);
    report_figure("done", ways, false);
    for (size_t i = 0; i < WAYS; i++) {
        bench_samples_free(&ways[i].post);
        bench_samples_free(&ways[i].done);
    }
    ferry_plan_release(bench.plan);
    ferry_buffer_release(bench.source);
    ferry_buffer_release(bench.target);
    cuda_stream_close(bench.stream);
    bench_engine_close(bench.engine);
}
