/* SPDX-License-Identifier: Apache-2.0 */
/* Copies: one, of rows, and many by one call. */
#include "copies.h"
#include "batch.h"
#include "future.h"
#include "numbers.h"
#include "options.h"
#include "span.h"

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
    ends->dst_object = span_or_wrap(self, dst, Py_False);
    if (ends->dst_object)
        ends->src_object = span_or_wrap(self, src, Py_True);
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

static ferry_op copy_operation(ferry_span dst, ferry_span src)
{
    return (ferry_op){.kind = FERRY_OP_COPY, .dst = dst, .src = src};
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
        span_buffer(objects[0])->exports++;
        span_buffer(objects[1])->exports++;
    }
    if (pinned == count)
        result = batch_submit(self, operations, (size_t)count, options);
    while (pinned--) {
        PyObject *pair = PyTuple_GetItem(pairs, pinned);
        span_buffer(PyTuple_GetItem(pair, 0))->exports--;
        span_buffer(PyTuple_GetItem(pair, 1))->exports--;
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
        ferry_op *operations = batch_take(self, pair_count);
        if (operations) {
            result = submit_pairs(self, pairs, operations, &made.options);
            batch_give(self, operations, pair_count);
        }
        Py_DECREF(pairs);
    }
    options_clear(&made);
    return result;
}

static bool fill_blocks(ferry_op *operations, const struct ends *ends, const struct blocks *blocks)
{
    for (size_t i = 0; i < blocks->count; i++) {
        struct block block;
        ferry_span dst, src;
        if (!blocks_at(blocks, i, &block) ||
            !block_span(ends->dst, block.offsets[0], &block, &dst) ||
            !block_span(ends->src, block.offsets[1], &block, &src))
            return false;
        operations[i] = copy_operation(dst, src);
    }
    return true;
}

static PyObject *submit_blocks(engine_object *self, const struct ends *ends,
                               const struct blocks *blocks, const ferry_op_options *options)
{
    ferry_op *operations = batch_take(self, blocks->count);
    if (!operations)
        return NULL;
    buffer_object *dst = span_buffer(ends->dst_object), *src = span_buffer(ends->src_object);
    dst->exports++;
    src->exports++;
    PyObject *result = NULL;
    if (fill_blocks(operations, ends, blocks))
        result = batch_submit(self, operations, blocks->count, options);
    dst->exports--;
    src->exports--;
    batch_give(self, operations, blocks->count);
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
    struct blocks blocks;
    if (ends_read(&ends, self, arguments[0], arguments[1])) {
        if (blocks_read(&blocks, &arguments[2], part_names)) {
            result = submit_blocks(self, &ends, &blocks, &made.options);
            blocks_clear(&blocks);
        }
        ends_clear(&ends);
    }
    options_clear(&made);
    return result;
}
