/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/deadline.h"

#include "engine/graph/node.h"

void fry_deadline_add(ferry_engine *engine, fry_node *node)
{
    node->flags |= FRY_NODE_HAS_DEADLINE;
    fry_timers_add(&engine->deadlines, &node->deadline, NULL);
}

void fry_deadline_remove(ferry_engine *engine, fry_node *node)
{
    node->flags &= (uint16_t)~FRY_NODE_HAS_DEADLINE;
    fry_timers_remove(&engine->deadlines, &node->deadline, NULL);
}
