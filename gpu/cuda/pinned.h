/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pinned memory that ferry itself reads and writes: the numbers that streams write, and the rings
 * of copies of pageable memory. The memory belongs to the process, and the driver is told to pin
 * it: when the process exits, the driver takes back its own memory while threads of ferry may still
 * read it.
 */
#ifndef FRY_GPU_CUDA_PINNED_H
#define FRY_GPU_CUDA_PINNED_H

#include "gpu/cuda/driver.h"

typedef struct fry_cuda_pinned {
    char *memory; /* NULL: there is none */
    size_t size_bytes;
    bool is_drivers; /* the driver refused to pin ours and gave its own */
} fry_cuda_pinned;

/*
 * Allocates at least size_bytes, zeroed, pinned for all contexts and with an address for GPUs. In a
 * scope. On failure *call_p is the refused call; static.
 */
CUresult fry_cuda_pinned_take(fry_cuda_pinned *pinned, size_t size_bytes, const char **call_p);

/* Frees the memory, if any. In a scope; the driver may wait for the GPU's work. */
void fry_cuda_pinned_give(fry_cuda_pinned *pinned);

#endif
