/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks in the hands of users' executors: their bound, run twice, run never. */
#include "tests/support/api_test.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

TestSuite(tasks, .timeout = HANG_S);

/* An engine with few tasks, whose log is kept, and an executor that runs them when told. */
typedef struct fixture {
    test_engine te;
    manual_executor executor;
    _Atomic int calls;
    _Atomic int warnings;
    char warning[512]; /* the last */
} fixture;

static void keep_warning(void *arg, ferry_log_level level, const char *line)
{
    fixture *f = arg;
    if (level != FERRY_LOG_WARNING)
        return;
    (void)snprintf(f->warning, sizeof f->warning, "%s", line);
    atomic_fetch_add(&f->warnings, 1);
}

static void fixture_open(fixture *f, ferry_loop_mode loop, uint32_t max_tasks)
{
    memset(f, 0, sizeof *f);
    manual_executor_init(&f->executor);
    ferry_engine_options options = test_engine_options(&f->te, loop);
    options.max_tasks = max_tasks;
    options.log = keep_warning;
    options.log_arg = f;
    test_engine_create(&f->te, &options);
}

static ferry_future *call(fixture *f)
{
    return ferry_call(f->te.engine, &f->executor.executor, count_call, &f->calls, NULL);
}

static void wait_posted(fixture *f, size_t count)
{
    while (atomic_load(&f->executor.posted) < count)
        sched_yield();
}

/* ---- the bound ---- */

enum { MANY = 10 };

Test(tasks, calls_wait_their_turn_when_the_bound_is_reached)
{
    fixture f;
    fixture_open(&f, FERRY_LOOP_EMBEDDED, 2);
    ferry_future *calls[MANY];
    for (int i = 0; i < MANY; i++)
        calls[i] = call(&f);
    ferry_future *issued = ferry_future_issued(calls[2]);
    settle(&f.te);
    cr_assert_eq(manual_waiting(&f.executor), 2);
    ASSERT_STATUS(ferry_future_poll(issued), FERRY_PENDING);
    for (int i = 0; i < MANY; i++) {
        manual_run_one(&f.executor);
        settle(&f.te);
        ASSERT_STATUS(status_of(calls[i]), FERRY_OK);
        cr_assert_eq(f.calls, i + 1);
        cr_assert_eq(manual_waiting(&f.executor), (size_t)(i < MANY - 2 ? 2 : MANY - 1 - i));
    }
    ASSERT_STATUS(status_of(issued), FERRY_OK);
    test_engine_close(&f.te);
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

Test(tasks, callbacks_wait_their_turn_in_order)
{
    fixture f;
    fixture_open(&f, FERRY_LOOP_EMBEDDED, 3);
    ferry_future *nop = ferry_nop(f.te.engine, NULL);
    static placed waiters[MANY];
    for (int i = 0; i < MANY; i++)
        place(&waiters[i], &f.executor.executor, nop);
    settle(&f.te);
    cr_assert_eq(manual_waiting(&f.executor), 3);
    for (int i = 0; i < MANY; i++) {
        manual_run_one(&f.executor);
        cr_assert_eq(waiters[i].place, i + 1);
        settle(&f.te);
    }
    ferry_future_release(nop);
    test_engine_close(&f.te);
}

static fixture *running;

static void run_one_held(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)waiter, (void)future, (void)status;
    manual_run_one(&running->executor);
}

Test(tasks, callbacks_do_not_overtake_those_that_wait)
{
    fixture f;
    fixture_open(&f, FERRY_LOOP_EMBEDDED, 1);
    running = &f;
    ferry_future *held = call(&f);
    static placed first, second;
    settle(&f.te);
    place(&first, &f.executor.executor, held);
    ferry_future *nop = ferry_nop(f.te.engine, NULL);
    place(&second, &f.executor.executor, nop);
    settle(&f.te); /* `second` waits */
    ferry_waiter between = FERRY_WAITER_INIT(run_one_held, NULL);
    static placed third;
    ASSERT_STATUS(ferry_future_on_ready(nop, &between), FERRY_OK);
    place(&third, &f.executor.executor, nop); /* finds the task that `between` has freed */
    settle(&f.te);
    while (manual_waiting(&f.executor) != 0) {
        manual_run_one(&f.executor);
        settle(&f.te);
    }
    cr_assert_eq(second.place, 1);
    cr_assert_lt(second.place, third.place);
    cr_assert_eq(first.counted.calls, 1);
    ASSERT_STATUS(status_of(held), FERRY_OK);
    ferry_future_release(nop);
    test_engine_close(&f.te);
}

