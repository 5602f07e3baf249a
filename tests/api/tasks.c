/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks in the hands of users' executors: their bound, run twice, run never. */
#include "tests/support/play.h"

#include <stdio.h>
#include <stdlib.h>

SCENE_SUITE(tasks);

/* An engine with so many tasks. */
static void begin(ferry_loop_mode loop, uint32_t max_tasks)
{
    scene_options(loop)->max_tasks = max_tasks;
}

static ferry_future *call(void)
{
    return own(ferry_call(engine(), &by_hand()->executor, count_call, scene_calls(), NULL));
}

/* ---- the bound ---- */

enum { MANY = 10 };

Test(tasks, calls_wait_their_turn_when_the_bound_is_reached)
{
    begin(FERRY_LOOP_EMBEDDED, 2);
    for (int i = 0; i < MANY; i++)
        play("c%d = call by hand", i);
    play("i = issued c2; posted 2; expect i PENDING");
    for (int i = 0; i < MANY; i++)
        play("run; now c%d OK; calls %d; posted %d", i, i + 1, i < MANY - 2 ? 2 : MANY - 1 - i);
    play("now i OK");
}

typedef struct placed {
    counted_waiter counted; /* first */
    int place;
} placed;

static int last_place;

static void note_place(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    ((placed *)(void *)waiter)->place = ++last_place;
    count_ready(waiter, future, status);
}

static void place(placed *self, ferry_executor *executor, ferry_future *future)
{
    counted_waiter_init(&self->counted, executor);
    self->counted.waiter.fn = note_place;
    self->place = 0;
    ASSERT_STATUS(ferry_future_on_ready(future, &self->counted.waiter), FERRY_OK);
}

/* Waiters on the operation, whose callbacks are tasks of the executor. */
static void place_all(placed waiters[], int count, ferry_future *future)
{
    for (int i = 0; i < count; i++)
        place(&waiters[i], &by_hand()->executor, future);
}

Test(tasks, callbacks_wait_their_turn_in_order)
{
    static placed waiters[MANY];
    begin(FERRY_LOOP_EMBEDDED, 3);
    play("n = nop");
    place_all(waiters, MANY, the_future("n"));
    play("posted 3");
    for (int i = 0; i < MANY; i++) {
        manual_run_one(by_hand());
        cr_assert_eq(waiters[i].place, i + 1);
        scene_settle();
    }
}

static void run_one_held(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)waiter, (void)future, (void)status;
    manual_run_one(by_hand());
}

Test(tasks, callbacks_do_not_overtake_those_that_wait)
{
    static placed first, second, third;
    begin(FERRY_LOOP_EMBEDDED, 1);
    play("held = call by hand; settle");
    place(&first, &by_hand()->executor, the_future("held"));
    play("n = nop");
    place(&second, &by_hand()->executor, the_future("n"));
    scene_settle(); /* `second` waits */
    ferry_waiter between = FERRY_WAITER_INIT(run_one_held, NULL);
    ASSERT_STATUS(ferry_future_on_ready(the_future("n"), &between), FERRY_OK);
    place(&third, &by_hand()->executor,
          the_future("n")); /* finds the task that `between` has freed */
    scene_settle();
    while (manual_waiting(by_hand()) != 0)
        play("run");
    cr_assert_eq(second.place, 1);
    cr_assert_lt(second.place, third.place);
    cr_assert_eq(first.counted.calls, 1);
    play("expect held OK");
}

Test(tasks, what_runs_on_the_loop_passes_what_waits_for_a_task)
{
    begin(FERRY_LOOP_EMBEDDED, 1);
    play("held = call by hand; waiting = call by hand; on_loop = call;"
         "waiter posted on on_loop by hand; waiter plain on on_loop; expect on_loop OK;"
         "called plain 1; called posted 0; expect waiting PENDING; run 3; called posted 1;"
         "expect held waiting OK");
}

Test(tasks, calls_and_callbacks_take_turns_at_the_bound)
{
    static placed waiters[MANY];
    begin(FERRY_LOOP_EMBEDDED, 1);
    play("n = nop");
    for (int i = 0; i < MANY; i++) {
        play("c%d = call by hand", i);
        place(&waiters[i], &by_hand()->executor, the_future("n"));
    }
    play("run %d", MANY); /* half of all */
    int calls = *scene_calls();
    cr_assert_geq(calls, MANY / 2 - 1, "%d", calls);
    cr_assert_leq(calls, MANY / 2 + 1, "%d", calls);
    play("run %d", MANY);
    for (int i = 0; i < MANY; i++) {
        play("expect c%d OK", i);
        cr_assert_eq(waiters[i].counted.calls, 1);
    }
}

