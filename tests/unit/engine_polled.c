/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of which nobody tells when something has fired: when they are looked at, and by whom. */
#include "engine/engine.h"
#include "engine/graph/buffer.h"
#include "engine/graph/lane.h"
#include "engine/graph/turn.h"
#include "engine/ground/context.h"
#include "engine/ground/ground.h"
#include "engine/loop/handle.h"
#include "engine/loop/loop.h"
#include "tests/unit/steps.h"

#include <ev.h>
#include <poll.h>

TestSuite(engine_polled, .timeout = HANG_S);

enum { US = 1000, MS = 1000 * US };

static void assert_timeout(const steps *s, int64_t expected_ns)
{
    int64_t found_ns = ferry_engine_timeout_ns(s->f.te.engine);
    cr_assert_eq(found_ns, expected_ns, "after \"%s\": %lld ns", s->step, (long long)found_ns);
}

static void arm(const steps *s)
{
    ASSERT_STATUS(ferry_engine_arm(s->f.te.engine), FERRY_OK);
}

#define PAIR "buffer 0 src 1 dst 2;"
#define COPY "copy copy dst src;"
#define FAR_COPY "buffer 1 fsrc 1 fdst 2; copy far fdst fsrc;"

/* ---- when, by the user's clock ---- */

Test(engine_polled, with_nothing_in_flight_there_is_nothing_to_look_at)
{
    OPENED(steps, s);
    steps_play(&s, "settle");
    assert_timeout(&s, -1);
    steps_play(&s, PAIR COPY);
    assert_timeout(&s, 50 * US);
    steps_play(&s, "run");
    assert_timeout(&s, -1);
    arm(&s);
    cr_assert_eq(s.f.te.engine->poller.timer_ns, 0);
    steps_play(&s, "expect copy OK");
}

Test(engine_polled, looks_get_rarer_and_the_first_knows_how_long_such_copies_take)
{
    OPENED(steps, s);
    steps_play(&s, PAIR COPY "pass 10000000");
    assert_timeout(&s, 500 * US);
    steps_play(&s, "pass 490000000");
    assert_timeout(&s, MS);
    steps_play(&s, "run; expect copy OK;" COPY); /* such copies take half a second */
    assert_timeout(&s, 450 * MS);
    steps_play(&s, "pass 100000000");
    assert_timeout(&s, 350 * MS);
    steps_play(&s, "run; expect copy OK");
    ferry_span dst = span_of(buffer_of(&s, "dst"), 0, 10);
    ferry_span src = span_of(buffer_of(&s, "src"), 0, 10);
    (void)name_future(&s, "other", ferry_copy(s.f.te.engine, dst, src, NULL));
    assert_timeout(&s, 90 * MS); /* one of them took 100 ms */
    steps_play(&s, "run; expect other OK");
}

Test(engine_polled, one_behind_another_counts_from_when_that_was_done)
{
    OPENED(steps, s);
    steps_play(&s, PAIR "buffer 0 src2 1 dst2 2;" COPY "copy second dst2 src2; pass 10000000");
    (void)fake_run_some(s.f.world, 1); /* either; they fire in their order */
    steps_play(&s, "devices; run; expect copy second OK;" COPY);
    assert_timeout(&s, 4500 * US); /* the two took 10 ms, one of them half as long */
    steps_play(&s, "run; expect copy OK");
}

Test(engine_polled, events_of_the_program_take_as_long_as_they_like)
{
    OPENED(steps, s);
    for (int i = 0; i < 2; i++) {
        steps_play(&s, "record event 0.0");
        assert_timeout(&s, 50 * US);
        steps_play(&s, "pass 10000000");
        assert_timeout(&s, 500 * US);
        steps_play(&s, "fire 0.0; run; expect event OK");
    }
}

Test(engine_polled, the_next_look_is_that_of_the_stream_that_wants_it_first)
{
    OPENED(steps, s);
    steps_play(&s, PAIR COPY "pass 10000000;" FAR_COPY);
    assert_timeout(&s, 50 * US);
    steps_play(&s, "pass 1000000");
    assert_timeout(&s, 50 * US);
    steps_play(&s, "run; expect copy far OK");
}

Test(engine_polled, a_deadline_that_comes_first_is_what_counts)
{
    OPENED(steps, s);
    steps_play(&s, PAIR "copy copy dst src until 20000");
    assert_timeout(&s, 20 * US);
    steps_play(&s, "pass 20000; expect copy DEADLINE");
    assert_timeout(&s, 50 * US); /* it is not quiet */
    steps_play(&s, "run");
}

