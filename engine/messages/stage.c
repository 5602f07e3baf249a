/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Staging: pieces of messages whose memory only a device reads and writes.
 *
 *   out   the other end wants a piece ─► chunk ─► copy from the device ─► post ─► chunk is free
 *   in    a piece is to be had ─► chunk ─► it comes into the chunk ─► copy to the device ─► free
 *
 * The peer (net/peer/) says when, the lanes copy, and this file hands out chunks and brings each to
 * its next step. Whoever has the baton does that before giving it back (fry_messages_flush); a
 * thread that waits for messages looks at copies that are under way, too. Only chunks are made by
 * the loop, and until then it is woken.
 *
 * Why it can't come to a standstill. A chunk that goes out is held from the copy until the other
 * end has the bytes. The other end asks only for what it has a place for, so both end by
 * themselves, whatever the two programs do: out chunks always come back, and pieces wait for them
 * first come, first served. A chunk that comes in is held from being asked for until the copy to
 * the device: that takes a chunk out at the other end, and nothing else. If both ways took chunks
 * from one pool, two members could each hold all of theirs for what comes in, and wait for one with
 * which the other would send. So each way has its own half, of which one chunk is enough. (Reading
 * ahead may take some of those that go out, never the last: ahead.c.)
 *
 * Small sends are copied out first, and then launched with their data like those of host memory,
 * without waiting for the other end to ask. If such a send can't leave at once (no connection, no
 * room in the window), it lets go of its chunk, and is held like a large one: so a chunk still
 * waits for no program.
 *
 * Quiet. What copies between chunk and device is a node of the graph, though not one that anybody
 * waits for: the message's own node has the access to the user's memory. transfer->copies counts
 * those copies, and a message is quiet when the peer is done with it and none is left. A message
 * that fails lets go of its pieces at once (fry_stage_over); a chunk whose copy runs is free after
 * that.
 *
 * The node of a copy is its chunk's own, so copies need no slot and can't be refused.
 */
#include "engine/messages/stage.h"

#include "engine/engine.h"
#include "engine/graph/buffer.h"
#include "engine/graph/edge.h"
#include "engine/graph/emit.h"
#include "engine/graph/graph.h"
#include "engine/graph/kind.h"
#include "engine/graph/lane.h"
#include "engine/graph/live.h"
#include "engine/graph/node.h"
#include "engine/messages/ahead.h"
#include "engine/messages/chunk.h"
#include "engine/messages/groups.h"
#include "engine/messages/import.h"
#include "engine/messages/members.h"
#include "engine/messages/message.h"
#include "engine/messages/route.h"
#include "engine/messages/transfer.h"
#include "net/peer/ask.h"
#include "net/peer/serve.h"

static fry_stages *stages_for(const fry_transfer *transfer)
{
    return &transfer->route->group->members->stages;
}

static fry_stages *stages_of(const fry_slice *slice)
{
    return stages_for((const fry_transfer *)(const void *)slice->message);
}

/* ---- chunks ---- */

bool fry_stages_init(const ferry_engine *engine, fry_stages *stages)
{
    stages->for_views =
        fry_alloc(&engine->memory, FRY_STAGE_VIEWS_MOST * sizeof(fry_stage), _Alignof(fry_stage));
    if (stages->for_views == NULL)
        return false;
    for (size_t i = 0; i < FRY_STAGE_VIEWS_MOST; i++) {
        stages->for_views[i].way = FRY_STAGE_VIEW;
        fry_chunk_give(stages, &stages->for_views[i]);
    }
    fry_imports_init(&stages->imports);
    TAILQ_INIT(&stages->views);
    TAILQ_INIT(&stages->small);
    for (int way = 0; way < FRY_STAGE_WAYS; way++)
        TAILQ_INIT(&stages->waiting[way]);
    return true;
}

/* Half for each way, and at least one. */
static size_t count_of(const ferry_engine *engine)
{
    size_t count = engine->options.message_staging_bytes / FRY_SLICE_BYTES_MAX;
    return count < 2 ? 2 : count & ~(size_t)1;
}

