/* SPDX-License-Identifier: Apache-2.0 */
/* Future: a future of ferry's. An event loop is needed only to await one that is pending. */
#include "future.h"
#include "error.h"
#include "holder.h"
#include "numbers.h"
#include "type.h"

#define WAIT_SLICE_NS 100000000 /* so often a wait looks for signals */

PyTypeObject *future_type;

static PyObject *wait_function;

void future_set_wait(PyObject *wait)
{
    Py_INCREF(wait);
    Py_XDECREF(wait_function);
    wait_function = wait;
}

/* The iterator of a Future that has succeeded without a value: it ends at once. */
static PyTypeObject *ready_type;
static PyObject *ready;

PyObject *future_wrap(engine_object *engine, ferry_future *future, PyObject *convert)
{
    if (ferry_future_id(future) == 0 && ferry_future_poll(future) < 0) {
        raise_future(future);
        ferry_future_release(future);
        return NULL;
    }
    future_object *self = PyObject_GC_New(future_object, future_type);
    if (!self) {
        ferry_future_release(future);
        return NULL;
    }
    self->future = future;
    self->engine = (engine_object *)new_reference((PyObject *)engine);
    Py_XINCREF(convert);
    self->convert = convert;
    self->is_operation = false;
    PyObject_GC_Track(self);
    return (PyObject *)self;
}

PyObject *operation_wrap(engine_object *engine, ferry_future *future, PyObject *convert)
{
    PyObject *self = future_wrap(engine, future, convert);
    if (self)
        ((future_object *)self)->is_operation = true;
    return self;
}

static int future_traverse(future_object *self, visitproc visit, void *arg)
{
    Py_VISIT((PyObject *)Py_TYPE(self));
    Py_VISIT((PyObject *)self->engine);
    Py_VISIT(self->convert);
    return 0;
}

static int future_clear(future_object *self)
{
    Py_CLEAR(self->convert);
    return 0; /* the engine stays until the future was released */
}

static void future_dealloc(future_object *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    ferry_future_release(self->future);
    Py_XDECREF(self->convert);
    Py_XDECREF((PyObject *)self->engine);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyObject *no_new(PyTypeObject *type, PyObject *arguments, PyObject *names)
{
    (void)type, (void)arguments, (void)names;
    PyErr_SetString(PyExc_TypeError, "only calls of ferry make such an object");
    return NULL;
}

static PyObject *future_done(future_object *self, PyObject *ignored)
{
    (void)ignored;
    return PyBool_FromLong(ferry_future_poll(self->future) != FERRY_PENDING);
}

static ferry_status poll_resolved(future_object *self)
{
    bin_empty();
    ferry_status status = ferry_future_poll(self->future);
    if (status == FERRY_PENDING)
        raise_status(status, "the operation has not resolved yet");
    return status;
}

/* The exception of a failure; what a function of Python's raised is its cause. */
static PyObject *exception_with_cause(future_object *self)
{
    PyObject *exception = future_exception(self->future);
    if (!exception || !self->convert || !PyObject_HasAttrString(self->convert, "error"))
        return exception;
    PyObject *cause = PyObject_GetAttrString(self->convert, "error");
    if (cause && cause != Py_None)
        PyException_SetCause(exception, new_reference(cause));
    Py_XDECREF(cause);
    return exception;
}

static PyObject *future_result(future_object *self, PyObject *ignored)
{
    (void)ignored;
    ferry_status status = poll_resolved(self);
    if (status == FERRY_PENDING)
        return NULL;
    if (status != FERRY_OK) {
        PyObject *exception = exception_with_cause(self);
        if (exception)
            PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
        Py_XDECREF(exception);
        return NULL;
    }
    if (self->convert)
        return PyObject_CallFunctionObjArgs(self->convert, (PyObject *)self, NULL);
    return new_reference(Py_None);
}

static PyObject *future_exception_method(future_object *self, PyObject *ignored)
{
    (void)ignored;
    ferry_status status = poll_resolved(self);
    if (status == FERRY_PENDING)
        return NULL;
    return status == FERRY_OK ? new_reference(Py_None) : exception_with_cause(self);
}

static PyObject *future_cancel(future_object *self, PyObject *ignored)
{
    (void)ignored;
    ferry_status status = ferry_future_cancel(self->future);
    if (status != FERRY_OK)
        return raise_status(status, NULL);
    return new_reference(Py_None);
}

static PyObject *future_wait(future_object *self, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"timeout", NULL};
    PyObject *timeout = Py_None;
    int64_t left_ns;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "|O:wait", keywords, &timeout) ||
        !number_timeout_ns(timeout, &left_ns))
        return NULL;
    for (;;) {
        int64_t slice_ns = left_ns >= 0 && left_ns < WAIT_SLICE_NS ? left_ns : WAIT_SLICE_NS;
        ferry_status status;
        Py_BEGIN_ALLOW_THREADS;
        status = ferry_future_wait(self->future, slice_ns);
        Py_END_ALLOW_THREADS;
        bin_empty();
        if (ferry_future_poll(self->future) != FERRY_PENDING)
            return new_reference(Py_True);
        if (status != FERRY_PENDING) /* refused */
            return raise_status(status, NULL);
        if (PyErr_CheckSignals())
            return NULL;
        if (left_ns >= 0 && (left_ns -= slice_ns) <= 0)
            return new_reference(Py_False);
    }
}

static PyObject *future_quiet(future_object *self, PyObject *ignored)
{
    (void)ignored;
    return future_wrap(self->engine, ferry_future_quiet(self->future), NULL);
}

