/* SPDX-License-Identifier: Apache-2.0 */
/* The engine: creating one, running its loop, shutting it down. */
#ifndef FERRY_ENGINE_H
#define FERRY_ENGINE_H

#include <ferry/export.h>
#include <ferry/status.h>
#include <ferry/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ev_loop; /* libev's */

/* Which thread runs the engine's loop. */
typedef enum ferry_loop_mode FERRY_INT_ENUM {
    FERRY_LOOP_THREAD = 0,   /* a thread of the engine, which blocks all signals (default) */
    FERRY_LOOP_EMBEDDED = 1, /* threads that call ferry_engine_progress; no loop thread */
    FERRY_LOOP_ATTACHED = 2, /* the user's libev loop: ferry_engine_options.ev_loop */
} ferry_loop_mode;

/*
 * The source of the engine's memory. alloc returns size_bytes bytes aligned to align_bytes (a power
 * of two), or NULL. Several threads may call alloc and free at once; neither may call ferry. Both
 * must work until the engine's memory is freed (ferry_engine_release). libev and the operating
 * system do not use this allocator.
 */
typedef struct ferry_allocator {
    void *(*alloc)(void *arg, size_t size_bytes, size_t align_bytes);
    void (*free)(void *arg, void *memory, size_t size_bytes);
    void *arg;
} ferry_allocator;

/*
 * The engine's clock: now_ns returns nanoseconds that never decrease. Deadlines and the times of
 * trace records use this clock; timeouts always use CLOCK_MONOTONIC. Several threads may call
 * now_ns at once; it must not call ferry. ferry can't know when a user's clock will reach a
 * deadline, so the loop does not wake up for it. ferry checks the deadlines whenever the loop has
 * other work, in ferry_engine_progress, and each millisecond while a thread waits in embedded mode.
 */
typedef struct ferry_clock {
    int64_t (*now_ns)(void *arg);
    void *arg;
} ferry_clock;

/* Levels of log lines. */
typedef enum ferry_log_level FERRY_INT_ENUM {
    FERRY_LOG_ERROR = 0,
    FERRY_LOG_WARNING = 1,
    FERRY_LOG_INFO = 2,
    FERRY_LOG_DEBUG = 3,
} ferry_log_level;

/*
 * Receives one log line of any level, without a newline; `line` is valid during the call. Several
 * threads may call it at once, inside any call of ferry. It must not call ferry.
 */
typedef void (*ferry_log_fn)(void *arg, ferry_log_level level, const char *line);

/*
 * Options of an engine. Initialise them with FERRY_ENGINE_OPTIONS_INIT. Zero means the default.
 *
 * An operation is refused with FERRY_E_AGAIN when max_nodes, max_edges or max_accesses are in use,
 * and never while fewer are in use (ferry_engine_writable). A bound below 1024 is exact, and its
 * memory is allocated at creation. A larger bound may be exceeded by what each thread that uses the
 * engine keeps for itself: about a twentieth of the bound, at most 126. docs/limits.md lists every
 * bound.
 */
