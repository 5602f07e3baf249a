/* SPDX-License-Identifier: Apache-2.0 */
/* Embedded mode: the user's loop, its descriptor, and threads that wait. */
#include "tests/support/play.h"

#include <poll.h>
#include <time.h>

SCENE_SUITE(embedded);

/* The user's loop, until the future has resolved; the suite's time-out says if it never wakes. */
static void run_loop_until(ferry_future *future)
{
    struct pollfd fd = {.fd = ferry_engine_fd(engine()), .events = POLLIN};
    while (ferry_future_poll(future) == FERRY_PENDING) {
        if (ferry_engine_progress(engine(), 0) > 0 || ferry_engine_arm(engine()) != FERRY_OK)
            continue;
        cr_assert_eq(poll(&fd, 1, -1), 1);
    }
}

/* Until there is nothing to do and the descriptor will say when there is. */
static void arm(void)
{
    do
        scene_settle();
    while (ferry_engine_arm(engine()) != FERRY_OK);
}

typedef struct elsewhere {
    void *(*what)(struct elsewhere *self);
    ferry_future *future;
    ferry_promise *promise;
} elsewhere;

static void *run_elsewhere(void *arg)
{
    elsewhere *self = arg;
    return self->what(self);
}

static void do_elsewhere(elsewhere *self, void *(*what)(elsewhere *self))
{
    self->what = what;
    (void)in_thread(run_elsewhere, self);
}

static void *submit_call(elsewhere *self)
{
    self->future = own(ferry_call(engine(), NULL, count_call, scene_calls(), NULL));
    return NULL;
}

static void *resolve_promise(elsewhere *self)
{
    keep_promise(self->promise, FERRY_OK);
    return NULL;
}

static void *cancel_future(elsewhere *self)
{
    ASSERT_STATUS(ferry_future_cancel(self->future), FERRY_OK);
    return NULL;
}

Test(embedded, the_descriptor_becomes_readable_when_another_thread_submits_a_function)
{
    cr_assert_geq(ferry_engine_fd(engine()), 0);
    elsewhere self = {0};
    arm();
    cr_assert_not(scene_is_readable());
    do_elsewhere(&self, submit_call);
    cr_assert(scene_is_readable());
    cr_assert_eq(*scene_calls(), 0);
    scene_settle();
    cr_assert_eq(*scene_calls(), 1);
    EXPECT_NOW(self.future, OK);
    arm();
    cr_assert_not(scene_is_readable());
}

Test(embedded, the_descriptor_becomes_readable_when_a_callback_is_due)
{
    elsewhere self = {.promise = test_promise(scene())};
    ferry_future *nop = own(nop_after_promise(scene(), self.promise));
    counted_waiter *waiter = on_ready(nop, NULL);
    arm();
    cr_assert_not(scene_is_readable());
    do_elsewhere(&self, resolve_promise);
    cr_assert(scene_is_readable());
    cr_assert_eq(waiter->calls, 0);
    scene_settle();
    cr_assert_eq(waiter->calls, 1);
}

Test(embedded, the_descriptor_becomes_readable_on_a_cancel)
{
    ferry_promise *promise = own(test_promise(scene()));
    elsewhere self = {.future = own(nop_after_promise(scene(), promise))};
    arm();
    do_elsewhere(&self, cancel_future);
    cr_assert(scene_is_readable());
    scene_settle();
    EXPECT_NOW(self.future, E_CANCELLED);
}

Test(embedded, the_descriptor_becomes_readable_when_a_copy_has_ended)
{
    play("buffer src 1048576 of 1; buffer dst 1048576 on 1; c = copy dst <- src");
    run_loop_until(the_future("c"));
    play("now c OK; bytes dst 1");
}

Test(embedded, the_descriptor_keeps_deadlines_of_the_real_clock)
{
    scene_options(FERRY_LOOP_EMBEDDED)->clock = NULL;
    ferry_promise *promise = own(test_promise(scene()));
    ferry_future *after = own(ferry_promise_future(promise));
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    ferry_op_options op = behind(&after, 1);
    op.deadline_ns = now.tv_sec * 1000000000 + now.tv_nsec + 3000000;
    ferry_future *nop = own(ferry_nop(engine(), &op));
    run_loop_until(nop);
    EXPECT_NOW(nop, E_DEADLINE);
}

