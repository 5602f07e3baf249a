/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a pairing. The member with the lower rank leads:
 *
 *     wanted ──► OPEN ──► NAMING ──► MAKING ──► READY ──► ENDING ──► ENDED ──► gone
 *        (the role)    (leader)                            (fails)
 *
 * The leader's is wanted by messages that wait for a lot, the follower's by the leader's word, with
 * the token. The role opens one at a time (fry_pairings_work). It ends because the transport fails,
 * because a message in a lot is cancelled or late, because the other end's ends, or with the
 * connection. Both ends say when theirs has ended; the next one of the route begins after that,
 * with another generation.
 *
 * *Lots.* A lot is given to the module, which launches it on a thread of its own, and records an
 * event behind it. The loop then puts a node in the lane where that event stands: the lot is over
 * when the node is, and its receives stand there, too. So copies and the program's streams wait for
 * receives on the device.
 *
 * *Quiet.* transfer->copies counts the lots that a message is in, from before they are agreed. If
 * all goes well it is counted down when the lot's event has fired. If not, when this end's pair has
 * ended, and the other end says the same, or is gone: a GPU of either may use the memory until
 * then.
 *
 * A pair that can't be made turns its connection off (fry_peer_pair_off), and the log says why.
 */
#include "engine/messages/pairing.h"

#include "engine/graph/buffer.h"
#include "engine/graph/graph.h"
#include "engine/graph/lane.h"
#include "engine/graph/live.h"
#include "engine/graph/node.h"
#include "engine/ground/ground.h"
#include "engine/messages/members.h"
#include "engine/messages/message.h"
#include "engine/messages/route.h"
#include "engine/messages/transfer.h"

#include <stdio.h>
#include <string.h>

typedef enum pairing_state {
    PAIRING_OPEN = 0,
    PAIRING_NAMING, /* leader: the token is made */
    PAIRING_MAKING,
    PAIRING_READY,
    PAIRING_ENDING, /* the pair is asked to end */
    PAIRING_ENDED,  /* the other end has yet to say the same */
} pairing_state;

typedef enum lot_state {
    LOT_FREE = 0,
    LOT_GIVEN,    /* to the module */
    LOT_LAUNCHED, /* by it; the event is recorded */
    LOT_FAILED,   /* not launched, or without an event */
    LOT_STANDS,   /* its node is in the graph */
    LOT_FIRED,    /* and is over */
} lot_state;

typedef struct lot {
    fry_lot lot;   /* first */
    fry_node node; /* STANDS */
    fry_pairing *pairing;
    uint32_t state;  /* atomic, lot_state; the module's thread sets it while GIVEN */
    uint32_t number; /* net/peer/joint.h */
    fry_transfer *transfers[FRY_LOT_MOST];
    fry_event event;
    fry_fault fault;
} lot;

struct fry_pairing {
    fry_route *route; /* NULL: its connection is over */
    ferry_device *device;
    ferry_engine *engine;
    fry_pair *pair;
    uint8_t state; /* pairing_state */
    bool is_leader;
    uint64_t waits_since; /* the number of its refusal, for want of a slot; 0: it does not wait */
    bool is_failing;      /* it is to end, or does */
    bool is_end_heard;    /* the other end's END: it is not told */
    bool is_ended_there;  /* the other end has ended its pair, or is gone */
    fry_pair_note note;   /* generation; the token, too, once it is known */
    fry_fault fault;      /* why it ends */
    LIST_ENTRY(fry_pairing) entry;
    lot lots[FRY_JOINT_PLACES];
};

static fry_pairings *pairings_of(const ferry_engine *engine)
{
    return &engine->members->pairings;
}

static fry_peer *peer_of(const fry_pairing *pairing)
{
    return fry_route_made_peer(pairing->route);
}

/* Pairs with is_launched. */
static lot_state state_of(const lot *self)
{
    return (lot_state)fry_load_acquire(&self->state);
}

static void has_news(fry_turn *turn)
{
    pairings_of(turn->engine)->has_news = true;
    turn->wake = true;
}

/* ---- devices ---- */

static bool make_current(void *arg)
{
    fry_device *device = arg;
    return device->ops->native_enter(device);
}

