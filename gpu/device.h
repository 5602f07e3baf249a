/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What gpu/ offers upward: devices with memory and in-order streams.
 *
 * Only the holder of the engine's baton calls the stream functions (copy, flush, fired, cancel...),
 * one at a time, on any thread; none of them may block, allocate or call back. Operations on a
 * stream fire in the order they were issued. Each gets a sequence number of its stream, from 1 and
 * without gaps; `fired` tells up to which number everything has fired. So an event of a stream is
 * simply a sequence number, and only the head of a stream is ever looked at.
 *
 * A call that fails writes the whole of *fault, with the status that it returns; one that does not
 * fail leaves it alone. event_record, event_wrap and stream_wait write it only when the driver has
 * refused a call.
 *
 * There are three kinds of streams. Copies go on *main* streams, one for each direction. Copies
 * that wait for an outside event that has not fired go on a *parked* stream, so that nothing on a
 * main stream is ever behind the program's work. An *outside* stream is the user's: ferry issues
 * nothing to it, but records events there, whose numbers count like operations.
 */
#ifndef FRY_GPU_DEVICE_H
#define FRY_GPU_DEVICE_H

#include "base/fault.h"

#include <ferry/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FRY_DEVICE_NAME_BYTES 32
#define FRY_STREAM_DEPTH 256       /* operations in a stream at once... */
#define FRY_STREAM_DEPTH_MOST 4096 /* ...and in a stream with its own depth */
#define FRY_STREAM_WAITS 9         /* waits in front of one operation */

typedef struct fry_device fry_device;
typedef struct fry_stream fry_stream;

/* Copies that a device begins at one command: fry_device_ops.graph_make. */
typedef struct fry_graph fry_graph;

/*
 * Rows of one size, each beginning one pitch after the row before it; a plain copy is one row and
 * has no pitches. Rows of one side do not overlap each other, nor rows of the other side.
 */
typedef struct fry_copy {
    void *dst; /* of the first row */
    const void *src;
    size_t size_bytes; /* all rows together */
    size_t row_count;  /* 0: not rows, but all copies of `graph`, whose bytes size_bytes counts */
    size_t dst_pitch_bytes, src_pitch_bytes;
    fry_graph *graph; /* if row_count is 0 */
    bool is_read_now; /* on a stream of small_stream: `src` is pageable, and is read during the call
                       */
} fry_copy;

static inline size_t fry_copy_row_bytes(const fry_copy *copy)
{
    return copy->row_count == 1 ? copy->size_bytes : copy->size_bytes / copy->row_count;
}

/* A copy of a graph, which is no graph itself. They run on two branches, side by side. */
typedef struct fry_graph_copy {
    fry_copy copy;
    bool is_second; /* it is on the second branch, behind what comes before it there */
    bool is_behind; /* it is also behind all that comes before it on the other branch */
} fry_graph_copy;

/* An event of a stream: the operation with that sequence number, and all before it. */
typedef struct fry_event {
    fry_stream *stream;
    uint64_t sequence;
} fry_event;

typedef enum fry_stream_kind {
    FRY_STREAM_MAIN = 0,
    FRY_STREAM_PARKED,
    FRY_STREAM_OUTSIDE,
    FRY_STREAM_SPARE, /* replaces a main stream that waits for ever */
} fry_stream_kind;

typedef enum fry_memory_kind {
    FRY_MEMORY_DEFAULT = 0, /* a GPU's: from its stream-ordered pool */
    FRY_MEMORY_PLAIN,       /* a GPU's: separate allocations, which other processes can open */
    FRY_MEMORY_PINNED, /* the host's, page-locked for all GPUs; any GPU's device allocates it */
    FRY_MEMORY_SHARED, /* the host's: base/shared.h */
} fry_memory_kind;

#define FRY_SHARE_BYTES 64

/*
 * Memory as other processes of the host can open it. What is opened is the whole allocation that it
 * is in.
 */
typedef struct fry_memory_share {
    uint8_t handle[FRY_SHARE_BYTES];
    uint64_t offset; /* of the memory in the allocation */
    uint64_t allocation_bytes;
    uint64_t generation; /* no two allocations of a process have the same, also at one address */
} fry_memory_share;

