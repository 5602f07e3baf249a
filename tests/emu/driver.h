/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The emulated driver's inside; what it is for, catches and cannot see stands in emu.h.
 *
 * One mutex guards all bookkeeping; it is never held while bytes are copied, a kernel or a function
 * of the program's runs, or anybody waits. "With the lock" says that the caller holds it. A public
 * call begins with emu_enter (which takes it) and ends with emu_leave (which gives it back).
 *
 * Every asynchronous call makes an emu_operation and hands it to emu_enqueue, the one door into a
 * stream: there captures take it away, the queue's bound is kept, what stands in no order is
 * caught. Each stream has a thread of its own, made when the first operation comes, that runs them
 * in turn.
 */
#ifndef EMU_DRIVER_H
#define EMU_DRIVER_H

#define __CUDA_API_PUSH_VISIBILITY_DEFAULT
#include <cuda.h>

#include "tests/emu/calls.h"
#include "tests/emu/emu.h"
#include "tests/emu/ipc_file.h"
#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EMU_VERSION 13000
#define EMU_DEVICES_MOST 8
#define EMU_STREAM_DEPTH 1024 /* entries of a stream or channel before a call blocks, and... */
#define EMU_ENTRY_COPIES 26   /* ...copies of a batch for each: an H200's */
#define EMU_CHANNELS_MOST 32
#define EMU_PRIORITY_GREATEST (-5)
#define EMU_STAGED_BYTES_MOST (64 * 1024) /* a pageable source up to this is copied in the call */

typedef struct emu_device emu_device;
typedef struct emu_operation emu_operation;
typedef struct emu_record emu_record;
typedef struct emu_clock emu_clock;
typedef struct emu_allocation emu_allocation;
typedef struct emu_channel emu_channel;
typedef struct emu_import emu_import;
typedef struct emu_ipc_event emu_ipc_event;

/* ---- Objects that programs have handles of -------------------------------------------------- */

typedef enum emu_object_kind {
    EMU_OBJECT_CONTEXT,
    EMU_OBJECT_STREAM,
    EMU_OBJECT_EVENT,
    EMU_OBJECT_POOL,
    EMU_OBJECT_MODULE,
    EMU_OBJECT_FUNCTION,
    EMU_OBJECT_GRAPH,
    EMU_OBJECT_GRAPH_EXEC,
    EMU_OBJECT_KINDS,
} emu_object_kind;

/*
 * First member of each. A destroyed one stays for a while, so that its use is told from garbage;
 * its memory goes when it is neither remembered nor referred to.
 */
typedef struct emu_object {
    RB_ENTRY(emu_object) entry;
    TAILQ_ENTRY(emu_object) remembered;
    emu_object_kind kind;
    bool destroyed;
    unsigned references;
    void (*free_fn)(struct emu_object *object); /* with the lock */
} emu_object;

/* Makes one of `size_bytes`, zeroed, with one reference: the program's. With the lock. */
void *emu_object_new(emu_object_kind kind, size_t size_bytes, void (*free_fn)(emu_object *object));
/* The live one that `handle` names; NULL, caught as misuse if it was destroyed. With the lock. */
void *emu_object_find(emu_object_kind kind, const void *handle);
/* Whether it is a handle of a live one; catches nothing. With the lock. */
bool emu_object_alive(emu_object_kind kind, const void *handle);
/* The program is done with the handle. Gives back the program's reference. With the lock. */
void emu_object_destroy(void *object);
void emu_object_hold(void *object); /* with the lock */
void emu_object_drop(void *object); /* with the lock */

/* ---- Devices and contexts ------------------------------------------------------------------- */

typedef enum emu_direction {
    EMU_TO_DEVICE,
    EMU_TO_HOST,
    EMU_ON_DEVICE,
    EMU_TO_PEER,
    EMU_ON_HOST,
    EMU_DIRECTIONS,
} emu_direction;

/* The copy engines of a direction, for the timing model. */
typedef struct emu_engines {
    unsigned free;
    TAILQ_HEAD(, emu_operation) ready; /* who waits for one */
} emu_engines;

