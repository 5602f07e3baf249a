/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The graph has one writer, the holder of the baton, so nothing here is atomic but the futures.
 *
 * No recursion: whatever one node's end starts goes into a queue (ready, failing) that
 * fry_graph_work works off, so a chain of any length needs the same stack.
 *
 * Two ends of a node. *Resolved*: data edges (AFTER, READ) out of it fire or carry its failure.
 * *Retired*: nothing of it touches memory and nothing it was ordered behind does either; order
 * edges out of it fire. A node cancelled while it waited is resolved and quiet at once, but retires
 * only when its own order edges have fired: a later writer may be ordered behind it alone (entering
 * a write takes the older entries out of the access list), and must still come after those.
 */
#include "engine/edge.h"

/* ---- letting go ---- */

void fry_graph_let_go(fry_turn *turn, fry_node *node, const fry_node *from)
{
    if (--node->holding == 0) {
        if (node->state == FRY_NODE_WAITING && (node->flags & FRY_NODE_FAILING) == 0)
            fry_trace(turn->engine, node, FERRY_TRACE_READY, from->future.id);
        fry_graph_schedule(turn, node);
    }
}

/* Takes the edge out of the graph, with its effect on the successor. */
static void edge_fire(fry_turn *turn, fry_edge *edge)
{
    fry_node *to = edge->to;
    bool was_on_device = edge->state == FRY_EDGE_ON_DEVICE;
    fry_edge_unlink(edge);
    if (!was_on_device)
        fry_graph_let_go(turn, to, edge->from);
    else if (fry_edge_is_counted(edge) && --to->unconfirmed == 0)
        fry_graph_schedule(turn, to);
}

/* ---- states ---- */

/* The one place a node's state moves. */
static void graph_set_state(fry_turn *turn, fry_node *node, fry_node_state state)
{
    static const uint8_t what[] = {
        [FRY_NODE_ISSUED] = FERRY_TRACE_ISSUED,
        [FRY_NODE_RESOLVED] = FERRY_TRACE_RESOLVED,
        [FRY_NODE_QUIET] = FERRY_TRACE_QUIET,
    };
    fry_store_release(&node->state, (uint8_t)state); /* pairs with the look in event.c */
    if (state >= FRY_NODE_ISSUED)
        fry_trace(turn->engine, node, (ferry_trace_what)what[state], 0);
}

void fry_graph_schedule(fry_turn *turn, fry_node *node)
{
    if ((node->flags & FRY_NODE_QUEUED) != 0)
        return;
    node->flags |= FRY_NODE_QUEUED;
    __builtin_prefetch(&node->successors_first, 1); /* its second line; the first is here */
    fry_queue_push(&turn->engine->ready, &node->link);
}

void fry_graph_note_failure(fry_turn *turn, fry_node *node, fry_error *cause)
{
    if (node->state >= FRY_NODE_RESOLVED || (node->flags & FRY_NODE_FAILING) != 0)
        return;
    node->flags |= FRY_NODE_FAILING;
    if (node->future.error == 0)
        fry_future_set_error(&node->future, fry_error_retain(cause), true);
    fry_queue_push(&turn->engine->failing, &node->failing_link);
}

/* ---- the ends of a node ---- */

static void fire_any(fry_turn *turn, fry_edge *edge, bool failed)
{
    fry_node *to = edge->to;
    if (failed)
        fry_graph_note_failure(turn, to, fry_future_root_error(&edge->from->future));
    fry_edge_unlink(edge);
    if (to->holding == 0)
        return;      /* another was first, in the same round */
    to->holding = 1; /* one is enough; the others are dropped when it resolves */
    fry_graph_let_go(turn, to, edge->from);
}

