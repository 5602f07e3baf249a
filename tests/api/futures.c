/* SPDX-License-Identifier: Apache-2.0 */
/* Futures: polling, waiting, waiters and taking them back. */
#include "tests/support/api_test.h"

#include <stdlib.h>

TestSuite(futures, .timeout = HANG_S);

Test(futures, poll_is_pending_until_resolved)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_promise *promise = test_promise(&te);
    ferry_future *nop = nop_after_promise(&te, promise);
    settle(&te);
    ASSERT_STATUS(ferry_future_poll(nop), FERRY_PENDING);
    cr_assert_null(ferry_future_error(nop));
    keep_promise(promise, FERRY_OK);
    settle(&te);
    ASSERT_STATUS(ferry_future_poll(nop), FERRY_OK);
    cr_assert_null(ferry_future_error(nop));
    ferry_future_release(nop);
    test_engine_close(&te);
}

static void wait_gives_up(ferry_loop_mode loop)
{
    test_engine te;
    test_engine_open(&te, loop);
    ferry_promise *promise = test_promise(&te);
    ferry_future *nop = nop_after_promise(&te, promise);
    ASSERT_STATUS(ferry_future_wait(nop, 0), FERRY_PENDING);
    ASSERT_STATUS(ferry_future_wait(nop, 1000), FERRY_PENDING);
    ASSERT_STATUS(ferry_future_wait(nop, 3000000), FERRY_PENDING);
    keep_promise(promise, FERRY_OK);
    ASSERT_STATUS(ferry_future_wait(nop, -1), FERRY_OK);
    ASSERT_STATUS(ferry_future_wait(nop, 0), FERRY_OK);
    ferry_future_release(nop);
    test_engine_close(&te);
}

Test(futures, a_wait_that_gives_up_leaves_the_operation)
{
    wait_gives_up(FERRY_LOOP_THREAD);
}

Test(futures, a_wait_that_gives_up_leaves_the_operation_embedded)
{
    wait_gives_up(FERRY_LOOP_EMBEDDED);
}

typedef struct doomed {
    ferry_future *future;
    _Atomic int is_cancelled;
    _Atomic int came_back;
} doomed;

static void *wait_when_cancelled(void *arg)
{
    doomed *self = arg;
    int old;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
    while (atomic_load(&self->is_cancelled) == 0)
        (void)sched_yield();
    (void)pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old); /* which is no cancellation point */
    ferry_status status = ferry_future_wait(self->future, 1000000);
    atomic_store(&self->came_back, status == FERRY_PENDING ? 1 : -1);
    pthread_testcancel();
    return NULL;
}

/* It would leave what it does for the engine, and what stands on its stack. */
static void wait_outlasts_pthread_cancel(ferry_loop_mode loop)
{
    test_engine te;
    test_engine_open(&te, loop);
    ferry_promise *promise = test_promise(&te);
    ferry_future *nop = nop_after_promise(&te, promise);
    settle(&te);
    doomed self = {.future = nop};
    pthread_t thread;
    void *result = NULL;
    cr_assert_eq(pthread_create(&thread, NULL, wait_when_cancelled, &self), 0);
    cr_assert_eq(pthread_cancel(thread), 0);
    atomic_store(&self.is_cancelled, 1);
    cr_assert_eq(pthread_join(thread, &result), 0);
    cr_assert_eq(atomic_load(&self.came_back), 1);
    cr_assert_eq(result, PTHREAD_CANCELED, "and then it ends");
    keep_promise(promise, FERRY_OK);
    ASSERT_STATUS(ferry_future_wait(nop, -1), FERRY_OK);
    ferry_future_release(nop);
    test_engine_close(&te);
}

Test(futures, a_wait_outlasts_pthread_cancel)
{
    wait_outlasts_pthread_cancel(FERRY_LOOP_THREAD);
}

Test(futures, a_wait_outlasts_pthread_cancel_embedded)
{
    wait_outlasts_pthread_cancel(FERRY_LOOP_EMBEDDED);
}

typedef struct waiting {
    ferry_future *future;
    ferry_status status;
} waiting;

static void *wait_for_ever(void *arg)
{
    waiting *self = arg;
    self->status = ferry_future_wait(self->future, -1);
    return NULL;
}

