/* SPDX-License-Identifier: Apache-2.0 */
/* Notices that are sent, single, in batches and in plans. */
#ifndef FRY_ENGINE_API_NOTICE_H
#define FRY_ENGINE_API_NOTICE_H

#include "engine/api/request.h"

/*
 * Checks a notice to a member of a group and makes its node. NULL: *why_p says why, and nothing is
 * left behind.
 */
fry_node *fry_request_notice(fry_request *request, ferry_group *group, ferry_rank peer,
                             const void *data, size_t size_bytes, fry_refusal *why_p);

#endif
