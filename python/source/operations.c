/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations: a list of which a plan is made. It holds all that its operations point to, so the
 * plan may be made at any time: buffers by references of ferry's, since a Buffer may be closed
 * meanwhile; windows and groups by their objects. Arguments may run any code, also a call of the
 * same list: so an operation is complete before it is added, and added in one go.
 */
#include "operations.h"
#include "batch.h"
#include "error.h"
#include "group.h"
#include "numbers.h"
#include "options.h"
#include "planned.h"
#include "span.h"
#include "type.h"
#include "window.h"
#include <stdlib.h>

PyTypeObject *operations_type;

struct listed_options {
    struct listed_options *next;
    struct operation_options made;
};

/* ---- the list ---- */

static PyObject *operations_new(PyTypeObject *type, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"engine", NULL};
    PyObject *engine;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O!:Operations", keywords, engine_type,
                                     &engine))
        return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    operations_object *self = (operations_object *)allocate(type, 0);
    if (!self)
        return NULL;
    self->engine = (engine_object *)new_reference(engine);
    self->kept = PyList_New(0);
    self->wrapped = PyDict_New();
    if (self->kept && self->wrapped)
        return (PyObject *)self;
    Py_DECREF((PyObject *)self);
    return NULL;
}

static int operations_traverse(operations_object *self, visitproc visit, void *arg)
{
    Py_VISIT((PyObject *)Py_TYPE(self));
    Py_VISIT((PyObject *)self->engine);
    Py_VISIT(self->kept);
    Py_VISIT(self->wrapped);
    for (struct listed_options *each = self->options; each; each = each->next)
        for (int i = 0; i < each->made.kept_count; i++)
            Py_VISIT(each->made.kept[i]);
    return 0;
}