Test(futures, many_threads_wait_for_one_future)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_THREAD);
    ferry_promise *promise = test_promise(&te);
    ferry_future *nop = nop_after_promise(&te, promise);
    pthread_t threads[8];
    waiting waits[8];
    for (int i = 0; i < 8; i++) {
        waits[i] = (waiting){nop, FERRY_PENDING};
        cr_assert_eq(pthread_create(&threads[i], NULL, wait_for_ever, &waits[i]), 0);
    }
    keep_promise(promise, FERRY_E_FAILED);
    for (int i = 0; i < 8; i++) {
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
        ASSERT_STATUS(waits[i].status, FERRY_E_DEPENDENCY);
    }
    ferry_future_release(nop);
    test_engine_close(&te);
}

Test(futures, on_ready_before_and_after_the_resolve_is_called_once)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_promise *promise = test_promise(&te);
    ferry_future *nop = nop_after_promise(&te, promise);
    counted_waiter before, after;
    counted_waiter_init(&before, NULL);
    counted_waiter_init(&after, NULL);
    ASSERT_STATUS(ferry_future_on_ready(nop, &before.waiter), FERRY_OK);
    settle(&te);
    cr_assert_eq(before.calls, 0);

    keep_promise(promise, FERRY_OK);
    cr_assert_eq(before.calls, 0, "not inside the call that resolves");
    settle(&te);
    cr_assert_eq(before.calls, 1);
    ASSERT_STATUS(before.status, FERRY_OK);
    cr_assert_eq(before.future, nop);

    ASSERT_STATUS(ferry_future_on_ready(nop, &after.waiter), FERRY_OK);
    cr_assert_eq(after.calls, 0, "not inside the call that registers");
    settle(&te);
    settle(&te);
    cr_assert_eq(after.calls, 1);
    cr_assert_eq(before.calls, 1);
    ferry_future_release(nop);
    test_engine_close(&te);
}

Test(futures, the_loops_thread_calls_before_and_after_once)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_THREAD);
    ferry_promise *promise = test_promise(&te);
    ferry_future *nop = nop_after_promise(&te, promise);
    counted_waiter before, after;
    counted_waiter_init(&before, NULL);
    counted_waiter_init(&after, NULL);
    ASSERT_STATUS(ferry_future_on_ready(nop, &before.waiter), FERRY_OK);
    keep_promise(promise, FERRY_OK);
    ASSERT_STATUS(ferry_future_wait(nop, -1), FERRY_OK);
    ASSERT_STATUS(ferry_future_on_ready(nop, &after.waiter), FERRY_OK);
    ferry_future_release(nop);
    test_engine_close(&te); /* runs the callbacks that are due */
    cr_assert_eq(before.calls, 1);
    cr_assert_eq(after.calls, 1);
    cr_assert(pthread_equal(before.thread, after.thread));
    cr_assert_not(pthread_equal(before.thread, pthread_self()));
}

Test(futures, a_waiter_keeps_its_future)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_promise *promise = test_promise(&te);
    ferry_future *nop = nop_after_promise(&te, promise);
    uint64_t id = ferry_future_id(nop);
    counted_waiter waiter;
    counted_waiter_init(&waiter, NULL);
    ASSERT_STATUS(ferry_future_on_ready(nop, &waiter.waiter), FERRY_OK);
    ferry_future_release(nop);
    keep_promise(promise, FERRY_E_FAILED);
    settle(&te);
    cr_assert_eq(waiter.calls, 1);
    cr_assert_eq(waiter.future, nop);
    cr_assert_neq(id, 0);
    ASSERT_STATUS(waiter.status, FERRY_E_DEPENDENCY);
    test_engine_close(&te);
}

Test(futures, remove_before_the_resolve_is_true_and_nothing_is_called)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_promise *promise = test_promise(&te);
    ferry_future *nop = nop_after_promise(&te, promise);
    counted_waiter waiter;
    counted_waiter_init(&waiter, NULL);
    ASSERT_STATUS(ferry_future_on_ready(nop, &waiter.waiter), FERRY_OK);
    cr_assert(ferry_waiter_remove(&waiter.waiter));
    cr_assert_not(ferry_waiter_remove(&waiter.waiter), "it is the caller's again");
    keep_promise(promise, FERRY_OK);
    settle(&te);
    cr_assert_eq(waiter.calls, 0);

    ASSERT_STATUS(ferry_future_on_ready(nop, &waiter.waiter), FERRY_OK);
    settle(&te);
    cr_assert_eq(waiter.calls, 1);
    ferry_future_release(nop);
    test_engine_close(&te);
}

static ferry_status keep_the_loop(void *arg)
{
    pthread_barrier_t *turn = arg;
    (void)pthread_barrier_wait(turn);
    (void)pthread_barrier_wait(turn);
    return FERRY_OK;
}

/* Off the loop, which is another thread's and has not come to it. tests/api/take_back.c is about
 * the loop. */
