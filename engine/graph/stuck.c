/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a lost device leaves.
 *
 * Order edges wait until an operation lets go of memory, which operations on a lost device never
 * do. A writer behind such an edge would wait for ever, so it fails with the same root. As it never
 * retires, operations that are ordered behind it fail in turn; the failing queue goes from one to
 * the next. Each stays in the graph, unseen by its user: if the device goes on after all, they
 * retire in order.
 */
#include "engine/graph/stuck.h"

#include "engine/engine.h"
#include "engine/graph/batch_count.h"
#include "engine/graph/due.h"
#include "engine/graph/node.h"
#include "engine/graph/turn.h"

void fry_graph_share_stuck(fry_turn *turn, fry_node *node, const fry_node *from)
{
    if ((node->flags & FRY_NODE_STUCK) != 0)
        return;
    node->flags |= FRY_NODE_STUCK;
    fry_error *root = fry_future_root_error(&from->future);
    if (root->public_.status != FERRY_E_DEVICE && turn->engine->loss != NULL)
        root = turn->engine->loss; /* `from` had failed before, which is not the reason */
    if (node->kind == FERRY_OP_BATCH && fry_batch_fails_later(node)) {
        fry_batch_note_failure(turn, node, root);
        return; /* the batch passes it on as it fails */
    }
    fry_graph_note_failure(turn, node, root);
    if ((node->flags & FRY_NODE_FAILING) == 0) { /* if it had failed before, only to pass it on */
        node->flags |= FRY_NODE_FAILING;
        fry_queue_push(&turn->engine->failing, &node->failing_link);
    }
}
