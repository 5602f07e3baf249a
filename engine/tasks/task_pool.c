/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pool of tasks. Users' executors may be wrong: they may run a task twice, years later, from
 * two threads at once, or never. So a task is not part of what it stands for, which is gone once it
 * has run, but an object of the engine that is freed with the engine only.
 *
 * Run at most once. A task is posted once each time it is taken, and only the compare-and-swap from
 * POSTED to RUN lets a run begin: of any number of runs one wins, and the others only count as
 * misruns. What a losing run reads (`engine`, `word`, `op`) is memory of the same type as long as
 * the engine's memory exists.
 *
 * Told from a later use of the same memory. `word` has a generation that grows with each post. The
 * user's handle has the lowest TAG_BITS of the generation in the address bits that alignment leaves
 * free. A late run finds another tag and is a misrun, unless the same task has been posted 64 times
 * since. Free tasks are reused in the order in which they were run, so with F free tasks on average
 * that takes some 64 * F posts: thousands, as the first chunk alone has 64 tasks. After that a late
 * run may hit a task that is posted again. Then it runs that task, early, and the run that was
 * meant for the task counts as the misrun. Still each post is run once, and as many misruns are
 * counted as there were runs too many.
 *
 * Taken back. The holder of the role may revoke a task that is posted for a waiter, by the move
 * from POSTED to REVOKED. If this move comes first, the run does nothing, and is no misrun. If the
 * move to RUN comes first, the waiter is called. The task may have been posted for another subject
 * since: `subject` says for which, and only the role's holder writes it.
 *
 * Ownership. IDLE: the holder of the loop's role, which fills the task in. POSTED: nobody; the
 * fields are written before the move to POSTED (release) and read after the move from POSTED
 * (acquire). REVOKED: the same. RUN: the thread that made the move, until it has pushed the task on
 * `run`; then the loop, which takes all of `run` at once. The push comes before the function or
 * callback runs, so a function that waits for another function that waits for a task does not wait
 * for ever.
 *
 * Nothing waits for a task that is free (the argument of sleeper.pml). A thread that runs a task
 * pushes it (full barrier), then looks at `wanted`, then wakes the loop if it sleeps. The loop
 * writes `wanted`, says that it is asleep (full barrier), then looks at `run`. Either the loop sees
 * the task, or the thread sees both of the loop's stores.
 */
#include "engine/tasks/task_pool.h"

#include "engine/engine.h"
#include "engine/graph/ready_queue.h"
#include "engine/ground/ground.h"

#define CHUNK_TASKS 64
#define TAG_BITS 6
#define TAG_MASK (((uintptr_t)1 << TAG_BITS) - 1)
_Static_assert(_Alignof(fry_task) == TAG_MASK + 1, "a tag fits below a task's address");

/* word: state in bits 0 and 1, kind in bit 2, generation above */
#define STATE_MASK ((uint64_t)3)
#define KIND_SHIFT 2
#define GENERATION_SHIFT 3

static enum fry_task_state state_of(uint64_t word)
{
    return (enum fry_task_state)(word & STATE_MASK);
}

/* Whether an executor has the task and has not begun to run it. */
static bool is_posted(uint64_t word)
{
    return state_of(word) == FRY_TASK_POSTED || state_of(word) == FRY_TASK_REVOKED;
}

static fry_task_kind kind_of(uint64_t word)
{
    return (fry_task_kind)(word >> KIND_SHIFT & 1);
}

static uintptr_t tag_of(uint64_t word)
{
    return (uintptr_t)(word >> GENERATION_SHIFT) & TAG_MASK;
}

/*
 * Moves a task's state; nothing else does. False: another thread has moved it, which can happen to
 * a posted task only, because tasks in other states have an owner.
 */
static bool task_move(fry_task *task, uint64_t from, uint64_t to)
{
    if (is_posted(from))
        return fry_cas(&task->word, &from, to);
    fry_store_release(&task->word, to);
    return true;
}

/* ---- making and taking ---- */

static size_t chunk_bytes(uint32_t count)
{
    return sizeof(fry_task_chunk) + count * sizeof(fry_task);
}

static void free_push(fry_tasks *tasks, fry_task *task)
{
    fry_queue_push(&tasks->free, &task->link);
    tasks->free_count++;
}

