/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/cuda/lost.h"

#include "base/module/forward.h"
#include "gpu/cuda/context.h"
#include "gpu/cuda/driver.h"

void fry_cuda_lose(fry_cuda_device *device, CUresult result, const char *call)
{
    uint32_t lost = CUDA_SUCCESS;
    if (!fry_cas(&device->lost, &lost, (uint32_t)result))
        return;
    fry_fault fault;
    fry_store_release(&device->lost_call, call);
    fry_store_relaxed(&device->backend->has_lost, 1);
    (void)fry_cuda_tell(&fault, FERRY_E_DEVICE, result, call);
    fry_log_line(device->backend->options.log, FERRY_LOG_ERROR, "%s is lost: %s",
                 device->device.name, fault.message);
}

bool fry_cuda_is_fatal(fry_cuda_device *device, CUresult result, const char *call)
{
    if (fry_cuda_is_refusal(result))
        return false;
    /* Some captures forbid the query outside a scope. */
    fry_cuda_scope scope;
    CUresult state = fry_cuda_enter(&scope, device->context);
    if (state == CUDA_SUCCESS)
        state = fry_cuda.cuStreamQuery(device->streams[0].native);
    fry_cuda_leave(&scope);
    if (state == CUDA_SUCCESS || state == CUDA_ERROR_NOT_READY)
        return false;
    fry_cuda_lose(device, result, call);
    return true;
}

ferry_status fry_cuda_tell_lost(const fry_cuda_device *device, fry_fault *fault)
{
    return fry_cuda_tell(fault, FERRY_E_DEVICE, fry_cuda_lost(device), fry_cuda_lost_call(device));
}
