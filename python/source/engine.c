/* SPDX-License-Identifier: Apache-2.0 */
/* Engine: what of it is in C. ferry/_engine.py adds what event loops need. */
#include "engine.h"
#include "buffer.h"
#include "call.h"
#include "copies.h"
#include "error.h"
#include "future.h"
#include "group.h"
#include "holder.h"
#include "numbers.h"
#include "promise.h"
#include "stats.h"
#include "type.h"
#include <stdlib.h>

PyTypeObject *engine_type;

/* Options that are numbers, by their names in ferry_engine_options. */
struct option {
    const char *name;
    size_t offset;
    size_t width;
};
#define OPTION(field_)                                                                             \
    {                                                                                              \
#field_, offsetof(ferry_engine_options, field_),                                           \
            sizeof(((ferry_engine_options *)0)->field_)                                            \
    }
static const struct option options_table[] = {
    OPTION(host_devices), OPTION(host_workers),      OPTION(max_nodes),
    OPTION(max_edges),    OPTION(max_accesses),      OPTION(max_tasks),
    OPTION(stream_depth), OPTION(submit_budget),     OPTION(trace_records),
    OPTION(spin_ns),      OPTION(inline_copy_bytes), OPTION(wait_spin_ns),
    OPTION(watchdog_ns),  OPTION(flight_records),    OPTION(message_staging_bytes),
    OPTION(nccl_slots),   OPTION(nccl_pairs),        OPTION(stats),
};

static bool read_option(ferry_engine_options *options, PyObject *name, PyObject *value)
{
    for (size_t i = 0; i < sizeof options_table / sizeof options_table[0]; i++) {
        const struct option *option = &options_table[i];
        if (PyUnicode_CompareWithASCIIString(name, option->name))
            continue;
        void *field = (char *)options + option->offset;
        if (option->width == 4)
            return number_u32(value, option->name, field);
        return number_i64(value, option->name, field); /* past it, ferry's bounds refuse all */
    }
    PyErr_Format(PyExc_TypeError, "Engine() has no option '%U'", name);
    return false;
}

static PyObject *engine_new(PyTypeObject *type, PyObject *arguments, PyObject *names)
{
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    PyObject *name, *value;
    Py_ssize_t at = 0;
    if (PyTuple_Size(arguments)) {
        PyErr_SetString(PyExc_TypeError, "Engine() takes its options by their names");
        return NULL;
    }
    while (names && PyDict_Next(names, &at, &name, &value))
        if (!read_option(&options, name, value))
            return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    engine_object *self = (engine_object *)allocate(type, 0);
    if (!self)
        return NULL;
    ferry_error *error = NULL;
    ferry_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = ferry_engine_create(&options, &self->engine, &error);
    Py_END_ALLOW_THREADS;
    if (status != FERRY_OK) {
        Py_DECREF((PyObject *)self);
        return raise_error(error);
    }
    return (PyObject *)self;
}

static int engine_traverse(engine_object *self, visitproc visit, void *arg)
{
    Py_VISIT((PyObject *)Py_TYPE(self));
    return 0;
}

