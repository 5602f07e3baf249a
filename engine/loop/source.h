/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sources: what the loop looks after. A source may keep the loop from sleeping, or make it wake at
 * a time; this merges what all sources ask for. A new source is a row in source.c. The tick does
 * their work (loop.c) and calls each by name, since the graph's own work stands between them.
 */
#ifndef FRY_ENGINE_LOOP_SOURCE_H
#define FRY_ENGINE_LOOP_SOURCE_H

#include "engine/graph/turn.h"

/* Before the loop sleeps. False: a source has work. With the role and the baton. */
bool fry_sources_arm(fry_turn *turn);

/*
 * When the loop must look at a source again at the latest, by the engine's clock; INT64_MAX: never.
 * With the baton.
 */
int64_t fry_sources_next_ns(ferry_engine *engine);

/*
 * When the loop must look again at the latest, by the monotonic clock, because its last look told
 * too little: other threads look at the channels now, or the baton was taken (!has_looked).
 * INT64_MAX: it need not. With the role, about to sleep.
 */
int64_t fry_sources_again_ns(ferry_engine *engine, bool has_looked);

#endif
