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

#endif