/* Data edges out of a node that has just resolved. */
static void fire_resolved(fry_turn *turn, fry_node *node)
{
    bool failed = fry_future_status(&node->future) != FERRY_OK;
    for (fry_edge *edge = node->successors_first, *next; edge != NULL; edge = next) {
        next = edge->next;
        if (edge->nature == FRY_EDGE_ANY) {
            fire_any(turn, edge, failed);
        } else if (edge->nature == FRY_EDGE_ISSUED) {
            if (failed)
                fry_graph_note_failure(turn, edge->to, fry_future_root_error(&node->future));
            else
                edge_fire(turn, edge);
        } else if (fry_edge_carries_failure(edge)) {
            /* On failure the edge stays: failing its successor drops it or turns it into order. */
            if (failed)
                fry_graph_note_failure(turn, edge->to, fry_future_root_error(&node->future));
            else
                edge_fire(turn, edge);
        }
    }
}

static void fire_nature(fry_turn *turn, fry_node *node, fry_edge_nature nature)
{
    for (fry_edge *edge = node->successors_first, *next; edge != NULL; edge = next) {
        next = edge->next;
        if (edge->nature == nature)
            edge_fire(turn, edge);
    }
}

static void live_remove(ferry_engine *engine, fry_node *node)
{
    bool is_promise = node->kind == FERRY_OP_PROMISE;
    fry_load_add(engine, -1);
    if (fry_unlikely(engine->dump_node == node)) { /* the dump goes on behind it */
        engine->dump_node = node->live_next;
        engine->dump_edge = NULL;
    }
    if (node->live_previous != NULL)
        node->live_previous->live_next = node->live_next;
    else
        *(is_promise ? &engine->promises : &engine->live_first) = node->live_next;
    if (node->live_next != NULL)
        node->live_next->live_previous = node->live_previous;
    else
        *(is_promise ? &engine->promises_last : &engine->live_last) = node->live_previous;
}

static void live_add(ferry_engine *engine, fry_node *node)
{
    bool is_promise = node->kind == FERRY_OP_PROMISE;
    fry_node **last = is_promise ? &engine->promises_last : &engine->live_last;
    node->live_next = NULL;
    node->live_previous = *last;
    if (*last != NULL)
        (*last)->live_next = node;
    else
        *(is_promise ? &engine->promises : &engine->live_first) = node;
    *last = node;
}

/*
 * A look at the clock is a twentieth of what a held operation costs, so while many come in a tick
 * of it only some look: at most FRY_STAMPS_SPARED in a row are spared, and when one finds that the
 * clock has moved they all look again. What a quiet time falls among, with older operations still
 * there, may so seem to be as old as those before it. Where the watchdog is on that must not be,
 * and a user's clock is asked each time.
 */
static void look_at_clock(ferry_engine *engine)
{
    int64_t now_ns = fry_clock_coarse_ns(&engine->clock);
    if (now_ns != engine->stamp_ns || !engine->clock.is_real || engine->watchdog_ns != 0)
        engine->stamps_spared = 0;
    else if (engine->stamps_spared < FRY_STAMPS_SPARED)
        engine->stamps_spared = (uint8_t)(2 * engine->stamps_spared + 1);
    engine->stamps_left = engine->stamps_spared;
    engine->stamp_ns = now_ns != 0 ? now_ns : 1;
}

/*
 * Notes when a node entered that will stay: the dump tells its age, the watchdog watches it. Those
 * that resolve as they enter are spared the price. The first of its list looks at the clock itself,
 * so that it has nothing from those that were there before a quiet time.
 */
static void stamp(fry_turn *turn, fry_node *node)
{
    ferry_engine *engine = turn->engine;
    if (engine->stamps_left == 0 || node->live_previous == NULL)
        look_at_clock(engine);
    else
        engine->stamps_left--;
    node->entered_ns = engine->stamp_ns;
    if (fry_unlikely(engine->watchdog_wants_timer))
        turn->wake = true;
}

static void give_edges(fry_turn *turn, fry_node *node)
{
    fry_edge *edge = node->edges;
    node->edges = NULL;
    while (edge != NULL) {
        fry_edge *next = edge->sibling;
        if (edge->state != FRY_EDGE_LOOSE)
            fry_edge_unlink(edge);
        fry_pool_give(&turn->engine->edges, &turn->context->edges, edge);
        edge = next;
    }
}

