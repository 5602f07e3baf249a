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
 * The status if resolved, else FERRY_PENDING. FERRY_E_INVALID for NULL. What the operation wrote is
 * visible to a thread that saw FERRY_OK here. Makes no progress. Any thread, any context.
 */
FERRY_API ferry_status ferry_future_poll(const ferry_future *future);

/*
 * Waits until the future resolves. The operation goes on if the wait gives up.
 *  timeout_ns  relative, by CLOCK_MONOTONIC; negative: for ever; 0: like poll
 * Blocks. Meanwhile the thread does work of the graph's that it finds; it runs no callback. In
 * embedded mode it is the loop while it waits: it runs functions, free_fn and hooks, and leaves
 * waiters to the next ferry_engine_progress. Returns the future's status; FERRY_PENDING on timeout;
 * FERRY_E_DEADLOCK in a callback of the future's engine (unless already resolved, or timeout_ns is
 * 0); FERRY_E_INVALID for NULL; FERRY_E_FORKED (unless already resolved). A pthread_cancel of the
 * thread takes effect after it has returned.
 */
FERRY_API ferry_status ferry_future_wait(ferry_future *future, int64_t timeout_ns);

/*
 * Asks for the operation to stop. A request, carried out by the loop: the future still resolves
 * once, with FERRY_E_CANCELLED or with what came first. Resolved does not mean quiet: a copy that
 * is under way stops at the next few MiB, a function runs to its end.
 *
 * With a batch all its operations that have not resolved are cancelled, the newest first; the
 * errors of their futures name the batch's cancel as cause. The batch's future resolves when they
 * have: who sees it cancelled knows that none of them begins any more. One that has failed already
 * may be cancelled too, which stops those of its operations that go on. The loop does it in pieces
 * of less than a millisecond. Of ferry_future_all, _any, _issued, _quiet and a drain only they
 * themselves are cancelled; a promise's future resolves.
 * Returns FERRY_OK (also if already resolved), FERRY_E_INVALID for NULL, FERRY_E_FORKED.
 */
FERRY_API ferry_status ferry_future_cancel(ferry_future *future);

/* One more reference, for the caller to release. Returns future; NULL for NULL. */
FERRY_API ferry_future *ferry_future_retain(ferry_future *future);

/*
 * Gives a reference back; NULL is allowed. Never cancels. The last one of a released engine frees
 * its memory. In a fork's child it does nothing.
 */
FERRY_API void ferry_future_release(ferry_future *future);

/*
 * Why it failed; NULL while pending, on success, and for NULL. Its status is the future's. Borrowed
 * until the future's last reference is released. Made when first asked for: without memory for it,
 * or first in a fork's child, one that only has the status. Whoever asks, and whenever, gets the
 * same one.
 */
FERRY_API const ferry_error *ferry_future_error(ferry_future *future);

/*
 * Number of the operation in errors and traces: unique in its engine, not in program order. 0 for a
 * future that failed at submit, and for NULL.
 */
FERRY_API uint64_t ferry_future_id(const ferry_future *future);

typedef struct ferry_waiter ferry_waiter;

/*
 * Called once on the waiter's executor after the future has resolved. `future` is borrowed. The
 * waiter is the user's again: it may be registered anew or freed in here.
 */
typedef void (*ferry_ready_fn)(ferry_waiter *waiter, ferry_future *future, ferry_status status);

/*
 * A callback on a future. The caller owns the memory, so registering can't fail for want of it; it
 * must stay in place until the callback has begun or ferry_waiter_remove has answered true, and
 * while that is being called. Set fn, arg and executor; zero the rest (FERRY_WAITER_INIT).
 */
