/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A batch's own node: it counts its operations, fails when one of them does, is quiet when all of
 * them are, and has them cancelled. With the baton.
 *
 * Counting. `holding` has one for each operation, taken off as that one resolves; a failure is
 * noted there and then, with its root. So a batch in which all goes well costs an operation one
 * count. One that fails while its memory is still being touched goes over into `unquiet`, and
 * leaves that when it is quiet: the batch is quiet when both are zero, and out of the graph not
 * before, so its operations' pointers to it are always good. An operation with handle and deadline
 * has an edge to the batch in place of the pointer (batch.c); once it has resolved it has no
 * deadline any more, and so room for the pointer.
 *
 * Cancelling. The operations of a batch stand before it in the list of live ones, and between them
 * nothing but what other threads submitted at the same time; so the loop walks back from the batch
 * until none is left that has not resolved. The newest come first, so that each is cancelled before
 * what it depends on is. Only then does the batch's own future fail: who sees that knows that none
 * of its operations begins any more. The walk holds the batch meanwhile as one more operation
 * would, so that it neither succeeds with some of them cancelled nor leaves the graph. It goes on
 * in later ticks, since the baton must not be kept for a million operations: `cancel_at` says
 * where, and is moved along when that one leaves the list (graph.c). Operations enter before their
 * batch; a cancel that comes earlier is kept until it has.
 *
 * All of them name the batch's own error as the reason, so cancelling a million takes memory for
 * one.
 */
#include "engine/batch_node.h"

#include "engine/engine.h"
#include "engine/graph.h"
#include "engine/node.h"
#include "engine/refusal.h"
#include "engine/trace.h"
#include "engine/turn.h"

/* What one tick does, whichever it comes to first. */
#define LOOKS_A_TICK 2048 /* at operations */
#define LOOKS_A_CLOCK 32
#define TICK_NS 250000

fry_node *fry_batch_of(const fry_node *node)
{
    if (node->kind == FERRY_OP_PROMISE)
        return NULL; /* it has something else there */
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

/* ---- counting ---- */

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

/* ---- cancelling ---- */

static void begin_walk(fry_turn *turn, fry_node *own)
{
    own->holding++;
    fry_queue_push(&turn->engine->cancelled, &own->request_link);
    turn->wake = true;
}

static void end_walk(fry_turn *turn, fry_node *own)
{
    fry_error *why = own->op.batch.cancel;
    own->op.batch.cancel = NULL;
    own->holding--;
    if (own->state < FRY_NODE_RESOLVED && own->op.batch.has_failed) {
        fry_graph_fail(turn, own, FERRY_E_CANCELLED, why, false);
        return;
    }
    fry_error_release(why); /* they have all succeeded; or it had failed before */
    if (own->holding == 0)
        fry_graph_schedule(turn, own);
}

void fry_batch_enter(fry_node *own)
{
    own->holding -= own->op.batch.settled;
    if (own->op.batch.refused != FRY_TAKEN)
        fry_node_refuse(own, FERRY_E_DEPENDENCY,
                        fry_refusal_error((fry_refusal)own->op.batch.refused), true);
}

/* Not before all of it is in: the walk begins where it stands among the live ones, and fails it. */
void fry_batch_entered(fry_turn *turn, fry_node *own)
{
    if (fry_unlikely(own->op.batch.cancel != NULL))
        begin_walk(turn, own);
}

void fry_batch_cancel(fry_turn *turn, fry_node *own)
{
    fry_error_facts facts = {
        .status = FERRY_E_CANCELLED, .op = own->future.id, .label = own->label};
    if (own->state == FRY_NODE_QUIET)
        return;
    own->op.batch.cancel =
        fry_error_create(&turn->engine->memory, &facts, "the batch was cancelled");
    if (own->state != FRY_NODE_NEW)
        begin_walk(turn, own);
}

static void cancel_member(fry_turn *turn, const fry_node *own, fry_node *member)
{
    fry_trace(turn->engine, member, FERRY_TRACE_CANCEL, 0);
    fry_graph_fail(turn, member, FERRY_E_CANCELLED, fry_error_retain(own->op.batch.cancel), true);
}

/* Goes on with a batch. Returns how many looks are left; not 0: all of it has resolved. */
static size_t walk(fry_turn *turn, const fry_node *own, int64_t end_ns, size_t left)
{
    ferry_engine *engine = turn->engine;
    if (engine->cancelling != own) {
        engine->cancelling = own;
        engine->cancel_at = own->live_previous;
    }
    while (engine->cancel_at != NULL && own->holding != 1) {
        fry_node *node = engine->cancel_at;
        if (left == 0)
            return 0;
        engine->cancel_at = node->live_previous;
#ifdef FRY_PLANT_SKIP_MEMBER
        static uint32_t planted; /* likewise */
        if (++planted % 4 == 0)
            continue;
#endif
        if (node->state < FRY_NODE_RESOLVED && fry_batch_of(node) == own)
            cancel_member(turn, own, node);
        left--;
        if (left % LOOKS_A_CLOCK == 0 && fry_clock_monotonic_ns() >= end_ns)
            return 0;
    }
    return left;
}

size_t fry_batches_cancel(fry_turn *turn)
{
    ferry_engine *engine = turn->engine;
    if (fry_likely(engine->cancelled.first == NULL))
        return 0;
    size_t left = LOOKS_A_TICK;
    int64_t end_ns = fry_clock_monotonic_ns() + TICK_NS;
    while (engine->cancelled.first != NULL) {
        fry_node *own = FRY_CONTAINER(engine->cancelled.first, fry_node, request_link);
        left = walk(turn, own, end_ns, left);
        if (left == 0)
            break;
        (void)fry_queue_pop(&engine->cancelled);
        engine->cancelling = engine->cancel_at = NULL;
        end_walk(turn, own);
        left--;
    }
    return LOOKS_A_TICK - left;
}
