/* SPDX-License-Identifier: Apache-2.0 */
/* A batch's own node. */
#ifndef FRY_ENGINE_GRAPH_BATCH_NODE_H
#define FRY_ENGINE_GRAPH_BATCH_NODE_H

#include "engine/graph/kind.h"

extern const fry_op_kind fry_kind_batch;

#endif
