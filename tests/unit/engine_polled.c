/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of which nobody tells when something has fired: when they are looked at, and by whom. */
#include "engine/buffer.h"
#include "engine/context.h"
#include "engine/engine.h"
#include "engine/ground.h"
#include "engine/handle.h"
#include "engine/lane.h"
#include "engine/loop.h"
#include "engine/turn.h"
#include "tests/unit/fake_engine.h"

#include <ev.h>
#include <poll.h>

TestSuite(engine_polled, .timeout = HANG_S);

enum { US = 1000, MS = 1000 * US };

typedef struct pair {
    ferry_buffer *src, *dst;
} pair;

static pair pair_make(const fake_engine *f, size_t gpu)
{
    return (pair){gpu_buffer(f, gpu, 1), gpu_buffer(f, gpu, 2)};
}

static void pair_free(pair *p)
{
    ferry_buffer_release(p->src);
    ferry_buffer_release(p->dst);
}

static int64_t timeout_ns(const fake_engine *f)
{
    return ferry_engine_timeout_ns(f->te.engine);
}

static void step(fake_engine *f, int64_t ns)
{
    stepped_clock_step(&f->te.time, ns);
    settle(&f->te);
}

/* ---- when, by the user's clock ---- */

Test(engine_polled, with_nothing_in_flight_there_is_nothing_to_look_at)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    settle(&f.te);
    cr_assert_eq(timeout_ns(&f), -1);
    pair p = pair_make(&f, 0);
    ferry_future *copy = gpu_copy(&f, p.dst, p.src);
    cr_assert_eq(timeout_ns(&f), 50 * US);
    run_all(&f);
    cr_assert_eq(timeout_ns(&f), -1);
    ASSERT_STATUS(ferry_engine_arm(f.te.engine), FERRY_OK);
    cr_assert_eq(f.te.engine->poller.timer_ns, 0);
    ASSERT_STATUS(status_of(copy), FERRY_OK);
    pair_free(&p);
    fake_engine_close(&f);
}

Test(engine_polled, looks_get_rarer_and_the_first_knows_how_long_such_copies_take)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    pair p = pair_make(&f, 0);
    ferry_future *copy = gpu_copy(&f, p.dst, p.src);
    step(&f, 10 * MS);
    cr_assert_eq(timeout_ns(&f), 500 * US);
    step(&f, 490 * MS);
    cr_assert_eq(timeout_ns(&f), MS);
    run_all(&f);
    ASSERT_STATUS(status_of(copy), FERRY_OK);

    copy = gpu_copy(&f, p.dst, p.src); /* such copies take half a second */
    cr_assert_eq(timeout_ns(&f), 450 * MS);
    step(&f, 100 * MS);
    cr_assert_eq(timeout_ns(&f), 350 * MS);
    run_all(&f);
    ASSERT_STATUS(status_of(copy), FERRY_OK);

    ferry_future *other = ferry_copy(f.te.engine, span_of(p.dst, 0, 10), span_of(p.src, 0, 10),
                                     NULL); /* one of them took 100 ms */
    cr_assert_eq(timeout_ns(&f), 90 * MS);
    run_all(&f);
    ASSERT_STATUS(status_of(other), FERRY_OK);
    pair_free(&p);
    fake_engine_close(&f);
}

Test(engine_polled, one_behind_another_counts_from_when_that_was_done)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    pair p = pair_make(&f, 0), q = pair_make(&f, 0);
    ferry_future *first = gpu_copy(&f, p.dst, p.src), *second = gpu_copy(&f, q.dst, q.src);
    step(&f, 10 * MS);
    (void)fake_run_some(f.world, 1); /* either; they fire in their order */
    (void)fake_run(f.world);
    run_all(&f);
    ASSERT_STATUS(status_of(first), FERRY_OK);
    ASSERT_STATUS(status_of(second), FERRY_OK);
    first = gpu_copy(&f, p.dst, p.src); /* the two took 10 ms, one of them half as long */
    cr_assert_eq(timeout_ns(&f), 4500 * US);
    run_all(&f);
    ASSERT_STATUS(status_of(first), FERRY_OK);
    pair_free(&p);
    pair_free(&q);
    fake_engine_close(&f);
}

