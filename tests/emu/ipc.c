/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that another process opens by a handle (CUDA IPC); events are in ipc_event.c, and where
 * the memory lies stands in memory.c and ipc_file.h.
 *
 * The rules, and who says so: "H200" is what one answered (docs/hardware.md, bench/results), "doc"
 * is cuda.h.
 *   - Memory of cuMemAlloc alone has a handle, of the whole allocation also where the pointer is of
 *     its middle (H200). That of a pool (H200), of the host, freed or opened has none:
 *     CUDA_ERROR_INVALID_VALUE.
 *   - The flag has to be CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS (doc). Bytes that are no handle:
 *     CUDA_ERROR_INVALID_VALUE (github.com/NVIDIA/nccl/issues/842).
 *   - The process that has the memory can't open it: CUDA_ERROR_INVALID_CONTEXT
 *     (github.com/openucx/ucx/pull/11603, and hip-tests' hipIpcOpenMemHandle.cc).
 *   - Opened again in the same context it has the same address, and is to be closed as often (doc,
 *     H200), also when its owner is dead (H200); so, too, when it has freed it, which nobody has
 *     asked.
 *   - What one process has on a device is opened by one context of a device of another process
 *     (doc), and by a second one not: CUDA_ERROR_INVALID_HANDLE (hip-tests).
 *   - An owner who frees memory gets the address again. As long as others have the old memory open
 *     they can't open the new one: CUDA_ERROR_ALREADY_MAPPED (libfabric's ofi_ipc_cache.c and UCX's
 *     cuda_ipc_cache.c, which close all that overlaps and try again). The H200's driver is kinder,
 *     and opens it elsewhere.
 *   - Freed memory stays with those who have it open until they close it (H200; doc: undefined, so
 *     it is counted, emu_counters.freed_open); the owner's death changes nothing for them (H200).
 *     Who opens it only then gets CUDA_ERROR_NOT_PERMITTED (H200 of freed memory; of a dead owner's
 *     it says CUDA_ERROR_INVALID_HANDLE).
 *   - On a device without access to the memory's: CUDA_ERROR_PEER_ACCESS_UNSUPPORTED
 *     (github.com/ray-project/ray_lightning/issues/24).
 *   - cuIpcCloseMemHandle needs a current context (github.com/openucx/ucx/pull/10618). That the
 *     last one waits until the context has nothing left to do, as cuMemFree does (H200), holds a
 *     program up that does not expect it. Operations on the memory that are not done are caught: an
 *     H200 waits for them, and no document says so.
 */
#include "tests/emu/driver.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Another process's memory that is open here. */
struct emu_import {
    LIST_ENTRY(emu_import) entry;
    emu_ipc_name name;
    emu_allocation *allocation;
    int file;        /* which tells the owner that it is open */
    uint64_t opened; /* how often it has to be closed */
};

static LIST_HEAD(, emu_import) imports = LIST_HEAD_INITIALIZER(imports);

void emu_set_ipc(bool allowed)
{
    emu_lock();
    emu.ipc = allowed;
    emu_unlock();
}

void emu_import_free(emu_import *import)
{
    emu.counters.live_imports -= import->opened;
    emu.counters.live_import_ranges--;
    LIST_REMOVE(import, entry);
    emu_ipc_name_close(import->file);
    free(import);
}

/* ---- Giving out ----------------------------------------------------------------------------- */

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle_p, CUdeviceptr pointer)
{
    CUcontext context;
    emu_allocation *allocation;
    CUresult result = emu_enter_context(EMU_CALL_cuIpcGetMemHandle, &context);

    if (result != CUDA_SUCCESS)
        return result;
    if (!emu.ipc)
        return emu_leave(CUDA_ERROR_NOT_SUPPORTED);
    if (handle_p == NULL ||
        emu_pointer_kind((void *)pointer, 1, &allocation) != EMU_POINTER_KNOWN ||
        allocation->kind != EMU_MEMORY_DEVICE || allocation->pool != NULL ||
        allocation->import != NULL)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    if (allocation->file.number < 0)
        return emu_leave(CUDA_ERROR_OUT_OF_MEMORY);
    emu_ipc_name_write(&(emu_ipc_name){.kind = EMU_IPC_MEMORY,
                                       .ordinal = allocation->device->ordinal,
                                       .start = allocation->start,
                                       .size_bytes = allocation->size_bytes},
                       &allocation->file, handle_p->reserved);
    return emu_leave(CUDA_SUCCESS);
}

/* ---- Opening and closing -------------------------------------------------------------------- */

static emu_import *import_find(const emu_ipc_name *name, CUcontext context)
{
    emu_import *import;

    LIST_FOREACH(import, &imports, entry) {
        if (import->name.nonce == name->nonce && import->allocation->context == context)
            return import;
    }
    return NULL;
}

