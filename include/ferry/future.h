/* SPDX-License-Identifier: Apache-2.0 */
/* Futures, waiters and promises. */
#ifndef FERRY_FUTURE_H
#define FERRY_FUTURE_H

#include <ferry/export.h>
#include <ferry/status.h>
#include <ferry/types.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The future's status if it has resolved, else FERRY_PENDING; FERRY_E_INVALID for NULL. A thread
 * that has seen FERRY_OK sees what the operation wrote. Makes no progress. Any thread, any context.
 */
FERRY_API ferry_status ferry_future_poll(const ferry_future *future);

/*
 * Waits until the future resolves. After a timeout the operation goes on.
 *  timeout_ns  relative, by CLOCK_MONOTONIC; negative: for ever; 0: like ferry_future_poll
 * Blocks. The waiting thread does work on the graph, but runs no callbacks. In embedded mode the
 * thread acts as the loop while it waits: it runs functions, free_fn and hooks, and leaves waiters
 * to the next ferry_engine_progress. Returns the future's status; FERRY_PENDING after the timeout;
 * FERRY_E_DEADLOCK in a callback of the future's engine, unless the future has resolved or
 * timeout_ns is 0; FERRY_E_INVALID for NULL; FERRY_E_FORKED, unless the future has resolved. A
 * pthread_cancel of the waiting thread takes effect after the call has returned.
 */
FERRY_API ferry_status ferry_future_wait(ferry_future *future, int64_t timeout_ns);

/*
 * Asks for the operation to stop. The loop carries out the request. The future still resolves
 * exactly once: with FERRY_E_CANCELLED, or with the status that came first. A resolved future need
 * not be quiet: a copy under way stops after the next few MiB, and a function runs to its end.
 *
 * Cancelling a batch cancels all its operations that have not resolved, the newest first. The
 * errors of their futures name the batch's cancel as cause. The batch's future resolves when all
 * these operations have resolved: once it is cancelled, none of them begins any more. Cancelling a
 * batch that has already failed stops those of its operations that still run. The loop does this
 * in pieces of less than a millisecond.
 *
 * Cancelling ferry_future_all, _any, _issued, _quiet or a drain cancels that future alone, not the
 * operations that it waits for. Cancelling a promise's future resolves that future.
 * Returns FERRY_OK, also if the future has resolved; FERRY_E_INVALID for NULL; FERRY_E_FORKED.
 */
FERRY_API ferry_status ferry_future_cancel(ferry_future *future);

/* Adds a reference, which the caller releases. Returns future; NULL for NULL. */
FERRY_API ferry_future *ferry_future_retain(ferry_future *future);

/*
 * Releases a reference; NULL is allowed. Never cancels the operation. If the engine has been
 * released, releasing its last handle frees the engine's memory. Does nothing in a fork's child.
 */
FERRY_API void ferry_future_release(ferry_future *future);

/*
 * Why the future failed; NULL while it is pending, on success, and for NULL. The error's status is
 * the future's. The caller borrows the error until the future's last reference is released. ferry
 * makes the error at the first call; every later call returns the same error. If there is no memory
 * for it, or if the first call is in a fork's child, the error holds the status alone.
 */
FERRY_API const ferry_error *ferry_future_error(const ferry_future *future);

/*
 * The operation's number, as in errors and traces. Unique in its engine; numbers do not follow
 * program order. 0 for a future that failed at submit, and for NULL.
 */
FERRY_API uint64_t ferry_future_id(const ferry_future *future);

/*
 * The value of a future: that of ferry_group_get and its like, the ranks of ferry_group_alive, what
 * ferry_promise_resolve_value gave it, or the notice of ferry_notice_next. Borrowed until the
 * future's last reference is released. Later versions may add fields at the end.
 */
typedef struct ferry_value {
    size_t struct_size; /* sizeof(ferry_value), set by the caller */
    const void *data;   /* followed by a zero byte, which size_bytes does not count */
    size_t size_bytes;
    uint64_t version; /* grows with every change of the key; 0: there is no key. For
                         ferry_group_alive: grows with each round; the same for all members. 0 for
                         a promise and a notice */
} ferry_value;

#define FERRY_VALUE_INIT FERRY_SIZED_INIT(ferry_value)

/*
 * Fills `value`, up to its struct_size. Any thread, any context. Returns FERRY_OK;
 * FERRY_E_NOT_FOUND if the future has no value or has not resolved FERRY_OK; FERRY_E_INVALID for a
 * NULL or an invalid struct_size.
 */
FERRY_API ferry_status ferry_future_value(const ferry_future *future, ferry_value *value);

/*
 * The future's engine, which may be used until its ferry_engine_release; NULL for NULL, and for a
 * future that belongs to no engine, because the call that made it was given none. Any thread, any
 * context.
 */
FERRY_API ferry_engine *ferry_future_engine(const ferry_future *future);

typedef struct ferry_waiter ferry_waiter;

/*
 * Called once, on the waiter's executor, after the future has resolved. `future` is borrowed. The
 * waiter belongs to the user again: the function may register it again or free it.
 */
