/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/gpu_flight.h"

#include "bench/rivals/cuda.h"

#include <stdlib.h>

#define COPY_BYTES ((size_t)4096)

void bench_flight_open(bench_flight *flight, const ferry_engine_options *options,
                       ferry_completion completion, size_t count)
{
    *flight = (bench_flight){.count = count};
    flight->engine = bench_gpu_engine(options, completion, 0, &flight->device);
    flight->source = bench_pinned_buffer(flight->engine, count * COPY_BYTES);
    flight->target = bench_gpu_buffer(flight->device, count * COPY_BYTES);
    flight->copies = bench_alloc(count * sizeof(ferry_future *));
    flight->stream = cuda_stream_open(false);
    bench_stream_meet(flight->device, flight->stream);
    flight->flag = bench_flag_open();
}

void bench_flight_close(bench_flight *flight)
{
    ferry_buffer_release(flight->source);
    ferry_buffer_release(flight->target);
    bench_engine_close(flight->engine);
    cuda_stream_close(flight->stream);
    bench_flag_close(&flight->flag);
    free(flight->copies);
}

void bench_flight_begin(bench_flight *flight)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    bench_flag_hold(&flight->flag, flight->stream);
    flight->event = ferry_event_record(flight->device, flight->stream);
    options.after = &flight->event;
    options.after_count = 1;
    for (size_t i = 0; i < flight->count; i++)
        flight->copies[i] =
            ferry_copy(flight->engine, (ferry_span){flight->target, i * COPY_BYTES, COPY_BYTES},
                       (ferry_span){flight->source, i * COPY_BYTES, COPY_BYTES}, &options);
}

void bench_flight_end(bench_flight *flight)
{
    if (ferry_future_poll(flight->event) != FERRY_PENDING ||
        ferry_future_poll(flight->copies[0]) != FERRY_PENDING)
        bench_fail("what waits for a stream that stands is done");
    bench_flag_raise(&flight->flag);
    for (size_t i = 0; i < flight->count; i++)
        bench_finish(flight->copies[i]);
    bench_finish(flight->event);
}
