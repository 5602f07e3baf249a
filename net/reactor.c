/* SPDX-License-Identifier: Apache-2.0 */
#include "net/reactor.h"

static bool was_set_before(const fry_timers_link *left, const fry_timers_link *right)
{
    return ((const fry_timer *)left)->order < ((const fry_timer *)right)->order;
}

static void take_off(fry_reactor *reactor, fry_timer *timer)
{
    timer->is_on = false;
    fry_timers_remove(&reactor->timers, &timer->link, was_set_before);
}

void fry_reactor_init(fry_reactor *reactor, fry_poller *poller, const fry_memory *memory,
                      const fry_log *log, const fry_clock *clock)
{
    *reactor = (fry_reactor){.poller = poller, .memory = memory, .log = log, .clock = clock};
}

int64_t fry_reactor_now_ns(const fry_reactor *reactor)
{
    return fry_clock_now_ns(reactor->clock);
}

int64_t fry_reactor_next_ns(const fry_reactor *reactor)
{
    return fry_timers_next_ns(&reactor->timers);
}

void fry_timer_set(fry_reactor *reactor, fry_timer *timer, int64_t when_ns)
{
    if (timer->is_on)
        take_off(reactor, timer);
    timer->link.when_ns = when_ns;
    timer->order = reactor->timer_order++;
    timer->is_on = true;
    fry_timers_add(&reactor->timers, &timer->link, was_set_before);
}

void fry_timer_set_soon(fry_reactor *reactor, fry_timer *timer)
{
    fry_timer_set(reactor, timer, fry_reactor_now_ns(reactor));
}

void fry_timer_stop(fry_reactor *reactor, fry_timer *timer)
{
    if (timer->is_on)
        take_off(reactor, timer);
}

/* Runs timers that were set before it began: one that sets itself anew does not keep the loop. */
size_t fry_reactor_run(fry_reactor *reactor)
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
