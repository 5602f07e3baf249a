/* SPDX-License-Identifier: Apache-2.0 */
/* Drain, shutdown, release, and what stays usable after them. */
#include "tests/support/api_test.h"

#include <stdlib.h>

TestSuite(shutdown, .timeout = HANG_S);

/* ---- drain ---- */

Test(shutdown, a_drain_waits_for_all_before_it_and_nothing_after)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_promise *before = test_promise(&te), *after = test_promise(&te);
    ferry_future *earlier[10], *later[10];
    for (int i = 0; i < 10; i++)
        earlier[i] = nop_after_promise(&te, before);
    ferry_future *drain = ferry_engine_drain(te.engine);
    for (int i = 0; i < 10; i++)
        later[i] = nop_after_promise(&te, after);
    ferry_future *second = ferry_engine_drain(te.engine);
    settle(&te);
    ASSERT_STATUS(ferry_future_poll(drain), FERRY_PENDING);
    keep_promise(before, FERRY_OK);
    settle(&te);
    ASSERT_STATUS(status_of(drain), FERRY_OK);
    ASSERT_STATUS(ferry_future_poll(second), FERRY_PENDING);
    keep_promise(after, FERRY_OK);
    settle(&te);
    ASSERT_STATUS(status_of(second), FERRY_OK);
    for (int i = 0; i < 10; i++) {
        ferry_future_release(earlier[i]);
        ferry_future_release(later[i]);
    }
    test_engine_close(&te);
}

Test(shutdown, a_drain_of_nothing_or_of_failures_is_ok)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ASSERT_STATUS(status_of(ferry_engine_drain(te.engine)), FERRY_OK);
    ferry_promise *promise = test_promise(&te);
    ferry_future *nop = nop_after_promise(&te, promise);
    ferry_future *drain = ferry_engine_drain(te.engine);
    ASSERT_STATUS(ferry_future_cancel(nop), FERRY_OK);
    settle(&te);
    ASSERT_STATUS(status_of(drain), FERRY_OK);
    ferry_promise_release(promise);
    ferry_future_release(nop);
    settle(&te);
    test_engine_close(&te);
}

Test(shutdown, a_drain_waits_for_quiet_not_for_resolved)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    manual_executor executor;
    manual_executor_init(&executor);
    _Atomic int calls = 0;
    ferry_buffer *buffer = test_buffer(&te, 0, 10, 0);
    ferry_future *first = call_on(&te, &executor.executor, count_call, &calls,
                                  ferry_buffer_span(buffer), FERRY_WRITE);
    ferry_future *second = call_on(&te, &executor.executor, count_call, &calls,
                                   ferry_buffer_span(buffer), FERRY_WRITE);
    ferry_future *drain = ferry_engine_drain(te.engine);
    settle(&te);
    ASSERT_STATUS(ferry_future_cancel(second), FERRY_OK);
    settle(&te);
    ASSERT_STATUS(status_of(second), FERRY_E_CANCELLED);
    ASSERT_STATUS(ferry_future_poll(drain), FERRY_PENDING);
    manual_run_one(&executor);
    settle(&te);
    ASSERT_STATUS(status_of(first), FERRY_OK);
    ASSERT_STATUS(status_of(drain), FERRY_OK);
    ferry_buffer_release(buffer);
    test_engine_close(&te);
}

Test(shutdown, a_cancelled_drain_lets_later_ones_go_on)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_promise *promise = test_promise(&te);
    ferry_future *nop = nop_after_promise(&te, promise);
    ferry_future *first = ferry_engine_drain(te.engine), *second = ferry_engine_drain(te.engine);
    ASSERT_STATUS(ferry_future_cancel(first), FERRY_OK);
    settle(&te);
    ASSERT_STATUS(status_of(first), FERRY_E_CANCELLED);
    ASSERT_STATUS(ferry_future_poll(second), FERRY_PENDING);
    keep_promise(promise, FERRY_OK);
    settle(&te);
    ASSERT_STATUS(status_of(second), FERRY_OK);
    ferry_future_release(nop);
    test_engine_close(&te);
}

/* ---- shutdown ---- */

enum { IN_FLIGHT = 100000 };
static ferry_future *in_flight[IN_FLIGHT];

