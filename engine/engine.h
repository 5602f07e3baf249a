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
#include "engine/context.h"
#include "engine/entering.h"
#include "engine/lane.h"
#include "engine/node.h"
#include "engine/ready_queue.h"
#include "engine/refusal.h"
#include "engine/task_pool.h"
#include "engine/trace_writer.h"
#include "engine/waiter_list.h"
#include "gpu/host.h"

#include <ferry/ferry.h>
#include <pthread.h>

#define FRY_HOST_DEVICES_MAX 64
#define FRY_DEVICES_MAX (FRY_HOST_DEVICES_MAX + 64) /* the host's, and those opened later */
#define FRY_TICK_BUDGET 256                         /* pieces of work a tick of the loop does */
#define FRY_STAMPS_SPARED 31 /* operations in a row that take their time of entry from another */
#define FRY_REFERENCE_BIAS ((int64_t)1 << 62)
#define FRY_LOAD_NOT_REFUSED (-1)
#define FRY_LOAD_HOPELESS (-2) /* refused with nothing ahead that could end */

/* What the loop is doing about being woken. */
enum fry_sleep {
    FRY_AWAKE = 0, /* will look again before it sleeps */
    FRY_ASLEEP,    /* write the eventfd */
    FRY_STOPPED,   /* there is no loop any more: who has something for it does it: late.c */
};

struct ferry_engine {
    fry_future_owner owner; /* first: a future's owner is its engine */
    uint64_t id;            /* never used twice in a process */
    struct ferry_engine *next_alive;
    uint64_t fork_generation;
    const struct fry_op_kind *const *kinds; /* by fry_node.kind: see kind.h */
    uint32_t closing;                       /* refuses new operations */
    uint32_t tracing;                       /* fry_sink: those that are on; changed with `cold` */
    bool embedded;                          /* no thread of its own: embedded or attached */
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
    fry_timers deadlines;             /* of nodes that have entered */
    fry_lane *busy;                   /* lanes with something in flight */
    fry_lane *unflushed;              /* lanes copied to since the baton was taken */
    fry_error *loss;      /* of the first operation that a lost device took along, or NULL */
    int64_t next_look_ns; /* until then the loop may sleep as far as polled lanes go; INT64_MAX: it
                             watches none */
    int64_t detached;     /* nodes that only users' handles keep, as far as `references` has not
                             heard of them */
    bool is_released;     /* the handle is back: it hears of each at once. See engine.c */
    int64_t load;         /* atomic, written with the baton: what the graph holds. See room.c */
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
    uint32_t room_wanted; /* somebody was refused and asked when to try again: see room.c */
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
    void (*members_flush)(fry_turn *); /* set with them: what was gathered leaves; baton */

    /* Cold. */
    int64_t references __attribute__((aligned(64))); /* see engine.c */
    void (*free_last)(ferry_engine *);               /* engine.c's: there are none left */
    fry_pool nodes, edges, uses, segments, readers;
    fry_pool joins;                            /* see join.h */
    fry_pool transfers;                        /* what peers have of messages */
    const struct fry_lane_opener *lane_opener; /* a test's, set before it joins; NULL: UCX's */
    fry_pool reserve;                          /* nodes that stand for writes that were refused */
    fry_stack refused_buffers;                 /* barred: see refused_writes.c */
    uint32_t mark_is_pushed;                   /* the mark is in the inbox, or on its way */
    uint32_t mark_refused;         /* an operation was refused for naming a barred buffer */
    fry_node mark;                 /* stands in the inbox for them */
    fry_pool writables;            /* nodes that tell of room: see room.c */
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

/* Handed to the host devices of engines made from now on; tests stop copies with it. */
extern fry_host_gate fry_test_host_gate;

#endif
