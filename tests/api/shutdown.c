/* SPDX-License-Identifier: Apache-2.0 */
/* Drain, shutdown, release, and what stays usable after them. */
#include "tests/support/play.h"

#include <stdlib.h>

SCENE_SUITE(shutdown);

/* ---- drain ---- */

Test(shutdown, a_drain_waits_for_all_before_it_and_nothing_after)
{
    play("promise before; promise after");
    for (int i = 0; i < 10; i++)
        play("nop after before");
    play("first = drain");
    for (int i = 0; i < 10; i++)
        play("nop after after");
    play("second = drain; expect first PENDING; keep before; expect first OK;"
         "expect second PENDING; keep after; expect second OK");
}

Test(shutdown, a_drain_of_nothing_or_of_failures_is_ok)
{
    play("drain; now it OK; promise p; n = nop after p; d = drain; cancel n; expect d OK");
}

Test(shutdown, a_drain_waits_for_quiet_not_for_resolved)
{
    play(
        "buffer b 10; first = call by hand writes b; second = call by hand writes b; d = drain;"
        "settle; cancel second; expect second CANCELLED; expect d PENDING; run; expect first d OK");
}

Test(shutdown, a_cancelled_drain_lets_later_ones_go_on)
{
    play("promise p; nop after p; first = drain; second = drain; cancel first;"
         "expect first CANCELLED; expect second PENDING; keep p; expect second OK");
}

/* ---- shutdown ---- */

enum { IN_FLIGHT = 100000 };
static ferry_future *in_flight[IN_FLIGHT];

static void held_by_a_promise(ferry_loop_mode loop)
{
    scene_begin(loop);
    ferry_promise *promise = own(test_promise(scene()));
    for (int i = 0; i < IN_FLIGHT; i++)
        in_flight[i] =
            i % 2 == 0 ? nop_after_promise(scene(), promise) : nop_after(scene(), in_flight[i - 1]);
    ASSERT_STATUS(ferry_engine_shutdown(engine(), -1), FERRY_OK);
    for (int i = 0; i < IN_FLIGHT; i++) {
        ferry_status status = status_of(in_flight[i]);
        cr_assert(status == FERRY_E_SHUTDOWN || (i % 2 == 1 && status == FERRY_E_DEPENDENCY), "%s",
                  ferry_status_name(status));
    }
    ASSERT_STATUS(ferry_promise_resolve(promise, FERRY_OK, NULL), FERRY_E_SHUTDOWN);
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
    scene_begin(loop);
    enum { SIZE = 8192 }; /* above the inline limit */
    ferry_buffer *buffers[5];
    for (size_t i = 0; i < 5; i++)
        buffers[i] = test_buffer(scene(), i % 4, SIZE, (int)i);
    for (int i = 0; i < IN_FLIGHT; i++)
        in_flight[i] = ferry_copy(engine(), ferry_buffer_span(buffers[(i + 1) % 5]),
                                  ferry_buffer_span(buffers[i % 5]), NULL);
    for (size_t i = 0; i < 5; i++)
        ferry_buffer_release(buffers[i]);
    ASSERT_STATUS(ferry_engine_shutdown(engine(), -1), FERRY_OK);
    bool failed = false;
    for (int i = 0; i < IN_FLIGHT; i++) {
        ferry_status status = status_of(in_flight[i]);
        cr_assert(status == FERRY_OK || status == FERRY_E_SHUTDOWN || status == FERRY_E_DEPENDENCY,
                  "%s", ferry_status_name(status));
        cr_assert(status != FERRY_OK || !failed, "they stand in one chain");
        failed |= status != FERRY_OK;
    }
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
    play("promise p");
    for (int i = 0; i < 1000; i++)
        play("nop after p; waiter w%d on it; release it", i);
    ASSERT_STATUS(ferry_engine_shutdown(engine(), -1), FERRY_OK);
    for (int i = 0; i < 1000; i++) {
        play("called w%d 1", i);
        ASSERT_STATUS(the_waiter("w%d", i)->status, FERRY_E_SHUTDOWN);
    }
}

Test(shutdown, waits_for_a_function_that_runs)
{
    play("c = call by hand; settle");
    /* Posted and not begun: it never will be, so nothing is waited for. */
    ASSERT_STATUS(ferry_engine_shutdown(engine(), 0), FERRY_OK);
    play("now c SHUTDOWN");
    manual_run_one(by_hand());
    cr_assert_eq(*scene_calls(), 0);
}

typedef struct ending {
    ferry_future *call;
    ferry_status within, again;
} ending;

static ferry_status end_within(void *arg)
{
    ending *self = arg;
    do /* until the loop's thread has come to hear of it */
        self->within = ferry_engine_shutdown(engine(), 2000000);
    while (ferry_future_poll(self->call) == FERRY_PENDING);
    self->again = ferry_engine_shutdown(engine(), 0);
    return FERRY_OK;
}

Test(shutdown, gives_up_after_its_timeout_and_may_be_called_again)
{
    scene_begin(FERRY_LOOP_THREAD);
    ending self = {0};
    self.call = own(ferry_call(engine(), &by_hand()->executor, end_within, &self, NULL));
    while (manual_waiting(by_hand()) == 0)
        sched_yield();
    manual_run_one(by_hand()); /* from within the function it can't become quiet */
    ASSERT_STATUS(self.within, FERRY_E_DEADLINE);
    ASSERT_STATUS(self.again, FERRY_E_DEADLINE);
    cr_assert_gt(scene()->log_lines, 0, "it says what is left");
    ASSERT_STATUS(ferry_engine_shutdown(engine(), -1), FERRY_OK);
    ASSERT_STATUS(ferry_engine_shutdown(engine(), -1), FERRY_OK);
    EXPECT_NOW(self.call, E_SHUTDOWN);
}

