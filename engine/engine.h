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
#include "base/intern.h"
#include "base/log.h"
#include "base/nvtx.h"
#include "base/poller.h"
#include "base/pool.h"
#include "engine/graph/entering.h"
#include "engine/graph/lane.h"
#include "engine/graph/node.h"
#include "engine/graph/ready_queue.h"
#include "engine/ground/context.h"
#include "engine/ground/refusal.h"
#include "engine/tasks/task_pool.h"
#include "engine/tasks/waiter_list.h"
#include "engine/trace/writer.h"
#include "gpu/host/host.h"

#include <ferry/ferry.h>
#include <pthread.h>

#define FRY_HOST_DEVICES_MAX 64
#define FRY_DEVICES_MAX (FRY_HOST_DEVICES_MAX + 64) /* the host's, and those opened later */
#define FRY_TICK_BUDGET 256                         /* pieces of work a tick of the loop does */
#define FRY_STAMPS_SPARED 31 /* operations in a row that take an earlier one's time of entry */
#define FRY_REFERENCE_BIAS ((int64_t)1 << 62)
#define FRY_LOAD_NOT_REFUSED (-1)
#define FRY_LOAD_HOPELESS (-2) /* refused although no operation ahead could end and make room */

/* What must be done to wake the loop. */
enum fry_sleep {
    FRY_AWAKE = 0, /* nothing: it looks again before it sleeps */
    FRY_ASLEEP,    /* write the eventfd */
    FRY_STOPPED,   /* there is no loop: the thread with late work does it (late.c) */
};

struct ferry_engine {
    fry_future_owner owner; /* first: a future's owner is its engine */
    uint64_t id;            /* never used twice in a process */
    struct ferry_engine *next_alive;
    uint64_t fork_generation;
    const struct fry_op_kind *const *kinds; /* by fry_node.kind: see kind.h */
    uint32_t closing;                       /* new operations are refused */
    uint32_t tracing;                       /* the fry_sink bits that are on; changed with `cold` */
    bool embedded;                          /* has no loop thread: embedded or attached */
    bool has_thread;

    /* Read by submitters, rarely written. */
    fry_memory memory;
    fry_clock clock;
    fry_log log;
    int64_t spin_ns, wait_spin_ns;
    size_t inline_copy_bytes;
    uint32_t device_count; /* grows by fry_lane_attach: see fry_engine_device_count */
    uint32_t stream_count; /* of all devices; written by the thread that attaches one */
    ferry_device devices[FRY_DEVICES_MAX];
    fry_host *host;
    size_t flight_records, trace_records;
    size_t submit_budget; /* pieces of work a submitting thread does for the graph */
    size_t after_count_max, span_count_max; /* of an operation */
    uint32_t stream_depth; /* operations in a stream at most, if the stream takes as many */
    uint32_t max_tasks;
    ferry_executor *executor; /* for code that names none; NULL: the loop, or released */
    int64_t watchdog_ns;
    char *watchdog_path;                   /* NULL: the watchdog logs */
    struct fry_stats_socket *stats_socket; /* NULL: none. Once there is one: with `ending` */

    /* The submitters' line. */
    fry_baton baton __attribute__((aligned(64)));
    fry_stack inbox; /* new nodes, and nodes to which something has happened outside */