static void held_by_a_promise(ferry_loop_mode loop)
{
    test_engine te;
    test_engine_open(&te, loop);
    ferry_promise *promise = test_promise(&te);
    for (int i = 0; i < IN_FLIGHT; i++)
        in_flight[i] =
            i % 2 == 0 ? nop_after_promise(&te, promise) : nop_after(&te, in_flight[i - 1]);
    ASSERT_STATUS(ferry_engine_shutdown(te.engine, -1), FERRY_OK);
    for (int i = 0; i < IN_FLIGHT; i++) {
        ferry_status status = status_of(in_flight[i]);
        cr_assert(status == FERRY_E_SHUTDOWN || (i % 2 == 1 && status == FERRY_E_DEPENDENCY), "%s",
                  ferry_status_name(status));
    }
    ASSERT_STATUS(ferry_promise_resolve(promise, FERRY_OK, NULL), FERRY_E_SHUTDOWN);
    ferry_promise_release(promise);
    test_engine_close(&te);
}

Test(shutdown, with_a_hundred_thousand_held_by_a_promise)
{
    held_by_a_promise(FERRY_LOOP_THREAD);
}

Test(shutdown, with_a_hundred_thousand_held_by_a_promise_embedded)
{
    held_by_a_promise(FERRY_LOOP_EMBEDDED);
}

static void running_copies(ferry_loop_mode loop)
{
    test_engine te;
    test_engine_open(&te, loop);
    enum { SIZE = 8192 }; /* above the inline limit */
    ferry_buffer *buffers[5];
    for (size_t i = 0; i < 5; i++)
        buffers[i] = test_buffer(&te, i % 4, SIZE, (int)i);
    for (int i = 0; i < IN_FLIGHT; i++)
        in_flight[i] = ferry_copy(te.engine, ferry_buffer_span(buffers[(i + 1) % 5]),
                                  ferry_buffer_span(buffers[i % 5]), NULL);
    for (size_t i = 0; i < 5; i++)
        ferry_buffer_release(buffers[i]);
    ASSERT_STATUS(ferry_engine_shutdown(te.engine, -1), FERRY_OK);
    bool failed = false;
    for (int i = 0; i < IN_FLIGHT; i++) {
        ferry_status status = status_of(in_flight[i]);
        cr_assert(status == FERRY_OK || status == FERRY_E_SHUTDOWN || status == FERRY_E_DEPENDENCY,
                  "%s", ferry_status_name(status));
        cr_assert(status != FERRY_OK || !failed, "they stand in one chain");
        failed |= status != FERRY_OK;
    }
    test_engine_close(&te);
}

Test(shutdown, with_a_hundred_thousand_copies_under_way)
{
    running_copies(FERRY_LOOP_THREAD);
}

Test(shutdown, with_a_hundred_thousand_copies_under_way_embedded)
{
    running_copies(FERRY_LOOP_EMBEDDED);
}

Test(shutdown, runs_the_callbacks_that_are_due)
{
    static counted_waiter waiters[1000];
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_promise *promise = test_promise(&te);
    for (int i = 0; i < 1000; i++) {
        ferry_future *nop = nop_after_promise(&te, promise);
        counted_waiter_init(&waiters[i], NULL);
        ASSERT_STATUS(ferry_future_on_ready(nop, &waiters[i].waiter), FERRY_OK);
        ferry_future_release(nop);
    }
    ASSERT_STATUS(ferry_engine_shutdown(te.engine, -1), FERRY_OK);
    for (int i = 0; i < 1000; i++) {
        cr_assert_eq(waiters[i].calls, 1);
        ASSERT_STATUS(waiters[i].status, FERRY_E_SHUTDOWN);
    }
    ferry_promise_release(promise);
    test_engine_close(&te);
}

Test(shutdown, waits_for_a_function_that_runs)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    manual_executor executor;
    manual_executor_init(&executor);
    _Atomic int calls = 0;
    ferry_future *call = ferry_call(te.engine, &executor.executor, count_call, &calls, NULL);
    settle(&te);
    /* Posted and not begun: it never will be, so nothing is waited for. */
    ASSERT_STATUS(ferry_engine_shutdown(te.engine, 0), FERRY_OK);
    ASSERT_STATUS(status_of(call), FERRY_E_SHUTDOWN);
    manual_run_one(&executor);
    cr_assert_eq(calls, 0);
    test_engine_close(&te);
}

typedef struct ending {
    test_engine *te;
    ferry_future *call;
    ferry_status within, again;
} ending;

static ferry_status end_within(void *arg)
{
    ending *self = arg;
    do /* until the loop's thread has come to hear of it */
        self->within = ferry_engine_shutdown(self->te->engine, 2000000);
    while (ferry_future_poll(self->call) == FERRY_PENDING);
    self->again = ferry_engine_shutdown(self->te->engine, 0);
    return FERRY_OK;
}

