/* SPDX-License-Identifier: Apache-2.0 */
/* What a lost device leaves. With the baton. */
#ifndef FRY_ENGINE_GRAPH_STUCK_H
#define FRY_ENGINE_GRAPH_STUCK_H

#include "engine/graph/turn.h"

/* Fails `node` with `from`, because it waits for `from` to retire, which may never happen. */
void fry_graph_share_stuck(fry_turn *turn, fry_node *node, const fry_node *from);

#endif
