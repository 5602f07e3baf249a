/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams that the driver works off: a device's own, parked ones, and records of users' streams.
 * How the end of their operations is found is argued atop cuda_stream.c.
 */
#ifndef FRY_GPU_CUDA_STREAM_H
#define FRY_GPU_CUDA_STREAM_H

#include "base/baton.h"
#include "gpu/cuda_bounce.h"
#include "gpu/cuda_driver.h"

typedef struct fry_cuda_device fry_cuda_device;
typedef struct fry_cuda_stream fry_cuda_stream;

/*
 * The driver keeps so many entries of a stream, no document says how many; who adds one more waits
 * inside the call, with the baton, and whoever else calls the driver may wait with him. So entries
 * are counted, and a stream is full while there might not be room for one more operation of the
 * worst sort: a mark, all waits, a copy row by row, a mark. Programs see some 1024 kernels stand in
 * a stream before a launch waits. Half of it: something that is counted as one entry here may be
 * more to the driver (a copy that changes over to another engine), and where there are more streams
 * than hardware queues (CUDA_DEVICE_MAX_CONNECTIONS) two may share one. What waits for the program
 * stands there for as long as that likes: so all parked streams of a device have one stream's room
 * together, and so have all its bridges.
 */
#define FRY_CUDA_QUEUE_ENTRIES 512
#define FRY_CUDA_ROWS_SINGLY                                                                       \
    64 /* rows that go one by one where the driver refuses them together                           \
        */
#define FRY_CUDA_MARK_ENTRIES 2
#define FRY_CUDA_OPERATION_ENTRIES                                                                 \
    (FRY_STREAM_WAITS - 1 + FRY_CUDA_ROWS_SINGLY + 2 * FRY_CUDA_MARK_ENTRIES)

/* Copies handed over in one call, and what is small enough for one. */
#define FRY_CUDA_BATCH_COUNT 256
#define FRY_CUDA_BATCHED_BYTES ((size_t)64 << 10)

/*
 * Past so many bytes in a turn there is a mark at once, so that their end is not found late; and
 * past so many of copies that are kept back, which begin only then.
 */
#define FRY_CUDA_MARKED_BYTES ((size_t)256 << 10)
#define FRY_CUDA_TOGETHER_BYTES ((size_t)1 << 20)

/*
 * Operations that may stand in a main stream. Many small copies are one entry in the driver's
 * queue, so its bound is far; and where the loop sleeps between two looks there has to be enough to
 * do.
 */
#define FRY_CUDA_MAIN_DEPTH FRY_STREAM_DEPTH_MOST

#define FRY_CUDA_MARKS 512 /* that may hold events: a power of two, more than have room at once */

/* Events of a stream that are made as it is; the others when they are first needed. */
#define FRY_CUDA_EVENTS_AHEAD 16

#define FRY_CUDA_WAITED 16 /* streams of which one remembers how far it has waited for them */

typedef struct fry_cuda_slot {
    uint64_t mark;    /* atomic; the operation whose mark covers this one; 0: there is none yet */
    CUevent event;    /* atomic; this operation's own mark, kept for those after it */
    const char *call; /* that refused it */
    CUresult result;  /* with this; CUDA_SUCCESS: issued */
    uint32_t entries; /* in the driver's queue */
    uint32_t bounced_bytes; /* taken from the stream's bounce */
} fry_cuda_slot;

/* Plain copies that are issued but have yet to be handed to the driver: the newest ones. */
typedef struct fry_cuda_batch {
    size_t count;
    CUdeviceptr dst[FRY_CUDA_BATCH_COUNT], src[FRY_CUDA_BATCH_COUNT];
    size_t size_bytes[FRY_CUDA_BATCH_COUNT];
} fry_cuda_batch;

/*
 * The marks that hold an event each, oldest first; a slot that has gone to another operation since
 * is found out. Who makes a mark takes the event of one that has fired, so few are made.
 */
typedef struct fry_cuda_marks {
    uint32_t first, count;
    uint64_t sequences[FRY_CUDA_MARKS];
} fry_cuda_marks;

struct fry_cuda_stream {
    fry_stream stream; /* first */
    CUstream native;   /* NULL: the user's, who is asked of no more once the event is recorded */
    fry_cuda_slot *slots;
    fry_cuda_batch *batch;    /* NULL: nothing is copied on it */
    fry_cuda_marks *marks;    /* baton; likewise */
    uint32_t *word;           /* where the stream writes the low half of a mark's number */
    CUdeviceptr word_address; /* the same for the GPU */
    uint32_t is_worded;       /* atomic; it does. Never on a stream of the program's */

    uint64_t marked; /* atomic; up to here marks cover what was issued, and others can wait */
    uint64_t worded; /* atomic; the newest mark whose word was or will be written */

    /* Baton; `fired` is read by others. */
    uint64_t fired __attribute__((aligned(64))); /* atomic */
    uint32_t entries;                            /* in the driver's queue */
    size_t unmarked_bytes;
    int64_t query_ns; /* when the driver is asked about the head; 0: the head is new */
    int64_t query_interval_ns;
    fry_cuda_bounce bounce;
    uint32_t words_missed; /* events in a row that fired, and no word came */
    struct {
        const fry_stream *stream;
        uint64_t sequence, by; /* waited for, by this one of its own */
    } waited[FRY_CUDA_WAITED];
    uint32_t waited_next;
    uint32_t untaught; /* which of these are for the program's streams, that have yet to learn */
    const fry_cuda_device *severed_by; /* atomic; it waits for ever for that one, which is lost */

