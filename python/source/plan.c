/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plan: operations that are checked and ordered once, and posted many times. ferry/_plan.py adds
 * `with`. It keeps the objects of its windows and groups, as the end of a Window's object closes
 * the window; the plan of ferry's keeps the buffers, and so their exporters.
 */
#include "plan.h"
#include "error.h"
#include "future.h"
#include "holder.h"
#include "offsets.h"
#include "operations.h"
#include "options.h"
#include "type.h"
#include <stdlib.h>

typedef struct plan_object {
    PyObject base;
    ferry_plan *plan;   /* NULL after close() */
    ferry_plan *closed; /* by close() while it is posted; the last call's to release */
    unsigned posting;   /* calls that use the plan without the interpreter's lock */
    engine_object *engine;
    PyObject *kept; /* NULL after close() */
} plan_object;

static PyTypeObject *plan_type;

/* Without the interpreter's lock, unless there are groups, which another thread might close. */
static ferry_plan *create(operations_object *list)
{
    ferry_plan *plan = NULL;
    ferry_error *error = NULL;
    ferry_status status;
    if (!operations_are_open(list))
        return NULL;
    list->readers++;
    PyThreadState *state = list->has_groups ? NULL : PyEval_SaveThread();
    status = ferry_plan_create(list->engine->engine, list->ops, sizeof *list->ops, list->count,
                               &plan, &error);
    if (state)
        PyEval_RestoreThread(state);
    list->readers--;
    if (status != FERRY_OK)
        raise_error(error);
    return plan;
}

/* A Plan of a type that is derived here. */
static PyObject *plan_make(PyTypeObject *type, PyObject *arguments)
{
    PyObject *object;
    if (!PyArg_ParseTuple(arguments, "O!:_make", operations_type, &object))
        return NULL;
    operations_object *list = (operations_object *)object;
    ferry_plan *plan = create(list);
    if (!plan)
        return NULL;
    PyObject *kept = PyList_AsTuple(list->kept);
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    plan_object *self = kept ? (plan_object *)allocate(type, 0) : NULL;
    if (!self) {
        Py_XDECREF(kept);
        ferry_plan_release(plan);
        return NULL;
    }
    self->plan = plan;
    self->kept = kept;
    self->engine = (engine_object *)new_reference((PyObject *)list->engine);
    return (PyObject *)self;
}

static int plan_traverse(plan_object *self, visitproc visit, void *arg)
{
    Py_VISIT((PyObject *)Py_TYPE(self));
    Py_VISIT((PyObject *)self->engine);
    Py_VISIT(self->kept);
    return 0;
}

static int plan_clear(plan_object *self)
{
    Py_CLEAR(self->kept);
    return 0; /* the engine stays until the plan was released */
}

