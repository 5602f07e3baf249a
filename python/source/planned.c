/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of Python's in plans. As with calls (call.c), begin and cancel go by the post to the
 * event loop. But a function in a plan begins once for each post, and posts may overlap: so each
 * begin and each cancel is news of its own, and which of those that run is to end, the target finds
 * out by looking.
 *
 * How long it lives. ferry tells nobody when a plan is gone and its last post is quiet; but until
 * then it keeps the plan's buffers. So each function has a buffer of one byte, which its operation
 * reads, and that buffer's free_fn ends the function, by the bin.
 */
#include "planned.h"
#include "error.h"
#include "holder.h"
#include "promise.h"
#include <stdlib.h>

struct planned {
    atomic_int references;               /* the holder's, and one for each news on its way */
    struct planned *next, **at;          /* in the list of its Completions */
    _Atomic(completions_object *) owner; /* NULL after that was closed */
    struct post *post;
    PyObject *target; /* begin(promise), cancel(); NULL after the owner was closed */
    char byte;        /* what the buffer is of */
};

struct news {
    struct arrival arrival;
    struct planned *planned;
    ferry_promise *promise; /* of a begin; NULL: a cancel */
};

/* With the interpreter's lock, unless its owner was closed, which has cut what is Python's. */
static void planned_release(struct planned *planned)
{
    if (atomic_fetch_sub(&planned->references, 1) != 1)
        return;
    PyObject *target = planned->target;
    planned->target = NULL;
    if (atomic_load(&planned->owner)) {
        *planned->at = planned->next;
        if (planned->next)
            planned->next->at = planned->at;
    }
    post_release(planned->post);
    free(planned);
    if (target)
        Py_DECREF(target);
}

static void news_free(struct news *news)
{
    struct planned *planned = news->planned;
    ferry_promise_release(news->promise); /* one that is not resolved ends its operation so */
    free(news);
    planned_release(planned);
}

static void news_deliver(struct arrival *arrival)
{
    struct news *news = (struct news *)(void *)arrival;
    struct planned *planned = news->planned;
    completions_object *owner = atomic_load(&planned->owner);
    PyObject *done = NULL;
    if (!owner) {
        news_free(news);
        return;
    }
    PyObject *target = new_reference(planned->target);
    if (news->promise) {
        PyObject *promise = promise_wrap(owner->engine, news->promise);
        news->promise = NULL;
        done = promise ? PyObject_CallMethod(target, "begin", "O", promise) : NULL;
        Py_XDECREF(promise);
    } else {
        done = PyObject_CallMethod(target, "cancel", NULL);
    }
    if (!done)
        PyErr_WriteUnraisable(target);
    Py_XDECREF(done);
    Py_DECREF(target);
    news_free(news);
}

static void news_discard(struct arrival *arrival)
{
    news_free((struct news *)(void *)arrival);
}

/* On ferry's loop. False: no memory. */
static bool send_news(struct planned *planned, ferry_promise *promise)
{
    struct news *news = calloc(1, sizeof *news);
    if (!news)
        return false;
    news->arrival = (struct arrival){.deliver = news_deliver, .discard = news_discard};
    news->planned = planned;
    news->promise = promise;
    atomic_fetch_add(&planned->references, 1);
    post_push(planned->post, &news->arrival);
    return true;
}

static void planned_begin(void *arg, ferry_promise *promise)
{
    if (send_news(arg, promise))
        return;
    ferry_promise_resolve(promise, FERRY_E_NO_MEMORY, "no memory to tell Python of a function");
    ferry_promise_release(promise);
}

/* Without memory for it the function runs to its end. */
static void planned_cancel(void *arg)
{
    (void)send_news(arg, NULL);
}

/* No post of a plan uses it any more; from the bin. */
static void planned_drop(void *arg)
{
    planned_release(arg);
}

static struct planned *planned_create(completions_object *owner, PyObject *target)
{
    struct planned *planned = calloc(1, sizeof *planned);
    if (!planned) {
        PyErr_NoMemory();
        return NULL;
    }
    planned->references = 1;
    planned->owner = owner;
    planned->post = owner->post;
    post_retain(planned->post);
    planned->target = new_reference(target);
    planned->next = owner->planned;
    planned->at = &owner->planned;
    if (planned->next)
        planned->next->at = &planned->next;
    owner->planned = planned;
    return planned;
}

bool planned_make(completions_object *owner, PyObject *target, ferry_op *op,
                  ferry_buffer **buffer_p)
{
    ferry_device *device = engine_device(owner->engine, "host:0");
    struct planned *planned = device ? planned_create(owner, target) : NULL;
    if (!planned)
        return false;
    struct holder *holder = holder_make();
    if (!holder) {
        planned_release(planned);
        return false;
    }
    holder->drop = planned_drop;
    holder->drop_arg = planned;
    ferry_buffer_options options = FERRY_BUFFER_OPTIONS_INIT;
    options.size_bytes = sizeof planned->byte;
    options.source = &planned->byte;
    options.free_fn = holder_free;
    options.free_arg = holder;
    ferry_error *error = NULL;
    ferry_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = ferry_buffer_create(device, &options, buffer_p, &error);
    Py_END_ALLOW_THREADS;
    if (status != FERRY_OK) {
        raise_error(error);
        holder_release(holder);
        return false;
    }
    op->kind = FERRY_OP_ASYNC;
    op->executor = ferry_executor_loop();
    op->begin = planned_begin;
    op->cancel = planned_cancel;
    op->arg = planned;
    return true;
}

void planned_close(completions_object *owner)
{
    while (owner->planned) {
        struct planned *planned = owner->planned;
        PyObject *target = planned->target;
        owner->planned = planned->next;
        if (planned->next)
            planned->next->at = &owner->planned;
        planned->target = NULL;
        atomic_store(&planned->owner, NULL);
        Py_XDECREF(target);
    }
}

int planned_traverse(completions_object *owner, visitproc visit, void *arg)
{
    for (struct planned *planned = owner->planned; planned; planned = planned->next)
        Py_VISIT(planned->target);
    return 0;
}
