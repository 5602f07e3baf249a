/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joint messages. What launches of one order at both ends need: that the ends agree on the order,
 * and that none of them stands on its GPU and waits for an end that will not come. The member with
 * the lower rank leads.
 *
 *      follower                                     leader
 *      OFFER, its receive is ready           ─►     a message both ends of which are ready, like a
 *                                                   receive of its own whose message has come
 *                                            ◄─     LOT: some of those, as one
 *      GO: these of them; it launches them   ─►     launches the same
 *      or BUSY: none, now                    ─►     takes the lot back, and waits
 *      NUDGE, when it could                  ─►     asks again
 *
 * *Nobody waits on a GPU for an end that may not come.* The engine admits each lot, by slots of its
 * GPU. The leader asks for one before it proposes, and gives it back on BUSY, at once. The follower
 * asks before it says GO, and launches with GO. So a lot that stands on one GPU is launched on the
 * other, too, within a round trip, or the connection fails: whoever holds a slot waits for nothing
 * but a message that is on its way, and as the lower rank leads, refusals can't go round for ever:
 * admission.pml.
 *
 * *Both ends mean the same messages.* A lot names launches, by slot and number. The follower takes
 * those of them that still go on, and says which; the leader launches just these, also if one has
 * been withdrawn since. So what a lot may use is held from before LOT or GO until the lot is over:
 * the engine counts it (hold), and a message that is held is not quiet. Withdrawing ends a
 * message's future as ever, and takes it out of the lots to come.
 *
 * *Why OK means the right bytes.* A communicator that is ended ends its kernels, and not only its
 * own: NCCL's go on without copying, and post their steps all the same, so the other end's kernel
 * takes for bytes what was there before, and ends in good order. The memory between the two may be
 * gone by then, too. So a receive has its bytes when its kernel is over and the sender's pair was
 * in order after that:
 *
 *      its kernel is over: FLOWN             ─►     if this end has not ended its pair
 *      the receive ends well                 ◄─     WHOLE
 *
 * An end whose pair is ended does not answer; UNPAIR, or the connection's end, fails what waits. A
 * word that the sender said by itself, when its own kernel is over, would not do: flown.pml.
 *
 * *Order.* GO comes before the launch, and the leader launches lots in the order in which they were
 * answered; the follower answers in the order of their numbers. Two lots may be agreed at once, so
 * that a GPU has the next one when it is done with one. A channel may bring headers in another
 * order than they were sent in: LOTs wait for those before them, and GOs too.
 *
 * What is due and finds no control is noted and said in the next progress. The leader proposes at
 * the end of a progress, so that what becomes ready together goes together.
 */
#include "net/peer/joint.h"

#include "base/lf.h"
#include "net/peer/ask.h"
#include "net/peer/connection.h"
#include "net/peer/match.h"
#include "net/peer/serve.h"
#include "net/peer/state.h"
#include "net/peer/wire.h"

#include <string.h>

/*
 * There is no pair: no receive waits for a lot any more, they come in pieces. Those that are in
 * lots go on, or come here again.
 */
static void go_alone(fry_peer_connection *connection)
{
    const fry_peer *peer = connection->peer;
    connection->joint->is_ready = false;
    while (connection->joint->first != NULL)
        fry_lots_unlist(connection, connection->joint->first, FRY_JOIN_OFFERED);
    for (const fry_message *message = peer->open.open_next; message != &peer->open;
         message = message->open_next) {
        if (message->is_send || (message->flags & FRY_MESSAGE_IN_PIECES) == 0)
            continue;
        fry_record *record = connection->by_slot[message->number];
        if (record->join != FRY_JOIN_OFFERED)
            continue;
        record->join = FRY_JOIN_NOT;
        fry_ask_instead(connection, record);
    }
    fry_ask_go_on(connection);
}

/* ---- the leader hears ---- */

/* The lot's messages wait again, before the others, as far as they go on. */
static void take_back(fry_peer_connection *connection, fry_joint_lot *lot)
{
    fry_joint *joint = connection->joint;
    fry_message *first = joint->first, *last = joint->last;
    joint->first = joint->last = NULL;
    for (uint32_t i = 0; i < lot->count; i++) {
        if (fry_lot_has(connection, &lot->items[i]))
            fry_lots_list(connection, lot->items[i].message);
    }
    if (first != NULL && joint->first != NULL) {
        joint->last->next = first;
        first->previous = joint->last;
        joint->last = last;
    } else if (first != NULL) {
        joint->first = first;
        joint->last = last;
    }
    fry_lot_drop(connection, lot);
}

