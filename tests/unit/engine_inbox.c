/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is still in the inbox: the test holds the baton as a busy thread would, submits, and gives
 * the baton back. And who takes over when the thread that makes the progress for others leaves.
 */
#include "engine/buffer.h"
#include "engine/engine.h"
#include "tests/support/api_test.h"
#include "tests/support/owned.h"
#include "tests/unit/copy_gate.h"

TestSuite(engine_inbox, .timeout = HANG_S);

typedef struct fixture {
    test_engine te;
    ferry_buffer *src, *dst;
    _Atomic int calls;
    ferry_promise *promise;
    ferry_future *futures[5]; /* copy, function, nop, promise, all */
} fixture;

enum { KINDS = 5 };

static void submit_with_baton_taken(fixture *f, int64_t deadline_ns)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.deadline_ns = deadline_ns;
    test_engine_open(&f->te, FERRY_LOOP_EMBEDDED);
    f->src = test_buffer(&f->te, 0, 64, 1);
    f->dst = test_buffer(&f->te, 1, 64, 0);
    f->calls = 0;
    cr_assert(fry_baton_take(&f->te.engine->baton));
    f->futures[0] =
        ferry_copy(f->te.engine, ferry_buffer_span(f->dst), ferry_buffer_span(f->src), &options);
    f->futures[1] = ferry_call(f->te.engine, NULL, count_call, &f->calls, &options);
    f->futures[2] = ferry_nop(f->te.engine, &options);
    f->promise = test_promise(&f->te);
    f->futures[3] = ferry_promise_future(f->promise);
    f->futures[4] = ferry_future_all(f->te.engine, f->futures, 3);
    for (int i = 0; i < KINDS; i++)
        ASSERT_STATUS(ferry_future_poll(f->futures[i]), FERRY_PENDING);
}

static void close_fixture(fixture *f)
{
    for (int i = 0; i < KINDS; i++)
        ferry_future_release(f->futures[i]);
    ferry_promise_release(f->promise);
    settle(&f->te);
    ferry_buffer_release(f->src);
    ferry_buffer_release(f->dst);
    test_engine_close(&f->te);
}

Test(engine_inbox, what_was_left_there_is_worked_off_by_the_next)
{
    fixture f;
    submit_with_baton_taken(&f, 0);
    ferry_future *before = ferry_future_quiet(f.futures[0]);
    fry_baton_give(&f.te.engine->baton);
    settle(&f.te);
    for (int i = 0; i < KINDS; i++)
        ASSERT_STATUS(ferry_future_poll(f.futures[i]), i == 3 ? FERRY_PENDING : FERRY_OK);
    ASSERT_STATUS(status_of(before), FERRY_OK);
    cr_assert(is_filled(f.dst, 0, 64, 1));
    cr_assert_eq(f.calls, 1);
    close_fixture(&f);
}

Test(engine_inbox, a_cancel_reaches_it_there)
{
    fixture f;
    submit_with_baton_taken(&f, 0);
    for (int i = 0; i < KINDS; i++)
        ASSERT_STATUS(ferry_future_cancel(f.futures[i]), FERRY_OK);
    fry_baton_give(&f.te.engine->baton);
    settle(&f.te);
    for (int i = 0; i < KINDS; i++) {
        ASSERT_STATUS(ferry_future_poll(f.futures[i]), FERRY_E_CANCELLED);
        cr_assert_eq(ferry_future_error(f.futures[i])->op, ferry_future_id(f.futures[i]));
    }
    ASSERT_STATUS(ferry_promise_resolve(f.promise, FERRY_OK, NULL), FERRY_E_CANCELLED);
    cr_assert_eq(f.calls, 0);
    cr_assert(is_filled(f.dst, 0, 64, 0));
    ferry_future *reader =
        call_on(&f.te, NULL, count_call, &f.calls, ferry_buffer_span(f.dst), FERRY_READ);
    settle(&f.te);
    ASSERT_STATUS(ferry_future_poll(reader), FERRY_E_DEPENDENCY);
    cr_assert_eq(ferry_future_error(reader)->cause->op, ferry_future_id(f.futures[0]));
    ferry_future_release(reader);
    close_fixture(&f);
}

Test(engine_inbox, a_deadline_that_passed_there_is_kept)
{
    fixture f;
    submit_with_baton_taken(&f, START_NS + 10);
    stepped_clock_step(&f.te.time, 10);
    fry_baton_give(&f.te.engine->baton);
    settle(&f.te);
    for (int i = 0; i < 3; i++) {
        ASSERT_STATUS(ferry_future_poll(f.futures[i]), FERRY_E_DEADLINE);
        cr_assert_eq(ferry_future_error(f.futures[i])->op, ferry_future_id(f.futures[i]));
    }
    ASSERT_STATUS(ferry_future_poll(f.futures[4]), FERRY_E_DEPENDENCY);
    cr_assert_eq(f.calls, 0);
    cr_assert(is_filled(f.dst, 0, 64, 0));
    close_fixture(&f);
}

