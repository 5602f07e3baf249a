/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams that the driver works off: a device's own, parked ones, and those that stand for users'
 * streams. firing.h says how far they are.
 */
#ifndef FRY_GPU_CUDA_STREAM_H
#define FRY_GPU_CUDA_STREAM_H

#include "base/baton.h"
#include "gpu/cuda/bounce.h"
#include "gpu/cuda/driver.h"

typedef struct fry_cuda_device fry_cuda_device;
typedef struct fry_cuda_stream fry_cuda_stream;

/*
 * The driver keeps a limited number of entries for a stream; no document says how many. A thread
 * that adds one too many blocks inside the call, with the baton, and other threads that create or
 * destroy an event block too. So entries are counted, and a stream is full while there might not be
 * room for one more operation of the worst sort: a mark, all waits, a copy row by row, a mark. An
 * H200 takes 1021 copies or words in a stream before a call blocks, and any number of events and
 * waits; a batch is an entry for each 26 of its copies (bench/results). This is half of that: with
 * more streams than hardware queues (CUDA_DEVICE_MAX_CONNECTIONS) two may share one.
 * Operations that wait for the program stay in a stream as long as the program likes, so all parked
 * streams of a device together have the room of one stream, and so have its bridges.
 */
#define FRY_CUDA_QUEUE_ENTRIES 512
#define FRY_CUDA_ROWS_SINGLY 64 /* rows copied one by one if the driver refuses them together */
#define FRY_CUDA_MARK_ENTRIES 2
#define FRY_CUDA_OPERATION_ENTRIES                                                                 \
    (FRY_STREAM_WAITS - 1 + FRY_CUDA_ROWS_SINGLY + 2 * FRY_CUDA_MARK_ENTRIES)

/* Copies in one call, and the largest size of such a copy; as entries of the driver's queue. */
#define FRY_CUDA_BATCH_COUNT 256
#define FRY_CUDA_BATCH_COPIES_AN_ENTRY 25
#define FRY_CUDA_BATCHED_BYTES ((size_t)64 << 10)

/*
 * A mark behind so many bytes has its word written by the teller, if there is one. And the one of
 * the two that has not written for so many operations writes the next word (stream.c).
 */
#define FRY_CUDA_TOLD_BYTES ((size_t)256 << 10)
#define FRY_CUDA_ASKED_BYTES ((size_t)8 << 20) /* within a GPU: behind so many there is no word */
#define FRY_CUDA_WORD_AGE_MOST ((uint64_t)1 << 30)

/*
 * After this many bytes in a turn a mark is made at once, so that their end is not found late; and
 * after this many bytes of copies that are kept back, because these begin only then.
 */
#define FRY_CUDA_MARKED_BYTES ((size_t)256 << 10)
#define FRY_CUDA_TOGETHER_BYTES ((size_t)1 << 20)

/*
 * Operations in a main stream at most. Many small copies are one entry in the driver's queue, so
 * its bound is far; and there must be enough work while the loop sleeps between two looks.
 */
#define FRY_CUDA_MAIN_DEPTH FRY_STREAM_DEPTH_MOST

#define FRY_CUDA_MARKS 512 /* with events: a power of two, more than there is room for */

/* Events of a stream that are made with it; further ones are made when first needed. */
#define FRY_CUDA_EVENTS_AHEAD 16

#define FRY_CUDA_WAITED 16 /* streams for which a stream remembers how far it has waited */

/* Who tells that a mark has fired. */
typedef enum fry_cuda_told_by {
    FRY_CUDA_TOLD_BY_STREAM = 0, /* the stream writes the mark's word */
    FRY_CUDA_TOLD_BY_TELLER,     /* the teller does */
    FRY_CUDA_TOLD_BY_EVENT,      /* there is no word: the driver is asked about the event */
} fry_cuda_told_by;

typedef struct fry_cuda_slot {
    uint64_t mark;    /* atomic; the operation whose mark covers this one; 0: none yet */
    CUevent event;    /* atomic; the event of this operation's own mark, kept for later ones */
    const char *call; /* the call that refused it */
    CUresult result;  /* the call's answer; CUDA_SUCCESS: issued */
    uint32_t told_by; /* fry_cuda_told_by, of a mark */
    uint32_t entries; /* in the driver's queue */
    uint32_t bounced_bytes; /* its bytes in the stream's bounce ring */
} fry_cuda_slot;

/* Plain copies that are issued but not yet given to the driver: the newest ones. */
typedef struct fry_cuda_batch {
    size_t count;
    CUdeviceptr dst[FRY_CUDA_BATCH_COUNT], src[FRY_CUDA_BATCH_COUNT];
    size_t size_bytes[FRY_CUDA_BATCH_COUNT];
} fry_cuda_batch;

/*
 * The marks that hold an event each, oldest first; a slot that another operation has taken since is
 * detected. A new mark takes the event of one that has fired, so few events are made.
 */
typedef struct fry_cuda_marks {
    uint32_t first, count;
    uint64_t sequences[FRY_CUDA_MARKS];
} fry_cuda_marks;

struct fry_cuda_stream {
    fry_stream stream; /* first */
    CUstream native;   /* NULL: a user's stream, which is not used after the event was recorded */
    fry_cuda_slot *slots;
    fry_cuda_batch *batch;    /* NULL: nothing is copied on it */
    fry_cuda_marks *marks;    /* baton; likewise */
    CUstream teller;          /* NULL, or writes the words of marks behind many bytes */
    uint32_t *words;          /* two: the stream writes the low half of a mark's number into the
                                 first, the teller into the second */
    CUdeviceptr word_address; /* the first for the GPU */
    uint32_t is_worded;       /* atomic; the stream writes words. Never on a program's stream */
    bool is_telling;          /* baton; the teller is used */
    bool is_within;           /* it copies within the GPU, or to another */

