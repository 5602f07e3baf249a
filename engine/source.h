/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sources: what the loop looks after. Each may keep it from sleeping, or have it wake at a time; so
 * what they ask for meets here, and nowhere else. Their work is done by the tick (loop.c), which
 * calls each by name, since the graph's own work stands between them.
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
 * The same of what can't wait for the engine's clock or the baton, by the monotonic clock: since
 * others look at the channels now, or since the baton was not to be had (!has_looked), and so what
 * is due is not known. With the role, about to sleep.
 */
int64_t fry_sources_again_ns(ferry_engine *engine, bool has_looked);

#endif