Test(engine_inbox, a_promise_may_be_resolved_there)
{
    fixture f;
    submit_with_baton_taken(&f, 0);
    ferry_future *nop = nop_after_promise(&f.te, f.promise);
    ASSERT_STATUS(ferry_promise_resolve(f.promise, FERRY_OK, NULL), FERRY_OK);
    ASSERT_STATUS(ferry_future_poll(f.futures[3]), FERRY_OK);
    ASSERT_STATUS(ferry_future_poll(nop), FERRY_PENDING);
    fry_baton_give(&f.te.engine->baton);
    settle(&f.te);
    ASSERT_STATUS(status_of(nop), FERRY_OK);
    close_fixture(&f);
}

Test(engine_inbox, a_promise_cancelled_and_then_resolved_there_is_resolved)
{
    fixture f;
    submit_with_baton_taken(&f, 0);
    ASSERT_STATUS(ferry_future_cancel(f.futures[3]), FERRY_OK);
    ASSERT_STATUS(ferry_promise_resolve(f.promise, FERRY_OK, NULL), FERRY_OK);
    fry_baton_give(&f.te.engine->baton);
    settle(&f.te);
    ASSERT_STATUS(ferry_future_poll(f.futures[3]), FERRY_OK);
    close_fixture(&f);
}

Test(engine_inbox, buffers_released_while_it_is_there_are_kept)
{
    fixture f;
    submit_with_baton_taken(&f, 0);
    ferry_buffer *dst = test_buffer(&f.te, 2, 64, 0), *src = test_buffer(&f.te, 2, 64, 8);
    ferry_future *copy =
        ferry_copy(f.te.engine, ferry_buffer_span(dst), ferry_buffer_span(src), NULL);
    ferry_future *chained = nop_after(&f.te, copy);
    ferry_future_release(copy);
    ferry_buffer_release(src);
    ferry_buffer_release(dst);
    fry_baton_give(&f.te.engine->baton);
    settle(&f.te);
    ASSERT_STATUS(status_of(chained), FERRY_OK);
    close_fixture(&f);
}

Test(engine_inbox, shutdown_reaches_it_there)
{
    fixture f;
    submit_with_baton_taken(&f, 0);
    ASSERT_STATUS(ferry_engine_shutdown(f.te.engine, 0), FERRY_E_DEADLINE);
    fry_baton_give(&f.te.engine->baton);
    ASSERT_STATUS(ferry_engine_shutdown(f.te.engine, -1), FERRY_OK);
    for (int i = 0; i < KINDS; i++)
        cr_assert_lt(ferry_future_poll(f.futures[i]), 0);
    cr_assert_eq(f.calls, 0);
    close_fixture(&f);
}

/* ---- threads that wait, embedded ---- */

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

static size_t parked(const test_engine *te)
{
    size_t count = 0;
    (void)pthread_mutex_lock(&te->engine->cold);
    struct entry {
        struct entry *next;
    } *entry = (struct entry *)(void *)te->engine->embedded_waiters;
    for (; entry != NULL; entry = entry->next)
        count++;
    (void)pthread_mutex_unlock(&te->engine->cold);
    return count;
}

static void start_waiting(waiting *self, ferry_future *future)
{
    self->future = future;
    cr_assert_eq(pthread_create(&self->thread, NULL, wait_for_it, self), 0);
}

/*
 * One thread makes the progress, two are parked; the same round resolves the first and one of the
 * parked, which must not leave with the progress that the third still needs.
 */
Test(engine_inbox, a_thread_that_leaves_hands_the_progress_to_one_that_stays)
{
    enum { SIZE = 8192, ROUNDS = 50 };
    copy_gate gate;
    copy_gate_install(&gate);
    OPENED_WITH(test_engine, te, FERRY_LOOP_EMBEDDED);
    ferry_buffer *src = test_buffer(&te, 0, SIZE, 1), *dst = test_buffer(&te, 1, SIZE, 0);
    for (int round = 0; round < ROUNDS; round++) {
        ferry_promise *promise = test_promise(&te);
        waiting waits[3];
        copy_gate_hold(&gate, ferry_buffer_data(dst), 0);
        ferry_future *copy =
            ferry_copy(te.engine, ferry_buffer_span(dst), ferry_buffer_span(src), NULL);
        copy_gate_wait_held(&gate);
        start_waiting(&waits[0], nop_after_promise(&te, promise));
        while (fry_load_acquire(&te.engine->seat.taken) == 0)
            sched_yield();
        start_waiting(&waits[1], copy);
        while (parked(&te) < 1)
            sched_yield();
        start_waiting(&waits[2], nop_after_promise(&te, promise));
        while (parked(&te) < 2)
            sched_yield();
        keep_promise(promise, FERRY_OK);
        cr_assert_eq(pthread_join(waits[0].thread, NULL), 0);
        cr_assert_eq(pthread_join(waits[2].thread, NULL), 0);
        copy_gate_open(&gate);
        cr_assert_eq(pthread_join(waits[1].thread, NULL), 0);
        for (int i = 0; i < 3; i++) {
            ASSERT_STATUS(waits[i].status, FERRY_OK);
            ferry_future_release(waits[i].future);
        }
    }
    ferry_buffer_release(src);
    ferry_buffer_release(dst);
}
