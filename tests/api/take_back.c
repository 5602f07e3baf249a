/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ferry_waiter_remove on the loop: whatever has not begun is taken back, so that what a callback
 * would have gone on with (a coroutine, say) can be destroyed there.
 */
#include "tests/support/api_test.h"

#include <ev.h>
#include <poll.h>
#include <semaphore.h>

TestSuite(take_back, .timeout = HANG_S);

#define WAITERS 6

/* Waiters that all take the others back, the one that is called first. */
typedef struct together {
    test_engine te;
    struct ev_loop *ev_loop;
    counted_waiter waiters[WAITERS];
    ferry_waiter remover;
    sem_t called;
    int taken_back, refused;
} together;

static void open_in(together *self, ferry_loop_mode loop)
{
    memset(self, 0, sizeof *self);
    ferry_engine_options options = test_engine_options(&self->te, loop);
    self->ev_loop = loop == FERRY_LOOP_ATTACHED ? ev_loop_new(EVFLAG_AUTO) : NULL;
    options.ev_loop = self->ev_loop;
    options.clock = NULL;
    test_engine_create(&self->te, &options);
    cr_assert_eq(sem_init(&self->called, 0, 0), 0);
    for (int i = 0; i < WAITERS; i++)
        counted_waiter_init(&self->waiters[i], NULL);
}

static void close_all(together *self)
{
    test_engine_close(&self->te);
    if (self->ev_loop != NULL)
        ev_loop_destroy(self->ev_loop);
}

/* Runs the loop, whosever it is, until a callback has said that it was called. */
static void run_until_called(together *self)
{
    while (sem_trywait(&self->called) != 0) {
        if (self->ev_loop != NULL)
            (void)ev_run(self->ev_loop, EVRUN_NOWAIT);
        else if (ferry_engine_progress(self->te.engine, 0) < 0)
            (void)sched_yield();
    }
}

static void take_all_back(together *self)
{
    for (int i = 0; i < WAITERS; i++) {
        if (ferry_waiter_remove(&self->waiters[i].waiter))
            self->taken_back++;
        else
            self->refused++;
    }
    cr_assert_eq(sem_post(&self->called), 0);
}

static void take_all_back_ready(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)future, (void)status;
    take_all_back(waiter->arg);
}

/* Once all callbacks that are due have been called. */
static void let_callbacks_pass(together *self)
{
    ferry_waiter last = FERRY_WAITER_INIT(take_all_back_ready, self);
    ferry_future *nop = ferry_nop(self->te.engine, NULL);
    ASSERT_STATUS(ferry_future_on_ready(nop, &last), FERRY_OK);
    run_until_called(self);
    ferry_future_release(nop);
}

static void register_all(together *self, ferry_future *future)
{
    for (int i = 0; i < WAITERS; i++)
        ASSERT_STATUS(ferry_future_on_ready(future, &self->waiters[i].waiter), FERRY_OK);
}

static int calls_of_all(const together *self)
{
    int calls = 0;
    for (int i = 0; i < WAITERS; i++)
        calls += self->waiters[i].calls;
    return calls;
}

/* `remover_is_inline`: ahead of the others, though it was registered last. */
static void one_takes_back_the_others(ferry_loop_mode loop, bool remover_is_inline)
{
    together self;
    open_in(&self, loop);
    ferry_promise *promise = test_promise(&self.te);
    ferry_future *future = ferry_promise_future(promise);
    self.remover = (ferry_waiter)FERRY_WAITER_INIT(take_all_back_ready, &self);
    self.remover.executor = remover_is_inline ? ferry_executor_inline() : NULL;
    if (!remover_is_inline)
        ASSERT_STATUS(ferry_future_on_ready(future, &self.remover), FERRY_OK);
    register_all(&self, future);
    if (remover_is_inline)
        ASSERT_STATUS(ferry_future_on_ready(future, &self.remover), FERRY_OK);
    keep_promise(promise, FERRY_OK);
    run_until_called(&self);
    cr_assert_eq(self.taken_back, WAITERS);
    let_callbacks_pass(&self);
    cr_assert_eq(calls_of_all(&self), 0);
    cr_assert_eq(self.taken_back, WAITERS, "a second time");
    ferry_future_release(future);
    close_all(&self);
}

