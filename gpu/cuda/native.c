/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/cuda/native.h"

#include "gpu/cuda/context.h"
#include "gpu/cuda/cuda.h"
#include "gpu/cuda/driver.h"
#include "gpu/cuda/lost.h"

bool fry_cuda_native_enter(fry_device *base)
{
    const fry_cuda_device *device = fry_cuda_device_of(base);
    /* In any other mode what the library does might break a capture of the program's. */
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    return fry_cuda_lost(device) == CUDA_SUCCESS &&
           fry_cuda.cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS &&
           fry_cuda.cuCtxSetCurrent(device->context) == CUDA_SUCCESS;
}

ferry_status fry_cuda_native_stream_open(fry_device *base, void **stream_p, fry_fault *fault)
{
    fry_cuda_device *device = fry_cuda_device_of(base);
    if (fry_cuda_lost(device) != CUDA_SUCCESS)
        return fry_cuda_tell_lost(device, fault);
    fry_cuda_scope scope;
    CUstream stream = NULL;
    const char *call = "cuCtxPushCurrent";
    CUresult result = fry_cuda_enter(&scope, device->context);
    if (result == CUDA_SUCCESS) {
        call = "cuStreamCreateWithPriority";
        result = fry_cuda.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING,
                                                     device->highest_priority);
    }
    fry_cuda_leave(&scope);
    if (result != CUDA_SUCCESS)
        return fry_cuda_tell(
            fault, result == CUDA_ERROR_OUT_OF_MEMORY ? FERRY_E_NO_MEMORY : FERRY_E_DEVICE, result,
            call);
    *stream_p = stream;
    return FERRY_OK;
}

bool fry_cuda_native_stream_is_idle(fry_device *base, void *stream)
{
    fry_cuda_device *device = fry_cuda_device_of(base);
    if (fry_cuda_lost(device) != CUDA_SUCCESS)
        return true;
    fry_cuda_scope scope;
    CUresult result = fry_cuda_enter_to_ask(&scope, device->context);
    if (result == CUDA_SUCCESS)
        FRY_CUDA_ISSUE(result, fry_cuda.cuStreamQuery(stream));
    fry_cuda_leave(&scope);
    return result != CUDA_ERROR_NOT_READY;
}

void fry_cuda_native_stream_close(fry_device *base, void *stream)
{
    const fry_cuda_device *device = fry_cuda_device_of(base);
    fry_cuda_scope scope;
    if (fry_cuda_lost(device) != CUDA_SUCCESS)
        return;
    if (fry_cuda_enter(&scope, device->context) == CUDA_SUCCESS)
        (void)fry_cuda.cuStreamDestroy(stream);
    fry_cuda_leave(&scope);
}
