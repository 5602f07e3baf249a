/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The base of everything in net/: watches and timers. One thread at a time uses them, the holder of
 * the engine's loop role, which also sleeps on the poller's descriptor. Nothing here is called with
 * the engine's baton. A test may drive a reactor by itself.
 */
#ifndef FRY_NET_REACTOR_H
#define FRY_NET_REACTOR_H

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/poller.h"
#include "base/timers.h"

typedef struct fry_timer fry_timer;

/* Called once its time has come. The timer is off then, and may be set again or freed. */
typedef void (*fry_timer_fn)(fry_timer *timer);

/* The caller owns the memory and keeps it until the timer is off. Zeroed: off. */
struct fry_timer {
    fry_timers_link link; /* private; first, so that a link is its timer */
    uint64_t order;       /* orders timers for one moment: the one set first is first */
    fry_timer_fn fn;
    void *arg;
    bool is_on;
};

typedef struct fry_reactor {
    fry_poller poller; /* the loop may add watches to it */
    const fry_memory *memory;
    const fry_log *log;
    const fry_clock *clock;
    fry_timers timers;
    uint64_t timer_order;
    bool is_running; /* callbacks are being called */
    bool is_woken;   /* woken since the last run, for a timer that is due */
} fry_reactor;

/*
 * Memory, log and clock are borrowed until the reactor is closed. FERRY_OK, or FERRY_E_SYSTEM with
 * errno set: then nothing is left open.
 */
ferry_status fry_reactor_open(fry_reactor *reactor, const fry_memory *memory, const fry_log *log,
                              const fry_clock *clock);

/* No watch may be added and no timer on. */
void fry_reactor_close(fry_reactor *reactor);

/*
 * Waits up to timeout_ns (0: only looks; negative: for ever) and runs what is due. Returns how much
 * ran. With a user's clock timers don't end the wait: only a look finds them due. The loop.
 */
size_t fry_reactor_run(fry_reactor *reactor, int64_t timeout_ns);

/* The loop's clock; timers go by it. */
int64_t fry_reactor_now_ns(const fry_reactor *reactor);

/* Sets a timer, on or off, to an absolute time on the reactor's clock. The loop. */
void fry_timer_set(fry_reactor *reactor, fry_timer *timer, int64_t when_ns);

/* Sets a timer to now: it is called in the loop's next round, on a user's clock too. The loop. */
void fry_timer_set_soon(fry_reactor *reactor, fry_timer *timer);

/* Switches a timer off, if it is on: it will not be called. The loop. */
void fry_timer_stop(fry_reactor *reactor, fry_timer *timer);

/* When the first timer is due; INT64_MAX: none is on. The loop. */
int64_t fry_reactor_next_ns(const fry_reactor *reactor);

#endif
