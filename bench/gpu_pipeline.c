/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu-pipeline: the forward pass of a pipeline of stages on logical devices of one GPU. Each stage
 * computes a layer on micro-batches, in a stream of its own, and a copy takes what comes out to the
 * next; both have double buffers. Measured on the device, from the first layer to the end of the
 * last.
 *
 * Beside it the same by hand: streams, events and cudaStreamWaitEvent, its copies on streams of the
 * highest priority, as ferry's are, and of the default one; and the layers without any copy, which
 * nothing can undercut. `gain` is what the priority is worth here: default over highest.
 */
#include "bench/gpu.h"
#include "bench/rivals/cuda.h"

#include <stdlib.h>
#include <string.h>

#define STAGES 4
#define MICRO_BATCHES_MAX 32
#define WIDTH ((size_t)64)
#define WEIGHT_BYTES (WIDTH * WIDTH * sizeof(float))
#define WAIT_SPIN_NS INT64_C(1000000000)

typedef struct pipeline_bench {
    ferry_engine *engine;
    ferry_device *devices[STAGES];
    ferry_buffer *in[STAGES][2], *out[STAGES][2];
    void *weights[STAGES];
    void *streams[STAGES];
    void *copy_streams[2][STAGES]; /* by hand: of the default and of the highest priority */
    void *start, *end, *begun;
    void *computed[STAGES][MICRO_BATCHES_MAX]; /* by hand, as the next */
    void *copied[STAGES][MICRO_BATCHES_MAX];
    ferry_future *computed_futures[STAGES][MICRO_BATCHES_MAX];
    ferry_future *copied_futures[STAGES][MICRO_BATCHES_MAX];
    size_t rows, micro_batches;
} pipeline_bench;

/* How a layer and a copy are submitted, of a stage and micro-batch. */
typedef struct pipeline_way {
    void (*compute)(pipeline_bench *bench, size_t stage, size_t batch, int way);
    void (*copy)(pipeline_bench *bench, size_t stage, size_t batch, int way);
    int way; /* handed to both */
} pipeline_way;

static size_t activation_bytes(const pipeline_bench *bench)
{
    return bench->rows * WIDTH * sizeof(float);
}

static void launch_layer(pipeline_bench *bench, size_t stage, size_t batch)
{
    cuda_layer(WIDTH, bench->rows, bench->weights[stage],
               ferry_buffer_data(bench->in[stage][batch % 2]),
               ferry_buffer_data(bench->out[stage][batch % 2]), bench->streams[stage]);
}

/* ---- ferry ---- */

static void ferry_compute(pipeline_bench *bench, size_t stage, size_t batch, int way)
{
    (void)way;
    ferry_device *device = bench->devices[stage];
    void *stream = bench->streams[stage];
    if (stage > 0) /* the input has come */
        (void)bench_stream_wait(bench->copied_futures[stage - 1][batch], device, stream);
    if (stage + 1 < STAGES && batch >= 2) /* the output before the last has gone */
        (void)bench_stream_wait(bench->copied_futures[stage][batch - 2], device, stream);
    launch_layer(bench, stage, batch);
    bench->computed_futures[stage][batch] = ferry_event_record(device, stream);
}

static void ferry_take_on(pipeline_bench *bench, size_t stage, size_t batch, int way)
{
    (void)way;
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    ferry_future *after[2] = {bench->computed_futures[stage][batch]};
    options.after = after;
    options.after_count = 1;
    if (batch >= 2) /* the input before the last has been read */
        after[options.after_count++] = bench->computed_futures[stage + 1][batch - 2];
    bench->copied_futures[stage][batch] =
        ferry_copy(bench->engine, ferry_buffer_span(bench->in[stage + 1][batch % 2]),
                   ferry_buffer_span(bench->out[stage][batch % 2]), &options);
}

static void release_futures(pipeline_bench *bench)
{
    for (size_t stage = 0; stage < STAGES; stage++) {
        for (size_t batch = 0; batch < bench->micro_batches; batch++) {
            bench_finish(bench->computed_futures[stage][batch]);
            if (stage + 1 < STAGES)
                bench_finish(bench->copied_futures[stage][batch]);
        }
    }
}

/* ---- by hand ---- */

static void hand_compute(pipeline_bench *bench, size_t stage, size_t batch, int way)
{
    (void)way;
    void *stream = bench->streams[stage];
    if (stage > 0)
        cuda_stream_wait(stream, bench->copied[stage - 1][batch]);
    if (stage + 1 < STAGES && batch >= 2)
        cuda_stream_wait(stream, bench->copied[stage][batch - 2]);
    launch_layer(bench, stage, batch);
    cuda_event_record(bench->computed[stage][batch], stream);
}

