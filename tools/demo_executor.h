/* SPDX-License-Identifier: Apache-2.0 */
/* An executor of the tool's own: one thread that runs tasks in the order they were posted. */
#ifndef DEMO_EXECUTOR_H
#define DEMO_EXECUTOR_H

#include <ferry/ferry.h>
#include <pthread.h>
#include <stdbool.h>

typedef struct demo_executor {
    ferry_executor base;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t posted;
    ferry_task *
        *tasks; /* a ring; never full, as `capacity` covers all that can be posted at once */
    size_t capacity;
    size_t head, count;
    bool is_stopping;
} demo_executor;

/* capacity: how many calls may be unfinished at once, at least 1. Returns 0 or an errno. */
int demo_executor_start(demo_executor *executor, size_t capacity);

/* Runs what was posted, ends the thread and frees the ring. No post may follow. */
void demo_executor_stop(demo_executor *executor);

#endif
