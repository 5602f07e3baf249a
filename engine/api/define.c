/* SPDX-License-Identifier: Apache-2.0 */
/* Definitions: ferry_buffer_define, and a definition's row. */
#include "engine/api/define.h"

#include "engine/api/request.h"
#include "engine/api/spans.h"
#include "engine/engine.h"
#include "engine/graph/buffer.h"
#include "engine/graph/kind.h"
#include "engine/graph/node.h"
#include "engine/graph/use.h"
#include "engine/ground/refusal.h"

static fry_node *make_define(fry_request *request, ferry_span span, ferry_future *future,
                             fry_refusal *why_p)
{
    fry_node *node = fry_request_node(request, FERRY_OP_DEFINE, why_p);
    if (node == NULL)
        return NULL;
    fry_rows row = fry_row_of(span);
    fry_node_init_define(node, &row);
    if (future != NULL)
        *why_p = fry_request_add_after(request, node, future, FRY_EDGE_READ);
    if (*why_p == FRY_TAKEN)
        return node;
    if (*why_p == FRY_REFUSED_MAX_EDGES)
        fry_request_lacks_edges(request, node, &future, 1, FRY_EDGE_READ);
    fry_node_discard(request->engine, request->context, node);
    return NULL;
}

ferry_status ferry_buffer_define(ferry_span span, ferry_future *future)
{
    ferry_engine *engine = span.buffer != NULL ? span.buffer->engine : NULL;
    fry_request request;
    fry_refusal why = fry_request_open(&request, engine, NULL);
    if (why == FRY_TAKEN && span.size_bytes == 0)
        why = fry_refuse(engine, FRY_REFUSED_SPAN_EMPTY);
    if (why == FRY_TAKEN)
        why = fry_span_check_open(engine, &span);
    fry_node *node = why == FRY_TAKEN ? make_define(&request, span, future, &why) : NULL;
    if (node == NULL) {
        fry_row_span defined = {.first = span, .row_count = 1};
        ferry_future_release(fry_request_refuse_writes(&request, engine, why, &defined));
        return fry_refusal_status(why);
    }
    ferry_future_release(fry_request_submit(&request, node));
    return FERRY_OK;
}

/* ---- its row ---- */

static bool span(const fry_node *node, uint8_t index, fry_use *use)
{
    const fry_rows *rows = &node->op.define.rows;
    fry_use_set(use, rows->buffer, rows->offset, rows->row_bytes, FERRY_WRITE);
    use->pitch_bytes = rows->pitch_bytes;
    use->row_count = rows->count;
    return index == 0;
}

/* The buffer stays until the node retires and leaves the live list. */
static void describe(const ferry_engine *engine, const fry_node *node, fry_kind_view *view)
{
    const fry_rows *rows = &node->op.define.rows;
    (void)engine;
    view->has_size = true;
    view->size_bytes = rows->row_bytes * rows->count;
    view->device = rows->buffer->device->device;
}

const fry_op_kind fry_kind_define = {
    .traits = FRY_KIND_STANDS,
    .span = span,
    .describe = describe,
};