Test(engine_polled, what_others_tell_of_or_is_lost_is_not_looked_at)
{
    steps s = {.count = 0};
    test_engine_open(&s.f.te, FERRY_LOOP_EMBEDDED);
    fake_engine_attach(&s.f, &(fake_options){.parked_count = 1, .outside_count = 1});
    steps_play(&s, PAIR COPY "settle");
    assert_timeout(&s, -1);
    steps_play(&s, "run; expect copy OK");
    steps_close(&s);

    steps_open(&s);
    steps_play(&s, PAIR COPY "lose 0; settle; expect copy DEVICE");
    assert_timeout(&s, -1);
    steps_play(&s, "find 0; run");
    steps_close(&s);
}

/* ---- who is woken ---- */

static bool is_readable(const steps *s, int timeout_ms)
{
    struct pollfd readable = {.fd = ferry_engine_fd(s->f.te.engine), .events = POLLIN};
    return poll(&readable, 1, timeout_ms) == 1;
}

Test(engine_polled, a_sleeping_loop_is_woken_once_for_what_wants_a_look)
{
    OPENED(steps, s);
    const ferry_engine *engine = s.f.te.engine;
    steps_play(&s, PAIR "settle");
    arm(&s);
    cr_assert_not(is_readable(&s, 0));
    steps_play(&s, COPY);
    cr_assert(is_readable(&s, 0));
    steps_play(&s, "settle");
    arm(&s);
    cr_assert_eq(engine->next_look_ns, START_NS + 50 * US);
    cr_assert_eq(engine->asleep, FRY_ASLEEP);
    steps_play(&s, FAR_COPY);
    cr_assert_eq(engine->asleep, FRY_ASLEEP, "it will look soon enough");
    steps_play(&s, "run; expect copy far OK");
}

Test(engine_polled, a_head_that_wants_an_earlier_look_wakes_the_loop_too)
{
    OPENED(steps, s);
    steps_play(&s, PAIR COPY "pass 100000000; run; expect copy OK;" COPY "settle");
    arm(&s);
    cr_assert_eq(s.f.te.engine->next_look_ns, START_NS + 190 * MS);
    steps_play(&s, FAR_COPY);
    cr_assert_eq(s.f.te.engine->asleep, FRY_AWAKE);
    steps_play(&s, "run; expect copy far OK");
}

/*
 * The timer of a look runs out while a helper has the baton, which finds what the loop would have:
 * so the loop sleeps without a look and without a timer. The next head must wake it, though it
 * wants its look later than the one that is over.
 */
Test(engine_polled, a_head_after_a_look_that_a_helper_took_wakes_the_loop)
{
    OPENED(steps, s);
    ferry_engine *engine = s.f.te.engine;
    fry_context *context = fry_context_get(engine);
    steps_play(&s, PAIR "copy first dst src; settle");
    cr_assert(fry_baton_take(&engine->role));
    cr_assert(fry_arm(engine));

    fry_turn turn;
    stepped_clock_step(&s.f.te.time, MS);
    (void)fake_run(s.f.world);
    (void)fry_fetch_add(&engine->helpers, 1);
    cr_assert(fry_turn_begin(&turn, engine, context, false));
    cr_assert_eq(fry_lanes_poll(&turn), 1);
    cr_assert_eq(fry_poller_wait(&engine->poller, -1), 1);
    fry_disarm(engine);
    cr_assert_eq(fry_tick(engine, 1, true), 0);
    cr_assert(fry_arm(engine));
    cr_assert_eq(engine->poller.timer_ns, 0);
    (void)fry_turn_end(&turn, engine->submit_budget);
    fry_help_ends(engine, context);
    cr_assert_eq(engine->asleep, FRY_ASLEEP, "nothing is left");

    steps_play(&s, "copy second dst src");
    cr_assert_eq(engine->asleep, FRY_AWAKE);
    fry_baton_give(&engine->role);
    steps_play(&s, "run; expect first second OK");
}

/* ---- by timers, with real time ---- */

/* What stands in a stream fires while the loop sleeps, or as it looks for the last time. Asleep by
 * itself says little: the loop may be about to enter what was submitted while it had the baton. */
static void runs_while_the_loop_sleeps(const steps *s)
{
    while (fry_load_relaxed(&s->f.te.engine->asleep) != FRY_ASLEEP || fake_run(s->f.world) == 0)
        (void)sched_yield();
}

/* With one clock or the other; polled, and with a pair of buffers. */
static void open_engine(steps *s, const ferry_engine_options *options)
{
    s->count = 0;
    test_engine_create(&s->f.te, options);
    fake_engine_attach(&s->f,
                       &(fake_options){.parked_count = 1, .outside_count = 1, .is_polled = true});
    steps_play(s, PAIR);
}

static void open_with_clock(steps *s, ferry_loop_mode loop, bool is_users, struct ev_loop *ev)
{
    ferry_engine_options options = test_engine_options(&s->f.te, loop);
    options.clock = is_users ? &s->f.te.clock : NULL;
    options.ev_loop = ev;
    open_engine(s, &options);
}

static void settle_and_arm(const steps *s)
{
    settle(&s->f.te);
    while (ferry_engine_arm(s->f.te.engine) != FERRY_OK)
        settle(&s->f.te);
}

