/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From what the caller gave to a node that can be submitted, in the caller's thread and without the
 * baton. Shared by the public operations (op.c) and batches of them (batch.c).
 */
#ifndef FRY_ENGINE_OP_H
#define FRY_ENGINE_OP_H

#include "engine/context.h"
#include "engine/engine.h"
#include "engine/node.h"
#include "engine/refusal.h"

#define FRY_BATCH_COUNT_MAX ((size_t)1 << 20)
#define FRY_COPY_SPANS 2 /* that a copy touches by itself */

typedef struct fry_request {
    ferry_engine *engine;
    fry_context *context;
    ferry_op_options options;
    const ferry_op_options *shared; /* in a batch, and not its: what that has in after[] is added */
} fry_request;

/* What a caller says of one side of a copy. */
typedef struct fry_row_span {
    ferry_span first;
    size_t pitch_bytes;
    size_t row_count;
} fry_row_span;

/*
 * Sees whether the engine takes operations and reads the options (NULL: all default). The options
 * come first: without memory for a context they still say what would have been written.
 */
fry_refusal fry_request_open(fry_request *request, ferry_engine *engine,
                             const ferry_op_options *options);

/* Reads the options of the caller's version into the request's. */
fry_refusal fry_request_options(fry_request *request, ferry_engine *engine,
                                const ferry_op_options *options);

/* What is wrong with a copy, if anything. */
fry_refusal fry_request_check_copy(ferry_engine *engine, const ferry_span *dst,
                                   const ferry_span *src);
fry_refusal fry_request_check_rows(ferry_engine *engine, const fry_row_span *dst,
                                   const fry_row_span *src);

/* What is wrong with a span, if anything. */
fry_refusal fry_request_check_span(ferry_engine *engine, const ferry_span *span);

/* The node with all that the options say; NULL sets *why_p, and nothing is left behind. */
fry_node *fry_request_node(fry_request *request, ferry_op_kind kind, fry_refusal *why_p);

/* The same, of a copy, which is checked first, and of a call. */
fry_node *fry_request_copy(fry_request *request, const ferry_span *dst, const ferry_span *src,
                           fry_refusal *why_p);
fry_node *fry_request_copy_rows(fry_request *request, const fry_row_span *dst,
                                const fry_row_span *src, fry_refusal *why_p);
fry_node *fry_request_call(fry_request *request, ferry_executor *executor, ferry_call_fn fn,
                           void *arg, fry_refusal *why_p);

/* One more edge into the new node. */
fry_refusal fry_request_add_after(fry_request *request, fry_node *node, ferry_future *future,
                                  fry_edge_nature nature);

/* The bound of edges came in the midst of a list that the node was to wait for: notes what another
 * try takes. */
void fry_request_lacks_edges(const fry_request *request, const fry_node *node,
                             ferry_future *const *futures, size_t count, fry_edge_nature nature);

/* A large node takes the references that it may need before anybody has the baton for it. */
void fry_request_share_large(const fry_request *request, fry_node *node);

/* Submits the node, and gives the user's reference to its future. */
ferry_future *fry_request_submit(fry_request *request, fry_node *node);

/*
 * The future of what was refused. If that was for want of room, not for being wrong, what it would
 * have written is not valid from now on: `dst` (NULL: none) and what the request's options say.
 */
ferry_future *fry_request_refuse_writes(const fry_request *request, ferry_engine *engine,
                                        fry_refusal why, const fry_row_span *dst);

#endif
