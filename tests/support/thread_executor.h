/* SPDX-License-Identifier: Apache-2.0 */
/* An executor with a thread of its own. */
#ifndef FERRY_TESTS_THREAD_EXECUTOR_H
#define FERRY_TESTS_THREAD_EXECUTOR_H

#include <ferry/op.h>
#include <pthread.h>
#include <stdbool.h>

#define THREAD_EXECUTOR_TASKS 65536 /* how many may wait at once; more abort the program */

typedef struct thread_executor {
    ferry_executor executor; /* the one to hand to ferry */
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    ferry_task *tasks[THREAD_EXECUTOR_TASKS]; /* a ring */
    size_t head, count;
    bool is_lifo; /* the newest task first */
    bool is_running;
    bool is_stopping;
} thread_executor;

/* False: no thread. */
bool thread_executor_start(thread_executor *te);

void thread_executor_set_lifo(thread_executor *te, bool is_lifo);

/* Waits until nothing is queued or running. */
void thread_executor_wait_idle(thread_executor *te);

/* Runs what is queued, then ends the thread. */
void thread_executor_stop(thread_executor *te);

#endif
