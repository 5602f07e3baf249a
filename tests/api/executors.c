/* SPDX-License-Identifier: Apache-2.0 */
/* Where callbacks and functions run: the loop, inline, the user's own executor. */
#include "tests/support/api_test.h"

TestSuite(executors, .timeout = HANG_S);

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
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_future *nop = ferry_nop(te.engine, NULL);
    counted_waiter on_loop, in_line;
    counted_waiter_init(&on_loop, NULL);
    counted_waiter_init(&in_line, ferry_executor_inline());
    ASSERT_STATUS(ferry_future_on_ready(nop, &on_loop.waiter), FERRY_OK);
    ASSERT_STATUS(ferry_future_on_ready(nop, &in_line.waiter), FERRY_OK);
    cr_assert_eq(on_loop.calls + in_line.calls, 0);
    settle(&te);
    cr_assert_eq(on_loop.calls, 1);
    cr_assert_eq(in_line.calls, 1);
    cr_assert(pthread_equal(on_loop.thread, pthread_self()));
    cr_assert(pthread_equal(in_line.thread, pthread_self()));
    ferry_future_release(nop);
    test_engine_close(&te);
}

Test(executors, inline_callbacks_go_ahead_of_others)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_future *nop = ferry_nop(te.engine, NULL);
    noted plain = {.waiter = FERRY_WAITER_INIT(note_place, NULL)};
    noted in_line = {.waiter = FERRY_WAITER_INIT(note_place, NULL)};
    in_line.waiter.executor = ferry_executor_inline();
    ASSERT_STATUS(ferry_future_on_ready(nop, &plain.waiter), FERRY_OK);
    ASSERT_STATUS(ferry_future_on_ready(nop, &in_line.waiter), FERRY_OK);
    settle(&te);
    cr_assert_eq(in_line.place, 1);
    cr_assert_eq(plain.place, 2);
    ferry_future_release(nop);
    test_engine_close(&te);
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
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_future *nop = ferry_nop(te.engine, NULL);
    bool is_over = false;
    ferry_waiter in_line[INLINE];
    for (int i = 0; i < INLINE; i++) {
        in_line[i] = (ferry_waiter)FERRY_WAITER_INIT(register_again, &is_over);
        in_line[i].executor = ferry_executor_inline();
        ASSERT_STATUS(ferry_future_on_ready(nop, &in_line[i]), FERRY_OK);
    }
    counted_waiter plain[PLAIN];
    for (int i = 0; i < PLAIN; i++) {
        counted_waiter_init(&plain[i], NULL);
        ASSERT_STATUS(ferry_future_on_ready(nop, &plain[i].waiter), FERRY_OK);
    }
    while (plain[0].calls + plain[1].calls + plain[2].calls < PLAIN)
        cr_assert_geq(ferry_engine_progress(te.engine, 1), 0);
    is_over = true;
    settle(&te);
    ferry_future_release(nop);
    test_engine_close(&te);
}

static void *run_all(void *arg)
{
    manual_executor *executor = arg;
    while (manual_waiting(executor) != 0)
        manual_run_one(executor);
    return NULL;
}

static void run_elsewhere(manual_executor *executor)
{
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, run_all, executor), 0);
    cr_assert_eq(pthread_join(thread, NULL), 0);
}

Test(executors, a_callback_runs_where_the_users_executor_runs_its_task)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    manual_executor executor;
    manual_executor_init(&executor);
    ferry_future *nop = ferry_nop(te.engine, NULL);
    counted_waiter waiter;
    counted_waiter_init(&waiter, &executor.executor);
    ASSERT_STATUS(ferry_future_on_ready(nop, &waiter.waiter), FERRY_OK);
    cr_assert_eq(manual_waiting(&executor), 0, "post is called on the loop only");
    settle(&te);
    cr_assert_eq(manual_waiting(&executor), 1);
    cr_assert_eq(waiter.calls, 0);
    run_elsewhere(&executor);
    cr_assert_eq(waiter.calls, 1);
    cr_assert_not(ferry_waiter_remove(&waiter.waiter), "too late");
    cr_assert_not(pthread_equal(waiter.thread, pthread_self()));
    ferry_future_release(nop);
    test_engine_close(&te);
}

static void run_within_post(ferry_executor *executor, ferry_task *task)
{
    (void)executor;
    ferry_task_run(task);
}

