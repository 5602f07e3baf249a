/* SPDX-License-Identifier: Apache-2.0 */
/* A reactor with a poller of its own, and what an engine's loop does for one. */
#ifndef TESTS_SUPPORT_DRIVEN_REACTOR_H
#define TESTS_SUPPORT_DRIVEN_REACTOR_H

#include "net/reactor.h"

#include <stdlib.h>

static inline ferry_status driven_reactor_open(fry_reactor *reactor, const fry_memory *memory,
                                               const fry_log *log, const fry_clock *clock)
{
    fry_poller *poller = calloc(1, sizeof *poller);
    if (poller == NULL)
        return FERRY_E_NO_MEMORY;
    fry_reactor_init(reactor, poller, memory, log, clock);
    return fry_poller_open(poller);
}

/* No watch may be added and no timer on. */
static inline void driven_reactor_close(fry_reactor *reactor)
{
    fry_poller_close(reactor->poller);
    free(reactor->poller);
}

/* The poller's descriptor is readable when the first timer is due; not with a test's own clock. */
static inline void driven_reactor_arm(const fry_reactor *reactor)
{
    int64_t next_ns = fry_reactor_next_ns(reactor);
    if (next_ns == INT64_MAX)
        fry_poller_set_timer(reactor->poller, 0);
    else if (reactor->clock->is_real)
        fry_poller_set_timer(reactor->poller, next_ns > 0 ? next_ns : 1);
}

/*
 * Waits up to timeout_ns (0: only looks; negative: for ever) and runs what is due. Returns how much
 * ran.
 */
static inline size_t driven_reactor_run(fry_reactor *reactor, int64_t timeout_ns)
{
    driven_reactor_arm(reactor);
    uint64_t before = reactor->poller->calls;
    (void)fry_poller_wait(reactor->poller, timeout_ns);
    size_t done = (size_t)(reactor->poller->calls - before) + fry_reactor_run(reactor);
    driven_reactor_arm(reactor);
    return done;
}

#endif
