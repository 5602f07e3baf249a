/* SPDX-License-Identifier: Apache-2.0 */
/* Operations: the nodes of the graph. */
#ifndef FERRY_OP_H
#define FERRY_OP_H

#include <ferry/export.h>
#include <ferry/status.h>
#include <ferry/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Which of several operations that are READY for the same stream or executor is next: the higher
 * first, in program order within a priority; but of eight in a row one is the oldest of a lower
 * priority that waits, so that none starves.
 */
typedef enum ferry_priority {
    FERRY_PRIORITY_NORMAL = 0, /* the default */
    FERRY_PRIORITY_HIGH = 1,
    FERRY_PRIORITY_LOW = -1,
} ferry_priority;

/*
 * Options of an operation; make one with FERRY_OP_OPTIONS_INIT. NULL means all default.
 */
typedef struct ferry_op_options {
    size_t struct_size;           /* sizeof(ferry_op_options) */
    ferry_future *const *after;   /* data edges: starts after these, fails if one of them fails; of
                                     the same engine, none NULL */
    size_t after_count;           /* how many; at most 2^20 */
    int64_t deadline_ns;          /* absolute, on the engine's clock: from then on the loop fails it
                                     with FERRY_E_DEADLINE if it has not resolved; 0 none */
    const char *label;            /* for errors, traces and dumps, or NULL; kept, not copied: a
                                     literal, or alive until the operation is quiet and as long as
                                     the future, errors that name it and trace records */
    const ferry_access *accesses; /* spans the operation touches, beside a copy's own two */
    size_t access_count;          /* how many; at most 2^16. Spans of zero bytes are ignored */
    ferry_priority priority;      /* which of several READY ones is next */
    uint32_t reserved;            /* zero */
} ferry_op_options;

#define FERRY_OP_OPTIONS_INIT                                                                      \
    {                                                                                              \
        .struct_size = sizeof(ferry_op_options)                                                    \
    }

/*
 * Every function below may be called from any thread, also in a callback, and waits for nothing;
 * the calling thread may do a bounded share of the graph's work (64 pieces, copies of at most
 * inline_copy_bytes among them), but runs no callback. It returns one reference the caller
 * releases, and never NULL: what can't be submitted is a future that has already failed, so a chain
 * of calls needs one check, at its end. Releasing never cancels.
 *
 * Fails at once: FERRY_E_INVALID (NULL, handles of another engine, spans outside their buffer,
 * options of a wrong size or out of their limits; the log says which), FERRY_E_NO_MEMORY,
 * FERRY_E_AGAIN (a limit of the engine is reached, max_nodes among them), FERRY_E_SHUTDOWN,
 * FERRY_E_FORKED. What FERRY_E_NO_MEMORY and FERRY_E_AGAIN keep from being written is poisoned, in
 * program order. Fails later: FERRY_E_CANCELLED, FERRY_E_DEADLINE, FERRY_E_DEPENDENCY (the cause
 * says who), FERRY_E_SHUTDOWN, FERRY_E_NO_MEMORY and FERRY_E_AGAIN (no room to list its accesses),
 * and what each function adds.
 *
 * Operations of one thread are in program order; order between threads is the order in which their
 * calls happened to come.
 */

/*
 * Copies src to dst, which have the same size and don't overlap. Ordered by itself after whatever
 * writes src, and whatever writes or reads dst. Zero bytes resolves when after[] has. The buffers
 * may be released at once; ferry holds them until the copy is quiet.
 * Adds: FERRY_E_DEVICE, which host devices never give.
 */
FERRY_API ferry_future *ferry_copy(ferry_engine *engine, ferry_span dst, ferry_span src,
                                   const ferry_op_options *options);

/*
 * A user's function; a negative return fails the operation with that status. On the loop it keeps
 * the loop from everything else until it returns, and ferry_future_wait and ferry_engine_shutdown
 * of this engine answer FERRY_E_DEADLOCK in it; on another thread of an executor's it may wait.
 */
typedef ferry_status (*ferry_call_fn)(void *arg);

/*
 * Runs fn(arg), at most once, when its dependencies have resolved and its accesses may begin.
 *  executor  where: NULL or ferry_executor_inline() on the loop; or the user's own, which must
 *            outlive the operation
 *  arg       must live until the future is quiet (ferry_future_quiet)
 * Adds: whatever negative status fn returns (FERRY_E_FAILED for a positive one or one below
 * INT16_MIN; the error's native_code has what it returned). A cancelled call that is already
 * running goes on to its end before it is quiet; one that has not begun never will, though its
 * task, if an executor has it, must be run all the same.
 */
FERRY_API ferry_future *ferry_call(ferry_engine *engine, ferry_executor *executor, ferry_call_fn fn,
                                   void *arg, const ferry_op_options *options);

/* Resolves when everything in after[] has and its accesses could begin. Adds nothing. */
FERRY_API ferry_future *ferry_nop(ferry_engine *engine, const ferry_op_options *options);

/*
 * The user's executor. `post` takes a task and sees to it that ferry_task_run is called on it
 * exactly once, on any thread, now or later; within post is allowed, and then it runs on the loop
 * like any callback. It is a callback itself (called by the thread that runs the loop, one task at
 * a time) and can't fail. The struct is borrowed: it must live until its last task has begun to
 * run.
 */
struct ferry_executor {
    size_t struct_size; /* sizeof(ferry_executor) */
    void (*post)(ferry_executor *executor, ferry_task *task);
    void *arg; /* the user's */
};

/*
 * Runs the task: the function of a call or of a waiter, in the calling thread, then tells the
 * engine. Exactly once a task, on any thread, also when the engine has been shut down or released
 * meanwhile. The task is gone afterwards. NULL is allowed.
 */
FERRY_API void ferry_task_run(ferry_task *task);

/*
 * The executor that runs on the thread that runs the loop. For a waiter: ahead of all that have
 * another executor or none. For a call: the same as NULL. Static; any thread.
 */
FERRY_API ferry_executor *ferry_executor_inline(void);

#ifdef __cplusplus
}
#endif
#endif
