/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine: who owns what, and who may touch it.
 *
 *   with the baton   graph, hazards, lanes, deadlines, backlog, ready, failing, calls
 *   the loop's role  due callbacks, trace cursors, timer, requests (one thread at a time)
 *   lock-free        inbox, requests, fired (stacks), pools, references
 */
#ifndef FRY_ENGINE_ENGINE_H
#define FRY_ENGINE_ENGINE_H

#include "base/baton.h"
#include "base/clock.h"
#include "base/eventcount.h"
#include "base/log.h"
#include "base/nvtx.h"
#include "base/poller.h"
#include "base/pool.h"
#include "base/trace.h"
#include "engine/entering.h"
#include "engine/look.h"
#include "engine/node.h"
#include "engine/ready_queue.h"
#include "engine/refusal.h"
#include "engine/task.h"
#include "engine/trace_writer.h"
#include "gpu/host.h"

#include <bsd/sys/tree.h>
#include <ferry/ferry.h>
#include <pthread.h>
#include <string.h>

#define FRY_HOST_DEVICES_MAX 64
#define FRY_DEVICES_MAX (FRY_HOST_DEVICES_MAX + 64) /* the host's, and those opened later */
#define FRY_TICK_BUDGET 256                         /* pieces of work a tick of the loop does */
#define FRY_STAMPS_SPARED 31 /* operations in a row that take their time of entry from another */
#define FRY_REFERENCE_BIAS ((int64_t)1 << 62)
#define FRY_LOAD_NOT_REFUSED (-1)
#define FRY_LOAD_HOPELESS (-2) /* refused with nothing ahead that could end */

/* What a thread keeps of an engine: caches of free slots and its trace ring. */
typedef struct fry_context {
    struct fry_context *next; /* all of the engine's, or idle ones */
    struct fry_context *next_idle;
    struct ferry_engine *engine;
    fry_pool_cache nodes, edges, uses, segments, readers, joins, transfers;
    fry_trace_ring *ring;      /* where its thread records; NULL: nowhere */
    fry_trace_ring *next_ring; /* a larger one it is to go on in, or the same; NULL: none */
    fry_trace_ring *past_ring; /* the one it went on from; readers may still have it */
    uint64_t ring_cursor;      /* how far the hooks have read; loop's role */
    uint64_t file_cursor;      /* how far the trace file has; its thread's */
    uint64_t file_end;         /* and how far it will, this time */
    uint64_t next_id, last_id; /* operation numbers set aside for this thread */
    uint32_t number;
} fry_context;

/* An event that a program's own stream has come to, or will. */
typedef struct fry_outside_event {
    fry_lane *lane; /* NULL: none */
    uint64_t sequence;
} fry_outside_event;

/* A stream of a device with what stands in it. Baton. */
struct fry_lane {
    fry_stream *stream;
    fry_queue issued;        /* nodes, in sequence */
    fry_ready_queue backlog; /* READY nodes that found no room in the stream; not of a parked one */
    uint32_t in_flight, depth; /* how many stand there, and may */
    bool is_busy;              /* in engine->busy */
    bool is_watched;           /* polled, busy and not lost: counted in engine->watched */
    bool is_unflushed;         /* in engine->unflushed */
    bool needs_flush;          /* something was copied since the last */
    bool is_lost;              /* its device said that it fails; `native` says how */
    uint64_t failed_until;     /* is_lost: what stands here up to this has been failed */
    uint64_t fired;            /* up to here everything has, as of the last look */
    fry_lane *next_busy, *next_unflushed;
    uint64_t *behind;          /* parked: of each that stands here, the latest outside event before
                                  it; by sequence modulo FRY_STREAM_DEPTH */
    fry_outside_event outside; /* parked, not empty: whose events it waits for, and the latest */
    const fry_lane *main;      /* and which lane's copies it takes: see park.c */
    int64_t head_since_ns;     /* polled, in_flight: when its head got there; engine's clock */
    int64_t usual_ns[FRY_LOOK_SORTS]; /* how old heads of a sort get: see look.h */
    fry_node *refused;                /* READY: the device refused it, and the loop will fail it */
    ferry_status refused_status;
    fry_native_error native; /* why */
};

