/* SPDX-License-Identifier: Apache-2.0 */
/* Copies: one, of rows, and many by one call. */
#include "copies.h"
#include "future.h"
#include "numbers.h"
#include "offsets.h"
#include "options.h"
#include "span.h"
#include <stdlib.h>

#define SCRATCH_OPS 4096 /* a batch up to this size uses the engine's scratch */

/* A Buffer or Span as it is, or a Buffer for this operation alone around an exporter. */
static PyObject *as_span(engine_object *self, PyObject *object, PyObject *readonly)
{
    if (Py_TYPE(object) == buffer_type || Py_TYPE(object) == span_type)
        return new_reference(object);
    return buffer_wrap(self, object, readonly, NULL);
}

/* Both ends of a copy; references to what they are of, which the submit needs. */
struct ends {
    PyObject *dst_object, *src_object;
    ferry_span dst, src;
};

static void ends_clear(struct ends *ends)
{
    Py_CLEAR(ends->dst_object);
    Py_CLEAR(ends->src_object);
}

static bool ends_read(struct ends *ends, engine_object *self, PyObject *dst, PyObject *src)
{
    ends->src_object = NULL;
    ends->dst_object = as_span(self, dst, Py_False);
    if (ends->dst_object)
        ends->src_object = as_span(self, src, Py_True);
    if (ends->src_object && span_read(ends->dst_object, &ends->dst) &&
        span_read(ends->src_object, &ends->src))
        return true;
    ends_clear(ends);
    return false;
}

PyObject *engine_copy(engine_object *self, PyObject *const *arguments, Py_ssize_t count,
                      PyObject *names)
{
    struct operation_options made;
    struct ends ends;
    if (!options_read(&made, "copy", self, arguments, count, 2, names, NULL))
        return NULL;
    PyObject *result = NULL;
    if (ends_read(&ends, self, arguments[0], arguments[1])) {
        result =
            operation_wrap(self, ferry_copy(self->engine, ends.dst, ends.src, &made.options), NULL);
        ends_clear(&ends);
    }
    options_clear(&made);
    return result;
}

PyObject *engine_copy_rows(engine_object *self, PyObject *const *arguments, Py_ssize_t count,
                           PyObject *names)
{
    struct operation_options made;
    struct ends ends;
    size_t dst_pitch, src_pitch, rows;
    if (!options_read(&made, "copy_rows", self, arguments, count, 5, names, NULL))
        return NULL;
    PyObject *result = NULL;
    if (number_size(arguments[1], "dst_pitch_bytes", &dst_pitch) &&
        number_size(arguments[3], "src_pitch_bytes", &src_pitch) &&
        number_size(arguments[4], "rows", &rows) &&
        ends_read(&ends, self, arguments[0], arguments[2])) {
        result = operation_wrap(self,
                                ferry_copy_rows(self->engine, ends.dst, dst_pitch, ends.src,
                                                src_pitch, rows, &made.options),
                                NULL);
        ends_clear(&ends);
    }
    options_clear(&made);
    return result;
}

PyObject *engine_nop(engine_object *self, PyObject *const *arguments, Py_ssize_t count,
                     PyObject *names)
{
    struct operation_options made;
    if (!options_read(&made, "nop", self, arguments, count, 0, names, NULL))
        return NULL;
    PyObject *result = operation_wrap(self, ferry_nop(self->engine, &made.options), NULL);
    options_clear(&made);
    return result;
}

static ferry_op *operations_take(engine_object *self, size_t count)
{
    ferry_op *operations = NULL;
    if (count <= SCRATCH_OPS) {
        operations = self->scratch;
        self->scratch = NULL;
    }
    if (!operations)
        operations = malloc((count <= SCRATCH_OPS ? SCRATCH_OPS : count) * sizeof *operations);
    if (!operations)
        PyErr_NoMemory();
    return operations;
}

static void operations_give(engine_object *self, ferry_op *operations, size_t count)
{
    if (count <= SCRATCH_OPS && !self->scratch)
        self->scratch = operations;
    else
        free(operations);
}

static ferry_op copy_operation(ferry_span dst, ferry_span src)
{
    return (ferry_op){.kind = FERRY_OP_COPY, .dst = dst, .src = src};
}

/*
 * Submits a batch without the interpreter's lock. The caller sees to it that nobody closes a buffer
 * meanwhile (buffer_object.exports).
 */
static PyObject *submit(engine_object *self, const ferry_op *operations, size_t count,
                        const ferry_op_options *options)
{
    ferry_future *future;
    Py_BEGIN_ALLOW_THREADS;
    future = ferry_batch(self->engine, operations, sizeof *operations, count, NULL, options);
    Py_END_ALLOW_THREADS;
    return operation_wrap(self, future, NULL);
}

static buffer_object *buffer_behind(PyObject *object)
{
    return Py_TYPE(object) == span_type ? ((span_object *)object)->buffer : (buffer_object *)object;
}

/* A pair's spans; false with an exception. */
static bool read_pair(PyObject *pair, PyObject *objects[2], ferry_op *operation)
{
    ferry_span dst, src;
    if (!PyTuple_Check(pair) || PyTuple_Size(pair) != 2) {
        PyErr_SetString(PyExc_TypeError, "copy_pairs() takes pairs (target, source) of Spans");
        return false;
    }
    objects[0] = PyTuple_GetItem(pair, 0);
    objects[1] = PyTuple_GetItem(pair, 1);
    if (!span_read(objects[0], &dst) || !span_read(objects[1], &src))
        return false;
    *operation = copy_operation(dst, src);
    return true;
}