struct emu_device {
    int ordinal;
    char name[64];
    CUcontext primary; /* made at the first retain, never freed: its handle stays */
    unsigned retained; /* of the primary context */
    CUmemoryPool default_pool, pool;
    uint64_t total_bytes, used_bytes;
    uint64_t kept_bytes;    /* free, but in pools */
    _Atomic(CUresult) lost; /* CUDA_SUCCESS, or what every call gives; read while copying */
    unsigned working;       /* operations that touch memory just now */
    emu_engines engines[EMU_DIRECTIONS];
};

struct CUctx_st {
    emu_object object;
    LIST_ENTRY(CUctx_st) entry; /* emu.contexts */
    emu_device *device;
    uint64_t id;
    unsigned flags;
    bool primary;
    bool active;             /* a primary context that nobody retains is not */
    _Atomic(CUresult) error; /* sticky; read while copying */
    uint32_t peers;          /* bits of devices whose memory it was given access to */
    CUstream legacy;         /* made with the context */
    uint64_t locked_by;      /* the thread whose call waits, and all others' with it; 0: none */
    emu_channel *channels;   /* for all but copies, then as many for these; NULL: not shared */
    unsigned stream_count;   /* that were made */
    uint32_t copies_loaded;  /* bits: forms and directions that were used before */
    LIST_HEAD(, CUstream_st) streams;
};

/* ---- Streams -------------------------------------------------------------------------------- */

/* Somebody who waits for `sequence` of a stream to complete. */
typedef struct emu_waiter {
    LIST_ENTRY(emu_waiter) entry;
    uint64_t sequence;
    pthread_cond_t *wake;
    bool linked;
} emu_waiter;

struct CUstream_st {
    emu_object object;
    LIST_ENTRY(CUstream_st) entry; /* its context's, until what stands in it is done */
    bool listed;
    CUcontext context;
    uint64_t id;      /* unique in the process */
    unsigned number;  /* of its context's streams, which share channels by it */
    bool copied_last; /* its newest work is a copy */
    unsigned flags;
    int priority;
    uint64_t owner_thread; /* of a per-thread default stream, else 0 */
    bool legacy;
    bool held, hung;
    bool abandoned; /* its context is gone: what has not begun never will */
    bool has_thread;

    TAILQ_HEAD(, emu_operation) queue;
    uint64_t issued, completed; /* sequence numbers: of the newest, and up to which all are done */
    size_t entries;             /* that those between them take of the room */
    emu_operation *running;     /* the head, while its thread is at it without the lock */
    pthread_cond_t work;        /* wakes its thread */
    emu_waiter awaits;          /* its thread's, in the stream that the head waits for */
    CUstream awaited;           /* which that is */
    LIST_HEAD(, emu_waiter) waiters;
    emu_clock *clock; /* what of other streams is ordered before what is issued next */
    uint64_t random;

    void *capture; /* capture.c's; not NULL: operations are captured, not run */
};

/* The stream that a call names: NULL and the special handles mean the current context's. */
CUresult emu_stream_find(CUstream handle, CUstream *stream_p); /* with the lock */
CUresult emu_stream_create(CUcontext context, unsigned flags, int priority, CUstream *stream_p);
/* Takes the handle away; what stands in the stream still runs. With the lock. */
void emu_stream_destroy(CUstream stream);
/* Takes it out of its context's list, if it is there. With the lock. */
void emu_stream_unlist(CUstream stream);
/* Wakes the threads of all streams, or of one device's, to look at the state anew. With the lock.
 */
void emu_streams_wake(const emu_device *device);
/* The sticky error of the context or its device. With the lock. */
CUresult emu_context_error(CUcontext context);
/*
 * Around a call that waits: others wait with it, if it is to be so (FERRY_EMU_LOCKS). True: the
 * caller has it, and gives it back. Give the lock away. With the lock.
 */
bool emu_context_take(CUcontext context);
void emu_context_give(CUcontext context);
/* Waits until no other thread's call has it. */
void emu_context_pass(CUcontext context);
/* Makes `error` sticky to it: nothing of it begins any more, nor counts as pending. With the lock.
 */
void emu_context_fail(CUcontext context, CUresult error);

