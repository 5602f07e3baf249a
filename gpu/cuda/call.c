/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/cuda/call.h"

#include "gpu/cuda/cuda.h"
#include "gpu/cuda/lost.h"

/* The status of entering a scope; a failure loses the device. */
static ferry_status entered(fry_cuda_device *device, CUresult result, fry_fault *fault)
{
    if (result == CUDA_SUCCESS)
        return FERRY_OK;
    fry_cuda_lose(device, result, "cuCtxPushCurrent");
    return fry_cuda_tell_lost(device, fault);
}

ferry_status fry_cuda_call_enter_to_issue(fry_cuda_device *device, CUstream native,
                                          fry_cuda_scope *scope, fry_fault *fault)
{
    bool is_named = native != NULL && native != CU_STREAM_LEGACY && native != CU_STREAM_PER_THREAD;
    *scope = (fry_cuda_scope){0};
    if (fry_cuda_lost(device) != CUDA_SUCCESS)
        return fry_cuda_tell_lost(device, fault);
    return entered(device, fry_cuda_enter_to_issue(scope, device->context, is_named), fault);
}

ferry_status fry_cuda_call_enter(fry_cuda_device *device, fry_cuda_scope *scope, fry_fault *fault)
{
    *scope = (fry_cuda_scope){0};
    if (fry_cuda_lost(device) != CUDA_SUCCESS)
        return fry_cuda_tell_lost(device, fault);
    return entered(device, fry_cuda_enter(scope, device->context), fault);
}

static bool is_of_capture(CUresult result)
{
    return result >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
           result <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
}

ferry_status fry_cuda_call_refuse(fry_cuda_device *device, CUresult result, const char *call,
                                  fry_fault *fault)
{
    if (fry_cuda_is_fatal(device, result, call))
        return fry_cuda_tell_lost(device, fault);
    ferry_status status = FERRY_E_DEVICE;
    if (is_of_capture(result))
        status = FERRY_E_CAPTURE;
    else if (result == CUDA_ERROR_INVALID_HANDLE || result == CUDA_ERROR_INVALID_VALUE ||
             result == CUDA_ERROR_INVALID_CONTEXT || result == CUDA_ERROR_CONTEXT_IS_DESTROYED)
        status = FERRY_E_INVALID;
    else if (result == CUDA_ERROR_OUT_OF_MEMORY)
        status = FERRY_E_NO_MEMORY;
    return fry_cuda_tell(fault, status, result, call);
}
