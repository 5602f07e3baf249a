/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/due.h"

#include "engine/engine.h"
#include "engine/graph/node.h"
#include "engine/graph/turn.h"

void fry_graph_note_failure(fry_turn *turn, fry_node *node, fry_error *cause)
{
    if (node->state >= FRY_NODE_RESOLVED || (node->flags & FRY_NODE_FAILING) != 0)
        return;
    if (node->state < FRY_NODE_ISSUED && node->refusal != FERRY_OK)
        return; /* it enters, and fails with this; an issued call uses the field otherwise */
    node->flags |= FRY_NODE_FAILING;
    fry_future_set_error(&node->future, fry_error_retain(cause), true);
    fry_queue_push(&turn->engine->failing, &node->failing_link);
}

void fry_node_refuse(fry_node *node, ferry_status status, fry_error *error, bool is_cause)
{
    if (node->refusal != FERRY_OK) {
        fry_error_release(error);
        return;
    }
    node->refusal = (int16_t)status;
    fry_future_set_error(&node->future, error, is_cause);
}