/* A fry_device is what a ferry_device handle points to; the handle also knows its engine. */
struct ferry_device {
    fry_device *device;
    ferry_engine *engine;
    fry_lane *lanes; /* of its streams, by their index in the device */
    uint32_t lane_count;
    fry_lane *host_lane; /* a host's: the lane of copies to it from hosts; NULL: it is none */
    size_t lane_bytes;
};

/* What the loop is doing about being woken. */
enum fry_sleep {
    FRY_AWAKE = 0, /* will look again before it sleeps */
    FRY_ASLEEP,    /* write the eventfd */
    FRY_STOPPED,   /* there is no loop any more: who has something for it does it: late.c */
};

/* What records are made for: bits of ferry_engine.tracing. */
typedef enum fry_sink {
    FRY_SINK_FLIGHT = 1 << 0, /* the flight recorder */
    FRY_SINK_HOOKS = 1 << 1,  /* the user's hooks */
    FRY_SINK_FILE = 1 << 2,   /* the process's trace file */
    FRY_SINK_NVTX = 1 << 3,   /* an NVTX tool; has no use for rings */
} fry_sink;

struct ferry_engine {
    fry_future_owner owner; /* first: a future's owner is its engine */
    uint64_t id;            /* never used twice in a process */
    struct ferry_engine *next_alive;
    uint64_t fork_generation;
    uint32_t closing; /* refuses new operations */
    uint32_t tracing; /* fry_sink: those that are on; changed with `cold` */
    bool embedded;    /* no thread of its own: embedded or attached */
    bool has_thread;

    /* Read by submitters, written seldom. */
    fry_memory memory;
    fry_clock clock;
    fry_log log;
    int64_t spin_ns, wait_spin_ns;
    size_t inline_copy_bytes;
    uint32_t device_count; /* grows by fry_device_attach: see fry_device_count */
    uint32_t stream_count; /* of all devices; who attaches */
    ferry_device devices[FRY_DEVICES_MAX];
    fry_host *host;
    size_t flight_records, trace_records;
    size_t submit_budget; /* pieces of work a submitting thread does for the graph */
    size_t after_count_max, span_count_max; /* of an operation */
    uint32_t stream_depth; /* operations that may stand in a stream, if it takes so many */
    uint32_t max_tasks;
    ferry_executor *executor; /* where what names none runs; NULL the loop; gone with the handle */
    int64_t watchdog_ns;
    char *watchdog_path; /* NULL: it logs */

    /* The submitters' line. */
    fry_baton baton __attribute__((aligned(64)));
    fry_stack inbox; /* new nodes, and nodes something outside has happened to */

