/* SPDX-License-Identifier: Apache-2.0 */
/* A shutdown holds its time-out, whatever callbacks do; and then it can be called again. */
#include "tests/support/attached_test.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

ATTACHED_SUITE(shutdown_time);

#define TIMEOUT_NS 1000000

/* ---- callbacks that go on for ever ---- */

typedef struct retry {
    ferry_waiter waiter; /* first */
    _Atomic int calls;
    _Atomic bool is_to_end;
} retry;

/* Submits again, whatever became of the last, and waits for that. */
static void submit_again(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)future, (void)status;
    retry *self = (retry *)(void *)waiter;
    atomic_fetch_add(&self->calls, 1);
    if (atomic_load(&self->is_to_end))
        return;
    ferry_future *next = ferry_nop(engine(), NULL);
    ASSERT_STATUS(ferry_future_on_ready(next, waiter), FERRY_OK);
    ferry_future_release(next);
}

static void retry_start(retry *self, ferry_executor *executor)
{
    *self = (retry){.waiter = FERRY_WAITER_INIT(submit_again, NULL)};
    self->waiter.executor = executor;
    submit_again(&self->waiter, NULL, FERRY_OK);
}

static void run_within_post(ferry_executor *executor, ferry_task *task)
{
    (void)executor;
    ferry_task_run(task);
}

static void beside_retries(ferry_loop_mode loop, ferry_executor *executor)
{
    (void)begin_in(loop);
    retry endless;
    retry_start(&endless, executor);
    while (loop == FERRY_LOOP_THREAD && atomic_load(&endless.calls) <= 1)
        (void)sched_yield(); /* no time-out is too short for a thread that gets no core */
    ASSERT_STATUS(ferry_engine_shutdown(engine(), TIMEOUT_NS), FERRY_E_DEADLINE);
    ASSERT_STATUS(ferry_engine_shutdown(engine(), 0), FERRY_E_DEADLINE);
    cr_assert_gt(endless.calls, 1);
    atomic_store(&endless.is_to_end, true);
    end_in();
}

Test(shutdown_time, a_callback_that_submits_again_each_time)
{
    beside_retries(FERRY_LOOP_THREAD, NULL);
}

Test(shutdown_time, a_callback_that_submits_again_each_time_embedded)
{
    beside_retries(FERRY_LOOP_EMBEDDED, NULL);
}

Test(shutdown_time, a_callback_that_submits_again_each_time_attached)
{
    beside_retries(FERRY_LOOP_ATTACHED, NULL);
}

Test(shutdown_time, an_inline_callback_that_submits_again_each_time)
{
    beside_retries(FERRY_LOOP_THREAD, ferry_executor_inline());
}

Test(shutdown_time, an_inline_callback_that_submits_again_each_time_embedded)
{
    beside_retries(FERRY_LOOP_EMBEDDED, ferry_executor_inline());
}

Test(shutdown_time, an_executor_that_runs_such_a_callback_within_post)
{
    ferry_executor executor = {.struct_size = sizeof executor, .post = run_within_post};
    beside_retries(FERRY_LOOP_EMBEDDED, &executor);
}

/* The engine is leaked, so it is there to be ended by the test. */
Test(shutdown_time, a_release_gives_up_too)
{
    (void)begin_in(FERRY_LOOP_EMBEDDED);
    retry endless;
    retry_start(&endless, NULL);
    ferry_engine_release(engine());
    cr_assert_gt(failing_allocator_live_bytes(&scene()->memory), 0);
    atomic_store(&endless.is_to_end, true);
    end_in();
}

typedef struct after_shutdown {
    ferry_waiter waiter; /* first */
    ferry_future *future;
    sem_t has_begun, may_end;
} after_shutdown;

static void stay(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)future, (void)status;
    after_shutdown *self = (after_shutdown *)(void *)waiter;
    (void)sem_post(&self->has_begun);
    while (sem_wait(&self->may_end) != 0)
        continue;
}

static void *register_late(void *arg)
{
    after_shutdown *self = arg;
    ASSERT_STATUS(ferry_future_on_ready(self->future, &self->waiter), FERRY_OK);
    return NULL;
}

