/* SPDX-License-Identifier: Apache-2.0 */
/* The spans that operations have besides their uses: fry_op_kind.span. */
#ifndef FRY_ENGINE_GRAPH_USE_H
#define FRY_ENGINE_GRAPH_USE_H

#include "engine/graph/kind.h"
#include "engine/graph/node.h"
#include "engine/ground/ground.h"

/* The pitch of a single row is not read. */
static inline void fry_use_set(fry_use *use, ferry_buffer *buffer, size_t offset, size_t size_bytes,
                               ferry_access_mode mode)
{
    use->buffer = buffer;
    use->begin = offset;
    use->end = offset + size_bytes;
    use->row_count = 1;
    use->mode = mode;
}

/* A copy's source, then its destination; with rows these are uses. */
static inline bool fry_node_copy_span(const fry_node *node, uint8_t index, fry_use *use)
{
    const fry_copy_op *copy = &node->op.copy;
    if (node->has_rows || copy->size_bytes == 0)
        return false;
    if (index == 0)
        fry_use_set(use, copy->src, copy->src_offset, copy->size_bytes, FERRY_READ);
    else
        fry_use_set(use, copy->dst, copy->dst_offset, copy->size_bytes, FERRY_WRITE);
    return index < 2;
}

/* The index-th span that a node has besides its uses. False: there are no more. */
static inline bool fry_node_span(const fry_node *node, uint8_t index, fry_use *use)
{
    if (fry_likely(node->kind == FERRY_OP_COPY))
        return fry_node_copy_span(node, index, use);
    const fry_op_kind *kind = fry_kind(fry_engine_of(&node->future), node);
    return kind->span != NULL && kind->span(node, index, use);
}

#endif
