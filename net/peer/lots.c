/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lots: messages that wait to go in one, and lots while they are agreed. joint.c says how the two
 * ends do that; here is what needs nothing but the connection.
 */
#include "net/peer/lots.h"

#include "base/lf.h"
#include "net/peer/connection.h"
#include "net/peer/match.h"
#include "net/peer/state.h"
#include "net/peer/wire.h"

bool fry_peer_leads(const fry_peer *peer)
{
    return peer->options.own_rank < peer->options.rank;
}

static const fry_peer_events *events_of(const fry_peer_connection *connection)
{
    return connection->peer->options.events;
}

/* ---- messages that wait: at the leader for a lot, at the follower to be offered ---- */

/* Where its launch is noted. */
uint8_t *fry_lots_join_of(const fry_peer_connection *connection, const fry_message *message)
{
    return message->is_send ? &connection->slots[message->number].join
                            : &connection->by_slot[message->number]->join;
}

static uint32_t number_of(const fry_peer_connection *connection, const fry_message *message)
{
    return message->is_send ? connection->slots[message->number].number
                            : connection->by_slot[message->number]->number;
}

void fry_lots_list(fry_peer_connection *connection, fry_message *message)
{
    fry_joint *joint = connection->joint;
    *fry_lots_join_of(connection, message) = FRY_JOIN_WAITS;
    message->next = NULL;
    message->previous = joint->last;
    joint->waiting++;
    if (joint->last != NULL)
        joint->last->next = message;
    else
        joint->first = message;
    joint->last = message;
}

void fry_lots_unlist(fry_peer_connection *connection, const fry_message *message, fry_join join)
{
    fry_joint *joint = connection->joint;
    *fry_lots_join_of(connection, message) = (uint8_t)join;
    joint->waiting--;
    if (message->previous != NULL)
        message->previous->next = message->next;
    else
        joint->first = message->next;
    if (message->next != NULL)
        message->next->previous = message->previous;
    else
        joint->last = message->previous;
}

static void left_no_more(fry_peer_connection *connection, uint8_t *join)
{
    connection->joint->left -= *join == FRY_JOIN_LEFT;
    *join = FRY_JOIN_NOT;
}

void fry_lots_forget(fry_peer_connection *connection, const fry_message *message)
{
    uint8_t *join = fry_lots_join_of(connection, message);
    if (*join == FRY_JOIN_WAITS)
        fry_lots_unlist(connection, message, FRY_JOIN_NOT);
    else if (*join == FRY_JOIN_LEFT)
        left_no_more(connection, join);
}

bool fry_lots_can_join(fry_peer_connection *connection, const fry_message *message)
{
    uint8_t *join = fry_lots_join_of(connection, message);
    if (!message->may_join || (*join != FRY_JOIN_NOT && *join != FRY_JOIN_LEFT))
        return false;
    left_no_more(connection, join);
    return true;
}

/* ---- lots ---- */

fry_joint_lot *fry_lot_find(fry_joint *joint, fry_joint_state state, uint32_t number)
{
    for (size_t i = 0; i < FRY_JOINT_PLACES; i++) {
        if (joint->lots[i].state == (uint8_t)state &&
            (state == FRY_JOINT_FREE || joint->lots[i].number == number))
            return &joint->lots[i];
    }
    return NULL;
}

/*
 * Of those that are agreed, or proposed and not answered, a GPU has one and the next one. Those
 * that are over there are counted by themselves, so that it need not wait for words.
 */
bool fry_lots_have_room(const fry_joint *joint)
{
    uint32_t going = 0, flown = 0;
    for (size_t i = 0; i < FRY_JOINT_PLACES; i++) {
        uint8_t state = joint->lots[i].state;
        flown += state == FRY_JOINT_FLOWN;
        going += state != FRY_JOINT_FREE && state != FRY_JOINT_HEARD && state != FRY_JOINT_FLOWN;
    }
    return going < FRY_JOINT_LOTS && flown < FRY_JOINT_LOTS;
}

/* Whether the item's message goes on. */
bool fry_lot_has(const fry_peer_connection *connection, const fry_joint_item *item)
{
    if (item->is_send) {
        const fry_connection_slot *slot = &connection->slots[item->slot];
        return slot->is_used && slot->number == item->number && slot->message == item->message &&
               slot->join == FRY_JOIN_IN_LOT;
    }
    const fry_record *record = connection->by_slot[item->slot];
    return record != NULL && record->number == item->number && record->receive == item->message &&
           record->join == FRY_JOIN_IN_LOT;
}

/* The lot does not go. */
void fry_lot_drop(fry_peer_connection *connection, fry_joint_lot *lot)
{
    const fry_peer_events *events = events_of(connection);
    void *turn = connection->peer->turn;
    lot->state = FRY_JOINT_FREE;
    for (uint32_t i = 0; i < lot->count; i++)
        events->release(turn, lot->items[i].message);
    events->dismiss(turn, connection->peer);
}

/* Those that are not taken go with no lot, or with another. */
void fry_lot_launch(fry_peer_connection *connection, fry_joint_lot *lot)
{
    const fry_peer_events *events = events_of(connection);
    void *turn = connection->peer->turn;
    lot->state = FRY_JOINT_GOING;
    uint32_t taken = 0;
    for (uint32_t i = 0; i < lot->count; i++) {
        lot->items[i].message->was_joint = lot->items[i].is_taken;
        if (lot->items[i].is_taken)
            lot->items[taken++] = lot->items[i];
        else
            events->release(turn, lot->items[i].message);
    }
    lot->count = taken;
    events->launch(turn, connection->peer, lot);
}