static void operations_dealloc(operations_object *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    while (self->options) {
        struct listed_options *first = self->options;
        self->options = first->next;
        options_clear(&first->made);
        free(first);
    }
    for (size_t i = 0; i < self->buffer_count; i++)
        ferry_buffer_release(self->buffers[i]);
    free(self->buffers);
    free(self->ops);
    Py_XDECREF(self->kept);
    Py_XDECREF(self->wrapped);
    Py_XDECREF((PyObject *)self->engine);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

/* Room for so many more elements; false with MemoryError. */
static bool grow(void *array_p, size_t *room, size_t count, size_t more, size_t element_bytes)
{
    if (count + more <= *room)
        return true;
    size_t wanted = 2 * (count + more);
    void *array;
    memcpy(&array, array_p, sizeof array);
    array = realloc(array, wanted * element_bytes);
    if (!array) {
        PyErr_NoMemory();
        return false;
    }
    memcpy(array_p, &array, sizeof array);
    *room = wanted;
    return true;
}

/* Keeps a span's buffer. */
static bool hold_buffer(operations_object *self, ferry_span span)
{
    if (!grow(&self->buffers, &self->buffer_room, self->buffer_count, 1, sizeof *self->buffers))
        return false;
    self->buffers[self->buffer_count++] = ferry_buffer_retain(span.buffer);
    return true;
}

/* All of the operations have the same options. */
static bool add(operations_object *self, const ferry_op *ops, size_t count)
{
    if (self->readers) {
        PyErr_SetString(PyExc_RuntimeError, "another thread makes a plan of these operations");
        return false;
    }
    if (!grow(&self->ops, &self->room, self->count, count, sizeof *self->ops))
        return false;
    if (count)
        memcpy(self->ops + self->count, ops, count * sizeof *ops);
    self->count += count;
    return true;
}

/* The new operation's index; NULL with an exception. */
static PyObject *add_one(operations_object *self, const ferry_op *op)
{
    return add(self, op, 1) ? PyLong_FromSize_t(self->count - 1) : NULL;
}

/* The indices of the new operations, as a range. */
static PyObject *add_many(operations_object *self, const ferry_op *ops, size_t count)
{
    if (!add(self, ops, count))
        return NULL;
    return PyObject_CallFunction((PyObject *)&PyRange_Type, "nn", (Py_ssize_t)(self->count - count),
                                 (Py_ssize_t)self->count);
}

/* ---- arguments ---- */

static bool hold_accesses(operations_object *self, const ferry_op_options *options)
{
    for (size_t i = 0; i < options->access_count; i++)
        if (options->accesses[i].span.buffer && !hold_buffer(self, options->accesses[i].span))
            return false;
    return true;
}

/* Options that are the list's, also if the operation is refused. NULL with an exception. */
static struct operation_options *list_options(operations_object *self, const char *function,
                                              PyObject *const *arguments, Py_ssize_t count,
                                              Py_ssize_t positional_count, PyObject *names,
                                              struct own_keyword *own)
{
    struct listed_options *listed = malloc(sizeof *listed);
    if (!listed) {
        PyErr_NoMemory();
        return NULL;
    }
    if (!options_read(&listed->made, function, self->engine, arguments, count, positional_count,
                      names, own)) {
        free(listed);
        return NULL;
    }
    listed->next = self->options;
    self->options = listed;
    return hold_accesses(self, &listed->made.options) ? &listed->made : NULL;
}

/* The options of an operation; *options_p is NULL if there are none. False with an exception. */
static bool read_options(operations_object *self, const char *function, PyObject *const *arguments,
                         Py_ssize_t count, Py_ssize_t positional_count, PyObject *names,
                         struct own_keyword *own, const ferry_op_options **options_p)
{
    struct operation_options none;
    *options_p = NULL;
    if (names && PyTuple_Size(names) != 0) {
        struct operation_options *made =
            list_options(self, function, arguments, count, positional_count, names, own);
        if (made)
            *options_p = &made->options;
        return made != NULL;
    }
    if (!options_read(&none, function, self->engine, arguments, count, positional_count, names,
                      own))
        return false;
    options_clear(&none);
    return true;
}

/* The Buffer that this list has of an exporter: one of each. Borrowed. */
static PyObject *wrapped_of(operations_object *self, PyObject *exporter)
{
    PyObject *key = PyLong_FromVoidPtr(exporter);
    PyObject *known = key ? PyDict_GetItemWithError(self->wrapped, key) : NULL;
    if (key && !known && !PyErr_Occurred()) {
        PyObject *buffer = span_or_wrap(self->engine, exporter, Py_None);
        PyObject *both = buffer ? PyTuple_Pack(2, exporter, buffer) : NULL;
        if (both && PyDict_SetItem(self->wrapped, key, both) == 0)
            known = both; /* the dict has a reference */
        Py_XDECREF(both);
        Py_XDECREF(buffer);
    }
    Py_XDECREF(key);
    return known ? PyTuple_GetItem(known, 1) : NULL;
}

/* A span, whose buffer the list keeps. */
static bool read_span(operations_object *self, PyObject *object, bool is_written,
                      ferry_span *span_p)
{
    if (Py_TYPE(object) != span_type && Py_TYPE(object) != buffer_type) {
        object = wrapped_of(self, object);
        if (object && is_written && span_buffer(object)->is_readonly) {
            PyErr_SetString(PyExc_BufferError, "the memory is read-only");
            return false;
        }
    }
    return object && span_read(object, span_p) && hold_buffer(self, *span_p);
}

static bool keep(operations_object *self, PyObject *object)
{
    return PyList_Append(self->kept, object) == 0;
}

/* A Window, which the list keeps. */
static bool read_window(operations_object *self, PyObject *object, ferry_op *op)
{
    if (!PyObject_TypeCheck(object, window_type)) {
        PyErr_Format(PyExc_TypeError, "a Window is wanted here, not %R",
                     (PyObject *)Py_TYPE(object));
        return false;
    }
    op->window = ((window_object *)object)->window;
    return keep(self, object);
}

/* A ferry.Group, which the list keeps, and a rank in it. */
static bool read_peer(operations_object *self, PyObject *object, PyObject *peer, ferry_op *op)
{
    if (!number_u32(peer, "peer", &op->peer))
        return false;
    PyObject *group = PyObject_GetAttrString(object, "_group");
    if (!group && PyErr_ExceptionMatches(PyExc_AttributeError))
        PyErr_Clear();
    bool is_group = group && Py_TYPE(group) == group_type;
    if (!is_group && !PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "a Group is wanted here, not %R",
                     (PyObject *)Py_TYPE(object));
    bool is_kept = is_group && group_is_open((group_object *)group) && keep(self, group);
    if (is_kept) {
        op->group = ((group_object *)group)->group;
        self->has_groups = true;
    }
    Py_XDECREF(group);
    return is_kept;
}

bool operations_are_open(const operations_object *self)
{
    Py_ssize_t count = self->has_groups ? PyList_Size(self->kept) : 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *object = PyList_GetItem(self->kept, i);
        if (Py_TYPE(object) == group_type && !group_is_open((group_object *)object))
            return false;
    }
    return true;
}

