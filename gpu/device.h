/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What gpu/ offers upward: devices with memory and in-order streams.
 *
 * Whoever holds the engine's baton is the only caller of the stream functions (copy, wait, fired,
 * cancel), one at a time, on any thread; none of them may block, allocate or call back. Operations
 * on a stream fire in the order they were issued. Each gets a sequence number of its stream, from 1
 * and without gaps; `fired` says up to which one everything has fired. So an event of a stream is
 * simply a sequence number, and only the head of a stream is ever looked at.
 */
#ifndef FRY_GPU_DEVICE_H
#define FRY_GPU_DEVICE_H

#include <ferry/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FRY_DEVICE_NAME_BYTES 32
#define FRY_STREAM_DEPTH 256 /* operations that may stand in a stream at once */
#define FRY_STREAM_WAITS 8   /* device waits that may stand in front of one operation */

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

/* Tells the engine that something has fired. Called by a backend's own threads only. */
typedef struct fry_notify {
    void (*fn)(void *arg);
    void *arg;
} fry_notify;

/* What a device is; `capabilities` are ferry_capability, summed. */
typedef struct fry_device_facts {
    uint32_t stream_count;
    uint32_t capabilities;
    uint64_t memory_bytes;        /* 0 unknown, as the next */
    uint64_t memory_unused_bytes; /* about what could be had now */
} fry_device_facts;

typedef struct fry_device_ops {
    const char *backend; /* "host" */

    /* Any thread; may ask the system. */
    void (*describe)(fry_device *device, fry_device_facts *facts);

    /* Memory. Any thread, may block; 64-byte aligned at least. */
    ferry_status (*memory_alloc)(fry_device *device, size_t size_bytes, void **memory_p);
    void (*memory_free)(fry_device *device, void *memory, size_t size_bytes);

    /* The stream of `dst` that a copy from `src` goes on. Never NULL. */
    fry_stream *(*copy_stream)(fry_device *dst, fry_device *src);

    /*
     * Copies now, in the calling thread, if it is small and the stream is empty (nothing issued has
     * yet to fire). True: done, nothing was issued.
     */
    bool (*copy_inline)(fry_stream *stream, const fry_copy *copy);

    /*
     * Issues a copy behind everything in the stream and behind `waits`, which the device itself
     * waits for (events of streams for which can_wait is true; wait_count <= FRY_STREAM_WAITS). The
     * caller keeps at most FRY_STREAM_DEPTH operations unfired in a stream, so there is always
     * room. FERRY_OK sets *sequence_p; FERRY_E_DEVICE: nothing was issued.
     */
    ferry_status (*copy)(fry_stream *stream, const fry_copy *copy, const fry_event *waits,
                         size_t wait_count, uint64_t *sequence_p);

    /* Whether `stream` can wait for events of `other` on the device. */
    bool (*can_wait)(const fry_stream *stream, const fry_stream *other);

    /*
     * The highest sequence number up to which everything has fired (acquire: the bytes are there).
     * *status_p: FERRY_OK, or the error that struck operation fired + 1 or later.
     */
    uint64_t (*fired)(fry_stream *stream, ferry_status *status_p);

    /*
     * When the operation, which has fired and after which fewer than FRY_STREAM_DEPTH were issued,
     * began, on the engine's clock; 0: not known.
     */
    int64_t (*begun_ns)(fry_stream *stream, uint64_t sequence);

    /*
     * Asks that an issued operation do no (further) work. It still fires in its turn; until then it
     * may touch its memory.
     */
    void (*cancel)(fry_stream *stream, uint64_t sequence);
} fry_device_ops;

struct fry_stream {
    fry_device *device;
    uint16_t index;  /* among all streams of its backend's pool */
    uint64_t issued; /* sequence number of the newest operation; written with the baton */
};

struct fry_device {
    const fry_device_ops *ops;
    uint16_t index; /* among the engine's devices */
    char name[FRY_DEVICE_NAME_BYTES];
};

#endif
