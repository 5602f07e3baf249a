/* SPDX-License-Identifier: Apache-2.0 */
/* Accesses that read. They return false if `in` says what stopped them. */
#ifndef FRY_ENGINE_GRAPH_ACCESS_READ_H
#define FRY_ENGINE_GRAPH_ACCESS_READ_H

#include "engine/graph/entering.h"
#include "engine/graph/turn.h"

bool fry_access_read(fry_turn *turn, fry_entering *in, fry_node *node, const fry_use *use);

/*
 * Enters the whole access at once, for an operation whose accesses do not overlap. False: nothing
 * was done, because too many entries are there, or there is no room.
 */
bool fry_access_read_at_once(fry_turn *turn, fry_entering *in, fry_node *node, const fry_use *use);

#endif
