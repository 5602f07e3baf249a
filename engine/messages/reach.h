/* SPDX-License-Identifier: Apache-2.0 */
/* Gets and puts, and what this member does for those of others: the rows of these operations. */
#ifndef FRY_ENGINE_MESSAGES_REACH_H
#define FRY_ENGINE_MESSAGES_REACH_H

#include "engine/graph/kind.h"

extern const fry_op_kind fry_kind_get, fry_kind_put, fry_kind_give, fry_kind_accept;

#endif
