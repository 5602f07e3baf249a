/* SPDX-License-Identifier: Apache-2.0 */
/* Attached mode: the user's libev loop is the engine's. */
#include "tests/support/attached_test.h"

ATTACHED_SUITE(attached);

static void begin(void)
{
    (void)begin_in(FERRY_LOOP_ATTACHED);
    (void)engine();
}

/* A callback that ends the run of the loop. */
typedef struct breaker {
    ferry_waiter waiter; /* first */
    int calls;
    pthread_t thread;
} breaker;

static void break_loop(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)future, (void)status;
    breaker *self = (breaker *)(void *)waiter;
    self->calls++;
    self->thread = pthread_self();
    ev_break(user_loop, EVBREAK_ALL);
}

/* Runs the loop until the future has resolved; gives the thread that its callback was in. */
static pthread_t run_until(ferry_future *future)
{
    breaker end = {.waiter = FERRY_WAITER_INIT(break_loop, NULL)};
    ASSERT_STATUS(ferry_future_on_ready(future, &end.waiter), FERRY_OK);
    ev_run(user_loop, 0);
    cr_assert_eq(end.calls, 1);
    return end.thread;
}

Test(attached, callbacks_and_functions_run_in_the_loop_thread)
{
    begin();
    play("c = call");
    cr_assert_eq(*scene_calls(), 0);
    cr_assert(pthread_equal(run_until(the_future("c")), pthread_self()));
    cr_assert_eq(*scene_calls(), 1);
}

/* The loop runs it in its next round. */
static void run_soon(ev_timer *timer, void (*callback)(struct ev_loop *, ev_timer *, int),
                     void *arg)
{
    ev_timer_init(timer, callback, 0, 0);
    timer->data = arg;
    ev_timer_start(user_loop, timer);
}

typedef struct elsewhere {
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
    begin();
    elsewhere other = {.promise = test_promise(scene())};
    ferry_future *nop = own(nop_after_promise(scene(), other.promise));
    ev_timer timer;
    run_soon(&timer, start_resolver, &other);
    (void)run_until(nop);
    cr_assert_eq(pthread_join(other.thread, NULL), 0); /* it still has the promise to release */
}

static void *wait_elsewhere(void *arg)
{
    elsewhere *self = arg;
    self->status = ferry_future_wait(self->future, -1);
    return NULL;
}

Test(attached, a_waiting_thread_and_the_loop_do_not_get_in_each_others_way)
{
    begin();
    play("buffer l 100000 of 1; buffer r 100000 of 2 on 1");
    for (int i = 0; i < 100; i++) {
        play("c = copy r <- l");
        elsewhere other = {.future = the_future("c")};
        pthread_t thread;
        cr_assert_eq(pthread_create(&thread, NULL, wait_elsewhere, &other), 0);
        (void)run_until(other.future);
        cr_assert_eq(pthread_join(thread, NULL), 0);
        ASSERT_STATUS(other.status, FERRY_OK);
        play("release c");
    }
    play("bytes r 1");
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
    begin();
    play("c = call");
    elsewhere other = {.future = the_future("c")};
    ev_timer timer;
    run_soon(&timer, wait_in_callback, &other);
    (void)run_until(other.future);
    ASSERT_STATUS(other.status, FERRY_OK);
    cr_assert_eq(*scene_calls(), 1);
}

Test(attached, deadlines_wake_the_loop)
{
    begin();
    play("promise p");
    ferry_future *held = own(ferry_promise_future(the_promise("p")));
    struct timespec now;
    cr_assert_eq(clock_gettime(CLOCK_MONOTONIC, &now), 0);
    ferry_op_options options = behind(&held, 1);
    options.deadline_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec + 1000000;
    ferry_future *nop = own(ferry_nop(engine(), &options));
    (void)run_until(nop);
    EXPECT_NOW(nop, E_DEADLINE);
}

/* ---- refusals ---- */

Test(attached, progress_and_arm_are_the_loops_own)
{
    begin();
    cr_assert_eq(ferry_engine_progress(engine(), 0), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_engine_arm(engine()), FERRY_E_INVALID);
}

Test(attached, a_loop_goes_with_the_mode)
{
    test_engine te;
    ferry_engine *none = NULL;
    ferry_error *error = NULL;
    ferry_engine_options options = test_engine_options(&te, FERRY_LOOP_ATTACHED);
    ASSERT_STATUS(ferry_engine_create(&options, &none, &error), FERRY_E_INVALID);
    ferry_error_release(error);
    struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
    options.loop = FERRY_LOOP_EMBEDDED;
    options.ev_loop = loop;
    ASSERT_STATUS(ferry_engine_create(&options, &none, &error), FERRY_E_INVALID);
    cr_assert_not_null(strstr(error->message, "ev_loop"));
    ferry_error_release(error);
    ev_loop_destroy(loop);
}

