/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu-calls: calls to the driver from an operation's submit until its end is seen, by all threads,
 * the median of rounds in steady state. Counted by the emulator, whose driver it is; on hardware
 * nobody counts, and the case has no rows. What one would call by hand is in docs/performance.md.
 *
 * open         opening a device
 * copy-*       one copy and its end
 * record       an event recorded on a user's stream
 * record-wait  the same, and its end, which the driver is asked about
 * copy-wait    a copy of 4 KiB, and a user's stream that waits for it
 * chain        record, a copy behind it, a user's stream that waits for the copy
 * batch        256 copies of 4 KiB, by ferry_batch
 */
#include "bench/gpu.h"
#include "bench/rivals/cuda.h"

#include <stdio.h>

#define LARGEST_BYTES ((size_t)1 << 20)
#define SLICES ((size_t)256)
#define SLICE_BYTES ((size_t)4096)
#define WARM_UP 600 /* what is made when it is first needed is there */
#define WAIT_SPIN_NS INT64_C(1000000000)

typedef struct calls_bench {
    ferry_engine *engine;
    ferry_device *device;
    ferry_buffer *pinned, *pageable, *near, *far;
    void *before, *behind; /* streams of the user's */
    ferry_future *event;   /* recorded, whose end is not counted */
    ferry_op ops[SLICES];
    ferry_span dst, src;
} calls_bench;

typedef void (*calls_act)(calls_bench *bench);

static uint64_t calls_now(void)
{
    uint64_t count = 0;
    (void)cuda_driver_calls(&count);
    return count;
}

static void do_copy(calls_bench *bench)
{
    bench_finish(ferry_copy(bench->engine, bench->dst, bench->src, NULL));
}

static void do_record(calls_bench *bench)
{
    bench->event = ferry_event_record(bench->device, bench->before);
}

static void do_record_and_wait(calls_bench *bench)
{
    bench_finish(ferry_event_record(bench->device, bench->before));
}

static void do_stream_wait(calls_bench *bench)
{
    ferry_future *copy = ferry_copy(bench->engine, bench->dst, bench->src, NULL);
    (void)bench_stream_wait(copy, bench->device, bench->behind);
    bench_finish(copy);
}

static void do_chain(calls_bench *bench)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    ferry_future *event = ferry_event_record(bench->device, bench->before);
    options.after = &event;
    options.after_count = 1;
    ferry_future *copy = ferry_copy(bench->engine, bench->dst, bench->src, &options);
    (void)bench_stream_wait(copy, bench->device, bench->behind);
    bench_finish(copy);
    ferry_future_release(event);
}

static void do_batch(calls_bench *bench)
{
    bench_finish(ferry_batch(bench->engine, bench->ops, sizeof *bench->ops, SLICES, NULL, NULL));
}

static void run(calls_bench *bench, const char *shape, calls_act act, int rounds)
{
    bench_samples samples = {0};
    for (int i = -WARM_UP; i < rounds; i++) {
        uint64_t before = calls_now();
        act(bench);
        if (i >= 0)
            bench_samples_add(&samples, (double)(calls_now() - before));
        if (bench->event != NULL)
            bench_finish(bench->event);
        bench->event = NULL;
    }
    cuda_synchronize();
    bench_report((bench_key){"gpu-calls", shape, "driver_calls", ""}, &samples);
    bench_samples_free(&samples);
}

static void run_copies(calls_bench *bench, const char *direction, ferry_buffer *dst,
                       ferry_buffer *src, int rounds)
{
    static const struct {
        const char *name;
        size_t size_bytes;
    } sizes[] = {{"4KiB", 4096}, {"128KiB", 131072}, {"1MiB", LARGEST_BYTES}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char shape[48];
        bench->dst = (ferry_span){dst, 0, sizes[i].size_bytes};
        bench->src = (ferry_span){src, 0, sizes[i].size_bytes};
        (void)snprintf(shape, sizeof shape, "copy-%s-%s", direction, sizes[i].name);
        run(bench, shape, do_copy, rounds);
    }
}

static void open_bench(calls_bench *bench)
{
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.wait_spin_ns = WAIT_SPIN_NS;
    uint64_t before = calls_now();
    bench->engine = bench_gpu_engine(&options, FERRY_COMPLETION_DEFAULT, 0, &bench->device);
    bench_report_value((bench_key){"gpu-calls", "open", "driver_calls", ""},
                       (double)(calls_now() - before));
    bench->pinned = bench_pinned_buffer(bench->engine, LARGEST_BYTES);
    bench->pageable = bench_buffer(bench->engine, "host:0", LARGEST_BYTES, 1);
    bench->near = bench_gpu_buffer(bench->device, LARGEST_BYTES);
    bench->far = bench_gpu_buffer(bench->device, LARGEST_BYTES);
    bench->before = cuda_stream_open(false);
    bench->behind = cuda_stream_open(false);
    for (size_t i = 0; i < SLICES; i++)
        bench->ops[i] = (ferry_op){.kind = FERRY_OP_COPY,
                                   .dst = {bench->near, i * 7 % SLICES * SLICE_BYTES, SLICE_BYTES},
                                   .src = {bench->pinned, i * SLICE_BYTES, SLICE_BYTES}};
}

static void close_bench(calls_bench *bench)
{
    cuda_synchronize();
    cuda_stream_close(bench->before);
    cuda_stream_close(bench->behind);
    ferry_buffer_release(bench->pinned);
    ferry_buffer_release(bench->pageable);
    ferry_buffer_release(bench->near);
    ferry_buffer_release(bench->far);
    bench_engine_close(bench->engine);
}

void bench_gpu_calls(bool is_smoke)
{
    uint64_t none;
    calls_bench bench = {0};
    int rounds = is_smoke ? 21 : 201;
    if (!cuda_driver_calls(&none))
        return;
    open_bench(&bench);
    run_copies(&bench, "h2d", bench.near, bench.pinned, rounds);
    run_copies(&bench, "d2h", bench.pinned, bench.near, rounds);
    run_copies(&bench, "d2d", bench.far, bench.near, rounds);
    bench.dst = (ferry_span){bench.near, 0, SLICE_BYTES};
    bench.src = (ferry_span){bench.pageable, 0, SLICE_BYTES};
    run(&bench, "copy-pageable-4KiB", do_copy, rounds);
    bench.src = (ferry_span){bench.pinned, 0, SLICE_BYTES};
    run(&bench, "record", do_record, rounds);
    run(&bench, "record-wait", do_record_and_wait, rounds);
    run(&bench, "copy-wait", do_stream_wait, rounds);
    run(&bench, "chain", do_chain, rounds);
    run(&bench, "batch", do_batch, rounds);
    close_bench(&bench);
}
