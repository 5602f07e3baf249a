/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding the parked streams that delay main ones. Streams share the hardware's few queues
 * (CUDA_DEVICE_MAX_CONNECTIONS), in which a stream that waits delays the other. No call tells which
 * streams share, and for copies from and to the host priorities do not keep them apart (cuda.h). So
 * ferry tries it.
 */
#ifndef FRY_GPU_CUDA_APART_H
#define FRY_GPU_CUDA_APART_H

#include "gpu/cuda/driver.h"

typedef struct fry_cuda_device fry_cuda_device;

/*
 * Tries it on an idle device whose streams and memory exist, and moves the parked streams that
 * delay no main stream to the front: device->parked_apart of them; 0 if the driver refuses the
 * trial, and device->parkless and the log say why. Blocks for some milliseconds; for up to a second
 * if streams share queues; longer while other threads wait in the driver. In a scope. Returns an
 * error only if the context is of no further use; *call_p (static) names the call.
 */
CUresult fry_cuda_apart_try(fry_cuda_device *device, const char **call_p);

/* Frees the trial's memory. In a scope, if the context lives. */
void fry_cuda_apart_close(fry_cuda_device *device);

#endif
