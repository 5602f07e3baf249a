/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/demo_executor.h"

#include <errno.h>
#include <stdlib.h>

static void post(ferry_executor *base, ferry_task *task)
{
    demo_executor *executor = base->arg;
    pthread_mutex_lock(&executor->mutex);
    executor->tasks[(executor->head + executor->count) % executor->capacity] = task;
    bool was_empty = executor->count++ == 0;
    pthread_mutex_unlock(&executor->mutex);
    if (was_empty)
        pthread_cond_signal(&executor->posted);
}

static ferry_task *take(demo_executor *executor)
{
    ferry_task *task = NULL;
    pthread_mutex_lock(&executor->mutex);
    while (executor->count == 0 && !executor->is_stopping)
        pthread_cond_wait(&executor->posted, &executor->mutex);
    if (executor->count > 0) {
        task = executor->tasks[executor->head];
        executor->head = (executor->head + 1) % executor->capacity;
        executor->count--;
    }
    pthread_mutex_unlock(&executor->mutex);
    return task;
}

static void *run(void *arg)
{
    ferry_task *task;
    (void)pthread_setname_np(pthread_self(), "ferry-compute");
    while ((task = take(arg)) != NULL)
        ferry_task_run(task);
    return NULL;
}

int demo_executor_start(demo_executor *executor, size_t capacity)
{
    *executor = (demo_executor){
        .base = {.struct_size = sizeof(ferry_executor), .post = post, .arg = executor},
        .mutex = PTHREAD_MUTEX_INITIALIZER,
        .posted = PTHREAD_COND_INITIALIZER,
        .tasks = calloc(capacity, sizeof(ferry_task *)),
        .capacity = capacity,
    };
    if (!executor->tasks)
        return ENOMEM;
    int error = pthread_create(&executor->thread, NULL, run, executor);
    if (error)
        free(executor->tasks);
    return error;
}

void demo_executor_stop(demo_executor *executor)
{
    pthread_mutex_lock(&executor->mutex);
    executor->is_stopping = true;
    pthread_mutex_unlock(&executor->mutex);
    pthread_cond_signal(&executor->posted);
    pthread_join(executor->thread, NULL);
    free(executor->tasks);
}
