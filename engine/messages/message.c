/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages: sends and receives as operations of the graph, over peers (net/peer/peer.h).
 *
 * A node takes its place among those of its tag as it enters, so in program order, and is ready
 * when nothing holds it: then its memory may be touched. It resolves with FERRY_OK when the peer
 * has reported success and is done with it. It fails when the peer reports a failure, or when the
 * graph fails it, and then the other end is told the root.
 *
 * The peer keeps a message in a slot of its own (fry_transfer), because it may need the message
 * after the node is gone. A node that failed before it was ready is quiet at once, since nobody
 * touched its memory, but the other end has yet to be told. A node that was ready is quiet when the
 * peer is done with it, or with its memory.
 *
 * Errors take memory, so a thread that is not the loop leaves a failure that a peer reports to the
 * loop, with the fault in the slot (members->faulted).
 */
#include "engine/messages/message.h"
#include "engine/messages/membership.h"

#include "engine/engine.h"
#include "engine/graph/due.h"
#include "engine/graph/emit.h"
#include "engine/graph/graph.h"
#include "engine/graph/kind.h"
#include "engine/graph/live.h"
#include "engine/graph/node.h"
#include "engine/graph/turn.h"
#include "engine/graph/use.h"
#include "engine/ground/context.h"
#include "engine/ground/refusal.h"
#include "engine/messages/ahead.h"
#include "engine/messages/grant.h"
#include "engine/messages/groups.h"
#include "engine/messages/hidden.h"
#include "engine/messages/launch.h"
#include "engine/messages/members.h"
#include "engine/messages/neighbour.h"
#include "engine/messages/notices.h"
#include "engine/messages/pairing.h"
#include "engine/messages/route.h"
#include "engine/messages/stage.h"
#include "engine/messages/transfer.h"
#include "engine/messages/window.h"
#include "net/peer/send.h"

#include <stdio.h>

#define NAME_BYTES 40
#define STAGE_ROUNDS 4 /* of steps at the end of a turn; then it is the loop's turn */

/* ---- slots ---- */

static void give_notice(ferry_engine *engine, fry_context *context, const fry_transfer *transfer)
{
    if (transfer->message.memory != NULL)
        fry_pool_give(&engine->notices, &context->notices, transfer->message.memory);
}

static void let_go(fry_turn *turn, fry_transfer *transfer)
{
    if (transfer->window != NULL)
        fry_window_is_used_no_more(turn, transfer);
    if (transfer->message.is_notice)
        give_notice(turn->engine, turn->context, transfer);
}

static void give(fry_turn *turn, fry_transfer *transfer)
{
    if (fry_unlikely(transfer->message.is_apart))
        let_go(turn, transfer);
    fry_pool_give(&turn->engine->transfers, &turn->context->transfers, transfer);
}

/* Separates the node and its slot. */
static void part(fry_transfer *transfer)
{
    transfer->node->op.message.transfer = NULL;
    transfer->node = NULL;
}

/* ---- faults ---- */

/* It waits for a message of any member. */
static bool is_open(const fry_node *node)
{
    return node->op.message.rank == FRY_MESSAGE_RANK_ANY && node->op.message.met.came == 0;
}

/*
 * Describes the root of the node's failure for the other end. What failed here because of that end
 * (its GPU, or what joins the two) is about this member there.
 */
static void describe(const fry_node *node, const fry_route *route, fry_fault *fault)
{
    *fault = fry_error_fault(fry_future_root_error(&node->future));
    if (fault->op == 0)
        fault->op = node->future.id;
    if (fault->op == node->future.id && fault->rank == (int32_t)route->rank &&
        fry_future_status(&node->future) != FERRY_E_DEPENDENCY)
        fault->rank = -1;
}

/* "send with member 3", for errors. */
static void name(const fry_node *node, const fry_route *route, char text[NAME_BYTES])
{
    ferry_op_kind kind = (ferry_op_kind)fry_node_shown_kind(node);
    const char *what = kind == FERRY_OP_RECV ? "receive" : ferry_op_kind_name(kind);
    if (is_open(node))
        (void)snprintf(text, NAME_BYTES, "%s of any member", what);
    else
        (void)snprintf(text, NAME_BYTES, "%s with member %u", what, route->rank);
}