    /* With the baton. */
    fry_queue backlog __attribute__((aligned(64))); /* taken from the inbox, not looked at yet */
    fry_queue ready;
    fry_queue failing;
    fry_entering entering; /* how far the one has come that is at the head of the backlog */
    fry_ready_queue calls; /* functions to hand out, on the loop */
    fry_node *live_first, *live_last; /* operations that are not retired, in program order */
    fry_node *dump_node;              /* of either list: what the dump copies next */
    fry_node *cancel_at;              /* of live ones: where the walk of `cancelling` goes on */
    int64_t stamp_ns;                 /* the coarse clock, when somebody looked last */
    fry_node *deadlines;              /* root of the heap */
    fry_lane *busy;                   /* lanes with something in flight */
    fry_lane *unflushed;              /* lanes copied to since the baton was taken */
    fry_error *loss;      /* of the first operation that a lost device took along, or NULL */
    int64_t next_look_ns; /* until then the loop may sleep as far as polled lanes go; INT64_MAX: it
                             watches none */
    int64_t detached;     /* nodes that only users' handles keep, as far as `references` has not
                             heard of them */
    bool is_released;     /* the handle is back: it hears of each at once. See engine.c */
    int64_t load;         /* atomic, written with the baton: what the graph holds. See writable.c */
    bool starved;         /* a pool ran dry: the loop must refill it */
    bool stop_graph;      /* closing has been seen by the graph: everything is being cancelled */
    uint64_t inbox_takes; /* how often it was taken to the backlog, which was empty then */
    bool has_errands;     /* that, or lanes are unflushed: a turn's end sees to it */
    bool watchdog_wants_timer; /* what enters now and stays must have the loop set its timer */
    uint8_t stamps_left;       /* how many that enter need not look at the clock */
    uint8_t stamps_spared;     /* how many need not in a row, as things go */
    fry_node *promises;        /* promises that are not resolved; same links, same order */
    fry_node *promises_last;
    fry_link *refused_noted; /* buffers that the mark's next turn poisons */
    fry_queue cancelled; /* batches whose operations are to be cancelled; by their request_link */
    const fry_node *cancelling; /* the first of those, once it has begun */
    const fry_edge *dump_edge;  /* into dump_node: the next that the dump looks at */
    ferry_buffer *poisoned;     /* buffers that hold poison, or did */
    ferry_buffer *dump_buffer;  /* of those: what the dump copies next */
    size_t dump_offset;         /* in dump_buffer */
    int64_t watchdog_barked_ns; /* when it did last; watchdog_has_barked */
    bool watchdog_has_barked;

    /* Who sleeps. */
    uint32_t asleep __attribute__((aligned(64))); /* fry_sleep */
    uint32_t helpers;                             /* waiting threads that work on the graph */
    bool loop_wanted;     /* baton: a turn of another wanted the loop, which has had none since */
    uint32_t work_left;   /* a hint for them: a turn ended before everything was done */
    uint32_t watched;     /* likewise: polled lanes that something stands in */
    uint32_t room_wanted; /* somebody was refused and asked when to try again: see writable.c */
    fry_poller poller;

    /* For the loop. */
    fry_stack requests __attribute__((aligned(64))); /* nodes to cancel */
    fry_stack fired;                                 /* waiters whose future has resolved */
    fry_stack frees;                                 /* buffers to free on the loop */
    fry_link *frees_left;       /* taken off it, for further ticks; atomic, written with the role */
    fry_baton role;             /* being the loop */
    uint32_t joins_wanted;      /* a thread found no slot for a join: see join.h */
    uint32_t room_came;         /* there may be room for what was refused: look */
    uint32_t outside_calls;     /* threads that are at a device without the baton: see event.c */
    fry_waiter_list due_inline; /* waiters to call, oldest first, ahead of `due`; loop's role */
    fry_waiter_list due;        /* waiters to call or to post, likewise */
    uint32_t has_due;           /* there are some, for others to see */
    int64_t give_up_ns;         /* a shutdown makes progress, and its time is over then: see
                                   fry_gives_up; else FRY_NEVER_NS. The loop's role */
    fry_tasks tasks;
    uint64_t
        flight_due; /* with the baton, on the loop: the op whose failure the recorder tells of */
    pthread_t thread;

    /* Without a thread of its own: who sleeps, and on what. See embedded.c. */
    fry_poller user_poller;   /* what the user's loop watches; the loop's role */
    fry_watch poller_watch;   /* the poller is one of its descriptors */
    uintptr_t armed_by;       /* whose arms are in force: sleeps on user_poller, or is about to */
    bool user_poller_is_due;  /* there may be something to take from it; the loop's role */
    bool user_woken;          /* it was written for callbacks, and not taken since; likewise */
    uint32_t arm_wanted;      /* the user's loop sleeps, and could not get the role to arm */
    uint32_t sleepers;        /* waiting threads that sleep on the poller */
    uint32_t wake_written;    /* a hint: the poller may be readable */
    uint32_t waiter_fired;    /* the future that one of them waits for was resolved elsewhere */
    fry_baton seat;           /* the right to sleep on the poller for a waiting thread */
    fry_eventcount role_free; /* for the thread that shuts down */
    struct fry_embedded_waiter *embedded_waiters;
    struct fry_attachment *attachment; /* attached: the watchers in the user's loop */
    struct fry_members *members;       /* NULL: nobody has joined a group. Set once, released */

