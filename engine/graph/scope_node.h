/* SPDX-License-Identifier: Apache-2.0 */
/* A scope's own node. scope_node.c. */
#ifndef FRY_ENGINE_GRAPH_SCOPE_NODE_H
#define FRY_ENGINE_GRAPH_SCOPE_NODE_H

#include "engine/graph/kind.h"
#include "engine/graph/scope.h"

extern const fry_op_kind fry_kind_scope;

/* The bytes of a scope, of an engine that counts or not. */
size_t fry_scope_bytes(bool counts);

/* Makes a scope that nothing limits. NULL: *why_p says why. Any thread. */
ferry_scope *fry_scope_make(ferry_engine *engine, fry_context *context, fry_refusal *why_p);

/*
 * Sets bits of `held`. Closing submits the scope's own node. Any thread that has the handle, which
 * is gone with FRY_SCOPE_RELEASED. The context may be NULL.
 */
void fry_scope_set(ferry_scope *scope, fry_context *context, uint64_t bits);

#endif