Test(take_back, a_callback_takes_back_the_others)
{
    one_takes_back_the_others(FERRY_LOOP_THREAD, false);
}

Test(take_back, a_callback_takes_back_the_others_embedded)
{
    one_takes_back_the_others(FERRY_LOOP_EMBEDDED, false);
}

Test(take_back, a_callback_takes_back_the_others_attached)
{
    one_takes_back_the_others(FERRY_LOOP_ATTACHED, false);
}

Test(take_back, an_inline_callback_takes_back_the_others)
{
    one_takes_back_the_others(FERRY_LOOP_THREAD, true);
}

Test(take_back, an_inline_callback_takes_back_the_others_embedded)
{
    one_takes_back_the_others(FERRY_LOOP_EMBEDDED, true);
}

/* ---- from other callbacks ---- */

static ferry_status take_all_back_call(void *arg)
{
    take_all_back(arg);
    return FERRY_OK;
}

Test(take_back, a_function_of_the_loop_takes_them_back)
{
    together self;
    open_in(&self, FERRY_LOOP_EMBEDDED);
    ferry_future *done = ferry_nop(self.te.engine, NULL);
    register_all(&self, done);
    /* Functions come before callbacks in a round. */
    ferry_future *call = ferry_call(self.te.engine, NULL, take_all_back_call, &self, NULL);
    run_until_called(&self);
    cr_assert_eq(self.taken_back, WAITERS);
    let_callbacks_pass(&self);
    cr_assert_eq(calls_of_all(&self), 0);
    ferry_future_release(call);
    ferry_future_release(done);
    close_all(&self);
}

static void take_all_back_free(void *arg, void *memory, size_t size_bytes)
{
    (void)memory, (void)size_bytes;
    take_all_back(arg);
}

Test(take_back, a_free_fn_takes_them_back)
{
    together self;
    open_in(&self, FERRY_LOOP_EMBEDDED);
    device_memory memory = alloc_device_memory(test_device(self.te.engine, 0), 64);
    ferry_buffer *wrapped = NULL;
    ASSERT_STATUS(ferry_buffer_wrap(test_device(self.te.engine, 0), memory.bytes, 64,
                                    take_all_back_free, &self, &wrapped),
                  FERRY_OK);
    ferry_future *done = ferry_nop(self.te.engine, NULL);
    register_all(&self, done);
    ferry_buffer_release(wrapped);
    run_until_called(&self);
    cr_assert_eq(self.taken_back, WAITERS);
    let_callbacks_pass(&self);
    cr_assert_eq(calls_of_all(&self), 0);
    ferry_future_release(done);
    free_device_memory(&memory);
    close_all(&self);
}

/* In a callback of another engine's, which this one's runs: the thread is the loop of both. */
typedef struct nested {
    together outer;
    test_engine inner;
    ferry_waiter waiter;
    ferry_status shutdown, wait;
    ferry_future *pending;
} nested;

static void in_inner(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)future, (void)status;
    nested *self = waiter->arg;
    take_all_back(&self->outer);
    self->wait = ferry_future_wait(self->pending, 1000000);
    self->shutdown = ferry_engine_shutdown(self->outer.te.engine, 100000000);
}

static void in_outer(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)future, (void)status;
    const nested *self = waiter->arg;
    while (ferry_engine_progress(self->inner.engine, 0) > 0)
        continue;
}