    /* With the baton. */
    fry_queue backlog __attribute__((aligned(64))); /* taken from the inbox, not entered yet */
    fry_queue ready;
    fry_queue failing;
    fry_queue loop_ready;      /* like `ready`, of which the loop alone may do the next step */
    fry_entering entering;     /* progress of the operation at the head of the backlog */
    fry_ready_queue calls;     /* functions to hand out, on the loop */
    struct fry_live_list live; /* operations that are not retired, in program order */
    fry_node *dump_node;       /* in either list: the node that the dump copies next */
    fry_node *cancel_at;  /* in the list of live ones: where the walk of `cancelling` goes on */
    int64_t stamp_ns;     /* the coarse clock at the last look at it */
    fry_timers deadlines; /* of nodes that have entered */
    fry_timers rates;     /* of scopes in which operations wait for the rate */
    fry_tally *tally;     /* figures; NULL: nothing is counted. Others read it: tally.h */
    fry_lane *busy;       /* lanes with something in flight */
    fry_lane *unflushed;  /* lanes copied to since the baton was taken */
    fry_error *loss;      /* the error of the first operation that a lost device failed, or NULL */
    bool has_lost;        /* a lane is lost */
    int64_t
        next_look_ns; /* polled lanes let the loop sleep until then; INT64_MAX: there are none */
    int64_t detached; /* nodes that only users' handles keep, and that `references` does not count
                         yet */
    bool is_released; /* the handle is released: `references` counts each node at once; see engine.c
                       */
    int64_t load;     /* atomic, written with the baton: what the graph holds. See room.c */
    bool starved;     /* a pool is empty: the loop must refill it */
    bool stop_graph;  /* the graph has seen `closing`: everything is being cancelled */
    uint64_t inbox_takes; /* how often the inbox was taken to the backlog, which was empty then */
    bool has_errands; /* `starved`, lanes are unflushed, chunks of messages have a step, or records
                         are for the loop to show: the end of a turn handles it */
    bool watchdog_wants_timer;     /* the next node that enters and stays must have the loop set its
                                      timer */
    uint8_t stamps_left;           /* how many entering nodes need not read the clock */
    uint8_t stamps_spared;         /* how many may skip it in a row at present */
    struct fry_live_list promises; /* unresolved promises; same links, same order */
    fry_link *refused_noted;       /* buffers that the mark poisons at its next turn */
    fry_queue cancelled;        /* batches and scopes whose operations are being cancelled; by their
                                   request_link */
    const fry_node *cancelling; /* the first of those, if a batch whose walk has begun */
    const fry_edge *dump_edge;  /* into dump_node: the edge that the dump reads next */
    LIST_HEAD(, ferry_buffer) poisoned; /* buffers that hold poison, or held it */
    ferry_buffer *dump_buffer;          /* in `poisoned`: the buffer that the dump copies next */
    size_t dump_offset;                 /* in dump_buffer */
    int64_t watchdog_barked_ns;         /* time of its last report; watchdog_has_barked */
    bool watchdog_has_barked;

    /* Sleepers and helpers. */
    uint32_t asleep __attribute__((aligned(64))); /* fry_sleep */
    uint32_t helpers;                             /* waiting threads that work on the graph */
    bool
        loop_wanted; /* baton: another thread's turn wanted the loop, which has had no turn since */
    uint32_t work_left;   /* a hint for helpers: a turn ended with work left */
    uint32_t watched;     /* likewise: polled lanes with something in them */
    uint32_t room_wanted; /* somebody was refused and waits for room: see room.c */
    fry_poller poller;

    /* For the loop. */
    fry_stack requests __attribute__((aligned(64))); /* nodes to cancel */
    fry_stack fired;                                 /* waiters whose future has resolved */
    fry_stack frees;                                 /* buffers to free on the loop */
    fry_link *frees_left; /* taken from `frees`, for further ticks; atomic, written with the role */
    fry_baton role;       /* the right to be the loop */
    uint32_t joins_wanted;      /* a thread found no free join: see join.h */
    uint32_t room_came;         /* there may be room for a refused operation: look */
    uint32_t outside_calls;     /* threads that call a device without the baton: see event.c */
    fry_waiter_list due_inline; /* waiters to call, oldest first, ahead of `due`; loop's role */
    fry_waiter_list due;        /* waiters to call or to post, likewise */
    uint32_t has_due;           /* whether there are due waiters, for other threads */
    int64_t give_up_ns; /* when the shutdown that makes progress gives up: see fry_gives_up; else
                           FRY_NEVER_NS. The loop's role */
    fry_tasks tasks;
    uint64_t flight_due; /* with the baton, on the loop: the op whose failure makes the flight
                            recorder log */
    pthread_t thread;

