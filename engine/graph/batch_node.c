/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A batch's own node: it fails when one of its operations fails, is quiet when all of them are
 * (batch_count.h), and cancels them.
 *
 * Cancelling. A batch's operations stand before it in the list of live nodes, and between them only
 * what other threads submitted at the same time. So the loop walks back from the batch until all
 * its operations have resolved. The newest come first, so each is cancelled before what it depends
 * on. Only then does the batch's own future fail: a thread that sees that knows that none of its
 * operations begins any more. During the walk the batch is held as by one more operation, so it
 * neither succeeds with some operations cancelled nor leaves the graph. The walk goes on in later
 * ticks, since the baton must not be kept for a million operations: `cancel_at` says where, and
 * moves on when the node there leaves the list (live.h). Operations enter before their batch; a
 * cancel that comes earlier is kept until the batch has entered.
 *
 * All cancelled operations name the batch's own error as the reason, so cancelling a million takes
 * memory for one error.
 */
#include "engine/graph/batch_node.h"

#include "engine/engine.h"
#include "engine/graph/batch_count.h"
#include "engine/graph/cancel.h"
#include "engine/graph/due.h"
#include "engine/graph/emit.h"
#include "engine/graph/graph.h"
#include "engine/graph/kind.h"
#include "engine/graph/live.h"
#include "engine/graph/node.h"
#include "engine/graph/turn.h"
#include "engine/ground/refusal.h"

static void begin_walk(fry_turn *turn, fry_node *own)
{
    fry_node_hold(own);
    fry_queue_push(&turn->engine->cancelled, &own->request_link);
    turn->wake = true;
}

static void walk_ends(fry_turn *turn, fry_node *own)
{
    fry_error *why = own->op.batch.cancel;
    turn->engine->cancelling = NULL;
    turn->engine->cancel_at = NULL;
    own->op.batch.cancel = NULL;
    (void)fry_node_unhold(own);
    if (own->state < FRY_NODE_RESOLVED && own->op.batch.has_failed) {
        fry_graph_fail(turn, own, FERRY_E_CANCELLED, why, false);
        return;
    }
    fry_error_release(why); /* all have succeeded, or the batch had failed before */
    if (fry_node_holding(own) == 0)
        fry_graph_schedule(turn, own);
}

/* Enters behind all operations of the batch, with what only the submitter knew in its account. */
static bool enter(fry_turn *turn, fry_node *own)
{
    (void)turn;
    own->counts -= own->op.batch.settled;
    if (own->op.batch.refused != FRY_TAKEN)
        fry_node_refuse(own, FERRY_E_DEPENDENCY,
                        fry_refusal_error((fry_refusal)own->op.batch.refused), true);
    return false;
}

/*
 * A cancel that came earlier begins only now: its walk starts at the batch's place among the live
 * nodes.
 */
static bool entered(fry_turn *turn, fry_node *own, bool may_start)
{
    (void)may_start;
    if (fry_unlikely(own->op.batch.cancel != NULL))
        begin_walk(turn, own);
    else
        fry_batch_look_at_notice(turn, own);
    return false;
}

static void cancel(fry_turn *turn, fry_node *own)
{
    if (own->op.batch.count == 0) {
        fry_cancel_node(turn, own);
        return;
    }
    if (own->state == FRY_NODE_QUIET)
        return;
    own->op.batch.cancel = fry_node_error(own, FERRY_E_CANCELLED, "the batch was cancelled");
    if (own->state != FRY_NODE_NEW)
        begin_walk(turn, own);
}

static void cancel_member(fry_turn *turn, const fry_node *own, fry_node *member)
{
    fry_emit(turn->engine, member, FERRY_TRACE_CANCEL, 0);
    fry_graph_fail(turn, member, FERRY_E_CANCELLED, fry_error_retain(own->op.batch.cancel), true);
}

/*
 * Goes on with a batch. Returns how many looks are left; not 0: all its operations have resolved.
 */
static size_t walk(fry_turn *turn, fry_node *own, int64_t end_ns, size_t left)
{
    ferry_engine *engine = turn->engine;
    if (engine->cancelling != own) {
        engine->cancelling = own;
        engine->cancel_at = fry_live_before(own);
    }
    while (engine->cancel_at != NULL && fry_node_holding(own) != 1) {
        fry_node *node = engine->cancel_at;
        if (left == 0)
            return 0;
        engine->cancel_at = fry_live_before(node);
#ifdef FRY_PLANT_SKIP_MEMBER
        static uint32_t planted; /* a planted fault, which tests/planted must find */
        if (++planted % 4 == 0)
            continue;
#endif
        if (node->state < FRY_NODE_RESOLVED && node->batch == own)
            cancel_member(turn, own, node);
        left--;
        if (left % FRY_CANCEL_LOOKS_A_CLOCK == 0 && fry_clock_monotonic_ns() >= end_ns)
            return 0;
    }
    return left;
}

/* ---- its row ---- */

static bool awaits(const fry_node *own)
{
    return own->op.batch.unquiet != 0;
}

/* `more` counts operations that are not done. A walk holds the batch like one more operation. */
static void describe(const ferry_engine *engine, const fry_node *own, fry_kind_view *view)
{
    bool is_walked = own->op.batch.cancel != NULL;
    (void)engine;
    view->more = fry_node_holding(own) + own->op.batch.unquiet - is_walked;
}

const fry_op_kind fry_kind_batch = {
    .traits = FRY_KIND_OF_OTHERS,
    .enter = enter,
    .entered = entered,
    .awaits = awaits,
    .cancel = cancel,
    .walk = walk,
    .walk_ends = walk_ends,
    .describe = describe,
};