static void *open_stream(void *arg, fry_fault *fault)
{
    fry_device *device = arg;
    void *stream = NULL;
    return device->ops->native_stream_open(device, &stream, fault) == FERRY_OK ? stream : NULL;
}

static bool is_stream_idle(void *arg, void *stream)
{
    fry_device *device = arg;
    return device->ops->native_stream_is_idle(device, stream);
}

static void close_stream(void *arg, void *stream)
{
    fry_device *device = arg;
    device->ops->native_stream_close(device, stream);
}

bool fry_pairing_takes(fry_route *route, const ferry_device *device)
{
    const ferry_device *first = NULL;
    if (!route->can_pair || device->device->ops->native_enter == NULL)
        return false;
    return fry_load_relaxed(&route->pair_device) == device ||
           fry_cas(&route->pair_device, &first, device) || first == device;
}

static const ferry_device *device_of(const fry_route *route)
{
    return fry_load_relaxed(&route->pair_device);
}

/* How many of its slots are in use. */
static uint8_t *slots_of(const ferry_device *device)
{
    return &pairings_of(device->engine)->slots_used[device->device->index];
}

/* ---- lots: launching ---- */

/* On the module's threads, like is_launched. */
static void wake(void *engine)
{
    fry_fence(); /* pairs with the fence in fry_arm: the loop looks before it sleeps */
    fry_wake(engine);
}

static void is_launched(fry_lot *base, void *stream, ferry_status status, const fry_fault *fault)
{
    lot *self = (lot *)(void *)base;
    ferry_engine *engine = self->pairing->engine;
    fry_device *device = self->pairing->device->device;
    if (status != FERRY_OK) {
        self->fault = *fault;
    } else {
        self->fault = (fry_fault){.rank = -1};
        status = device->ops->event_record(device, stream, &self->event, &self->fault);
        self->fault.status = status;
    }
    fry_store_release(&self->state, status == FERRY_OK ? LOT_LAUNCHED : LOT_FAILED);
    wake(engine);
}

static lot *free_lot(fry_pairing *pairing)
{
    lot *found = pairing->lots;
    while (state_of(found) != LOT_FREE)
        found++;
    return found; /* the peer has no more than there are */
}

static void add_item(lot *to, const fry_joint_item *item)
{
    fry_transfer *transfer = (fry_transfer *)(void *)item->message;
    const fry_message_op *op = &transfer->node->op.message;
    transfer->is_in_lot = true;
    to->transfers[to->lot.count] = transfer;
    to->lot.items[to->lot.count++] = (fry_lot_item){.memory = (char *)op->buffer->data + op->offset,
                                                    .size_bytes = item->message->size_bytes,
                                                    .is_send = item->is_send};
}

void fry_pairing_launch(void *arg, fry_peer *peer, const fry_joint_lot *what)
{
    fry_turn *turn = arg;
    fry_pairing *pairing = ((fry_route *)fry_peer_arg(peer))->pairing;
    if (pairing == NULL) { /* the other end has said that it has none, and now that it goes */
        for (uint32_t i = 0; i < what->count; i++)
            fry_pairing_release(turn, what->items[i].message);
        fry_pairing_dismiss(turn, peer);
        return;
    }
    lot *self = free_lot(pairing);
    self->pairing = pairing;
    self->number = what->number;
    self->lot.count = 0;
    self->lot.launched = is_launched;
    for (uint32_t i = 0; i < what->count; i++)
        add_item(self, &what->items[i]);
    if (pairing->state == PAIRING_READY && !pairing->is_failing) {
        fry_store_relaxed(&self->state, LOT_GIVEN);
        pairings_of(turn->engine)->ops->pair_launch(pairing->pair, &self->lot);
        return;
    }
    self->fault = pairing->fault;
    fry_store_relaxed(&self->state, LOT_FAILED);
    has_news(turn);
}

/* ---- lots: standing, and their end ---- */

static lot *lot_of(const fry_node *node)
{
    return (lot *)(void *)((char *)(uintptr_t)node - offsetof(lot, node));
}