    /* Without a loop thread: who sleeps, and on what. See embedded.c. */
    fry_poller user_poller; /* the user's loop watches it; the loop's role */
    fry_watch poller_watch; /* the poller, as one of user_poller's descriptors */
    uintptr_t armed_by; /* the thread whose arm holds: it sleeps on user_poller or is about to */
    bool user_poller_is_due; /* user_poller may have something to take; the loop's role */
    bool user_woken;       /* user_poller was written for callbacks and not taken since; likewise */
    uint32_t arm_wanted;   /* the user's loop sleeps, and could not get the role to arm */
    uint32_t sleepers;     /* waiting threads that sleep on the poller */
    uint32_t wake_written; /* a hint: the poller may be readable */
    uint32_t waiter_fired; /* a sleeping waiter's future was resolved elsewhere */
    fry_baton seat;        /* the right to sleep on the poller for a waiting thread */
    fry_eventcount role_free; /* for the thread that shuts down */
    struct fry_embedded_waiter *embedded_waiters;
    struct fry_attachment *attachment; /* attached: the watchers in the user's loop */
    struct fry_members *members;       /* NULL: no group was joined yet. Set once, released */
    void (*members_flush)(fry_turn *); /* set with them: what was gathered leaves; with the baton */
    bool (*members_hide)(fry_turn *, struct ferry_buffer *); /* likewise: true: it is freed later */

    /* Cold. */
    int64_t references __attribute__((aligned(64))); /* see engine.c */
    void (*free_last)(ferry_engine *); /* engine.c's: called when no reference is left */
    fry_pool nodes, edges, uses, segments, readers;
    fry_pool notes;      /* of nodes; never more than there are nodes */
    fry_pool scopes;     /* likewise */
    ferry_queue *queues; /* completion queues that were not freed; with `cold` */
    fry_intern labels;   /* copies: FERRY_OP_LABEL_COPIED */
    fry_pool joins;      /* see join.h */
    fry_pool transfers;  /* the peers' state of messages */
    fry_pool notices;    /* bytes of notices, of senders and takers */
    const struct fry_connection_opener
        *connection_opener;    /* set by a test before it joins; NULL: UCX's */
    fry_pool reserve;          /* nodes that stand for refused writes */
    fry_stack refused_buffers; /* barred: see refused_writes.c */
    uint32_t mark_is_pushed;   /* the mark is in the inbox, or on its way */
    uint32_t mark_refused;     /* an operation was refused for naming a barred buffer */
    fry_node mark;             /* is in the inbox for the refused buffers */
    fry_pool writables;        /* nodes of futures for room: see room.c */
    fry_node *writable;        /* the promise of room that all callers share, or a cancelled one */
    int64_t load_target; /* atomic: the value to which `load` must fall for a refused operation */
    pthread_mutex_t room_lock;     /* looking for room, and `writable` */
    ferry_engine_options options;  /* in force; without pointers to what was copied */
    pthread_mutex_t cold;          /* contexts, embedded waiters, trace hooks */
    pthread_mutex_t opening;       /* opening devices, and `backends`; no hot path takes it */
    struct fry_backends *backends; /* of modules; NULL: none was asked for */
    fry_context *contexts;
    fry_context *idle_contexts;
    uint32_t context_count;
    uint64_t next_id;         /* of operations, handed out in blocks */
    fry_context role_context; /* for a loop thread without memory for its own */
    ferry_trace_hooks hooks;
    uint32_t has_hooks;
    uint64_t unrecorded;       /* records lost because their thread had no ring */
    fry_writer_seat file_seat; /* its place in the list of the trace file's thread */
    fry_nvtx *nvtx;            /* ranges of issued operations; NULL: no tool. With the baton */
    fry_baton ending;          /* the right to run ferry_engine_shutdown */
    fry_baton dumping;         /* the right to dump */
    uint32_t stopped;          /* futex: 1 when everything is quiet and the loop has ended */
    bool ended;                /* shut down to the end */
    ferry_future refused[FRY_REFUSALS]; /* static futures of refused calls, one for each reason */
    uint32_t refusals[FRY_REFUSALS];    /* atomic: how often each was given */
};

/* Passed to the host devices of engines created from now on; tests stop copies with it. */
extern fry_host_gate fry_test_host_gate;

#endif
