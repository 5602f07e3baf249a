/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After the loop has stopped, and while it stops: what somebody leaves with the holder of the role
 * or of the baton must not stay there.
 */
#include "engine/engine.h"
#include "engine/graph/buffer.h"
#include "engine/graph/emit.h"
#include "engine/graph/node.h"
#include "engine/graph/turn.h"
#include "engine/ground/ground.h"
#include "engine/loop/late.h"
#include "engine/loop/loop.h"
#include "engine/tasks/waiter.h"
#include "tests/support/play.h"

#include <semaphore.h>

SCENE_SUITE(engine_stopped);

static char wrapped[64];
static _Atomic int frees;

static void count_free(void *arg, void *memory, size_t size_bytes)
{
    (void)arg, (void)memory, (void)size_bytes;
    atomic_fetch_add(&frees, 1);
}

/* "b"; count_free is called as it goes. */
static void wrap_counted(void)
{
    ferry_buffer *buffer = NULL;
    ferry_device *device = ferry_device_at(engine(), 0);
    ASSERT_STATUS(ferry_buffer_wrap(device, wrapped, sizeof wrapped, count_free, NULL, &buffer),
                  FERRY_OK);
    cr_assert(scene_own_as(SCENE_BUFFER, buffer, "b"));
}

static void shut_down_now(void)
{
    ASSERT_STATUS(ferry_engine_shutdown(engine(), -1), FERRY_OK);
}

/* ---- the role's holder has looked and not given it back yet ---- */

static struct {
    sem_t held, go_on;
} gate;

static void await(sem_t *semaphore)
{
    while (sem_wait(semaphore) != 0)
        continue;
}

/* A hook runs in a tick after it has looked at what needs the baton. Only a test's own record is a
 * cancel. */
static void stand_still(void *arg, const ferry_trace_record *record)
{
    (void)arg;
    if (record->what != FERRY_TRACE_CANCEL)
        return;
    (void)sem_post(&gate.held);
    await(&gate.go_on);
}

/* Has the hook called in the tick after this one, which has nothing else to do. */
static void leave_record(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)waiter, (void)status;
    fry_emit_now(fry_engine_of(future), fry_node_of(future), FERRY_TRACE_CANCEL, 0);
}

static void *hold_the_role(void *arg)
{
    static ferry_waiter waiter = FERRY_WAITER_INIT(leave_record, NULL);
    ASSERT_STATUS(ferry_future_on_ready(arg, &waiter), FERRY_OK);
    return NULL;
}

static void gate_open(void)
{
    (void)sem_init(&gate.held, 0, 0);
    (void)sem_init(&gate.go_on, 0, 0);
}

static void a_buffer_is_freed(ferry_loop_mode loop)
{
    scene_begin(loop);
    gate_open();
    ferry_trace_hooks hooks = {.struct_size = sizeof hooks, .record = stand_still};
    ASSERT_STATUS(ferry_engine_trace(engine(), &hooks), FERRY_OK);
    wrap_counted();
    play("resolved = nop");
    shut_down_now();

    pthread_t holder = begin_thread(hold_the_role, the_future("resolved"));
    await(&gate.held);
    play("release b"); /* left with the holder */
    cr_assert_eq(frees, 0);
    (void)sem_post(&gate.go_on);
    (void)end_thread(holder);
    cr_assert_eq(frees, 1, "the holder looks once more when it has given the role back");
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
    play("resolved = nop");
    shut_down_now();
    cr_assert(fry_baton_take(&engine()->role)); /* as a thread in progress has */
    for (int i = 0; i < WAITERS; i++)
        play("waiter w%d on resolved; called w%d 0", i, i);
    fry_baton_give(&engine()->role);
    (void)ferry_engine_progress(engine(), 1);
    for (int i = 0; i < WAITERS; i++)
        play("called w%d 1", i);
}

/* ---- somebody has the baton ---- */

