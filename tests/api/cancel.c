/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cancels and deadlines of operations that wait, were handed out, run, or are over. Those that
 * stand in a stream: tests/unit/engine_gate.c.
 */
#include "tests/support/api_test.h"

#include <stdlib.h>
#include <time.h>

TestSuite(cancel, .timeout = HANG_S);

/* Each test runs once with a cancel and once with a deadline. */
typedef struct fixture {
    test_engine te;
    manual_executor executor;
    _Atomic int calls;
    bool by_deadline;
    ferry_status status; /* what stopped operations answer */
    int64_t deadline_ns;
} fixture;

static void fixture_open(fixture *f, bool by_deadline)
{
    test_engine_open(&f->te, FERRY_LOOP_EMBEDDED);
    manual_executor_init(&f->executor);
    atomic_init(&f->calls, 0);
    f->by_deadline = by_deadline;
    f->status = by_deadline ? FERRY_E_DEADLINE : FERRY_E_CANCELLED;
    f->deadline_ns = by_deadline ? START_NS + 1000 : 0;
}

static void fixture_close(fixture *f)
{
    settle(&f->te);
    test_engine_close(&f->te);
}

static void stop(fixture *f, ferry_future *future)
{
    if (f->by_deadline)
        stepped_clock_step(&f->te.time, 1000);
    else
        ASSERT_STATUS(ferry_future_cancel(future), FERRY_OK);
}

static ferry_future *call_behind(fixture *f, ferry_future *after)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = &after;
    options.after_count = after != NULL;
    options.deadline_ns = f->deadline_ns;
    return ferry_call(f->te.engine, &f->executor.executor, count_call, &f->calls, &options);
}

static void while_waiting(bool by_deadline)
{
    fixture f;
    fixture_open(&f, by_deadline);
    ferry_promise *promise = test_promise(&f.te);
    ferry_future *future = ferry_promise_future(promise);
    ferry_future *call = call_behind(&f, future), *quiet = ferry_future_quiet(call);
    settle(&f.te);
    ASSERT_STATUS(ferry_future_poll(call), FERRY_PENDING);
    stop(&f, call);
    settle(&f.te);
    ASSERT_STATUS(ferry_future_poll(call), f.status);
    ASSERT_STATUS(status_of(quiet), FERRY_OK);
    keep_promise(promise, FERRY_OK);
    settle(&f.te);
    cr_assert_eq(f.calls, 0);
    ASSERT_STATUS(status_of(call), f.status);
    ferry_future_release(future);
    fixture_close(&f);
}

Test(cancel, stops_what_waits)
{
    while_waiting(false);
    while_waiting(true);
}

static void when_ready(bool by_deadline)
{
    fixture f;
    fixture_open(&f, by_deadline);
    ferry_future *call = call_behind(&f, NULL);
    stop(&f, call); /* nobody has made progress: it was not handed out */
    settle(&f.te);
    ASSERT_STATUS(status_of(call), f.status);
    cr_assert_eq(manual_waiting(&f.executor), 0);
    cr_assert_eq(f.calls, 0);
    fixture_close(&f);
}

Test(cancel, stops_what_is_ready_and_not_handed_out)
{
    when_ready(false);
    when_ready(true);
}

static void when_posted(bool by_deadline)
{
    fixture f;
    fixture_open(&f, by_deadline);
    ferry_future *call = call_behind(&f, NULL), *quiet = ferry_future_quiet(call);
    settle(&f.te);
    cr_assert_eq(manual_waiting(&f.executor), 1);
    stop(&f, call);
    settle(&f.te);
    ASSERT_STATUS(status_of(call), f.status);
    ASSERT_STATUS(status_of(quiet), FERRY_OK);
    manual_run_one(&f.executor);
    settle(&f.te);
    cr_assert_eq(f.calls, 0, "it never runs");
    fixture_close(&f);
}

Test(cancel, keeps_a_posted_function_from_running)
{
    when_posted(false);
    when_posted(true);
}

Test(cancel, a_posted_function_may_outlive_its_engine)
{
    fixture f;
    fixture_open(&f, false);
    ferry_future *call = call_behind(&f, NULL);
    settle(&f.te);
    ferry_future_release(call);
    ASSERT_STATUS(ferry_engine_shutdown(f.te.engine, -1), FERRY_OK);
    ferry_engine_release(f.te.engine);
    manual_run_one(&f.executor);
    cr_assert_eq(f.calls, 0);
    cr_assert_eq(failing_allocator_live_bytes(&f.te.memory), 0);
}

