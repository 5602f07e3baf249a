/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Callbacks and tasks from many threads at once. A plain program, so that it runs under
 * ThreadSanitizer. Exit 0: everything held.
 *   afterwards  two threads register callbacks at the same instant with an engine that has been
 *               shut down: both are called before the two calls return
 *   twice       two threads run the same task at the same instant: its function runs once
 *   tasks       an executor whose threads run each task once, some twice, and a few only after the
 *               shutdown, with bounds on tasks that are reached all the time; then every function
 *               and callback was run exactly once, and every run too many was counted
 */
#include "engine/engine.h"
#include "engine/tasks/task_pool.h"
#include "tests/support/failing_allocator.h"
#include "tests/support/stress.h"

#include <poll.h>
#include <sched.h>
#include <stdatomic.h>

#if defined(__SANITIZE_THREAD__)
#define OPS 1500 /* of each submitter */
#define MEETINGS 20000
#else
#define OPS 8000
#define MEETINGS 50000
#endif
#define HANG_S 180

#define SUBMITTERS 3
#define RUNNERS 3
#define QUEUE_MAX (SUBMITTERS * OPS * 4 + 64)
#define LATE_MAX 5

/* Both threads leave within some ten nanoseconds. */
static void meet(atomic_int arrived[2], size_t me, int round)
{
    atomic_store(&arrived[me], round);
    for (int looks = 0; atomic_load(&arrived[1 - me]) < round; looks++) {
        if (looks > 1000)
            (void)sched_yield();
    }
}

/* ---- afterwards ---- */

static struct {
    ferry_future *done;
    pthread_barrier_t barrier;
    atomic_int arrived[2];
    atomic_int called;
} afterwards;

static void count_called(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)waiter, (void)future;
    CHECK(status == FERRY_OK);
    atomic_fetch_add(&afterwards.called, 1);
}

static void *registering_main(void *arg)
{
    size_t me = (size_t)(uintptr_t)arg;
    ferry_waiter waiter = FERRY_WAITER_INIT(count_called, NULL);
    for (int round = 1; round <= MEETINGS; round++) {
        meet(afterwards.arrived, me, round);
        for (volatile int wait = (round * 7 + (int)me * 13) % 60; wait > 0; wait--)
            continue; /* some nanoseconds each */
        CHECK(ferry_future_on_ready(afterwards.done, &waiter) == FERRY_OK);
        (void)pthread_barrier_wait(&afterwards.barrier);
        CHECK(atomic_load(&afterwards.called) == 2 * round);
        (void)pthread_barrier_wait(&afterwards.barrier);
    }
    return NULL;
}

static void run_afterwards(void)
{
    ferry_engine *engine;
    CHECK(ferry_engine_create(NULL, &engine, NULL) == FERRY_OK);
    afterwards.done = ferry_nop(engine, NULL);
    /* What is not resolved yet is failed by the shutdown. */
    CHECK(ferry_future_wait(afterwards.done, -1) == FERRY_OK);
    CHECK(ferry_engine_shutdown(engine, -1) == FERRY_OK);
    CHECK(pthread_barrier_init(&afterwards.barrier, NULL, 2) == 0);
    pthread_t threads[2];
    for (size_t i = 0; i < 2; i++)
        threads[i] = start_thread(registering_main, (void *)i); /* NOLINT */
    for (size_t i = 0; i < 2; i++)
        join_thread(threads[i]);
    ferry_future_release(afterwards.done);
    ferry_engine_release(engine);
    (void)printf("afterwards: %d rounds\n", MEETINGS);
}

/* ---- twice ---- */

static struct {
    ferry_engine *engine;
    ferry_executor executor;
    ferry_task *task;
    atomic_int arrived[2];
    atomic_int runs;
} twice;

static void keep_task(ferry_executor *executor, ferry_task *task)
{
    (void)executor;
    twice.task = task;
}

static ferry_status count_twice(void *arg)
{
    (void)arg;
    atomic_fetch_add(&twice.runs, 1);
    return FERRY_OK;
}

/* The second of them also posts. */
static void *twice_main(void *arg)
{
    size_t me = (size_t)(uintptr_t)arg;
    for (int round = 1; round <= MEETINGS; round++) {
        ferry_future *call = NULL;
        if (me == 1) {
            call = ferry_call(twice.engine, &twice.executor, count_twice, NULL, NULL);
            CHECK(ferry_engine_progress(twice.engine, 0) != 0);
        }
        meet(twice.arrived, me, 2 * round - 1);
        ferry_task_run(twice.task);
        meet(twice.arrived, me, 2 * round);
        CHECK(atomic_load(&twice.runs) == round);
        CHECK(fry_tasks_misrun(&twice.engine->tasks) == (uint64_t)round);
        if (me == 1)
            CHECK(ferry_future_wait(call, -1) == FERRY_OK);
        ferry_future_release(call);
    }
    return NULL;
}