static void fail(fry_turn *turn, fry_pairing *pairing, const fry_fault *fault)
{
    if (pairing->is_failing)
        return;
    pairing->is_failing = true;
    pairing->fault = *fault;
    if (pairing->route != NULL)
        pairing->fault.rank = (int32_t)pairing->route->rank;
    has_news(turn);
}

static void land(fry_turn *turn, const lot *self, fry_stand stand)
{
    for (uint32_t i = 0; i < self->lot.count; i++) {
        fry_node *node = self->transfers[i]->node;
        if (node != NULL && !self->lot.items[i].is_send && node->state == FRY_NODE_ISSUED &&
            (node->flags & FRY_NODE_FAILING) == 0)
            fry_graph_lands(turn, node, stand);
    }
}

/* It stands in the lane of its event. */
static void stand(fry_turn *turn, lot *self)
{
    fry_node *node = &self->node;
    fry_event event = self->event;
    size_t size_bytes = 0;
    for (uint32_t i = 0; i < self->lot.count; i++)
        size_bytes += self->lot.items[i].size_bytes;
    fry_node_init_own(turn->engine, turn->context, node, FRY_OP_LOT);
    node->op.copy =
        (fry_copy_op){.stand = {event.stream->lane, event.sequence}, .size_bytes = size_bytes};
    fry_store_relaxed(&self->state, LOT_STANDS);
    fry_live_enter(turn->engine, node);
    fry_live_stamp(turn, node);
    fry_lane_enter_event(turn, node);
    event.stream->device->ops->event_entered(event);
    land(turn, self, node->op.copy.stand);
}

/* Nothing of it uses memory any more. */
static void end_lot(fry_turn *turn, fry_pairing *pairing, lot *self, bool is_whole)
{
    bool was_launched = state_of(self) == LOT_FIRED;
    for (uint32_t i = 0; i < self->lot.count; i++) {
        self->transfers[i]->is_in_lot = false;
        fry_pairing_release(turn, &self->transfers[i]->message);
    }
    fry_store_relaxed(&self->state, LOT_FREE);
    const fry_pairings *pairings = pairings_of(turn->engine);
    --*slots_of(pairing->device);
    if (was_launched && pairing->state == PAIRING_READY)
        pairings->ops->pair_landed(pairing->pair);
    if (pairing->route != NULL)
        fry_peer_joint_landed(peer_of(pairing), self->number, is_whole, turn);
    has_news(turn); /* others may be admitted */
}

static size_t lots_go_on(fry_turn *turn, fry_pairing *pairing)
{
    size_t done = 0;
    for (size_t i = 0; i < FRY_JOINT_PLACES; i++) {
        lot *self = &pairing->lots[i];
        lot_state state = state_of(self);
        if (state == LOT_LAUNCHED) {
            stand(turn, self);
            done++;
        } else if (state == LOT_FAILED && !pairing->is_failing) {
            fail(turn, pairing, &self->fault);
            done++;
        } else if (state == LOT_FIRED && !pairing->is_failing) {
            end_lot(turn, pairing, self, true);
            if (pairing->route != NULL)
                fry_route_launched(turn, pairing->route);
            done++;
        }
    }
    return done;
}

/* ---- holding ---- */

void fry_pairing_hold(void *turn, fry_message *message)
{
    (void)turn;
    ((fry_transfer *)(void *)message)->copies++;
}

void fry_pairing_release(void *turn, fry_message *message)
{
    fry_transfer *transfer = (fry_transfer *)(void *)message;
    transfer->copies--;
    fry_transfer_copies_are_over(turn, transfer);
}

/* ---- admission ---- */

static bool has_slot(const fry_pairing *pairing)
{
    return *slots_of(pairing->device) < pairing->engine->options.nccl_slots;
}

bool fry_pairing_admit(void *arg, fry_peer *peer)
{
    fry_turn *turn = arg;
    const fry_route *route = fry_peer_arg(peer);
    fry_pairings *pairings = pairings_of(turn->engine);
    fry_pairing *pairing = route->pairing;
    if (pairing == NULL || pairing->state != PAIRING_READY || pairing->is_failing)
        return false;
    if (has_slot(pairing)) {
        ++*slots_of(pairing->device);
        return true;
    }
    if (pairing->waits_since == 0)
        pairing->waits_since = ++pairings->waited;
    return false;
}

