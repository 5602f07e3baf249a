/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An eventcount: a thread sleeps until a condition holds, which it reads without a lock.
 *
 *     sleeper                                  notifier
 *     key = prepare()    (sleepers += 1)       make it true
 *     look again; if true: cancel()            notify():  barrier; if sleepers: epoch += 1, wake
 *     else commit(key)   (sleeps while epoch == key)
 *
 * No notify is missed. Prepare and notify are full barriers (prepare's second load is seq_cst, so
 * no later look passes it, and it does not pass the count), so either the notifier sees the sleeper
 * and moves epoch past key, and commit does not sleep or is woken; or the sleeper's second look
 * sees the condition true. sleeper.pml beside this checks it. A notify without sleepers costs a
 * barrier and a load.
 */
#ifndef FRY_BASE_EVENTCOUNT_H
#define FRY_BASE_EVENTCOUNT_H

#include "base/lf.h"

typedef struct fry_eventcount {
    uint32_t epoch;    /* the word that sleepers sleep on */
    uint32_t sleepers; /* threads between prepare and the end of cancel or commit */
} fry_eventcount;

static inline uint32_t fry_eventcount_prepare(fry_eventcount *eventcount)
{
    (void)fry_fetch_add(&eventcount->sleepers, 1);
    return fry_load_seq_cst(&eventcount->epoch);
}

static inline void fry_eventcount_cancel(fry_eventcount *eventcount)
{
    (void)fry_fetch_sub(&eventcount->sleepers, 1);
}

/*
 * Sleeps until a notify after prepare gave `key`, or for timeout_ns (relative; negative: for ever).
 * May return early for no reason, so the caller looks again.
 */
void fry_eventcount_commit(fry_eventcount *eventcount, uint32_t key, int64_t timeout_ns);

void fry_eventcount_wake(fry_eventcount *eventcount, int32_t count);

/* Wakes up to `count` sleepers, if there are any. A full barrier first; pairs with prepare. */
static inline void fry_eventcount_notify(fry_eventcount *eventcount, int32_t count)
{
    fry_fence();
    if (fry_unlikely(fry_load_relaxed(&eventcount->sleepers) != 0))
        fry_eventcount_wake(eventcount, count);
}

#endif