/* On the loop: fails the node as the peer reported. */
static void fail_by_fault(fry_turn *turn, fry_node *node, const fry_route *route,
                          ferry_status status, const fry_fault *fault)
{
    ferry_engine *engine = turn->engine;
    bool is_cause = status == FERRY_E_DEPENDENCY;
    char what[NAME_BYTES];
    fry_fault own = *fault;
    if (own.rank < 0 && !is_open(node))
        own.rank = (int32_t)route->rank;
    if (!is_cause) {
        own.status = status;
        own.op = node->future.id;
        own.label = fry_node_label(node);
    }
    const char *text = fault->message[0] != '\0' ? fault->message : ferry_status_text(own.status);
    if (engine->flight_records != 0)
        engine->flight_due = node->future.id;
    name(node, route, what);
    fry_error *error = fry_error_create(&engine->memory, &own, NULL, "%s: %s", what, text);
    fry_graph_fail(turn, node, status, error, is_cause);
}

size_t fry_transfers_fail(fry_turn *turn, fry_members *members)
{
    size_t done = 0;
    fry_link *item;
    while ((item = fry_queue_pop(&members->faulted)) != NULL) {
        fry_transfer *transfer = FRY_CONTAINER(item, fry_transfer, link);
        fry_node *node = transfer->node;
        transfer->flags &= (uint8_t)~FRY_TRANSFER_FAULTED;
        bool is_quiet = (transfer->flags & FRY_TRANSFER_QUIET) != 0;
        bool is_untouched =
            is_quiet || ((transfer->flags & FRY_TRANSFER_UNTOUCHED) != 0 && transfer->copies == 0);
        if (node != NULL && is_untouched) {
            part(transfer);
            if (node->state == FRY_NODE_ISSUED)
                node->flags |= FRY_NODE_FIRED; /* nobody touches its memory */
        }
        if (node != NULL && node->state < FRY_NODE_RESOLVED)
            fail_by_fault(turn, node, transfer->route, (ferry_status)transfer->status,
                          &transfer->fault);
        else if (node != NULL && is_untouched)
            fry_graph_complete(turn, node);
        if (is_quiet)
            give(turn, transfer);
        done++;
    }
    return done;
}

/* ---- what peers tell ---- */

static void add(uint64_t *sum, size_t size_bytes)
{
    fry_store_relaxed(sum, *sum + size_bytes); /* read by ferry_group_member */
}

/* A message of GPU memory has ended well. */
static void note_way(const fry_transfer *transfer)
{
    const fry_message *message = &transfer->message;
    fry_route *route = transfer->route;
    ferry_gpu_way way = message->was_joint    ? FERRY_GPU_WAY_NCCL
                        : message->was_viewed ? FERRY_GPU_WAY_IPC
                                              : FERRY_GPU_WAY_STAGING;
    add(way == FERRY_GPU_WAY_NCCL  ? &route->nccl_bytes
        : way == FERRY_GPU_WAY_IPC ? &route->ipc_bytes
                                   : &route->staged_bytes,
        message->size_bytes);
    if (transfer->node != NULL)
        transfer->node->way = way & 3;
}

static void message_resolved(void *arg, fry_message *message, ferry_status status,
                             const fry_fault *fault)
{
    fry_turn *turn = arg;
    fry_transfer *transfer = (fry_transfer *)(void *)message;
    fry_node *node = transfer->node;
    transfer->flags |= FRY_TRANSFER_RESOLVED;
    if (status == FERRY_OK && message->is_staged)
        note_way(transfer);
    if (status == FERRY_OK || node == NULL || node->state >= FRY_NODE_RESOLVED)
        return; /* a success completes when it is quiet, usually at once */
    if (turn->is_loop) {
        fail_by_fault(turn, node, transfer->route, status, fault);
        return;
    }
    transfer->status = status;
    transfer->fault = *fault;
    transfer->flags |= FRY_TRANSFER_FAULTED;
    fry_queue_push(&transfer->route->group->members->faulted, &transfer->link);
    turn->wake = true;
}

