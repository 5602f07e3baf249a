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

#define FERRY_OP_KIND_MAP(X)                                                                       \
    X(FERRY_OP_NOP, 1, "nop")                                                                      \
    X(FERRY_OP_COPY, 2, "copy")                                                                    \
    X(FERRY_OP_CALL, 3, "call")                                                                    \
    X(FERRY_OP_PROMISE, 4, "promise")                                                              \
    X(FERRY_OP_ALL, 5, "all")                                                                      \
    X(FERRY_OP_ANY, 6, "any")                                                                      \
    X(FERRY_OP_DRAIN, 7, "drain")                                                                  \
    X(FERRY_OP_DEFINE, 8, "define")                                                                \
    X(FERRY_OP_ISSUED, 9, "issued")                                                                \
    X(FERRY_OP_QUIET, 10, "quiet")                                                                 \
    X(FERRY_OP_BATCH, 11, "batch")                                                                 \
    X(FERRY_OP_EVENT, 12, "event")                                                                 \
    X(FERRY_OP_SEND, 13, "send")                                                                   \
    X(FERRY_OP_RECV, 14, "recv")                                                                   \
    X(FERRY_OP_ASYNC, 15, "async")                                                                 \
    X(FERRY_OP_SCOPE, 16, "scope")                                                                 \
    X(FERRY_OP_PROBE, 17, "probe")                                                                 \
    X(FERRY_OP_WINDOW, 18, "window")                                                               \
    X(FERRY_OP_FIND, 19, "find")                                                                   \
    X(FERRY_OP_GET, 20, "get")                                                                     \
    X(FERRY_OP_PUT, 21, "put")                                                                     \
    X(FERRY_OP_NOTICE, 22, "notice")                                                               \
    X(FERRY_OP_NOTICE_NEXT, 23, "notice next")                                                     \
    X(FERRY_OP_PLAN, 24, "plan")                                                                   \
    X(FERRY_OP_SYMMETRIC, 25, "symmetric")

#define FERRY_OP_KIND_ENUM_(name, value, text) name = (value),
/* The kind of an operation. */
typedef enum ferry_op_kind FERRY_INT_ENUM { FERRY_OP_KIND_MAP(FERRY_OP_KIND_ENUM_) } ferry_op_kind;
#undef FERRY_OP_KIND_ENUM_

/* Name of a kind of operation ("copy"); "?" if unknown. Any thread; static string. */
FERRY_API const char *ferry_op_kind_name(ferry_op_kind kind);

/*
 * Order among operations that are READY for the same stream or executor. A higher priority goes
 * first. Within a priority the operation that became READY first goes first; operations that one
 * event made READY go in program order. While operations of a lower priority wait, one in eight
 * is the oldest of these, so none starves. Priorities matter where READY operations wait: copies
 * for room in a stream (ferry_engine_options.stream_depth), functions for the loop or for a task
 * (max_tasks). Operations that are queued in a stream or have been posted are never overtaken.
 */
typedef enum ferry_priority FERRY_INT_ENUM {
    FERRY_PRIORITY_NORMAL = 0, /* the default */
    FERRY_PRIORITY_HIGH = 1,
    FERRY_PRIORITY_LOW = -1,
} ferry_priority;

/* Flags of an operation. */
typedef enum ferry_op_flag FERRY_INT_ENUM {
    FERRY_OP_LABEL_COPIED = 1, /* label may be gone or changed after the call. The engine keeps a
                                  copy of its first 255 bytes, one of each text and 4096 at most,
                                  until the engine's memory is freed. Past that, or without memory
                                  for it, the operation has the label "(a label that was not
                                  kept)". For labels that recur: each new one takes memory, each
                                  known one only a look */
    FERRY_OP_UNTRACKED = 2,    /* its spans take no part in the order of their buffers: the
                                  operation waits for none that uses the same bytes, none waits for
                                  it, and it neither finds nor leaves poison. It starts after its
                                  after[] alone. For callers who keep the order themselves, such as
                                  one who hands out blocks and knows when each is free. The rest
                                  holds: bounds are checked, its buffers stay until it is quiet, and
                                  ferry_future_quiet says when its bytes are used no more. Dumps
                                  show it as "untracked". Without spans it means nothing */
} ferry_op_flag;