    /* Cold. */
    int64_t references __attribute__((aligned(64))); /* see engine.c */
    fry_pool nodes, edges, uses, segments, readers;
    fry_pool joins;                            /* see join.h */
    fry_pool transfers;                        /* what peers have of messages */
    const struct fry_lane_opener *lane_opener; /* a test's, set before it joins; NULL: UCX's */
    fry_pool reserve;                          /* nodes that stand for writes that were refused */
    fry_stack refused_buffers;                 /* barred: see refused_writes.c */
    uint32_t mark_is_pushed;                   /* the mark is in the inbox, or on its way */
    uint32_t mark_refused;         /* an operation was refused for naming a barred buffer */
    fry_node mark;                 /* stands in the inbox for them */
    fry_pool writables;            /* nodes that tell of room: see writable.c */
    fry_node *writable;            /* the promise of room that all share, or one cancelled */
    int64_t load_target;           /* atomic: what `load` must fall to for one that was refused */
    pthread_mutex_t room_lock;     /* who looks for room, and `writable` */
    ferry_engine_options options;  /* in force; without pointers to what was copied */
    pthread_mutex_t cold;          /* contexts, embedded waiters, trace hooks */
    pthread_mutex_t opening;       /* opening devices, and `backends`; no hot path takes it */
    struct fry_backends *backends; /* of modules; NULL: nobody has asked for one */
    fry_context *contexts;
    fry_context *idle_contexts;
    uint32_t context_count;
    uint64_t next_id;         /* of operations, handed out in blocks */
    fry_context role_context; /* for a loop without memory for its thread's */
    ferry_trace_hooks hooks;
    uint32_t has_hooks;
    uint64_t unrecorded;      /* records for which their thread had no ring */
    fry_trace_seat file_seat; /* its place with the trace file's thread */
    fry_nvtx *nvtx;           /* ranges of issued operations; NULL: no tool. With the baton */
    fry_baton ending;         /* being in ferry_engine_shutdown */
    fry_baton dumping;        /* being the one that dumps */
    uint32_t stopped;         /* futex: 1 when everything is quiet and the loop has ended */
    bool ended;               /* shut down to the end */
    ferry_future refused[FRY_REFUSALS]; /* what failed at submit, one a reason */
};

static inline ferry_engine *fry_engine_of(const ferry_future *future)
{
    return (ferry_engine *)future->owner;
}

/* engine.c */
extern uint64_t fry_fork_generation;
void fry_watch_forks(void); /* from now on a fork's child is one */

/* Handed to the host devices of engines made from now on; tests stop copies with it. */
extern fry_host_gate fry_test_host_gate;

/* FERRY_OK, FERRY_E_INVALID for NULL, FERRY_E_FORKED, and for `submitting` FERRY_E_SHUTDOWN. */
static inline ferry_status fry_engine_check(const ferry_engine *engine)
{
    if (fry_unlikely(engine == NULL))
        return FERRY_E_INVALID;
    if (fry_unlikely(engine->fork_generation != fry_load_relaxed(&fry_fork_generation)))
        return FERRY_E_FORKED;
    return FERRY_OK;
}

static inline ferry_status fry_engine_check_open(const ferry_engine *engine)
{
    ferry_status status = fry_engine_check(engine);
    if (fry_unlikely(status == FERRY_OK && fry_load_relaxed(&engine->closing)))
        status = FERRY_E_SHUTDOWN;
    return status;
}

/* The same as reasons, for those who give a future. */
static inline fry_refusal fry_engine_refusal(const ferry_engine *engine)
{
    if (fry_unlikely(engine == NULL))
        return FRY_REFUSED_ENGINE_NULL;
    if (fry_unlikely(engine->fork_generation != fry_load_relaxed(&fry_fork_generation)))
        return FRY_REFUSED_FORKED;
    return FRY_TAKEN;
}