static void nest(ferry_loop_mode outer_loop)
{
    nested self;
    open_in(&self.outer, outer_loop);
    test_engine_open(&self.inner, FERRY_LOOP_EMBEDDED);
    ferry_promise *promise = test_promise(&self.outer.te), *never = test_promise(&self.outer.te);
    ferry_future *future = ferry_promise_future(promise);
    self.pending = ferry_promise_future(never);
    ferry_future *inner_nop = ferry_nop(self.inner.engine, NULL);
    self.waiter = (ferry_waiter)FERRY_WAITER_INIT(in_inner, &self);
    ASSERT_STATUS(ferry_future_on_ready(inner_nop, &self.waiter), FERRY_OK);
    self.outer.remover = (ferry_waiter)FERRY_WAITER_INIT(in_outer, &self);
    ASSERT_STATUS(ferry_future_on_ready(future, &self.outer.remover), FERRY_OK);
    register_all(&self.outer, future);
    keep_promise(promise, FERRY_OK);
    run_until_called(&self.outer);
    let_callbacks_pass(&self.outer);
    cr_assert_eq(self.outer.taken_back, WAITERS);
    cr_assert_eq(calls_of_all(&self.outer), 0);
    ASSERT_STATUS(self.wait, FERRY_E_DEADLOCK);
    ASSERT_STATUS(self.shutdown, FERRY_E_DEADLOCK);
    ferry_future_release(inner_nop);
    ferry_future_release(future);
    ferry_future_release(self.pending);
    ferry_promise_release(never);
    test_engine_close(&self.inner);
    close_all(&self.outer);
}

Test(take_back, in_a_callback_within_a_callback)
{
    nest(FERRY_LOOP_THREAD);
}

Test(take_back, in_a_callback_within_a_callback_embedded)
{
    nest(FERRY_LOOP_EMBEDDED);
}

/* ---- registered anew ---- */

static void take_back_and_register(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)status;
    together *self = waiter->arg;
    take_all_back(self);
    register_all(self, future);
}

Test(take_back, what_was_taken_back_can_be_registered_anew)
{
    together self;
    open_in(&self, FERRY_LOOP_EMBEDDED);
    ferry_future *done = ferry_nop(self.te.engine, NULL);
    self.remover = (ferry_waiter)FERRY_WAITER_INIT(take_back_and_register, &self);
    ASSERT_STATUS(ferry_future_on_ready(done, &self.remover), FERRY_OK);
    register_all(&self, done);
    settle(&self.te);
    cr_assert_eq(self.taken_back, WAITERS);
    cr_assert_eq(calls_of_all(&self), WAITERS);
    ferry_future_release(done);
    close_all(&self);
}

/* ---- between rounds ---- */

/* Who could make progress now is as good as the loop. */
Test(take_back, between_rounds_of_an_embedded_loop)
{
    together self;
    open_in(&self, FERRY_LOOP_EMBEDDED);
    ferry_future *done = ferry_nop(self.te.engine, NULL);
    register_all(&self, done);
    take_all_back(&self);
    cr_assert_eq(self.taken_back, WAITERS);
    settle(&self.te);
    cr_assert_eq(calls_of_all(&self), 0);
    ferry_future_release(done);
    close_all(&self);
}

/* What it finds due on the way is not forgotten, and the sleeping loop hears of it. */
Test(take_back, others_that_are_due_wake_the_loop)
{
    together self;
    open_in(&self, FERRY_LOOP_EMBEDDED);
    ferry_future *done = ferry_nop(self.te.engine, NULL);
    settle(&self.te);
    ASSERT_STATUS(ferry_engine_arm(self.te.engine), FERRY_OK);
    register_all(&self, done);
    cr_assert(ferry_waiter_remove(&self.waiters[WAITERS - 1].waiter));
    struct pollfd fd = {.fd = ferry_engine_fd(self.te.engine), .events = POLLIN};
    cr_assert_eq(poll(&fd, 1, 0), 1);
    settle(&self.te);
    cr_assert_eq(calls_of_all(&self), WAITERS - 1);
    ferry_future_release(done);
    close_all(&self);
}

/* ---- executors ---- */