static ferry_buffer *make_buffer(ferry_engine *engine, fry_device *from, size_t size_bytes,
                                 ferry_status *status_p)
{
    ferry_buffer *buffer = fry_alloc(&engine->memory, sizeof *buffer, _Alignof(ferry_buffer));
    *status_p = FERRY_E_NO_MEMORY;
    if (buffer == NULL)
        return NULL;
    buffer->references = 1;
    buffer->engine = engine;
    buffer->device = &engine->devices[0];
    buffer->memory_device = from;
    buffer->kind = FRY_MEMORY_PINNED;
    buffer->pages = FRY_PAGES_PINNED;
    buffer->size_bytes = size_bytes;
    fry_fault fault; /* the backend has logged it */
    *status_p = from->ops->memory_alloc(from, size_bytes, FRY_MEMORY_PINNED, &buffer->data, &fault);
    if (*status_p == FERRY_OK)
        return buffer;
    fry_free(&engine->memory, buffer, sizeof *buffer);
    return NULL;
}

/* False: a device that hangs may still use some of it. */
static bool are_free(const fry_stage *all, size_t count)
{
    for (size_t i = 0; all != NULL && i < count; i++) {
        if (all[i].state != FRY_STAGE_FREE)
            return false;
    }
    return true;
}

static void free_chunks(const ferry_engine *engine, fry_stages *stages)
{
    ferry_buffer *buffer = stages->buffer;
    size_t count = count_of(engine);
    if (buffer == NULL)
        return;
    stages->buffer = NULL;
    if (!are_free(stages->all, count))
        return; /* lost on purpose */
    buffer->memory_device->ops->memory_free(buffer->memory_device, buffer->data, buffer->size_bytes,
                                            FRY_MEMORY_PINNED);
    fry_free(&engine->memory, buffer, sizeof *buffer);
    fry_stage *all = stages->all != NULL ? stages->all : stages->made;
    if (all != NULL)
        fry_free(&engine->memory, all, count * sizeof *all);
}

size_t fry_stages_make(fry_members *members)
{
    fry_stages *stages = &members->stages;
    ferry_engine *engine = members->engine;
    fry_device *from = stages->from;
    if (fry_likely(from == NULL))
        return 0;
    stages->from = NULL;
    size_t count = count_of(engine);
    stages->buffer = make_buffer(engine, from, count * FRY_SLICE_BYTES_MAX, &stages->status);
    if (stages->buffer == NULL)
        return 1;
    stages->made = fry_alloc(&engine->memory, count * sizeof *stages->made, _Alignof(fry_stage));
    if (stages->made != NULL)
        return 1;
    stages->status = FERRY_E_NO_MEMORY;
    free_chunks(engine, stages);
    return 1;
}

void fry_stages_free(ferry_engine *engine, fry_stages *stages)
{
    free_chunks(engine, stages);
    fry_imports_free(&stages->imports);
    if (are_free(stages->for_views, FRY_STAGE_VIEWS_MOST))
        fry_free(&engine->memory, stages->for_views,
                 FRY_STAGE_VIEWS_MOST * sizeof *stages->for_views);
}

/* The chunks have been made. */
static void take_over(fry_stages *stages, size_t count)
{
    stages->all = stages->made;
    stages->made = NULL;
    stages->ahead_most = (uint32_t)(count / FRY_STAGE_WAYS / 2);
    for (size_t i = 0; i < count; i++) {
        fry_stage *stage = &stages->all[i];
        stage->offset = i * FRY_SLICE_BYTES_MAX;
        stage->way = (uint8_t)(i % FRY_STAGE_WAYS);
        fry_chunk_give(stages, stage);
    }
}

/* ---- failing ---- */

static void take_small(fry_stages *stages, fry_transfer *transfer)
{
    TAILQ_REMOVE(&stages->small, transfer, small);
    transfer->flags &= (uint8_t)~FRY_TRANSFER_FETCHING;
}

/* The first small send that waits, without those that have failed meanwhile; NULL: there is none.
 */
static fry_transfer *first_small(fry_stages *stages)
{
    fry_transfer *transfer;
    while ((transfer = TAILQ_FIRST(&stages->small)) != NULL) {
        if (transfer->node != NULL && (transfer->flags & FRY_TRANSFER_RESOLVED) == 0)
            break;
        take_small(stages, transfer);
    }
    return transfer;
}