Test(shutdown, gives_up_after_its_timeout_and_may_be_called_again)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_THREAD);
    manual_executor executor;
    manual_executor_init(&executor);
    ending self = {.te = &te};
    ferry_future *call = ferry_call(te.engine, &executor.executor, end_within, &self, NULL);
    self.call = call;
    while (manual_waiting(&executor) == 0)
        sched_yield();
    manual_run_one(&executor); /* from within the function it can't become quiet */
    ASSERT_STATUS(self.within, FERRY_E_DEADLINE);
    ASSERT_STATUS(self.again, FERRY_E_DEADLINE);
    cr_assert_gt(te.log_lines, 0, "it says what is left");
    ASSERT_STATUS(ferry_engine_shutdown(te.engine, -1), FERRY_OK);
    ASSERT_STATUS(ferry_engine_shutdown(te.engine, -1), FERRY_OK);
    ASSERT_STATUS(status_of(call), FERRY_E_SHUTDOWN);
    test_engine_close(&te);
}

/* ---- afterwards ---- */

static void refuses_everything(ferry_loop_mode loop)
{
    test_engine te;
    test_engine_open(&te, loop);
    ferry_buffer *buffer = test_buffer(&te, 0, 100, 1), *none = NULL;
    ferry_promise *promise = NULL;
    ferry_future *nop = ferry_nop(te.engine, NULL);
    ferry_span left = span_of(buffer, 0, 10), right = span_of(buffer, 50, 10);
    ASSERT_STATUS(ferry_engine_shutdown(te.engine, -1), FERRY_OK);
    ASSERT_STATUS(status_of(ferry_copy(te.engine, left, right, NULL)), FERRY_E_SHUTDOWN);
    ASSERT_STATUS(status_of(ferry_copy_rows(te.engine, left, 0, right, 0, 1, NULL)),
                  FERRY_E_SHUTDOWN);
    ASSERT_STATUS(status_of(ferry_call(te.engine, NULL, fail_call, NULL, NULL)), FERRY_E_SHUTDOWN);
    ASSERT_STATUS(status_of(ferry_nop(te.engine, NULL)), FERRY_E_SHUTDOWN);
    ASSERT_STATUS(status_of(ferry_engine_drain(te.engine)), FERRY_E_SHUTDOWN);
    ASSERT_STATUS(status_of(ferry_future_all(te.engine, &nop, 1)), FERRY_E_SHUTDOWN);
    ASSERT_STATUS(status_of(ferry_future_any(te.engine, &nop, 1)), FERRY_E_SHUTDOWN);
    ASSERT_STATUS(status_of(ferry_future_issued(nop)), FERRY_E_SHUTDOWN);
    ASSERT_STATUS(ferry_buffer_alloc(test_device(te.engine, 0), 1, &none), FERRY_E_SHUTDOWN);
    ASSERT_STATUS(ferry_buffer_define(left, NULL), FERRY_E_SHUTDOWN);
    ASSERT_STATUS(ferry_promise_create(te.engine, &promise), FERRY_E_SHUTDOWN);
    ferry_trace_hooks hooks = {0};
    ASSERT_STATUS(ferry_engine_trace(te.engine, &hooks), FERRY_E_SHUTDOWN);
    cr_assert_leq(ferry_engine_progress(te.engine, 0), 0);
    ASSERT_STATUS(status_of(nop), FERRY_OK);
    cr_assert_null(none);
    cr_assert(is_filled(buffer, 0, 100, 1));
    ferry_buffer_release(buffer);
    test_engine_close(&te);
}

Test(shutdown, refuses_everything_afterwards)
{
    refuses_everything(FERRY_LOOP_THREAD);
}

Test(shutdown, refuses_everything_afterwards_embedded)
{
    refuses_everything(FERRY_LOOP_EMBEDDED);
}