Test(embedded, arm_is_busy_while_there_is_work)
{
    elsewhere self = {0};
    arm();
    (void)submit_call(&self);
    ASSERT_STATUS(ferry_engine_arm(engine()), FERRY_E_BUSY);
    cr_assert_eq(ferry_engine_timeout_ns(engine()), 0);
    scene_settle();
    ASSERT_STATUS(ferry_engine_arm(engine()), FERRY_OK);
    cr_assert_eq(ferry_engine_timeout_ns(engine()), -1);
    EXPECT_NOW(self.future, OK);
}

Test(embedded, a_budget_bounds_the_callbacks_and_the_rest_is_due)
{
    play("n = nop");
    const counted_waiter *waiters[5];
    for (int i = 0; i < 5; i++)
        waiters[i] = on_ready(the_future("n"), NULL);
    for (int made = 0; made < 5; made++) {
        for (int i = 0; i < 5; i++)
            cr_assert_eq(waiters[i]->calls, i < made);
        play("timer 0");
        ASSERT_STATUS(ferry_engine_arm(engine()), FERRY_E_BUSY);
        cr_assert_eq(ferry_engine_progress(engine(), 1), 1);
    }
    play("settle; timer -1");
}

static void count_free(void *arg, void *memory, size_t size_bytes)
{
    (void)memory, (void)size_bytes;
    ++*(size_t *)arg;
}

/* Buffers that were given back count for the budget, and callbacks need not wait for all of them.
 */
Test(embedded, a_budget_bounds_the_buffers_that_are_freed)
{
    enum { BUFFERS = 1000, BUDGET = 10, DEFAULT_BUDGET = 256 };
    static char memory[BUFFERS];
    size_t freed = 0;
    for (size_t i = 0; i < BUFFERS; i++) {
        ferry_buffer *buffer = NULL;
        ASSERT_STATUS(ferry_buffer_wrap(ferry_device_at(engine(), 0), &memory[i], 1, count_free,
                                        &freed, &buffer),
                      FERRY_OK);
        ferry_buffer_release(buffer);
    }
    ferry_future *done = ferry_nop(engine(), NULL);
    counted_waiter *waiter = on_ready(done, NULL);
    size_t before = freed; /* by the calls above */
    cr_assert_gt(ferry_engine_progress(engine(), BUDGET), 0);
    cr_assert_leq(freed, before + BUDGET);
    cr_assert_eq(waiter->calls, 1);
    cr_assert_gt(ferry_engine_progress(engine(), 0), 0);
    cr_assert_leq(freed, before + BUDGET + DEFAULT_BUDGET);
    cr_assert_eq(ferry_engine_timeout_ns(engine()), 0);
    ASSERT_STATUS(ferry_engine_arm(engine()), FERRY_E_BUSY);
    ferry_future_release(done);
    ASSERT_STATUS(ferry_engine_shutdown(engine(), -1), FERRY_OK);
    cr_assert_eq(freed, BUFFERS);
}

Test(embedded, a_wait_makes_progress_and_leaves_callbacks_to_the_next_progress)
{
    play("c = call; waiter plain on c; waiter in_line on c inline; wait c OK");
    cr_assert_eq(*scene_calls(), 1);
    play("called plain 0; called in_line 0; timer 0");
    cr_assert_gt(ferry_engine_progress(engine(), 0), 0);
    play("called plain 1; called in_line 1");
}

/* A clock that counts how often it is asked, which is at least once a round of the loop. */
typedef struct counting_clock {
    _Atomic uint64_t asked;
} counting_clock;

static int64_t count_and_tell(void *arg)
{
    atomic_fetch_add(&((counting_clock *)arg)->asked, 1);
    return START_NS;
}

Test(embedded, a_wait_sleeps_although_callbacks_are_due)
{
    counting_clock counting = {0};
    ferry_clock clock = {.now_ns = count_and_tell, .arg = &counting};
    scene_options(FERRY_LOOP_EMBEDDED)->clock = &clock;
    ferry_promise *promise = test_promise(scene());
    ferry_future *after = own(ferry_promise_future(promise)),
                 *done = own(ferry_nop(engine(), NULL));
    ferry_op_options op = behind(&after, 1);
    op.deadline_ns = START_NS + 1; /* never comes; has every round ask the clock */
    ferry_future *held = ferry_nop(engine(), &op);
    counted_waiter *waiter = on_ready(done, NULL);
    uint64_t before = counting.asked;
    ASSERT_STATUS(ferry_future_wait(held, 50000000), FERRY_PENDING);
    cr_assert_lt(counting.asked - before, 2000, "it went round %llu times",
                 (unsigned long long)(counting.asked - before));
    cr_assert_eq(waiter->calls, 0);
    keep_promise(promise, FERRY_OK);
    scene_settle();
    cr_assert_eq(waiter->calls, 1);
    ASSERT_STATUS(status_of(held), FERRY_OK);
    scene_end(); /* before its clock goes */
}

