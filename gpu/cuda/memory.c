/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/cuda/memory.h"

#include "gpu/cuda/context.h"
#include "gpu/cuda/cuda.h"
#include "gpu/cuda/driver.h"
#include "gpu/cuda/lost.h"
#include "gpu/cuda/reclaim.h"
#include "gpu/device.h"

/* How long an allocation waits for memory that is being freed. */
#define RECLAIM_WAIT_NS ((int64_t)1000000000)

/* Allocations that a span of host memory is followed through. */
#define RANGES_MOST 64

static void warn(const fry_cuda_device *device, CUresult result, const char *call)
{
    fry_fault fault;
    (void)fry_cuda_tell(&fault, FERRY_E_DEVICE, result, call);
    fry_log_line(device->backend->options.log, FERRY_LOG_WARNING, "%s: %s", device->device.name,
                 fault.message);
}

uint64_t fry_cuda_memory_keeps_bytes(const fry_cuda_device *device)
{
    uint64_t bytes = device->memory.gpu_bytes / FRY_CUDA_KEPT_SHARE;
    return bytes < FRY_CUDA_KEPT_MOST_BYTES ? bytes : FRY_CUDA_KEPT_MOST_BYTES;
}

/* --- pools --- */

static CUresult make_pool(fry_cuda_device *device, const char **call_p)
{
    fry_cuda_memory *memory = &device->memory;
    CUmemPoolProps props = {
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
        .handleTypes = CU_MEM_HANDLE_TYPE_NONE,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->gpu},
    };
    *call_p = "cuMemPoolCreate";
    CUresult result = fry_cuda.cuMemPoolCreate(&memory->pool, &props);
    if (result != CUDA_SUCCESS) {
        memory->pool = NULL;
        return result;
    }
    cuuint64_t keeps_bytes = fry_cuda_memory_keeps_bytes(device);
    *call_p = "cuMemPoolSetAttribute";
    result = fry_cuda.cuMemPoolSetAttribute(memory->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
                                            &keeps_bytes);
    if (result != CUDA_SUCCESS)
        return result;
    /* On ferry's own priority: an allocation must not queue behind a program's kernel. */
    *call_p = "cuStreamCreateWithPriority";
    result = fry_cuda.cuStreamCreateWithPriority(&memory->stream, CU_STREAM_NON_BLOCKING,
                                                 fry_cuda_priority(device, FRY_CUDA_LEVEL_MAIN));
    if (result != CUDA_SUCCESS)
        memory->stream = NULL;
    return result;
}

CUresult fry_cuda_memory_open(fry_cuda_device *device, const char **call_p)
{
    fry_cuda_memory *memory = &device->memory;
    size_t gpu_bytes = 0;
    int has_pools = 0;
    *call_p = "cuDeviceTotalMem";
    CUresult result = fry_cuda.cuDeviceTotalMem(&gpu_bytes, device->gpu);
    memory->gpu_bytes = gpu_bytes;
    if (result == CUDA_SUCCESS) {
        *call_p = "cuDeviceGetAttribute";
        result = fry_cuda.cuDeviceGetAttribute(
            &has_pools, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, device->gpu);
    }
    if (result != CUDA_SUCCESS)
        return result;
    if (has_pools == 0) {
        memory->lacks = "the driver has no memory pools for this GPU";
        return CUDA_SUCCESS;
    }
    result = make_pool(device, call_p);
    if (result == CUDA_SUCCESS)
        return result;
    fry_cuda_memory_close(device);
    if (!fry_cuda_is_refusal(result))
        return result;
    warn(device, result, *call_p);
    memory->lacks = "the driver refused to make a memory pool";
    return CUDA_SUCCESS;
}

