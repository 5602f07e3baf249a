/* SPDX-License-Identifier: Apache-2.0 */
/* Submitting sends, receives and probes. */
#ifndef FRY_ENGINE_API_SEND_H
#define FRY_ENGINE_API_SEND_H

#include "engine/api/request.h"
#include <ferry/message.h>

/* Like fry_request_node, for a send, a receive or a probe. */
fry_node *fry_request_message(fry_request *request, ferry_op_kind kind, ferry_group *group,
                              ferry_rank peer, ferry_tag tag, const ferry_span *span,
                              fry_refusal *why_p);

/*
 * Makes the node of a message without options and with nothing wrong, like nearly all. NULL:
 * nothing was done; the function above makes the node, or says why not.
 */
fry_node *fry_request_plain_message(ferry_engine *engine, fry_context *context, ferry_op_kind kind,
                                    ferry_group *group, ferry_rank peer, ferry_tag tag,
                                    const ferry_span *span);

#endif
