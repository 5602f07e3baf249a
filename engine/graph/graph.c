/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The graph has one writer, the holder of the baton, so nothing here is atomic except the futures.
 *
 * No recursion: what the end of a node starts goes into a queue (ready, failing) that
 * fry_graph_work works off, so a chain of any length needs the same stack.
 *
 * Two ends of a node. *Resolved*: its data edges (AFTER, READ) to successors fire or carry its
 * failure. *Retired*: neither the node nor anything that it was ordered behind touches memory any
 * more; its order edges to successors fire. A node cancelled while it waited is resolved and quiet
 * at once, but retires only when its own order edges have fired. A later writer may be ordered
 * behind this node alone, because entering a write removes older entries from the access list, and
 * must still come after those.
 */
#include "engine/graph/graph.h"

#include "engine/engine.h"
#include "engine/graph/batch_count.h"
#include "engine/graph/buffer.h"
#include "engine/graph/completion.h"
#include "engine/graph/deadline.h"
#include "engine/graph/due.h"
#include "engine/graph/edge.h"
#include "engine/graph/emit.h"
#include "engine/graph/hazard.h"
#include "engine/graph/join.h"
#include "engine/graph/kind.h"
#include "engine/graph/lane.h"
#include "engine/graph/live.h"
#include "engine/graph/node.h"
#include "engine/graph/park.h"
#include "engine/graph/scope.h"
#include "engine/graph/stuck.h"
#include "engine/graph/tally.h"
#include "engine/graph/turn.h"
#include "engine/ground/context.h"

#define RETIRE_STEPS 1024 /* of one node in one go */

/* Moves a node's state, only forward; nothing else does. */
static inline void set_state(fry_turn *turn, fry_node *node, fry_node_state state)
{
    static const uint8_t what[] = {
        [FRY_NODE_ISSUED] = FERRY_TRACE_ISSUED,
        [FRY_NODE_RESOLVED] = FERRY_TRACE_RESOLVED,
        [FRY_NODE_QUIET] = FERRY_TRACE_QUIET,
    };
    fry_store_release(&node->state, (uint8_t)state); /* pairs with the look in event.c */
    if (state >= FRY_NODE_ISSUED)
        fry_emit(turn->engine, node, (ferry_trace_what)what[state], 0);
}

/* A predecessor that the node overtook on its device has ended. */
static inline void confirm(fry_turn *turn, fry_link *before, fry_node *node, const fry_node *from)
{
    if (--node->unconfirmed == 0) {
        fry_join_name_last(node, from);
        fry_graph_schedule_behind(turn, before, node);
    }
}

/*
 * Lets an edge that was taken out of its list take effect on the successor, which comes behind
 * `before` in the queue if it is ready then.
 */
static inline void edge_fire(fry_turn *turn, fry_link *before, fry_edge *edge)
{
    fry_node *to = edge->to;
    bool was_on_device = edge->state == FRY_EDGE_ON_DEVICE;
    edge->state = FRY_EDGE_LOOSE;
    if (fry_likely(!was_on_device))
        fry_graph_let_go_behind(turn, before, to, edge->from);
    else if (fry_edge_is_counted(edge))
        confirm(turn, before, to, edge->from);
}

/* ---- the ends of a node ---- */

static void fire_any(fry_turn *turn, fry_link *before, fry_edge *edge)
{
    fry_node *to = edge->to;
    edge->state = FRY_EDGE_LOOSE;
    if (fry_node_holding(to) == 0)
        return; /* another edge was first, in the same round */
    /* One edge is enough; the others are dropped when the node resolves or retires. */
    fry_node_set_holding(to, 1);
    fry_graph_let_go_behind(turn, before, to, edge->from);
}

/*
 * Fires the edges of a node that has just failed. Edges that carry the failure stay in the list:
 * failing their successor drops them or turns them into order edges.
 */
static void fire_failed(fry_turn *turn, fry_node *node)
{
    fry_error *root = fry_future_root_error(&node->future);
    for (fry_edge *edge = fry_successors_take_in_order(node), *next; edge != NULL; edge = next) {
        next = edge->next;
        turn->steps++;
        if (edge->nature != FRY_EDGE_ORDER && edge->nature != FRY_EDGE_QUIET)
            fry_graph_note_failure(turn, edge->to, root);
        if (edge->nature == FRY_EDGE_ANY)
            fire_any(turn, fry_graph_last_ready(turn), edge);
        else
            fry_edge_link(edge);
    }
}

