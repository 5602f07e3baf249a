/* SPDX-License-Identifier: Apache-2.0 */
#include "completions.h"
#include "call.h"
#include "error.h"
#include "future.h"
#include "holder.h"
#include "planned.h"
#include "type.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define QUEUE_DEPTH 16384
#define TAKE_COUNT 64    /* records a time */
#define TAKE_BUDGET 4096 /* records a wake-up, so that the event loop has its turn */

PyTypeObject *completions_type;

/* Methods of asyncio's futures. */
static PyObject *done_name, *set_result_name;

/* A Future that a task awaits. */
struct watch {
    struct arrival arrival;
    struct watch *next, **at; /* in the list of its Completions */
    completions_object *owner;
    struct post *post; /* held while the waiter is registered */
    ferry_waiter waiter;
    ferry_future *future;
    PyObject *waiting; /* asyncio's future */
};

void post_retain(struct post *post)
{
    atomic_fetch_add(&post->references, 1);
}

void post_release(struct post *post)
{
    if (atomic_fetch_sub(&post->references, 1) != 1)
        return;
    close(post->event_fd);
    free(post);
}

static void post_discard(struct post *post)
{
    struct list_node *node = list_take(&post->arrived);
    while (node) {
        struct arrival *arrival = (struct arrival *)(void *)node;
        node = node->next;
        arrival->discard(arrival);
    }
}

void post_push(struct post *post, struct arrival *arrival)
{
    post_retain(post); /* what is pushed may be ended, with its reference, before this returns */
    if (list_push(&post->arrived, &arrival->node))
        eventfd_write(post->event_fd, 1);
    if (atomic_load(&post->is_closed))
        post_discard(post);
    post_release(post);
}

static void watch_unlink(struct watch *watch)
{
    *watch->at = watch->next;
    if (watch->next)
        watch->next->at = watch->at;
    watch->owner->watch_count--;
    watch->owner = NULL;
}

static void watch_free(struct watch *watch)
{
    if (watch->post)
        post_release(watch->post);
    ferry_future_release(watch->future);
    free(watch);
}

/* Wakes the task. */
static void watch_finish(struct watch *watch)
{
    PyObject *waiting = watch->waiting;
    watch_unlink(watch);
    watch_free(watch);
    PyObject *done = PyObject_CallMethodObjArgs(waiting, done_name, NULL);
    if (done == Py_False) {
        PyObject *set = PyObject_CallMethodObjArgs(waiting, set_result_name, Py_None, NULL);
        Py_XDECREF(set);
    }
    if (PyErr_Occurred())
        PyErr_WriteUnraisable(waiting);
    Py_XDECREF(done);
    Py_DECREF(waiting);
}

static void watch_deliver(struct arrival *arrival)
{
    struct watch *watch = (struct watch *)(void *)arrival;
    if (watch->owner)
        watch_finish(watch);
    else /* closed after it had arrived */
        watch_free(watch);
}

static void watch_discard(struct arrival *arrival)
{
    watch_free((struct watch *)(void *)arrival);
}

static void watch_ready(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)future, (void)status;
    struct watch *watch = waiter->arg;
    post_push(watch->post, &watch->arrival);
}

/* Follows the operation by a nop that makes a record; false if it is refused. */
static bool watch_by_record(struct watch *watch, ferry_queue *queue)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    ferry_future *const after[] = {watch->future};
    options.after = after;
    options.after_count = 1;
    options.queue = queue;
    options.user_data = (uint64_t)(uintptr_t)watch;
    ferry_future *nop = ferry_nop(watch->owner->engine->engine, &options);
    bool is_refused = ferry_future_id(nop) == 0 && ferry_future_poll(nop) < 0;
    ferry_future_release(nop);
    return !is_refused;
}

