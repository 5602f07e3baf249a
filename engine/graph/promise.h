/* SPDX-License-Identifier: Apache-2.0 */
/* Promises: nodes that code outside ferry resolves. */
#ifndef FRY_ENGINE_GRAPH_PROMISE_H
#define FRY_ENGINE_GRAPH_PROMISE_H

#include "engine/engine.h"
#include "engine/graph/kind.h"

extern const fry_op_kind fry_kind_promise;

/* Marks for fry_promise_op.on_cancel: no waiter is taken any more, as the promise was resolved, or
 * has failed. Never called. */
extern ferry_waiter fry_promise_was_resolved, fry_promise_has_failed;

/* A copy, in memory of the engine's; NULL: there is none. */
fry_value *fry_value_make(ferry_engine *engine, const void *bytes, size_t size_bytes,
                          uint64_t version);

/* NULL is allowed. */
void fry_value_free(ferry_engine *engine, fry_value *value);

/* Makes a promise of an engine that takes operations. Returns why not, or FRY_TAKEN. */
fry_refusal fry_promise_make(ferry_engine *engine, ferry_promise **promise_p);

/* Resolves the promise in the calling thread; FERRY_E_BUSY: it has been resolved. */
ferry_status fry_promise_end(ferry_promise *promise, ferry_status status, const char *domain,
                             const char *message);

/*
 * The same with an error of the caller's, which is taken, and a value (NULL: none; memory of the
 * engine's), which is taken if the answer is FERRY_OK.
 */
ferry_status fry_promise_end_with(ferry_promise *promise, ferry_status status, fry_error *error,
                                  fry_value *value);

/*
 * Resolves it, unless somebody has. With FERRY_OK its value is a copy of value_bytes bytes, if
 * there are any or `version` is not 0; without memory for that it fails. `error` is taken; NULL:
 * one that says the status is made.
 */
void fry_promise_answer(ferry_promise *promise, ferry_status status, fry_error *error,
                        const void *value, size_t value_bytes, uint64_t version);

#endif
