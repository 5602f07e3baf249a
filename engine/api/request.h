/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the caller's arguments to a submitted node, in the caller's thread and without the baton,
 * for all kinds of operations. A refused operation gets a static future, and what it would have
 * written is poisoned all the same, in its place in program order (refused_writes.c).
 */
#ifndef FRY_ENGINE_API_REQUEST_H
#define FRY_ENGINE_API_REQUEST_H

#include "engine/api/spans.h"
#include "engine/engine.h"
#include "engine/graph/emit.h"
#include "engine/graph/node.h"
#include "engine/graph/turn.h"
#include "engine/ground/context.h"
#include "engine/ground/refusal.h"
#include "engine/loop/late.h"

#define FRY_BATCH_COUNT_MAX ((size_t)1 << 20)
#define FRY_COPY_SPANS 2 /* a copy's own two */

typedef struct fry_request {
    ferry_engine *engine;
    fry_context *context;
    ferry_op_options options;
    const ferry_op_options *shared; /* options of its batch, whose after[] is added; or NULL */
} fry_request;

/*
 * Checks that the engine takes operations, and reads the options (NULL: all default). The options
 * come first: without memory for a context they still name the spans to poison.
 */
fry_refusal fry_request_open(fry_request *request, ferry_engine *engine,
                             const ferry_op_options *options);

/* Reads the caller's options, of any version, into the request. */
fry_refusal fry_request_options(fry_request *request, ferry_engine *engine,
                                const ferry_op_options *options);

/* Makes a node with all that the options say. NULL: *why_p says why, and nothing is left behind. */
fry_node *fry_request_node(fry_request *request, ferry_op_kind kind, fry_refusal *why_p);

/* Adds an edge into the new node. */
fry_refusal fry_request_add_after(fry_request *request, fry_node *node, ferry_future *future,
                                  fry_edge_nature nature);

/*
 * Records what a retry needs, after the bound of edges was reached while a list of futures was
 * added.
 */
void fry_request_lacks_edges(const fry_request *request, const fry_node *node,
                             ferry_future *const *futures, size_t count, fry_edge_nature nature);

/* The same for uses: those that the options name, and `more`. */
void fry_request_lacks_uses(const fry_request *request, uint64_t more);

/* Takes the references that a large node may need, before any thread has the baton for it. */
void fry_request_share_large(const fry_request *request, fry_node *node);

/*
 * Submits the node and returns the user's reference to its future. Inline, as a call would be a
 * thirtieth of a nop's cost.
 */
static inline __attribute__((always_inline)) ferry_future *fry_request_submit(fry_request *request,
                                                                              fry_node *node)
{
    if (fry_unlikely((request->options.after_count | request->options.access_count) >
                     FRY_HOLDING_STEPS))
        fry_request_share_large(request, node);
    fry_emit(request->engine, node, FERRY_TRACE_SUBMITTED, 0);
    fry_turn_submit(request->engine, request->context, node);
    fry_late_call_ends(request->engine);
    return &node->future;
}

/*
 * The future of a refused operation. If it was refused for lack of room or memory, poisons what it
 * was to write from now on: `dst` (NULL: none), and the spans that the request's options name.
 */
ferry_future *fry_request_refuse_writes(const fry_request *request, ferry_engine *engine,
                                        fry_refusal why, const fry_row_span *dst);

#endif