Test(futures, remove_after_the_resolve_is_false_and_the_callback_comes)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_THREAD);
    pthread_barrier_t turn;
    cr_assert_eq(pthread_barrier_init(&turn, NULL, 2), 0);
    ferry_future_release(ferry_call(te.engine, NULL, keep_the_loop, &turn, NULL));
    (void)pthread_barrier_wait(&turn);
    ferry_promise *promise = test_promise(&te);
    ferry_future *future = ferry_promise_future(promise);
    counted_waiter waiter;
    counted_waiter_init(&waiter, NULL);
    ASSERT_STATUS(ferry_future_on_ready(future, &waiter.waiter), FERRY_OK);
    keep_promise(promise, FERRY_OK);
    cr_assert_not(ferry_waiter_remove(&waiter.waiter));
    cr_assert_eq(waiter.calls, 0);
    (void)pthread_barrier_wait(&turn);
    ASSERT_STATUS(ferry_engine_shutdown(te.engine, -1), FERRY_OK); /* it runs what is due */
    cr_assert_eq(waiter.calls, 1);
    cr_assert_not(ferry_waiter_remove(&waiter.waiter), "it has been called");
    ferry_future_release(future);
    test_engine_close(&te);
}

Test(futures, remove_of_what_was_never_registered_is_false)
{
    counted_waiter waiter;
    counted_waiter_init(&waiter, NULL);
    cr_assert_not(ferry_waiter_remove(&waiter.waiter));
    cr_assert_not(ferry_waiter_remove(NULL));
}

#define MANY 1000

static int order_of_calls[MANY];
static int calls_made;

static void note_order(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)future, (void)status;
    order_of_calls[calls_made++] = (int)(intptr_t)waiter->arg;
}

Test(futures, waiters_are_called_in_order_without_those_removed_from_the_middle)
{
    static ferry_waiter waiters[MANY];
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_promise *promise = test_promise(&te);
    ferry_future *nop = nop_after_promise(&te, promise);
    for (int i = 0; i < MANY; i++) {
        waiters[i] = (ferry_waiter)FERRY_WAITER_INIT(note_order, (void *)(intptr_t)i);
        ASSERT_STATUS(ferry_future_on_ready(nop, &waiters[i]), FERRY_OK);
    }
    for (int i = 1; i < MANY; i += 3)
        cr_assert(ferry_waiter_remove(&waiters[i]));
    keep_promise(promise, FERRY_OK);
    settle(&te);
    int expected = 0, seen = 0;
    for (int i = 0; i < MANY; i++) {
        if (i % 3 == 1)
            continue;
        cr_assert_eq(order_of_calls[seen], i, "call %d was of waiter %d", seen,
                     order_of_calls[seen]);
        seen++;
        expected++;
    }
    cr_assert_eq(calls_made, expected);
    ferry_future_release(nop);
    test_engine_close(&te);
}

Test(futures, a_waiter_in_use_is_refused)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_promise *promise = test_promise(&te);
    ferry_future *nop = nop_after_promise(&te, promise);
    counted_waiter waiter;
    counted_waiter_init(&waiter, NULL);
    ASSERT_STATUS(ferry_future_on_ready(nop, &waiter.waiter), FERRY_OK);
    ASSERT_STATUS(ferry_future_on_ready(nop, &waiter.waiter), FERRY_E_INVALID);
    keep_promise(promise, FERRY_OK);
    settle(&te);
    cr_assert_eq(waiter.calls, 1);
    ferry_future_release(nop);
    test_engine_close(&te);
}

typedef struct relay {
    ferry_waiter waiter; /* first */
    ferry_future *next[4];
    int calls;
} relay;

static void go_on_to_next(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)future;
    relay *self = (relay *)(void *)waiter;
    ASSERT_STATUS(status, FERRY_OK);
    ferry_future *next = self->next[self->calls++];
    if (next != NULL)
        ASSERT_STATUS(ferry_future_on_ready(next, waiter), FERRY_OK);
}

Test(futures, a_waiter_may_be_registered_anew_in_its_own_callback)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_promise *promise = test_promise(&te);
    ferry_future *held = nop_after_promise(&te, promise);
    ferry_future *done = ferry_nop(te.engine, NULL);
    relay self = {.waiter = FERRY_WAITER_INIT(go_on_to_next, NULL), .next = {held, done, held}};
    ASSERT_STATUS(ferry_future_on_ready(done, &self.waiter), FERRY_OK);
    settle(&te);
    cr_assert_eq(self.calls, 1, "it waits for the held one now");
    keep_promise(promise, FERRY_OK);
    settle(&te);
    cr_assert_eq(self.calls, 4);
    ferry_future_release(held);
    ferry_future_release(done);
    test_engine_close(&te);
}

