/* SPDX-License-Identifier: Apache-2.0 */
/* What the driver knows of a pointer. */
#include "tests/emu/driver.h"
#include <string.h>

/*
 * Puts one attribute into *value. False: the driver has none of that name for it. `allocation` may
 * be NULL: memory that it does not know.
 */
static bool attribute_put(CUpointer_attribute attribute, CUdeviceptr pointer,
                          const emu_allocation *allocation, void *value)
{
    const bool device = allocation != NULL && allocation->kind == EMU_MEMORY_DEVICE;
    const bool host = allocation != NULL && allocation->kind != EMU_MEMORY_DEVICE;

    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        /* Memory of a pool belongs to no context. */
        *(CUcontext *)value =
            allocation != NULL && allocation->pool == NULL ? allocation->context : NULL;
        return true;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)value = device ? CU_MEMORYTYPE_DEVICE : host ? CU_MEMORYTYPE_HOST : 0;
        return true;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(CUdeviceptr *)value = allocation != NULL ? pointer : 0;
        return true;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        *(void **)value = host ? (void *)pointer : NULL;
        return true;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *(unsigned long long *)value = allocation != NULL ? allocation->id : 0;
        return true;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)value = allocation != NULL ? allocation->device->ordinal : CU_DEVICE_INVALID;
        return true;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)value = allocation != NULL ? allocation->start : 0;
        return true;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)value = allocation != NULL ? allocation->size_bytes : 0;
        return true;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *(CUmemoryPool *)value = allocation != NULL ? allocation->pool : NULL;
        return true;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        *(cuuint64_t *)value = 0;
        return true;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *(bool *)value = allocation != NULL;
        return true;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        *(bool *)value = emu.ipc && device && allocation->file.number >= 0;
        return true;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
        *(bool *)value = false;
        return true;
    default:
        return false;
    }
}

/* The live allocation it points into, or NULL. */
static const emu_allocation *known(CUdeviceptr pointer)
{
    emu_allocation *allocation;

    return emu_pointer_kind((void *)pointer, 1, &allocation) == EMU_POINTER_KNOWN ? allocation
                                                                                  : NULL;
}

CUresult cuPointerGetAttribute(void *value, CUpointer_attribute attribute, CUdeviceptr pointer)
{
    const emu_allocation *allocation;
    CUresult result = emu_enter(EMU_CALL_cuPointerGetAttribute);

    if (result != CUDA_SUCCESS)
        return result;
    allocation = known(pointer);
    if (value == NULL || allocation == NULL ||
        (attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER && allocation->kind == EMU_MEMORY_DEVICE) ||
        !attribute_put(attribute, pointer, allocation, value))
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes, void **values,
                                CUdeviceptr pointer)
{
    const emu_allocation *allocation;
    CUresult result = emu_enter(EMU_CALL_cuPointerGetAttributes);

    if (result != CUDA_SUCCESS)
        return result;
    if (attributes == NULL || values == NULL)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    allocation = known(pointer);
    for (unsigned i = 0; i < count; i++) {
        if (values[i] == NULL || !attribute_put(attributes[i], pointer, allocation, values[i]))
            return emu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuMemGetAddressRange(CUdeviceptr *start_p, size_t *size_bytes_p, CUdeviceptr pointer)
{
    const emu_allocation *allocation;
    CUresult result = emu_enter(EMU_CALL_cuMemGetAddressRange);

    if (result != CUDA_SUCCESS)
        return result;
    allocation = known(pointer);
    if (allocation == NULL)
        return emu_leave(CUDA_ERROR_NOT_FOUND);
    if (start_p != NULL)
        *start_p = allocation->start;
    if (size_bytes_p != NULL)
        *size_bytes_p = allocation->size_bytes;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr *pointer_p, void *memory, unsigned int flags)
{
    const emu_allocation *allocation;
    CUresult result = emu_enter(EMU_CALL_cuMemHostGetDevicePointer);

    if (result != CUDA_SUCCESS)
        return result;
    allocation = known((CUdeviceptr)memory);
    if (pointer_p == NULL || flags != 0 || allocation == NULL ||
        allocation->kind == EMU_MEMORY_DEVICE)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    *pointer_p = (CUdeviceptr)memory;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuMemHostGetFlags(unsigned int *flags_p, void *memory)
{
    const emu_allocation *allocation;
    CUresult result = emu_enter(EMU_CALL_cuMemHostGetFlags);

    if (result != CUDA_SUCCESS)
        return result;
    allocation = known((CUdeviceptr)memory);
    if (flags_p == NULL || allocation == NULL || allocation->kind != EMU_MEMORY_PINNED)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    *flags_p = allocation->flags;
    return emu_leave(CUDA_SUCCESS);
}
