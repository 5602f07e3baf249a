/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffers. The memory goes when the user's handle and every node that touches it are gone, on the
 * loop: the user's free_fn is a callback, and a submitting thread that holds the baton must not
 * call the system's allocator.
 */
#include "engine/graph.h"

static ferry_status buffer_create(ferry_device *device, size_t size_bytes, ferry_buffer **buffer_p,
                                  ferry_buffer **made_p)
{
    if (device == NULL || buffer_p == NULL)
        return FERRY_E_INVALID;
    ferry_engine *engine = device->engine;
    ferry_status status = fry_engine_check_open(engine);
    if (status != FERRY_OK)
        return status;
    if (size_bytes == 0 || size_bytes > PTRDIFF_MAX) {
        fry_log_line(&engine->log, FERRY_LOG_WARNING, "a buffer of %zu bytes is refused",
                     size_bytes);
        return FERRY_E_INVALID;
    }
    ferry_buffer *buffer = fry_alloc(&engine->memory, sizeof *buffer, _Alignof(ferry_buffer));
    if (buffer == NULL)
        return FERRY_E_NO_MEMORY;
    buffer->references = 1;
    buffer->engine = engine;
    buffer->device = device;
    buffer->size_bytes = size_bytes;
    *made_p = buffer;
    return FERRY_OK;
}

ferry_status ferry_buffer_alloc(ferry_device *device, size_t size_bytes, ferry_buffer **buffer_p)
{
    ferry_buffer *buffer;
    ferry_status status = buffer_create(device, size_bytes, buffer_p, &buffer);
    if (status != FERRY_OK)
        return status;
    fry_device *backend = device->device;
    status = backend->ops->memory_alloc(backend, size_bytes, FRY_MEMORY_DEFAULT, &buffer->data);
    if (status != FERRY_OK) {
        fry_free(&device->engine->memory, buffer, sizeof *buffer);
        return status;
    }
    fry_engine_retain(device->engine);
    *buffer_p = buffer;
    return FERRY_OK;
}

ferry_status ferry_buffer_wrap(ferry_device *device, void *memory, size_t size_bytes,
                               ferry_free_fn free_fn, void *arg, ferry_buffer **buffer_p)
{
    ferry_buffer *buffer;
    if (memory == NULL)
        return FERRY_E_INVALID;
    ferry_status status = buffer_create(device, size_bytes, buffer_p, &buffer);
    if (status != FERRY_OK)
        return status;
    buffer->is_wrapped = true;
    buffer->data = memory;
    buffer->free_fn = free_fn;
    buffer->free_arg = arg;
    fry_engine_retain(device->engine);
    *buffer_p = buffer;
    return FERRY_OK;
}

void fry_buffer_unretain(ferry_buffer *buffer)
{
    if (fry_fetch_sub(&buffer->references, 1) != 1)
        return;
    fry_stack_push(&buffer->engine->frees, &buffer->free_link); /* who calls this wakes the loop */
}

void ferry_buffer_release(ferry_buffer *buffer)
{
    if (buffer == NULL || fry_engine_check(buffer->engine) != FERRY_OK)
        return;
    ferry_engine *engine = buffer->engine;
    fry_engine_retain(engine); /* waking may free it with the buffer */
    fry_buffer_unretain(buffer);
    fry_wake(engine);
    fry_engine_unretain(engine, 1);
}

void fry_buffers_forget(fry_turn *turn, fry_link *buffers)
{
    for (; buffers != NULL; buffers = buffers->next)
        fry_hazard_close(turn, FRY_CONTAINER(buffers, ferry_buffer, free_link));
}

size_t fry_buffers_free(ferry_engine *engine, fry_link *buffers)
{
    ferry_engine *outer = fry_callback_engine;
    fry_callback_engine = engine; /* free_fn is a callback like any other */
    size_t count = 0;
    while (buffers != NULL) {
        ferry_buffer *buffer = FRY_CONTAINER(buffers, ferry_buffer, free_link);
        buffers = buffers->next;
        if (!buffer->is_wrapped) {
            fry_device *backend = buffer->device->device;
            backend->ops->memory_free(backend, buffer->data, buffer->size_bytes,
                                      FRY_MEMORY_DEFAULT);
        } else if (buffer->free_fn != NULL) {
            buffer->free_fn(buffer->free_arg, buffer->data, buffer->size_bytes);
        }
        fry_free(&engine->memory, buffer, sizeof *buffer);
        count++;
    }
    fry_callback_engine = outer;
    return count;
}

void *ferry_buffer_data(const ferry_buffer *buffer)
{
    return buffer != NULL ? buffer->data : NULL;
}

size_t ferry_buffer_size_bytes(const ferry_buffer *buffer)
{
    return buffer != NULL ? buffer->size_bytes : 0;
}

ferry_device *ferry_buffer_device(const ferry_buffer *buffer)
{
    return buffer != NULL ? buffer->device : NULL;
}

ferry_span ferry_buffer_span(ferry_buffer *buffer)
{
    return (ferry_span){buffer, 0, ferry_buffer_size_bytes(buffer)};
}
