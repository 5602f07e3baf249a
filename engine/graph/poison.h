/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Poison: bytes whose last writer failed, with the root of that failure. They are in a tree of
 * their own, so that a read finds the first poison of its span at once. With the baton.
 */
#ifndef FRY_ENGINE_GRAPH_POISON_H
#define FRY_ENGINE_GRAPH_POISON_H

#include "engine/engine.h"
#include "engine/graph/buffer.h"
#include "engine/graph/node.h"
#include "engine/graph/segment.h"
#include "engine/graph/turn.h"

/* Fails a read if part of its span is poisoned. */
void fry_poison_read(fry_turn *turn, fry_node *node, const fry_use *use);

/*
 * Applies the poison of the whole buffer to an access. A write of the whole buffer ends that
 * poison.
 */
void fry_poison_meet_wide(fry_turn *turn, fry_node *node, const fry_use *use);

/* Cuts poison at an offset. Takes a segment. */
void fry_poison_cut(fry_turn *turn, ferry_buffer *buffer, size_t offset);

/* Removes the first poison in a span, at whose ends poison has been cut. False: none is left. */
bool fry_poison_take_some(fry_turn *turn, const fry_use *use);

/* Makes poison of a segment that is in no tree. */
void fry_poison_add(fry_segment *segment, fry_error *root);

/* Poisons the whole buffer, because room or memory was missing. */
void fry_poison_whole(ferry_buffer *buffer, fry_error *why);

/* Drops the poison of an unused buffer. */
void fry_poison_close(fry_turn *turn, ferry_buffer *buffer);

#endif