static void engine_dealloc(engine_object *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (self->engine) {
        Py_BEGIN_ALLOW_THREADS;
        ferry_engine_release(self->engine);
        Py_END_ALLOW_THREADS;
        bin_empty();
    }
    free(self->scratch);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

static PyObject *engine_shutdown(engine_object *self, PyObject *arguments)
{
    PyObject *timeout = Py_None;
    int64_t timeout_ns;
    if (!PyArg_ParseTuple(arguments, "|O:_shutdown", &timeout) ||
        !number_timeout_ns(timeout, &timeout_ns))
        return NULL;
    ferry_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = ferry_engine_shutdown(self->engine, timeout_ns);
    Py_END_ALLOW_THREADS;
    bin_empty();
    if (status != FERRY_OK)
        return raise_status(status, status == FERRY_E_DEADLINE
                                        ? "something was not quiet when the time was over"
                                        : NULL);
    self->is_shut_down = true;
    return new_reference(Py_None);
}

static PyObject *engine_promise(engine_object *self, PyObject *ignored)
{
    (void)ignored;
    ferry_promise *promise = NULL;
    ferry_status status = ferry_promise_create(self->engine, &promise);
    return status == FERRY_OK ? promise_wrap(self, promise) : raise_status(status, NULL);
}

static PyObject *engine_drain(engine_object *self, PyObject *ignored)
{
    (void)ignored;
    return future_wrap(self, ferry_engine_drain(self->engine), NULL);
}

static PyObject *engine_writable(engine_object *self, PyObject *ignored)
{
    (void)ignored;
    return future_wrap(self, ferry_engine_writable(self->engine), NULL);
}

typedef ferry_future *(*combine_fn)(ferry_engine *engine, ferry_future *const *futures,
                                    size_t count);

static PyObject *combine(engine_object *self, PyObject *futures, combine_fn fn)
{
    PyObject *tuple = PySequence_Tuple(futures);
    if (!tuple)
        return NULL;
    size_t count = (size_t)PyTuple_Size(tuple);
    PyObject *result = NULL;
    ferry_future **list = calloc(count + 1, sizeof *list);
    if (!list) {
        PyErr_NoMemory();
        goto out;
    }
    for (size_t i = 0; i < count; i++) {
        PyObject *item = PyTuple_GetItem(tuple, (Py_ssize_t)i);
        if (Py_TYPE(item) != future_type) {
            PyErr_SetString(PyExc_TypeError, "all() and any() take Futures of ferry");
            goto out;
        }
        list[i] = ((future_object *)item)->future;
    }
    result = future_wrap(self, fn(self->engine, list, count), NULL);
out:
    free(list);
    Py_DECREF(tuple);
    return result;
}

static PyObject *engine_all(engine_object *self, PyObject *futures)
{
    return combine(self, futures, ferry_future_all);
}

static PyObject *engine_any(engine_object *self, PyObject *futures)
{
    return combine(self, futures, ferry_future_any);
}

ferry_device *engine_device(const engine_object *self, const char *name)
{
    ferry_device *device = ferry_device_find(self->engine, name);
    if (device)
        return device;
    if (ferry_device_count(self->engine) == 0) { /* an engine has one at least */
        raise_status(FERRY_E_FORKED, NULL);
        return NULL;
    }
    char message[200];
    PyOS_snprintf(message, sizeof message,
                  "the engine has no device \"%.100s\"; open_device() opens GPUs", name);
    raise_status(FERRY_E_NOT_FOUND, message);
    return NULL;
}

static PyObject *engine_allocate(engine_object *self, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"size_bytes", "device", "kind", NULL};
    PyObject *size;
    const char *name = "host:0", *kind = "default";
    size_t size_bytes;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O|ss:allocate", keywords, &size, &name,
                                     &kind) ||
        !number_size(size, "size_bytes", &size_bytes))
        return NULL;
    ferry_buffer_options options = FERRY_BUFFER_OPTIONS_INIT;
    options.size_bytes = size_bytes;
    if (strcmp(kind, "pinned") == 0)
        options.kind = FERRY_MEMORY_PINNED;
    else if (strcmp(kind, "plain") == 0)
        options.kind = FERRY_MEMORY_PLAIN;
    else if (strcmp(kind, "shared") == 0)
        options.kind = FERRY_MEMORY_SHARED;
    else if (strcmp(kind, "default")) {
        PyErr_SetString(PyExc_ValueError,
                        "kind is \"default\", \"pinned\", \"plain\" or \"shared\"");
        return NULL;
    }
    ferry_device *device = engine_device(self, name);
    return device ? buffer_make(self, &options, device) : NULL;
}

static PyObject *engine_buffer(engine_object *self, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"exporter", "readonly", "device", NULL};
    PyObject *exporter, *readonly = Py_None;
    const char *device = NULL;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O|Oz:buffer", keywords, &exporter,
                                     &readonly, &device))
        return NULL;
    bin_empty();
    return buffer_wrap(self, exporter, readonly, device);
}

static PyObject *engine_open_device(engine_object *self, PyObject *arguments)
{
    const char *name;
    ferry_device *device;
    ferry_error *error = NULL;
    ferry_status status;
    if (!PyArg_ParseTuple(arguments, "s:open_device", &name))
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = ferry_device_open(self->engine, name, NULL, &device, &error);
    Py_END_ALLOW_THREADS;
    if (status != FERRY_OK)
        return raise_error(error);
    return PyUnicode_FromString(ferry_device_name(device));
}

static PyObject *engine_get_devices(engine_object *self, void *ignored)
{
    (void)ignored;
    size_t count = ferry_device_count(self->engine);
    PyObject *names = PyTuple_New((Py_ssize_t)count);
    for (size_t i = 0; names && i < count; i++) {
        PyObject *name = PyUnicode_FromString(ferry_device_name(ferry_device_at(self->engine, i)));
        if (!name || PyTuple_SetItem(names, (Py_ssize_t)i, name))
            Py_CLEAR(names);
    }
    return names;
}

static PyObject *engine_record_event(engine_object *self, PyObject *arguments)
{
    const char *name;
    unsigned long long stream = 0;
    if (!PyArg_ParseTuple(arguments, "s|K:record_event", &name, &stream))
        return NULL;
    ferry_device *device = engine_device(self, name);
    if (!device)
        return NULL;
    return future_wrap(self, ferry_event_record(device, (void *)(uintptr_t)stream), NULL);
}

static PyObject *engine_deadline_in(engine_object *self, PyObject *seconds)
{
    int64_t deadline_ns;
    if (!number_deadline_ns(self, seconds, &deadline_ns))
        return NULL;
    return PyLong_FromLongLong(deadline_ns);
}

