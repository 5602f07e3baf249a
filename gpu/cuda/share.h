/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of GPUs between processes of a host (CUDA IPC). fry_device_ops of the same names.
 *
 * A handle is of a whole allocation, by cuMemAlloc alone: a pool's memory has none. Opening it
 * gives an address of this process, which copies of the device read like any other of its GPU, or
 * of a GPU that it reaches. Nobody here writes what another process has.
 */
#ifndef FRY_GPU_CUDA_SHARE_H
#define FRY_GPU_CUDA_SHARE_H

#include "gpu/device.h"

/* Why the driver can't be asked: one line, static; NULL: it can. */
const char *fry_cuda_shareless(void);

ferry_status fry_cuda_memory_share(fry_device *device, const void *memory, size_t size_bytes,
                                   fry_memory_share *share, fry_fault *fault);
ferry_status fry_cuda_memory_open_shared(fry_device *device, const fry_memory_share *share,
                                         void **memory_p, fry_fault *fault);
void fry_cuda_memory_close_shared(fry_device *device, void *memory, uint32_t *is_closed);

#endif
