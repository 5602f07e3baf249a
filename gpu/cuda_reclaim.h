/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of the driver's that is not from a pool, and what becomes of it. cuMemFree and
 * cuMemFreeHost may wait for whatever runs on the GPU, a program's kernels among it, which may wait
 * for the program; and who waits in the driver may hold up all others who call it. So what is freed
 * is kept, and given out again to whoever asks for about as much. The driver gets it back when it
 * is more than FRY_CUDA_KEPT_*, when memory runs out, and at the end; by a thread of its own,
 * `ferry-cuda-free`, made with the first such free: not the one that copies, for which a kernel may
 * wait.
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

#define FRY_CUDA_KEPT_SHARE 16                       /* of a GPU's memory, but at most: */
#define FRY_CUDA_KEPT_MOST_BYTES ((uint64_t)4 << 30) /* also of what a pool keeps */
#define FRY_CUDA_KEPT_HOST_BYTES ((uint64_t)1 << 30) /* pinned memory of a device */

typedef struct fry_cuda_block {
    fry_link link; /* among those to be freed */
    struct fry_cuda_block *next;
    fry_cuda_device *device;
    void *memory;
    size_t size_bytes;
    bool is_on_host;
} fry_cuda_block;

/* Of an engine; NULL: no memory. */
fry_cuda_reclaim *fry_cuda_reclaim_open(fry_backend *backend);

/* Any thread, all of these. A block for an allocation to come; NULL: no memory. */
fry_cuda_block *fry_cuda_reclaim_expect(fry_cuda_reclaim *reclaim, fry_cuda_device *device,
                                        size_t size_bytes, bool is_on_host);

/* What became of it: the memory, or NULL, and then the block is gone. */
void fry_cuda_reclaim_note(fry_cuda_reclaim *reclaim, fry_cuda_block *block, void *memory);

/* Kept memory of the device that is as large or a little larger, noted again; NULL: there is none.
 */
void *fry_cuda_reclaim_reuse(fry_cuda_reclaim *reclaim, fry_cuda_device *device, size_t size_bytes,
                             bool is_on_host);

/* Keeps noted memory, or frees it soon; after the stop frees it at once. */
void fry_cuda_reclaim_free(fry_cuda_reclaim *reclaim, void *memory);

/* Frees what is kept, and waits until all that was to be freed is. False: it took longer. */
bool fry_cuda_reclaim_empty(fry_cuda_reclaim *reclaim, int64_t timeout_ns);

/* Ends the thread. FERRY_E_BUSY: what was kept is yet to be freed, so the thread goes on. */
ferry_status fry_cuda_reclaim_stop(fry_cuda_reclaim *reclaim);

/* Stopped before; memory that is still noted is left alone. NULL is allowed. */
void fry_cuda_reclaim_close(fry_cuda_reclaim *reclaim);

#endif
