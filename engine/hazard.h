/* SPDX-License-Identifier: Apache-2.0 */
/* What the buffers' access lists say. With the baton. */
#ifndef FRY_ENGINE_HAZARD_H
#define FRY_ENGINE_HAZARD_H

#include "engine/turn.h"

/*
 * Orders the node after what touches its spans, and puts it into their lists, as engine->entering
 * says how far that has come. False: that says why not all of it is in.
 */
bool fry_hazard_enter(fry_turn *turn, fry_node *node);

/*
 * The same of all its accesses, if they can't meet, hardly anybody is where they are, and there is
 * room: as nearly always. So many edges lead to it. False: fry_hazard_enter does the rest.
 */
bool fry_hazard_enter_at_once(fry_turn *turn, fry_node *node, uint32_t edge_count);

/* The same of a node whose kind has one span at most, if it touches that alone, and nobody else is
 * there. False: nothing was done. */
bool fry_hazard_enter_alone(fry_turn *turn, fry_node *node);

/* The node is refused with what is listed of it: the buffers that it writes are poisoned as a
 * whole. False: not all yet. */
bool fry_hazard_refuse(fry_turn *turn, fry_node *node);

/* Takes the node out of the lists; spans it failed to write stay poisoned. At most *steps_p
 * entries, which it takes off. False: there are more. */
bool fry_hazard_leave(fry_turn *turn, fry_node *node, uint32_t *steps_p);

/* The same of a join that stands for others in the lists. */
bool fry_hazard_join_leave(fry_turn *turn, fry_node *join, uint32_t *steps_p);

/* The buffer is poisoned as a whole, as `why` says. */
void fry_hazard_poison_buffer(ferry_buffer *buffer, fry_error *why);

/* Drops what a buffer that nobody uses any more still lists: poison. */
void fry_hazard_close(fry_turn *turn, ferry_buffer *buffer);

#endif