static void fire_well(fry_turn *turn, fry_node *node)
{
    for (fry_edge *edge = fry_successors_take_in_order(node), *next; edge != NULL; edge = next) {
        next = edge->next;
        turn->steps++;
        if (edge->nature == FRY_EDGE_ANY)
            fire_any(turn, fry_graph_last_ready(turn), edge);
        else if (edge->nature == FRY_EDGE_ISSUED || fry_edge_carries_failure(edge))
            edge_fire(turn, fry_graph_last_ready(turn), edge);
        else
            fry_edge_link(edge);
    }
}

static void fire_resolved(fry_turn *turn, fry_node *node)
{
    if (fry_future_status(&node->future) != FERRY_OK)
        fire_failed(turn, node);
    else
        fire_well(turn, node);
}

static void fire_quiet(fry_turn *turn, fry_node *node)
{
    for (fry_edge *edge = fry_successors_take_in_order(node), *next; edge != NULL; edge = next) {
        next = edge->next;
        turn->steps++;
        if (edge->nature == FRY_EDGE_QUIET)
            edge_fire(turn, fry_graph_last_ready(turn), edge);
        else
            fry_edge_link(edge);
    }
}

/* Fires all edges of the node, whatever they wait for. The newest first: edge.h. */
static inline void fire_everything(fry_turn *turn, fry_node *node)
{
    fry_link *before = fry_graph_last_ready(turn);
    for (fry_edge *edge = fry_successors_take(node), *next; edge != NULL; edge = next) {
        next = edge->next;
        turn->steps++;
        if (fry_unlikely(edge->nature == FRY_EDGE_ANY))
            fire_any(turn, before, edge);
        else
            edge_fire(turn, before, edge);
    }
}

static inline fry_edge *give_edge(fry_turn *turn, fry_edge *edge)
{
    fry_edge *next = edge->sibling;
    if (edge->state != FRY_EDGE_LOOSE)
        fry_edge_abandon(edge);
    fry_pool_give(&turn->engine->edges, &turn->context->edges, edge);
    return next;
}

/* False: there are more. */
static bool give_edges(fry_turn *turn, fry_node *node)
{
    uint32_t left = RETIRE_STEPS;
    for (; node->edges != NULL && left != 0; left--)
        node->edges = give_edge(turn, node->edges);
    turn->steps += RETIRE_STEPS - left;
    return node->edges == NULL;
}

/* False: there are more. Other buffers are let go with the last use. */
static bool give_spans(fry_turn *turn, fry_node *node, uint32_t *left_p)
{
    bool held = (node->flags & FRY_NODE_HELD_BUFFERS) != 0;
    for (; node->uses != NULL && *left_p != 0; --*left_p) {
        fry_use *use = node->uses;
        node->uses = use->next;
        if (held)
            fry_buffer_unretain(use->buffer);
        fry_pool_give(&turn->engine->uses, &turn->context->uses, use);
    }
    if (fry_unlikely(node->uses != NULL))
        return false;
    node->flags &= (uint16_t)~FRY_NODE_HELD_BUFFERS; /* for a large node, which comes here again */
    if (held)
        fry_node_drop_buffers(node);
    return true;
}

/* Takes the node or join out of the lists. False: there is more. */
static bool leave_lists(fry_turn *turn, fry_node *node)
{
    uint32_t left = RETIRE_STEPS;
    bool is_done;
    if (fry_node_is_join(node)) {
        is_done = fry_hazard_join_leave(turn, node, &left);
        fry_join_give_edges(turn, node);
    } else {
        is_done = ((node->listed == NULL && node->reads == NULL) ||
                   fry_hazard_leave(turn, node, &left)) &&
                  give_spans(turn, node, &left);
    }
    turn->steps += RETIRE_STEPS - left;
    return is_done;
}

/* Drops the life's reference unless a queue still names the node. */
static void drop_life_unless_queued(fry_turn *turn, fry_node *node)
{
    if ((node->flags & (FRY_NODE_QUEUED | FRY_NODE_FAILING)) == 0)
        fry_node_drop_life(turn, node);
}

