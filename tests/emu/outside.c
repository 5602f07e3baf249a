/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/emu/outside.h"

#include "tests/emu/driver.h"

typedef struct outside {
    const emu_outside_work *work;
    void *arg;
} outside;

static _Atomic(uint64_t) steps;
static bool (*library_is_busy)(void); /* with the lock */

void emu_outside_lock(void)
{
    emu_lock();
}

void emu_outside_unlock(void)
{
    emu_unlock();
}

CUresult emu_outside_stream(CUstream handle, CUstream *stream_p, int *ordinal_p)
{
    CUresult result = emu.initialised ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;

    if (result == CUDA_SUCCESS)
        result = emu_stream_find(handle, stream_p);
    if (result != CUDA_SUCCESS)
        return result;
    if ((*stream_p)->capture != NULL)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    emu_object_hold(*stream_p);
    *ordinal_p = (*stream_p)->context->device->ordinal;
    return CUDA_SUCCESS;
}

void emu_outside_hold_stream(CUstream stream)
{
    emu_object_hold(stream);
}

void emu_outside_drop_stream(CUstream stream)
{
    emu_object_drop(stream);
}

emu_outside_place emu_outside_last(CUstream stream)
{
    return (emu_outside_place){stream, stream->issued};
}

/* ---- Operations ----------------------------------------------------------------------------- */

static bool gate(const emu_operation *operation)
{
    const outside *const data = operation->data;

    return data->work->may_begin(data->arg);
}

static void begin(emu_operation *operation)
{
    const outside *const data = operation->data;

    data->work->begin(data->arg);
}

static CUresult run(emu_operation *operation)
{
    const outside *const data = operation->data;

    data->work->run(data->arg, operation);
    return CUDA_SUCCESS;
}

static bool stands(const emu_operation *operation)
{
    const outside *const data = operation->data;

    return data->work->stands(data->arg);
}

static void release(emu_operation *operation)
{
    const outside *const data = operation->data;

    data->work->end(data->arg);
}

CUresult emu_outside_enqueue(CUstream stream, const emu_outside_work *work, void *arg,
                             const emu_outside_range *ranges, size_t range_count,
                             const emu_outside_place *after, size_t after_count)
{
    emu_operation *const operation =
        emu_operation_new(EMU_OPERATION_KERNEL, work->name, sizeof(outside));

    *(outside *)operation->data = (outside){work, arg};
    operation->run = run;
    operation->release = release;
    operation->gate = gate;
    operation->begin = begin;
    operation->stands = stands;
    for (size_t i = 0; i < range_count; i++)
        emu_operation_touches(operation, ranges[i].start, ranges[i].size_bytes, 1,
                              ranges[i].size_bytes, ranges[i].is_write, ranges[i].part);
    for (size_t i = 0; i < after_count; i++)
        emu_operation_waits(operation, after[i].stream, after[i].sequence, NULL);
    if (stream->object.destroyed) {
        emu_catch(EMU_CATCH_MISUSE, "%s comes to a stream that was destroyed", work->name);
        emu_operation_free(operation);
        return CUDA_ERROR_INVALID_HANDLE;
    }
    return emu_enqueue(stream, operation);
}

CUresult emu_outside_wait(CUstream stream, emu_outside_place place)
{
    emu_operation *const operation = emu_operation_new(EMU_OPERATION_MARK, "an order", 0);

    emu_operation_waits(operation, place.stream, place.sequence, NULL);
    return emu_enqueue(stream, operation);
}

bool emu_outside_is_next(emu_outside_place place)
{
    const emu_operation *const head = TAILQ_FIRST(&place.stream->queue);

    return head != NULL && head->sequence == place.sequence && emu_stream_is_next(place.stream);
}

void emu_outside_wake(void)
{
    emu_streams_wake(NULL);
}

bool emu_outside_is_stopped(const void *operation)
{
    return emu_operation_stopped(operation);
}

bool emu_outside_is_ending(void)
{
    return atomic_load(&emu.stopping);
}

/* ---- What goes on outside ------------------------------------------------------------------- */

void emu_outside_step(void)
{
    atomic_fetch_add(&steps, 1);
}

uint64_t emu_outside_steps(void)
{
    return atomic_load(&steps);
}

void emu_outside_set_busy(bool (*is_busy)(void))
{
    emu_lock();
    library_is_busy = is_busy;
    emu_unlock();
}

bool emu_outside_is_busy(void)
{
    return library_is_busy != NULL && library_is_busy();
}

void emu_outside_misuse(const char *text)
{
    emu_catch(EMU_CATCH_MISUSE, "%s", text);
}

uint64_t emu_outside_thread(void)
{
    return emu_thread_number();
}
