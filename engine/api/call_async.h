/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that begin what ends later, as operations. */
#ifndef FRY_ENGINE_API_CALL_ASYNC_H
#define FRY_ENGINE_API_CALL_ASYNC_H

#include "engine/api/request.h"
#include "engine/graph/kind.h"

extern const fry_op_kind fry_kind_async;

/* Checks one and makes its node. NULL: *why_p says why, and nothing is left behind. */
fry_node *fry_request_call_async(fry_request *request, ferry_executor *executor,
                                 ferry_begin_fn begin, ferry_cancel_fn cancel, void *arg,
                                 fry_refusal *why_p);

#endif