/* Makes a chunk of tasks. The bound is exact, so the last chunk may be smaller. */
static bool grow(ferry_engine *engine)
{
    fry_tasks *tasks = &engine->tasks;
    uint32_t left = engine->max_tasks - tasks->made;
    uint32_t count = left < CHUNK_TASKS ? left : CHUNK_TASKS;
    if (count == 0)
        return false;
    fry_task_chunk *chunk =
        fry_alloc(&engine->memory, chunk_bytes(count), _Alignof(fry_task_chunk));
    if (chunk == NULL)
        return false;
    chunk->count = count;
    for (uint32_t i = 0; i < count; i++) {
        chunk->tasks[i].engine = engine;
        free_push(tasks, &chunk->tasks[i]);
    }
    tasks->made += count;
    chunk->next = tasks->chunks;
    fry_store_release(&tasks->chunks, chunk); /* pairs with the load in fry_tasks_posted */
    return true;
}

ferry_status fry_tasks_open(ferry_engine *engine)
{
    return grow(engine) ? FERRY_OK : FERRY_E_NO_MEMORY;
}

void fry_tasks_close(ferry_engine *engine)
{
    fry_task_chunk *chunk = engine->tasks.chunks;
    while (chunk != NULL) {
        fry_task_chunk *next = chunk->next;
        fry_free(&engine->memory, chunk, chunk_bytes(chunk->count));
        chunk = next;
    }
}

static void collect(fry_tasks *tasks)
{
    if (fry_load_relaxed(&tasks->run.top) == NULL)
        return;
    fry_link *item = fry_stack_take_all(&tasks->run);
    while (item != NULL) {
        fry_task *task = (fry_task *)(void *)item;
        item = item->next;
        uint64_t word = fry_load_relaxed(&task->word);
        (void)task_move(task, word, (word & ~STATE_MASK) | FRY_TASK_IDLE);
        free_push(tasks, task);
    }
}

fry_task *fry_task_take(fry_tasks *tasks)
{
    if (tasks->free.first == NULL)
        collect(tasks);
    fry_link *item = fry_queue_pop(&tasks->free);
    if (item == NULL)
        return NULL;
    tasks->free_count--;
    return (fry_task *)(void *)item;
}

fry_task *fry_task_take_or_grow(ferry_engine *engine)
{
    fry_task *task = fry_task_take(&engine->tasks);
    if (task == NULL && grow(engine))
        task = fry_task_take(&engine->tasks);
    return task;
}

/* If calls and waiters both wait, they share the free tasks; an odd one goes to each in turn. */
uint32_t fry_tasks_for_calls(fry_tasks *tasks, bool with_callbacks)
{
    if (!with_callbacks || tasks->waiters.first == NULL)
        return UINT32_MAX;
    collect(tasks);
    if (tasks->free_count % 2 == 1)
        tasks->odd_goes_to_calls = !tasks->odd_goes_to_calls;
    return (tasks->free_count + tasks->odd_goes_to_calls) / 2;
}

bool fry_tasks_stock(ferry_engine *engine)
{
    fry_tasks *tasks = &engine->tasks;
    uint32_t wanted = (!fry_ready_queue_is_empty(&tasks->calls) ? FRY_TASKS_FOR_CALLS : 0) |
                      (tasks->waiters.first != NULL ? FRY_TASKS_FOR_WAITERS : 0);
    bool grew = wanted != 0 && tasks->free.first == NULL && grow(engine);
    if (wanted != 0 && tasks->free.first != NULL)
        wanted |= FRY_TASKS_ARE_THERE;
    if (wanted != fry_load_relaxed(&tasks->wanted))
        fry_store_relaxed(&tasks->wanted, wanted);
    return grew;
}

/* ---- posting and running ---- */

void fry_task_post(ferry_executor *executor, fry_task *task, fry_task_kind kind, void *subject,
                   uint64_t op)
{
    uint64_t word = fry_load_relaxed(&task->word);
    uint64_t generation = (word >> GENERATION_SHIFT) + 1;
    uint64_t posted =
        generation << GENERATION_SHIFT | (uint64_t)kind << KIND_SHIFT | FRY_TASK_POSTED;
    task->subject = subject;
    fry_store_release(&task->op, op); /* pairs with the loads of task_is_posted */
    (void)task_move(task, word, posted);
    executor->post(executor, (ferry_task *)((uintptr_t)task | tag_of(posted))); /* NOLINT */
}