/* ---- two threads ---- */

typedef struct meeting {
    ferry_waiter waiter; /* first */
    pthread_barrier_t entered, left;
    int64_t progressed;
    ferry_status armed;
} meeting;

static void stay_in_progress(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)future, (void)status;
    meeting *self = (meeting *)(void *)waiter;
    (void)pthread_barrier_wait(&self->entered);
    (void)pthread_barrier_wait(&self->left);
}

static void *progress_meanwhile(void *arg)
{
    meeting *self = arg;
    (void)pthread_barrier_wait(&self->entered);
    self->progressed = ferry_engine_progress(engine(), 0);
    self->armed = ferry_engine_arm(engine());
    (void)pthread_barrier_wait(&self->left);
    return NULL;
}

Test(embedded, progress_by_a_second_thread_does_nothing)
{
    meeting self = {.waiter = FERRY_WAITER_INIT(stay_in_progress, NULL), .progressed = 99};
    cr_assert_eq(pthread_barrier_init(&self.entered, NULL, 2), 0);
    cr_assert_eq(pthread_barrier_init(&self.left, NULL, 2), 0);
    ferry_future *nop = own(ferry_nop(engine(), NULL));
    ASSERT_STATUS(ferry_future_on_ready(nop, &self.waiter), FERRY_OK);
    pthread_t thread = begin_thread(progress_meanwhile, &self);
    scene_settle();
    (void)end_thread(thread);
    cr_assert_eq(self.progressed, FERRY_E_BUSY);
    ASSERT_STATUS(self.armed, FERRY_OK);
}

typedef struct waiting {
    ferry_future *future;
    pthread_t thread;
    ferry_status status;
} waiting;

static void *wait_for_it(void *arg)
{
    waiting *self = arg;
    self->status = ferry_future_wait(self->future, -1);
    return NULL;
}

/* Promises resolved by the main thread, one after another, in both orders. */
Test(embedded, threads_that_wait_at_once_all_return)
{
    enum { WAITERS = 4, ROUNDS = 200 };
    for (int round = 0; round < ROUNDS; round++) {
        ferry_promise *promises[WAITERS];
        waiting waits[WAITERS];
        for (int i = 0; i < WAITERS; i++) {
            promises[i] = test_promise(scene());
            waits[i].future = nop_after_promise(scene(), promises[i]);
            cr_assert_eq(pthread_create(&waits[i].thread, NULL, wait_for_it, &waits[i]), 0);
        }
        for (int i = 0; i < round % 7; i++)
            sched_yield();
        for (int i = 0; i < WAITERS; i++)
            keep_promise(promises[round % 2 == 0 ? i : WAITERS - 1 - i], FERRY_OK);
        for (int i = 0; i < WAITERS; i++) {
            cr_assert_eq(pthread_join(waits[i].thread, NULL), 0);
            ASSERT_STATUS(waits[i].status, FERRY_OK);
            ferry_future_release(waits[i].future);
        }
    }
}

/* What they wait for comes out of a stream, so somebody has to make the progress. */
Test(embedded, threads_that_wait_for_copies_make_the_progress_for_each_other)
{
    enum { WAITERS = 4, ROUNDS = 100, SIZE = 65536 };
    ferry_buffer *src = test_buffer(scene(), 0, SIZE, 1), *dst[WAITERS];
    for (size_t i = 0; i < WAITERS; i++)
        dst[i] = test_buffer(scene(), i, SIZE, 0);
    for (int round = 0; round < ROUNDS; round++) {
        ferry_promise *promise = test_promise(scene());
        waiting waits[WAITERS];
        for (int i = 0; i < WAITERS; i++) {
            waits[i].future = copy_after_promise(scene(), ferry_buffer_span(dst[i]),
                                                 ferry_buffer_span(src), promise);
            cr_assert_eq(pthread_create(&waits[i].thread, NULL, wait_for_it, &waits[i]), 0);
        }
        keep_promise(promise, FERRY_OK);
        for (int i = 0; i < WAITERS; i++) {
            cr_assert_eq(pthread_join(waits[i].thread, NULL), 0);
            ASSERT_STATUS(waits[i].status, FERRY_OK);
            ferry_future_release(waits[i].future);
        }
    }
    ferry_buffer_release(src);
    for (size_t i = 0; i < WAITERS; i++)
        ferry_buffer_release(dst[i]);
}

