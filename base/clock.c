/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <time.h>

int64_t fry_clock_monotonic_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail: the clock exists, `now` is ours */
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int64_t monotonic_now_ns(void *arg)
{
    (void)arg;
    return fry_clock_monotonic_ns();
}

void fry_clock_init(fry_clock *clock, const ferry_clock *user)
{
    static const ferry_clock monotonic = {.now_ns = monotonic_now_ns};
    clock->clock = user != NULL ? *user : monotonic;
    clock->is_real = user == NULL;
}

int64_t fry_clock_now_ns(const fry_clock *clock)
{
    if (clock->is_real) /* spares the call through a pointer */
        return fry_clock_monotonic_ns();
    return clock->clock.now_ns(clock->clock.arg);
}
