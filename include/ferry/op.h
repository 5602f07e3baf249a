/* SPDX-License-Identifier: Apache-2.0 */
/* Operations: the nodes of the graph. */
#ifndef FERRY_OP_H
#define FERRY_OP_H

#include <ferry/export.h>
#include <ferry/status.h>
#include <ferry/trace.h>
#include <ferry/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Which of several operations that are READY for the same stream or executor is next: the higher
 * first, within a priority who was READY first (in program order those that one event made so); but
 * of eight in a row one is the oldest of a lower priority that waits, so that none starves. It
 * tells where READY ones wait: for room in a stream (ferry_engine_options.stream_depth), and
 * functions for the loop to hand them out or for a task (max_tasks). What stands in a stream, or
 * was posted, is not overtaken.
 */
typedef enum ferry_priority FERRY_INT_ENUM {
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
    size_t after_count;           /* how many; at most 2^20, and a quarter of max_edges */
    int64_t deadline_ns;          /* absolute, on the engine's clock: from then on the loop fails it
                                     with FERRY_E_DEADLINE if it has not resolved. 0 none; a
                                     negative one is a time like others, and has mostly passed */
    const char *label;            /* for errors, traces and dumps, or NULL; kept, not copied: a
                                     literal, or alive until the operation is quiet and as long as
                                     the future, errors that name it and trace records */
    const ferry_access *accesses; /* spans the operation touches, beside a copy's own two */
    size_t access_count;          /* how many; at most 2^16, and 2 less than an eighth of
                                     max_accesses and a quarter of max_edges. Spans of zero bytes
                                     are ignored, of whatever buffer or of none */
    ferry_priority priority;      /* which of several READY ones is next */
    uint32_t reserved;            /* zero */
} ferry_op_options;

#define FERRY_OP_OPTIONS_INIT FERRY_SIZED_INIT(ferry_op_options)

/*
 * Every function below may be called from any thread, also in a callback, and waits for nothing;
 * the calling thread may do a bounded share of the graph's work (64 pieces, copies of at most
 * inline_copy_bytes among them), but runs no callback. It returns one reference the caller
 * releases, and never NULL: what can't be submitted is a future that has already failed, so a chain
 * of calls needs one check, at its end. Releasing never cancels.
 *
 * Fails at once: FERRY_E_INVALID (NULL, handles of another engine, spans outside their buffer,
 * options of a wrong size or out of their limits), FERRY_E_NO_MEMORY, FERRY_E_AGAIN (a limit of the
 * engine is reached: ferry_engine_writable), FERRY_E_SHUTDOWN, FERRY_E_FORKED. The message of the
 * future's error says what is wrong, or which limit it is; what is wrong is logged as well. What
 * FERRY_E_NO_MEMORY and FERRY_E_AGAIN keep from being written is poisoned, in program order: who
 * was submitted before is not touched by it, who comes later fails. Where there is no room even to
 * list it, its whole buffer is poisoned, and until the loop has come by operations that name the
 * buffer are refused with FERRY_E_AGAIN. Fails later: FERRY_E_CANCELLED, FERRY_E_DEADLINE,
 * FERRY_E_DEPENDENCY (the cause says who), FERRY_E_SHUTDOWN, FERRY_E_NO_MEMORY and FERRY_E_AGAIN
 * (no room to list its accesses), and what each function adds.
 *
 * Operations of one thread are in program order; order between threads is the order in which their
 * calls happened to come.
 */

/*
 * Copies src to dst, which have the same size and don't overlap. Ordered by itself after whatever
 * writes src, and whatever writes or reads dst. Zero bytes resolves when after[] has; of what
 * buffers they would be is not looked at. The buffers may be released at once; ferry holds them
 * until the copy is quiet.
 * Adds: FERRY_E_UNSUPPORTED at once, between devices of two backends of which neither is the
 * host's; FERRY_E_DEVICE, which host devices never give.
 */
FERRY_API ferry_future *ferry_copy(ferry_engine *engine, ferry_span dst, ferry_span src,
                                   const ferry_op_options *options);

/*
 * Copies row_count rows of src to as many of dst: a block of columns of a matrix, say. The spans
 * are the first rows, of equal size; each further row begins a pitch after the one before. Where a
 * side's pitch is its rows' size they are one span to ferry; otherwise each row is an access of its
 * own, so copies of different columns of one matrix don't wait for each other, and what fails
 * poisons its rows alone. Either side costs what so many accesses cost.
 *  dst_pitch_bytes, src_pitch_bytes  at least the rows' size; row_count 0 or 1: ignored
 *  row_count  at most 2^16, and of both sides together max_accesses, an eighth of it where the
 *             options name accesses too; but where both pitches are the rows' size any number; 0,
 *             or rows of zero bytes: resolves when after[] has; 1: the same as ferry_copy
 * Rows that lie outside their buffer, or of which one of dst's meets one of src's, are refused with
 * FERRY_E_INVALID. For the rest it is like ferry_copy.
 */
FERRY_API ferry_future *ferry_copy_rows(ferry_engine *engine, ferry_span dst,
                                        size_t dst_pitch_bytes, ferry_span src,
                                        size_t src_pitch_bytes, size_t row_count,
                                        const ferry_op_options *options);

/*
 * A user's function; a negative return fails the operation with that status. On the loop it keeps
 * the loop from everything else until it returns, and ferry_future_wait and ferry_engine_shutdown
 * of this engine answer FERRY_E_DEADLOCK in it; on another thread of an executor's it may wait.
 */
typedef ferry_status (*ferry_call_fn)(void *arg);