static PyObject *completions_watch(completions_object *self, PyObject *arguments)
{
    PyObject *future, *waiting;
    if (!PyArg_ParseTuple(arguments, "O!O:watch", future_type, &future, &waiting))
        return NULL;
    if (!self->queue) {
        PyErr_SetString(PyExc_ValueError, "this was closed");
        return NULL;
    }
    struct watch *watch = calloc(1, sizeof *watch);
    if (!watch)
        return PyErr_NoMemory();
    watch->arrival.deliver = watch_deliver;
    watch->arrival.discard = watch_discard;
    watch->future = ferry_future_retain(((future_object *)future)->future);
    watch->waiting = new_reference(waiting);
    watch->owner = self;
    watch->next = self->watches;
    watch->at = &self->watches;
    if (watch->next)
        watch->next->at = &watch->next;
    self->watches = watch;
    self->watch_count++;
    if (((future_object *)future)->is_operation && watch_by_record(watch, self->queue))
        return new_reference(Py_None);
    watch->post = self->post;
    post_retain(self->post);
    watch->waiter = (ferry_waiter)FERRY_WAITER_INIT(watch_ready, watch);
    watch->waiter.executor = ferry_executor_inline();
    ferry_status status = ferry_future_on_ready(watch->future, &watch->waiter);
    if (status == FERRY_OK)
        return new_reference(Py_None);
    watch_unlink(watch);
    watch_free(watch);
    Py_DECREF(waiting);
    return raise_status(status, NULL);
}

static PyObject *completions_take_records(completions_object *self, PyObject *ignored)
{
    (void)ignored;
    ferry_queue_record records[TAKE_COUNT];
    Py_INCREF((PyObject *)self);
    size_t taken = 0;
    while (self->queue && taken < TAKE_BUDGET) {
        size_t count = ferry_queue_take(self->queue, records, sizeof records[0], TAKE_COUNT);
        for (size_t i = 0; i < count && self->queue; i++)
            watch_finish((struct watch *)(uintptr_t)records[i].user_data);
        taken += count;
        if (count == 0 && self->queue && ferry_queue_arm(self->queue) != FERRY_E_BUSY)
            break;
    }
    bin_empty();
    Py_DECREF((PyObject *)self);
    return new_reference(Py_None);
}

static PyObject *completions_take_post(completions_object *self, PyObject *ignored)
{
    (void)ignored;
    eventfd_t count;
    Py_INCREF((PyObject *)self);
    eventfd_read(self->post->event_fd, &count);
    struct list_node *node = list_take(&self->post->arrived);
    while (node) {
        struct arrival *arrival = (struct arrival *)(void *)node;
        node = node->next;
        arrival->deliver(arrival);
    }
    bin_empty();
    Py_DECREF((PyObject *)self);
    return new_reference(Py_None);
}

/* After this no task is woken, and no Python code is called. */
static PyObject *completions_close(completions_object *self, PyObject *ignored)
{
    (void)ignored;
    ferry_queue *queue = self->queue;
    if (!queue)
        return new_reference(Py_None);
    Py_INCREF((PyObject *)self);
    self->queue = NULL;
    ferry_queue_release(queue); /* watches without a waiter are this object's alone from here on */
    while (self->watches) {
        struct watch *watch = self->watches;
        PyObject *waiting = watch->waiting;
        watch->waiting = NULL;
        watch_unlink(watch);
        if (!watch->post || ferry_waiter_remove(&watch->waiter))
            watch_free(watch);
        Py_DECREF(waiting);
    }
    struct call *left = calls_close(self);
    planned_close(self);
    atomic_store(&self->post->is_closed, true);
    post_discard(self->post);
    calls_free(left, self->engine->is_shut_down);
    Py_DECREF((PyObject *)self);
    return new_reference(Py_None);
}

static struct post *post_make(void)
{
    struct post *post = calloc(1, sizeof *post);
    if (!post) {
        PyErr_NoMemory();
        return NULL;
    }
    post->references = 1;
    post->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (post->event_fd < 0) {
        PyErr_SetFromErrno(PyExc_OSError);
        free(post);
        return NULL;
    }
    return post;
}