static void give_spans(fry_turn *turn, fry_node *node)
{
    bool held = (node->flags & FRY_NODE_HELD_BUFFERS) != 0;
    if (held && node->kind == FERRY_OP_COPY) {
        fry_buffer_unretain(node->op.copy.dst);
        fry_buffer_unretain(node->op.copy.src);
    } else if (held && node->kind == FERRY_OP_DEFINE) {
        fry_buffer_unretain(node->op.define.buffer);
    } else if (held && fry_node_is_message(node)) {
        fry_buffer_unretain(node->op.message.buffer);
    }
    while (node->uses != NULL) {
        fry_use *use = node->uses;
        node->uses = use->next;
        if (held)
            fry_buffer_unretain(use->buffer);
        fry_pool_give(&turn->engine->uses, &turn->context->uses, use);
    }
}

/* The slot goes when no queue names it any more. */
static void drop_life_unless_queued(fry_turn *turn, fry_node *node)
{
    if ((node->flags & (FRY_NODE_QUEUED | FRY_NODE_FAILING)) == 0)
        fry_node_drop_life(turn, node);
}

/* The drain at the head of the live list has nothing before it any more. */
static void release_drain(fry_turn *turn)
{
    fry_node *first = turn->engine->live_first;
    if (first != NULL && first->kind == FERRY_OP_DRAIN && first->holding != 0) {
        first->holding = 0;
        fry_trace(turn->engine, first, FERRY_TRACE_READY, 0);
        fry_graph_schedule(turn, first);
    }
}

/* Out of the graph. Edges that carried a failure are still there if their successor stands in the
 * failing queue; they have done their part. */
static void retire(fry_turn *turn, fry_node *node)
{
    node->flags |= FRY_NODE_RETIRED;
    while (node->successors_first != NULL)
        edge_fire(turn, node->successors_first);
    if ((node->flags & FRY_NODE_HAS_SPANS) != 0) {
        fry_hazard_leave(turn, node);
        give_spans(turn, node);
    }
    if (node->edges != NULL)
        give_edges(turn, node);
    if ((node->flags & FRY_NODE_LIVE) != 0) {
        live_remove(turn->engine, node);
        release_drain(turn);
    }
    drop_life_unless_queued(turn, node);
}

static void become_quiet(fry_turn *turn, fry_node *node)
{
    graph_set_state(turn, node, FRY_NODE_QUIET);
    if (node->successors_first != NULL)
        fire_nature(turn, node, FRY_EDGE_QUIET);
    if (node->holding == 0)
        retire(turn, node);
}

static void resolve_status(fry_turn *turn, fry_node *node, ferry_status status)
{
    bool is_promise = node->kind == FERRY_OP_PROMISE;
    if ((node->flags & FRY_NODE_HAS_DEADLINE) != 0)
        fry_deadline_remove(turn->engine, node);
    if (!is_promise) /* else it was claimed */
        node->future.status = status;
    graph_set_state(turn, node, FRY_NODE_RESOLVED);
    if ((node->flags & FRY_NODE_UNSHARED) != 0 || fry_future_is_sole(&node->future))
        fry_future_seal_unshared(&node->future);
    else
        fry_future_seal(&node->future);
    if (!is_promise && fry_unlikely(node->in_batch != FRY_IN_NO_BATCH))
        fry_batch_member_ended(turn, node);
}

/* A node that will never start waits for memory order only: drops what else holds it. */
static void drop_data_edges(fry_node *node)
{
    for (fry_edge *edge = node->edges; edge != NULL; edge = edge->sibling) {
        if (edge->state == FRY_EDGE_ON_DEVICE) {
            /* Its device will not wait now, so the graph does, for what has to do with memory. */
            fry_edge_take_from_device(edge);
        }
        if (edge->state == FRY_EDGE_HOLDING && edge->nature == FRY_EDGE_READ) {
            edge->nature = FRY_EDGE_ORDER;
        } else if (edge->state == FRY_EDGE_HOLDING && edge->nature != FRY_EDGE_ORDER) {
            fry_edge_unlink(edge);
            node->holding--;
        }
    }
    if (node->kind == FERRY_OP_ANY || node->kind == FERRY_OP_DRAIN)
        node->holding = 0; /* they don't count what holds them */
}

