/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a batch's own node counts its operations.
 *
 * `holding` has one for each operation, taken off when the operation resolves; a failure is noted
 * at the same time, with its root. So an operation costs one count while all goes well. An
 * operation that fails while its memory is still touched moves to `unquiet`, and leaves that when
 * it is quiet. The batch is quiet when both are zero, and leaves the graph no sooner, so its
 * operations' pointers to it are always valid.
 *
 * Notices stand at a batch's end. Each waits for the one before it, by an edge, and the first for
 * all other operations: the batch holds it like one more edge, until its count says that only
 * notices are left. What the submitter alone knows comes with the batch, so the batch looks at the
 * notice only from then on.
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

/* `entering`: the batch is held by its own entering. */
static void look_at_notice(fry_turn *turn, fry_node *own, const fry_node *last, uint32_t entering)
{
    fry_node *notice = own->op.batch.notice;
    if (fry_likely(notice == NULL) || own->state == FRY_NODE_NEW || own->op.batch.cancel != NULL)
        return; /* a cancel comes to the notice before it comes to what that waits for */
    if (own->op.batch.has_failed_ahead || own->op.batch.is_refused_ahead) {
        fry_graph_note_failure(turn, notice, fry_future_root_error(&own->future));
        return;
    }
    uint32_t left = own->op.batch.notices - own->op.batch.notices_ended;
    if (fry_node_holding(own) - entering != left)
        return;
    own->op.batch.notice = NULL;
    fry_graph_let_go(turn, notice, last);
}

void fry_batch_look_at_notice(fry_turn *turn, fry_node *own)
{
    look_at_notice(turn, own, own, 1);
}

/* A notice that failed while it was held is let go, and starts no more. */
static void notice_ended(fry_node *own, fry_node *notice)
{
    own->op.batch.notices_ended++;
    if (own->op.batch.notice != notice)
        return;
    own->op.batch.notice = NULL;
    (void)fry_node_unhold(notice);
}

void fry_batch_member_ended(fry_turn *turn, fry_node *member, bool is_under_way)
{
#ifdef FRY_PLANT_FORGET_UNQUIET
    is_under_way =
        false; /* a fault put there on purpose: tests/planted builds it and must see it */
#endif
    fry_node *own = member->batch;
    if (fry_unlikely(member->kind == FERRY_OP_NOTICE))
        notice_ended(own, member);
    if (fry_unlikely(fry_future_status(&member->future) != FERRY_OK)) {
        own->op.batch.has_failed_ahead |= member->kind != FERRY_OP_NOTICE;
        fry_batch_note_failure(turn, own, fry_future_root_error(&member->future));
    }
    if (fry_unlikely(is_under_way))
        own->op.batch.unquiet++;
    else
        member->batch = NULL;
    fry_graph_let_go(turn, own, member);
    look_at_notice(turn, own, member, 0);
}

void fry_batch_member_quiet(fry_turn *turn, fry_node *member)
{
    fry_node *own = member->batch;
    member->batch = NULL;
    if (--own->op.batch.unquiet == 0 && fry_node_holding(own) == 0)
        fry_graph_schedule(turn, own);
}
