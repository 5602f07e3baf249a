/* SPDX-License-Identifier: Apache-2.0 */
/* The loop's work and its sleep. */
#ifndef FRY_ENGINE_LOOP_LOOP_H
#define FRY_ENGINE_LOOP_LOOP_H

#include "engine/ground/ground.h"

/* One round of the loop; the caller holds the role. Returns how much was done. */
size_t fry_tick(ferry_engine *engine, size_t budget, bool with_callbacks);

/* Prepares for sleep; the caller holds the role. False: there is work. */
bool fry_arm(ferry_engine *engine);

/* With the baton: whether the loop has something to do or to watch. */
bool fry_loop_is_needed(const ferry_engine *engine);

/*
 * Stops the loop if the engine closes and all is quiet. From then on a thread that has work for the
 * loop does it itself.
 */
bool fry_loop_try_stop(ferry_engine *engine);

#endif