/* Lots are launched in the order of their numbers, whichever is answered first. */
static bool is_next(fry_joint *joint, const fry_joint_lot *lot)
{
    for (size_t i = 0; i < FRY_JOINT_PLACES; i++) {
        const fry_joint_lot *other = &joint->lots[i];
        if ((other->state == FRY_JOINT_PROPOSED || other->state == FRY_JOINT_ANSWERED) &&
            (int32_t)(other->number - lot->number) < 0)
            return false;
    }
    return true;
}

static void go_as_answered(fry_peer_connection *connection, fry_joint_lot *lot)
{
    bool has_some = false;
    for (uint32_t i = 0; i < lot->count; i++)
        has_some |= lot->items[i].is_taken;
    if (has_some)
        fry_lot_launch(connection, lot);
    else
        fry_lot_drop(connection, lot);
}

static void is_answered(fry_peer_connection *connection)
{
    fry_joint *joint = connection->joint;
    for (size_t i = 0; i < FRY_JOINT_PLACES; i++) {
        fry_joint_lot *lot = &joint->lots[i];
        if (lot->state != FRY_JOINT_ANSWERED || !is_next(joint, lot))
            continue;
        if (joint->is_ready)
            go_as_answered(connection, lot);
        else /* the pair has ended since, and with it what the other end has launched */
            take_back(connection, lot);
        i = (size_t)-1; /* the other one may be next */
    }
    if (joint->is_off)
        go_alone(connection);
    else
        fry_lots_propose(connection);
}

static bool hear_go(fry_peer_connection *connection, uint32_t number, uint64_t taken)
{
    fry_joint_lot *lot = fry_lot_find(connection->joint, FRY_JOINT_PROPOSED, number);
    if (lot == NULL || (lot->count < 64 && taken >> lot->count != 0))
        return false;
    for (uint32_t i = 0; i < lot->count; i++)
        lot->items[i].is_taken = (taken >> i & 1) != 0;
    lot->state = FRY_JOINT_ANSWERED;
    is_answered(connection);
    return true;
}

/* A nudge that is newer than a refusal may come before it. */
static bool hear_busy(fry_peer_connection *connection, uint32_t number)
{
    fry_joint *joint = connection->joint;
    fry_joint_lot *lot = fry_lot_find(joint, FRY_JOINT_PROPOSED, number);
    if (lot == NULL)
        return false;
    joint->is_refused |= (int32_t)(number - joint->nudged) > 0;
    take_back(connection, lot);
    is_answered(connection);
    return true;
}

static bool hear_nudge(fry_peer_connection *connection, uint32_t number)
{
    fry_joint *joint = connection->joint;
    if ((int32_t)(number - joint->next_lot) >= 0 || (int32_t)(number - joint->nudged) <= 0)
        return false;
    joint->nudged = number;
    joint->is_refused = false;
    fry_lots_propose(connection);
    return true;
}

/* ---- the follower answers ---- */

/* The message of a launch that a lot names, if it goes on and can join. */
static fry_message *message_of(fry_peer_connection *connection, const fry_joint_item *item)
{
    if (item->is_send) {
        fry_message *message = fry_serve_message(connection, item->slot, item->number);
        return message != NULL && fry_lots_can_join(connection, message) ? message : NULL;
    }
    const fry_record *record = connection->by_slot[item->slot];
    bool is_offered = record != NULL && record->number == item->number && record->receive != NULL &&
                      record->join == FRY_JOIN_OFFERED;
    return is_offered ? record->receive : NULL;
}

static void say_number(fry_peer_connection *connection, fry_wire_kind kind, uint32_t number)
{
    const fry_wire_header header = {.kind = (uint8_t)kind, .number = number};
    (void)fry_connection_send(connection, &header);
}