/* On the device already: it fires in its turn, whatever those it overtook do. */
static void drop_status_edges(fry_node *node)
{
    for (fry_edge *edge = node->edges; edge != NULL; edge = edge->sibling) {
        if (edge->state != FRY_EDGE_LOOSE)
            fry_edge_unlink(edge);
    }
    node->unconfirmed = 0;
}

/* True if the node's operation may be at work, so that quiet comes later. */
static bool is_under_way(fry_node *node)
{
    if (node->state != FRY_NODE_ISSUED || (node->flags & FRY_NODE_FIRED) != 0)
        return false;
    if (node->kind == FERRY_OP_CALL) {
        uint8_t not_begun = FRY_CALL_NOT_BEGUN;
        return !fry_cas(&node->begun, &not_begun, FRY_CALL_NEVER);
    }
    return node->kind == FERRY_OP_COPY || node->kind == FERRY_OP_EVENT || fry_node_is_message(node);
}

void fry_graph_fail(fry_turn *turn, fry_node *node, ferry_status status, fry_error *error,
                    bool caused)
{
    if (node->kind == FERRY_OP_PROMISE && !fry_future_claim(&node->future, status)) {
        fry_error_release(error);
        return;
    }
    if (error != NULL)
        fry_future_set_error(&node->future, error, caused);
    bool issued = node->state == FRY_NODE_ISSUED;
    bool under_way = is_under_way(node);
    if (under_way && node->kind == FERRY_OP_COPY)
        fry_lane_cancel(node);
    if (issued && node->kind != FERRY_OP_DEFINE) /* which is nothing that would fire */
        drop_status_edges(node);
    else
        drop_data_edges(node);
    resolve_status(turn, node, status);
    fire_resolved(turn, node);
    if (fry_unlikely(fry_node_is_message(node)))
        fry_message_failed(turn, node, under_way); /* under way it may be gone after this */
    if (!under_way)
        become_quiet(turn, node);
}

/* ---- what a lost device leaves ---- */

/*
 * Order edges wait until memory is let go of, which is never then. A writer behind such an edge
 * would wait for ever, so it fails, with the same root; and as it never retires, what is ordered
 * behind it in turn. The failing queue goes from one to the next. Each is still held, out of sight
 * of its user: should the device go on after all, they retire in order.
 */
void fry_graph_share_stuck(fry_turn *turn, fry_node *node, const fry_node *from)
{
    if (node->is_stuck)
        return;
    node->is_stuck = true;
    fry_error *root = fry_future_root_error(&from->future);
    if (root->public_.status != FERRY_E_DEVICE && turn->engine->loss != NULL)
        root = turn->engine->loss; /* that one had failed before, which is not why */
    fry_graph_note_failure(turn, node, root);
    if ((node->flags & FRY_NODE_FAILING) == 0) { /* it has failed before: only to pass it on */
        node->flags |= FRY_NODE_FAILING;
        fry_queue_push(&turn->engine->failing, &node->failing_link);
    }
}

/* Its root error is known by now. What was issued is its stream's matter. */
static void pass_on_stuck(fry_turn *turn, const fry_node *node)
{
    for (const fry_edge *edge = node->successors_first; edge != NULL; edge = edge->next) {
        bool orders = edge->nature == FRY_EDGE_ORDER || edge->nature == FRY_EDGE_READ;
        bool is_streams = edge->state == FRY_EDGE_ON_DEVICE && edge->to->kind == FERRY_OP_COPY &&
                          edge->to->state >= FRY_NODE_ISSUED;
        if (orders && !is_streams)
            fry_graph_share_stuck(turn, edge->to, node);
    }
}

void fry_graph_stuck(fry_turn *turn, fry_node *node)
{
    node->is_stuck = true;
    if (node->state >= FRY_NODE_RESOLVED) /* else it passes it on as it fails */
        pass_on_stuck(turn, node);
}