Test(tasks, what_runs_on_the_loop_passes_what_waits_for_a_task)
{
    fixture f;
    fixture_open(&f, FERRY_LOOP_EMBEDDED, 1);
    ferry_future *held = call(&f), *waiting = call(&f);
    ferry_future *on_loop = ferry_call(f.te.engine, NULL, count_call, &f.calls, NULL);
    static placed posted, plain;
    place(&posted, &f.executor.executor, on_loop);
    place(&plain, NULL, on_loop);
    settle(&f.te);
    ASSERT_STATUS(status_of(on_loop), FERRY_OK);
    cr_assert_eq(plain.counted.calls, 1);
    cr_assert_eq(posted.counted.calls, 0);
    ASSERT_STATUS(ferry_future_poll(waiting), FERRY_PENDING);
    for (int i = 0; i < 3; i++) {
        manual_run_one(&f.executor);
        settle(&f.te);
    }
    cr_assert_eq(posted.counted.calls, 1);
    ASSERT_STATUS(status_of(held), FERRY_OK);
    ASSERT_STATUS(status_of(waiting), FERRY_OK);
    test_engine_close(&f.te);
}

Test(tasks, calls_and_callbacks_take_turns_at_the_bound)
{
    fixture f;
    fixture_open(&f, FERRY_LOOP_EMBEDDED, 1);
    ferry_future *nop = ferry_nop(f.te.engine, NULL), *calls[MANY];
    static placed waiters[MANY];
    for (int i = 0; i < MANY; i++) {
        calls[i] = call(&f);
        place(&waiters[i], &f.executor.executor, nop);
    }
    settle(&f.te);
    for (int i = 0; i < MANY; i++) { /* half of all */
        manual_run_one(&f.executor);
        settle(&f.te);
    }
    cr_assert_geq(f.calls, MANY / 2 - 1, "%d", f.calls);
    cr_assert_leq(f.calls, MANY / 2 + 1, "%d", f.calls);
    for (int i = 0; i < MANY; i++) {
        manual_run_one(&f.executor);
        settle(&f.te);
    }
    for (int i = 0; i < MANY; i++) {
        ASSERT_STATUS(status_of(calls[i]), FERRY_OK);
        cr_assert_eq(waiters[i].counted.calls, 1);
    }
    ferry_future_release(nop);
    test_engine_close(&f.te);
}

static bool is_readable(fixture *f)
{
    struct pollfd fd = {.fd = ferry_engine_fd(f->te.engine), .events = POLLIN};
    return poll(&fd, 1, 0) == 1;
}

Test(tasks, the_loop_sleeps_meanwhile_and_a_run_wakes_it)
{
    fixture f;
    fixture_open(&f, FERRY_LOOP_EMBEDDED, 1);
    ferry_future *nop = ferry_nop(f.te.engine, NULL);
    static placed waiter;
    for (int round = 0; round < 2; round++) { /* for a call, for a callback */
        ferry_future *first = call(&f), *second = round == 0 ? call(&f) : NULL;
        settle(&f.te);
        if (round == 1)
            place(&waiter, &f.executor.executor, nop);
        settle(&f.te);
        cr_assert_eq(manual_waiting(&f.executor), 1);
        cr_assert_eq(ferry_engine_timeout_ns(f.te.engine), -1);
        ASSERT_STATUS(ferry_engine_arm(f.te.engine), FERRY_OK);
        cr_assert_not(is_readable(&f));
        manual_run_one(&f.executor);
        cr_assert(is_readable(&f));
        cr_assert_eq(ferry_engine_timeout_ns(f.te.engine), 0);
        ASSERT_STATUS(ferry_engine_arm(f.te.engine), FERRY_E_BUSY);
        settle(&f.te);
        cr_assert_eq(manual_waiting(&f.executor), 1);
        manual_run_one(&f.executor);
        settle(&f.te);
        ASSERT_STATUS(status_of(first), FERRY_OK);
        ASSERT_STATUS(second != NULL ? status_of(second) : FERRY_OK, FERRY_OK);
    }
    cr_assert_eq(waiter.counted.calls, 1);
    ferry_future_release(nop);
    test_engine_close(&f.te);
}

static ferry_status wait_for_another(void *arg)
{
    fixture *f = arg;
    ferry_future *inner = call(f);
    while (ferry_future_poll(inner) == FERRY_PENDING) {
        settle(&f->te);
        if (manual_waiting(&f->executor) != 0)
            manual_run_one(&f->executor); /* those before it, then it */
    }
    return status_of(inner);
}