static PyObject *completions_new(PyTypeObject *type, PyObject *arguments, PyObject *names)
{
    PyObject *engine;
    (void)type, (void)names;
    if (!PyArg_ParseTuple(arguments, "O!:Completions", engine_type, &engine))
        return NULL;
    struct post *post = post_make();
    if (!post)
        return NULL;
    ferry_queue *queue;
    int queue_fd;
    ferry_status status =
        ferry_queue_create(((engine_object *)engine)->engine, QUEUE_DEPTH, &queue, &queue_fd);
    if (status != FERRY_OK) {
        post_release(post);
        return raise_status(status, NULL);
    }
    completions_object *self = PyObject_GC_New(completions_object, completions_type);
    if (!self) {
        ferry_queue_release(queue);
        post_release(post);
        return NULL;
    }
    self->engine = (engine_object *)new_reference(engine);
    self->queue = queue;
    self->queue_fd = queue_fd;
    self->post = post;
    self->watches = NULL;
    self->calls = NULL;
    self->planned = NULL;
    self->watch_count = 0;
    ferry_queue_arm(queue);
    PyObject_GC_Track(self);
    return (PyObject *)self;
}

static int completions_traverse(completions_object *self, visitproc visit, void *arg)
{
    Py_VISIT((PyObject *)Py_TYPE(self));
    Py_VISIT((PyObject *)self->engine);
    for (struct watch *watch = self->watches; watch; watch = watch->next)
        Py_VISIT(watch->waiting);
    int planned = planned_traverse(self, visit, arg);
    return planned ? planned : calls_traverse(self, visit, arg);
}

static int completions_clear(completions_object *self)
{
    Py_XDECREF(completions_close(self, NULL));
    return 0;
}

static void completions_dealloc(completions_object *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (self->queue) {
        Py_INCREF((PyObject *)self); /* for close(), which must not end here again */
        Py_XDECREF(completions_close(self, NULL));
    }
    post_release(self->post);
    Py_DECREF((PyObject *)self->engine);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyObject *completions_get_descriptors(completions_object *self, void *ignored)
{
    (void)ignored;
    return Py_BuildValue("(ii)", self->queue_fd, self->post->event_fd);
}

static PyObject *completions_get_watching(completions_object *self, void *ignored)
{
    (void)ignored;
    return PyLong_FromSsize_t(self->watch_count);
}

static PyMethodDef completions_methods[] = {
    METHOD("watch", completions_watch, METH_VARARGS,
           "Has an asyncio future resolved when a Future has."),
    METHOD("take_records", completions_take_records, METH_NOARGS, "Takes what the queue has."),
    METHOD("take_post", completions_take_post, METH_NOARGS, "Takes what ferry's loop has sent."),
    METHOD("close", completions_close, METH_NOARGS, "Tells nobody any more."),
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef completions_getset[] = {
    {"descriptors", (getter)completions_get_descriptors, NULL, "The queue's and the post's.", NULL},
    {"watching", (getter)completions_get_watching, NULL, "Futures that are awaited.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot completions_slots[] = {
    {Py_tp_doc, "What one event loop hears from one engine."},
    {Py_tp_new, completions_new},
    {Py_tp_dealloc, completions_dealloc},
    {Py_tp_traverse, completions_traverse},
    {Py_tp_clear, completions_clear},
    {Py_tp_methods, completions_methods},
    {Py_tp_getset, completions_getset},
    {0, NULL},
};

static PyType_Spec completions_spec = {
    .name = "ferry._core.Completions",
    .basicsize = sizeof(completions_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = completions_slots,
};

int completions_add_type(PyObject *module)
{
    done_name = PyUnicode_InternFromString("done");
    set_result_name = PyUnicode_InternFromString("set_result");
    if (!done_name || !set_result_name)
        return -1;
    return type_add(module, &completions_spec, &completions_type);
}