/* What waits for a chunk of that way fails, and lets go of its pieces thereby. */
static size_t fail_waiting(fry_turn *turn, fry_stages *stages, int way, const fry_fault *fault)
{
    size_t done = 0;
    const fry_slice *slice, *last = NULL;
    while ((slice = TAILQ_FIRST(&stages->waiting[way])) != NULL && slice != last) {
        fry_transfer_fail(turn, (fry_transfer *)(void *)slice->message, fault);
        last = slice;
        done++;
    }
    fry_transfer *transfer;
    while (way == FRY_STAGE_OUT && (transfer = first_small(stages)) != NULL) {
        take_small(stages, transfer);
        fry_transfer_fail(turn, transfer, fault);
        done++;
    }
    return done;
}

/* There is no memory for chunks. */
static size_t fail_all_waiting(fry_turn *turn, fry_stages *stages)
{
    static const fry_fault fault = {
        .status = FERRY_E_NO_MEMORY,
        .rank = -1,
        .message = "no page-locked memory for messages of a GPU (message_staging_bytes)"};
    stages->status = FERRY_OK;
    return fail_waiting(turn, stages, FRY_STAGE_OUT, &fault) +
           fail_waiting(turn, stages, FRY_STAGE_IN, &fault);
}

/* ---- chunks that never come back ---- */

/* A lost device may use the memory of its copies for ever. */
static bool is_stuck(const fry_stage *stage)
{
    return stage->state == FRY_STAGE_COPYING && (stage->node.flags & FRY_NODE_STUCK) != 0 &&
           stage->node.op.copy.stand.lane
               ->is_lost; /* and has the fault; else it fails, and is over */
}

/*
 * One of the chunks of that way, if something waits for one and a lost device has them all; else
 * NULL. Other chunks come back by themselves, as the beginning of this file says.
 */
static const fry_stage *dried_up(const ferry_engine *engine, const fry_stages *stages, int way)
{
    if (fry_likely(!engine->has_lost) || stages->all == NULL || stages->free[way].first != NULL ||
        (TAILQ_EMPTY(&stages->waiting[way]) &&
         (way != FRY_STAGE_OUT || TAILQ_EMPTY(&stages->small))))
        return NULL;
    size_t count = count_of(engine);
    for (size_t i = (size_t)way; i < count; i += FRY_STAGE_WAYS) {
        if (!is_stuck(&stages->all[i]))
            return NULL;
    }
    return &stages->all[way];
}

bool fry_stage_views_are_stuck(const ferry_engine *engine, const fry_stages *stages)
{
    if (fry_likely(!engine->has_lost) || stages->free[FRY_STAGE_VIEW].first != NULL)
        return false;
    for (size_t i = 0; i < FRY_STAGE_VIEWS_MOST; i++) {
        if (!is_stuck(&stages->for_views[i]))
            return false;
    }
    return true;
}

/* What waits in vain fails as the copies did. On the loop. */
static size_t fail_dried_up(fry_turn *turn, fry_stages *stages)
{
    size_t done = 0;
    for (int way = 0; way < FRY_STAGE_WAYS; way++) {
        const fry_stage *stage = dried_up(turn->engine, stages, way);
        if (fry_unlikely(stage != NULL))
            done += fail_waiting(turn, stages, way, &stage->node.op.copy.stand.lane->fault);
    }
    return done;
}

/* ---- landing ---- */

/*
 * Receives in stream order. Once the copies of all pieces of a receive have been issued, or are
 * over, nothing of it is left to the host: it stands where the last of them stands, and copies and
 * the program's streams wait for that on their devices. What may go wrong yet is told by the
 * receive's status, as with any copy that others have overtaken.
 *
 * All of them must be in one stream, of which the last speaks for the others. A copy that finds its
 * stream full counts when it is over; a receive that ends with such a one stands nowhere.
 */
