/* SPDX-License-Identifier: Apache-2.0 */
/* Devices and buffers: places, memory on them, and which contents are valid. */
#ifndef FERRY_DEVICE_H
#define FERRY_DEVICE_H

#include <ferry/export.h>
#include <ferry/status.h>
#include <ferry/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Finds a device that the engine has, by name: host devices "host:0" and so on, and devices that
 * were opened (ferry_device_open). Asks no driver and opens nothing. Returns NULL if the engine has
 * no such device (the log has a warning that says why), if an argument is NULL, or in a fork's
 * child. The device belongs to the engine and lives as long as the engine; the caller does not
 * release it. Any thread, any context.
 */
FERRY_API ferry_device *ferry_device_find(ferry_engine *engine, const char *name);

/* How ferry learns of a GPU's progress. */
typedef enum ferry_completion FERRY_INT_ENUM {
    FERRY_COMPLETION_DEFAULT = 0, /* words, if the driver supports them */
    FERRY_COMPLETION_WORDS = 1,   /* ferry's streams write numbers to host memory, and ferry reads
                                     them. ferry asks the driver only about work that takes long,
                                     and about events on the program's streams that only the
                                     host waits for */
    FERRY_COMPLETION_EVENTS = 2,  /* ferry asks the driver about an event each time */
} ferry_completion;

/* Options of a GPU. Initialise them with FERRY_DEVICE_OPTIONS_INIT. Zero means the default. */
typedef struct ferry_device_options {
    size_t struct_size;          /* sizeof(ferry_device_options) */
    void *native_context;        /* CUDA: a CUcontext of that GPU; borrowed until
                                    ferry_engine_release; default: the primary context. A green
                                    context is not allowed, because only one thread at a time may
                                    use it. Copies between devices of one GPU in different contexts
                                    go through the host, unless the driver lets each context use
                                    the other's memory */
    ferry_completion completion; /* how ferry learns of the device's progress */
    uint32_t parked_streams;     /* streams on which copies wait for outside events; default 4, at
                                    most 64. Many of them take hardware queues from other streams:
                                    docs/threading.md */
    size_t staging_bytes;        /* pinned memory for copies from and to pageable memory; allocated
                                    for the first such copy; default 16 MiB, 64 KiB to 1 GiB */
} ferry_device_options;

#define FERRY_DEVICE_OPTIONS_INIT FERRY_SIZED_INIT(ferry_device_options)

/*
 * Opens a device: with CUDA "cuda:0", which is GPU 0 in the driver's order. "cuda:0/1" to
 * "cuda:0/15" are further devices on the same GPU, each with its own streams. If the device is open
 * already, or is a host device, finds it: fields of options that are zero then match any value.
 *  options   NULL: all zero. Options have no effect on a host device
 *  device_p  receives the device, only on success. The device belongs to the engine; the caller
 *            does not release it
 *  error_p   may be NULL. Receives NULL on success. On failure receives an error, never NULL, that
 *            says why ("no driver"...); the caller releases it with ferry_error_release
 * Any thread, but not in a callback. May block for the driver. Returns FERRY_OK; FERRY_E_INVALID
 * for a NULL, an invalid name or an invalid option; FERRY_E_NOT_FOUND if the device, the driver or
 * the module is missing; FERRY_E_BUSY if the device is open with options that differ;
 * FERRY_E_DEVICE with the driver's error code; FERRY_E_NO_MEMORY; FERRY_E_AGAIN if 64 devices have
 * been opened; FERRY_E_SYSTEM; FERRY_E_DEADLOCK in a callback of this engine; FERRY_E_SHUTDOWN;
 * FERRY_E_FORKED.
 */
FERRY_API ferry_status ferry_device_open(ferry_engine *engine, const char *name,
                                         const ferry_device_options *options,
                                         ferry_device **device_p, ferry_error **error_p);

/*
 * Number of the engine's devices: the host devices, and those that were opened. Indices count from
 * 0. Returns 0 for NULL and in a fork's child.
 */
FERRY_API size_t ferry_device_count(const ferry_engine *engine);

/* The device with an index, or NULL if there is none. Lives as long as the engine. */
FERRY_API ferry_device *ferry_device_at(ferry_engine *engine, size_t index);