static void hand_take_on(pipeline_bench *bench, size_t stage, size_t batch, int way)
{
    void *stream = bench->copy_streams[way][stage];
    cuda_stream_wait(stream, bench->computed[stage][batch]);
    if (batch >= 2)
        cuda_stream_wait(stream, bench->computed[stage + 1][batch - 2]);
    cuda_copy(ferry_buffer_data(bench->in[stage + 1][batch % 2]),
              ferry_buffer_data(bench->out[stage][batch % 2]), activation_bytes(bench), stream);
    cuda_event_record(bench->copied[stage][batch], stream);
}

/* Layers alone, in no order but their streams'. */
static void bare_compute(pipeline_bench *bench, size_t stage, size_t batch, int way)
{
    (void)way;
    launch_layer(bench, stage, batch);
    cuda_event_record(bench->computed[stage][batch], bench->streams[stage]);
}

static void take_nothing(pipeline_bench *bench, size_t stage, size_t batch, int way)
{
    (void)bench;
    (void)stage;
    (void)batch;
    (void)way;
}

static const pipeline_way by_ferry = {ferry_compute, ferry_take_on, 0};
static const pipeline_way by_hand_default = {hand_compute, hand_take_on, 0};
static const pipeline_way by_hand_highest = {hand_compute, hand_take_on, 1};
static const pipeline_way compute_only = {bare_compute, take_nothing, 0};

/* ---- running ---- */

static double forward_ns(pipeline_bench *bench, const pipeline_way *way)
{
    size_t last_tick = bench->micro_batches + STAGES - 1;
    cuda_event_record(bench->start, bench->streams[0]);
    cuda_event_record(bench->begun, bench->streams[0]);
    for (size_t stage = 1; stage < STAGES; stage++)
        cuda_stream_wait(bench->streams[stage], bench->begun);
    for (size_t tick = 0; tick < last_tick; tick++) {
        for (size_t stage = 0; stage < STAGES && stage <= tick; stage++) {
            size_t batch = tick - stage;
            if (batch >= bench->micro_batches)
                continue;
            way->compute(bench, stage, batch, way->way);
            if (stage + 1 < STAGES)
                way->copy(bench, stage, batch, way->way);
        }
    }
    if (way != &by_ferry) { /* layers alone end in any order */
        for (size_t stage = 0; stage + 1 < STAGES; stage++)
            cuda_stream_wait(bench->streams[STAGES - 1],
                             bench->computed[stage][bench->micro_batches - 1]);
    }
    cuda_event_record(bench->end, bench->streams[STAGES - 1]);
    cuda_synchronize();
    if (way == &by_ferry)
        release_futures(bench);
    return cuda_event_elapsed_ns(bench->start, bench->end);
}

/* What came out of the last stage, to be compared. */
static uint8_t *run_for_output(pipeline_bench *bench, const pipeline_way *way)
{
    size_t bytes = activation_bytes(bench);
    uint8_t *result = bench_alloc(2 * bytes);
    for (size_t stage = 1; stage < STAGES; stage++) {
        for (size_t i = 0; i < 2; i++)
            cuda_pattern_fill(ferry_buffer_data(bench->in[stage][i]), bytes, stage,
                              bench->streams[0]);
    }
    cuda_synchronize();
    (void)forward_ns(bench, way);
    for (size_t i = 0; i < 2; i++)
        cuda_copy_now(result + i * bytes, ferry_buffer_data(bench->out[STAGES - 1][i]), bytes);
    return result;
}

static void check_output(pipeline_bench *bench)
{
    uint8_t *by_hand = run_for_output(bench, &by_hand_highest);
    uint8_t *ferry = run_for_output(bench, &by_ferry);
    if (memcmp(by_hand, ferry, 2 * activation_bytes(bench)) != 0)
        bench_fail("gpu-pipeline: ferry's output is not what comes out by hand");
    free(by_hand);
    free(ferry);
}

/* Numbers between -limit and limit, another sequence for each seed. */
static void upload_floats(void *target, size_t count, float limit, uint64_t seed)
{
    float *values = bench_alloc(count * sizeof(float));
    uint64_t state = seed * 0x9e3779b97f4a7c15U + 1;
    for (size_t i = 0; i < count; i++) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        values[i] = ((float)(state >> 40) / (float)(1 << 23) - 1) * limit;
    }
    cuda_copy_now(target, values, count * sizeof(float));
    free(values);
}