void fry_pairing_dismiss(void *arg, fry_peer *peer)
{
    fry_turn *turn = arg;
    const fry_route *route = fry_peer_arg(peer);
    --*slots_of(device_of(route));
    has_news(turn);
}

/* The one that has waited for the longest time, and need not any more. */
static fry_pairing *oldest_waiting(fry_pairings *pairings)
{
    fry_pairing *pairing, *oldest = NULL;
    LIST_FOREACH(pairing, &pairings->all, entry) {
        if (pairing->waits_since != 0 && pairing->route != NULL &&
            pairing->state == PAIRING_READY && !pairing->is_failing && has_slot(pairing) &&
            (oldest == NULL || pairing->waits_since < oldest->waits_since))
            oldest = pairing;
    }
    return oldest;
}

/* There may be slots again. */
static size_t ask_waiting(fry_turn *turn, fry_pairings *pairings)
{
    size_t done = 0;
    fry_pairing *pairing;
    while ((pairing = oldest_waiting(pairings)) != NULL) {
        pairing->waits_since = 0;
        fry_peer_joint_go_on(peer_of(pairing), turn);
        fry_route_launched(turn, pairing->route);
        done++;
    }
    return done;
}

/* ---- beginning ---- */

static void want(fry_turn *turn, fry_route *route)
{
    fry_pairings *pairings = pairings_of(turn->engine);
    if (!route->pair_is_wanted)
        TAILQ_INSERT_TAIL(&pairings->wanted, route, pair_wanted);
    route->pair_is_wanted = true;
    has_news(turn);
}

static void want_no_more(fry_pairings *pairings, fry_route *route)
{
    if (route->pair_is_wanted)
        TAILQ_REMOVE(&pairings->wanted, route, pair_wanted);
    route->pair_is_wanted = false;
}

void fry_pairing_wanted(void *turn, fry_peer *peer)
{
    fry_route *route = fry_peer_arg(peer);
    route->pair_note = (fry_pair_note){.generation = ++route->pair_generation};
    want(turn, route);
}

/* There is no pair for this connection. */
static void go_without(fry_turn *turn, fry_route *route, const char *why)
{
    fry_log_line(&turn->engine->log, FERRY_LOG_WARNING,
                 "member %u: GPU memory goes another way than NCCL, because %s", route->rank, why);
    fry_peer_pair_off(fry_route_made_peer(route), turn);
    fry_route_launched(turn, route);
}

/* The first that is wanted and whose last one is gone. The role has nothing to do. */
static void begin_next(fry_turn *turn, fry_pairings *pairings)
{
    fry_route *route, *next;
    TAILQ_FOREACH_SAFE(route, &pairings->wanted, pair_wanted, next) {
        if (route->pairing != NULL)
            continue;
        if (device_of(route) == NULL) { /* the leader's word came before any message here */
            want_no_more(pairings, route);
            go_without(turn, route, "no GPU of this member sends to it or receives from it");
            continue;
        }
        pairings->job = (fry_pairing_job){.state = FRY_PAIRING_ASKED,
                                          .route = route,
                                          .device = (ferry_device *)(uintptr_t)device_of(route),
                                          .is_leader = fry_peer_leads(fry_route_made_peer(route))};
        return;
    }
}

/* The role has opened one, or could not. */
static void adopt(fry_turn *turn, fry_pairings *pairings)
{
    fry_pairing_job job = pairings->job;
    fry_pairing *pairing = job.pairing;
    fry_route *route = job.route;
    pairings->job.state = FRY_PAIRING_IDLE;
    bool is_wanted = route != NULL && route->pair_is_wanted && route->pairing == NULL;
    const char *why = pairing == NULL ? pairings->reason : NULL;
    if (is_wanted && why == NULL && !job.is_leader && route->pair_note.version != pairings->version)
        why = "it has another version of NCCL";
    if (is_wanted)
        want_no_more(pairings, route);
    if (pairing != NULL && (!is_wanted || why != NULL)) {
        pairings->ops->pair_close(pairing->pair);
        fry_free(&turn->engine->memory, pairing, sizeof *pairing);
        pairing = NULL;
    }
    if (is_wanted && why != NULL)
        go_without(turn, route, why);
    if (pairing == NULL)
        return;
    pairing->engine = turn->engine;
    pairing->route = route;
    pairing->device = job.device;
    pairing->is_leader = job.is_leader;
    pairing->note = route->pair_note;
    pairing->note.version = pairings->version;
    pairing->fault.rank = -1;
    route->pairing = pairing;
    LIST_INSERT_HEAD(&pairings->all, pairing, entry);
    pairings->count++;
}

