/* SPDX-License-Identifier: Apache-2.0 */
/* What ferry_bench_gpu's cases share. Everything is on GPU 0; all of it fails the bench on error.
 */
#ifndef FRY_BENCH_GPU_H
#define FRY_BENCH_GPU_H

#include "bench/bench.h"

/*
 * The cases. `is_smoke`: sizes and rounds that show that a case works, in a second on the emulator;
 * its figures say nothing. Otherwise each keeps to a time of its own, so that all of them take some
 * 75 s on an H200: three runs stay within four minutes.
 */
void bench_gpu_copy(bool is_smoke);
void bench_gpu_event(bool is_smoke);
void bench_gpu_calls(bool is_smoke);
/* Belongs to `gpu-event`. */
void bench_gpu_event_device(bool is_smoke);
void bench_gpu_chain(bool is_smoke);
void bench_gpu_batch(bool is_smoke);
void bench_gpu_plan(bool is_smoke);
void bench_gpu_pipeline(bool is_smoke);
void bench_gpu_poll(bool is_smoke);
/* Belongs to `gpu-poll`. */
void bench_gpu_poll_launches(bool is_smoke);
void bench_gpu_hol(bool is_smoke);

/* Rounds until `most` are done or, with `least` done, the time is over. */
typedef struct bench_rounds {
    int done;
    int least;
    int most;
    int64_t end_ns;
} bench_rounds;

bench_rounds bench_rounds_begin(int least, int most, int64_t budget_ns);

/* Whether another round is due; counts it. */
bool bench_rounds_next(bench_rounds *rounds);

/*
 * How many of a process's streams the driver keeps apart (CUDA_DEVICE_MAX_CONNECTIONS in the
 * environment; 8 by default, at most 32). Those beyond share, and stand behind each other's work.
 * ferry_bench_gpu asks for 32: a case that holds one stream and measures another must not meet that
 * by chance. gpu-hol is there to meet it, and is run with 8 too.
 */
#define BENCH_CONNECTIONS 32
int bench_connections(void);

/*
 * An engine, and cuda:0 on it whose progress is watched in that way.
 *  parked_streams  0: the default; fewer where a case has several engines at once
 */
ferry_engine *bench_gpu_engine(const ferry_engine_options *options, ferry_completion completion,
                               uint32_t parked_streams, ferry_device **device_p);

/* A logical device with few parked streams. */
ferry_device *bench_logical_device(ferry_engine *engine, const char *name);

/* "words" or "events". */
const char *bench_completion_name(ferry_completion completion);

ferry_buffer *bench_gpu_buffer(ferry_device *device, size_t size_bytes);

/* Page-locked memory on host:0. A GPU is open. */
ferry_buffer *bench_pinned_buffer(ferry_engine *engine, size_t size_bytes);

/*
 * Has ferry meet a stream of the user's: what it makes for one at first sight may wait for all that
 * runs, so it is made before anything holds the stream.
 */
void bench_stream_meet(ferry_device *device, void *stream);

/* A stream of the user's waits for an operation; waits until it is issued, if need be. Returns
 * false if it had resolved before. */
bool bench_stream_wait(ferry_future *future, ferry_device *device, void *stream);

/* Ferry beside one rival, in rounds of both. */
typedef struct bench_pair {
    bench_samples ferry;
    bench_samples rival;
    bench_samples ratio; /* of neighbours in time: ferry's over the rival's */
} bench_pair;

bench_pair bench_pair_begin(bool larger_is_better);
void bench_pair_add(bench_pair *pair, double ferry, double rival);

/* Prints three rows and frees the samples. */
void bench_pair_report(bench_pair *pair, const char *bench, const char *shape, const char *metric,
                       const char *rival);

/* A flag in pinned memory that holds streams of the user's (cuda_wait_flag). */
typedef struct bench_flag {
    uint32_t *word;
    uint32_t value; /* of the newest hold */
} bench_flag;

bench_flag bench_flag_open(void);
void bench_flag_close(bench_flag *flag);

/* What the stream is given from now on stands until bench_flag_raise. One hold at a time. */
void bench_flag_hold(bench_flag *flag, void *stream);
void bench_flag_raise(bench_flag *flag);

#endif