/* The receive's copies are over, so its offset is not needed any more. */
static void set_flow(fry_node *node, uint64_t sent_op)
{
    if (fry_load_relaxed(&node->outside) == FRY_OUTSIDE_FLOWS || sent_op == 0)
        return; /* 0: it was read where it is, which nobody else took part in */
    node->op.message.offset = sent_op & FRY_FLOW_OP_MASK;
    fry_store_release(&node->outside, FRY_OUTSIDE_FLOWS); /* pairs with moved_bytes */
}

/* Its copies are over. */
static void let_go_of_chunks(fry_turn *turn, fry_transfer *transfer)
{
    if ((transfer->flags & FRY_TRANSFER_STAGES) != 0)
        fry_stage_forget(turn, transfer);
    fry_ahead_drop(turn, transfer);
}

static void message_quiet(void *arg, fry_message *message)
{
    fry_turn *turn = arg;
    fry_transfer *transfer = (fry_transfer *)(void *)message;
    fry_node *node = transfer->node;
    if (fry_unlikely(transfer->copies != 0)) { /* the last one calls this again */
        transfer->flags |= FRY_TRANSFER_ENDS;
        return;
    }
    if (fry_unlikely(message->is_staged))
        let_go_of_chunks(turn, transfer);
    transfer->flags |= FRY_TRANSFER_QUIET;
    if (node != NULL && !message->is_send)
        set_flow(node, message->other_op);
    fry_route_closed(turn, transfer->route);
    if ((transfer->flags & FRY_TRANSFER_FAULTED) != 0)
        return; /* the loop has yet to fail the node */
    if (node != NULL)
        part(transfer);
    give(turn, transfer);
    if (node == NULL)
        return;
    fry_emit(turn->engine, node, FERRY_TRACE_FIRED, 0);
    fry_graph_complete(turn, node);
}

/* The peer keeps the slot after this. */
static void message_untouched(void *arg, fry_message *message)
{
    fry_turn *turn = arg;
    fry_transfer *transfer = (fry_transfer *)(void *)message;
    fry_node *node = transfer->node;
    transfer->flags |= FRY_TRANSFER_UNTOUCHED;
    if ((transfer->flags & FRY_TRANSFER_FAULTED) != 0 || transfer->copies != 0)
        return; /* the loop has yet to fail the node; the last copy calls this again */
    if (message->is_staged)
        fry_ahead_drop(turn, transfer);
    if (node == NULL)
        return;
    part(transfer);
    fry_emit(turn->engine, node, FERRY_TRACE_FIRED, 0);
    fry_graph_complete(turn, node);
}

/* Resolved with success and quiet at once. */
static void message_done(void *arg, fry_message *message)
{
    fry_turn *turn = arg;
    fry_transfer *transfer = (fry_transfer *)(void *)message;
    fry_route *route = transfer->route;
    fry_node *node = transfer->node;
    if (fry_unlikely(message->is_staged))
        note_way(transfer);
    if (fry_unlikely(transfer->copies != 0)) {
        transfer->flags |= FRY_TRANSFER_RESOLVED | FRY_TRANSFER_ENDS;
        return;
    }
    if (fry_unlikely(message->is_staged))
        let_go_of_chunks(turn, transfer);
    if (node != NULL && !message->is_send)
        set_flow(node, message->other_op);
    fry_route_closed(turn, route);
    give(turn, transfer);
    if (fry_unlikely(node == NULL))
        return;
    node->op.message.transfer = NULL;
    fry_emit(turn->engine, node, FERRY_TRACE_FIRED, 0);
    fry_graph_complete(turn, node);
}