/* ---- words ---- */

static void say(fry_turn *turn, fry_pairing *pairing, fry_pair_word word)
{
    if (pairing->route == NULL)
        return;
    fry_peer_pair_say(peer_of(pairing), word, &pairing->note, turn);
    fry_route_launched(turn, pairing->route);
}

void fry_pairing_heard(void *arg, fry_peer *peer, fry_pair_word word, const fry_pair_note *note)
{
    fry_turn *turn = arg;
    fry_route *route = fry_peer_arg(peer);
    fry_pairing *pairing = route->pairing;
    static const fry_fault ended = {.status = FERRY_E_PEER,
                                    .message = "the other end has ended the communicator"};
    bool is_this = pairing != NULL && pairing->note.generation == note->generation;
    if (word == FRY_PAIR_MAKE) {
        route->pair_note = *note;
        want(turn, route);
    } else if (is_this) {
        pairing->is_end_heard = true;
        pairing->is_ended_there |= word == FRY_PAIR_HAS_ENDED;
        fail(turn, pairing, &ended);
        has_news(turn);
    } else if (word == FRY_PAIR_END) { /* nothing of it is here, and nothing will be */
        if (route->pair_is_wanted && route->pair_note.generation == note->generation)
            want_no_more(pairings_of(turn->engine), route);
        fry_peer_pair_say(peer, FRY_PAIR_HAS_ENDED, note, turn);
    }
}

/* ---- ending ---- */

static void fail_messages(fry_turn *turn, fry_pairing *pairing)
{
    for (size_t i = 0; i < FRY_JOINT_PLACES; i++) {
        const lot *self = &pairing->lots[i];
        for (uint32_t k = 0; state_of(self) != LOT_FREE && k < self->lot.count; k++)
            fry_transfer_fail(turn, self->transfers[k], &pairing->fault);
    }
}

static void end(fry_turn *turn, fry_pairing *pairing)
{
    bool was_ready = pairing->state == PAIRING_READY;
    pairing->state = PAIRING_ENDING;
    pairings_of(turn->engine)->ops->pair_end(pairing->pair);
    if (!pairing->is_end_heard)
        say(turn, pairing, FRY_PAIR_END);
    if (pairing->route != NULL && was_ready)
        fry_peer_pair_ready(peer_of(pairing), false, turn);
    else if (pairing->route != NULL)
        go_without(turn, pairing->route, pairing->fault.message);
    fail_messages(turn, pairing);
}

/* Whether nothing of it uses memory any more, here or there. */
static bool is_over(const fry_pairing *pairing)
{
    if (pairing->state != PAIRING_ENDED || !pairing->is_ended_there)
        return false;
    for (size_t i = 0; i < FRY_JOINT_PLACES; i++) {
        lot_state state = state_of(&pairing->lots[i]);
        if (state != LOT_FREE && state != LOT_FAILED && state != LOT_FIRED)
            return false;
    }
    return true;
}

static void leave(fry_turn *turn, fry_pairing *pairing)
{
    fry_pairings *pairings = pairings_of(turn->engine);
    for (size_t i = 0; i < FRY_JOINT_PLACES; i++) {
        if (state_of(&pairing->lots[i]) != LOT_FREE)
            end_lot(turn, pairing, &pairing->lots[i], false);
    }
    pairings->ops->pair_close(pairing->pair);
    LIST_REMOVE(pairing, entry);
    pairings->count--;
    if (pairing->route != NULL)
        pairing->route->pairing = NULL;
    fry_free(&turn->engine->memory, pairing, sizeof *pairing);
    has_news(turn);
}

