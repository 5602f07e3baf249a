/* SPDX-License-Identifier: Apache-2.0 */
/* Memsets, and values that streams write and wait for. */
#include "tests/emu/driver.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Whether the device sees the memory; caught if not. */
static bool is_visible(const char *name, CUdeviceptr memory, size_t size_bytes)
{
    emu_allocation *allocation;

    if (emu_pointer_kind((void *)memory, size_bytes, &allocation) != EMU_POINTER_PLAIN)
        return true; /* what was freed is caught where it is enqueued */
    emu_catch(EMU_CATCH_MISUSE, "%s is given %p, which is not memory that the device sees", name,
              (void *)memory);
    return false;
}

/* ---- Memsets -------------------------------------------------------------------------------- */

typedef struct memset_data {
    CUdeviceptr memory;
    uint32_t value;
    size_t value_bytes; /* 1 or 4 */
    size_t count;
} memset_data;

static CUresult memset_run(emu_operation *operation)
{
    const memset_data *const data = operation->data;

    if (data->value_bytes == 1) {
        memset((void *)data->memory, (int)data->value, data->count);
        return CUDA_SUCCESS;
    }
    for (size_t i = 0; i < data->count; i++) {
        if (i % 65536 == 0 && emu_operation_stopped(operation))
            break;
        ((uint32_t *)data->memory)[i] = data->value;
    }
    return CUDA_SUCCESS;
}

/* Synchronous ones wait only where the memory is the host's. */
static CUresult set(emu_call call, const char *name, const memset_data *data, CUstream handle,
                    bool synchronous)
{
    CUstream stream;
    emu_operation *operation;
    const emu_allocation *allocation;
    const size_t size_bytes = data->count * data->value_bytes;
    CUresult result = emu_enter_work(call, handle, &stream);

    if (result != CUDA_SUCCESS)
        return result;
    if (data->count == 0)
        return emu_leave(CUDA_SUCCESS);
    if (data->memory % data->value_bytes != 0 || !is_visible(name, data->memory, size_bytes))
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    operation = emu_operation_new(EMU_OPERATION_COPY, name, sizeof *data);
    *(memset_data *)operation->data = *data;
    operation->run = memset_run;
    operation->direction = EMU_ON_DEVICE;
    operation->size_bytes = size_bytes;
    emu_operation_touches(operation, (void *)data->memory, size_bytes, 1, 0, true, 0);
    allocation = emu_allocation_at((void *)data->memory);
    synchronous &= allocation != NULL && allocation->kind != EMU_MEMORY_DEVICE;
    result = emu_enqueue(stream, operation);
    if (result == CUDA_SUCCESS && synchronous)
        result = emu_wait_for(stream, stream->issued, NULL);
    return emu_leave(result);
}

CUresult cuMemsetD8(CUdeviceptr memory, unsigned char value, size_t count)
{
    return set(EMU_CALL_cuMemsetD8, "cuMemsetD8", &(memset_data){memory, value, 1, count}, NULL,
               true);
}

CUresult cuMemsetD8Async(CUdeviceptr memory, unsigned char value, size_t count, CUstream stream)
{
    return set(EMU_CALL_cuMemsetD8Async, "cuMemsetD8Async", &(memset_data){memory, value, 1, count},
               stream, false);
}

CUresult cuMemsetD32(CUdeviceptr memory, unsigned int value, size_t count)
{
    return set(EMU_CALL_cuMemsetD32, "cuMemsetD32", &(memset_data){memory, value, 4, count}, NULL,
               true);
}

CUresult cuMemsetD32Async(CUdeviceptr memory, unsigned int value, size_t count, CUstream stream)
{
    return set(EMU_CALL_cuMemsetD32Async, "cuMemsetD32Async",
               &(memset_data){memory, value, 4, count}, stream, false);
}

/* ---- Values --------------------------------------------------------------------------------- */

typedef struct value_data {
    CUdeviceptr memory;
    uint64_t value;
    size_t value_bytes; /* 4 or 8 */
    unsigned flags;
} value_data;