typedef struct ferry_engine_options {
    size_t struct_size;     /* sizeof(ferry_engine_options) */
    ferry_loop_mode loop;   /* which thread runs the loop; default FERRY_LOOP_THREAD */
    uint32_t host_devices;  /* number of devices "host:0"...; default 4, at most 64 */
    uint32_t host_workers;  /* threads that copy for these; default half the CPUs, 1 to 8 */
    uint32_t max_nodes;     /* operations and promises alive at once, including ended ones whose
                               future is still held; default 2^20, at most 2^28 */
    uint64_t max_edges;     /* waits of one operation for another at once; default 8 * max_nodes +
                               4096; 16 to 2^40 */
    uint64_t max_accesses;  /* spans in options; the same bound holds for each sort of entry in the
                               buffers' lists; default 8 * max_nodes + 4096; 16 to 2^40 */
    uint32_t max_tasks;     /* tasks posted to users' executors that have not begun to run; more
                               wait on the loop; default 65536, at most 2^24 */
    uint32_t stream_depth;  /* operations queued in a stream at once; the others wait READY, where a
                               higher priority overtakes; default and at most 4096; a host device's
                               stream takes 256 at most */
    uint32_t submit_budget; /* pieces of the graph's work that a submit does at most; default 64, at
                               most 2^16 */
    uint32_t trace_records; /* trace records of 64 bytes that each thread keeps for hooks and the
                               trace file; older ones are lost; rounded up to a power of two;
                               default 8192, at most 2^20 */
    size_t inline_copy_bytes;  /* host copies up to this size may run in the caller; default 4096 */
    int64_t spin_ns;           /* how long the engine's own thread looks for work before it sleeps;
                                  default 0, at most 10^9 */
    int64_t wait_spin_ns;      /* how long ferry_future_wait looks before it sleeps; in embedded and
                                  attached mode it makes progress meanwhile; default 10000;
                                  negative: it sleeps at once */
    int64_t watchdog_ns;       /* when an operation or promise has lived this long, the loop reports
                                  what is alive, at most once in this time; default 0 (off) */
    const char *watchdog_path; /* file for the watchdog's report, a dump in JSON; copied; NULL: the
                                  watchdog logs the oldest operations */
    uint32_t flight_records;   /* trace records of 64 bytes that the flight recorder keeps for each
                                  thread, rounded up to a power of two; the newest are logged when a
                                  deadline or a device fails an operation; default 0 (off), at most
                                  2^20 */
    uint32_t stats;            /* 1: the engine and its scopes count what they do
                                  (ferry_stats_read); default 0 */
    struct ev_loop *ev_loop;  /* FERRY_LOOP_ATTACHED: the libev loop, which must not be running yet;
                                 borrowed until the shutdown has succeeded: docs/threading.md */
    ferry_executor *executor; /* runs functions and callbacks that name no executor; borrowed until
                                 ferry_engine_release has returned and its last task has begun to
                                 run; default the loop */
    const ferry_allocator *allocator; /* copied; default the C library's */
    const ferry_clock *clock;         /* copied; default CLOCK_MONOTONIC */
    ferry_log_fn log; /* receives log lines; default: lines go to stderr, up to the level that the
                         environment variable FERRY_LOG names (error, warning, info, debug; default
                         warning) */
    void *log_arg;    /* passed to log */
    size_t message_staging_bytes; /* page-locked memory for messages of GPU memory (message.h), in
                                     chunks of 1 MiB, half of them for each direction, one at least;
                                     allocated when the first such message needs it, and kept;
                                     default 32 MiB, at most 2^40 */
    uint32_t nccl_slots;          /* groups of messages that may be on one GPU at once, over NCCL
                                     (FERRY_GPU_WAY_NCCL), those of all engines of the process
                                     together; others wait. 1 to 64; default 8 */
    uint32_t nccl_pairs;          /* communicators that the engine has at once, one for each member
                                     with which it exchanges messages over NCCL; if another is
                                     wanted, one is ended for it that nothing goes over, the one
                                     that was used the longest time ago first; if all are in use,
                                     one that has been for some time. 1 to 1024; default 16 */
    const char *stats_path; /* path of a Unix socket that the engine makes, by which `ferry stats`
                               and `ferry top` of the same user read its figures and what it waits
                               for; copied; at most 107 bytes. Needs stats. A socket that a dead
                               process left there is replaced; ferry_engine_shutdown removes the
                               engine's as it begins. Default NULL: none */
} ferry_engine_options;

#define FERRY_ENGINE_OPTIONS_INIT FERRY_SIZED_INIT(ferry_engine_options)

/*
 * Makes an engine.
 *  options   NULL for defaults. If struct_size is smaller than this version's, the missing fields
 *            have their defaults. If it is larger (up to 4096 bytes), the unknown bytes must be
 *            zero
 *  engine_p  receives the engine, only on success. The caller owns one reference and ends it with
 *            ferry_engine_shutdown, then ferry_engine_release
 *  error_p   may be NULL. Receives NULL on success. On failure receives an error, never NULL, which
 *            the caller releases with ferry_error_release
 * Any thread, also in a fork's child. May block: it starts threads, which block all signals.
 * Returns FERRY_OK; FERRY_E_INVALID for options out of their limits or a NULL engine_p;
 * FERRY_E_NO_MEMORY; FERRY_E_SYSTEM if the operating system refuses a descriptor or a thread;
 * FERRY_E_BUSY if ev_loop is running, in this or another thread, or if a living process serves
 * stats_path.
 */