static int freed_count;

static void free_itself(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)future, (void)status;
    free(waiter);
    freed_count++;
}

static void waiters_free_themselves(ferry_loop_mode loop)
{
    test_engine te;
    test_engine_open(&te, loop);
    ferry_promise *promise = test_promise(&te);
    ferry_future *nop = nop_after_promise(&te, promise);
    for (int i = 0; i < 100; i++) {
        ferry_waiter *waiter = malloc(sizeof *waiter);
        cr_assert_not_null(waiter);
        *waiter = (ferry_waiter)FERRY_WAITER_INIT(free_itself, NULL);
        if (i % 2 == 0)
            waiter->executor = ferry_executor_inline();
        ASSERT_STATUS(ferry_future_on_ready(nop, waiter), FERRY_OK);
    }
    keep_promise(promise, FERRY_OK);
    ferry_future_release(nop);
    test_engine_close(&te);
    cr_assert_eq(freed_count, 100);
}

Test(futures, waiters_may_free_themselves)
{
    waiters_free_themselves(FERRY_LOOP_THREAD);
}

Test(futures, waiters_may_free_themselves_embedded)
{
    waiters_free_themselves(FERRY_LOOP_EMBEDDED);
}

#define RACES 3000

static _Atomic(ferry_promise *) to_resolve;

static void *resolve_each(void *arg)
{
    (void)arg;
    for (int i = 0; i < RACES; i++) {
        ferry_promise *promise;
        while ((promise = atomic_exchange(&to_resolve, NULL)) == NULL)
            sched_yield();
        ASSERT_STATUS(ferry_promise_resolve(promise, FERRY_OK, NULL), FERRY_OK);
        ferry_promise_release(promise);
    }
    return NULL;
}

Test(futures, a_removed_waiter_is_never_called_and_another_always)
{
    static counted_waiter waiters[RACES];
    static bool removed[RACES];
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_THREAD);
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, resolve_each, NULL), 0);
    for (int i = 0; i < RACES; i++) {
        ferry_promise *promise = test_promise(&te);
        ferry_future *future = ferry_promise_future(promise);
        counted_waiter_init(&waiters[i], NULL);
        ASSERT_STATUS(ferry_future_on_ready(future, &waiters[i].waiter), FERRY_OK);
        atomic_store(&to_resolve, promise);
        for (int spin = 0; spin < i % 200; spin++)
            (void)ferry_future_poll(future);
        removed[i] = ferry_waiter_remove(&waiters[i].waiter);
        ferry_future_release(future);
        while (atomic_load(&to_resolve) != NULL)
            sched_yield();
    }
    cr_assert_eq(pthread_join(thread, NULL), 0);
    test_engine_close(&te);
    for (int i = 0; i < RACES; i++)
        cr_assert_eq(waiters[i].calls, removed[i] ? 0 : 1, "waiter %d", i);
}

Test(futures, references_are_counted)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_promise *promise = test_promise(&te);
    ferry_future *nop = nop_after_promise(&te, promise);
    cr_assert_eq(ferry_future_retain(nop), nop);
    ferry_future_release(nop);
    keep_promise(promise, FERRY_OK);
    settle(&te);
    ASSERT_STATUS(ferry_future_poll(nop), FERRY_OK);
    ferry_future_release(nop);
    cr_assert_null(ferry_future_retain(NULL));
    ferry_future_release(NULL);
    test_engine_close(&te);
}

Test(futures, releasing_does_not_cancel)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_promise *promise = test_promise(&te);
    ferry_buffer *src = test_buffer(&te, 0, 64, 7), *dst = test_buffer(&te, 1, 64, 0);
    ferry_future_release(
        copy_after_promise(&te, ferry_buffer_span(dst), ferry_buffer_span(src), promise));
    keep_promise(promise, FERRY_OK);
    settle(&te);
    cr_assert(is_filled(dst, 0, 64, 7));
    ferry_buffer_release(src);
    ferry_buffer_release(dst);
    test_engine_close(&te);
}

Test(futures, ids_are_distinct_and_not_zero)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    uint64_t last = 0;
    for (int i = 0; i < 100; i++) {
        ferry_future *nop = ferry_nop(te.engine, NULL);
        cr_assert_gt(ferry_future_id(nop), last, "of one thread they go up");
        last = ferry_future_id(nop);
        ferry_future_release(nop);
    }
    cr_assert_eq(ferry_future_id(NULL), 0);
    test_engine_close(&te);
}
