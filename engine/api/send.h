/* SPDX-License-Identifier: Apache-2.0 */
/* Submitting sends, receives and probes. */
#ifndef FRY_ENGINE_API_SEND_H
#define FRY_ENGINE_API_SEND_H

#include "engine/api/request.h"
#include <ferry/message.h>

typedef struct fry_transfer fry_transfer;

/* Whether a message's bytes can be there. */
fry_refusal fry_request_check_message_span(ferry_engine *engine, bool is_written,
                                           const ferry_span *span);

/* Whether the group, which is not NULL, takes operations by now. */
fry_refusal fry_request_check_group(const ferry_group *group);

/* Takes a slot of a pool that has max_nodes of them. NULL: *why_p says why. */
void *fry_request_slot(fry_pool *pool, fry_pool_cache *cache, fry_refusal *why_p);

/* Takes the peer's slot for a node. NULL: *why_p says why. */
fry_transfer *fry_request_transfer(const fry_request *request, fry_refusal *why_p);

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