static void land(fry_turn *turn, fry_stage *stage, fry_stand stand)
{
    fry_transfer *transfer = stage->transfer;
    fry_landed *landed = &transfer->landed;
    fry_node *node = transfer->node;
    if (stage->is_landed || stage->slice == NULL || node == NULL)
        return;
    stage->is_landed = true;
    landed->size_bytes += stage->node.op.copy.size_bytes;
    landed->is_apart |=
        landed->stand.lane != NULL && stand.lane != NULL && landed->stand.lane != stand.lane;
    if (stand.lane != NULL)
        landed->stand = stand;
    if (landed->size_bytes < node->op.message.size_bytes || landed->is_apart ||
        stand.lane == NULL || node->state != FRY_NODE_ISSUED ||
        (node->flags & FRY_NODE_FAILING) != 0)
        return;
    fry_graph_lands(turn, node, stand);
}

/* ---- copies ---- */

static fry_stage *stage_of(const fry_node *node)
{
    return (fry_stage *)(void *)node;
}

void fry_stage_copy(fry_turn *turn, fry_stages *stages, fry_stage *stage)
{
    const fry_slice *slice = stage->slice;
    fry_node *node = &stage->node;
    bool is_in = stage->way != FRY_STAGE_OUT;
    bool is_whole = slice == NULL || slice->is_view; /* a small send, or a view */
    fry_chunk_init_copy(turn, stage->import != NULL ? &stage->import->buffer : stages->buffer,
                        stage, is_whole ? 0 : slice->offset,
                        is_whole ? stage->transfer->message.size_bytes : slice->size_bytes);
    fry_chunk_enter_copy(turn, stages, stage);
    fry_emit(turn->engine, node, FERRY_TRACE_READY, 0);
    stage->is_landed = !is_in;
    fry_graph_step(turn, node);
    if (is_in && node->state == FRY_NODE_ISSUED)
        land(turn, stage, node->op.copy.stand);
}

/*
 * A small send's bytes are in its chunk: it is launched with them, unless it has failed. The chunk
 * stays if the channel reads it, until `left`; then the send may not be gone, as that would have
 * taken the chunk from it.
 */
static void copied_small(fry_turn *turn, fry_stages *stages, fry_stage *stage)
{
    fry_transfer *transfer = stage->transfer;
    fry_message *message = &transfer->message;
    if (transfer->node == NULL || (transfer->flags & FRY_TRANSFER_RESOLVED) != 0) {
        fry_chunk_give(stages, stage);
        return;
    }
    stage->state = FRY_STAGE_HELD;
    transfer->flags |= FRY_TRANSFER_HAS_CHUNK;
    transfer->chunk = stage;
    message->memory = fry_chunk_bytes(stages, stage);
    fry_peer_ready(message, turn);
    if (stage->state != FRY_STAGE_HELD || message->state == FRY_MESSAGE_UNDER_WAY ||
        message->state == FRY_MESSAGE_ENDED)
        return;
    if (message->state != FRY_MESSAGE_QUIET)
        message->memory = NULL;
    fry_stage_forget(turn, transfer);
}

/* The copy ahead of a send is over. A small one that has started meanwhile goes on, and may be gone
 * after that. */
static void copied_ahead(fry_turn *turn, fry_transfer *transfer)
{
    const fry_node *node = transfer->node;
    if ((transfer->flags & (FRY_TRANSFER_ENDS | FRY_TRANSFER_UNTOUCHED)) != 0)
        fry_transfer_copies_are_over(turn, transfer);
    else if (node != NULL && node->state == FRY_NODE_ISSUED &&
             (transfer->flags & FRY_TRANSFER_RESOLVED) == 0 &&
             fry_stage_is_small(&transfer->message))
        fry_stage_start_small(turn, transfer);
}

/* A view's copy has ended; its message may be over. */
static void copied_view(fry_turn *turn, fry_stages *stages, fry_stage *stage)
{
    fry_slice *view = stage->slice; /* NULL: nobody's any more */
    bool has_all = fry_future_status(&stage->node.future) == FERRY_OK;
    if (view != NULL && !view->is_given_up)
        land(turn, stage, (fry_stand){0});
    fry_import_leave(&stages->imports, stage->import);
    stage->import = NULL;
    fry_chunk_give(stages, stage);
    if (view != NULL)
        fry_peer_viewed(view, has_all, turn);
}

