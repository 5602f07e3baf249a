/* SPDX-License-Identifier: Apache-2.0 */
/* Buffer: memory of ferry's, or of an exporter, which a holder keeps in place. */
#include "buffer.h"
#include "dlpack.h"
#include "error.h"
#include "future.h"
#include "holder.h"
#include "span.h"
#include "type.h"
#include <stdlib.h>

PyTypeObject *buffer_type;

PyObject *buffer_make(engine_object *engine, const ferry_buffer_options *options,
                      ferry_device *device)
{
    ferry_buffer *buffer = NULL;
    ferry_error *error = NULL;
    ferry_status status;
    if (options->size_bytes == 0) {
        PyErr_SetString(PyExc_ValueError, "a buffer has at least one byte");
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    status = ferry_buffer_create(device, options, &buffer, &error);
    Py_END_ALLOW_THREADS;
    if (status != FERRY_OK)
        return raise_error(error);
    buffer_object *self = PyObject_New(buffer_object, buffer_type);
    if (!self) {
        ferry_buffer_release(buffer);
        return NULL;
    }
    self->buffer = buffer;
    self->engine = (engine_object *)new_reference((PyObject *)engine);
    self->holder = NULL;
    self->exports = 0;
    self->is_readonly = options->source != NULL;
    self->is_on_host = strncmp(ferry_device_name(device), "host", 4) == 0;
    return (PyObject *)self;
}

/* A Buffer of what a holder has; takes the holder's reference. */
static PyObject *buffer_of_holder(engine_object *engine, struct holder *holder,
                                  ferry_device *device)
{
    ferry_buffer_options options = FERRY_BUFFER_OPTIONS_INIT;
    options.size_bytes = holder->size_bytes;
    if (holder->is_readonly)
        options.source = holder->memory;
    else
        options.memory = holder->memory;
    options.free_fn = holder_free;
    options.free_arg = holder;
    holder->references++; /* ferry's, if it makes a buffer */
    PyObject *made = buffer_make(engine, &options, device);
    if (made) {
        ((buffer_object *)made)->holder = holder;
        return made;
    }
    holder->references--;
    holder_release(holder);
    return NULL;
}

/* Whether an exporter says that its memory is a GPU's; -1 with an exception. */
static int is_on_gpu(PyObject *exporter)
{
    if (!PyObject_HasAttrString(exporter, "__dlpack_device__"))
        return 0;
    PyObject *where = PyObject_CallMethod(exporter, "__dlpack_device__", NULL);
    if (!where)
        return -1;
    int kind = 0, index = 0;
    int result = -1;
    if (PyTuple_Check(where) && PyArg_ParseTuple(where, "ii", &kind, &index))
        result = kind == 2 || kind == 13; /* kDLCUDA, kDLCUDAManaged */
    else if (!PyErr_Occurred())
        PyErr_SetString(PyExc_TypeError, "__dlpack_device__ is to return a pair of numbers");
    Py_DECREF(where);
    return result;
}

/* A GPU's tensor may still be written by work on its default stream: copies wait for that. */
static int define_after_stream(PyObject *made, ferry_device *device)
{
    buffer_object *self = (buffer_object *)made;
    ferry_future *written = ferry_event_record(device, NULL);
    ferry_status status = ferry_buffer_define(ferry_buffer_span(self->buffer), written);
    if (status != FERRY_OK)
        raise_status(status, NULL);
    ferry_future_release(written);
    return status == FERRY_OK ? 0 : -1;
}

/* A holder of a tensor; *is_gpu_p says whether it is a GPU's, and `name` receives its device. */
static struct holder *hold_tensor(PyObject *exporter, PyObject *readonly, int *is_gpu_p, char *name,
                                  size_t name_bytes)
{
    bool is_cuda = false;
    int index = 0;
    *is_gpu_p = is_on_gpu(exporter);
    if (*is_gpu_p < 0)
        return NULL;
    struct holder *holder = dlpack_take(exporter, *is_gpu_p, &is_cuda, &index);
    if (!holder)
        return NULL;
    if (readonly == Py_False && holder->is_readonly) {
        holder_release(holder);
        PyErr_SetString(PyExc_BufferError, "the tensor is read-only");
        return NULL;
    }
    if (readonly == Py_True)
        holder->is_readonly = true;
    if (is_cuda)
        PyOS_snprintf(name, name_bytes, "cuda:%d", index);
    return holder;
}

/* The buffer protocol is asked first: it knows of read-only memory, and costs less. */
static bool has_view(PyObject *exporter)
{
    if (Py_TYPE(exporter) == buffer_type)
        return ((buffer_object *)exporter)->is_on_host;
    return PyObject_CheckBuffer(exporter);
}

PyObject *buffer_wrap(engine_object *engine, PyObject *exporter, PyObject *readonly,
                      const char *device_name)
{
    char name[32] = "host:0";
    int is_gpu = 0;
    struct holder *holder = NULL;
    if (has_view(exporter))
        holder = holder_of_view(exporter, readonly);
    else if (PyObject_HasAttrString(exporter, "__dlpack__"))
        holder = hold_tensor(exporter, readonly, &is_gpu, name, sizeof name);
    else
        PyErr_Format(PyExc_TypeError, "%R has neither the buffer protocol nor DLPack",
                     (PyObject *)Py_TYPE(exporter));
    if (!holder)
        return NULL;
    ferry_device *device = engine_device(engine, device_name ? device_name : name);
    if (!device) {
        holder_release(holder);
        return NULL;
    }
    PyObject *made = buffer_of_holder(engine, holder, device);
    if (made && is_gpu && define_after_stream(made, device))
        Py_CLEAR(made);
    return made;
}

static void buffer_dealloc(buffer_object *self)
{
    PyTypeObject *type = Py_TYPE(self);
    ferry_buffer_release(self->buffer);
    holder_release(self->holder);
    Py_DECREF((PyObject *)self->engine);
    PyObject_Free(self);
    Py_DECREF(type);
}

static bool is_open(buffer_object *self)
{
    if (!self->buffer)
        PyErr_SetString(PyExc_ValueError, "the buffer was closed");
    return self->buffer != NULL;
}

static PyObject *buffer_close(buffer_object *self, PyObject *ignored)
{
    (void)ignored;
    bin_empty(); /* in which tensors may be that others had of it */
    if (self->exports > 0) {
        PyErr_SetString(PyExc_BufferError, "views of the buffer exist: it cannot be closed");
        return NULL;
    }
    ferry_buffer *buffer = self->buffer;
    self->buffer = NULL;
    ferry_buffer_release(buffer);
    bin_empty();
    return new_reference(Py_None);
}

static PyObject *buffer_released(buffer_object *self, PyObject *ignored)
{
    (void)ignored;
    ferry_promise *promise = NULL;
    ferry_status status = ferry_promise_create(self->engine->engine, &promise);
    if (status != FERRY_OK)
        return raise_status(status, NULL);
    ferry_future *future = ferry_promise_future(promise);
    if (!self->holder) { /* ferry's own memory: nobody waits for it */
        ferry_promise_resolve(promise, FERRY_OK, NULL);
        ferry_promise_release(promise);
    } else if (!holder_tell(self->holder, promise)) {
        ferry_promise_release(promise);
        ferry_future_release(future);
        PyErr_SetString(PyExc_ValueError, "released() was called before");
        return NULL;
    }
    return future_wrap(self->engine, future, NULL);
}

static Py_ssize_t buffer_length(buffer_object *self)
{
    return is_open(self) ? (Py_ssize_t)ferry_buffer_size_bytes(self->buffer) : -1;
}

static PyObject *buffer_define(buffer_object *self, PyObject *arguments)
{
    PyObject *future = Py_None;
    if (!PyArg_ParseTuple(arguments, "|O:define", &future) || !is_open(self))
        return NULL;
    PyObject *span = PyObject_GetAttrString((PyObject *)self, "span");
    PyObject *done = span ? PyObject_CallMethod(span, "define", "O", future) : NULL;
    Py_XDECREF(span);
    return done;
}

static PyObject *buffer_get_span(buffer_object *self, void *ignored)
{
    (void)ignored;
    return PyObject_CallFunction((PyObject *)span_type, "O", (PyObject *)self);
}

static PyObject *buffer_subscript(buffer_object *self, PyObject *key)
{
    PyObject *span = buffer_get_span(self, NULL);
    PyObject *part = span ? PyObject_GetItem(span, key) : NULL;
    Py_XDECREF(span);
    return part;
}

static PyObject *buffer_get_device(buffer_object *self, void *ignored)
{
    (void)ignored;
    if (!is_open(self))
        return NULL;
    return PyUnicode_FromString(ferry_device_name(ferry_buffer_device(self->buffer)));
}

static PyObject *buffer_get_address(buffer_object *self, void *ignored)
{
    (void)ignored;
    return is_open(self) ? PyLong_FromVoidPtr(ferry_buffer_data(self->buffer)) : NULL;
}

static PyObject *buffer_get_readonly(buffer_object *self, void *ignored)
{
    (void)ignored;
    return PyBool_FromLong(self->is_readonly);
}

static PyObject *buffer_get_closed(buffer_object *self, void *ignored)
{
    (void)ignored;
    return PyBool_FromLong(self->buffer == NULL);
}

static PyObject *buffer_get_engine(buffer_object *self, void *ignored)
{
    (void)ignored;
    return new_reference((PyObject *)self->engine);
}

static int buffer_getbuffer(buffer_object *self, Py_buffer *view, int flags)
{
    view->obj = NULL;
    if (!is_open(self))
        return -1;
    if (!self->is_on_host) {
        PyErr_SetString(PyExc_BufferError, "the buffer's memory is a GPU's; DLPack gives it");
        return -1;
    }
    if (PyBuffer_FillInfo(view, (PyObject *)self, ferry_buffer_data(self->buffer),
                          (Py_ssize_t)ferry_buffer_size_bytes(self->buffer), self->is_readonly,
                          flags))
        return -1;
    self->exports++;
    return 0;
}

static void buffer_releasebuffer(buffer_object *self, Py_buffer *view)
{
    (void)view;
    self->exports--;
}

static PyObject *no_new(PyTypeObject *type, PyObject *arguments, PyObject *names)
{
    (void)type, (void)arguments, (void)names;
    PyErr_SetString(PyExc_TypeError, "Engine.buffer() and Engine.allocate() make buffers");
    return NULL;
}

static PyObject *buffer_enter(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    return new_reference(self);
}

static PyObject *buffer_exit(buffer_object *self, PyObject *arguments)
{
    (void)arguments;
    return buffer_close(self, NULL);
}

static PyMethodDef buffer_methods[] = {
    METHOD("close", buffer_close, METH_NOARGS,
           "Gives the memory up. Operations under way keep it until they are quiet."),
    METHOD("released", buffer_released, METH_NOARGS,
           "A future that resolves when a closed buffer's exporter has its memory back."),
    METHOD("define", buffer_define, METH_VARARGS,
           "Declares the contents valid, now or when a future has resolved."),
    METHOD("__enter__", buffer_enter, METH_NOARGS, NULL),
    METHOD("__exit__", buffer_exit, METH_VARARGS, NULL),
    METHOD("__dlpack__", dlpack_lend, METH_VARARGS | METH_KEYWORDS,
           "The memory as a DLPack tensor of bytes."),
    METHOD("__dlpack_device__", dlpack_device, METH_NOARGS,
           "Where the memory is, as DLPack says it."),
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef buffer_getset[] = {
    {"span", (getter)buffer_get_span, NULL, "The span of all of the buffer.", NULL},
    {"device", (getter)buffer_get_device, NULL, "The device's name, as \"host:0\".", NULL},
    {"address", (getter)buffer_get_address, NULL, "The memory's address.", NULL},
    {"readonly", (getter)buffer_get_readonly, NULL, "Whether writes are refused.", NULL},
    {"closed", (getter)buffer_get_closed, NULL, "Whether close() was called.", NULL},
    {"engine", (getter)buffer_get_engine, NULL, "The Engine.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot buffer_slots[] = {
    {Py_tp_doc, "Memory that ferry keeps in order. buffer[from:to] is a Span of it."},
    {Py_tp_new, no_new},
    {Py_tp_dealloc, buffer_dealloc},
    {Py_tp_methods, buffer_methods},
    {Py_tp_getset, buffer_getset},
    {Py_mp_length, buffer_length},
    {Py_mp_subscript, buffer_subscript},
    {Py_bf_getbuffer, buffer_getbuffer},
    {Py_bf_releasebuffer, buffer_releasebuffer},
    {0, NULL},
};

static PyType_Spec buffer_spec = {
    .name = "ferry.Buffer",
    .basicsize = sizeof(buffer_object),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = buffer_slots,
};

int buffer_add_type(PyObject *module)
{
    return type_add(module, &buffer_spec, &buffer_type);
}
