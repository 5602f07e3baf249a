/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What gpu/ offers upward: devices with memory and in-order streams.
 *
 * Whoever holds the engine's baton is the only caller of the stream functions (copy, flush, fired,
 * cancel...), one at a time, on any thread; none of them may block, allocate or call back.
 * Operations on a stream fire in the order they were issued. Each gets a sequence number of its
 * stream, from 1 and without gaps; `fired` says up to which one everything has fired. So an event
 * of a stream is simply a sequence number, and only the head of a stream is ever looked at.
 *
 * Streams are of three kinds. Copies go on *main* streams, one a direction. What waits for an
 * outside event that has not fired goes on a *parked* one, so that nothing on a main stream ever
 * stands behind somebody else's work. An *outside* stream is the user's: ferry issues nothing to it
 * but records events there, whose numbers count like operations.
 */
#ifndef FRY_GPU_DEVICE_H
#define FRY_GPU_DEVICE_H

#include "base/native_error.h"

#include <ferry/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FRY_DEVICE_NAME_BYTES 32
#define FRY_STREAM_DEPTH 256       /* operations that may stand in a stream at once... */
#define FRY_STREAM_DEPTH_MOST 4096 /* ...and in one that says so itself */
#define FRY_STREAM_WAITS 9         /* events that may stand in front of one operation */

typedef struct fry_device fry_device;
typedef struct fry_stream fry_stream;

/*
 * Rows of one size, each of which begins a pitch after the one before; a plain copy is one row, and
 * has no pitches. Rows of a side don't overlap, nor do those of the two sides.
 */
typedef struct fry_copy {
    void *dst; /* the first row's */
    const void *src;
    size_t size_bytes; /* all rows together */
    size_t row_count;
    size_t dst_pitch_bytes, src_pitch_bytes;
    bool is_read_now; /* to a stream that small_stream gave: `src` is pageable, and read in the call
                       */
} fry_copy;

static inline size_t fry_copy_row_bytes(const fry_copy *copy)
{
    return copy->row_count == 1 ? copy->size_bytes : copy->size_bytes / copy->row_count;
}

/* Something on a stream: the operation of that sequence number, and all before it. */
typedef struct fry_event {
    fry_stream *stream;
    uint64_t sequence;
} fry_event;

typedef enum fry_stream_kind {
    FRY_STREAM_MAIN = 0,
    FRY_STREAM_PARKED,
    FRY_STREAM_OUTSIDE,
    FRY_STREAM_SPARE, /* becomes a main one in place of one that stands for ever */
} fry_stream_kind;

typedef enum fry_memory_kind {
    FRY_MEMORY_DEFAULT = 0, /* a GPU's: from its stream-ordered pool */
    FRY_MEMORY_PLAIN,       /* a GPU's: whole allocations, which other processes can open */
    FRY_MEMORY_PINNED,      /* the host's, page-locked for all GPUs: asked of any GPU's device */
} fry_memory_kind;

/* Tells the engine that something has fired. Called by a backend's own threads only. */
typedef struct fry_notify {
    void (*fn)(void *arg);
    void *arg;
} fry_notify;

#define FRY_CAPABILITY_BITS 16

/*
 * What a device is; `capabilities` are ferry_capability, summed. The caller zeroes it, so what a
 * backend does not know is 0 and NULL. Texts are one line, static or of the device's life.
 */
typedef struct fry_device_facts {
    uint32_t stream_count;
    uint32_t capabilities;
    uint64_t memory_bytes;
    uint64_t memory_unused_bytes;              /* about what could be had now */
    uint64_t peers;                            /* bit N: device N of its backend, an open
                                                  one, from and to which it copies without the
                                                  host */
    int32_t lowest_priority, highest_priority; /* of streams, as the driver counts */
    const char *model;                         /* its maker's name for it */
    const char *driver;                        /* "CUDA 13.0" */
    const char *lacks[FRY_CAPABILITY_BITS];    /* by bit: why it has not that capability */
} fry_device_facts;

