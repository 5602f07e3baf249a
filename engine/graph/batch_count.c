/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a batch's own node counts its operations.
 *
 * `holding` has one for each operation, taken off when the operation resolves; a failure is noted
 * at the same time, with its root. So an operation costs one count while all goes well. An
 * operation that fails while its memory is still touched moves to `unquiet`, and leaves that when
 * it is quiet. The batch is quiet when both are zero, and leaves the graph no sooner, so its
 * operations' pointers to it are always valid.
 */
#include "engine/graph/batch_count.h"

#include "engine/engine.h"
#include "engine/graph/due.h"
#include "engine/graph/node.h"
#include "engine/graph/turn.h"

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

void fry_batch_member_ended(fry_turn *turn, fry_node *member, bool is_under_way)
{
#ifdef FRY_PLANT_FORGET_UNQUIET
    is_under_way =
        false; /* a fault put there on purpose: tests/planted builds it and must see it */
#endif
    fry_node *own = member->batch;
    if (fry_unlikely(fry_future_status(&member->future) != FERRY_OK))
        fry_batch_note_failure(turn, own, fry_future_root_error(&member->future));
    if (fry_unlikely(is_under_way))
        own->op.batch.unquiet++;
    else
        member->batch = NULL;
    fry_graph_let_go(turn, own, member);
}

void fry_batch_member_quiet(fry_turn *turn, fry_node *member)
{
    fry_node *own = member->batch;
    member->batch = NULL;
    if (--own->op.batch.unquiet == 0 && fry_node_holding(own) == 0)
        fry_graph_schedule(turn, own);
}
