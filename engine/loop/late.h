/* SPDX-License-Identifier: Apache-2.0 */
/* Late work: what is left to do after the loop has stopped. late.c says which thread does it. */
#ifndef FRY_ENGINE_LOOP_LATE_H
#define FRY_ENGINE_LOOP_LATE_H

#include "engine/engine.h"

/*
 * Does the late work; nothing before the stop. The caller keeps the engine's memory, and holds
 * neither the baton nor a lock that callbacks may take.
 */
void fry_late_work(ferry_engine *engine);

/*
 * For the end of a public call that may have left something for the loop. The load is seq_cst and
 * follows a full barrier, which follows publishing what is left: see late.c.
 */
static inline void fry_late_call_ends(ferry_engine *engine)
{
    if (fry_unlikely(fry_load_seq_cst(&engine->closing) != 0))
        fry_late_work(engine);
}

#endif
