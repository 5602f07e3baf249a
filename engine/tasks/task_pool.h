/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks: what users' executors get, one for each run of a function or a callback. */
#ifndef FRY_ENGINE_TASKS_TASK_POOL_H
#define FRY_ENGINE_TASKS_TASK_POOL_H

#include "base/memory.h"
#include "base/stack.h"
#include "engine/graph/ready_queue.h"
#include "engine/tasks/waiter_list.h"

#include <ferry/op.h>

/* A task's state, which goes round; only task_move moves it. */
enum fry_task_state {
    FRY_TASK_IDLE = 0, /* free, or being filled in; owned by the loop */
    FRY_TASK_POSTED,   /* the executor has it: the first run moves it on */
    FRY_TASK_RUN,      /* it has begun to run, and is going back to the loop */
    FRY_TASK_REVOKED,  /* posted, and its waiter was taken back: running it does nothing */
};

typedef enum fry_task_kind {
    FRY_TASK_CALL = 0, /* stands for a fry_node */
    FRY_TASK_WAITER,   /* stands for a ferry_waiter */
} fry_task_kind;

/*
 * A task. Its memory is freed with the engine only. The user's ferry_task * is its address with a
 * few bits of its generation (task_pool.c).
 */
typedef struct fry_task {
    fry_link link; /* for free tasks, and tasks that go back */
    uint64_t word; /* generation, fry_task_kind, fry_task_state; atomic */
    ferry_engine *engine;
    void *subject; /* the node or waiter; written by the loop, read by the thread that runs the task
                    */
    uint64_t op;   /* the operation named in the log and the dump; atomic */
} __attribute__((aligned(64))) fry_task;

typedef struct fry_task_chunk {
    struct fry_task_chunk *next;
    uint32_t count;
    fry_task tasks[];
} fry_task_chunk;

/* fry_tasks.wanted */
enum fry_tasks_wanted {
    FRY_TASKS_FOR_CALLS = 1 << 0,   /* calls wait for a task */
    FRY_TASKS_FOR_WAITERS = 1 << 1, /* waiters wait for a task */
    FRY_TASKS_ARE_THERE = 1 << 2,   /* there are tasks for them: the next tick hands them out */
};

/* An engine's tasks. */
typedef struct fry_tasks {
    fry_stack run;          /* any thread: tasks that have begun to run */
    uint32_t wanted;        /* fry_tasks_wanted; written by the holder of the loop's role */
    uint64_t misrun;        /* runs of tasks that had been run before; any thread */
    fry_task_chunk *chunks; /* newest first; only added to, so any thread may walk them */

    /* The loop's role. */
    fry_queue free __attribute__((aligned(64))); /* the task that was run first is reused first */
    uint32_t free_count;
    uint32_t made;           /* number of tasks, at most engine->max_tasks */
    fry_ready_queue calls;   /* READY calls that wait for a task; also with the baton */
    fry_waiter_list waiters; /* fired waiters likewise; oldest first */
    bool odd_goes_to_calls;
} fry_tasks;

/* What ferry_task_run must run. */
typedef struct fry_task_begun {
    /*
     * The subject keeps the engine; without a subject a reference does, which the caller releases
     * (fry_engine_unretain).
     */
    ferry_engine *engine;
    void *subject; /* NULL: the task was revoked, and there is nothing to run */
    fry_task_kind kind;
} fry_task_begun;

/*
 * Makes the first tasks; FERRY_OK or FERRY_E_NO_MEMORY. fry_tasks_close frees them, when all that
 * were posted have been run.
 */
ferry_status fry_tasks_open(ferry_engine *engine);
void fry_tasks_close(ferry_engine *engine);

/* A free task, or NULL. The loop's role. */
fry_task *fry_task_take(fry_tasks *tasks);

/* The same, and makes tasks if necessary: without the baton. */
fry_task *fry_task_take_or_grow(ferry_engine *engine);

/* Posts a task that was taken to the executor. It may have been run before this returns. */
void fry_task_post(ferry_executor *executor, fry_task *task, fry_task_kind kind, void *subject,
                   uint64_t op);

/*
 * Takes back the waiter that a task was posted for. False: the task has begun to run, and may be
 * posted for another by now. The loop's role.
 */
bool fry_task_revoke(fry_task *task, const void *waiter);

/*
 * Begins a run: fills `begun`, without a subject if the task was revoked. False: there is nothing
 * to run, because the task had been run before (this is counted and logged), or this is a fork's
 * child. Any thread.
 */
bool fry_task_begin(ferry_task *given, fry_task_begun *begun);

/* How many tasks calls may take in this tick, so that both calls and waiters go on. */
uint32_t fry_tasks_for_calls(fry_tasks *tasks, bool with_callbacks);

/*
 * Makes tasks for calls and waiters that wait for one. Returns whether it made any. At the end of a
 * tick, without the baton.
 */
bool fry_tasks_stock(ferry_engine *engine);

/*
 * Whether calls or waiters that wait for a task could have one; `whose` of fry_tasks_wanted. Any
 * thread.
 */
static inline bool fry_tasks_can_go_on(const fry_tasks *tasks, uint32_t whose)
{
    uint32_t wanted = fry_load_relaxed(&tasks->wanted);
    return fry_unlikely((wanted & whose) != 0) &&
           ((wanted & FRY_TASKS_ARE_THERE) != 0 || !fry_stack_is_empty(&tasks->run));
}

/*
 * For the dump: the number of tasks that executors have and have not run. Calls `each`, if given,
 * for every task that was there throughout the look. Any thread; the engine's memory must exist.
 */
typedef void (*fry_task_fn)(void *arg, fry_task_kind kind, uint64_t op);
uint64_t fry_tasks_posted(const fry_tasks *tasks, fry_task_fn each, void *arg);

/* For the dump: the number of runs of tasks that had been run before. Any thread. */
static inline uint64_t fry_tasks_misrun(const fry_tasks *tasks)
{
    return fry_load_relaxed(&tasks->misrun);
}

#endif
