/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/gpu.h"

#include "bench/rivals/cuda.h"

#include <stdlib.h>

#define FEW_PARKED_STREAMS 2

bench_rounds bench_rounds_begin(int least, int most, int64_t budget_ns)
{
    return (bench_rounds){.least = least, .most = most, .end_ns = bench_now_ns() + budget_ns};
}

bool bench_rounds_next(bench_rounds *rounds)
{
    bool is_due = rounds->done < rounds->least ||
                  (rounds->done < rounds->most && bench_now_ns() < rounds->end_ns);
    rounds->done += is_due;
    return is_due;
}

int bench_connections(void)
{
    const char *text = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    return text == NULL ? 8 : (int)strtol(text, NULL, 10);
}

static ferry_device *open_device(ferry_engine *engine, const char *name,
                                 ferry_completion completion, uint32_t parked_streams)
{
    ferry_device_options options = FERRY_DEVICE_OPTIONS_INIT;
    options.completion = completion;
    options.parked_streams = parked_streams;
    ferry_device *device = NULL;
    ferry_error *error = NULL;
    ferry_status status = ferry_device_open(engine, name, &options, &device, &error);
    if (status != FERRY_OK)
        bench_fail("ferry_device_open: %s: %s", ferry_status_name(status), error->message);
    return device;
}

ferry_engine *bench_gpu_engine(const ferry_engine_options *options, ferry_completion completion,
                               uint32_t parked_streams, ferry_device **device_p)
{
    ferry_engine *engine = bench_engine_open(options);
    *device_p = open_device(engine, "cuda:0", completion, parked_streams);
    return engine;
}

ferry_device *bench_logical_device(ferry_engine *engine, const char *name)
{
    return open_device(engine, name, FERRY_COMPLETION_DEFAULT, FEW_PARKED_STREAMS);
}

const char *bench_completion_name(ferry_completion completion)
{
    return completion == FERRY_COMPLETION_EVENTS ? "events" : "words";
}

static ferry_buffer *alloc_buffer(ferry_device *device, size_t size_bytes, ferry_memory kind)
{
    ferry_buffer *buffer = NULL;
    bench_check(ferry_buffer_alloc_kind(device, size_bytes, kind, &buffer),
                "ferry_buffer_alloc_kind");
    return buffer;
}

ferry_buffer *bench_gpu_buffer(ferry_device *device, size_t size_bytes)
{
    return alloc_buffer(device, size_bytes, FERRY_MEMORY_DEFAULT);
}

ferry_buffer *bench_pinned_buffer(ferry_engine *engine, size_t size_bytes)
{
    return alloc_buffer(bench_device(engine, "host:0"), size_bytes, FERRY_MEMORY_PINNED);
}

void bench_stream_meet(ferry_device *device, void *stream)
{
    bench_finish(ferry_event_record(device, stream));
}

bool bench_stream_wait(ferry_future *future, ferry_device *device, void *stream)
{
    bool is_early = ferry_future_poll(future) == FERRY_PENDING;
    ferry_status status = ferry_future_stream_wait(future, device, stream);
    if (status == FERRY_E_NOT_ISSUED) {
        bench_finish(ferry_future_issued(future));
        is_early = ferry_future_poll(future) == FERRY_PENDING;
        status = ferry_future_stream_wait(future, device, stream);
    }
    bench_check(status, "ferry_future_stream_wait");
    return is_early;
}

bench_pair bench_pair_begin(bool larger_is_better)
{
    bench_samples none = {.larger_is_better = larger_is_better};
    return (bench_pair){none, none, none};
}

void bench_pair_add(bench_pair *pair, double ferry, double rival)
{
    bench_samples_add(&pair->ferry, ferry);
    bench_samples_add(&pair->rival, rival);
    bench_samples_add(&pair->ratio, ferry / rival);
}

void bench_pair_report(bench_pair *pair, const char *bench, const char *shape, const char *metric,
                       const char *rival)
{
    bench_report((bench_key){bench, shape, metric, ""}, &pair->ferry);
    bench_report((bench_key){bench, shape, metric, rival}, &pair->rival);
    bench_report((bench_key){bench, shape, "ratio", rival}, &pair->ratio);
    bench_samples_free(&pair->ferry);
    bench_samples_free(&pair->rival);
    bench_samples_free(&pair->ratio);
}

bench_flag bench_flag_open(void)
{
    return (bench_flag){.word = cuda_pinned_alloc(sizeof(uint32_t))};
}

void bench_flag_close(bench_flag *flag)
{
    cuda_pinned_free(flag->word);
}

void bench_flag_hold(bench_flag *flag, void *stream)
{
    cuda_wait_flag(flag->word, ++flag->value, stream);
}

void bench_flag_raise(bench_flag *flag)
{
    __atomic_store_n(flag->word, flag->value, __ATOMIC_RELEASE);
}
