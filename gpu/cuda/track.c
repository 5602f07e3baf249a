/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/cuda/track.h"

#include "gpu/cuda/context.h"
#include "gpu/cuda/cuda.h"
#include "gpu/cuda/driver.h"
#include "gpu/cuda/lost.h"

static CUresult open_native(fry_cuda_track *track, const char **call_p)
{
    *call_p = "cuStreamCreateWithPriority";
    int priority = fry_cuda_priority(track->device, FRY_CUDA_LEVEL_MAIN);
    CUresult result =
        fry_cuda.cuStreamCreateWithPriority(&track->native, CU_STREAM_NON_BLOCKING, priority);
    if (result != CUDA_SUCCESS)
        track->native = NULL;
    for (uint32_t i = 0; i < FRY_CUDA_PIECES && result == CUDA_SUCCESS; i++) {
        *call_p = "cuEventCreate";
        result = fry_cuda.cuEventCreate(&track->events[i], CU_EVENT_DISABLE_TIMING);
        if (result != CUDA_SUCCESS)
            track->events[i] = NULL;
    }
    return result;
}

static void close_native(fry_cuda_track *track)
{
    for (uint32_t i = 0; i < FRY_CUDA_PIECES; i++) {
        if (track->events[i] != NULL)
            (void)fry_cuda.cuEventDestroy(track->events[i]);
    }
    if (track->native != NULL)
        (void)fry_cuda.cuStreamDestroy(track->native);
}

fry_cuda_track *fry_cuda_track_open(fry_cuda_device *device, CUresult *result_p,
                                    const char **call_p)
{
    const fry_memory *memory = &device->backend->memory;
    fry_cuda_track *track = fry_alloc(memory, sizeof *track, _Alignof(fry_cuda_track));
    if (track == NULL) {
        *result_p = CUDA_ERROR_OUT_OF_MEMORY;
        *call_p = "the allocator";
        return NULL;
    }
    track->device = device;
    *call_p = "cuCtxPushCurrent";
    fry_cuda_scope scope;
    CUresult result = fry_cuda_enter(&scope, device->context);
    if (result == CUDA_SUCCESS)
        result = open_native(track, call_p);
    if (result != CUDA_SUCCESS)
        close_native(track);
    fry_cuda_leave(&scope);
    *result_p = result;
    if (result == CUDA_SUCCESS)
        return track;
    fry_free(memory, track, sizeof *track);
    return NULL;
}

void fry_cuda_track_close(fry_cuda_track *track)
{
    if (track == NULL)
        return;
    fry_cuda_scope scope;
    if (fry_cuda_lost(track->device) == CUDA_SUCCESS) {
        if (fry_cuda_enter(&scope, track->device->context) == CUDA_SUCCESS)
            close_native(track);
        fry_cuda_leave(&scope);
    }
    fry_free(&track->device->backend->memory, track, sizeof *track);
}

static CUdeviceptr address_of(const void *pointer)
{
    return (CUdeviceptr)(uintptr_t)pointer;
}

static CUresult copy_rows(const fry_cuda_track *track, char *pinned, char *first, size_t row_bytes,
                          size_t row_count, size_t pitch_bytes, bool is_to_device)
{
    CUDA_MEMCPY2D rows = {.WidthInBytes = row_bytes, .Height = row_count};
    if (is_to_device) {
        rows.srcMemoryType = CU_MEMORYTYPE_HOST;
        rows.srcHost = pinned;
        rows.srcPitch = row_bytes;
        rows.dstMemoryType = CU_MEMORYTYPE_DEVICE;
        rows.dstDevice = address_of(first);
        rows.dstPitch = pitch_bytes;
    } else {
        rows.srcMemoryType = CU_MEMORYTYPE_DEVICE;
        rows.srcDevice = address_of(first);
        rows.srcPitch = pitch_bytes;
        rows.dstMemoryType = CU_MEMORYTYPE_HOST;
        rows.dstHost = pinned;
        rows.dstPitch = row_bytes;
    }
    return fry_cuda.cuMemcpy2DAsync(&rows, track->native);
}

CUresult fry_cuda_track_copy(const fry_cuda_track *track, char *pinned, char *first,
                             size_t row_bytes, size_t row_count, size_t pitch_bytes,
                             bool is_to_device)
{
    if (row_count > 1 && pitch_bytes == row_bytes) {
        row_bytes *= row_count;
        row_count = 1;
    }
    if (row_count > 1 && pitch_bytes <= track->device->pitch_max_bytes)
        return copy_rows(track, pinned, first, row_bytes, row_count, pitch_bytes, is_to_device);
    CUresult result = CUDA_SUCCESS;
    for (size_t row = 0; row < row_count && result == CUDA_SUCCESS; row++) {
        CUdeviceptr here = address_of(pinned + row * row_bytes);
        CUdeviceptr there = address_of(first + row * pitch_bytes);
        result = fry_cuda.cuMemcpyAsync(is_to_device ? there : here, is_to_device ? here : there,
                                        row_bytes, track->native);
    }
    return result;
}
