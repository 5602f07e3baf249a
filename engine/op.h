/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a node of a caller's arguments, in the caller's thread and without the baton. Shared by the
 * public operations (op.c) and batches of them (batch.c).
 */
#ifndef FRY_ENGINE_OP_H
#define FRY_ENGINE_OP_H

#include "engine/context.h"
#include "engine/engine.h"
#include "engine/node.h"
#include "engine/refusal.h"

#define FRY_BATCH_COUNT_MAX ((size_t)1 << 20)
#define FRY_COPY_SPANS 2 /* a copy's own two */

typedef struct fry_request {
    ferry_engine *engine;
    fry_context *context;
    ferry_op_options options;
    const ferry_op_options *shared; /* the options of its batch, whose after[] is added; or NULL */
} fry_request;

/* One side of a copy, as the caller gave it. */
typedef struct fry_row_span {
    ferry_span first;
    size_t pitch_bytes;
    size_t row_count;
} fry_row_span;

/*
 * Checks that the engine takes operations, and reads the options (NULL: all default). The options
 * come first: without memory for a context they still name the spans to poison.
 */
fry_refusal fry_request_open(fry_request *request, ferry_engine *engine,
                             const ferry_op_options *options);

/* Reads the options, of the caller's version, into the request. */
fry_refusal fry_request_options(fry_request *request, ferry_engine *engine,
                                const ferry_op_options *options);

/* Checks a copy. */
fry_refusal fry_request_check_copy(ferry_engine *engine, const ferry_span *dst,
                                   const ferry_span *src);
fry_refusal fry_request_check_rows(ferry_engine *engine, const fry_row_span *dst,
                                   const fry_row_span *src);

/* Checks a span. */
fry_refusal fry_request_check_span(ferry_engine *engine, const ferry_span *span);

/*
 * Makes the node with everything that the options name. NULL: *why_p says why, and nothing is left.
 */
fry_node *fry_request_node(fry_request *request, ferry_op_kind kind, fry_refusal *why_p);

/* The same for a copy, which is checked first, and for a call. */
fry_node *fry_request_copy(fry_request *request, const ferry_span *dst, const ferry_span *src,
                           fry_refusal *why_p);
fry_node *fry_request_copy_rows(fry_request *request, const fry_row_span *dst,
                                const fry_row_span *src, fry_refusal *why_p);
fry_node *fry_request_call(fry_request *request, ferry_executor *executor, ferry_call_fn fn,
                           void *arg, fry_refusal *why_p);

/* Adds an edge into the new node. */
fry_refusal fry_request_add_after(fry_request *request, fry_node *node, ferry_future *future,
                                  fry_edge_nature nature);

/*
 * Records what a retry needs, after the bound of edges was reached while a list of futures was
 * added.
 */
void fry_request_lacks_edges(const fry_request *request, const fry_node *node,
                             ferry_future *const *futures, size_t count, fry_edge_nature nature);

/* Takes the references that a large node may need, before a thread has the baton for it. */
void fry_request_share_large(const fry_request *request, fry_node *node);

/* Submits the node; returns the user's reference to its future. */
ferry_future *fry_request_submit(fry_request *request, fry_node *node);

/*
 * The future of a refused operation. If it was refused for lack of room or memory, poisons what it
 * was to write from now on: `dst` (NULL: none), and the spans that the request's options name.
 */
ferry_future *fry_request_refuse_writes(const fry_request *request, ferry_engine *engine,
                                        fry_refusal why, const fry_row_span *dst);

#endif