/* Lets a drain go that is at the head of the live list: nothing is before it. */
static void release_drain(fry_turn *turn)
{
    fry_node *first = TAILQ_FIRST(&turn->engine->live);
    if (first != NULL && first->kind == FERRY_OP_DRAIN && fry_node_holding(first) != 0) {
        fry_node_set_holding(first, 0);
        fry_emit(turn->engine, first, FERRY_TRACE_READY, 0);
        fry_graph_schedule(turn, first);
    }
}

/*
 * The node goes on retiring later, from the ready queue, and holds nobody any more. Only `holding`
 * marks such a node, which has RETIRED already.
 */
static void retire_later(fry_turn *turn, fry_node *node)
{
    fry_node_set_holding(node, 1);
    if (turn->engine->dump_node == node)
        turn->engine->dump_edge = node->edges; /* the dump goes on with the remaining edges */
    fry_graph_schedule(turn, node);
}

/*
 * Takes the node out of the graph; a large one in pieces. Edges that carried a failure, and are
 * still there because their successor stands in the failing queue, have done their part.
 */
static void retire(fry_turn *turn, fry_node *node)
{
    node->flags |= FRY_NODE_RETIRED;
    if (node->successors != NULL)
        fire_everything(turn, node);
    if (((node->flags & FRY_NODE_HAS_SPANS) != 0 && fry_unlikely(!leave_lists(turn, node))) ||
        (node->edges != NULL && (node->edges = give_edge(turn, node->edges)) != NULL &&
         fry_unlikely(!give_edges(turn, node)))) {
        retire_later(turn, node);
        return;
    }
    if ((node->flags & FRY_NODE_LIVE) != 0) {
        fry_live_remove(turn->engine, node);
        release_drain(turn);
    }
    drop_life_unless_queued(turn, node);
}

static void part_has_ended(fry_turn *turn, fry_node *node, bool is_under_way)
{
    if (fry_likely(node->batch->kind == FERRY_OP_BATCH))
        fry_batch_member_ended(turn, node, is_under_way);
    else
        fry_kind(turn->engine, node->batch)->part_ended(turn, node->batch, node, is_under_way);
}

static void part_is_quiet(fry_turn *turn, fry_node *node)
{
    if (fry_likely(node->batch->kind == FERRY_OP_BATCH))
        fry_batch_member_quiet(turn, node);
    else
        fry_kind(turn->engine, node->batch)->part_quiet(turn, node->batch, node);
}

static void become_quiet(fry_turn *turn, fry_node *node)
{
    set_state(turn, node, FRY_NODE_QUIET);
    if (fry_node_has_note(node))
        fry_scope_member_quiet(node);
    if (fry_unlikely(node->batch != NULL))
        part_is_quiet(turn, node);
    if (node->successors != NULL)
        fire_quiet(turn, node);
    if (fry_node_holding(node) == 0)
        retire(turn, node);
}

/* Out of line, like the next, so that what resolves most nodes stays small. */
static __attribute__((noinline)) void count_end(const ferry_engine *engine, const fry_node *node)
{
    fry_tally_resolves(engine->tally, node);
    if (fry_node_has_note(node) && node->note->scope != NULL)
        fry_tally_resolves(node->note->scope->tally, node);
    if (fry_unlikely(node->is_timed))
        fry_tally_counts_latency(engine, node);
}

static __attribute__((noinline)) void resolve_noted(fry_turn *turn, fry_node *node)
{
    fry_completion_record(turn, node);
    fry_scope_member_resolved(turn, node);
}

/* The status of the node's future is set. */
static inline __attribute__((always_inline)) void resolve(fry_turn *turn, fry_node *node,
                                                          bool is_under_way)
{
    if ((node->flags & FRY_NODE_HAS_DEADLINE) != 0)
        fry_deadline_remove(turn->engine, node);
    set_state(turn, node, FRY_NODE_RESOLVED);
    if (fry_unlikely(turn->engine->tally != NULL))
        count_end(turn->engine, node); /* before anybody can see that it has resolved */
    if ((node->flags & FRY_NODE_UNSHARED) != 0 || fry_future_is_sole(&node->future))
        fry_future_seal_unshared(&node->future);
    else
        fry_future_seal(&node->future);
    if (fry_node_has_note(node))
        resolve_noted(turn, node);
    if (fry_unlikely(node->batch != NULL))
        part_has_ended(turn, node, is_under_way);
}

