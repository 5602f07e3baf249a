/* SPDX-License-Identifier: Apache-2.0 */
/* The mark of refused writes. */
#ifndef FRY_ENGINE_GRAPH_REFUSED_MARK_H
#define FRY_ENGINE_GRAPH_REFUSED_MARK_H

#include "engine/graph/kind.h"

extern const fry_op_kind fry_kind_mark;

void fry_refused_mark_init(ferry_engine *engine);

#endif
