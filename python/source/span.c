/* SPDX-License-Identifier: Apache-2.0 */
/* Span: a range of a Buffer. */
#include "span.h"
#include "error.h"
#include "future.h"
#include "numbers.h"
#include "type.h"

PyTypeObject *span_type;

static PyObject *span_make(buffer_object *buffer, size_t offset_bytes, size_t size_bytes)
{
    span_object *self = PyObject_New(span_object, span_type);
    if (!self)
        return NULL;
    self->buffer = (buffer_object *)new_reference((PyObject *)buffer);
    self->offset_bytes = offset_bytes;
    self->size_bytes = size_bytes;
    return (PyObject *)self;
}

static PyObject *span_new(PyTypeObject *type, PyObject *arguments, PyObject *names)
{
    (void)type;
    static char *keywords[] = {"buffer", "offset_bytes", "size_bytes", NULL};
    PyObject *buffer, *offset = NULL, *size = NULL;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O!|OO:Span", keywords, buffer_type, &buffer,
                                     &offset, &size))
        return NULL;
    Py_ssize_t whole = PyObject_Length(buffer);
    size_t offset_bytes = 0;
    if (whole < 0 || (offset && !number_size(offset, "offset_bytes", &offset_bytes)))
        return NULL;
    size_t size_bytes = offset_bytes <= (size_t)whole ? (size_t)whole - offset_bytes : 0;
    if (size && !number_size(size, "size_bytes", &size_bytes))
        return NULL;
    if (offset_bytes > (size_t)whole || size_bytes > (size_t)whole - offset_bytes) {
        PyErr_SetString(PyExc_ValueError, "the span reaches past the end of its buffer");
        return NULL;
    }
    return span_make((buffer_object *)buffer, offset_bytes, size_bytes);
}

static void span_dealloc(span_object *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_DECREF((PyObject *)self->buffer);
    PyObject_Free(self);
    Py_DECREF(type);
}

bool span_read(PyObject *object, ferry_span *span_p)
{
    buffer_object *buffer;
    if (Py_TYPE(object) == buffer_type) {
        buffer = (buffer_object *)object;
        *span_p = ferry_buffer_span(buffer->buffer);
    } else if (Py_TYPE(object) == span_type) {
        span_object *span = (span_object *)object;
        buffer = span->buffer;
        *span_p = (ferry_span){buffer->buffer, span->offset_bytes, span->size_bytes};
    } else {
        PyErr_Format(PyExc_TypeError,
                     "a Buffer or Span of ferry is wanted here, not %R; Engine.buffer() makes one",
                     (PyObject *)Py_TYPE(object));
        return false;
    }
    if (!buffer->buffer) {
        PyErr_SetString(PyExc_ValueError, "the buffer was closed");
        return false;
    }
    return true;
}

buffer_object *span_buffer(PyObject *object)
{
    return Py_TYPE(object) == span_type ? ((span_object *)object)->buffer : (buffer_object *)object;
}

PyObject *span_or_wrap(engine_object *engine, PyObject *object, PyObject *readonly)
{
    if (Py_TYPE(object) == buffer_type || Py_TYPE(object) == span_type)
        return new_reference(object);
    return buffer_wrap(engine, object, readonly, NULL);
}

static Py_ssize_t span_length(span_object *self)
{
    return (Py_ssize_t)self->size_bytes;
}

static PyObject *span_subscript(span_object *self, PyObject *key)
{
    if (!PySlice_Check(key)) {
        PyErr_SetString(PyExc_TypeError, "a span has slices, as span[from:to]");
        return NULL;
    }
    Py_ssize_t from, to, step;
    if (PySlice_Unpack(key, &from, &to, &step))
        return NULL;
    Py_ssize_t size_bytes = PySlice_AdjustIndices((Py_ssize_t)self->size_bytes, &from, &to, step);
    if (step != 1) {
        PyErr_SetString(PyExc_ValueError, "a span's bytes are side by side: the step is 1");
        return NULL;
    }
    return span_make(self->buffer, self->offset_bytes + (size_t)from, (size_t)size_bytes);
}

static PyObject *span_define(span_object *self, PyObject *arguments)
{
    PyObject *future = Py_None;
    ferry_span span;
    if (!PyArg_ParseTuple(arguments, "|O:define", &future) || !span_read((PyObject *)self, &span))
        return NULL;
    if (future != Py_None && Py_TYPE(future) != future_type) {
        PyErr_SetString(PyExc_TypeError, "define() takes a Future of ferry, or None");
        return NULL;
    }
    ferry_status status =
        ferry_buffer_define(span, future == Py_None ? NULL : ((future_object *)future)->future);
    if (status != FERRY_OK)
        return raise_status(status, NULL);
    return new_reference(Py_None);
}

static PyObject *span_get_buffer(span_object *self, void *ignored)
{
    (void)ignored;
    return new_reference((PyObject *)self->buffer);
}

static PyObject *span_get_offset(span_object *self, void *ignored)
{
    (void)ignored;
    return PyLong_FromSize_t(self->offset_bytes);
}

static PyObject *span_get_size(span_object *self, void *ignored)
{
    (void)ignored;
    return PyLong_FromSize_t(self->size_bytes);
}

static PyObject *span_view(span_object *self, PyObject *ignored)
{
    (void)ignored;
    PyObject *whole = PyMemoryView_FromObject((PyObject *)self->buffer);
    if (!whole)
        return NULL;
    PyObject *from = PyLong_FromSize_t(self->offset_bytes);
    PyObject *to = PyLong_FromSize_t(self->offset_bytes + self->size_bytes);
    PyObject *slice = from && to ? PySlice_New(from, to, NULL) : NULL;
    PyObject *view = slice ? PyObject_GetItem(whole, slice) : NULL;
    Py_XDECREF(from);
    Py_XDECREF(to);
    Py_XDECREF(slice);
    Py_DECREF(whole);
    return view;
}

static PyMethodDef span_methods[] = {
    METHOD("define", span_define, METH_VARARGS,
           "Declares the contents valid, now or when a future has resolved."),
    METHOD("view", span_view, METH_NOARGS, "A memoryview of the span's bytes."),
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef span_getset[] = {
    {"buffer", (getter)span_get_buffer, NULL, "The Buffer.", NULL},
    {"offset_bytes", (getter)span_get_offset, NULL, "Where the span begins in it.", NULL},
    {"size_bytes", (getter)span_get_size, NULL, "The span's size.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot span_slots[] = {
    {Py_tp_doc, "Span(buffer, offset_bytes=0, size_bytes=the rest): a range of a Buffer."},
    {Py_tp_new, span_new},
    {Py_tp_dealloc, span_dealloc},
    {Py_tp_methods, span_methods},
    {Py_tp_getset, span_getset},
    {Py_mp_length, span_length},
    {Py_mp_subscript, span_subscript},
    {0, NULL},
};

static PyType_Spec span_spec = {
    .name = "ferry.Span",
    .basicsize = sizeof(span_object),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = span_slots,
};

int span_add_type(PyObject *module)
{
    return type_add(module, &span_spec, &span_type);
}
