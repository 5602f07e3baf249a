/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a batch's own node counts its operations.
 *
 * `holding` has one for each operation, taken off as that one resolves; a failure is noted there
 * and then, with its root. So a batch in which all goes well costs an operation one
 * count. One that fails while its memory is still being touched goes over into `unquiet`, and
 * leaves that when it is quiet: the batch is quiet when both are zero, and out of the graph not
 * before, so its operations' pointers to it are always good. An operation with handle and deadline
 * has an edge to the batch in place of the pointer (batch.c); once it has resolved it has no
 * deadline any more, and so room for the pointer.
 */
#include "engine/batch_count.h"

#include "engine/due.h"
#include "engine/engine.h"
#include "engine/node.h"
#include "engine/turn.h"

fry_node *fry_batch_of(const fry_node *node)
{
    switch ((enum fry_in_batch)node->in_batch) {
    case FRY_IN_BATCH_HELD:
        return node->batch_of_held;
    case FRY_IN_BATCH_UNHELD:
        return node->batch_of_unheld;
    case FRY_IN_BATCH_BY_EDGE: {
        const fry_edge *first = node->successors_first;
        return first != NULL && first->nature == FRY_EDGE_MEMBER ? first->to : NULL;
    }
    default:
        return NULL;
    }
}

bool fry_batch_fails_later(const fry_node *own)
{
    return own->state == FRY_NODE_NEW ||
           (own->state < FRY_NODE_RESOLVED && own->op.batch.cancel != NULL);
}

void fry_batch_note_failure(fry_turn *turn, fry_node *own, fry_error *root)
{
    own->op.batch.has_failed = true;
    if (!fry_batch_fails_later(own))
        fry_graph_note_failure(turn, own, root);
    else if (own->op.batch.cancel == NULL)
        fry_node_refuse(own, FERRY_E_DEPENDENCY, fry_error_retain(root), true);
}

/* It is no longer in the deadlines' heap, where the pointer goes. */
void fry_batch_counts_late(fry_node *own, fry_node *member)
{
    member->in_batch = FRY_IN_BATCH_HELD;
    member->batch_of_held = own;
    own->op.batch.unquiet++;
}

/* The edge says how it ended, and holds the batch no longer. */
static void member_by_edge_ended(fry_node *member, bool is_under_way)
{
    fry_node *own = fry_batch_of(member);
    if (!is_under_way)
        member->in_batch = FRY_IN_NO_BATCH;
    else if (own != NULL) /* else it has yet to enter, and sees to it then */
        fry_batch_counts_late(own, member);
}

void fry_batch_member_ended(fry_turn *turn, fry_node *member, bool is_under_way)
{
    if (fry_unlikely(member->in_batch == FRY_IN_BATCH_BY_EDGE)) {
        member_by_edge_ended(member, is_under_way);
        return;
    }
#ifdef FRY_PLANT_FORGET_UNQUIET
    is_under_way =
        false; /* a fault put there on purpose: tests/planted builds it and must see it */
#endif
    fry_node *own =
        member->in_batch == FRY_IN_BATCH_HELD ? member->batch_of_held : member->batch_of_unheld;
    if (fry_unlikely(fry_future_status(&member->future) != FERRY_OK))
        fry_batch_note_failure(turn, own, fry_future_root_error(&member->future));
    if (fry_unlikely(is_under_way))
        own->op.batch.unquiet++;
    else
        member->in_batch = FRY_IN_NO_BATCH;
    fry_graph_let_go(turn, own, member);
}

void fry_batch_member_quiet(fry_turn *turn, fry_node *member)
{
    fry_node *own = fry_batch_of(member);
    member->in_batch = FRY_IN_NO_BATCH;
    if (own != NULL && --own->op.batch.unquiet == 0 && own->holding == 0)
        fry_graph_schedule(turn, own);
}
