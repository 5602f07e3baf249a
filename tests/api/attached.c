/* SPDX-License-Identifier: Apache-2.0 */
/* Attached mode: the user's libev loop is the engine's. */
#include "tests/support/api_test.h"

#include <ev.h>

TestSuite(attached, .timeout = HANG_S);

typedef struct attached_engine {
    test_engine te;
    struct ev_loop *loop;
} attached_engine;

static void attached_open(attached_engine *self)
{
    self->loop = ev_loop_new(EVFLAG_AUTO);
    cr_assert_not_null(self->loop);
    ferry_engine_options options = test_engine_options(&self->te, FERRY_LOOP_ATTACHED);
    options.ev_loop = self->loop;
    test_engine_create(&self->te, &options);
}

static void attached_close(attached_engine *self)
{
    test_engine_close(&self->te);
    ev_loop_destroy(self->loop);
}

/* A callback that ends the run of the loop. */
typedef struct breaker {
    ferry_waiter waiter; /* first */
    struct ev_loop *loop;
    int calls;
    pthread_t thread;
} breaker;

static void break_loop(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)future, (void)status;
    breaker *self = (breaker *)(void *)waiter;
    self->calls++;
    self->thread = pthread_self();
    ev_break(self->loop, EVBREAK_ALL);
}

static void breaker_init(breaker *self, struct ev_loop *loop)
{
    *self = (breaker){.waiter = FERRY_WAITER_INIT(break_loop, NULL), .loop = loop};
}

Test(attached, callbacks_and_functions_run_in_the_loop_thread)
{
    attached_engine self;
    attached_open(&self);
    _Atomic int calls = 0;
    breaker end;
    breaker_init(&end, self.loop);
    ferry_future *call = ferry_call(self.te.engine, NULL, count_call, &calls, NULL);
    ASSERT_STATUS(ferry_future_on_ready(call, &end.waiter), FERRY_OK);
    cr_assert_eq(calls, 0);
    ev_run(self.loop, 0);
    cr_assert_eq(calls, 1);
    cr_assert_eq(end.calls, 1);
    cr_assert(pthread_equal(end.thread, pthread_self()));
    ferry_future_release(call);
    attached_close(&self);
}

typedef struct elsewhere {
    attached_engine *attached;
    ferry_promise *promise;
    ferry_future *future;
    ferry_status status;
    pthread_t thread;
    pthread_barrier_t *running;
} elsewhere;

static void *resolve_elsewhere(void *arg)
{
    keep_promise(((elsewhere *)arg)->promise, FERRY_OK);
    return NULL;
}

static void start_resolver(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)loop, (void)events;
    elsewhere *self = timer->data;
    cr_assert_eq(pthread_create(&self->thread, NULL, resolve_elsewhere, self), 0);
}

Test(attached, another_thread_wakes_the_sleeping_loop)
{
    attached_engine self;
    attached_open(&self);
    elsewhere other = {.attached = &self, .promise = test_promise(&self.te)};
    breaker end;
    breaker_init(&end, self.loop);
    ferry_future *nop = nop_after_promise(&self.te, other.promise);
    ASSERT_STATUS(ferry_future_on_ready(nop, &end.waiter), FERRY_OK);
    ev_timer timer;
    ev_timer_init(&timer, start_resolver, 0, 0);
    timer.data = &other;
    ev_timer_start(self.loop, &timer);
    ev_run(self.loop, 0);
    cr_assert_eq(end.calls, 1);
    cr_assert_eq(pthread_join(other.thread, NULL), 0); /* it still has the promise to release */
    ferry_future_release(nop);
    attached_close(&self);
}

static void *wait_elsewhere(void *arg)
{
    elsewhere *self = arg;
    self->status = ferry_future_wait(self->future, -1);
    return NULL;
}

Test(attached, a_waiting_thread_and_the_loop_do_not_get_in_each_others_way)
{
    attached_engine self;
    attached_open(&self);
    ferry_buffer *left = test_buffer(&self.te, 0, 100000, 1);
    ferry_buffer *right = test_buffer(&self.te, 1, 100000, 2);
    for (int i = 0; i < 100; i++) {
        ferry_future *copy =
            ferry_copy(self.te.engine, ferry_buffer_span(right), ferry_buffer_span(left), NULL);
        elsewhere other = {.attached = &self, .future = copy};
        breaker end;
        breaker_init(&end, self.loop);
        pthread_t thread;
        cr_assert_eq(pthread_create(&thread, NULL, wait_elsewhere, &other), 0);
        ASSERT_STATUS(ferry_future_on_ready(copy, &end.waiter), FERRY_OK);
        ev_run(self.loop, 0);
        cr_assert_eq(end.calls, 1);
        cr_assert_eq(pthread_join(thread, NULL), 0);
        ASSERT_STATUS(other.status, FERRY_OK);
        ferry_future_release(copy);
    }
    cr_assert(is_filled(right, 0, 100000, 1));
    ferry_buffer_release(left);
    ferry_buffer_release(right);
    attached_close(&self);
}