/* The copy has ended, well or not: see `failed`. */
static void copied(fry_turn *turn, fry_members *members, fry_stage *stage)
{
    fry_stages *stages = &members->stages;
    fry_transfer *transfer = stage->transfer;
    fry_slice *slice = stage->slice;
    transfer->copies--;
    if (stage->is_ahead) {
        fry_ahead_copied(stages, stage);
        if (slice == NULL) {
            copied_ahead(turn, transfer);
            return;
        }
    }
    if (stage->way == FRY_STAGE_VIEW) {
        copied_view(turn, stages, stage);
        fry_transfer_copies_are_over(turn, transfer);
    } else if (stage->is_small) {
        bool has_ended = (transfer->flags & (FRY_TRANSFER_ENDS | FRY_TRANSFER_UNTOUCHED)) != 0;
        copied_small(turn, stages, stage); /* it may be gone after this, if it has not ended */
        if (has_ended)
            fry_transfer_copies_are_over(turn, transfer);
    } else if (slice == NULL) {
        fry_chunk_give(stages, stage);
        fry_transfer_copies_are_over(turn, transfer);
    } else if (stage->way == FRY_STAGE_OUT) {
        stage->state = FRY_STAGE_HELD;
        fry_peer_served(slice, fry_chunk_bytes(stages, stage), turn);
    } else {
        land(turn, stage, (fry_stand){0});
        fry_chunk_give(stages, stage);
        fry_peer_stored(slice, turn);
    }
}

/* One step of a chunk that is due. */
static void step(fry_turn *turn, fry_members *members, fry_stage *stage)
{
    if (stage->state == FRY_STAGE_DUE && stage->slice == NULL) {
        fry_chunk_give(&members->stages, stage); /* its transfer may be gone */
        return;
    }
    fry_route *route = stage->transfer->route;
    if (stage->state == FRY_STAGE_COPIED)
        copied(turn, members, stage);
    else
        fry_stage_copy(turn, &members->stages, stage);
    fry_route_launched(turn, route);
}

/* ---- what the peer asks for ---- */

static void wait_for_chunk(fry_turn *turn, fry_slice *slice, fry_stage_way way)
{
    TAILQ_INSERT_TAIL(&stages_of(slice)->waiting[way], slice, owners);
    turn->engine->has_errands = true;
}

void fry_stage_serve(void *turn, fry_slice *slice)
{
    fry_stage *stage = fry_ahead_take(turn, (fry_transfer *)(void *)slice->message, slice);
    if (stage == NULL) {
        wait_for_chunk(turn, slice, FRY_STAGE_OUT);
        return;
    }
    slice->owner = stage;
    stage->slice = slice;
    if (stage->state == FRY_STAGE_HELD)
        fry_peer_served(slice, fry_chunk_bytes(stages_of(slice), stage), turn);
}

void fry_stage_wants_place(void *turn, fry_slice *slice)
{
    wait_for_chunk(turn, slice, FRY_STAGE_IN);
}

void fry_stage_landed(void *arg, fry_slice *slice)
{
    fry_turn *turn = arg;
    fry_stage *stage = slice->owner;
    stage->state = FRY_STAGE_DUE;
    fry_queue_push(&stages_of(slice)->due, &stage->link);
    turn->engine->has_errands = true;
}

void fry_stage_over(void *arg, fry_slice *slice)
{
    fry_turn *turn = arg;
    fry_stages *stages = &turn->engine->members->stages;
    fry_stage *stage = slice->owner;
    if (stage == NULL && slice->is_view) {
        TAILQ_REMOVE(&stages->views, slice, owners);
        fry_import_leave(&stages->imports, slice->memory);
        return;
    }
    if (stage == NULL) {
        fry_stage_way way = slice->message->is_send ? FRY_STAGE_OUT : FRY_STAGE_IN;
        TAILQ_REMOVE(&stages->waiting[way], slice, owners);
        return;
    }
    stage->slice = NULL;
    if (stage->state == FRY_STAGE_HELD) {
        fry_chunk_give(stages, stage);
        turn->engine->has_errands = true;
    }
}

/* ---- small sends ---- */