struct ferry_waiter {
    ferry_ready_fn fn;
    void *arg;                /* the user's */
    ferry_executor *executor; /* NULL: the engine's, by default the loop; borrowed until its task
                                 has begun to run */
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
 * Has waiter->fn called once when the future has resolved, also if it already has. Not inside this
 * call, with two exceptions: a future that belongs to no engine (it failed because the engine was
 * NULL or a parent process's), and an engine that has been shut down. Waiters of one future with
 * the same executor are called oldest first. The future is retained until the callback returned.
 * Returns FERRY_OK; FERRY_E_INVALID: NULL, no fn, an executor without post, or the waiter is in
 * use; FERRY_E_FORKED.
 */
FERRY_API ferry_status ferry_future_on_ready(ferry_future *future, ferry_waiter *waiter);

/*
 * Takes a waiter back. True: its fn will not be called and the memory is the caller's again. False:
 * the callback has run, is running, or can't be kept from it any more; or the waiter was never
 * registered, or this is a fork's child. When it can't:
 *  on the loop (in a callback, a function, free_fn, hook or post of the engine, or of another
 * engine that was made to run inside one): only when it has begun. One that is due, waits for a
 * task or was posted is taken back; an executor must run the task of a posted one all the same, and
 * that does nothing. So who destroys what a callback would go on with does so on the loop
 *  elsewhere: also when the future has resolved; but in embedded and attached mode, and after the
 *    shutdown, it is as on the loop if no other thread is at callbacks or makes progress just now
 * The caller holds a reference to the future and keeps the waiter in place meanwhile. May wait a
 * moment for another thread that resolves the future, or takes another waiter back, just now; for
 * no callback.
 */
FERRY_API bool ferry_waiter_remove(ferry_waiter *waiter);

/*
 * Resolves when all have resolved: FERRY_OK if all succeeded; as soon as one failed, with
 * FERRY_E_DEPENDENCY and that one's root as cause. It is quiet (ferry_future_quiet) when all are,
 * and uses one of max_nodes until then. The array and futures are borrowed; count 0 resolves at
 * once.
 *  futures  all of `engine`, none NULL
 *  count    at most 2^20, and a quarter of max_edges
 * Never NULL; one reference for the caller. Fails at once: FERRY_E_INVALID, FERRY_E_NO_MEMORY,
 * FERRY_E_AGAIN, FERRY_E_SHUTDOWN, FERRY_E_FORKED. Later also: FERRY_E_CANCELLED, FERRY_E_SHUTDOWN.
 */
FERRY_API ferry_future *ferry_future_all(ferry_engine *engine, ferry_future *const *futures,
                                         size_t count);

/*
 * Resolves as soon as one has resolved: FERRY_OK if that one succeeded, else FERRY_E_DEPENDENCY
 * with its root as cause. Of several that have resolved when this takes its place in program order,
 * one that failed counts. count is at least 1. Otherwise like ferry_future_all.
 */
FERRY_API ferry_future *ferry_future_any(ferry_engine *engine, ferry_future *const *futures,
                                         size_t count);

/*
 * A future that resolves FERRY_OK when the operation is issued (it stands in its stream, its
 * function was handed out; for all others: when it has succeeded), or with FERRY_E_DEPENDENCY and
 * the operation's failure as cause if it never was. A reference of its own; never NULL. Fails
 * otherwise like ferry_future_all, FERRY_E_SHUTDOWN at once after the shutdown began.
 */
FERRY_API ferry_future *ferry_future_issued(ferry_future *future);

/*
 * A future that resolves FERRY_OK when what `future` stands for is quiet, whatever its status:
 * neither ferry nor a device nor another member will touch that memory again. That is
 *  - of an operation: the memory that it reads and writes;
 *  - of a batch: that of all its operations, and of ferry_future_all: what all the futures stand
 *    for that it was given; also if it failed as soon as one of them did, or was cancelled;
 *  - of ferry_future_any, _issued, _quiet, a drain and a promise: none. They are quiet as soon as
 *    they have resolved, which says nothing of what they were made of.
 * A reference of its own; never NULL. Fails otherwise like ferry_future_all (but never with
 * FERRY_E_DEPENDENCY), FERRY_E_SHUTDOWN at once after the shutdown began: ask before, or take a
 * shutdown that succeeded for the answer.
 */
FERRY_API ferry_future *ferry_future_quiet(ferry_future *future);

/*
 * Makes a promise. Its future (ferry_promise_future) resolves when the promise is resolved. The
 * promise belongs to the caller: release it with ferry_promise_release. It counts as one of
 * max_nodes. Returns FERRY_OK; FERRY_E_INVALID for a NULL; FERRY_E_NO_MEMORY; FERRY_E_AGAIN;
 * FERRY_E_SHUTDOWN; FERRY_E_FORKED; promise_p is set only on success.
 */
FERRY_API ferry_status ferry_promise_create(ferry_engine *engine, ferry_promise **promise_p);

/*
 * The promise's future, with a reference of its own. Never NULL: a future failed with
 * FERRY_E_INVALID for NULL, with FERRY_E_FORKED in a fork's child.
 */
FERRY_API ferry_future *ferry_promise_future(ferry_promise *promise);

/*
 * Resolves the promise's future, exactly once, in the calling thread: after FERRY_OK the status is
 * visible to ferry_future_poll. Where another thread came first the answer says so, and this call
 * does not wait for that thread: the future is resolved by then or in a moment. What waits for it
 * starts here or on the loop; callbacks never run in here.
 *  status   FERRY_OK or a negative status, also a number of the user's own. Without memory for an
 *           error that says it there is room for 256 such numbers in a process; with a further one
 *           the future then fails with FERRY_E_FAILED
 *  message  copied, cut at about 200 bytes; NULL none; of use with a failure only
 * Returns FERRY_OK; FERRY_E_INVALID if it was already resolved (nothing changes), for a positive
 * status, or for NULL; FERRY_E_CANCELLED or FERRY_E_SHUTDOWN if ferry_future_cancel or the shutdown
 * came first; FERRY_E_FORKED.
 */
FERRY_API ferry_status ferry_promise_resolve(ferry_promise *promise, ferry_status status,
                                             const char *message);

/*
 * Gives the promise back; unresolved, its future fails with FERRY_E_BROKEN_PROMISE. NULL is
 * allowed. In a fork's child it does nothing.
 */
FERRY_API void ferry_promise_release(ferry_promise *promise);

#ifdef __cplusplus
}
#endif
#endif
