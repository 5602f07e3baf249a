/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/cuda/submit.h"

#include "gpu/cuda/context.h"
#include "gpu/cuda/driver.h"
#include "gpu/cuda/stream.h"

static CUresult submit_rows_singly(CUstream native, const fry_copy *copy, size_t *entries_p)
{
    size_t row_bytes = fry_copy_row_bytes(copy);
    for (size_t row = 0; row < copy->row_count; row++) {
        CUdeviceptr dst = (CUdeviceptr)(uintptr_t)copy->dst + row * copy->dst_pitch_bytes;
        CUdeviceptr src = (CUdeviceptr)(uintptr_t)copy->src + row * copy->src_pitch_bytes;
        CUresult result;
        FRY_CUDA_ISSUE(result, fry_cuda.cuMemcpyAsync(dst, src, row_bytes, native));
        if (result != CUDA_SUCCESS)
            return result;
        ++*entries_p;
    }
    return CUDA_SUCCESS;
}

/*
 * The driver refuses a pitch above the device's limit (2^31 - 1 bytes), and may refuse others
 * between two places on one device. Then few rows go one by one; many that far apart don't fit on a
 * device.
 */
static CUresult submit_rows(CUstream native, const fry_copy *copy, size_t pitch_max_bytes,
                            const char **call_p, size_t *entries_p)
{
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    *call_p = "cuMemcpy2DAsync";
    if (copy->dst_pitch_bytes <= pitch_max_bytes && copy->src_pitch_bytes <= pitch_max_bytes) {
        CUDA_MEMCPY2D rows = {
            .srcMemoryType = CU_MEMORYTYPE_UNIFIED,
            .srcDevice = (CUdeviceptr)(uintptr_t)copy->src,
            .srcPitch = copy->src_pitch_bytes,
            .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
            .dstDevice = (CUdeviceptr)(uintptr_t)copy->dst,
            .dstPitch = copy->dst_pitch_bytes,
            .WidthInBytes = fry_copy_row_bytes(copy),
            .Height = copy->row_count,
        };
        FRY_CUDA_ISSUE(result, fry_cuda.cuMemcpy2DAsync(&rows, native));
        *entries_p += result == CUDA_SUCCESS;
    }
    if (result != CUDA_ERROR_INVALID_VALUE || copy->row_count > FRY_CUDA_ROWS_SINGLY)
        return result;
    *call_p = "cuMemcpyAsync of a row";
    return submit_rows_singly(native, copy, entries_p);
}

CUresult fry_cuda_submit(CUstream native, const fry_copy *copy, size_t pitch_max_bytes,
                         const char **call_p, size_t *entries_p)
{
    if (copy->row_count != 1)
        return submit_rows(native, copy, pitch_max_bytes, call_p, entries_p);
    *call_p = "cuMemcpyAsync";
    CUresult result;
    FRY_CUDA_ISSUE(result, fry_cuda.cuMemcpyAsync((CUdeviceptr)(uintptr_t)copy->dst,
                                                  (CUdeviceptr)(uintptr_t)copy->src,
                                                  copy->size_bytes, native));
    *entries_p += result == CUDA_SUCCESS;
    return result;
}
