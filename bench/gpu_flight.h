/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers in flight that don't end until they may: they wait for a user's stream that stands. */
#ifndef FRY_BENCH_GPU_FLIGHT_H
#define FRY_BENCH_GPU_FLIGHT_H

#include "bench/gpu.h"

typedef struct bench_flight {
    ferry_engine *engine;
    ferry_device *device;
    ferry_buffer *source, *target; /* pinned, the GPU's */
    ferry_future *event;
    ferry_future **copies;
    size_t count;
    void *stream;
    bench_flag flag;
} bench_flight;

/* An engine of its own, for flights of `count` transfers. */
void bench_flight_open(bench_flight *flight, const ferry_engine_options *options,
                       ferry_completion completion, size_t count);
void bench_flight_close(bench_flight *flight);

void bench_flight_begin(bench_flight *flight);

/* Waits until they are done; fails the bench if one was before. */
void bench_flight_end(bench_flight *flight);

#endif
