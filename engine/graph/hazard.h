/* SPDX-License-Identifier: Apache-2.0 */
/* Ordering nodes by the buffers' access lists. With the baton. */
#ifndef FRY_ENGINE_GRAPH_HAZARD_H
#define FRY_ENGINE_GRAPH_HAZARD_H

#include "engine/graph/turn.h"

/*
 * Orders the node after the users of its spans, and adds it to their lists; engine->entering says
 * how far that has come. False: engine->entering says why the rest is not in.
 */
bool fry_hazard_enter(fry_turn *turn, fry_node *node);

/*
 * Enters all accesses at once if they cannot overlap each other, few entries are at their spans,
 * and there is room, as is nearly always so. `edge_count` edges lead to the node. False:
 * fry_hazard_enter does the rest.
 */
bool fry_hazard_enter_at_once(fry_turn *turn, fry_node *node, uint32_t edge_count);

/*
 * The same for a node whose kind has one span at most, if the node touches only this span and
 * nobody else uses it. False: nothing was done.
 */
bool fry_hazard_enter_alone(fry_turn *turn, fry_node *node);

/*
 * Poisons as a whole the buffers that a refused node writes; the node stays listed as far as it is.
 * False: not all yet.
 */
bool fry_hazard_refuse(fry_turn *turn, fry_node *node);

/*
 * Removes the node from the lists; spans that it failed to write stay poisoned. Takes at most
 * *steps_p entries and subtracts them. False: there are more.
 */
bool fry_hazard_leave(fry_turn *turn, fry_node *node, uint32_t *steps_p);

/* The same for a join that stands for others in the lists. */
bool fry_hazard_join_leave(fry_turn *turn, fry_node *join, uint32_t *steps_p);

/* Poisons the whole buffer, with `why`. */
void fry_hazard_poison_buffer(ferry_buffer *buffer, fry_error *why);

/* Drops the poison that an unused buffer still lists. */
void fry_hazard_close(fry_turn *turn, ferry_buffer *buffer);

#endif
