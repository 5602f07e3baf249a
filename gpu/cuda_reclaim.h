/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Freeing memory of the driver's that is not from a pool. cuMemFree and cuMemFreeHost may wait for
 * whatever runs on the GPU, a program's kernels among it, which may wait for the program; so nobody
 * who has anything else to do may call them. A thread of its own does, `ferry-cuda-free`, made with
 * the first free: not the one that copies, for which a kernel may wait.
 *
 * Each allocation has a block from its beginning, so that freeing needs no memory.
 */
#ifndef FRY_GPU_CUDA_RECLAIM_H
#define FRY_GPU_CUDA_RECLAIM_H

#include "base/stack.h"
#include "gpu/cuda_driver.h"

typedef struct fry_cuda_device fry_cuda_device;
typedef struct fry_backend fry_backend;
typedef struct fry_cuda_reclaim fry_cuda_reclaim;

typedef struct fry_cuda_block {
    fry_link link; /* among those to be freed */
    struct fry_cuda_block *next;
    fry_cuda_device *device;
    void *memory;
    bool is_on_host;
} fry_cuda_block;

/* Of an engine; NULL: no memory. */
fry_cuda_reclaim *fry_cuda_reclaim_open(fry_backend *backend);

/* Any thread, all of these. A block for an allocation to come; NULL: no memory. */
fry_cuda_block *fry_cuda_reclaim_expect(fry_cuda_reclaim *reclaim, fry_cuda_device *device,
                                        bool is_on_host);

/* What became of it: the memory, or NULL, and then the block is gone. */
void fry_cuda_reclaim_note(fry_cuda_reclaim *reclaim, fry_cuda_block *block, void *memory);

/* Frees noted memory soon; after the stop at once. */
void fry_cuda_reclaim_free(fry_cuda_reclaim *reclaim, void *memory);

/* Waits until all that was to be freed is. False: it took longer. */
bool fry_cuda_reclaim_wait(fry_cuda_reclaim *reclaim, int64_t timeout_ns);

/* Ends the thread. FERRY_E_BUSY: something is yet to be freed, and nothing is done. */
ferry_status fry_cuda_reclaim_stop(fry_cuda_reclaim *reclaim);

/* Stopped before; memory that is still noted is left alone. NULL is allowed. */
void fry_cuda_reclaim_close(fry_cuda_reclaim *reclaim);

#endif
