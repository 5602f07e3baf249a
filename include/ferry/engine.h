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

/* Who runs the engine's loop. */
typedef enum ferry_loop_mode FERRY_INT_ENUM {
    FERRY_LOOP_THREAD = 0,   /* a thread of the engine's own, which blocks all signals (default) */
    FERRY_LOOP_EMBEDDED = 1, /* the user, by ferry_engine_progress; there is no loop thread */
    FERRY_LOOP_ATTACHED = 2, /* the user's libev loop, which ferry_engine_options.ev_loop names */
} ferry_loop_mode;

/*
 * Where the engine takes its memory from. alloc returns size_bytes bytes aligned to align_bytes (a
 * power of two), or NULL; it and free may be called from any thread at once and must not call
 * ferry. Both must work until the engine's memory is gone: see ferry_engine_release. What libev and
 * the operating system take for themselves does not come through here.
 */
typedef struct ferry_allocator {
    void *(*alloc)(void *arg, size_t size_bytes, size_t align_bytes);
    void (*free)(void *arg, void *memory, size_t size_bytes);
    void *arg;
} ferry_allocator;

/*
 * What time it is, in nanoseconds that never go back. Deadlines are compared with it and trace
 * records are stamped with it; timeouts are always measured by CLOCK_MONOTONIC. now_ns is called
 * from any thread at once and must not call ferry. Nobody but its owner knows when such a clock
 * will move, so the loop does not wake for a deadline by it: deadlines are looked at whenever the
 * loop has other work, in ferry_engine_progress, and each millisecond while a thread waits in
 * embedded mode.
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
 * Takes one log line (no newline), valid during the call, of any level. Called from any thread,
 * several at once, inside any call; must not call ferry.
 */
typedef void (*ferry_log_fn)(void *arg, ferry_log_level level, const char *line);

/*
 * Options of an engine; make one with FERRY_ENGINE_OPTIONS_INIT. A zero field means its default.
 *
 * Past max_nodes, max_edges and max_accesses operations are refused with FERRY_E_AGAIN, and not
 * before, whatever other threads have used and let go (ferry_engine_writable). Those below 1024 are
 * kept exactly, and their memory is taken at creation; above, each is higher by what each thread
 * that uses the engine keeps to itself: about a twentieth, at most 126. docs/limits.md has every
 * bound there is.
 */
typedef struct ferry_engine_options {
    size_t struct_size;     /* sizeof(ferry_engine_options) */
    ferry_loop_mode loop;   /* who runs the loop; default FERRY_LOOP_THREAD */
    uint32_t host_devices;  /* how many devices "host:0".. there are; default 4, at most 64 */
    uint32_t host_workers;  /* threads that copy for them; default half the CPUs, 1 to 8 */
    uint32_t max_nodes;     /* operations and promises alive at once, ended ones with handles
                               included; default 2^20, at most 2^28 */
    uint64_t max_edges;     /* waits of one operation for another alive at once; default 8 for each
                               of max_nodes and 4096; 16 to 2^40 */
    uint64_t max_accesses;  /* spans of options, and entries in the buffers' lists, of each sort;
                               default 8 for each of max_nodes and 4096; 16 to 2^40 */
    uint32_t max_tasks;     /* tasks that users' executors have and have not run; more wait their
                               turn on the loop; default 65536, at most 2^24 */
    uint32_t stream_depth;  /* operations that may stand in a stream; the others wait READY, where
                               a higher priority overtakes; default and at most 4096, of which a
                               host's stream takes 256 */
    uint32_t submit_budget; /* pieces of work a submitting thread does for the graph at most;
                               default 64, at most 2^16 */
    uint32_t trace_records; /* records of 64 bytes that hooks and trace files may fall behind for
                               each thread, rounded up to a power of two; default 8192, at most
                               2^20 */
    size_t inline_copy_bytes; /* host copies up to this may run in the caller; default 4096 */
    int64_t spin_ns;          /* the engine's own thread looks this long for work before it sleeps;
                                 default 0, at most 10^9 */
    int64_t wait_spin_ns;     /* ferry_future_wait looks this long before it sleeps, in embedded
                                 and attached mode making progress; default 10000; negative: not at
                                 all */
    int64_t watchdog_ns;      /* the loop tells of what lives when an operation or promise has lived
                                 this long, at most once in that time; default 0 (off) */
    const char *watchdog_path; /* file that the watchdog writes its dump to, as JSON; copied; NULL:
                                  the oldest operations are logged */
    uint32_t flight_records;   /* trace records of 64 bytes kept for each thread, rounded up to a
                                  power of two; the newest are logged when a deadline or a device
                                  fails an operation; default 0 (off), at most 2^20 */
    uint32_t reserved;         /* zero */
    struct ev_loop *ev_loop;   /* FERRY_LOOP_ATTACHED: the loop, which must not run yet; borrowed
                                  until the shutdown has succeeded: docs/threading.md */
    ferry_executor *executor;  /* where functions and callbacks that name no executor run; borrowed
                                  until ferry_engine_release has returned and its last task has
                                  begun to run; default the loop */
    const ferry_allocator *allocator; /* copied; default the C library's */
    const ferry_clock *clock;         /* copied; default CLOCK_MONOTONIC */
    ferry_log_fn log; /* default: stderr, up to the level that FERRY_LOG in the environment names
                         (error, warning, info, debug; default warning) */
    void *log_arg;    /* handed to log */
} ferry_engine_options;

