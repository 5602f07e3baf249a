/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu-copy: bandwidth of copies from device to device on one GPU, and between pinned memory and the
 * GPU, beside cudaMemcpyAsync of the same bytes in the same order on one stream. A round submits
 * its copies, which touch distinct bytes as far as the buffers reach, and waits for them, spinning
 * on both sides; rounds alternate, and so does who begins. From and to pinned memory the limit is
 * the bus, from device to device the memory.
 */
#include "bench/gpu.h"
#include "bench/rivals/cuda.h"

#include <stdio.h>
#include <stdlib.h>

#define MEBIBYTE ((size_t)1 << 20)
#define COPIES_MAX 4096 /* a round */
#define SIZE_BUDGET_NS INT64_C(750000000)
#define WAIT_SPIN_NS INT64_C(1000000000)

typedef enum copy_way {
    COPY_D2D,
    COPY_H2D,
    COPY_D2H,
    COPY_WAYS,
} copy_way;

static const char *const way_names[COPY_WAYS] = {"d2d", "h2d", "d2h"};

typedef struct copy_bench {
    ferry_engine *engine;
    void *stream;                 /* the rival's */
    ferry_buffer *pinned, *a, *b; /* a and b are the GPU's; all of one size */
    size_t buffer_bytes;
    ferry_future **futures;
    uint64_t seed;
    bool is_smoke;
    /* What is measured now. */
    ferry_buffer *source, *target;
    size_t size_bytes;
    size_t copies; /* a round */
} copy_bench;

static size_t offset_of(const copy_bench *bench, size_t copy)
{
    return copy * bench->size_bytes % bench->buffer_bytes;
}

static double bandwidth(const copy_bench *bench, int64_t duration_ns)
{
    return (double)bench->copies * (double)bench->size_bytes * 1e9 / (double)duration_ns;
}

static double ferry_round(copy_bench *bench)
{
    int64_t start_ns = bench_now_ns();
    for (size_t i = 0; i < bench->copies; i++) {
        size_t offset = offset_of(bench, i);
        bench->futures[i] =
            ferry_copy(bench->engine, (ferry_span){bench->target, offset, bench->size_bytes},
                       (ferry_span){bench->source, offset, bench->size_bytes}, NULL);
    }
    for (size_t i = bench->copies; i-- > 0;) /* the last first: the others need no wait then */
        bench_wait(bench->futures[i]);
    double result = bandwidth(bench, bench_now_ns() - start_ns);
    for (size_t i = 0; i < bench->copies; i++)
        ferry_future_release(bench->futures[i]);
    return result;
}

static double bare_round(copy_bench *bench)
{
    uint8_t *target = ferry_buffer_data(bench->target);
    const uint8_t *source = ferry_buffer_data(bench->source);
    int64_t start_ns = bench_now_ns();
    for (size_t i = 0; i < bench->copies; i++) {
        size_t offset = offset_of(bench, i);
        cuda_copy(target + offset, source + offset, bench->size_bytes, bench->stream);
    }
    cuda_stream_synchronize(bench->stream);
    return bandwidth(bench, bench_now_ns() - start_ns);
}

/* Every byte of a round arrives, in fresh patterns each time. */
static void check_round(copy_bench *bench, copy_way way)
{
    size_t bytes = bench->copies * bench->size_bytes;
    if (bytes > bench->buffer_bytes)
        bytes = bench->buffer_bytes;
    void *a = ferry_buffer_data(bench->a);
    void *b = ferry_buffer_data(bench->b);
    cuda_pattern_fill(a, bytes, ++bench->seed, bench->stream);
    cuda_stream_synchronize(bench->stream);
    if (way == COPY_H2D)
        cuda_copy_now(ferry_buffer_data(bench->pinned), a, bytes);
    (void)ferry_round(bench);
    if (way == COPY_D2H)
        cuda_copy_now(b, ferry_buffer_data(bench->pinned), bytes);
    uint32_t errors = cuda_pattern_errors(b, bytes, bench->seed);
    if (errors != 0)
        bench_fail("gpu-copy: %s: of copies of %zu bytes %u words arrived wrong", way_names[way],
                   bench->size_bytes, errors);
}

