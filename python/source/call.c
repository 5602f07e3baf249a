/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of Python's as operations: ferry_call_async, whose begin and cancel go by the post to
 * the event loop, which runs the function and resolves the promise. The call's memory stays until
 * the operation is quiet, which comes by the post too.
 */
#include "call.h"
#include "error.h"
#include "future.h"
#include "options.h"
#include "promise.h"
#include <stdlib.h>

struct call {
    struct arrival begin, cancel, quiet; /* each is pushed once at most, in this order */
    struct call *next, **at;             /* in the list of its Completions */
    completions_object *owner;           /* NULL after that was closed */
    struct post *post;
    ferry_promise *promise; /* from begin on, until it was given to the target */
    ferry_future *future;
    ferry_future *quiet_future;
    ferry_waiter waiter;
    PyObject *target; /* begin(promise), cancel() */
};

static struct call *call_of(struct arrival *arrival, size_t offset)
{
    return (struct call *)(void *)((char *)arrival - offset);
}

static void call_unlink(struct call *call)
{
    *call->at = call->next;
    if (call->next)
        call->next->at = call->at;
    call->owner = NULL;
}

static void call_free(struct call *call)
{
    ferry_promise_release(call->promise);
    ferry_future_release(call->future);
    ferry_future_release(call->quiet_future);
    post_release(call->post);
    free(call);
}

static void begin_deliver(struct arrival *arrival)
{
    struct call *call = call_of(arrival, offsetof(struct call, begin));
    ferry_promise *promise = call->promise;
    call->promise = NULL;
    if (!call->owner) {
        ferry_promise_release(promise); /* which ends the operation */
        return;
    }
    PyObject *target = new_reference(call->target);
    PyObject *made = promise_wrap(call->owner->engine, promise);
    PyObject *done = made ? PyObject_CallMethod(target, "begin", "O", made) : NULL;
    if (!done)
        PyErr_WriteUnraisable(target);
    Py_XDECREF(done);
    Py_XDECREF(made);
    Py_DECREF(target);
}

static void begin_discard(struct arrival *arrival)
{
    struct call *call = call_of(arrival, offsetof(struct call, begin));
    ferry_promise *promise = call->promise;
    call->promise = NULL;
    ferry_promise_release(promise);
}

static void cancel_deliver(struct arrival *arrival)
{
    struct call *call = call_of(arrival, offsetof(struct call, cancel));
    if (!call->owner)
        return;
    PyObject *target = new_reference(call->target);
    PyObject *done = PyObject_CallMethod(target, "cancel", NULL);
    if (!done)
        PyErr_WriteUnraisable(target);
    Py_XDECREF(done);
    Py_DECREF(target);
}

static void cancel_discard(struct arrival *arrival)
{
    (void)arrival;
}

static void quiet_deliver(struct arrival *arrival)
{
    struct call *call = call_of(arrival, offsetof(struct call, quiet));
    PyObject *target = call->target;
    call->target = NULL;
    if (call->owner)
        call_unlink(call);
    call_free(call);
    Py_XDECREF(target);
}

static void quiet_discard(struct arrival *arrival)
{
    call_free(call_of(arrival, offsetof(struct call, quiet)));
}

/* The three are called by ferry, on its loop. */
static void call_begin(void *arg, ferry_promise *promise)
{
    struct call *call = arg;
    call->promise = promise;
    post_push(call->post, &call->begin);
}

static void call_cancel(void *arg)
{
    struct call *call = arg;
    post_push(call->post, &call->cancel);
}

static void call_quiet(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    struct call *call = waiter->arg;
    (void)future;
    /* A shutdown fails this future before the call is quiet: then calls_free() frees the call. */
    if (status == FERRY_OK)
        post_push(call->post, &call->quiet);
}

static struct call *call_make(completions_object *owner, PyObject *target)
{
    struct call *call = calloc(1, sizeof *call);
    if (!call) {
        PyErr_NoMemory();
        return NULL;
    }
    call->begin = (struct arrival){.deliver = begin_deliver, .discard = begin_discard};
    call->cancel = (struct arrival){.deliver = cancel_deliver, .discard = cancel_discard};
    call->quiet = (struct arrival){.deliver = quiet_deliver, .discard = quiet_discard};
    call->target = new_reference(target);
    call->post = owner->post;
    post_retain(call->post);
    call->owner = owner;
    call->next = owner->calls;
    call->at = &owner->calls;
    if (call->next)
        call->next->at = &call->next;
    owner->calls = call;
    return call;
}

/*
 * Asks to be told when the call is quiet. If ferry has no room for that, the call's memory stays
 * until the engine has been shut down.
 */
static void call_watch_quiet(struct call *call)
{
    call->quiet_future = ferry_future_quiet(call->future);
    call->waiter = (ferry_waiter)FERRY_WAITER_INIT(call_quiet, call);
    call->waiter.executor = ferry_executor_inline();
    ferry_future_on_ready(call->quiet_future, &call->waiter);
}

PyObject *engine_call(engine_object *self, PyObject *const *arguments, Py_ssize_t count,
                      PyObject *names)
{
    struct operation_options made;
    if (!options_read(&made, "_call", self, arguments, count, 2, names, NULL))
        return NULL;
    PyObject *result = NULL;
    if (Py_TYPE(arguments[0]) != completions_type || !((completions_object *)arguments[0])->queue) {
        PyErr_SetString(PyExc_TypeError, "_call() takes open Completions and a target");
        goto out;
    }
    struct call *call = call_make((completions_object *)arguments[0], arguments[1]);
    if (!call)
        goto out;
    call->future = ferry_call_async(self->engine, ferry_executor_loop(), call_begin, call_cancel,
                                    call, &made.options);
    result = operation_wrap(self, ferry_future_retain(call->future), arguments[1]);
    if (result) {
        call_watch_quiet(call);
    } else { /* refused: quiet, and begin never runs; or no memory for the object */
        PyObject *type, *value, *trace;
        PyErr_Fetch(&type, &value, &trace);
        ferry_future_cancel(call->future);
        if (ferry_future_id(call->future) == 0)
            quiet_deliver(&call->quiet);
        else
            call_watch_quiet(call);
        PyErr_Restore(type, value, trace);
    }
out:
    options_clear(&made);
    return result;
}

struct call *calls_close(completions_object *self)
{
    struct call *left = NULL;
    while (self->calls) {
        struct call *call = self->calls;
        PyObject *target = call->target;
        call->target = NULL;
        call_unlink(call);
        if (ferry_future_poll(call->quiet_future) < 0) { /* it never tells */
            call->next = left;
            left = call;
        }
        Py_XDECREF(target);
    }
    return left;
}

void calls_free(struct call *left, bool is_quiet)
{
    while (left) {
        struct call *next = left->next;
        if (is_quiet)
            call_free(left);
        left = next;
    }
}

int calls_traverse(completions_object *self, visitproc visit, void *arg)
{
    for (struct call *call = self->calls; call; call = call->next)
        Py_VISIT(call->target);
    return 0;
}
