/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Window: memory that its owner has announced to a group. ferry/_window.py adds `await` and `async
 * with`. The handle is given back with the object alone, so a call in another thread never loses
 * it: a closed window refuses operations by itself.
 */
#include "window.h"
#include "batch.h"
#include "error.h"
#include "future.h"
#include "group.h"
#include "numbers.h"
#include "options.h"
#include "span.h"
#include "type.h"

PyTypeObject *window_type;

/* A Window of a type that is derived here; takes what ferry has returned. */
static PyObject *window_wrap(PyTypeObject *type, engine_object *engine, ferry_window *window,
                             ferry_future *begun)
{
    if (!window) {
        raise_future(begun);
        ferry_future_release(begun);
        return NULL;
    }
    PyObject *ready = future_wrap(engine, begun, NULL);
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    window_object *self = ready ? (window_object *)allocate(type, 0) : NULL;
    if (!self) {
        Py_XDECREF(ready);
        ferry_window_release(window);
        return NULL;
    }
    self->window = window;
    self->engine = (engine_object *)new_reference((PyObject *)engine);
    self->ready = ready;
    return (PyObject *)self;
}

static bool read_rights(const char *text, ferry_window_rights *rights_p)
{
    if (strcmp(text, "get") == 0)
        *rights_p = FERRY_WINDOW_GET;
    else if (strcmp(text, "put") == 0)
        *rights_p = FERRY_WINDOW_PUT;
    else if (strcmp(text, "both") == 0)
        *rights_p = FERRY_WINDOW_GET_PUT;
    else {
        PyErr_SetString(PyExc_ValueError, "rights is \"get\", \"put\" or \"both\"");
        return false;
    }
    return true;
}

static PyObject *window_open(PyTypeObject *type, PyObject *arguments)
{
    PyObject *object, *memory;
    const char *name, *rights_text;
    ferry_window_rights rights;
    ferry_span span;
    if (!PyArg_ParseTuple(arguments, "O!Oss:open_window", group_type, &object, &memory, &name,
                          &rights_text) ||
        !read_rights(rights_text, &rights))
        return NULL;
    group_object *group = (group_object *)object;
    if (!group_is_open(group))
        return NULL;
    PyObject *held =
        span_or_wrap(group->engine, memory, (rights & FERRY_WINDOW_PUT) != 0 ? Py_False : Py_True);
    PyObject *made = NULL;
    if (held && span_read(held, &span) && group_is_open(group)) {
        ferry_window *window = NULL;
        ferry_future *opened = ferry_window_open(group->group, span, name, rights, &window);
        made = window_wrap(type, group->engine, window, opened);
    }
    Py_XDECREF(held);
    return made;
}

static PyObject *window_find(PyTypeObject *type, PyObject *arguments)
{
    PyObject *object, *owner_object, *timeout;
    const char *name;
    ferry_rank owner;
    int64_t deadline_ns;
    if (!PyArg_ParseTuple(arguments, "O!OsO:find_window", group_type, &object, &owner_object, &name,
                          &timeout))
        return NULL;
    group_object *group = (group_object *)object;
    if (!number_u32(owner_object, "owner", &owner) ||
        !number_deadline_ns(group->engine, timeout, &deadline_ns) || !group_is_open(group))
        return NULL;
    ferry_window *window = NULL;
    ferry_future *found = ferry_window_find(group->group, owner, name, deadline_ns, &window);
    return window_wrap(type, group->engine, window, found);
}

static int window_traverse(window_object *self, visitproc visit, void *arg)
{
    Py_VISIT((PyObject *)Py_TYPE(self));
    Py_VISIT((PyObject *)self->engine);
    Py_VISIT(self->ready);
    return 0;
}