static void refuse(fry_peer_connection *connection, fry_joint_lot *lot)
{
    fry_joint *joint = connection->joint;
    lot->state = FRY_JOINT_FREE;
    joint->owes_nudge = true;
    joint->nudge = lot->number;
    say_number(connection, FRY_WIRE_BUSY, lot->number);
}

/* There is a control. */
static void answer(fry_peer_connection *connection, fry_joint_lot *lot)
{
    fry_joint *joint = connection->joint;
    fry_peer *peer = connection->peer;
    joint->next_lot++;
    if (!joint->is_ready || !peer->options.events->admit(peer->turn, peer)) {
        refuse(connection, lot);
        return;
    }
    fry_wire_header header = {.kind = FRY_WIRE_GO, .number = lot->number};
    uint32_t held = 0;
    for (uint32_t i = 0; i < lot->count; i++) {
        fry_joint_item item = lot->items[i];
        item.message = message_of(connection, &item);
        if (item.message == NULL)
            continue;
        item.is_taken = true;
        *fry_lots_join_of(connection, item.message) = FRY_JOIN_IN_LOT;
        header.offset |= UINT64_C(1) << i;
        peer->options.events->hold(peer->turn, item.message);
        lot->items[held++] = item;
    }
    lot->count = held;
    (void)fry_connection_send(connection, &header);
    go_as_answered(connection, lot);
}

/* The leader may know of the end of lots before this end does. */
static fry_joint_lot *next_heard(fry_joint *joint)
{
    return fry_lots_have_room(joint) ? fry_lot_find(joint, FRY_JOINT_HEARD, joint->next_lot) : NULL;
}

/* Answers lots in their order. */
static void answer_heard(fry_peer_connection *connection)
{
    fry_joint_lot *lot;
    while (fry_connection_is_live(connection) && connection->controls_free != NULL &&
           (lot = next_heard(connection->joint)) != NULL)
        answer(connection, lot);
}

static bool hear_lot(fry_peer_connection *connection, const fry_wire_header *header)
{
    fry_joint *joint = connection->joint;
    fry_joint_lot *lot = fry_lot_find(joint, FRY_JOINT_FREE, 0);
    if (lot == NULL || header->number - joint->next_lot >= FRY_JOINT_LOTS ||
        fry_lot_find(joint, FRY_JOINT_HEARD, header->number) != NULL)
        return false;
    lot->count = 0;
    for (uint32_t i = 0; i < header->run_count; i++) {
        const fry_wire_joint *run = &header->joint[i];
        uint32_t end = run->is_send ? connection->slot_count : connection->slots_fresh;
        if (run->count > FRY_LOT_MOST - lot->count || run->slot >= end ||
            run->count > end - run->slot)
            return false;
        for (uint32_t k = 0; k < run->count; k++)
            lot->items[lot->count++] = (fry_joint_item){
                .slot = run->slot + k, .number = run->number + k, .is_send = !run->is_send};
    }
    lot->number = header->number;
    lot->state = FRY_JOINT_HEARD;
    answer_heard(connection);
    return true;
}

static void nudge(fry_peer_connection *connection)
{
    fry_joint *joint = connection->joint;
    joint->is_short = false;
    if (!joint->owes_nudge || !joint->is_ready || !fry_connection_is_live(connection))
        return;
    joint->is_short = connection->controls_free == NULL;
    if (joint->is_short)
        return;
    joint->owes_nudge = false;
    say_number(connection, FRY_WIRE_NUDGE, joint->nudge);
}

/* The other end's receive of a message of this end is ready. */
static bool is_offered(fry_peer_connection *connection, uint32_t slot, uint32_t number)
{
    if ((int32_t)(number - connection->send_number) >= 0)
        return false;
    fry_message *message = fry_serve_message(connection, slot, number);
    if (message == NULL || connection->joint->is_off)
        return true;
    if (!fry_lots_can_join(connection, message))
        return false;
    fry_lots_list(connection, message);
    connection->joint->has_news = true;
    return true;
}

static bool hear_offer(fry_peer_connection *connection, const fry_wire_header *header)
{
    for (uint32_t i = 0; i < header->run_count; i++) {
        const fry_wire_joint *run = &header->joint[i];
        if (run->slot >= connection->slots_fresh ||
            run->count > connection->slots_fresh - run->slot)
            return false;
        for (uint32_t k = 0; k < run->count; k++) {
            if (!is_offered(connection, run->slot + k, run->number + k))
                return false;
        }
    }
    return true;
}