/* A task is free for others as soon as its function has begun. */
Test(tasks, a_function_may_wait_for_one_that_waits_for_its_task)
{
    fixture f;
    fixture_open(&f, FERRY_LOOP_EMBEDDED, 1);
    ferry_future *outer = ferry_call(f.te.engine, &f.executor.executor, wait_for_another, &f, NULL);
    ferry_future *next = call(&f);
    settle(&f.te);
    cr_assert_eq(manual_waiting(&f.executor), 1);
    manual_run_one(&f.executor);
    settle(&f.te);
    ASSERT_STATUS(status_of(outer), FERRY_OK);
    ASSERT_STATUS(status_of(next), FERRY_OK);
    test_engine_close(&f.te);
}

Test(tasks, what_waits_for_a_task_can_be_cancelled_or_be_late)
{
    fixture f;
    fixture_open(&f, FERRY_LOOP_EMBEDDED, 1);
    ferry_future *held = call(&f), *cancelled = call(&f);
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.deadline_ns = START_NS + 1000;
    ferry_future *late =
        ferry_call(f.te.engine, &f.executor.executor, count_call, &f.calls, &options);
    ferry_future *last = call(&f);
    settle(&f.te);
    ferry_future *quiet = ferry_future_quiet(cancelled);
    ASSERT_STATUS(ferry_future_cancel(cancelled), FERRY_OK);
    settle(&f.te);
    ASSERT_STATUS(status_of(cancelled), FERRY_E_CANCELLED);
    ASSERT_STATUS(status_of(quiet), FERRY_OK);
    stepped_clock_step(&f.te.time, 1000);
    settle(&f.te);
    ASSERT_STATUS(status_of(late), FERRY_E_DEADLINE);
    cr_assert_eq(manual_waiting(&f.executor), 1);
    manual_run_one(&f.executor);
    settle(&f.te);
    cr_assert_eq(manual_waiting(&f.executor), 1);
    manual_run_one(&f.executor);
    settle(&f.te);
    cr_assert_eq(f.calls, 2);
    ASSERT_STATUS(status_of(held), FERRY_OK);
    ASSERT_STATUS(status_of(last), FERRY_OK);
    test_engine_close(&f.te);
}

/* ---- no memory ---- */

static void without_memory(bool with_calls)
{
    enum { THERE = 64, WANTED = 100 };
    fixture f;
    static placed waiters[WANTED];
    ferry_future *calls[WANTED];
    fixture_open(&f, FERRY_LOOP_EMBEDDED, 0);
    ferry_future *nop = ferry_nop(f.te.engine, NULL);
    for (int i = 0; i < WANTED; i++) {
        calls[i] = with_calls ? call(&f) : NULL;
        if (!with_calls)
            place(&waiters[i], &f.executor.executor, nop);
    }
    failing_allocator_arm(&f.te.memory, 1, true);
    settle(&f.te);
    cr_assert_eq(manual_waiting(&f.executor), THERE);
    ASSERT_STATUS(ferry_engine_arm(f.te.engine), FERRY_OK);
    manual_run_one(&f.executor);
    settle(&f.te);
    cr_assert_eq(manual_waiting(&f.executor), THERE);
    failing_allocator_arm(&f.te.memory, 0, false);
    (void)ferry_engine_progress(f.te.engine, 1); /* sees to tasks, and hands out at most one */
    ASSERT_STATUS(ferry_engine_arm(f.te.engine), FERRY_E_BUSY);
    settle(&f.te);
    cr_assert_eq(manual_waiting(&f.executor), WANTED - 1);
    while (manual_waiting(&f.executor) != 0)
        manual_run_one(&f.executor);
    settle(&f.te);
    for (int i = 0; i < WANTED; i++) {
        if (with_calls)
            ASSERT_STATUS(status_of(calls[i]), FERRY_OK);
        else
            cr_assert_eq(waiters[i].place, i + 1);
    }
    ferry_future_release(nop);
    test_engine_close(&f.te);
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
    fixture f;
    fixture_open(&f, FERRY_LOOP_EMBEDDED, 0);
    uint64_t before = 0;
    for (int i = 0; i < 300; i++) {
        if (i == 100)
            before = failing_allocator_calls(&f.te.memory);
        ferry_future *once = call(&f);
        static placed waiter;
        place(&waiter, &f.executor.executor, once);
        settle(&f.te);
        manual_run_one(&f.executor);
        settle(&f.te);
        manual_run_one(&f.executor);
        cr_assert_eq(waiter.counted.calls, 1);
        ASSERT_STATUS(status_of(once), FERRY_OK);
    }
    cr_assert_eq(failing_allocator_calls(&f.te.memory), before);
    test_engine_close(&f.te);
}

