/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which parked streams hold up main ones. Streams share the hardware's few queues
 * (CUDA_DEVICE_MAX_CONNECTIONS), in which one that waits holds up the other; no call tells which
 * do, and for copies from and to the host priorities don't keep them apart (cuda.h). So it is
 * tried.
 */
#ifndef FRY_GPU_CUDA_APART_H
#define FRY_GPU_CUDA_APART_H

#include "gpu/cuda.h"

/*
 * Tries it on an idle device whose streams and memory are there, and puts the parked streams that
 * hold up none to the front: device->parked_apart of them, 0 if the driver refuses the trial, which
 * device->parkless and the log say. Blocks for some milliseconds; where streams share queues, for
 * up to a second; for some more where other threads wait in the driver meanwhile. In a scope. An
 * error is one after which the context is of no use; *call_p (static) then names the call.
 */
CUresult fry_cuda_apart_try(fry_cuda_device *device, const char **call_p);

/* Gives back what the trial took. In a scope, if the context lives. */
void fry_cuda_apart_close(fry_cuda_device *device);

#endif
