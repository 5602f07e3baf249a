/* SPDX-License-Identifier: Apache-2.0 */
/* Streams as programs see them. */
#include "tests/emu/driver.h"
#include <stdlib.h>

static void stream_free(emu_object *object)
{
    const CUstream stream = (CUstream)object;

    emu_clock_drop(stream->clock);
    pthread_cond_destroy(&stream->work);
    emu_object_drop(stream->context);
}

CUresult emu_stream_create(CUcontext context, unsigned flags, int priority, CUstream *stream_p)
{
    CUstream stream = emu_object_new(EMU_OBJECT_STREAM, sizeof *stream, stream_free);

    stream->context = context;
    emu_object_hold(context);
    stream->id = ++emu.numbers;
    stream->number = context->stream_count++;
    stream->flags = flags;
    stream->priority = priority > 0                       ? 0
                       : priority < EMU_PRIORITY_GREATEST ? EMU_PRIORITY_GREATEST
                                                          : priority;
    stream->random = (emu.seed + 1) * 0x9e3779b97f4a7c15 + stream->id * 2 + 1;
    TAILQ_INIT(&stream->queue);
    LIST_INIT(&stream->waiters);
    pthread_cond_init(&stream->work, NULL);
    stream->awaits.wake = &stream->work;
    LIST_INSERT_HEAD(&context->streams, stream, entry);
    stream->listed = true;
    *stream_p = stream;
    return CUDA_SUCCESS;
}

void emu_stream_unlist(CUstream stream)
{
    if (stream->listed)
        LIST_REMOVE(stream, entry);
    stream->listed = false;
}

void emu_stream_destroy(CUstream stream)
{
    if (stream->capture != NULL)
        emu_capture_forget_stream(stream);
    if (!stream->has_thread) /* else it does so when it ends */
        emu_stream_unlist(stream);
    if (!stream->legacy && stream->owner_thread == 0)
        emu.counters.live_streams--;
    emu_object_destroy(stream);
    pthread_cond_signal(&stream->work);
}

/* The stream that this thread has as its default one. */
static CUresult per_thread(CUcontext context, CUstream *stream_p)
{
    const uint64_t thread = emu_thread_number();
    CUstream stream;
    CUresult result;

    LIST_FOREACH(stream, &context->streams, entry) {
        if (stream->owner_thread == thread) {
            *stream_p = stream;
            return CUDA_SUCCESS;
        }
    }
    result = emu_stream_create(context, 0, 0, stream_p);
    if (result == CUDA_SUCCESS)
        (*stream_p)->owner_thread = thread;
    return result;
}