static void wait_in_callback(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)loop, (void)events;
    elsewhere *self = timer->data;
    self->status = ferry_future_wait(self->future, -1);
}

/* What libev calls is outside ferry: waiting there makes progress itself. */
Test(attached, another_watcher_of_the_loop_may_wait)
{
    attached_engine self;
    attached_open(&self);
    _Atomic int calls = 0;
    ferry_future *call = ferry_call(self.te.engine, NULL, count_call, &calls, NULL);
    elsewhere other = {.attached = &self, .future = call};
    breaker end;
    breaker_init(&end, self.loop);
    ASSERT_STATUS(ferry_future_on_ready(call, &end.waiter), FERRY_OK);
    ev_timer timer;
    ev_timer_init(&timer, wait_in_callback, 0, 0);
    timer.data = &other;
    ev_timer_start(self.loop, &timer);
    ev_run(self.loop, 0);
    ASSERT_STATUS(other.status, FERRY_OK);
    cr_assert_eq(calls, 1);
    cr_assert_eq(end.calls, 1);
    ferry_future_release(call);
    attached_close(&self);
}

Test(attached, deadlines_wake_the_loop)
{
    attached_engine self;
    attached_open(&self);
    ferry_promise *promise = test_promise(&self.te);
    ferry_future *held = ferry_promise_future(promise);
    struct timespec now;
    cr_assert_eq(clock_gettime(CLOCK_MONOTONIC, &now), 0);
    ferry_op_options options = behind(&held, 1);
    options.deadline_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec + 1000000;
    ferry_future *nop = ferry_nop(self.te.engine, &options);
    breaker end;
    breaker_init(&end, self.loop);
    ASSERT_STATUS(ferry_future_on_ready(nop, &end.waiter), FERRY_OK);
    ev_run(self.loop, 0);
    ASSERT_STATUS(status_of(nop), FERRY_E_DEADLINE);
    ferry_future_release(held);
    ferry_promise_release(promise);
    attached_close(&self);
}

/* ---- refusals ---- */

Test(attached, progress_and_arm_are_the_loops_own)
{
    attached_engine self;
    attached_open(&self);
    cr_assert_eq(ferry_engine_progress(self.te.engine, 0), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_engine_arm(self.te.engine), FERRY_E_INVALID);
    attached_close(&self);
}

Test(attached, a_loop_goes_with_the_mode)
{
    attached_engine self = {.loop = ev_loop_new(EVFLAG_AUTO)};
    ferry_engine *engine = NULL;
    ferry_error *error = NULL;
    ferry_engine_options options = test_engine_options(&self.te, FERRY_LOOP_ATTACHED);
    ASSERT_STATUS(ferry_engine_create(&options, &engine, &error), FERRY_E_INVALID);
    ferry_error_release(error);
    options.loop = FERRY_LOOP_EMBEDDED;
    options.ev_loop = self.loop;
    ASSERT_STATUS(ferry_engine_create(&options, &engine, &error), FERRY_E_INVALID);
    cr_assert_not_null(strstr(error->message, "ev_loop"));
    ferry_error_release(error);
    ev_loop_destroy(self.loop);
}

static void create_in_callback(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)events;
    elsewhere *self = timer->data;
    ferry_engine_options options = test_engine_options(&self->attached->te, FERRY_LOOP_ATTACHED);
    options.ev_loop = loop;
    ferry_engine *engine = NULL;
    ferry_error *error = NULL;
    self->status = ferry_engine_create(&options, &engine, &error);
    cr_assert_not_null(strstr(error->message, "running"));
    ferry_error_release(error);
    cr_assert_null(engine);
}

Test(attached, a_loop_that_runs_already_is_refused)
{
    attached_engine self = {.loop = ev_loop_new(EVFLAG_AUTO)};
    elsewhere other = {.attached = &self};
    ev_timer timer;
    ev_timer_init(&timer, create_in_callback, 0, 0);
    timer.data = &other;
    ev_timer_start(self.loop, &timer);
    ev_run(self.loop, 0);
    ASSERT_STATUS(other.status, FERRY_E_BUSY);
    cr_assert_eq(failing_allocator_live_bytes(&self.te.memory), 0);
    ev_loop_destroy(self.loop);
}

/* ---- shutdown ---- */

static void loop_has_started(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)loop, (void)events;
    (void)pthread_barrier_wait(((elsewhere *)timer->data)->running);
}

static void *shutdown_elsewhere(void *arg)
{
    elsewhere *self = arg;
    (void)pthread_barrier_wait(self->running);
    self->status = ferry_engine_shutdown(self->attached->te.engine, -1);
    return NULL;
}

/* The engine's watcher is all that keeps the loop running, so that it returns says that it is out.
 */