static void run_twice(void)
{
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.loop = FERRY_LOOP_EMBEDDED;
    options.log = no_log;
    twice.executor = (ferry_executor){.struct_size = sizeof twice.executor, .post = keep_task};
    CHECK(ferry_engine_create(&options, &twice.engine, NULL) == FERRY_OK);
    pthread_t threads[2];
    for (size_t i = 0; i < 2; i++)
        threads[i] = start_thread(twice_main, (void *)i); /* NOLINT */
    for (size_t i = 0; i < 2; i++)
        join_thread(threads[i]);
    ferry_engine_release(twice.engine);
    (void)printf("twice: %d rounds\n", MEETINGS);
}

/* ---- tasks ---- */

typedef struct op_record {
    ferry_future *future;
    ferry_waiter waiter;
    bool is_waited;
    atomic_int runs, fired;
} op_record;

static struct {
    ferry_engine *engine;
    ferry_executor executor;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    ferry_task *queue[QUEUE_MAX];
    size_t first, last, running;
    ferry_task *late[LATE_MAX];
    size_t late_count, late_max;
    uint64_t random; /* of the thread that posts, under the mutex */
    uint64_t runs_too_many;
    bool ending;
    op_record ops[SUBMITTERS][OPS];
    atomic_bool stop;
} tasks;

static void queue_task(ferry_task *task)
{
    CHECK(tasks.last < QUEUE_MAX);
    tasks.queue[tasks.last++] = task;
}

static void post(ferry_executor *executor, ferry_task *task)
{
    (void)executor;
    (void)pthread_mutex_lock(&tasks.mutex);
    uint32_t dice = below(&tasks.random, 64);
    if (dice == 0 && tasks.late_count < tasks.late_max) {
        tasks.late[tasks.late_count++] = task;
    } else {
        queue_task(task);
        if (dice < 16) { /* another thread runs it at the same time, or it is run much later */
            tasks.runs_too_many++;
            queue_task(task);
        }
    }
    (void)pthread_cond_broadcast(&tasks.changed);
    (void)pthread_mutex_unlock(&tasks.mutex);
}

static void *runner_main(void *arg)
{
    (void)arg;
    (void)pthread_mutex_lock(&tasks.mutex);
    for (;;) {
        while (tasks.first == tasks.last && !tasks.ending)
            (void)pthread_cond_wait(&tasks.changed, &tasks.mutex);
        if (tasks.first == tasks.last)
            break;
        ferry_task *task = tasks.queue[tasks.first++];
        tasks.running++;
        (void)pthread_mutex_unlock(&tasks.mutex);
        ferry_task_run(task);
        (void)pthread_mutex_lock(&tasks.mutex);
        tasks.running--;
        (void)pthread_cond_broadcast(&tasks.changed);
    }
    (void)pthread_mutex_unlock(&tasks.mutex);
    return NULL;
}

static void wait_idle(void)
{
    (void)pthread_mutex_lock(&tasks.mutex);
    while (tasks.first != tasks.last || tasks.running != 0)
        (void)pthread_cond_wait(&tasks.changed, &tasks.mutex);
    (void)pthread_mutex_unlock(&tasks.mutex);
}

static ferry_status count_run(void *arg)
{
    atomic_fetch_add(&((op_record *)arg)->runs, 1);
    return FERRY_OK;
}

static void count_fired(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    CHECK(ferry_future_poll(future) == status);
    atomic_fetch_add(&((op_record *)waiter->arg)->fired, 1);
}

/* The executor by name, the engine's own, which is the same, or the loop. */
static ferry_executor *some_executor(uint64_t *random)
{
    switch (below(random, 8)) {
    case 0:
        return ferry_executor_loop();
    case 1:
        return ferry_executor_inline();
    default:
        return below(random, 2) == 0 ? NULL : &tasks.executor;
    }
}

static void *submitter_main(void *arg)
{
    op_record *ops = arg;
    uint64_t random = (uint64_t)(uintptr_t)arg;
    for (int i = 0; i < OPS; i++) {
        ferry_op_options options = FERRY_OP_OPTIONS_INIT;
        options.after = &ops[i - (i > 0)].future;
        options.after_count = i > 0 && below(&random, 8) == 0;
        op_record *op = &ops[i];
        op->future = ferry_call(tasks.engine, some_executor(&random), count_run, op, &options);
        if (below(&random, 8) == 0)
            CHECK(ferry_future_cancel(op->future) == FERRY_OK);
        if (below(&random, 2) == 0) {
            op->is_waited = true;
            op->waiter = (ferry_waiter)FERRY_WAITER_INIT(count_fired, op);
            op->waiter.executor = some_executor(&random);
            CHECK(ferry_future_on_ready(op->future, &op->waiter) == FERRY_OK);
        }
        if (i % 64 == 63) /* it may be one that is run after the shutdown only */
            (void)ferry_future_wait(ops[i - 40].future, 1000000);
    }
    return NULL;
}