/* ---- whether a lot was whole ---- */

/*
 * Without a pair there is no answer: the other end hears of that. If another is made since, an
 * answer that was asked for before means nothing, as the other end has lost its lots by then.
 */
static void say_flown(fry_peer_connection *connection)
{
    fry_joint *joint = connection->joint;
    if (!joint->is_ready)
        joint->owed_count = 0;
    while (joint->owed_count > 0 && connection->controls_free != NULL &&
           fry_connection_is_live(connection))
        say_number(connection, FRY_WIRE_WHOLE, joint->owed[--joint->owed_count]);
    for (size_t i = 0; i < FRY_JOINT_PLACES; i++) {
        fry_joint_lot *lot = &joint->lots[i];
        if (lot->state != FRY_JOINT_FLOWN || !lot->is_untold || connection->controls_free == NULL ||
            !fry_connection_is_live(connection))
            continue;
        lot->is_untold = false;
        say_number(connection, FRY_WIRE_FLOWN, lot->number);
    }
}

/* The other end's GPU is done with a lot. It asks once for each. */
static bool hear_flown(fry_peer_connection *connection, uint32_t number)
{
    fry_joint *joint = connection->joint;
    if ((int32_t)(number - joint->next_lot) >= 0 || joint->owed_count == FRY_JOINT_PLACES)
        return false;
    joint->owed[joint->owed_count++] = number;
    say_flown(connection);
    return true;
}

/* ---- pairs ---- */

static void say_due(fry_peer_connection *connection)
{
    static const fry_wire_kind kinds[] = {[FRY_PAIR_MAKE] = FRY_WIRE_PAIR,
                                          [FRY_PAIR_RETIRE] = FRY_WIRE_RETIRE,
                                          [FRY_PAIR_END] = FRY_WIRE_UNPAIR,
                                          [FRY_PAIR_HAS_ENDED] = FRY_WIRE_UNPAIRED};
    fry_joint *joint = connection->joint;
    for (int word = 0; word < FRY_PAIR_WORDS; word++) {
        if (!joint->is_word_due[word] || connection->controls_free == NULL ||
            !fry_connection_is_live(connection))
            continue;
        const fry_pair_note *note = &joint->words[word];
        fry_wire_header header = {.kind = (uint8_t)kinds[word],
                                  .op = note->generation,
                                  .number =
                                      word == FRY_PAIR_MAKE ? note->version : note->is_put_off};
        memcpy(header.token, note->token, sizeof(header.token));
        joint->is_word_due[word] = false;
        (void)fry_connection_send(connection, &header);
    }
    if (joint->off_is_due && connection->controls_free != NULL &&
        fry_connection_is_live(connection)) {
        joint->off_is_due = false;
        say_number(connection, FRY_WIRE_ALONE, 0);
    }
    say_flown(connection);
}

static void hear_word(fry_peer_connection *connection, const fry_wire_header *header)
{
    const fry_peer *peer = connection->peer;
    fry_pair_word word = header->kind == FRY_WIRE_PAIR     ? FRY_PAIR_MAKE
                         : header->kind == FRY_WIRE_RETIRE ? FRY_PAIR_RETIRE
                         : header->kind == FRY_WIRE_UNPAIR ? FRY_PAIR_END
                                                           : FRY_PAIR_HAS_ENDED;
    fry_pair_note note = {.generation = header->op,
                          .is_put_off = word == FRY_PAIR_END && header->number != 0};
    if (word == FRY_PAIR_MAKE) {
        note.version = header->number;
        memcpy(note.token, header->token, sizeof(note.token));
    }
    peer->options.events->pair_heard(peer->turn, connection->peer, word, &note);
}

void fry_peer_pair_say(fry_peer *peer, fry_pair_word word, const fry_pair_note *note, void *turn)
{
    fry_peer_connection *connection = peer->connection;
    if (connection == NULL || connection->joint == NULL || !fry_connection_is_live(connection))
        return;
    peer->turn = turn;
    connection->joint->words[word] = *note;
    connection->joint->is_word_due[word] = true;
    say_due(connection);
}