static void handles_outlive(ferry_loop_mode loop)
{
    test_engine te;
    test_engine_open(&te, loop);
    ferry_promise *promise = test_promise(&te);
    ferry_future *done = ferry_nop(te.engine, NULL);
    ferry_future *failed = nop_after_promise(&te, promise), *later = nop_after(&te, failed);
    ferry_future *refused = ferry_future_any(te.engine, NULL, 0);
    ferry_buffer *buffer = test_buffer(&te, 0, 100, 1);
    ASSERT_STATUS(ferry_future_wait(done, -1), FERRY_OK);
    ASSERT_STATUS(ferry_engine_shutdown(te.engine, -1), FERRY_OK);
    ferry_engine_release(te.engine);

    ASSERT_STATUS(ferry_future_poll(done), FERRY_OK);
    ASSERT_STATUS(ferry_future_wait(done, -1), FERRY_OK);
    ASSERT_STATUS(ferry_future_wait(failed, -1), FERRY_E_SHUTDOWN);
    ASSERT_STATUS(ferry_future_error(failed)->status, FERRY_E_SHUTDOWN);
    cr_assert_lt(ferry_future_poll(later), 0);
    cr_assert_not_null(ferry_future_error(later));
    ASSERT_STATUS(ferry_future_cancel(later), FERRY_OK);
    ASSERT_STATUS(ferry_future_error(refused)->status, FERRY_E_INVALID);
    ASSERT_STATUS(ferry_promise_resolve(promise, FERRY_OK, NULL), FERRY_E_SHUTDOWN);
    cr_assert(is_filled(buffer, 0, 100, 1));
    char name[TEST_DEVICE_NAME_BYTES];
    test_device_name(0, name);
    cr_assert_str_eq(ferry_device_name(ferry_buffer_device(buffer)), name);
    counted_waiter waiters[2];
    for (int i = 0; i < 2; i++) {
        counted_waiter_init(&waiters[i], NULL);
        ASSERT_STATUS(ferry_future_on_ready(i == 0 ? done : refused, &waiters[i].waiter), FERRY_OK);
        cr_assert_eq(waiters[i].calls, 1, "no loop is left: who registers calls it");
    }
    ferry_future_release(done);
    ferry_future_release(failed);
    ferry_promise_release(promise);
    ferry_future_release(later);
    ferry_buffer_release(buffer);
    cr_assert_neq(failing_allocator_live_bytes(&te.memory), 0);
    ferry_future_release(refused);
    cr_assert_eq(failing_allocator_live_bytes(&te.memory), 0);
}

Test(shutdown, handles_stay_readable_after_the_engine_is_released)
{
    handles_outlive(FERRY_LOOP_THREAD);
}

Test(shutdown, handles_stay_readable_after_the_engine_is_released_embedded)
{
    handles_outlive(FERRY_LOOP_EMBEDDED);
}

static void *release_future(void *future)
{
    ferry_future_release(future);
    return NULL;
}

Test(shutdown, the_last_handle_may_be_released_by_a_new_thread)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_THREAD);
    ferry_future *done = ferry_nop(te.engine, NULL);
    ASSERT_STATUS(ferry_engine_shutdown(te.engine, -1), FERRY_OK);
    ferry_engine_release(te.engine);
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, release_future, done), 0);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    cr_assert_eq(failing_allocator_live_bytes(&te.memory), 0);
}

Test(shutdown, release_without_shutdown_shuts_down)
{
    for (int loop = 0; loop < 2; loop++) {
        test_engine te;
        test_engine_open(&te, loop == 0 ? FERRY_LOOP_THREAD : FERRY_LOOP_EMBEDDED);
        ferry_promise *promise = test_promise(&te);
        ferry_future *nop = nop_after_promise(&te, promise);
        ferry_engine_release(te.engine);
        ASSERT_STATUS(status_of(nop), FERRY_E_SHUTDOWN);
        ferry_promise_release(promise);
        cr_assert_eq(failing_allocator_live_bytes(&te.memory), 0);
    }
}

Test(shutdown, engines_come_and_go)
{
    for (int i = 0; i < 50; i++) {
        test_engine te[3];
        for (int j = 0; j < 3; j++)
            test_engine_open(&te[j], j % 2 == 0 ? FERRY_LOOP_THREAD : FERRY_LOOP_EMBEDDED);
        for (int j = 0; j < 3; j++) {
            ferry_future *nop = ferry_nop(te[j].engine, NULL);
            ASSERT_STATUS(ferry_future_wait(nop, -1), FERRY_OK); /* the loop may be at the graph */
            ferry_future_release(nop);
        }
        for (int j = 0; j < 3; j++)
            test_engine_close(&te[j]);
    }
}

