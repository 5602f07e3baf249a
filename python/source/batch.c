/* SPDX-License-Identifier: Apache-2.0 */
#include "batch.h"
#include "future.h"
#include <stdlib.h>

#define SCRATCH_OPS 4096 /* a batch up to this size uses the engine's scratch */

ferry_op *batch_take(engine_object *engine, size_t count)
{
    ferry_op *operations = NULL;
    if (count <= SCRATCH_OPS) {
        operations = engine->scratch;
        engine->scratch = NULL;
    }
    if (!operations)
        operations = malloc((count <= SCRATCH_OPS ? SCRATCH_OPS : count) * sizeof *operations);
    if (!operations)
        PyErr_NoMemory();
    return operations;
}

void batch_give(engine_object *engine, ferry_op *operations, size_t count)
{
    if (count <= SCRATCH_OPS && !engine->scratch)
        engine->scratch = operations;
    else
        free(operations);
}

PyObject *batch_submit(engine_object *engine, const ferry_op *operations, size_t count,
                       const ferry_op_options *options)
{
    ferry_future *future;
    Py_BEGIN_ALLOW_THREADS;
    future = ferry_batch(engine->engine, operations, sizeof *operations, count, NULL, options);
    Py_END_ALLOW_THREADS;
    return operation_wrap(engine, future, NULL);
}

/* How many blocks the three arguments are; false with ValueError. */
static bool count_blocks(struct blocks *blocks)
{
    size_t count = SIZE_MAX;
    for (int i = 0; i < 3; i++) {
        const struct offsets *part = &blocks->parts[i];
        if (part->count != SIZE_MAX && count != SIZE_MAX && part->count != count) {
            PyErr_Format(PyExc_ValueError, "%s has %zu numbers, and there are %zu before it",
                         part->name, part->count, count);
            return false;
        }
        if (part->count != SIZE_MAX)
            count = part->count;
    }
    blocks->count = count == SIZE_MAX ? 1 : count;
    return true;
}

bool blocks_read(struct blocks *blocks, PyObject *const arguments[3], const char *const names[3])
{
    int read = 0;
    while (read < 3 && offsets_read(&blocks->parts[read], arguments[read], names[read]))
        read++;
    if (read == 3 && count_blocks(blocks))
        return true;
    while (read--)
        offsets_clear(&blocks->parts[read]);
    return false;
}

bool blocks_at(const struct blocks *blocks, size_t index, struct block *block_p)
{
    block_p->index = index;
    return offsets_at(&blocks->parts[0], index, &block_p->offsets[0]) &&
           offsets_at(&blocks->parts[1], index, &block_p->offsets[1]) &&
           offsets_at(&blocks->parts[2], index, &block_p->size_bytes);
}

void blocks_clear(struct blocks *blocks)
{
    for (int i = 0; i < 3; i++)
        offsets_clear(&blocks->parts[i]);
}

bool block_span(ferry_span whole, size_t offset_bytes, const struct block *block,
                ferry_span *part_p)
{
    if (offset_bytes > whole.size_bytes || block->size_bytes > whole.size_bytes - offset_bytes) {
        PyErr_Format(PyExc_ValueError, "block %zu reaches past the end of its span", block->index);
        return false;
    }
    *part_p = (ferry_span){whole.buffer, whole.offset_bytes + offset_bytes, block->size_bytes};
    return true;
}
