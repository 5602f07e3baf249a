/* SPDX-License-Identifier: Apache-2.0 */
/* Memory pools, and memory that is allocated and freed in stream order. */
#include "tests/emu/driver.h"
#include <stdlib.h>
#include <string.h>

/* A pool takes memory from its device in blocks of that size, as the driver does. */
#define POOL_BLOCK_BYTES ((uint64_t)2 << 20)

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t in_blocks(uint64_t size_bytes)
{
    return (size_bytes + POOL_BLOCK_BYTES - 1) / POOL_BLOCK_BYTES * POOL_BLOCK_BYTES;
}

CUmemoryPool emu_pool_new(emu_device *device, const CUmemPoolProps *props)
{
    CUmemoryPool pool = emu_object_new(EMU_OBJECT_POOL, sizeof *pool, NULL);

    pool->device = device;
    pool->props = *props;
    pool->access = 1u << device->ordinal;
    for (size_t i = 0; i < sizeof pool->reuse / sizeof *pool->reuse; i++)
        pool->reuse[i] = 1;
    return pool;
}

/* What is free and more than the threshold goes back to the device. */
static void settle(CUmemoryPool pool, uint64_t keep_bytes)
{
    uint64_t kept_bytes = pool->reserved_bytes - pool->used_bytes;

    if (pool->reserved_bytes > keep_bytes)
        pool->reserved_bytes = larger(in_blocks(keep_bytes), in_blocks(pool->used_bytes));
    pool->device->kept_bytes += pool->reserved_bytes - pool->used_bytes - kept_bytes;
}

void emu_pool_count(CUmemoryPool pool, uint64_t size_bytes, bool in)
{
    pool->device->kept_bytes -= pool->reserved_bytes - pool->used_bytes;
    if (in) {
        pool->used_bytes += size_bytes;
        pool->used_high_bytes = larger(pool->used_high_bytes, pool->used_bytes);
        pool->reserved_bytes = larger(pool->reserved_bytes, in_blocks(pool->used_bytes));
        pool->reserved_high_bytes = larger(pool->reserved_high_bytes, pool->reserved_bytes);
    } else {
        pool->used_bytes -= size_bytes;
    }
    pool->device->kept_bytes += pool->reserved_bytes - pool->used_bytes;
    if (!in)
        settle(pool, pool->threshold_bytes);
}

/* ---- Pools ---------------------------------------------------------------------------------- */

static CUresult device_pool(emu_call call, CUmemoryPool *pool_p, CUdevice ordinal, bool is_default)
{
    CUresult result = emu_enter(call);

    if (result != CUDA_SUCCESS)
        return result;
    if (pool_p == NULL)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    if (ordinal < 0 || ordinal >= emu.device_count)
        return emu_leave(CUDA_ERROR_INVALID_DEVICE);
    *pool_p = is_default ? emu.devices[ordinal].default_pool : emu.devices[ordinal].pool;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool_p, CUdevice ordinal)
{
    return device_pool(EMU_CALL_cuDeviceGetDefaultMemPool, pool_p, ordinal, true);
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool_p, CUdevice ordinal)
{
    return device_pool(EMU_CALL_cuDeviceGetMemPool, pool_p, ordinal, false);
}

static CUresult enter_pool(emu_call call, CUmemoryPool handle, CUmemoryPool *pool_p)
{
    CUresult result = emu_enter(call);

    if (result != CUDA_SUCCESS)
        return result;
    *pool_p = emu_object_find(EMU_OBJECT_POOL, handle);
    return *pool_p != NULL ? CUDA_SUCCESS : emu_leave(CUDA_ERROR_INVALID_VALUE);
}

