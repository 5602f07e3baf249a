/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spare streams. A stream that waits for an event of a lost device waits for ever, and the wait
 * can't be taken back. The stream's own device goes on: operations in the stream fail with the
 * other device's error and are never quiet. If it is a main stream, a spare one, of which each
 * direction has a few, takes its place. Copies for which the engine had chosen the old stream
 * fail too.
 */
#ifndef FRY_GPU_CUDA_SPARE_H
#define FRY_GPU_CUDA_SPARE_H

#include "gpu/cuda/cuda.h"
#include "gpu/cuda/lost.h"

/* The lost device because of which nothing on the stream will fire any more; NULL: none. */
static inline const fry_cuda_device *fry_cuda_dead_by(const fry_stream *stream)
{
    const fry_cuda_device *device = fry_cuda_device_of(stream->device);
    if (fry_cuda_lost(device) != CUDA_SUCCESS)
        return device;
    return fry_load_acquire(&fry_cuda_stream_of(stream)->severed_by);
}

/* Checks whether a stream with an old head waits for ever, and if so replaces it. */
void fry_cuda_sever(fry_cuda_stream *stream);

/* The stream of a direction that is in use now. Any thread. */
fry_stream *fry_cuda_main(fry_cuda_device *device, fry_cuda_direction direction);

#endif
