/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device and pinned memory. Each device, and pinned memory, has a range of addresses of its own
 * that is reserved once, so that an address tells what it is also when nothing is allocated there;
 * places are given out in turn around the range, so one that was freed comes back as late as
 * possible. A page at the end of each is left out. Registered memory is the program's; its range is
 * noted alone.
 *
 * MEMORY THAT OTHER PROCESSES MAY OPEN. What cuMemAlloc gives out lies in a file of its own
 * (ipc_file.h) that is mapped over its place from the beginning; all else is private. To put it
 * into a file only when somebody asks for a handle would be lazier, and wrong: its bytes would be
 * copied and the mapping exchanged while a stream's operation writes there, which is lost. To wait
 * for such operations is no way out, as a handle of memory that a kernel is at is nothing special
 * and the real call waits for nothing. A file costs 15 us and a descriptor; its pages cost
 * what private ones do (measured from 4 KiB to 64 MiB, where the kernel makes no huge pages of
 * either). If there are no more descriptors for us the memory is private and gets no handle.
 */
#include "tests/emu/driver.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE_BYTES ((size_t)4096)
#define FILLED_BYTES_MOST                                                                          \
    ((size_t)64 * 1024) /* of new memory, so that nobody takes it for zeros                        \
                         */

typedef struct arena {
    uintptr_t start, next;
} arena;

static arena arenas[EMU_DEVICES_MOST + 1]; /* the last is pinned memory's */
static uint64_t pinned_used_bytes;

static int allocation_compare(const emu_allocation *a, const emu_allocation *b)
{
    return (a->start > b->start) - (a->start < b->start);
}

static RB_HEAD(allocation_tree, emu_allocation) allocations = RB_INITIALIZER(&allocations);
/* RB_GENERATE_STATIC relies on a BSD's spelling of the attribute. */
RB_GENERATE_INTERNAL(allocation_tree, emu_allocation, entry, allocation_compare,
                     __attribute__((unused)) static)

/* The last allocation that begins at or before `start`. */
static emu_allocation *allocation_before(uintptr_t start)
{
    emu_allocation *node = RB_ROOT(&allocations), *best = NULL;

    while (node != NULL) {
        if (node->start <= start) {
            best = node;
            node = RB_RIGHT(node, entry);
        } else {
            node = RB_LEFT(node, entry);
        }
    }
    return best;
}

emu_allocation *emu_allocation_at(const void *start)
{
    emu_allocation *const allocation = allocation_before((uintptr_t)start);

    if (allocation == NULL || (uintptr_t)start - allocation->start >= allocation->size_bytes)
        return NULL;
    return allocation;
}

/* Whether the pages of what lies there are kept. */
static bool is_around(uintptr_t start)
{
    for (size_t i = 0; i <= EMU_DEVICES_MOST && EMU_AROUND_BYTES < EMU_ADDRESSES_BYTES; i++) {
        if (arenas[i].start != 0 && start - arenas[i].start < EMU_AROUND_BYTES)
            return true;
    }
    return false;
}

static bool in_arena(uintptr_t start)
{
    for (size_t i = 0; i <= EMU_DEVICES_MOST; i++) {
        if (arenas[i].start != 0 && start - arenas[i].start < EMU_ADDRESSES_BYTES)
            return true;
    }
    return false;
}

emu_pointer emu_pointer_kind(const void *start, size_t size_bytes, emu_allocation **allocation_p)
{
    emu_allocation *const allocation = emu_allocation_at(start);

    *allocation_p = allocation;
    if (allocation == NULL)
        return in_arena((uintptr_t)start) ? EMU_POINTER_FREED : EMU_POINTER_PLAIN;
    if (allocation->freed)
        return EMU_POINTER_FREED;
    if (size_bytes <= allocation->size_bytes - ((uintptr_t)start - allocation->start))
        return EMU_POINTER_KNOWN;
    /* Registered memory that goes on beyond its registration is pageable as a whole. */
    return allocation->kind == EMU_MEMORY_REGISTERED ? EMU_POINTER_PLAIN : EMU_POINTER_FREED;
}

