/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream that waits for an event of a device that is lost stands for ever, and a wait can't be
 * taken back. Its own device goes on: what stands in the stream fails with the other's error and is
 * never quiet; a main stream's place is taken by a spare one, of which each direction has a few.
 * What the engine had meant for the old one fails too.
 */
#ifndef FRY_GPU_CUDA_SPARE_H
#define FRY_GPU_CUDA_SPARE_H

#include "gpu/cuda.h"

/* The lost device because of which nothing on the stream will fire any more; NULL: it may. */
static inline const fry_cuda_device *fry_cuda_dead_by(const fry_stream *stream)
{
    const fry_cuda_device *device = fry_cuda_device_of(stream->device);
    if (fry_cuda_lost(device) != CUDA_SUCCESS)
        return device;
    return fry_load_acquire(&fry_cuda_stream_of(stream)->severed_by);
}

/* Looks whether a stream whose head has stayed waits for ever, and then sees to it. */
void fry_cuda_sever(fry_cuda_stream *stream);

/* The stream of a direction that is in use. Any thread. */
fry_stream *fry_cuda_main(fry_cuda_device *device, fry_cuda_direction direction);

#endif