Test(attached, a_shutdown_elsewhere_takes_the_watchers_out)
{
    attached_engine self;
    attached_open(&self);
    pthread_barrier_t running;
    cr_assert_eq(pthread_barrier_init(&running, NULL, 2), 0);
    elsewhere other = {.attached = &self, .running = &running};
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, shutdown_elsewhere, &other), 0);
    ev_timer timer;
    ev_timer_init(&timer, loop_has_started, 0, 0);
    timer.data = &other;
    ev_timer_start(self.loop, &timer);
    ev_run(self.loop, 0);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    ASSERT_STATUS(other.status, FERRY_OK);
    attached_close(&self);
}

static void shutdown_in_callback(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)loop, (void)events;
    elsewhere *self = timer->data;
    self->status = ferry_engine_shutdown(self->attached->te.engine, -1);
    ferry_engine_release(self->attached->te.engine);
}

Test(attached, another_watcher_may_shut_down_and_release)
{
    attached_engine self;
    attached_open(&self);
    elsewhere other = {.attached = &self};
    ev_timer timer;
    ev_timer_init(&timer, shutdown_in_callback, 0, 0);
    timer.data = &other;
    ev_timer_start(self.loop, &timer);
    ev_run(self.loop, 0);
    ASSERT_STATUS(other.status, FERRY_OK);
    cr_assert_eq(failing_allocator_live_bytes(&self.te.memory), 0);
    ev_loop_destroy(self.loop);
}

/* The loop's thread is in the first callback of its first round, which the engine's own watcher
 * comes after: it has not been seen there yet, and is not the one that made the engine. */
typedef struct early {
    attached_engine attached;
    ev_prepare prepare;
    pthread_barrier_t entered, may_leave;
    ferry_status status;
} early;

static void *run_loop(void *arg)
{
    early *self = arg;
    ev_run(self->attached.loop, 0);
    return NULL;
}

static void early_start(early *self, pthread_t *thread,
                        void (*callback)(struct ev_loop *, ev_prepare *, int))
{
    attached_open(&self->attached);
    cr_assert_eq(pthread_barrier_init(&self->entered, NULL, 2), 0);
    cr_assert_eq(pthread_barrier_init(&self->may_leave, NULL, 2), 0);
    ev_prepare_init(&self->prepare, callback);
    ev_set_priority(&self->prepare, EV_MAXPRI);
    self->prepare.data = self;
    ev_prepare_start(self->attached.loop, &self->prepare);
    cr_assert_eq(pthread_create(thread, NULL, run_loop, self), 0);
}

static void stay_in_callback(struct ev_loop *loop, ev_prepare *prepare, int events)
{
    (void)events;
    early *self = prepare->data;
    ev_prepare_stop(loop, prepare);
    (void)pthread_barrier_wait(&self->entered);
    (void)pthread_barrier_wait(&self->may_leave);
}

Test(attached, a_shutdown_elsewhere_waits_while_the_loop_is_in_its_first_callback)
{
    early self;
    pthread_t thread;
    early_start(&self, &thread, stay_in_callback);
    (void)pthread_barrier_wait(&self.entered);
    ASSERT_STATUS(ferry_engine_shutdown(self.attached.te.engine, 0), FERRY_E_DEADLINE);
    (void)pthread_barrier_wait(&self.may_leave);
    ASSERT_STATUS(ferry_engine_shutdown(self.attached.te.engine, -1), FERRY_OK);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    attached_close(&self.attached);
}

static void shutdown_in_first_callback(struct ev_loop *loop, ev_prepare *prepare, int events)
{
    (void)events;
    early *self = prepare->data;
    ev_prepare_stop(loop, prepare);
    self->status = ferry_engine_shutdown(self->attached.te.engine, -1);
}

Test(attached, the_loops_first_callback_may_shut_down)
{
    early self;
    pthread_t thread;
    early_start(&self, &thread, shutdown_in_first_callback);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    ASSERT_STATUS(self.status, FERRY_OK);
    attached_close(&self.attached);
}

Test(attached, two_engines_share_a_loop)
{
    attached_engine self, other;
    attached_open(&self);
    other.loop = self.loop;
    ferry_engine_options options = test_engine_options(&other.te, FERRY_LOOP_ATTACHED);
    options.ev_loop = self.loop;
    test_engine_create(&other.te, &options);
    _Atomic int calls = 0;
    ferry_future_release(ferry_call(self.te.engine, NULL, count_call, &calls, NULL));
    ferry_future *call = ferry_call(other.te.engine, NULL, count_call, &calls, NULL);
    breaker end;
    breaker_init(&end, self.loop);
    ASSERT_STATUS(ferry_future_on_ready(call, &end.waiter), FERRY_OK);
    ev_run(self.loop, 0);
    cr_assert_eq(calls, 2);
    ferry_future_release(call);
    test_engine_close(&other.te);
    attached_close(&self);
}