/* A failed node that is made of others is quiet when they are. A promise touches no memory. */
static bool is_unquiet(const fry_edge *edge)
{
    return edge->from->state < FRY_NODE_QUIET && edge->from->kind != FERRY_OP_PROMISE;
}

/* A node that will never start waits for memory order only: drops the other edges that hold it. */
static void drop_data_edges(const fry_op_kind *kind, fry_node *node)
{
    bool sees_quiet = (kind->traits & FRY_KIND_SEES_QUIET) != 0;
    bool is_any =
        fry_node_is_join(node) && node->edges != NULL && node->edges->nature == FRY_EDGE_ANY;
    bool is_counted = (kind->traits & FRY_KIND_UNCOUNTED) == 0 && !is_any;
    for (fry_edge *edge = node->edges; edge != NULL; edge = edge->sibling) {
        if (edge->state == FRY_EDGE_ON_DEVICE) {
            /* The node's stream will not wait now, so the graph does, for memory order. */
            fry_edge_take_from_device(edge);
        }
        if (edge->state == FRY_EDGE_HOLDING && edge->nature == FRY_EDGE_READ) {
            edge->nature = FRY_EDGE_ORDER;
        } else if (edge->state == FRY_EDGE_HOLDING && sees_quiet && is_unquiet(edge)) {
            edge->nature = FRY_EDGE_QUIET;
        } else if (edge->state == FRY_EDGE_HOLDING && edge->nature != FRY_EDGE_ORDER) {
            fry_edge_abandon(edge);
            if (fry_likely(is_counted)) /* else the count may be lower than the number of edges */
                (void)fry_node_unhold(node);
        }
    }
    if (!is_counted)
        fry_node_set_holding(node, 0);
}

/* For a node on its device: it fires in its turn, whatever the nodes that it overtook do. */
static void drop_status_edges(fry_node *node)
{
    for (fry_edge *edge = node->edges; edge != NULL; edge = edge->sibling) {
        if (edge->state != FRY_EDGE_LOOSE)
            fry_edge_abandon(edge);
    }
    node->unconfirmed = 0;
}

void fry_graph_drop_edges(fry_node *node)
{
    drop_status_edges(node);
    node->device_waits = 0;
    fry_node_set_holding(node, 1);
}

/* ---- what a lost device leaves: stuck.c ---- */

/*
 * Called when the node's root error is known. Successors issued to a stream are that stream's
 * matter. A successor made of others is not quiet before they are.
 */
static void pass_on_stuck(fry_turn *turn, const fry_node *node)
{
    if (node->batch != NULL)
        fry_graph_share_stuck(turn, node->batch, node);
    for (const fry_edge *edge = node->successors; edge != NULL; edge = edge->next) {
        bool orders = edge->nature == FRY_EDGE_ORDER || edge->nature == FRY_EDGE_READ;
        bool is_streams = edge->state == FRY_EDGE_ON_DEVICE && fry_node_is_on_stream(edge->to) &&
                          edge->to->state >= FRY_NODE_ISSUED;
        if ((orders && !is_streams) || fry_kind_has(edge->to, FRY_KIND_SEES_QUIET))
            fry_graph_share_stuck(turn, edge->to, node);
    }
}

void fry_graph_stuck(fry_turn *turn, fry_node *node)
{
    node->flags |= FRY_NODE_STUCK;
    if (node->state >= FRY_NODE_RESOLVED) /* else the node passes it on as it fails */
        pass_on_stuck(turn, node);
}

/* ---- failing ---- */

/* Whether the operation may be at work, so that quiet comes later. Asks it to stop. */
static bool is_under_way(const fry_op_kind *kind, fry_node *node)
{
    if (fry_unlikely(kind->has_begun != NULL) && node->state < FRY_NODE_ISSUED)
        return kind->has_begun(node);
    return node->state == FRY_NODE_ISSUED && (node->flags & FRY_NODE_FIRED) == 0 &&
           kind->stop != NULL && kind->stop(node);
}

/*
 * The node's error exists, or is made when somebody asks. A promise's status was set by the claim.
 */