/* Resolved well and quiet at once, as nearly all nodes are: every edge out of it fires, whatever it
 * waits for, so the list is taken whole and walked once. */
static void fire_everything(fry_turn *turn, fry_node *node)
{
    fry_edge *edge = node->successors_first;
    node->successors_first = node->successors_last = NULL;
    while (edge != NULL) {
        fry_edge *next = edge->next;
        fry_node *to = edge->to;
        bool was_on_device = edge->state == FRY_EDGE_ON_DEVICE;
        edge->state = FRY_EDGE_LOOSE;
        if (fry_unlikely(edge->nature == FRY_EDGE_ANY && to->holding != 1)) {
            if (to->holding == 0) { /* another was first, in the same round */
                edge = next;
                continue;
            }
            to->holding = 1; /* one is enough; the others are dropped when it retires */
        }
        if (fry_likely(!was_on_device))
            fry_graph_let_go(turn, to, node);
        else if (fry_edge_is_counted(edge) && --to->unconfirmed == 0)
            fry_graph_schedule(turn, to);
        edge = next;
    }
}

void fry_graph_complete(fry_turn *turn, fry_node *node)
{
    node->flags |= FRY_NODE_FIRED;
    if (node->state >= FRY_NODE_RESOLVED) {
        become_quiet(turn, node);
        return;
    }
    if (node->unconfirmed != 0 || (node->flags & FRY_NODE_FAILING) != 0)
        return; /* its status edges schedule it; the failing queue fails it */
    resolve_status(turn, node, FERRY_OK);
    graph_set_state(turn, node, FRY_NODE_QUIET);
    fire_everything(turn, node);
    retire(turn, node);
}

void fry_graph_flush(const fry_node *node)
{
    bool is_on_device = node->kind == FERRY_OP_COPY || node->kind == FERRY_OP_EVENT;
    if (is_on_device && node->lane != NULL)
        fry_lane_flush(node->lane);
}

void fry_graph_issued(fry_turn *turn, fry_node *node)
{
    graph_set_state(turn, node, FRY_NODE_ISSUED);
    node->flags |= FRY_NODE_WAS_ISSUED;
    for (fry_edge *edge = node->successors_first, *next; edge != NULL; edge = next) {
        next = edge->next;
        if (edge->nature == FRY_EDGE_ISSUED) {
            fry_graph_flush(node); /* who hears of it can have a device wait for it */
            edge_fire(turn, edge);
        } else if (edge->state == FRY_EDGE_HOLDING && edge->nature <= FRY_EDGE_ORDER &&
                   edge->to->state == FRY_NODE_WAITING &&
                   fry_lane_can_overtake(node, edge->to, (fry_edge_nature)edge->nature)) {
            /* Not one that has failed: it will never stand on a device, and retires in order. */
            fry_edge_move_to_device(edge);
            fry_graph_let_go(turn, edge->to, node);
        }
    }
}

/* ---- arriving and working ---- */

static void connect_after(fry_turn *turn, fry_node *node)
{
    bool held = (node->flags & FRY_NODE_HELD_AFTER) != 0;
    for (fry_edge *edge = node->edges; edge != NULL; edge = edge->sibling) {
#ifdef FRY_PLANT_DROP_EDGE
        /* A fault put there on purpose: tests/planted builds it and must see it. */
        static uint32_t planted;
        if (edge->nature != FRY_EDGE_AFTER || ++planted % 16 != 0)
#endif
            fry_edge_attach(turn, edge);
        if (held)
            ferry_future_release(&edge->from->future);
    }
    node->flags &= (uint16_t)~FRY_NODE_HELD_AFTER;
}

/* Something happened outside to a node of the graph: a promise was resolved, a function returned.
 */
static void arrive_again(fry_turn *turn, fry_node *node)
{
    if (node->kind == FERRY_OP_PROMISE) {
        graph_set_state(turn, node, FRY_NODE_RESOLVED);
        fire_resolved(turn, node);
        become_quiet(turn, node);
    } else if (node->state < FRY_NODE_RESOLVED && node->refusal != FERRY_OK) {
        node->flags |= FRY_NODE_FIRED;
        fry_graph_fail(turn, node, (ferry_status)node->refusal, node->op.call.error, false);
    } else {
        if (node->refusal != FERRY_OK)
            fry_error_release(node->op.call.error); /* it failed after it was cancelled */
        fry_graph_complete(turn, node);
    }
}

