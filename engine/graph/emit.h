/* SPDX-License-Identifier: Apache-2.0 */
/* Trace records of operations' transitions, made by the thread that makes the transition. */
#ifndef FRY_ENGINE_GRAPH_EMIT_H
#define FRY_ENGINE_GRAPH_EMIT_H

#include "engine/ground/ground.h"

/* Records a transition. Any thread. `waited_for`: the operation that it waited for last, or 0. */
void fry_emit_now(ferry_engine *engine, const fry_node *node, ferry_trace_what what,
                  uint64_t waited_for);

/* Records when a copy that has fired began; 0: unknown. */
void fry_emit_begun(ferry_engine *engine, const fry_node *node, int64_t begun_ns);

static inline void fry_emit(ferry_engine *engine, const fry_node *node, ferry_trace_what what,
                            uint64_t waited_for)
{
    if (fry_unlikely(fry_load_relaxed(&engine->tracing) != 0))
        fry_emit_now(engine, node, what, waited_for);
}

#endif
