/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cancels and deadlines of operations that wait, were handed out, run, or are over. Those that
 * stand in a stream: tests/unit/engine_gate.c.
 */
#include "tests/support/play.h"

#include <stdlib.h>
#include <time.h>

SCENE_SUITE(cancel);

/* What stops the operation `c` in each of two plays: a cancel, and a deadline. */
typedef struct stop {
    const char *deadline; /* an option of c */
    const char *now;      /* the step that stops it */
    const char *status;   /* what it answers */
} stop;

static const stop stops[] = {{"", "cancel c", "CANCELLED"},
                             {"deadline 1000", "step 1000", "DEADLINE"}};

Test(cancel, stops_what_waits)
{
    for (int i = 0; i < 2; i++) {
        play("promise p; c = call by hand after p %s; q = quiet c; expect c PENDING; %s;"
             "expect c %s; expect q OK; keep p; calls 0; expect c %s",
             stops[i].deadline, stops[i].now, stops[i].status, stops[i].status);
        scene_end();
    }
}

Test(cancel, stops_what_is_ready_and_not_handed_out)
{
    for (int i = 0; i < 2; i++) {
        play("c = call by hand %s; %s;" /* nobody has made progress: it was not handed out */
             "expect c %s; posted 0; calls 0",
             stops[i].deadline, stops[i].now, stops[i].status);
        scene_end();
    }
}

Test(cancel, keeps_a_posted_function_from_running)
{
    for (int i = 0; i < 2; i++) {
        play("c = call by hand %s; q = quiet c; posted 1; %s; expect c %s; expect q OK; run;"
             "calls 0",
             stops[i].deadline, stops[i].now, stops[i].status);
        scene_end();
    }
}

Test(cancel, a_posted_function_may_outlive_its_engine)
{
    play("c = call by hand; settle; release c");
    scene_leave();
    manual_run_one(by_hand());
    cr_assert_eq(*scene_calls(), 0);
}

typedef struct long_call {
    const stop *stop;
    ferry_status returned;
    bool looked;
} long_call;

/* Runs in a task of the test's own thread, so progress may be made from within. */
static ferry_status stop_itself(void *arg)
{
    long_call *call = arg;
    play("%s; expect c %s; expect q w PENDING", call->stop->now, call->stop->status);
    call->looked = true;
    return call->returned;
}

static void while_running(const stop *stop, ferry_status returned)
{
    play("buffer b 10; buffer src 10 of 6");
    long_call call = {.stop = stop, .returned = returned};
    ferry_access access = {the_span("b"), FERRY_READ_WRITE};
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.accesses = &access;
    options.access_count = 1;
    options.deadline_ns = *stop->deadline != '\0' ? START_NS + 1000 : 0;
    ferry_future *self = ferry_call(engine(), &by_hand()->executor, stop_itself, &call, &options);
    cr_assert(scene_own_as(SCENE_FUTURE, self, "c"));
    play("q = quiet c; w = copy b <- src; settle");
    manual_run_one(by_hand());
    cr_assert(call.looked);
    play("expect c %s; expect q w OK; bytes b 6", stop->status);
    scene_end();
}

Test(cancel, a_running_function_goes_on_to_its_end_before_it_is_quiet)
{
    while_running(&stops[0], FERRY_OK);
    while_running(&stops[1], FERRY_OK);
}

Test(cancel, a_running_function_that_then_fails_keeps_its_status)
{
    while_running(&stops[0], FERRY_E_FAILED);
    while_running(&stops[1], FERRY_E_FAILED);
}

Test(cancel, changes_nothing_once_it_is_resolved)
{
    for (int i = 0; i < 2; i++) {
        play("c = call by hand %s; run; expect c OK; %s; expect c OK; timer -1", stops[i].deadline,
             stops[i].now);
        scene_end();
    }
}

Test(cancel, twice_is_once)
{
    play("promise p; n = nop after p");
    counted_waiter waiter;
    counted_waiter_init(&waiter, NULL);
    ASSERT_STATUS(ferry_future_on_ready(the_future("n"), &waiter.waiter), FERRY_OK);
    play("cancel n; cancel n; cancel n; settle; cancel n; settle");
    cr_assert_eq(waiter.calls, 1);
    play("expect n CANCELLED");
}

Test(cancel, reaches_what_nobody_holds_any_more)
{
    play("promise p; n = nop after p; cancel n; release n; settle");
}

Test(cancel, fails_all_that_depends_on_it)
{
    play("promise p; n0 = nop after p");
    for (int i = 1; i < 100; i++)
        play("n%d = nop after n%d", i, i - 1);
    play("cancel n50");
    for (int i = 51; i < 100; i++)
        play("expect n%d DEPENDENCY; cause n%d CANCELLED of n50", i, i);
    play("keep p");
    for (int i = 0; i < 100; i++)
        play("expect n%d %s", i, i < 50 ? "OK" : i == 50 ? "CANCELLED" : "DEPENDENCY");
}

/* ---- deadlines alone ---- */

static ferry_future *held_until(ferry_future *after, int64_t deadline_ns)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = &after;
    options.after_count = 1;
    options.deadline_ns = deadline_ns;
    return own(ferry_nop(engine(), &options));
}

/* A future that does not resolve before the scene's end. */
static ferry_future *pending(void)
{
    play("promise p");
    return own(ferry_promise_future(the_promise("p")));
}