void fry_peer_pair_ready(fry_peer *peer, bool is_ready, void *turn)
{
    fry_peer_connection *connection = peer->connection;
    if (connection == NULL || connection->joint == NULL)
        return;
    peer->turn = turn;
    connection->joint->is_ready = is_ready;
    connection->joint->has_wanted = false;
    fry_peer_joint_go_on(peer, turn);
}

void fry_peer_pair_off(fry_peer *peer, void *turn)
{
    fry_peer_connection *connection = peer->connection;
    if (connection == NULL || connection->joint == NULL || connection->joint->is_off ||
        !fry_connection_is_live(connection))
        return;
    peer->turn = turn;
    connection->joint->off_is_due = true;
    connection->joint->is_off = true;
    go_alone(connection);
    say_due(connection);
}

void fry_peer_joint_go_on(fry_peer *peer, void *turn)
{
    fry_peer_connection *connection = peer->connection;
    if (connection == NULL || connection->joint == NULL || !fry_connection_is_live(connection))
        return;
    peer->turn = turn;
    if (fry_peer_leads(connection->peer))
        fry_lots_propose(connection);
    else
        nudge(connection);
}

/* ---- the end of a lot ---- */

static void is_over(fry_peer_connection *connection, const fry_joint_item *item, bool is_whole)
{
    if (!fry_lot_has(connection, item))
        return;
    if (item->is_send) {
        connection->slots[item->slot].join = is_whole ? FRY_JOIN_LEFT : FRY_JOIN_NOT;
        connection->joint->left += is_whole;
    } else if (is_whole) {
        fry_ask_has_all(connection, connection->by_slot[item->slot]);
    }
}

/* There may be a place for another lot. */
static void go_on(fry_peer_connection *connection)
{
    fry_peer *peer = connection->peer;
    answer_heard(connection);
    fry_peer_joint_go_on(peer, peer->turn);
}

static void end_lot(fry_peer_connection *connection, fry_joint_lot *lot, bool is_whole)
{
    fry_peer *peer = connection->peer;
    for (uint32_t i = 0; i < lot->count && fry_connection_is_live(connection); i++)
        is_over(connection, &lot->items[i], is_whole);
    lot->state = FRY_JOINT_FREE;
    go_on(connection);
    if (connection->is_parting)
        peer->options.events->parted(peer->turn, peer);
}

static bool has_receives(const fry_joint_lot *lot)
{
    for (uint32_t i = 0; i < lot->count; i++) {
        if (!lot->items[i].is_send)
            return true;
    }
    return false;
}

bool fry_peer_joint_flown(fry_peer *peer, uint32_t number, void *turn)
{
    fry_peer_connection *connection = peer->connection;
    if (connection == NULL || connection->joint == NULL)
        return true;
    fry_joint_lot *lot = fry_lot_find(connection->joint, FRY_JOINT_GOING, number);
    if (lot == NULL)
        return true;
    peer->turn = turn;
    if (!has_receives(lot)) {
        end_lot(connection, lot, true);
        return true;
    }
    lot->state = FRY_JOINT_FLOWN;
    lot->is_untold = true;
    say_flown(connection);
    go_on(connection);
    return false;
}

void fry_peer_joint_lost(fry_peer *peer, uint32_t number, void *turn)
{
    fry_peer_connection *connection = peer->connection;
    if (connection == NULL || connection->joint == NULL)
        return;
    fry_joint_lot *lot = fry_lot_find(connection->joint, FRY_JOINT_GOING, number);
    if (lot == NULL)
        lot = fry_lot_find(connection->joint, FRY_JOINT_FLOWN, number);
    if (lot == NULL)
        return;
    peer->turn = turn;
    end_lot(connection, lot, false);
}

/* An answer may come late, to a lot that was lost meanwhile. */
static bool hear_whole(fry_peer_connection *connection, uint32_t number)
{
    fry_joint *joint = connection->joint;
    fry_joint_lot *lot = fry_lot_find(joint, FRY_JOINT_FLOWN, number);
    if (lot == NULL)
        return (int32_t)(number - joint->next_lot) < 0 &&
               fry_lot_find(joint, FRY_JOINT_GOING, number) == NULL;
    if (lot->is_untold)
        return false;
    fry_peer *peer = connection->peer;
    peer->options.events->whole(peer->turn, peer, number);
    end_lot(connection, lot, true);
    return true;
}