Test(engine_polled, events_of_the_program_take_as_long_as_they_like)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    for (int i = 0; i < 2; i++) {
        ferry_future *event = record(&f, 0, 0);
        cr_assert_eq(timeout_ns(&f), 50 * US);
        step(&f, 10 * MS);
        cr_assert_eq(timeout_ns(&f), 500 * US);
        user_goes(&f, 0, 0);
        run_all(&f);
        ASSERT_STATUS(status_of(event), FERRY_OK);
    }
    fake_engine_close(&f);
}

Test(engine_polled, the_next_look_is_that_of_the_stream_that_wants_it_first)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    pair p = pair_make(&f, 0), q = pair_make(&f, 1);
    ferry_future *old = gpu_copy(&f, p.dst, p.src);
    step(&f, 10 * MS);
    ferry_future *young = gpu_copy(&f, q.dst, q.src);
    cr_assert_eq(timeout_ns(&f), 50 * US);
    step(&f, MS);
    cr_assert_eq(timeout_ns(&f), 50 * US);
    run_all(&f);
    ASSERT_STATUS(status_of(old), FERRY_OK);
    ASSERT_STATUS(status_of(young), FERRY_OK);
    pair_free(&p);
    pair_free(&q);
    fake_engine_close(&f);
}

Test(engine_polled, a_deadline_that_comes_first_is_what_counts)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    pair p = pair_make(&f, 0);
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.deadline_ns = START_NS + 20 * US;
    ferry_future *copy =
        ferry_copy(f.te.engine, ferry_buffer_span(p.dst), ferry_buffer_span(p.src), &options);
    cr_assert_eq(timeout_ns(&f), 20 * US);
    step(&f, 20 * US);
    ASSERT_STATUS(ferry_future_poll(copy), FERRY_E_DEADLINE);
    cr_assert_eq(timeout_ns(&f), 50 * US, "it is not quiet");
    run_all(&f);
    ferry_future_release(copy);
    pair_free(&p);
    fake_engine_close(&f);
}

Test(engine_polled, what_others_tell_of_or_is_lost_is_not_looked_at)
{
    fake_engine f;
    test_engine_open(&f.te, FERRY_LOOP_EMBEDDED);
    fake_engine_attach(&f, &(fake_options){.parked_count = 1, .outside_count = 1});
    pair p = pair_make(&f, 0);
    ferry_future *copy = gpu_copy(&f, p.dst, p.src);
    settle(&f.te);
    cr_assert_eq(timeout_ns(&f), -1);
    run_all(&f);
    ASSERT_STATUS(status_of(copy), FERRY_OK);
    pair_free(&p);
    fake_engine_close(&f);

    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    p = pair_make(&f, 0);
    copy = gpu_copy(&f, p.dst, p.src);
    fake_lose(f.gpus[0], true);
    settle(&f.te);
    ASSERT_STATUS(ferry_future_poll(copy), FERRY_E_DEVICE);
    cr_assert_eq(timeout_ns(&f), -1);
    fake_lose(f.gpus[0], false);
    run_all(&f);
    ferry_future_release(copy);
    pair_free(&p);
    fake_engine_close(&f);
}

/* ---- who is woken ---- */

static bool is_readable(const fake_engine *f, int timeout_ms)
{
    struct pollfd readable = {.fd = ferry_engine_fd(f->te.engine), .events = POLLIN};
    return poll(&readable, 1, timeout_ms) == 1;
}