/* Adds a launch to the runs of a header. False: there is no room. */
static bool add_launch(fry_wire_header *header, uint32_t slot, uint32_t number, bool is_send)
{
    fry_wire_joint *run = header->run_count > 0 ? &header->joint[header->run_count - 1] : NULL;
    if (run != NULL && run->is_send == is_send && run->slot + run->count == slot &&
        run->number + run->count == number && run->count < UINT8_MAX) {
        run->count++;
        return true;
    }
    if (header->run_count == FRY_WIRE_JOINTS_MAX)
        return false;
    header->joint[header->run_count++] = (fry_wire_joint){slot, number, 1, is_send};
    return true;
}

/* ---- the leader proposes ---- */

static bool is_small(const fry_message *message)
{
    return message->size_bytes <= FRY_JOINT_SMALL_BYTES;
}

/* Moves waiting messages of one size class into the lot, the first one among them. */
static void fill(fry_peer_connection *connection, fry_joint_lot *lot)
{
    fry_joint *joint = connection->joint;
    bool small = is_small(joint->first);
    size_t bytes = 0;
    lot->count = 0;
    for (fry_message *message = joint->first, *next; message != NULL && lot->count < FRY_LOT_MOST;
         message = next) {
        next = message->next;
        if (is_small(message) != small ||
            (lot->count > 0 && message->size_bytes > FRY_JOINT_LOT_BYTES - bytes))
            continue;
        bytes += message->size_bytes < FRY_JOINT_LOT_BYTES - bytes ? message->size_bytes
                                                                   : FRY_JOINT_LOT_BYTES - bytes;
        fry_lots_unlist(connection, message, FRY_JOIN_IN_LOT);
        lot->items[lot->count++] = (fry_joint_item){.message = message,
                                                    .slot = (uint32_t)message->number,
                                                    .number = number_of(connection, message),
                                                    .is_send = message->is_send};
        events_of(connection)->hold(connection->peer->turn, message);
    }
}

/* Writes the lot as runs. What does not fit waits for another lot, behind the others. */
static void describe(fry_peer_connection *connection, fry_joint_lot *lot, fry_wire_header *header)
{
    uint32_t i = 0;
    while (i < lot->count &&
           add_launch(header, lot->items[i].slot, lot->items[i].number, lot->items[i].is_send))
        i++;
    for (uint32_t k = i; k < lot->count; k++) {
        events_of(connection)->release(connection->peer->turn, lot->items[k].message);
        fry_lots_list(connection, lot->items[k].message);
    }
    lot->count = i;
}

/*
 * While an answer is awaited, what is not enough for a whole lot waits for more: of many messages
 * that become ready at about the same time the first goes at once, and the others with each other.
 */
static bool waits_for_more(const fry_joint *joint)
{
    bool is_asked = false;
    for (size_t i = 0; i < FRY_JOINT_PLACES; i++)
        is_asked |= joint->lots[i].state == FRY_JOINT_PROPOSED;
    return is_asked && joint->waiting < FRY_LOT_MOST;
}

/* False: nothing can be proposed now. */
static bool propose_one(fry_peer_connection *connection)
{
    fry_joint *joint = connection->joint;
    fry_peer *peer = connection->peer;
    fry_joint_lot *lot = fry_lot_find(joint, FRY_JOINT_FREE, 0);
    joint->is_short = false;
    if (!fry_lots_have_room(joint) || joint->first == NULL || !joint->is_ready ||
        joint->is_refused || waits_for_more(joint) || connection->state != FRY_CONNECTION_ATTACHED)
        return false;
    joint->is_short = connection->controls_free == NULL;
    if (joint->is_short || !events_of(connection)->admit(peer->turn, peer))
        return false;
    fry_wire_header header = {.kind = FRY_WIRE_LOT, .number = joint->next_lot};
    fill(connection, lot);
    describe(connection, lot, &header);
    lot->number = joint->next_lot++;
    lot->state = FRY_JOINT_PROPOSED;
    (void)fry_connection_send(connection, &header);
    return true;
}

void fry_lots_propose(fry_peer_connection *connection)
{
    fry_joint *joint = connection->joint;
    fry_peer *peer = connection->peer;
    joint->has_news = false;
    if (joint->first != NULL && !joint->is_ready && !joint->has_wanted && !joint->is_off) {
        joint->has_wanted = true;
        events_of(connection)->wants_pair(peer->turn, peer);
    }
    while (fry_connection_is_live(connection) && propose_one(connection))
        ;
}

/* ---- receives ---- */

bool fry_lots_are_for(const fry_peer_connection *connection, const fry_record *record)
{
    return connection->joint != NULL && !connection->joint->is_off && record->may_join &&
           record->receive->may_join && record->kind == FRY_WIRE_HELD && !record->has_no_place;
}

/* As many as one header names. There is one, and a control. */
static void offer(fry_peer_connection *connection)
{
    fry_joint *joint = connection->joint;
    fry_wire_header header = {.kind = FRY_WIRE_OFFER};
    while (joint->first != NULL && add_launch(&header, (uint32_t)joint->first->number,
                                              number_of(connection, joint->first), false))
        fry_lots_unlist(connection, joint->first, FRY_JOIN_OFFERED);
    (void)fry_connection_send(connection, &header);
}

void fry_lots_offer(fry_peer_connection *connection)
{
    fry_joint *joint = connection->joint;
    joint->has_news = false;
    while (joint->first != NULL && connection->controls_free != NULL &&
           fry_connection_is_live(connection))
        offer(connection);
}

void fry_lots_begin(fry_peer_connection *connection, fry_record *record)
{
    record->asked_bytes = record->size_bytes;
    fry_lots_list(connection, record->receive);
    connection->joint->has_news = true;
}