/*
 * Options of an operation. Initialise them with FERRY_OP_OPTIONS_INIT. NULL means all defaults.
 */
typedef struct ferry_op_options {
    size_t struct_size;         /* sizeof(ferry_op_options) */
    ferry_future *const *after; /* futures of the same engine, none NULL: the operation starts
                                   after them, and fails if one of them fails */
    size_t after_count;         /* at most 2^20, and at most a quarter of max_edges */
    int64_t deadline_ns;        /* absolute, on the engine's clock: at this time the loop fails the
                                   operation with FERRY_E_DEADLINE unless it has resolved. 0: none.
                                   A negative value is a time, which has normally passed */
    const char *label;          /* name in errors, traces and dumps, or NULL. It must be a literal,
                                   or live until the operation is quiet and the future, errors that
                                   name it and trace records are gone; unless it is copied:
                                   FERRY_OP_LABEL_COPIED */
    const ferry_access *accesses; /* spans that it touches, besides a copy's src and dst */
    size_t access_count;     /* at most 2^16, and at most an eighth of max_accesses and a quarter
                                of max_edges, each less 2. Spans of zero bytes are ignored,
                                whatever their buffer */
    ferry_priority priority; /* order among READY operations */
    uint32_t flags;          /* ferry_op_flag, summed */
    uint64_t user_data;      /* the caller's, in trace records, dumps and completions; 0: none */
    ferry_queue *queue;      /* receives a record when the operation resolves (queue.h), or NULL. Of
                                the same engine, and not released. If there is no room in it, the
                                operation is refused with FERRY_E_AGAIN */
    ferry_scope *scope;      /* that it joins (scope.h), or NULL. Of the same engine, and not
                                released */
} ferry_op_options;

#define FERRY_OP_OPTIONS_INIT FERRY_SIZED_INIT(ferry_op_options)

/*
 * Rules for all functions below that submit operations. Any thread may call them, also in a
 * callback. They wait for nothing. The calling thread may do a bounded share of the graph's work
 * (64 pieces, including copies of at most inline_copy_bytes), but runs no callback. They return one
 * reference, never NULL, that the caller releases; releasing never cancels. An operation that
 * cannot be submitted returns a future that has already failed, so a chain of calls needs one
 * check, at its end.
 *
 * An operation fails at once with FERRY_E_INVALID (a NULL, handles of another engine, spans outside
 * their buffer, options of a wrong size or out of their limits), FERRY_E_NO_MEMORY, FERRY_E_AGAIN
 * (a limit of the engine is reached: ferry_engine_writable), FERRY_E_SHUTDOWN or FERRY_E_FORKED.
 * The message of the future's error names the reason or the limit; wrong arguments are logged too:
 * of each reason the first 16, and then one each time that their number has doubled.
 * After FERRY_E_NO_MEMORY or FERRY_E_AGAIN the spans that the operation was to write are poisoned,
 * in program order: earlier operations are not affected, later readers fail. If there is no room to
 * record that, the whole buffer is poisoned, and operations on the buffer are refused with
 * FERRY_E_AGAIN until the loop has handled it.
 *
 * An operation fails later with FERRY_E_CANCELLED, FERRY_E_DEADLINE, FERRY_E_DEPENDENCY (the
 * error's cause is the first failure), FERRY_E_SHUTDOWN, FERRY_E_NO_MEMORY or FERRY_E_AGAIN (no
 * memory or room to list its accesses), or with a status that its function adds.
 *
 * Operations of one thread are in program order. Operations of several threads are ordered as their
 * calls happen to arrive.
 */

/*
 * Copies src to dst. Both have the same size and do not overlap. ferry runs the copy after earlier
 * operations that write src, and after earlier operations that read or write dst. A copy of zero
 * bytes resolves when after[] has; its buffers are ignored. The caller may release the buffers at
 * once: ferry holds them until the copy is quiet.
 * Adds: FERRY_E_UNSUPPORTED at once, if the devices belong to two backends and neither is a host
 * device; FERRY_E_DEVICE later, never from host devices.
 */
