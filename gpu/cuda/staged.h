/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Staged streams: copies that no device can make alone, because one side is pageable memory or
 * because the two devices do not reach each other. The staging thread (gpu/cuda/staging.h) works
 * them off, each copy in pieces through pinned memory: while the device copies some pieces, the CPU
 * fills or empties others. Each device has three such streams, one for each way.
 *
 * Ownership. As with a host's stream: the slot of sequence number s is s % FRY_STREAM_DEPTH. The
 * producer, who holds the baton, writes the slot while s > flushed, and only if it has seen s -
 * FRY_STREAM_DEPTH fire. The store to `flushed` passes the slot to the thread (release), the store
 * to `fired` passes it back (release). Only skip_sequence is touched by both in between. All other
 * fields belong to the thread.
 */
#ifndef FRY_GPU_CUDA_STAGED_H
#define FRY_GPU_CUDA_STAGED_H

#include "base/lf.h"
#include "gpu/cuda/pinned.h"
#include "gpu/cuda/ring.h"
#include "gpu/cuda/track.h"

/* The least pinned memory with which a stream works. */
#define FRY_CUDA_RING_LEAST_BYTES ((size_t)64 << 10)

/* Devices from which one device copies without reaching them; there is no room for more. */
#define FRY_CUDA_SOURCES 64

typedef struct fry_cuda_staged fry_cuda_staged;

typedef enum fry_cuda_way {
    FRY_CUDA_WAY_IN = 0, /* from pageable memory to the device */
    FRY_CUDA_WAY_OUT,    /* from the device to pageable memory */
    FRY_CUDA_WAY_PEER,   /* from another device to this one */
    FRY_CUDA_WAYS
} fry_cuda_way;

typedef struct fry_cuda_staged_slot {
    fry_copy copy;
    uint64_t skip_sequence; /* atomic. The operation to skip: a number, not a flag, so that it does
                               not apply to earlier and later operations in this slot */
    int64_t begun_ns;    /* written by the thread before the operation fires, like the next three */
    ferry_status status; /* its outcome */
    CUresult code;       /* for a failure, with the call that returned it; static */
    const char *call;
    uint32_t wait_count;
    fry_event waits[FRY_STREAM_WAITS];
} fry_cuda_staged_slot;

typedef enum fry_cuda_piece_state {
    FRY_CUDA_PIECE_FILLED = 0, /* way in: the bytes are in pinned memory */
    FRY_CUDA_PIECE_FETCHED,    /* a device was told to copy them there */
    FRY_CUDA_PIECE_SENT,       /* the device was told to copy them out; or only a mark was made */
    FRY_CUDA_PIECE_EMPTY,      /* it is done and only keeps its place */
} fry_cuda_piece_state;

typedef struct fry_cuda_piece {
    uint64_t sequence; /* of its operation */
    size_t at_bytes, size_bytes;
    fry_cuda_part part;
    const fry_cuda_track *source; /* for way peer: the source */
    fry_cuda_piece_state state;
    bool is_recorded; /* an event is behind what was last issued for it */
    bool is_last;     /* the operation's last piece, with which it fires */
} fry_cuda_piece;

/* Phase of the operation that the thread works on. */
typedef enum fry_cuda_staged_phase {
    FRY_CUDA_STAGED_NONE = 0, /* the next one was not looked at yet */
    FRY_CUDA_STAGED_HELD,   /* waits behind operations of staged streams; nothing is touched yet */
    FRY_CUDA_STAGED_MOVING, /* its pieces are being made */
    FRY_CUDA_STAGED_ENDING, /* no more pieces: done, skipped or failed */
} fry_cuda_staged_phase;

struct fry_cuda_staged {
    /* The producer's line. */
    fry_stream stream;
    fry_cuda_device *device;
    fry_cuda_way way;

    uint64_t flushed __attribute__((aligned(FRY_CACHE_LINE))); /* stored by the producer only */
    uint64_t fired __attribute__((aligned(FRY_CACHE_LINE)));   /* stored by the thread, as: */
    uint64_t failures; /* atomic; fired operations that failed */

    /* The thread's. */
    fry_cuda_track *track;                     /* its own; NULL until the first copy, as the ring */
    fry_cuda_track *sources[FRY_CUDA_SOURCES]; /* of other devices */
    size_t ring_bytes;                         /* the ring's intended size */
    fry_cuda_pinned pinned;                    /* the ring's memory */
    fry_cuda_ring ring;
    uint32_t made, sent, freed; /* numbers of pieces in all: made >= sent >= freed */
    fry_cuda_staged_phase phase;
    uint64_t current; /* the newest operation looked at */
    size_t made_bytes;
    uint32_t wait_index;    /* into `waits`: earlier ones have been handled */
    bool is_source_awaited; /* its source may still be written before that */
    bool waits_on_host;     /* the thread waits for events itself; none are left to the stream */
    bool is_gate_open;      /* the thread has nothing left to wait for */
    bool has_unmarked_wait; /* its stream waits, and no event is behind that wait yet */
    bool is_tainted;        /* a lost device may still write to the ring */
    bool is_dead;           /* the device is lost: nothing is touched any more */
    bool is_watching;       /* something must be looked at again after a while */
    fry_cuda_piece pieces[FRY_CUDA_PIECES];

    fry_cuda_staged_slot slots[FRY_STREAM_DEPTH];
};

/* The last fired operation. Acquire: all of these are done, on the host too. Any thread. */
static inline uint64_t fry_cuda_staged_fired(const fry_cuda_staged *staged)
{
    return fry_load_acquire(&staged->fired);
}

static inline fry_cuda_staged *fry_cuda_staged_of(const fry_stream *stream)
{
    return (fry_cuda_staged *)(uintptr_t)stream;
}

/*
 * Does what can be done now, but at most a few MiB of copying on the host. True: something was
 * done; call it again. False: nothing can be done until something is issued or, if `is_watching`,
 * until a device has got further. The thread.
 */
bool fry_cuda_staged_step(fry_cuda_staged *staged);

/* Frees what the driver supplied, except what a lost device may still touch. The stream is idle. */
void fry_cuda_staged_close(fry_cuda_staged *staged);

#endif
