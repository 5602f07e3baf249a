/* SPDX-License-Identifier: Apache-2.0 */
/* The future of room, ferry_engine_writable: who is told, where, when, and what if nobody is. */
#include "tests/support/play.h"

#include <ev.h>
#include <poll.h>

SCENE_SUITE(writable);

enum { FEW = 16 };

/* An engine whose nodes are all taken. */
static void begin_without_nodes(ferry_loop_mode loop)
{
    scene_options(loop)->max_nodes = FEW;
    (void)take_all_nodes();
}

static void *release_elsewhere(void *arg)
{
    ferry_future_release(arg);
    return NULL;
}

/* Any of the promises that hold the nodes. */
static ferry_promise *node(void)
{
    return the_promise("a node");
}

/* ---- the future itself ---- */

Test(writable, writable_wakes_the_users_loop_and_calls_back)
{
    begin_without_nodes(FERRY_LOOP_EMBEDDED);
    play("w = writable; waiter told on w");
    do
        scene_settle();
    while (ferry_engine_arm(engine()) != FERRY_OK);
    struct pollfd fd = {.fd = ferry_engine_fd(engine()), .events = POLLIN};
    cr_assert_eq(poll(&fd, 1, 0), 0);
    play("timer -1");
    ferry_future *last = ferry_promise_future(node());
    give_node();
    play("settle; called told 0"); /* its node is still held */
    while (ferry_engine_arm(engine()) != FERRY_OK)
        scene_settle();
    pthread_t thread = begin_thread(release_elsewhere, last);
    cr_assert_eq(poll(&fd, 1, -1), 1);
    (void)end_thread(thread);
    play("settle; called told 1");
    ASSERT_STATUS(the_waiter("told")->status, FERRY_OK);
    play("now w OK");
}

typedef struct retrier {
    ferry_waiter waiter; /* first */
    ferry_promise *promise;
    struct ev_loop *loop;
} retrier;

static void retry_in_callback(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)future;
    retrier *self = (retrier *)(void *)waiter;
    ASSERT_STATUS(status, FERRY_OK);
    ASSERT_STATUS(ferry_promise_create(engine(), &self->promise), FERRY_OK);
    ev_break(self->loop, EVBREAK_ALL);
}

Test(writable, writable_in_a_libev_loop)
{
    struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
    ferry_engine_options *options = scene_options(FERRY_LOOP_ATTACHED);
    options->ev_loop = loop;
    options->max_nodes = FEW;
    (void)take_all_nodes();
    ferry_future *last = ferry_promise_future(node());
    give_node();
    play("w = writable");
    retrier self = {.waiter = FERRY_WAITER_INIT(retry_in_callback, NULL), .loop = loop};
    ASSERT_STATUS(ferry_future_on_ready(the_future("w"), &self.waiter), FERRY_OK);
    (void)ev_run(loop, EVRUN_NOWAIT);
    cr_assert_null(self.promise);
    pthread_t thread = begin_thread(release_elsewhere, last);
    ev_run(loop, 0);
    cr_assert_not_null(own(self.promise));
    (void)end_thread(thread);
    scene_end();
    ev_loop_destroy(loop);
}

Test(writable, a_pending_writable_holds_no_drain)
{
    scene_options(FERRY_LOOP_EMBEDDED)->max_nodes = FEW;
    play("d = drain; settle");
    (void)take_all_nodes();
    play("w = writable; settle; now d OK");
    give_all_nodes();
    play("wait w OK");
}

Test(writable, a_cancel_is_seen_by_all_and_one_asks_again)
{
    begin_without_nodes(FERRY_LOOP_EMBEDDED);
    play("mine = writable; yours = writable; cancel mine; expect mine yours CANCELLED;"
         "release mine yours; yours = writable; now yours PENDING");
    give_all_nodes();
    play("expect yours OK");
}

Test(writable, nobody_need_keep_it)
{
    begin_without_nodes(FERRY_LOOP_EMBEDDED);
    for (int i = 0; i < 100; i++)
        play("writable; release it; settle");
    give_all_nodes();
    play("settle; writable; now it OK");
}