void fry_cuda_memory_close(fry_cuda_device *device)
{
    fry_cuda_memory *memory = &device->memory;
    if (fry_cuda_lost(device) == CUDA_SUCCESS) {
        if (memory->pool != NULL)
            (void)fry_cuda.cuMemPoolDestroy(memory->pool);
        if (memory->stream != NULL)
            (void)fry_cuda.cuStreamDestroy(memory->stream);
    }
    memory->pool = NULL;
    memory->stream = NULL;
}

/* --- peers --- */

static uint64_t bit_of(const fry_cuda_device *device)
{
    return device->ordinal < 64 ? (uint64_t)1 << device->ordinal : 0;
}

/* Bits by the device's number. An engine opens at most 64 devices. */
static uint64_t met_bit_of(const fry_cuda_device *device)
{
    return device->number < 64 ? (uint64_t)1 << device->number : 0;
}

bool fry_cuda_memory_reaches(const fry_cuda_device *a, const fry_cuda_device *b)
{
    return a->context == b->context || ((fry_load_relaxed(&a->memory.met) & met_bit_of(b)) != 0 &&
                                        (fry_load_relaxed(&b->memory.met) & met_bit_of(a)) != 0);
}

/* Lets `from` read and write all that `to` has allocated or will. */
static bool open_to(fry_cuda_device *to, fry_cuda_device *from)
{
    int can = 0;
    CUresult result = fry_cuda.cuDeviceCanAccessPeer(&can, from->gpu, to->gpu);
    if (result != CUDA_SUCCESS || can == 0)
        return false;
    fry_cuda_scope scope;
    const char *call = "cuCtxEnablePeerAccess";
    result = fry_cuda_enter(&scope, from->context);
    if (result == CUDA_SUCCESS)
        result = fry_cuda.cuCtxEnablePeerAccess(to->context, 0);
    fry_cuda_leave(&scope);
    if (result == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
        result = CUDA_SUCCESS;
    /* A pool's memory is the GPU's, not a context's. */
    if (result == CUDA_SUCCESS && to->memory.pool != NULL && to->gpu != from->gpu) {
        CUmemAccessDesc access = {
            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = from->gpu},
            .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        call = "cuMemPoolSetAccess";
        result = fry_cuda_enter(&scope, to->context);
        if (result == CUDA_SUCCESS)
            result = fry_cuda.cuMemPoolSetAccess(to->memory.pool, &access, 1);
        fry_cuda_leave(&scope);
    }
    if (result != CUDA_SUCCESS)
        warn(from, result, call);
    return result == CUDA_SUCCESS;
}

void fry_cuda_memory_meet(fry_cuda_device *device)
{
    fry_cuda_device *other = device->backend->devices;
    for (; other != NULL; other = other->next) {
        if (other->context == device->context || fry_cuda_lost(other) != CUDA_SUCCESS)
            continue;
        if (!open_to(device, other) || !open_to(other, device))
            continue;
        fry_store_relaxed(&device->memory.met, device->memory.met | met_bit_of(other));
        fry_store_relaxed(&other->memory.met, other->memory.met | met_bit_of(device));
        if (other->ordinal == device->ordinal)
            continue;
        fry_store_relaxed(&device->memory.peers, device->memory.peers | bit_of(other));
        fry_store_relaxed(&other->memory.peers, other->memory.peers | bit_of(device));
    }
}

/* --- allocating --- */

static CUresult alloc_from_pool(fry_cuda_device *device, size_t size_bytes, CUdeviceptr *memory_p,
                                const char **call_p)
{
    const fry_cuda_memory *memory = &device->memory;
    *call_p = "cuMemAllocFromPoolAsync";
    CUresult result =
        fry_cuda.cuMemAllocFromPoolAsync(memory_p, size_bytes, memory->pool, memory->stream);
    if (result != CUDA_SUCCESS)
        return result;
    /* Any stream may use it then. Only allocations and frees are waited for. */
    *call_p = "cuStreamSynchronize";
    result = fry_cuda.cuStreamSynchronize(memory->stream);
    if (result != CUDA_SUCCESS)
        (void)fry_cuda.cuMemFreeAsync(*memory_p, memory->stream);
    return result;
}

CUresult fry_cuda_memory_take(fry_cuda_device *device, size_t size_bytes, fry_memory_kind kind,
                              void **memory_p, const char **call_p)
{
    CUresult result;
    if (kind == FRY_MEMORY_PINNED) {
        *call_p = "cuMemHostAlloc";
        return fry_cuda.cuMemHostAlloc(memory_p, size_bytes, CU_MEMHOSTALLOC_PORTABLE);
    }
    CUdeviceptr memory = 0;
    if (kind == FRY_MEMORY_DEFAULT && device->memory.pool != NULL) {
        result = alloc_from_pool(device, size_bytes, &memory, call_p);
    } else {
        *call_p = "cuMemAlloc";
        result = fry_cuda.cuMemAlloc(&memory, size_bytes);
    }
    *memory_p = (void *)(uintptr_t)memory;
    return result;
}

/* Gives unused memory of the pool back to the driver. */
static void trim(const fry_cuda_device *device)
{
    fry_cuda_scope scope;
    if (fry_cuda_enter(&scope, device->context) == CUDA_SUCCESS &&
        fry_cuda.cuStreamSynchronize(device->memory.stream) == CUDA_SUCCESS)
        (void)fry_cuda.cuMemPoolTrimTo(device->memory.pool, 0);
    fry_cuda_leave(&scope);
}

/* Frees GPU memory that the engine's devices on the GPU only keep or are about to free. */
static void make_room(const fry_cuda_device *device)
{
    const fry_cuda_device *other = fry_load_acquire(&device->backend->devices);
    (void)fry_cuda_reclaim_empty(device->backend->reclaim, RECLAIM_WAIT_NS);
    for (; other != NULL; other = other->next) {
        if (other->ordinal == device->ordinal && other->memory.pool != NULL &&
            fry_cuda_lost(other) == CUDA_SUCCESS)
            trim(other);
    }
}

static bool is_from_pool(const fry_cuda_device *device, fry_memory_kind kind)
{
    return kind == FRY_MEMORY_DEFAULT && device->memory.pool != NULL;
}

ferry_status fry_cuda_memory_alloc(fry_device *base, size_t size_bytes, fry_memory_kind kind,
                                   void **memory_p, fry_fault *fault)
{
    fry_cuda_device *device = fry_cuda_device_of(base);
    fry_cuda_reclaim *reclaim = device->backend->reclaim;
    fry_cuda_block *block = NULL;
    if (fry_cuda_lost(device) != CUDA_SUCCESS)
        return fry_cuda_tell_lost(device, fault);
    if (!is_from_pool(device, kind)) {
        bool is_on_host = kind == FRY_MEMORY_PINNED;
        *memory_p = fry_cuda_reclaim_reuse(reclaim, device, size_bytes, is_on_host);
        if (*memory_p != NULL)
            return FERRY_OK;
        block = fry_cuda_reclaim_expect(reclaim, device, size_bytes, is_on_host);
        if (block == NULL)
            return FERRY_E_NO_MEMORY;
    }
    fry_cuda_scope scope;
    void *memory = NULL;
    const char *call = "cuCtxPushCurrent";
    CUresult result = fry_cuda_enter(&scope, device->context);
    if (result == CUDA_SUCCESS) {
        result = fry_cuda_memory_take(device, size_bytes, kind, &memory, &call);
        if (result == CUDA_ERROR_OUT_OF_MEMORY) {
            make_room(device);
            result = fry_cuda_memory_take(device, size_bytes, kind, &memory, &call);
        }
        if (result != CUDA_SUCCESS)
            (void)fry_cuda_is_fatal(device, result, call);
    } else {
        fry_cuda_lose(device, result, call);
    }
    fry_cuda_leave(&scope);
    if (block != NULL)
        fry_cuda_reclaim_note(reclaim, block, result == CUDA_SUCCESS ? memory : NULL);
    if (result != CUDA_SUCCESS) {
        warn(device, result, call);
        return fry_cuda_tell(
            fault, result == CUDA_ERROR_OUT_OF_MEMORY ? FERRY_E_NO_MEMORY : FERRY_E_DEVICE, result,
            call);
    }
    *memory_p = memory;
    return FERRY_OK;
}

/* Nothing of ferry's uses the memory, so the free waits for nothing. */
void fry_cuda_memory_free(fry_device *base, void *memory, size_t size_bytes, fry_memory_kind kind)
{
    (void)size_bytes;
    fry_cuda_device *device = fry_cuda_device_of(base);
    if (!is_from_pool(device, kind)) {
        fry_cuda_reclaim_free(device->backend->reclaim, memory);
        return;
    }
    fry_cuda_scope scope;
    CUresult result = fry_cuda_enter(&scope, device->context);
    if (result == CUDA_SUCCESS)
        result = fry_cuda.cuMemFreeAsync((CUdeviceptr)(uintptr_t)memory, device->memory.stream);
    if (result != CUDA_SUCCESS)
        warn(device, result, "memory is leaked: cuMemFreeAsync");
    fry_cuda_leave(&scope);
}

/* --- whose memory it is --- */

/* What the driver knows of an address; zeros: nothing, the memory is pageable or none. */
typedef struct pointer_facts {
    unsigned type; /* CUmemorytype */
    int ordinal;
    unsigned is_managed;
    CUcontext context; /* NULL: none, as for a pool */
    CUdeviceptr range_begin;
    size_t range_bytes;
} pointer_facts;

static pointer_facts look_at(const void *memory)
{
    pointer_facts facts = {.ordinal = -1};
    CUpointer_attribute names[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,      CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        CU_POINTER_ATTRIBUTE_IS_MANAGED,       CU_POINTER_ATTRIBUTE_CONTEXT,
        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
    };
    void *values[] = {&facts.type,    &facts.ordinal,     &facts.is_managed,
                      &facts.context, &facts.range_begin, &facts.range_bytes};
    CUresult result = fry_cuda.cuPointerGetAttributes(sizeof names / sizeof *names, names, values,
                                                      (CUdeviceptr)(uintptr_t)memory);
    return result == CUDA_SUCCESS ? facts : (pointer_facts){.ordinal = -1};
}

static const char *last_of(const void *memory, size_t size_bytes)
{
    return (const char *)memory + (size_bytes - 1);
}

static bool is_on_gpu(const pointer_facts *facts, const fry_cuda_device *device)
{
    return facts->is_managed != 0 ||
           (facts->type == CU_MEMORYTYPE_DEVICE && facts->ordinal == (int)device->ordinal);
}

bool fry_cuda_memory_is_here(fry_device *base, const void *memory, size_t size_bytes)
{
    const fry_cuda_device *device = fry_cuda_device_of(base);
    fry_cuda_scope scope;
    bool is_here = false;
    if (fry_cuda_enter(&scope, device->context) == CUDA_SUCCESS) {
        pointer_facts first = look_at(memory), last = look_at(last_of(memory, size_bytes));
        is_here = is_on_gpu(&first, device) && is_on_gpu(&last, device);
    }
    fry_cuda_leave(&scope);
    return is_here;
}

/* Where the memory may become another allocation's. */
static const char *end_of_range(const pointer_facts *facts, const char *at, const char *end)
{
    uintptr_t range_end = (uintptr_t)facts->range_begin + facts->range_bytes;
    if (range_end <= (uintptr_t)at || range_end >= (uintptr_t)end)
        return end;
    return at + (range_end - (uintptr_t)at);
}

/* Checks all of it: ranges registered one by one may be adjacent, or leave gaps. */
bool fry_cuda_memory_is_pinned(fry_device *base, const void *memory, size_t size_bytes)
{
    const char *at = memory, *end = at + size_bytes;
    fry_cuda_scope scope;
    bool is_pinned = fry_cuda_enter(&scope, fry_cuda_device_of(base)->context) == CUDA_SUCCESS;
    for (int i = 0; is_pinned && at < end; i++) {
        pointer_facts facts = look_at(at);
        is_pinned = i < RANGES_MOST && facts.type == CU_MEMORYTYPE_HOST && facts.is_managed == 0;
        at = end_of_range(&facts, at, end);
    }
    if (is_pinned) {
        pointer_facts last = look_at(end - 1);
        is_pinned = last.type == CU_MEMORYTYPE_HOST;
    }
    fry_cuda_leave(&scope);
    return is_pinned;
}

static bool is_off_host(const pointer_facts *facts)
{
    return facts->type == CU_MEMORYTYPE_DEVICE && facts->is_managed == 0;
}

bool fry_cuda_memory_is_off_host(fry_device *base, const void *memory, size_t size_bytes)
{
    fry_cuda_scope scope;
    bool is_off = false;
    if (fry_cuda_enter(&scope, fry_cuda_device_of(base)->context) == CUDA_SUCCESS) {
        pointer_facts first = look_at(memory), last = look_at(last_of(memory, size_bytes));
        is_off = is_off_host(&first) || is_off_host(&last);
    }
    fry_cuda_leave(&scope);
    return is_off;
}

/* Devices of one GPU and one context are interchangeable. */
fry_cuda_device *fry_cuda_memory_owner(fry_backend *backend, const void *memory)
{
    fry_cuda_device *device = fry_load_acquire(&backend->devices), *owner = NULL;
    pointer_facts facts = look_at(memory);
    if (facts.type != CU_MEMORYTYPE_DEVICE)
        return NULL;
    for (; device != NULL; device = device->next) {
        if ((int)device->ordinal != facts.ordinal)
            continue;
        if (facts.context == NULL || device->context == facts.context)
            return device;
        owner = owner != NULL ? owner : device;
    }
    return owner;
}

/* --- figures --- */

void fry_cuda_memory_describe(fry_cuda_device *device, fry_device_facts *facts)
{
    const fry_cuda_memory *memory = &device->memory;
    size_t unused_bytes = 0, gpu_bytes = 0;
    cuuint64_t reserved_bytes = 0, used_bytes = 0;
    fry_cuda_scope scope;
    facts->memory_bytes = memory->gpu_bytes;
    facts->peers = fry_load_relaxed(&memory->peers);
    fry_cuda_add_capability(facts, FERRY_CAN_COPY_TO_PEERS,
                            facts->peers != 0 ? NULL
                                              : "no other open GPU whose memory this GPU reaches");
    fry_cuda_add_capability(facts, FERRY_CAN_POOL_MEMORY,
                            memory->pool != NULL ? NULL : memory->lacks);
    if (fry_cuda_lost(device) != CUDA_SUCCESS)
        return;
    if (fry_cuda_enter(&scope, device->context) == CUDA_SUCCESS) {
        (void)fry_cuda.cuMemGetInfo(&unused_bytes, &gpu_bytes);
        if (memory->pool != NULL) {
            (void)fry_cuda.cuMemPoolGetAttribute(memory->pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
                                                 &reserved_bytes);
            (void)fry_cuda.cuMemPoolGetAttribute(memory->pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT,
                                                 &used_bytes);
        }
    }
    fry_cuda_leave(&scope);
    facts->memory_unused_bytes = unused_bytes;
    if (reserved_bytes > used_bytes) /* the pool keeps it for itself */
        facts->memory_unused_bytes += reserved_bytes - used_bytes;
    if (facts->memory_unused_bytes > facts->memory_bytes)
        facts->memory_unused_bytes = facts->memory_bytes;
}