FERRY_API ferry_future *ferry_copy(ferry_engine *engine, ferry_span dst, ferry_span src,
                                   const ferry_op_options *options);

/*
 * Copies row_count rows of src to as many rows of dst, for example a block of columns of a matrix.
 * The spans are the first rows, of equal size. Each further row begins one pitch after the row
 * before it. If a side's pitch equals the size of its rows, that side is one access. Otherwise each
 * row is an access: copies of different columns of a matrix then do not wait for each other, and a
 * failed copy poisons only its own rows. Each access costs as much as one in ferry_op_options.
 *  dst_pitch_bytes, src_pitch_bytes  at least the size of a row; ignored for a row_count of 0 or 1
 *  row_count  at most 2^16, and the rows of both sides together at most max_accesses, or an eighth
 *             of it if the options name accesses too; any number if both pitches equal the size of
 *             a row. 0, or rows of zero bytes: resolves when after[] has. 1: the same as ferry_copy
 * Fails with FERRY_E_INVALID if a row lies outside its buffer, or if a row of dst overlaps a row of
 * src. Otherwise like ferry_copy.
 */
FERRY_API ferry_future *ferry_copy_rows(ferry_engine *engine, ferry_span dst,
                                        size_t dst_pitch_bytes, ferry_span src,
                                        size_t src_pitch_bytes, size_t row_count,
                                        const ferry_op_options *options);

/*
 * A user's function. A negative return fails the operation with that status. If it runs on the
 * loop, the loop does nothing else until it returns, and ferry_future_wait and
 * ferry_engine_shutdown of this engine answer FERRY_E_DEADLOCK in it. On an executor's own thread
 * it may wait.
 */
typedef ferry_status (*ferry_call_fn)(void *arg);

/*
 * Runs fn(arg) at most once, when its dependencies have resolved and its accesses may begin.
 *  executor  runs fn. NULL: the engine's (ferry_engine_options.executor; by default the loop);
 *            ferry_executor_loop() or ferry_executor_inline(): the loop; or the user's own
 *  arg       must live until the future is quiet (ferry_future_quiet)
 * Adds: the negative status that fn returns; FERRY_E_FAILED if fn returns a positive number or one
 * below INT16_MIN, and the error's native_code is that number. If the call is cancelled while fn
 * runs, fn runs to its end before the future is quiet. If it is cancelled before, fn never runs; an
 * executor that already has the task must still run the task.
 */
FERRY_API ferry_future *ferry_call(ferry_engine *engine, ferry_executor *executor, ferry_call_fn fn,
                                   void *arg, const ferry_op_options *options);

/*
 * A user's function that begins something which ends later, for example a read of a file. It
 * receives a promise, which belongs to it: whoever ends what it began calls ferry_promise_resolve
 * (or ferry_promise_resolve_value) and ferry_promise_release, in this function or later, on any
 * thread. Where it may wait, and for how long: as ferry_call_fn.
 */
typedef void (*ferry_begin_fn)(void *arg, ferry_promise *promise);

/*
 * A user's function that asks what was begun to end soon. It need not wait for that end, and
 * normally does not resolve the promise itself. It runs on the loop, like a callback.
 */
typedef void (*ferry_cancel_fn)(void *arg);

