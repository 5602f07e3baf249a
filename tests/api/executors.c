/* SPDX-License-Identifier: Apache-2.0 */
/* Where callbacks and functions run: the loop, inline, the user's own executor. */
#include "tests/support/play.h"
#include "tests/support/thread_executor.h"

SCENE_SUITE(executors);

static int sequence;

typedef struct noted {
    ferry_waiter waiter; /* first */
    int place;
} noted;

static void note_place(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)future, (void)status;
    ((noted *)(void *)waiter)->place = ++sequence;
}

Test(executors, callbacks_run_on_the_thread_that_makes_progress)
{
    play("n = nop; waiter on_loop on n; waiter in_line on n inline; called on_loop 0;"
         "called in_line 0; settle; called on_loop 1; called in_line 1");
    cr_assert(pthread_equal(the_waiter("on_loop")->thread, pthread_self()));
    cr_assert(pthread_equal(the_waiter("in_line")->thread, pthread_self()));
}

Test(executors, inline_callbacks_go_ahead_of_others)
{
    ferry_future *nop = own(ferry_nop(engine(), NULL));
    noted plain = {.waiter = FERRY_WAITER_INIT(note_place, NULL)};
    noted in_line = {.waiter = FERRY_WAITER_INIT(note_place, NULL)};
    in_line.waiter.executor = ferry_executor_inline();
    ASSERT_STATUS(ferry_future_on_ready(nop, &plain.waiter), FERRY_OK);
    ASSERT_STATUS(ferry_future_on_ready(nop, &in_line.waiter), FERRY_OK);
    scene_settle();
    cr_assert_eq(in_line.place, 1);
    cr_assert_eq(plain.place, 2);
}

static void register_again(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)status;
    const bool *is_over = waiter->arg;
    if (!*is_over)
        ASSERT_STATUS(ferry_future_on_ready(future, waiter), FERRY_OK);
}

/* There may be more of them, round after round, than a round's budget, which is 1 here. */
Test(executors, inline_callbacks_without_end_hold_up_no_other)
{
    enum { INLINE = 3, PLAIN = 3 };
    play("n = nop");
    bool is_over = false;
    ferry_waiter in_line[INLINE];
    for (int i = 0; i < INLINE; i++) {
        in_line[i] = (ferry_waiter)FERRY_WAITER_INIT(register_again, &is_over);
        in_line[i].executor = ferry_executor_inline();
        ASSERT_STATUS(ferry_future_on_ready(the_future("n"), &in_line[i]), FERRY_OK);
    }
    counted_waiter *plain[PLAIN];
    for (int i = 0; i < PLAIN; i++)
        plain[i] = on_ready(the_future("n"), NULL);
    while (plain[0]->calls + plain[1]->calls + plain[2]->calls < PLAIN)
        cr_assert_geq(ferry_engine_progress(engine(), 1), 0);
    is_over = true;
    scene_end();
}

static void *run_all(void *arg)
{
    (void)arg;
    run_posted();
    return NULL;
}

static void run_elsewhere(void)
{
    (void)in_thread(run_all, NULL);
}

Test(executors, a_callback_runs_where_the_users_executor_runs_its_task)
{
    play("n = nop; waiter w on n by hand");
    cr_assert_eq(manual_waiting(by_hand()), 0, "post is called on the loop only");
    play("posted 1; called w 0");
    run_elsewhere();
    play("called w 1");
    cr_assert_not(ferry_waiter_remove(&the_waiter("w")->waiter), "too late");
    cr_assert_not(pthread_equal(the_waiter("w")->thread, pthread_self()));
}

static void run_within_post(ferry_executor *executor, ferry_task *task)
{
    (void)executor;
    ferry_task_run(task);
}

Test(executors, post_may_run_the_task_itself)
{
    ferry_executor executor = {.struct_size = sizeof executor, .post = run_within_post};
    ferry_future *call = own(ferry_call(engine(), &executor, count_call, scene_calls(), NULL));
    counted_waiter *waiter = on_ready(call, &executor);
    cr_assert_eq(*scene_calls(), 0);
    play("calls 1");
    cr_assert_eq(waiter->calls, 1);
    EXPECT(call, OK);
}

Test(executors, functions_run_on_the_loop_never_in_the_submit)
{
    play("on_loop = call");
    ferry_future *in_line =
        own(ferry_call(engine(), ferry_executor_inline(), count_call, scene_calls(), NULL));
    cr_assert_eq(*scene_calls(), 0);
    play("calls 2; expect on_loop OK");
    EXPECT(in_line, OK);
}

