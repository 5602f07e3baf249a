/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Staged streams: copies that no device can make by itself, with pageable memory on one side or
 * between two devices that don't reach each other. The staging thread (gpu/cuda_staging.h) works
 * them off, each copy in pieces through pinned memory: while the device is at some of them the CPU
 * fills or empties others. Each device has three such streams, one a way.
 *
 * Ownership. As with a host's stream: the slot of sequence number s is s % FRY_STREAM_DEPTH; the
 * producer, who holds the baton, writes it while s > flushed, and then only if
 * s - FRY_STREAM_DEPTH has fired, as it has seen itself. The store to `flushed` hands it to the
 * thread (release), the store to `fired` hands it back (release). The one word that both touch in
 * between is skip_sequence. All else is the thread's alone.
 */
#ifndef FRY_GPU_CUDA_STAGED_H
#define FRY_GPU_CUDA_STAGED_H

#include "base/lf.h"
#include "gpu/cuda_ring.h"
#include "gpu/cuda_track.h"

/* Pinned memory that a stream settles for if it can't have more. */
#define FRY_CUDA_RING_LEAST_BYTES ((size_t)64 << 10)

/* Devices that one copies from without reaching them; one more finds no room. */
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
    uint64_t skip_sequence; /* atomic. The operation to skip: a number, not a flag, so that it means
                               nothing to those that stand here before and after */
    int64_t begun_ns;       /* written by the thread before it fires, as the next three */
    ferry_status status;    /* how it has ended */
    CUresult code;          /* of a failure, with the call that gave it; static */
    const char *call;
    uint32_t wait_count;
    fry_event waits[FRY_STREAM_WAITS];
} fry_cuda_staged_slot;

typedef enum fry_cuda_piece_state {
    FRY_CUDA_PIECE_FILLED = 0, /* way in: the bytes are in pinned memory */
    FRY_CUDA_PIECE_FETCHED,    /* a device has been told to bring them there */
    FRY_CUDA_PIECE_SENT,       /* the device has been told to take them; or nothing but a mark */
    FRY_CUDA_PIECE_EMPTY,      /* it is over: it only keeps its place */
} fry_cuda_piece_state;

typedef struct fry_cuda_piece {
    uint64_t sequence; /* of its operation */
    size_t at_bytes, size_bytes;
    fry_cuda_part part;
    const fry_cuda_track *source; /* way peer: where it comes from */
    fry_cuda_piece_state state;
    bool is_recorded; /* an event stands behind what was last issued for it */
    bool is_last;     /* the operation fires with it */
} fry_cuda_piece;

/* What the thread does for the operation it is at. */
typedef enum fry_cuda_staged_phase {
    FRY_CUDA_STAGED_NONE = 0, /* the next one is not looked at yet */
    FRY_CUDA_STAGED_HELD,     /* behind operations of staged streams; nothing is touched yet */
    FRY_CUDA_STAGED_MOVING,   /* pieces are made of it */
    FRY_CUDA_STAGED_ENDING,   /* no more of them: done, skipped or failed */
} fry_cuda_staged_phase;

struct fry_cuda_staged {
    /* The producer's line. */
    fry_stream stream;
    fry_cuda_device *device;
    fry_cuda_way way;

    uint64_t flushed __attribute__((aligned(FRY_CACHE_LINE))); /* stored by the producer only */
    uint64_t fired __attribute__((aligned(FRY_CACHE_LINE)));   /* stored by the thread, as: */
    uint64_t failures; /* atomic; fired operations whose outcome was not FERRY_OK */

    /* The thread's. */
    fry_cuda_track *track;                     /* its own; NULL until the first copy, as the ring */
    fry_cuda_track *sources[FRY_CUDA_SOURCES]; /* of other devices */
    size_t ring_bytes;                         /* what the ring is to have */
    fry_cuda_pinned pinned;                    /* that the ring is in */
    fry_cuda_ring ring;
    uint32_t made, sent, freed; /* pieces, counted for ever: made >= sent >= freed */
    fry_cuda_staged_phase phase;
    uint64_t current; /* the newest operation looked at */
    size_t made_bytes;
    uint32_t wait_index;    /* of `waits`: those before are behind it */
    bool is_source_awaited; /* its source may be written until then */
    bool waits_on_host;     /* it waits for events itself, none are left to its stream */
    bool is_gate_open;      /* nothing it must wait for itself is left */
    bool has_unmarked_wait; /* its stream waits, and no event stands behind that yet */
    bool is_tainted;        /* a lost device may yet write to the ring */
    bool is_dead;           /* the device is lost: nothing is touched any more */
    bool is_watching;       /* something is to be looked at again in a while */
    fry_cuda_piece pieces[FRY_CUDA_PIECES];

    fry_cuda_staged_slot slots[FRY_STREAM_DEPTH];
};

/* Acquire: what has fired is done, on the host too. Any thread. */
static inline uint64_t fry_cuda_staged_fired(const fry_cuda_staged *staged)
{
    return fry_load_acquire(&staged->fired);
}

static inline fry_cuda_staged *fry_cuda_staged_of(const fry_stream *stream)
{
    return (fry_cuda_staged *)(uintptr_t)stream;
}

/*
 * Does what can be done now, but no more than a few MiB of copying on the host. True: something
 * was; look again. False: there is nothing to do until something is issued, or, if `is_watching`,
 * until a device is further. The thread.
 */
bool fry_cuda_staged_step(fry_cuda_staged *staged);

/* Gives back what the driver was asked for; what a lost device may yet touch is left. It is idle.
 */
void fry_cuda_staged_close(fry_cuda_staged *staged);

#endif
