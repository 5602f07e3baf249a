/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts, which is current in a thread, and access to peers. */
#include "tests/emu/driver.h"
#include <stdlib.h>

#define STACK_MOST 64

static _Thread_local struct {
    CUcontext contexts[STACK_MOST]; /* a reference each, given up with the thread */
    size_t count;
} stack;

CUcontext emu_context_current(void)
{
    return stack.count > 0 ? stack.contexts[stack.count - 1] : NULL;
}

CUresult emu_context_error(CUcontext context)
{
    const CUresult lost = context->device->lost;

    return lost != CUDA_SUCCESS ? lost : (CUresult)context->error;
}

static bool push(CUcontext context)
{
    if (stack.count == STACK_MOST)
        return false;
    emu_object_hold(context);
    stack.contexts[stack.count++] = context;
    return true;
}

static void pop(void)
{
    emu_object_drop(stack.contexts[--stack.count]);
}

/* Begins its life, or, of a primary context, the next one. */
static CUresult activate(CUcontext context)
{
    CUresult result;

    context->active = true;
    context->error = CUDA_SUCCESS;
    context->peers = 0;
    result = emu_stream_create(context, 0, 0, &context->legacy);
    if (result != CUDA_SUCCESS) {
        context->active = false;
        return result;
    }
    context->legacy->legacy = true;
    LIST_INSERT_HEAD(&emu.contexts, context, entry);
    emu.counters.live_contexts++;
    return CUDA_SUCCESS;
}

void emu_context_fail(CUcontext context, CUresult error)
{
    CUstream stream;
    emu_operation *operation;

    context->error = error;
    LIST_FOREACH(stream, &context->streams, entry) {
        TAILQ_FOREACH(operation, &stream->queue, entry)
            emu_accesses_unlink(operation);
    }
    emu_streams_wake(context->device);
}

static bool is_working(CUcontext context)
{
    CUstream stream;

    LIST_FOREACH(stream, &context->streams, entry) {
        if (stream->running != NULL)
            return true;
    }
    return false;
}