Test(executors, post_may_run_the_task_itself)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_executor executor = {.struct_size = sizeof executor, .post = run_within_post};
    _Atomic int calls = 0;
    ferry_future *call = ferry_call(te.engine, &executor, count_call, &calls, NULL);
    counted_waiter waiter;
    counted_waiter_init(&waiter, &executor);
    ASSERT_STATUS(ferry_future_on_ready(call, &waiter.waiter), FERRY_OK);
    cr_assert_eq(calls, 0);
    settle(&te);
    cr_assert_eq(calls, 1);
    cr_assert_eq(waiter.calls, 1);
    ASSERT_STATUS(status_of(call), FERRY_OK);
    test_engine_close(&te);
}

Test(executors, functions_run_on_the_loop_never_in_the_submit)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    _Atomic int calls = 0;
    ferry_future *on_loop = ferry_call(te.engine, NULL, count_call, &calls, NULL);
    ferry_future *in_line =
        ferry_call(te.engine, ferry_executor_inline(), count_call, &calls, NULL);
    cr_assert_eq(calls, 0);
    settle(&te);
    cr_assert_eq(calls, 2);
    ASSERT_STATUS(status_of(on_loop), FERRY_OK);
    ASSERT_STATUS(status_of(in_line), FERRY_OK);
    test_engine_close(&te);
}

Test(executors, a_function_is_not_handed_out_before_its_dependencies_resolve)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    manual_executor executor;
    manual_executor_init(&executor);
    _Atomic int calls = 0;
    ferry_promise *promise = test_promise(&te);
    ferry_future *after = ferry_promise_future(promise);
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = &after;
    options.after_count = 1;
    ferry_future *call = ferry_call(te.engine, &executor.executor, count_call, &calls, &options);
    settle(&te);
    cr_assert_eq(manual_waiting(&executor), 0);
    keep_promise(promise, FERRY_OK);
    settle(&te);
    cr_assert_eq(manual_waiting(&executor), 1);
    ASSERT_STATUS(ferry_future_poll(call), FERRY_PENDING);
    run_elsewhere(&executor);
    settle(&te);
    cr_assert_eq(calls, 1);
    ASSERT_STATUS(status_of(call), FERRY_OK);
    ferry_future_release(after);
    test_engine_close(&te);
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
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int returned = cases[i].returned;
        ferry_future *call = ferry_call(te.engine, NULL, return_status, &returned, NULL);
        settle(&te);
        ASSERT_STATUS(ferry_future_poll(call), (ferry_status)cases[i].status);
        cr_assert_eq(ferry_future_error(call) != NULL, cases[i].status != FERRY_OK);
        ferry_future_release(call);
    }
    test_engine_close(&te);
}

Test(executors, an_executor_that_cannot_be_posted_to_is_refused)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_executor no_size = {.post = run_within_post};
    ferry_executor no_post = {.struct_size = sizeof no_post};
    _Atomic int calls = 0;
    ferry_future *nop = ferry_nop(te.engine, NULL);
    ferry_executor *refused[] = {&no_size, &no_post};
    for (int i = 0; i < 2; i++) {
        ASSERT_STATUS(status_of(ferry_call(te.engine, refused[i], count_call, &calls, NULL)),
                      FERRY_E_INVALID);
        counted_waiter waiter;
        counted_waiter_init(&waiter, refused[i]);
        ASSERT_STATUS(ferry_future_on_ready(nop, &waiter.waiter), FERRY_E_INVALID);
    }
    ASSERT_STATUS(status_of(ferry_call(te.engine, NULL, NULL, NULL, NULL)), FERRY_E_INVALID);
    settle(&te);
    cr_assert_eq(calls, 0);
    ferry_task_run(NULL);
    ferry_future_release(nop);
    test_engine_close(&te);
}

/* ---- the engine's own ---- */

/* An engine whose own executor is `own`. */
static void open_with(test_engine *te, ferry_executor *own)
{
    ferry_engine_options options = test_engine_options(te, FERRY_LOOP_EMBEDDED);
    options.executor = own;
    test_engine_create(te, &options);
}

