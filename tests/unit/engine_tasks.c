/* SPDX-License-Identifier: Apache-2.0 */
/* The pool of tasks: what the dump reads, and how long a run too many is told from a right one. */
#include "engine/engine.h"
#include "engine/tasks/task_pool.h"
#include "tests/support/play.h"

SCENE_SUITE(engine_tasks);

/* Posts a call; gives its task, which the executor keeps. */
static ferry_task *post_call(void)
{
    play("call by hand; posted 1; release it");
    return by_hand()->tasks[by_hand()->run++];
}

static void run(ferry_task *task)
{
    ferry_task_run(task);
    play("settle");
}

static void post_calls(int count)
{
    for (int i = 0; i < count; i++)
        play("c%d = call by hand", i);
    play("settle");
}

static void assert_called(int count)
{
    for (int i = 0; i < count; i++)
        play("expect c%d OK", i);
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
    const fry_tasks *tasks = &engine()->tasks;
    play("n = nop");
    cr_assert_eq(fry_tasks_posted(tasks, NULL, NULL), 0);
    post_calls(100);
    play("waiter w on n by hand; settle");
    seen all = {0};
    cr_assert_eq(fry_tasks_posted(tasks, note_task, &all), 101);
    cr_assert_eq(all.calls, 100);
    cr_assert_eq(all.waiters, 1);
    for (int i = 0; i < 100; i++)
        manual_run_one(by_hand());
    seen last = {0};
    cr_assert_eq(fry_tasks_posted(tasks, note_task, &last), 1);
    cr_assert_eq(last.waiters, 1);
    cr_assert_eq(last.last_op, ferry_future_id(the_future("n")));
    manual_run_one(by_hand());
    cr_assert_eq(fry_tasks_posted(tasks, NULL, NULL), 0);
    cr_assert_eq(fry_tasks_misrun(tasks), 0);
    assert_called(100);
}

Test(engine_tasks, the_bound_is_exact)
{
    scene_options(FERRY_LOOP_EMBEDDED)->max_tasks = 70;
    post_calls(80);
    play("posted 70");
    cr_assert_eq(engine()->tasks.made, 70);
    play("run 80");
    assert_called(80);
}

/* Its place in memory; the lowest bits tell its uses apart. */
static uintptr_t place_of(const ferry_task *task)
{
    return (uintptr_t)task / sizeof(fry_task);
}

Test(engine_tasks, memory_is_used_again_as_late_as_possible)
{
    ferry_task *tasks[64];
    for (int i = 0; i < 64; i++) {
        tasks[i] = post_call();
        for (int k = 0; k < i; k++)
            cr_assert_neq(place_of(tasks[i]), place_of(tasks[k]));
        run(tasks[i]);
    }
    for (int i = 0; i < 64; i++) {
        ferry_task *again = post_call();
        cr_assert_eq(place_of(again), place_of(tasks[i]), "the one run first");
        cr_assert_neq(again, tasks[i], "under another name");
        run(again);
    }
    cr_assert_eq(engine()->tasks.made, 64);
}

/* The worst case: one task, used again and again. */
Test(engine_tasks, a_late_run_is_told_for_sixty_three_uses_of_the_same_memory)
{
    scene_options(FERRY_LOOP_EMBEDDED)->max_tasks = 1;
    const fry_tasks *tasks = &engine()->tasks;
    ferry_task *first = post_call();
    run(first);
    for (int i = 1; i < 64; i++) {
        ferry_task *task = post_call();
        ferry_task_run(first); /* while another is posted */
        cr_assert_eq(*scene_calls(), i);
        run(task);
        ferry_task_run(first); /* while none is */
        cr_assert_eq(*scene_calls(), i + 1);
        cr_assert_eq(fry_tasks_misrun(tasks), (uint64_t)(2 * i));
    }
    /* Then it hits another's, which runs ahead of time; the right run is the one too many. */
    ferry_task *task = post_call();
    cr_assert_eq(task, first);
    run(first);
    cr_assert_eq(*scene_calls(), 65);
    ferry_task_run(task);
    cr_assert_eq(*scene_calls(), 65);
    cr_assert_eq(fry_tasks_misrun(tasks), 127);
}
