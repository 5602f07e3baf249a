/* SPDX-License-Identifier: Apache-2.0 */
/* The pool of tasks: what the dump reads, and how long a run too many is told from a right one. */
#include "engine/engine.h"
#include "engine/task_pool.h"
#include "tests/support/api_test.h"

TestSuite(engine_tasks, .timeout = HANG_S);

typedef struct fixture {
    test_engine te;
    manual_executor executor;
    _Atomic int calls;
} fixture;

static void fixture_open(fixture *f, uint32_t max_tasks)
{
    memset(f, 0, sizeof *f);
    manual_executor_init(&f->executor);
    ferry_engine_options options = test_engine_options(&f->te, FERRY_LOOP_EMBEDDED);
    options.max_tasks = max_tasks;
    test_engine_create(&f->te, &options);
}

/* Posts a call; gives its task, which the executor keeps. */
static ferry_task *post_call(fixture *f)
{
    ferry_future *call =
        ferry_call(f->te.engine, &f->executor.executor, count_call, &f->calls, NULL);
    settle(&f->te);
    ferry_future_release(call);
    cr_assert_eq(manual_waiting(&f->executor), 1);
    return f->executor.tasks[f->executor.run++];
}

static void run(fixture *f, ferry_task *task)
{
    ferry_task_run(task);
    settle(&f->te);
}

typedef struct seen {
    uint64_t calls, waiters, last_op;
} seen;

static void note_task(void *arg, fry_task_kind kind, uint64_t op)
{
    seen *self = arg;
    self->calls += kind == FRY_TASK_CALL;
    self->waiters += kind == FRY_TASK_WAITER;
    self->last_op = op;
}

Test(engine_tasks, what_is_posted_and_not_run_can_be_listed)
{
    fixture f;
    fixture_open(&f, 0);
    const fry_tasks *tasks = &f.te.engine->tasks;
    ferry_future *nop = ferry_nop(f.te.engine, NULL);
    cr_assert_eq(fry_tasks_posted(tasks, NULL, NULL), 0);
    ferry_future *calls[100];
    for (int i = 0; i < 100; i++)
        calls[i] = ferry_call(f.te.engine, &f.executor.executor, count_call, &f.calls, NULL);
    settle(&f.te);
    counted_waiter waiter;
    counted_waiter_init(&waiter, &f.executor.executor);
    ASSERT_STATUS(ferry_future_on_ready(nop, &waiter.waiter), FERRY_OK);
    settle(&f.te);
    seen all = {0};
    cr_assert_eq(fry_tasks_posted(tasks, note_task, &all), 101);
    cr_assert_eq(all.calls, 100);
    cr_assert_eq(all.waiters, 1);
    for (int i = 0; i < 100; i++)
        manual_run_one(&f.executor);
    seen last = {0};
    cr_assert_eq(fry_tasks_posted(tasks, note_task, &last), 1);
    cr_assert_eq(last.waiters, 1);
    cr_assert_eq(last.last_op, ferry_future_id(nop));
    manual_run_one(&f.executor);
    cr_assert_eq(fry_tasks_posted(tasks, NULL, NULL), 0);
    cr_assert_eq(fry_tasks_misrun(tasks), 0);
    for (int i = 0; i < 100; i++)
        ASSERT_STATUS(status_of(calls[i]), FERRY_OK);
    ferry_future_release(nop);
    test_engine_close(&f.te);
}

Test(engine_tasks, the_bound_is_exact)
{
    fixture f;
    fixture_open(&f, 70);
    ferry_future *calls[80];
    for (int i = 0; i < 80; i++)
        calls[i] = ferry_call(f.te.engine, &f.executor.executor, count_call, &f.calls, NULL);
    settle(&f.te);
    cr_assert_eq(manual_waiting(&f.executor), 70);
    cr_assert_eq(f.te.engine->tasks.made, 70);
    for (int i = 0; i < 80; i++) {
        manual_run_one(&f.executor);
        settle(&f.te);
    }
    for (int i = 0; i < 80; i++)
        ASSERT_STATUS(status_of(calls[i]), FERRY_OK);
    test_engine_close(&f.te);
}

Test(engine_tasks, memory_is_used_again_as_late_as_possible)
{
    fixture f;
    fixture_open(&f, 0);
    ferry_task *seen_tasks[64];
    for (int i = 0; i < 64; i++) {
        seen_tasks[i] = post_call(&f);
        for (int k = 0; k < i; k++)
            cr_assert_neq((uintptr_t)seen_tasks[i] / sizeof(fry_task),
                          (uintptr_t)seen_tasks[k] / sizeof(fry_task));
        run(&f, seen_tasks[i]);
    }
    for (int i = 0; i < 64; i++) {
        ferry_task *again = post_call(&f);
        cr_assert_eq((uintptr_t)again / sizeof(fry_task),
                     (uintptr_t)seen_tasks[i] / sizeof(fry_task), "the one run first");
        cr_assert_neq(again, seen_tasks[i], "under another name");
        run(&f, again);
    }
    cr_assert_eq(f.te.engine->tasks.made, 64);
    test_engine_close(&f.te);
}

/* The worst case: one task, used again and again. */
Test(engine_tasks, a_late_run_is_told_for_sixty_three_uses_of_the_same_memory)
{
    fixture f;
    fixture_open(&f, 1);
    const fry_tasks *tasks = &f.te.engine->tasks;
    ferry_task *first = post_call(&f);
    run(&f, first);
    for (uint64_t i = 1; i < 64; i++) {
        ferry_task *task = post_call(&f);
        ferry_task_run(first); /* while another is posted */
        cr_assert_eq(f.calls, i);
        run(&f, task);
        ferry_task_run(first); /* while none is */
        cr_assert_eq(f.calls, i + 1);
        cr_assert_eq(fry_tasks_misrun(tasks), 2 * i);
    }
    /* Then it hits another's, which runs ahead of time; the right run is the one too many. */
    ferry_task *task = post_call(&f);
    cr_assert_eq(task, first);
    run(&f, first);
    cr_assert_eq(f.calls, 65);
    ferry_task_run(task);
    cr_assert_eq(f.calls, 65);
    cr_assert_eq(fry_tasks_misrun(tasks), 127);
    test_engine_close(&f.te);
}