/* ---- twice ---- */

static void assert_warned_of(const fixture *f, int warnings, uint64_t op)
{
    char number[32];
    (void)snprintf(number, sizeof number, "operation %llu ", (unsigned long long)op);
    cr_assert_eq(f->warnings, warnings, "%d: %s", f->warnings, f->warning);
    cr_assert_not_null(strstr(f->warning, number), "%s", f->warning);
}

Test(tasks, one_that_is_run_twice_is_run_once_and_told_of)
{
    fixture f;
    fixture_open(&f, FERRY_LOOP_EMBEDDED, 0);
    ferry_future *once = call(&f);
    uint64_t op = ferry_future_id(once);
    settle(&f.te);
    ferry_task *task = f.executor.tasks[0];
    manual_run_one(&f.executor);
    ferry_task_run(task); /* its function has run, the loop has not heard */
    assert_warned_of(&f, 1, op);
    settle(&f.te);
    static placed waiter;
    place(&waiter, &f.executor.executor, once);
    ASSERT_STATUS(status_of(once), FERRY_OK);
    ferry_task_run(task); /* the call is gone, with its memory */
    assert_warned_of(&f, 2, op);
    settle(&f.te);
    ferry_task *second = f.executor.tasks[1];
    manual_run_one(&f.executor);
    ferry_task_run(second);
    cr_assert_eq(f.warnings, 2, "told at the first, second and fourth");
    ferry_task_run(second);
    assert_warned_of(&f, 3, op);
    cr_assert_eq(f.calls, 1);
    cr_assert_eq(waiter.counted.calls, 1);
    test_engine_close(&f.te);
}

static void run_twice(ferry_executor *executor, ferry_task *task)
{
    (void)executor;
    ferry_task_run(task);
    ferry_task_run(task);
}

Test(tasks, an_executor_that_runs_all_twice_harms_nothing)
{
    fixture f;
    fixture_open(&f, FERRY_LOOP_THREAD, 0);
    ferry_executor twice = {.struct_size = sizeof twice, .post = run_twice};
    ferry_future *last = NULL;
    for (int i = 0; i < 1000; i++) {
        ferry_op_options options = FERRY_OP_OPTIONS_INIT;
        options.after = &last;
        options.after_count = i > 0;
        ferry_future *next = ferry_call(f.te.engine, &twice, count_call, &f.calls, &options);
        ferry_future_release(last);
        last = next;
    }
    ASSERT_STATUS(ferry_future_wait(last, -1), FERRY_OK);
    ferry_future_release(last);
    ASSERT_STATUS(ferry_engine_shutdown(f.te.engine, -1), FERRY_OK);
    cr_assert_eq(f.calls, 1000);
    cr_assert_eq(f.warnings, 10, "at 1, 2, 4... 512");
    test_engine_close(&f.te);
}

/* ---- never ---- */

Test(tasks, one_that_is_never_run_holds_neither_cancel_nor_deadline)
{
    fixture f;
    fixture_open(&f, FERRY_LOOP_EMBEDDED, 0);
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.deadline_ns = START_NS + 1000;
    ferry_future *late =
        ferry_call(f.te.engine, &f.executor.executor, count_call, &f.calls, &options);
    ferry_future *cancelled = call(&f);
    settle(&f.te);
    cr_assert_eq(manual_waiting(&f.executor), 2);
    ferry_future *drain = ferry_engine_drain(f.te.engine);
    stepped_clock_step(&f.te.time, 1000);
    ASSERT_STATUS(ferry_future_cancel(cancelled), FERRY_OK);
    settle(&f.te);
    ASSERT_STATUS(status_of(late), FERRY_E_DEADLINE);
    ASSERT_STATUS(status_of(cancelled), FERRY_E_CANCELLED);
    ASSERT_STATUS(status_of(drain), FERRY_OK);
    ASSERT_STATUS(ferry_engine_shutdown(f.te.engine, -1), FERRY_OK);
    manual_run_one(&f.executor); /* owed all the same: they keep the memory */
    manual_run_one(&f.executor);
    cr_assert_eq(f.calls, 0);
    test_engine_close(&f.te);
}