CUresult emu_stream_find(CUstream handle, CUstream *stream_p)
{
    CUresult result;

    if (handle == NULL || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
        const CUcontext context = emu_context_current();

        if (context == NULL || !context->active)
            return CUDA_ERROR_INVALID_CONTEXT;
        result = emu_context_error(context);
        if (result != CUDA_SUCCESS)
            return result;
        if (handle == CU_STREAM_PER_THREAD)
            return per_thread(context, stream_p);
        *stream_p = context->legacy;
        return CUDA_SUCCESS;
    }
    *stream_p = emu_object_find(EMU_OBJECT_STREAM, handle);
    if (*stream_p == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    return emu_context_error((*stream_p)->context);
}

static CUresult create(emu_call call, CUstream *stream_p, unsigned flags, int priority)
{
    CUcontext context;
    CUresult result = emu_enter_context(call, &context);

    if (result != CUDA_SUCCESS)
        return result;
    if (stream_p == NULL || (flags & ~(unsigned)CU_STREAM_NON_BLOCKING))
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    result = emu_stream_create(context, flags, priority, stream_p);
    if (result == CUDA_SUCCESS)
        emu.counters.live_streams++;
    return emu_leave(result);
}

CUresult cuStreamCreate(CUstream *stream_p, unsigned int flags)
{
    return create(EMU_CALL_cuStreamCreate, stream_p, flags, 0);
}

CUresult cuStreamCreateWithPriority(CUstream *stream_p, unsigned int flags, int priority)
{
    return create(EMU_CALL_cuStreamCreateWithPriority, stream_p, flags, priority);
}

CUresult cuStreamDestroy(CUstream handle)
{
    CUstream stream;
    CUresult result = emu_enter(EMU_CALL_cuStreamDestroy);

    if (result != CUDA_SUCCESS)
        return result;
    stream = emu_object_find(EMU_OBJECT_STREAM, handle);
    if (stream == NULL || stream->legacy)
        return emu_leave(CUDA_ERROR_INVALID_HANDLE);
    /* Also of a context that has failed, whose error is told. */
    result = emu_context_error(stream->context);
    emu_stream_destroy(stream);
    return emu_leave(result);
}

CUresult cuStreamQuery(CUstream handle)
{
    CUstream stream;
    CUresult result = emu_enter_stream(EMU_CALL_cuStreamQuery, handle, &stream);

    if (result != CUDA_SUCCESS)
        return result;
    if (stream->capture != NULL)
        return emu_leave(emu_capture_touch_stream(stream));
    if (stream->completed < stream->issued)
        return emu_leave(CUDA_ERROR_NOT_READY);
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuStreamSynchronize(CUstream handle)
{
    CUstream stream;
    CUresult result = emu_enter_stream(EMU_CALL_cuStreamSynchronize, handle, &stream);

    if (result != CUDA_SUCCESS)
        return result;
    if (stream->capture != NULL)
        return emu_leave(emu_capture_touch_stream(stream));
    return emu_leave(emu_wait_for(stream, stream->issued, NULL));
}

static CUresult enter_get(emu_call call, CUstream handle, const void *result_p, CUstream *stream_p)
{
    CUresult result = emu_enter(call);

    if (result != CUDA_SUCCESS)
        return result;
    if (result_p == NULL)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    result = emu_stream_find(handle, stream_p);
    return result == CUDA_SUCCESS ? CUDA_SUCCESS : emu_leave(result);
}

CUresult cuStreamGetId(CUstream handle, unsigned long long *id_p)
{
    CUstream stream;
    CUresult result = enter_get(EMU_CALL_cuStreamGetId, handle, id_p, &stream);

    if (result != CUDA_SUCCESS)
        return result;
    *id_p = stream->id;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext *context_p)
{
    CUstream stream;
    CUresult result = enter_get(EMU_CALL_cuStreamGetCtx, handle, context_p, &stream);

    if (result != CUDA_SUCCESS)
        return result;
    *context_p = stream->context;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuStreamGetCtx_v2(CUstream handle, CUcontext *context_p, CUgreenCtx *green_p)
{
    if (green_p != NULL)
        *green_p = NULL;
    return cuStreamGetCtx(handle, context_p);
}

CUresult cuStreamGetDevice(CUstream handle, CUdevice *ordinal_p)
{
    CUstream stream;
    CUresult result = enter_get(EMU_CALL_cuStreamGetDevice, handle, ordinal_p, &stream);

    if (result != CUDA_SUCCESS)
        return result;
    *ordinal_p = stream->context->device->ordinal;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuStreamGetPriority(CUstream handle, int *priority_p)
{
    CUstream stream;
    CUresult result = enter_get(EMU_CALL_cuStreamGetPriority, handle, priority_p, &stream);

    if (result != CUDA_SUCCESS)
        return result;
    *priority_p = stream->priority;
    return emu_leave(CUDA_SUCCESS);
}

CUresult cuStreamGetFlags(CUstream handle, unsigned int *flags_p)
{
    CUstream stream;
    CUresult result = enter_get(EMU_CALL_cuStreamGetFlags, handle, flags_p, &stream);

    if (result != CUDA_SUCCESS)
        return result;
    *flags_p = stream->flags;
    return emu_leave(CUDA_SUCCESS);
}

/* ---- Functions of the program's ------------------------------------------------------------- */

typedef struct host_function {
    CUhostFn fn;
    void *arg;
} host_function;

static CUresult host_function_run(emu_operation *operation)
{
    const host_function *const call = operation->data;

    emu_thread_in_callback(true);
    call->fn(call->arg);
    emu_thread_in_callback(false);
    return CUDA_SUCCESS;
}

CUresult cuLaunchHostFunc(CUstream handle, CUhostFn fn, void *arg)
{
    CUstream stream;
    emu_operation *operation;
    CUresult result = emu_enter_work(EMU_CALL_cuLaunchHostFunc, handle, &stream);

    if (result != CUDA_SUCCESS)
        return result;
    if (fn == NULL)
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    operation = emu_operation_new(EMU_OPERATION_HOST, "cuLaunchHostFunc", sizeof(host_function));
    *(host_function *)operation->data = (host_function){fn, arg};
    operation->run = host_function_run;
    return emu_leave(emu_enqueue(stream, operation));
}
