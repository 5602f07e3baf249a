/* SPDX-License-Identifier: Apache-2.0 */
/* Many operations by one call: room for them, and blocks that are listed by offsets and sizes. */
#ifndef FERRY_PYTHON_BATCH_H
#define FERRY_PYTHON_BATCH_H

#include "engine.h"
#include "offsets.h"

/* Room for `count` operations, which batch_give gives back; NULL with MemoryError. */
ferry_op *batch_take(engine_object *engine, size_t count);
void batch_give(engine_object *engine, ferry_op *operations, size_t count);

/*
 * Submits a batch without the interpreter's lock. The caller sees to it that nobody closes a buffer
 * meanwhile (buffer_object.exports). A new reference to a Future, or NULL with an exception.
 */
PyObject *batch_submit(engine_object *engine, const ferry_op *operations, size_t count,
                       const ferry_op_options *options);

/* Blocks with an offset at each of two ends. */
struct blocks {
    struct offsets parts[3]; /* the offsets at each end, the sizes */
    size_t count;
};

struct block {
    size_t index;
    size_t offsets[2];
    size_t size_bytes;
};

/* Of three arguments with those names; false with an exception. Ends with blocks_clear. */
bool blocks_read(struct blocks *blocks, PyObject *const arguments[3], const char *const names[3]);
bool blocks_at(const struct blocks *blocks, size_t index, struct block *block_p);
void blocks_clear(struct blocks *blocks);

/* The block's part of a span; false with ValueError. */
bool block_span(ferry_span whole, size_t offset_bytes, const struct block *block,
                ferry_span *part_p);

#endif
