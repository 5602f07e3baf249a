/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/cuda/pinned.h"

#include "gpu/cuda/driver.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static CUresult take_drivers(fry_cuda_pinned *pinned, size_t size_bytes, const char **call_p)
{
    void *memory = NULL;
    *call_p = "cuMemHostAlloc";
    CUresult result = fry_cuda.cuMemHostAlloc(&memory, size_bytes,
                                              CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    if (result != CUDA_SUCCESS)
        return result;
    memset(memory, 0, size_bytes);
    *pinned = (fry_cuda_pinned){.memory = memory, .size_bytes = size_bytes, .is_drivers = true};
    return CUDA_SUCCESS;
}

/*
 * A shared mapping: pages that the GPU writes stay the parent's own after a fork, and are not
 * copied at the next write.
 */
CUresult fry_cuda_pinned_take(fry_cuda_pinned *pinned, size_t size_bytes, const char **call_p)
{
    const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    const size_t bytes = (size_bytes + page_bytes - 1) / page_bytes * page_bytes;
    *call_p = "mmap of memory to be pinned";
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *call_p = "cuMemHostRegister";
    CUresult result = fry_cuda.cuMemHostRegister(
        memory, bytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
    if (result == CUDA_SUCCESS) {
        *pinned = (fry_cuda_pinned){.memory = memory, .size_bytes = bytes};
        return CUDA_SUCCESS;
    }
    (void)munmap(memory, bytes);
    if (!fry_cuda_is_refusal(result) || result == CUDA_ERROR_OUT_OF_MEMORY)
        return result;
    return take_drivers(pinned, size_bytes, call_p);
}

void fry_cuda_pinned_give(fry_cuda_pinned *pinned)
{
    if (pinned->memory != NULL && pinned->is_drivers)
        (void)fry_cuda.cuMemFreeHost(pinned->memory);
    /* If the driver does not release it, a GPU may still write to it. */
    else if (pinned->memory != NULL && fry_cuda.cuMemHostUnregister(pinned->memory) == CUDA_SUCCESS)
        (void)munmap(pinned->memory, pinned->size_bytes);
    *pinned = (fry_cuda_pinned){0};
}
