/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lot is given to the module, which launches it on a thread of its own, and records an event
 * behind it:
 *
 *     GIVEN ──► LAUNCHED ──► STANDS ──► FIRED ──► flown ──► free
 *        (module)     (a node in the graph)     (the other end's word)
 *        └────► FAILED ──► free, with the pair
 *
 * The node is put in the lane where that event stands: the lot is over when the node is, and its
 * receives stand there, too. So copies and the program's streams wait for receives on the device.
 *
 * transfer->copies counts the lots that a message is in, from before they are agreed. If all goes
 * well it is counted down when the lot's event has fired and, if it has receives, the other end has
 * said that its pair was in order (net/peer/joint.c says why). If not, when this end's pair has
 * ended, and the other end says the same, or is gone: a GPU of either may use the memory until
 * then. A lot that has flown uses none any more, and ends with its pair.
 */
#include "engine/messages/launch.h"

#include "engine/graph/buffer.h"
#include "engine/graph/graph.h"
#include "engine/graph/lane.h"
#include "engine/graph/live.h"
#include "engine/ground/ground.h"
#include "engine/messages/message.h"
#include "engine/messages/pairing_state.h"
#include "engine/messages/transfer.h"

/* Pairs with is_launched. */
static fry_launch_state state_of(const fry_launch *self)
{
    return (fry_launch_state)fry_load_acquire(&self->state);
}

/* ---- holding ---- */

void fry_launch_hold(void *turn, fry_message *message)
{
    (void)turn;
    ((fry_transfer *)(void *)message)->copies++;
}

void fry_launch_release(void *turn, fry_message *message)
{
    fry_transfer *transfer = (fry_transfer *)(void *)message;
    transfer->copies--;
    fry_transfer_copies_are_over(turn, transfer);
}

/* ---- launching ---- */

/* Like is_launched. */
void fry_launch_wake(void *engine)
{
    fry_fence(); /* pairs with the fence in fry_arm: the loop looks before it sleeps */
    fry_wake(engine);
}

static void is_launched(fry_lot *base, void *stream, ferry_status status, const fry_fault *fault)
{
    fry_launch *self = (fry_launch *)(void *)base;
    ferry_engine *engine = self->pairing->engine;
    fry_device *device = self->pairing->device->device;
    if (status != FERRY_OK) {
        self->fault = *fault;
    } else {
        self->fault = (fry_fault){.rank = -1};
        status = device->ops->event_record(device, stream, &self->event, &self->fault);
        self->fault.status = status;
    }
    fry_store_release(&self->state, status == FERRY_OK ? FRY_LAUNCH_LAUNCHED : FRY_LAUNCH_FAILED);
    fry_launch_wake(engine);
}

static fry_launch *find_free(fry_pairing *pairing)
{
    fry_launch *found = pairing->launches;
    while (state_of(found) != FRY_LAUNCH_FREE)
        found++;
    return found; /* the peer has no more than there are */
}

static void add_item(fry_launch *to, const fry_joint_item *item)
{
    fry_transfer *transfer = (fry_transfer *)(void *)item->message;
    const fry_message_op *op = &transfer->node->op.message;
    transfer->is_in_lot = true;
    to->transfers[to->lot.count] = transfer;
    to->lot.items[to->lot.count++] = (fry_lot_item){.memory = (char *)op->buffer->data + op->offset,
                                                    .size_bytes = item->message->size_bytes,
                                                    .is_send = item->is_send};
}

void fry_launch_lot(void *arg, fry_peer *peer, const fry_joint_lot *what)
{
    fry_turn *turn = arg;
    const fry_route *route = fry_peer_arg(peer);
    fry_pairing *pairing = route->pairing;
    fry_launch *self = find_free(pairing);
    self->pairing = pairing;
    self->number = what->number;
    self->is_flown = false;
    self->lot.count = 0;
    self->lot.launched = is_launched;
    for (uint32_t i = 0; i < what->count; i++)
        add_item(self, &what->items[i]);
    if (pairing->state == FRY_PAIRING_READY && !pairing->is_failing) {
        fry_store_relaxed(&self->state, FRY_LAUNCH_GIVEN);
        fry_pairings_of(turn->engine)->ops->pair_launch(pairing->pair, &self->lot);
        return;
    }
    self->fault = pairing->fault;
    fry_store_relaxed(&self->state, FRY_LAUNCH_FAILED);
    fry_pairings_note(turn);
}

/* ---- standing, and the end ---- */

static fry_launch *launch_of(const fry_node *node)
{
    return (fry_launch *)(void *)((char *)(uintptr_t)node - offsetof(fry_launch, node));
}

static void land(fry_turn *turn, const fry_launch *self, fry_stand stand)
{
    for (uint32_t i = 0; i < self->lot.count; i++) {
        fry_node *node = self->transfers[i]->node;
        if (node != NULL && !self->lot.items[i].is_send && node->state == FRY_NODE_ISSUED &&
            (node->flags & FRY_NODE_FAILING) == 0)
            fry_graph_lands(turn, node, stand);
    }
}

/* It stands in the lane of its event. */
static void stand(fry_turn *turn, fry_launch *self)
{
    fry_node *node = &self->node;
    fry_event event = self->event;
    size_t size_bytes = 0;
    for (uint32_t i = 0; i < self->lot.count; i++)
        size_bytes += self->lot.items[i].size_bytes;
    fry_node_init_own(turn->engine, turn->context, node, FRY_OP_LOT);
    node->op.copy =
        (fry_copy_op){.stand = {event.stream->lane, event.sequence}, .size_bytes = size_bytes};
    fry_store_relaxed(&self->state, FRY_LAUNCH_STANDS);
    fry_live_enter(turn->engine, node);
    fry_live_stamp(turn, node);
    fry_lane_enter_event(turn, node);
    event.stream->device->ops->event_entered(event);
    land(turn, self, node->op.copy.stand);
}

/* Nothing of it uses memory any more. */
static void leave_gpu(const fry_pairing *pairing, fry_launch *self)
{
    for (uint32_t i = 0; i < self->lot.count; i++)
        self->transfers[i]->is_in_lot = false;
    self->is_flown = true;
    fry_slot_give(pairing->wish.of);
}

static void let_go(fry_turn *turn, fry_launch *self)
{
    for (uint32_t i = 0; i < self->lot.count; i++)
        fry_launch_release(turn, &self->transfers[i]->message);
    fry_store_relaxed(&self->state, FRY_LAUNCH_FREE);
    fry_pairings_note(turn);
}

static void lose(fry_turn *turn, fry_pairing *pairing, fry_launch *self)
{
    let_go(turn, self);
    if (pairing->route != NULL)
        fry_peer_joint_lost(fry_pairing_peer(pairing), self->number, turn);
}

/* Its event has fired, and nothing has ended its pair. */
static void fly(fry_turn *turn, fry_pairing *pairing, fry_launch *self)
{
    fry_pairings *pairings = fry_pairings_of(turn->engine);
    leave_gpu(pairing, self);
    pairings->ops->pair_landed(pairing->pair);
    pairing->lots_over++;
    pairing->used_at = ++pairings->uses;
    fry_store_relaxed(&pairing->route->nccl_groups, pairing->route->nccl_groups + 1);
    if (fry_peer_joint_flown(fry_pairing_peer(pairing), self->number, turn))
        let_go(turn, self);
    fry_pairings_note(turn);
    if (pairing->route != NULL) /* its connection may have failed */
        fry_route_launched(turn, pairing->route);
}

void fry_launch_whole(void *arg, fry_peer *peer, uint32_t number)
{
    fry_turn *turn = arg;
    const fry_route *route = fry_peer_arg(peer);
    fry_pairing *pairing = route->pairing;
    for (size_t i = 0; pairing != NULL && i < FRY_JOINT_PLACES; i++) {
        fry_launch *self = &pairing->launches[i];
        if (state_of(self) == FRY_LAUNCH_FIRED && self->is_flown && self->number == number)
            let_go(turn, self);
    }
}

size_t fry_launches_go_on(fry_turn *turn, fry_pairing *pairing)
{
    size_t done = 0;
    for (size_t i = 0; i < FRY_JOINT_PLACES; i++) {
        fry_launch *self = &pairing->launches[i];
        fry_launch_state state = state_of(self);
        if (state == FRY_LAUNCH_LAUNCHED) {
            stand(turn, self);
            done++;
        } else if (state == FRY_LAUNCH_FAILED && !pairing->is_failing) {
            fry_pairing_fail(turn, pairing, &self->fault);
            done++;
        } else if (state == FRY_LAUNCH_FIRED && !self->is_flown && !pairing->is_failing) {
            fly(turn, pairing, self);
            done++;
        }
    }
    return done;
}

/* ---- all of a pairing ---- */

bool fry_launches_have_news(const fry_pairing *pairing)
{
    for (size_t i = 0; i < FRY_JOINT_PLACES; i++) {
        fry_launch_state state = state_of(&pairing->launches[i]);
        if (state == FRY_LAUNCH_LAUNCHED || (!pairing->is_failing && state == FRY_LAUNCH_FAILED))
            return true;
    }
    return false;
}

bool fry_launches_are_none(const fry_pairing *pairing)
{
    for (size_t i = 0; i < FRY_JOINT_PLACES; i++) {
        if (state_of(&pairing->launches[i]) != FRY_LAUNCH_FREE)
            return false;
    }
    return true;
}

bool fry_launches_are_over(const fry_pairing *pairing)
{
    for (size_t i = 0; i < FRY_JOINT_PLACES; i++) {
        fry_launch_state state = state_of(&pairing->launches[i]);
        if (state != FRY_LAUNCH_FREE && state != FRY_LAUNCH_FAILED && state != FRY_LAUNCH_FIRED)
            return false;
    }
    return true;
}

bool fry_launches_are_stuck(const fry_pairing *pairing)
{
    for (size_t i = 0; i < FRY_JOINT_PLACES; i++) {
        const fry_launch *self = &pairing->launches[i];
        if (state_of(self) == FRY_LAUNCH_STANDS && self->node.op.copy.stand.lane->is_lost)
            return true;
    }
    return false;
}

void fry_launches_fail(fry_turn *turn, fry_pairing *pairing)
{
    for (size_t i = 0; i < FRY_JOINT_PLACES; i++) {
        fry_launch *self = &pairing->launches[i];
        bool is_flown = state_of(self) == FRY_LAUNCH_FIRED && self->is_flown;
        for (uint32_t k = 0; state_of(self) != FRY_LAUNCH_FREE && k < self->lot.count; k++) {
            if (!is_flown || !self->lot.items[k].is_send) /* what has left is answered, or not */
                fry_transfer_fail(turn, self->transfers[k], &pairing->fault);
        }
        if (is_flown)
            lose(turn, pairing, self);
    }
}

void fry_launches_drop(fry_turn *turn, fry_pairing *pairing)
{
    for (size_t i = 0; i < FRY_JOINT_PLACES; i++) {
        fry_launch *self = &pairing->launches[i];
        if (state_of(self) == FRY_LAUNCH_FREE)
            continue;
        leave_gpu(pairing, self);
        lose(turn, pairing, self);
    }
}

/* ---- its row ---- */

static bool stop(fry_node *node)
{
    (void)node;
    return true;
}

/* On the loop. A device that is lost may use the messages' memory for ever. */
static void failed(fry_turn *turn, fry_node *node, bool is_under_way)
{
    fry_launch *self = launch_of(node);
    if (is_under_way && node->op.copy.stand.lane->is_lost) {
        for (uint32_t i = 0; i < self->lot.count; i++) {
            if (self->transfers[i]->node != NULL)
                fry_graph_stuck(turn, self->transfers[i]->node);
        }
    }
    fry_fault fault = fry_error_fault(fry_future_root_error(&node->future));
    fry_pairing_fail(turn, self->pairing, &fault);
    fry_pairings_note(turn); /* it may have ended already, and be stuck from now on */
}

static void freed(ferry_engine *engine, fry_node *node)
{
    fry_store_relaxed(&launch_of(node)->state, FRY_LAUNCH_FIRED);
    fry_pairings_of(engine)->has_news = true;
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
    view->reason = FRY_DUMP_DEVICE;
}

const fry_op_kind fry_kind_lot = {
    .traits = FRY_KIND_ON_STREAM | FRY_KIND_STAYS,
    .stop = stop,
    .failed = failed,
    .free = freed,
    .moved_bytes = moved_bytes,
    .describe = describe,
};
