/* SPDX-License-Identifier: Apache-2.0 */
/* The future of room, ferry_engine_writable: who is told, where, when, and what if nobody is. */
#include "tests/support/limits_test.h"

#include <ev.h>
#include <poll.h>

TestSuite(writable, .timeout = HANG_S);

/* ---- the future itself ---- */

Test(writable, writable_wakes_the_users_loop_and_calls_back)
{
    test_engine te;
    open_limited(&te, FERRY_LOOP_EMBEDDED, FEW, 0, 0);
    promises *all = no_promises();
    (void)take_all_nodes(&te, all);
    counted_waiter waiter;
    counted_waiter_init(&waiter, NULL);
    ferry_future *writable = ferry_engine_writable(te.engine);
    ASSERT_STATUS(ferry_future_on_ready(writable, &waiter.waiter), FERRY_OK);
    do
        settle(&te);
    while (ferry_engine_arm(te.engine) != FERRY_OK);
    struct pollfd fd = {.fd = ferry_engine_fd(te.engine), .events = POLLIN};
    cr_assert_eq(poll(&fd, 1, 0), 0);
    cr_assert_eq(ferry_engine_timeout_ns(te.engine), -1);
    pthread_t thread;
    ferry_future *last = ferry_promise_future(all->list[all->count - 1]);
    ferry_promise_release(all->list[--all->count]);
    settle(&te);
    cr_assert_eq(waiter.calls, 0, "its node is still held");
    while (ferry_engine_arm(te.engine) != FERRY_OK)
        settle(&te);
    cr_assert_eq(pthread_create(&thread, NULL, release_elsewhere, last), 0);
    cr_assert_eq(poll(&fd, 1, -1), 1);
    (void)pthread_join(thread, NULL);
    settle(&te);
    cr_assert_eq(waiter.calls, 1);
    ASSERT_STATUS(waiter.status, FERRY_OK);
    ASSERT_STATUS(status_of(writable), FERRY_OK);
    release_all(all);
    test_engine_close(&te);
}

typedef struct retrier {
    ferry_waiter waiter; /* first */
    const test_engine *te;
    ferry_promise *promise;
    struct ev_loop *loop;
} retrier;

static void retry_in_callback(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)future;
    retrier *self = (retrier *)(void *)waiter;
    ASSERT_STATUS(status, FERRY_OK);
    ASSERT_STATUS(ferry_promise_create(self->te->engine, &self->promise), FERRY_OK);
    ev_break(self->loop, EVBREAK_ALL);
}

Test(writable, writable_in_a_libev_loop)
{
    test_engine te;
    struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
    ferry_engine_options options = test_engine_options(&te, FERRY_LOOP_ATTACHED);
    options.ev_loop = loop;
    options.max_nodes = FEW;
    test_engine_create(&te, &options);
    promises *all = no_promises();
    (void)take_all_nodes(&te, all);
    ferry_future *last = ferry_promise_future(all->list[all->count - 1]);
    release_newest(all);
    ferry_future *writable = ferry_engine_writable(te.engine);
    retrier self = {.waiter = FERRY_WAITER_INIT(retry_in_callback, NULL), .te = &te, .loop = loop};
    ASSERT_STATUS(ferry_future_on_ready(writable, &self.waiter), FERRY_OK);
    (void)ev_run(loop, EVRUN_NOWAIT);
    cr_assert_null(self.promise);
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, release_elsewhere, last), 0);
    ev_run(loop, 0);
    cr_assert_not_null(self.promise);
    (void)pthread_join(thread, NULL);
    ferry_promise_release(self.promise);
    ferry_future_release(writable);
    release_all(all);
    test_engine_close(&te);
    ev_loop_destroy(loop);
}

Test(writable, a_pending_writable_holds_no_drain)
{
    test_engine te;
    open_limited(&te, FERRY_LOOP_EMBEDDED, FEW, 0, 0);
    ferry_future *drained = ferry_engine_drain(te.engine);
    settle(&te);
    promises *all = no_promises();
    (void)take_all_nodes(&te, all);
    ferry_future *writable = ferry_engine_writable(te.engine);
    settle(&te);
    ASSERT_STATUS(status_of(drained), FERRY_OK);
    release_all(all);
    ASSERT_STATUS(ferry_future_wait(writable, -1), FERRY_OK);
    ferry_future_release(writable);
    test_engine_close(&te);
}

