/* SPDX-License-Identifier: Apache-2.0 */
/* The loop's work and its sleep. */
#ifndef FRY_ENGINE_LOOP_H
#define FRY_ENGINE_LOOP_H

#include "engine/ground.h"

/* One round of the loop by the holder of its role. Returns how much was done. */
size_t fry_tick(ferry_engine *engine, size_t budget, bool with_callbacks);

/* The holder of the role is about to sleep. False: there is work. */
bool fry_arm(ferry_engine *engine);

/* With the baton: whether the loop would have something to do, or to watch for. */
bool fry_loop_is_needed(const ferry_engine *engine);

void fry_disarm(ferry_engine *engine);

/* When closing and everything is quiet: from now on whoever has work for the loop does it himself.
 */
bool fry_loop_try_stop(ferry_engine *engine);

#endif
