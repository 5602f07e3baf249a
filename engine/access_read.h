/* SPDX-License-Identifier: Apache-2.0 */
/* Accesses that read. False: `in` says what stopped it. */
#ifndef FRY_ENGINE_ACCESS_READ_H
#define FRY_ENGINE_ACCESS_READ_H

#include "engine/entering.h"
#include "engine/turn.h"

bool fry_access_read(fry_turn *turn, fry_entering *in, fry_node *node, const fry_use *use);

/*
 * All of it in one go, of one whose operation has none that overlap it. False: nothing was done, as
 * there is too much where it goes, or no room.
 */
bool fry_access_read_at_once(fry_turn *turn, fry_entering *in, fry_node *node, const fry_use *use);

#endif
