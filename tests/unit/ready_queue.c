/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of READY operations: order by priority, and how far that goes. */
#include "engine/graph/ready_queue.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

TestSuite(ready_queue, .timeout = 60);

enum { ITEMS_MAX = 4096 };

typedef struct item {
    fry_link link; /* first */
    ferry_priority priority;
    size_t place; /* in the order of pushes */
} item;

typedef struct fixture {
    fry_ready_queue queue;
    item items[ITEMS_MAX];
    size_t pushed;
} fixture;

static fixture f;

static void open_fixture(void)
{
    memset(&f, 0, sizeof f);
}

static void push_to(fry_ready_queue *queue, ferry_priority priority)
{
    cr_assert_lt(f.pushed, ITEMS_MAX);
    item *new = &f.items[f.pushed];
    *new = (item){.priority = priority, .place = f.pushed++};
    fry_ready_queue_push(queue, &new->link, priority);
}

/* "H", "N" and "L" for each. */
static void push_all(const char *priorities)
{
    for (; *priorities != '\0'; priorities++)
        push_to(&f.queue, *priorities == 'H'   ? FERRY_PRIORITY_HIGH
                          : *priorities == 'L' ? FERRY_PRIORITY_LOW
                                               : FERRY_PRIORITY_NORMAL);
}

static item *pop(void)
{
    return (item *)(void *)fry_ready_queue_pop(&f.queue);
}

static char letter_of(const item *popped)
{
    return "LNH"[popped->priority - FERRY_PRIORITY_LOW];
}

/* Pops as many as the text is long; those of a priority come in the order they were pushed in. */
static void expect(const char *priorities)
{
    size_t last[FRY_RANKS] = {0};
    for (size_t i = 0; priorities[i] != '\0'; i++) {
        cr_assert_not(fry_ready_queue_is_empty(&f.queue));
        const item *popped = pop();
        cr_assert_not_null(popped);
        cr_assert_eq(letter_of(popped), priorities[i], "%c as number %zu of %s", letter_of(popped),
                     i, priorities);
        size_t *before = &last[popped->priority - FERRY_PRIORITY_LOW];
        cr_assert_geq(popped->place, *before);
        *before = popped->place + 1;
    }
}

static void expect_empty(void)
{
    cr_assert(fry_ready_queue_is_empty(&f.queue));
    cr_assert_null(pop());
}

Test(ready_queue, one_priority_is_first_in_first_out)
{
    open_fixture();
    expect_empty();
    push_all("NNNNNNNNNNNN");
    expect("NNNNNNNNNNNN");
    expect_empty();
    push_all("LL");
    expect("LL");
    expect_empty();
}

Test(ready_queue, the_higher_is_first)
{
    open_fixture();
    push_all("LNH");
    expect("HNL");
    push_all("LLNHNH");
    expect("HHNNLL");
    expect_empty();
}

Test(ready_queue, of_eight_in_a_row_one_is_lower)
{
    open_fixture();
    push_all("LLNHHHHHHHHHHHHHHHHHHHH"); /* twenty high ones */
    expect("HHHHHHHLNHHHHHHLHHHHHHH");
    expect_empty();
}

Test(ready_queue, whoever_waits_among_both_others_has_its_turns)
{
    open_fixture();
    push_all("NNNNNNNNNNNNNNNNNNNNLL");
    expect("NNNNNNNLNNNNNNNLNNNNNN");
    push_all("HHHHHHHHHHHHHHHHHHHHNNLL");
    expect("HHHHHHHLNHHHHHHLHNHHHHHH");
    expect_empty();
}

Test(ready_queue, only_those_count_that_came_while_it_waited)
{
    open_fixture();
    push_all("HHHHHHHHHHHHHHHHHHHH");
    expect("HHHHH");
    push_all("L");
    expect("HHHHHHHL");
    push_all("L");
    expect("HHHHHHHL");
    expect("H");
    expect_empty();
}

Test(ready_queue, appended_ones_come_behind_their_own_and_keep_the_count)
{
    open_fixture();
    fry_ready_queue other = {0};
    push_all("LHHHHHH");
    expect("HHHHH");
    push_to(&other, FERRY_PRIORITY_HIGH);
    push_to(&other, FERRY_PRIORITY_HIGH);
    push_to(&other, FERRY_PRIORITY_NORMAL);
    push_to(&other, FERRY_PRIORITY_LOW);
    fry_ready_queue_append(&f.queue, &other);
    cr_assert(fry_ready_queue_is_empty(&other));
    cr_assert_null(fry_ready_queue_pop(&other));
    cr_assert_eq(f.queue.count, 6);
    push_all("H");
    expect("HHLHHNL");
    expect_empty();
    fry_ready_queue_append(&f.queue, &other);
    expect_empty();
}

/* Whatever comes and goes: none is lost, each priority is in order, and the bounds hold. */
Test(ready_queue, the_rule_holds_for_random_pushes_and_pops)
{
    for (unsigned seed = 1; seed <= 200; seed++) {
        unsigned random = seed;
        size_t next[FRY_RANKS] = {0}, waiting[FRY_RANKS] = {0}, higher[FRY_RANKS] = {0};
        open_fixture();
        for (int i = 0; i < 2000; i++) {
            if (rand_r(&random) % 100 < 52) {
                ferry_priority priority = (ferry_priority)(rand_r(&random) % 3 - 1);
                push_to(&f.queue, priority);
                waiting[priority - FERRY_PRIORITY_LOW]++;
                continue;
            }
            const item *popped = pop();
            if (popped == NULL) {
                cr_assert_eq(waiting[0] + waiting[1] + waiting[2], 0);
                continue;
            }
            size_t rank = (size_t)(popped->priority - FERRY_PRIORITY_LOW);
            cr_assert_geq(popped->place, next[rank]);
            next[rank] = popped->place + 1;
            waiting[rank]--;
            bool is_highest = true;
            for (size_t above = rank + 1; above < FRY_RANKS; above++)
                is_highest = is_highest && waiting[above] == 0;
            cr_assert(is_highest || higher[rank] == FRY_OVERTAKES_MAX);
            higher[rank] = 0;
            for (size_t below = 0; below < rank; below++) {
                higher[below] = waiting[below] == 0 ? 0 : higher[below] + 1;
                cr_assert_leq(higher[below], FRY_OVERTAKES_MAX);
            }
        }
        while (pop() != NULL)
            waiting[0]++;
        cr_assert(fry_ready_queue_is_empty(&f.queue));
    }
}