static void enter_promise(fry_turn *turn, fry_node *node)
{
    live_add(turn->engine, node);
    fry_load_add(turn->engine, 1);
    if (fry_unlikely((node->flags & FRY_NODE_RESERVE) != 0))
        fry_writable_enters(turn->engine);
    node->flags |= FRY_NODE_LIVE;
    fry_store_relaxed(&node->state, FRY_NODE_WAITING);
    stamp(turn, node);
    uint8_t entering = FRY_OUTSIDE_ENTERING;
    bool entered = fry_cas(&node->outside, &entering, FRY_OUTSIDE_ENTERED);
    if (entered && node->refusal != FERRY_OK) {
        fry_graph_fail(turn, node, (ferry_status)node->refusal, node->op.promise.refusal_error,
                       false);
        return;
    }
    if (node->refusal != FERRY_OK)
        fry_error_release(node->op.promise.refusal_error);
    if (!entered)
        arrive_again(turn, node); /* resolved before it came here */
    else if (turn->engine->stop_graph)
        fry_graph_fail(turn, node, FERRY_E_SHUTDOWN, NULL, false);
}

/* Nobody else touches its buffers. */
static bool may_copy_at_once(const fry_turn *turn, const fry_copy_op *copy)
{
    return !turn->engine->stop_graph && fry_buffer_is_idle(copy->dst) &&
           fry_buffer_is_idle(copy->src);
}

bool fry_graph_copy_at_once(const fry_turn *turn, const fry_lane *lane, const fry_copy_op *copy)
{
    return may_copy_at_once(turn, copy) && fry_lane_copy_plain_inline(lane, copy);
}

/* A small copy that nothing holds leaves no trace in the graph. */
static bool copy_at_once(fry_turn *turn, fry_node *node)
{
    if (node->kind != FERRY_OP_COPY || node->edges != NULL ||
        (node->flags & (FRY_NODE_HAS_DEADLINE | FRY_NODE_HAS_SPANS)) != FRY_NODE_HAS_SPANS ||
        fry_node_has_more_uses(node) || node->refusal != FERRY_OK ||
        !may_copy_at_once(turn, &node->op.copy) || !fry_lane_copy_inline(node))
        return false;
    fry_trace(turn->engine, node, FERRY_TRACE_READY, 0);
    fry_graph_issued(turn, node);
    fry_trace(turn->engine, node, FERRY_TRACE_FIRED, 0);
    fry_graph_complete(turn, node);
    return true;
}

/* Room in the access lists; without any, the node is refused and what it would have written is
 * poisoned. False: only the loop may take memory from the system. */
static bool reserve_spans(fry_turn *turn, fry_node *node, bool *has_room_p)
{
    ferry_status status = fry_hazard_reserve(turn, node);
    *has_room_p = status == FERRY_OK;
    if (status == FERRY_OK)
        return true;
    if (!turn->is_loop) {
        turn->engine->starved = true;
        return false;
    }
    if (status == FERRY_E_AGAIN)
        fry_entry_refused(turn->engine, &turn->need, &turn->lack);
    fry_hazard_poison_wide(node, status);
    node->refusal = (int16_t)status;
    return true;
}

/* Though nothing holds it: it may wait for its stream, for the loop, or for its turn to fail. */
static bool may_stay(const fry_node *node)
{
    return node->kind == FERRY_OP_COPY || node->kind == FERRY_OP_CALL ||
           fry_node_is_message(node) ||
           (node->flags & (FRY_NODE_HAS_DEADLINE | FRY_NODE_FAILING)) != 0;
}

/* It stands in its stream whatever becomes of its future: somebody else's work is there, and the
 * device will write down when that is done. */
