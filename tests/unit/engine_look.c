/* SPDX-License-Identifier: Apache-2.0 */
/* When a stream that nobody tells of is looked at. */
#include "engine/graph/look.h"

#include <criterion/criterion.h>

enum { US = 1000, MS = 1000 * US };

Test(engine_look, first_looks_are_close_together)
{
    cr_assert_eq(fry_look_at_age_ns(0, 0), 50 * US);
    cr_assert_eq(fry_look_at_age_ns(-5, 0), 50 * US, "a clock that went back");
    cr_assert_eq(fry_look_at_age_ns(MS, 0), MS + 50 * US);
}

Test(engine_look, steps_are_a_twentieth_of_the_age_and_at_most_a_millisecond)
{
    cr_assert_eq(fry_look_at_age_ns(10 * MS, 0), 10 * MS + 500 * US);
    cr_assert_eq(fry_look_at_age_ns(20 * MS, 0), 21 * MS);
    cr_assert_eq(fry_look_at_age_ns(INT64_C(60000) * MS, 0), INT64_C(60001) * MS);
}

Test(engine_look, the_first_look_is_at_nine_tenths_of_what_it_usually_takes)
{
    cr_assert_eq(fry_look_at_age_ns(0, 100 * MS), 90 * MS);
    cr_assert_eq(fry_look_at_age_ns(30 * MS, 100 * MS), 90 * MS, "as often as one asks");
    cr_assert_eq(fry_look_at_age_ns(90 * MS, 100 * MS), 91 * MS);
    cr_assert_eq(fry_look_at_age_ns(0, 40 * US), 50 * US, "not sooner than it makes sense");
}

Test(engine_look, what_has_fired_is_found_late_by_a_twentieth_or_a_millisecond)
{
    for (int64_t took_ns = 1; took_ns < INT64_C(3000) * MS; took_ns = took_ns * 5 / 4 + 1) {
        int64_t age_ns = 0;
        int looks = 0;
        while (age_ns < took_ns) {
            int64_t next_ns = fry_look_at_age_ns(age_ns, 0);
            cr_assert_gt(next_ns, age_ns);
            age_ns = next_ns;
            looks++;
        }
        int64_t late_ns = age_ns - took_ns, bound_ns = took_ns / 20;
        bound_ns = bound_ns < 50 * US ? 50 * US : bound_ns > MS ? MS : bound_ns;
        cr_assert_leq(late_ns, bound_ns, "%lld ns late for %lld", (long long)late_ns,
                      (long long)took_ns);
        cr_assert_leq(looks, 100 + took_ns / MS);
    }
}

Test(engine_look, the_usual_follows_quick_ones_at_once_and_slow_ones_slowly)
{
    int64_t usual_ns = fry_look_usual_ns(0, 800 * US);
    cr_assert_eq(usual_ns, 800 * US);
    usual_ns = fry_look_usual_ns(usual_ns, 80 * US);
    cr_assert_eq(usual_ns, 80 * US);
    usual_ns = fry_look_usual_ns(usual_ns, 880 * US);
    cr_assert_eq(usual_ns, 180 * US);
    cr_assert_eq(fry_look_usual_ns(180 * US, -7), 0, "a clock that went back");
}

Test(engine_look, sorts_go_by_size)
{
    cr_assert_eq(fry_look_sort(0), 0);
    cr_assert_eq(fry_look_sort(4096), 0);
    cr_assert_eq(fry_look_sort(4097), 1);
    cr_assert_eq(fry_look_sort((uint64_t)1 << 20), 4);
    cr_assert_eq(fry_look_sort((uint64_t)1 << 32), FRY_LOOK_SORTS - 2);
    cr_assert_eq(fry_look_sort(UINT64_MAX), FRY_LOOK_SORTS - 1);
}