Test(engine_polled, a_sleeping_loop_is_woken_once_for_what_wants_a_look)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    pair p = pair_make(&f, 0), q = pair_make(&f, 1);
    settle(&f.te);
    ASSERT_STATUS(ferry_engine_arm(f.te.engine), FERRY_OK);
    cr_assert_not(is_readable(&f, 0));
    ferry_future *first = gpu_copy(&f, p.dst, p.src);
    cr_assert(is_readable(&f, 0));
    settle(&f.te);
    ASSERT_STATUS(ferry_engine_arm(f.te.engine), FERRY_OK);
    cr_assert_eq(f.te.engine->next_look_ns, START_NS + 50 * US);
    cr_assert_eq(f.te.engine->asleep, FRY_ASLEEP);
    ferry_future *second = gpu_copy(&f, q.dst, q.src);
    cr_assert_eq(f.te.engine->asleep, FRY_ASLEEP, "it will look soon enough");
    run_all(&f);
    ASSERT_STATUS(status_of(first), FERRY_OK);
    ASSERT_STATUS(status_of(second), FERRY_OK);
    pair_free(&p);
    pair_free(&q);
    fake_engine_close(&f);
}

Test(engine_polled, a_head_that_wants_an_earlier_look_wakes_the_loop_too)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    pair p = pair_make(&f, 0), q = pair_make(&f, 1);
    ferry_future *copy = gpu_copy(&f, p.dst, p.src);
    step(&f, 100 * MS);
    run_all(&f);
    ASSERT_STATUS(status_of(copy), FERRY_OK);
    copy = gpu_copy(&f, p.dst, p.src);
    settle(&f.te);
    ASSERT_STATUS(ferry_engine_arm(f.te.engine), FERRY_OK);
    cr_assert_eq(f.te.engine->next_look_ns, START_NS + 190 * MS);
    ferry_future *quick = gpu_copy(&f, q.dst, q.src);
    cr_assert_eq(f.te.engine->asleep, FRY_AWAKE);
    run_all(&f);
    ASSERT_STATUS(status_of(copy), FERRY_OK);
    ASSERT_STATUS(status_of(quick), FERRY_OK);
    pair_free(&p);
    pair_free(&q);
    fake_engine_close(&f);
}

/*
 * The timer of a look runs out while a helper has the baton, which finds what the loop would have:
 * so the loop sleeps without a look and without a timer. The next head must wake it, though it
 * wants its look later than the one that is over.
 */
Test(engine_polled, a_head_after_a_look_that_a_helper_took_wakes_the_loop)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    ferry_engine *engine = f.te.engine;
    fry_context *context = fry_context_get(engine);
    pair p = pair_make(&f, 0);
    ferry_future *first = gpu_copy(&f, p.dst, p.src);
    settle(&f.te);
    cr_assert(fry_baton_take(&engine->role));
    cr_assert(fry_arm(engine));

    fry_turn turn;
    stepped_clock_step(&f.te.time, MS);
    (void)fake_run(f.world);
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

    ferry_future *second = gpu_copy(&f, p.dst, p.src);
    cr_assert_eq(engine->asleep, FRY_AWAKE);
    fry_baton_give(&engine->role);
    run_all(&f);
    ASSERT_STATUS(status_of(first), FERRY_OK);
    ASSERT_STATUS(status_of(second), FERRY_OK);
    pair_free(&p);
    fake_engine_close(&f);
}

/* ---- by timers, with real time ---- */

/* What stands in a stream fires while the loop sleeps, or as it looks for the last time. Asleep by
 * itself says little: the loop may be about to enter what was submitted while it had the baton. */
static void runs_while_the_loop_sleeps(const fake_engine *f)
{
    while (fry_load_relaxed(&f->te.engine->asleep) != FRY_ASLEEP || fake_run(f->world) == 0)
        (void)sched_yield();
}

static void open_with_clock(fake_engine *f, ferry_loop_mode loop, bool is_users, struct ev_loop *ev)
{
    ferry_engine_options options = test_engine_options(&f->te, loop);
    options.clock = is_users ? &f->te.clock : NULL;
    options.ev_loop = ev;
    test_engine_create(&f->te, &options);
    fake_engine_attach(f,
                       &(fake_options){.parked_count = 1, .outside_count = 1, .is_polled = true});
}

