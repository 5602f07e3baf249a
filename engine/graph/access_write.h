/* SPDX-License-Identifier: Apache-2.0 */
/* Accesses that write. They return false if `in` says what stopped them. */
#ifndef FRY_ENGINE_GRAPH_ACCESS_WRITE_H
#define FRY_ENGINE_GRAPH_ACCESS_WRITE_H

#include "engine/graph/entering.h"
#include "engine/graph/turn.h"

bool fry_access_write(fry_turn *turn, fry_entering *in, fry_node *node, const fry_use *use);

/* Like fry_access_read_at_once. */
bool fry_access_write_at_once(fry_turn *turn, fry_entering *in, fry_node *node, const fry_use *use);

/* Stops making a layer, which stays as it is. */
void fry_access_finish_layer(fry_turn *turn, fry_entering *in);

#endif
