/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After the loop has stopped, and while it stops: what somebody leaves with the holder of the role
 * or of the baton must not stay there.
 */
#include "engine/buffer.h"
#include "engine/engine.h"
#include "engine/ground.h"
#include "engine/late.h"
#include "engine/loop.h"
#include "engine/node.h"
#include "engine/trace.h"
#include "engine/turn.h"
#include "engine/waiter.h"
#include "tests/support/api_test.h"
#include "tests/support/owned.h"

#include <semaphore.h>

TestSuite(engine_stopped, .timeout = HANG_S);

static char wrapped[64];
static _Atomic int frees;

static void count_free(void *arg, void *memory, size_t size_bytes)
{
    (void)arg, (void)memory, (void)size_bytes;
    atomic_fetch_add(&frees, 1);
}

static ferry_buffer *counted_buffer(const test_engine *te)
{
    ferry_buffer *buffer = NULL;
    ASSERT_STATUS(ferry_buffer_wrap(ferry_device_at(te->engine, 0), wrapped, sizeof wrapped,
                                    count_free, NULL, &buffer),
                  FERRY_OK);
    return buffer;
}

/* ---- the role's holder has looked and not given it back yet ---- */

static struct {
    sem_t held, go_on;
} gate;

/* A hook runs in a tick after it has looked at what needs the baton. Only a test's own record is a
 * cancel. */
static void stand_still(void *arg, const ferry_trace_record *record)
{
    (void)arg;
    if (record->what != FERRY_TRACE_CANCEL)
        return;
    (void)sem_post(&gate.held);
    while (sem_wait(&gate.go_on) != 0)
        continue;
}

/* Has the hook called in the tick after this one, which has nothing else to do. */
static void leave_record(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)waiter, (void)status;
    fry_trace_emit(fry_engine_of(future), fry_node_of(future), FERRY_TRACE_CANCEL, 0);
}

static void *hold_the_role(void *arg)
{
    static ferry_waiter waiter = FERRY_WAITER_INIT(leave_record, NULL);
    ASSERT_STATUS(ferry_future_on_ready(arg, &waiter), FERRY_OK);
    return NULL;
}

static void a_buffer_is_freed(ferry_loop_mode loop)
{
    OPENED_WITH(test_engine, te, loop);
    (void)sem_init(&gate.held, 0, 0);
    (void)sem_init(&gate.go_on, 0, 0);
    ferry_trace_hooks hooks = {.struct_size = sizeof hooks, .record = stand_still};
    ASSERT_STATUS(ferry_engine_trace(te.engine, &hooks), FERRY_OK);
    ferry_buffer *buffer = counted_buffer(&te);
    ferry_future *resolved = ferry_nop(te.engine, NULL);
    ASSERT_STATUS(ferry_engine_shutdown(te.engine, -1), FERRY_OK);

    pthread_t holder;
    cr_assert_eq(pthread_create(&holder, NULL, hold_the_role, resolved), 0);
    while (sem_wait(&gate.held) != 0)
        continue;
    ferry_buffer_release(buffer); /* left with the holder */
    cr_assert_eq(frees, 0);
    (void)sem_post(&gate.go_on);
    cr_assert_eq(pthread_join(holder, NULL), 0);
    cr_assert_eq(frees, 1, "the holder looks once more when it has given the role back");
    ferry_future_release(resolved);
}

Test(engine_stopped, what_is_left_with_a_holder_that_found_nothing_is_done)
{
    a_buffer_is_freed(FERRY_LOOP_THREAD);
}

Test(engine_stopped, what_is_left_with_a_holder_that_found_nothing_is_done_embedded)
{
    a_buffer_is_freed(FERRY_LOOP_EMBEDDED);
}

