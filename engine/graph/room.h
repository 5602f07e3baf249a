/* SPDX-License-Identifier: Apache-2.0 */
/* Room for operations refused with FERRY_E_AGAIN: room.c. */
#ifndef FRY_ENGINE_GRAPH_ROOM_H
#define FRY_ENGINE_GRAPH_ROOM_H

#include "engine/graph/stock.h"
#include "engine/ground/ground.h"

/* ---- what another try takes ---- */

/* Records a refusal at submit: `needed` edges in all, of which `missing` were missing. */
void fry_edges_refused(ferry_engine *engine, uint64_t needed, uint64_t missing);

/* Records a refusal for naming a barred buffer. Returns the reason. */
fry_refusal fry_refused_barred(ferry_engine *engine);

/* Records a refusal at entering, of an operation with that many edges into it; with the baton. */
void fry_entry_refused(ferry_engine *engine, uint64_t edges, const fry_lack *lack);

/* The promise of room enters; it is not part of the recorded load. */
void fry_writable_enters(ferry_engine *engine);

/* ---- news ---- */

/* Says that there may be room; arg is the engine. Any thread, with or without the baton. */
void fry_room_has_come(void *arg);

/* Called after giving the baton back if room is wanted. */
void fry_room_after_turn(ferry_engine *engine);

/* Looks for room; forgets the refusals, or asks to be told of room, as it finds. With room_lock. */
fry_pool_room fry_room_find(ferry_engine *engine);
void fry_room_stop_wanting(ferry_engine *engine);

#endif