Test(engine_stopped, what_needs_the_baton_is_left_with_its_holder)
{
    scene_begin(FERRY_LOOP_THREAD);
    wrap_counted();
    shut_down_now();
    fry_turn turn;
    cr_assert(fry_turn_begin(&turn, engine(), fry_context_get(engine()), false));
    play("release b"); /* returns, though nothing can be done now */
    cr_assert_eq(frees, 0);
    (void)fry_turn_end(&turn, engine()->submit_budget);
    cr_assert_eq(frees, 0, "who gives the baton back wakes, and no more");
    fry_late_call_ends(engine());
    cr_assert_eq(frees, 1);
}

Test(engine_stopped, releasing_the_engine_sees_to_what_was_left_while_it_had_the_baton)
{
    scene_begin(FERRY_LOOP_THREAD);
    wrap_counted();
    shut_down_now();
    cr_assert(fry_baton_take(&engine()->baton)); /* as ferry_engine_release does */
    play("release b");
    cr_assert_eq(frees, 0);
    fry_baton_give(&engine()->baton);
    scene_end();
    cr_assert_eq(frees, 1);
}

Test(engine_stopped, no_callback_runs_under_the_baton)
{
    play("resolved = nop");
    shut_down_now();
    fry_turn turn;
    cr_assert(fry_turn_begin(&turn, engine(), fry_context_get(engine()), false));
    counted_waiter counted;
    counted_waiter_init(&counted, NULL);
    counted.waiter.private_.state = 1;
    counted.waiter.private_.future = ferry_future_retain(the_future("resolved"));
    fry_fire_waiter(&engine()->owner, &counted.waiter);
    /* A straggler's operation resolves; its thread waits for it. */
    ferry_waiter waiting = FERRY_WAITER_INIT(fry_waiter_is_embedded, NULL);
    waiting.private_.state = 1;
    fry_fire_waiter(&engine()->owner, &waiting);
    cr_assert_eq(waiting.private_.state, 0);
    cr_assert_eq(counted.calls, 0);
    (void)fry_turn_end(&turn, engine()->submit_budget);
    cr_assert_eq(counted.calls, 0);
    fry_late_call_ends(engine());
    cr_assert_eq(counted.calls, 1);
}

Test(engine_stopped, stopped_is_for_good)
{
    scene_begin(FERRY_LOOP_EMBEDDED);
    shut_down_now();
    cr_assert(fry_baton_take(&engine()->role));
    cr_assert_not(fry_arm(engine())); /* a thread that waits for a straggler's operation */
    fry_baton_give(&engine()->role);
    cr_assert_eq(engine()->asleep, FRY_STOPPED);
    scene_drop();
}

/* ---- a shutdown that gives up ---- */

static void hold_the_loop(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)waiter, (void)future, (void)status;
    (void)sem_post(&gate.held);
    await(&gate.go_on);
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
    gate_open();
    play("promise p; resolved = nop");
    ferry_future *pending = the_future("p");
    ferry_waiter waiter = FERRY_WAITER_INIT(hold_the_loop, NULL);
    ASSERT_STATUS(ferry_future_on_ready(the_future("resolved"), &waiter), FERRY_OK);

    /* The shutdown can't cancel anything: the baton is taken. It stands in the callback. */
    cr_assert(fry_baton_take(&engine()->baton));
    pthread_t ending = begin_thread(shut_down, engine());
    await(&gate.held);
    pthread_t waiting = begin_thread(wait_for, pending);
    while ((fry_load_acquire(&pending->waiters) & FRY_PARKED) == 0)
        sched_yield();
    (void)sem_post(&gate.go_on);
    (void)end_thread(ending);
    fry_baton_give(&engine()->baton);

    /* The role is free, and only a thread that has it can bring the engine on. */
    (void)end_thread(waiting);
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
        ferry_engine_options *options = scene_options(FERRY_LOOP_EMBEDDED);
        options->clock = NULL; /* one that is stepped is looked at each millisecond */
        options->wait_spin_ns = -1;
        play("promise p; n = nop after p");
        pthread_t waiter = begin_thread(wait_for, the_future("n"));
        while (fry_load_acquire(&engine()->sleepers) == 0)
            (void)sched_yield();
        for (int i = 0; i < 100; i++) /* it sleeps when this comes back */
            (void)sched_yield();
        shut_down_now();
        (void)end_thread(waiter);
        scene_end();
    }
}
