/* SPDX-License-Identifier: Apache-2.0 */
/* Memory and copies. */
#include "tests/emu/runtime.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* These structures are handed on as they are. */
#define SAME_SIZE(one, other) _Static_assert(sizeof(one) == sizeof(other), #one " is " #other)
#define SAME_PLACE(one, other, field)                                                              \
    _Static_assert(offsetof(one, field) == offsetof(other, field), #field " of " #one)
SAME_SIZE(struct cudaMemPoolProps, CUmemPoolProps);
SAME_PLACE(struct cudaMemPoolProps, CUmemPoolProps, location);
SAME_PLACE(struct cudaMemPoolProps, CUmemPoolProps, maxSize);
SAME_PLACE(struct cudaMemPoolProps, CUmemPoolProps, usage);
SAME_SIZE(struct cudaMemcpyAttributes, CUmemcpyAttributes);
SAME_PLACE(struct cudaMemcpyAttributes, CUmemcpyAttributes, srcLocHint);
SAME_PLACE(struct cudaMemcpyAttributes, CUmemcpyAttributes, flags);

static CUdeviceptr device_pointer(const void *pointer)
{
    return (CUdeviceptr)(uintptr_t)pointer;
}

/* Getting and giving back. */

cudaError_t cudaMalloc(void **pointer, size_t size)
{
    CUdeviceptr allocated = 0;
    if (pointer == NULL)
        return rt_error(cudaErrorInvalidValue);
    CUresult result = rt_ready();
    if (result == CUDA_SUCCESS && size > 0)
        result = cuMemAlloc(&allocated, size);
    if (result == CUDA_SUCCESS)
        *pointer = (void *)(uintptr_t)allocated;
    return rt_result(result);
}

cudaError_t cudaFree(void *pointer)
{
    RT_FORWARD(pointer == NULL ? CUDA_SUCCESS : cuMemFree(device_pointer(pointer)));
}

cudaError_t cudaMallocAsync(void **pointer, size_t size, cudaStream_t stream)
{
    CUdeviceptr allocated = 0;
    if (pointer == NULL)
        return rt_error(cudaErrorInvalidValue);
    CUresult result = rt_ready();
    if (result == CUDA_SUCCESS && size > 0)
        result = cuMemAllocAsync(&allocated, size, stream);
    if (result == CUDA_SUCCESS)
        *pointer = (void *)(uintptr_t)allocated;
    return rt_result(result);
}

cudaError_t cudaMallocFromPoolAsync(void **pointer, size_t size, cudaMemPool_t pool,
                                    cudaStream_t stream)
{
    CUdeviceptr allocated = 0;
    if (pointer == NULL)
        return rt_error(cudaErrorInvalidValue);
    CUresult result = rt_ready();
    if (result == CUDA_SUCCESS && size > 0)
        result = cuMemAllocFromPoolAsync(&allocated, size, pool, stream);
    if (result == CUDA_SUCCESS)
        *pointer = (void *)(uintptr_t)allocated;
    return rt_result(result);
}

cudaError_t cudaFreeAsync(void *pointer, cudaStream_t stream)
{
    RT_FORWARD(cuMemFreeAsync(device_pointer(pointer), stream));
}

cudaError_t cudaHostAlloc(void **pointer, size_t size, unsigned int flags)
{
    if (pointer == NULL)
        return rt_error(cudaErrorInvalidValue);
    if (size == 0)
        *pointer = NULL;
    RT_FORWARD(size == 0 ? CUDA_SUCCESS : cuMemHostAlloc(pointer, size, flags));
}

cudaError_t cudaMallocHost(void **pointer, size_t size)
{
    return cudaHostAlloc(pointer, size, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void *pointer)
{
    RT_FORWARD(pointer == NULL ? CUDA_SUCCESS : cuMemFreeHost(pointer));
}

cudaError_t cudaHostRegister(void *pointer, size_t size, unsigned int flags)
{
    RT_FORWARD(cuMemHostRegister(pointer, size, flags));
}

cudaError_t cudaHostUnregister(void *pointer)
{
    RT_FORWARD(cuMemHostUnregister(pointer));
}

cudaError_t cudaHostGetDevicePointer(void **pointer, void *host, unsigned int flags)
{
    CUdeviceptr found = 0;
    if (pointer == NULL)
        return rt_error(cudaErrorInvalidValue);
    CUresult result = rt_ready();
    if (result == CUDA_SUCCESS)
        result = cuMemHostGetDevicePointer(&found, host, flags);
    if (result == CUDA_SUCCESS)
        *pointer = (void *)(uintptr_t)found;
    return rt_result(result);
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
    RT_FORWARD(cuMemGetInfo(available, total));
}

/* Pools. */

static CUresult find_pool(cudaMemPool_t *pool, int device,
                          CUresult (*find)(CUmemoryPool *pool, CUdevice device))
{
    CUdevice handle;
    CUresult result = cuInit(0);
    if (result == CUDA_SUCCESS)
        result = cuDeviceGet(&handle, device);
    return result == CUDA_SUCCESS ? find(pool, handle) : result;
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device)
{
    return rt_result(find_pool(pool, device, cuDeviceGetDefaultMemPool));
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *pool, int device)
{
    return rt_result(find_pool(pool, device, cuDeviceGetMemPool));
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const struct cudaMemPoolProps *properties)
{
    RT_FORWARD(cuMemPoolCreate(pool, (const void *)properties));
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool)
{
    RT_FORWARD(cuMemPoolDestroy(pool));
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value)
{
    RT_FORWARD(cuMemPoolSetAttribute(pool, (CUmemPool_attribute)attribute, value));
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value)
{
    RT_FORWARD(cuMemPoolGetAttribute(pool, (CUmemPool_attribute)attribute, value));
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep_bytes)
{
    RT_FORWARD(cuMemPoolTrimTo(pool, keep_bytes));
}

/* What a pointer is. */

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *pointer)
{
    CUmemorytype type = 0;
    int ordinal = 0;
    CUdeviceptr device = 0;
    void *host = NULL;
    CUpointer_attribute names[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
        CU_POINTER_ATTRIBUTE_HOST_POINTER,
    };
    void *values[] = {&type, &ordinal, &device, &host};
    if (attributes == NULL)
        return rt_error(cudaErrorInvalidValue);
    CUresult result = rt_ready();
    if (result == CUDA_SUCCESS)
        result = cuPointerGetAttributes(sizeof(names) / sizeof(names[0]), names, values,
                                        device_pointer(pointer));
    if (result != CUDA_SUCCESS)
        return rt_result(result);

    *attributes = (struct cudaPointerAttributes){
        .type = type == CU_MEMORYTYPE_DEVICE ? cudaMemoryTypeDevice
                : type == CU_MEMORYTYPE_HOST ? cudaMemoryTypeHost
                                             : cudaMemoryTypeUnregistered,
        .device = ordinal,
        .devicePointer = (void *)(uintptr_t)device,
        .hostPointer = host,
    };
    if (attributes->type == cudaMemoryTypeUnregistered) {
        attributes->device = cudaInvalidDeviceId;
        attributes->devicePointer = NULL;
        attributes->hostPointer = (void *)(uintptr_t)pointer;
    }
    return cudaSuccess;
}

/* Copies of one range. */

cudaError_t cudaMemcpy(void *dst, const void *src, size_t size, enum cudaMemcpyKind kind)
{
    if ((unsigned int)kind > cudaMemcpyDefault)
        return rt_error(cudaErrorInvalidMemcpyDirection);
    CUresult result = rt_ready();
    if (result != CUDA_SUCCESS || size == 0)
        return rt_result(result);
    switch (kind) {
    case cudaMemcpyHostToDevice:
        result = cuMemcpyHtoD(device_pointer(dst), src, size);
        break;
    case cudaMemcpyDeviceToHost:
        result = cuMemcpyDtoH(dst, device_pointer(src), size);
        break;
    case cudaMemcpyDeviceToDevice:
        result = cuMemcpyDtoD(device_pointer(dst), device_pointer(src), size);
        break;
    default:
        result = cuMemcpy(device_pointer(dst), device_pointer(src), size);
        break;
    }
    return rt_result(result);
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t size, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    if ((unsigned int)kind > cudaMemcpyDefault)
        return rt_error(cudaErrorInvalidMemcpyDirection);
    CUresult result = rt_ready();
    if (result != CUDA_SUCCESS || size == 0)
        return rt_result(result);
    switch (kind) {
    case cudaMemcpyHostToDevice:
        result = cuMemcpyHtoDAsync(device_pointer(dst), src, size, stream);
        break;
    case cudaMemcpyDeviceToHost:
        result = cuMemcpyDtoHAsync(dst, device_pointer(src), size, stream);
        break;
    case cudaMemcpyDeviceToDevice:
        result = cuMemcpyDtoDAsync(device_pointer(dst), device_pointer(src), size, stream);
        break;
    default:
        result = cuMemcpyAsync(device_pointer(dst), device_pointer(src), size, stream);
        break;
    }
    return rt_result(result);
}

cudaError_t cudaMemcpyPeerAsync(void *dst, int dst_device, const void *src, int src_device,
                                size_t size, cudaStream_t stream)
{
    CUcontext dst_context;
    CUcontext src_context;
    CUresult result = rt_ready();
    if (result == CUDA_SUCCESS)
        result = rt_primary(dst_device, &dst_context);
    if (result == CUDA_SUCCESS)
        result = rt_primary(src_device, &src_context);
    if (result == CUDA_SUCCESS && size > 0)
        result = cuMemcpyPeerAsync(device_pointer(dst), dst_context, device_pointer(src),
                                   src_context, size, stream);
    return rt_result(result);
}

cudaError_t cudaMemcpyBatchAsync(void *const *dsts, const void *const *srcs, const size_t *sizes,
                                 size_t count, struct cudaMemcpyAttributes *attributes,
                                 size_t *attribute_indices, size_t attribute_count,
                                 cudaStream_t stream)
{
    /* The driver takes the same arrays, and reads them only. */
    _Static_assert(sizeof(CUdeviceptr) == sizeof(void *), "pointers are device pointers");
    RT_FORWARD(cuMemcpyBatchAsync((CUdeviceptr *)(uintptr_t)dsts, (CUdeviceptr *)(uintptr_t)srcs,
                                  (size_t *)(uintptr_t)sizes, count, (void *)attributes,
                                  attribute_indices, attribute_count, stream));
}

/* Copies of rows. */

static cudaError_t describe_rows(CUDA_MEMCPY2D *copy, void *dst, size_t dst_pitch, const void *src,
                                 size_t src_pitch, size_t width, size_t height,
                                 enum cudaMemcpyKind kind)
{
    if ((unsigned int)kind > cudaMemcpyDefault)
        return cudaErrorInvalidMemcpyDirection;
    if (width > dst_pitch || width > src_pitch)
        return cudaErrorInvalidPitchValue;
    bool any = kind == cudaMemcpyDefault;
    bool to_host = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyHostToHost;
    bool from_host = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyHostToHost;
    *copy = (CUDA_MEMCPY2D){
        .dstMemoryType = any       ? CU_MEMORYTYPE_UNIFIED
                         : to_host ? CU_MEMORYTYPE_HOST
                                   : CU_MEMORYTYPE_DEVICE,
        .dstDevice = device_pointer(dst),
        .dstHost = dst,
        .dstPitch = dst_pitch,
        .srcMemoryType = any         ? CU_MEMORYTYPE_UNIFIED
                         : from_host ? CU_MEMORYTYPE_HOST
                                     : CU_MEMORYTYPE_DEVICE,
        .srcDevice = device_pointer(src),
        .srcHost = src,
        .srcPitch = src_pitch,
        .WidthInBytes = width,
        .Height = height,
    };
    return cudaSuccess;
}

cudaError_t cudaMemcpy2D(void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
                         size_t width, size_t height, enum cudaMemcpyKind kind)
{
    CUDA_MEMCPY2D copy;
    cudaError_t error = describe_rows(&copy, dst, dst_pitch, src, src_pitch, width, height, kind);
    if (error != cudaSuccess)
        return rt_error(error);
    RT_FORWARD(width == 0 || height == 0 ? CUDA_SUCCESS : cuMemcpy2D(&copy));
}

cudaError_t cudaMemcpy2DAsync(void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
                              size_t width, size_t height, enum cudaMemcpyKind kind,
                              cudaStream_t stream)
{
    CUDA_MEMCPY2D copy;
    cudaError_t error = describe_rows(&copy, dst, dst_pitch, src, src_pitch, width, height, kind);
    if (error != cudaSuccess)
        return rt_error(error);
    RT_FORWARD(width == 0 || height == 0 ? CUDA_SUCCESS : cuMemcpy2DAsync(&copy, stream));
}

/* Filling. */

cudaError_t cudaMemset(void *pointer, int value, size_t size)
{
    RT_FORWARD(size == 0 ? CUDA_SUCCESS
                         : cuMemsetD8(device_pointer(pointer), (unsigned char)value, size));
}

cudaError_t cudaMemsetAsync(void *pointer, int value, size_t size, cudaStream_t stream)
{
    RT_FORWARD(size == 0
                   ? CUDA_SUCCESS
                   : cuMemsetD8Async(device_pointer(pointer), (unsigned char)value, size, stream));
}