/* ---- operations ---- */

static PyObject *operations_copy(operations_object *self, PyObject *const *arguments,
                                 Py_ssize_t count, PyObject *names)
{
    ferry_op op = {.kind = FERRY_OP_COPY};
    if (!read_options(self, "copy", arguments, count, 2, names, NULL, &op.options) ||
        !read_span(self, arguments[0], true, &op.dst) ||
        !read_span(self, arguments[1], false, &op.src))
        return NULL;
    return add_one(self, &op);
}

static PyObject *operations_nop(operations_object *self, PyObject *const *arguments,
                                Py_ssize_t count, PyObject *names)
{
    ferry_op op = {.kind = FERRY_OP_NOP};
    return read_options(self, "nop", arguments, count, 0, names, NULL, &op.options)
               ? add_one(self, &op)
               : NULL;
}

/* get and put: (window, offset, span, /, **options) */
static PyObject *transfer(operations_object *self, PyObject *const *arguments, Py_ssize_t count,
                          PyObject *names, bool is_put)
{
    ferry_op op = {.kind = is_put ? FERRY_OP_PUT : FERRY_OP_GET};
    if (!read_options(self, is_put ? "put" : "get", arguments, count, 3, names, NULL,
                      &op.options) ||
        !number_u64(arguments[1], "offset", &op.window_offset) ||
        !read_span(self, arguments[2], !is_put, is_put ? &op.src : &op.dst) ||
        !read_window(self, arguments[0], &op))
        return NULL;
    return add_one(self, &op);
}

static PyObject *operations_get(operations_object *self, PyObject *const *arguments,
                                Py_ssize_t count, PyObject *names)
{
    return transfer(self, arguments, count, names, false);
}

static PyObject *operations_put(operations_object *self, PyObject *const *arguments,
                                Py_ssize_t count, PyObject *names)
{
    return transfer(self, arguments, count, names, true);
}

/*
 * Operations that differ in their blocks. A whole span is a side of each block; a side without one
 * is a window's.
 */
static PyObject *add_blocks(operations_object *self, const ferry_op *like, PyObject *const parts[3],
                            const char *const names[3])
{
    struct blocks blocks;
    if (!blocks_read(&blocks, parts, names))
        return NULL;
    PyObject *added = NULL;
    ferry_op *ops = batch_take(self->engine, blocks.count);
    size_t filled = 0;
    for (; ops && filled < blocks.count; filled++) {
        struct block block;
        ferry_op *op = &ops[filled];
        *op = *like;
        if (!blocks_at(&blocks, filled, &block) ||
            (like->dst.buffer && !block_span(like->dst, block.offsets[0], &block, &op->dst)) ||
            (like->src.buffer && !block_span(like->src, block.offsets[1], &block, &op->src)))
            break;
        if (like->window)
            op->window_offset = block.offsets[like->kind == FERRY_OP_GET];
    }
    if (ops && filled == blocks.count)
        added = add_many(self, ops, blocks.count);
    if (ops)
        batch_give(self->engine, ops, blocks.count);
    blocks_clear(&blocks);
    return added;
}

