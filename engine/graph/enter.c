/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arriving: how nodes enter the graph in program order, and how outside events reach them.
 *
 * A large operation enters in pieces (entering.h). Until all of it is in, it is NEW to everything
 * else: it is not in the list of live nodes, and nothing of it has started. A cancel, or a
 * predecessor that fails meanwhile, is noted and fails it as it enters.
 */
#include "engine/graph/enter.h"

#include "engine/engine.h"
#include "engine/graph/access.h"
#include "engine/graph/buffer.h"
#include "engine/graph/deadline.h"
#include "engine/graph/due.h"
#include "engine/graph/edge.h"
#include "engine/graph/emit.h"
#include "engine/graph/entering.h"
#include "engine/graph/graph.h"
#include "engine/graph/hazard.h"
#include "engine/graph/join.h"
#include "engine/graph/kind.h"
#include "engine/graph/lane.h"
#include "engine/graph/live.h"
#include "engine/graph/node.h"
#include "engine/graph/room.h"
#include "engine/graph/scope.h"
#include "engine/graph/stock.h"
#include "engine/graph/tally.h"
#include "engine/graph/turn.h"

static bool are_idle(const fry_copy_op *copy)
{
    return fry_buffer_is_idle(copy->dst) && fry_buffer_is_idle(copy->src);
}

bool fry_graph_copy_at_once(const fry_turn *turn, const fry_lane *lane, const fry_copy_op *copy)
{
    if (turn->engine->stop_graph || !are_idle(copy) || !fry_lane_copy_plain_inline(lane, copy))
        return false;
    if (fry_unlikely(turn->engine->tally != NULL))
        fry_tally_copied(turn->engine, copy->size_bytes);
    return true;
}

/*
 * A small copy that nothing holds leaves nothing in the graph. An untracked one is not held by who
 * uses its bytes.
 */
static bool copy_at_once(fry_turn *turn, fry_node *node)
{
    if (node->kind != FERRY_OP_COPY || node->edges != NULL ||
        (node->flags & FRY_NODE_HAS_DEADLINE) != 0 || fry_node_has_more_uses(node) ||
        node->refusal != FERRY_OK || fry_node_is_rated(node) || turn->engine->stop_graph ||
        !(node->is_untracked || are_idle(&node->op.copy)) || !fry_lane_copy_inline(node))
        return false;
    fry_emit(turn->engine, node, FERRY_TRACE_READY, 0);
    fry_graph_issued(turn, node);
    fry_emit(turn->engine, node, FERRY_TRACE_FIRED, 0);
    fry_graph_complete(turn, node);
    return true;
}

/* ---- edges of after[] ---- */

/* Leads an edge of after[] beyond FRY_DEGREE_MAX to a join. False: there is no room. */
static bool gather(fry_turn *turn, fry_node *node, fry_edge *edge)
{
    static const fry_need need = {.edges = 1, .joins = 1};
    bool has_room =
        fry_stock_fill(turn->engine, turn->context, &need, turn->is_loop, &turn->lack) == FERRY_OK;
    if (!has_room && !turn->is_loop) {
        turn->need = need;
        return false;
    }
    fry_node *to = node;
    if (has_room)
        to = fry_access_gatherer(turn, node, (fry_edge_nature)edge->nature);
    if (to != node) {
        fry_join_adopt(turn, to, edge);
    } else {
        edge->sibling = node->edges;
        node->edges = edge;
        fry_edge_attach(turn, edge);
    }
    return true;
}

#ifdef FRY_PLANT_DROP_EDGE
/* A planted fault: tests/planted builds it and must find it. */
static bool is_dropped(const fry_edge *edge)
{
    static uint32_t planted;
    return edge->nature == FRY_EDGE_AFTER && ++planted % 16 == 0;
}
#else
#define is_dropped(edge) false
#endif

static inline fry_edge *connect(fry_turn *turn, fry_node *node, fry_edge *edge)
{
    fry_node *from = edge->from; /* a join may come between */
    if (!is_dropped(edge))
        fry_edge_attach(turn, edge);
    if ((node->flags & FRY_NODE_HELD_AFTER) != 0)
        ferry_future_release(&from->future);
    return edge->sibling;
}

/* Attaches one piece of edges, from this one on. Returns the next; NULL: none is left. */
static fry_edge *connect_some(fry_turn *turn, fry_node *node, fry_edge *edge, uint32_t *count_p)
{
    uint32_t count = 0;
    for (; edge != NULL && count < FRY_ENTERING_STEPS; count++)
        edge = connect(turn, node, edge);
    *count_p += count;
    return edge;
}

/* Ends the node's own list of edges before `next`. */
static void end_own_edges(fry_node *node, const fry_edge *next)
{
    fry_edge *last = node->edges;
    while (last->sibling != next)
        last = last->sibling;
    last->sibling = NULL;
}