Test(executors, a_function_is_not_handed_out_before_its_dependencies_resolve)
{
    play("promise p; c = call by hand after p; posted 0; keep p; posted 1; expect c PENDING");
    run_elsewhere();
    play("calls 1; expect c OK");
}

static ferry_status return_status(void *arg)
{
    return *(const ferry_status *)arg;
}

Test(executors, what_a_function_returns_is_the_status)
{
    static const struct {
        int returned, status;
    } cases[] = {{FERRY_OK, FERRY_OK},
                 {FERRY_E_CANCELLED, FERRY_E_CANCELLED},
                 {FERRY_E_FAILED, FERRY_E_FAILED},
                 {-4711, -4711},
                 {FERRY_PENDING, FERRY_E_FAILED},
                 {99, FERRY_E_FAILED}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int returned = cases[i].returned;
        ferry_future *call = ferry_call(engine(), NULL, return_status, &returned, NULL);
        scene_settle();
        ASSERT_STATUS(ferry_future_poll(call), (ferry_status)cases[i].status);
        cr_assert_eq(ferry_future_error(call) != NULL, cases[i].status != FERRY_OK);
        ferry_future_release(call);
    }
}

Test(executors, an_executor_that_cannot_be_posted_to_is_refused)
{
    ferry_executor no_size = {.post = run_within_post};
    ferry_executor no_post = {.struct_size = sizeof no_post};
    _Atomic int calls = 0;
    ferry_future *nop = own(ferry_nop(engine(), NULL));
    ferry_executor *refused[] = {&no_size, &no_post};
    for (int i = 0; i < 2; i++) {
        ASSERT_STATUS(status_of(ferry_call(engine(), refused[i], count_call, &calls, NULL)),
                      FERRY_E_INVALID);
        counted_waiter waiter;
        counted_waiter_init(&waiter, refused[i]);
        ASSERT_STATUS(ferry_future_on_ready(nop, &waiter.waiter), FERRY_E_INVALID);
    }
    ASSERT_STATUS(status_of(ferry_call(engine(), NULL, NULL, NULL, NULL)), FERRY_E_INVALID);
    scene_settle();
    cr_assert_eq(calls, 0);
    ferry_task_run(NULL);
}

/* ---- the engine's own ---- */

/* The executor of engines to come, beside the scene's. */
static manual_executor *mine(void)
{
    static manual_executor executor;
    manual_executor_init(&executor);
    scene_options(FERRY_LOOP_EMBEDDED)->executor = &executor.executor;
    return &executor;
}

Test(executors, the_engines_own_has_what_names_none)
{
    manual_executor *own_one = mine();
    play("mine = call; named = call by hand; calls 0; posted 1");
    cr_assert_eq(manual_waiting(own_one), 1);
    manual_run_one(own_one);
    play("run; expect mine named OK; waiter plain on mine; waiter given on mine by hand; posted 1");
    cr_assert_eq(manual_waiting(own_one), 1);
    manual_run_one(own_one);
    play("run; called plain 1; called given 1");
}

Test(executors, the_loop_can_be_named_beside_the_engines_own)
{
    const manual_executor *own_one = mine();
    ferry_executor *marks[] = {ferry_executor_loop(), ferry_executor_inline()};
    ferry_future *last = NULL;
    noted waiters[2];
    for (int i = 0; i < 2; i++) {
        last = own(ferry_call(engine(), marks[i], count_call, scene_calls(), NULL));
        waiters[i] = (noted){.waiter = FERRY_WAITER_INIT(note_place, NULL)};
        waiters[i].waiter.executor = marks[i];
    }
    scene_settle();
    for (int i = 0; i < 2; i++)
        ASSERT_STATUS(ferry_future_on_ready(last, &waiters[i].waiter), FERRY_OK);
    play("calls 2");
    cr_assert_eq(own_one->posted, 0);
    cr_assert_eq(waiters[1].place, 1, "the inline one");
    cr_assert_eq(waiters[0].place, 2);
}

Test(executors, the_engines_own_may_be_the_loop_by_name)
{
    ferry_executor *marks[] = {NULL, ferry_executor_loop(), ferry_executor_inline()};
    for (int i = 0; i < 3; i++) {
        scene_options(FERRY_LOOP_EMBEDDED)->executor = marks[i];
        play("c = call");
        sequence = 0;
        noted plain = {.waiter = FERRY_WAITER_INIT(note_place, NULL)};
        noted by_name = {.waiter = FERRY_WAITER_INIT(note_place, NULL)};
        by_name.waiter.executor = ferry_executor_loop();
        ASSERT_STATUS(ferry_future_on_ready(the_future("c"), &by_name.waiter), FERRY_OK);
        ASSERT_STATUS(ferry_future_on_ready(the_future("c"), &plain.waiter), FERRY_OK);
        play("calls 1");
        cr_assert_eq(plain.place, i == 2 ? 1 : 2, "inline goes ahead");
        play("expect c OK");
        scene_end();
    }
}

