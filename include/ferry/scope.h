/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scopes: operations of one purpose, for example of one request to a server, that are cancelled,
 * limited and waited for together. An operation joins by its options (ferry_op_options.scope).
 */
#ifndef FERRY_SCOPE_H
#define FERRY_SCOPE_H

#include <ferry/export.h>
#include <ferry/status.h>
#include <ferry/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Options of a scope. Initialise them with FERRY_SCOPE_OPTIONS_INIT. NULL means all defaults.
 */
typedef struct ferry_scope_options {
    size_t struct_size;        /* sizeof(ferry_scope_options) */
    int64_t deadline_ns;       /* of every operation that joins and has no earlier one:
                                  ferry_op_options.deadline_ns. 0: none */
    uint64_t bytes_per_second; /* 0: no limit. Else at most so many bytes of copies, sends,
                                  receives, gets and puts of the scope begin in a second. At
                                  most 2^60 */
    uint64_t burst_bytes;      /* with a limit: how many may begin at once after a pause. 0: what
                                  the limit allows in 10 ms. At most what it allows in an hour */
} ferry_scope_options;

#define FERRY_SCOPE_OPTIONS_INIT FERRY_SIZED_INIT(ferry_scope_options)

/*
 * Makes a scope for operations of the engine.
 *
 * The limit. An operation that moves bytes begins when the bytes that began before it have had
 * their time at the limit, less the burst. So over a long time the limit is kept to a byte; and an
 * operation that is larger than the burst begins too, and others wait the longer after it. Where
 * several wait of which the next takes less than a quarter of the burst, they begin together, up to
 * that much later: this costs fewer wake-ups, and keeps the rate. Until an operation begins, it
 * holds up nothing but operations that wait for it or for its memory: other operations pass it in
 * streams and on connections. Those who wait begin by priority, and within a priority in the order
 * in which they became READY. Other operations (calls, for example) of the scope do not wait. A
 * receive that waits is not posted; the sender waits for it as for any receive.
 *  options  borrowed during the call
 *  scope_p  receives the scope, which the caller ends with ferry_scope_release. Set only on success
 * Any thread. Returns FERRY_OK; FERRY_E_INVALID for a NULL, a wrong size or a field out of bounds
 * (also burst_bytes without a limit); FERRY_E_AGAIN (max_nodes); FERRY_E_NO_MEMORY;
 * FERRY_E_SHUTDOWN; FERRY_E_FORKED.
 */
FERRY_API ferry_status ferry_scope_create(ferry_engine *engine, const ferry_scope_options *options,
                                          ferry_scope **scope_p);

/*
 * Closes the scope: an operation that would join is refused with FERRY_E_INVALID. Any thread, also
 * more than once and beside submits of other threads. It needs no memory. Returns one reference,
 * never NULL, to a future that the caller releases, the same at each call of this function and of
 * ferry_scope_cancel. The future resolves when all operations of the scope have resolved and their
 * memory is quiet: with FERRY_OK, whether they have failed or not. It fails with FERRY_E_SHUTDOWN
 * if the shutdown of the engine comes before that. Cancelling it cancels the scope. It has failed
 * at once with FERRY_E_INVALID for NULL, or FERRY_E_FORKED.
 */
FERRY_API ferry_future *ferry_scope_close(ferry_scope *scope);

/*
 * Closes the scope and cancels its operations that have not resolved, as ferry_future_cancel of
 * each. An operation that joins later fails with FERRY_E_CANCELLED, and what it was to write is
 * poisoned, as if it had been cancelled at once. Otherwise like ferry_scope_close: so when the
 * future resolves, nothing of the scope touches memory any more.
 */
FERRY_API ferry_future *ferry_scope_cancel(ferry_scope *scope);

/* The scope's engine; NULL for NULL. Any thread, any context. */
FERRY_API ferry_engine *ferry_scope_engine(const ferry_scope *scope);

/*
 * Releases the scope; NULL is allowed. Its operations go on, with its limit. No other call with
 * this scope may be under way or follow, nor may an operation be submitted that names it. Does
 * nothing in a fork's child.
 */
FERRY_API void ferry_scope_release(ferry_scope *scope);

#ifdef __cplusplus
}
#endif
#endif