Test(engine_stopped, progress_sees_to_all_that_was_left_however_small_its_budget)
{
    enum { WAITERS = 5 };
    OPENED_WITH(test_engine, te, FERRY_LOOP_EMBEDDED);
    ferry_future *resolved = ferry_nop(te.engine, NULL);
    ASSERT_STATUS(ferry_engine_shutdown(te.engine, -1), FERRY_OK);
    counted_waiter waiters[WAITERS];
    cr_assert(fry_baton_take(&te.engine->role)); /* as a thread in progress has */
    for (int i = 0; i < WAITERS; i++) {
        counted_waiter_init(&waiters[i], NULL);
        ASSERT_STATUS(ferry_future_on_ready(resolved, &waiters[i].waiter), FERRY_OK);
        cr_assert_eq(waiters[i].calls, 0);
    }
    fry_baton_give(&te.engine->role);
    (void)ferry_engine_progress(te.engine, 1);
    for (int i = 0; i < WAITERS; i++)
        cr_assert_eq(waiters[i].calls, 1);
    ferry_future_release(resolved);
}

/* ---- somebody has the baton ---- */

Test(engine_stopped, what_needs_the_baton_is_left_with_its_holder)
{
    OPENED_WITH(test_engine, te, FERRY_LOOP_THREAD);
    ferry_buffer *buffer = counted_buffer(&te);
    ASSERT_STATUS(ferry_engine_shutdown(te.engine, -1), FERRY_OK);
    fry_turn turn;
    cr_assert(fry_turn_begin(&turn, te.engine, fry_context_get(te.engine), false));
    ferry_buffer_release(buffer); /* returns, though nothing can be done now */
    cr_assert_eq(frees, 0);
    (void)fry_turn_end(&turn, te.engine->submit_budget);
    cr_assert_eq(frees, 0, "who gives the baton back wakes, and no more");
    fry_call_ends(te.engine);
    cr_assert_eq(frees, 1);
}

Test(engine_stopped, releasing_the_engine_sees_to_what_was_left_while_it_had_the_baton)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_THREAD);
    ferry_buffer *buffer = counted_buffer(&te);
    ASSERT_STATUS(ferry_engine_shutdown(te.engine, -1), FERRY_OK);
    cr_assert(fry_baton_take(&te.engine->baton)); /* as ferry_engine_release does */
    ferry_buffer_release(buffer);
    cr_assert_eq(frees, 0);
    fry_baton_give(&te.engine->baton);
    test_engine_close(&te);
    cr_assert_eq(frees, 1);
}

Test(engine_stopped, no_callback_runs_under_the_baton)
{
    OPENED_WITH(test_engine, te, FERRY_LOOP_EMBEDDED);
    ferry_future *resolved = ferry_nop(te.engine, NULL);
    ASSERT_STATUS(ferry_engine_shutdown(te.engine, -1), FERRY_OK);
    fry_turn turn;
    cr_assert(fry_turn_begin(&turn, te.engine, fry_context_get(te.engine), false));
    counted_waiter counted;
    counted_waiter_init(&counted, NULL);
    counted.waiter.private_.state = 1;
    counted.waiter.private_.future = ferry_future_retain(resolved);
    fry_fire_waiter(&te.engine->owner, &counted.waiter);
    /* A straggler's operation resolves; its thread waits for it. */
    ferry_waiter waiting = FERRY_WAITER_INIT(fry_waiter_is_embedded, NULL);
    waiting.private_.state = 1;
    fry_fire_waiter(&te.engine->owner, &waiting);
    cr_assert_eq(waiting.private_.state, 0);
    cr_assert_eq(counted.calls, 0);
    (void)fry_turn_end(&turn, te.engine->submit_budget);
    cr_assert_eq(counted.calls, 0);
    fry_call_ends(te.engine);
    cr_assert_eq(counted.calls, 1);
    ferry_future_release(resolved);
}

Test(engine_stopped, stopped_is_for_good)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ASSERT_STATUS(ferry_engine_shutdown(te.engine, -1), FERRY_OK);
    cr_assert(fry_baton_take(&te.engine->role));
    cr_assert_not(fry_arm(te.engine)); /* a thread that waits for a straggler's operation */
    fry_baton_give(&te.engine->role);
    cr_assert_eq(te.engine->asleep, FRY_STOPPED);
    ferry_engine_release(te.engine);
}