/* The same for edges beyond FRY_DEGREE_MAX. False: there is no room. */
static bool gather_some(fry_turn *turn, fry_entering *in, fry_node *node)
{
    bool held = (node->flags & FRY_NODE_HELD_AFTER) != 0;
    if (!in->gathers) {
        in->gathers = true;
        end_own_edges(node, in->edge);
    }
    for (uint32_t i = 0; in->edge != NULL && i < FRY_ENTERING_STEPS; i++) {
        fry_edge *edge = in->edge, *next = edge->sibling;
        fry_node *from = edge->from;
        if (!gather(turn, node, edge))
            return false;
        in->edge = next;
        in->edge_count++;
        if (held)
            ferry_future_release(&from->future);
    }
    return true;
}

static bool connect_after(fry_turn *turn, fry_entering *in, fry_node *node)
{
    in->stop = FRY_STOP_STEPS;
    in->steps_left = 0;
    if (in->edge_count < FRY_DEGREE_MAX || fry_kind_has(node, FRY_KIND_OF_OTHERS)) {
        in->edge = connect_some(turn, node, in->edge, &in->edge_count);
    } else {
        if (!gather_some(turn, in, node))
            in->stop = FRY_STOP_ROOM;
        fry_stock_return(turn->engine, turn->context);
    }
    if (in->edge == NULL)
        node->flags &= (uint16_t)~FRY_NODE_HELD_AFTER;
    return in->edge == NULL;
}

/* ---- operations ---- */

/*
 * Whether it may stay though nothing holds it: it waits for its stream, for the loop, or to fail.
 */
static inline bool may_stay(const fry_op_kind *kind, const fry_node *node)
{
    return (kind->traits & FRY_KIND_STAYS) != 0 ||
           (node->flags & (FRY_NODE_HAS_DEADLINE | FRY_NODE_FAILING)) != 0;
}

/* Whether nothing holds it, so it may start now. */
static inline bool may_start(const fry_turn *turn, const fry_node *node)
{
    return fry_node_holding(node) == 1 && node->refusal == FERRY_OK && !turn->engine->stop_graph &&
           (node->flags & (FRY_NODE_HAS_DEADLINE | FRY_NODE_FAILING)) == 0 &&
           !fry_node_is_rated(node);
}

/* The whole node is in: it joins the live nodes, and starts if nothing holds it. */
static void enter_end(fry_turn *turn, fry_node *node)
{
    ferry_engine *engine = turn->engine;
    const fry_op_kind *kind = fry_kind(engine, node);
    fry_live_enter(engine, node);
    if (kind->entered != NULL && kind->entered(turn, node, may_start(turn, node)))
        return;
    if ((node->flags & FRY_NODE_HAS_DEADLINE) != 0) {
        fry_deadline_add(engine, node);
        turn->wake |= engine->deadlines.first == &node->deadline;
    }
    if (fry_unlikely(engine->stop_graph))
        fry_node_refuse(node, FERRY_E_SHUTDOWN, NULL, false);
    if (fry_unlikely(node->refusal != FERRY_OK)) {
        (void)fry_node_unhold(node);
        fry_live_stamp(turn, node);
        fry_graph_fail_refused(turn, node);
        return;
    }
    if (fry_unlikely((node->flags & FRY_NODE_SATISFIED) != 0) && node->kind == FERRY_OP_ANY)
        fry_node_set_holding(node, 1);
    if (fry_node_unhold(node) != 0 || may_stay(kind, node))
        fry_live_stamp(turn, node);
    if (fry_node_holding(node) == 0) {
        if ((node->flags & FRY_NODE_FAILING) == 0)
            fry_emit(engine, node, FERRY_TRACE_READY, 0);
        fry_graph_step(turn, node);
    }
}

/*
 * Part of the node is not in yet. Its predecessors may end meanwhile, but the backlog uses its
 * link.
 */
static fry_entry enter_later(fry_turn *turn, fry_entering *in, fry_node *node)
{
    in->node = node;
    node->flags |= FRY_NODE_QUEUED;
    turn->steps += FRY_ENTERING_STEPS - in->steps_left;
    if (in->stop != FRY_STOP_ROOM) {
        turn->need = (fry_need){0};
        return FRY_ARRIVING;
    }
    turn->engine->starved = true;
    return FRY_NO_ROOM;
}

static void entering_ends(fry_turn *turn, fry_entering *in, fry_node *node)
{
    if (fry_unlikely(in->gatherer != NULL))
        fry_join_close(turn, in->gatherer);
    if (fry_unlikely(in->has_failed))
        fry_queue_push(&turn->engine->failing, &node->failing_link);
    in->node = NULL;
    in->gatherer = NULL;
    in->has_failed = in->is_refused = in->is_begun = in->gathers = false;
}

