/* SPDX-License-Identifier: Apache-2.0 */
/* The heap of timers, beside an array that is searched. */
#include "base/timers.h"

#include <criterion/criterion.h>
#include <string.h>

#define TIMERS 300
#define STEPS 200000
#define MANY 100000

typedef struct test_timer {
    fry_timers_link link; /* first: a link is its timer */
    uint64_t order;
    bool is_on;
} test_timer;

static test_timer all[MANY];
static uint64_t compared; /* how often two for the same time were */

TestSuite(base_timers, .timeout = 60);

static const test_timer *timer_of(const fry_timers_link *link)
{
    return (const test_timer *)link;
}

static bool by_order(const fry_timers_link *left, const fry_timers_link *right)
{
    compared++;
    return timer_of(left)->order < timer_of(right)->order;
}

static uint64_t next_random(uint64_t *state, uint64_t below)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (*state >> 11) % below;
}

/* Its owner orders those for the same time, or does not. */
typedef struct test_heap {
    fry_timers timers;
    bool is_ordered;
} test_heap;

static void remove_one(test_heap *heap, test_timer *timer)
{
    if (heap->is_ordered)
        fry_timers_remove(&heap->timers, &timer->link, by_order);
    else
        fry_timers_remove(&heap->timers, &timer->link, NULL);
    timer->is_on = false;
}

static void add(test_heap *heap, test_timer *timer, int64_t when_ns, uint64_t order)
{
    timer->link.when_ns = when_ns;
    timer->order = order;
    timer->is_on = true;
    if (heap->is_ordered)
        fry_timers_add(&heap->timers, &timer->link, by_order);
    else
        fry_timers_add(&heap->timers, &timer->link, NULL);
}

/* The oracle's: the earliest, and of those the one that was added first. */
static test_timer *find_first(void)
{
    test_timer *first = NULL;
    for (size_t i = 0; i < TIMERS; i++) {
        test_timer *timer = &all[i];
        if (!timer->is_on)
            continue;
        if (first == NULL || timer->link.when_ns < first->link.when_ns ||
            (timer->link.when_ns == first->link.when_ns && timer->order < first->order))
            first = timer;
    }
    return first;
}

/* Adds and removes at random; times are from so few that many are the same. */
static void run_random(test_heap *heap, uint64_t seed, uint64_t times)
{
    memset(all, 0, TIMERS * sizeof all[0]);
    for (uint64_t step = 0; step < STEPS; step++) {
        test_timer *timer = &all[next_random(&seed, TIMERS)];
        if (!timer->is_on)
            add(heap, timer, (int64_t)next_random(&seed, times) - 2, step);
        else if (next_random(&seed, 3) == 0)
            remove_one(heap, (test_timer *)heap->timers.first);
        else
            remove_one(heap, timer);
        test_timer *first = find_first();
        cr_assert_eq(fry_timers_next_ns(&heap->timers),
                     first != NULL ? first->link.when_ns : INT64_MAX, "step %d", (int)step);
        if (first != NULL && heap->is_ordered)
            cr_assert_eq(timer_of(heap->timers.first), first, "step %d", (int)step);
    }
}

Test(base_timers, a_zeroed_heap_is_empty)
{
    fry_timers timers = {0};
    cr_assert_null(timers.first);
    cr_assert_eq(fry_timers_next_ns(&timers), INT64_MAX);
}

Test(base_timers, the_first_is_the_oracles_after_each_step_in_any_order_of_equals)
{
    test_heap heap = {0};
    run_random(&heap, 88172645463325252, 1000);
}

Test(base_timers, and_where_most_are_for_the_same_time)
{
    test_heap heap = {0};
    run_random(&heap, 2463534242, 4);
}

Test(base_timers, of_those_for_the_same_time_the_one_that_comes_before_is_first)
{
    test_heap heap = {.is_ordered = true};
    run_random(&heap, 521288629546311691, 8);
}

/* Each in one chain of siblings, or of children: nothing recurses. */
Test(base_timers, a_hundred_thousand_come_out_in_order_however_they_were_added)
{
    for (int64_t direction = -1; direction <= 1; direction += 2) {
        test_heap heap = {0};
        for (int64_t i = 0; i < MANY; i++)
            add(&heap, &all[i], direction * i, 0);
        int64_t before_ns = INT64_MIN, count = 0;
        for (; heap.timers.first != NULL; count++) {
            cr_assert_gt(heap.timers.first->when_ns, before_ns);
            before_ns = heap.timers.first->when_ns;
            remove_one(&heap, (test_timer *)heap.timers.first);
        }
        cr_assert_eq(count, MANY);
    }
}

/* One pass over the siblings, in place of two, would take n of them each time. */
Test(base_timers, removing_takes_log_n_comparisons)
{
    test_heap heap = {.is_ordered = true};
    for (uint64_t i = 0; i < MANY; i++)
        add(&heap, &all[i], 0, i);
    cr_assert_leq(compared, MANY);
    compared = 0;
    for (uint64_t i = 0; i < MANY; i++) {
        cr_assert_eq(timer_of(heap.timers.first), &all[i]);
        remove_one(&heap, &all[i]);
        cr_assert_leq(compared, 2 * 17 * (uint64_t)MANY); /* 2 log2 n for each */
    }
}
