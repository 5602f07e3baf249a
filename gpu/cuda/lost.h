/* SPDX-License-Identifier: Apache-2.0 */
/* Devices whose context has answered with an error that is not one call's. */
#ifndef FRY_GPU_CUDA_LOST_H
#define FRY_GPU_CUDA_LOST_H

#include "gpu/cuda/cuda.h"

/*
 * Marks the device as lost: its context has answered with an error that is not one call's. From now
 * on its streams report this, and the device is not called any more. call: the call that answered,
 * static. Any thread, also twice.
 */
void fry_cuda_lose(fry_cuda_device *device, CUresult result, const char *call);

/*
 * Whether a call failed with `result` because the context is broken; the device is then lost.
 * Otherwise only the call failed. In a scope of the device.
 */
bool fry_cuda_is_fatal(fry_cuda_device *device, CUresult result, const char *call);

static inline CUresult fry_cuda_lost(const fry_cuda_device *device)
{
    return (CUresult)fry_load_acquire(&device->lost);
}

/* The call that lost the device; another thread may be about to set it. */
static inline const char *fry_cuda_lost_call(const fry_cuda_device *device)
{
    const char *call = fry_load_acquire(&device->lost_call);
    return call != NULL ? call : "a call to the cuda driver";
}

/* Makes `fault` of why the device is lost; returns FERRY_E_DEVICE. */
ferry_status fry_cuda_tell_lost(const fry_cuda_device *device, fry_fault *fault);

#endif
