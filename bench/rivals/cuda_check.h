/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FRY_BENCH_RIVALS_CUDA_CHECK_H
#define FRY_BENCH_RIVALS_CUDA_CHECK_H

#include <cuda_runtime_api.h>

/* Fails the bench, naming the call. */
_Noreturn void cuda_fail(const char *what, int code);

/* A call of the runtime's that must succeed. */
#define CUDA_CHECK(call)                                                                           \
    do {                                                                                           \
        cudaError_t error_ = (call);                                                               \
        if (error_ != cudaSuccess)                                                                 \
            cuda_fail(#call, (int)error_);                                                         \
    } while (0)

#endif