/* ---- Operations ----------------------------------------------------------------------------- */

/*
 * Memory an operation touches: rows of row_bytes whose beginnings are pitch_bytes apart. A plain
 * range is one row.
 */
typedef struct emu_access {
    RB_ENTRY(emu_access) entry; /* of all pending accesses, by start */
    uintptr_t start, end;       /* of the first row, of the last */
    uintptr_t most_end;         /* the greatest `end` of the subtree */
    size_t row_bytes, row_count, pitch_bytes;
    bool write;
    bool atomic; /* a write in no conflict with others of its kind */
    bool polls;  /* reads to wait for a change: in conflict with nothing, yet must be allocated */
    bool linked;
    uint32_t part; /* accesses of one operation with different parts stand in no order; 0: all do */
    emu_operation *operation;
} emu_access;

/* What has to be complete before an operation begins. */
typedef struct emu_wait {
    CUstream stream; /* a reference */
    uint64_t sequence;
    emu_record *record; /* a reference, or NULL: an order that streams imply */
} emu_wait;

typedef enum emu_operation_kind {
    EMU_OPERATION_MARK,   /* only `complete`: events, waits, releases of memory, value writes */
    EMU_OPERATION_COPY,   /* copies, memsets: takes a copy engine in the timing model */
    EMU_OPERATION_KERNEL, /* kernels */
    EMU_OPERATION_HOST,   /* functions of the program's */
    EMU_OPERATION_GRAPH,  /* a graph's nodes */
} emu_operation_kind;

struct emu_operation {
    TAILQ_ENTRY(emu_operation) entry; /* its stream's queue */
    TAILQ_ENTRY(emu_operation) ready; /* an engine's */
    TAILQ_ENTRY(emu_operation) in_channel;
    emu_channel *channel; /* that it is in, or NULL */
    bool has_begun;
    emu_operation_kind kind;
    const char *name; /* of the call, for reports */
    CUstream stream;  /* set by emu_enqueue */
    uint64_t sequence;

    /*
     * Does the work, in the stream's thread, without the lock; NULL: there is none. An error is
     * sticky to the context. It changes nothing in the operation, so a graph runs it many times.
     */
    CUresult (*run)(emu_operation *operation);
    /*
     * NULL, or called with the lock in the moment in which the operation completes: who sees what
     * it did finds the operation complete.
     */
    void (*complete)(emu_operation *operation);
    /* NULL, or frees what `data` holds, with the lock; whether it ran or never will. */
    void (*release)(emu_operation *operation);
    /*
     * outside.c's, NULL elsewhere; all with the lock: whether it may begin once nothing else keeps
     * it from that; it begins; whether it is under way, and can't go on by itself.
     */
    bool (*gate)(const emu_operation *operation);
    void (*begin)(emu_operation *operation);
    bool (*stands)(const emu_operation *operation);
    void *data; /* the operation's own, freed with it */

    emu_direction direction; /* of a copy, for the timing model */
    uint64_t size_bytes;     /* of a copy, likewise */
    size_t entries;          /* of a stream's or channel's room */

    emu_access *accesses;
    size_t access_count, access_room;
    emu_wait *waits;
    size_t wait_count, wait_room;
    CUresult fails_with; /* the script's: raised instead of running */
    bool has_engine;     /* of the timing model */
    bool is_write;       /* a number that is written, likewise */
    int64_t begun_ns;    /* likewise; else 0 */
    bool delayed;        /* has been delayed, where the seed asks for it */
};

/* Makes one with `data_bytes` of zeroed data. Any thread, the lock does not matter. */
emu_operation *emu_operation_new(emu_operation_kind kind, const char *name, size_t data_bytes);
/* Says what it touches; nothing if row_bytes or row_count is 0. */
void emu_operation_touches(emu_operation *operation, const void *start, size_t row_bytes,
                           size_t row_count, size_t pitch_bytes, bool write, uint32_t part);
/* Says that it touches what another operation does, in the same way and as its part 0. */
void emu_operation_touches_as(emu_operation *operation, const emu_access *access);
/* Frees one that was never enqueued, or is out of its stream. With the lock. */
void emu_operation_free(emu_operation *operation);

