/* SPDX-License-Identifier: Apache-2.0 */
/* Whether callbacks wait for the loop; waiter.h has what calls them. */
#ifndef FRY_ENGINE_GROUND_CALLBACKS_H
#define FRY_ENGINE_GROUND_CALLBACKS_H

#include "engine/engine.h"

/* Whether waiters have been fired or could be posted. Any thread. */
static inline bool fry_callbacks_are_due(const ferry_engine *engine)
{
    return fry_load_seq_cst(&engine->fired.top) != NULL ||
           fry_tasks_can_go_on(&engine->tasks, FRY_TASKS_FOR_WAITERS);
}

/* Whether waiters wait for their turn. The loop's role. */
static inline bool fry_is_due(const ferry_engine *engine)
{
    return engine->due.first != NULL || engine->due_inline.first != NULL;
}

#endif
