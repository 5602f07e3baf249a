/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pinned memory that ferry itself reads and writes: the numbers that streams write, and what copies
 * of pageable memory go through. It is memory of the process's that the driver is told to pin, not
 * the driver's: as the process exits the driver takes its own back, while threads of ferry's may
 * still be looking.
 */
#ifndef FRY_GPU_CUDA_PINNED_H
#define FRY_GPU_CUDA_PINNED_H

#include "gpu/cuda_driver.h"

typedef struct fry_cuda_pinned {
    char *memory; /* NULL: there is none */
    size_t size_bytes;
    bool is_drivers; /* the driver refused to pin ours, and gave its own */
} fry_cuda_pinned;

/*
 * At least size_bytes, zeroed, for all contexts and with an address for GPUs. In a scope. On
 * failure *call_p is the call that was refused; static.
 */
CUresult fry_cuda_pinned_take(fry_cuda_pinned *pinned, size_t size_bytes, const char **call_p);

/* Gives it back, if there is any. In a scope; the driver may wait for what runs on the GPU. */
void fry_cuda_pinned_give(fry_cuda_pinned *pinned);

#endif