typedef struct fry_device_ops {
    const char *backend; /* "host" */

    /* Any thread; may ask the system or the driver. */
    void (*describe)(fry_device *device, fry_device_facts *facts);

    /*
     * Memory. Any thread, may block; 64-byte aligned at least. FERRY_OK, FERRY_E_NO_MEMORY,
     * FERRY_E_UNSUPPORTED (no memory of that kind here), FERRY_E_DEVICE.
     */
    ferry_status (*memory_alloc)(fry_device *device, size_t size_bytes, fry_memory_kind kind,
                                 void **memory_p);
    /* Never blocks for what the device does: the memory is quiet, others' work may not be. */
    void (*memory_free)(fry_device *device, void *memory, size_t size_bytes, fry_memory_kind kind);

    /* Whether the device can copy to and from this memory, that it is said to have. NULL: any. */
    bool (*memory_is_here)(fry_device *device, const void *memory, size_t size_bytes);

    /* Whether host memory is page-locked for this device. Any thread. NULL on the host. */
    bool (*memory_is_pinned)(fry_device *device, const void *memory, size_t size_bytes);

    /*
     * Whether the CPU can't touch this memory, since it is some device's of this backend (managed
     * memory is not). Any thread. NULL: there is no such memory.
     */
    bool (*memory_is_off_host)(fry_device *device, const void *memory, size_t size_bytes);

    /*
     * All streams of the device, by index; NULL past the last. The engine hangs a lane on each
     * before it uses the device.
     */
    fry_stream *(*stream_at)(fry_device *device, size_t index);

    /*
     * The stream that a copy goes on; never NULL. Asked of `dst` or, if that is a host's, of `src`.
     * is_pageable: one side is host memory that is not page-locked for GPUs.
     */
    fry_stream *(*copy_stream)(fry_device *dst, fry_device *src, bool is_pageable);

    /*
     * The stream on which a plain copy of so few bytes goes out of pageable memory instead: it is
     * polled, and reads the bytes as the copy is issued, so nothing that the copy comes after may
     * then be on its way on another stream. NULL: none. The function NULL: there never is one.
     */
    fry_stream *(*small_stream)(fry_device *dst, size_t size_bytes);

    /* The parked streams that a copy of a main stream may go on instead, by index; NULL past the
     * last. NULL: there are none. */
    fry_stream *(*parked_stream)(fry_stream *main, size_t index);

    /*
     * Copies now, in the calling thread, if it is small and the stream is empty (nothing issued has
     * yet to fire). True: done, nothing was issued.
     */
    bool (*copy_inline)(fry_stream *stream, const fry_copy *copy);

    /*
     * Issues a copy behind `waits` (events of streams for which can_wait is true; wait_count <=
     * FRY_STREAM_WAITS) and, if the stream is no more than a queue of independent copies to its
     * device, behind those of its own that `waits` names: an event of `stream` itself is no wait on
     * the device but says that this copy must come after that one. The caller keeps at most
     * fry_stream_depth operations unfired in a stream, and issues none while it is_full (which
     * `fired` ends), so there is always room. FERRY_OK sets *sequence_p; FERRY_E_DEVICE,
     * FERRY_E_SYSTEM (a thread could not be made): nothing was issued, *error says why.
     */
    ferry_status (*copy)(fry_stream *stream, const fry_copy *copy, const fry_event *waits,
                         size_t wait_count, uint64_t *sequence_p, fry_native_error *error);

    /*
     * What was issued stands in the stream from now on: others can wait for it, `fired` will tell
     * of it. Called before the baton is given back, for each stream that was copied to. NULL: it
     * does at once.
     */
    void (*flush)(fry_stream *stream);

    /* Whether `stream` can wait for events of `other` on the device. */
    bool (*can_wait)(const fry_stream *stream, const fry_stream *other);

    /*
     * The highest sequence number up to which everything has fired (acquire: the bytes are there).
     * *status_p: FERRY_OK, or FERRY_E_DEVICE: the device fails and the others will not be known to
     * fire; *error then says why (and is left alone otherwise).
     */
    uint64_t (*fired)(fry_stream *stream, ferry_status *status_p, fry_native_error *error);

    /*
     * If stream->struck is not 0: how an operation that has fired, and after which fewer than
     * fry_stream_depth were issued, has ended. FERRY_E_DEVICE, FERRY_E_NO_MEMORY: it was never
     * begun or failed, and is not at its memory any more. NULL: nothing is ever struck.
     */
    ferry_status (*outcome)(fry_stream *stream, uint64_t sequence, fry_native_error *error);

    /*
     * When the operation, which has fired and after which fewer than fry_stream_depth were issued,
     * began, on the engine's clock; 0: not known.
     */
    int64_t (*begun_ns)(fry_stream *stream, uint64_t sequence);

    /*
     * Asks that an issued operation do no (further) work. It still fires in its turn; until then it
     * may touch its memory.
     */
    void (*cancel)(fry_stream *stream, uint64_t sequence);

    /*
     * Records an event on the user's stream, now. Any thread, without the baton. FERRY_OK: *event_p
     * is an event of an outside stream, which is the caller's alone until event_entered, so that
     * events enter the graph in the order of their numbers. FERRY_E_CAPTURE, FERRY_E_AGAIN (all
     * outside streams are full or taken), FERRY_E_INVALID (a stream of another device),
     * FERRY_E_NO_MEMORY, FERRY_E_DEVICE. NULL, as the next three: the backend has no native
     * streams.
     */
    ferry_status (*event_record)(fry_device *device, void *native_stream, fry_event *event_p,
                                 fry_native_error *error);
    void (*event_entered)(fry_event event);

    /*
     * The same for an event that the user recorded, as it is now; native_stream: where, or NULL if
     * that is not known: events of one stream are wrapped in the order they were recorded, as they
     * wait behind each other. event_p->stream NULL: it has fired.
     */
    ferry_status (*event_wrap)(fry_device *device, void *native_event, void *native_stream,
                               fry_event *event_p, fry_native_error *error);

    /*
     * The user's stream waits for an event of a stream of this backend. Any thread, without the
     * baton; the event may have fired. FERRY_OK; FERRY_E_NOT_ISSUED (it has not been flushed),
     * FERRY_E_CAPTURE, FERRY_E_UNSUPPORTED (no device can wait for that stream), FERRY_E_DEVICE.
     */
    ferry_status (*stream_wait)(fry_device *device, void *native_stream, fry_event event,
                                fry_native_error *error);
} fry_device_ops;

struct fry_stream {
    fry_device *device;
    void *lane;      /* the engine's, set once before the stream is used */
    uint16_t index;  /* among all of the engine's, which numbers them */
    uint8_t kind;    /* fry_stream_kind; of a spare one changed with the baton */
    bool is_polled;  /* nobody tells when something fires: `fired` must be looked at */
    bool is_full;    /* takes no copy until something of it has fired: the driver's own queue, that
                        would block, is full before so many; written with the baton */
    uint16_t depth;  /* operations that may stand in it, a power of two up to FRY_STREAM_DEPTH_MOST;
                        0: FRY_STREAM_DEPTH, as all but main streams have */
    uint64_t issued; /* sequence number of the newest operation; written with the baton (of an
                        outside stream: by who records) */
    uint64_t struck; /* operations whose outcome was not FERRY_OK; written with the baton */
};

/* How many operations may stand in the stream. */
static inline uint32_t fry_stream_depth(const fry_stream *stream)
{
    return stream->depth != 0 ? stream->depth : FRY_STREAM_DEPTH;
}

struct fry_device {
    const fry_device_ops *ops;
    uint16_t index; /* among the engine's devices, which numbers them */
    char name[FRY_DEVICE_NAME_BYTES];
};

#endif
