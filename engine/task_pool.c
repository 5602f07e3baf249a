/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pool of tasks. Users' executors are code that may be wrong: they may run a task twice, years
 * later, from two threads at once, or never. So a task is no part of what it stands for, which is
 * gone once it has run, but an object of the engine's own that is never given back before the
 * engine itself.
 *
 * Run at most once. A task is posted once for each time it is taken, and only the compare-and-swap
 * from POSTED to RUN lets a run begin: of any number of runs one wins, the others change nothing
 * but the count of misruns. What a loser reads (`engine`, `word`, `op`) is memory of the same type
 * for as long as the engine's memory is there.
 *
 * Told from a later use of the same memory. `word` has a generation that grows with each post, and
 * the user's handle has the lowest TAG_BITS of it in the bits of the address that alignment leaves.
 * A late run finds another tag and is a misrun, until the same task has been posted 64 times more.
 * Free tasks are used in the order in which they were run, so with F of them free in the mean that
 * is some 64 * F posts: thousands, as the first chunk alone has 64. Beyond that a late run may hit
 * a task that is posted again: then it runs that one, early, and the run that was meant for it is
 * the one that is counted. Each post is still run once, and as many misruns are counted as there
 * were runs too many.
 *
 * Taken back. Who has the role may revoke a task that is posted for a waiter, by the move from
 * POSTED to REVOKED: either that comes first, and the run does nothing, which is no misrun, or the
 * move to RUN does, and then the waiter is called. The task may have been posted for another since:
 * `subject` says for whom, which with the role nobody else writes.
 *
 * Who owns it. IDLE: the holder of the loop's role, that fills it in. POSTED: nobody; its fields
 * are written before the move to POSTED (release) and read after the move from it (acquire), and
 * likewise REVOKED. RUN:
 * the one who moved it, until it has pushed it on `run`; then the loop again, that takes all of
 * `run` at once. It is pushed before the function or callback runs: a function that waits for
 * another that waits for a task does not wait for ever.
 *
 * Nothing waits for a task that is free (the argument of loop_sleep.pml). Who runs one pushes it
 * (full barrier), then looks at `wanted`, then wakes the loop if it sleeps. The loop writes
 * `wanted`, says that it is asleep (full barrier), then looks at `run`. Either it sees the task, or
 * the other sees both of its stores.
 */
#include "engine/task_pool.h"

#include "engine/engine.h"
#include "engine/ground.h"
#include "engine/ready_queue.h"

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

/* An executor has it and has not begun to run it. */
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

/* The one place a task's state moves. False: another thread has moved it, which only a posted one
 * is open to: the others have an owner. */
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

/* The bound is exact, so the last chunk may be smaller. */
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

/* Those that were run are free again. */
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

/* While both wait they share what is free; the odd one goes to each in turn. */
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

/* Told of at the first, the second, the fourth...: a loop of misruns does not fill the log. */
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
 * What it stood for keeps the engine's memory no more, so the task does until it is run. POSTED for
 * this subject can't change but by being run, as it takes the role to post. For another: it has
 * begun for this one, whose thread has yet to say so, and was free again for the next.
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
    fry_engine_unretain(engine, 1); /* not the last: the caller's handle is another */
    return false;
}

bool fry_task_begin(ferry_task *given, fry_task_begun *begun)
{
    uintptr_t tag = (uintptr_t)given & TAG_MASK;
    fry_task *task = (fry_task *)((uintptr_t)given & ~TAG_MASK); /* NOLINT */
    ferry_engine *engine = task->engine;
    if (fry_unlikely(fry_engine_check(engine) != FERRY_OK))
        return false; /* a child of fork: the parent runs it */
    uint64_t word;
    do { /* once more if it is revoked just now */
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

/* The same word before and after: then `op` is of that post. A writer of `op` has seen the task
 * come back, so whoever reads what it wrote sees that the word has moved. */
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
            bool stands; /* for something still */
            if (!task_is_posted(&chunk->tasks[i], &kind, &op, &stands))
                continue;
            count++;
            if (each != NULL && stands)
                each(arg, kind, op);
        }
    }
    return count;
}