/*
 * Runs fn(arg), at most once, when its dependencies have resolved and its accesses may begin.
 *  executor  where: NULL the engine's (ferry_engine_options.executor; by default the loop);
 *            ferry_executor_loop() or ferry_executor_inline() the loop; or the user's own
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
 * run, and an engine's own (ferry_engine_options.executor) until ferry_engine_release has returned
 * as well.
 *
 * At most ferry_engine_options.max_tasks tasks are posted and have not begun to run; what finds
 * that bound reached, or no memory for one more, waits its turn on the loop, in order.
 *
 * An executor that does it wrong:
 *  - a task run again does nothing. It is counted and logged with its operation's number (the
 *    first time, the second, the fourth...), and ferry_engine_dump tells how often it happened.
 *    That holds while the engine's memory is there, for at least 63 tasks after the one that is run
 *    again, by then most often for thousands; later it may run a task of another's ahead of time;
 *  - a task never run leaves its call issued until a cancel, its deadline or the shutdown fails it
 *    (quiet at once, as it has not begun), and its waiter uncalled. Neither is waited for by
 *    ferry_engine_shutdown, but each keeps the engine's memory after ferry_engine_release, and
 *    counts for max_tasks. ferry_engine_dump lists them.
 */
struct ferry_executor {
    size_t struct_size; /* sizeof(ferry_executor); another is read like that of options */
    void (*post)(ferry_executor *executor, ferry_task *task);
    void *arg; /* the user's */
};

/*
 * Runs the task: the function of a call or of a waiter, in the calling thread, then tells the
 * engine; nothing if that was cancelled or taken back meanwhile. Exactly once a task, on any
 * thread, also when the engine has been shut down or released meanwhile. The task is gone as soon
 * as it has begun to run. After the shutdown it may post what waited for a task. NULL is allowed;
 * in a fork's child it does nothing.
 */
FERRY_API void ferry_task_run(ferry_task *task);

/*
 * The loop: marks for its thread, to name it where the engine has an executor of its own. Never
 * posted to. On the inline one waiters are called ahead of all others; for calls the two are the
 * same. Static; any thread.
 */
FERRY_API ferry_executor *ferry_executor_loop(void);
FERRY_API ferry_executor *ferry_executor_inline(void);

/*
 * An operation of a batch; zero what its kind has no use for.
 */
typedef struct ferry_op {
    ferry_op_kind kind;              /* FERRY_OP_COPY, _CALL, _NOP, _SEND or _RECV */
    ferry_span dst;                  /* copy: where to; with row_count above 1 the first row */
    ferry_span src;                  /* copy: where from; likewise */
    size_t row_count;                /* copy: as in ferry_copy_rows; 0 or 1: plain */
    size_t dst_pitch_bytes;          /* row_count above 1 */
    size_t src_pitch_bytes;          /* likewise */
    ferry_executor *executor;        /* call: as in ferry_call */
    ferry_call_fn fn;                /* call */
    void *arg;                       /* call */
    const ferry_op_options *options; /* of this operation alone; NULL: none */
    ferry_group *group;              /* send, recv: message.h. A send's span is src, a recv's dst */
    ferry_tag tag;                   /* send, recv */
    ferry_peer peer;                 /* send, recv */
    uint32_t reserved;               /* zero */
} ferry_op;

/*
 * Submits operations as if one by one in the order of the array, for less than it costs to do so.
 * Each is ordered after those before it in the array by what they touch, as always; after[] of
 * their own can only name older futures. What is wrong with one fails that one alone, and so does
 * want of room: the others are tried all the same.
 *  ops            borrowed, with all they point to, during the call; NULL if count is 0
 *  op_size_bytes  sizeof(ferry_op) in the caller's version: of shorter ones the rest is zero, a
 *                 longer one whose tail is not zero is refused; at most 4096
 *  count          at most 2^20
 *  each           NULL, or room for count futures: receives one reference for each operation, never
 *                 NULL, for the caller to release. Without it the operations take less memory, and
 *                 small copies that can be done at once none at all
 *  options        of the batch, NULL: none. after[] is added to what each operation has of its own;
 *                 deadline, label and priority are of those that set none. Accesses are refused
 * Returns a future with a reference for the caller, never NULL, which resolves like
 * ferry_future_all of the operations: FERRY_OK when all have succeeded; as soon as one failed, with
 * FERRY_E_DEPENDENCY and the root of that failure as cause; the other operations go on.
 * ferry_future_cancel on it cancels all of them that have not resolved, also when it has failed
 * itself. When it is FERRY_OK they are all quiet; otherwise ferry_future_quiet of it tells when
 * they are. No operation: as soon as after[] has resolved.
 *
 * It fails at once, and then nothing was submitted and each[] holds futures that failed in the same
 * way, with FERRY_E_INVALID (also for accesses in `options`, and a count or op_size_bytes that
 * can't be), FERRY_E_NO_MEMORY, FERRY_E_AGAIN, FERRY_E_SHUTDOWN or FERRY_E_FORKED; what the two for
 * want of room keep from being written is poisoned. Later: FERRY_E_DEPENDENCY, FERRY_E_CANCELLED,
 * FERRY_E_SHUTDOWN; without an operation what ferry_nop gives.
 *
 * The calling thread does as much of the graph's work meanwhile as it might have one by one, and
 * others get their turn after some 256 operations at most: another thread's may come between two of
 * a batch.
 */
FERRY_API ferry_future *ferry_batch(ferry_engine *engine, const ferry_op *ops, size_t op_size_bytes,
                                    size_t count, ferry_future *each[],
                                    const ferry_op_options *options);

#ifdef __cplusplus
}
#endif
#endif
