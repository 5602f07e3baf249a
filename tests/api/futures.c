/* SPDX-License-Identifier: Apache-2.0 */
/* Futures: polling, waiting, waiters and taking them back. */
#include "tests/support/play.h"

#include <stdlib.h>

SCENE_SUITE(futures);

/* An operation that waits for a promise. */
static ferry_future *begin_held(ferry_loop_mode loop)
{
    scene_begin(loop);
    play("promise p; n = nop after p");
    return the_future("n");
}

Test(futures, poll_is_pending_until_resolved)
{
    ferry_future *nop = begin_held(FERRY_LOOP_EMBEDDED);
    play("expect n PENDING");
    cr_assert_null(ferry_future_error(nop));
    play("keep p; expect n OK");
    cr_assert_null(ferry_future_error(nop));
}

static void wait_gives_up(ferry_loop_mode loop)
{
    ferry_future *nop = begin_held(loop);
    ASSERT_STATUS(ferry_future_wait(nop, 0), FERRY_PENDING);
    ASSERT_STATUS(ferry_future_wait(nop, 1000), FERRY_PENDING);
    ASSERT_STATUS(ferry_future_wait(nop, 3000000), FERRY_PENDING);
    play("keep p; wait n OK");
    ASSERT_STATUS(ferry_future_wait(nop, 0), FERRY_OK);
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
    doomed self = {.future = begin_held(loop)};
    scene_settle();
    void *result = NULL;
    pthread_t thread = begin_thread(wait_when_cancelled, &self);
    cr_assert_eq(pthread_cancel(thread), 0);
    atomic_store(&self.is_cancelled, 1);
    cr_assert_eq(pthread_join(thread, &result), 0);
    cr_assert_eq(atomic_load(&self.came_back), 1);
    cr_assert_eq(result, PTHREAD_CANCELED, "and then it ends");
    play("keep p; wait n OK");
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
    ferry_future *nop = begin_held(FERRY_LOOP_THREAD);
    pthread_t threads[8];
    waiting waits[8];
    for (int i = 0; i < 8; i++) {
        waits[i] = (waiting){nop, FERRY_PENDING};
        threads[i] = begin_thread(wait_for_ever, &waits[i]);
    }
    play("keep p FAILED");
    for (int i = 0; i < 8; i++) {
        (void)end_thread(threads[i]);
        ASSERT_STATUS(waits[i].status, FERRY_E_DEPENDENCY);
    }
}

Test(futures, on_ready_before_and_after_the_resolve_is_called_once)
{
    ferry_future *nop = begin_held(FERRY_LOOP_EMBEDDED);
    play("waiter before on n; settle; called before 0; keep p;"
         "called before 0; settle; called before 1"); /* not inside the call that resolves */
    ASSERT_STATUS(the_waiter("before")->status, FERRY_OK);
    cr_assert_eq(the_waiter("before")->future, nop);
    play("waiter after on n; called after 0;" /* not inside the call that registers */
         "settle; settle; called after 1; called before 1");
}

Test(futures, the_loops_thread_calls_before_and_after_once)
{
    (void)begin_held(FERRY_LOOP_THREAD);
    play("waiter before on n; keep p; wait n OK; waiter after on n; release n");
    counted_waiter *before = the_waiter("before"), *after = the_waiter("after");
    scene_leave(); /* runs the callbacks that are due */
    play("called before 1; called after 1");
    cr_assert(pthread_equal(before->thread, after->thread));
    cr_assert_not(pthread_equal(before->thread, pthread_self()));
}

Test(futures, a_waiter_keeps_its_future)
{
    ferry_future *nop = begin_held(FERRY_LOOP_EMBEDDED);
    cr_assert_neq(ferry_future_id(nop), 0);
    play("waiter w on n; release n; keep p FAILED; settle; called w 1");
    cr_assert_eq(the_waiter("w")->future, nop);
    ASSERT_STATUS(the_waiter("w")->status, FERRY_E_DEPENDENCY);
}