static PyObject *future_issued(future_object *self, PyObject *ignored)
{
    (void)ignored;
    return future_wrap(self->engine, ferry_future_issued(self->future), NULL);
}

static PyObject *future_stream_wait(future_object *self, PyObject *arguments)
{
    const char *name;
    unsigned long long stream = 0;
    if (!PyArg_ParseTuple(arguments, "s|K:stream_wait", &name, &stream))
        return NULL;
    ferry_device *device = engine_device(self->engine, name);
    if (!device)
        return NULL;
    ferry_status status = ferry_future_stream_wait(self->future, device, (void *)(uintptr_t)stream);
    if (status != FERRY_OK)
        return raise_status(status, NULL);
    return new_reference(Py_None);
}

static PyObject *future_value(future_object *self, PyObject *ignored)
{
    (void)ignored;
    ferry_value value = FERRY_VALUE_INIT;
    ferry_status status = ferry_future_value(self->future, &value);
    if (status != FERRY_OK)
        return raise_status(status, "the future has no value");
    return Py_BuildValue("y#K", value.data ? value.data : "", (Py_ssize_t)value.size_bytes,
                         (unsigned long long)value.version);
}

static PyObject *future_message(future_object *self, PyObject *ignored)
{
    (void)ignored;
    ferry_message_info info = FERRY_MESSAGE_INFO_INIT;
    ferry_status status = ferry_message_describe(self->future, &info);
    if (status != FERRY_OK)
        return raise_status(status, "the future has no message");
    return Py_BuildValue("IKn", info.rank, (unsigned long long)info.tag,
                         (Py_ssize_t)info.size_bytes);
}

static PyObject *future_get_status(future_object *self, void *ignored)
{
    (void)ignored;
    return PyUnicode_FromString(ferry_status_name(ferry_future_poll(self->future)));
}

static PyObject *future_get_id(future_object *self, void *ignored)
{
    (void)ignored;
    return PyLong_FromUnsignedLongLong(ferry_future_id(self->future));
}

static PyObject *future_get_engine(future_object *self, void *ignored)
{
    (void)ignored;
    return new_reference((PyObject *)self->engine);
}

static PyObject *future_repr(future_object *self)
{
    return PyUnicode_FromFormat("<ferry.Future %llu %s>",
                                (unsigned long long)ferry_future_id(self->future),
                                ferry_status_name(ferry_future_poll(self->future)));
}

static PyObject *future_await(future_object *self)
{
    ferry_status status = ferry_future_poll(self->future);
    if (status == FERRY_OK && !self->convert) {
        bin_empty();
        return new_reference(ready);
    }
    return PyObject_CallFunctionObjArgs(wait_function, (PyObject *)self, NULL);
}

static PyObject *ready_next(PyObject *self)
{
    (void)self;
    return NULL;
}

static PyMethodDef future_methods[] = {
    METHOD("done", future_done, METH_NOARGS, "Whether the operation has resolved."),
    METHOD("result", future_result, METH_NOARGS,
           "The result; raises why the operation failed, or PendingError."),
    METHOD("exception", future_exception_method, METH_NOARGS,
           "Why the operation failed, or None; raises PendingError."),
    METHOD("cancel", future_cancel, METH_NOARGS,
           "Asks the operation to stop. The future still resolves once."),
    METHOD("wait", future_wait, METH_VARARGS | METH_KEYWORDS,
           "Blocks this thread until the future has resolved: True, or False after the timeout."),
    METHOD("quiet", future_quiet, METH_NOARGS,
           "A future that resolves when nobody touches the operation's memory any more."),
    METHOD("issued", future_issued, METH_NOARGS,
           "A future that resolves when the operation stands in its stream."),
    METHOD("stream_wait", future_stream_wait, METH_VARARGS,
           "Makes a stream of a GPU wait for the operation, on the GPU."),
    METHOD("_value", future_value, METH_NOARGS, "The value's bytes and version."),
    METHOD("_message", future_message, METH_NOARGS, "The message's rank, tag and size."),
    METHOD("__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS, "Future[T], for types."),
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef future_getset[] = {
    {"status", (getter)future_get_status, NULL, "The status's name, as \"FERRY_OK\".", NULL},
    {"id", (getter)future_get_id, NULL, "The operation's number, as in errors and traces.", NULL},
    {"engine", (getter)future_get_engine, NULL, "The Engine.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot future_slots[] = {
    {Py_tp_doc, "Resolves exactly once. `await` gives the result or raises why it failed."},
    {Py_tp_new, no_new},
    {Py_tp_dealloc, future_dealloc},
    {Py_tp_traverse, future_traverse},
    {Py_tp_clear, future_clear},
    {Py_tp_repr, future_repr},
    {Py_tp_methods, future_methods},
    {Py_tp_getset, future_getset},
    {Py_am_await, future_await},
    {0, NULL},
};

static PyType_Spec future_spec = {
    .name = "ferry.Future",
    .basicsize = sizeof(future_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = future_slots,
};

static PyType_Slot ready_slots[] = {
    {Py_tp_new, no_new},
    {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, ready_next},
    {0, NULL},
};

static PyType_Spec ready_spec = {
    .name = "ferry._core.Ready",
    .basicsize = sizeof(PyObject),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = ready_slots,
};

int future_add_type(PyObject *module)
{
    if (type_add(module, &future_spec, &future_type) || type_add(module, &ready_spec, &ready_type))
        return -1;
    ready = (PyObject *)PyObject_New(PyObject, ready_type);
    return ready ? 0 : -1;
}
