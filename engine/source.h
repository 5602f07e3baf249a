/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sources: what the loop looks after. A source may keep the loop from sleeping, or have it wake at
 * a time; what they all ask for is merged here. A new one is a row in source.c. Their work is done
 * by the tick (loop.c), which calls each by name, since the graph's own work stands between them.
 */
#ifndef FRY_ENGINE_SOURCE_H
#define FRY_ENGINE_SOURCE_H

#include "engine/turn.h"

/* The loop is about to sleep: false, one of them has work. With the role and the baton. */
bool fry_sources_arm(fry_turn *turn);

/*
 * When the loop has to look at one of them again, at the latest, by the engine's clock; INT64_MAX:
 * never. `is_told`: who asks sleeps on the poller and the clock is real, so those whose descriptor
 * the poller watches need not be asked. With the baton.
 */
int64_t fry_sources_next_ns(ferry_engine *engine, bool is_told);

/*
 * When the loop has to look again, at the latest, by the monotonic clock, because its look says too
 * little: other threads look at the channels now, or the baton was not to be had (!has_looked).
 * INT64_MAX: it need not. With the role, about to sleep.
 */
int64_t fry_sources_again_ns(ferry_engine *engine, bool has_looked);

#endif
