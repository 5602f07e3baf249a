/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ferry_waiter_remove on the loop: whatever has not begun is taken back, so that what a callback
 * would have gone on with (a coroutine, say) can be destroyed there.
 */
#include "tests/support/attached_test.h"

#include <poll.h>
#include <semaphore.h>

ATTACHED_SUITE(take_back);

#define WAITERS 6

/* Waiters that all take the others back, the one that is called first. */
static struct {
    counted_waiter waiters[WAITERS];
    ferry_waiter remover;
    sem_t called;
    int taken_back, refused;
} self;

/* The waiters' executor is the engine's unless the case says another. */
static void begin(ferry_loop_mode loop, ferry_executor *executor, uint32_t max_tasks)
{
    begin_in(loop)->max_tasks = max_tasks;
    (void)engine();
    cr_assert_eq(sem_init(&self.called, 0, 0), 0);
    for (int i = 0; i < WAITERS; i++)
        counted_waiter_init(&self.waiters[i], executor);
}

/* Runs the loop, whosever it is, until a callback has said that it was called. */
static void run_until_called(void)
{
    while (sem_trywait(&self.called) != 0) {
        if (user_loop != NULL)
            (void)ev_run(user_loop, EVRUN_NOWAIT);
        else if (ferry_engine_progress(engine(), 0) < 0)
            (void)sched_yield();
    }
}

static void take_all_back(void)
{
    for (int i = 0; i < WAITERS; i++) {
        if (ferry_waiter_remove(&self.waiters[i].waiter))
            self.taken_back++;
        else
            self.refused++;
    }
    cr_assert_eq(sem_post(&self.called), 0);
}

static void take_all_back_ready(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)waiter, (void)future, (void)status;
    take_all_back();
}

/* Once all callbacks that are due have been called. */
static void let_callbacks_pass(void)
{
    ferry_waiter last = FERRY_WAITER_INIT(take_all_back_ready, NULL);
    ferry_future *nop = own(ferry_nop(engine(), NULL));
    ASSERT_STATUS(ferry_future_on_ready(nop, &last), FERRY_OK);
    run_until_called();
}

static void register_all(ferry_future *future)
{
    for (int i = 0; i < WAITERS; i++)
        ASSERT_STATUS(ferry_future_on_ready(future, &self.waiters[i].waiter), FERRY_OK);
}

static int calls_of_all(void)
{
    int calls = 0;
    for (int i = 0; i < WAITERS; i++)
        calls += self.waiters[i].calls;
    return calls;
}

/* `remover_is_inline`: ahead of the others, though it was registered last. */
static void one_takes_back_the_others(ferry_loop_mode loop, bool remover_is_inline)
{
    begin(loop, NULL, 0);
    play("promise p");
    ferry_future *future = own(ferry_promise_future(the_promise("p")));
    self.remover = (ferry_waiter)FERRY_WAITER_INIT(take_all_back_ready, NULL);
    self.remover.executor = remover_is_inline ? ferry_executor_inline() : NULL;
    if (!remover_is_inline)
        ASSERT_STATUS(ferry_future_on_ready(future, &self.remover), FERRY_OK);
    register_all(future);
    if (remover_is_inline)
        ASSERT_STATUS(ferry_future_on_ready(future, &self.remover), FERRY_OK);
    play("keep p");
    run_until_called();
    cr_assert_eq(self.taken_back, WAITERS);
    let_callbacks_pass();
    cr_assert_eq(calls_of_all(), 0);
    cr_assert_eq(self.taken_back, WAITERS, "a second time");
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
    (void)arg;
    take_all_back();
    return FERRY_OK;
}