/* ---- afterwards ---- */

static void refuses_everything(ferry_loop_mode loop)
{
    scene_begin(loop);
    play("buffer b 100 of 1; n = nop; wait n OK"); /* else the shutdown could come first */
    ferry_buffer *none = NULL;
    ASSERT_STATUS(ferry_engine_shutdown(engine(), -1), FERRY_OK);
    play("copy b[0:10] <- b[50:60]; now it SHUTDOWN; call failing; now it SHUTDOWN;"
         "rows 1 b[0:10] pitch 0 <- b[50:60] pitch 0; now it SHUTDOWN;"
         "nop; now it SHUTDOWN; drain; now it SHUTDOWN; all n; now it SHUTDOWN;"
         "any n; now it SHUTDOWN; issued n; now it SHUTDOWN;"
         "define b[0:10] gives SHUTDOWN; promise p gives SHUTDOWN; now n OK; bytes b 1");
    ASSERT_STATUS(ferry_buffer_alloc(test_device(engine(), 0), 1, &none), FERRY_E_SHUTDOWN);
    cr_assert_null(none);
    ferry_trace_hooks hooks = {0};
    ASSERT_STATUS(ferry_engine_trace(engine(), &hooks), FERRY_E_SHUTDOWN);
    cr_assert_leq(ferry_engine_progress(engine(), 0), 0);
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
    scene_begin(loop);
    play("promise p; done = nop; failed = nop after p; later = nop after failed; refused = any;"
         "buffer b 100 of 1; wait done OK");
    scene_leave();
    play("now done OK; wait done OK; wait failed SHUTDOWN");
    ASSERT_STATUS(ferry_future_error(the_future("failed"))->status, FERRY_E_SHUTDOWN);
    cr_assert_lt(ferry_future_poll(the_future("later")), 0);
    cr_assert_not_null(ferry_future_error(the_future("later")));
    play("cancel later; resolve p OK gives SHUTDOWN; bytes b 1");
    ASSERT_STATUS(ferry_future_error(the_future("refused"))->status, FERRY_E_INVALID);
    char name[TEST_DEVICE_NAME_BYTES];
    test_device_name(0, name);
    cr_assert_str_eq(ferry_device_name(ferry_buffer_device(the_buffer("b"))), name);
    /* No loop is left: who registers calls it. */
    play("waiter w on done; called w 1; waiter v on refused; called v 1;"
         "release done failed p later b");
    cr_assert_neq(failing_allocator_live_bytes(&scene()->memory), 0);
    play("release refused");
    cr_assert_eq(failing_allocator_live_bytes(&scene()->memory), 0);
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
    scene_begin(FERRY_LOOP_THREAD);
    ferry_future *done = ferry_nop(engine(), NULL);
    scene_leave();
    (void)in_thread(release_future, done);
}

Test(shutdown, release_without_shutdown_shuts_down)
{
    for (int loop = 0; loop < 2; loop++) {
        scene_begin(loop == 0 ? FERRY_LOOP_THREAD : FERRY_LOOP_EMBEDDED);
        play("promise p; n = nop after p");
        scene_drop();
        play("now n SHUTDOWN");
        scene_end();
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

/* A buffer "b" of such memory, which tells when it is freed. */
static void wrap(char memory[64], freed *self)
{
    ferry_buffer *buffer = NULL;
    ASSERT_STATUS(ferry_buffer_wrap(ferry_device_at(engine(), 0), memory, 64,
                                    self != NULL ? note_free : NULL, self, &buffer),
                  FERRY_OK);
    cr_assert(scene_own_as(SCENE_BUFFER, buffer, "b"));
}

Test(shutdown, a_buffer_released_early_is_freed_once_when_it_is_quiet)
{
    char memory[64] = {0};
    freed self = {0};
    wrap(memory, &self);
    play("c = call by hand writes b; release b; settle");
    cr_assert_eq(self.times, 0);
    manual_run_one(by_hand());
    cr_assert_eq(self.times, 0, "on the loop only");
    scene_settle();
    cr_assert_eq(self.times, 1);
    cr_assert_eq(self.memory, memory);
    cr_assert_eq(self.size_bytes, sizeof memory);
    play("expect c OK");
    scene_end();
    cr_assert_eq(self.times, 1);
}

Test(shutdown, the_loops_thread_frees_buffers)
{
    char memory[64] = {0};
    freed self = {0};
    scene_begin(FERRY_LOOP_THREAD);
    wrap(memory, &self);
    play("release b");
    while (atomic_load(&self.times) == 0)
        sched_yield();
    cr_assert_not(pthread_equal(self.thread, pthread_self()));
    scene_end();
    cr_assert_eq(self.times, 1);
}

/* What a user's own loop may do to an engine that has ended keeps nothing from being freed. */
Test(shutdown, progress_afterwards_does_not_keep_buffers_from_being_freed)
{
    char memory[64] = {0};
    freed self = {0};
    wrap(memory, &self);
    play("done = nop");
    ASSERT_STATUS(ferry_engine_shutdown(engine(), -1), FERRY_OK);
    cr_assert_eq(ferry_engine_progress(engine(), 0), 0);
    (void)ferry_engine_arm(engine());
    play("timer -1; release b");
    cr_assert_eq(self.times, 1);
    play("waiter w on done; called w 1");
}

Test(shutdown, a_wrapped_buffer_without_free_function_leaves_the_memory)
{
    char memory[64];
    memset(memory, 5, sizeof memory);
    wrap(memory, NULL);
    cr_assert_eq(ferry_buffer_data(the_buffer("b")), memory);
    cr_assert_eq(ferry_buffer_size_bytes(the_buffer("b")), sizeof memory);
    scene_end();
    cr_assert_eq(memory[63], 5);
}
