/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/thread_executor.h"

#include <stdio.h>
#include <stdlib.h>

static void executor_post(ferry_executor *executor, ferry_task *task)
{
    thread_executor *te = executor->arg;
    (void)pthread_mutex_lock(&te->mutex);
    if (te->count == THREAD_EXECUTOR_TASKS) {
        (void)fputs("thread_executor: too many tasks\n", stderr);
        abort();
    }
    te->tasks[(te->head + te->count++) % THREAD_EXECUTOR_TASKS] = task;
    (void)pthread_cond_broadcast(&te->changed);
    (void)pthread_mutex_unlock(&te->mutex);
}

static ferry_task *take(thread_executor *te)
{
    te->count--;
    if (te->is_lifo)
        return te->tasks[(te->head + te->count) % THREAD_EXECUTOR_TASKS];
    ferry_task *oldest = te->tasks[te->head];
    te->head = (te->head + 1) % THREAD_EXECUTOR_TASKS;
    return oldest;
}

static void *executor_main(void *arg)
{
    thread_executor *te = arg;
    (void)pthread_mutex_lock(&te->mutex);
    for (;;) {
        while (te->count == 0 && !te->is_stopping)
            (void)pthread_cond_wait(&te->changed, &te->mutex);
        if (te->count == 0)
            break;
        ferry_task *task = take(te);
        te->is_running = true;
        (void)pthread_mutex_unlock(&te->mutex);
        ferry_task_run(task);
        (void)pthread_mutex_lock(&te->mutex);
        te->is_running = false;
        (void)pthread_cond_broadcast(&te->changed);
    }
    (void)pthread_mutex_unlock(&te->mutex);
    return NULL;
}

bool thread_executor_start(thread_executor *te)
{
    te->executor =
        (ferry_executor){.struct_size = sizeof te->executor, .post = executor_post, .arg = te};
    te->head = te->count = 0;
    te->is_lifo = te->is_running = te->is_stopping = false;
    (void)pthread_mutex_init(&te->mutex, NULL);
    (void)pthread_cond_init(&te->changed, NULL);
    return pthread_create(&te->thread, NULL, executor_main, te) == 0;
}

void thread_executor_set_lifo(thread_executor *te, bool is_lifo)
{
    (void)pthread_mutex_lock(&te->mutex);
    te->is_lifo = is_lifo;
    (void)pthread_mutex_unlock(&te->mutex);
}

void thread_executor_wait_idle(thread_executor *te)
{
    (void)pthread_mutex_lock(&te->mutex);
    while (te->count != 0 || te->is_running)
        (void)pthread_cond_wait(&te->changed, &te->mutex);
    (void)pthread_mutex_unlock(&te->mutex);
}

void thread_executor_stop(thread_executor *te)
{
    (void)pthread_mutex_lock(&te->mutex);
    te->is_stopping = true;
    (void)pthread_cond_broadcast(&te->changed);
    (void)pthread_mutex_unlock(&te->mutex);
    (void)pthread_join(te->thread, NULL);
    (void)pthread_cond_destroy(&te->changed);
    (void)pthread_mutex_destroy(&te->mutex);
}