bool emu_check_allocated(const emu_operation *operation, CUstream stream, bool running)
{
    for (size_t i = 0; i < operation->access_count; i++) {
        const emu_access *const access = &operation->accesses[i];
        const size_t size_bytes = access->end - access->start;
        emu_allocation *allocation;
        const emu_pointer kind = emu_pointer_kind((void *)access->start, size_bytes, &allocation);

        /* What it is to run after may have called cuMemFreeAsync since: that is for its order. */
        if (kind == EMU_POINTER_FREED && running && allocation != NULL && allocation->freed)
            continue;
        if (kind == EMU_POINTER_FREED) {
            emu_catch(EMU_CATCH_FREED,
                      "%s%s (stream %llu) touches [%p, %p), which is not allocated",
                      operation->name, running ? ", as it runs," : "",
                      (unsigned long long)stream->id, (void *)access->start, (void *)access->end);
            return false;
        }
        if (kind == EMU_POINTER_KNOWN && allocation->stream != NULL && !running &&
            !emu_ordered(allocation->stream, allocation->sequence, stream))
            emu_catch(EMU_CATCH_UNORDERED,
                      "%s (stream %llu) touches [%p, %p), whose cuMemAllocAsync (stream %llu) is "
                      "in no order with it",
                      operation->name, (unsigned long long)stream->id, (void *)access->start,
                      (void *)access->end, (unsigned long long)allocation->stream->id);
    }
    return true;
}

/* ---- Giving out and taking back ------------------------------------------------------------- */

