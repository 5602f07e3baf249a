/* SPDX-License-Identifier: Apache-2.0 */
/* Devices and buffers: places, memory on them, and what is valid in it. */
#ifndef FERRY_DEVICE_H
#define FERRY_DEVICE_H

#include <ferry/export.h>
#include <ferry/status.h>
#include <ferry/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Finds a device by name: "host:0" and so on, and with CUDA "cuda:0", GPU 0 as the driver counts.
 * "cuda:0/1" is another device on the same GPU, with streams of its own, and so on up to
 * "cuda:0/15". A GPU is opened by the first call that names it, with default options
 * (ferry_device_open): that may take as long as the driver takes for a context, so a callback of
 * this engine finds only what is open. Returns NULL if there is none of that name, with a warning
 * in the log that says why, or if an argument is NULL or the engine a parent process's. The device
 * belongs to the engine and lives as long as it: don't release it. Any thread.
 */
FERRY_API ferry_device *ferry_device_find(ferry_engine *engine, const char *name);

/* How a GPU's progress is watched. */
typedef enum ferry_completion FERRY_INT_ENUM {
    FERRY_COMPLETION_DEFAULT = 0, /* words, where the driver can */
    FERRY_COMPLETION_WORDS = 1,  /* ferry's streams write numbers to host memory, which ferry reads;
                                    the driver is asked only for what stays long, and for events on
                                    the program's streams that the host alone waits for */
    FERRY_COMPLETION_EVENTS = 2, /* the driver is asked about an event each time */
} ferry_completion;

/* Options of a GPU; make them with FERRY_DEVICE_OPTIONS_INIT. Zero means the default. */
typedef struct ferry_device_options {
    size_t struct_size;          /* sizeof(ferry_device_options) */
    void *native_context;        /* CUDA: the CUcontext to use, of that GPU, but not a green one's,
                                    which only one thread at a time may use; borrowed until
                                    ferry_engine_release; default the primary one. Copies between
                                    devices of one GPU that have different contexts go through
                                    the host, unless the driver lets each context use the
                                    other's memory */
    ferry_completion completion; /* how its progress is watched */
    uint32_t parked_streams;     /* streams on which copies wait for outside events; default 4, at
                                    most 64. Many take hardware queues from others:
                                    docs/threading.md */
    size_t staging_bytes;        /* pinned memory that copies from and to pageable memory go
                                    through, taken with the first of them; default 16 MiB, 64 KiB
                                    to 1 GiB */
} ferry_device_options;

#define FERRY_DEVICE_OPTIONS_INIT FERRY_SIZED_INIT(ferry_device_options)

/*
 * Opens a device, or finds it if it is open: what its options then leave at zero may be as it is.
 *  options   NULL for defaults, or for the device as it is open; of no meaning for a host device
 *  device_p  receives the device, set only on success; the engine's, don't release it
 *  error_p   NULL, or receives NULL on success and on failure an error, never NULL, that the caller
 *            releases with ferry_error_release: "no driver", "no such device" and so on
 * Any thread, not in a callback; may block for the driver. Returns FERRY_OK; FERRY_E_INVALID for a
 * NULL, a name or an option that can't be; FERRY_E_NOT_FOUND if there is no such device, driver or
 * module; FERRY_E_BUSY if it is open with other options than those asked for; FERRY_E_DEVICE with
 * the driver's number; FERRY_E_NO_MEMORY; FERRY_E_AGAIN (64 are open); FERRY_E_SYSTEM;
 * FERRY_E_DEADLOCK from a callback of this engine; FERRY_E_SHUTDOWN; FERRY_E_FORKED.
 */
FERRY_API ferry_status ferry_device_open(ferry_engine *engine, const char *name,
                                         const ferry_device_options *options,
                                         ferry_device **device_p, ferry_error **error_p);

/*
 * How many devices the engine has, its hosts' and those opened; their indices count from 0. 0 if
 * engine is NULL or a parent process's.
 */
FERRY_API size_t ferry_device_count(const ferry_engine *engine);

/* The device of an index, or NULL if there is none. Lives as long as the engine. */
FERRY_API ferry_device *ferry_device_at(ferry_engine *engine, size_t index);

/* Name of a device, for example "host:0"; "" for NULL. Lives as long as the engine. */
FERRY_API const char *ferry_device_name(const ferry_device *device);

/*
 * Allocates memory on a device; its contents are undefined but may be read. On a host device it is
 * aligned to 64 bytes, from 64 KiB on to 4096, from 2 MiB on to 2 MiB, and then the kernel is asked
 * for huge pages. On a GPU it comes from a stream-ordered pool and is aligned to 256; free memory
 * is given back without waiting for the GPU, so release the buffer only when your own kernels are
 * done with it.
 *  size_bytes  at least 1
 *  buffer_p    receives the buffer, set only on success; release it with ferry_buffer_release
 * May block in the allocator. Returns FERRY_OK; FERRY_E_INVALID for a NULL or a size of 0 or above
 * PTRDIFF_MAX; FERRY_E_NO_MEMORY; FERRY_E_DEVICE; FERRY_E_SHUTDOWN; FERRY_E_FORKED.
 */
