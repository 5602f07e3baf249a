/* SPDX-License-Identifier: Apache-2.0 */
/* Functions as operations. */
#ifndef FRY_ENGINE_API_CALL_H
#define FRY_ENGINE_API_CALL_H

#include "engine/api/request.h"
#include "engine/graph/kind.h"

extern const fry_op_kind fry_kind_call;

/* Checks a call and makes its node. NULL: *why_p says why, and nothing is left behind. */
fry_node *fry_request_call(fry_request *request, ferry_executor *executor, ferry_call_fn fn,
                           void *arg, fry_refusal *why_p);

/* What calls have in common with what ends later (call_async.c): its row's `start` and `arrive`. */
void fry_call_start(fry_turn *turn, fry_node *node);
void fry_call_arrive(fry_turn *turn, fry_node *node);

/* The executor that functions are given; NULL: the loop. */
ferry_executor *fry_call_executor(const ferry_engine *engine, ferry_executor *executor);

#endif