/* Another thread is in a callback, and might post to the engine's executor next. */
Test(shutdown_time, a_release_gives_up_beside_a_callback_after_the_shutdown)
{
    test_engine te;
    ferry_executor executor = {.struct_size = sizeof executor, .post = run_within_post};
    ferry_engine_options options = test_engine_options(&te, FERRY_LOOP_THREAD);
    options.executor = &executor;
    test_engine_create(&te, &options);
    after_shutdown self = {.waiter = FERRY_WAITER_INIT(stay, NULL)};
    self.waiter.executor = ferry_executor_loop();
    self.future = ferry_nop(te.engine, NULL);
    cr_assert_eq(sem_init(&self.has_begun, 0, 0), 0);
    cr_assert_eq(sem_init(&self.may_end, 0, 0), 0);
    ASSERT_STATUS(ferry_engine_shutdown(te.engine, -1), FERRY_OK);
    pthread_t thread = begin_thread(register_late, &self);
    while (sem_wait(&self.has_begun) != 0)
        continue;
    int lines = te.log_lines;
    ferry_engine_release(te.engine);
    cr_assert_gt(te.log_lines, lines, "it is leaked");
    cr_assert_eq(sem_post(&self.may_end), 0);
    (void)end_thread(thread);
    ferry_future_release(self.future);
    ferry_engine_release(te.engine); /* which is there still */
    cr_assert_eq(failing_allocator_live_bytes(&te.memory), 0);
}

/* The file is a pipe that nobody reads. */
Test(shutdown_time, a_release_gives_up_beside_a_trace_file_that_takes_nothing)
{
    enum { MORE_THAN_A_PIPE = 4000 };
    static char rest[65536];
    char path[64];
    (void)snprintf(path, sizeof path, "/tmp/ferry-shutdown-time-%d", (int)getpid());
    cr_assert_eq(mkfifo(path, 0600), 0);
    int reader = open(path, O_RDONLY | O_NONBLOCK);
    cr_assert_geq(reader, 0);
    ASSERT_STATUS(ferry_trace_open(path), FERRY_OK);
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_THREAD);
    for (int i = 0; i < MORE_THAN_A_PIPE; i++)
        ferry_future_release(ferry_nop(te.engine, NULL));
    int lines = te.log_lines;
    ferry_engine_release(te.engine);
    cr_assert_gt(te.log_lines, lines, "it is leaked");
    cr_assert_gt(failing_allocator_live_bytes(&te.memory), 0);
    while (read(reader, rest, sizeof rest) > 0)
        continue;
    cr_assert_eq(close(reader), 0); /* from now on writing fails */
    (void)signal(SIGPIPE, SIG_IGN);
    (void)ferry_trace_close();
    cr_assert_eq(unlink(path), 0);
}

/* ---- many that take long ---- */

enum { MANY = 300 };

typedef struct slow {
    ferry_waiter waiters[MANY];
    _Atomic int calls;
} slow;

/* Each takes longer than the shutdown is given, so that after one it is time. */
static void take_long(slow *self)
{
    struct timespec left = {.tv_nsec = 3 * TIMEOUT_NS};
    atomic_fetch_add(&self->calls, 1);
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        continue;
}

static void take_long_ready(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)future, (void)status;
    take_long(waiter->arg);
}

static void beside_slow_callbacks(ferry_executor *executor)
{
    slow slow = {.calls = 0};
    (void)begin_in(FERRY_LOOP_EMBEDDED);
    ferry_future *done = own(ferry_nop(engine(), NULL));
    for (int i = 0; i < 6; i++) {
        slow.waiters[i] = (ferry_waiter)FERRY_WAITER_INIT(take_long_ready, &slow);
        slow.waiters[i].executor = executor;
        ASSERT_STATUS(ferry_future_on_ready(done, &slow.waiters[i]), FERRY_OK);
    }
    for (int i = 1; i < 4; i++) {
        ASSERT_STATUS(ferry_engine_shutdown(engine(), TIMEOUT_NS), FERRY_E_DEADLINE);
        cr_assert_eq(slow.calls, i, "one each time, and each time one");
    }
    end_in();
    cr_assert_eq(slow.calls, 6);
}

