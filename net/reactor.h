/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The base of everything in net/: timers, and a poller for watches. Both are used by one thread at
 * a time, the holder of the engine's loop role, and call back without the engine's baton. The owner
 * waits on the poller, looks at fry_reactor_next_ns before that, and runs the reactor at that time.
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
    fry_poller *poller; /* borrowed: net/ adds its watches to it */
    const fry_memory *memory;
    const fry_log *log;
    const fry_clock *clock;
    fry_timers timers;
    uint64_t timer_order;
} fry_reactor;

/* Poller, memory, log and clock are borrowed as long as the reactor is used. */
void fry_reactor_init(fry_reactor *reactor, fry_poller *poller, const fry_memory *memory,
                      const fry_log *log, const fry_clock *clock);

/* Runs the timers that are due, in their order. Returns how many. The loop. */
size_t fry_reactor_run(fry_reactor *reactor);

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