static void run_size(copy_bench *bench, copy_way way, size_t size_bytes)
{
    /* Long enough that what a round costs once is little of it: 2 ms and up on an H200. */
    size_t round_bytes = (way == COPY_D2D ? 4096 : 256) * MEBIBYTE;
    if (bench->is_smoke)
        round_bytes = 4 * MEBIBYTE;
    bench->size_bytes = size_bytes;
    bench->copies = round_bytes / size_bytes;
    if (bench->copies > COPIES_MAX)
        bench->copies = COPIES_MAX;
    if (bench->copies == 0)
        bench->copies = 1;
    check_round(bench, way);
    (void)bare_round(bench);

    bench_pair pair = bench_pair_begin(true);
    bench_rounds rounds = bench_rounds_begin(bench->is_smoke ? 2 : 5, bench->is_smoke ? 2 : 41,
                                             bench->is_smoke ? 0 : SIZE_BUDGET_NS);
    while (bench_rounds_next(&rounds)) {
        bool ferry_begins = rounds.done % 2 == 0;
        double ferry = ferry_begins ? ferry_round(bench) : 0;
        double bare = bare_round(bench);
        if (!ferry_begins)
            ferry = ferry_round(bench);
        bench_pair_add(&pair, ferry, bare);
    }
    char size[16];
    char shape[32];
    bench_size_name(size, sizeof size, size_bytes);
    (void)snprintf(shape, sizeof shape, "%s-%s", way_names[way], size);
    bench_pair_report(&pair, "gpu-copy", shape, "bandwidth_bytes_per_s", "cudaMemcpyAsync");
}

static void copy_bench_open(copy_bench *bench)
{
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    ferry_device *device;
    options.wait_spin_ns = WAIT_SPIN_NS;
    bench->engine = bench_gpu_engine(&options, FERRY_COMPLETION_DEFAULT, 0, &device);
    bench->stream = cuda_stream_open(true); /* ferry's from device to device has that priority */
    bench->buffer_bytes = (bench->is_smoke ? 4 : 1024) * MEBIBYTE;
    bench->pinned = bench_pinned_buffer(bench->engine, bench->buffer_bytes);
    bench->a = bench_gpu_buffer(device, bench->buffer_bytes);
    bench->b = bench_gpu_buffer(device, bench->buffer_bytes);
    bench->futures = bench_alloc(COPIES_MAX * sizeof(ferry_future *));
}

static void copy_bench_close(copy_bench *bench)
{
    free(bench->futures);
    ferry_buffer_release(bench->pinned);
    ferry_buffer_release(bench->a);
    ferry_buffer_release(bench->b);
    cuda_stream_close(bench->stream);
    bench_engine_close(bench->engine);
}

void bench_gpu_copy(bool is_smoke)
{
    static const size_t sizes_bytes[] = {
        MEBIBYTE / 16, MEBIBYTE / 4,  MEBIBYTE,       4 * MEBIBYTE,
        16 * MEBIBYTE, 64 * MEBIBYTE, 256 * MEBIBYTE, 1024 * MEBIBYTE,
    };
    copy_bench bench = {.is_smoke = is_smoke};
    copy_bench_open(&bench);
    for (copy_way way = 0; way < COPY_WAYS; way++) {
        bench.source = way == COPY_H2D ? bench.pinned : bench.a;
        bench.target = way == COPY_D2H ? bench.pinned : bench.b;
        for (size_t i = 0; i < sizeof sizes_bytes / sizeof sizes_bytes[0]; i++) {
            if (sizes_bytes[i] <= bench.buffer_bytes)
                run_size(&bench, way, sizes_bytes[i]);
        }
    }
    copy_bench_close(&bench);
}