static void embedded_by_descriptor(bool is_users)
{
    OWNED(steps_close) steps s;
    open_with_clock(&s, FERRY_LOOP_EMBEDDED, is_users, NULL);
    steps_play(&s, COPY);
    settle_and_arm(&s);
    (void)fake_run(s.f.world); /* nobody tells */
    while (ferry_future_poll(future_of(&s, "copy")) == FERRY_PENDING) {
        cr_assert(is_readable(&s, -1));
        settle_and_arm(&s);
    }
    steps_play(&s, "expect copy OK");
}

Test(engine_polled, the_descriptor_gets_readable_when_a_look_is_due)
{
    embedded_by_descriptor(false);
}

Test(engine_polled, the_descriptor_gets_readable_with_a_users_clock_too)
{
    embedded_by_descriptor(true);
}

static void own_thread_by_timer(bool is_users)
{
    OWNED(steps_close) steps s;
    open_with_clock(&s, FERRY_LOOP_THREAD, is_users, NULL);
    for (int i = 0; i < 3; i++) {
        steps_play(&s, COPY);
        counted_waiter waiter;
        counted_waiter_init(&waiter, NULL);
        ASSERT_STATUS(ferry_future_on_ready(future_of(&s, "copy"), &waiter.waiter), FERRY_OK);
        runs_while_the_loop_sleeps(&s);
        while (waiter.calls == 0)
            (void)sched_yield();
        steps_play(&s, "expect copy OK");
    }
}

Test(engine_polled, the_own_thread_finds_it_by_its_timer)
{
    own_thread_by_timer(false);
}

Test(engine_polled, the_own_thread_finds_it_with_a_users_clock_too)
{
    own_thread_by_timer(true);
}

static void stop_loop(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)future, (void)status;
    ev_break(waiter->arg, EVBREAK_ALL);
}

Test(engine_polled, an_attached_loop_finds_it_by_its_timer)
{
    steps s;
    struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
    open_with_clock(&s, FERRY_LOOP_ATTACHED, false, loop);
    steps_play(&s, COPY);
    ferry_waiter waiter = FERRY_WAITER_INIT(stop_loop, loop);
    ASSERT_STATUS(ferry_future_on_ready(future_of(&s, "copy"), &waiter), FERRY_OK);
    (void)fake_run(s.f.world);
    (void)ev_run(loop, 0);
    steps_play(&s, "expect copy OK");
    steps_close(&s);
    ev_loop_destroy(loop);
}

/* ---- threads that wait ---- */

static void *run_later(void *arg)
{
    steps *s = arg;
    while (fake_run(s->f.world) == 0)
        (void)sched_yield();
    return NULL;
}

static void wait_for_it(ferry_loop_mode mode, bool is_users, int64_t wait_spin_ns)
{
    OWNED(steps_close) steps s;
    ferry_engine_options options = test_engine_options(&s.f.te, mode);
    options.clock = is_users ? &s.f.te.clock : NULL;
    options.wait_spin_ns = wait_spin_ns;
    open_engine(&s, &options);
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        cr_assert_eq(pthread_create(&thread, NULL, run_later, &s), 0);
        ferry_future *copy = gpu_copy(&s.f, buffer_of(&s, "dst"), buffer_of(&s, "src"));
        ASSERT_STATUS(ferry_future_wait(copy, -1), FERRY_OK);
        ferry_future_release(copy);
        cr_assert_eq(pthread_join(thread, NULL), 0);
    }
}

Test(engine_polled, a_waiting_thread_finds_it)
{
    static const int64_t spins_ns[] = {1, INT64_C(10000) * MS};
    for (size_t i = 0; i < 2; i++) {
        wait_for_it(FERRY_LOOP_THREAD, false, spins_ns[i]);
        wait_for_it(FERRY_LOOP_THREAD, true, spins_ns[i]);
        wait_for_it(FERRY_LOOP_EMBEDDED, false, spins_ns[i]);
        wait_for_it(FERRY_LOOP_EMBEDDED, true, spins_ns[i]);
    }
}

/* The loop's timer is set to much later: who spins finds it all the same. */
Test(engine_polled, a_waiting_thread_looks_while_it_spins)
{
    OWNED(steps_close) steps s;
    ferry_engine_options options = test_engine_options(&s.f.te, FERRY_LOOP_THREAD);
    options.wait_spin_ns = INT64_C(1000000) * MS;
    open_engine(&s, &options);
    fry_lane *lane = fake_stream(s.f.gpus[0], FAKE_WITHIN)->lane;
    lane->usual_ns[0] = INT64_C(3600000) * MS;
    steps_play(&s, COPY);
    runs_while_the_loop_sleeps(&s);
    ASSERT_STATUS(ferry_future_wait(future_of(&s, "copy"), -1), FERRY_OK);
}