typedef struct long_call {
    fixture *f;
    ferry_future *self;
    ferry_future *quiet;
    ferry_future *writer;
    ferry_status returned;
    bool looked;
} long_call;

/* Runs in a task of the test's own thread, so progress may be made from within. */
static ferry_status stop_itself(void *arg)
{
    long_call *call = arg;
    stop(call->f, call->self);
    settle(&call->f->te);
    ASSERT_STATUS(ferry_future_poll(call->self), call->f->status);
    ASSERT_STATUS(ferry_future_poll(call->quiet), FERRY_PENDING);
    ASSERT_STATUS(ferry_future_poll(call->writer), FERRY_PENDING);
    call->looked = true;
    return call->returned;
}

static void while_running(bool by_deadline, ferry_status returned)
{
    fixture f;
    fixture_open(&f, by_deadline);
    ferry_buffer *buffer = test_buffer(&f.te, 0, 10, 0), *src = test_buffer(&f.te, 0, 10, 6);
    long_call call = {.f = &f, .returned = returned};
    ferry_access access = {ferry_buffer_span(buffer), FERRY_READ_WRITE};
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.accesses = &access;
    options.access_count = 1;
    options.deadline_ns = f.deadline_ns;
    call.self = ferry_call(f.te.engine, &f.executor.executor, stop_itself, &call, &options);
    call.quiet = ferry_future_quiet(call.self);
    call.writer = ferry_copy(f.te.engine, ferry_buffer_span(buffer), ferry_buffer_span(src), NULL);
    settle(&f.te);
    manual_run_one(&f.executor);
    cr_assert(call.looked);
    settle(&f.te);
    ASSERT_STATUS(status_of(call.self), f.status);
    ASSERT_STATUS(status_of(call.quiet), FERRY_OK);
    ASSERT_STATUS(status_of(call.writer), FERRY_OK);
    cr_assert(is_filled(buffer, 0, 10, 6));
    ferry_buffer_release(buffer);
    ferry_buffer_release(src);
    fixture_close(&f);
}

Test(cancel, a_running_function_goes_on_to_its_end_before_it_is_quiet)
{
    while_running(false, FERRY_OK);
    while_running(true, FERRY_OK);
}

Test(cancel, a_running_function_that_then_fails_keeps_its_status)
{
    while_running(false, FERRY_E_FAILED);
    while_running(true, FERRY_E_FAILED);
}

static void when_over(bool by_deadline)
{
    fixture f;
    fixture_open(&f, by_deadline);
    ferry_future *call = call_behind(&f, NULL);
    settle(&f.te);
    manual_run_one(&f.executor);
    settle(&f.te);
    ASSERT_STATUS(ferry_future_poll(call), FERRY_OK);
    stop(&f, call);
    settle(&f.te);
    ASSERT_STATUS(status_of(call), FERRY_OK);
    cr_assert_eq(ferry_engine_timeout_ns(f.te.engine), -1, "no deadline is left");
    fixture_close(&f);
}

Test(cancel, changes_nothing_once_it_is_resolved)
{
    when_over(false);
    when_over(true);
}

Test(cancel, twice_is_once)
{
    fixture f;
    fixture_open(&f, false);
    ferry_promise *promise = test_promise(&f.te);
    ferry_future *nop = nop_after_promise(&f.te, promise);
    counted_waiter waiter;
    counted_waiter_init(&waiter, NULL);
    ASSERT_STATUS(ferry_future_on_ready(nop, &waiter.waiter), FERRY_OK);
    for (int i = 0; i < 3; i++)
        ASSERT_STATUS(ferry_future_cancel(nop), FERRY_OK);
    settle(&f.te);
    ASSERT_STATUS(ferry_future_cancel(nop), FERRY_OK);
    settle(&f.te);
    cr_assert_eq(waiter.calls, 1);
    ASSERT_STATUS(status_of(nop), FERRY_E_CANCELLED);
    ferry_promise_release(promise);
    fixture_close(&f);
}

Test(cancel, reaches_what_nobody_holds_any_more)
{
    fixture f;
    fixture_open(&f, false);
    ferry_promise *promise = test_promise(&f.te);
    ferry_future *nop = nop_after_promise(&f.te, promise);
    ASSERT_STATUS(ferry_future_cancel(nop), FERRY_OK);
    ferry_future_release(nop);
    settle(&f.te);
    ferry_promise_release(promise);
    fixture_close(&f);
}