static inline fry_refusal fry_engine_refusal_open(const ferry_engine *engine)
{
    fry_refusal why = fry_engine_refusal(engine);
    if (fry_unlikely(why == FRY_TAKEN && fry_load_relaxed(&engine->closing)))
        why = FRY_REFUSED_SHUTDOWN;
    return why;
}

/* How many devices there are to be seen: acquire, so all there is of them is there. Any thread. */
static inline uint32_t fry_device_count(const ferry_engine *engine)
{
    return fry_load_acquire(&engine->device_count);
}

/*
 * lane.c: gives the device an index among the engine's and each of its streams one too, hangs lanes
 * on them, and then shows the device to everybody. The engine never lets go of it. One call at a
 * time, any thread, not with the baton. FERRY_OK sets *handle_p (NULL is allowed); FERRY_E_AGAIN:
 * FRY_DEVICES_MAX are there, or 65535 streams; FERRY_E_NO_MEMORY. Then nothing has changed.
 */
ferry_status fry_device_attach(ferry_engine *engine, fry_device *device, ferry_device **handle_p);

/* Frees what was attached but not the devices, which come after. */
void fry_devices_detach(ferry_engine *engine);

/* engine.c: a device's own thread has seen something fire; arg is the engine. */
void fry_device_has_fired(void *arg);

/*
 * device.c: ends the backends of modules, when the graph is quiet. False: one was not quiet by
 * end_ns (CLOCK_MONOTONIC; INT64_MAX never comes), which was logged; it can be tried again.
 */
bool fry_backends_stop(ferry_engine *engine, int64_t end_ns);

/* And frees them, stopped before. */
void fry_backends_destroy(ferry_engine *engine);

/* Counts something that must outlive the engine handle: buffers, contexts in use. */
void fry_engine_retain(ferry_engine *engine);
void fry_engine_unretain(ferry_engine *engine, int64_t count);

/* One more thread keeps caches: the bounds must not count what is in them. */
void fry_pools_add_cache(ferry_engine *engine);

/* context.c */
void fry_contexts_forked(void);
typedef struct fry_context_slot {
    uint64_t engine_id;
    fry_context *context;
} fry_context_slot;

extern _Thread_local fry_context_slot fry_context_recent;
fry_context *fry_context_find(ferry_engine *engine);
void fry_contexts_free(ferry_engine *engine);
void fry_engine_register(ferry_engine *engine);
void fry_engine_unregister(ferry_engine *engine);

/* The calling thread's context; NULL if there is no memory for its first one. */
static inline fry_context *fry_context_get(ferry_engine *engine)
{
    if (fry_likely(fry_context_recent.engine_id == engine->id))
        return fry_context_recent.context;
    return fry_context_find(engine);
}

/*
 * task.c: where the calling thread runs callbacks and functions of an engine's, which it does with
 * that engine's role; NULL: nowhere. One may make progress for another engine inside.
 */
typedef struct fry_callback_frame {
    ferry_engine *engine;
    struct fry_callback_frame *outer;
} fry_callback_frame;

extern _Thread_local fry_callback_frame *fry_callback_frames;

static inline void fry_callbacks_begin(fry_callback_frame *frame, ferry_engine *engine)
{
    *frame = (fry_callback_frame){.engine = engine, .outer = fry_callback_frames};
    fry_callback_frames = frame;
}

static inline void fry_callbacks_end(const fry_callback_frame *frame)
{
    fry_callback_frames = frame->outer;
}

/* The calling thread is in a callback or a function that this engine's loop runs. */
static inline bool fry_is_in_callback(const ferry_engine *engine)
{
    const fry_callback_frame *frame = fry_callback_frames;
    while (fry_unlikely(frame != NULL) && frame->engine != engine)
        frame = frame->outer;
    return frame != NULL;
}

/* loop.c: the loop's work and its sleep. Wakes it if it sleeps. */
void fry_wake_now(ferry_engine *engine);

