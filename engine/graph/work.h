/* SPDX-License-Identifier: Apache-2.0 */
/* The graph's work: due nodes, and arrived ones. With the baton. */
#ifndef FRY_ENGINE_GRAPH_WORK_H
#define FRY_ENGINE_GRAPH_WORK_H

#include "engine/graph/turn.h"

/* Does up to `budget` pieces of work that need nothing but the baton. Returns how many. */
size_t fry_graph_work(fry_turn *turn, size_t budget);

/* Whether the graph has something to do that needs no event. */
static inline bool fry_graph_has_work(const ferry_engine *engine)
{
    return engine->failing.first != NULL || engine->ready.first != NULL ||
           engine->backlog.first != NULL || !fry_stack_is_empty(&engine->inbox);
}

#endif