/* Name of a device, for example "host:0"; "" for NULL. Lives as long as the engine. */
FERRY_API const char *ferry_device_name(const ferry_device *device);

/* Kinds of memory. */
typedef enum ferry_memory FERRY_INT_ENUM {
    FERRY_MEMORY_DEFAULT = 0, /* on a host device: aligned to 64 bytes; from 64 KiB on to 4096
                                 bytes; from 2 MiB on to 2 MiB, and ferry then asks the kernel for
                                 huge pages. On a GPU: from a stream-ordered pool, aligned to 256
                                 bytes. The pool reuses memory without waiting for the GPU, so
                                 release the buffer only after your own kernels have finished with
                                 it */
    FERRY_MEMORY_PINNED = 1,  /* on a host device: page-locked, so that all GPUs of the engine copy
                                 from and to it directly; a GPU must be open. Slow to allocate, and
                                 no other program can use its pages: allocate it once and use it
                                 often */
    FERRY_MEMORY_PLAIN = 2,   /* on a GPU: a separate allocation, as by cudaMalloc */
    FERRY_MEMORY_SHARED = 3,  /* on a host device: in a file without a name, which other processes
                                 of the host can map; aligned to a page. A member that finds a
                                 window in it maps it if the kernel allows it, and does gets of up
                                 to 64 KiB without a system call. It takes a descriptor and, beside
                                 its size, two pages; huge pages only if the system has them for
                                 shared memory. A fork's child shares it with its parent. It does
                                 not come from the engine's allocator */
} ferry_memory;

/*
 * Called once, when ferry will never touch the wrapped memory again. A callback: runs on the loop,
 * or after the shutdown in the thread that causes it. It may call ferry; it must not wait.
 */
typedef void (*ferry_free_fn)(void *arg, void *memory, size_t size_bytes);

/* What a buffer is made of. Initialise it with FERRY_BUFFER_OPTIONS_INIT. */
typedef struct ferry_buffer_options {
    size_t struct_size;    /* sizeof(ferry_buffer_options) */
    size_t size_bytes;     /* 1 to 2^48 - 1 */
    void *memory;          /* the caller's memory, which the buffer wraps; NULL: ferry allocates */
    const void *source;    /* the same for memory that operations only read, for example a file that
                              is mapped read-only: whatever would write the buffer is refused. Not
                              beside `memory` */
    ferry_memory kind;     /* of memory that ferry allocates */
    uint32_t reserved;     /* zero */
    ferry_free_fn free_fn; /* for wrapped memory; may be NULL. Called once with free_arg, the memory
                              and size_bytes, after the buffer has been released and its last
                              operation is quiet */
    void *free_arg;
} ferry_buffer_options;

#define FERRY_BUFFER_OPTIONS_INIT FERRY_SIZED_INIT(ferry_buffer_options)

/*
 * Makes a buffer: allocates memory on a device, whose contents are undefined but may be read, or
 * wraps the caller's.
 *
 * Wrapped memory must stay valid until free_fn is called; without free_fn until every operation on
 * the buffer is quiet and the buffer has been released. Wrapping memory twice makes two buffers,
 * and ferry does not order accesses through one after accesses through the other. On a host device
 * it is memory of this process, of any alignment, and not a GPU's. On a GPU it is memory of that
 * GPU, allocated by any call. Host memory that is page-locked (cudaHostRegister, cudaMallocHost)
 * when a GPU first copies it needs no staging; it must then stay page-locked.
 *  buffer_p  receives the buffer, only on success; the caller releases it with ferry_buffer_release
 *  error_p   may be NULL. Receives NULL on success. On failure receives an error, never NULL, that
 *            says why, with the driver's number as native_code if a driver refused; the caller
 *            releases it with ferry_error_release
 * Any thread; may block in the allocator or the driver. Returns FERRY_OK; FERRY_E_INVALID for a
 * NULL device, options or buffer_p, for options out of their limits, or for memory that does not
 * belong to the device; FERRY_E_UNSUPPORTED if the device has no memory of that kind (pinned: if no
 * GPU is open); FERRY_E_NO_MEMORY; FERRY_E_DEVICE; FERRY_E_SHUTDOWN; FERRY_E_FORKED. After a
 * failure free_fn is never called.
 */
