/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/cuda/share.h"

#include "gpu/cuda/context.h"
#include "gpu/cuda/cuda.h"
#include "gpu/cuda/driver.h"
#include "gpu/cuda/lost.h"
#include "gpu/cuda/reclaim.h"

#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(CUipcMemHandle) == FRY_SHARE_BYTES, "a handle fits, and fills its place");

static ferry_status refuse(fry_fault *fault, ferry_status status, const char *why)
{
    *fault = (fry_fault){.status = status, .rank = -1};
    (void)snprintf(fault->message, sizeof fault->message, "%s", why);
    return status;
}

static ferry_status lacks(fry_fault *fault, const char *why)
{
    return refuse(fault, FERRY_E_UNSUPPORTED, why);
}

const char *fry_cuda_shareless(void)
{
    bool has_calls = fry_cuda.cuIpcGetMemHandle != NULL && fry_cuda.cuIpcOpenMemHandle != NULL &&
                     fry_cuda.cuIpcCloseMemHandle != NULL;
    return has_calls ? NULL : "the driver has no calls for memory between processes";
}

/* Whether the driver can be asked. */
static ferry_status check(const fry_cuda_device *device, fry_fault *fault)
{
    if (fry_cuda_lost(device) != CUDA_SUCCESS)
        return fry_cuda_tell_lost(device, fault);
    const char *why = fry_cuda_shareless();
    return why == NULL ? FERRY_OK : lacks(fault, why);
}

/*
 * What an answer of these calls means. They answer with much that says nothing of the context (of
 * the other process, of containers, of peers), so no answer makes the device lost: if it is, the
 * next call of another kind finds out.
 */
static ferry_status status_of(CUresult result)
{
    switch ((int)result) {
    case CUDA_SUCCESS:
        return FERRY_OK;
    case CUDA_ERROR_OUT_OF_MEMORY:
        return FERRY_E_NO_MEMORY;
    case CUDA_ERROR_ALREADY_MAPPED:
        return FERRY_E_AGAIN;
    case CUDA_ERROR_INVALID_HANDLE:
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_INVALID_CONTEXT:
    case CUDA_ERROR_INVALID_DEVICE:
    case CUDA_ERROR_NOT_PERMITTED:
    case CUDA_ERROR_NOT_SUPPORTED:
    case CUDA_ERROR_PEER_ACCESS_UNSUPPORTED:
    case CUDA_ERROR_OPERATING_SYSTEM:
    case CUDA_ERROR_MAP_FAILED:
        return FERRY_E_UNSUPPORTED;
    default:
        return FERRY_E_DEVICE;
    }
}

typedef struct range {
    CUdeviceptr begin;
    size_t size_bytes;
    unsigned long long generation;
} range;

/* The allocation that the memory is in. */
static CUresult range_of(const void *memory, range *range_p)
{
    CUpointer_attribute names[] = {
        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
        CU_POINTER_ATTRIBUTE_RANGE_SIZE,
        CU_POINTER_ATTRIBUTE_BUFFER_ID,
    };
    void *values[] = {&range_p->begin, &range_p->size_bytes, &range_p->generation};
    *range_p = (range){0};
    return fry_cuda.cuPointerGetAttributes(sizeof names / sizeof *names, names, values,
                                           (CUdeviceptr)(uintptr_t)memory);
}

static bool is_within(const range *range, const void *memory, size_t size_bytes)
{
    uint64_t at = (uintptr_t)memory, begin = (uint64_t)range->begin;
    return at >= begin && at - begin <= range->size_bytes &&
           size_bytes <= range->size_bytes - (at - begin);
}

ferry_status fry_cuda_memory_share(fry_device *base, const void *memory, size_t size_bytes,
                                   fry_memory_share *share, fry_fault *fault)
{
    const fry_cuda_device *device = fry_cuda_device_of(base);
    ferry_status status = check(device, fault);
    if (status != FERRY_OK)
        return status;
    fry_cuda_scope scope;
    range range;
    CUipcMemHandle handle;
    const char *call = "cuPointerGetAttributes";
    CUresult result = fry_cuda_enter(&scope, device->context);
    if (result == CUDA_SUCCESS)
        result = range_of(memory, &range);
    if (result == CUDA_SUCCESS) {
        call = "cuIpcGetMemHandle";
        result = fry_cuda.cuIpcGetMemHandle(&handle, (CUdeviceptr)(uintptr_t)memory);
    }
    fry_cuda_leave(&scope);
    if (result != CUDA_SUCCESS)
        return fry_cuda_tell(fault, status_of(result), result, call);
    if (!is_within(&range, memory, size_bytes))
        return lacks(fault, "the memory is of several allocations");
    memcpy(share->handle, &handle, sizeof share->handle);
    share->offset = (uintptr_t)memory - (uint64_t)range.begin;
    share->allocation_bytes = range.size_bytes;
    share->generation = range.generation;
    return FERRY_OK;
}

ferry_status fry_cuda_memory_open_shared(fry_device *base, const fry_memory_share *share,
                                         void **memory_p, fry_fault *fault)
{
    fry_cuda_device *device = fry_cuda_device_of(base);
    ferry_status status = check(device, fault);
    if (status != FERRY_OK)
        return status;
    fry_cuda_scope scope;
    CUdeviceptr memory = 0;
    CUipcMemHandle handle;
    range range = {0};
    const char *call = "cuIpcOpenMemHandle";
    fry_cuda_reclaim *reclaim = device->backend->reclaim;
    fry_cuda_block *block =
        fry_cuda_reclaim_expect(reclaim, device, (size_t)share->allocation_bytes, false);
    if (block == NULL)
        return refuse(fault, FERRY_E_NO_MEMORY, "no memory to note what is opened");
    if (!fry_cuda_reclaim_has_thread(reclaim)) {
        fry_cuda_reclaim_note(reclaim, block, NULL);
        return lacks(fault, "there is no thread that would close it");
    }
    memcpy(&handle, share->handle, sizeof handle);
    CUresult result = fry_cuda_enter(&scope, device->context);
    if (result == CUDA_SUCCESS)
        result = fry_cuda.cuIpcOpenMemHandle(&memory, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    /* Its size is the other process's word until the driver has said the same. */
    if (result == CUDA_SUCCESS && (range_of((void *)(uintptr_t)memory, &range) != CUDA_SUCCESS ||
                                   range.size_bytes < share->allocation_bytes)) {
        fry_cuda_leave(&scope);
        fry_cuda_reclaim_note(reclaim, block, (void *)(uintptr_t)memory);
        fry_cuda_reclaim_close_shared(reclaim, (void *)(uintptr_t)memory, NULL);
        return lacks(fault, "the memory opened is not what the other member says");
    }
    fry_cuda_leave(&scope);
    fry_cuda_reclaim_note(reclaim, block,
                          result == CUDA_SUCCESS ? (void *)(uintptr_t)memory : NULL);
    if (result != CUDA_SUCCESS)
        return fry_cuda_tell(fault, status_of(result), result, call);
    *memory_p = (void *)(uintptr_t)memory;
    return FERRY_OK;
}

void fry_cuda_memory_close_shared(fry_device *base, void *memory, uint32_t *is_closed)
{
    fry_cuda_reclaim_close_shared(fry_cuda_device_of(base)->backend->reclaim, memory, is_closed);
}