Test(cancel, a_deadline_already_past_fails_what_waits)
{
    play("promise p; past = nop after p deadline -1; due = nop after p deadline 0;"
         "expect past due DEADLINE");
}

Test(cancel, nothing_starts_after_its_deadline)
{
    play("buffer src 64 of 1; buffer dst 64 on 1; promise p; f0 = nop deadline 0;"
         "f1 = copy dst <- src deadline 0; f2 = call deadline 0; f3 = nop after p deadline 5;"
         "step 5; keep p; expect f0 f1 f2 f3 DEADLINE"); /* nobody has looked at the clock since */
    for (int i = 0; i < 4; i++)
        cr_assert_eq(ferry_future_error(the_future("f%d", i))->op,
                     ferry_future_id(the_future("f%d", i)));
    play("calls 0; bytes dst 0");
}

Test(cancel, a_deadline_is_not_early)
{
    play("promise p; n = nop after p deadline 1000; settle; timer 1000; step 999;"
         "expect n PENDING; timer 1; step 1; timer 0; expect n DEADLINE");
}

/* It is a time like others, which has passed by any clock that starts at 0. */
Test(cancel, a_negative_deadline_has_passed)
{
    static const int64_t deadlines_ns[] = {-1, INT64_MIN / 2, INT64_MIN};
    play("buffer src 64 of 1; buffer dst 64 of 2 on 1; n = nop");
    for (size_t i = 0; i < 3; i++) {
        ferry_op_options options = FERRY_OP_OPTIONS_INIT;
        options.deadline_ns = deadlines_ns[i];
        ferry_op op = {.kind = FERRY_OP_NOP};
        ferry_future *futures[] = {
            held_until(the_future("n"), deadlines_ns[i]),
            own(ferry_copy(engine(), the_span("dst"), the_span("src"), &options)),
            own(ferry_call(engine(), NULL, count_call, scene_calls(), &options)),
            own(ferry_batch(engine(), NULL, sizeof op, 0, NULL, &options)),
        };
        ferry_future *batch = ferry_batch(engine(), &op, sizeof op, 1, NULL, &options);
        cr_assert(scene_own_as(SCENE_FUTURE, batch, "batch"));
        play("reader = copy src <- dst; timer 0; settle");
        for (size_t k = 0; k < 4; k++)
            EXPECT(futures[k], E_DEADLINE);
        play("expect batch reader DEPENDENCY; cause batch DEADLINE; cause reader DEADLINE;"
             "bytes dst 2; define dst; define src; release batch reader");
    }
    play("calls 0");
    EXPECT(held_until(the_future("n"), INT64_MAX), OK);
}

/* A clock of the user's may be below 0, and then such a deadline may be to come. */
Test(cancel, a_clock_may_begin_below_zero)
{
    stepped_clock_init(scene_options(FERRY_LOOP_EMBEDDED)->clock->arg, -1000);
    ferry_future *after = pending();
    ferry_future *early = held_until(after, -2000), *late = held_until(after, -500);
    EXPECT(early, E_DEADLINE);
    EXPECT(late, PENDING);
    play("timer 500; step 500");
    EXPECT(late, E_DEADLINE);
    play("keep p");
}

/* The loop sleeps by a timer, which takes no such time. */
Test(cancel, the_loops_thread_finds_negative_deadlines)
{
    scene_begin(FERRY_LOOP_THREAD);
    ferry_future *after = pending();
    for (int i = 0; i < 100; i++)
        EXPECT(held_until(after, i % 2 == 0 ? -1 : INT64_MIN), E_DEADLINE);
    play("keep p");
}

static int64_t now_of_machine_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000 + now.tv_nsec;
}

Test(cancel, the_loops_thread_keeps_deadlines)
{
    scene_begin(FERRY_LOOP_THREAD);
    ferry_future *after = pending(), *far = held_until(after, INT64_MAX);
    int64_t begin_ns = now_of_machine_ns();
    EXPECT(held_until(after, begin_ns + 3000000), E_DEADLINE);
    cr_assert_geq(now_of_machine_ns(), begin_ns + 3000000, "not early");
    EXPECT(far, PENDING);
    play("keep p");
    EXPECT(far, OK);
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
    ferry_future *after = pending();
    unsigned seed = 20240501;
    for (int i = 0; i < DEADLINES; i++) {
        timed *one = &timed_all[i];
        one->waiter = (ferry_waiter)FERRY_WAITER_INIT(note_deadline, NULL);
        one->deadline_ns = START_NS + 1 + (rand_r(&seed) % 100000);
        one->future = held_until(after, one->deadline_ns);
    }
    qsort(timed_all, DEADLINES, sizeof *timed_all, by_deadline);
    int cancelled = 0;
    for (int i = 2; i < DEADLINES; i += 3, cancelled++)
        ASSERT_STATUS(ferry_future_cancel(timed_all[i].future), FERRY_OK);
    scene_settle();
    for (int i = 0; i < DEADLINES; i++) {
        if (i % 3 == 2)
            ASSERT_STATUS(ferry_future_poll(timed_all[i].future), FERRY_E_CANCELLED);
        else
            ASSERT_STATUS(ferry_future_on_ready(timed_all[i].future, &timed_all[i].waiter),
                          FERRY_OK);
    }
    int64_t now_ns = START_NS;
    for (int step = 0; step < 40; step++) {
        stepped_clock_step(&scene()->time, 2500);
        now_ns += 2500;
        scene_settle();
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
}
