/* SPDX-License-Identifier: Apache-2.0 */
/* Promises: futures that somebody outside resolves. */
#include "tests/support/api_test.h"

TestSuite(promises, .timeout = HANG_S);

Test(promises, resolve_is_visible_on_return)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_promise *good = test_promise(&te), *bad = test_promise(&te);
    ferry_future *futures[] = {ferry_promise_future(good), ferry_promise_future(bad)};
    ASSERT_STATUS(ferry_future_poll(futures[0]), FERRY_PENDING);
    ASSERT_STATUS(ferry_promise_resolve(good, FERRY_OK, NULL), FERRY_OK);
    ASSERT_STATUS(ferry_promise_resolve(bad, -4711, NULL), FERRY_OK);
    ASSERT_STATUS(ferry_future_poll(futures[0]), FERRY_OK);
    ASSERT_STATUS(ferry_future_poll(futures[1]), (ferry_status)-4711);
    ferry_promise_release(good);
    ferry_promise_release(bad);
    ASSERT_STATUS(status_of(futures[0]), FERRY_OK);
    ASSERT_STATUS(status_of(futures[1]), (ferry_status)-4711);
    settle(&te);
    test_engine_close(&te);
}

Test(promises, resolved_twice_is_refused_and_changes_nothing)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_promise *promise = test_promise(&te);
    ferry_future *future = ferry_promise_future(promise);
    ASSERT_STATUS(ferry_promise_resolve(promise, FERRY_E_FAILED, "first"), FERRY_OK);
    ASSERT_STATUS(ferry_promise_resolve(promise, FERRY_OK, NULL), FERRY_E_INVALID);
    settle(&te);
    ASSERT_STATUS(ferry_promise_resolve(promise, FERRY_E_FAILED, "third"), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_future_poll(future), FERRY_E_FAILED);
    cr_assert_str_eq(ferry_future_error(future)->message, "first");
    cr_assert_gt(te.log_lines, 0);
    ferry_promise_release(promise);
    ASSERT_STATUS(status_of(future), FERRY_E_FAILED);
    test_engine_close(&te);
}

Test(promises, resolved_by_the_user_with_a_status_of_ferrys_own_twice)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_promise *promise = test_promise(&te);
    ASSERT_STATUS(ferry_promise_resolve(promise, FERRY_E_CANCELLED, NULL), FERRY_OK);
    ASSERT_STATUS(ferry_promise_resolve(promise, FERRY_OK, NULL), FERRY_E_INVALID);
    ferry_promise_release(promise);
    settle(&te);
    test_engine_close(&te);
}

Test(promises, pending_is_no_way_to_resolve_one)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_promise *promise = test_promise(&te);
    ferry_future *future = ferry_promise_future(promise);
    ASSERT_STATUS(ferry_promise_resolve(promise, FERRY_PENDING, NULL), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_promise_resolve(promise, 77, NULL), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_promise_resolve(NULL, FERRY_OK, NULL), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_future_poll(future), FERRY_PENDING);
    keep_promise(promise, FERRY_OK);
    ASSERT_STATUS(status_of(future), FERRY_OK);
    settle(&te);
    test_engine_close(&te);
}

Test(promises, dropped_ones_are_broken)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_promise *promise = test_promise(&te);
    ferry_future *future = ferry_promise_future(promise);
    ferry_future *nop = nop_after(&te, future);
    ferry_promise_release(promise);
    ferry_promise_release(NULL);
    ASSERT_STATUS(ferry_future_poll(future), FERRY_E_BROKEN_PROMISE);
    settle(&te);
    ASSERT_STATUS(ferry_future_poll(nop), FERRY_E_DEPENDENCY);
    ASSERT_STATUS(ferry_future_error(nop)->cause->status, FERRY_E_BROKEN_PROMISE);
    cr_assert_eq(ferry_future_error(nop)->cause->op, ferry_future_id(future));
    ferry_future_release(future);
    ferry_future_release(nop);
    test_engine_close(&te);
}

Test(promises, dropped_with_nobody_looking_leave_nothing)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    for (int i = 0; i < 100; i++)
        ferry_promise_release(test_promise(&te));
    settle(&te);
    test_engine_close(&te);
}

