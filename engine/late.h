/* SPDX-License-Identifier: Apache-2.0 */
/* Late work: what is left to do when the loop has stopped. late.c says who does it. */
#ifndef FRY_ENGINE_LATE_H
#define FRY_ENGINE_LATE_H

#include "engine/engine.h"

/* The engine's memory is kept by the caller; not with the baton, nor with a lock that callbacks
 * may take. Does nothing before the stop. */
void fry_late_work(ferry_engine *engine);

/*
 * A public call that may have left something for the loop is about to return. The load is seq_cst,
 * and follows a full barrier that follows publishing what is left: see late.c.
 */
static inline void fry_call_ends(ferry_engine *engine)
{
    if (fry_unlikely(fry_load_seq_cst(&engine->closing) != 0))
        fry_late_work(engine);
}

#endif