Test(cancel, fails_all_that_depends_on_it)
{
    fixture f;
    fixture_open(&f, false);
    ferry_promise *promise = test_promise(&f.te);
    ferry_future *chain[100];
    chain[0] = nop_after_promise(&f.te, promise);
    for (int i = 1; i < 100; i++)
        chain[i] = nop_after(&f.te, chain[i - 1]);
    ASSERT_STATUS(ferry_future_cancel(chain[50]), FERRY_OK);
    settle(&f.te);
    for (int i = 51; i < 100; i++) {
        ASSERT_STATUS(ferry_future_poll(chain[i]), FERRY_E_DEPENDENCY);
        cr_assert_eq(ferry_future_error(chain[i])->cause->op, ferry_future_id(chain[50]));
    }
    keep_promise(promise, FERRY_OK);
    settle(&f.te);
    for (int i = 0; i < 100; i++)
        ASSERT_STATUS(status_of(chain[i]), i < 50    ? FERRY_OK
                                           : i == 50 ? FERRY_E_CANCELLED
                                                     : FERRY_E_DEPENDENCY);
    fixture_close(&f);
}

/* ---- deadlines alone ---- */

static ferry_future *held_until(test_engine *te, ferry_future *after, int64_t deadline_ns)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = &after;
    options.after_count = 1;
    options.deadline_ns = deadline_ns;
    return ferry_nop(te->engine, &options);
}

Test(cancel, a_deadline_already_past_fails_what_waits)
{
    fixture f;
    fixture_open(&f, true);
    ferry_promise *promise = test_promise(&f.te);
    ferry_future *future = ferry_promise_future(promise);
    ferry_future *past = held_until(&f.te, future, START_NS - 1);
    ferry_future *now = held_until(&f.te, future, START_NS);
    settle(&f.te);
    ASSERT_STATUS(status_of(past), FERRY_E_DEADLINE);
    ASSERT_STATUS(status_of(now), FERRY_E_DEADLINE);
    ferry_future_release(future);
    ferry_promise_release(promise);
    fixture_close(&f);
}

Test(cancel, nothing_starts_after_its_deadline)
{
    fixture f;
    fixture_open(&f, true);
    ferry_buffer *src = test_buffer(&f.te, 0, 64, 1), *dst = test_buffer(&f.te, 1, 64, 0);
    ferry_promise *promise = test_promise(&f.te);
    ferry_future *held = ferry_promise_future(promise), *futures[4];
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.deadline_ns = START_NS;
    futures[0] = ferry_nop(f.te.engine, &options);
    futures[1] = ferry_copy(f.te.engine, ferry_buffer_span(dst), ferry_buffer_span(src), &options);
    futures[2] = ferry_call(f.te.engine, NULL, count_call, &f.calls, &options);
    options.deadline_ns = START_NS + 5;
    options.after = &held;
    options.after_count = 1;
    futures[3] = ferry_nop(f.te.engine, &options);
    stepped_clock_step(&f.te.time, 5);
    keep_promise(promise, FERRY_OK); /* nobody has looked at the clock since */
    settle(&f.te);
    for (int i = 0; i < 4; i++) {
        ASSERT_STATUS(ferry_future_poll(futures[i]), FERRY_E_DEADLINE);
        cr_assert_eq(ferry_future_error(futures[i])->op, ferry_future_id(futures[i]));
        ferry_future_release(futures[i]);
    }
    cr_assert_eq(f.calls, 0);
    cr_assert(is_filled(dst, 0, 64, 0));
    ferry_future_release(held);
    ferry_buffer_release(src);
    ferry_buffer_release(dst);
    fixture_close(&f);
}

Test(cancel, a_deadline_is_not_early)
{
    fixture f;
    fixture_open(&f, true);
    ferry_promise *promise = test_promise(&f.te);
    ferry_future *future = ferry_promise_future(promise);
    ferry_future *nop = held_until(&f.te, future, START_NS + 1000);
    settle(&f.te);
    cr_assert_eq(ferry_engine_timeout_ns(f.te.engine), 1000);
    stepped_clock_step(&f.te.time, 999);
    settle(&f.te);
    ASSERT_STATUS(ferry_future_poll(nop), FERRY_PENDING);
    cr_assert_eq(ferry_engine_timeout_ns(f.te.engine), 1);
    stepped_clock_step(&f.te.time, 1);
    cr_assert_eq(ferry_engine_timeout_ns(f.te.engine), 0);
    settle(&f.te);
    ASSERT_STATUS(status_of(nop), FERRY_E_DEADLINE);
    ferry_future_release(future);
    ferry_promise_release(promise);
    fixture_close(&f);
}