void fry_pairing_failed(fry_turn *turn, const fry_transfer *transfer)
{
    static const fry_fault fault = {
        .status = FERRY_E_PEER,
        .message = "a message that was launched together with it was cancelled, late or failed"};
    if (transfer->is_in_lot && transfer->route->pairing != NULL)
        fail(turn, transfer->route->pairing, &fault);
}

void fry_pairing_unpaired(void *arg, fry_peer *peer)
{
    fry_turn *turn = arg;
    fry_route *route = fry_peer_arg(peer);
    fry_pairing *pairing = route->pairing;
    fry_pairings *pairings = pairings_of(turn->engine);
    want_no_more(pairings, route);
    if (pairings->job.route == route) /* which may be gone when the role has opened it */
        pairings->job.route = NULL;
    route->pairing = NULL;
    if (pairing == NULL)
        return;
    static const fry_fault fault = {.status = FERRY_E_PEER, .message = "it has no communicator"};
    fail(turn, pairing, &fault);
    pairing->route = NULL;
    pairing->is_ended_there = true; /* or it will never say */
    has_news(turn);
}

/* ---- steps ---- */

static void is_named(fry_turn *turn, fry_pairing *pairing)
{
    const fry_pairs_ops *ops = pairings_of(turn->engine)->ops;
    memcpy(pairing->note.token, ops->pair_token(pairing->pair), FRY_PAIR_TOKEN_BYTES);
    ops->pair_make(pairing->pair, NULL);
    pairing->state = PAIRING_MAKING;
    say(turn, pairing, FRY_PAIR_MAKE);
}

static void is_ready(fry_turn *turn, fry_pairing *pairing)
{
    pairing->state = PAIRING_READY;
    fry_peer_pair_ready(peer_of(pairing), true, turn);
    fry_route_launched(turn, pairing->route);
}

static void start(fry_turn *turn, fry_pairing *pairing)
{
    const fry_pairs_ops *ops = pairings_of(turn->engine)->ops;
    if (pairing->is_leader)
        ops->pair_make_token(pairing->pair);
    else
        ops->pair_make(pairing->pair, pairing->note.token);
    pairing->state = pairing->is_leader ? PAIRING_NAMING : PAIRING_MAKING;
}

/* Goes on as the module says, if it does. */
static size_t go_on(fry_turn *turn, fry_pairing *pairing)
{
    const fry_pairs_ops *ops = pairings_of(turn->engine)->ops;
    fry_pair_state now = ops->pair_state(pairing->pair);
    if (now == FRY_PAIR_FAILED && !pairing->is_failing) {
        fry_fault fault;
        ops->pair_fault(pairing->pair, &fault);
        fail(turn, pairing, &fault);
    }
    if (pairing->is_failing && pairing->state < PAIRING_ENDING)
        end(turn, pairing);
    else if (pairing->state == PAIRING_OPEN)
        start(turn, pairing);
    else if (pairing->state == PAIRING_NAMING && now == FRY_PAIR_TOKEN)
        is_named(turn, pairing);
    else if (pairing->state == PAIRING_MAKING && now == FRY_PAIR_READY)
        is_ready(turn, pairing);
    else if (pairing->state == PAIRING_ENDING && now == FRY_PAIR_ENDED)
        pairing->state = PAIRING_ENDED, say(turn, pairing, FRY_PAIR_HAS_ENDED);
    else
        return 0;
    return 1;
}

size_t fry_pairings_turn(fry_turn *turn, fry_members *members)
{
    fry_pairings *pairings = &members->pairings;
    size_t done = 0;
    fry_pairing *pairing, *next;
    pairings->has_news = false;
    if (pairings->job.state == FRY_PAIRING_DONE) {
        adopt(turn, pairings);
        done++;
    }
    if (pairings->job.state == FRY_PAIRING_IDLE && !TAILQ_EMPTY(&pairings->wanted)) {
        begin_next(turn, pairings);
        done += pairings->job.state == FRY_PAIRING_ASKED;
    }
    LIST_FOREACH_SAFE(pairing, &pairings->all, entry, next) {
        done += lots_go_on(turn, pairing) + go_on(turn, pairing);
        if (is_over(pairing)) {
            leave(turn, pairing);
            done++;
        }
    }
    return done + ask_waiting(turn, pairings);
}

