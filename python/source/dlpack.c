/* SPDX-License-Identifier: Apache-2.0 */
/* DLPack: memory from and to the libraries of tensors, on the host and on GPUs. */
#include "dlpack.h"
#include "holder.h"
#include <stdlib.h>

/* Of DLPack 1.0 (dlpack.h), which is a description of memory layouts. */
enum { DL_CPU = 1, DL_CUDA = 2, DL_CUDA_HOST = 3, DL_CUDA_MANAGED = 13 };
enum { DL_UINT = 1, DL_FLAG_READ_ONLY = 1 };

typedef struct {
    int32_t device_type;
    int32_t device_id;
} dl_device;

typedef struct {
    void *data;
    dl_device device;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape;
    int64_t *strides;
    uint64_t byte_offset;
} dl_tensor;

typedef struct dl_managed {
    dl_tensor tensor;
    void *context;
    void (*deleter)(struct dl_managed *);
} dl_managed;

typedef struct dl_versioned {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct dl_versioned *);
    uint64_t flags;
    dl_tensor tensor;
} dl_versioned;

static void drop_managed(void *arg)
{
    dl_managed *managed = arg;
    if (managed->deleter)
        managed->deleter(managed);
}

static void drop_versioned(void *arg)
{
    dl_versioned *managed = arg;
    if (managed->deleter)
        managed->deleter(managed);
}

/* Size of a tensor whose elements lie side by side in C's order; -1 with an exception. */
static int64_t tensor_bytes(const dl_tensor *tensor)
{
    int64_t elements = 1;
    bool is_dense = true;
    for (int32_t i = tensor->ndim - 1; i >= 0; i--) {
        if (tensor->strides && tensor->shape[i] > 1 && tensor->strides[i] != elements)
            is_dense = false;
        elements *= tensor->shape[i];
    }
    if (!is_dense && elements > 0) {
        PyErr_SetString(PyExc_BufferError,
                        "the tensor's elements do not lie side by side in C's order");
        return -1;
    }
    return (elements * tensor->bits * tensor->lanes + 7) / 8;
}

static PyObject *ask_for_capsule(PyObject *exporter, bool is_cuda)
{
    PyObject *method = PyObject_GetAttrString(exporter, "__dlpack__");
    /* On a GPU: the producer makes the legacy default stream (1) wait for its work. */
    PyObject *stream = is_cuda ? PyLong_FromLong(1) : new_reference(Py_None);
    PyObject *none = PyTuple_New(0);
    PyObject *newest =
        stream ? Py_BuildValue("{sOs(ii)}", "stream", stream, "max_version", 1, 0) : NULL;
    PyObject *oldest = stream ? Py_BuildValue("{sO}", "stream", stream) : NULL;
    PyObject *capsule = NULL;
    if (method && none && newest && oldest) {
        capsule = PyObject_Call(method, none, newest);
        if (!capsule && PyErr_ExceptionMatches(PyExc_TypeError)) { /* DLPack before 1.0 */
            PyErr_Clear();
            capsule = PyObject_Call(method, none, oldest);
        }
    }
    Py_XDECREF(method);
    Py_XDECREF(stream);
    Py_XDECREF(none);
    Py_XDECREF(newest);
    Py_XDECREF(oldest);
    return capsule;
}

/* Fills a holder with what a capsule has; the capsule's content belongs to the holder then. */
static int take_capsule(struct holder *holder, PyObject *capsule, const dl_tensor **tensor_p)
{
    dl_versioned *versioned = PyCapsule_IsValid(capsule, "dltensor_versioned")
                                  ? PyCapsule_GetPointer(capsule, "dltensor_versioned")
                                  : NULL;
    if (versioned && versioned->major != 1) {
        PyErr_SetString(PyExc_BufferError, "the tensor is of another version of DLPack than 1");
        return -1;
    }
    if (versioned) {
        if (PyCapsule_SetName(capsule, "used_dltensor_versioned"))
            return -1;
        holder->drop = drop_versioned;
        holder->drop_arg = versioned;
        holder->is_readonly = versioned->flags & DL_FLAG_READ_ONLY;
        *tensor_p = &versioned->tensor;
        return 0;
    }
    dl_managed *managed = PyCapsule_GetPointer(capsule, "dltensor");
    if (!managed || PyCapsule_SetName(capsule, "used_dltensor"))
        return -1;
    holder->drop = drop_managed;
    holder->drop_arg = managed;
    *tensor_p = &managed->tensor;
    return 0;
}

static int describe(struct holder *holder, const dl_tensor *tensor, bool *is_cuda_p, int *index_p)
{
    int64_t size_bytes = tensor_bytes(tensor);
    if (size_bytes < 0)
        return -1;
    int kind = tensor->device.device_type;
    if (kind != DL_CPU && kind != DL_CUDA_HOST && kind != DL_CUDA && kind != DL_CUDA_MANAGED) {
        PyErr_Format(PyExc_BufferError, "memory of DLPack's device type %d is not for ferry", kind);
        return -1;
    }
    holder->memory = (char *)tensor->data + tensor->byte_offset;
    holder->size_bytes = (size_t)size_bytes;
    *is_cuda_p = kind == DL_CUDA || kind == DL_CUDA_MANAGED;
    *index_p = tensor->device.device_id;
    return 0;
}