FERRY_API ferry_status ferry_engine_create(const ferry_engine_options *options,
                                           ferry_engine **engine_p, ferry_error **error_p);

/*
 * Ends all activity of the engine:
 *  - It refuses new operations with FERRY_E_SHUTDOWN, and fails all unresolved operations and
 *    promises with FERRY_E_SHUTDOWN.
 *  - It waits until all operations are quiet; a function of ferry_call that has begun runs to its
 *    end.
 *  - It runs or posts the callbacks that are due, and ends the engine's threads.
 *  - It tells other members of the engine's groups which of their messages were received, and waits
 *    at most 0.2 s for that. To have messages delivered that were sent, leave the groups before
 *    (ferry_group_leave).
 * It does not wait for tasks that a user's executor has not run yet. The executor must still run
 * them; the thread that runs such a task posts the callbacks that waited for it (max_tasks).
 * Futures, promises and buffers stay valid until they are released; callbacks that they cause after
 * the shutdown run in the calling thread (ferry.h). Other threads may call ferry during the
 * shutdown: their operations are refused from some moment on, and fail if they came before it.
 *  timeout_ns  how long to wait; negative: for ever; 0: does once what needs no waiting
 * Blocks. In embedded and attached mode the calling thread makes progress and runs the callbacks. A
 * callback that has begun when the time is over runs to its end; the other callbacks are left to
 * the next call. So callbacks that submit again after each failure prevent the shutdown from
 * succeeding, but not from returning. In attached mode a shutdown in another thread than the libev
 * loop's waits until the loop's thread has removed the watchers, and that thread must stay in
 * ev_run for it. If the libev loop is not running, it must not start during the shutdown.
 * Returns FERRY_OK, also if the engine was shut down before; FERRY_E_DEADLINE if something was not
 * quiet or a callback was still due when the time was over (this is logged; new operations stay
 * refused; call again to wait longer); FERRY_E_DEADLOCK in a callback of this engine; FERRY_E_BUSY
 * if another thread is shutting the engine down; FERRY_E_INVALID for NULL; FERRY_E_FORKED.
 */
FERRY_API ferry_status ferry_engine_shutdown(ferry_engine *engine, int64_t timeout_ns);

/*
 * Releases the caller's reference; NULL is allowed. No call that takes this engine or one of its
 * devices may be under way or follow. Calls that take another handle of the engine (a future, a
 * promise, a buffer, a span, a waiter, a group, a task) are allowed, in any thread, while their
 * caller holds the handle: functions that make a future, such as ferry_future_quiet and ferry_send,
 * and ferry_buffer_define fail with FERRY_E_SHUTDOWN, and all others work as always.
 *
 * If the engine was not shut down, this call shuts it down first, with a timeout of five seconds,
 * and may block for that. If the shutdown fails (something is not quiet, the call is made in a
 * callback, another thread is shutting the engine down), the engine is leaked on purpose with all
 * its memory, because a device may still use that memory; this is logged. If the shutdown succeeds,
 * the engine's memory is freed by the thread that releases the last future, promise or buffer or
 * runs the last task of an executor.
 *
 * ferry does not use the engine's own executor any more: callbacks that name no executor run in the
 * thread that causes them. If a trace file is open, the call waits until the engine's records are
 * in the file. The engine is also leaked if that takes more than the five seconds, or if the engine
 * has its own executor and another thread is in a callback for all of the five seconds. Does
 * nothing in a fork's child.
 */
FERRY_API void ferry_engine_release(ferry_engine *engine);

/*
 * A future that resolves FERRY_OK when every operation submitted before it is quiet, whatever the
 * operation's status, and every operation ordered before those is quiet too. A promise is not an
 * operation: a drain waits for it only if an operation does. Never NULL; one reference for the
 * caller. Fails at once with FERRY_E_INVALID, FERRY_E_NO_MEMORY, FERRY_E_AGAIN, FERRY_E_SHUTDOWN,
 * FERRY_E_FORKED; later with FERRY_E_CANCELLED, FERRY_E_SHUTDOWN.
 */
FERRY_API ferry_future *ferry_engine_drain(ferry_engine *engine);

