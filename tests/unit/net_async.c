/* SPDX-License-Identifier: Apache-2.0 */
#include "net/async.h"

#include "tests/support/driven_reactor.h"
#include "tests/support/stepped_clock.h"

#include <criterion/criterion.h>
#include <string.h>

#define SECOND_NS INT64_C(1000000000)
#define START_NS (1000 * SECOND_NS)

static stepped_clock stepped;
static fry_memory memory;
static fry_log no_log;
static fry_clock the_clock;
static fry_reactor reactor;
static fry_provider provider;
static fry_async async, other;
static bool aborts_late;  /* the provider ends what is late; else it leaves it under way */
static bool begins_other; /* a drop makes room for the other request */
static char happened[64]; /* a letter for each call: late, drop, tell */
static ferry_status told;
static const char *told_why;

static void happens(const char *what)
{
    cr_assert_lt(strlen(happened), sizeof happened - 1);
    (void)strcat(happened, what);
}

static void late(fry_async *it)
{
    happens("l");
    cr_assert_eq(it->state, FRY_ASYNC_LATE);
    if (aborts_late)
        fry_async_abort(it, FERRY_E_DEADLINE, "late");
}

static void drop(fry_async *it)
{
    happens("d");
    cr_assert(it->state == FRY_ASYNC_OFF || it->state == FRY_ASYNC_ENDING);
    if (begins_other)
        fry_async_begin(&other, &provider);
}

static void tell(fry_async *it, ferry_status verdict, const char *why)
{
    happens("t");
    cr_assert_not(fry_async_is_on(it));
    told = verdict;
    told_why = why;
}

static void open_all(void)
{
    static const fry_provider_ops ops = {.late = late, .drop = drop, .tell = tell};

    stepped_clock_init(&stepped, START_NS);
    const ferry_clock interface = stepped_clock_interface(&stepped);
    fry_clock_init(&the_clock, &interface);
    fry_memory_init(&memory, NULL);
    cr_assert_eq(driven_reactor_open(&reactor, &memory, &no_log, &the_clock), FERRY_OK);
    fry_provider_init(&provider, &reactor, &ops);
    fry_async_begin(&async, &provider);
    fry_async_set_deadline(&async, START_NS + SECOND_NS);
}

/* Nothing is left: no request in the list, no timer. */
static void close_all(void)
{
    cr_assert(!fry_async_is_on(&async) && !fry_async_is_on(&other));
    cr_assert(provider.count == 0 && TAILQ_EMPTY(&provider.asyncs));
    cr_assert_eq(fry_reactor_next_ns(&reactor), INT64_MAX);
    driven_reactor_close(&reactor);
}

TestSuite(net_async, .init = open_all, .fini = close_all, .timeout = 60);

static void pass(int64_t ns)
{
    stepped_clock_step(&stepped, ns);
    while (driven_reactor_run(&reactor, 0) > 0)
        continue;
}

Test(net_async, one_that_finishes_has_no_deadline_any_more)
{
    fry_async_finish(&async);
    pass(2 * SECOND_NS);
    cr_assert_str_eq(happened, "");
    fry_async_begin(&async, &provider); /* the same memory, again */
    fry_async_set_deadline(&async, 0);
    pass(2 * SECOND_NS);
    cr_assert_eq(async.state, FRY_ASYNC_UNDER_WAY);
    fry_async_finish(&async);
}

Test(net_async, a_verdict_is_told_in_the_next_round)
{
    fry_async_finish_soon(&async, FERRY_E_INVALID, "why");
    cr_assert(async.state == FRY_ASYNC_ENDING && provider.count == 1);
    cr_assert_str_eq(happened, "");
    pass(0);
    cr_assert_str_eq(happened, "t");
    cr_assert_eq(told, FERRY_E_INVALID);
    cr_assert_str_eq(told_why, "why");
    pass(2 * SECOND_NS);
    cr_assert_str_eq(happened, "t");
}

Test(net_async, one_that_is_ending_can_be_told_at_once)
{
    fry_async_tell(&async); /* it is under way */
    cr_assert_str_eq(happened, "");
    fry_async_abort(&async, FERRY_E_STORE, NULL);
    fry_async_tell(&async);
    fry_async_tell(&async);
    cr_assert_str_eq(happened, "dt");
    cr_assert_eq(told, FERRY_E_STORE);
}

Test(net_async, a_late_one_ends_when_its_provider_says_so)
{
    pass(SECOND_NS);
    cr_assert_str_eq(happened, "l");
    cr_assert_eq(async.state, FRY_ASYNC_LATE);
    fry_async_finish(&async);
    fry_async_begin(&async, &provider);
    fry_async_set_deadline(&async, START_NS); /* past */
    aborts_late = true;
    pass(0);
    cr_assert_str_eq(happened, "lldt");
    cr_assert_eq(told, FERRY_E_DEADLINE);
}

Test(net_async, the_first_verdict_counts)
{
    fry_async_abort(&async, FERRY_E_FENCED, NULL);
    fry_async_abort(&async, FERRY_E_CANCELLED, NULL);
    pass(0);
    cr_assert_str_eq(happened, "dt");
    cr_assert_eq(told, FERRY_E_FENCED);
}

Test(net_async, one_that_is_cancelled_is_not_told)
{
    fry_async_cancel(&async);
    fry_async_cancel(&async); /* too late does nothing */
    cr_assert_str_eq(happened, "d");
    fry_async_begin(&async, &provider);
    fry_async_finish_soon(&async, FERRY_E_INVALID, NULL);
    fry_async_cancel(&async); /* its provider has done with it */
    fry_async_begin(&async, &provider);
    fry_async_set_deadline(&async, START_NS);
    pass(0);
    cr_assert_str_eq(happened, "dl");
    fry_async_cancel(&async);
    pass(2 * SECOND_NS);
    cr_assert_str_eq(happened, "dld");
}

Test(net_async, what_takes_the_room_of_one_that_ends_comes_behind_it)
{
    begins_other = true;
    fry_async_abort(&async, FERRY_E_CANCELLED, NULL);
    cr_assert(provider.count == 2 && TAILQ_FIRST(&provider.asyncs) == &async);
    begins_other = false;
    fry_async_cancel(&async);
    cr_assert(TAILQ_FIRST(&provider.asyncs) == &other);
    fry_async_cancel(&other);
    cr_assert_str_eq(happened, "dd");
}