/* It is a time like others, which has passed by any clock that starts at 0. */
Test(cancel, a_negative_deadline_has_passed)
{
    static const int64_t deadlines_ns[] = {-1, INT64_MIN / 2, INT64_MIN};
    fixture f;
    fixture_open(&f, true);
    ferry_buffer *src = test_buffer(&f.te, 0, 64, 1), *dst = test_buffer(&f.te, 1, 64, 2);
    ferry_future *nop = ferry_nop(f.te.engine, NULL);
    for (size_t i = 0; i < 3; i++) {
        ferry_op_options options = FERRY_OP_OPTIONS_INIT;
        options.deadline_ns = deadlines_ns[i];
        ferry_op op = {.kind = FERRY_OP_NOP};
        ferry_future *futures[] = {
            held_until(&f.te, nop, deadlines_ns[i]),
            ferry_copy(f.te.engine, ferry_buffer_span(dst), ferry_buffer_span(src), &options),
            ferry_call(f.te.engine, NULL, count_call, &f.calls, &options),
            ferry_batch(f.te.engine, NULL, sizeof op, 0, NULL, &options),
        };
        ferry_future *batch = ferry_batch(f.te.engine, &op, sizeof op, 1, NULL, &options);
        ferry_future *reader =
            ferry_copy(f.te.engine, ferry_buffer_span(src), ferry_buffer_span(dst), NULL);
        cr_assert_eq(ferry_engine_timeout_ns(f.te.engine), 0);
        settle(&f.te);
        for (size_t k = 0; k < 4; k++)
            ASSERT_STATUS(status_of(futures[k]), FERRY_E_DEADLINE);
        ASSERT_STATUS(ferry_future_error(batch)->cause->status, FERRY_E_DEADLINE);
        ASSERT_STATUS(ferry_future_error(reader)->cause->status, FERRY_E_DEADLINE);
        ASSERT_STATUS(status_of(batch), FERRY_E_DEPENDENCY);
        ASSERT_STATUS(status_of(reader), FERRY_E_DEPENDENCY);
        cr_assert(is_filled(dst, 0, 64, 2));
        ASSERT_STATUS(ferry_buffer_define(ferry_buffer_span(dst), NULL), FERRY_OK);
        ASSERT_STATUS(ferry_buffer_define(ferry_buffer_span(src), NULL), FERRY_OK);
    }
    cr_assert_eq(f.calls, 0);
    ASSERT_STATUS(status_of(held_until(&f.te, nop, INT64_MAX)), FERRY_OK);
    ferry_future_release(nop);
    ferry_buffer_release(src);
    ferry_buffer_release(dst);
    fixture_close(&f);
}

/* A clock of the user's may be below 0, and then such a deadline may be to come. */
Test(cancel, a_clock_may_begin_below_zero)
{
    test_engine te;
    ferry_engine_options options = test_engine_options(&te, FERRY_LOOP_EMBEDDED);
    stepped_clock_init(&te.time, -1000);
    test_engine_create(&te, &options);
    ferry_promise *promise = test_promise(&te);
    ferry_future *after = ferry_promise_future(promise);
    ferry_future *early = held_until(&te, after, -2000), *late = held_until(&te, after, -500);
    settle(&te);
    ASSERT_STATUS(status_of(early), FERRY_E_DEADLINE);
    ASSERT_STATUS(ferry_future_poll(late), FERRY_PENDING);
    cr_assert_eq(ferry_engine_timeout_ns(te.engine), 500);
    stepped_clock_step(&te.time, 500);
    settle(&te);
    ASSERT_STATUS(status_of(late), FERRY_E_DEADLINE);
    keep_promise(promise, FERRY_OK);
    ferry_future_release(after);
    settle(&te);
    test_engine_close(&te);
}