bool fry_pairings_have_work(const fry_pairings *pairings)
{
    return pairings->has_news || pairings->count != 0 || pairings->job.state != FRY_PAIRING_IDLE;
}

bool fry_pairings_must_not_sleep(const fry_pairings *pairings)
{
    if (pairings->has_news || pairings->job.state != FRY_PAIRING_IDLE)
        return true;
    const fry_pairing *pairing;
    LIST_FOREACH(pairing, &pairings->all, entry) {
        fry_pair_state now = pairings->ops->pair_state(pairing->pair);
        if ((now == FRY_PAIR_FAILED && !pairing->is_failing) ||
            (pairing->state == PAIRING_NAMING && now == FRY_PAIR_TOKEN) ||
            (pairing->state == PAIRING_MAKING && now == FRY_PAIR_READY) ||
            (pairing->state == PAIRING_ENDING && now == FRY_PAIR_ENDED))
            return true;
        for (size_t i = 0; i < FRY_JOINT_PLACES; i++) {
            lot_state state = state_of(&pairing->lots[i]);
            if (state == LOT_LAUNCHED || (!pairing->is_failing && state == LOT_FAILED))
                return true;
        }
    }
    return false;
}

/* ---- the role ---- */

static void find_transport(ferry_engine *engine, fry_pairings *pairings)
{
    const char *reason = "";
    pairings->has_tried = true;
    const fry_pairs_ops *ops = fry_pairs_find("nccl", &reason);
    pairings->version = ops != NULL ? ops->probe(&reason) : 0;
    const fry_pairs_options options = {
        .notify = {wake, engine}, .log = &engine->log, .pairs_most = FRY_PAIRINGS_MOST};
    if (pairings->version != 0 &&
        ops->open(&engine->memory, &options, &pairings->pairs) == FERRY_OK)
        pairings->ops = ops;
    (void)snprintf(pairings->reason, sizeof pairings->reason, "%s", reason);
}

static fry_pairing *make(ferry_engine *engine, fry_pairings *pairings)
{
    const fry_pairing_job *job = &pairings->job;
    const fry_pair_device device = {.arg = job->device->device,
                                    .make_current = make_current,
                                    .open_stream = open_stream,
                                    .is_stream_idle = is_stream_idle,
                                    .close_stream = close_stream};
    fry_pairing *pairing = fry_alloc(&engine->memory, sizeof *pairing, _Alignof(fry_pairing));
    (void)snprintf(pairings->reason, sizeof pairings->reason,
                   "16 others use it, or there is no memory");
    if (pairing == NULL)
        return NULL;
    pairing->pair = pairings->ops->pair_open(pairings->pairs, &device, job->is_leader);
    if (pairing->pair != NULL)
        return pairing;
    fry_free(&engine->memory, pairing, sizeof *pairing);
    return NULL;
}

size_t fry_pairings_work(fry_members *members)
{
    fry_pairings *pairings = &members->pairings;
    if (fry_likely(pairings->job.state != FRY_PAIRING_ASKED))
        return 0;
    if (!pairings->has_tried)
        find_transport(members->engine, pairings);
    pairings->job.pairing = pairings->ops != NULL ? make(members->engine, pairings) : NULL;
    pairings->job.state = FRY_PAIRING_DONE;
    return 1;
}

void fry_pairings_free(fry_pairings *pairings)
{
    if (pairings->pairs != NULL && pairings->count == 0)
        pairings->ops->close(pairings->pairs);
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
    lot *self = lot_of(node);
    if (is_under_way && node->op.copy.stand.lane->is_lost) {
        for (uint32_t i = 0; i < self->lot.count; i++) {
            if (self->transfers[i]->node != NULL)
                fry_graph_stuck(turn, self->transfers[i]->node);
        }
    }
    fry_fault fault = fry_error_fault(fry_future_root_error(&node->future));
    fail(turn, self->pairing, &fault);
}

static void freed(ferry_engine *engine, fry_node *node)
{
    fry_store_relaxed(&lot_of(node)->state, LOT_FIRED);
    pairings_of(engine)->has_news = true;
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
