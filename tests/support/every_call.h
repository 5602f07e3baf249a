/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every public function as a row of a table: for tests of what holds for all of them, from any
 * thread, at any moment of an engine's life. A row calls its function once, with whatever it
 * needs, and gives back what it got; what the function answers is a matter of that moment, so a row
 * looks at no more than what must hold always. Public headers only.
 */
#ifndef FERRY_TESTS_EVERY_CALL_H
#define FERRY_TESTS_EVERY_CALL_H

#include <ferry/ferry.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#define CALL_STOCK 48 /* of what rows use up: promises, buffers, futures, for each caller */
#define CALL_BUFFER_BYTES 8192
#define CALL_TASKS 256 /* that may stand in a scene's queue */

/* An engine and what is in it; the callers share it. */
typedef struct call_scene {
    ferry_loop_mode loop;
    ferry_engine *engine;
    ferry_device *device;
    ferry_group *group; /* NULL: rows that need one do nothing */
    ferry_promise *holder;
    ferry_queue *queue;
    ferry_scope *scope;
    ferry_future *done, *failed, *pending; /* pending: until `holder` is resolved */
    ferry_executor executor;               /* posts into the queue */
    pthread_mutex_t lock;
    ferry_task *tasks[CALL_TASKS];
    size_t task_count;
} call_scene;

/* A thread's own; made by the thread that made the scene. */
typedef struct caller {
    call_scene *scene;
    ferry_buffer *buffer;
    ferry_promise *promises[CALL_STOCK];
    ferry_buffer *buffers[CALL_STOCK];
    ferry_future *futures[CALL_STOCK];
    size_t used;
    ferry_waiter waiter;
    atomic_uint called; /* of waiter */
    bool is_in_callback;
} caller;

typedef enum call_trait {
    CALL_TAKES_ENGINE = 1 << 0, /* it is given an engine or a device: not beside the release */
    CALL_IS_HEAVY = 1 << 1,     /* a few times are enough */
    CALL_NEEDS_GROUP = 1 << 2,
    CALL_STARTS_THREADS = 1 << 3,
    CALL_IS_OPERATION = 1 << 4, /* stopped in its midst it keeps the shutdown waiting */
} call_trait;

typedef struct every_call {
    const char *name; /* "ferry_nop" */
    void (*call)(caller *self);
    unsigned traits;
} every_call;

extern const every_call every_calls[];
extern const size_t every_call_count;

/*
 * An engine of that mode with what rows need; ev_loop for the attached one. `with_group`: of one
 * member, joined; the calling thread makes the progress. False: something can't be had.
 */
bool call_scene_open(call_scene *self, const ferry_engine_options *options, bool with_group);

/* The engine was released; or is, if that is still to be done. Runs what tasks are left first. */
void call_scene_close(call_scene *self);

/* One that was posted, for whoever runs it; NULL: none. */
ferry_task *call_scene_take_task(call_scene *self);

bool caller_open(caller *self, call_scene *scene);

/* After call_scene_close, or before. */
void caller_close(caller *self);

/* NULL: every function that the headers of that folder declare has a row; else one that has none,
 * or a row without a function. */
const char *every_call_lacks(const char *include_dir);

#endif