static void fetch(fry_turn *turn, fry_transfer *transfer)
{
    transfer->flags |= FRY_TRANSFER_FETCHING;
    TAILQ_INSERT_TAIL(&stages_for(transfer)->small, transfer, small);
    turn->engine->has_errands = true;
}

void fry_stage_start_small(fry_turn *turn, fry_transfer *transfer)
{
    fry_stage *stage = fry_ahead_take_small(transfer);
    if (stage == NULL) {
        fetch(turn, transfer);
    } else if (stage->state == FRY_STAGE_HELD) {
        stage->is_small = true;
        copied_small(turn, stages_for(transfer), stage);
    } /* else it goes on when it is copied */
}

void fry_stage_forget(fry_turn *turn, fry_transfer *transfer)
{
    fry_stages *stages = stages_for(transfer);
    if ((transfer->flags & FRY_TRANSFER_FETCHING) != 0) {
        TAILQ_REMOVE(&stages->small, transfer, small);
    } else {
        fry_chunk_give(stages, transfer->chunk);
        turn->engine->has_errands = true;
    }
    transfer->flags &= (uint8_t)~FRY_TRANSFER_STAGES;
}

void fry_stage_left(void *turn, fry_message *message)
{
    fry_transfer *transfer = (fry_transfer *)(void *)message;
    if ((transfer->flags & FRY_TRANSFER_HAS_CHUNK) != 0)
        fry_stage_forget(turn, transfer);
}

/* ---- steps ---- */

bool fry_stages_have_work(const ferry_engine *engine, const fry_stages *stages)
{
    if (stages->due.first != NULL || stages->imports.has_news ||
        (!TAILQ_EMPTY(&stages->small) &&
         (stages->all == NULL || stages->free[FRY_STAGE_OUT].first != NULL)))
        return true;
    for (int way = 0; way < FRY_STAGE_WAYS; way++) {
        if (!TAILQ_EMPTY(&stages->waiting[way]) &&
            (stages->all == NULL || stages->free[way].first != NULL))
            return true;
        if (fry_unlikely(dried_up(engine, stages, way) != NULL))
            return true;
    }
    return !TAILQ_EMPTY(&stages->views) && fry_stage_views_are_stuck(engine, stages);
}

/* The same for a small send. */
static bool give_out_small(fry_turn *turn, fry_stages *stages)
{
    fry_transfer *transfer = first_small(stages);
    fry_link *item = transfer != NULL ? fry_queue_pop(&stages->free[FRY_STAGE_OUT]) : NULL;
    if (item == NULL)
        return false;
    fry_stage *stage = FRY_CONTAINER(item, fry_stage, link);
    take_small(stages, transfer);
    stage->transfer = transfer;
    stage->is_small = true;
    fry_stage_copy(turn, stages, stage);
    return true;
}

/* Gives the first that waits a chunk. False: none waits, or there is none. */
static bool give_out(fry_turn *turn, fry_stages *stages, fry_stage_way way)
{
    fry_slice *slice = TAILQ_FIRST(&stages->waiting[way]);
    fry_link *item = slice != NULL ? fry_queue_pop(&stages->free[way]) : NULL;
    if (item == NULL)
        return false;
    fry_stage *stage = FRY_CONTAINER(item, fry_stage, link);
    fry_transfer *transfer = (fry_transfer *)(void *)slice->message;
    fry_route *route = transfer->route;
    TAILQ_REMOVE(&stages->waiting[way], slice, owners);
    slice->owner = stage;
    stage->slice = slice;
    stage->transfer = transfer;
    stage->is_small = false;
    stage->state = FRY_STAGE_HELD;
    if (way == FRY_STAGE_OUT)
        fry_stage_copy(turn, stages, stage);
    else
        fry_peer_placed(slice, fry_chunk_bytes(stages, stage), turn);
    fry_route_launched(turn, route);
    return true;
}