/*
 * A future that resolves FERRY_OK when there may be room to retry an operation that failed with
 * FERRY_E_AGAIN, at submit or later. It resolves at once if no operation was refused since there
 * was room last. If several operations were refused, it resolves when there is room for one of
 * them. Another thread may take that room first; the retry then fails again, and the caller calls
 * this function again. The future itself needs no room. Operations that end and handles that are
 * released make room. So release handles before waiting for room: a caller that keeps a promise
 * unresolved, or holds futures of operations that have ended, may wait for ever.
 *
 * All callers share one future until it resolves, so a cancel reaches all of them. Any thread, any
 * context; in embedded mode the future resolves in ferry_engine_progress and in waits. Never NULL;
 * one reference for the caller. Fails at once with FERRY_E_INVALID, FERRY_E_NO_MEMORY,
 * FERRY_E_SHUTDOWN, FERRY_E_FORKED, and with FERRY_E_AGAIN if the user holds 16 earlier ones that
 * have resolved; later with FERRY_E_CANCELLED, FERRY_E_SHUTDOWN.
 */
FERRY_API ferry_future *ferry_engine_writable(ferry_engine *engine);

/*
 * The time that is from_now_ns nanoseconds from now, on the engine's clock: a deadline for the
 * options of an operation, and for ferry_group_get and its like. Never 0, which would mean no
 * deadline. A time past the clock's range is the last in it, and one before its beginning is
 * negative, as a deadline that has passed.
 *  from_now_ns  0 and negative: a deadline that has passed
 * Calls now_ns of the user's clock, if there is one (ferry_engine_options.clock). Any thread, any
 * context. Returns 0 for NULL and in a fork's child: calls with that engine fail anyway.
 */
FERRY_API int64_t ferry_engine_deadline_in(const ferry_engine *engine, int64_t from_now_ns);

/*
 * Embedded mode: a descriptor for epoll or poll in the user's loop. After ferry_engine_arm has
 * returned FERRY_OK, the descriptor becomes readable when ferry_engine_progress has something to
 * do. Level-triggered: it stays readable until ferry_engine_progress has done that work. The
 * descriptor belongs to the engine and lives as long as the engine; the caller must not read, write
 * or close it. -1 for NULL and in a fork's child. In the other modes the engine uses the descriptor
 * itself.
 */
FERRY_API int ferry_engine_fd(const ferry_engine *engine);

/*
 * Embedded mode: does the work that is due in the calling thread: takes in submitted operations,
 * polls, starts work, hands out functions, then runs callbacks.
 *  budget  about how many pieces of work to do at most; 0: 256. Inline callbacks do not count: all
 *          that are due run
 * Any thread, one at a time. Waits for nothing but the callbacks that it runs. Returns about how
 * many pieces of work it did, 0 if there were none; or a negative ferry_status: FERRY_E_BUSY if
 * another thread is making progress, in this function or for a moment in a wait (then arm and sleep
 * as after 0); FERRY_E_DEADLOCK in a callback of this engine; FERRY_E_INVALID for NULL or in
 * another mode; FERRY_E_FORKED.
 */
FERRY_API int64_t ferry_engine_progress(ferry_engine *engine, size_t budget);

/*
 * Embedded mode: declares that the calling thread is about to sleep on ferry_engine_fd. Any thread;
 * waits for nobody. Returns
 *  - FERRY_OK: the thread may sleep. The descriptor wakes it when there is work, also if another
 *    thread is making progress now and leaves work. This holds until this thread makes progress or
 *    arms again, whatever other threads do. If another thread does the work, this thread sleeps on.
 *  - FERRY_E_BUSY: there is work; call ferry_engine_progress before the next attempt.
 *  - FERRY_E_DEADLOCK in a callback of this engine; FERRY_E_INVALID for NULL or in another mode;
 *    FERRY_E_FORKED.
 */
FERRY_API ferry_status ferry_engine_arm(ferry_engine *engine);

/*
 * Embedded mode: nanoseconds until ferry_engine_progress is due at the latest (the next deadline),
 * for loops that poll with a timeout. 0: it is due now, or another thread is making progress. -1:
 * only the descriptor tells when it is due, or there is no progress to make (NULL,
 * FERRY_LOOP_THREAD, a callback, a fork's child). Any thread. Without a clock of the user
 * (ferry_engine_options.clock) the descriptor becomes readable at that time too.
 */
FERRY_API int64_t ferry_engine_timeout_ns(const ferry_engine *engine);

#ifdef __cplusplus
}
#endif
#endif
