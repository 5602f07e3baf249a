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

/* A driver that won't tell which one is current is asked no further question. */
CUresult fry_cuda_enter_to_issue(fry_cuda_scope *scope, CUcontext context)
{
    CUcontext current = NULL;
    *scope = (fry_cuda_scope){0};
    if (fry_cuda.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == context)
        return CUDA_SUCCESS;
    return fry_cuda_enter(scope, context);
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
