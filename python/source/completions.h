/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completions: what one event loop hears from one engine. Two ways lead there:
 *  - The engine's completion queue. A Future of an operation that is awaited while it is pending is
 *    followed by a nop that names the queue; its record's user_data is the watch. The thread that
 *    ends the operation writes the record itself.
 *  - The post: a list that callbacks on ferry's loop push to. It carries what is no operation (a
 *    promise or a barrier may pend for ever, and ferry's drain would wait for a nop behind it),
 * what the queue has no room for, and the begins and cancels of calls. Each way has a descriptor
 * that the event loop watches, and is told of once, however much comes.
 */
#ifndef FERRY_PYTHON_COMPLETIONS_H
#define FERRY_PYTHON_COMPLETIONS_H

#include "core.h"
#include "list.h"

/*
 * What outlives the Completions while callbacks may still come. Once it is closed, nothing in it
 * has references to Python's objects, and who pushes also ends what is there.
 */
struct post {
    atomic_int references;
    atomic_bool is_closed;
    list arrived;
    int event_fd;
};

struct arrival {
    struct list_node node;
    void (*deliver)(struct arrival *arrival); /* with the interpreter's lock */
    void (*discard)(struct arrival *arrival); /* on any thread, after the post was closed */
};

typedef struct completions_object {
    PyObject_HEAD engine_object *engine;
    ferry_queue *queue; /* NULL after close() */
    int queue_fd;
    struct post *post;
    struct watch *watches; /* awaited Futures */
    struct call *calls;    /* that are not quiet */
    Py_ssize_t watch_count;
} completions_object;

void post_retain(struct post *post);
void post_release(struct post *post);
/* Any thread. */
void post_push(struct post *post, struct arrival *arrival);

/*
 * call.c: cuts the calls' references to Python. Returns those that ferry will not report as quiet.
 * After a shutdown that succeeded they are quiet and can be freed, once the post is empty;
 * otherwise ferry may still use them, and they are leaked, as ferry leaks the engine.
 */
struct call *calls_close(completions_object *self);
void calls_free(struct call *left, bool is_quiet);
int calls_traverse(completions_object *self, visitproc visit, void *arg);

#endif