CUresult cuDeviceSetMemPool(CUdevice ordinal, CUmemoryPool handle)
{
    CUmemoryPool pool;
    CUresult result = enter_pool(EMU_CALL_cuDeviceSetMemPool, handle, &pool);

    if (result != CUDA_SUCCESS)
        return result;
    if (ordinal < 0 || ordinal >= emu.device_count || pool->device != &emu.devices[ordinal])
        return emu_leave(CUDA_ERROR_INVALID_DEVICE);
    emu.devices[ordinal].pool = pool;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuMemPoolCreate(CUmemoryPool *pool_p, const CUmemPoolProps *props)
{
    CUresult result = emu_enter(EMU_CALL_cuMemPoolCreate);

    if (result != CUDA_SUCCESS)
        return result;
    if (pool_p == NULL || props == NULL || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    if (props->location.type != CU_MEM_LOCATION_TYPE_DEVICE || props->handleTypes != 0)
        return emu_leave(CUDA_ERROR_NOT_SUPPORTED);
    if (props->location.id < 0 || props->location.id >= emu.device_count)
        return emu_leave(CUDA_ERROR_INVALID_DEVICE);
    *pool_p = emu_pool_new(&emu.devices[props->location.id], props);
    emu.counters.live_pools++;
    return emu_leave(CUDA_SUCCESS);
}

/* What was allocated from it stays until it is freed. */
CUresult cuMemPoolDestroy(CUmemoryPool handle)
{
    CUmemoryPool pool;
    CUresult result = enter_pool(EMU_CALL_cuMemPoolDestroy, handle, &pool);

    if (result != CUDA_SUCCESS)
        return result;
    if (pool->is_default)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    if (pool->device->pool == pool)
        pool->device->pool = pool->device->default_pool;
    emu.counters.live_pools--;
    pool->threshold_bytes = 0;
    settle(pool, 0);
    emu_object_destroy(pool);
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void *value)
{
    CUmemoryPool pool;
    CUresult result = enter_pool(EMU_CALL_cuMemPoolSetAttribute, handle, &pool);

    if (result != CUDA_SUCCESS)
        return result;
    if (value == NULL)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        pool->reuse[attribute - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES] = *(int *)value;
        break;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        pool->threshold_bytes = *(cuuint64_t *)value;
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        pool->reserved_high_bytes = pool->reserved_bytes; /* only 0 is allowed: a reset */
        break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        pool->used_high_bytes = pool->used_bytes;
        break;
    default:
        result = CUDA_ERROR_INVALID_VALUE;
    }
    return emu_leave(result);
}

CUresult cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void *value)
{
    CUmemoryPool pool;
    CUresult result = enter_pool(EMU_CALL_cuMemPoolGetAttribute, handle, &pool);

    if (result != CUDA_SUCCESS)
        return result;
    if (value == NULL)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        *(int *)value = pool->reuse[attribute - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES];
        break;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        *(cuuint64_t *)value = pool->threshold_bytes;
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        *(cuuint64_t *)value = pool->reserved_bytes;
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        *(cuuint64_t *)value = pool->reserved_high_bytes;
        break;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        *(cuuint64_t *)value = pool->used_bytes;
        break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        *(cuuint64_t *)value = pool->used_high_bytes;
        break;
    default:
        result = CUDA_ERROR_INVALID_VALUE;
    }
    return emu_leave(result);
}