static void fail_as_noted(fry_turn *turn, fry_node *node, ferry_status status)
{
    const fry_op_kind *kind = fry_kind(turn->engine, node);
    bool issued = node->state == FRY_NODE_ISSUED;
    bool under_way = is_under_way(kind, node);
    if (fry_unlikely((node->flags & FRY_NODE_STUCK) != 0))
        pass_on_stuck(turn, node);
    if (issued && (kind->traits & FRY_KIND_STANDS) == 0)
        drop_status_edges(node);
    else
        drop_data_edges(kind, node);
    if ((kind->traits & FRY_KIND_OF_OTHERS) != 0)
        under_way = fry_node_awaits_others(kind, node);
    if (node->kind != FERRY_OP_PROMISE)
        node->future.status = status;
    resolve(turn, node, under_way);
    fire_resolved(turn, node);
    if (kind->failed != NULL)
        kind->failed(turn, node, under_way);
    if (!under_way)
        become_quiet(turn, node);
}

/*
 * Sets the status that a node in the graph fails with, together with the error. The error replaces
 * a cause that was noted before.
 */
void fry_graph_fail(fry_turn *turn, fry_node *node, ferry_status status, fry_error *error,
                    bool caused)
{
    if (node->kind == FERRY_OP_PROMISE && !fry_future_claim(&node->future, status)) {
        fry_error_release(error);
        return;
    }
    fry_future_set_error(&node->future, error, caused);
    fail_as_noted(turn, node, status);
}

void fry_graph_fail_refused(fry_turn *turn, fry_node *node)
{
    fail_as_noted(turn, node, (ferry_status)node->refusal);
}

void fry_graph_promise_ended(fry_turn *turn, fry_node *node)
{
    if (fry_unlikely(turn->engine->tally != NULL))
        count_end(turn->engine, node);
    set_state(turn, node, FRY_NODE_RESOLVED);
    fire_resolved(turn, node);
    become_quiet(turn, node);
}

/* The node succeeds and is quiet at once, as nearly all are: one walk over its successors. */
void fry_graph_complete(fry_turn *turn, fry_node *node)
{
    node->flags |= FRY_NODE_FIRED;
    if (node->state >= FRY_NODE_RESOLVED) {
        become_quiet(turn, node);
        return;
    }
    if (node->unconfirmed != 0 || (node->flags & FRY_NODE_FAILING) != 0)
        return; /* its status edges schedule it; the failing queue fails it */
    node->future.status = FERRY_OK;
    resolve(turn, node, false);
    set_state(turn, node, FRY_NODE_QUIET);
    if (fry_node_has_note(node))
        fry_scope_member_quiet(node);
    fire_everything(turn, node);
    retire(turn, node);
}

static void tell_issued(fry_turn *turn, fry_node *node)
{
    for (fry_edge *edge = fry_successors_take_in_order(node), *next; edge != NULL; edge = next) {
        next = edge->next;
        turn->steps++;
        if (edge->nature == FRY_EDGE_ISSUED) {
            fry_node_flush(node); /* those told can have a device wait for it */
            edge_fire(turn, fry_graph_last_ready(turn), edge);
            continue;
        }
        fry_edge_link(edge);
        if (edge->state == FRY_EDGE_HOLDING && edge->nature <= FRY_EDGE_ORDER &&
            edge->to->state <= FRY_NODE_WAITING &&
            fry_lane_can_overtake(node, edge->to, (fry_edge_nature)edge->nature)) {
            /*
             * Not for a failed successor, which will never stand on a device, and retires in order.
             */
            fry_edge_move_to_device(edge);
            fry_graph_let_go(turn, edge->to, node);
        }
    }
}

void fry_graph_issued(fry_turn *turn, fry_node *node)
{
    set_state(turn, node, FRY_NODE_ISSUED);
    node->flags |= FRY_NODE_WAS_ISSUED;
    if (node->successors != NULL)
        tell_issued(turn, node);
}

void fry_graph_begun(fry_turn *turn, fry_node *node)
{
    set_state(turn, node, FRY_NODE_ISSUED);
}

void fry_graph_lands(fry_turn *turn, fry_node *node, fry_stand stand)
{
    node->op.stand.lane = stand.lane;
    fry_store_release(&node->op.stand.sequence, stand.sequence); /* pairs with event.c */
    node->flags |= FRY_NODE_WAS_ISSUED;
    if (node->successors != NULL)
        tell_issued(turn, node);
}

