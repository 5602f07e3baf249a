/* SPDX-License-Identifier: Apache-2.0 */
/* Copies, single and in batches. */
#ifndef FRY_ENGINE_API_COPY_H
#define FRY_ENGINE_API_COPY_H

#include "engine/api/request.h"
#include "engine/api/spans.h"
#include "engine/graph/kind.h"

extern const fry_op_kind fry_kind_copy;

/* Checks a copy. FRY_TAKEN: it is valid. */
fry_refusal fry_request_check_copy(ferry_engine *engine, const ferry_span *dst,
                                   const ferry_span *src);
fry_refusal fry_request_check_rows(ferry_engine *engine, const fry_row_span *dst,
                                   const fry_row_span *src);

/* Checks a copy and makes its node. NULL: *why_p says why, and nothing is left behind. */
fry_node *fry_request_copy(fry_request *request, const ferry_span *dst, const ferry_span *src,
                           fry_refusal *why_p);
fry_node *fry_request_copy_rows(fry_request *request, const fry_row_span *dst,
                                const fry_row_span *src, fry_refusal *why_p);

#endif