/* What is open already may be in the way. */
static CUresult beside_others(const emu_ipc_name *name, CUcontext context)
{
    const emu_import *import;

    LIST_FOREACH(import, &imports, entry) {
        const emu_ipc_name *const other = &import->name;
        const CUcontext in = import->allocation->context;

        if (other->pid != name->pid || other->ordinal != name->ordinal)
            continue;
        if (in != context && in->device == context->device)
            return CUDA_ERROR_INVALID_HANDLE;
        if (in == context && other->start < name->start + name->size_bytes &&
            name->start < other->start + other->size_bytes)
            return CUDA_ERROR_ALREADY_MAPPED;
    }
    return CUDA_SUCCESS;
}

CUresult emu_ipc_device(const emu_ipc_name *name, CUcontext context, emu_device **device_p)
{
    if (name->ordinal >= emu.device_count)
        return CUDA_ERROR_INVALID_DEVICE;
    *device_p = &emu.devices[name->ordinal];
    if (*device_p != context->device && !emu.peers)
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    return (*device_p)->lost;
}

/* One that nobody has waited for yet has no program any more. */
static bool owner_is_gone(int pid)
{
    char path[64], program[8];

    (void)snprintf(path, sizeof path, "/proc/%d/exe", pid);
    return readlink(path, program, sizeof program) < 0;
}

static CUresult import_new(const emu_ipc_name *name, CUcontext context, CUdeviceptr *pointer_p)
{
    emu_allocation *allocation;
    emu_device *device = NULL;
    emu_import *import;
    CUresult result = emu_ipc_device(name, context, &device);
    int file;

    if (result == CUDA_SUCCESS)
        result = beside_others(name, context);
    if (result != CUDA_SUCCESS)
        return result;
    file = emu_ipc_name_open(name, emu_memory_pages_bytes(name->size_bytes));
    if (file < 0)
        return owner_is_gone(name->pid) ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_NOT_PERMITTED;
    result = emu_memory_map(context, device, name->size_bytes, file, &allocation);
    if (result != CUDA_SUCCESS) {
        emu_ipc_name_close(file);
        return result;
    }
    import = emu_allocate(sizeof *import);
    *import = (emu_import){.name = *name, .allocation = allocation, .file = file, .opened = 1};
    LIST_INSERT_HEAD(&imports, import, entry);
    allocation->import = import;
    emu.counters.live_imports++;
    emu.counters.live_import_ranges++;
    *pointer_p = allocation->start;
    return CUDA_SUCCESS;
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *pointer_p, CUipcMemHandle handle, unsigned int flags)
{
    CUcontext context;
    emu_ipc_name name;
    emu_import *import;
    CUresult result = emu_enter_context(EMU_CALL_cuIpcOpenMemHandle, &context);

    if (result != CUDA_SUCCESS)
        return result;
    if (!emu.ipc)
        return emu_leave(CUDA_ERROR_NOT_SUPPORTED);
    if (pointer_p == NULL || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS ||
        !emu_ipc_name_read(handle.reserved, EMU_IPC_MEMORY, &name))
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    if (name.pid == (int32_t)getpid())
        return emu_leave(CUDA_ERROR_INVALID_CONTEXT);
    import = import_find(&name, context);
    if (import == NULL)
        return emu_leave(import_new(&name, context, pointer_p));
    import->opened++;
    emu.counters.live_imports++;
    *pointer_p = import->allocation->start;
    return emu_leave(CUDA_SUCCESS);
}

/* What begins there and is open; caught if there is none. */
static emu_allocation *to_close(uintptr_t start)
{
    emu_allocation *const allocation = emu_allocation_at((void *)start);

    if (allocation == NULL || allocation->start != start || allocation->import == NULL) {
        emu_catch(allocation == NULL ? EMU_CATCH_FREED : EMU_CATCH_MISUSE,
                  "cuIpcCloseMemHandle of %p, which is not what open memory begins with",
                  (void *)start);
        return NULL;
    }
    return allocation;
}

/* True: it is open still. */
static bool close_once(emu_import *import)
{
    if (import->opened == 1)
        return false;
    import->opened--;
    emu.counters.live_imports--;
    return true;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr pointer)
{
    CUcontext context;
    emu_allocation *allocation;
    CUresult result = emu_enter_context(EMU_CALL_cuIpcCloseMemHandle, &context);

    if (result != CUDA_SUCCESS)
        return result;
    allocation = to_close(pointer);
    if (allocation == NULL)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    if (close_once(allocation->import))
        return emu_leave(CUDA_SUCCESS);
    emu_catch_pending("cuIpcCloseMemHandle", allocation, NULL); /* also what is to be waited for */
    result = emu_context_drain(allocation->context);
    if (result != CUDA_SUCCESS)
        return emu_leave(result);
    allocation = to_close(pointer); /* the lock was given away */
    if (allocation == NULL)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    if (!close_once(allocation->import))
        emu_memory_free(allocation);
    return emu_leave(CUDA_SUCCESS);
}