/* It has been one of its own member's route so far, if it named none. */
static void message_met(void *arg, fry_message *message, fry_peer *peer, uint64_t size_bytes)
{
    fry_turn *turn = arg;
    fry_transfer *transfer = (fry_transfer *)(void *)message;
    fry_route *route = fry_peer_arg(peer), *home = transfer->route;
    fry_message_op *op =
        &transfer->node->op.message; /* it has not failed, or it would wait no more */
    fry_route_opened(route);
    transfer->route = route;
    fry_route_closed(turn, home);
    op->tag = message->tag;
    op->met = (fry_message_met){.came = size_bytes + 1, .rank = route->rank};
}

const fry_peer_events fry_transfer_events = {
    .resolved = message_resolved,
    .quiet = message_quiet,
    .untouched = message_untouched,
    .done = message_done,
    .wants_connection = fry_route_wants_connection,
    .connection_failed = fry_route_connection_failed,
    .parted = fry_route_parted,
    .met = message_met,
    .left = fry_stage_left,
    .serve = fry_stage_serve,
    .wants_place = fry_stage_wants_place,
    .landed = fry_stage_landed,
    .over = fry_stage_over,
    .show = fry_neighbour_show,
    .shown = fry_neighbour_shown,
    .hide = fry_neighbour_hide,
    .hidden = fry_hidden_is_closed,
    .wants_pair = fry_pairing_wanted,
    .pair_heard = fry_pairing_heard,
    .admit = fry_pairing_admit,
    .dismiss = fry_pairing_dismiss,
    .hold = fry_launch_hold,
    .release = fry_launch_release,
    .launch = fry_launch_lot,
    .whole = fry_launch_whole,
    .unpaired = fry_pairing_unpaired,
    .window_found = fry_window_found,
    .window_closing = fry_window_closing,
    .window_lost = fry_window_lost,
    .window_sought = fry_window_sought,
    .window_left = fry_window_left,
    .reached = fry_window_reached,
    .noticed = fry_notices_come,
    .gone = fry_neighbour_gone,
};

/* ---- what the graph does ---- */

void fry_messages_refuse(fry_turn *turn, fry_node *node)
{
    fry_transfer *transfer = node->op.message.transfer;
    part(transfer);
    give(turn, transfer);
    fry_node_refuse(node, FERRY_E_SHUTDOWN, NULL, false);
}

static void enter(fry_turn *turn, fry_node *node)
{
    fry_transfer *transfer = node->op.message.transfer;
    fry_route *route = transfer->route;
    if (fry_unlikely(turn->engine->stop_graph)) {
        fry_messages_refuse(turn, node);
        return;
    }
    fry_refusal why = fry_membership_refusal(route->group);
    transfer->message.op = node->future.id;
    fry_route_opened(route);
    if (why == FRY_TAKEN && fry_peer_enter(fry_route_made_peer(route), &transfer->message, turn)) {
        transfer->flags |= FRY_TRANSFER_ENTERED;
        return;
    }
    fry_route_closed(turn, route);
    fry_transfer_refuse(turn, transfer, why == FRY_TAKEN ? FRY_REFUSED_UNEXPECTED_MAX : why);
}

bool fry_messages_gather(const fry_turn *turn)
{
    const fry_link *next = turn->engine->ready.first;
    if (next == NULL)
        next = turn->engine->backlog.first;
    uint8_t kind = next != NULL ? FRY_CONTAINER(next, fry_node, link)->kind : 0;
    return turn->gathers || kind == FERRY_OP_SEND || kind == FERRY_OP_NOTICE;
}

void fry_messages_note_gathered(fry_turn *turn, fry_route *route)
{
    fry_members *members = route->group->members;
    if (route->has_gathered)
        return;
    route->has_gathered = true;
    route->gathered_next = members->gathered;
    members->gathered = route;
    turn->engine->has_errands = true;
}