static void open_stage(pipeline_bench *bench, size_t stage)
{
    static const char *const names[STAGES] = {"cuda:0", "cuda:0/1", "cuda:0/2", "cuda:0/3"};
    bench->devices[stage] = bench_logical_device(bench->engine, names[stage]);
    for (size_t i = 0; i < 2; i++) {
        bench->in[stage][i] = bench_gpu_buffer(bench->devices[stage], activation_bytes(bench));
        bench->out[stage][i] = bench_gpu_buffer(bench->devices[stage], activation_bytes(bench));
    }
    bench->weights[stage] = cuda_memory_alloc(WEIGHT_BYTES);
    upload_floats(bench->weights[stage], WIDTH * WIDTH, 0.3F, 100 + stage);
    bench->streams[stage] = cuda_stream_open(false);
    bench->copy_streams[0][stage] = cuda_stream_open(false);
    bench->copy_streams[1][stage] = cuda_stream_open(true);
    for (size_t batch = 0; batch < bench->micro_batches; batch++) {
        bench->computed[stage][batch] = cuda_event_open(CUDA_EVENT_PLAIN);
        bench->copied[stage][batch] = cuda_event_open(CUDA_EVENT_PLAIN);
    }
}

static void close_stage(pipeline_bench *bench, size_t stage)
{
    for (size_t batch = 0; batch < bench->micro_batches; batch++) {
        cuda_event_close(bench->computed[stage][batch]);
        cuda_event_close(bench->copied[stage][batch]);
    }
    cuda_stream_close(bench->copy_streams[0][stage]);
    cuda_stream_close(bench->copy_streams[1][stage]);
    cuda_stream_close(bench->streams[stage]);
    cuda_memory_free(bench->weights[stage]);
    for (size_t i = 0; i < 2; i++) {
        ferry_buffer_release(bench->in[stage][i]);
        ferry_buffer_release(bench->out[stage][i]);
    }
}

static void measure(pipeline_bench *bench, bool is_smoke)
{
    static const char *const names[] = {"", "by-hand-highest", "by-hand-default", "compute-only"};
    static const pipeline_way *const ways[] = {&by_ferry, &by_hand_highest, &by_hand_default,
                                               &compute_only};
    enum { WAYS = sizeof ways / sizeof ways[0] };
    bench_samples samples[WAYS] = {{0}};
    bench_rounds rounds =
        is_smoke ? bench_rounds_begin(1, 1, 0) : bench_rounds_begin(7, 101, INT64_C(7000000000));
    while (bench_rounds_next(&rounds)) {
        for (size_t i = 0; i < WAYS; i++) {
            size_t turn = (i + (size_t)rounds.done) % WAYS;
            bench_samples_add(&samples[turn], forward_ns(bench, ways[turn]));
        }
    }
    double medians_ns[WAYS];
    for (size_t i = 0; i < WAYS; i++) {
        medians_ns[i] = bench_samples_quantile(&samples[i], 0.5);
        bench_report((bench_key){"gpu-pipeline", "forward", "duration_ns", names[i]}, &samples[i]);
        if (i > 0)
            bench_report_value((bench_key){"gpu-pipeline", "forward", "ratio", names[i]},
                               medians_ns[0] / medians_ns[i]);
        bench_samples_free(&samples[i]);
    }
    bench_report_value((bench_key){"gpu-pipeline", "gain", "ratio", ""},
                       medians_ns[2] / medians_ns[1]);
}

void bench_gpu_pipeline(bool is_smoke)
{
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.wait_spin_ns = WAIT_SPIN_NS;
    pipeline_bench *bench = bench_alloc(sizeof *bench);
    bench->rows = is_smoke ? 256 : 131072;
    bench->micro_batches = is_smoke ? 4 : MICRO_BATCHES_MAX;
    bench->engine = bench_engine_open(&options);
    for (size_t stage = 0; stage < STAGES; stage++)
        open_stage(bench, stage);
    for (size_t i = 0; i < 2; i++)
        upload_floats(ferry_buffer_data(bench->in[0][i]), bench->rows * WIDTH, 1, 1 + i);
    bench->start = cuda_event_open(CUDA_EVENT_TIMED);
    bench->end = cuda_event_open(CUDA_EVENT_TIMED);
    bench->begun = cuda_event_open(CUDA_EVENT_PLAIN);
    check_output(bench);
    measure(bench, is_smoke);
    cuda_event_close(bench->start);
    cuda_event_close(bench->end);
    cuda_event_close(bench->begun);
    for (size_t stage = 0; stage < STAGES; stage++)
        close_stage(bench, stage);
    bench_engine_close(bench->engine);
    free(bench);
}
