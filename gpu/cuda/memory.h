/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of GPUs: a stream-ordered pool for each device, separate allocations, and pinned memory of
 * the host; which device owns a pointer; and which GPUs reach each other's memory.
 */
#ifndef FRY_GPU_CUDA_MEMORY_H
#define FRY_GPU_CUDA_MEMORY_H

#include "gpu/cuda/driver.h"

typedef struct fry_cuda_device fry_cuda_device;
typedef struct fry_backend fry_backend;

typedef struct fry_cuda_memory {
    CUmemoryPool pool;  /* NULL: the GPU has no pools, and memory_lacks says why */
    CUstream stream;    /* only for allocating from and freeing to the pool */
    const char *lacks;  /* static */
    uint64_t peers;     /* atomic. A bit for each GPU with access between its contexts and this one,
                           both ways */
    uint64_t met;       /* atomic. The same for devices of the backend with other contexts */
    uint64_t gpu_bytes; /* of the whole GPU */
    uint64_t kept_bytes[2]; /* owned by reclaim.c, under its lock: of the GPU, of the host */
} fry_cuda_memory;

/* Makes the pool. In a scope of the device. */
CUresult fry_cuda_memory_open(fry_cuda_device *device, const char **call_p);

/*
 * Gives the device and all others of its backend access to each other's memory where the hardware
 * can. Once for each pair of contexts; never undone, because the program may rely on it. In no
 * scope.
 */
void fry_cuda_memory_meet(fry_cuda_device *device);

/* Destroys the pool; memory that was not freed stays until the context goes. In a scope. */
void fry_cuda_memory_close(fry_cuda_device *device);

/*
 * How much of the GPU's memory a pool keeps; freed memory of no pool is kept up to the same size.
 */
uint64_t fry_cuda_memory_keeps_bytes(const fry_cuda_device *device);

/*
 * Whether copies between the two need not go through the host: they share a context, or each
 * context has access to the other's memory. Two contexts of one GPU count like two GPUs. Any
 * thread.
 */
bool fry_cuda_memory_reaches(const fry_cuda_device *a, const fry_cuda_device *b);

/*
 * The device of the backend whose context owns the memory; if no context does, or the memory
 * belongs to a pool, the device on whose GPU it is; NULL: none. Any thread.
 */
fry_cuda_device *fry_cuda_memory_owner(fry_backend *backend, const void *memory);

/* Fills in the facts about memory. */
void fry_cuda_memory_describe(fry_cuda_device *device, fry_device_facts *facts);

/*
 * Allocates memory of that kind from the driver, in one attempt and without kept memory; any stream
 * may use it at once. In a scope. *call_p names the call, static; *memory_p is valid only on
 * success.
 */
CUresult fry_cuda_memory_take(fry_cuda_device *device, size_t size_bytes, fry_memory_kind kind,
                              void **memory_p, const char **call_p);

/* fry_device_ops of the same names. */
ferry_status fry_cuda_memory_alloc(fry_device *device, size_t size_bytes, fry_memory_kind kind,
                                   void **memory_p, fry_fault *fault);
void fry_cuda_memory_free(fry_device *device, void *memory, size_t size_bytes,
                          fry_memory_kind kind);
bool fry_cuda_memory_is_here(fry_device *device, const void *memory, size_t size_bytes);
bool fry_cuda_memory_is_pinned(fry_device *device, const void *memory, size_t size_bytes);
bool fry_cuda_memory_is_off_host(fry_device *device, const void *memory, size_t size_bytes);

#endif