struct holder *dlpack_take(PyObject *exporter, bool is_cuda, bool *is_cuda_p, int *index_p)
{
    PyObject *capsule = ask_for_capsule(exporter, is_cuda);
    if (!capsule)
        return NULL;
    struct holder *holder = holder_make();
    const dl_tensor *tensor = NULL;
    if (holder &&
        (take_capsule(holder, capsule, &tensor) || describe(holder, tensor, is_cuda_p, index_p))) {
        holder_release(holder);
        holder = NULL;
    }
    Py_DECREF(capsule);
    return holder;
}

/* What another library holds of a Buffer. Its deleter may be called on any thread. */
struct lent {
    dl_managed managed;
    dl_versioned versioned;
    int64_t shape;
    struct holder *holder;
};

static void drop_lent(void *arg)
{
    struct lent *lent = arg;
    buffer_object *buffer = lent->managed.context ? lent->managed.context : lent->versioned.context;
    buffer->exports--;
    Py_DECREF((PyObject *)buffer);
    free(lent);
}

static void delete_managed(dl_managed *managed)
{
    bin_put(((struct lent *)(void *)managed)->holder);
}

static void delete_versioned(dl_versioned *versioned)
{
    char *lent = (char *)versioned - offsetof(struct lent, versioned);
    bin_put(((struct lent *)(void *)lent)->holder);
}

/* Of a capsule that nobody took. */
static void capsule_end(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, "dltensor"))
        delete_managed(PyCapsule_GetPointer(capsule, "dltensor"));
    else if (PyCapsule_IsValid(capsule, "dltensor_versioned"))
        delete_versioned(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
    else
        return;
    bin_empty();
}

static dl_device device_of(buffer_object *self)
{
    if (self->is_on_host)
        return (dl_device){DL_CPU, 0};
    const char *name = ferry_device_name(ferry_buffer_device(self->buffer));
    return (dl_device){DL_CUDA, (int32_t)strtol(name + strcspn(name, ":") + 1, NULL, 10)};
}

PyObject *dlpack_device(buffer_object *self, PyObject *ignored)
{
    (void)ignored;
    if (!self->buffer) {
        PyErr_SetString(PyExc_ValueError, "the buffer was closed");
        return NULL;
    }
    dl_device device = device_of(self);
    return Py_BuildValue("(ii)", (int)device.device_type, (int)device.device_id);
}

static PyObject *make_capsule(buffer_object *self, bool is_versioned)
{
    struct lent *lent = calloc(1, sizeof *lent);
    if (!lent)
        return PyErr_NoMemory();
    lent->holder = holder_make();
    if (!lent->holder) {
        free(lent);
        return NULL;
    }
    lent->holder->drop = drop_lent;
    lent->holder->drop_arg = lent;
    lent->shape = (int64_t)ferry_buffer_size_bytes(self->buffer);
    dl_tensor tensor = {.data = ferry_buffer_data(self->buffer),
                        .device = device_of(self),
                        .ndim = 1,
                        .code = DL_UINT,
                        .bits = 8,
                        .lanes = 1,
                        .shape = &lent->shape};
    if (is_versioned)
        lent->versioned = (dl_versioned){.major = 1,
                                         .context = self,
                                         .deleter = delete_versioned,
                                         .flags = self->is_readonly ? DL_FLAG_READ_ONLY : 0,
                                         .tensor = tensor};
    else
        lent->managed = (dl_managed){.tensor = tensor, .context = self, .deleter = delete_managed};
    Py_INCREF((PyObject *)self);
    self->exports++;
    PyObject *capsule = is_versioned
                            ? PyCapsule_New(&lent->versioned, "dltensor_versioned", capsule_end)
                            : PyCapsule_New(&lent->managed, "dltensor", capsule_end);
    if (!capsule)
        holder_release(lent->holder);
    return capsule;
}

PyObject *dlpack_lend(buffer_object *self, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "|$OOOO:__dlpack__", keywords, &stream,
                                     &version, &device, &copy))
        return NULL;
    if (!self->buffer) {
        PyErr_SetString(PyExc_ValueError, "the buffer was closed");
        return NULL;
    }
    int major = 0, minor = 0;
    if (version != Py_None && !PyArg_ParseTuple(version, "ii", &major, &minor))
        return NULL;
    if (copy == Py_True) {
        PyErr_SetString(PyExc_BufferError, "the buffer's memory is lent, not copied");
        return NULL;
    }
    if (self->is_readonly && major < 1) {
        PyErr_SetString(PyExc_BufferError,
                        "the buffer is read-only, which DLPack says from version 1.0 on");
        return NULL;
    }
    return make_capsule(self, major >= 1);
}
