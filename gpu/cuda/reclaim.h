/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reclaiming memory of the driver that is not from a pool. cuMemFree and cuMemFreeHost may wait for
 * everything that runs on the GPU, including a program's kernels, which may wait for the program;
 * and a thread that waits in the driver may delay all others that call it. So freed memory is kept,
 * and reused for requests of about the same size. It goes back to the driver when it is more than
 * FRY_CUDA_KEPT_*, when memory runs out, and at the end. A separate thread, `ferry-cuda-free`, made
 * with the first such free, does that: not the one that copies, for which a kernel may wait. Memory
 * of other processes is closed there, too (cuIpcCloseMemHandle), and never kept.
 *
 * Each allocation has a block from its beginning, so that freeing needs no memory.
 */
#ifndef FRY_GPU_CUDA_RECLAIM_H
#define FRY_GPU_CUDA_RECLAIM_H

#include "base/stack.h"
#include "gpu/cuda/driver.h"

typedef struct fry_cuda_device fry_cuda_device;
typedef struct fry_backend fry_backend;
typedef struct fry_cuda_reclaim fry_cuda_reclaim;

#define FRY_CUDA_KEPT_SHARE 16 /* a sixteenth of a GPU's memory, but at most: */
#define FRY_CUDA_KEPT_MOST_BYTES ((uint64_t)4 << 30) /* also the bound of what a pool keeps */
#define FRY_CUDA_KEPT_HOST_BYTES ((uint64_t)1 << 30) /* pinned memory of a device */

typedef struct fry_cuda_block {
    fry_link link; /* in the list of blocks to free */
    struct fry_cuda_block *next;
    fry_cuda_device *device;
    void *memory;
    size_t size_bytes;
    bool is_on_host;
    bool is_shared;      /* another process's */
    uint32_t *is_closed; /* shared: atomic, set when that is done; NULL: nobody wants to know */
} fry_cuda_block;

/* Makes an engine's reclaimer; NULL: no memory. */
fry_cuda_reclaim *fry_cuda_reclaim_open(fry_backend *backend);

/*
 * All functions from here on: any thread. Makes a block for a coming allocation; NULL: no memory.
 */
fry_cuda_block *fry_cuda_reclaim_expect(fry_cuda_reclaim *reclaim, fry_cuda_device *device,
                                        size_t size_bytes, bool is_on_host);

/*
 * Stores the allocation's memory in its block. NULL: the allocation failed, and the block is freed.
 */
void fry_cuda_reclaim_note(fry_cuda_reclaim *reclaim, fry_cuda_block *block, void *memory);

/* Takes kept memory of the device that is as large or a little larger, noted again; NULL: none. */
void *fry_cuda_reclaim_reuse(fry_cuda_reclaim *reclaim, fry_cuda_device *device, size_t size_bytes,
                             bool is_on_host);

/* Keeps noted memory, or frees it soon; after the stop frees it at once. */
void fry_cuda_reclaim_free(fry_cuda_reclaim *reclaim, void *memory);

/*
 * Makes the thread, for memory that is opened next: nobody else may have to wait for its closing.
 * False: there can't be one.
 */
bool fry_cuda_reclaim_has_thread(fry_cuda_reclaim *reclaim);

/*
 * Closes noted memory of another process, soon; after the stop at once. Then sets *is_closed, and
 * notifies the engine.
 */
void fry_cuda_reclaim_close_shared(fry_cuda_reclaim *reclaim, void *memory, uint32_t *is_closed);

/* Frees all kept memory, and waits until everything to be freed is. False: it took longer. */
bool fry_cuda_reclaim_empty(fry_cuda_reclaim *reclaim, int64_t timeout_ns);

/* Ends the thread. FERRY_E_BUSY: kept memory is not freed yet, so the thread goes on. */
ferry_status fry_cuda_reclaim_stop(fry_cuda_reclaim *reclaim);

/*
 * Frees the reclaimer, which was stopped; memory that is still noted is left alone. NULL is
 * allowed.
 */
void fry_cuda_reclaim_close(fry_cuda_reclaim *reclaim);

#endif