void fry_messages_start(fry_turn *turn, fry_node *node)
{
    fry_transfer *transfer = node->op.message.transfer;
    if ((transfer->flags & FRY_TRANSFER_RESOLVED) != 0)
        return; /* its connection is gone; the loop will fail it */
    fry_route *route = transfer->route;
    if (fry_unlikely(transfer->message.is_staged) && !transfer->message.is_send)
        fry_graph_begun(turn, node);
    else
        fry_graph_issued(turn, node);
    if (fry_unlikely(fry_stage_is_small(&transfer->message))) {
        fry_stage_start_small(turn, transfer);
        fry_route_launched(turn, route);
        return;
    }
    if (!fry_messages_gather(turn))
        fry_peer_ready(&transfer->message, turn);
    else if (fry_peer_gather(&transfer->message, turn))
        fry_messages_note_gathered(turn, route);
    fry_route_launched(turn, route);
}

static void enter_and_start(fry_turn *turn, fry_node *node)
{
    fry_transfer *transfer = node->op.message.transfer;
    fry_message *message = &transfer->message;
    fry_route *route = transfer->route;
    fry_peer *peer = fry_route_made_peer(route); /* the submitter has acquired it */
    fry_refusal why = fry_membership_refusal(route->group);
    message->op = node->future.id;
    if (fry_unlikely(why != FRY_TAKEN)) {
        fry_transfer_refuse(turn, transfer, why);
        return;
    }
    bool gathers = message->is_send && fry_messages_gather(turn);
    if (message->is_send && fry_peer_can_send(peer, message, gathers)) {
        transfer->flags = FRY_TRANSFER_ENTERED;
        fry_route_opened(route);
        fry_graph_issued(turn, node);
        fry_peer_send(peer, message, gathers, turn);
        if (gathers)
            fry_messages_note_gathered(turn, route);
        else
            fry_route_launched(turn, route);
        return;
    }
    fry_route_opened(route);
    if (fry_unlikely(!fry_peer_enter(peer, message, turn))) {
        fry_route_closed(turn, route);
        fry_transfer_refuse(turn, transfer, FRY_REFUSED_UNEXPECTED_MAX);
        return;
    }
    transfer->flags = FRY_TRANSFER_ENTERED;
    fry_store_relaxed(&node->state, FRY_NODE_READY);
    fry_messages_start(turn, node);
}

/* What the steps of chunks have left is the loop's: chunks are to be made, or it went on too long.
 */
static void run_stages(fry_turn *turn, fry_members *members)
{
    for (int i = 0; i < STAGE_ROUNDS; i++) {
        if (fry_stages_run(turn, members) + fry_neighbours_run(turn, members) == 0)
            break;
    }
    turn->wake =
        turn->wake || (!turn->is_loop && fry_stages_have_work(turn->engine, &members->stages));
}

void fry_messages_flush(fry_turn *turn)
{
    fry_members *members = turn->engine->members;
    if (fry_unlikely(fry_stages_have_work(turn->engine, &members->stages)))
        run_stages(turn, members);
    while (members->gathered != NULL) {
        fry_route *route = members->gathered;
        members->gathered = route->gathered_next;
        route->has_gathered = false;
        fry_peer_flush(fry_route_made_peer(route), turn);
        fry_route_launched(turn, route);
    }
}

void fry_messages_failed(fry_turn *turn, fry_node *node, bool is_under_way)
{
    fry_transfer *transfer = node->op.message.transfer;
    if (transfer == NULL)
        return;
    if (!is_under_way)
        part(transfer);
    if (fry_unlikely(transfer->message.is_staged)) {
        fry_ahead_cancel(turn, transfer);
        fry_pairing_failed(turn, transfer);
    }
    if ((transfer->flags & FRY_TRANSFER_RESOLVED) != 0)
        return;
    transfer->flags |= FRY_TRANSFER_RESOLVED;
    fry_route *route = transfer->route;
    fry_fault fault;
    describe(node, transfer->route, &fault);
    fry_peer_withdraw(&transfer->message, &fault, turn);
    fry_route_launched(turn, route);
}

/* ---- their rows ---- */

static void read_ahead(fry_turn *turn, fry_node *node)
{
    const fry_transfer *transfer = node->op.message.transfer;
    if (transfer != NULL && (transfer->flags & FRY_TRANSFER_ENTERED) != 0 &&
        !transfer->message.may_join)
        fry_ahead_begin(turn, node);
}