static void create_in_callback(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)events;
    ferry_status *status = timer->data;
    test_engine te;
    ferry_engine_options options = test_engine_options(&te, FERRY_LOOP_ATTACHED);
    options.ev_loop = loop;
    ferry_error *error = NULL;
    *status = ferry_engine_create(&options, &te.engine, &error);
    cr_assert_not_null(strstr(error->message, "running"));
    ferry_error_release(error);
    cr_assert_null(te.engine);
    cr_assert_eq(failing_allocator_live_bytes(&te.memory), 0);
}

Test(attached, a_loop_that_runs_already_is_refused)
{
    user_loop = ev_loop_new(EVFLAG_AUTO);
    ferry_status status = FERRY_OK;
    ev_timer timer;
    run_soon(&timer, create_in_callback, &status);
    ev_run(user_loop, 0);
    ASSERT_STATUS(status, FERRY_E_BUSY);
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
    self->status = ferry_engine_shutdown(engine(), -1);
    return NULL;
}

/* The engine's watcher is all that keeps the loop running, so that it returns says that it is out.
 */
Test(attached, a_shutdown_elsewhere_takes_the_watchers_out)
{
    begin();
    pthread_barrier_t running;
    cr_assert_eq(pthread_barrier_init(&running, NULL, 2), 0);
    elsewhere other = {.running = &running};
    pthread_t thread = begin_thread(shutdown_elsewhere, &other);
    ev_timer timer;
    run_soon(&timer, loop_has_started, &other);
    ev_run(user_loop, 0);
    (void)end_thread(thread);
    ASSERT_STATUS(other.status, FERRY_OK);
}

static void shutdown_in_callback(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)loop, (void)timer, (void)events;
    scene_leave();
}

Test(attached, another_watcher_may_shut_down_and_release)
{
    begin();
    ev_timer timer;
    run_soon(&timer, shutdown_in_callback, NULL);
    ev_run(user_loop, 0);
    cr_assert_eq(failing_allocator_live_bytes(&scene()->memory), 0);
}

/* The loop's thread is in the first callback of its first round, which the engine's own watcher
 * comes after: it has not been seen there yet, and is not the one that made the engine. */
typedef struct early {
    ev_prepare prepare;
    pthread_barrier_t entered, may_leave;
    ferry_status status;
} early;

static void *run_loop(void *arg)
{
    (void)arg;
    ev_run(user_loop, 0);
    return NULL;
}

static void early_start(early *self, pthread_t *thread,
                        void (*callback)(struct ev_loop *, ev_prepare *, int))
{
    begin();
    cr_assert_eq(pthread_barrier_init(&self->entered, NULL, 2), 0);
    cr_assert_eq(pthread_barrier_init(&self->may_leave, NULL, 2), 0);
    ev_prepare_init(&self->prepare, callback);
    ev_set_priority(&self->prepare, EV_MAXPRI);
    self->prepare.data = self;
    ev_prepare_start(user_loop, &self->prepare);
    cr_assert_eq(pthread_create(thread, NULL, run_loop, NULL), 0);
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
    ASSERT_STATUS(ferry_engine_shutdown(engine(), 0), FERRY_E_DEADLINE);
    (void)pthread_barrier_wait(&self.may_leave);
    ASSERT_STATUS(ferry_engine_shutdown(engine(), -1), FERRY_OK);
    cr_assert_eq(pthread_join(thread, NULL), 0);
}

static void shutdown_in_first_callback(struct ev_loop *loop, ev_prepare *prepare, int events)
{
    (void)events;
    early *self = prepare->data;
    ev_prepare_stop(loop, prepare);
    self->status = ferry_engine_shutdown(engine(), -1);
}

Test(attached, the_loops_first_callback_may_shut_down)
{
    early self;
    pthread_t thread;
    early_start(&self, &thread, shutdown_in_first_callback);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    ASSERT_STATUS(self.status, FERRY_OK);
}

Test(attached, two_engines_share_a_loop)
{
    begin();
    test_engine other;
    ferry_engine_options options = test_engine_options(&other, FERRY_LOOP_ATTACHED);
    options.ev_loop = user_loop;
    test_engine_create(&other, &options);
    play("call; release it");
    ferry_future *call = ferry_call(other.engine, NULL, count_call, scene_calls(), NULL);
    (void)run_until(call);
    cr_assert_eq(*scene_calls(), 2);
    ferry_future_release(call);
    test_engine_close(&other);
}