static void window_dealloc(window_object *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    ferry_window_release(self->window);
    ferry_future_release(self->closed);
    Py_XDECREF(self->ready);
    Py_XDECREF((PyObject *)self->engine);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

/* get and put: (offset, span, /, **options) */
static PyObject *transfer(window_object *self, PyObject *const *arguments, Py_ssize_t count,
                          PyObject *names, bool is_put)
{
    struct operation_options made;
    uint64_t offset;
    ferry_span span;
    if (!options_read(&made, is_put ? "put" : "get", self->engine, arguments, count, 2, names,
                      NULL))
        return NULL;
    PyObject *result = NULL, *held = NULL;
    if (number_u64(arguments[0], "offset", &offset))
        held = span_or_wrap(self->engine, arguments[1], is_put ? Py_True : Py_False);
    if (held && span_read(held, &span)) {
        ferry_future *future = is_put ? ferry_put(self->window, offset, span, &made.options)
                                      : ferry_get(self->window, offset, span, &made.options);
        result = operation_wrap(self->engine, future, NULL);
    }
    Py_XDECREF(held);
    options_clear(&made);
    return result;
}

static PyObject *window_get(window_object *self, PyObject *const *arguments, Py_ssize_t count,
                            PyObject *names)
{
    return transfer(self, arguments, count, names, false);
}

static PyObject *window_put(window_object *self, PyObject *const *arguments, Py_ssize_t count,
                            PyObject *names)
{
    return transfer(self, arguments, count, names, true);
}

static PyObject *submit_blocks(window_object *self, PyObject *held, const struct blocks *blocks,
                               bool is_put, const ferry_op_options *options)
{
    ferry_span whole, part;
    if (!span_read(held, &whole))
        return NULL;
    ferry_op *operations = batch_take(self->engine, blocks->count);
    if (!operations)
        return NULL;
    buffer_object *buffer = span_buffer(held);
    buffer->exports++;
    size_t filled = 0;
    for (; filled < blocks->count; filled++) {
        struct block block;
        if (!blocks_at(blocks, filled, &block) ||
            !block_span(whole, block.offsets[1], &block, &part))
            break;
        ferry_op *operation = &operations[filled];
        *operation = (ferry_op){.kind = is_put ? FERRY_OP_PUT : FERRY_OP_GET,
                                .window = self->window,
                                .window_offset = block.offsets[0]};
        *(is_put ? &operation->src : &operation->dst) = part;
    }
    PyObject *result = NULL;
    if (filled == blocks->count)
        result = batch_submit(self->engine, operations, blocks->count, options);
    buffer->exports--;
    batch_give(self->engine, operations, blocks->count);
    return result;
}

/* get_blocks and put_blocks: (window_offsets, span, span_offsets, sizes, /, **options) */
static PyObject *transfer_blocks(window_object *self, PyObject *const *arguments, Py_ssize_t count,
                                 PyObject *names, bool is_put)
{
    static const char *const part_names[] = {"window_offsets", "span_offsets", "sizes"};
    struct operation_options made;
    if (!options_read(&made, is_put ? "put_blocks" : "get_blocks", self->engine, arguments, count,
                      4, names, NULL))
        return NULL;
    PyObject *const parts[] = {arguments[0], arguments[2], arguments[3]};
    PyObject *result = NULL;
    struct blocks blocks;
    PyObject *held = span_or_wrap(self->engine, arguments[1], is_put ? Py_True : Py_False);
    if (held && blocks_read(&blocks, parts, part_names)) {
        result = submit_blocks(self, held, &blocks, is_put, &made.options);
        blocks_clear(&blocks);
    }
    Py_XDECREF(held);
    options_clear(&made);
    return result;
}

static PyObject *window_get_blocks(window_object *self, PyObject *const *arguments,
                                   Py_ssize_t count, PyObject *names)
{
    return transfer_blocks(self, arguments, count, names, false);
}

static PyObject *window_put_blocks(window_object *self, PyObject *const *arguments,
                                   Py_ssize_t count, PyObject *names)
{
    return transfer_blocks(self, arguments, count, names, true);
}

/* Each caller has a future of its own: a task that is cancelled ends its own wait alone. */
static PyObject *window_close(window_object *self, PyObject *ignored)
{
    (void)ignored;
    if (!self->closed) {
        ferry_future *closed = ferry_window_close(self->window);
        if (ferry_future_id(closed) == 0 && ferry_future_poll(closed) < 0) {
            raise_future(closed);
            ferry_future_release(closed);
            return NULL;
        }
        self->closed = closed;
    }
    ferry_future *mine = ferry_future_poll(self->closed) == FERRY_PENDING
                             ? ferry_future_all(self->engine->engine, &self->closed, 1)
                             : ferry_future_retain(self->closed);
    return future_wrap(self->engine, mine, NULL);
}

static PyObject *window_describe(window_object *self, PyObject *ignored)
{
    (void)ignored;
    ferry_window_info info = FERRY_WINDOW_INFO_INIT;
    static const char *const rights[] = {"", "get", "put", "both"};
    ferry_status status = ferry_window_describe(self->window, &info);
    if (status != FERRY_OK)
        return raise_status(status, NULL);
    return Py_BuildValue("isIKs", (int)info.state, rights[info.rights & FERRY_WINDOW_GET_PUT],
                         info.owner, (unsigned long long)info.size_bytes, info.name);
}

static PyObject *window_get_ready(window_object *self, void *ignored)
{
    (void)ignored;
    return new_reference(self->ready);
}

static PyObject *window_get_engine(window_object *self, void *ignored)
{
    (void)ignored;
    return new_reference((PyObject *)self->engine);
}

static PyObject *no_new(PyTypeObject *type, PyObject *arguments, PyObject *names)
{
    (void)type, (void)arguments, (void)names;
    PyErr_SetString(PyExc_TypeError, "Group.open_window() and Group.find_window() make windows");
    return NULL;
}

static PyMethodDef window_methods[] = {
    METHOD("_open", window_open, METH_VARARGS | METH_CLASS, "_open(group, span, name, rights)"),
    METHOD("_find", window_find, METH_VARARGS | METH_CLASS, "_find(group, owner, name, timeout)"),
    METHOD("get", window_get, METH_FASTCALL | METH_KEYWORDS,
           "get(offset, span, /, **options): copies the owner's bytes, from an offset on, into a "
           "local span."),
    METHOD("put", window_put, METH_FASTCALL | METH_KEYWORDS,
           "put(offset, span, /, **options): copies a local span into the owner's bytes, from an "
           "offset on."),
    METHOD("get_blocks", window_get_blocks, METH_FASTCALL | METH_KEYWORDS,
           "get_blocks(window_offsets, span, span_offsets, sizes, /, **options): many gets by one "
           "call. Each list may be a number, for all blocks."),
    METHOD("put_blocks", window_put_blocks, METH_FASTCALL | METH_KEYWORDS,
           "put_blocks(window_offsets, span, span_offsets, sizes, /, **options): many puts."),
    METHOD("close", window_close, METH_NOARGS,
           "No operation begins any more. A future for when none is under way: of its owner's, "
           "when no other member touches the memory through it. May be called again."),
    METHOD("_describe", window_describe, METH_NOARGS, "The fields of WindowInfo."),
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef window_getset[] = {
    {"ready", (getter)window_get_ready, NULL, "The Future of the open or the find.", NULL},
    {"engine", (getter)window_get_engine, NULL, "The Engine.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot window_slots[] = {
    {Py_tp_doc, "Memory that its owner has announced to a group."},
    {Py_tp_new, no_new},
    {Py_tp_dealloc, window_dealloc},
    {Py_tp_traverse, window_traverse},
    {Py_tp_methods, window_methods},
    {Py_tp_getset, window_getset},
    {0, NULL},
};

static PyType_Spec window_spec = {
    .name = "ferry._core.Window",
    .basicsize = sizeof(window_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = window_slots,
};

int window_add_type(PyObject *module)
{
    return type_add(module, &window_spec, &window_type);
}