CUresult cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc *accesses, size_t count)
{
    CUmemoryPool pool;
    CUresult result = enter_pool(EMU_CALL_cuMemPoolSetAccess, handle, &pool);

    if (result != CUDA_SUCCESS)
        return result;
    if (accesses == NULL && count > 0)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < count; i++) {
        const int ordinal = accesses[i].location.id;

        if (accesses[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE || ordinal < 0 ||
            ordinal >= emu.device_count)
            return emu_leave(CUDA_ERROR_INVALID_DEVICE);
        if (accesses[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            pool->access |= 1u << ordinal;
        else if (&emu.devices[ordinal] == pool->device) /* its own can't be taken away */
            return emu_leave(CUDA_ERROR_INVALID_VALUE);
        else
            pool->access &= ~(1u << ordinal);
    }
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags_p, CUmemoryPool handle,
                            CUmemLocation *location)
{
    CUmemoryPool pool;
    CUresult result = enter_pool(EMU_CALL_cuMemPoolGetAccess, handle, &pool);

    if (result != CUDA_SUCCESS)
        return result;
    if (flags_p == NULL || location == NULL || location->type != CU_MEM_LOCATION_TYPE_DEVICE ||
        location->id < 0 || location->id >= emu.device_count)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    *flags_p = pool->access & (1u << location->id) ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                                   : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t keep_bytes)
{
    CUmemoryPool pool;
    CUresult result = enter_pool(EMU_CALL_cuMemPoolTrimTo, handle, &pool);

    if (result != CUDA_SUCCESS)
        return result;
    settle(pool, keep_bytes);
    return emu_leave(CUDA_SUCCESS);
}

/* ---- In stream order ------------------------------------------------------------------------ */

/* The public call has begun; ends it. The order among streams is what checks look at. */
static CUresult allocate(const char *name, CUdeviceptr *memory_p, size_t size_bytes,
                         CUmemoryPool pool, CUstream stream)
{
    emu_allocation *allocation;
    emu_operation *operation;
    CUcontext context = stream->context;
    CUresult result;

    if (memory_p == NULL || size_bytes == 0)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    if (stream->capture != NULL) /* allocation nodes of graphs are not emulated */
        return emu_leave(CUDA_ERROR_NOT_SUPPORTED);
    operation = emu_operation_new(EMU_OPERATION_MARK, name, 0);
    result = emu_enqueue(stream, operation);
    if (result == CUDA_SUCCESS) {
        const uint64_t kept_bytes = pool->reserved_bytes - pool->used_bytes;

        pool->device->kept_bytes -= kept_bytes; /* what the pool keeps it can give */
        if (in_blocks(pool->used_bytes + size_bytes) - pool->used_bytes >
            emu_memory_unused_bytes(pool->device))
            result = CUDA_ERROR_OUT_OF_MEMORY;
        else
            result = emu_memory_new_on(EMU_MEMORY_DEVICE, context, pool->device, size_bytes,
                                       &allocation);
        pool->device->kept_bytes += kept_bytes;
    }
    if (result != CUDA_SUCCESS)
        return emu_leave(result);
    allocation->stream = stream;
    allocation->sequence = stream->issued;
    emu_object_hold(stream);
    allocation->pool = pool;
    emu_object_hold(pool);
    emu_pool_count(pool, size_bytes, true);
    *memory_p = allocation->start;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuMemAllocAsync(CUdeviceptr *memory_p, size_t size_bytes, CUstream handle)
{
    CUstream stream;
    CUresult result = emu_enter_stream(EMU_CALL_cuMemAllocAsync, handle, &stream);

    if (result != CUDA_SUCCESS)
        return result;
    return allocate("cuMemAllocAsync", memory_p, size_bytes, stream->context->device->pool, stream);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *memory_p, size_t size_bytes, CUmemoryPool handle,
                                 CUstream stream_handle)
{
    CUstream stream;
    CUmemoryPool pool;
    CUresult result = emu_enter_stream(EMU_CALL_cuMemAllocFromPoolAsync, stream_handle, &stream);

    if (result != CUDA_SUCCESS)
        return result;
    pool = emu_object_find(EMU_OBJECT_POOL, handle);
    if (pool == NULL)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    return allocate("cuMemAllocFromPoolAsync", memory_p, size_bytes, pool, stream);
}

/* By its address: the context may have been destroyed, and all its memory with it. */
static void free_complete(emu_operation *operation)
{
    emu_allocation *const allocation = emu_allocation_at(*(void **)operation->data);

    if (allocation != NULL && allocation->freed)
        emu_memory_free(allocation);
}

CUresult cuMemFreeAsync(CUdeviceptr memory, CUstream handle)
{
    CUstream stream;
    emu_allocation *allocation;
    emu_operation *operation;
    CUresult result = emu_enter_stream(EMU_CALL_cuMemFreeAsync, handle, &stream);

    if (result != CUDA_SUCCESS)
        return result;
    if (stream->capture != NULL)
        return emu_leave(CUDA_ERROR_NOT_SUPPORTED);
    allocation = emu_allocation_to_free("cuMemFreeAsync", memory, EMU_MEMORY_DEVICE);
    if (allocation == NULL)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    emu_memory_freed(allocation); /* before emu_enqueue gives the lock away, if it does */
    operation = emu_operation_new(EMU_OPERATION_MARK, "cuMemFreeAsync", sizeof(void *));
    *(void **)operation->data = (void *)memory;
    operation->complete = free_complete;
    result = emu_enqueue(stream, operation);
    if (result == CUDA_SUCCESS) {
        emu_catch_pending("cuMemFreeAsync", allocation, stream);
        if (allocation->stream != NULL &&
            !emu_ordered(allocation->stream, allocation->sequence, stream))
            emu_catch(EMU_CATCH_UNORDERED,
                      "cuMemFreeAsync (stream %llu) of %p, whose allocation (stream %llu) is in no "
                      "order with it",
                      (unsigned long long)stream->id, (void *)memory,
                      (unsigned long long)allocation->stream->id);
    }
    return emu_leave(result);
}
