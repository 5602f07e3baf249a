/* SPDX-License-Identifier: Apache-2.0 */
/* The clock: real time, or a clock that a test steps. */
#ifndef FRY_BASE_CLOCK_H
#define FRY_BASE_CLOCK_H

#include <ferry/engine.h>
#include <stdbool.h>
#include <time.h>

typedef struct fry_clock {
    ferry_clock clock; /* always filled in */
    bool is_real;      /* it is CLOCK_MONOTONIC, so kernel timers may be set by it */
} fry_clock;

/* Sets up the clock; user NULL: CLOCK_MONOTONIC. */
void fry_clock_init(fry_clock *clock, const ferry_clock *user);

int64_t fry_clock_now_ns(const fry_clock *clock);

/*
 * The time at the kernel's last tick, at most some milliseconds back, for a quarter of the cost.
 * Inline, because submits pay for it.
 */
static inline int64_t fry_clock_coarse_ns(const fry_clock *clock)
{
    if (!clock->is_real)
        return clock->clock.now_ns(clock->clock.arg);
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* CLOCK_MONOTONIC, whatever the engine's clock is: for spins and waits of real threads. */
int64_t fry_clock_monotonic_ns(void);

static inline int64_t fry_sooner_ns(int64_t left_ns, int64_t right_ns)
{
    return left_ns < right_ns ? left_ns : right_ns;
}

/* End of a wait by CLOCK_MONOTONIC; FRY_NEVER_NS: none. */
#define FRY_NEVER_NS INT64_MAX

/* The end of a timeout that begins now; negative: for ever. */
static inline int64_t fry_clock_end_ns(int64_t timeout_ns)
{
    int64_t end_ns;
    if (timeout_ns < 0 || __builtin_add_overflow(fry_clock_monotonic_ns(), timeout_ns, &end_ns))
        return FRY_NEVER_NS;
    return end_ns;
}

/* Time left until an end, at least 0; -1: for ever. */
static inline int64_t fry_clock_left_ns(int64_t end_ns)
{
    if (end_ns == FRY_NEVER_NS)
        return -1;
    int64_t left_ns = end_ns - fry_clock_monotonic_ns();
    return left_ns > 0 ? left_ns : 0;
}

#endif
