/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "tests/support/stepped_clock.h"

#include <criterion/criterion.h>
#include <time.h>

static int64_t kernel_ns(clockid_t id)
{
    struct timespec now;
    cr_assert_eq(clock_gettime(id, &now), 0);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

Test(base_clock, default_is_the_monotonic_clock)
{
    fry_clock clock;
    fry_clock_init(&clock, NULL);
    cr_assert(clock.is_real);
    for (int i = 0; i < 1000; i++) {
        int64_t before_ns = kernel_ns(CLOCK_MONOTONIC);
        int64_t through_clock_ns = fry_clock_now_ns(&clock);
        int64_t direct_ns = fry_clock_monotonic_ns();
        int64_t through_pointer_ns = clock.clock.now_ns(clock.clock.arg);
        int64_t after_ns = kernel_ns(CLOCK_MONOTONIC);
        cr_assert_leq(before_ns, through_clock_ns);
        cr_assert_leq(through_clock_ns, direct_ns);
        cr_assert_leq(direct_ns, through_pointer_ns);
        cr_assert_leq(through_pointer_ns, after_ns);
    }
}

Test(base_clock, a_user_clock_is_asked_each_time)
{
    stepped_clock sc;
    stepped_clock_init(&sc, 5);
    ferry_clock interface = stepped_clock_interface(&sc);
    fry_clock clock;
    fry_clock_init(&clock, &interface);
    interface = (ferry_clock){0}; /* was copied */
    cr_assert_not(clock.is_real);
    cr_assert_eq(fry_clock_now_ns(&clock), 5);
    cr_assert_eq(fry_clock_now_ns(&clock), 5);
    stepped_clock_step(&sc, 1000000007);
    cr_assert_eq(fry_clock_now_ns(&clock), 1000000012);
    stepped_clock_step(&sc, 0);
    cr_assert_eq(fry_clock_now_ns(&clock), 1000000012);
    cr_assert_eq(fry_clock_coarse_ns(&clock), 1000000012);
}

Test(base_clock, the_coarse_clock_lags_and_never_goes_back)
{
    fry_clock clock;
    fry_clock_init(&clock, NULL);
    int64_t last_ns = 0;
    for (int i = 0; i < 1000; i++) {
        int64_t coarse_ns = fry_clock_coarse_ns(&clock);
        cr_assert_leq(last_ns, coarse_ns);
        cr_assert_leq(coarse_ns, fry_clock_now_ns(&clock));
        last_ns = coarse_ns;
    }
    int64_t before_ns = kernel_ns(CLOCK_MONOTONIC_COARSE);
    cr_assert_leq(before_ns, fry_clock_coarse_ns(&clock));
}

Test(base_clock, threads_wait_by_real_time_beside_a_user_clock)
{
    stepped_clock sc;
    stepped_clock_init(&sc, 0);
    ferry_clock interface = stepped_clock_interface(&sc);
    fry_clock clock;
    fry_clock_init(&clock, &interface);
    int64_t before_ns = kernel_ns(CLOCK_MONOTONIC);
    cr_assert_leq(before_ns, fry_clock_monotonic_ns());
    cr_assert_eq(fry_clock_now_ns(&clock), 0);
}
