/* SPDX-License-Identifier: Apache-2.0 */
#include "net/reactor.h"

static bool was_set_before(const fry_timers_link *left, const fry_timers_link *right)
{
    return ((const fry_timer *)left)->order < ((const fry_timer *)right)->order;
}

static void add(fry_reactor *reactor, fry_timer *timer)
{
    timer->is_on = true;
    fry_timers_add(&reactor->timers, &timer->link, was_set_before);
}

static void take_off(fry_reactor *reactor, fry_timer *timer)
{
    timer->is_on = false;
    fry_timers_remove(&reactor->timers, &timer->link, was_set_before);
}

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
    return fry_timers_next_ns(&reactor->timers);
}

/*
 * Makes the wait end when the first timer is due. While the loop runs, the end of its turn does
 * this. A timer that is due already ends the wait by a wake, which costs a write: a kernel timer
 * set to the past costs an interrupt.
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
        take_off(reactor, timer);
    timer->link.when_ns = when_ns;
    timer->order = reactor->timer_order++;
    add(reactor, timer);
    set_kernel_timer(reactor);
}

void fry_timer_set_soon(fry_reactor *reactor, fry_timer *timer)
{
    fry_timer_set(reactor, timer, fry_reactor_now_ns(reactor));
    /* The kernel knows nothing of a user's clock. */
    if (!reactor->clock->is_real)
        fry_poller_wake(&reactor->poller);
}

void fry_timer_stop(fry_reactor *reactor, fry_timer *timer)
{
    if (!timer->is_on)
        return;
    take_off(reactor, timer);
    set_kernel_timer(reactor);
}

/* Runs timers that were set before it began: one that sets itself anew does not keep the loop. */
static size_t run_timers(fry_reactor *reactor)
{
    const int64_t now_ns = fry_reactor_now_ns(reactor);
    const uint64_t until = reactor->timer_order;
    size_t done = 0;

    for (;;) {
        fry_timer *timer = (fry_timer *)reactor->timers.first;

        if (timer == NULL || timer->link.when_ns > now_ns || timer->order >= until)
            break;
        take_off(reactor, timer);
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