Test(take_back, a_function_of_the_loop_takes_them_back)
{
    begin(FERRY_LOOP_EMBEDDED, NULL, 0);
    ferry_future *done = own(ferry_nop(engine(), NULL));
    register_all(done);
    /* Functions come before callbacks in a round. */
    ferry_future_release(ferry_call(engine(), NULL, take_all_back_call, NULL, NULL));
    run_until_called();
    cr_assert_eq(self.taken_back, WAITERS);
    let_callbacks_pass();
    cr_assert_eq(calls_of_all(), 0);
}

static void take_all_back_free(void *arg, void *memory, size_t size_bytes)
{
    (void)arg, (void)memory, (void)size_bytes;
    take_all_back();
}

Test(take_back, a_free_fn_takes_them_back)
{
    begin(FERRY_LOOP_EMBEDDED, NULL, 0);
    device_memory memory = alloc_device_memory(test_device(engine(), 0), 64);
    ferry_buffer *wrapped = NULL;
    ASSERT_STATUS(ferry_buffer_wrap(test_device(engine(), 0), memory.bytes, 64, take_all_back_free,
                                    NULL, &wrapped),
                  FERRY_OK);
    ferry_future *done = own(ferry_nop(engine(), NULL));
    register_all(done);
    ferry_buffer_release(wrapped);
    run_until_called();
    cr_assert_eq(self.taken_back, WAITERS);
    let_callbacks_pass();
    cr_assert_eq(calls_of_all(), 0);
    free_device_memory(&memory);
}

/* In a callback of another engine's, which this one's runs: the thread is the loop of both. */
typedef struct nested {
    test_engine inner;
    ferry_waiter waiter;
    ferry_status shutdown, wait;
    ferry_future *pending;
} nested;

static void in_inner(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)future, (void)status;
    nested *nest = waiter->arg;
    take_all_back();
    nest->wait = ferry_future_wait(nest->pending, 1000000);
    nest->shutdown = ferry_engine_shutdown(engine(), 100000000);
}

static void in_outer(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)future, (void)status;
    const nested *nest = waiter->arg;
    while (ferry_engine_progress(nest->inner.engine, 0) > 0)
        continue;
}

static void nest(ferry_loop_mode outer_loop)
{
    nested nest;
    begin(outer_loop, NULL, 0);
    test_engine_open(&nest.inner, FERRY_LOOP_EMBEDDED);
    play("promise p; promise never");
    ferry_future *future = own(ferry_promise_future(the_promise("p")));
    nest.pending = own(ferry_promise_future(the_promise("never")));
    ferry_future *inner_nop = ferry_nop(nest.inner.engine, NULL);
    nest.waiter = (ferry_waiter)FERRY_WAITER_INIT(in_inner, &nest);
    ASSERT_STATUS(ferry_future_on_ready(inner_nop, &nest.waiter), FERRY_OK);
    self.remover = (ferry_waiter)FERRY_WAITER_INIT(in_outer, &nest);
    ASSERT_STATUS(ferry_future_on_ready(future, &self.remover), FERRY_OK);
    register_all(future);
    play("keep p");
    run_until_called();
    let_callbacks_pass();
    cr_assert_eq(self.taken_back, WAITERS);
    cr_assert_eq(calls_of_all(), 0);
    ASSERT_STATUS(nest.wait, FERRY_E_DEADLOCK);
    ASSERT_STATUS(nest.shutdown, FERRY_E_DEADLOCK);
    ferry_future_release(inner_nop);
    test_engine_close(&nest.inner);
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
    (void)waiter, (void)status;
    take_all_back();
    register_all(future);
}

Test(take_back, what_was_taken_back_can_be_registered_anew)
{
    begin(FERRY_LOOP_EMBEDDED, NULL, 0);
    ferry_future *done = own(ferry_nop(engine(), NULL));
    self.remover = (ferry_waiter)FERRY_WAITER_INIT(take_back_and_register, NULL);
    ASSERT_STATUS(ferry_future_on_ready(done, &self.remover), FERRY_OK);
    register_all(done);
    scene_settle();
    cr_assert_eq(self.taken_back, WAITERS);
    cr_assert_eq(calls_of_all(), WAITERS);
}