FERRY_API ferry_status ferry_buffer_alloc(ferry_device *device, size_t size_bytes,
                                          ferry_buffer **buffer_p);

/* Kinds of memory, beside the plain sort that ferry_buffer_alloc gives. */
typedef enum ferry_memory FERRY_INT_ENUM {
    FERRY_MEMORY_DEFAULT = 0, /* what ferry_buffer_alloc gives */
    FERRY_MEMORY_PINNED = 1,  /* on a host device: page-locked, so that all GPUs of the engine copy
                                 straight from and to it; a GPU must be open */
    FERRY_MEMORY_PLAIN = 2,   /* on a GPU: an allocation of its own, as by cudaMalloc */
} ferry_memory;

/*
 * Allocates memory of a kind. Pinned memory is dear to make and keeps pages from everybody: make
 * it once, use it often. Otherwise like ferry_buffer_alloc; also FERRY_E_UNSUPPORTED: the device
 * has no memory of that kind (pinned: no GPU is open).
 */
FERRY_API ferry_status ferry_buffer_alloc_kind(ferry_device *device, size_t size_bytes,
                                               ferry_memory kind, ferry_buffer **buffer_p);

/*
 * Called once when ferry will never touch wrapped memory again. A callback: on the loop, or after
 * the shutdown in the thread that brings it about. May call ferry; may not wait.
 */
typedef void (*ferry_free_fn)(void *arg, void *memory, size_t size_bytes);

/*
 * Makes a buffer of the caller's memory. The memory must stay valid until free_fn is called, or,
 * without one, until every operation on the buffer is quiet and the buffer is released. Memory
 * wrapped twice is two buffers to ferry: hazards between them are not seen.
 *  memory      on a host device any memory of this process that can be written, of any alignment,
 *              but none that is a GPU's own; on a GPU memory of that GPU, by whatever call it was
 *              allocated. Host memory that is page-locked (cudaHostRegister, cudaMallocHost) when
 *              a GPU first copies it needs no staging, and must stay so
 *  size_bytes  at least 1
 *  free_fn     NULL, or called once with arg, memory and size_bytes after the release and after
 *              the last operation is quiet
 *  buffer_p    receives the buffer, set only on success; release it with ferry_buffer_release
 * Returns FERRY_OK; FERRY_E_INVALID for a NULL, a size of 0 or above PTRDIFF_MAX, or memory that is
 * not the device's; FERRY_E_NO_MEMORY; FERRY_E_SHUTDOWN; FERRY_E_FORKED. free_fn is called only if
 * it was FERRY_OK.
 */
FERRY_API ferry_status ferry_buffer_wrap(ferry_device *device, void *memory, size_t size_bytes,
                                         ferry_free_fn free_fn, void *arg, ferry_buffer **buffer_p);

/*
 * Gives the caller's handle back; NULL is allowed. The memory is freed on the loop once every
 * operation on it is quiet: releasing right after submitting is right. After the shutdown it is
 * freed, and free_fn called, inside this call (ferry.h). In a fork's child it does nothing.
 */
FERRY_API void ferry_buffer_release(ferry_buffer *buffer);

/* Address of the buffer's memory; NULL for NULL. Who may touch it when: docs/threading.md. */
FERRY_API void *ferry_buffer_data(const ferry_buffer *buffer);

/* Size in bytes; 0 for NULL. */
FERRY_API size_t ferry_buffer_size_bytes(const ferry_buffer *buffer);

/* The device it is on; NULL for NULL. */
FERRY_API ferry_device *ferry_buffer_device(const ferry_buffer *buffer);

/*
 * The span that covers all of a buffer; for NULL one that every operation refuses (it is not empty:
 * an empty one would be ignored).
 */
FERRY_API ferry_span ferry_buffer_span(ferry_buffer *buffer);

/*
 * Says that somebody outside ferry writes the span, and that it is valid once `future` resolves:
 * later readers wait for it and share its failure. It also heals a poisoned span. It takes its
 * place in program order like an operation that writes the span; the outside writer must not begin
 * before what ferry does there is quiet, which ferry can't see to.
 *  span    at least one byte
 *  future  of the same engine, borrowed; NULL: valid now
 * Returns FERRY_OK; FERRY_E_INVALID for a span that is none and a future of another engine;
 * FERRY_E_NO_MEMORY or FERRY_E_AGAIN, and then the span is poisoned; FERRY_E_SHUTDOWN;
 * FERRY_E_FORKED.
 *
 * It has no future of its own, and it can fail after it was FERRY_OK: with `future`; with
 * FERRY_E_SHUTDOWN; and, like an operation, for want of room or memory to list it as it takes its
 * place, with FERRY_E_AGAIN or FERRY_E_NO_MEMORY: then its whole buffer is poisoned. Later readers
 * tell, with that as cause.
 */
FERRY_API ferry_status ferry_buffer_define(ferry_span span, ferry_future *future);

#ifdef __cplusplus
}
#endif
#endif