typedef void (*ferry_ready_fn)(ferry_waiter *waiter, ferry_future *future, ferry_status status);

/*
 * A callback on a future. The caller owns the memory of the waiter, so registering never fails for
 * lack of memory. The waiter must stay in place until its callback has begun or ferry_waiter_remove
 * has returned true, and during each call of ferry_waiter_remove. Set fn, arg and executor, and
 * zero the rest (FERRY_WAITER_INIT).
 */
struct ferry_waiter {
    ferry_ready_fn fn;
    void *arg;                /* the user's */
    ferry_executor *executor; /* NULL: the engine's, which is the loop by default; borrowed until
                                 the waiter's task has begun to run */
    struct {
        struct ferry_waiter *next, *previous;
        ferry_future *future;
        uint32_t state;
    } private_;
};

#ifdef __cplusplus
extern "C++" inline ferry_waiter ferry_waiter_init(ferry_ready_fn fn, void *arg)
{
    ferry_waiter waiter = ferry_waiter();
    waiter.fn = fn;
    waiter.arg = arg;
    return waiter;
}
#define FERRY_WAITER_INIT(fn_, arg_) ferry_waiter_init((fn_), (arg_))
#else
#define FERRY_WAITER_INIT(fn_, arg_)                                                               \
    {                                                                                              \
        .fn = (fn_), .arg = (arg_)                                                                 \
    }
#endif

/*
 * Registers a waiter: waiter->fn is called once, when the future has resolved or if it has already
 * resolved. It is never called inside this call, with two exceptions: the future belongs to no
 * engine (it failed because the engine was NULL or a parent process's), or the engine has been shut
 * down. Waiters of one future with the same executor are called oldest first. The future is
 * retained until the callback has returned. Returns FERRY_OK; FERRY_E_INVALID for a NULL, a NULL
 * fn, an executor without post, or a waiter that is in use; FERRY_E_FORKED.
 */
FERRY_API ferry_status ferry_future_on_ready(ferry_future *future, ferry_waiter *waiter);

/*
 * Takes a waiter back. True: its fn will not be called, and the memory belongs to the caller again.
 * False: the callback has run, is running or will run; or the waiter was never registered; or it
 * was one of ferry_promise_on_cancel, and the promise was resolved; or this is a fork's child. How
 * late a callback can be prevented depends on the calling thread:
 *  - On the loop (in a callback, function, free_fn, hook or post of the engine, or of another
 *    engine that runs inside one of these): until the callback has begun. If the waiter's task has
 *    been posted, the executor must still run the task, which then does nothing. So destroy an
 *    object that a callback uses on the loop.
 *  - In another thread: until the future has resolved. In embedded and attached mode, and after the
 *    shutdown, the rule for the loop holds if no other thread is running callbacks or making
 *    progress at that moment.
 * The caller holds a reference to the future and keeps the waiter in place during the call. The
 * call may wait briefly for another thread that is resolving the future or removing another waiter;
 * it waits for no callback.
 */
FERRY_API bool ferry_waiter_remove(ferry_waiter *waiter);

/*
 * A future for all of `futures`. It resolves FERRY_OK when all have succeeded. As soon as one of
 * them fails it resolves FERRY_E_DEPENDENCY, with that failure's first error as cause. It is quiet
 * (ferry_future_quiet) when all of them are, and counts for max_nodes until then. The call borrows
 * the array and the futures. With count 0 the future resolves at once.
 *  futures  all of `engine`, none NULL
 *  count    at most 2^20, and at most a quarter of max_edges
 * Never NULL; one reference for the caller. Fails at once with FERRY_E_INVALID, FERRY_E_NO_MEMORY,
 * FERRY_E_AGAIN, FERRY_E_SHUTDOWN, FERRY_E_FORKED. Later also with FERRY_E_CANCELLED,
 * FERRY_E_SHUTDOWN.
 */
FERRY_API ferry_future *ferry_future_all(ferry_engine *engine, ferry_future *const *futures,
                                         size_t count);

/*
 * A future for the first of `futures` that resolves: FERRY_OK if that one succeeds, else
 * FERRY_E_DEPENDENCY with its first error as cause. If several have resolved when the new future
 * takes its place in program order, a failed one among them decides. count is at least 1. Otherwise
 * like ferry_future_all.
 */
FERRY_API ferry_future *ferry_future_any(ferry_engine *engine, ferry_future *const *futures,
                                         size_t count);

/*
 * A future that resolves FERRY_OK when the operation is issued: when a copy has been queued in its
 * stream, when a function has been handed out, when a message may touch its memory, and when any
 * other operation has succeeded. A receive into the memory of a device is issued when the copies
 * that bring its bytes there have been queued: what comes behind it can then wait on the device. If
 * a copy found its stream full, that is when the receive has succeeded. If the operation fails
 * before it is issued, the future fails with FERRY_E_DEPENDENCY and the operation's failure as
 * cause. One reference for the caller; never NULL. Otherwise fails like ferry_future_all; after the
 * shutdown has begun it fails at once with FERRY_E_SHUTDOWN.
 */