/* Makes the poller readable, whoever sleeps on it. */
void fry_wake_write(ferry_engine *engine);

/* After a full barrier that follows publishing the work; see loop_sleep.pml. Any thread, also with
 * the baton. Once the loop has stopped there is nobody to wake: see late.h. */
static inline void fry_wake(ferry_engine *engine)
{
    if (fry_unlikely(fry_load_relaxed(&engine->asleep) != FRY_AWAKE))
        fry_wake_now(engine);
}

/* One round of the loop by the holder of its role. Returns how much was done. */
size_t fry_tick(ferry_engine *engine, size_t budget, bool with_callbacks);

/* The holder of the role is about to sleep. False: there is work. */
bool fry_arm(ferry_engine *engine);

/* With the baton: whether the loop would have something to do, or to watch for. */
bool fry_loop_is_needed(const ferry_engine *engine);

/* The thread is one of the engine's helpers no more, and leaves the loop a wake if it is needed. */
void fry_help_ends(ferry_engine *engine, fry_context *context);

void fry_disarm(ferry_engine *engine);

/* When the loop must look again at the latest: INT64_MAX never. */
int64_t fry_next_timer_ns(ferry_engine *engine);

/*
 * After each callback of a tick: the tick is a shutdown's whose time is over, so what is left is
 * left to another.
 */
static inline bool fry_gives_up(const ferry_engine *engine)
{
    return fry_unlikely(engine->give_up_ns != FRY_NEVER_NS) &&
           fry_clock_monotonic_ns() >= engine->give_up_ns;
}

/* When closing and everything is quiet: from now on whoever has work for the loop does it himself.
 */
bool fry_loop_try_stop(ferry_engine *engine);

/* own_thread.c. The end waits until everything is quiet; false if it was not by end_ns
 * (CLOCK_MONOTONIC; FRY_NEVER_NS), as in the ends below. */
ferry_status fry_own_thread_start(ferry_engine *engine);
bool fry_own_thread_end(ferry_engine *engine, int64_t end_ns);

/* embedded.c: the user's threads are the loop. */
ferry_status fry_embedded_open(ferry_engine *engine);
void fry_embedded_close(ferry_engine *engine);

/* Makes progress until everything is quiet; `is_look`: as far as it goes without waiting. */
bool fry_embedded_end(ferry_engine *engine, int64_t end_ns, bool is_look);

/* The waiting thread is the loop while it waits. */
ferry_status fry_embedded_wait(ferry_engine *engine, ferry_future *future, int64_t timeout_ns);

/*
 * The role for a moment, for a thread that is no loop; after the stop in any mode, before it where
 * there is no thread that has it for good. False: another has it. Return gives it back, and sees to
 * those who sleep.
 */
bool fry_role_borrow(ferry_engine *engine);
void fry_role_return(ferry_engine *engine);

/* ferry_engine.armed_by: a word of the one thread's, or one of these. */
#define FRY_NOBODY_ARMED 0
#define FRY_SEVERAL_ARMED 1

/* A round of the user's loop: how much was done, or a negative status. `sleeper` is who arms, as in
 * armed_by: what it armed is over. */
int64_t fry_embedded_progress(ferry_engine *engine, size_t budget, uintptr_t sleeper);

/* FERRY_OK: the user's loop may sleep on user_poller; FERRY_E_BUSY: there is work. */
ferry_status fry_embedded_arm(ferry_engine *engine, uintptr_t sleeper);

/* attach.c: the user's loop is libev's. *why_p says what is wrong if it is not FERRY_OK. */
ferry_status fry_attach(ferry_engine *engine, struct ev_loop *loop, const char **why_p);

/* Takes the watchers out of the user's loop; false if its thread did not come by in time. */
bool fry_detach(ferry_engine *engine, int64_t end_ns);
void fry_attachment_free(ferry_engine *engine);

/* task.c: functions. */
void fry_hand_out_calls(ferry_engine *engine, fry_link *calls);

