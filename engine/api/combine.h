/* SPDX-License-Identifier: Apache-2.0 */
/* Operations that do nothing but wait for others. */
#ifndef FRY_ENGINE_API_COMBINE_H
#define FRY_ENGINE_API_COMBINE_H

#include "engine/graph/kind.h"

extern const fry_op_kind fry_kind_nop, fry_kind_all, fry_kind_any, fry_kind_drain, fry_kind_issued,
    fry_kind_quiet;

#endif
