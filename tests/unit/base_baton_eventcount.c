/* SPDX-License-Identifier: Apache-2.0 */
/* What one thread can see of baton, eventcount and futex; the rest is in tests/stress. */
#include "base/baton.h"
#include "base/clock.h"
#include "base/eventcount.h"
#include "base/futex.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <pthread.h>

#define NS_PER_MS INT64_C(1000000)

Test(base_baton, one_holder_at_a_time)
{
    fry_baton baton = {0};
    cr_assert(fry_baton_take(&baton));
    cr_assert_not(fry_baton_take(&baton));
    cr_assert_not(fry_baton_take(&baton));
    fry_baton_give(&baton);
    cr_assert(fry_baton_take(&baton), "a refused take must not leave it taken");
    fry_baton_give(&baton);
}

Test(base_futex, does_not_sleep_when_the_word_has_moved)
{
    uint32_t word = 2;
    fry_futex_wait(&word, 1, -1);
    fry_futex_wake(&word, INT_MAX);
}

Test(base_futex, sleeps_no_longer_than_told)
{
    uint32_t word = 1;
    int64_t start_ns = fry_clock_monotonic_ns();
    fry_futex_wait(&word, 1, 5 * NS_PER_MS);
    cr_assert_geq(fry_clock_monotonic_ns() - start_ns, 5 * NS_PER_MS);
}

Test(base_eventcount, notify_with_nobody_there_leaves_it_alone)
{
    fry_eventcount eventcount = {0};
    fry_eventcount_notify(&eventcount, INT_MAX);
    cr_assert_eq(eventcount.epoch, 0);
}

Test(base_eventcount, a_notify_after_prepare_keeps_commit_from_sleeping)
{
    fry_eventcount eventcount = {0};
    uint32_t key = fry_eventcount_prepare(&eventcount);
    cr_assert_eq(eventcount.sleepers, 1);
    fry_eventcount_notify(&eventcount, 1);
    fry_eventcount_commit(&eventcount, key, -1); /* for ever, if the notify were lost */
    cr_assert_eq(eventcount.sleepers, 0);
}

Test(base_eventcount, cancel_and_timeout_leave_no_sleeper_behind)
{
    fry_eventcount eventcount = {0};
    (void)fry_eventcount_prepare(&eventcount);
    fry_eventcount_cancel(&eventcount);
    cr_assert_eq(eventcount.sleepers, 0);

    uint32_t key = fry_eventcount_prepare(&eventcount);
    int64_t start_ns = fry_clock_monotonic_ns();
    fry_eventcount_commit(&eventcount, key, 5 * NS_PER_MS);
    cr_assert_geq(fry_clock_monotonic_ns() - start_ns, 5 * NS_PER_MS);
    cr_assert_eq(eventcount.sleepers, 0);
}

typedef struct gate {
    fry_eventcount eventcount;
    uint32_t is_open;
} gate;

static void *pass(void *arg)
{
    gate *door = arg;
    while (fry_load_acquire(&door->is_open) == 0) {
        uint32_t key = fry_eventcount_prepare(&door->eventcount);
        if (fry_load_acquire(&door->is_open) != 0)
            fry_eventcount_cancel(&door->eventcount);
        else
            fry_eventcount_commit(&door->eventcount, key, -1);
    }
    return NULL;
}

Test(base_eventcount, notify_wakes_all_when_told_to, .timeout = 20)
{
    gate door = {0};
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, pass, &door), 0);
    while (fry_load_seq_cst(&door.eventcount.sleepers) != 3)
        fry_pause();
    fry_store_release(&door.is_open, 1);
    fry_eventcount_notify(&door.eventcount, INT_MAX);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
    cr_assert_eq(door.eventcount.sleepers, 0);
}