/* The loop sleeps by a timer, which takes no such time. */
Test(cancel, the_loops_thread_finds_negative_deadlines)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_THREAD);
    ferry_promise *promise = test_promise(&te);
    ferry_future *after = ferry_promise_future(promise);
    for (int i = 0; i < 100; i++) {
        ferry_future *late = held_until(&te, after, i % 2 == 0 ? -1 : INT64_MIN);
        ASSERT_STATUS(ferry_future_wait(late, -1), FERRY_E_DEADLINE);
        ferry_future_release(late);
    }
    keep_promise(promise, FERRY_OK);
    ferry_future_release(after);
    test_engine_close(&te);
}

Test(cancel, the_loops_thread_keeps_deadlines)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_THREAD);
    ferry_promise *promise = test_promise(&te);
    ferry_future *future = ferry_promise_future(promise);
    ferry_future *far = held_until(&te, future, INT64_MAX);
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t now_ns = now.tv_sec * 1000000000 + now.tv_nsec;
    ferry_future *soon = held_until(&te, future, now_ns + 3000000);
    ASSERT_STATUS(ferry_future_wait(soon, -1), FERRY_E_DEADLINE);
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    cr_assert_geq(now.tv_sec * 1000000000 + now.tv_nsec, now_ns + 3000000, "not early");
    ASSERT_STATUS(ferry_future_poll(far), FERRY_PENDING);
    keep_promise(promise, FERRY_OK);
    ASSERT_STATUS(ferry_future_wait(far, -1), FERRY_OK);
    ferry_future_release(future);
    ferry_future_release(soon);
    ferry_future_release(far);
    test_engine_close(&te);
}

enum { DEADLINES = 1000 };

typedef struct timed {
    ferry_waiter waiter; /* first */
    int64_t deadline_ns;
    ferry_future *future;
} timed;

static timed timed_all[DEADLINES];
static int64_t fired_ns[DEADLINES];
static int fired_count;

static void note_deadline(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)future;
    ASSERT_STATUS(status, FERRY_E_DEADLINE);
    fired_ns[fired_count++] = ((timed *)(void *)waiter)->deadline_ns;
}

static int by_deadline(const void *left, const void *right)
{
    int64_t left_ns = ((const timed *)left)->deadline_ns;
    int64_t right_ns = ((const timed *)right)->deadline_ns;
    return left_ns < right_ns ? -1 : left_ns > right_ns;
}

/* Steps the clock over some of them at a time; a third are cancelled meanwhile. */
Test(cancel, a_thousand_random_deadlines_pass_in_order)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_promise *promise = test_promise(&te);
    ferry_future *future = ferry_promise_future(promise);
    unsigned seed = 20240501;
    for (int i = 0; i < DEADLINES; i++) {
        timed *one = &timed_all[i];
        one->waiter = (ferry_waiter)FERRY_WAITER_INIT(note_deadline, NULL);
        one->deadline_ns = START_NS + 1 + (rand_r(&seed) % 100000);
        one->future = held_until(&te, future, one->deadline_ns);
    }
    qsort(timed_all, DEADLINES, sizeof *timed_all, by_deadline);
    int cancelled = 0;
    for (int i = 2; i < DEADLINES; i += 3, cancelled++)
        ASSERT_STATUS(ferry_future_cancel(timed_all[i].future), FERRY_OK);
    settle(&te);
    for (int i = 0; i < DEADLINES; i++) {
        if (i % 3 == 2)
            ASSERT_STATUS(ferry_future_poll(timed_all[i].future), FERRY_E_CANCELLED);
        else
            ASSERT_STATUS(ferry_future_on_ready(timed_all[i].future, &timed_all[i].waiter),
                          FERRY_OK);
    }
    int64_t now_ns = START_NS;
    for (int step = 0; step < 40; step++) {
        stepped_clock_step(&te.time, 2500);
        now_ns += 2500;
        settle(&te);
        for (int i = 0; i < DEADLINES; i++) {
            if (i % 3 != 2)
                ASSERT_STATUS(ferry_future_poll(timed_all[i].future),
                              timed_all[i].deadline_ns <= now_ns ? FERRY_E_DEADLINE
                                                                 : FERRY_PENDING);
        }
    }
    cr_assert_eq(fired_count, DEADLINES - cancelled);
    for (int i = 1; i < fired_count; i++)
        cr_assert_leq(fired_ns[i - 1], fired_ns[i]);
    for (int i = 0; i < DEADLINES; i++)
        ferry_future_release(timed_all[i].future);
    ferry_future_release(future);
    ferry_promise_release(promise);
    settle(&te);
    test_engine_close(&te);
}
