/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receives: what comes over the connection, in the order of launches.
 *
 * The channel may reorder. So a launch that comes before its turn is stashed with its data; it was
 * counted against the window, so there is room. In its turn it gets its place (net/peer/match.h).
 * If its receive has entered and is ready, the bytes go there at once, or are pulled. If not, a
 * record keeps the data that came, or the token of data that did not.
 *
 * Each message is answered once, with the slot that it named: when the bytes are in place, or when
 * it is known that they will not be. After the answer the other end wants nothing of the message,
 * except that a pull goes on (its post is done then). A receive that is about to end is set to
 * ENDED before an event or the channel is called, so nobody else ends it. (The channel may fail
 * within the call, and with it all that is open.)
 *
 * A message that is HELD, or whose receive is staged, comes in pieces: net/peer/ask.c. With any
 * source messages get no places; what is first goes to whom it suits: net/peer/any.h.
 *
 * A receive that is withdrawn while it is pulled is refused at once, and quiet when the pull is
 * done. Nobody can call the pull back (the transport's cancel does nothing then), so its memory is
 * free only then.
 */
#include "net/peer/receive.h"

#include "base/lf.h"
#include "net/peer/any.h"
#include "net/peer/ask.h"
#include "net/peer/connection.h"
#include "net/peer/fault.h"
#include "net/peer/match.h"
#include "net/peer/peer.h"
#include "net/peer/state.h"
#include "net/peer/untaken.h"
#include "net/peer/wire.h"
#include "net/transport.h"

#include <stdio.h>
#include <string.h>

/* ---- the end of a receive ---- */

static void drop(fry_peer_connection *connection, void *token)
{
    if (token != NULL && fry_connection_is_live(connection))
        connection->channel->ops->drop(connection->channel, token);
}

static void refuse(fry_peer_connection *connection, uint32_t slot, uint64_t op,
                   const fry_fault *fault)
{
    fry_wire_header header = {.kind = FRY_WIRE_NACK, .slot = slot, .op = op};
    fry_fault_for_other(connection->peer, fault, &header.fault);
    fry_connection_refuse(connection, &header);
}

/* Rejects a message whose receive was withdrawn. */
static void reject(fry_peer_connection *connection, fry_record *record, uint64_t op,
                   const fry_fault *fault)
{
    uint32_t slot = record->slot;
    void *token = record->token;
    bool is_poison = record->kind == FRY_WIRE_POISON;
    fry_connection_give_record(connection, record);
    if (is_poison)
        fry_connection_acknowledge(connection, slot);
    else
        refuse(connection, slot, op, fault);
    drop(connection, token);
}

/* ---- a message and its receive ---- */

static void pull_done(fry_pull *pull, ferry_status status, const fry_fault *fault)
{
    fry_message *message = pull->arg;
    fry_peer_connection *connection = message->private_;
    connection->pulling--;
#ifdef FRY_PLANT_QUIET_EARLY
    if (message->state == FRY_MESSAGE_QUIET)
        return;
#endif
    if (message->state == FRY_MESSAGE_ENDED) {
        fry_message_make_quiet(message);
    } else if (status == FERRY_OK) {
        fry_receive_begin_end(message);
        fry_connection_acknowledge(connection, (uint32_t)message->number);
        fry_message_finish(message, FERRY_OK, NULL);
    } else {
        message->flags |= FRY_MESSAGE_LOST;
        message->state = FRY_MESSAGE_READY;
    }
    if (status != FERRY_OK)
        fry_connection_fail(connection, FERRY_E_PEER, fault, "data could not be fetched");
}

static void start_pull(fry_peer_connection *connection, fry_record *record, fry_message *message)
{
    message->flags &= (uint8_t)~FRY_MESSAGE_TAKEN;
    message->state = FRY_MESSAGE_UNDER_WAY;
    message->number = record->slot;
    message->private_ = connection;
    message->pull = (fry_pull){
        .token = record->token,
        .memory = message->memory,
        .size_bytes = message->size_bytes,
        .done = pull_done,
        .arg = message,
    };
    fry_connection_give_record(connection, record);
    connection->pulling++;
    connection->channel->ops->pull(connection->channel, &message->pull);
}

static void fail_by_poison(fry_peer_connection *connection, fry_record *record,
                           fry_message *message)
{
    fry_fault fault;
    fry_record_fault(record, &fault);
    fry_receive_begin_end(message);
    fry_connection_acknowledge(connection, record->slot);
    fry_connection_give_record(connection, record);
    if (message->posts > 0)
        message->state = FRY_MESSAGE_UNDER_WAY; /* some of it still comes */
    fry_message_finish(message, fry_status_of_fault(connection->peer, &fault), &fault);
}

/* The message could only be had in pieces, which the other end does not know. */
static void fail_without_pieces(fry_peer_connection *connection, fry_record *record,
                                fry_message *message)
{
    fry_fault fault = {.status = FERRY_E_UNSUPPORTED, .rank = connection->peer->options.rank};
    (void)snprintf(fault.message, sizeof(fault.message), FRY_NO_PIECES);
    fry_receive_begin_end(message);
    reject(connection, record, message->op, &fault);
    fry_message_finish(message, FERRY_E_UNSUPPORTED, &fault);
}

static void fail_by_length(fry_peer_connection *connection, fry_record *record,
                           fry_message *message)
{
    fry_wire_header header = {.kind = FRY_WIRE_LENGTH,
                              .slot = record->slot,
                              .op = message->op,
                              .size_bytes = message->size_bytes};
    fry_fault fault;
    fry_fault_of_lengths(connection->peer, record->size_bytes, message->size_bytes, record->op,
                         &fault);
    void *token = record->token;
    fry_receive_begin_end(message);
    fry_connection_give_record(connection, record);
    fry_connection_refuse(connection, &header);
    drop(connection, token);
    fry_message_finish(message, FERRY_E_LENGTH, &fault);
}

/* The receive has its message: does what can be done now. */
static void settle(fry_peer_connection *connection, fry_record *record, fry_message *message)
{
    message->other_op = record->op;
    if (record->kind == FRY_WIRE_POISON) {
        fail_by_poison(connection, record, message);
    } else if (record->size_bytes != message->size_bytes) {
        fail_by_length(connection, record, message);
    } else if (message->state != FRY_MESSAGE_READY) {
        message->flags |= FRY_MESSAGE_TAKEN;
        message->private_ = record;
        record->receive = message;
    } else if (fry_unlikely(fry_ask_is_for(record, message))) {
        if (fry_ask_can(connection, record, message))
            fry_ask_begin(connection, record, message);
        else
            fail_without_pieces(connection, record, message);
    } else if (record->token != NULL) {
        start_pull(connection, record, message);
    } else {
        fry_connection_load(record, 0, message->memory, message->size_bytes);
        fry_receive_begin_end(message);
        fry_connection_acknowledge(connection, record->slot);
        fry_connection_give_record(connection, record);
        fry_message_finish(message, FERRY_OK, NULL);
    }
}

void fry_receive_meet_ghost(fry_peer_connection *connection, fry_record *record, fry_message *ghost)
{
    fry_fault fault;
    fry_fault_of_ghost(ghost, &fault);
    uint64_t op = ghost->op;
    connection->peer->receive_count--;
    fry_list_take(ghost); /* only this function ends it */
    reject(connection, record, op, &fault);
    fry_message_make_quiet(ghost);
}

void fry_receive_ready(fry_message *message)
{
    if (!(message->flags & FRY_MESSAGE_TAKEN))
        return;
    fry_peer_connection *connection = message->peer->connection;
    if (fry_connection_is_live(connection))
        settle(connection, message->private_, message);
}

void fry_receive_withdraw(fry_message *message, const fry_fault *fault)
{
    fry_peer *peer = message->peer;
    if (fry_unlikely(message->is_apart && message->is_read)) {
        fry_receive_begin_end(message); /* reach.c: quiet when the read is done */
    } else if (message->flags & FRY_MESSAGE_TAKEN) {
        fry_receive_begin_end(message);
        reject(peer->connection, message->private_, message->op, fault);
        fry_message_make_quiet(message);
    } else if (message->flags & FRY_MESSAGE_IN_PIECES) {
        fry_peer_connection *connection = message->private_;
        fry_receive_begin_end(message);
        reject(connection, fry_ask_end(connection, message), message->op, fault);
        if (message->posts == 0)
            fry_message_make_quiet(message);
    } else if (message->flags & FRY_MESSAGE_LOST) {
        fry_receive_begin_end(message);
        fry_message_make_quiet(message);
    } else if (message->state == FRY_MESSAGE_UNDER_WAY) {
        fry_receive_begin_end(message);
        refuse(message->private_, (uint32_t)message->number, message->op, fault);
#ifdef FRY_PLANT_QUIET_EARLY
        /* A planted fault: tests/planted builds it and must see it. */
        if (message->state == FRY_MESSAGE_ENDED)
            fry_message_make_quiet(message);
#endif
    } else if (peer->has_stopped) {
        fry_receive_begin_end(message);
        fry_message_make_quiet(message); /* no message comes for it, so it needs no ghost */
    } else if (peer->options.any != NULL && !message->is_apart) {
        fry_match_unpost(&peer->receives, message);
        fry_receive_begin_end(message);
        fry_message_make_quiet(message); /* it held no place */
    } else {
        fry_match *receives = fry_peer_receives(peer, message->is_apart);
        const fry_message *ghost = fry_message_leave_ghost(message, receives, fault);
        fry_message_be_replaced(message, ghost);
    }
}

/* ---- launches, in order ---- */

/* False: it is larger than agreed, or there are more. */
static bool keep_notice(fry_peer_connection *connection, fry_record *record,
                        const fry_arrival *arrival)
{
    record->is_notice = true;
    if (arrival->size_bytes == 0)
        return true;
    record->notice = arrival->size_bytes <= FRY_NOTICE_BYTES ? fry_untaken_room(connection) : NULL;
    if (record->notice == NULL)
        return false;
    memcpy(record->notice, arrival->data, arrival->size_bytes);
    return true;
}

/* Keeps a launch in a record. NULL: the connection fails. */
static fry_record *keep(fry_peer_connection *connection, const fry_wire_header *header,
                        const fry_arrival *arrival)
{
    fry_record *record = fry_connection_take_record(connection);
    if (record == NULL) {
        fry_connection_broke(connection, "more messages than its window allows");
        return NULL;
    }
    record->kind = header->kind;
    record->tag = header->tag;
    record->op = header->op;
    record->size_bytes = header->size_bytes;
    record->number = header->number;
    record->slot = header->slot;
    record->ahead = header->ahead;
    record->join = FRY_JOIN_NOT;
    record->is_apart = header->is_apart;
    record->may_join = header->kind == FRY_WIRE_HELD && header->is_yes;
    bool is_kept = true;
    if (header->kind == FRY_WIRE_HELD) {
        record->token = NULL;
    } else if (header->kind == FRY_WIRE_PULLED) {
        record->token = arrival->token;
#ifdef FRY_PLANT_RECALL_EARLY
        /* A planted fault: tests/planted builds it and must see it. */
        connection->by_slot[header->slot] = record;
#endif
    } else if (fry_unlikely(header->is_apart && header->is_notice)) {
        is_kept = keep_notice(connection, record, arrival);
    } else if (header->kind == FRY_WIRE_EAGER) {
        is_kept = fry_connection_store(connection, record, arrival->data, arrival->size_bytes);
    } else if (header->kind == FRY_WIRE_BYE) {
        record->size_bytes = header->answers;
    } else if (header->kind == FRY_WIRE_POISON) {
        is_kept = fry_connection_store_fault(connection, record, &header->fault);
    } else { /* RECALL: its words would take room that it was not given */
        fry_record_keep_fault(record, &header->fault);
    }
    if (is_kept)
        return record;
    fry_connection_broke(connection, "more data than its window allows");
    return NULL;
}

/*
 * Handles a recall: a message launched earlier must not be pulled any more, unless it is being
 * pulled. The record in by_slot is that message's: the other end gives the slot to a new message
 * only after this one's answer, so launches that message after the recall, and by_slot has no
 * message that waits in the stash for its turn.
 */
static void recall(fry_peer_connection *connection, uint32_t slot, const fry_fault *fault)
{
    fry_record *record = connection->by_slot[slot];
    if (record == NULL || (record->token == NULL && record->kind != FRY_WIRE_HELD))
        return;
    fry_message *receive = record->receive;
    if (receive != NULL && (receive->flags & FRY_MESSAGE_IN_PIECES) != 0)
        (void)fry_ask_end(connection, receive);
    void *token = record->token;
    connection->by_slot[slot] = NULL;
    record->token = NULL;
    record->kind = FRY_WIRE_POISON;
    fry_record_keep_fault(record, fault);
    drop(connection, token);
    if (record->receive != NULL && fry_connection_is_live(connection))
        settle(connection, record, record->receive);
}

/*
 * An end that leaves too waits for the other's FAREWELL, or until the other can find its answers;
 * then the connection ends.
 */
void fry_connection_hear_bye(fry_peer_connection *connection)
{
    bool is_net = connection->channel->path == FRY_PATH_NET;
    if ((int32_t)(connection->answers_heard - connection->bye_answers) < 0 ||
        (is_net && connection->controls_free == NULL))
        return;
    connection->has_bye = false;
    if (is_net) {
        fry_wire_header header = {.kind = FRY_WIRE_FAREWELL};
        (void)fry_connection_send(connection, &header);
    }
    if (connection->state == FRY_CONNECTION_ATTACHED)
        fry_connection_fail(connection, FERRY_E_DEAD, NULL, "the member left");
}

/* Turns a message away. After BYE nothing is said: BYE was the last. */
static void turn_away(fry_peer_connection *connection, fry_record *record)
{
    fry_fault fault;
    if (!connection->is_bye_said) {
        fry_fault_of_leaving(connection->peer, &fault);
        reject(connection, record, 0, &fault);
        return;
    }
    void *token = record->token;
    fry_connection_give_record(connection, record);
    drop(connection, token);
}

static void turn_all_away(fry_peer_connection *connection, fry_record *record)
{
    while (record != NULL) {
        fry_record *next = record->next;
        turn_away(connection, record);
        record = next;
    }
}

void fry_receives_stop(fry_peer *peer)
{
    fry_peer_connection *connection = peer->connection; /* NULL only if nothing has come */
    fry_record *record = fry_match_take_unexpected(&peer->receives);
    fry_record *apart = fry_match_take_unexpected(&peer->apart);
    if (peer->options.any != NULL && connection != NULL)
        fry_any_forget(peer->options.any, connection);
    turn_all_away(connection, record);
    turn_all_away(connection, apart);
    while (connection != NULL && (record = fry_untaken_pop(connection)) != NULL)
        turn_away(connection, record);
}

/* Gives a first message to one that waits here, or in the table: that of the lower place. */
static bool give(fry_peer_connection *connection, fry_record *record, fry_message *posted)
{
    fry_peer *peer = connection->peer;
    fry_any *any = peer->options.any;
    uint64_t before = posted != NULL ? posted->seek.place : UINT64_MAX;
#ifdef FRY_PLANT_OVERTAKE
    before = UINT64_MAX; /* a planted fault: tests/planted must see it */
#endif
    fry_message *message = fry_any_find(any, peer->options.rank, record->tag, before);
    if (message != NULL && message->seek.is_probe) {
        fry_any_leave(any, message);
        fry_receive_found(peer, message, record);
        return true;
    }
    if (message == NULL && posted == NULL)
        return false;
    fry_any_take(connection, record);
    fry_match_unkeep(&peer->receives, record);
    if (message != NULL) {
        fry_any_leave(any, message);
        fry_peer_adopt(peer, message);
    } else {
        message = posted;
        fry_match_unpost(&peer->receives, message);
    }
    fry_receive_meet(peer, message, record);
    settle(connection, record, message);
    return true;
}

void fry_receive_offer(fry_peer_connection *connection, ferry_tag tag)
{
    fry_match *receives = &connection->peer->receives;
    while (fry_connection_is_live(connection)) {
        fry_message *posted;
        fry_record *record = fry_match_first(receives, tag, &posted);
        if (record == NULL || !give(connection, record, posted))
            return;
    }
}

static void keep_for_any(fry_peer_connection *connection, fry_record *record)
{
    fry_peer *peer = connection->peer;
    fry_any_keep(connection, record);
    if (fry_any_is_stuck(connection)) {
        fry_fault fault = {.status = FERRY_E_AGAIN, .rank = peer->options.own_rank};
        (void)snprintf(fault.message, sizeof(fault.message),
                       "as many messages as unexpected_max wait behind sends that are not ready");
        fry_any_take(connection, record);
        fry_match_unkeep(&peer->receives, record);
        reject(connection, record, 0, &fault);
        return;
    }
    fry_receive_offer(connection, record->tag);
}

static void process(fry_peer_connection *connection, fry_record *record)
{
    fry_match *receives = fry_peer_receives(connection->peer, record->is_apart);
    if (record->kind == FRY_WIRE_RECALL) {
        fry_fault fault;
        uint32_t slot = record->slot;
        fry_record_fault(record, &fault);
        fry_connection_give_record(connection, record);
        recall(connection, slot, &fault);
        return;
    }
    if (record->kind == FRY_WIRE_BYE) {
        connection->has_bye = true;
        connection->bye_answers = (uint32_t)record->size_bytes;
        fry_connection_give_record(connection, record);
        fry_connection_hear_bye(connection);
        return;
    }
    if (fry_unlikely(connection->peer->has_stopped)) {
        turn_away(connection, record);
        return;
    }
    if (fry_unlikely(record->is_notice)) {
        fry_untaken_add(connection, record);
        return;
    }
    if (record->token != NULL || record->kind == FRY_WIRE_HELD)
        connection->by_slot[record->slot] = record;
    fry_message *message = fry_match_find(receives, record->tag, record->ahead);
    if (message == NULL) {
        if (!fry_match_keep(receives, record)) {
            fry_connection_fail(connection, FERRY_E_NO_MEMORY, NULL,
                                "no memory for an unexpected message");
        } else if (connection->unmatched != NULL && !record->is_apart) {
            keep_for_any(connection, record);
        }
    } else if (message->flags & (FRY_MESSAGE_GHOST | FRY_MESSAGE_BARE)) {
        fry_receive_meet_ghost(connection, record, message);
    } else {
        settle(connection, record, message);
    }
}

/* The launch's turn has come. Most launches are data whose receive is ready. */
static void process_now(fry_peer_connection *connection, const fry_wire_header *header,
                        const fry_arrival *arrival)
{
    if (fry_likely(header->kind == FRY_WIRE_EAGER) &&
        (fry_likely(!header->is_apart) || !header->is_notice)) {
        fry_match *receives = fry_peer_receives(connection->peer, header->is_apart);
        fry_message *message = fry_match_peek(receives, header->tag, header->ahead);
        if (fry_likely(message != NULL && message->state == FRY_MESSAGE_READY &&
                       !message->is_staged && message->size_bytes == header->size_bytes)) {
            fry_match_take(receives, message);
            if (message->size_bytes > 0)
                memcpy(message->memory, arrival->data, message->size_bytes);
            message->other_op = header->op;
            fry_receive_begin_end(message);
            fry_connection_acknowledge(connection, header->slot);
            fry_message_finish(message, FERRY_OK, NULL);
            return;
        }
    }
    fry_record *record = keep(connection, header, arrival);
    if (record != NULL)
        process(connection, record);
}

static void process_stashed(fry_peer_connection *connection)
{
    while (connection->stashed > 0 && fry_connection_is_live(connection)) {
        fry_record **place =
            &connection->stash[connection->receive_number & connection->stash_mask];
        fry_record *record = *place;
        if (record == NULL)
            return;
        *place = NULL;
        connection->stashed--;
        connection->receive_number++;
        process(connection, record);
    }
}

void fry_receive_launch(fry_peer_connection *connection, const fry_wire_header *header,
                        const fry_arrival *arrival)
{
    uint32_t early = header->number - connection->receive_number;
    if (fry_likely(early == 0)) {
        connection->receive_number++;
        process_now(connection, header, arrival);
        if (fry_unlikely(connection->stashed > 0))
            process_stashed(connection);
        return;
    }
    if (early > connection->stash_mask ||
        connection->stash[header->number & connection->stash_mask] != NULL) {
        fry_connection_broke(connection, "a number that is not next");
        return;
    }
    fry_record *record = keep(connection, header, arrival);
    if (record == NULL)
        return;
    connection->stash[header->number & connection->stash_mask] = record;
    connection->stashed++;
}