static PyObject *operations_copy_blocks(operations_object *self, PyObject *const *arguments,
                                        Py_ssize_t count, PyObject *names)
{
    static const char *const part_names[] = {"dst_offsets", "src_offsets", "sizes"};
    ferry_op like = {.kind = FERRY_OP_COPY};
    if (!read_options(self, "copy_blocks", arguments, count, 5, names, NULL, &like.options) ||
        !read_span(self, arguments[0], true, &like.dst) ||
        !read_span(self, arguments[1], false, &like.src))
        return NULL;
    return add_blocks(self, &like, &arguments[2], part_names);
}

/* get_blocks and put_blocks: (window, window_offsets, span, span_offsets, sizes, /, **options) */
static PyObject *transfer_blocks(operations_object *self, PyObject *const *arguments,
                                 Py_ssize_t count, PyObject *names, bool is_put)
{
    /* In the order of dst and src. */
    static const char *const get_names[] = {"span_offsets", "window_offsets", "sizes"};
    static const char *const put_names[] = {"window_offsets", "span_offsets", "sizes"};
    ferry_op like = {.kind = is_put ? FERRY_OP_PUT : FERRY_OP_GET};
    if (!read_options(self, is_put ? "put_blocks" : "get_blocks", arguments, count, 5, names, NULL,
                      &like.options) ||
        !read_span(self, arguments[2], !is_put, is_put ? &like.src : &like.dst) ||
        !read_window(self, arguments[0], &like))
        return NULL;
    PyObject *const parts[] = {arguments[is_put ? 1 : 3], arguments[is_put ? 3 : 1], arguments[4]};
    return add_blocks(self, &like, parts, is_put ? put_names : get_names);
}

static PyObject *operations_get_blocks(operations_object *self, PyObject *const *arguments,
                                       Py_ssize_t count, PyObject *names)
{
    return transfer_blocks(self, arguments, count, names, false);
}

static PyObject *operations_put_blocks(operations_object *self, PyObject *const *arguments,
                                       Py_ssize_t count, PyObject *names)
{
    return transfer_blocks(self, arguments, count, names, true);
}

/* send and recv: (group, peer, span, /, *, tag=0, **options) */
static PyObject *message(operations_object *self, PyObject *const *arguments, Py_ssize_t count,
                         PyObject *names, bool is_send)
{
    struct own_keyword own[] = {{"tag", NULL}, {NULL, NULL}};
    ferry_op op = {.kind = is_send ? FERRY_OP_SEND : FERRY_OP_RECV};
    uint64_t tag = 0;
    if (!read_options(self, is_send ? "send" : "recv", arguments, count, 3, names, own,
                      &op.options) ||
        (own[0].value && !number_u64(own[0].value, "tag", &tag)) ||
        !read_span(self, arguments[2], !is_send, is_send ? &op.src : &op.dst) ||
        !read_peer(self, arguments[0], arguments[1], &op))
        return NULL;
    op.tag = tag;
    return add_one(self, &op);
}

static PyObject *operations_send(operations_object *self, PyObject *const *arguments,
                                 Py_ssize_t count, PyObject *names)
{
    return message(self, arguments, count, names, true);
}

static PyObject *operations_recv(operations_object *self, PyObject *const *arguments,
                                 Py_ssize_t count, PyObject *names)
{
    return message(self, arguments, count, names, false);
}

static PyObject *operations_send_notice(operations_object *self, PyObject *const *arguments,
                                        Py_ssize_t count, PyObject *names)
{
    ferry_op op = {.kind = FERRY_OP_NOTICE};
    Py_buffer view;
    if (!read_options(self, "send_notice", arguments, count, 3, names, NULL, &op.options) ||
        PyObject_GetBuffer(arguments[2], &view, PyBUF_SIMPLE))
        return NULL;
    PyObject *added = NULL;
    PyObject *bytes = PyBytes_FromStringAndSize(view.buf, view.len);
    PyBuffer_Release(&view);
    if (bytes && keep(self, bytes) && read_peer(self, arguments[0], arguments[1], &op)) {
        op.data = PyBytes_AsString(bytes);
        op.data_bytes = (size_t)PyBytes_Size(bytes);
        added = add_one(self, &op);
    }
    Py_XDECREF(bytes);
    return added;
}

