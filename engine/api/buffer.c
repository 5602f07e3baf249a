/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers: making and releasing them. */
#include "engine/graph/buffer.h"

#include "base/options.h"
#include "engine/engine.h"
#include "engine/graph/lane.h"
#include "engine/ground/ground.h"
#include "engine/loop/late.h"

#include <stdio.h>

/* Why a buffer is not made; the text is the fault's message. */
static ferry_status refuse(fry_fault *fault, ferry_status status, const char *text)
{
    fault->status = status;
    (void)snprintf(fault->message, sizeof fault->message, "%s", text);
    return status;
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
static ferry_status allocate(ferry_buffer *buffer, ferry_memory wanted, fry_fault *fault)
{
    static const fry_memory_kind kinds[] = {
        [FERRY_MEMORY_DEFAULT] = FRY_MEMORY_DEFAULT,
        [FERRY_MEMORY_PINNED] = FRY_MEMORY_PINNED,
        [FERRY_MEMORY_PLAIN] = FRY_MEMORY_PLAIN,
        [FERRY_MEMORY_SHARED] = FRY_MEMORY_SHARED,
    };
    const ferry_device *device = buffer->device;
    bool is_pinned = wanted == FERRY_MEMORY_PINNED;
    fry_device *from = device->device;
    if (is_pinned || wanted == FERRY_MEMORY_SHARED)
        from = device->host_lane == NULL ? NULL : is_pinned ? gpu_of(device->engine) : from;
    ferry_status status = FERRY_E_UNSUPPORTED;
    if (from != NULL) {
        fry_memory_kind kind = kinds[wanted];
        buffer->kind = (uint8_t)kind;
        buffer->pages = is_pinned ? FRY_PAGES_PINNED : FRY_PAGES_UNASKED;
        buffer->memory_device = from;
        status = from->ops->memory_alloc(from, buffer->size_bytes, kind, &buffer->data, fault);
    }
    if (status == FERRY_OK || fault->message[0] != '\0')
        return status;
    if (status != FERRY_E_UNSUPPORTED)
        return refuse(fault, status, ferry_status_text(status));
    return refuse(fault, status,
                  is_pinned && device->host_lane != NULL
                      ? "there is no pinned memory: no GPU is open that could give it"
                      : "the device has no memory of that kind");
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

static const char *options_complaint(const ferry_device *device,
                                     const ferry_buffer_options *options)
{
    const void *wrapped = options->memory != NULL ? options->memory : options->source;
    if (options->size_bytes == 0 || options->size_bytes > FRY_BUFFER_BYTES_MAX)
        return "its size is 0 or above 2^48 - 1";
    if (options->memory != NULL && options->source != NULL)
        return "memory and source are both set";
    if ((size_t)options->kind > FERRY_MEMORY_SHARED)
        return "kind is not a ferry_memory";
    if (wrapped != NULL && options->kind != FERRY_MEMORY_DEFAULT)
        return "kind is for memory that ferry allocates";
    if (wrapped == NULL && options->free_fn != NULL)
        return "free_fn is for memory of the caller's";
    if (options->reserved != 0)
        return "reserved is not zero";
    return wrapped != NULL ? memory_complaint(device, wrapped, options->size_bytes) : NULL;
}

static ferry_status make(ferry_device *device, const ferry_buffer_options *options,
                         ferry_buffer **buffer_p, fry_fault *fault)
{
    ferry_engine *engine = device->engine;
    const char *complaint = options_complaint(device, options);
    if (complaint != NULL)
        return refuse(fault, FERRY_E_INVALID, complaint);
    ferry_buffer *buffer = fry_alloc(&engine->memory, sizeof *buffer, _Alignof(ferry_buffer));
    if (buffer == NULL)
        return refuse(fault, FERRY_E_NO_MEMORY, ferry_status_text(FERRY_E_NO_MEMORY));
    buffer->references = 1;
    buffer->engine = engine;
    buffer->device = device;
    buffer->size_bytes = options->size_bytes;
    buffer->is_source = options->source != NULL;
    buffer->is_wrapped = buffer->is_source || options->memory != NULL;
    buffer->free_fn = options->free_fn;
    buffer->free_arg = options->free_arg;
    /* Nothing of ferry's writes memory that is a source: fry_span_check_written. */
    buffer->data = buffer->is_source ? (void *)(uintptr_t)options->source : options->memory;
    ferry_status status = buffer->is_wrapped ? FERRY_OK : allocate(buffer, options->kind, fault);
    if (status != FERRY_OK) {
        fry_free(&engine->memory, buffer, sizeof *buffer);
        return status;
    }
    fry_engine_retain(engine);
    *buffer_p = buffer;
    return FERRY_OK;
}

ferry_status ferry_buffer_create(ferry_device *device, const ferry_buffer_options *given,
                                 ferry_buffer **buffer_p, ferry_error **error_p)
{
    if (error_p != NULL)
        *error_p = NULL;
    ferry_engine *engine = device != NULL ? device->engine : NULL;
    ferry_status status = fry_engine_check_open(engine);
    if (status != FERRY_OK) { /* there is no allocator to use, or none for long */
        if (error_p != NULL)
            *error_p = &fry_error_static(status)->public_;
        return status;
    }
    fry_fault fault = {.rank = -1};
    ferry_buffer_options options;
    if (given == NULL || buffer_p == NULL)
        status = refuse(&fault, FERRY_E_INVALID, "options or buffer_p is NULL");
    else if (fry_options_read(&options, sizeof options, given) != FERRY_OK)
        status = refuse(&fault, FERRY_E_INVALID,
                        "struct_size of the options is invalid, or unknown fields are set: use "
                        "FERRY_BUFFER_OPTIONS_INIT");
    else
        status = make(device, &options, buffer_p, &fault);
    if (status == FERRY_OK)
        return FERRY_OK;
    const char *name = device->device->name;
    if (status == FERRY_E_INVALID || status == FERRY_E_UNSUPPORTED)
        fry_log_line(&engine->log, FERRY_LOG_WARNING, "%s: a buffer is refused: %s", name,
                     fault.message);
    if (error_p != NULL) {
        fault.status = status;
        *error_p = &fry_error_create(&engine->memory, &fault, NULL, "%s: %s", name, fault.message)
                        ->public_;
    }
    return status;
}

ferry_status ferry_buffer_alloc_kind(ferry_device *device, size_t size_bytes, ferry_memory kind,
                                     ferry_buffer **buffer_p)
{
    const ferry_buffer_options options = {
        .struct_size = sizeof options, .size_bytes = size_bytes, .kind = kind};
    return ferry_buffer_create(device, &options, buffer_p, NULL);
}

ferry_status ferry_buffer_alloc(ferry_device *device, size_t size_bytes, ferry_buffer **buffer_p)
{
    return ferry_buffer_alloc_kind(device, size_bytes, FERRY_MEMORY_DEFAULT, buffer_p);
}

ferry_status ferry_buffer_wrap(ferry_device *device, void *memory, size_t size_bytes,
                               ferry_free_fn free_fn, void *arg, ferry_buffer **buffer_p)
{
    const ferry_buffer_options options = {.struct_size = sizeof options,
                                          .size_bytes = size_bytes,
                                          .memory = memory,
                                          .free_fn = free_fn,
                                          .free_arg = arg};
    return memory != NULL ? ferry_buffer_create(device, &options, buffer_p, NULL) : FERRY_E_INVALID;
}

ferry_buffer *ferry_buffer_retain(ferry_buffer *buffer)
{
    if (buffer != NULL && fry_engine_check(buffer->engine) == FERRY_OK)
        fry_buffer_retain(buffer);
    return buffer;
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

ferry_engine *ferry_buffer_engine(const ferry_buffer *buffer)
{
    return buffer != NULL ? buffer->engine : NULL;
}

/* Empty spans are never checked, so a span that is to be refused must not be empty. */
static const ferry_span refused_span = {NULL, 0, SIZE_MAX};

ferry_span ferry_buffer_span(ferry_buffer *buffer)
{
    return buffer != NULL ? (ferry_span){buffer, 0, buffer->size_bytes} : refused_span;
}

ferry_span ferry_span_slice(ferry_span span, size_t offset_bytes, size_t size_bytes)
{
    bool is_inside = offset_bytes <= span.size_bytes &&
                     size_bytes <= span.size_bytes - offset_bytes && span.buffer != NULL &&
                     span.offset_bytes <= SIZE_MAX - span.size_bytes;
    return is_inside ? (ferry_span){span.buffer, span.offset_bytes + offset_bytes, size_bytes}
                     : refused_span;
}