static void *wait_and_leave(elsewhere *self)
{
    ASSERT_STATUS(ferry_future_wait(self->future, 2000000), FERRY_PENDING);
    return NULL;
}

static void *wait_for_call(elsewhere *self)
{
    ASSERT_STATUS(ferry_future_wait(self->future, -1), FERRY_OK);
    return NULL;
}

/* The waiting thread was the loop for a while and took the wake-ups meant for the armed one. */
Test(embedded, the_descriptor_still_wakes_after_another_thread_has_waited)
{
    ferry_promise *promise = test_promise(scene());
    elsewhere waiter = {.future = own(nop_after_promise(scene(), promise))};
    elsewhere submitter = {0};
    arm();
    do_elsewhere(&waiter, wait_and_leave);
    cr_assert_not(scene_is_readable());
    do_elsewhere(&submitter, submit_call);
    cr_assert(scene_is_readable());
    scene_settle();
    EXPECT_NOW(submitter.future, OK);
    keep_promise(promise, FERRY_OK);
    scene_settle();
    EXPECT_NOW(waiter.future, OK);
}

Test(embedded, the_descriptor_becomes_readable_for_callbacks_a_waiting_thread_left)
{
    elsewhere self = {0};
    arm();
    (void)submit_call(&self);
    counted_waiter *callback = on_ready(self.future, NULL);
    do_elsewhere(&self, wait_for_call);
    cr_assert_eq(*scene_calls(), 1);
    cr_assert_eq(callback->calls, 0);
    cr_assert(scene_is_readable());
    scene_settle();
    cr_assert_eq(callback->calls, 1);
}

Test(embedded, what_is_for_embedded_engines_does_nothing_to_others)
{
    scene_begin(FERRY_LOOP_THREAD);
    cr_assert_eq(ferry_engine_progress(engine(), 0), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_engine_arm(engine()), FERRY_E_INVALID);
    cr_assert_eq(ferry_engine_timeout_ns(engine()), -1);
    cr_assert_geq(ferry_engine_fd(engine()), 0);
}

/* ---- the user's loop beside other threads ---- */

static void *wait_for_ever(void *arg)
{
    elsewhere *self = arg;
    ASSERT_STATUS(ferry_future_wait(self->future, -1), FERRY_OK);
    return NULL;
}

/* The user's loop, until the waiter has been called. */
static void run_loop_until_called(counted_waiter *waiter)
{
    struct pollfd readable = {.fd = ferry_engine_fd(engine()), .events = POLLIN};
    while (atomic_load(&waiter->calls) == 0) {
        if (ferry_engine_progress(engine(), 0) <= 0 && ferry_engine_arm(engine()) == FERRY_OK)
            cr_assert_geq(poll(&readable, 1, -1), 0);
    }
}

/* However long another thread waits, and whatever it waits for. */
Test(embedded, callbacks_run_while_another_thread_waits)
{
    ferry_promise *promise = test_promise(scene());
    elsewhere self = {.future = own(ferry_promise_future(promise))};
    pthread_t thread = begin_thread(wait_for_ever, &self);
    for (int i = 0; i < 1000; i++) {
        counted_waiter waiter;
        counted_waiter_init(&waiter, NULL);
        ferry_future *nop = ferry_nop(engine(), NULL);
        ASSERT_STATUS(ferry_future_on_ready(nop, &waiter.waiter), FERRY_OK);
        run_loop_until_called(&waiter);
        cr_assert(pthread_equal(waiter.thread, pthread_self()));
        ferry_future_release(nop);
    }
    keep_promise(promise, FERRY_OK);
    (void)end_thread(thread);
}

static void *progress_once(void *arg)
{
    meeting *self = arg;
    self->progressed = ferry_engine_progress(engine(), 0);
    return NULL;
}