#define FERRY_ENGINE_OPTIONS_INIT FERRY_SIZED_INIT(ferry_engine_options)

/*
 * Makes an engine.
 *  options  NULL for defaults. Shorter struct_size: the rest is default; longer (up to 4096 bytes)
 *           with a tail that is not zero: refused
 *  engine_p receives the engine, set only on success. One reference, the caller's: end it with
 *           ferry_engine_shutdown, then ferry_engine_release
 *  error_p  NULL, or receives NULL on success and on failure an error, never NULL, that the caller
 *           releases with ferry_error_release
 * Any thread, also in a fork's child. May block (starts threads, which block all signals). Returns
 * FERRY_OK; FERRY_E_INVALID for options that are out of their limits or a NULL engine_p;
 * FERRY_E_NO_MEMORY; FERRY_E_SYSTEM if a descriptor or thread can't be had; FERRY_E_BUSY if ev_loop
 * is running, here or in another thread.
 */
FERRY_API ferry_status ferry_engine_create(const ferry_engine_options *options,
                                           ferry_engine **engine_p, ferry_error **error_p);

/*
 * Ends all activity: refuses new operations with FERRY_E_SHUTDOWN, fails with it what has not
 * resolved, promises too, waits until all of it is quiet (a function of ferry_call that has begun
 * comes to its end first), runs or posts the callbacks that are due, and ends the engine's threads.
 * Other members of its groups are told what they have yet to hear of what was received, for which
 * it waits 0.2 s at most; to have delivered what was sent, leave them before (group.h).
 * It does not wait for tasks that an executor of the user's has yet to run; those must still be
 * run, and callbacks that wait for one of them (max_tasks) are then posted by who runs it. Futures,
 * promises and buffers stay valid handles until released; what callbacks they cause from now on run
 * in the calling thread (ferry.h).
 * Any call may be under way beside it in other threads, or begin: what submits is refused from some
 * moment on, and what was submitted before that fails as everything does.
 *  timeout_ns  how long to wait for quiet; negative: for ever; 0: does once what needs no waiting
 * Blocks. In embedded and attached mode the caller makes the progress and runs the callbacks: one
 * that has begun when the time is over comes to its end, and the others are left to the next call.
 * So callbacks that submit again whenever they fail, for ever, keep it from succeeding, not from
 * returning. In attached mode, from another thread than the libev loop's while that runs, it waits
 * for that thread to come by and give the watchers up, which must stay in ev_run for that; a loop
 * that does not run must not begin to meanwhile.
 * Returns FERRY_OK, also when it had been shut down before; FERRY_E_DEADLINE if something was not
 * quiet, or callbacks were still due, in time (logged; new operations stay refused; call again to
 * wait longer); FERRY_E_DEADLOCK from a callback of this engine; FERRY_E_BUSY if another thread is
 * shutting it down; FERRY_E_INVALID for NULL; FERRY_E_FORKED.
 */
FERRY_API ferry_status ferry_engine_shutdown(ferry_engine *engine, int64_t timeout_ns);

/*
 * Gives the caller's reference back; NULL is allowed. No call that is given this engine or one of
 * its devices may follow or be under way. Calls that are given something else of it (a future, a
 * promise, a buffer, a span, a waiter, a group, a task) may, in any thread, as long as their caller
 * holds that: ferry_future_quiet, ferry_buffer_define, ferry_send and the like then fail with
 * FERRY_E_SHUTDOWN, and the others do what they always do. An engine that was not shut down is shut
 * down first, with a timeout of five seconds; may block for it. If that does not succeed (something
 * is not quiet, the call comes from a callback, another thread is shutting it down) it is logged,
 * and the engine is leaked on purpose with all its memory: nothing is freed under a device.
 * Otherwise its memory goes when the last future, promise and buffer of it has been released too
 * and the last task of an executor's has been run, by the thread that does so. The engine's own
 * executor is not used any more: callbacks that name none run in the thread that causes them. With
 * a trace file open it waits until what the engine recorded is in it, or the five seconds are over,
 * and then the engine is leaked; as it is if another thread is all that time in a callback of it
 * that came after the shutdown, and it has an executor of its own. In a fork's child it does
 * nothing.
 */