/* Each that has resolved and is kept is one of 16; further ones are nodes like others. */
Test(writable, old_ones_that_are_kept)
{
    enum { KEPT = 16 };
    scene_options(FERRY_LOOP_EMBEDDED)->max_nodes = FEW;
    for (int i = 0; i < KEPT; i++) {
        (void)take_all_nodes();
        play("kept%d = writable; now kept%d PENDING", i, i);
        give_node();
        play("expect kept%d OK", i);
    }
    (void)take_all_nodes();
    play("none = writable");
    cr_assert_eq(ferry_future_id(the_future("none")), 0);
    play("now none AGAIN; release kept7; kept7 = writable; now kept7 PENDING");
    give_all_nodes();
    play("expect kept7 OK");
}

static void shutdown_resolves_it(ferry_loop_mode loop)
{
    begin_without_nodes(loop);
    play("w = writable; now w PENDING");
    ASSERT_STATUS(ferry_engine_shutdown(engine(), -1), FERRY_OK);
    play("now w SHUTDOWN");
    give_all_nodes();
    play("writable; now it SHUTDOWN");
    scene_end();
}

Test(writable, shutdown_resolves_a_pending_writable)
{
    shutdown_resolves_it(FERRY_LOOP_EMBEDDED);
    shutdown_resolves_it(FERRY_LOOP_THREAD);
}

Test(writable, an_engine_goes_with_a_writable_that_was_cancelled_or_kept)
{
    begin_without_nodes(FERRY_LOOP_EMBEDDED);
    play("w = writable; cancel w; expect w CANCELLED; release w");
    give_all_nodes();
    scene_end();

    begin_without_nodes(FERRY_LOOP_EMBEDDED);
    play("w = writable");
    while (scene_release("a node"))
        continue;
    scene_drop();
    play("now w SHUTDOWN");
}

Test(writable, writable_of_nothing_is_invalid)
{
    ASSERT_STATUS(status_of(ferry_engine_writable(NULL)), FERRY_E_INVALID);
}

/* ---- several threads ---- */

enum { THREADS = 3, OPERATIONS = 3000 };

typedef struct submitter {
    uint32_t done, tries;
} submitter;

/* Tries until it is taken, and sleeps in between. */
static void *submit_all(void *arg)
{
    submitter *self = arg;
    while (self->done < OPERATIONS) {
        ferry_future *nop = ferry_nop(engine(), NULL);
        self->tries++;
        ferry_status status = ferry_future_wait(nop, -1);
        ferry_future_release(nop);
        if (status == FERRY_OK) {
            self->done++;
            continue;
        }
        ASSERT_STATUS(status, FERRY_E_AGAIN);
        ferry_future *writable = ferry_engine_writable(engine());
        ASSERT_STATUS(ferry_future_wait(writable, -1), FERRY_OK);
        ferry_future_release(writable);
    }
    return NULL;
}

static void threads_share_two_nodes(ferry_loop_mode loop)
{
    scene_options(loop)->max_nodes = 2;
    (void)engine(); /* this thread's */
    pthread_t threads[THREADS];
    submitter submitters[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        submitters[i] = (submitter){0};
        threads[i] = begin_thread(submit_all, &submitters[i]);
    }
    for (size_t i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
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
        ferry_promise *all[FEW + 1];
        size_t count = 0;
        while ((status = ferry_promise_create(te.engine, &all[count])) == FERRY_OK)
            cr_assert_leq(++count, FEW);
        cr_assert(status == FERRY_E_AGAIN || status == FERRY_E_NO_MEMORY);
        ferry_future *writable = ferry_engine_writable(te.engine);
        settle(&te);
        ferry_status seen = ferry_future_poll(writable);
        if (status == FERRY_E_AGAIN)
            ASSERT_STATUS(seen, FERRY_PENDING);
        else
            cr_assert(seen == FERRY_OK || seen == FERRY_E_NO_MEMORY);
        while (count > 0)
            ferry_promise_release(all[--count]);
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