/* It begins no earlier than (stream, sequence) is complete. With the lock, before emu_enqueue. */
void emu_operation_waits(emu_operation *operation, CUstream stream, uint64_t sequence,
                         emu_record *record);

/*
 * Puts `operation` behind what stands in `stream`; takes it over, also where it fails. Gives the
 * lock away while it waits for room. With the lock. If the stream is being captured the operation
 * goes to capture.c instead.
 */
CUresult emu_enqueue(CUstream stream, emu_operation *operation);

/*
 * Waits until everything up to `sequence` of `stream` is complete, and `record`, if given, has
 * fired; gives the lock away meanwhile. Gives the sticky error that ends the wait. With the lock.
 */
CUresult emu_wait_for(CUstream stream, uint64_t sequence, const emu_record *record);
/* Whether it would not have to wait. With the lock. */
bool emu_is_complete(CUstream stream, uint64_t sequence, const emu_record *record);

/* Waits until all that stands in the context's streams now is complete. With the lock. */
CUresult emu_wait_for_context(CUcontext context);
/* The same, and others' calls that are about the context wait with it (FERRY_EMU_LOCKS). */
CUresult emu_context_drain(CUcontext context);
/* Whether a test holds what the context has to do: that ends when the test says so. */
bool emu_context_is_held(CUcontext context);

/* Whether nothing keeps the stream's head from beginning but its gate. With the lock. */
bool emu_stream_is_next(CUstream stream);

/* ---- Outside (outside.c) -------------------------------------------------------------------- */

/* Changes whenever a kernel of outside has gone on. */
uint64_t emu_outside_steps(void);
/* Whether the library outside has something to do. With the lock. */
bool emu_outside_is_busy(void);

/* Whether a kernel that is under way should give up: the device is lost, or the process ends. */
bool emu_operation_stopped(const emu_operation *operation);

/* ---- Channels (all with the lock) ----------------------------------------------------------- */

/* A context's, if streams are to share them. */
void emu_channels_new(CUcontext context);
void emu_channels_free(CUcontext context);
/* Where the operation goes that the stream is given next; NULL: its stream shares nothing. */
emu_channel *emu_channel_for(CUstream stream, const emu_operation *operation);
/* NULL: there is room; else the oldest that has to be done first. */
emu_operation *emu_channel_full(emu_channel *channel, size_t entries);
/* It has its stream. */
void emu_channel_put(emu_channel *channel, emu_operation *operation);
/* All that was put in before has begun. */
bool emu_channel_lets(const emu_operation *operation);
/* It begins, which may let others. Any operation, in a channel or not; also twice. */
void emu_channel_begin(emu_operation *operation);
/* It is done, or never will be. The same. */
void emu_channel_take_out(emu_operation *operation);

/* ---- Events --------------------------------------------------------------------------------- */

/* One recording of an event: a place in a stream. */
struct emu_record {
    unsigned references;
    CUstream stream; /* a reference */
    uint64_t sequence;
    emu_clock *clock;      /* what is ordered before that place */
    int64_t time_ns;       /* when it completed; 0: has not */
    bool never;            /* never fires */
    emu_ipc_event *shared; /* a reference, of an event between processes; else NULL */
    uint64_t recording;    /* its number there */
};

struct CUevent_st {
    emu_object object;
    LIST_ENTRY(CUevent_st) entry; /* emu.events */
    CUcontext context;
    unsigned flags;
    emu_record *record;    /* the latest, or NULL */
    bool never;            /* none of its records ever fires */
    void *capture;         /* capture.c's; not NULL: the latest record was captured */
    emu_ipc_event *shared; /* a reference, of an event between processes; else NULL */
    uint64_t recording;    /* the number there of the latest that was made here; 0: none */
};

CUevent emu_event_new(CUcontext context, unsigned flags); /* with the lock */
void emu_record_drop(emu_record *record);                 /* with the lock */
void emu_event_destroy(CUevent event);                    /* with the lock */

/* ---- Order ---------------------------------------------------------------------------------- */