/* The user's loop of an embedded engine. */
static void *progress_main(void *arg)
{
    struct pollfd readable = {.fd = ferry_engine_fd(tasks.engine), .events = POLLIN};
    (void)arg;
    while (!atomic_load(&tasks.stop)) {
        if (ferry_engine_progress(tasks.engine, 0) == 0 &&
            ferry_engine_arm(tasks.engine) == FERRY_OK)
            CHECK(poll(&readable, 1, 10) >= 0);
    }
    return NULL;
}

static void check_ops(uint64_t by_status[2])
{
    for (int s = 0; s < SUBMITTERS; s++) {
        for (int i = 0; i < OPS; i++) {
            op_record *op = &tasks.ops[s][i];
            ferry_status status = ferry_future_poll(op->future);
            CHECK(status == FERRY_OK || status == FERRY_E_CANCELLED ||
                  status == FERRY_E_DEPENDENCY || status == FERRY_E_SHUTDOWN);
            CHECK(atomic_load(&op->runs) <= 1);
            CHECK(status != FERRY_OK || atomic_load(&op->runs) == 1);
            CHECK(status != FERRY_E_DEPENDENCY || atomic_load(&op->runs) == 0);
            CHECK(atomic_load(&op->fired) == op->is_waited);
            by_status[status != FERRY_OK]++;
            ferry_future_release(op->future);
        }
    }
}

static void open_tasks(ferry_loop_mode loop, uint32_t max_tasks, const ferry_allocator *allocator)
{
    memset(&tasks, 0, sizeof tasks);
    CHECK(pthread_mutex_init(&tasks.mutex, NULL) == 0);
    CHECK(pthread_cond_init(&tasks.changed, NULL) == 0);
    tasks.executor = (ferry_executor){.struct_size = sizeof tasks.executor, .post = post};
    tasks.random = max_tasks + 1;
    tasks.late_max = max_tasks <= LATE_MAX ? max_tasks - 1 : LATE_MAX;
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.loop = loop;
    options.max_tasks = max_tasks;
    options.executor = &tasks.executor;
    options.allocator = allocator;
    options.log = no_log;
    CHECK(ferry_engine_create(&options, &tasks.engine, NULL) == FERRY_OK);
}

/* Shuts down with some of them unrun, and lets go of the engine before the last are run. */
static void close_tasks(ferry_allocator *allocator, pthread_t runners[RUNNERS])
{
    uint64_t by_status[2] = {0};
    CHECK(ferry_engine_shutdown(tasks.engine, -1) == FERRY_OK);
    wait_idle();
    CHECK(fry_tasks_posted(&tasks.engine->tasks, NULL, NULL) == tasks.late_count);
    CHECK(tasks.late_count != 0 || tasks.late_max == 0);
    CHECK(fry_tasks_misrun(&tasks.engine->tasks) == tasks.runs_too_many);
    CHECK(tasks.runs_too_many != 0);
    uint32_t made = tasks.engine->tasks.made;
    ferry_engine_release(tasks.engine);
    for (size_t i = 0; i < tasks.late_count; i++)
        ferry_task_run(tasks.late[i]);
    wait_idle();
    (void)pthread_mutex_lock(&tasks.mutex);
    tasks.ending = true;
    (void)pthread_cond_broadcast(&tasks.changed);
    (void)pthread_mutex_unlock(&tasks.mutex);
    for (int i = 0; i < RUNNERS; i++)
        join_thread(runners[i]);
    uint64_t runs = tasks.last, too_many = tasks.runs_too_many;
    check_ops(by_status);
    CHECK(failing_allocator_live_bytes(allocator->arg) == 0);
    (void)printf("tasks: %lu runs, %lu of them too many, %zu after the shutdown; %u tasks; %lu ok, "
                 "%lu failed\n",
                 runs, too_many, tasks.late_count, made, by_status[0], by_status[1]);
}

static void run_tasks(ferry_loop_mode loop, uint32_t max_tasks)
{
    failing_allocator counting;
    failing_allocator_init(&counting);
    ferry_allocator allocator = failing_allocator_interface(&counting);
    open_tasks(loop, max_tasks, &allocator);
    pthread_t runners[RUNNERS], submitters[SUBMITTERS], progress = 0;
    for (int i = 0; i < RUNNERS; i++)
        runners[i] = start_thread(runner_main, NULL);
    if (loop == FERRY_LOOP_EMBEDDED)
        progress = start_thread(progress_main, NULL);
    for (int i = 0; i < SUBMITTERS; i++)
        submitters[i] = start_thread(submitter_main, tasks.ops[i]);
    for (int i = 0; i < SUBMITTERS; i++)
        join_thread(submitters[i]);
    atomic_store(&tasks.stop, true);
    if (loop == FERRY_LOOP_EMBEDDED)
        join_thread(progress);
    close_tasks(&allocator, runners);
}

int main(void)
{
    end_if_hung(HANG_S);
    run_afterwards();
    run_twice();
    static const uint32_t bounds[] = {1, 8, 200, 65536};
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        run_tasks(FERRY_LOOP_THREAD, bounds[i]);
        run_tasks(FERRY_LOOP_EMBEDDED, bounds[i]);
    }
    return 0;
}