/* Posted and not run: two calls and a callback; waiting for a task: calls and callbacks. */
static void shutdown_without_runs(ferry_loop_mode loop)
{
    fixture f;
    fixture_open(&f, loop, 3);
    ferry_future *nop = ferry_nop(f.te.engine, NULL), *calls[MANY];
    static placed waiters[MANY];
    ASSERT_STATUS(ferry_future_wait(nop, -1), FERRY_OK);
    for (int i = 0; i < MANY; i++) {
        place(&waiters[i], &f.executor.executor, nop);
        if (i < 2) {
            if (loop == FERRY_LOOP_EMBEDDED)
                settle(&f.te);
            wait_posted(&f, 2 * (size_t)i + 1);
        }
        calls[i] = call(&f);
        if (i == 0 && loop == FERRY_LOOP_EMBEDDED)
            settle(&f.te);
        if (i == 0)
            wait_posted(&f, 2);
    }
    ASSERT_STATUS(ferry_engine_shutdown(f.te.engine, -1), FERRY_OK);
    for (int i = 0; i < MANY; i++)
        ASSERT_STATUS(status_of(calls[i]), FERRY_E_SHUTDOWN);
    cr_assert_eq(manual_waiting(&f.executor), 3);
    for (int i = 0; i < 2; i++)
        manual_run_one(&f.executor);
    cr_assert_eq(manual_waiting(&f.executor), 3, "who runs one posts what waited for it");
    ferry_future_release(nop);
    ferry_engine_release(f.te.engine);
    cr_assert_neq(failing_allocator_live_bytes(&f.te.memory), 0, "the tasks keep it");
    while (manual_waiting(&f.executor) != 0)
        manual_run_one(&f.executor);
    cr_assert_eq(f.calls, 0);
    for (int i = 0; i < MANY; i++)
        cr_assert_eq(waiters[i].place, i + 1);
    cr_assert_eq(failing_allocator_live_bytes(&f.te.memory), 0);
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
        pthread_t thread;
        cr_assert_eq(pthread_create(&thread, NULL, register_one, self), 0);
        cr_assert_eq(pthread_join(thread, NULL), 0);
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
    fixture f;
    memset(&f, 0, sizeof f);
    manual_executor_init(&f.executor);
    ferry_engine_options options = test_engine_options(&f.te, FERRY_LOOP_EMBEDDED);
    self.plain = *options.allocator;
    ferry_allocator allocator = {alloc_registering, free_registering, &self};
    options.allocator = &allocator;
    test_engine_create(&f.te, &options);
    self.future = ferry_nop(f.te.engine, NULL);
    for (int i = 0; i < THERE; i++)
        place(&posted[i], &f.executor.executor, self.future);
    settle(&f.te);
    ASSERT_STATUS(ferry_engine_shutdown(f.te.engine, -1), FERRY_OK);
    self.is_on = true;
    /* It waits for a task, so the thread asks for memory at the end of each look. */
    place(&posted[THERE], &f.executor.executor, self.future);
    place(&direct, NULL, self.future);
    self.is_on = false;
    cr_assert_eq(direct.counted.calls, 1);
    for (int i = 0; i < self.registered; i++)
        cr_assert_eq(self.waiters[i].counted.calls, 1, "callback %d was left behind", i);
    cr_assert_eq(self.registered, 4);
    while (manual_waiting(&f.executor) != 0)
        manual_run_one(&f.executor);
    cr_assert_eq(posted[THERE].counted.calls, 1);
    ferry_future_release(self.future);
    test_engine_close(&f.te);
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
    fixture f;
    fixture_open(&f, FERRY_LOOP_EMBEDDED, 1);
    manual_executor_init(&executor.manual);
    executor.manual.executor.post = take_back_and_keep;
    ferry_future *nop = ferry_nop(f.te.engine, NULL);
    place(&first, &executor.manual.executor, nop);
    place(&next, &executor.manual.executor, nop);
    settle(&f.te);
    ASSERT_STATUS(ferry_engine_shutdown(f.te.engine, -1), FERRY_OK);
    cr_assert_eq(manual_waiting(&executor.manual), 1);
    executor.waiter = &first;
    manual_run_one(&executor.manual);
    cr_assert_eq(manual_waiting(&executor.manual), 1);
    cr_assert(!executor.was_taken_back);
    cr_assert_eq(first.counted.calls, 1);
    manual_run_one(&executor.manual);
    cr_assert_eq(next.counted.calls, 1);
    ferry_future_release(nop);
    test_engine_close(&f.te);
}