Test(shutdown_time, callbacks_that_take_long)
{
    beside_slow_callbacks(NULL);
}

Test(shutdown_time, inline_callbacks_that_take_long)
{
    beside_slow_callbacks(ferry_executor_inline());
}

Test(shutdown_time, posts_that_take_long)
{
    ferry_executor executor = {.struct_size = sizeof executor, .post = run_within_post};
    beside_slow_callbacks(&executor);
}

static void take_long_free(void *arg, void *memory, size_t size_bytes)
{
    (void)memory, (void)size_bytes;
    take_long(arg);
}

Test(shutdown_time, free_functions_that_take_long)
{
    slow slow = {.calls = 0};
    (void)begin_in(FERRY_LOOP_EMBEDDED);
    device_memory memory = alloc_device_memory(test_device(engine(), 0), 64);
    for (int i = 0; i < 6; i++) {
        ferry_buffer *buffer = NULL;
        ASSERT_STATUS(ferry_buffer_wrap(test_device(engine(), 0), memory.bytes, 64, take_long_free,
                                        &slow, &buffer),
                      FERRY_OK);
        ferry_buffer_release(buffer);
    }
    for (int i = 1; i < 4; i++) {
        ASSERT_STATUS(ferry_engine_shutdown(engine(), TIMEOUT_NS), FERRY_E_DEADLINE);
        cr_assert_eq(slow.calls, i);
    }
    free_device_memory(&memory);
    end_in();
    cr_assert_eq(slow.calls, 6);
}

static void take_long_record(void *arg, const ferry_trace_record *record)
{
    (void)record;
    take_long(arg);
}

Test(shutdown_time, hooks_that_take_long)
{
    slow slow = {.calls = 0};
    (void)begin_in(FERRY_LOOP_EMBEDDED);
    ferry_trace_hooks hooks = {
        .struct_size = sizeof hooks, .record = take_long_record, .arg = &slow};
    ASSERT_STATUS(ferry_engine_trace(engine(), &hooks), FERRY_OK);
    ferry_future_release(ferry_nop(engine(), NULL));
    ferry_future_release(ferry_nop(engine(), NULL));
    ASSERT_STATUS(ferry_engine_shutdown(engine(), TIMEOUT_NS), FERRY_E_DEADLINE);
    cr_assert_leq(slow.calls, 2, "one each time that it looks");
    end_in();
    cr_assert_gt(slow.calls, 6, "all records of what was submitted before");
}

/* A hook whose calls make records keeps nobody from anything else. */
static void submit_record(void *arg, const ferry_trace_record *record)
{
    retry *self = arg;
    (void)record;
    if (atomic_fetch_add(&self->calls, 1) < 1000000)
        ferry_future_release(ferry_nop(engine(), NULL));
}

Test(shutdown_time, hooks_that_submit)
{
    (void)begin_in(FERRY_LOOP_EMBEDDED);
    retry endless = {.calls = 0};
    ferry_trace_hooks hooks = {
        .struct_size = sizeof hooks, .record = submit_record, .arg = &endless};
    ASSERT_STATUS(ferry_engine_trace(engine(), &hooks), FERRY_OK);
    ferry_future_release(ferry_nop(engine(), NULL));
    (void)ferry_engine_progress(engine(), 0);
    cr_assert_lt(endless.calls, 1000, "a round is bounded");
    ASSERT_STATUS(ferry_engine_trace(engine(), NULL), FERRY_OK);
    end_in();
}

/* ---- enough time ---- */

/* No time at all is enough for what needs no waiting. */
Test(shutdown_time, of_no_time_does_what_is_due)
{
    static counted_waiter waiters[MANY];
    (void)begin_in(FERRY_LOOP_EMBEDDED);
    ferry_future *done = own(ferry_nop(engine(), NULL));
    for (int i = 0; i < MANY; i++) {
        counted_waiter_init(&waiters[i], NULL);
        ASSERT_STATUS(ferry_future_on_ready(done, &waiters[i].waiter), FERRY_OK);
    }
    ASSERT_STATUS(ferry_engine_shutdown(engine(), 0), FERRY_OK);
    for (int i = 0; i < MANY; i++)
        cr_assert_eq(waiters[i].calls, 1);
    end_in();
}