    uint64_t marked; /* atomic; marks cover operations up to here, and others can wait for these */
    uint64_t worded; /* atomic; the newest mark whose word the stream has written or will write */
    uint64_t told;   /* atomic; the same of the teller */

    /* Baton; `fired` is read by others. */
    uint64_t fired __attribute__((aligned(64))); /* atomic */
    uint32_t entries;                            /* in the driver's queue */
    size_t unmarked_bytes;
    int64_t query_ns; /* when the driver is queried about the head; 0: the head is new */
    int64_t query_interval_ns;
    fry_cuda_bounce bounce;
    uint32_t words_missed; /* events in a row that fired without a word */
    uint32_t told_missed;  /* the same of the teller's words */
    struct {
        const fry_stream *stream;
        uint64_t sequence, by; /* waited for, by this operation of its own */
    } waited[FRY_CUDA_WAITED];
    uint32_t waited_next;
    uint32_t untaught; /* which of these are for the program's streams and not yet learned */
    const fry_cuda_device
        *severed_by; /* atomic; the lost device for which the stream waits for ever */

    /*
     * Baton; for an outside stream of the program: up to here streams of ferry's wait for it, and
     * up to here one of them was seen to go on.
     */
    uint64_t relied, learned;

    /* Baton; for marks that events alone tell of. */
    int64_t ask_ns; /* when the driver may be queried about the head; 0: the head is new */
    uint32_t unasked_looks;

    /* event.c: outside streams. */
    fry_baton claim
        __attribute__((aligned(64))); /* the recording thread holds it until event_entered */
    uint64_t key;                     /* atomic; the stream whose events are here */
    bool has_stray_wait; /* for a bridge, with the claim: it waits for something, and no mark was
                            made of that */
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
 * The mark that covers an operation up to `marked`; 0: the operation has fired. Without the baton
 * the slot may have gone to a later operation, but only after this one was seen to fire: a smaller
 * number shows that, and a greater number is a mark behind it, for which it is enough to wait.
 * Waiting for more can't make a circle of waits: everything before that mark was recorded earlier.
 * Acquire, pairs with the store of `mark`: the event is made and recorded; what has fired is there.
 */
static inline uint64_t fry_cuda_mark_of(const fry_cuda_stream *stream, uint64_t sequence)
{
    uint64_t mark = fry_load_acquire(&fry_cuda_slot_of(stream, sequence)->mark);
    return mark < sequence ? 0 : mark;
}

/* The event of a mark; NULL: the mark has fired since, or a later mark has taken over its event. */
static inline CUevent fry_cuda_event_of(const fry_cuda_stream *stream, uint64_t mark)
{
    return fry_load_acquire(&fry_cuda_slot_of(stream, mark)->event);
}

/* Whether the stream is one of these. Otherwise it is staged, and its own thread reports for it. */
static inline bool fry_cuda_stream_is_native(const fry_stream *stream)
{
    return stream->is_polled;
}

/* Whether its events are recorded on a program's stream; a bridge's are recorded on ferry's own. */
bool fry_cuda_stream_is_programs(const fry_cuda_stream *stream);

/*
 * Initialises a zeroed stream of a device whose words exist. The first operation is 1; a test can
 * give another number, so that the words' numbers wrap.
 */
void fry_cuda_stream_init(fry_cuda_stream *stream, fry_cuda_device *device, fry_stream_kind kind);
static inline void fry_cuda_stream_start_at(fry_cuda_stream *stream, uint64_t first)
{
    stream->stream.issued = stream->fired = stream->marked = first - 1;
    stream->worded = stream->told = first - 1;
    if (stream->words != NULL)
        stream->words[0] = stream->words[1] = (uint32_t)(first - 1);
}

/*
 * Makes the stream's slots and, if it copies, its batch: FERRY_OK or FERRY_E_NO_MEMORY. The
 * functions behind it make its own stream in the driver, with a teller where it has one, and some
 * of its events: in a scope. What exists already stays.
 */
ferry_status fry_cuda_stream_make(fry_cuda_stream *stream, bool is_copying);
CUresult fry_cuda_stream_make_native(fry_cuda_stream *stream, int priority);
CUresult fry_cuda_stream_make_events(fry_cuda_stream *stream, size_t count);

/* Frees it all; the stream is idle. In a scope, if the context lives. */
void fry_cuda_stream_unmake(fry_cuda_stream *stream);

/* fry_device_ops.copy, .flush, .outcome */
ferry_status fry_cuda_stream_copy(fry_stream *stream, const fry_copy *copy, const fry_event *waits,
                                  size_t wait_count, uint64_t *sequence_p, fry_fault *fault);
void fry_cuda_stream_flush(fry_stream *stream);
ferry_status fry_cuda_stream_outcome(fry_stream *stream, uint64_t sequence, fry_fault *fault);

/*
 * Makes `native` (a stream of the same context as `scope`'s, of any role) wait for an event of one
 * of these streams, unless it has fired. True: it will wait, or need not. False: *result_p is the
 * driver's answer. With the baton, or for an event up to `marked`.
 */
bool fry_cuda_stream_wait_for(CUstream native, const fry_event *event, CUresult *result_p);

/* Counts entries in the driver's queue, more or fewer. All parked streams share one room. */
void fry_cuda_stream_add_entries(fry_cuda_stream *stream, uint32_t more);

#endif