static fry_error *no_room_error(const fry_node *node, ferry_status status)
{
    return fry_node_error(
        node, status,
        status == FERRY_E_AGAIN
            ? "the buffers' access lists have no room for the operation (max_accesses)"
            : "no memory to list the operation's accesses");
}

/* Goes on with a node's edges and accesses. */
static fry_entry enter_some(fry_turn *turn, fry_entering *in, fry_node *node)
{
    in->steps_left = FRY_ENTERING_STEPS;
    node->flags &= (uint16_t)~FRY_NODE_QUEUED;
    if (in->edge != NULL && !connect_after(turn, in, node))
        return enter_later(turn, in, node);
    bool has_accesses = (node->flags & FRY_NODE_HAS_SPANS) != 0 && !in->is_listed;
    if (has_accesses && !in->is_refused && !fry_hazard_enter(turn, node)) {
        if (in->stop != FRY_STOP_REFUSED)
            return enter_later(turn, in, node);
        if (in->status == FERRY_E_AGAIN)
            fry_entry_refused(turn->engine, in->edge_count, &turn->lack);
        fry_node_refuse(node, in->status, no_room_error(node, in->status), false);
        in->is_refused = true;
    }
    if (fry_unlikely(in->is_refused)) {
        if (!fry_hazard_refuse(turn, node))
            return enter_later(turn, in, node);
        if (node->listed == NULL && node->reads == NULL)
            fry_graph_drop_edges(node); /* nobody will be ordered behind it */
    }
    turn->steps += FRY_ENTERING_STEPS - in->steps_left;
    entering_ends(turn, in, node);
    return FRY_ARRIVED;
}

/* The same from the start. */
static inline fry_entry enter_begin(fry_turn *turn, fry_entering *in, fry_node *node)
{
    bool is_listed = (node->flags & FRY_NODE_HAS_SPANS) == 0;
    if (!is_listed) {
        is_listed = fry_unlikely(node->is_untracked) ||
                    (fry_kind_has(node, FRY_KIND_ONE_SPAN) && fry_hazard_enter_alone(turn, node));
        fry_node_hold_buffers(node);
    }
    /* Else it has been counting the nodes that it is made of. */
    if (fry_likely(fry_node_holding(node) == 0))
        fry_node_set_holding(node, 1);
    uint32_t count = 1;
    fry_edge *rest = node->edges;
    if (rest != NULL) {
        rest = connect(turn, node, rest);
        if (rest != NULL)
            rest = connect_some(turn, node, rest, &count);
        if (fry_likely(rest == NULL))
            node->flags &= (uint16_t)~FRY_NODE_HELD_AFTER;
    }
    if (fry_likely(rest == NULL && (is_listed || fry_hazard_enter_at_once(turn, node, count))))
        return FRY_ARRIVED;
    in->edge = rest;
    in->edge_count = count;
    in->is_listed = is_listed;
    if (rest == NULL)
        return enter_some(turn, in, node);
    in->stop = FRY_STOP_STEPS;
    in->steps_left = 0;
    return enter_later(turn, in, node);
}

void fry_graph_enter_part(fry_turn *turn, fry_node *node)
{
    if (fry_unlikely(turn->engine->tally != NULL))
        fry_tally_enters(turn->engine, node);
    fry_node_set_holding(node, 1);
    enter_end(turn, node);
}

/* A new node takes its place in program order. */
static fry_entry enter(fry_turn *turn, fry_node *node)
{
    fry_entering *in = &turn->engine->entering;
    bool is_new = fry_likely(in->node == NULL);
    if (is_new && fry_node_has_note(node))
        fry_scope_enter(node);
    if (is_new && fry_unlikely(turn->engine->tally != NULL))
        fry_tally_enters(turn->engine, node);
    if (is_new && (node->flags & FRY_NODE_HAS_SPANS) != 0 && copy_at_once(turn, node))
        return FRY_ARRIVED;
    const fry_op_kind *kind = fry_kind(turn->engine, node);
    if (is_new && kind->enter != NULL && kind->enter(turn, node))
        return FRY_ARRIVED;
    fry_entry entry = is_new ? enter_begin(turn, in, node) : enter_some(turn, in, node);
    if (fry_likely(entry == FRY_ARRIVED))
        enter_end(turn, node);
    return entry;
}

fry_entry fry_graph_arrive(fry_turn *turn, fry_node *node)
{
    if (fry_likely(node->state == FRY_NODE_NEW))
        return enter(turn, node);
    fry_kind(turn->engine, node)->arrive(turn, node);
    return FRY_ARRIVED;
}
