/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu-hol: one copy waits for a user's kernel, and another, which is ready, comes after it. How
 * long until the ready one is done, small as it is (64 KiB): on the host from its submit, spinning;
 * on the device between two events of another stream of the user's, the second behind the copy. The
 * kernel runs until that is known. `alone`: without the copy that waits. Its rival is what most
 * programs do: one stream for copies, with a cudaStreamWaitEvent in front of the first; so the
 * ready one waits for the kernel too, which runs for 100 ms then.
 */
#include "bench/gpu.h"
#include "bench/rivals/cuda.h"

#include <stdio.h>

#define COPY_BYTES ((size_t)65536)
#define KERNEL_NS INT64_C(100000000)
#define WAIT_SPIN_NS INT64_C(1000000000)

typedef struct hol_bench {
    ferry_engine *engine;
    ferry_device *device;
    ferry_buffer *blocked_source, *blocked_target, *source, *target;
    void *user, *other; /* streams of the user's */
    void *copies;       /* the rival's */
    void *event, *start, *end;
    bench_samples host, device_time;
} hol_bench;

static void ferry_round(hol_bench *bench, bool is_beside, bool is_counted)
{
    ferry_future *event = NULL;
    ferry_future *blocked = NULL;
    if (is_beside) {
        ferry_op_options options = FERRY_OP_OPTIONS_INIT;
        cuda_spin(KERNEL_NS, bench->user);
        event = ferry_event_record(bench->device, bench->user);
        options.after = &event;
        options.after_count = 1;
        blocked = ferry_copy(bench->engine, ferry_buffer_span(bench->blocked_target),
                             ferry_buffer_span(bench->blocked_source), &options);
    }
    cuda_event_record(bench->start, bench->other);
    int64_t begin_ns = bench_now_ns();
    ferry_future *ready = ferry_copy(bench->engine, ferry_buffer_span(bench->target),
                                     ferry_buffer_span(bench->source), NULL);
    (void)bench_stream_wait(ready, bench->device, bench->other);
    cuda_event_record(bench->end, bench->other);
    bench_wait(ready);
    double host_ns = (double)(bench_now_ns() - begin_ns);
    cuda_stream_synchronize(bench->other);
    if (is_counted) {
        bench_samples_add(&bench->host, host_ns);
        bench_samples_add(&bench->device_time, cuda_event_elapsed_ns(bench->start, bench->end));
    }
    ferry_future_release(ready);
    if (is_beside) {
        bench_finish(blocked);
        ferry_future_release(event);
    }
}

/* One stream for copies. */
static void rival_round(hol_bench *bench, bool is_beside, bool is_counted)
{
    if (is_beside) {
        cuda_spin(KERNEL_NS, bench->user);
        cuda_event_record(bench->event, bench->user);
        cuda_stream_wait(bench->copies, bench->event);
        cuda_copy(ferry_buffer_data(bench->blocked_target),
                  ferry_buffer_data(bench->blocked_source), COPY_BYTES, bench->copies);
    }
    int64_t begin_ns = bench_now_ns();
    cuda_copy(ferry_buffer_data(bench->target), ferry_buffer_data(bench->source), COPY_BYTES,
              bench->copies);
    cuda_stream_synchronize(bench->copies);
    if (is_counted)
        bench_samples_add(&bench->host, (double)(bench_now_ns() - begin_ns));
}

static void run(hol_bench *bench, const char *direction, const char *beside, const char *rival,
                int rounds)
{
    char shape[48];
    char connections[16] = "";
    if (bench_connections() != BENCH_CONNECTIONS)
        (void)snprintf(connections, sizeof connections, "-%d", bench_connections());
    bench->host = (bench_samples){0};
    bench->device_time = (bench_samples){0};
    bool is_beside = beside[0] == 'b';
    for (int i = -1; i < rounds; i++)
        (rival[0] == '\0' ? ferry_round : rival_round)(bench, is_beside, i >= 0);
    (void)snprintf(shape, sizeof shape, "%s-%s%s", direction, beside, connections);
    bench_report((bench_key){"gpu-hol", shape, "latency_ns", rival}, &bench->host);
    (void)snprintf(shape, sizeof shape, "%s-%s-device%s", direction, beside, connections);
    if (bench->device_time.count > 0)
        bench_report((bench_key){"gpu-hol", shape, "latency_ns", rival}, &bench->device_time);
    bench_samples_free(&bench->host);
    bench_samples_free(&bench->device_time);
}

void bench_gpu_hol(bool is_smoke)
{
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.wait_spin_ns = WAIT_SPIN_NS;
    hol_bench bench = {0};
    bench.engine = bench_gpu_engine(&options, FERRY_COMPLETION_DEFAULT, 0, &bench.device);
    bench.user = cuda_stream_open(false);
    bench.other = cuda_stream_open(false);
    bench_stream_meet(bench.device, bench.user);
    bench_stream_meet(bench.device, bench.other);
    bench.copies = cuda_stream_open(true);
    bench.event = cuda_event_open(CUDA_EVENT_PLAIN);
    bench.start = cuda_event_open(CUDA_EVENT_TIMED);
    bench.end = cuda_event_open(CUDA_EVENT_TIMED);
    ferry_buffer *pinned[2], *on_gpu[4];
    for (size_t i = 0; i < 2; i++)
        pinned[i] = bench_pinned_buffer(bench.engine, COPY_BYTES);
    for (size_t i = 0; i < 4; i++)
        on_gpu[i] = bench_gpu_buffer(bench.device, COPY_BYTES);
    bench.target = on_gpu[0];
    bench.blocked_target = on_gpu[1];
    for (int is_d2d = 0; is_d2d < 2; is_d2d++) {
        const char *direction = is_d2d ? "d2d" : "h2d";
        bench.source = is_d2d ? on_gpu[2] : pinned[0];
        bench.blocked_source = is_d2d ? on_gpu[3] : pinned[1];
        run(&bench, direction, "alone", "", is_smoke ? 3 : 50);
        run(&bench, direction, "beside", "", is_smoke ? 1 : 7);
        run(&bench, direction, "beside", "one-stream", is_smoke ? 1 : 3);
    }
    for (size_t i = 0; i < 2; i++)
        ferry_buffer_release(pinned[i]);
    for (size_t i = 0; i < 4; i++)
        ferry_buffer_release(on_gpu[i]);
    cuda_event_close(bench.event);
    cuda_event_close(bench.start);
    cuda_event_close(bench.end);
    cuda_stream_close(bench.copies);
    cuda_stream_close(bench.other);
    cuda_stream_close(bench.user);
    bench_engine_close(bench.engine);
}