/* ---- a shutdown that gives up ---- */

static void hold_the_loop(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)waiter, (void)future, (void)status;
    (void)sem_post(&gate.held);
    while (sem_wait(&gate.go_on) != 0)
        continue;
}

static void *shut_down(void *arg)
{
    ASSERT_STATUS(ferry_engine_shutdown(arg, 0), FERRY_E_DEADLINE);
    return NULL;
}

static void *wait_for(void *arg)
{
    ASSERT_STATUS(ferry_future_wait(arg, -1), FERRY_E_SHUTDOWN);
    return NULL;
}

Test(engine_stopped, a_shutdown_that_gives_up_hands_the_role_to_a_waiting_thread)
{
    OPENED_WITH(test_engine, te, FERRY_LOOP_EMBEDDED);
    (void)sem_init(&gate.held, 0, 0);
    (void)sem_init(&gate.go_on, 0, 0);
    ferry_promise *promise = test_promise(&te);
    ferry_future *pending = ferry_promise_future(promise);
    ferry_future *resolved = ferry_nop(te.engine, NULL);
    ferry_waiter waiter = FERRY_WAITER_INIT(hold_the_loop, NULL);
    ASSERT_STATUS(ferry_future_on_ready(resolved, &waiter), FERRY_OK);

    /* The shutdown can't cancel anything: the baton is taken. It stands in the callback. */
    cr_assert(fry_baton_take(&te.engine->baton));
    pthread_t ending, waiting;
    cr_assert_eq(pthread_create(&ending, NULL, shut_down, te.engine), 0);
    while (sem_wait(&gate.held) != 0)
        continue;
    cr_assert_eq(pthread_create(&waiting, NULL, wait_for, pending), 0);
    while ((fry_load_acquire(&pending->waiters) & FRY_PARKED) == 0)
        sched_yield();
    (void)sem_post(&gate.go_on);
    cr_assert_eq(pthread_join(ending, NULL), 0);
    fry_baton_give(&te.engine->baton);

    /* The role is free, and only a thread that has it can bring the engine on. */
    cr_assert_eq(pthread_join(waiting, NULL), 0);
    ferry_promise_release(promise);
    ferry_future_release(pending);
    ferry_future_release(resolved);
}

/* ---- a thread that waits sleeps on the poller ---- */

/* On one processor the thread that shuts down takes the wake it wrote itself before the one that
 * sleeps gets to see it; and what that one waits for is resolved in the tick that is the last. */
Test(engine_stopped, a_waiting_thread_is_woken_by_the_last_tick)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((size_t)sched_getcpu(), &one);
    cr_assert_eq(sched_setaffinity(0, sizeof one, &one), 0);
    for (int round = 0; round < 20; round++) {
        test_engine te;
        ferry_engine_options options = test_engine_options(&te, FERRY_LOOP_EMBEDDED);
        options.clock = NULL; /* one that is stepped is looked at each millisecond */
        options.wait_spin_ns = -1;
        test_engine_create(&te, &options);
        ferry_promise *promise = test_promise(&te);
        ferry_future *nop = nop_after_promise(&te, promise);
        pthread_t waiter;
        cr_assert_eq(pthread_create(&waiter, NULL, wait_for, nop), 0);
        while (fry_load_acquire(&te.engine->sleepers) == 0)
            (void)sched_yield();
        for (int i = 0; i < 100; i++) /* it sleeps when this comes back */
            (void)sched_yield();
        ASSERT_STATUS(ferry_engine_shutdown(te.engine, -1), FERRY_OK);
        (void)pthread_join(waiter, NULL);
        ferry_future_release(nop);
        ferry_promise_release(promise);
        ferry_engine_release(te.engine);
        cr_assert_eq(failing_allocator_live_bytes(&te.memory), 0);
    }
}