Test(writable, a_cancel_is_seen_by_all_and_one_asks_again)
{
    test_engine te;
    open_limited(&te, FERRY_LOOP_EMBEDDED, FEW, 0, 0);
    promises *all = no_promises();
    (void)take_all_nodes(&te, all);
    ferry_future *mine = ferry_engine_writable(te.engine);
    ferry_future *yours = ferry_engine_writable(te.engine);
    ASSERT_STATUS(ferry_future_cancel(mine), FERRY_OK);
    settle(&te);
    ASSERT_STATUS(status_of(mine), FERRY_E_CANCELLED);
    ASSERT_STATUS(status_of(yours), FERRY_E_CANCELLED);
    yours = ferry_engine_writable(te.engine);
    ASSERT_STATUS(ferry_future_poll(yours), FERRY_PENDING);
    release_all(all);
    settle(&te);
    ASSERT_STATUS(status_of(yours), FERRY_OK);
    test_engine_close(&te);
}

Test(writable, nobody_need_keep_it)
{
    test_engine te;
    open_limited(&te, FERRY_LOOP_EMBEDDED, FEW, 0, 0);
    promises *all = no_promises();
    (void)take_all_nodes(&te, all);
    for (int i = 0; i < 100; i++) {
        ferry_future_release(ferry_engine_writable(te.engine));
        settle(&te);
    }
    release_all(all);
    ASSERT_STATUS(writable_now(&te), FERRY_OK);
    test_engine_close(&te);
}

/* Each that has resolved and is kept is one of 16; further ones are nodes like others. */
Test(writable, old_ones_that_are_kept)
{
    enum { KEPT = 16 };
    test_engine te;
    open_limited(&te, FERRY_LOOP_EMBEDDED, FEW, 0, 0);
    promises *all = no_promises();
    ferry_future *kept[KEPT + 1];
    for (size_t i = 0; i < KEPT; i++) {
        (void)take_all_nodes(&te, all);
        kept[i] = ferry_engine_writable(te.engine);
        ASSERT_STATUS(ferry_future_poll(kept[i]), FERRY_PENDING);
        release_newest(all);
        settle(&te);
        ASSERT_STATUS(ferry_future_poll(kept[i]), FERRY_OK);
    }
    (void)take_all_nodes(&te, all);
    ferry_future *none = ferry_engine_writable(te.engine);
    cr_assert_eq(ferry_future_id(none), 0);
    ASSERT_STATUS(status_of(none), FERRY_E_AGAIN);
    ferry_future_release(kept[7]);
    kept[7] = ferry_engine_writable(te.engine);
    ASSERT_STATUS(ferry_future_poll(kept[7]), FERRY_PENDING);
    release_all(all);
    settle(&te);
    ASSERT_STATUS(ferry_future_poll(kept[7]), FERRY_OK);
    for (size_t i = 0; i < KEPT; i++)
        ferry_future_release(kept[i]);
    test_engine_close(&te);
}

static void shutdown_resolves_it(ferry_loop_mode loop)
{
    test_engine te;
    open_limited(&te, loop, FEW, 0, 0);
    promises *all = no_promises();
    (void)take_all_nodes(&te, all);
    ferry_future *writable = ferry_engine_writable(te.engine);
    ASSERT_STATUS(ferry_future_poll(writable), FERRY_PENDING);
    ASSERT_STATUS(ferry_engine_shutdown(te.engine, -1), FERRY_OK);
    ASSERT_STATUS(status_of(writable), FERRY_E_SHUTDOWN);
    release_all(all);
    ferry_future *late = ferry_engine_writable(te.engine);
    ASSERT_STATUS(status_of(late), FERRY_E_SHUTDOWN);
    test_engine_close(&te);
}

Test(writable, shutdown_resolves_a_pending_writable)
{
    shutdown_resolves_it(FERRY_LOOP_EMBEDDED);
    shutdown_resolves_it(FERRY_LOOP_THREAD);
}

