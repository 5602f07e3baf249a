/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream of a host device: a bounded ring of copies with one producer and one consumer. The
 * producer is the holder of the engine's baton; the consumer is the worker that has claimed the
 * stream. gpu/host/host.c decides who sleeps and who wakes whom.
 *
 * Ownership. The slot of sequence number s is s % FRY_STREAM_DEPTH. The producer writes it while s
 * > issued, and only if it has seen s - FRY_STREAM_DEPTH fire; the store to `issued` passes the
 * slot to the consumer (release), the store to `fired` passes it back (release). Only skip_sequence
 * is touched by both in between.
 */
#ifndef FRY_GPU_HOST_STREAM_H
#define FRY_GPU_HOST_STREAM_H

#include "base/baton.h"
#include "base/lf.h"
#include "gpu/device.h"
#include "gpu/host/host.h"

typedef struct fry_host_slot {
    fry_copy copy;
    int64_t begun_ns; /* written by the worker before the operation fires; 0: not recorded */
    /*
     * Atomic. The operation to skip: a number, not a flag, so that it does not apply to earlier and
     * later operations in this slot.
     */
    uint64_t skip_sequence;
    uint64_t wait_count;
    fry_event waits[FRY_STREAM_WAITS];
} __attribute__((aligned(FRY_CACHE_LINE))) fry_host_slot;

typedef struct fry_host_stream {
    /* The producer's line. stream.issued is also read by workers, so it is stored atomically. */
    fry_stream stream;
    uint64_t fired_seen; /* a lower bound of `fired`: saves a look while there is room */

    uint64_t fired __attribute__((aligned(FRY_CACHE_LINE))); /* stored by the consumer only */

    fry_baton claim __attribute__((aligned(FRY_CACHE_LINE)));
    /*
     * Atomic; stored by the consumer only: the wait at which the next operation was last seen, or
     * one that has fired since; NULL: none yet. It shows other threads, without a claim and so
     * without reading slots, whether to claim. If the two words do not match, another consumer is
     * changing them and will look again.
     */
    const struct fry_host_stream *blocked_on;
    uint64_t blocked_sequence;

    fry_host_slot slots[FRY_STREAM_DEPTH];
} fry_host_stream;

/* The last fired operation. Acquire: its bytes have been written. Any thread. */
static inline uint64_t fry_host_stream_fired(const fry_host_stream *stream)
{
    return fry_load_acquire(&stream->fired);
}

/* Whether everything issued has fired. Producer. */
static inline bool fry_host_stream_is_empty(const fry_host_stream *stream)
{
    return fry_host_stream_fired(stream) == stream->stream.issued;
}

/*
 * Whether the stream is worth claiming: nobody has claimed it, and its known wait has fired. Any
 * thread. Ordered with the producer's stores in fry_host_stream_issue (seq_cst) and with the
 * caller's own earlier barrier.
 */
static inline bool fry_host_stream_is_runnable(const fry_host_stream *stream)
{
    if (fry_load_seq_cst(&stream->claim.taken) != 0)
        return false;
    if (fry_load_seq_cst(&stream->stream.issued) <= fry_host_stream_fired(stream))
        return false;
    const fry_host_stream *blocked_on = fry_load_acquire(&stream->blocked_on);
    return blocked_on == NULL ||
           fry_host_stream_fired(blocked_on) >= fry_load_acquire(&stream->blocked_sequence);
}

/*
 * Issues a copy behind everything in the stream and behind `waits`, events of streams of this kind.
 * False: there is no room, or there are too many waits. Producer; seq_cst store to `issued`.
 */
bool fry_host_stream_issue(fry_host_stream *stream, const fry_copy *copy, const fry_event *waits,
                           size_t wait_count);

/*
 * Asks that an operation do no (further) work; no effect if it has fired or does not exist.
 * Producer.
 */
void fry_host_stream_skip(fry_host_stream *stream, uint64_t sequence);

/* Whether the next operation can run. Consumer. */
bool fry_host_stream_is_ready(fry_host_stream *stream);

/* Runs the next operation, which is ready, and makes it fire. Consumer. */
void fry_host_stream_run(fry_host_stream *stream, const fry_host_options *options);

/* See fry_device_ops.begun_ns. Producer. */
int64_t fry_host_stream_begun_ns(fry_host_stream *stream, uint64_t sequence);

#endif
