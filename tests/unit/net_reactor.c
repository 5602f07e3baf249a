/* SPDX-License-Identifier: Apache-2.0 */
#include "net/reactor.h"
#include "tests/support/driven_reactor.h"
#include "tests/support/stepped_clock.h"

#include <criterion/criterion.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define SECOND_NS INT64_C(1000000000)
#define START_NS (1000 * SECOND_NS)
#define MANY 1000

static stepped_clock stepped;
static fry_memory memory;
static fry_log no_log;
static fry_clock the_clock;
static fry_reactor reactor;

static void open_reactor(void)
{
    stepped_clock_init(&stepped, START_NS);
    const ferry_clock interface = stepped_clock_interface(&stepped);
    fry_clock_init(&the_clock, &interface);
    fry_memory_init(&memory, NULL);
    cr_assert_eq(driven_reactor_open(&reactor, &memory, &no_log, &the_clock), FERRY_OK);
}

static void close_reactor(void)
{
    driven_reactor_close(&reactor);
}

TestSuite(net_reactor, .init = open_reactor, .fini = close_reactor, .timeout = 60);

/* The same on the real clock. */
static void make_it_real(void)
{
    driven_reactor_close(&reactor);
    fry_clock_init(&the_clock, NULL);
    cr_assert_eq(driven_reactor_open(&reactor, &memory, &no_log, &the_clock), FERRY_OK);
}

static size_t run(void)
{
    return driven_reactor_run(&reactor, 0);
}

/* --- Timers --- */

static int called[MANY];
static size_t call_count;

static void note(fry_timer *timer)
{
    cr_assert_not(timer->is_on);
    called[call_count++] = *(const int *)timer->arg;
}

Test(net_reactor, timers_are_called_by_time_then_by_when_they_were_set)
{
    static int numbers[] = {0, 1, 2, 3, 4, 5};
    static const int64_t times_s[] = {5, 1, 3, 1, 3, 2};
    static const int expected[] = {1, 3, 5, 2, 4, 0};
    fry_timer timers[6];

    for (size_t i = 0; i < 6; i++) {
        timers[i] = (fry_timer){.fn = note, .arg = &numbers[i]};
        fry_timer_set(&reactor, &timers[i], START_NS + times_s[i] * SECOND_NS);
    }
    cr_assert_eq(fry_reactor_next_ns(&reactor), START_NS + SECOND_NS);
    cr_assert_eq(run(), 0);
    stepped_clock_step(&stepped, SECOND_NS - 1);
    cr_assert_eq(run(), 0);
    stepped_clock_step(&stepped, 1);
    cr_assert_eq(run(), 2);
    stepped_clock_step(&stepped, 10 * SECOND_NS);
    cr_assert_eq(run(), 4);
    for (size_t i = 0; i < 6; i++)
        cr_assert_eq(called[i], expected[i]);
    cr_assert_eq(fry_reactor_next_ns(&reactor), INT64_MAX);
    cr_assert_eq(run(), 0);
}

Test(net_reactor, a_timer_set_again_is_moved_one_stopped_is_off)
{
    static int numbers[] = {0, 1, 2};
    fry_timer timers[3];

    for (size_t i = 0; i < 3; i++) {
        timers[i] = (fry_timer){.fn = note, .arg = &numbers[i]};
        fry_timer_set(&reactor, &timers[i], START_NS + SECOND_NS);
    }
    fry_timer_set(&reactor, &timers[0], START_NS + 3 * SECOND_NS); /* later */
    fry_timer_set(&reactor, &timers[2], START_NS);                 /* sooner: now */
    fry_timer_stop(&reactor, &timers[1]);
    fry_timer_stop(&reactor, &timers[1]); /* twice does no harm */
    cr_assert_eq(run(), 1);
    cr_assert_eq(called[0], 2);
    cr_assert_eq(fry_reactor_next_ns(&reactor), START_NS + 3 * SECOND_NS);
    stepped_clock_step(&stepped, 3 * SECOND_NS);
    cr_assert_eq(run(), 1);
    cr_assert_eq(called[1], 0);
    fry_timer_set(&reactor, &timers[1], INT64_MIN); /* long past */
    cr_assert_eq(run(), 1);
    cr_assert_eq(call_count, 3);
}

static size_t again_count;

static void again(fry_timer *timer)
{
    again_count++;
    fry_timer_set(&reactor, timer, INT64_MIN); /* past also where a machine has just begun */
}

