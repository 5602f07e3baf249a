/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of the user's threads without the baton, in most cases about the program's own streams. */
#ifndef FRY_GPU_CUDA_CALL_H
#define FRY_GPU_CUDA_CALL_H

#include "gpu/cuda/context.h"
#include "gpu/cuda/stream.h"

/*
 * Enters a scope for a call that only issues on a stream of the program's; the other, for any call.
 * FERRY_OK; FERRY_E_DEVICE: the device is lost. fry_cuda_leave follows in both cases.
 */
ferry_status fry_cuda_call_enter_to_issue(fry_cuda_device *device, CUstream native,
                                          fry_cuda_scope *scope, fry_fault *fault);
ferry_status fry_cuda_call_enter(fry_cuda_device *device, fry_cuda_scope *scope, fry_fault *fault);

/* What the driver's refusal of a call means: the capture, the given handle, or the device. */
ferry_status fry_cuda_call_refuse(fry_cuda_device *device, CUresult result, const char *call,
                                  fry_fault *fault);

#endif