Test(tasks, the_loop_sleeps_meanwhile_and_a_run_wakes_it)
{
    begin(FERRY_LOOP_EMBEDDED, 1);
    play("n = nop");
    for (int round = 0; round < 2; round++) { /* for a call, for a callback */
        play("first%d = call by hand; %s; settle; posted 1; timer -1", round,
             round == 0 ? "second = call by hand" : "settle; waiter w on n by hand");
        ASSERT_STATUS(ferry_engine_arm(engine()), FERRY_OK);
        cr_assert_not(scene_is_readable());
        manual_run_one(by_hand());
        cr_assert(scene_is_readable());
        play("timer 0");
        ASSERT_STATUS(ferry_engine_arm(engine()), FERRY_E_BUSY);
        play("posted 1; run; expect first%d OK", round);
    }
    play("called w 1; expect second OK");
}

static ferry_status wait_for_another(void *arg)
{
    (void)arg;
    ferry_future *inner = call();
    while (ferry_future_poll(inner) == FERRY_PENDING) {
        scene_settle();
        if (manual_waiting(by_hand()) != 0)
            manual_run_one(by_hand()); /* those before it, then it */
    }
    return ferry_future_poll(inner);
}

/* A task is free for others as soon as its function has begun. */
Test(tasks, a_function_may_wait_for_one_that_waits_for_its_task)
{
    begin(FERRY_LOOP_EMBEDDED, 1);
    ferry_future *outer =
        own(ferry_call(engine(), &by_hand()->executor, wait_for_another, NULL, NULL));
    play("next = call by hand; posted 1");
    manual_run_one(by_hand());
    EXPECT(outer, OK);
    play("expect next OK");
}

Test(tasks, what_waits_for_a_task_can_be_cancelled_or_be_late)
{
    begin(FERRY_LOOP_EMBEDDED, 1);
    play("held = call by hand; cancelled = call by hand; late = call by hand deadline 1000;"
         "last = call by hand; settle; q = quiet cancelled; cancel cancelled;"
         "expect cancelled CANCELLED; expect q OK; step 1000; expect late DEADLINE;"
         "posted 1; run; posted 1; run; calls 2; expect held last OK");
}

/* ---- no memory ---- */

static void without_memory(bool with_calls)
{
    enum { THERE = 64, WANTED = 100 };
    static placed waiters[WANTED];
    begin(FERRY_LOOP_EMBEDDED, 0);
    play("n = nop");
    for (int i = 0; with_calls && i < WANTED; i++)
        play("c%d = call by hand", i);
    if (!with_calls)
        place_all(waiters, WANTED, the_future("n"));
    failing_allocator_arm(&scene()->memory, 1, true);
    play("posted %d", THERE);
    ASSERT_STATUS(ferry_engine_arm(engine()), FERRY_OK);
    manual_run_one(by_hand());
    play("posted %d", THERE);
    failing_allocator_arm(&scene()->memory, 0, false);
    (void)ferry_engine_progress(engine(), 1); /* sees to tasks, and hands out at most one */
    ASSERT_STATUS(ferry_engine_arm(engine()), FERRY_E_BUSY);
    play("posted %d", WANTED - 1);
    run_posted();
    for (int i = 0; i < WANTED; i++) {
        if (with_calls)
            play("expect c%d OK", i);
        else
            cr_assert_eq(waiters[i].place, i + 1);
    }
}

Test(tasks, calls_without_memory_for_a_task_wait_their_turn)
{
    without_memory(true);
}

Test(tasks, callbacks_without_memory_for_a_task_wait_their_turn)
{
    without_memory(false);
}

Test(tasks, the_steady_state_allocates_nothing)
{
    static placed waiter;
    begin(FERRY_LOOP_EMBEDDED, 0);
    uint64_t before = 0;
    for (int i = 0; i < 300; i++) {
        if (i == 100)
            before = failing_allocator_calls(&scene()->memory);
        ferry_future *once =
            ferry_call(engine(), &by_hand()->executor, count_call, scene_calls(), NULL);
        place(&waiter, &by_hand()->executor, once);
        play("run");
        manual_run_one(by_hand());
        cr_assert_eq(waiter.counted.calls, 1);
        ASSERT_STATUS(status_of(once), FERRY_OK);
    }
    cr_assert_eq(failing_allocator_calls(&scene()->memory), before);
}