/* A dump's text, which grows without the interpreter's lock. */
struct text {
    char *bytes;
    size_t size_bytes, room_bytes;
    bool is_cut; /* there was no memory */
};

static void text_add(void *arg, const char *piece, size_t size_bytes)
{
    struct text *text = arg;
    if (text->size_bytes + size_bytes > text->room_bytes) {
        size_t room_bytes = 2 * (text->size_bytes + size_bytes);
        char *bytes = text->is_cut ? NULL : realloc(text->bytes, room_bytes);
        if (!bytes) {
            text->is_cut = true;
            return;
        }
        text->bytes = bytes;
        text->room_bytes = room_bytes;
    }
    memcpy(text->bytes + text->size_bytes, piece, size_bytes);
    text->size_bytes += size_bytes;
}

static PyObject *engine_dump(engine_object *self, PyObject *ignored)
{
    (void)ignored;
    struct text text = {0};
    ferry_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = ferry_engine_dump(self->engine, FERRY_DUMP_JSON, text_add, &text);
    Py_END_ALLOW_THREADS;
    PyObject *result;
    if (status != FERRY_OK || text.is_cut)
        result = raise_status(status != FERRY_OK ? status : FERRY_E_NO_MEMORY, NULL);
    else
        result = PyUnicode_DecodeUTF8(text.bytes, (Py_ssize_t)text.size_bytes, "replace");
    free(text.bytes);
    return result;
}

static PyObject *engine_stats(engine_object *self, PyObject *ignored)
{
    (void)ignored;
    return stats_tuple(self, NULL);
}

static PyMethodDef engine_methods[] = {
    METHOD("copy", engine_copy, METH_FASTCALL | METH_KEYWORDS,
           "copy(dst, src, /, **options): copies src to dst, of the same size."),
    METHOD("copy_rows", engine_copy_rows, METH_FASTCALL | METH_KEYWORDS,
           "copy_rows(dst, dst_pitch_bytes, src, src_pitch_bytes, rows, /, **options)"),
    METHOD("copy_pairs", engine_copy_pairs, METH_FASTCALL | METH_KEYWORDS,
           "copy_pairs(pairs, /, **options): many copies of (target, source) by one call."),
    METHOD("copy_blocks", engine_copy_blocks, METH_FASTCALL | METH_KEYWORDS,
           "copy_blocks(dst, src, dst_offsets, src_offsets, sizes, /, **options)"),
    METHOD("nop", engine_nop, METH_FASTCALL | METH_KEYWORDS,
           "nop(**options): resolves when what it comes after has."),
    METHOD("_call", engine_call, METH_FASTCALL | METH_KEYWORDS,
           "_call(completions, target, /, **options)"),
    METHOD("_join", engine_join, METH_VARARGS | METH_KEYWORDS, "A Group, and when it has met."),
    METHOD("_shutdown", engine_shutdown, METH_VARARGS, "ferry_engine_shutdown, which blocks."),
    METHOD("promise", engine_promise, METH_NOARGS, "A Promise, whose future Python resolves."),
    METHOD("drain", engine_drain, METH_NOARGS,
           "A future that resolves when all operations before it are quiet."),
    METHOD("writable", engine_writable, METH_NOARGS, "A future for room, after AgainError."),
    METHOD("all", engine_all, METH_O, "A future for all of these."),
    METHOD("any", engine_any, METH_O, "A future for the first of these."),
    METHOD("allocate", engine_allocate, METH_VARARGS | METH_KEYWORDS,
           "A Buffer of memory of a device."),
    METHOD("buffer", engine_buffer, METH_VARARGS | METH_KEYWORDS,
           "A Buffer of an object's memory: of the buffer protocol, or of DLPack."),
    METHOD("open_device", engine_open_device, METH_VARARGS, "Opens a GPU, as \"cuda:0\"."),
    METHOD("record_event", engine_record_event, METH_VARARGS,
           "A future for the work that is on a GPU's stream now."),
    METHOD("deadline_in", engine_deadline_in, METH_O,
           "The deadline (deadline_ns) that is so many seconds from now."),
    METHOD("_stats", engine_stats, METH_NOARGS, "The figures of Stats."),
    METHOD("dump", engine_dump, METH_NOARGS, "What is alive in the engine, as JSON."),
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef engine_getset[] = {
    {"devices", (getter)engine_get_devices, NULL, "The names of the engine's devices.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot engine_slots[] = {
    {Py_tp_doc, "An engine of ferry."},
    {Py_tp_new, engine_new},
    {Py_tp_dealloc, engine_dealloc},
    {Py_tp_traverse, engine_traverse},
    {Py_tp_methods, engine_methods},
    {Py_tp_getset, engine_getset},
    {0, NULL},
};

static PyType_Spec engine_spec = {
    .name = "ferry._core.Engine",
    .basicsize = sizeof(engine_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = engine_slots,
};

int engine_add_type(PyObject *module)
{
    return type_add(module, &engine_spec, &engine_type);
}