/* ---- working ---- */

/* Nothing starts after its deadline, however short it is: the loop fails it. */
static bool is_late(fry_turn *turn, const fry_node *node)
{
    if ((node->flags & FRY_NODE_HAS_DEADLINE) == 0 ||
        fry_clock_now_ns(&turn->engine->clock) < node->deadline.when_ns)
        return false;
    turn->wake = true;
    return true;
}

/* A definition or a join stands on devices if what it waits for does. */
static bool stands_on_device(fry_node *node)
{
    if (fry_node_stand(node, 0).lane == NULL)
        return false;
    return fry_node_is_join(node) ? node->unconfirmed != 0 : fry_lane_define(node);
}

/* Starts a node that nothing holds and whose deadline has not passed. */
static inline void start(fry_turn *turn, fry_node *node)
{
    if (fry_likely(node->kind == FERRY_OP_COPY) && node->op.copy.size_bytes != 0) {
        fry_lane_issue(turn, node);
        return;
    }
    const fry_op_kind *kind = fry_kind(turn->engine, node);
    if (kind->start != NULL) {
        kind->start(turn, node);
    } else if (fry_unlikely((kind->traits & FRY_KIND_STANDS) != 0) && stands_on_device(node)) {
        node->flags |= FRY_NODE_FIRED; /* its status edges complete it */
        fry_graph_issued(turn, node);
    } else {
        set_state(turn, node, FRY_NODE_ISSUED); /* completing it fires all successors */
        fry_graph_complete(turn, node);
    }
}

/* Does the next step that the node's state asks for. */
void fry_graph_step(fry_turn *turn, fry_node *node)
{
    node->flags &= (uint16_t)~FRY_NODE_QUEUED;
    if ((node->flags & FRY_NODE_RETIRED) != 0) {
        if (fry_likely(fry_node_holding(node) == 0)) {
            drop_life_unless_queued(turn, node);
        } else {
            fry_node_set_holding(node, 0);
            retire(turn, node);
        }
    } else if (node->state == FRY_NODE_QUIET) {
        if (fry_node_holding(node) == 0)
            retire(turn, node);
    } else if ((node->flags & FRY_NODE_FIRED) != 0) {
        if (node->state == FRY_NODE_ISSUED && (node->flags & FRY_NODE_FAILING) == 0)
            fry_graph_complete(turn, node);
    } else if (node->state <= FRY_NODE_READY && fry_node_holding(node) == 0 &&
               (node->flags & FRY_NODE_FAILING) == 0) {
        fry_store_relaxed(&node->state, FRY_NODE_READY);
        if (fry_likely(!is_late(turn, node)) &&
            !(fry_node_has_note(node) && fry_scope_holds_back(turn, node)))
            start(turn, node);
    } else if (fry_unlikely(fry_kind(turn->engine, node)->go_on != NULL)) {
        fry_kind(turn->engine, node)->go_on(turn, node);
    } else if (node->state == FRY_NODE_RESOLVED && fry_kind_has(node, FRY_KIND_OF_OTHERS)) {
        if (!fry_node_awaits_others(fry_kind(turn->engine, node), node))
            become_quiet(turn, node);
    } else if (node->state == FRY_NODE_ISSUED &&
               fry_unlikely((node->flags & FRY_NODE_STUCK) != 0)) {
        turn->wake = true; /* its predecessors ended well: the loop fails it */
    } else if (fry_node_is_join(node) && fry_join_is_unused(node)) {
        retire(turn, node);
    }
}

void fry_graph_step_failing(fry_turn *turn, fry_node *node)
{
    node->flags &= (uint16_t)~FRY_NODE_FAILING;
    if ((node->flags & FRY_NODE_RETIRED) != 0) {
        drop_life_unless_queued(turn, node);
        return;
    }
    if (fry_unlikely(node->state == FRY_NODE_NEW)) {
        node->flags |= FRY_NODE_FAILING; /* half-way in: it fails once it is in */
        turn->engine->entering.has_failed = true;
        return;
    }
    if (node->state < FRY_NODE_RESOLVED)
        fail_as_noted(turn, node, FERRY_E_DEPENDENCY); /* fry_graph_note_failure */
    else if (fry_unlikely((node->flags & FRY_NODE_STUCK) != 0))
        pass_on_stuck(turn, node);
}
