/* SPDX-License-Identifier: Apache-2.0 */
/* A batch's own node. */
#ifndef FRY_ENGINE_GRAPH_BATCH_NODE_H
#define FRY_ENGINE_GRAPH_BATCH_NODE_H

#include "engine/graph/kind.h"
#include "engine/graph/turn.h"

extern const fry_op_kind fry_kind_batch;

/*
 * On the loop, with the baton: goes on cancelling batches' operations, for less than a millisecond.
 * Returns how much was done.
 */
size_t fry_batches_cancel(fry_turn *turn);

#endif