/*
 * Runs begin(arg, promise) at most once, when the operation's dependencies have resolved and its
 * accesses may begin. The operation ends when begin has returned and the promise has been resolved.
 * Until then its accesses are held: no other operation that conflicts with them begins.
 *  executor  runs begin, as in ferry_call
 *  cancel    called at most once, if the operation fails after begin has started and before the
 *            promise is resolved: by ferry_future_cancel, its deadline or the shutdown. It is never
 *            called before begin has returned, nor after the future is quiet. If another thread
 *            resolves the promise at the same moment, cancel may run beside or just after that.
 *            NULL: whoever resolves the promise is not told
 *  arg       for both. Must live until the future is quiet (ferry_future_quiet)
 * If it is cancelled before begin, begin never runs, and the future is quiet at once. If it is
 * cancelled later, the future fails at once, and is quiet when the promise has been resolved and
 * cancel has returned: so a promise that nobody resolves keeps the memory, and the engine's
 * shutdown, waiting. ferry_future_issued of it resolves when begin has been handed out.
 *
 * The operation's future has the value, and the status and message, that the promise was resolved
 * with. The promise differs from that of ferry_promise_create in this: resolving it for the first
 * time returns FERRY_OK also if the operation has failed before; ferry_future_poll may answer the
 * status a moment later, when the graph has handled it; ferry_promise_future gives the operation's
 * future; ferry_promise_on_cancel refuses it.
 * Adds: the status that the promise was resolved with; FERRY_E_BROKEN_PROMISE if the promise was
 * released before.
 */
FERRY_API ferry_future *ferry_call_async(ferry_engine *engine, ferry_executor *executor,
                                         ferry_begin_fn begin, ferry_cancel_fn cancel, void *arg,
                                         const ferry_op_options *options);

/* Resolves when after[] has resolved and its accesses could begin. Adds no status. */
FERRY_API ferry_future *ferry_nop(ferry_engine *engine, const ferry_op_options *options);

/*
 * The user's executor. `post` receives a task and arranges that ferry_task_run is called on it
 * exactly once, on any thread, now or later. If post itself calls ferry_task_run, the task runs on
 * the loop like any callback. post is a callback: the thread that runs the loop calls it, for one
 * task at a time. It can't fail. The struct is borrowed: it must live until its last task has begun
 * to run; an engine's own executor (ferry_engine_options.executor) must also live until
 * ferry_engine_release has returned.
 *
 * At most ferry_engine_options.max_tasks tasks are posted and have not begun to run. Further
 * functions and waiters, and those that find no memory for a task, wait on the loop, in order.
 *
 * What happens if an executor breaks these rules:
 *  - It runs a task again: nothing happens. The run is counted and logged with the number of the
 *    task's operation (the first time, the second, the fourth...), and ferry_engine_dump shows the
 *    count. This holds while the engine's memory exists and for at least 63 later tasks, mostly for
 *    thousands; after that the run may start another task early.
 *  - It never runs a task: a call stays issued until a cancel, its deadline or the shutdown fails
 *    it, and is then quiet at once; a waiter is never called. ferry_engine_shutdown does not wait
 *    for such a task, but the task keeps the engine's memory after ferry_engine_release, and counts
 *    for max_tasks. ferry_engine_dump lists it.
 */
struct ferry_executor {
    size_t struct_size; /* sizeof(ferry_executor); other sizes are treated as in options */
    void (*post)(ferry_executor *executor, ferry_task *task);
    void *arg; /* the user's */
};

/*
 * Runs a task: calls the function of its call or waiter in the calling thread, then tells the
 * engine. Does nothing if the call was cancelled or the waiter taken back. The executor calls it
 * exactly once for each task, on any thread, also after the engine has been shut down or released.
 * The task is invalid once it has begun to run. After the shutdown this function may post functions
 * and waiters that waited for a task. NULL is allowed. Does nothing in a fork's child.
 */
FERRY_API void ferry_task_run(ferry_task *task);

/*
 * Two executors that stand for the loop's thread, for an engine that has another executor. ferry
 * never posts to them. Waiters on the inline executor are called ahead of all other waiters; for
 * calls the two are the same. Static; any thread.
 */
FERRY_API ferry_executor *ferry_executor_loop(void);
FERRY_API ferry_executor *ferry_executor_inline(void);

/*
 * An operation of a batch or a plan. Zero fields that its kind ignores.
 */