/* ---- for the files of a peer ---- */

bool fry_joint_heard(fry_peer_connection *connection, const fry_wire_header *header)
{
    const fry_peer *peer = connection->peer;
    bool is_for_leader = header->kind == FRY_WIRE_OFFER || header->kind == FRY_WIRE_GO ||
                         header->kind == FRY_WIRE_BUSY || header->kind == FRY_WIRE_NUDGE;
    bool is_for_follower = header->kind == FRY_WIRE_LOT || header->kind == FRY_WIRE_PAIR;
    if (fry_peer_leads(connection->peer) ? is_for_follower : is_for_leader)
        return false;
    switch (header->kind) {
    case FRY_WIRE_OFFER:
        return hear_offer(connection, header);
    case FRY_WIRE_LOT:
        return hear_lot(connection, header);
    case FRY_WIRE_GO:
        return hear_go(connection, header->number, header->offset);
    case FRY_WIRE_BUSY:
        return hear_busy(connection, header->number);
    case FRY_WIRE_NUDGE:
        return hear_nudge(connection, header->number);
    case FRY_WIRE_ALONE:
        connection->joint->is_off = true;
        go_alone(connection);
        peer->options.events->unpaired(peer->turn, connection->peer);
        return true;
    case FRY_WIRE_FLOWN:
        return hear_flown(connection, header->number);
    case FRY_WIRE_WHOLE:
        return hear_whole(connection, header->number);
    default:
        hear_word(connection, header);
        return true;
    }
}

bool fry_joint_is_due(const fry_peer_connection *connection)
{
    fry_joint *joint = connection->joint;
    bool has_unsaid = joint->off_is_due || joint->is_short || joint->has_news ||
                      joint->owed_count > 0 || next_heard(joint) != NULL;
    for (size_t i = 0; i < FRY_JOINT_PLACES; i++)
        has_unsaid |= joint->lots[i].state == FRY_JOINT_FLOWN && joint->lots[i].is_untold;
    for (int word = 0; word < FRY_PAIR_WORDS; word++)
        has_unsaid |= joint->is_word_due[word];
    return has_unsaid || (!fry_peer_leads(connection->peer) && joint->first != NULL);
}

void fry_joint_go_on(fry_peer_connection *connection)
{
    say_due(connection);
    if (fry_peer_leads(connection->peer)) {
        fry_lots_propose(connection);
        return;
    }
    answer_heard(connection);
    fry_lots_offer(connection);
    if (connection->joint->is_short)
        nudge(connection);
}

bool fry_joint_is_busy(const fry_peer_connection *connection)
{
    const fry_joint *joint = connection->joint;
    for (size_t i = 0; joint != NULL && i < FRY_JOINT_PLACES; i++) {
        if (joint->lots[i].state != FRY_JOINT_FREE)
            return true;
    }
    return false;
}

bool fry_peer_joint_is_busy(const fry_peer *peer)
{
    return peer->connection != NULL && fry_joint_is_busy(peer->connection);
}

bool fry_peer_joint_is_answered(const fry_peer *peer)
{
    const fry_joint *joint = peer->connection != NULL ? peer->connection->joint : NULL;
    return joint == NULL || joint->left == 0;
}

bool fry_peer_joint_has_more(const fry_peer *peer)
{
    const fry_peer_connection *connection = peer->connection;
    return connection != NULL && connection->joint != NULL && connection->joint->first != NULL;
}

void fry_joint_detach(fry_peer_connection *connection)
{
    fry_joint *joint = connection->joint;
    const fry_peer *peer = connection->peer;
    if (joint == NULL)
        return;
    joint->first = joint->last = NULL;
    joint->waiting = joint->owed_count = 0;
    for (size_t i = 0; i < FRY_JOINT_PLACES; i++) {
        fry_joint_lot *lot = &joint->lots[i];
        if (lot->state == FRY_JOINT_PROPOSED || lot->state == FRY_JOINT_ANSWERED)
            fry_lot_drop(connection, lot);
        lot->state = FRY_JOINT_FREE;
    }
    peer->options.events->unpaired(peer->turn, connection->peer);
}