/* Tasks for as many as that; the other waiters wait for one. */
static void of_an_executor(uint32_t max_tasks)
{
    together self;
    memset(&self, 0, sizeof self);
    manual_executor executor;
    manual_executor_init(&executor);
    ferry_engine_options options = test_engine_options(&self.te, FERRY_LOOP_EMBEDDED);
    options.max_tasks = max_tasks;
    test_engine_create(&self.te, &options);
    cr_assert_eq(sem_init(&self.called, 0, 0), 0);
    for (int i = 0; i < WAITERS; i++)
        counted_waiter_init(&self.waiters[i], &executor.executor);
    ferry_future *done = ferry_nop(self.te.engine, NULL);
    register_all(&self, done);
    settle(&self.te);
    size_t posted = manual_waiting(&executor);
    cr_assert_eq(posted, max_tasks < WAITERS ? max_tasks : WAITERS);
    manual_run_one(&executor); /* this one has begun */
    int lines = self.te.log_lines;
    ferry_future *call =
        ferry_call(self.te.engine, ferry_executor_loop(), take_all_back_call, &self, NULL);
    run_until_called(&self);
    cr_assert_eq(self.taken_back, WAITERS - 1);
    cr_assert_eq(self.refused, 1);
    while (manual_waiting(&executor) != 0) {
        manual_run_one(&executor); /* they must be run all the same, and do nothing */
        settle(&self.te);
    }
    cr_assert_eq(calls_of_all(&self), 1);
    cr_assert_eq(self.te.log_lines, lines, "that was no misrun");

    /* And the tasks are there for others. */
    register_all(&self, done);
    settle(&self.te);
    while (manual_waiting(&executor) != 0) {
        manual_run_one(&executor);
        settle(&self.te);
    }
    cr_assert_eq(calls_of_all(&self), WAITERS + 1);
    ferry_future_release(call);
    ferry_future_release(done);
    test_engine_close(&self.te);
}

Test(take_back, of_an_executor_as_long_as_its_task_has_not_begun)
{
    of_an_executor(100);
}

Test(take_back, of_an_executor_that_wait_for_a_task)
{
    of_an_executor(2);
}

/* Nothing but the task keeps the engine's memory then. */
Test(take_back, a_task_that_is_run_after_all_is_released)
{
    together self;
    open_in(&self, FERRY_LOOP_EMBEDDED);
    manual_executor executor;
    manual_executor_init(&executor);
    counted_waiter_init(&self.waiters[0], &executor.executor);
    ferry_future *done = ferry_nop(self.te.engine, NULL);
    ASSERT_STATUS(ferry_future_on_ready(done, &self.waiters[0].waiter), FERRY_OK);
    settle(&self.te);
    cr_assert_eq(manual_waiting(&executor), 1);
    cr_assert(ferry_waiter_remove(&self.waiters[0].waiter));
    ferry_future_release(done);
    ASSERT_STATUS(ferry_engine_shutdown(self.te.engine, -1), FERRY_OK);
    ferry_engine_release(self.te.engine);
    cr_assert_gt(failing_allocator_live_bytes(&self.te.memory), 0);
    manual_run_one(&executor);
    cr_assert_eq(failing_allocator_live_bytes(&self.te.memory), 0);
    cr_assert_eq(calls_of_all(&self), 0);
}

/* After the shutdown there is no loop: whoever is quick enough. */
Test(take_back, after_the_shutdown)
{
    together self;
    memset(&self, 0, sizeof self);
    manual_executor executor;
    manual_executor_init(&executor);
    ferry_engine_options options = test_engine_options(&self.te, FERRY_LOOP_THREAD);
    options.max_tasks = 1;
    test_engine_create(&self.te, &options);
    for (int i = 0; i < 3; i++)
        counted_waiter_init(&self.waiters[i], &executor.executor);
    ferry_future *done = ferry_nop(self.te.engine, NULL);
    for (int i = 0; i < 3; i++)
        ASSERT_STATUS(ferry_future_on_ready(done, &self.waiters[i].waiter), FERRY_OK);
    ASSERT_STATUS(ferry_engine_shutdown(self.te.engine, -1), FERRY_OK);
    cr_assert_eq(manual_waiting(&executor), 1);
    cr_assert(ferry_waiter_remove(&self.waiters[0].waiter), "posted");
    cr_assert(ferry_waiter_remove(&self.waiters[2].waiter), "waits for a task");
    manual_run_one(&executor);
    cr_assert_eq(manual_waiting(&executor), 1, "the one that is left");
    manual_run_one(&executor);
    cr_assert_eq(calls_of_all(&self), 1);
    cr_assert_eq(self.waiters[1].calls, 1);
    ferry_future_release(done);
    ferry_engine_release(self.te.engine);
    cr_assert_eq(failing_allocator_live_bytes(&self.te.memory), 0);
}