/* Chunks are made without the baton: fry_stages_make. */
static size_t want_chunks(fry_turn *turn, fry_stages *stages)
{
    if (stages->made != NULL) {
        take_over(stages, count_of(turn->engine));
        return 1;
    }
    if (stages->status != FERRY_OK)
        return fail_all_waiting(turn, stages);
    const fry_slice *slice = TAILQ_FIRST(&stages->waiting[FRY_STAGE_OUT]);
    if (slice == NULL)
        slice = TAILQ_FIRST(&stages->waiting[FRY_STAGE_IN]);
    const fry_transfer *transfer =
        slice != NULL ? (const fry_transfer *)(const void *)slice->message : first_small(stages);
    if (transfer == NULL)
        return 0;
    stages->from = transfer->node->op.message.buffer->device->device;
    return 1;
}

size_t fry_stages_run(fry_turn *turn, fry_members *members)
{
    fry_stages *stages = &members->stages;
    size_t done = 0;
    fry_queue due = stages->due;
    stages->due = (fry_queue){0};
    fry_link *item;
    while ((item = fry_queue_pop(&due)) != NULL) {
        step(turn, members, FRY_CONTAINER(item, fry_stage, link));
        done++;
    }
    if (fry_unlikely(stages->all == NULL) && turn->is_loop)
        done += want_chunks(turn, stages);
    if (stages->all == NULL)
        return done;
    bool goes_on = true;
    while (goes_on) { /* in turns */
        goes_on = give_out_small(turn, stages);
        goes_on = give_out(turn, stages, FRY_STAGE_OUT) || goes_on;
        done += goes_on;
    }
    while (give_out(turn, stages, FRY_STAGE_IN))
        done++;
    if (turn->is_loop)
        done += fail_dried_up(turn, stages);
    return done;
}

/* ---- its row ---- */

static void start(fry_turn *turn, fry_node *node)
{
    fry_lane_issue(turn, node);
}

static bool stop(fry_node *node)
{
    fry_lane_cancel(node);
    return true;
}

/* The copy will not touch its memory, and its message has the order among others that do. */
static void let_retire(fry_node *node)
{
    for (fry_edge *edge = node->edges; edge != NULL; edge = edge->sibling) {
        if (edge->state != FRY_EDGE_LOOSE)
            fry_edge_abandon(edge);
    }
    fry_node_set_holding(node, 0);
}

/* On the loop. A device that is lost may use the message's memory for ever. */
static void failed(fry_turn *turn, fry_node *node, bool is_under_way)
{
    const fry_stage *stage = stage_of(node);
    fry_transfer *transfer = stage->transfer;
    if (!is_under_way)
        let_retire(node);
    bool is_needed = stage->slice != NULL || stage->is_small;
    if ((!is_needed && !stage->is_ahead) || transfer->node == NULL)
        return;
    if (is_under_way && node->op.copy.stand.lane->is_lost)
        fry_graph_stuck(turn, transfer->node);
    if (!is_needed && fry_future_status(&node->future) == FERRY_E_DEPENDENCY)
        return; /* the send fails by itself, of the same */
    fry_fault fault = fry_error_fault(fry_future_root_error(&node->future));
    fry_transfer_fail(turn, transfer, &fault);
}

/* The copy is over: the end of the turn does the rest. */
static void freed(ferry_engine *engine, fry_node *node)
{
    fry_stages *stages = &engine->members->stages;
    fry_stage *stage = stage_of(node);
    stage->state = FRY_STAGE_COPIED;
    stages->copying--;
    fry_queue_push(&stages->due, &stage->link);
    engine->has_errands = true;
}

static uint64_t moved_bytes(const fry_node *node, uint64_t *flow_p)
{
    *flow_p = node->future.id;
    return node->op.copy.size_bytes;
}

static void describe(const ferry_engine *engine, const fry_node *node, fry_kind_view *view)
{
    (void)engine;
    view->has_size = true;
    view->size_bytes = node->op.copy.size_bytes;
    view->shown_stream = node->op.copy.stand.lane->stream;
    if (node->state == FRY_NODE_READY)
        view->reason = FRY_DUMP_STREAM;
}

const fry_op_kind fry_kind_stage = {
    .traits = FRY_KIND_ON_STREAM | FRY_KIND_STAYS,
    .start = start,
    .stop = stop,
    .failed = failed,
    .free = freed,
    .moved_bytes = moved_bytes,
    .describe = describe,
};