/*
 * In the moment in which the operation completes, so that a host that has seen the value may free
 * the memory.
 */
static void write_complete(emu_operation *operation)
{
    const value_data *const data = operation->data;

    if (!emu_check_allocated(operation, operation->stream, true) ||
        emu_word_is_late(operation->stream, (void *)data->memory, data->value, data->value_bytes))
        return;
    emu_word_write((void *)data->memory, data->value, data->value_bytes);
}

static bool value_is_there(const value_data *data)
{
    uint64_t now, mask = UINT64_MAX;
    int64_t ahead;

    if (data->value_bytes == 4) {
        now = atomic_load_explicit((_Atomic(uint32_t) *)data->memory, memory_order_acquire);
        mask = UINT32_MAX;
        ahead = (int32_t)((uint32_t)now - (uint32_t)data->value);
    } else {
        now = atomic_load_explicit((_Atomic(uint64_t) *)data->memory, memory_order_acquire);
        ahead = (int64_t)(now - data->value);
    }
    switch (data->flags & 3) {
    case CU_STREAM_WAIT_VALUE_GEQ:
        return ahead >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
        return now == data->value;
    case CU_STREAM_WAIT_VALUE_AND:
        return (now & data->value) != 0;
    default: /* NOR */
        return (~(now | data->value) & mask) != 0;
    }
}

/* Nobody tells when memory changes; the program may write it as well as a stream. */
static CUresult wait_run(emu_operation *operation)
{
    const struct timespec pause = {.tv_nsec = 20000};

    while (!value_is_there(operation->data) && !emu_operation_stopped(operation))
        nanosleep(&pause, NULL);
    return CUDA_SUCCESS;
}

static CUresult value(emu_call call, const char *name, const value_data *data, CUstream handle,
                      bool waits)
{
    CUstream stream;
    emu_operation *operation;
    /* NO_MEMORY_BARRIER "is not supported in the v2 API" (cuda.h), which this is. */
    const unsigned known = waits ? 3u | CU_STREAM_WAIT_VALUE_FLUSH : 0;
    CUresult result = emu_enter_work(call, handle, &stream);

    if (result != CUDA_SUCCESS)
        return result;
    if (data->memory == 0 || data->memory % data->value_bytes != 0 || (data->flags & ~known) ||
        !is_visible(name, data->memory, data->value_bytes))
        return emu_leave(CUDA_ERROR_INVALID_VALUE);
    operation =
        emu_operation_new(waits ? EMU_OPERATION_KERNEL : EMU_OPERATION_MARK, name, sizeof *data);
    *(value_data *)operation->data = *data;
    operation->run = waits ? wait_run : NULL;
    operation->is_write = !waits;
    operation->complete = waits ? NULL : write_complete;
    emu_operation_touches(operation, (void *)data->memory, data->value_bytes, 1, 0, !waits, 0);
    operation->accesses[0].polls = waits;
    return emu_leave(emu_enqueue(stream, operation));
}

CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr memory, cuuint32_t word,
                              unsigned int flags)
{
    return value(EMU_CALL_cuStreamWriteValue32, "cuStreamWriteValue32",
                 &(value_data){memory, word, 4, flags}, stream, false);
}

CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr memory, cuuint64_t word,
                              unsigned int flags)
{
    return value(EMU_CALL_cuStreamWriteValue64, "cuStreamWriteValue64",
                 &(value_data){memory, word, 8, flags}, stream, false);
}

CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr memory, cuuint32_t word,
                             unsigned int flags)
{
    return value(EMU_CALL_cuStreamWaitValue32, "cuStreamWaitValue32",
                 &(value_data){memory, word, 4, flags}, stream, true);
}

CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr memory, cuuint64_t word,
                             unsigned int flags)
{
    return value(EMU_CALL_cuStreamWaitValue64, "cuStreamWaitValue64",
                 &(value_data){memory, word, 8, flags}, stream, true);
}
