/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu-chain: dependent copies that go to and fro between two logical devices of one GPU, each of
 * which has two buffers that take turns; beside the same by hand, with two streams, pooled events
 * and a cudaStreamWaitEvent before each copy.
 *
 * 100-device   a hop on the device, between events of a user's stream that the chain begins behind
 *              and that waits for its end; less what its bytes take at the bandwidth of one large
 *              copy. So what is left is the gap between two copies. Of 100 hops that are submitted
 *              while the device stands: an H200 is faster than any thread that submits to it
 * 1000-host    CPU time of the whole process for a hop, from the first submit to the end seen, with
 *              all that wait asleep
 * 100-post     time of the submitting calls for a hop, of 100 while the device stands: all of them
 *              fit into the streams, by hand too, so none waits for room
 */
#include "bench/gpu.h"
#include "bench/rivals/cuda.h"

#include <time.h>

#define HOPS 1000
#define HELD_HOPS 100
#define COPY_BYTES ((size_t)65536)
#define LARGE_BYTES ((size_t)64 << 20)
#define BUFFERS 4 /* two of each logical device */

typedef struct chain_bench {
    ferry_engine *engine;
    ferry_device *devices[2];
    ferry_buffer *buffers[BUFFERS];
    void *stream;     /* the user's, which the chain begins and ends with */
    void *streams[2]; /* by hand */
    void *events[HOPS];
    void *start, *begun, *end;
    void *blocking; /* who waits for it sleeps */
    bench_flag flag;
} chain_bench;

/* Where hop i leaves its bytes: the devices alternate, and so do the buffers of each. */
static ferry_buffer *buffer_of(const chain_bench *bench, size_t hop)
{
    return bench->buffers[hop % 2 * 2 + hop / 2 % 2];
}

/* What to measure, of one way. */
typedef struct chain_figures {
    double device_ns; /* a hop, as the next two */
    double post_ns;
    double cpu_ns;
} chain_figures;

static double cpu_now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* Submits the hops; what follows on the user's stream follows the last. */
typedef void (*chain_submit)(chain_bench *bench, size_t hops, int64_t *posted_ns);

static void ferry_submit(chain_bench *bench, size_t hops, int64_t *posted_ns)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    ferry_future *previous = ferry_event_record(bench->devices[0], bench->stream);
    options.after = &previous;
    options.after_count = 1;
    for (size_t i = 1; i <= hops; i++) {
        ferry_future *copy = ferry_copy(bench->engine, ferry_buffer_span(buffer_of(bench, i)),
                                        ferry_buffer_span(buffer_of(bench, i - 1)), &options);
        ferry_future_release(previous);
        previous = copy;
    }
    *posted_ns = bench_now_ns();
    (void)bench_stream_wait(previous, bench->devices[0], bench->stream);
    ferry_future_release(previous);
}

static void by_hand_submit(chain_bench *bench, size_t hops, int64_t *posted_ns)
{
    void *previous = bench->begun;
    cuda_event_record(bench->begun, bench->stream);
    for (size_t i = 1; i <= hops; i++) {
        void *stream = bench->streams[i % 2];
        cuda_stream_wait(stream, previous);
        cuda_copy(ferry_buffer_data(buffer_of(bench, i)),
                  ferry_buffer_data(buffer_of(bench, i - 1)), COPY_BYTES, stream);
        previous = bench->events[i - 1];
        cuda_event_record(previous, stream);
    }
    *posted_ns = bench_now_ns();
    cuda_stream_wait(bench->stream, previous);
}

static chain_figures chain_round(chain_bench *bench, chain_submit submit, size_t hops, bool is_held)
{
    if (is_held)
        bench_flag_hold(&bench->flag, bench->stream);
    int64_t posted_ns;
    double begin_cpu_ns = cpu_now_ns();
    cuda_event_record(bench->start, bench->stream);
    int64_t begin_ns = bench_now_ns();
    submit(bench, hops, &posted_ns);
    cuda_event_record(bench->end, bench->stream);
    cuda_event_record(bench->blocking, bench->stream);
    if (is_held)
        bench_flag_raise(&bench->flag);
    cuda_event_synchronize(bench->blocking);
    double cpu_ns = cpu_now_ns() - begin_cpu_ns;
    bench_finish(ferry_engine_drain(bench->engine));
    double count = (double)hops;
    return (chain_figures){
        .device_ns = cuda_event_elapsed_ns(bench->start, bench->end) / count,
        .post_ns = (double)(posted_ns - begin_ns) / count,
        .cpu_ns = cpu_ns / count,
    };
}

