/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu-event, device: what depends on the event is a copy on the GPU, and the user's stream goes on
 * behind the copy: there and back, LEGS times in a row, all of it submitted before the first
 * begins. Measured on the device, between two events of the user's stream; one leg. Beside it the
 * same by hand with cudaStreamWaitEvent; as the floor, all of it in one stream, where there is
 * nothing to wait for; and ferry with events in place of words, which shows what words cost here.
 */
#include "bench/gpu.h"
#include "bench/rivals/cuda.h"

#define LEGS 32
#define COPY_BYTES ((size_t)4096)

typedef struct device_bench {
    ferry_engine *engine;
    ferry_device *device;
    ferry_buffer *source, *target;
    void *stream, *copy_stream; /* the user's; the rival's own */
    void *start, *end;
    void *there[LEGS], *back[LEGS];
    uint32_t *word; /* on the GPU */
    bench_flag flag;
} device_bench;

static uint8_t *slice(ferry_buffer *buffer, size_t leg)
{
    return (uint8_t *)ferry_buffer_data(buffer) + leg * COPY_BYTES;
}

static void ferry_leg(device_bench *bench, size_t leg)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    ferry_future *event = ferry_event_record(bench->device, bench->stream);
    options.after = &event;
    options.after_count = 1;
    ferry_future *copy =
        ferry_copy(bench->engine, (ferry_span){bench->target, leg * COPY_BYTES, COPY_BYTES},
                   (ferry_span){bench->source, leg * COPY_BYTES, COPY_BYTES}, &options);
    (void)bench_stream_wait(copy, bench->device, bench->stream);
    ferry_future_release(copy);
    ferry_future_release(event);
}

static void by_hand_leg(device_bench *bench, size_t leg)
{
    cuda_event_record(bench->there[leg], bench->stream);
    cuda_stream_wait(bench->copy_stream, bench->there[leg]);
    cuda_copy(slice(bench->target, leg), slice(bench->source, leg), COPY_BYTES, bench->copy_stream);
    cuda_event_record(bench->back[leg], bench->copy_stream);
    cuda_stream_wait(bench->stream, bench->back[leg]);
}

static void in_stream_leg(device_bench *bench, size_t leg)
{
    cuda_copy(slice(bench->target, leg), slice(bench->source, leg), COPY_BYTES, bench->stream);
}

static double round_ns(device_bench *bench, void (*leg)(device_bench *bench, size_t leg))
{
    bench_flag_hold(&bench->flag, bench->stream);
    cuda_event_record(bench->start, bench->stream);
    for (size_t i = 0; i < LEGS; i++) {
        cuda_touch(bench->word, (uint32_t)i, bench->stream);
        leg(bench, i);
    }
    cuda_event_record(bench->end, bench->stream);
    bench_flag_raise(&bench->flag);
    cuda_stream_synchronize(bench->stream);
    bench_finish(ferry_engine_drain(bench->engine));
    return cuda_event_elapsed_ns(bench->start, bench->end) / LEGS;
}

static void device_bench_open(device_bench *bench, ferry_completion completion)
{
    bench->engine = bench_gpu_engine(NULL, completion, 0, &bench->device);
    bench->source = bench_gpu_buffer(bench->device, LEGS * COPY_BYTES);
    bench->target = bench_gpu_buffer(bench->device, LEGS * COPY_BYTES);
    bench->stream = cuda_stream_open(false);
    bench_stream_meet(bench->device, bench->stream);
    bench->copy_stream = cuda_stream_open(true);
    bench->start = cuda_event_open(CUDA_EVENT_TIMED);
    bench->end = cuda_event_open(CUDA_EVENT_TIMED);
    for (size_t i = 0; i < LEGS; i++) {
        bench->there[i] = cuda_event_open(CUDA_EVENT_PLAIN);
        bench->back[i] = cuda_event_open(CUDA_EVENT_PLAIN);
    }
    bench->word = cuda_memory_alloc(sizeof *bench->word);
    bench->flag = bench_flag_open();
}

static void device_bench_close(device_bench *bench)
{
    cuda_synchronize();
    bench_flag_close(&bench->flag);
    cuda_memory_free(bench->word);
    for (size_t i = 0; i < LEGS; i++) {
        cuda_event_close(bench->there[i]);
        cuda_event_close(bench->back[i]);
    }
    cuda_event_close(bench->start);
    cuda_event_close(bench->end);
    cuda_stream_close(bench->stream);
    cuda_stream_close(bench->copy_stream);
    ferry_buffer_release(bench->source);
    ferry_buffer_release(bench->target);
    bench_engine_close(bench->engine);
}

static void run_with_events(bool is_smoke)
{
    device_bench bench = {0};
    device_bench_open(&bench, FERRY_COMPLETION_EVENTS);
    bench_samples samples = {0};
    (void)round_ns(&bench, ferry_leg);
    bench_rounds rounds =
        is_smoke ? bench_rounds_begin(2, 2, 0) : bench_rounds_begin(20, 500, INT64_C(500000000));
    while (bench_rounds_next(&rounds))
        bench_samples_add(&samples, round_ns(&bench, ferry_leg));
    bench_report((bench_key){"gpu-event", "device", "latency_ns", "completion-events"}, &samples);
    bench_samples_free(&samples);
    device_bench_close(&bench);
}

void bench_gpu_event_device(bool is_smoke)
{
    device_bench bench = {0};
    device_bench_open(&bench, FERRY_COMPLETION_DEFAULT);
    bench_samples floor = {0};
    bench_pair pair = bench_pair_begin(false);
    (void)round_ns(&bench, ferry_leg);
    (void)round_ns(&bench, by_hand_leg);
    bench_rounds rounds =
        is_smoke ? bench_rounds_begin(2, 2, 0) : bench_rounds_begin(20, 500, INT64_C(1500000000));
    while (bench_rounds_next(&rounds)) {
        double ferry_ns = round_ns(&bench, ferry_leg);
        bench_pair_add(&pair, ferry_ns, round_ns(&bench, by_hand_leg));
        bench_samples_add(&floor, round_ns(&bench, in_stream_leg));
    }
    bench_pair_report(&pair, "gpu-event", "device", "latency_ns", "cudaStreamWaitEvent");
    bench_report((bench_key){"gpu-event", "device", "latency_ns", "one-stream"}, &floor);
    bench_samples_free(&floor);
    device_bench_close(&bench);
    run_with_events(is_smoke);
}