Test(executors, the_engines_own_has_what_names_none)
{
    test_engine te;
    manual_executor own, other;
    manual_executor_init(&own);
    manual_executor_init(&other);
    open_with(&te, &own.executor);
    _Atomic int calls = 0;
    ferry_future *mine = ferry_call(te.engine, NULL, count_call, &calls, NULL);
    ferry_future *named = ferry_call(te.engine, &other.executor, count_call, &calls, NULL);
    settle(&te);
    cr_assert_eq(calls, 0);
    cr_assert_eq(manual_waiting(&own), 1);
    cr_assert_eq(manual_waiting(&other), 1);
    manual_run_one(&own);
    manual_run_one(&other);
    settle(&te);
    ASSERT_STATUS(ferry_future_poll(mine), FERRY_OK);
    ASSERT_STATUS(status_of(named), FERRY_OK);
    counted_waiter plain, given;
    counted_waiter_init(&plain, NULL);
    counted_waiter_init(&given, &other.executor);
    ASSERT_STATUS(ferry_future_on_ready(mine, &plain.waiter), FERRY_OK);
    ASSERT_STATUS(ferry_future_on_ready(mine, &given.waiter), FERRY_OK);
    settle(&te);
    cr_assert_eq(manual_waiting(&own), 1);
    cr_assert_eq(manual_waiting(&other), 1);
    manual_run_one(&own);
    manual_run_one(&other);
    cr_assert_eq(plain.calls, 1);
    cr_assert_eq(given.calls, 1);
    ferry_future_release(mine);
    test_engine_close(&te);
}

Test(executors, the_loop_can_be_named_beside_the_engines_own)
{
    test_engine te;
    manual_executor own;
    manual_executor_init(&own);
    open_with(&te, &own.executor);
    ferry_executor *marks[] = {ferry_executor_loop(), ferry_executor_inline()};
    _Atomic int calls = 0;
    ferry_future *last = NULL;
    noted waiters[2];
    for (int i = 0; i < 2; i++) {
        ferry_future_release(last);
        last = ferry_call(te.engine, marks[i], count_call, &calls, NULL);
        waiters[i] = (noted){.waiter = FERRY_WAITER_INIT(note_place, NULL)};
        waiters[i].waiter.executor = marks[i];
    }
    settle(&te);
    for (int i = 0; i < 2; i++)
        ASSERT_STATUS(ferry_future_on_ready(last, &waiters[i].waiter), FERRY_OK);
    settle(&te);
    cr_assert_eq(calls, 2);
    cr_assert_eq(own.posted, 0);
    cr_assert_eq(waiters[1].place, 1, "the inline one");
    cr_assert_eq(waiters[0].place, 2);
    ferry_future_release(last);
    test_engine_close(&te);
}

Test(executors, the_engines_own_may_be_the_loop_by_name)
{
    ferry_executor *marks[] = {NULL, ferry_executor_loop(), ferry_executor_inline()};
    for (int i = 0; i < 3; i++) {
        test_engine te;
        open_with(&te, marks[i]);
        _Atomic int calls = 0;
        ferry_future *call = ferry_call(te.engine, NULL, count_call, &calls, NULL);
        sequence = 0;
        noted plain = {.waiter = FERRY_WAITER_INIT(note_place, NULL)};
        noted by_name = {.waiter = FERRY_WAITER_INIT(note_place, NULL)};
        by_name.waiter.executor = ferry_executor_loop();
        ASSERT_STATUS(ferry_future_on_ready(call, &by_name.waiter), FERRY_OK);
        ASSERT_STATUS(ferry_future_on_ready(call, &plain.waiter), FERRY_OK);
        settle(&te);
        cr_assert_eq(calls, 1);
        cr_assert_eq(plain.place, i == 2 ? 1 : 2, "inline goes ahead");
        ASSERT_STATUS(status_of(call), FERRY_OK);
        test_engine_close(&te);
    }
}

Test(executors, the_engines_own_is_forgotten_with_its_handle)
{
    test_engine te;
    manual_executor own;
    manual_executor_init(&own);
    open_with(&te, &own.executor);
    ferry_future *nop = ferry_nop(te.engine, NULL);
    ASSERT_STATUS(ferry_engine_shutdown(te.engine, -1), FERRY_OK);
    counted_waiter before, after;
    counted_waiter_init(&before, NULL);
    counted_waiter_init(&after, NULL);
    ASSERT_STATUS(ferry_future_on_ready(nop, &before.waiter), FERRY_OK);
    cr_assert_eq(manual_waiting(&own), 1, "no loop is left: who registers posts it");
    ferry_engine_release(te.engine);
    ASSERT_STATUS(ferry_future_on_ready(nop, &after.waiter), FERRY_OK);
    cr_assert_eq(manual_waiting(&own), 1);
    cr_assert_eq(after.calls, 1);
    ferry_future_release(nop);
    manual_run_one(&own);
    cr_assert_eq(before.calls, 1);
    cr_assert_eq(failing_allocator_live_bytes(&te.memory), 0);
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
            open_with(&te, NULL);
        }
        _Atomic int calls = 0;
        ferry_future *call = ferry_call(te.engine, cases[i].executor, count_call, &calls, NULL);
        settle(&te);
        ASSERT_STATUS(status_of(call), cases[i].status);
        cr_assert_eq(calls, cases[i].status == FERRY_OK);
        test_engine_close(&te);
    }
}

