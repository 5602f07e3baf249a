/* SPDX-License-Identifier: Apache-2.0 */
/* Posts of plans: the row of this operation. */
#ifndef FRY_ENGINE_PLANS_POST_H
#define FRY_ENGINE_PLANS_POST_H

#include "engine/graph/kind.h"

extern const fry_op_kind fry_kind_plan;

#endif