static void plan_dealloc(plan_object *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    ferry_plan_release(self->plan);
    Py_XDECREF(self->kept);
    Py_XDECREF((PyObject *)self->engine);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

static bool is_open(const plan_object *self)
{
    if (!self->plan)
        PyErr_SetString(PyExc_ValueError, "the plan was closed");
    return self->plan != NULL;
}

/* What a post picks. An index that no plan has stands for all that are too large. */
static bool picks_read(PyObject *object, uint32_t **picks_p, size_t *count_p)
{
    struct offsets read;
    if (PyLong_Check(object)) {
        PyErr_SetString(PyExc_TypeError, "picks is to be a sequence of indices");
        return false;
    }
    if (!offsets_read(&read, object, "picks"))
        return false;
    uint32_t *picks = malloc((read.count + 1) * sizeof *picks); /* NULL would be all */
    size_t filled = 0, index;
    if (!picks)
        PyErr_NoMemory();
    for (; picks && filled < read.count && offsets_at(&read, filled, &index); filled++)
        picks[filled] = index < UINT32_MAX ? (uint32_t)index : UINT32_MAX;
    bool is_read = picks && filled == read.count;
    offsets_clear(&read);
    if (!is_read) {
        free(picks);
        return false;
    }
    *picks_p = picks;
    *count_p = filled;
    return true;
}

/* A call without the interpreter's lock has ended: what was closed meanwhile goes. */
static void end_use(plan_object *self)
{
    ferry_plan *closed = NULL;
    if (--self->posting == 0) {
        closed = self->closed;
        self->closed = NULL;
    }
    ferry_plan_release(closed);
}

static ferry_future *submit(plan_object *self, const uint32_t *picks, size_t pick_count,
                            const ferry_op_options *options)
{
    ferry_plan *plan = self->plan;
    ferry_future *future;
    self->posting++;
    Py_BEGIN_ALLOW_THREADS;
    future = ferry_plan_post(plan, picks, pick_count, options);
    Py_END_ALLOW_THREADS;
    end_use(self);
    return future;
}

static PyObject *plan_post(plan_object *self, PyObject *const *arguments, Py_ssize_t count,
                           PyObject *names)
{
    struct own_keyword own[] = {{"picks", NULL}, {NULL, NULL}};
    struct operation_options made;
    if (!options_read(&made, "post", self->engine, arguments, count, 0, names, own))
        return NULL;
    uint32_t *picks = NULL;
    size_t pick_count = 0;
    PyObject *result = NULL;
    bool is_all = !own[0].value || own[0].value == Py_None;
    if ((is_all || picks_read(own[0].value, &picks, &pick_count)) && is_open(self))
        result = operation_wrap(self->engine, submit(self, picks, pick_count, &made.options), NULL);
    free(picks);
    options_clear(&made);
    return result;
}

static PyObject *plan_enqueue(plan_object *self, PyObject *arguments)
{
    const char *name;
    unsigned long long stream = 0;
    if (!PyArg_ParseTuple(arguments, "s|K:enqueue", &name, &stream))
        return NULL;
    ferry_device *device = engine_device(self->engine, name);
    if (!device || !is_open(self))
        return NULL;
    ferry_plan *plan = self->plan;
    ferry_error *error = NULL;
    ferry_status status;
    self->posting++;
    Py_BEGIN_ALLOW_THREADS;
    status = ferry_plan_enqueue(plan, device, (void *)(uintptr_t)stream, &error);
    Py_END_ALLOW_THREADS;
    end_use(self);
    if (status != FERRY_OK)
        return error ? raise_error(error) : raise_status(status, NULL);
    return new_reference(Py_None);
}

static PyObject *plan_close(plan_object *self, PyObject *ignored)
{
    (void)ignored;
    ferry_plan *plan = self->plan;
    self->plan = NULL;
    if (self->posting && plan)
        self->closed = plan;
    else
        ferry_plan_release(plan);
    Py_CLEAR(self->kept);
    bin_empty();
    return new_reference(Py_None);
}

static PyObject *plan_describe(plan_object *self, PyObject *ignored)
{
    (void)ignored;
    ferry_plan_info info = FERRY_PLAN_INFO_INIT;
    if (!is_open(self))
        return NULL;
    ferry_status status = ferry_plan_describe(self->plan, &info);
    if (status != FERRY_OK)
        return raise_status(status, NULL);
    return Py_BuildValue("KKKKKK", (unsigned long long)info.op_count,
                         (unsigned long long)info.part_count, (unsigned long long)info.wait_count,
                         (unsigned long long)info.access_count, (unsigned long long)info.size_bytes,
                         (unsigned long long)info.graph_count);
}

static PyObject *plan_get_engine(plan_object *self, void *ignored)
{
    (void)ignored;
    return new_reference((PyObject *)self->engine);
}

static PyObject *plan_get_closed(plan_object *self, void *ignored)
{
    (void)ignored;
    return PyBool_FromLong(self->plan == NULL);
}

static PyObject *no_new(PyTypeObject *type, PyObject *arguments, PyObject *names)
{
    (void)type, (void)arguments, (void)names;
    PyErr_SetString(PyExc_TypeError, "Engine.plan() makes plans");
    return NULL;
}

static PyMethodDef plan_methods[] = {
    METHOD("_make", plan_make, METH_VARARGS | METH_CLASS, "_make(operations)"),
    METHOD("post", plan_post, METH_FASTCALL | METH_KEYWORDS,
           "post(*, picks=None, **options): submits all operations, or those with these indices, "
           "as one."),
    METHOD(
        "enqueue", plan_enqueue, METH_VARARGS,
        "Puts the plan's copies on a stream of a GPU, past the engine's order. The plan is to be "
        "kept until the stream has done them."),
    METHOD("close", plan_close, METH_NOARGS,
           "Gives up what the plan keeps. Its posts go on, and keep it until they are quiet."),
    METHOD("_describe", plan_describe, METH_NOARGS, "The fields of PlanInfo."),
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef plan_getset[] = {
    {"engine", (getter)plan_get_engine, NULL, "The Engine.", NULL},
    {"closed", (getter)plan_get_closed, NULL, "Whether close() was called.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot plan_slots[] = {
    {Py_tp_doc, "Operations that are checked and ordered once, and posted many times."},
    {Py_tp_new, no_new},
    {Py_tp_dealloc, plan_dealloc},
    {Py_tp_traverse, plan_traverse},
    {Py_tp_clear, plan_clear},
    {Py_tp_methods, plan_methods},
    {Py_tp_getset, plan_getset},
    {0, NULL},
};

static PyType_Spec plan_spec = {
    .name = "ferry._core.Plan",
    .basicsize = sizeof(plan_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = plan_slots,
};

int plan_add_type(PyObject *module)
{
    return type_add(module, &plan_spec, &plan_type);
}
