/* SPDX-License-Identifier: Apache-2.0 */
/* All kinds of operations, by fry_node.kind. */
#ifndef FRY_ENGINE_KINDS_H
#define FRY_ENGINE_KINDS_H

#include "engine/graph/kind.h"

extern const fry_op_kind *const fry_op_kinds[FRY_OP_KINDS];

#endif
