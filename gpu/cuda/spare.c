/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/cuda/spare.h"

#include "gpu/cuda/context.h"
#include "gpu/cuda/cuda.h"
#include "gpu/cuda/stream.h"
#include "gpu/cuda/word.h"
#include "gpu/device.h"

static fry_cuda_stream *place(fry_cuda_device *device, fry_cuda_direction direction, uint32_t used)
{
    return used == 0 ? &device->streams[direction]
                     : &fry_cuda_spares(device)[direction * FRY_CUDA_SPARE_COUNT + used - 1];
}

/* Pairs with replace: a spare that is found has been made. */
fry_stream *fry_cuda_main(fry_cuda_device *device, fry_cuda_direction direction)
{
    return &place(device, direction, fry_load_acquire(&device->spares_used[direction]))->stream;
}

/* Puts a spare in the stream's place; false: copies go on failing. With the baton. */
static bool replace(fry_cuda_device *device, const fry_cuda_stream *stream)
{
    for (uint32_t i = 0; i < FRY_CUDA_DIRECTIONS; i++) {
        uint32_t used = device->spares_used[i];
        if (place(device, (fry_cuda_direction)i, used) != stream)
            continue;
        if (used == FRY_CUDA_SPARE_COUNT)
            return false;
        fry_cuda_stream *spare = place(device, (fry_cuda_direction)i, used + 1);
        fry_cuda_scope scope;
        CUresult result = fry_cuda_enter(&scope, device->context);
        if (result == CUDA_SUCCESS)
            result =
                fry_cuda_stream_make_native(spare, fry_cuda_priority(device, FRY_CUDA_LEVEL_MAIN));
        fry_cuda_leave(&scope);
        if (result != CUDA_SUCCESS)
            return false;
        spare->stream.kind = FRY_STREAM_MAIN;
        fry_store_release(&device->spares_used[i], used + 1);
        return true;
    }
    return false;
}

/*
 * The latest wait for a stream speaks for earlier ones. Nothing is stuck if the awaited event was
 * seen to fire, or the operation that waited has fired. (A lost device's last word may be missing
 * though its event fired; then a stream is given up that would have gone on.)
 */
static const fry_cuda_device *stuck_by(const fry_cuda_stream *stream)
{
    for (size_t i = 0; i < FRY_CUDA_WAITED; i++) {
        const fry_stream *other = stream->waited[i].stream;
        if (other == NULL || stream->waited[i].by <= stream->fired)
            continue;
        const fry_cuda_device *lost = fry_cuda_dead_by(other);
        if (lost != NULL &&
            fry_cuda_stream_peek(fry_cuda_stream_of(other)) < stream->waited[i].sequence)
            return lost;
    }
    return NULL;
}

void fry_cuda_sever(fry_cuda_stream *stream)
{
    fry_cuda_device *device = fry_cuda_device_of(stream->stream.device);
    if (fry_load_relaxed(&device->backend->has_lost) == 0 || stream->severed_by != NULL)
        return;
    const fry_cuda_device *lost = stuck_by(stream);
    if (lost == NULL)
        return;
    fry_store_release(&stream->severed_by, lost);
    bool is_replaced = stream->stream.kind == FRY_STREAM_MAIN && replace(device, stream);
    fry_log_line(device->backend->options.log, FERRY_LOG_ERROR,
                 "%s: a stream waits for ever for %s, which is lost%s", device->device.name,
                 lost->device.name, is_replaced ? "; another stream takes its place" : "");
}