    /* Baton; of an outside stream of the program's: up to here streams of ferry's wait for it, and
     * up to here one of these was seen to go on. */
    uint64_t relied, learned;
    int64_t ask_ns; /* when it may be asked about its head; 0: the head is new */
    uint32_t unasked_looks;

    /* cuda_event.c: outside streams. */
    fry_baton claim __attribute__((aligned(64))); /* who records has it, until event_entered */
    uint64_t key;                                 /* atomic; whose events stand here */
    bool has_stray_wait; /* a bridge, with the claim: it waits for something, and no mark came of it
                          */
};

static inline fry_cuda_stream *fry_cuda_stream_of(const fry_stream *stream)
{
    return (fry_cuda_stream *)(uintptr_t)stream;
}

static inline fry_cuda_slot *fry_cuda_slot_of(const fry_cuda_stream *stream, uint64_t sequence)
{
    return &stream->slots[sequence & (fry_stream_depth(&stream->stream) - 1)];
}

/*
 * The mark that covers an operation up to `marked`; 0: it has fired. Without the baton the slot may
 * have gone to a later operation, and that only once this one was seen to fire: a smaller number
 * says so, and a greater one is of a mark behind it, for which it is enough to wait. No circle of
 * waits can come of waiting for more: whatever that mark stands behind was recorded before.
 * Acquire, pairs with where `mark` is stored: the event is made and recorded; what has fired is
 * there.
 */
static inline uint64_t fry_cuda_mark_of(const fry_cuda_stream *stream, uint64_t sequence)
{
    uint64_t mark = fry_load_acquire(&fry_cuda_slot_of(stream, sequence)->mark);
    return mark < sequence ? 0 : mark;
}

/* The event of a mark; NULL: the mark has fired since, or a later one has taken its event over. */
static inline CUevent fry_cuda_event_of(const fry_cuda_stream *stream, uint64_t mark)
{
    return fry_load_acquire(&fry_cuda_slot_of(stream, mark)->event);
}

/* Whether the stream is one of these; else it is a staged one, of which its own thread tells. */
static inline bool fry_cuda_stream_is_native(const fry_stream *stream)
{
    return stream->is_polled;
}

/* Whether events on a stream of the program's stand there; on a bridge they stand on ferry's own.
 */
bool fry_cuda_stream_is_programs(const fry_cuda_stream *stream);

/*
 * Makes the stream ready: zeroed before, of a device whose words are there. The first operation is
 * 1; another number can be given, so that a test sees the words' numbers begin anew.
 */
void fry_cuda_stream_init(fry_cuda_stream *stream, fry_cuda_device *device, fry_stream_kind kind);
static inline void fry_cuda_stream_start_at(fry_cuda_stream *stream, uint64_t first)
{
    stream->stream.issued = stream->fired = stream->marked = stream->worded = first - 1;
    if (stream->word != NULL)
        *stream->word = (uint32_t)(first - 1);
}

/*
 * Its slots, and of one that copies what a batch takes: FERRY_OK or FERRY_E_NO_MEMORY. A stream of
 * its own in the driver; so many of its events: in a scope. What is there already stays.
 */
ferry_status fry_cuda_stream_make(fry_cuda_stream *stream, bool is_copying);
CUresult fry_cuda_stream_make_native(fry_cuda_stream *stream, int priority);
CUresult fry_cuda_stream_make_events(fry_cuda_stream *stream, size_t count);

/* Only once it is idle. In a scope, if the context lives. */
void fry_cuda_stream_unmake(fry_cuda_stream *stream);

/* fry_device_ops.copy, .flush, .fired, .outcome */
ferry_status fry_cuda_stream_copy(fry_stream *stream, const fry_copy *copy, const fry_event *waits,
                                  size_t wait_count, uint64_t *sequence_p, fry_native_error *error);
void fry_cuda_stream_flush(fry_stream *stream);
uint64_t fry_cuda_stream_fired(fry_stream *stream, ferry_status *status_p, fry_native_error *error);
ferry_status fry_cuda_stream_outcome(fry_stream *stream, uint64_t sequence,
                                     fry_native_error *error);

/*
 * Makes `native` (a stream of the same context as `scope`'s, of any role) wait for an event of one
 * of these streams, unless it has fired. True: it will, or need not. With the baton, or for an
 * event up to `marked`. False: *result_p is what the driver answered.
 */
bool fry_cuda_stream_wait_for(CUstream native, const fry_event *event, CUresult *result_p);

/* Up to where it has fired as far as can be seen without the baton and without a call. */
uint64_t fry_cuda_stream_peek(const fry_cuda_stream *stream);

/* The words of all marks are written; by who may write `issued`, or when nobody does. */
bool fry_cuda_stream_has_words(const fry_cuda_stream *stream);

/* Nothing of it is on its way, its words included. */
bool fry_cuda_stream_is_idle(fry_cuda_stream *stream);

#endif
