/* SPDX-License-Identifier: Apache-2.0 */
/* The promise of room that all callers of ferry_engine_writable share. */
#ifndef FRY_ENGINE_GRAPH_WRITABLE_H
#define FRY_ENGINE_GRAPH_WRITABLE_H

#include "engine/ground/ground.h"

/* Resolves the promise if there is room. Returns how many. On the loop, without the baton. */
size_t fry_room_look(ferry_engine *engine);

/* Releases the engine's handle to the promise. */
void fry_writable_close(ferry_engine *engine);

/* The promise, with a reference for the caller; NULL sets *why_p: FRY_TAKEN, there is room now. */
fry_node *fry_writable_get(ferry_engine *engine, fry_context *context, fry_refusal *why_p);

#endif