/* Whether (stream, sequence) is complete, or ordered before what `after` is given next. */
bool emu_ordered(CUstream stream, uint64_t sequence, CUstream after);
/* From now on what is issued to `after` stands behind (stream, sequence) and `clock` (or NULL). */
void emu_order(CUstream after, CUstream stream, uint64_t sequence, const emu_clock *clock);
emu_clock *emu_clock_hold(emu_clock *clock); /* NULL is nothing */
void emu_clock_drop(emu_clock *clock);
/* Looks for what an operation touches without order; catches it. It has its sequence number. */
void emu_check_order(emu_operation *operation);
/* The same among its own parts alone. */
void emu_check_parts(const emu_operation *operation);
/* Whether the two must not be in no order. */
bool emu_accesses_conflict(const emu_access *a, const emu_access *b);
/* Adds what it touches to what is pending; takes it away. With the lock. */
void emu_accesses_link(emu_operation *operation);
void emu_accesses_unlink(emu_operation *operation);
/*
 * Whether a pending operation touches the range and is not ordered before what is issued to
 * `stream` next (NULL: to anything); one is put into *operation_p. With the lock.
 */
bool emu_range_pending(const void *start, size_t size_bytes, CUstream stream,
                       emu_operation **operation_p);

/* ---- Memory --------------------------------------------------------------------------------- */

typedef enum emu_memory_kind {
    EMU_MEMORY_DEVICE,
    EMU_MEMORY_PINNED,     /* cuMemHostAlloc */
    EMU_MEMORY_REGISTERED, /* cuMemHostRegister */
} emu_memory_kind;

struct emu_allocation {
    RB_ENTRY(emu_allocation) entry;
    uintptr_t start;
    size_t size_bytes;
    emu_memory_kind kind;
    CUcontext context;
    emu_device *device;
    unsigned flags;
    uint64_t id;
    CUmemoryPool pool;  /* NULL: not from one */
    CUstream stream;    /* a reference: where it was allocated in stream order, or NULL */
    uint64_t sequence;  /* its place there */
    bool freed;         /* cuMemFreeAsync was called; goes when that has run */
    emu_ipc_file file;  /* that it lies in, if other processes may open it */
    emu_import *import; /* ipc.c's; not NULL: another process's memory */
};

/* What a pointer is to the driver. */
typedef enum emu_pointer {
    EMU_POINTER_PLAIN, /* memory the driver does not know: pageable */
    EMU_POINTER_KNOWN, /* inside a live allocation */
    EMU_POINTER_FREED, /* device or pinned memory that is not allocated (any more) */
} emu_pointer;

/* The allocation that `start` is in, or NULL. With the lock. */
emu_allocation *emu_allocation_at(const void *start);
/* A live allocation that cuMemFree* may be given, else caught and NULL. With the lock. */
emu_allocation *emu_allocation_to_free(const char *name, uintptr_t start, emu_memory_kind kind);
/* Catches what is pending on memory that is freed and not ordered before `stream`'s next, if any.
 */
void emu_catch_pending(const char *name, const emu_allocation *allocation, CUstream stream);
/* cuMemFreeAsync: it no longer counts, and nothing new may touch it. With the lock. */
void emu_memory_freed(emu_allocation *allocation);
/* What the range is: KNOWN only if all of it lies in one live allocation. With the lock. */
emu_pointer emu_pointer_kind(const void *start, size_t size_bytes, emu_allocation **allocation_p);
/* Catches what an operation touches that is not allocated. True: nothing. With the lock. */
bool emu_check_allocated(const emu_operation *operation, CUstream stream, bool running);
/* How much of a device's can be had; what pools keep is not. With the lock. */
uint64_t emu_memory_unused_bytes(const emu_device *device);
/* Memory of a context's device lies in a file of its own, if there can be one. With the lock. */
CUresult emu_memory_new(emu_memory_kind kind, CUcontext context, size_t size_bytes,
                        emu_allocation **allocation_p);
/* The same on another device than the context's, and in no file. */
CUresult emu_memory_new_on(emu_memory_kind kind, CUcontext context, emu_device *device,
                           size_t size_bytes, emu_allocation **allocation_p);
