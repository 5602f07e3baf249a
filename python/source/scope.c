/* SPDX-License-Identifier: Apache-2.0 */
/* Scope: operations that end, or are limited, together. ferry/_scope.py adds `async with`. */
#include "scope.h"
#include "error.h"
#include "future.h"
#include "numbers.h"
#include "stats.h"
#include "type.h"

PyTypeObject *scope_type;

static PyObject *scope_new(PyTypeObject *type, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"engine", "timeout", "bytes_per_second", "burst_bytes", NULL};
    PyObject *engine, *timeout = Py_None, *rate = NULL, *burst = NULL;
    ferry_scope_options options = FERRY_SCOPE_OPTIONS_INIT;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O!|OOO:Scope", keywords, engine_type,
                                     &engine, &timeout, &rate, &burst) ||
        !number_deadline_ns((engine_object *)engine, timeout, &options.deadline_ns) ||
        (rate && !number_u64(rate, "bytes_per_second", &options.bytes_per_second)) ||
        (burst && !number_u64(burst, "burst_bytes", &options.burst_bytes)))
        return NULL;
    ferry_scope *scope = NULL;
    ferry_status status = ferry_scope_create(((engine_object *)engine)->engine, &options, &scope);
    if (status != FERRY_OK)
        return raise_status(status, status == FERRY_E_INVALID
                                        ? "the scope's limit or burst is out of bounds"
                                        : NULL);
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    scope_object *self = (scope_object *)allocate(type, 0);
    if (!self) {
        ferry_scope_release(scope);
        return NULL;
    }
    self->scope = scope;
    self->engine = (engine_object *)new_reference(engine);
    return (PyObject *)self;
}

static int scope_traverse(scope_object *self, visitproc visit, void *arg)
{
    Py_VISIT((PyObject *)Py_TYPE(self));
    Py_VISIT((PyObject *)self->engine);
    return 0;
}

static void scope_dealloc(scope_object *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    ferry_scope_release(self->scope);
    Py_XDECREF((PyObject *)self->engine);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

static PyObject *scope_close(scope_object *self, PyObject *ignored)
{
    (void)ignored;
    return future_wrap(self->engine, ferry_scope_close(self->scope), NULL);
}

static PyObject *scope_cancel(scope_object *self, PyObject *ignored)
{
    (void)ignored;
    return future_wrap(self->engine, ferry_scope_cancel(self->scope), NULL);
}

static PyObject *scope_stats(scope_object *self, PyObject *ignored)
{
    (void)ignored;
    return stats_tuple(self->engine, self->scope);
}

static PyObject *scope_get_engine(scope_object *self, void *ignored)
{
    (void)ignored;
    return new_reference((PyObject *)self->engine);
}

static PyMethodDef scope_methods[] = {
    METHOD("close", scope_close, METH_NOARGS,
           "No operation joins any more. A future for when all have ended and are quiet."),
    METHOD("cancel", scope_cancel, METH_NOARGS,
           "close(), and cancels the operations that have not ended."),
    METHOD("_stats", scope_stats, METH_NOARGS, "The figures of Stats."),
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef scope_getset[] = {
    {"engine", (getter)scope_get_engine, NULL, "The Engine.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot scope_slots[] = {
    {Py_tp_doc, "Operations that end, or are limited, together."},
    {Py_tp_new, scope_new},
    {Py_tp_dealloc, scope_dealloc},
    {Py_tp_traverse, scope_traverse},
    {Py_tp_methods, scope_methods},
    {Py_tp_getset, scope_getset},
    {0, NULL},
};

static PyType_Spec scope_spec = {
    .name = "ferry._core.Scope",
    .basicsize = sizeof(scope_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = scope_slots,
};

int scope_add_type(PyObject *module)
{
    return type_add(module, &scope_spec, &scope_type);
}