/* waiter.c: callbacks. As ferry_future_on_ready, on the loop, of a waiter that is new and whole. */
void fry_future_listen(ferry_future *future, ferry_waiter *waiter);
size_t fry_run_callbacks(ferry_engine *engine, size_t budget);
void fry_fire_waiter(fry_future_owner *owner, ferry_waiter *waiter);

/* Any thread: some have been fired, or could be posted. */
bool fry_has_callbacks(const ferry_engine *engine);

/* Buffers that nobody uses any more are to be freed. */
static inline bool fry_has_frees(const ferry_engine *engine)
{
    return !fry_stack_is_empty(&engine->frees) || fry_load_relaxed(&engine->frees_left) != NULL;
}

/* The loop's role: some wait for their turn. */
static inline bool fry_is_due(const ferry_engine *engine)
{
    return engine->due.first != NULL || engine->due_inline.first != NULL;
}

/* Takes the waiter out of ferry's hands and calls it. */
void fry_waiter_call(ferry_waiter *waiter);

/* fn of a waiter that only brings the thread that waits in embedded mode out of its sleep. */
void fry_waiter_is_embedded(ferry_waiter *waiter, ferry_future *future, ferry_status status);

/* Whether it is a mark, NULL, or can be posted to. The other logs. */
bool fry_executor_is_whole(const ferry_executor *executor);
fry_refusal fry_executor_check(ferry_engine *engine, const ferry_executor *executor);

/* task.c: marks, never posted to. */
extern ferry_executor fry_inline_executor, fry_loop_executor;

/* Where what names this executor (NULL: none) runs: NULL is the loop. */
static inline ferry_executor *fry_executor_for(const ferry_engine *engine, ferry_executor *executor)
{
    if (executor == NULL)
        executor = fry_load_relaxed(&engine->executor);
    return executor != &fry_loop_executor ? executor : NULL;
}

/* Reads an options struct of the caller's version into ours; FERRY_E_INVALID if its size can't be.
 */
#define FRY_OPTIONS_BYTES_MAX 4096
ferry_status fry_options_read(void *options, size_t size_bytes, const void *given);

/* info.c: hands a struct to a caller whose version of it may be shorter or longer. */
ferry_status fry_struct_hand_out(void *to, const void *from, size_t size_bytes);

/* refuse.c: futures that failed at submit. */
void fry_refused_init(ferry_engine *engine);

/* Logs why, and gives it back. */
fry_refusal fry_refuse(ferry_engine *engine, fry_refusal why);

/* A reference to the static future of a reason; engine may be NULL. */
ferry_future *fry_refused(ferry_engine *engine, fry_refusal why);

/* The reason of a static future. */
fry_refusal fry_refusal_of(const ferry_future *future);

/* writable.c: room for what was refused with FERRY_E_AGAIN. */

/* There may be room; arg is the engine. Any thread, with the baton or without. */
void fry_room_has_come(void *arg);

/* After giving the baton back, where room is wanted. */
void fry_room_after_turn(ferry_engine *engine);

/* On the loop, without the baton: resolves the promise if there is room. Returns how many. */
size_t fry_room_look(ferry_engine *engine);

/* The engine gives its handle back. */
void fry_room_close(ferry_engine *engine);

/* observe.c: shows the hooks what was recorded. False: not all that there is by now. */
bool fry_trace_pump(ferry_engine *engine);
/* Logs the newest records, because of the operation in flight_due. The role's holder. */
void fry_flight_dump(ferry_engine *engine);
/*
 * With `cold` held: sees to a ring that is large enough for the sinks. FERRY_OK, or
 * FERRY_E_NO_MEMORY: it stays as it was.
 */
ferry_status fry_trace_ring_add(ferry_engine *engine, fry_context *context, uint32_t sinks);
void fry_trace_rings_free(fry_context *context);
/* With `cold` held. On only once every context has its ring. */
void fry_engine_set_sink(ferry_engine *engine, fry_sink sink, bool is_on);

#endif
