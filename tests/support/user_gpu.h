/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program does on a GPU beside ferry: streams of its own, with kernels that wait for a flag
 * and copies on them. By the driver's API. A call that fails ends the program, with a line that
 * says which. Any thread, not two at once.
 */
#ifndef FERRY_TESTS_USER_GPU_H
#define FERRY_TESTS_USER_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define USER_STREAMS 3 /* a GPU */

typedef struct user_gpu user_gpu;

/* GPU `ordinal`, in its primary context. NULL: this build has no CUDA. */
user_gpu *user_gpu_open(int ordinal);

/* Once its streams have nothing to do. NULL is allowed. */
void user_gpu_close(user_gpu *gpu);

/* The native stream, as ferry is given it. */
void *user_gpu_stream(const user_gpu *gpu, size_t index);

/* Page-locked, for all GPUs. */
void *user_gpu_alloc_pinned(user_gpu *gpu, size_t size_bytes);
void user_gpu_free_pinned(user_gpu *gpu, void *memory);

/* These go behind what stands in the stream, and don't wait. The flag is page-locked. */
void user_gpu_wait_flag(user_gpu *gpu, size_t index, const uint32_t *flag, uint32_t value);
void user_gpu_copy(user_gpu *gpu, size_t index, void *dst, const void *src, size_t size_bytes);

/*
 * Copies once the flag is 1. On the emulator it is one kernel, which does not tell what it touches:
 * that the memory is free then is an order which the emulator can't see.
 */
void user_gpu_copy_behind(user_gpu *gpu, size_t index, const uint32_t *flag, void *dst,
                          const void *src, size_t size_bytes);

/* Waits until all its streams are done. */
void user_gpu_finish(user_gpu *gpu);

#endif