static PyObject *submit_pairs(engine_object *self, PyObject *pairs, ferry_op *operations,
                              const ferry_op_options *options)
{
    PyObject *result = NULL;
    PyObject *objects[2];
    Py_ssize_t count = PyTuple_Size(pairs);
    Py_ssize_t pinned = 0;
    for (; pinned < count; pinned++) {
        if (!read_pair(PyTuple_GetItem(pairs, pinned), objects, &operations[pinned]))
            break;
        buffer_behind(objects[0])->exports++;
        buffer_behind(objects[1])->exports++;
    }
    if (pinned == count)
        result = submit(self, operations, (size_t)count, options);
    while (pinned--) {
        PyObject *pair = PyTuple_GetItem(pairs, pinned);
        buffer_behind(PyTuple_GetItem(pair, 0))->exports--;
        buffer_behind(PyTuple_GetItem(pair, 1))->exports--;
    }
    return result;
}

PyObject *engine_copy_pairs(engine_object *self, PyObject *const *arguments, Py_ssize_t count,
                            PyObject *names)
{
    struct operation_options made;
    if (!options_read(&made, "copy_pairs", self, arguments, count, 1, names, NULL))
        return NULL;
    PyObject *result = NULL;
    PyObject *pairs = PySequence_Tuple(arguments[0]);
    if (pairs) {
        size_t pair_count = (size_t)PyTuple_Size(pairs);
        ferry_op *operations = operations_take(self, pair_count);
        if (operations) {
            result = submit_pairs(self, pairs, operations, &made.options);
            operations_give(self, operations, pair_count);
        }
        Py_DECREF(pairs);
    }
    options_clear(&made);
    return result;
}

static bool part_of(ferry_span whole, size_t offset_bytes, size_t size_bytes, size_t index,
                    ferry_span *part_p)
{
    if (offset_bytes > whole.size_bytes || size_bytes > whole.size_bytes - offset_bytes) {
        PyErr_Format(PyExc_ValueError, "block %zu reaches past the end of its span", index);
        return false;
    }
    *part_p = (ferry_span){whole.buffer, whole.offset_bytes + offset_bytes, size_bytes};
    return true;
}

static bool fill_blocks(ferry_op *operations, size_t count, const struct ends *ends,
                        const struct offsets parts[3])
{
    for (size_t i = 0; i < count; i++) {
        size_t to, from, size_bytes;
        ferry_span dst, src;
        if (!offsets_at(&parts[0], i, &to) || !offsets_at(&parts[1], i, &from) ||
            !offsets_at(&parts[2], i, &size_bytes) ||
            !part_of(ends->dst, to, size_bytes, i, &dst) ||
            !part_of(ends->src, from, size_bytes, i, &src))
            return false;
        operations[i] = copy_operation(dst, src);
    }
    return true;
}

/* How many blocks the three arguments are; false with ValueError. */
static bool count_blocks(const struct offsets parts[3], size_t *count_p)
{
    size_t count = SIZE_MAX;
    for (int i = 0; i < 3; i++) {
        if (parts[i].count != SIZE_MAX && count != SIZE_MAX && parts[i].count != count) {
            PyErr_Format(PyExc_ValueError, "%s has %zu numbers, and there are %zu before it",
                         parts[i].name, parts[i].count, count);
            return false;
        }
        if (parts[i].count != SIZE_MAX)
            count = parts[i].count;
    }
    *count_p = count == SIZE_MAX ? 1 : count;
    return true;
}

static PyObject *submit_blocks(engine_object *self, const struct ends *ends,
                               const struct offsets parts[3], const ferry_op_options *options)
{
    size_t count;
    if (!count_blocks(parts, &count))
        return NULL;
    ferry_op *operations = operations_take(self, count);
    if (!operations)
        return NULL;
    buffer_object *dst = buffer_behind(ends->dst_object), *src = buffer_behind(ends->src_object);
    dst->exports++;
    src->exports++;
    PyObject *result = NULL;
    if (fill_blocks(operations, count, ends, parts))
        result = submit(self, operations, count, options);
    dst->exports--;
    src->exports--;
    operations_give(self, operations, count);
    return result;
}

PyObject *engine_copy_blocks(engine_object *self, PyObject *const *arguments, Py_ssize_t count,
                             PyObject *names)
{
    static const char *const part_names[] = {"dst_offsets", "src_offsets", "sizes"};
    struct operation_options made;
    if (!options_read(&made, "copy_blocks", self, arguments, count, 5, names, NULL))
        return NULL;
    PyObject *result = NULL;
    struct ends ends;
    struct offsets parts[3];
    int read = 0;
    if (!ends_read(&ends, self, arguments[0], arguments[1]))
        goto out;
    while (read < 3 && offsets_read(&parts[read], arguments[2 + read], part_names[read]))
        read++;
    if (read == 3)
        result = submit_blocks(self, &ends, parts, &made.options);
    while (read--)
        offsets_clear(&parts[read]);
    ends_clear(&ends);
out:
    options_clear(&made);
    return result;
}