/* The file of another process, as memory of that device. With the lock. */
CUresult emu_memory_map(CUcontext context, emu_device *device, size_t size_bytes, int file,
                        emu_allocation **allocation_p);
/* Whole pages of that many bytes. */
size_t emu_memory_pages_bytes(size_t size_bytes);
void emu_memory_free(emu_allocation *allocation); /* with the lock */
void emu_memory_free_all(CUcontext context);      /* with the lock */
/* The process ends: whoever touches memory of cuMemHostAlloc from now on is ended by a fault. */
void emu_memory_take_pinned(void);

struct CUmemPoolHandle_st {
    emu_object object;
    emu_device *device;
    CUmemPoolProps props;
    bool is_default;
    uint64_t threshold_bytes, used_bytes, used_high_bytes, reserved_bytes, reserved_high_bytes;
    int reuse[3];
    uint32_t access; /* bits of devices */
};

CUmemoryPool emu_pool_new(emu_device *device, const CUmemPoolProps *props); /* with the lock */
/* Counts bytes in or out of a pool. With the lock. */
void emu_pool_count(CUmemoryPool pool, uint64_t size_bytes, bool in);

/* ---- Between processes (all with the lock) -------------------------------------------------- */

/* Memory that was opened is gone. */
void emu_import_free(emu_import *import);
/* The device of what a handle names, if the context has access to it; else the error. */
CUresult emu_ipc_device(const emu_ipc_name *name, CUcontext context, emu_device **device_p);

/* What an event between processes shares; its recordings, of all processes, have numbers. */
emu_ipc_event *emu_ipc_event_new(void); /* NULL: the system has no room */
emu_ipc_event *emu_ipc_event_hold(emu_ipc_event *shared);
void emu_ipc_event_drop(emu_ipc_event *shared);
/* Nobody opens it any more. */
void emu_ipc_event_close(emu_ipc_event *shared);
/* The number of a new recording; it fires. */
uint64_t emu_ipc_event_begin(emu_ipc_event *shared);
void emu_ipc_event_end(emu_ipc_event *shared, uint64_t recording);
/* That of the latest, 0 if there was none. */
uint64_t emu_ipc_event_last(const emu_ipc_event *shared);
bool emu_ipc_event_has_fired(const emu_ipc_event *shared, uint64_t recording);
/* An operation that is over when the recording has fired. */
emu_operation *emu_ipc_event_wait(emu_ipc_event *shared, uint64_t recording);
/* Waits for the latest; gives the lock away meanwhile. */
CUresult emu_ipc_event_synchronize(CUevent event);

/* ---- Words that come late (all with the lock) ----------------------------------------------- */

/* Of words that streams write; see emu_late_words. */
void emu_words_lag(int64_t late_ns);
/* True: the word is kept, and comes later. False: it is to be written now. */
bool emu_word_is_late(CUstream stream, void *memory, uint64_t value, size_t size_bytes);
bool emu_has_late_words(void);
void emu_word_write(void *memory, uint64_t value, size_t size_bytes); /* the lock does not matter */

/* ---- The timing model ----------------------------------------------------------------------- */

/* Waits for a copy engine; gives the lock away meanwhile. False: it never will get one. */
bool emu_engine_take(emu_operation *operation);
void emu_engine_give(emu_operation *operation); /* with the lock */
/* Waits until a copy that began then would be over. Without the lock. */
void emu_engine_time(const emu_operation *operation, int64_t begun_ns);
/* The same of a mark. */
void emu_bubble_time(const emu_operation *operation, int64_t begun_ns);

/* ---- Calls, catches, state ------------------------------------------------------------------ */

typedef enum emu_call {
#define EMU_CALL(name, version, traits) EMU_CALL_##name,
    EMU_CALLS(EMU_CALL)
#undef EMU_CALL
        EMU_CALL_COUNT,
} emu_call;

/*
 * Begins a public call: takes the lock, counts, asks the script and captures, and whether cuInit
 * was called. Without success the call is over and the lock is not held.
 */
