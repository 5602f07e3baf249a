/* SPDX-License-Identifier: Apache-2.0 */
/* Room for what was refused with FERRY_E_AGAIN: room.c. */
#ifndef FRY_ENGINE_ROOM_H
#define FRY_ENGINE_ROOM_H

#include "engine/ground.h"
#include "engine/stock.h"

/* ---- what another try takes ---- */

/* At submit: so many edges in all, of which `missing` were not there. */
void fry_edges_refused(ferry_engine *engine, uint64_t needed, uint64_t missing);

/* For naming a barred buffer. Gives the reason. */
fry_refusal fry_refused_barred(ferry_engine *engine);

/* As it entered, with so many edges into it; with the baton. */
void fry_entry_refused(ferry_engine *engine, uint64_t edges, const fry_lack *lack);

/* The promise of room enters, which is none of the load that was noted. */
void fry_writable_enters(ferry_engine *engine);

/* ---- news ---- */

/* There may be room; arg is the engine. Any thread, with the baton or without. */
void fry_room_has_come(void *arg);

/* After giving the baton back, where room is wanted. */
void fry_room_after_turn(ferry_engine *engine);

/* With room_lock: looks for room, and forgets refusals, or wants news, as it finds. */
fry_pool_room fry_room_find(ferry_engine *engine);
void fry_room_stop_wanting(ferry_engine *engine);

#endif