/* Tells the engine that something has fired. Only a backend's own threads call it. */
typedef struct fry_notify {
    void (*fn)(void *arg);
    void *arg;
} fry_notify;

#define FRY_CAPABILITY_BITS 16

/*
 * Facts about a device; `capabilities` are ferry_capability, summed. The caller zeroes it, so
 * unknown facts are 0 and NULL. Texts are one line, static or valid as long as the device.
 */
typedef struct fry_device_facts {
    uint32_t stream_count;
    uint32_t capabilities;
    uint64_t memory_bytes;
    uint64_t memory_unused_bytes; /* about how much is free now */
    uint64_t peers; /* bit N: it copies from and to device N of its backend, which is open, without
                       the host */
    int32_t lowest_priority, highest_priority; /* of streams, in the driver's numbers */
    const char *model;                         /* the maker's name for it */
    const char *driver;                        /* "CUDA 13.0" */
    const char *lacks[FRY_CAPABILITY_BITS];    /* by bit: why it lacks the capability */
} fry_device_facts;

typedef struct fry_device_ops {
    const char *backend; /* "host" */

    /* Any thread; may ask the system or the driver. */
    void (*describe)(fry_device *device, fry_device_facts *facts);

    /*
     * Allocates memory, aligned to 64 bytes at least. Any thread, may block. FERRY_OK,
     * FERRY_E_NO_MEMORY, FERRY_E_UNSUPPORTED (no memory of that kind here), FERRY_E_DEVICE. The
     * fault says what a driver answered, if one was asked and refused; otherwise it is left alone.
     */
    ferry_status (*memory_alloc)(fry_device *device, size_t size_bytes, fry_memory_kind kind,
                                 void **memory_p, fry_fault *fault);
    /* Frees memory that is quiet. Never blocks for the device's other work. */
    void (*memory_free)(fry_device *device, void *memory, size_t size_bytes, fry_memory_kind kind);

    /*
     * Whether the memory is the device's, so that it can copy to and from it. NULL: any memory is.
     */
    bool (*memory_is_here)(fry_device *device, const void *memory, size_t size_bytes);

    /* Whether host memory is page-locked for this device. Any thread. NULL on the host. */
    bool (*memory_is_pinned)(fry_device *device, const void *memory, size_t size_bytes);

    /*
     * Whether the CPU can't access this memory, because it belongs to a device of this backend
     * (managed memory does not). Any thread. NULL: there is no such memory.
     */
    bool (*memory_is_off_host)(fry_device *device, const void *memory, size_t size_bytes);

    /*
     * Tells how other processes of the host can open memory of the device, all of which is in one
     * allocation. Any thread; asks the driver. FERRY_OK; FERRY_E_UNSUPPORTED (that memory can't be
     * opened), FERRY_E_NO_MEMORY, FERRY_E_DEVICE. NULL, like the next two: no memory can be opened.
     */
    ferry_status (*memory_share)(fry_device *device, const void *memory, size_t size_bytes,
                                 fry_memory_share *share, fry_fault *fault);

    /*
     * Opens memory of another process, whose words `share` has: they are checked. The device can
     * copy from where *memory_p says that the allocation begins. Any thread; may block, without the
     * baton. FERRY_OK; FERRY_E_AGAIN: an allocation that the other process has freed is open here,
     * and in the way; FERRY_E_UNSUPPORTED (not here; this process's own), FERRY_E_NO_MEMORY,
     * FERRY_E_DEVICE.
     */
    ferry_status (*memory_open_shared)(fry_device *device, const fry_memory_share *share,
                                       void **memory_p, fry_fault *fault);

    /*
     * Closes it, once for each opening; nothing uses it any more. Any thread; does not wait for the
     * device, which may keep it up as long as something runs there. Then *is_closed is set to 1
     * (release), on any thread, and the engine is notified. NULL: nobody wants to know. After the
     * backend was stopped it is closed when this returns.
     */
    void (*memory_close_shared)(fry_device *device, void *memory, uint32_t *is_closed);

    /*
     * For other libraries that work on the device in the engine's name. Makes the device's context
     * the current one of the calling thread, which is a module's own and keeps it, and the thread
     * one that breaks no capture. False: that fails. NULL, like the next three: the backend has no
     * native streams.
     */
    bool (*native_enter)(fry_device *device);

    /*
     * Opens a native stream, which comes ahead of the device's others. Any thread; may block.
     * FERRY_OK; FERRY_E_NO_MEMORY, FERRY_E_DEVICE.
     */
    ferry_status (*native_stream_open)(fry_device *device, void **stream_p, fry_fault *fault);

    /* Whether all in it is over; true also if the device fails. Any thread. */
    bool (*native_stream_is_idle)(fry_device *device, void *stream);

    /* Closes it; what is in it goes on. Any thread; may block. */
    void (*native_stream_close)(fry_device *device, void *stream);

    /*
     * All streams of the device, by index; NULL past the last. The engine attaches a lane to each
     * before it uses the device.
     */
    fry_stream *(*stream_at)(fry_device *device, size_t index);

    /*
     * The stream for a copy; never NULL. Asked of `dst` or, if that is a host's, of `src`.
     * is_pageable: one side is host memory that is not page-locked for GPUs.
     */
    fry_stream *(*copy_stream)(fry_device *dst, fry_device *src, bool is_pageable);

    /*
     * The stream for a plain copy of so few bytes out of pageable memory instead: it is polled, and
     * reads the bytes when the copy is issued, so everything that the copy follows must have fired,
     * except on that stream. NULL: none. The function NULL: there never is one.
     */
    fry_stream *(*small_stream)(fry_device *dst, size_t size_bytes);

    /*
     * The parked streams that may take a copy of a main stream, by index; NULL past the last. The
     * function NULL: there are none.
     */
    fry_stream *(*parked_stream)(fry_stream *main, size_t index);

    /*
     * Copies now, in the calling thread, if the copy is small and the stream is empty (everything
     * issued has fired). True: done, and nothing was issued.
     */
    bool (*copy_inline)(fry_stream *stream, const fry_copy *copy);

    /*
     * Issues a copy behind `waits` (events of streams for which can_wait is true; wait_count <=
     * FRY_STREAM_WAITS). If the stream is only a queue of independent copies to its device, also
     * behind its own operations that `waits` names: an event of `stream` itself is no wait on the
     * device, but says that this copy must come after that operation. The caller keeps at most
     * fry_stream_depth operations unfired in a stream, and issues none while it is_full (which
     * `fired` ends), so there is always room. FERRY_OK sets *sequence_p; FERRY_E_DEVICE,
     * FERRY_E_SYSTEM (a thread could not be made): nothing was issued.
     */
    ferry_status (*copy)(fry_stream *stream, const fry_copy *copy, const fry_event *waits,
                         size_t wait_count, uint64_t *sequence_p, fry_fault *fault);

    /*
     * Puts what was issued into the stream: from now on others can wait for it, and `fired` will
     * report it. Called before the baton is given back, for each stream that was copied to. NULL:
     * copies are in the stream at once.
     */
    void (*flush)(fry_stream *stream);

    /*
     * Makes a graph of copies, each of which copy_stream has a polled stream of this device for, so
     * that one `copy` of such a stream does them all. Any thread; may block, without the baton.
     * FERRY_OK; FERRY_E_UNSUPPORTED (the driver has no graphs), FERRY_E_NO_MEMORY, FERRY_E_DEVICE.
     * NULL, like the next two: there are no graphs.
     */
    ferry_status (*graph_make)(fry_device *device, const fry_graph_copy *copies, size_t count,
                               fry_graph **graph_p, fry_fault *fault);

    /* Frees a graph; what was begun of it goes on. Any thread, also after the backend's stop. */
    void (*graph_free)(fry_device *device, fry_graph *graph);

    /*
     * Puts the copies on a stream of the program's, as one command; if that is being captured, as
     * nodes of its capture. Any thread, without the baton; several at once wait for each other.
     * FERRY_OK; FERRY_E_CAPTURE (the capture was invalid, or is now), FERRY_E_INVALID (no stream of
     * this device), FERRY_E_NO_MEMORY, FERRY_E_DEVICE.
     */
    ferry_status (*graph_enqueue)(fry_device *device, fry_graph *graph, void *native_stream,
                                  fry_fault *fault);

    /* Whether `stream` can wait for events of `other` on the device. */
    bool (*can_wait)(const fry_stream *stream, const fry_stream *other);

    /*
     * The highest sequence number up to which everything has fired (acquire: the bytes are there).
     * *status_p: FERRY_OK; or FERRY_E_DEVICE: the device fails, and it will never be known whether
     * the others fire.
     */
    uint64_t (*fired)(fry_stream *stream, ferry_status *status_p, fry_fault *fault);

    /*
     * Asked if stream->struck is not 0: the outcome of an operation that has fired, and after which
     * fewer than fry_stream_depth were issued. FERRY_E_DEVICE, FERRY_E_NO_MEMORY: it was never
     * begun or it failed, and does not use its memory any more. NULL: no operation is ever struck.
     */
    ferry_status (*outcome)(fry_stream *stream, uint64_t sequence, fry_fault *fault);

    /*
     * When an operation began that has fired, and after which fewer than fry_stream_depth were
     * issued; on the engine's clock; 0: unknown.
     */
    int64_t (*begun_ns)(fry_stream *stream, uint64_t sequence);

    /*
     * Asks that an issued operation do no (further) work. It still fires in its turn, and may use
     * its memory until then.
     */
    void (*cancel)(fry_stream *stream, uint64_t sequence);

    /*
     * Records an event on the user's stream, now. Any thread, without the baton. FERRY_OK: *event_p
     * is an event of an outside stream, which belongs to the caller alone until event_entered, so
     * that events enter the graph in the order of their numbers. FERRY_E_CAPTURE, FERRY_E_AGAIN
     * (all outside streams are full or taken), FERRY_E_INVALID (a stream of another device),
     * FERRY_E_NO_MEMORY, FERRY_E_DEVICE. NULL, like the next three: the backend has no native
     * streams.
     */
    ferry_status (*event_record)(fry_device *device, void *native_stream, fry_event *event_p,
                                 fry_fault *fault);
    void (*event_entered)(fry_event event);

    /*
     * The same for the latest recording of a user's event. native_stream: the stream it was
     * recorded on, or NULL if unknown; events of one stream are wrapped in the order of their
     * recording, because they wait behind each other. event_p->stream NULL: the event has fired.
     */
    ferry_status (*event_wrap)(fry_device *device, void *native_event, void *native_stream,
                               fry_event *event_p, fry_fault *fault);

    /*
     * Makes the user's stream wait for an event of a stream of this backend. Any thread, without
     * the baton; the event may have fired. FERRY_OK; FERRY_E_NOT_ISSUED (it has not been flushed),
     * FERRY_E_CAPTURE, FERRY_E_UNSUPPORTED (no device can wait for that stream), FERRY_E_DEVICE.
     */
    ferry_status (*stream_wait)(fry_device *device, void *native_stream, fry_event event,
                                fry_fault *fault);
} fry_device_ops;

struct fry_stream {
    fry_device *device;
    void *lane;      /* owned by the engine, set once before the stream is used */
    uint16_t index;  /* among all streams of the engine, which assigns it */
    uint8_t kind;    /* fry_stream_kind; that of a spare stream changes with the baton */
    bool is_polled;  /* no thread reports when something fires: `fired` must be looked at */
    bool is_full;    /* takes no copy until something in it has fired: the driver's own queue, which
                        would block, is full earlier; written with the baton */
    uint16_t depth;  /* operations in it at most, a power of two up to FRY_STREAM_DEPTH_MOST; 0:
                        FRY_STREAM_DEPTH, as in all but main streams */
    uint64_t issued; /* sequence number of the newest operation; written with the baton (for an
                        outside stream: by the recording thread) */
    uint64_t struck; /* number of failed operations; written with the baton */
};

/* Operations in the stream at most. */
static inline uint32_t fry_stream_depth(const fry_stream *stream)
{
    return stream->depth != 0 ? stream->depth : FRY_STREAM_DEPTH;
}

struct fry_device {
    const fry_device_ops *ops;
    uint16_t index; /* among the engine's devices; the engine assigns it */
    char name[FRY_DEVICE_NAME_BYTES];
};

#endif