/* _call(completions, target, /, **options) */
static PyObject *operations_call(operations_object *self, PyObject *const *arguments,
                                 Py_ssize_t count, PyObject *names)
{
    ferry_op op = {0};
    ferry_buffer *buffer;
    struct operation_options *made = list_options(self, "_call", arguments, count, 2, names, NULL);
    if (!made)
        return NULL;
    if (Py_TYPE(arguments[0]) != completions_type || !((completions_object *)arguments[0])->queue) {
        PyErr_SetString(PyExc_TypeError, "_call() takes open Completions and a target");
        return NULL;
    }
    if (!planned_make((completions_object *)arguments[0], arguments[1], &op, &buffer))
        return NULL;
    const ferry_access access = {ferry_buffer_span(buffer), FERRY_READ};
    bool is_held = hold_buffer(self, access.span) && options_add_access(made, &access);
    ferry_buffer_release(buffer);
    op.options = &made->options;
    return is_held ? add_one(self, &op) : NULL;
}

static Py_ssize_t operations_length(operations_object *self)
{
    return (Py_ssize_t)self->count;
}

static PyObject *operations_get_engine(operations_object *self, void *ignored)
{
    (void)ignored;
    return new_reference((PyObject *)self->engine);
}

#define FAST(name_, text_) METHOD(#name_, operations_##name_, METH_FASTCALL | METH_KEYWORDS, text_)

static PyMethodDef operations_methods[] = {
    FAST(copy, "copy(dst, src, /, **options): adds a copy; its index."),
    FAST(copy_blocks, "copy_blocks(dst, src, dst_offsets, src_offsets, sizes, /, **options): adds "
                      "a copy of each block; the range of their indices."),
    FAST(get, "get(window, offset, span, /, **options): adds a get; its index."),
    FAST(put, "put(window, offset, span, /, **options): adds a put; its index."),
    FAST(get_blocks, "get_blocks(window, window_offsets, span, span_offsets, sizes, /, **options): "
                     "adds a get of each block; the range of their indices."),
    FAST(put_blocks, "put_blocks(window, window_offsets, span, span_offsets, sizes, /, **options): "
                     "adds a put of each block; the range of their indices."),
    FAST(send, "send(group, peer, span, /, *, tag=0, **options): adds a send; its index."),
    FAST(recv, "recv(group, peer, span, /, *, tag=0, **options): adds a receive; its index."),
    FAST(send_notice, "send_notice(group, peer, data, /, **options): adds a notice of bytes, which "
                      "are copied, after all operations before it; its index."),
    METHOD("_call", operations_call, METH_FASTCALL | METH_KEYWORDS,
           "_call(completions, target, /, **options): adds what target.begin(promise) begins."),
    FAST(nop, "nop(**options): adds an operation that does nothing; its index."),
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef operations_getset[] = {
    {"engine", (getter)operations_get_engine, NULL, "The Engine.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot operations_slots[] = {
    {Py_tp_doc, "A list of operations, of which Engine.plan() makes a Plan."},
    {Py_tp_new, operations_new},
    {Py_tp_dealloc, operations_dealloc},
    {Py_tp_traverse, operations_traverse},
    {Py_tp_methods, operations_methods},
    {Py_tp_getset, operations_getset},
    {Py_sq_length, operations_length},
    {0, NULL},
};

static PyType_Spec operations_spec = {
    .name = "ferry._core.Operations",
    .basicsize = sizeof(operations_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = operations_slots,
};

int operations_add_type(PyObject *module)
{
    return type_add(module, &operations_spec, &operations_type);
}