FERRY_API ferry_future *ferry_future_issued(ferry_future *future);

/*
 * A future that resolves FERRY_OK when `future` is quiet, whatever the status of `future`: neither
 * ferry nor a device nor another member will touch its memory again. The memory of a future is
 *  - for an operation: what the operation reads and writes;
 *  - for a batch: the memory of all its operations; for ferry_future_all: the memory of all futures
 *    that it was given. This also holds if the batch or future failed early or was cancelled;
 *  - for ferry_future_any, _issued, _quiet, a drain and a promise: none. Such a future is quiet
 *    when it has resolved, and that says nothing about the futures that it was made of.
 * One reference for the caller; never NULL. Otherwise fails like ferry_future_all, but never with
 * FERRY_E_DEPENDENCY. After the shutdown has begun it fails at once with FERRY_E_SHUTDOWN. So call
 * it before the shutdown; after a shutdown that succeeded every operation is quiet.
 */
FERRY_API ferry_future *ferry_future_quiet(ferry_future *future);

/*
 * Makes a promise. Its future (ferry_promise_future) resolves when the caller resolves the promise.
 * The promise belongs to the caller, who releases it with ferry_promise_release. It counts for
 * max_nodes. Returns FERRY_OK; FERRY_E_INVALID for a NULL; FERRY_E_NO_MEMORY; FERRY_E_AGAIN;
 * FERRY_E_SHUTDOWN; FERRY_E_FORKED. promise_p is set only on success.
 */
FERRY_API ferry_status ferry_promise_create(ferry_engine *engine, ferry_promise **promise_p);

/*
 * The promise's future, with one reference for the caller. Never NULL: for a NULL promise the
 * future has failed with FERRY_E_INVALID, in a fork's child with FERRY_E_FORKED.
 */
FERRY_API ferry_future *ferry_promise_future(ferry_promise *promise);

/*
 * Resolves the promise's future in the calling thread. After this call has returned FERRY_OK,
 * ferry_future_poll answers the status. If another thread resolves the future first, this call
 * fails and does not wait for that thread: the future has resolved or is about to. Operations that
 * wait for the future start in this call or on the loop; callbacks never run in this call.
 *  status   FERRY_OK or a negative status, which may be a number of the user's own. If there is no
 *           memory for an error that holds the number, a process can keep 256 different numbers;
 *           with a further number the future fails with FERRY_E_FAILED
 *  message  text of the error; copied, and cut at about 200 bytes; NULL: none; ignored with
 *           FERRY_OK
 * Returns FERRY_OK; FERRY_E_INVALID if the promise was already resolved (nothing changes), for a
 * positive status, or for NULL; FERRY_E_CANCELLED or FERRY_E_SHUTDOWN if ferry_future_cancel or the
 * shutdown came first; FERRY_E_FORKED.
 */
FERRY_API ferry_status ferry_promise_resolve(ferry_promise *promise, ferry_status status,
                                             const char *message);

/*
 * Resolves the promise's future with FERRY_OK and a value, which ferry_future_value returns.
 *  data        copied; NULL is allowed if size_bytes is 0
 *  size_bytes  at most 65536; larger results belong into a buffer
 * Returns the same as ferry_promise_resolve; FERRY_E_INVALID also for a size above the limit, and
 * FERRY_E_NO_MEMORY if there is no memory for the copy: then the promise has not been resolved.
 */
FERRY_API ferry_status ferry_promise_resolve_value(ferry_promise *promise, const void *data,
                                                   size_t size_bytes);

/*
 * Registers a waiter that is called once if the promise's future fails before the promise is
 * resolved: because of ferry_future_cancel or the shutdown. So whoever works for the promise can
 * stop. It is called like a waiter of ferry_future_on_ready, with the promise's future and its
 * status, also if the future has already failed so. ferry_waiter_remove takes it back. When
 * ferry_promise_resolve, ferry_promise_resolve_value or ferry_promise_release has resolved the
 * promise, the waiter will not be called, and its memory belongs to the caller again.
 * A promise has one such waiter at a time. The waiter keeps the future until its callback has
 * returned or it is taken back. Returns FERRY_OK; FERRY_E_INVALID for a NULL, a NULL fn, an
 * executor without post, a waiter that is in use, a promise that was resolved or has such a waiter;
 * FERRY_E_UNSUPPORTED for the promise of ferry_call_async, which has a function for that;
 * FERRY_E_FORKED.
 */
FERRY_API ferry_status ferry_promise_on_cancel(ferry_promise *promise, ferry_waiter *waiter);

/*
 * Releases the promise. If it has not been resolved, its future fails with FERRY_E_BROKEN_PROMISE.
 * NULL is allowed. Does nothing in a fork's child.
 */
FERRY_API void ferry_promise_release(ferry_promise *promise);

#ifdef __cplusplus
}
#endif
#endif