static void enter_event(fry_turn *turn, fry_node *node)
{
    stamp(turn, node);
    fry_lane_enter_event(turn, node);
    if (fry_unlikely(turn->engine->stop_graph && node->refusal == FERRY_OK))
        node->refusal = FERRY_E_SHUTDOWN;
    if (fry_unlikely(node->refusal != FERRY_OK))
        fry_graph_fail(turn, node, (ferry_status)node->refusal, NULL, false);
}

/* Nothing holds the message, and nothing but its peer can keep it from starting. */
static inline bool may_start(const fry_turn *turn, const fry_node *node)
{
    return node->holding == 1 && node->refusal == FERRY_OK && !turn->engine->stop_graph &&
           (node->flags & (FRY_NODE_HAS_DEADLINE | FRY_NODE_FAILING)) == 0;
}

static void start_message(fry_turn *turn, fry_node *node)
{
    node->holding = 0;
    stamp(turn, node);
    fry_trace(turn->engine, node, FERRY_TRACE_READY, 0);
    if (fry_unlikely(!fry_message_start(turn, node)))
        fry_graph_fail(turn, node, (ferry_status)node->refusal, NULL, false);
}

/* A new node takes its place in program order. */
static bool enter(fry_turn *turn, fry_node *node)
{
    ferry_engine *engine = turn->engine;
    bool has_room = false;
    if ((node->flags & FRY_NODE_HAS_SPANS) != 0) {
        if (copy_at_once(turn, node))
            return true;
        bool is_listed = fry_node_is_message(node) && fry_hazard_enter_alone(turn, node);
        if (!is_listed && !reserve_spans(turn, node, &has_room))
            return false;
        fry_node_hold_buffers(node);
    }
    bool is_first = engine->live_first == NULL;
    live_add(engine, node);
    fry_load_add(engine, 1);
    node->flags |= FRY_NODE_LIVE;
    fry_store_relaxed(&node->state, FRY_NODE_WAITING);
    if (fry_unlikely(node->kind == FERRY_OP_EVENT) && node->lane != NULL) {
        enter_event(turn, node);
        return true;
    }
    if (fry_unlikely(node->kind == FERRY_OP_BATCH))
        fry_batch_enter(node);
    else
        node->holding = 1;
    if (node->edges != NULL)
        connect_after(turn, node);
    if (has_room)
        fry_hazard_enter(turn, node);
    if (fry_node_is_message(node)) {
        if (may_start(turn, node)) {
            start_message(turn, node);
            return true;
        }
        fry_message_enter(turn, node);
    }
    if ((node->flags & FRY_NODE_HAS_DEADLINE) != 0) {
        fry_deadline_add(engine, node);
        turn->wake |= engine->deadlines == node;
    }
    if (fry_unlikely(engine->stop_graph && node->refusal == FERRY_OK))
        node->refusal = FERRY_E_SHUTDOWN;
    if (fry_unlikely(node->refusal != FERRY_OK)) {
        node->holding--;
        stamp(turn, node);
        fry_graph_fail(turn, node, (ferry_status)node->refusal, NULL, false);
        return true;
    }
    if (node->kind == FERRY_OP_DRAIN && !is_first) {
        stamp(turn, node);
        return true; /* release_drain lets it go */
    }
    if ((node->flags & FRY_NODE_SATISFIED) != 0)
        node->holding = 1;
    if (--node->holding != 0 || may_stay(node))
        stamp(turn, node);
    if (node->holding == 0) {
        if ((node->flags & FRY_NODE_FAILING) == 0)
            fry_trace(engine, node, FERRY_TRACE_READY, 0);
        fry_graph_step(turn, node);
    }
    return true;
}

bool fry_graph_arrive(fry_turn *turn, fry_node *node)
{
    if (node->state != FRY_NODE_NEW)
        arrive_again(turn, node);
    else if (node->kind == FERRY_OP_PROMISE)
        enter_promise(turn, node);
    else
        return enter(turn, node);
    return true;
}

/* Nothing starts after its deadline, however soon it could be done: the loop fails it. */
static bool is_late(fry_turn *turn, const fry_node *node)
{
    if ((node->flags & FRY_NODE_HAS_DEADLINE) == 0 ||
        fry_clock_now_ns(&turn->engine->clock) < node->deadline_ns)
        return false;
    turn->wake = true;
    return true;
}