FERRY_API ferry_status ferry_buffer_create(ferry_device *device,
                                           const ferry_buffer_options *options,
                                           ferry_buffer **buffer_p, ferry_error **error_p);

/*
 * Like ferry_buffer_create without an error, for memory that ferry allocates: of the default kind,
 * or of the kind that is named.
 */
FERRY_API ferry_status ferry_buffer_alloc(ferry_device *device, size_t size_bytes,
                                          ferry_buffer **buffer_p);
FERRY_API ferry_status ferry_buffer_alloc_kind(ferry_device *device, size_t size_bytes,
                                               ferry_memory kind, ferry_buffer **buffer_p);

/* Like ferry_buffer_create without an error, for the caller's memory, which must not be NULL. */
FERRY_API ferry_status ferry_buffer_wrap(ferry_device *device, void *memory, size_t size_bytes,
                                         ferry_free_fn free_fn, void *arg, ferry_buffer **buffer_p);

/* Adds a reference, which the caller releases. Returns buffer; NULL for NULL. */
FERRY_API ferry_buffer *ferry_buffer_retain(ferry_buffer *buffer);

/*
 * Releases a reference; NULL is allowed. After the last one the loop frees the memory once every
 * operation on the buffer is quiet, so the caller may release right after submitting. After the
 * shutdown this call frees the memory and calls free_fn (ferry.h). Does nothing in a fork's child.
 */
FERRY_API void ferry_buffer_release(ferry_buffer *buffer);

/*
 * Address of the buffer's memory; NULL for NULL. docs/threading.md says who may touch the memory
 * and when. Memory that was given as `source` must not be written.
 */
FERRY_API void *ferry_buffer_data(const ferry_buffer *buffer);

/* Size in bytes; 0 for NULL. */
FERRY_API size_t ferry_buffer_size_bytes(const ferry_buffer *buffer);

/* The buffer's device; NULL for NULL. */
FERRY_API ferry_device *ferry_buffer_device(const ferry_buffer *buffer);

/*
 * The engine of a device, and of a buffer; NULL for NULL. The engine may be used until its
 * ferry_engine_release, though a buffer lives on after that. Any thread, any context.
 */
FERRY_API ferry_engine *ferry_device_engine(const ferry_device *device);
FERRY_API ferry_engine *ferry_buffer_engine(const ferry_buffer *buffer);

/*
 * The span that covers the whole buffer. For NULL: a span that every operation refuses. (It is not
 * empty, because operations ignore empty spans.)
 */
FERRY_API ferry_span ferry_buffer_span(ferry_buffer *buffer);

/*
 * The part of a span that begins offset_bytes into it and has size_bytes bytes. If the part reaches
 * past the end of the span: a span that every operation refuses, as ferry_buffer_span makes it for
 * NULL. Any thread, any context.
 */
FERRY_API ferry_span ferry_span_slice(ferry_span span, size_t offset_bytes, size_t size_bytes);

/*
 * Defines a span: declares that code outside ferry writes it, and that its contents are valid once
 * `future` has resolved. Later readers wait for `future` and fail if it fails. A definition also
 * ends the poison of a span. It has a place in program order, like an operation that writes the
 * span. The outside writer must not begin before ferry's earlier operations on the span are quiet;
 * ferry can't ensure that.
 *  span    at least one byte
 *  future  of the same engine, borrowed; NULL: valid now
 * Returns FERRY_OK; FERRY_E_INVALID for an invalid span or a future of another engine;
 * FERRY_E_NO_MEMORY or FERRY_E_AGAIN, and the span is then poisoned; FERRY_E_SHUTDOWN;
 * FERRY_E_FORKED.
 *
 * A definition has no future of its own, and it can fail after this call returned FERRY_OK: because
 * `future` fails; with FERRY_E_SHUTDOWN; or with FERRY_E_AGAIN or FERRY_E_NO_MEMORY, if there is no
 * room or memory to list it when it takes its place. In the last case the whole buffer is poisoned.
 * Later readers fail, with that failure as cause.
 */
FERRY_API ferry_status ferry_buffer_define(ferry_span span, ferry_future *future);

#ifdef __cplusplus
}
#endif
#endif