Test(writable, an_engine_goes_with_a_writable_that_was_cancelled_or_kept)
{
    test_engine te;
    open_limited(&te, FERRY_LOOP_EMBEDDED, FEW, 0, 0);
    promises *all = no_promises();
    (void)take_all_nodes(&te, all);
    ferry_future *cancelled = ferry_engine_writable(te.engine);
    ASSERT_STATUS(ferry_future_cancel(cancelled), FERRY_OK);
    settle(&te);
    ASSERT_STATUS(status_of(cancelled), FERRY_E_CANCELLED);
    release_all(all);
    test_engine_close(&te);

    open_limited(&te, FERRY_LOOP_EMBEDDED, FEW, 0, 0);
    (void)take_all_nodes(&te, all);
    ferry_future *kept = ferry_engine_writable(te.engine);
    release_all(all);
    ferry_engine_release(te.engine);
    ASSERT_STATUS(status_of(kept), FERRY_E_SHUTDOWN);
    cr_assert_eq(failing_allocator_live_bytes(&te.memory), 0);
}

Test(writable, writable_of_nothing_is_invalid)
{
    ASSERT_STATUS(status_of(ferry_engine_writable(NULL)), FERRY_E_INVALID);
}

/* ---- several threads ---- */

enum { THREADS = 3, OPERATIONS = 3000 };

typedef struct submitter {
    const test_engine *te;
    uint32_t done, tries;
} submitter;

/* Tries until it is taken, and sleeps in between. */
static void *submit_all(void *arg)
{
    submitter *self = arg;
    while (self->done < OPERATIONS) {
        ferry_future *nop = ferry_nop(self->te->engine, NULL);
        self->tries++;
        ferry_status status = ferry_future_wait(nop, -1);
        ferry_future_release(nop);
        if (status == FERRY_OK) {
            self->done++;
            continue;
        }
        ASSERT_STATUS(status, FERRY_E_AGAIN);
        ferry_future *writable = ferry_engine_writable(self->te->engine);
        ASSERT_STATUS(ferry_future_wait(writable, -1), FERRY_OK);
        ferry_future_release(writable);
    }
    return NULL;
}

static void threads_share_two_nodes(ferry_loop_mode loop)
{
    test_engine te;
    open_limited(&te, loop, 2, 0, 0);
    pthread_t threads[THREADS];
    submitter submitters[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        submitters[i] = (submitter){.te = &te};
        cr_assert_eq(pthread_create(&threads[i], NULL, submit_all, &submitters[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    test_engine_close(&te);
}

Test(writable, threads_that_are_refused_all_come_to_their_end)
{
    threads_share_two_nodes(FERRY_LOOP_THREAD);
}

Test(writable, threads_that_are_refused_all_come_to_their_end_embedded)
{
    threads_share_two_nodes(FERRY_LOOP_EMBEDDED);
}

/* ---- without memory ---- */

/* Refusals and retries while allocation number nth fails. Gives whether it did. */
static bool limited_run(uint64_t nth, bool persistent)
{
    test_engine te;
    ferry_engine_options options = test_engine_options(&te, FERRY_LOOP_EMBEDDED);
    options.max_nodes = FEW;
    failing_allocator_arm(&te.memory, nth, persistent);
    ferry_status status = ferry_engine_create(&options, &te.engine, NULL);
    if (status == FERRY_OK) {
        promises *all = no_promises();
        while ((status = ferry_promise_create(te.engine, &all->list[all->count])) == FERRY_OK)
            all->count++;
        cr_assert(status == FERRY_E_AGAIN || status == FERRY_E_NO_MEMORY);
        ferry_future *writable = ferry_engine_writable(te.engine);
        settle(&te);
        ferry_status seen = ferry_future_poll(writable);
        if (status == FERRY_E_AGAIN)
            ASSERT_STATUS(seen, FERRY_PENDING);
        else
            cr_assert(seen == FERRY_OK || seen == FERRY_E_NO_MEMORY);
        release_all(all);
        settle(&te);
        if (seen == FERRY_PENDING)
            ASSERT_STATUS(ferry_future_poll(writable), FERRY_OK);
        ferry_future_release(writable);
        ASSERT_STATUS(ferry_engine_shutdown(te.engine, -1), FERRY_OK);
        ferry_engine_release(te.engine);
    }
    cr_assert_eq(failing_allocator_live_bytes(&te.memory), 0);
    return failing_allocator_failures(&te.memory) != 0;
}

Test(writable, writable_when_any_allocation_fails)
{
    for (int persistent = 0; persistent < 2; persistent++) {
        uint64_t nth = 1;
        while (limited_run(nth, persistent != 0))
            cr_assert_lt(++nth, 100);
        cr_assert_gt(nth, 4);
    }
}
