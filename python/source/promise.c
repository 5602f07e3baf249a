/* SPDX-License-Identifier: Apache-2.0 */
/* Promise: resolves a future from Python. */
#include "promise.h"
#include "error.h"
#include "future.h"
#include "numbers.h"
#include "type.h"

typedef struct promise_object {
    PyObject base;
    ferry_promise *promise; /* NULL after release() */
    engine_object *engine;
} promise_object;

PyTypeObject *promise_type;

PyObject *promise_wrap(engine_object *engine, ferry_promise *promise)
{
    promise_object *self = PyObject_New(promise_object, promise_type);
    if (!self) {
        ferry_promise_release(promise);
        return NULL;
    }
    self->promise = promise;
    self->engine = (engine_object *)new_reference((PyObject *)engine);
    return (PyObject *)self;
}

static void promise_dealloc(promise_object *self)
{
    PyTypeObject *type = Py_TYPE(self);
    ferry_promise_release(self->promise);
    Py_DECREF((PyObject *)self->engine);
    PyObject_Free(self);
    Py_DECREF(type);
}

static bool is_open(promise_object *self)
{
    if (!self->promise)
        PyErr_SetString(PyExc_ValueError, "the promise was released");
    return self->promise != NULL;
}

static PyObject *promise_bytes(PyObject *convert, PyObject *future)
{
    (void)convert;
    PyObject *value = PyObject_CallMethod(future, "_value", NULL);
    PyObject *bytes = value ? new_reference(PyTuple_GetItem(value, 0)) : NULL;
    Py_XDECREF(value);
    return bytes;
}

static PyMethodDef promise_bytes_method = METHOD("value", promise_bytes, METH_O, NULL);

static PyObject *promise_get_future(promise_object *self, void *ignored)
{
    (void)ignored;
    if (!is_open(self))
        return NULL;
    PyObject *convert = PyCFunction_New(&promise_bytes_method, NULL);
    if (!convert)
        return NULL;
    ferry_future *future = ferry_promise_future(self->promise);
    PyObject *made = future_wrap(self->engine, future, convert);
    Py_DECREF(convert);
    return made;
}

static PyObject *resolved(ferry_status status)
{
    if (status == FERRY_E_INVALID)
        return raise_status(status, "the promise has been resolved, or the arguments are invalid");
    if (status != FERRY_OK)
        return raise_status(status, NULL);
    return new_reference(Py_None);
}

static PyObject *promise_resolve(promise_object *self, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"value", NULL};
    const char *data = "";
    Py_ssize_t size_bytes = 0;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "|y#:resolve", keywords, &data,
                                     &size_bytes) ||
        !is_open(self))
        return NULL;
    if (size_bytes > 65536) {
        PyErr_SetString(PyExc_ValueError,
                        "a promise's value is of 65536 bytes at most; use a buffer");
        return NULL;
    }
    return resolved(ferry_promise_resolve_value(self->promise, data, (size_t)size_bytes));
}

static PyObject *promise_fail(promise_object *self, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"message", "status", NULL};
    PyObject *message = NULL;
    int status = FERRY_E_FAILED;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "|Oi:fail", keywords, &message, &status) ||
        !is_open(self))
        return NULL;
    if (status >= 0) {
        PyErr_SetString(PyExc_ValueError, "the status of a failure is negative");
        return NULL;
    }
    const char *text = NULL;
    PyObject *bytes = NULL;
    if (message && message != Py_None) {
        bytes = text_bytes(message, "message", &text);
        if (!bytes)
            return NULL;
    }
    PyObject *done = resolved(ferry_promise_resolve(self->promise, (ferry_status)status, text));
    Py_XDECREF(bytes);
    return done;
}

static PyObject *promise_release(promise_object *self, PyObject *ignored)
{
    (void)ignored;
    ferry_promise *promise = self->promise;
    self->promise = NULL;
    ferry_promise_release(promise);
    return new_reference(Py_None);
}

static PyObject *no_new(PyTypeObject *type, PyObject *arguments, PyObject *names)
{
    (void)type, (void)arguments, (void)names;
    PyErr_SetString(PyExc_TypeError, "Engine.promise() makes a promise");
    return NULL;
}

static PyMethodDef promise_methods[] = {
    METHOD("resolve", promise_resolve, METH_VARARGS | METH_KEYWORDS,
           "Resolves the future, whose result are these bytes."),
    METHOD("fail", promise_fail, METH_VARARGS | METH_KEYWORDS,
           "Fails the future with a message and a negative status."),
    METHOD("release", promise_release, METH_NOARGS,
           "Ends the promise. A future that is pending fails with BrokenPromiseError."),
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef promise_getset[] = {
    {"future", (getter)promise_get_future, NULL, "The promise's Future.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot promise_slots[] = {
    {Py_tp_doc, "Resolves a future from outside ferry. A promise that is dropped breaks it."},
    {Py_tp_new, no_new},
    {Py_tp_dealloc, promise_dealloc},
    {Py_tp_methods, promise_methods},
    {Py_tp_getset, promise_getset},
    {0, NULL},
};

static PyType_Spec promise_spec = {
    .name = "ferry.Promise",
    .basicsize = sizeof(promise_object),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = promise_slots,
};

int promise_add_type(PyObject *module)
{
    return type_add(module, &promise_spec, &promise_type);
}
