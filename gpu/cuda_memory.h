/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of GPUs: a stream-ordered pool for each device, allocations of their own, and pinned
 * memory of the host; whose memory a pointer is; and which GPUs reach each other's memory.
 */
#ifndef FRY_GPU_CUDA_MEMORY_H
#define FRY_GPU_CUDA_MEMORY_H

#include "gpu/cuda_driver.h"

typedef struct fry_cuda_device fry_cuda_device;
typedef struct fry_backend fry_backend;

typedef struct fry_cuda_memory {
    CUmemoryPool pool;  /* NULL: the GPU has none, and memory_lacks says why */
    CUstream stream;    /* what the pool gives and takes back stands in it, and nothing else */
    const char *lacks;  /* static */
    uint64_t peers;     /* atomic. GPUs, by bits, whose memory the context reaches, and reach its */
    uint64_t met;       /* atomic. The same of devices of the backend with other contexts */
    uint64_t gpu_bytes; /* all there is on the GPU */
    uint64_t kept_bytes[2]; /* cuda_reclaim.c's, with its lock: of the GPU's, of the host's */
} fry_cuda_memory;

/* Makes the pool. In a scope of the device. */
CUresult fry_cuda_memory_open(fry_cuda_device *device, const char **call_p);

/*
 * Lets the device and all others of its backend reach each other's memory where the hardware can.
 * Once a pair of contexts; never undone, since the program may count on it too. In no scope.
 */
void fry_cuda_memory_meet(fry_cuda_device *device);

/* Destroys the pool; memory that was not freed stays until the context goes. In a scope. */
void fry_cuda_memory_close(fry_cuda_device *device);

/* How much of the GPU's memory a pool keeps, and as much again who frees what is of no pool. */
uint64_t fry_cuda_memory_keeps_bytes(const fry_cuda_device *device);

/*
 * Whether copies between the two need not go through the host: they have one context, or each
 * context was given access to the other's memory. Two contexts of one GPU are as far from each
 * other as two GPUs. Any thread.
 */
bool fry_cuda_memory_reaches(const fry_cuda_device *a, const fry_cuda_device *b);

/* The backend's device in whose context the memory is, or, where that is none's or memory of a
 * pool, which is of no context, on whose GPU; NULL if there is none. Any thread. */
fry_cuda_device *fry_cuda_memory_owner(fry_backend *backend, const void *memory);

/* Fills in what of the facts is about memory. */
void fry_cuda_memory_describe(fry_cuda_device *device, fry_device_facts *facts);

/*
 * Asks the driver for memory of that kind, once and without any that is kept; any stream may use it
 * as it returns. In a scope. *call_p: whom, static; *memory_p means nothing unless it succeeds.
 */
CUresult fry_cuda_memory_take(fry_cuda_device *device, size_t size_bytes, fry_memory_kind kind,
                              void **memory_p, const char **call_p);

/* fry_device_ops of the same names. */
ferry_status fry_cuda_memory_alloc(fry_device *device, size_t size_bytes, fry_memory_kind kind,
                                   void **memory_p);
void fry_cuda_memory_free(fry_device *device, void *memory, size_t size_bytes,
                          fry_memory_kind kind);
bool fry_cuda_memory_is_here(fry_device *device, const void *memory, size_t size_bytes);
bool fry_cuda_memory_is_pinned(fry_device *device, const void *memory, size_t size_bytes);
bool fry_cuda_memory_is_off_host(fry_device *device, const void *memory, size_t size_bytes);

#endif