/* Logs the first, second, fourth... misrun, so that a loop of misruns does not fill the log. */
static void note_misrun(ferry_engine *engine, const fry_task *task, uintptr_t tag)
{
    uint64_t count = fry_fetch_add(&engine->tasks.misrun, 1) + 1;
    if ((count & (count - 1)) != 0)
        return;
    uint64_t op = fry_load_acquire(&task->op);
    if (tag_of(fry_load_acquire(&task->word)) == tag)
        fry_log_line(&engine->log, FERRY_LOG_WARNING,
                     "an executor ran a task of operation %llu again, which does nothing "
                     "(%llu such runs so far)",
                     (unsigned long long)op, (unsigned long long)count);
    else
        fry_log_line(&engine->log, FERRY_LOG_WARNING,
                     "an executor ran a task again, long after its run, which does nothing (%llu "
                     "such runs so far)",
                     (unsigned long long)count);
}

/*
 * The waiter does not keep the engine's memory any more, so the task does until it is run. A task
 * that is POSTED for this waiter can only change by being run, as posting takes the role. If it is
 * posted for another subject, its run for this waiter has begun, on a thread that has yet to say
 * so, and the task has been reused.
 */
bool fry_task_revoke(fry_task *task, const void *waiter)
{
    ferry_engine *engine = task->engine;
    uint64_t word = fry_load_acquire(&task->word);
    if (state_of(word) != FRY_TASK_POSTED || task->subject != waiter)
        return false;
    fry_engine_retain(engine);
    if (task_move(task, word, (word & ~STATE_MASK) | FRY_TASK_REVOKED))
        return true;
    fry_engine_unretain(engine, 1); /* not the last: the caller has a handle */
    return false;
}

bool fry_task_begin(ferry_task *given, fry_task_begun *begun)
{
    uintptr_t tag = (uintptr_t)given & TAG_MASK;
    fry_task *task = (fry_task *)((uintptr_t)given & ~TAG_MASK); /* NOLINT */
    ferry_engine *engine = task->engine;
    if (fry_unlikely(fry_engine_check(engine) != FERRY_OK))
        return false; /* in a child of fork; the parent runs it */
    uint64_t word;
    do { /* again if the task was revoked in between */
        word = fry_load_acquire(&task->word);
        if (tag_of(word) != tag || !is_posted(word)) {
            note_misrun(engine, task, tag);
            return false;
        }
    } while (!task_move(task, word, (word & ~STATE_MASK) | FRY_TASK_RUN));
    bool is_revoked = state_of(word) == FRY_TASK_REVOKED;
    *begun = (fry_task_begun){
        .engine = engine, .subject = is_revoked ? NULL : task->subject, .kind = kind_of(word)};
    fry_stack_push(&engine->tasks.run, &task->link); /* full barrier: see above */
    if (fry_unlikely(fry_load_seq_cst(&engine->tasks.wanted) != 0))
        fry_wake(engine);
    return true;
}

/* ---- looking ---- */

/*
 * If the word is the same before and after, `op` is of that post. The thread that writes `op` has
 * seen the task come back, so a reader of its store sees that the word has moved.
 */
static bool task_is_posted(const fry_task *task, fry_task_kind *kind, uint64_t *op, bool *stands)
{
    uint64_t word = fry_load_acquire(&task->word);
    if (!is_posted(word))
        return false;
    *kind = kind_of(word);
    *stands = state_of(word) == FRY_TASK_POSTED;
    *op = fry_load_acquire(&task->op);
    return fry_load_acquire(&task->word) == word;
}

uint64_t fry_tasks_posted(const fry_tasks *tasks, fry_task_fn each, void *arg)
{
    uint64_t count = 0;
    const fry_task_chunk *chunk = fry_load_acquire(&tasks->chunks);
    for (; chunk != NULL; chunk = chunk->next) {
        for (uint32_t i = 0; i < chunk->count; i++) {
            fry_task_kind kind;
            uint64_t op;
            bool stands; /* the waiter was not taken back */
            if (!task_is_posted(&chunk->tasks[i], &kind, &op, &stands))
                continue;
            count++;
            if (each != NULL && stands)
                each(arg, kind, op);
        }
    }
    return count;
}