/* ---- the user's thread ---- */

typedef struct user_thread {
    ferry_executor executor; /* first */
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    ferry_task *tasks[256];
    size_t head, tail;
    bool ending;
} user_thread;

static void user_post(ferry_executor *executor, ferry_task *task)
{
    user_thread *self = (user_thread *)(void *)executor;
    (void)pthread_mutex_lock(&self->mutex);
    self->tasks[self->tail++ % 256] = task;
    (void)pthread_cond_signal(&self->changed);
    (void)pthread_mutex_unlock(&self->mutex);
}

static void *user_main(void *arg)
{
    user_thread *self = arg;
    (void)pthread_mutex_lock(&self->mutex);
    for (;;) {
        while (self->head == self->tail && !self->ending)
            (void)pthread_cond_wait(&self->changed, &self->mutex);
        if (self->head == self->tail)
            break;
        ferry_task *task = self->tasks[self->head++ % 256];
        (void)pthread_mutex_unlock(&self->mutex);
        ferry_task_run(task);
        (void)pthread_mutex_lock(&self->mutex);
    }
    (void)pthread_mutex_unlock(&self->mutex);
    return NULL;
}

static void user_thread_start(user_thread *self)
{
    memset(self, 0, sizeof *self);
    self->executor = (ferry_executor){.struct_size = sizeof self->executor, .post = user_post};
    (void)pthread_mutex_init(&self->mutex, NULL);
    (void)pthread_cond_init(&self->changed, NULL);
    cr_assert_eq(pthread_create(&self->thread, NULL, user_main, self), 0);
}

static void user_thread_end(user_thread *self)
{
    (void)pthread_mutex_lock(&self->mutex);
    self->ending = true;
    (void)pthread_cond_signal(&self->changed);
    (void)pthread_mutex_unlock(&self->mutex);
    cr_assert_eq(pthread_join(self->thread, NULL), 0);
}

typedef struct inner {
    ferry_engine *engine;
    ferry_status waited;
    pthread_t thread;
} inner;

static ferry_status wait_for_another(void *arg)
{
    inner *self = arg;
    ferry_future *nop = ferry_nop(self->engine, NULL);
    _Atomic int calls = 0;
    ferry_future *call = ferry_call(self->engine, NULL, count_call, &calls, NULL);
    self->waited = ferry_future_wait(call, -1);
    self->thread = pthread_self();
    ferry_future_release(call);
    ferry_future_release(nop);
    return self->waited;
}

Test(executors, a_function_on_the_users_thread_may_wait)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_THREAD);
    user_thread user;
    user_thread_start(&user);
    inner self = {.engine = te.engine, .waited = FERRY_PENDING};
    ferry_future *call = ferry_call(te.engine, &user.executor, wait_for_another, &self, NULL);
    ASSERT_STATUS(ferry_future_wait(call, -1), FERRY_OK);
    ASSERT_STATUS(self.waited, FERRY_OK);
    cr_assert(pthread_equal(self.thread, user.thread));
    ferry_future_release(call);
    test_engine_close(&te);
    user_thread_end(&user);
}

Test(executors, a_chain_of_functions_alternates_between_loop_and_users_thread)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_THREAD);
    user_thread user;
    user_thread_start(&user);
    _Atomic int calls = 0;
    ferry_future *last = ferry_nop(te.engine, NULL);
    ferry_executor *executors[] = {NULL, &user.executor, ferry_executor_inline()};
    for (int i = 0; i < 300; i++) {
        ferry_op_options options = FERRY_OP_OPTIONS_INIT;
        options.after = &last;
        options.after_count = 1;
        ferry_future *call = ferry_call(te.engine, executors[i % 3], count_call, &calls, &options);
        ferry_future_release(last);
        last = call;
    }
    ASSERT_STATUS(ferry_future_wait(last, -1), FERRY_OK);
    cr_assert_eq(calls, 300);
    counted_waiter waiter;
    counted_waiter_init(&waiter, &user.executor);
    ASSERT_STATUS(ferry_future_on_ready(last, &waiter.waiter), FERRY_OK);
    while (atomic_load(&waiter.calls) == 0)
        sched_yield();
    cr_assert(pthread_equal(waiter.thread, user.thread));
    ferry_future_release(last);
    user_thread_end(&user);
    test_engine_close(&te);
}