static void embedded_by_descriptor(bool is_users)
{
    fake_engine f;
    open_with_clock(&f, FERRY_LOOP_EMBEDDED, is_users, NULL);
    pair p = pair_make(&f, 0);
    ferry_future *copy = gpu_copy(&f, p.dst, p.src);
    settle(&f.te);
    while (ferry_engine_arm(f.te.engine) != FERRY_OK)
        settle(&f.te);
    (void)fake_run(f.world); /* nobody tells */
    while (ferry_future_poll(copy) == FERRY_PENDING) {
        cr_assert(is_readable(&f, -1));
        settle(&f.te);
        while (ferry_engine_arm(f.te.engine) != FERRY_OK)
            settle(&f.te);
    }
    ASSERT_STATUS(status_of(copy), FERRY_OK);
    pair_free(&p);
    fake_engine_close(&f);
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
    fake_engine f;
    open_with_clock(&f, FERRY_LOOP_THREAD, is_users, NULL);
    pair p = pair_make(&f, 0);
    for (int i = 0; i < 3; i++) {
        ferry_future *copy = gpu_copy(&f, p.dst, p.src);
        counted_waiter waiter;
        counted_waiter_init(&waiter, NULL);
        ASSERT_STATUS(ferry_future_on_ready(copy, &waiter.waiter), FERRY_OK);
        runs_while_the_loop_sleeps(&f);
        while (waiter.calls == 0)
            (void)sched_yield();
        ASSERT_STATUS(status_of(copy), FERRY_OK);
    }
    pair_free(&p);
    fake_engine_close(&f);
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
    fake_engine f;
    struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
    open_with_clock(&f, FERRY_LOOP_ATTACHED, false, loop);
    pair p = pair_make(&f, 0);
    ferry_future *copy = gpu_copy(&f, p.dst, p.src);
    ferry_waiter waiter = FERRY_WAITER_INIT(stop_loop, loop);
    ASSERT_STATUS(ferry_future_on_ready(copy, &waiter), FERRY_OK);
    (void)fake_run(f.world);
    (void)ev_run(loop, 0);
    ASSERT_STATUS(status_of(copy), FERRY_OK);
    pair_free(&p);
    fake_engine_close(&f);
    ev_loop_destroy(loop);
}

/* ---- threads that wait ---- */

static void *run_later(void *arg)
{
    fake_engine *f = arg;
    while (fake_run(f->world) == 0)
        (void)sched_yield();
    return NULL;
}

static void wait_for_it(ferry_loop_mode mode, bool is_users, int64_t wait_spin_ns)
{
    fake_engine f;
    ferry_engine_options options = test_engine_options(&f.te, mode);
    options.clock = is_users ? &f.te.clock : NULL;
    options.wait_spin_ns = wait_spin_ns;
    test_engine_create(&f.te, &options);
    fake_engine_attach(&f,
                       &(fake_options){.parked_count = 1, .outside_count = 1, .is_polled = true});
    pair p = pair_make(&f, 0);
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        cr_assert_eq(pthread_create(&thread, NULL, run_later, &f), 0);
        ferry_future *copy = gpu_copy(&f, p.dst, p.src);
        ASSERT_STATUS(ferry_future_wait(copy, -1), FERRY_OK);
        ferry_future_release(copy);
        cr_assert_eq(pthread_join(thread, NULL), 0);
    }
    pair_free(&p);
    fake_engine_close(&f);
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
    fake_engine f;
    ferry_engine_options options = test_engine_options(&f.te, FERRY_LOOP_THREAD);
    options.wait_spin_ns = INT64_C(1000000) * MS;
    test_engine_create(&f.te, &options);
    fake_engine_attach(&f,
                       &(fake_options){.parked_count = 1, .outside_count = 1, .is_polled = true});
    pair p = pair_make(&f, 0);
    fry_lane *lane = fake_stream(f.gpus[0], FAKE_WITHIN)->lane;
    lane->usual_ns[0] = INT64_C(3600000) * MS;
    ferry_future *copy = gpu_copy(&f, p.dst, p.src);
    runs_while_the_loop_sleeps(&f);
    ASSERT_STATUS(ferry_future_wait(copy, -1), FERRY_OK);
    ferry_future_release(copy);
    pair_free(&p);
    fake_engine_close(&f);
}