typedef struct ferry_op {
    ferry_op_kind kind;              /* FERRY_OP_COPY, _CALL, _ASYNC, _NOP, _SEND, _RECV, _GET,
                                        _PUT or _NOTICE */
    ferry_span dst;                  /* copy: target; with row_count above 1 its first row */
    ferry_span src;                  /* copy: source; likewise */
    size_t row_count;                /* copy: as in ferry_copy_rows; 0 or 1: one span */
    size_t dst_pitch_bytes;          /* copy with row_count above 1 */
    size_t src_pitch_bytes;          /* likewise */
    ferry_executor *executor;        /* call, async: as in ferry_call */
    ferry_call_fn fn;                /* call */
    void *arg;                       /* call, async */
    const ferry_op_options *options; /* for this operation alone; NULL: none */
    ferry_group *group;              /* send (span: src), recv (span: dst): message.h; notice */
    ferry_tag tag;                   /* send, recv */
    ferry_rank peer;                 /* send, recv, notice */
    uint32_t reserved;               /* zero */
    ferry_begin_fn begin;            /* async: as in ferry_call_async */
    ferry_cancel_fn cancel;          /* async */
    ferry_window *window;            /* get (span: dst), put (span: src): window.h */
    uint64_t window_offset;          /* get, put */
    const void *data;                /* notice: as in ferry_notice_send */
    size_t data_bytes;               /* notice */
} ferry_op;

/*
 * Submits several operations as if one by one in the order of the array, at a lower cost. They are
 * ordered by the spans they touch, as always; the after[] of an operation can only name futures
 * that exist before the call. If an operation is invalid or finds no room, that operation alone
 * fails; the others are submitted.
 *  ops            borrowed during the call, with all they point to; NULL if count is 0
 *  op_size_bytes  sizeof(ferry_op) in the caller's version; at most 4096. Fields beyond a smaller
 *                 size are zero; bytes beyond this version's size must be zero
 *  count          at most 2^20
 *  each           NULL, or room for count futures: receives one reference for each operation, never
 *                 NULL, that the caller releases. With NULL the operations take less memory, and
 *                 small copies that can be done at once take none
 *  options        of the batch; NULL: none. Its after[] is added to that of each operation. Its
 *                 deadline, label, user_data, queue, scope and priority are for operations that
 *                 set none. It must not name accesses. The batch itself makes no record in the
 *                 queue and does not join the scope, unless it has no operations
 * Returns one reference, never NULL, to a future that resolves like ferry_future_all of the
 * operations: FERRY_OK when all have succeeded; FERRY_E_DEPENDENCY as soon as one fails, with that
 * failure's first error as cause, while the other operations go on. ferry_future_cancel on this
 * future cancels all operations of the batch that have not resolved, also if the future has failed.
 * If the future is FERRY_OK, all operations are quiet; otherwise its ferry_future_quiet resolves
 * when they are. Without operations the future resolves when after[] has.
 *
 * Notices stand at the end of the array; one that stands before an operation of another kind is
 * refused. A notice starts when all operations before it in the array have ended well, so it tells
 * that all bytes of the batch are there, and the next notice starts when it was taken. After a
 * failure the notices behind it fail too, with FERRY_E_DEPENDENCY, and are not sent.
 *
 * The batch fails at once with FERRY_E_INVALID (also for accesses in `options`, or an invalid count
 * or op_size_bytes), FERRY_E_NO_MEMORY, FERRY_E_AGAIN, FERRY_E_SHUTDOWN or FERRY_E_FORKED. Then no
 * operation was submitted, and each[] holds futures that failed with the same status. After
 * FERRY_E_NO_MEMORY and FERRY_E_AGAIN the spans that the operations were to write are poisoned. The
 * batch fails later with FERRY_E_DEPENDENCY, FERRY_E_CANCELLED or FERRY_E_SHUTDOWN; without
 * operations it fails like ferry_nop.
 *
 * The calling thread does as much of the graph's work as it might for single submits. Other threads
 * get a turn after about 256 operations at most, so operations of another thread may come between
 * two operations of a batch.
 */
FERRY_API ferry_future *ferry_batch(ferry_engine *engine, const ferry_op *ops, size_t op_size_bytes,
                                    size_t count, ferry_future *each[],
                                    const ferry_op_options *options);

#ifdef __cplusplus
}
#endif
#endif