/* What a hop's bytes take at the bandwidth of one large copy. */
static double transfer_ns(chain_bench *bench)
{
    bench_samples samples = {0};
    void *from = cuda_memory_alloc(LARGE_BYTES);
    void *to = cuda_memory_alloc(LARGE_BYTES);
    cuda_pattern_fill(from, LARGE_BYTES, 1, bench->stream);
    for (int i = 0; i < 11; i++) {
        cuda_event_record(bench->start, bench->stream);
        cuda_copy(to, from, LARGE_BYTES, bench->stream);
        cuda_event_record(bench->end, bench->stream);
        cuda_stream_synchronize(bench->stream);
        bench_samples_add(&samples, cuda_event_elapsed_ns(bench->start, bench->end));
    }
    double result = bench_samples_quantile(&samples, 0.5) * COPY_BYTES / (double)LARGE_BYTES;
    bench_samples_free(&samples);
    cuda_memory_free(from);
    cuda_memory_free(to);
    return result;
}

/* The bytes of the head come to the end of the chain. */
static void check_chain(chain_bench *bench, chain_submit submit, uint64_t seed)
{
    cuda_pattern_fill(ferry_buffer_data(buffer_of(bench, 0)), COPY_BYTES, seed, bench->stream);
    (void)chain_round(bench, submit, HOPS, false);
    if (cuda_pattern_errors(ferry_buffer_data(buffer_of(bench, HOPS)), COPY_BYTES, seed) != 0)
        bench_fail("gpu-chain: the bytes did not come through");
}

static void chain_bench_open(chain_bench *bench)
{
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.wait_spin_ns = -1;
    bench->engine = bench_gpu_engine(&options, FERRY_COMPLETION_DEFAULT, 0, &bench->devices[0]);
    bench->devices[1] = bench_logical_device(bench->engine, "cuda:0/1");
    for (size_t i = 0; i < BUFFERS; i++)
        bench->buffers[i] = bench_gpu_buffer(bench->devices[i / 2], COPY_BYTES);
    bench->stream = cuda_stream_open(false);
    for (size_t i = 0; i < 2; i++)
        bench->streams[i] = cuda_stream_open(true);
    for (size_t i = 0; i < HOPS; i++)
        bench->events[i] = cuda_event_open(CUDA_EVENT_PLAIN);
    bench->begun = cuda_event_open(CUDA_EVENT_PLAIN);
    bench->start = cuda_event_open(CUDA_EVENT_TIMED);
    bench->end = cuda_event_open(CUDA_EVENT_TIMED);
    bench->blocking = cuda_event_open(CUDA_EVENT_BLOCKING);
    bench->flag = bench_flag_open();
}

static void chain_bench_close(chain_bench *bench)
{
    cuda_synchronize();
    bench_flag_close(&bench->flag);
    cuda_event_close(bench->blocking);
    cuda_event_close(bench->end);
    cuda_event_close(bench->start);
    cuda_event_close(bench->begun);
    for (size_t i = 0; i < HOPS; i++)
        cuda_event_close(bench->events[i]);
    for (size_t i = 0; i < 2; i++)
        cuda_stream_close(bench->streams[i]);
    cuda_stream_close(bench->stream);
    for (size_t i = 0; i < BUFFERS; i++)
        ferry_buffer_release(bench->buffers[i]);
    bench_engine_close(bench->engine);
}

static void run_whole(chain_bench *bench, bool is_smoke)
{
    bench_pair host = bench_pair_begin(false);
    bench_rounds rounds =
        is_smoke ? bench_rounds_begin(2, 2, 0) : bench_rounds_begin(10, 200, INT64_C(3000000000));
    while (bench_rounds_next(&rounds)) {
        chain_figures ferry = chain_round(bench, ferry_submit, HOPS, false);
        chain_figures by_hand = chain_round(bench, by_hand_submit, HOPS, false);
        bench_pair_add(&host, ferry.cpu_ns, by_hand.cpu_ns);
    }
    bench_pair_report(&host, "gpu-chain", "1000-host", "latency_ns", "by-hand");
}

static void run_held(chain_bench *bench, double bytes_ns, bool is_smoke)
{
    bench_pair device = bench_pair_begin(false);
    bench_pair post = bench_pair_begin(false);
    bench_rounds rounds =
        is_smoke ? bench_rounds_begin(2, 2, 0) : bench_rounds_begin(20, 1000, INT64_C(1500000000));
    while (bench_rounds_next(&rounds)) {
        chain_figures ferry = chain_round(bench, ferry_submit, HELD_HOPS, true);
        chain_figures by_hand = chain_round(bench, by_hand_submit, HELD_HOPS, true);
        bench_pair_add(&device, ferry.device_ns - bytes_ns, by_hand.device_ns - bytes_ns);
        bench_pair_add(&post, ferry.post_ns, by_hand.post_ns);
    }
    bench_pair_report(&device, "gpu-chain", "100-device", "latency_ns", "by-hand");
    bench_pair_report(&post, "gpu-chain", "100-post", "latency_ns", "by-hand");
}

void bench_gpu_chain(bool is_smoke)
{
    chain_bench bench = {0};
    chain_bench_open(&bench);
    double bytes_ns = transfer_ns(&bench);
    check_chain(&bench, ferry_submit, 1);
    check_chain(&bench, by_hand_submit, 2);
    run_whole(&bench, is_smoke);
    run_held(&bench, bytes_ns, is_smoke);
    chain_bench_close(&bench);
}
