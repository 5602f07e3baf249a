/* SPDX-License-Identifier: Apache-2.0 */
/* Submitting gets and puts. */
#ifndef FRY_ENGINE_API_REACH_H
#define FRY_ENGINE_API_REACH_H

#include "engine/api/request.h"
#include <ferry/window.h>

/* Like fry_request_node, for a get or a put. */
fry_node *fry_request_reach(fry_request *request, ferry_op_kind kind, ferry_window *window,
                            uint64_t offset, const ferry_span *span, fry_refusal *why_p);

#endif