Test(net_reactor, a_timer_that_sets_itself_anew_does_not_keep_the_loop)
{
    fry_timer timer = {.fn = again};

    fry_timer_set(&reactor, &timer, START_NS);
    for (size_t i = 1; i <= 5; i++) {
        cr_assert_eq(run(), 1);
        cr_assert_eq(again_count, i);
    }
    fry_timer_stop(&reactor, &timer);
    cr_assert_eq(run(), 0);
}

static fry_timer victim, setter;

static void stop_the_other(fry_timer *timer)
{
    called[call_count++] = *(const int *)timer->arg;
    fry_timer_stop(&reactor, &victim);
}

static void set_the_other(fry_timer *timer)
{
    called[call_count++] = *(const int *)timer->arg;
    fry_timer_set(&reactor, &victim, START_NS + 50 * SECOND_NS);
}

Test(net_reactor, a_callback_stops_or_moves_one_that_is_due_with_it)
{
    static int first = 1, second = 2;

    setter = (fry_timer){.fn = stop_the_other, .arg = &first};
    victim = (fry_timer){.fn = note, .arg = &second};
    fry_timer_set(&reactor, &setter, START_NS);
    fry_timer_set(&reactor, &victim, START_NS);
    cr_assert_eq(run(), 1);
    cr_assert(call_count == 1 && called[0] == 1 && !victim.is_on);
    setter.fn = set_the_other;
    fry_timer_set(&reactor, &setter, START_NS);
    fry_timer_set(&reactor, &victim, START_NS);
    cr_assert_eq(run(), 1);
    cr_assert(call_count == 2 && victim.is_on);
    stepped_clock_step(&stepped, 50 * SECOND_NS);
    cr_assert_eq(run(), 1);
    cr_assert_eq(called[2], 2);
}

/* Against a plain list: the next is always the least of those that are on. */
Test(net_reactor, many_timers_in_any_order)
{
    static fry_timer timers[MANY];
    static int numbers[MANY];
    uint64_t random = 5;

    for (size_t i = 0; i < MANY; i++) {
        numbers[i] = (int)i;
        timers[i] = (fry_timer){.fn = note, .arg = &numbers[i]};
    }
    for (size_t step = 0; step < 10 * MANY; step++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        fry_timer *timer = &timers[(random >> 33) % MANY];

        if ((random >> 20) % 4 == 0)
            fry_timer_stop(&reactor, timer);
        else
            fry_timer_set(&reactor, timer, START_NS + 1 + (int64_t)((random >> 40) % 100));
        if (step % 97 != 0)
            continue;
        int64_t least = INT64_MAX;
        for (size_t i = 0; i < MANY; i++)
            least =
                timers[i].is_on && timers[i].link.when_ns < least ? timers[i].link.when_ns : least;
        cr_assert_eq(fry_reactor_next_ns(&reactor), least);
    }
    size_t on = 0;
    for (size_t i = 0; i < MANY; i++)
        on += timers[i].is_on;
    stepped_clock_step(&stepped, 200);
    cr_assert_eq(run(), on);
    for (size_t i = 1; i < on; i++) {
        const fry_timer *before = &timers[called[i - 1]], *after = &timers[called[i]];

        cr_assert(before->link.when_ns < after->link.when_ns ||
                  (before->link.when_ns == after->link.when_ns && before->order < after->order));
    }
}

Test(net_reactor, a_timer_for_the_moment_0_is_called)
{
    static int number = 7;
    fry_timer timer = {.fn = note, .arg = &number};

    make_it_real();
    fry_timer_set(&reactor, &timer, 0);
    (void)driven_reactor_run(&reactor, -1);
    cr_assert_eq(call_count, 1);
}

/* --- Descriptors --- */

static fry_watch watches[2];
static size_t watched;

static void remove_both(fry_watch *watch, uint32_t events)
{
    (void)watch;
    (void)events;
    watched++;
    for (size_t i = 0; i < 2; i++)
        fry_poller_remove(reactor.poller, &watches[i]);
}

Test(net_reactor, a_callback_removes_watches_that_are_ready_with_it)
{
    for (size_t i = 0; i < 2; i++) {
        watches[i] = (fry_watch){.fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK), .fn = remove_both};
        cr_assert_eq(fry_poller_add(reactor.poller, &watches[i], EPOLLIN), FERRY_OK);
    }
    cr_assert_eq(run(), 1);
    cr_assert_eq(watched, 1);
    cr_assert_eq(run(), 0);
    for (size_t i = 0; i < 2; i++)
        (void)close(watches[i].fd);
}
