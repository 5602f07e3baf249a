/* SPDX-License-Identifier: Apache-2.0 */
/* The reactor: a poller, and timers that are a tree by time. */
#include "net/reactor.h"

static int by_time(fry_timer *left, fry_timer *right)
{
    if (left->when_ns != right->when_ns)
        return left->when_ns < right->when_ns ? -1 : 1;
    return left->order < right->order ? -1 : left->order > right->order;
}

/* RB_GENERATE_STATIC relies on a BSD's spelling of the attribute. */
RB_GENERATE_INTERNAL(fry_timers, fry_timer, entry, by_time, static __attribute__((unused)))

ferry_status fry_reactor_open(fry_reactor *reactor, const fry_memory *memory, const fry_log *log,
                              const fry_clock *clock)
{
    *reactor =
        (fry_reactor){.poller = FRY_POLLER_CLOSED, .memory = memory, .log = log, .clock = clock};
    return fry_poller_open(&reactor->poller);
}

void fry_reactor_close(fry_reactor *reactor)
{
    fry_poller_close(&reactor->poller);
}

int64_t fry_reactor_now_ns(const fry_reactor *reactor)
{
    return fry_clock_now_ns(reactor->clock);
}

int64_t fry_reactor_next_ns(const fry_reactor *reactor)
{
    /* bsd's macros want a tree that they could change. */
    fry_timers *timers = (fry_timers *)(uintptr_t)&reactor->timers;
    const fry_timer *first = RB_MIN(fry_timers, timers);

    return first != NULL ? first->when_ns : INT64_MAX;
}

/*
 * Has the wait end when the first timer is due. While the loop runs that is left to its end. What
 * is due already ends it by a wake, for the price of a write: a kernel timer that is set to the
 * past costs an interrupt.
 */
static void set_kernel_timer(fry_reactor *reactor)
{
    const int64_t next_ns = fry_reactor_next_ns(reactor);

    if (reactor->is_running || !reactor->clock->is_real)
        return;
    if (next_ns == INT64_MAX) {
        fry_poller_set_timer(&reactor->poller, 0);
    } else if (next_ns > fry_reactor_now_ns(reactor)) {
        fry_poller_set_timer(&reactor->poller, next_ns);
    } else if (!reactor->is_woken) {
        reactor->is_woken = true;
        fry_poller_wake(&reactor->poller);
    }
}

void fry_timer_set(fry_reactor *reactor, fry_timer *timer, int64_t when_ns)
{
    if (timer->is_on)
        RB_REMOVE(fry_timers, &reactor->timers, timer);
    timer->when_ns = when_ns;
    timer->order = reactor->timer_order++;
    timer->is_on = true;
    RB_INSERT(fry_timers, &reactor->timers, timer);
    set_kernel_timer(reactor);
}

void fry_timer_stop(fry_reactor *reactor, fry_timer *timer)
{
    if (!timer->is_on)
        return;
    RB_REMOVE(fry_timers, &reactor->timers, timer);
    timer->is_on = false;
    set_kernel_timer(reactor);
}

/* Only those that were due when it began: one that sets itself anew does not keep the loop. */
static size_t run_timers(fry_reactor *reactor)
{
    const int64_t now_ns = fry_reactor_now_ns(reactor);
    const uint64_t until = reactor->timer_order;
    size_t done = 0;

    for (;;) {
        fry_timer *timer = RB_MIN(fry_timers, &reactor->timers);

        if (timer == NULL || timer->when_ns > now_ns || timer->order >= until)
            break;
        RB_REMOVE(fry_timers, &reactor->timers, timer);
        timer->is_on = false;
        timer->fn(timer);
        done++;
    }
    return done;
}

size_t fry_reactor_run(fry_reactor *reactor, int64_t timeout_ns)
{
    reactor->is_running = true;
    reactor->is_woken = false;
    const int count = fry_poller_wait(&reactor->poller, timeout_ns);
    size_t done = (size_t)(count > 0 ? count : 0);
    done += run_timers(reactor);
    reactor->is_running = false;
    set_kernel_timer(reactor);
    return done;
}