/* What has not begun never will; then all that belongs to it goes. */
static void deactivate(CUcontext context)
{
    CUevent event, next_event;
    CUstream stream;

    context->active = false;
    /* A primary context gets a new life; its streams do not, though their threads may still be
     * there. */
    LIST_FOREACH(stream, &context->streams, entry)
        stream->abandoned = true;
    emu_context_fail(context, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    while (is_working(context))
        pthread_cond_wait(&emu.quiet, &emu.mutex);
    while ((stream = LIST_FIRST(&context->streams)) != NULL) {
        emu_stream_unlist(stream);
        if (!stream->object.destroyed)
            emu_stream_destroy(stream);
    }
    context->legacy = NULL;
    for (event = LIST_FIRST(&emu.events); event != NULL; event = next_event) {
        next_event = LIST_NEXT(event, entry);
        if (event->context == context)
            emu_event_destroy(event);
    }
    emu_modules_unload(context);
    emu_memory_free_all(context);
    LIST_REMOVE(context, entry);
    emu.counters.live_contexts--;
}

static void context_free(emu_object *object)
{
    emu_channels_free((CUcontext)object);
}

static CUcontext context_new(emu_device *device, unsigned flags)
{
    CUcontext context = emu_object_new(EMU_OBJECT_CONTEXT, sizeof *context, context_free);

    context->device = device;
    context->flags = flags;
    context->id = ++emu.numbers;
    LIST_INIT(&context->streams);
    emu_channels_new(context);
    return context;
}

/* ---- Primary contexts ----------------------------------------------------------------------- */

CUresult cuDevicePrimaryCtxRetain(CUcontext *context_p, CUdevice ordinal)
{
    emu_device *device;
    CUresult result = emu_enter(EMU_CALL_cuDevicePrimaryCtxRetain);

    if (result != CUDA_SUCCESS)
        return result;
    if (context_p == NULL)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    if (ordinal < 0 || ordinal >= emu.device_count)
        return emu_leave(CUDA_ERROR_INVALID_DEVICE);
    device = &emu.devices[ordinal];
    if (device->lost != CUDA_SUCCESS)
        return emu_leave(device->lost);
    if (device->primary == NULL) {
        device->primary = context_new(device, 0);
        device->primary->primary = true;
    }
    if (device->retained == 0)
        result = activate(device->primary);
    if (result == CUDA_SUCCESS) {
        device->retained++;
        *context_p = device->primary;
    }
    return emu_leave(result);
}

CUresult cuDevicePrimaryCtxRelease(CUdevice ordinal)
{
    emu_device *device;
    CUresult result = emu_enter(EMU_CALL_cuDevicePrimaryCtxRelease);

    if (result != CUDA_SUCCESS)
        return result;
    if (ordinal < 0 || ordinal >= emu.device_count)
        return emu_leave(CUDA_ERROR_INVALID_DEVICE);
    device = &emu.devices[ordinal];
    if (device->retained == 0)
        return emu_leave(CUDA_ERROR_INVALID_CONTEXT);
    if (--device->retained == 0)
        deactivate(device->primary);
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuDevicePrimaryCtxReset(CUdevice ordinal)
{
    emu_device *device;
    CUresult result = emu_enter(EMU_CALL_cuDevicePrimaryCtxReset);

    if (result != CUDA_SUCCESS)
        return result;
    if (ordinal < 0 || ordinal >= emu.device_count)
        return emu_leave(CUDA_ERROR_INVALID_DEVICE);
    device = &emu.devices[ordinal];
    if (device->retained > 0) {
        deactivate(device->primary);
        result = activate(device->primary);
    }
    return emu_leave(result);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice ordinal, unsigned int *flags_p, int *active_p)
{
    CUresult result = emu_enter(EMU_CALL_cuDevicePrimaryCtxGetState);

    if (result != CUDA_SUCCESS)
        return result;
    if (flags_p == NULL || active_p == NULL)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    if (ordinal < 0 || ordinal >= emu.device_count)
        return emu_leave(CUDA_ERROR_INVALID_DEVICE);
    *flags_p = 0;
    *active_p = emu.devices[ordinal].retained > 0;
    return emu_leave(CUDA_SUCCESS);
}

/* ---- Contexts of one's own ------------------------------------------------------------------ */

CUresult cuCtxCreate(CUcontext *context_p, CUctxCreateParams *params, unsigned int flags,
                     CUdevice ordinal)
{
    CUcontext context;
    CUresult result = emu_enter(EMU_CALL_cuCtxCreate);

    if (result != CUDA_SUCCESS)
        return result;
    if (context_p == NULL)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    if (params != NULL) /* execution affinity and CIG are not emulated */
        return emu_leave(CUDA_ERROR_NOT_SUPPORTED);
    if (ordinal < 0 || ordinal >= emu.device_count)
        return emu_leave(CUDA_ERROR_INVALID_DEVICE);
    if (emu.devices[ordinal].lost != CUDA_SUCCESS)
        return emu_leave(emu.devices[ordinal].lost);
    context = context_new(&emu.devices[ordinal], flags);
    result = activate(context);
    if (result == CUDA_SUCCESS && !push(context)) {
        deactivate(context);
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (result == CUDA_SUCCESS)
        *context_p = context;
    else
        emu_object_destroy(context);
    return emu_leave(result);
}

CUresult cuCtxDestroy(CUcontext handle)
{
    CUcontext context;
    CUresult result = emu_enter(EMU_CALL_cuCtxDestroy);

    if (result != CUDA_SUCCESS)
        return result;
    context = emu_object_find(EMU_OBJECT_CONTEXT, handle);
    if (context == NULL || context->primary)
        return emu_leave(CUDA_ERROR_INVALID_CONTEXT);
    deactivate(context);
    emu_object_destroy(context);
    if (emu_context_current() == context)
        pop();
    return emu_leave(CUDA_SUCCESS);
}

/* ---- The current one ------------------------------------------------------------------------ */

CUresult cuCtxPushCurrent(CUcontext handle)
{
    CUcontext context;
    CUresult result = emu_enter(EMU_CALL_cuCtxPushCurrent);

    if (result != CUDA_SUCCESS)
        return result;
    context = emu_object_find(EMU_OBJECT_CONTEXT, handle);
    if (context == NULL)
        return emu_leave(CUDA_ERROR_INVALID_CONTEXT);
    return emu_leave(push(context) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

CUresult cuCtxPopCurrent(CUcontext *context_p)
{
    CUresult result = emu_enter(EMU_CALL_cuCtxPopCurrent);

    if (result != CUDA_SUCCESS)
        return result;
    if (stack.count == 0)
        return emu_leave(CUDA_ERROR_INVALID_CONTEXT);
    if (context_p != NULL)
        *context_p = emu_context_current();
    pop();
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuCtxGetCurrent(CUcontext *context_p)
{
    CUresult result = emu_enter(EMU_CALL_cuCtxGetCurrent);

    if (result != CUDA_SUCCESS)
        return result;
    if (context_p == NULL)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    *context_p = emu_context_current();
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuCtxSetCurrent(CUcontext handle)
{
    CUcontext context = NULL;
    CUresult result = emu_enter(EMU_CALL_cuCtxSetCurrent);

    if (result != CUDA_SUCCESS)
        return result;
    if (handle != NULL) {
        context = emu_object_find(EMU_OBJECT_CONTEXT, handle);
        if (context == NULL)
            return emu_leave(CUDA_ERROR_INVALID_CONTEXT);
    }
    if (stack.count > 0)
        pop();
    if (context != NULL)
        push(context); /* there is room: one has gone, or there was none */
    return emu_leave(CUDA_SUCCESS);
}

static CUresult context_device(CUdevice *ordinal_p, CUcontext context)
{
    if (ordinal_p == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (context == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    *ordinal_p = context->device->ordinal;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *ordinal_p)
{
    CUresult result = emu_enter(EMU_CALL_cuCtxGetDevice);

    if (result != CUDA_SUCCESS)
        return result;
    return emu_leave(context_device(ordinal_p, emu_context_current()));
}

CUresult cuCtxGetDevice_v2(CUdevice *ordinal_p, CUcontext handle)
{
    CUresult result = emu_enter(EMU_CALL_cuCtxGetDevice);

    if (result != CUDA_SUCCESS)
        return result;
    return emu_leave(context_device(ordinal_p, handle == NULL
                                                   ? emu_context_current()
                                                   : emu_object_find(EMU_OBJECT_CONTEXT, handle)));
}

static CUresult context_of(emu_call call, CUcontext handle, const void *result_p,
                           CUcontext *context_p)
{
    CUresult result = emu_enter(call);

    if (result != CUDA_SUCCESS)
        return result;
    if (result_p == NULL)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    *context_p =
        handle == NULL ? emu_context_current() : emu_object_find(EMU_OBJECT_CONTEXT, handle);
    return *context_p != NULL ? CUDA_SUCCESS : emu_leave(CUDA_ERROR_INVALID_CONTEXT);
}

CUresult cuCtxGetId(CUcontext handle, unsigned long long *id_p)
{
    CUcontext context;
    CUresult result = context_of(EMU_CALL_cuCtxGetId, handle, id_p, &context);

    if (result != CUDA_SUCCESS)
        return result;
    *id_p = context->id;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuCtxGetApiVersion(CUcontext handle, unsigned int *version_p)
{
    CUcontext context;
    CUresult result = context_of(EMU_CALL_cuCtxGetApiVersion, handle, version_p, &context);

    if (result != CUDA_SUCCESS)
        return result;
    *version_p = 3020;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuCtxGetFlags(unsigned int *flags_p)
{
    CUcontext context;
    CUresult result = context_of(EMU_CALL_cuCtxGetFlags, NULL, flags_p, &context);

    if (result != CUDA_SUCCESS)
        return result;
    *flags_p = context->flags;
    return emu_leave(CUDA_SUCCESS);
}

static CUresult synchronize(CUcontext context)
{
    return emu_leave(emu_wait_for_context(context));
}

CUresult cuCtxSynchronize(void)
{
    CUcontext context;
    CUresult result = emu_enter_context(EMU_CALL_cuCtxSynchronize, &context);

    return result == CUDA_SUCCESS ? synchronize(context) : result;
}

CUresult cuCtxSynchronize_v2(CUcontext handle)
{
    CUcontext context;
    CUresult result;

    if (handle == NULL)
        return cuCtxSynchronize();
    result = context_of(EMU_CALL_cuCtxSynchronize, handle, handle, &context);
    if (result == CUDA_SUCCESS && emu_context_error(context) != CUDA_SUCCESS)
        return emu_leave(emu_context_error(context));
    return result == CUDA_SUCCESS ? synchronize(context) : result;
}

CUresult cuCtxGetStreamPriorityRange(int *least_p, int *greatest_p)
{
    CUcontext context;
    CUresult result = emu_enter_context(EMU_CALL_cuCtxGetStreamPriorityRange, &context);

    if (result != CUDA_SUCCESS)
        return result;
    if (least_p != NULL)
        *least_p = 0;
    if (greatest_p != NULL)
        *greatest_p = EMU_PRIORITY_GREATEST;
    return emu_leave(CUDA_SUCCESS);
}

/* ---- Peers ---------------------------------------------------------------------------------- */

CUresult cuCtxEnablePeerAccess(CUcontext handle, unsigned int flags)
{
    CUcontext context, peer;
    CUresult result = emu_enter_context(EMU_CALL_cuCtxEnablePeerAccess, &context);

    if (result != CUDA_SUCCESS)
        return result;
    peer = emu_object_find(EMU_OBJECT_CONTEXT, handle);
    if (peer == NULL || peer == context)
        return emu_leave(CUDA_ERROR_INVALID_CONTEXT);
    if (flags != 0)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    if (peer->device == context->device || !emu.peers) /* as cuDeviceCanAccessPeer says */
        return emu_leave(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    if (context->peers & (1u << peer->device->ordinal))
        return emu_leave(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    context->peers |= 1u << peer->device->ordinal;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuCtxDisablePeerAccess(CUcontext handle)
{
    CUcontext context, peer;
    CUresult result = emu_enter_context(EMU_CALL_cuCtxDisablePeerAccess, &context);

    if (result != CUDA_SUCCESS)
        return result;
    peer = emu_object_find(EMU_OBJECT_CONTEXT, handle);
    if (peer == NULL)
        return emu_leave(CUDA_ERROR_INVALID_CONTEXT);
    if (!(context->peers & (1u << peer->device->ordinal)))
        return emu_leave(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    context->peers &= ~(1u << peer->device->ordinal);
    return emu_leave(CUDA_SUCCESS);
}