/* Whatever the node's state says is next. */
void fry_graph_step(fry_turn *turn, fry_node *node)
{
    node->flags &= (uint16_t)~FRY_NODE_QUEUED;
    if ((node->flags & FRY_NODE_RETIRED) != 0) {
        drop_life_unless_queued(turn, node);
    } else if (node->state == FRY_NODE_QUIET) {
        if (node->holding == 0)
            retire(turn, node);
    } else if ((node->flags & FRY_NODE_FIRED) != 0) {
        if (node->state == FRY_NODE_ISSUED && (node->flags & FRY_NODE_FAILING) == 0)
            fry_graph_complete(turn, node);
    } else if (node->state <= FRY_NODE_READY && node->holding == 0 &&
               (node->flags & FRY_NODE_FAILING) == 0) {
        fry_store_relaxed(&node->state, FRY_NODE_READY);
        if (fry_unlikely(is_late(turn, node)))
            return;
        if (node->kind == FERRY_OP_COPY && node->op.copy.size_bytes != 0) {
            fry_lane_issue(turn, node);
        } else if (fry_node_is_message(node)) {
            fry_message_issue(turn, node);
        } else if (node->kind == FERRY_OP_CALL) {
            node->flags |= FRY_NODE_QUEUED;
            fry_ready_queue_push(&turn->engine->calls, &node->link, fry_node_priority(node));
            turn->wake = true;
        } else if (node->kind == FERRY_OP_DEFINE && node->lane != NULL && fry_lane_define(node)) {
            node->flags |= FRY_NODE_FIRED; /* its status edges complete it */
            fry_graph_issued(turn, node);
        } else {
            graph_set_state(turn, node,
                            FRY_NODE_ISSUED); /* completing fires whatever waits for it */
            fry_graph_complete(turn, node);
        }
    } else if (node->state == FRY_NODE_ISSUED && fry_unlikely(node->is_stuck)) {
        turn->wake = true; /* what it depends on is well: its own device fails it, on the loop */
    }
}

static void step_failing(fry_turn *turn, fry_node *node)
{
    node->flags &= (uint16_t)~FRY_NODE_FAILING;
    if ((node->flags & FRY_NODE_RETIRED) != 0) {
        drop_life_unless_queued(turn, node);
        return;
    }
    if (fry_unlikely(node->is_stuck))
        pass_on_stuck(turn, node);
    if (node->state < FRY_NODE_RESOLVED)
        fry_graph_fail(turn, node, FERRY_E_DEPENDENCY, NULL, true);
}

/* The one that comes after this: by its turn its edge and successor are here. */
static void prefetch_successor(fry_link *item)
{
    if (item != NULL)
        __builtin_prefetch(FRY_CONTAINER(item, fry_node, link)->successors_first, 1);
}

size_t fry_graph_work(fry_turn *turn, size_t budget)
{
    ferry_engine *engine = turn->engine;
    size_t done = 0;
    for (; done < budget; done++) {
        fry_link *item;
        if ((item = fry_queue_pop(&engine->failing)) != NULL) {
            step_failing(turn, FRY_CONTAINER(item, fry_node, failing_link));
        } else if ((item = fry_queue_pop(&engine->ready)) != NULL) {
            prefetch_successor(engine->ready.first);
            fry_graph_step(turn, FRY_CONTAINER(item, fry_node, link));
        } else if ((item = engine->backlog.first) != NULL) {
            fry_link *next = item->next; /* arriving may queue it elsewhere */
            engine->backlog.first = next;
            if (!fry_graph_arrive(turn, FRY_CONTAINER(item, fry_node, link))) {
                engine->backlog.first = item;
                turn->wake = true;
                break;
            }
        } else if (!fry_stack_is_empty(&engine->inbox)) {
            fry_queue_append(&engine->backlog, fry_stack_take_all(&engine->inbox));
        } else {
            break;
        }
    }
    return done;
}
