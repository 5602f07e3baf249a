/* SPDX-License-Identifier: Apache-2.0 */
/* The promise of room that all share who ask for it. */
#ifndef FRY_ENGINE_WRITABLE_H
#define FRY_ENGINE_WRITABLE_H

#include "engine/ground.h"

/* On the loop, without the baton: resolves the promise if there is room. Returns how many. */
size_t fry_room_look(ferry_engine *engine);

/* The engine gives its handle back. */
void fry_writable_close(ferry_engine *engine);

/* The promise, and a reference for the caller; NULL sets *why_p: FRY_TAKEN, there is room now. */
fry_node *fry_writable_get(ferry_engine *engine, fry_context *context, fry_refusal *why_p);

#endif
