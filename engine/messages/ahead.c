/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading ahead. A send of GPU memory often waits for nothing but what runs on the GPU: the
 * program's kernel, by an event, or a copy. When the host sees the end of that, it would take
 * another copy, and another look, until the first bytes can leave. So that copy is issued as the
 * send enters, behind the same things and on the device, and when they are over the bytes are in a
 * chunk already.
 *
 * The copy is a node with edges like the send's, so the graph orders it, and fails it when the
 * send's predecessors fail. If it finds no parked stream after all, edges hold it on the host.
 * If it fails by itself, so does the send. Nothing leaves before the send has started, which it
 * does when all that it waits for has ended well.
 *
 * If the send fails before the copy is over, the copy is cancelled. The send has been at work then,
 * though it had not started (fry_op_kind.has_begun), and is quiet when the copy is over
 * (fry_transfer.copies): at once, if it had not been issued either.
 *
 * Such a chunk waits for the programs, which no other does: for this one's kernel first, then, with
 * the bytes in it, for the other one's receive. What they do next may depend on a message that
 * needs a chunk. So at most half of the chunks that go out are given to this, each from the
 * beginning of its copy until its send has it or wants it no more, and with one chunk a way there
 * is none.
 *
 * ahead.pml checks this.
 */
#include "engine/messages/ahead.h"

#include "engine/engine.h"
#include "engine/graph/cancel.h"
#include "engine/graph/edge.h"
#include "engine/graph/emit.h"
#include "engine/graph/graph.h"
#include "engine/graph/park.h"
#include "engine/ground/context.h"
#include "engine/messages/groups.h"
#include "engine/messages/members.h"
#include "engine/messages/route.h"

#define EDGES_MOST 6 /* of a send that is read ahead; a copy can wait for 8 streams */

static fry_stages *stages_for(const fry_transfer *transfer)
{
    return &transfer->route->group->members->stages;
}

static bool has_bytes(const fry_stage *stage)
{
    return !stage->is_ahead;
}

/* The send has its chunk, or wants it no more. One whose copy runs counts until that is over. */
static fry_stage *take_from(fry_stages *stages, fry_transfer *transfer)
{
    fry_stage *stage = transfer->ahead;
    transfer->ahead = NULL;
    if (stage != NULL && has_bytes(stage))
        stages->ahead--;
    return stage;
}

/* Whether the copy can wait on its device for all that holds the send. */
static bool can_wait(const fry_node *copy, const fry_node *send)
{
    int count = 0;
    for (const fry_edge *edge = send->edges; edge != NULL; edge = edge->sibling) {
        if (edge->state != FRY_EDGE_HOLDING)
            continue;
        if (edge->nature > FRY_EDGE_ORDER || ++count > EDGES_MOST ||
            !fry_lane_can_overtake(edge->from, copy, (fry_edge_nature)edge->nature))
            return false;
    }
    return count != 0;
}

/* Gives the copy edges like those that hold the send. False: there is no memory for them. */
static bool mirror_edges(fry_turn *turn, fry_node *copy, const fry_node *send)
{
    fry_pool_cache *cache = &turn->context->edges;
    bool is_whole = true;
    for (const fry_edge *like = send->edges; like != NULL; like = like->sibling) {
        if (like->state != FRY_EDGE_HOLDING)
            continue;
        fry_edge *edge = fry_pool_take(&turn->engine->edges, cache);
        is_whole = edge != NULL;
        if (!is_whole)
            break;
        edge->from = like->from;
        edge->to = copy;
        edge->nature = like->nature;
        edge->state = FRY_EDGE_LOOSE;
        edge->sibling = copy->edges;
        copy->edges = edge;
    }
    if (is_whole)
        return true;
    for (fry_edge *edge = copy->edges, *next; edge != NULL; edge = next) {
        next = edge->sibling;
        fry_pool_give(&turn->engine->edges, cache, edge);
    }
    copy->edges = NULL;
    return false;
}

static void enter(fry_turn *turn, fry_stages *stages, fry_stage *stage)
{
    fry_node *node = &stage->node;
    fry_chunk_enter_copy(turn, stages, stage);
    fry_node_set_holding(node, 1);
    for (fry_edge *edge = node->edges, *next; edge != NULL; edge = next) {
        next = edge->sibling;
        fry_edge_attach(turn, edge);
    }
    if (fry_node_unhold(node) != 0)
        return;
    fry_emit(turn->engine, node, FERRY_TRACE_READY, 0);
    fry_graph_step(turn, node);
}

void fry_ahead_begin(fry_turn *turn, fry_node *node)
{
    fry_transfer *transfer = node->op.message.transfer;
    fry_stages *stages = stages_for(transfer);
    if (stages->all == NULL || stages->ahead >= stages->ahead_most ||
        !TAILQ_EMPTY(&stages->waiting[FRY_STAGE_OUT]) || !TAILQ_EMPTY(&stages->small))
        return;
    fry_link *item = fry_queue_pop(&stages->free[FRY_STAGE_OUT]);
    if (item == NULL)
        return;
    fry_stage *stage = FRY_CONTAINER(item, fry_stage, link);
    size_t size_bytes = transfer->message.size_bytes;
    stage->transfer = transfer;
    stage->slice = NULL;
    stage->is_small = false;
    stage->is_landed = true;
    fry_chunk_init_copy(turn, stages->buffer, stage, 0,
                        size_bytes < FRY_SLICE_BYTES_MAX ? size_bytes : FRY_SLICE_BYTES_MAX);
    if (!can_wait(&stage->node, node) || !mirror_edges(turn, &stage->node, node)) {
        fry_chunk_give(stages, stage);
        return;
    }
    stage->is_ahead = true;
    stages->ahead++;
    transfer->ahead = stage;
    enter(turn, stages, stage);
}

void fry_ahead_copied(fry_stages *stages, fry_stage *stage)
{
    fry_transfer *transfer = stage->transfer;
    bool is_good = fry_future_status(&stage->node.future) == FERRY_OK;
    stage->is_ahead = false;
    if (is_good && transfer->ahead == stage) {
        stage->state = FRY_STAGE_HELD;
        return; /* it counts until it is taken */
    }
    stages->ahead--;
    if (stage->slice != NULL)
        return;
    if (transfer->ahead == stage)
        transfer->ahead = NULL;
    fry_chunk_give(stages, stage);
}

fry_stage *fry_ahead_take(fry_turn *turn, fry_transfer *transfer, const fry_slice *slice)
{
    fry_stage *stage = transfer->ahead;
    if (stage == NULL || slice->offset != 0)
        return NULL;
    if (slice->size_bytes != stage->node.op.copy.size_bytes) {
        fry_ahead_drop(turn, transfer); /* the other end's pieces are of another size */
        return NULL;
    }
    return take_from(stages_for(transfer), transfer);
}

fry_stage *fry_ahead_take_small(fry_transfer *transfer)
{
    fry_stage *stage = transfer->ahead;
    if (stage != NULL && has_bytes(stage))
        (void)take_from(stages_for(transfer), transfer);
    return stage;
}

void fry_ahead_cancel(fry_turn *turn, fry_transfer *transfer)
{
    fry_stage *stage = transfer->ahead;
    if (stage != NULL && !has_bytes(stage))
        fry_cancel_node(turn, &stage->node);
}

void fry_ahead_drop(fry_turn *turn, fry_transfer *transfer)
{
    fry_stages *stages = stages_for(transfer);
    fry_stage *stage = take_from(stages, transfer);
    if (stage == NULL || !has_bytes(stage))
        return;
    fry_chunk_give(stages, stage);
    turn->engine->has_errands = true;
}