Test(executors, the_engines_own_is_forgotten_with_its_handle)
{
    manual_executor *own_one = mine();
    play("n = nop");
    ASSERT_STATUS(ferry_engine_shutdown(engine(), -1), FERRY_OK);
    play("waiter before on n");
    cr_assert_eq(manual_waiting(own_one), 1, "no loop is left: who registers posts it");
    scene_leave();
    play("waiter after on n; called after 1");
    cr_assert_eq(manual_waiting(own_one), 1);
    play("release n");
    manual_run_one(own_one);
    play("called before 1");
}

typedef struct larger_executor {
    ferry_executor executor; /* first */
    uint64_t tail[3];        /* of a later version */
} larger_executor;

Test(executors, one_of_another_size_is_read_like_options)
{
    larger_executor known = {{.struct_size = sizeof known, .post = run_within_post}, {0}};
    larger_executor unknown = {{.struct_size = sizeof unknown, .post = run_within_post}, {0, 0, 1}};
    ferry_executor shorter = {.struct_size = offsetof(ferry_executor, arg),
                              .post = run_within_post};
    ferry_executor too_short = {.struct_size = offsetof(ferry_executor, post),
                                .post = run_within_post};
    ferry_executor too_long = {.struct_size = 1 << 20, .post = run_within_post};
    const struct {
        ferry_executor *executor;
        ferry_status status;
    } cases[] = {{&known.executor, FERRY_OK},
                 {&unknown.executor, FERRY_E_INVALID},
                 {&shorter, FERRY_OK},
                 {&too_short, FERRY_E_INVALID},
                 {&too_long, FERRY_E_INVALID}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        test_engine te;
        ferry_error *error = NULL;
        ferry_engine_options options = test_engine_options(&te, FERRY_LOOP_EMBEDDED);
        options.executor = cases[i].executor;
        ASSERT_STATUS(ferry_engine_create(&options, &te.engine, &error), cases[i].status);
        if (error != NULL) {
            cr_assert_not_null(strstr(error->message, "executor"), "%s", error->message);
            ferry_error_release(error);
        } else {
            test_engine_close(&te);
            scene_options(FERRY_LOOP_EMBEDDED)->executor = cases[i].executor;
        }
        ferry_future *call =
            own(ferry_call(engine(), cases[i].executor, count_call, scene_calls(), NULL));
        scene_settle();
        ASSERT_STATUS(ferry_future_poll(call), cases[i].status);
        cr_assert_eq(*scene_calls(), cases[i].status == FERRY_OK);
        scene_end();
    }
}

/* ---- the user's thread ---- */

static thread_executor user;

typedef struct inner {
    ferry_status waited;
    pthread_t thread;
} inner;

static ferry_status wait_for_another(void *arg)
{
    inner *self = arg;
    ferry_future *call = ferry_call(engine(), NULL, count_call, scene_calls(), NULL);
    self->waited = ferry_future_wait(call, -1);
    self->thread = pthread_self();
    ferry_future_release(call);
    return self->waited;
}

Test(executors, a_function_on_the_users_thread_may_wait)
{
    scene_begin(FERRY_LOOP_THREAD);
    cr_assert(thread_executor_start(&user));
    inner self = {.waited = FERRY_PENDING};
    EXPECT(own(ferry_call(engine(), &user.executor, wait_for_another, &self, NULL)), OK);
    ASSERT_STATUS(self.waited, FERRY_OK);
    cr_assert(pthread_equal(self.thread, user.thread));
    scene_end();
    thread_executor_stop(&user);
}

Test(executors, a_chain_of_functions_alternates_between_loop_and_users_thread)
{
    scene_begin(FERRY_LOOP_THREAD);
    cr_assert(thread_executor_start(&user));
    ferry_future *last = ferry_nop(engine(), NULL);
    ferry_executor *executors[] = {NULL, &user.executor, ferry_executor_inline()};
    for (int i = 0; i < 300; i++) {
        ferry_op_options options = behind(&last, 1);
        ferry_future *call =
            ferry_call(engine(), executors[i % 3], count_call, scene_calls(), &options);
        ferry_future_release(last);
        last = call;
    }
    EXPECT(own(last), OK);
    cr_assert_eq(*scene_calls(), 300);
    counted_waiter *waiter = on_ready(last, &user.executor);
    while (atomic_load(&waiter->calls) == 0)
        sched_yield();
    cr_assert(pthread_equal(waiter->thread, user.thread));
    thread_executor_stop(&user);
}