FERRY_API void ferry_engine_release(ferry_engine *engine);

/*
 * A future that resolves FERRY_OK when every operation submitted before it is quiet, however it
 * ended, and so is all that was ordered ahead of it. Promises are not operations: one that nothing
 * waits for holds no drain. Never NULL; one reference for the caller. Fails at once:
 * FERRY_E_INVALID, FERRY_E_NO_MEMORY, FERRY_E_AGAIN, FERRY_E_SHUTDOWN, FERRY_E_FORKED. Later:
 * FERRY_E_CANCELLED, FERRY_E_SHUTDOWN.
 */
FERRY_API ferry_future *ferry_engine_drain(ferry_engine *engine);

/*
 * A future that resolves FERRY_OK when an operation that FERRY_E_AGAIN refused, at submit or later,
 * is worth another try; at once if none was refused since there was room last. Of several that were
 * refused, room for one is enough. Another thread may be quicker than the next try: it is refused
 * again then, and one asks again. It needs no room itself. What makes room is operations that end
 * and handles that are released: who keeps a promise unresolved meanwhile, or the futures of
 * operations that have ended, may wait for ever.
 *
 * All who ask share one future until it resolves, so a cancel is seen by all. Any thread, any
 * context; in embedded mode it resolves in ferry_engine_progress and in waits. Never NULL; one
 * reference for the caller. Fails at once: FERRY_E_INVALID, FERRY_E_NO_MEMORY, FERRY_E_SHUTDOWN,
 * FERRY_E_FORKED; FERRY_E_AGAIN if the user holds 16 earlier ones that have resolved. Later:
 * FERRY_E_CANCELLED, FERRY_E_SHUTDOWN.
 */
FERRY_API ferry_future *ferry_engine_writable(ferry_engine *engine);

/*
 * Embedded mode: a descriptor that becomes readable when ferry_engine_progress has something to do,
 * for epoll or poll in the user's loop, once ferry_engine_arm has said FERRY_OK. Level-triggered:
 * readable until ferry_engine_progress has taken what made it so. It belongs to the engine and
 * lives as long: don't read, write or close it. -1 if engine is NULL or belongs to a parent
 * process. In the other modes the engine watches it itself; leave it alone.
 */
FERRY_API int ferry_engine_fd(const ferry_engine *engine);

/*
 * Embedded mode: does what is due (drains, polls, starts work, hands out functions, then runs
 * callbacks), all in the calling thread.
 *  budget  about how many pieces of work to do at most; 0: a default of 256. Inline callbacks don't
 *          count: all that are due run
 * Any thread, one at a time. Waits for nothing but the callbacks it runs. Returns about how many it
 * did, 0 if there was nothing; or a negative ferry_status: FERRY_E_BUSY if another thread is making
 * progress (a call of this, or a moment of a thread that waits): arm and sleep as after 0;
 * FERRY_E_DEADLOCK in a callback of this engine; FERRY_E_INVALID for NULL or not in embedded mode;
 * FERRY_E_FORKED.
 */
FERRY_API int64_t ferry_engine_progress(ferry_engine *engine, size_t budget);

/*
 * Embedded mode: says that the calling thread is about to sleep on ferry_engine_fd. Any thread;
 * waits for nobody. FERRY_OK: sleep, the descriptor will wake you, also if another thread is making
 * progress now and leaves something. That lasts until this thread makes progress or arms again:
 * what other threads do does not end it. They may take the work, and the wake with it, and then you
 * sleep on. FERRY_E_BUSY: there is work, call ferry_engine_progress before you try again;
 * FERRY_E_DEADLOCK in a callback of this engine; FERRY_E_INVALID: NULL, or not in embedded mode;
 * FERRY_E_FORKED.
 */
FERRY_API ferry_status ferry_engine_arm(ferry_engine *engine);

/*
 * Embedded mode: nanoseconds until ferry_engine_progress is due at the latest (the next deadline),
 * 0 if now or if another thread is at work, -1 if only the descriptor says when, and where there is
 * no progress to make (NULL, own thread mode, a callback, a fork's child). Any thread. For loops
 * that poll with a timeout; without ferry_engine_options.clock the descriptor becomes readable then
 * too.
 */
FERRY_API int64_t ferry_engine_timeout_ns(const ferry_engine *engine);

#ifdef __cplusplus
}
#endif
#endif