/* ---- twice ---- */

static void assert_warned_of(int count, uint64_t op)
{
    char number[32];
    (void)snprintf(number, sizeof number, "operation %llu ", (unsigned long long)op);
    cr_assert_eq(scene_warnings(), count, "%d: %s", scene_warnings(), scene_warning(-1));
    cr_assert_not_null(strstr(scene_warning(-1), number), "%s", scene_warning(-1));
}

Test(tasks, one_that_is_run_twice_is_run_once_and_told_of)
{
    begin(FERRY_LOOP_EMBEDDED, 0);
    play("once = call by hand; settle");
    uint64_t op = ferry_future_id(the_future("once"));
    ferry_task *task = by_hand()->tasks[0];
    manual_run_one(by_hand());
    ferry_task_run(task); /* its function has run, the loop has not heard */
    assert_warned_of(1, op);
    play("settle; waiter w on once by hand; now once OK; release once");
    ferry_task_run(task); /* the call is gone, with its memory */
    assert_warned_of(2, op);
    scene_settle();
    ferry_task *second = by_hand()->tasks[1];
    manual_run_one(by_hand());
    ferry_task_run(second);
    cr_assert_eq(scene_warnings(), 2, "told at the first, second and fourth");
    ferry_task_run(second);
    assert_warned_of(3, op);
    play("calls 1; called w 1");
}

static void run_twice(ferry_executor *executor, ferry_task *task)
{
    (void)executor;
    ferry_task_run(task);
    ferry_task_run(task);
}

Test(tasks, an_executor_that_runs_all_twice_harms_nothing)
{
    begin(FERRY_LOOP_THREAD, 0);
    ferry_executor twice = {.struct_size = sizeof twice, .post = run_twice};
    ferry_future *last = NULL;
    for (int i = 0; i < 1000; i++) {
        ferry_op_options options = FERRY_OP_OPTIONS_INIT;
        options.after = &last;
        options.after_count = i > 0;
        ferry_future *next = ferry_call(engine(), &twice, count_call, scene_calls(), &options);
        ferry_future_release(last);
        last = next;
    }
    EXPECT(own(last), OK);
    ASSERT_STATUS(ferry_engine_shutdown(engine(), -1), FERRY_OK);
    cr_assert_eq(*scene_calls(), 1000);
    cr_assert_eq(scene_warnings(), 10, "at 1, 2, 4... 512");
}

/* ---- never ---- */

Test(tasks, one_that_is_never_run_holds_neither_cancel_nor_deadline)
{
    begin(FERRY_LOOP_EMBEDDED, 0);
    play("late = call by hand deadline 1000; cancelled = call by hand; posted 2; d = drain;"
         "step 1000; cancel cancelled; expect late DEADLINE; expect cancelled CANCELLED;"
         "expect d OK; release late cancelled d");
    ASSERT_STATUS(ferry_engine_shutdown(engine(), -1), FERRY_OK);
    manual_run_one(by_hand()); /* owed all the same: they keep the memory */
    manual_run_one(by_hand());
    cr_assert_eq(*scene_calls(), 0);
}

/* Posted and not run: two calls and a callback; waiting for a task: calls and callbacks. */
static void shutdown_without_runs(ferry_loop_mode loop)
{
    static placed waiters[MANY];
    begin(loop, 3);
    play("n = nop; wait n OK");
    for (int i = 0; i < MANY; i++) {
        place(&waiters[i], &by_hand()->executor, the_future("n"));
        if (i < 2)
            wait_posted(2 * (size_t)i + 1);
        play("c%d = call by hand", i);
        if (i == 0)
            wait_posted(2);
    }
    ASSERT_STATUS(ferry_engine_shutdown(engine(), -1), FERRY_OK);
    for (int i = 0; i < MANY; i++)
        play("now c%d SHUTDOWN; release c%d", i, i);
    cr_assert_eq(manual_waiting(by_hand()), 3);
    for (int i = 0; i < 2; i++)
        manual_run_one(by_hand());
    cr_assert_eq(manual_waiting(by_hand()), 3, "who runs one posts what waited for it");
    play("release n");
    scene_leave();
    cr_assert_neq(failing_allocator_live_bytes(&scene()->memory), 0, "the tasks keep it");
    run_posted();
    cr_assert_eq(*scene_calls(), 0);
    for (int i = 0; i < MANY; i++)
        cr_assert_eq(waiters[i].place, i + 1);
}

