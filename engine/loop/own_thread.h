/* SPDX-License-Identifier: Apache-2.0 */
/* The loop on a thread of the engine. */
#ifndef FRY_ENGINE_LOOP_OWN_THREAD_H
#define FRY_ENGINE_LOOP_OWN_THREAD_H

#include "engine/engine.h"

/*
 * Starts and ends the thread. The end waits until everything is quiet; false: it was not by end_ns
 * (CLOCK_MONOTONIC; FRY_NEVER_NS).
 */
ferry_status fry_own_thread_start(ferry_engine *engine);
bool fry_own_thread_end(ferry_engine *engine, int64_t end_ns);

#endif