Test(promises, cancelled_first_answers_cancelled)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_promise *promise = test_promise(&te);
    ferry_future *future = ferry_promise_future(promise);
    ASSERT_STATUS(ferry_future_cancel(future), FERRY_OK);
    settle(&te);
    ASSERT_STATUS(ferry_future_poll(future), FERRY_E_CANCELLED);
    ASSERT_STATUS(ferry_promise_resolve(promise, FERRY_OK, NULL), FERRY_E_CANCELLED);
    ASSERT_STATUS(ferry_promise_resolve(promise, FERRY_OK, NULL), FERRY_E_CANCELLED);
    ferry_promise_release(promise);
    ASSERT_STATUS(status_of(future), FERRY_E_CANCELLED);
    test_engine_close(&te);
}

Test(promises, a_cancel_that_comes_too_late_changes_nothing)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_promise *promise = test_promise(&te);
    ferry_future *future = ferry_promise_future(promise);
    ASSERT_STATUS(ferry_future_cancel(future), FERRY_OK); /* a request, not looked at yet */
    ASSERT_STATUS(ferry_promise_resolve(promise, FERRY_OK, NULL), FERRY_OK);
    settle(&te);
    ASSERT_STATUS(status_of(future), FERRY_OK);
    ferry_promise_release(promise);
    test_engine_close(&te);
}

Test(promises, after_shutdown_they_answer_shutdown)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_THREAD);
    ferry_promise *promise = test_promise(&te), *refused = NULL;
    ferry_future *future = ferry_promise_future(promise);
    ASSERT_STATUS(ferry_engine_shutdown(te.engine, -1), FERRY_OK);
    ASSERT_STATUS(ferry_future_poll(future), FERRY_E_SHUTDOWN);
    ASSERT_STATUS(ferry_promise_resolve(promise, FERRY_OK, NULL), FERRY_E_SHUTDOWN);
    ASSERT_STATUS(ferry_promise_create(te.engine, &refused), FERRY_E_SHUTDOWN);
    cr_assert_null(refused);
    ferry_future *again = ferry_promise_future(promise);
    ASSERT_STATUS(status_of(again), FERRY_E_SHUTDOWN);
    ferry_promise_release(promise);
    ASSERT_STATUS(status_of(future), FERRY_E_SHUTDOWN);
    test_engine_close(&te);
}

Test(promises, the_future_outlives_the_promise_and_the_other_way_round)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_promise *promise = test_promise(&te);
    ferry_future_release(ferry_promise_future(promise));
    ferry_future *future = ferry_promise_future(promise);
    keep_promise(promise, FERRY_OK);
    settle(&te);
    ASSERT_STATUS(status_of(future), FERRY_OK);
    ferry_future *none = ferry_promise_future(NULL);
    ASSERT_STATUS(status_of(none), FERRY_E_INVALID);
    test_engine_close(&te);
}

/* ---- many threads ---- */

enum { ROUNDS = 2000, RESOLVERS = 3 };

typedef struct contest {
    ferry_promise *promises[ROUNDS];
    pthread_barrier_t barrier;
    _Atomic int won[ROUNDS];
    _Atomic int lost[ROUNDS];
} contest;

static void *resolve_all(void *arg)
{
    contest *self = arg;
    for (int i = 0; i < ROUNDS; i++) {
        if (i % 100 == 0)
            (void)pthread_barrier_wait(&self->barrier);
        ferry_status status = ferry_promise_resolve(self->promises[i], FERRY_OK, NULL);
        if (status == FERRY_OK)
            atomic_fetch_add(&self->won[i], 1);
        else
            atomic_fetch_add(&self->lost[i], status == FERRY_E_INVALID);
    }
    return NULL;
}

Test(promises, one_of_many_resolvers_wins)
{
    static contest self;
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_THREAD);
    for (int i = 0; i < ROUNDS; i++)
        self.promises[i] = test_promise(&te);
    cr_assert_eq(pthread_barrier_init(&self.barrier, NULL, RESOLVERS), 0);
    pthread_t threads[RESOLVERS];
    for (int i = 0; i < RESOLVERS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, resolve_all, &self), 0);
    for (int i = 0; i < RESOLVERS; i++)
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < ROUNDS; i++) {
        cr_assert_eq(self.won[i], 1);
        cr_assert_eq(self.lost[i], RESOLVERS - 1);
        ferry_promise_release(self.promises[i]);
    }
    test_engine_close(&te);
}