static bool has_begun(const fry_node *node)
{
    const fry_transfer *transfer = node->op.message.transfer;
    return node->is_staged && transfer != NULL && transfer->copies != 0;
}

static bool entered(fry_turn *turn, fry_node *node, bool may_start)
{
    if (!may_start) {
        enter(turn, node);
        if (node->is_staged && node->kind == FERRY_OP_SEND)
            read_ahead(turn, node);
        return false;
    }
    fry_node_set_holding(node, 0);
    fry_live_stamp(turn, node);
    fry_emit(turn->engine, node, FERRY_TRACE_READY, 0);
    enter_and_start(turn, node);
    return true;
}

/* The peer reports when it is done with the memory. */
bool fry_messages_stop(fry_node *node)
{
    (void)node;
    return true;
}

static bool span(const fry_node *node, fry_use *use, uint8_t index, ferry_access_mode mode)
{
    const fry_message_op *message = &node->op.message;
    if (index != 0 || message->size_bytes == 0)
        return false;
    fry_use_set(use, message->buffer, message->offset, message->size_bytes, mode);
    return true;
}

bool fry_messages_sent_span(const fry_node *node, uint8_t index, fry_use *use)
{
    return span(node, use, index, FERRY_READ);
}

bool fry_messages_received_span(const fry_node *node, uint8_t index, fry_use *use)
{
    return span(node, use, index, FERRY_WRITE);
}

void fry_messages_discard(ferry_engine *engine, fry_context *context, fry_node *node)
{
    fry_transfer *transfer = node->op.message.transfer;
    if (transfer->window != NULL)
        fry_window_unretain(transfer->window);
    if (transfer->message.is_apart && transfer->message.is_notice)
        give_notice(engine, context, transfer);
    fry_pool_give(&engine->transfers, &context->transfers, transfer);
}

uint64_t fry_messages_sent_bytes(const fry_node *node, uint64_t *flow_p)
{
    *flow_p = node->op.message.flow;
    return node->op.message.size_bytes;
}

uint64_t fry_messages_received_bytes(const fry_node *node, uint64_t *flow_p)
{
    const fry_message_op *message = &node->op.message;
    if (fry_load_acquire(&node->outside) == FRY_OUTSIDE_FLOWS) /* pairs with set_flow */
        *flow_p = fry_flow_of(message->rank, message->offset);
    return message->size_bytes;
}

void fry_messages_describe(const ferry_engine *engine, const fry_node *node, fry_kind_view *view)
{
    const fry_message_op *message = &node->op.message;
    (void)engine;
    view->is_message = view->has_size = true;
    view->size_bytes = message->size_bytes;
    view->tag = message->tag;
    view->rank = message->rank;
    if (node->state == FRY_NODE_ISSUED || node->state == FRY_NODE_RESOLVED)
        view->reason = FRY_DUMP_MEMBER;
    if (fry_node_is_landing(node)) {
        view->reason = FRY_DUMP_DEVICE;
        view->shown_stream = node->op.message.stand.lane->stream;
    }
}

const fry_op_kind fry_kind_send = {
    .traits = FRY_MESSAGE_TRAITS,
    .has_begun = has_begun,
    .span = fry_messages_sent_span,
    .discard = fry_messages_discard,
    .entered = entered,
    .start = fry_messages_start,
    .stop = fry_messages_stop,
    .failed = fry_messages_failed,
    .moved_bytes = fry_messages_sent_bytes,
    .describe = fry_messages_describe,
};

const fry_op_kind fry_kind_recv = {
    .traits = FRY_MESSAGE_TRAITS,
    .span = fry_messages_received_span,
    .discard = fry_messages_discard,
    .entered = entered,
    .start = fry_messages_start,
    .stop = fry_messages_stop,
    .failed = fry_messages_failed,
    .moved_bytes = fry_messages_received_bytes,
    .describe = fry_messages_describe,
};
