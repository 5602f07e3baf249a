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

#include "engine.h"
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
    PyObject base;
    engine_object *engine;
    ferry_queue *queue; /* NULL after close() */
    int queue_fd;
    struct post *post;
    struct watch *watches;   /* awaited Futures */
    struct call *calls;      /* that are not quiet */
    struct planned *planned; /* functions of plans that ferry keeps */
    Py_ssize_t watch_count;
} completions_object;

extern PyTypeObject *completions_type;

int completions_add_type(PyObject *module);

void post_retain(struct post *post);
void post_release(struct post *post);
/* Any thread. */
void post_push(struct post *post, struct arrival *arrival);

#endif
