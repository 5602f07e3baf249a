/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/cuda_context.h"

/*
 * Both calls touch nothing but the thread. Who is refused one of them tries once more: to go on
 * without it would be to lose a device, or what can't be given back, for next to nothing.
 */
CUresult fry_cuda_relax(fry_cuda_scope *scope)
{
    *scope = (fry_cuda_scope){.mode = CU_STREAM_CAPTURE_MODE_RELAXED};
    CUresult result = fry_cuda.cuThreadExchangeStreamCaptureMode(&scope->mode);
    if (result != CUDA_SUCCESS && fry_cuda_is_refusal(result))
        result = fry_cuda.cuThreadExchangeStreamCaptureMode(&scope->mode);
    scope->has_mode = result == CUDA_SUCCESS;
    return result;
}

CUresult fry_cuda_enter(fry_cuda_scope *scope, CUcontext context)
{
    CUresult result = fry_cuda_relax(scope);
    if (result != CUDA_SUCCESS)
        return result;
    result = fry_cuda.cuCtxPushCurrent(context);
    if (result != CUDA_SUCCESS && fry_cuda_is_refusal(result))
        result = fry_cuda.cuCtxPushCurrent(context);
    scope->has_context = result == CUDA_SUCCESS;
    return result;
}

void fry_cuda_leave(fry_cuda_scope *scope)
{
    CUcontext left;
    if (scope->has_context)
        (void)fry_cuda.cuCtxPopCurrent(&left);
    if (scope->has_mode)
        (void)fry_cuda.cuThreadExchangeStreamCaptureMode(&scope->mode);
    *scope = (fry_cuda_scope){0};
}
