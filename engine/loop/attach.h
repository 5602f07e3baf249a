/* SPDX-License-Identifier: Apache-2.0 */
/* The loop in the user's libev loop. */
#ifndef FRY_ENGINE_LOOP_ATTACH_H
#define FRY_ENGINE_LOOP_ATTACH_H

#include "engine/engine.h"

/* Attaches the engine to the loop. On failure *why_p says why. */
ferry_status fry_attach(ferry_engine *engine, struct ev_loop *loop, const char **why_p);

/*
 * Takes the watchers out of the user's loop; false if that loop's thread did not do it by end_ns.
 */
bool fry_detach(ferry_engine *engine, int64_t end_ns);
void fry_attachment_free(ferry_engine *engine);

#endif