Test(futures, remove_before_the_resolve_is_true_and_nothing_is_called)
{
    ferry_future *nop = begin_held(FERRY_LOOP_EMBEDDED);
    play("waiter w on n");
    ferry_waiter *waiter = &the_waiter("w")->waiter;
    cr_assert(ferry_waiter_remove(waiter));
    cr_assert_not(ferry_waiter_remove(waiter), "it is the caller's again");
    play("keep p; settle; called w 0");
    ASSERT_STATUS(ferry_future_on_ready(nop, waiter), FERRY_OK);
    play("settle; called w 1");
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
    scene_begin(FERRY_LOOP_THREAD);
    pthread_barrier_t turn;
    cr_assert_eq(pthread_barrier_init(&turn, NULL, 2), 0);
    ferry_future_release(ferry_call(engine(), NULL, keep_the_loop, &turn, NULL));
    (void)pthread_barrier_wait(&turn);
    play("promise p; waiter w on p; keep p");
    cr_assert_not(ferry_waiter_remove(&the_waiter("w")->waiter));
    play("called w 0");
    (void)pthread_barrier_wait(&turn);
    ASSERT_STATUS(ferry_engine_shutdown(engine(), -1), FERRY_OK); /* it runs what is due */
    play("called w 1");
    cr_assert_not(ferry_waiter_remove(&the_waiter("w")->waiter), "it has been called");
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
    ferry_future *nop = begin_held(FERRY_LOOP_EMBEDDED);
    for (int i = 0; i < MANY; i++) {
        waiters[i] = (ferry_waiter)FERRY_WAITER_INIT(note_order, (void *)(intptr_t)i);
        ASSERT_STATUS(ferry_future_on_ready(nop, &waiters[i]), FERRY_OK);
    }
    for (int i = 1; i < MANY; i += 3)
        cr_assert(ferry_waiter_remove(&waiters[i]));
    play("keep p; settle");
    int seen = 0;
    for (int i = 0; i < MANY; i++) {
        if (i % 3 == 1)
            continue;
        cr_assert_eq(order_of_calls[seen], i, "call %d was of waiter %d", seen,
                     order_of_calls[seen]);
        seen++;
    }
    cr_assert_eq(calls_made, seen);
}

Test(futures, a_waiter_in_use_is_refused)
{
    ferry_future *nop = begin_held(FERRY_LOOP_EMBEDDED);
    play("waiter w on n");
    ASSERT_STATUS(ferry_future_on_ready(nop, &the_waiter("w")->waiter), FERRY_E_INVALID);
    play("keep p; settle; called w 1");
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
    ferry_future *held = begin_held(FERRY_LOOP_EMBEDDED);
    play("done = nop");
    ferry_future *done = the_future("done");
    relay self = {.waiter = FERRY_WAITER_INIT(go_on_to_next, NULL), .next = {held, done, held}};
    ASSERT_STATUS(ferry_future_on_ready(done, &self.waiter), FERRY_OK);
    scene_settle();
    cr_assert_eq(self.calls, 1, "it waits for the held one now");
    play("keep p; settle");
    cr_assert_eq(self.calls, 4);
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
    ferry_future *nop = begin_held(loop);
    for (int i = 0; i < 100; i++) {
        ferry_waiter *waiter = malloc(sizeof *waiter);
        cr_assert_not_null(waiter);
        *waiter = (ferry_waiter)FERRY_WAITER_INIT(free_itself, NULL);
        if (i % 2 == 0)
            waiter->executor = ferry_executor_inline();
        ASSERT_STATUS(ferry_future_on_ready(nop, waiter), FERRY_OK);
    }
    play("keep p; release n");
    scene_end();
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
    scene_begin(FERRY_LOOP_THREAD);
    pthread_t thread = begin_thread(resolve_each, NULL);
    for (int i = 0; i < RACES; i++) {
        ferry_promise *promise = test_promise(scene());
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
    (void)end_thread(thread);
    scene_end();
    for (int i = 0; i < RACES; i++)
        cr_assert_eq(waiters[i].calls, removed[i] ? 0 : 1, "waiter %d", i);
}

Test(futures, references_are_counted)
{
    ferry_future *nop = begin_held(FERRY_LOOP_EMBEDDED);
    cr_assert_eq(ferry_future_retain(nop), nop);
    ferry_future_release(nop);
    play("keep p; expect n OK");
    cr_assert_null(ferry_future_retain(NULL));
    ferry_future_release(NULL);
}

Test(futures, releasing_does_not_cancel)
{
    play("promise p; buffer src 64 of 7; buffer dst 64 on 1; copy dst <- src after p; release it;"
         "keep p; settle; bytes dst 7");
}

Test(futures, ids_are_distinct_and_not_zero)
{
    uint64_t last = 0;
    for (int i = 0; i < 100; i++) {
        play("n = nop");
        cr_assert_gt(ferry_future_id(the_future("n")), last, "of one thread they go up");
        last = ferry_future_id(the_future("n"));
        play("release n");
    }
    cr_assert_eq(ferry_future_id(NULL), 0);
}