static bool arena_open(arena *arena)
{
    void *memory;

    if (arena->start != 0)
        return true;
    memory = mmap(NULL, EMU_ADDRESSES_BYTES, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return false;
    arena->start = arena->next = (uintptr_t)memory;
    return true;
}

/* A free place of `size_bytes`, whole pages, from `place` on, around to there; 0: there is none. */
static uintptr_t place_free(uintptr_t start, uintptr_t end, uintptr_t place, size_t size_bytes)
{
    bool wrapped = false;

    for (;;) {
        const emu_allocation *before;

        if (end - place < size_bytes) {
            if (wrapped)
                return 0;
            wrapped = true;
            place = start;
        }
        /* The last that begins before the place's end is the only one that can stand in its way. */
        before = allocation_before(place + size_bytes - 1);
        if (before == NULL || before->start + before->size_bytes <= place)
            return place;
        place = (before->start + before->size_bytes + 2 * PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
        if (place > end)
            place = end;
    }
}

static uintptr_t arena_place(arena *arena, size_t size_bytes)
{
    const uintptr_t around = arena->start + EMU_AROUND_BYTES;
    uintptr_t place = place_free(arena->start, around, arena->next, size_bytes);

    if (place != 0)
        arena->next = place + size_bytes;
    else if (EMU_AROUND_BYTES < EMU_ADDRESSES_BYTES)
        place = place_free(around, arena->start + EMU_ADDRESSES_BYTES, around, size_bytes);
    return place;
}

size_t emu_memory_pages_bytes(size_t size_bytes)
{
    return (size_bytes + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
}

/* What lay there may be read no more; if it is a file's, then from this process alone. */
static void place_clear(uintptr_t place, size_t size_bytes, bool is_file)
{
    const size_t pages_bytes = emu_memory_pages_bytes(size_bytes);

    if (!is_file) {
        if (!is_around(place))
            madvise((void *)place, pages_bytes, MADV_DONTNEED);
        return;
    }
    if (mmap((void *)place, pages_bytes, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED) {
        /* The next allocation there would be memory that another process still has. */
        fprintf(stderr, "emu: a file's mapping can't be taken away\n");
        abort();
    }
}

/* False: the system maps no more; the place is as it was. */
static bool place_file(uintptr_t place, size_t size_bytes, int file)
{
    if (mmap((void *)place, emu_memory_pages_bytes(size_bytes), PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_FIXED, file, 0) != MAP_FAILED)
        return true;
    place_clear(place, size_bytes, true); /* a failed call may have left a gap */
    return false;
}

static void count_bytes(const emu_allocation *allocation, bool in)
{
    const uint64_t size_bytes = in ? allocation->size_bytes : -(uint64_t)allocation->size_bytes;
    const uint64_t one = in ? 1 : (uint64_t)-1;

    switch (allocation->kind) {
    case EMU_MEMORY_DEVICE:
        emu.counters.live_device_bytes += size_bytes;
        emu.counters.live_device_ranges += one;
        allocation->device->used_bytes += size_bytes;
        break;
    case EMU_MEMORY_PINNED:
        emu.counters.live_pinned_bytes += size_bytes;
        emu.counters.live_pinned_ranges += one;
        pinned_used_bytes += size_bytes;
        break;
    case EMU_MEMORY_REGISTERED:
        emu.counters.live_pinned_bytes += size_bytes;
        emu.counters.live_pinned_ranges += one;
        emu.counters.live_registered_ranges += one;
        break;
    }
}

static emu_allocation *allocation_add(emu_memory_kind kind, CUcontext context, emu_device *device,
                                      uintptr_t start, size_t size_bytes)
{
    emu_allocation *allocation = emu_allocate(sizeof *allocation);

    allocation->start = start;
    allocation->size_bytes = size_bytes;
    allocation->kind = kind;
    allocation->context = context;
    allocation->device = device;
    allocation->id = ++emu.numbers;
    allocation->file = EMU_IPC_FILE_NONE;
    RB_INSERT(allocation_tree, &allocations, allocation);
    return allocation;
}

/* What can be had; pools' own aside. */
uint64_t emu_memory_unused_bytes(const emu_device *device)
{
    const uint64_t taken_bytes = device->used_bytes + device->kept_bytes;

    return taken_bytes < device->total_bytes ? device->total_bytes - taken_bytes : 0;
}

/* A place for memory of the device, or of the host if there is none; 0: there is none. */
static uintptr_t place_new(const emu_device *device, size_t size_bytes)
{
    arena *const arena = &arenas[device != NULL ? device->ordinal : EMU_DEVICES_MOST];

    if (size_bytes > EMU_ADDRESSES_BYTES / 2 || !arena_open(arena))
        return 0;
    return arena_place(arena, emu_memory_pages_bytes(size_bytes) + PAGE_BYTES);
}

static CUresult memory_new(emu_memory_kind kind, CUcontext context, emu_device *device,
                           size_t size_bytes, bool in_file, emu_allocation **allocation_p)
{
    emu_ipc_file file = EMU_IPC_FILE_NONE;
    uintptr_t place;

    if (kind == EMU_MEMORY_DEVICE && size_bytes > emu_memory_unused_bytes(device))
        return CUDA_ERROR_OUT_OF_MEMORY;
    place = place_new(kind == EMU_MEMORY_DEVICE ? device : NULL, size_bytes);
    if (place == 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (in_file && emu_ipc_file_new(emu_memory_pages_bytes(size_bytes), &file) &&
        !place_file(place, size_bytes, file.number))
        emu_ipc_file_close(&file);
    memset((void *)place, 0xa5, size_bytes < FILLED_BYTES_MOST ? size_bytes : FILLED_BYTES_MOST);
    *allocation_p = allocation_add(kind, context, device, place, size_bytes);
    (*allocation_p)->file = file;
    count_bytes(*allocation_p, true);
    return CUDA_SUCCESS;
}

CUresult emu_memory_new_on(emu_memory_kind kind, CUcontext context, emu_device *device,
                           size_t size_bytes, emu_allocation **allocation_p)
{
    return memory_new(kind, context, device, size_bytes, false, allocation_p);
}

CUresult emu_memory_new(emu_memory_kind kind, CUcontext context, size_t size_bytes,
                        emu_allocation **allocation_p)
{
    return memory_new(kind, context, context->device, size_bytes,
                      emu.ipc && kind == EMU_MEMORY_DEVICE, allocation_p);
}

/* It is the other process's, and counts there. */
CUresult emu_memory_map(CUcontext context, emu_device *device, size_t size_bytes, int file,
                        emu_allocation **allocation_p)
{
    const uintptr_t place = place_new(device, size_bytes);

    if (place == 0 || !place_file(place, size_bytes, file))
        return CUDA_ERROR_OUT_OF_MEMORY;
    *allocation_p = allocation_add(EMU_MEMORY_DEVICE, context, device, place, size_bytes);
    return CUDA_SUCCESS;
}

void emu_memory_free(emu_allocation *allocation)
{
    if (allocation->pool != NULL && !allocation->freed)
        emu_pool_count(allocation->pool, allocation->size_bytes, false);
    if (!allocation->freed && allocation->import == NULL) /* cuMemFreeAsync has counted */
        count_bytes(allocation, false);
    if (allocation->kind != EMU_MEMORY_REGISTERED)
        place_clear(allocation->start, allocation->size_bytes,
                    allocation->file.number >= 0 || allocation->import != NULL);
    emu.counters.freed_open += emu_ipc_file_is_open(&allocation->file);
    emu_ipc_file_close(&allocation->file);
    if (allocation->import != NULL)
        emu_import_free(allocation->import);
    if (allocation->stream != NULL)
        emu_object_drop(allocation->stream);
    if (allocation->pool != NULL)
        emu_object_drop(allocation->pool);
    RB_REMOVE(allocation_tree, &allocations, allocation);
    free(allocation);
}

void emu_memory_freed(emu_allocation *allocation)
{
    if (allocation->pool != NULL)
        emu_pool_count(allocation->pool, allocation->size_bytes, false);
    count_bytes(allocation, false);
    allocation->freed = true;
}

void emu_memory_free_all(CUcontext context)
{
    emu_allocation *allocation, *next;

    for (allocation = RB_MIN(allocation_tree, &allocations); allocation != NULL;
         allocation = next) {
        next = RB_NEXT(allocation_tree, &allocations, allocation);
        if (allocation->context == context)
            emu_memory_free(allocation);
    }
}

void emu_memory_take_pinned(void)
{
    const arena *const pinned = &arenas[EMU_DEVICES_MOST];

    if (pinned->start != 0)
        (void)mprotect((void *)pinned->start, EMU_ADDRESSES_BYTES, PROT_NONE);
}

/* ---- Calls ---------------------------------------------------------------------------------- */

CUresult cuMemAlloc(CUdeviceptr *memory_p, size_t size_bytes)
{
    CUcontext context;
    emu_allocation *allocation;
    CUresult result = emu_enter_context(EMU_CALL_cuMemAlloc, &context);

    if (result != CUDA_SUCCESS)
        return result;
    if (memory_p == NULL || size_bytes == 0)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    result = emu_memory_new(EMU_MEMORY_DEVICE, context, size_bytes, &allocation);
    if (result == CUDA_SUCCESS)
        *memory_p = allocation->start;
    return emu_leave(result);
}

/* The live allocation that begins there and is of that kind; caught if there is none. */
emu_allocation *emu_allocation_to_free(const char *name, uintptr_t start, emu_memory_kind kind)
{
    emu_allocation *const allocation = emu_allocation_at((void *)start);

    if (allocation != NULL && allocation->import != NULL) {
        emu_catch(EMU_CATCH_MISUSE, "%s of %p, which is another process's memory", name,
                  (void *)start);
        return NULL;
    }
    if (allocation == NULL || allocation->start != start || allocation->kind != kind ||
        allocation->freed) {
        emu_catch(in_arena(start) ? EMU_CATCH_FREED : EMU_CATCH_MISUSE,
                  "%s of %p, which is not what a live allocation of its kind begins with", name,
                  (void *)start);
        return NULL;
    }
    return allocation;
}

void emu_catch_pending(const char *name, const emu_allocation *allocation, CUstream stream)
{
    emu_operation *pending;

    if (!emu_range_pending((void *)allocation->start, allocation->size_bytes, stream, &pending))
        return;
    emu_catch(EMU_CATCH_FREED,
              "%s of %p, which %s (stream %llu, its number %llu) touches and is not ordered before",
              name, (void *)allocation->start, pending->name,
              (unsigned long long)pending->stream->id, (unsigned long long)pending->sequence);
}

CUresult cuMemFree(CUdeviceptr memory)
{
    CUcontext context;
    emu_allocation *allocation;
    CUresult result = emu_enter_context(EMU_CALL_cuMemFree, &context);

    if (result != CUDA_SUCCESS || memory == 0)
        return result == CUDA_SUCCESS ? emu_leave(CUDA_SUCCESS) : result;
    allocation = emu_allocation_to_free("cuMemFree", memory, EMU_MEMORY_DEVICE);
    if (allocation == NULL)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    if (allocation->stream != NULL) { /* such memory is freed without waiting for anything */
        emu_catch_pending("cuMemFree of stream-ordered memory", allocation, NULL);
    } else {
        result = emu_context_drain(allocation->context);
        /* The lock was given away. */
        if (result == CUDA_SUCCESS) {
            allocation = emu_allocation_to_free("cuMemFree", memory, EMU_MEMORY_DEVICE);
            if (allocation == NULL)
                result = CUDA_ERROR_INVALID_VALUE;
            else /* what other contexts do with it is not waited for */
                emu_catch_pending("cuMemFree", allocation, NULL);
        }
    }
    if (result == CUDA_SUCCESS)
        emu_memory_free(allocation);
    return emu_leave(result);
}

static CUresult host_alloc(emu_call call, void **memory_p, size_t size_bytes, unsigned flags)
{
    CUcontext context;
    emu_allocation *allocation;
    CUresult result = emu_enter_context(call, &context);

    if (result != CUDA_SUCCESS)
        return result;
    if (memory_p == NULL || size_bytes == 0 || (flags & ~7u))
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    result = emu_memory_new(EMU_MEMORY_PINNED, context, size_bytes, &allocation);
    if (result == CUDA_SUCCESS) {
        allocation->flags = flags;
        *memory_p = (void *)allocation->start;
    }
    return emu_leave(result);
}

CUresult cuMemHostAlloc(void **memory_p, size_t size_bytes, unsigned int flags)
{
    return host_alloc(EMU_CALL_cuMemHostAlloc, memory_p, size_bytes, flags);
}

CUresult cuMemAllocHost(void **memory_p, size_t size_bytes)
{
    return host_alloc(EMU_CALL_cuMemAllocHost, memory_p, size_bytes, 0);
}

CUresult cuMemFreeHost(void *memory)
{
    CUcontext context;
    emu_allocation *allocation;
    CUresult result = emu_enter_context(EMU_CALL_cuMemFreeHost, &context);

    if (result != CUDA_SUCCESS)
        return result;
    allocation = emu_allocation_to_free("cuMemFreeHost", (uintptr_t)memory, EMU_MEMORY_PINNED);
    if (allocation == NULL)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    emu_catch_pending("cuMemFreeHost", allocation, NULL); /* also what is about to be waited for */
    result = emu_context_drain(allocation->context);
    if (result == CUDA_SUCCESS) /* the lock was given away */
        allocation = emu_allocation_to_free("cuMemFreeHost", (uintptr_t)memory, EMU_MEMORY_PINNED);
    if (result == CUDA_SUCCESS && allocation == NULL)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        emu_memory_free(allocation);
    return emu_leave(result);
}

CUresult cuMemHostRegister(void *memory, size_t size_bytes, unsigned int flags)
{
    CUcontext context;
    emu_allocation *allocation;
    const uintptr_t start = (uintptr_t)memory;
    CUresult result = emu_enter_context(EMU_CALL_cuMemHostRegister, &context);

    if (result != CUDA_SUCCESS)
        return result;
    if (memory == NULL || size_bytes == 0 || (flags & ~15u) || in_arena(start))
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    allocation = allocation_before(start + size_bytes - 1);
    if (allocation != NULL && allocation->start + allocation->size_bytes > start)
        return emu_leave(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    allocation = allocation_add(EMU_MEMORY_REGISTERED, context, context->device, start, size_bytes);
    allocation->flags = flags;
    count_bytes(allocation, true);
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuMemHostUnregister(void *memory)
{
    CUcontext context;
    emu_allocation *allocation;
    CUresult result = emu_enter_context(EMU_CALL_cuMemHostUnregister, &context);

    if (result != CUDA_SUCCESS)
        return result;
    allocation = emu_allocation_at(memory);
    if (allocation == NULL || allocation->start != (uintptr_t)memory ||
        allocation->kind != EMU_MEMORY_REGISTERED)
        return emu_leave(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    emu_catch_pending("cuMemHostUnregister", allocation, NULL);
    emu_memory_free(allocation);
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuMemGetInfo(size_t *free_bytes_p, size_t *total_bytes_p)
{
    CUcontext context;
    const emu_device *device;
    CUresult result = emu_enter_context(EMU_CALL_cuMemGetInfo, &context);

    if (result != CUDA_SUCCESS)
        return result;
    device = context->device;
    if (free_bytes_p != NULL)
        *free_bytes_p = emu_memory_unused_bytes(device);
    if (total_bytes_p != NULL)
        *total_bytes_p = device->total_bytes;
    return emu_leave(CUDA_SUCCESS);
}