/* Armed while another thread made progress: what that one leaves wakes the one that sleeps. */
Test(embedded, who_armed_meanwhile_is_woken_for_what_is_left)
{
    meeting self = {.waiter = FERRY_WAITER_INIT(stay_in_progress, NULL)};
    cr_assert_eq(pthread_barrier_init(&self.entered, NULL, 2), 0);
    cr_assert_eq(pthread_barrier_init(&self.left, NULL, 2), 0);
    ferry_future *nop = own(ferry_nop(engine(), NULL));
    ASSERT_STATUS(ferry_future_on_ready(nop, &self.waiter), FERRY_OK);
    pthread_t thread = begin_thread(progress_once, &self);
    (void)pthread_barrier_wait(&self.entered);

    /* The other thread is in the callback now. */
    cr_assert_eq(ferry_engine_progress(engine(), 0), FERRY_E_BUSY);
    ASSERT_STATUS(ferry_engine_arm(engine()), FERRY_OK);
    counted_waiter *waiter = on_ready(nop, NULL);
    (void)pthread_barrier_wait(&self.left);
    (void)end_thread(thread);
    cr_assert(scene_is_readable());
    run_loop_until_called(waiter);
}

/* ---- another thread beside one that sleeps ---- */

static void *make_progress(elsewhere *self)
{
    (void)self;
    (void)ferry_engine_progress(engine(), 0);
    return NULL;
}

static void *make_little_progress(elsewhere *self)
{
    (void)self;
    cr_assert_eq(ferry_engine_progress(engine(), 1), 1);
    return NULL;
}

static void *arm_and_stay(elsewhere *self)
{
    (void)self;
    ASSERT_STATUS(ferry_engine_arm(engine()), FERRY_OK);
    return NULL;
}

static void *arm_beside_work(elsewhere *self)
{
    (void)self;
    ASSERT_STATUS(ferry_engine_arm(engine()), FERRY_E_BUSY);
    return NULL;
}

/* The calling thread sleeps, as far as ferry knows: work wakes it. */
static void assert_is_woken(elsewhere *self)
{
    cr_assert_not(scene_is_readable());
    do_elsewhere(self, submit_call);
    cr_assert(scene_is_readable());
}

Test(embedded, another_threads_progress_ends_no_arm)
{
    elsewhere self = {0};
    arm();
    for (int i = 0; i < 3; i++) {
        do_elsewhere(&self, make_progress); /* and takes what there is to be woken for */
        assert_is_woken(&self);
    }
}

Test(embedded, another_threads_arm_ends_no_arm)
{
    elsewhere self = {0};
    arm();
    for (int i = 0; i < 3; i++) {
        do_elsewhere(&self, arm_and_stay);
        assert_is_woken(&self);
        do_elsewhere(&self, arm_beside_work);
        cr_assert(scene_is_readable());
        do_elsewhere(&self, make_progress);
        assert_is_woken(&self);
        do_elsewhere(&self, make_progress);
    }
}

/* The other thread may never come again. */
Test(embedded, who_sleeps_is_woken_for_what_another_threads_progress_left)
{
    enum { CALLBACKS = 3 };
    elsewhere self = {0};
    ferry_future *nop = own(ferry_nop(engine(), NULL));
    counted_waiter waiters[CALLBACKS];
    arm();
    for (int i = 0; i < CALLBACKS; i++) {
        counted_waiter_init(&waiters[i], NULL);
        ASSERT_STATUS(ferry_future_on_ready(nop, &waiters[i].waiter), FERRY_OK);
    }
    do_elsewhere(&self, make_little_progress);
    cr_assert(scene_is_readable());
    do_elsewhere(&self, make_little_progress);
    cr_assert(scene_is_readable());
    do_elsewhere(&self, make_little_progress);
    do_elsewhere(&self, make_progress); /* nothing is left, and so it is not readable */
    assert_is_woken(&self);
    for (int i = 0; i < CALLBACKS; i++)
        cr_assert_eq(waiters[i].calls, 1);
}

/* It is awake, so nothing need be written for it. */
Test(embedded, a_threads_own_progress_ends_its_arm)
{
    elsewhere self = {0};
    arm();
    (void)ferry_engine_progress(engine(), 0);
    do_elsewhere(&self, submit_call);
    cr_assert_not(scene_is_readable());
}
