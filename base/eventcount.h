/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An eventcount: sleeping until something is there, where looking for it takes no lock.
 *
 *     sleeper                                  notifier
 *     key = prepare()    (sleepers += 1)       make it true
 *     look again; if true: cancel()            notify():  barrier; if sleepers: epoch += 1, wake
 *     else commit(key)   (sleeps while epoch == key)
 *
 * Nothing is missed: prepare and notify are full barriers, so either the notifier sees the sleeper
 * (and moves epoch past key, so that commit does not sleep or is woken), or the sleeper's second
 * look sees what was made true. eventcount.pml beside this checks it. A notify with nobody asleep
 * costs a barrier and a load.
 */
#ifndef FRY_BASE_EVENTCOUNT_H
#define FRY_BASE_EVENTCOUNT_H

#include "base/lf.h"

typedef struct fry_eventcount {
    uint32_t epoch;    /* what sleepers sleep on */
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
 * Sleeps until notified after prepare gave `key`, or timeout_ns (relative, negative for ever) has
 * passed. May return early for no reason: look again.
 */
void fry_eventcount_commit(fry_eventcount *eventcount, uint32_t key, int64_t timeout_ns);

void fry_eventcount_wake(fry_eventcount *eventcount, int32_t count);

/* Wakes up to `count` sleepers, if there are any. Full barrier first: pairs with prepare. */
static inline void fry_eventcount_notify(fry_eventcount *eventcount, int32_t count)
{
    fry_fence();
    if (fry_unlikely(fry_load_relaxed(&eventcount->sleepers) != 0))
        fry_eventcount_wake(eventcount, count);
}

#endif
