/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the demo does on GPUs itself: streams, kernels, and copies and events by hand, with the
 * driver's API, which is found at run time.
 *
 * Stage i is on GPU i modulo their number; stages that share a GPU are on logical devices of it.
 * Whatever fails is told on stderr, and the exit status returned; 0 is success. One thread at a
 * time.
 */
#ifndef DEMO_CUDA_H
#define DEMO_CUDA_H

#include <stddef.h>

#define DEMO_CUDA_NAME_BYTES 32

typedef struct demo_cuda demo_cuda;

/* The streams of a stage. */
typedef enum demo_cuda_stream {
    DEMO_CUDA_COMPUTE,
    DEMO_CUDA_FROM_HOST,
    DEMO_CUDA_TO_HOST,
    DEMO_CUDA_ACROSS, /* from another stage */
} demo_cuda_stream;

#define DEMO_CUDA_STREAM_COUNT 4

/* *cuda_p is to be closed either way. */
int demo_cuda_open(size_t stages, demo_cuda **cuda_p);

/* Waits for what it has begun. NULL is allowed. */
void demo_cuda_close(demo_cuda *cuda);

/* Ferry's name of the device that a stage is on. */
void demo_cuda_device_name(const demo_cuda *cuda, size_t stage, char name[DEMO_CUDA_NAME_BYTES]);

/* What the figures are of: "2 x NVIDIA H200". */
const char *demo_cuda_gpus(const demo_cuda *cuda);

/* The native stream, for ferry. */
void *demo_cuda_native_stream(const demo_cuda *cuda, size_t stage, demo_cuda_stream which);

/* ---- behind what stands in the stream; these don't wait ---- */

/* A layer on the stage's compute stream: as demo_layer_compute, bit for bit. */
int demo_cuda_layer(demo_cuda *cuda, size_t stage, size_t width, size_t rows, const void *weights,
                    const void *in, void *out);

int demo_cuda_copy(demo_cuda *cuda, size_t stage, demo_cuda_stream which, void *dst,
                   const void *src, size_t size_bytes);

/* An event of the stage's GPU, for its streams; it goes with `cuda`. */
int demo_cuda_event(demo_cuda *cuda, size_t stage, void **event_p);
int demo_cuda_record(demo_cuda *cuda, size_t stage, demo_cuda_stream which, void *event);
int demo_cuda_wait_event(demo_cuda *cuda, size_t stage, demo_cuda_stream which, void *event);

/* ---- these return when it is done ---- */

int demo_cuda_fill(demo_cuda *cuda, size_t stage, void *dst, unsigned char byte, size_t size_bytes);
int demo_cuda_put(demo_cuda *cuda, size_t stage, void *dst, const void *src, size_t size_bytes);

/* All that stands in a stream, and in the streams of all stages. */
int demo_cuda_finish(demo_cuda *cuda, size_t stage, demo_cuda_stream which);
int demo_cuda_finish_all(demo_cuda *cuda);

#endif