CUresult emu_enter(emu_call call);
/* The same for a call that needs a current context that is well; sets *context_p. */
CUresult emu_enter_context(emu_call call, CUcontext *context_p);
/* The same for a call that is given a stream. */
CUresult emu_enter_stream(emu_call call, CUstream handle, CUstream *stream_p);
/* The same for one that gives it work: a copy, a kernel; some context has to be current. */
CUresult emu_enter_work(emu_call call, CUstream handle, CUstream *stream_p);
/* Ends a public call: gives the lock back; returns `result`. */
CUresult emu_leave(CUresult result);
void emu_lock(void);
void emu_unlock(void);

CUcontext emu_context_current(void); /* this thread's, or NULL */
uint64_t emu_thread_number(void);    /* this thread's, from 1 */
/* The program's function runs in this thread, which must not call the driver. */
void emu_thread_in_callback(bool inside);

/* Says what was caught, and ends the process unless catches are only counted. */
void emu_catch(emu_catch_kind kind, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Memory for the emulator itself, zeroed; ends the process if there is none. */
void *emu_allocate(size_t size_bytes);
int64_t emu_now_ns(void);
/* The next number of a generator whose state must not be 0. */
uint64_t emu_random(uint64_t *state);

typedef struct emu_state {
    pthread_mutex_t mutex;
    bool initialised;
    bool forked; /* the child of a fork has no driver */
    _Atomic(bool) stopping;
    bool held;
    bool engines_held;
    bool timing;
    bool locks;             /* a call that waits holds up others' */
    int version;            /* that the driver says it is of: EMU_VERSION or older */
    bool ipc;               /* memory and events may be shared between processes */
    bool peers;             /* devices have access to each other's memory */
    bool lazy;              /* the first copy of a form and direction waits for the context */
    unsigned channel_count; /* of a context, of either sort; 0: streams share none */
    pthread_cond_t unlocked;
    uint64_t seed; /* 0: nothing is delayed */
    int device_count;
    emu_device devices[EMU_DEVICES_MOST];
    LIST_HEAD(, CUctx_st) contexts;
    LIST_HEAD(, CUevent_st) events;
    pthread_cond_t quiet; /* a device's operation has stopped working */
    uint64_t numbers;     /* the last id given to anything */
    uint64_t calls[EMU_CALL_COUNT];
    emu_counters counters;
    unsigned fail_operation_in; /* the how manyth operation from now fails; 0: none */
    CUresult fail_operation_with;
} emu_state;

extern emu_state emu;

/* The result that the script has for this call, or CUDA_SUCCESS. With the lock. */
CUresult emu_script_result(emu_call call);

/* emu_hold and emu_release, with the lock. */
void emu_hold_locked(void);
void emu_release_locked(void);
/* Reads the environment. With the lock, once. */
void emu_script_read(void);

/* ---- What module.c does (all with the lock) ------------------------------------------------- */

/* The modules of a context that goes. */
void emu_modules_unload(CUcontext context);
/* Catches the launch of a kernel whose module was unloaded. */
void emu_module_check(const emu_operation *operation);

/* ---- What capture.c does (all with the lock) ------------------------------------------------ */

/* An operation issued to a capturing stream: takes it over. */
CUresult emu_capture_operation(CUstream stream, emu_operation *operation);
/* The event is recorded on a capturing stream. */
CUresult emu_capture_record(CUstream stream, CUevent event);
/* A stream waits for an event, and at least one of them is being captured. */
CUresult emu_capture_wait(CUstream stream, CUevent event);
/* A potentially unsafe call: CUDA_SUCCESS, or what it gives; invalidates captures that forbid it.
 */
CUresult emu_capture_forbids(emu_call call);
/* A query or synchronisation of a capturing stream or a captured event: what it gives. */
CUresult emu_capture_touch_stream(CUstream stream);
CUresult emu_capture_touch_event(CUevent event);
/* Use of the legacy stream of a context: CUDA_SUCCESS, or what it gives. */
CUresult emu_capture_touch_legacy(CUcontext context);
/* The handle is destroyed, or the event recorded anew outside of a capture. */
void emu_capture_forget_stream(CUstream stream);
void emu_capture_forget_event(CUevent event);

#endif