/* ---- between rounds ---- */

/* Who could make progress now is as good as the loop. */
Test(take_back, between_rounds_of_an_embedded_loop)
{
    begin(FERRY_LOOP_EMBEDDED, NULL, 0);
    ferry_future *done = own(ferry_nop(engine(), NULL));
    register_all(done);
    take_all_back();
    cr_assert_eq(self.taken_back, WAITERS);
    scene_settle();
    cr_assert_eq(calls_of_all(), 0);
}

/* What it finds due on the way is not forgotten, and the sleeping loop hears of it. */
Test(take_back, others_that_are_due_wake_the_loop)
{
    begin(FERRY_LOOP_EMBEDDED, NULL, 0);
    ferry_future *done = own(ferry_nop(engine(), NULL));
    scene_settle();
    ASSERT_STATUS(ferry_engine_arm(engine()), FERRY_OK);
    register_all(done);
    cr_assert(ferry_waiter_remove(&self.waiters[WAITERS - 1].waiter));
    struct pollfd fd = {.fd = ferry_engine_fd(engine()), .events = POLLIN};
    cr_assert_eq(poll(&fd, 1, 0), 1);
    scene_settle();
    cr_assert_eq(calls_of_all(), WAITERS - 1);
}

/* ---- executors ---- */

static void run_all(void)
{
    while (manual_waiting(by_hand()) != 0)
        play("run");
}

/* Tasks for as many as that; the other waiters wait for one. */
static void of_an_executor(uint32_t max_tasks)
{
    begin(FERRY_LOOP_EMBEDDED, &by_hand()->executor, max_tasks);
    ferry_future *done = own(ferry_nop(engine(), NULL));
    register_all(done);
    play("posted %u", max_tasks < WAITERS ? max_tasks : WAITERS);
    manual_run_one(by_hand()); /* this one has begun */
    int lines = scene()->log_lines;
    (void)own(ferry_call(engine(), ferry_executor_loop(), take_all_back_call, NULL, NULL));
    run_until_called();
    cr_assert_eq(self.taken_back, WAITERS - 1);
    cr_assert_eq(self.refused, 1);
    run_all(); /* they must be run all the same, and do nothing */
    cr_assert_eq(calls_of_all(), 1);
    cr_assert_eq(scene()->log_lines, lines, "that was no misrun");

    /* And the tasks are there for others. */
    register_all(done);
    scene_settle();
    run_all();
    cr_assert_eq(calls_of_all(), WAITERS + 1);
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
    play("done = nop; waiter w on done by hand; posted 1");
    cr_assert(ferry_waiter_remove(&the_waiter("w")->waiter));
    play("release done");
    scene_leave();
    cr_assert_gt(failing_allocator_live_bytes(&scene()->memory), 0);
    manual_run_one(by_hand());
    cr_assert_eq(failing_allocator_live_bytes(&scene()->memory), 0);
    play("called w 0");
}

/* After the shutdown there is no loop: whoever is quick enough. */
Test(take_back, after_the_shutdown)
{
    scene_options(FERRY_LOOP_THREAD)->max_tasks = 1;
    play("done = nop; waiter w0 on done by hand; waiter w1 on done by hand;"
         "waiter w2 on done by hand");
    ASSERT_STATUS(ferry_engine_shutdown(engine(), -1), FERRY_OK);
    cr_assert_eq(manual_waiting(by_hand()), 1);
    cr_assert(ferry_waiter_remove(&the_waiter("w0")->waiter), "posted");
    cr_assert(ferry_waiter_remove(&the_waiter("w2")->waiter), "waits for a task");
    manual_run_one(by_hand());
    cr_assert_eq(manual_waiting(by_hand()), 1, "the one that is left");
    manual_run_one(by_hand());
    play("called w0 0; called w1 1; called w2 0");
}
