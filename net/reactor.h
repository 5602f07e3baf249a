/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What everything in net/ runs on: watches, timers and jobs, called by one thread at a time, the
 * holder of an engine's loop role, which sleeps on the poller's descriptor among others. Nothing
 * here is called with the engine's baton. A test may drive a reactor by itself.
 */
#ifndef FRY_NET_REACTOR_H
#define FRY_NET_REACTOR_H

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/poller.h"
#include "base/stack.h"

#include <bsd/sys/tree.h>

typedef struct fry_timer fry_timer;
typedef struct fry_job fry_job;

/* Once its time has come; the timer is off then, and may be set again or freed. */
typedef void (*fry_timer_fn)(fry_timer *timer);

/* The caller owns the memory and keeps it until the timer is off. Zeroed: off. */
struct fry_timer {
    fry_timer_fn fn;
    void *arg;
    int64_t when_ns; /* private, as what follows */
    uint64_t order;  /* of those for one moment the one that was set first is first */
    RB_ENTRY(fry_timer) entry;
    bool is_on;
};

/* Runs once for each post, on the loop; the job may be posted again from then on, or freed. */
typedef void (*fry_job_fn)(fry_job *job);

/* The caller owns the memory and keeps it until the job has run. */
struct fry_job {
    fry_link link;
    fry_job_fn fn;
    void *arg;
};

typedef struct fry_timers {
    fry_timer *rbh_root;
} fry_timers; /* as bsd's RB_HEAD has it */

typedef struct fry_reactor {
    fry_poller poller; /* add watches to it, on the loop */
    const fry_memory *memory;
    const fry_log *log;
    const fry_clock *clock;
    fry_timers timers;
    uint64_t timer_order;
    bool is_running; /* callbacks are being called */
    bool is_woken;   /* since the last run, for a timer that is due */
    fry_stack jobs;
} fry_reactor;

/*
 * What is borrowed lives as long as the reactor. FERRY_OK, or FERRY_E_SYSTEM with errno set: then
 * nothing is left open.
 */
ferry_status fry_reactor_open(fry_reactor *reactor, const fry_memory *memory, const fry_log *log,
                              const fry_clock *clock);

/* Nothing may be watched, set or posted any more. */
void fry_reactor_close(fry_reactor *reactor);

/*
 * Waits up to timeout_ns (0: only looks; negative: for ever) and runs what is due. With a user's
 * clock timers don't end the wait: only a look finds them due. The loop. Returns how much ran.
 */
size_t fry_reactor_run(fry_reactor *reactor, int64_t timeout_ns);

/* The loop's clock; timers go by it. */
int64_t fry_reactor_now_ns(const fry_reactor *reactor);

/* Sets a timer that is off, or on, to an absolute time on the reactor's clock. The loop. */
void fry_timer_set(fry_reactor *reactor, fry_timer *timer, int64_t when_ns);

/* Switches it off, if it is on: it will not be called. The loop. */
void fry_timer_stop(fry_reactor *reactor, fry_timer *timer);

/* When the first timer is due; INT64_MAX: none is on. The loop. */
int64_t fry_reactor_next_ns(const fry_reactor *reactor);

/*
 * Has a job run by the loop, soon, in the order of the posts. Any thread; allocates nothing and
 * never blocks. A job that is posted already must not be posted again until it runs.
 */
void fry_reactor_post(fry_reactor *reactor, fry_job *job);

#endif
