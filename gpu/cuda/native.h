/* SPDX-License-Identifier: Apache-2.0 */
/* Native streams for other libraries (NCCL). fry_device_ops of the same names. */
#ifndef FRY_GPU_CUDA_NATIVE_H
#define FRY_GPU_CUDA_NATIVE_H

#include "gpu/device.h"

bool fry_cuda_native_enter(fry_device *device);
ferry_status fry_cuda_native_stream_open(fry_device *device, void **stream_p, fry_fault *fault);
bool fry_cuda_native_stream_is_idle(fry_device *device, void *stream);
void fry_cuda_native_stream_close(fry_device *device, void *stream);

#endif