Test(tasks, a_shutdown_waits_for_none_of_them)
{
    shutdown_without_runs(FERRY_LOOP_THREAD);
}

Test(tasks, a_shutdown_waits_for_none_of_them_embedded)
{
    shutdown_without_runs(FERRY_LOOP_EMBEDDED);
}

/* ---- after the shutdown ---- */

/* An allocator that has no memory, and when it is asked again and again with no callback called in
 * between (so the thread that stands for the loop has found nothing to do) has another thread
 * register one. */
typedef struct registering {
    ferry_allocator plain;
    bool is_on;
    ferry_future *future;
    placed waiters[4];
    int registered;
    int called_before; /* callbacks, when it was asked last */
    int asked;         /* since a callback was called or registered */
} registering;

static void *register_one(void *arg)
{
    registering *self = arg;
    place(&self->waiters[self->registered], NULL, self->future);
    return NULL;
}

static void *alloc_registering(void *arg, size_t size_bytes, size_t align_bytes)
{
    registering *self = arg;
    if (!self->is_on)
        return self->plain.alloc(self->plain.arg, size_bytes, align_bytes);
    self->asked = self->called_before == last_place ? self->asked + 1 : 0;
    self->called_before = last_place;
    if (self->asked == 2 && self->registered < 4) {
        (void)in_thread(register_one, self);
        self->registered++;
        self->asked = 0;
    }
    return NULL;
}

static void free_registering(void *arg, void *memory, size_t size_bytes)
{
    registering *self = arg;
    self->plain.free(self->plain.arg, memory, size_bytes);
}

Test(tasks, a_callback_registered_while_another_thread_stands_for_the_loop_is_called)
{
    enum { THERE = 64 };
    static registering self;
    static placed posted[THERE + 1], direct;
    static ferry_allocator allocator = {alloc_registering, free_registering, &self};
    ferry_engine_options *options = scene_options(FERRY_LOOP_EMBEDDED);
    self.plain = *options->allocator;
    options->allocator = &allocator;
    self.future = own(ferry_nop(engine(), NULL));
    place_all(posted, THERE, self.future);
    scene_settle();
    ASSERT_STATUS(ferry_engine_shutdown(engine(), -1), FERRY_OK);
    self.is_on = true;
    /* It waits for a task, so the thread asks for memory at the end of each look. */
    place(&posted[THERE], &by_hand()->executor, self.future);
    place(&direct, NULL, self.future);
    self.is_on = false;
    cr_assert_eq(direct.counted.calls, 1);
    for (int i = 0; i < self.registered; i++)
        cr_assert_eq(self.waiters[i].counted.calls, 1, "callback %d was left behind", i);
    cr_assert_eq(self.registered, 4);
    run_posted();
    cr_assert_eq(posted[THERE].counted.calls, 1);
}

/* An executor that, as it is given a task, takes back a waiter whose own has begun to run. */
typedef struct taking_back {
    manual_executor manual; /* first */
    placed *waiter;         /* or NULL */
    bool was_taken_back;
} taking_back;

static void take_back_and_keep(ferry_executor *executor, ferry_task *task)
{
    taking_back *self = (taking_back *)(void *)executor;
    if (self->waiter != NULL)
        self->was_taken_back = ferry_waiter_remove(&self->waiter->counted.waiter);
    manual_post(executor, task);
}

/*
 * Who runs a task after the shutdown stands for the loop within that run: another callback gets the
 * same task, before the first is called.
 */
Test(tasks, one_that_has_begun_is_not_taken_back_by_its_next_use)
{
    static placed first, next;
    static taking_back executor;
    begin(FERRY_LOOP_EMBEDDED, 1);
    manual_executor_init(&executor.manual);
    executor.manual.executor.post = take_back_and_keep;
    ferry_future *nop = own(ferry_nop(engine(), NULL));
    place(&first, &executor.manual.executor, nop);
    place(&next, &executor.manual.executor, nop);
    scene_settle();
    ASSERT_STATUS(ferry_engine_shutdown(engine(), -1), FERRY_OK);
    cr_assert_eq(manual_waiting(&executor.manual), 1);
    executor.waiter = &first;
    manual_run_one(&executor.manual);
    cr_assert_eq(manual_waiting(&executor.manual), 1);
    cr_assert(!executor.was_taken_back);
    cr_assert_eq(first.counted.calls, 1);
    manual_run_one(&executor.manual);
    cr_assert_eq(next.counted.calls, 1);
}
