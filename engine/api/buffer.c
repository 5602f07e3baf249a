/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers: making and releasing them. */
#include "engine/graph/buffer.h"

#include "engine/engine.h"
#include "engine/graph/lane.h"
#include "engine/ground/ground.h"
#include "engine/loop/late.h"

static ferry_status buffer_create(ferry_device *device, size_t size_bytes, ferry_buffer **buffer_p,
                                  ferry_buffer **made_p)
{
    if (device == NULL || buffer_p == NULL)
        return FERRY_E_INVALID;
    ferry_engine *engine = device->engine;
    ferry_status status = fry_engine_check_open(engine);
    if (status != FERRY_OK)
        return status;
    if (size_bytes == 0 || size_bytes > FRY_BUFFER_BYTES_MAX) {
        fry_log_line(&engine->log, FERRY_LOG_WARNING,
                     "a buffer of %zu bytes is refused: the size is 0 or above 2^48 - 1",
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

/* Any open GPU of the engine; NULL: there is none. */
static fry_device *gpu_of(const ferry_engine *engine)
{
    uint32_t count = fry_engine_device_count(engine);
    for (uint32_t i = engine->options.host_devices; i < count; i++) {
        if (engine->devices[i].device->ops->memory_is_pinned != NULL)
            return engine->devices[i].device;
    }
    return NULL;
}

/* Page-locked memory is on the host, but only a GPU's driver gives it. */
static ferry_status memory_alloc(ferry_buffer *buffer, fry_memory_kind kind)
{
    const ferry_device *device = buffer->device;
    fry_device *from = device->device;
    if (kind == FRY_MEMORY_PINNED)
        from = device->host_lane != NULL ? gpu_of(device->engine) : NULL;
    if (from == NULL)
        return FERRY_E_UNSUPPORTED;
    buffer->kind = (uint8_t)kind;
    buffer->pages = kind == FRY_MEMORY_PINNED ? FRY_PAGES_PINNED : FRY_PAGES_UNASKED;
    buffer->memory_device = from;
    return from->ops->memory_alloc(from, buffer->size_bytes, kind, &buffer->data);
}

ferry_status ferry_buffer_alloc_kind(ferry_device *device, size_t size_bytes, ferry_memory kind,
                                     ferry_buffer **buffer_p)
{
    static const fry_memory_kind kinds[] = {
        [FERRY_MEMORY_DEFAULT] = FRY_MEMORY_DEFAULT,
        [FERRY_MEMORY_PINNED] = FRY_MEMORY_PINNED,
        [FERRY_MEMORY_PLAIN] = FRY_MEMORY_PLAIN,
    };
    ferry_buffer *buffer;
    ferry_status status = buffer_create(device, size_bytes, buffer_p, &buffer);
    if (status != FERRY_OK)
        return status;
    ferry_engine *engine = device->engine;
    const char *why = "a buffer is refused: kind is not a ferry_memory";
    status = FERRY_E_INVALID;
    if ((size_t)kind >= sizeof kinds / sizeof kinds[0])
        goto err_buffer;
    status = memory_alloc(buffer, kinds[kind]);
    why = kind == FERRY_MEMORY_PINNED && device->host_lane != NULL
              ? "there is no pinned memory: no GPU is open that could give it"
              : "the device has no memory of that kind";
    if (status != FERRY_OK)
        goto err_buffer;
    fry_engine_retain(engine);
    *buffer_p = buffer;
    return FERRY_OK;

err_buffer:
    if (status == FERRY_E_INVALID || status == FERRY_E_UNSUPPORTED)
        fry_log_line(&engine->log, FERRY_LOG_WARNING, "%s: %s", device->device->name, why);
    fry_free(&engine->memory, buffer, sizeof *buffer);
    return status;
}

ferry_status ferry_buffer_alloc(ferry_device *device, size_t size_bytes, ferry_buffer **buffer_p)
{
    return ferry_buffer_alloc_kind(device, size_bytes, FERRY_MEMORY_DEFAULT, buffer_p);
}

/*
 * NULL: the device can copy the memory. For a host device, asks the open GPUs, as no others can
 * know.
 */
static const char *memory_complaint(const ferry_device *device, const void *memory,
                                    size_t size_bytes)
{
    const fry_device_ops *ops = device->device->ops;
    if (device->host_lane == NULL)
        return ops->memory_is_here == NULL ||
                       ops->memory_is_here(device->device, memory, size_bytes)
                   ? NULL
                   : "wrapping memory that is not this device's is refused";
    uint32_t count = fry_engine_device_count(device->engine);
    for (uint32_t i = device->engine->options.host_devices; i < count; i++) {
        fry_device *gpu = device->engine->devices[i].device;
        if (gpu->ops->memory_is_off_host != NULL &&
            gpu->ops->memory_is_off_host(gpu, memory, size_bytes))
            return "wrapping a GPU's memory as a host's is refused";
    }
    return NULL;
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
    const char *complaint = memory_complaint(device, memory, size_bytes);
    if (complaint != NULL) {
        fry_log_line(&device->engine->log, FERRY_LOG_WARNING, "%s: %s", device->device->name,
                     complaint);
        fry_free(&device->engine->memory, buffer, sizeof *buffer);
        return FERRY_E_INVALID;
    }
    buffer->is_wrapped = true;
    buffer->data = memory;
    buffer->free_fn = free_fn;
    buffer->free_arg = arg;
    fry_engine_retain(device->engine);
    *buffer_p = buffer;
    return FERRY_OK;
}

void ferry_buffer_release(ferry_buffer *buffer)
{
    if (buffer == NULL || fry_engine_check(buffer->engine) != FERRY_OK)
        return;
    ferry_engine *engine = buffer->engine;
    fry_engine_retain(engine); /* freeing the buffer may free the engine */
    fry_buffer_unretain(buffer);
    fry_wake(engine);
    fry_late_call_ends(engine);
    fry_engine_unretain(engine, 1);
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
    /*
     * Empty spans are never checked, so a span without a buffer must not be empty, to be refused.
     */
    return (ferry_span){buffer, 0, buffer != NULL ? buffer->size_bytes : SIZE_MAX};
}