Test(shutdown, a_thread_may_use_more_engines_than_it_remembers)
{
    enum { ENGINES = 12 };
    test_engine te[ENGINES];
    for (int i = 0; i < ENGINES; i++)
        test_engine_open(&te[i], FERRY_LOOP_EMBEDDED);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < ENGINES; i++)
            ASSERT_STATUS(status_of(ferry_nop(te[i].engine, NULL)), FERRY_OK);
    }
    for (int i = 0; i < ENGINES; i++)
        test_engine_close(&te[i]);
}

/* ---- buffers ---- */

typedef struct freed {
    _Atomic int times;
    void *memory;
    size_t size_bytes;
    pthread_t thread;
} freed;

static void note_free(void *arg, void *memory, size_t size_bytes)
{
    freed *self = arg;
    self->memory = memory;
    self->size_bytes = size_bytes;
    self->thread = pthread_self();
    atomic_fetch_add(&self->times, 1);
}

Test(shutdown, a_buffer_released_early_is_freed_once_when_it_is_quiet)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    char memory[64] = {0};
    freed self = {0};
    manual_executor executor;
    manual_executor_init(&executor);
    _Atomic int calls = 0;
    ferry_buffer *buffer = NULL;
    ASSERT_STATUS(ferry_buffer_wrap(ferry_device_at(te.engine, 0), memory, sizeof memory, note_free,
                                    &self, &buffer),
                  FERRY_OK);
    ferry_future *call = call_on(&te, &executor.executor, count_call, &calls,
                                 ferry_buffer_span(buffer), FERRY_WRITE);
    ferry_buffer_release(buffer);
    settle(&te);
    cr_assert_eq(self.times, 0);
    manual_run_one(&executor);
    cr_assert_eq(self.times, 0, "on the loop only");
    settle(&te);
    cr_assert_eq(self.times, 1);
    cr_assert_eq(self.memory, memory);
    cr_assert_eq(self.size_bytes, sizeof memory);
    settle(&te);
    ASSERT_STATUS(status_of(call), FERRY_OK);
    test_engine_close(&te);
    cr_assert_eq(self.times, 1);
}

Test(shutdown, the_loops_thread_frees_buffers)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_THREAD);
    char memory[64] = {0};
    freed self = {0};
    ferry_buffer *buffer = NULL;
    ASSERT_STATUS(ferry_buffer_wrap(ferry_device_at(te.engine, 0), memory, sizeof memory, note_free,
                                    &self, &buffer),
                  FERRY_OK);
    ferry_buffer_release(buffer);
    while (atomic_load(&self.times) == 0)
        sched_yield();
    cr_assert_not(pthread_equal(self.thread, pthread_self()));
    test_engine_close(&te);
    cr_assert_eq(self.times, 1);
}

/* What a user's own loop may do to an engine that has ended keeps nothing from being freed. */
Test(shutdown, progress_afterwards_does_not_keep_buffers_from_being_freed)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    char memory[64] = {0};
    freed self = {0};
    ferry_buffer *buffer = NULL;
    ASSERT_STATUS(ferry_buffer_wrap(ferry_device_at(te.engine, 0), memory, sizeof memory, note_free,
                                    &self, &buffer),
                  FERRY_OK);
    ferry_future *done = ferry_nop(te.engine, NULL);
    ASSERT_STATUS(ferry_engine_shutdown(te.engine, -1), FERRY_OK);
    cr_assert_eq(ferry_engine_progress(te.engine, 0), 0);
    (void)ferry_engine_arm(te.engine);
    cr_assert_eq(ferry_engine_timeout_ns(te.engine), -1);
    ferry_buffer_release(buffer);
    cr_assert_eq(self.times, 1);
    counted_waiter waiter;
    counted_waiter_init(&waiter, NULL);
    ASSERT_STATUS(ferry_future_on_ready(done, &waiter.waiter), FERRY_OK);
    cr_assert_eq(waiter.calls, 1);
    ferry_future_release(done);
    test_engine_close(&te);
}

Test(shutdown, a_wrapped_buffer_without_free_function_leaves_the_memory)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    char memory[64];
    memset(memory, 5, sizeof memory);
    ferry_buffer *buffer = NULL;
    ASSERT_STATUS(ferry_buffer_wrap(ferry_device_at(te.engine, 0), memory, sizeof memory, NULL,
                                    NULL, &buffer),
                  FERRY_OK);
    cr_assert_eq(ferry_buffer_data(buffer), memory);
    cr_assert_eq(ferry_buffer_size_bytes(buffer), sizeof memory);
    ferry_buffer_release(buffer);
    test_engine_close(&te);
    cr_assert_eq(memory[63], 5);
}
