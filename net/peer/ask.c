/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking: a receive that gets its message in pieces, because the message is HELD, or because its
 * own memory is the engine's to write (fry_message.is_staged).
 *
 * A piece goes through these steps: it gets a place (the receive's memory, or the engine's), its
 * bytes are fetched (asked for with WANT; or pulled or loaded, if they are here with the launch),
 * and the engine stores them. The message is answered when all pieces are stored, so an answer says
 * as much as for any other message. A few pieces of a message are under way at once, and a few of a
 * connection; receives that want more take turns.
 *
 * A pulled message that does not fit into one place is dropped, which makes it one whose sender
 * keeps its bytes until the answer: like a HELD one.
 *
 * Pieces of a receive that ends early are free for others, which ask in the next progress: not in
 * the call that ends it, so that the other end hears of the end before it is asked for more.
 *
 * The record stays in by_slot while pieces come: a recall finds it there. A piece that comes for a
 * launch that has ended means nothing; any other that was not asked for breaks the rules.
 */
#include "net/peer/ask.h"

#include "base/lf.h"
#include "net/peer/connection.h"
#include "net/peer/fault.h"
#include "net/peer/lots.h"
#include "net/peer/match.h"
#include "net/peer/state.h"
#include "net/peer/view.h"
#include "net/peer/wire.h"

#include <string.h>

static size_t piece_bytes(const fry_peer *peer)
{
    size_t bytes = peer->options.piece_bytes;
    return bytes != 0 ? bytes : FRY_SLICE_BYTES_MAX;
}

static fry_record *record_of(const fry_slice *slice)
{
    return slice->connection->by_slot[slice->slot];
}

bool fry_ask_is_for(const fry_record *record, const fry_message *message)
{
    return record->kind == FRY_WIRE_HELD || (message->is_staged && message->size_bytes > 0);
}

bool fry_ask_can(const fry_peer_connection *connection, const fry_record *record,
                 const fry_message *message)
{
    return record->token == NULL || connection->session.has_pieces ||
           message->size_bytes <= piece_bytes(connection->peer);
}

/* ---- receives that have more to ask for ---- */

static void list(fry_peer_connection *connection, fry_record *record)
{
    if (record->is_asking || record->asked_bytes == record->size_bytes ||
        record->pieces >= FRY_MESSAGE_ASKED)
        return;
    record->is_asking = true;
    record->next = NULL;
    record->previous = connection->asking_last;
    if (record->previous != NULL)
        record->previous->next = record;
    else
        connection->asking_first = record;
    connection->asking_last = record;
}

static void unlist(fry_peer_connection *connection, fry_record *record)
{
    if (!record->is_asking)
        return;
    record->is_asking = false;
    if (record->previous != NULL)
        record->previous->next = record->next;
    else
        connection->asking_first = record->next;
    if (record->next != NULL)
        record->next->previous = record->previous;
    else
        connection->asking_last = record->previous;
}

/* ---- the end of a piece ---- */

static void end(fry_slice *slice, bool is_told)
{
    slice->connection->unasked -= slice->state == FRY_SLICE_PLACED;
    slice->connection->views -= slice->is_view;
    fry_slice_end(&slice->connection->asks_free, slice, is_told);
}

void fry_ask_has_all(fry_peer_connection *connection, fry_record *record)
{
    fry_message *message = record->receive;
    uint32_t slot = record->slot;
    unlist(connection, record);
    fry_receive_begin_end(message);
    fry_connection_give_record(connection, record);
    fry_connection_acknowledge(connection, slot);
    fry_message_finish(message, FERRY_OK, NULL);
}

/* The bytes are where they belong. */
static void stored(fry_slice *slice)
{
    fry_peer_connection *connection = slice->connection;
    fry_record *record = record_of(slice);
    end(slice, true);
    record->pieces--;
    if (record->pieces > 0 || record->asked_bytes < record->size_bytes)
        list(connection, record);
    else
        fry_ask_has_all(connection, record);
    fry_ask_go_on(connection);
}

void fry_peer_stored(fry_slice *slice, void *turn)
{
    slice->connection->peer->turn = turn;
    stored(slice);
}

static void land(fry_slice *slice)
{
    const fry_peer *peer = slice->connection->peer;
    slice->state = FRY_SLICE_LANDING;
    if (slice->is_staged)
        peer->options.events->landed(peer->turn, slice);
    else
        stored(slice);
}

/* ---- fetching ---- */

static void pulled(fry_pull *pull, ferry_status status, const fry_fault *fault)
{
    fry_slice *slice = pull->arg;
    fry_peer_connection *connection = slice->connection;
    fry_message *message = slice->message;
    connection->pulling--;
    message->posts--;
    if (slice->state == FRY_SLICE_GIVEN_UP) {
        end(slice, false);
        if (message->posts == 0 && message->state == FRY_MESSAGE_ENDED)
            fry_message_make_quiet(message);
    } else if (status == FERRY_OK) {
        land(slice);
    } else {
        slice->state = FRY_SLICE_LOST;
    }
    if (status != FERRY_OK)
        fry_connection_fail(connection, FERRY_E_PEER, fault, "data could not be fetched");
}

static void pull(fry_slice *slice, void *token)
{
    fry_peer_connection *connection = slice->connection;
    slice->state = FRY_SLICE_PULLING;
    slice->pull = (fry_pull){.token = token,
                             .memory = slice->memory,
                             .size_bytes = slice->size_bytes,
                             .done = pulled,
                             .arg = slice};
    slice->message->posts++;
    connection->pulling++;
    connection->channel->ops->pull(connection->channel, &slice->pull);
}

/* Asks the other end, or leaves that to the next progress. */
static void ask(fry_slice *slice)
{
    fry_peer_connection *connection = slice->connection;
    const fry_wire_header header = {.kind = FRY_WIRE_WANT,
                                    .slot = slice->slot,
                                    .number = slice->number,
                                    .size_bytes = slice->size_bytes,
                                    .offset = slice->offset};
    slice->state = FRY_SLICE_PLACED;
    if (connection->controls_free == NULL) {
        connection->unasked++;
        return;
    }
    slice->state = FRY_SLICE_ASKED;
    (void)fry_connection_send(connection, &header);
}

static void placed(fry_slice *slice, void *memory)
{
    fry_record *record = record_of(slice);
    void *token = record->token;
    slice->memory = memory;
    if (record->kind == FRY_WIRE_HELD) {
        ask(slice);
    } else if (token != NULL) {
        record->token = NULL;
        pull(slice, token);
    } else {
        fry_connection_load(record, slice->offset, memory, slice->size_bytes);
        land(slice);
    }
}

void fry_peer_placed(fry_slice *slice, void *memory, void *turn)
{
    fry_peer_connection *connection = slice->connection;
    connection->peer->turn = turn;
    if (fry_connection_is_live(connection))
        placed(slice, memory);
}

static void begin_piece(fry_peer_connection *connection, fry_record *record)
{
    const fry_peer *peer = connection->peer;
    fry_slice *slice = connection->asks_free;
    size_t left = record->size_bytes - record->asked_bytes, most = piece_bytes(peer);
    fry_message *message = record->receive;
    connection->asks_free = slice->next;
    *slice = (fry_slice){.message = message,
                         .offset = record->asked_bytes,
                         .size_bytes = (uint32_t)(left < most ? left : most),
                         .number = record->number,
                         .slot = record->slot,
                         .state = FRY_SLICE_PLACING,
                         .is_staged = message->is_staged,
                         .connection = connection};
    record->asked_bytes += slice->size_bytes;
    record->pieces++;
    unlist(connection, record);
    list(connection, record);
    if (slice->is_staged)
        peer->options.events->wants_place(peer->turn, slice);
    else
        placed(slice, (char *)message->memory + slice->offset);
}

/* Whether the other end is to be told, when there is a control. */
static bool is_untold(const fry_slice *slice)
{
    return slice->state == FRY_SLICE_PLACED || slice->state == FRY_SLICE_VIEWED ||
           slice->state == FRY_SLICE_LEAVING;
}

static void tell_untold(fry_peer_connection *connection)
{
    for (size_t i = 0; i < FRY_CONNECTION_ASKED; i++) {
        fry_slice *slice = &connection->slices[i];
        if (!is_untold(slice) || connection->controls_free == NULL ||
            !fry_connection_is_live(connection))
            continue;
        connection->unasked--;
        if (slice->is_view)
            fry_view_tell(slice);
        else
            ask(slice);
    }
}

static void begin_next(fry_peer_connection *connection, fry_record *record)
{
    if (!fry_view_is_for(connection, record)) {
        begin_piece(connection, record);
        return;
    }
    unlist(connection, record);
    fry_view_begin(connection, record);
}

bool fry_ask_can_go_on(const fry_peer_connection *connection)
{
    return connection->asking_first != NULL && connection->asks_free != NULL;
}

void fry_ask_go_on(fry_peer_connection *connection)
{
    if (connection->unasked > 0)
        tell_untold(connection);
    while (fry_ask_can_go_on(connection) && fry_connection_is_live(connection))
        begin_next(connection, connection->asking_first);
}

void fry_ask_begin(fry_peer_connection *connection, fry_record *record, fry_message *message)
{
    void *token = record->token;
    message->flags &= (uint8_t)~FRY_MESSAGE_TAKEN;
    message->flags |= FRY_MESSAGE_IN_PIECES;
    message->state = FRY_MESSAGE_UNDER_WAY;
    message->number = record->slot;
    message->private_ = connection;
    record->receive = message;
    record->is_asking = false;
    record->has_no_place = false;
    record->asked_bytes = 0;
    record->pieces = 0;
    connection->by_slot[record->slot] = record;
    if (fry_lots_are_for(connection, record)) {
        fry_lots_begin(connection, record);
        return;
    }
    list(connection, record);
    if (token != NULL && message->size_bytes > piece_bytes(connection->peer)) {
        record->token = NULL;
        record->kind = FRY_WIRE_HELD;
        record->has_no_place = true;
        connection->channel->ops->drop(connection->channel, token);
    }
    fry_ask_go_on(connection);
}

/* ---- views ---- */

void fry_ask_instead(fry_peer_connection *connection, fry_record *record)
{
    record->has_no_place = true;
    record->asked_bytes = 0;
    record->pieces = 0;
    list(connection, record);
}

/* It can't be read where it is. */
static void ask_instead(fry_peer_connection *connection, uint32_t slot)
{
    fry_ask_instead(connection, connection->by_slot[slot]);
    fry_ask_go_on(connection);
}

void fry_peer_viewed(fry_slice *view, bool has_all, void *turn)
{
    fry_peer_connection *connection = view->connection;
    const fry_peer *peer = connection->peer;
    uint32_t slot = view->slot;
    connection->peer->turn = turn;
    if (fry_view_is_read(view, has_all) == FRY_VIEW_IS_REFUSED)
        ask_instead(connection, slot);
    if (connection->is_parting)
        peer->options.events->parted(turn, connection->peer);
}

bool fry_ask_view_heard(fry_peer_connection *connection, const fry_wire_header *header)
{
    fry_slice *view;
    switch (fry_view_heard(connection, header, &view)) {
    case FRY_VIEW_NOTHING:
        break;
    case FRY_VIEW_HAS_ALL:
        view->message->was_viewed = true;
        stored(view);
        break;
    case FRY_VIEW_IS_REFUSED:
        ask_instead(connection, header->slot);
        break;
    case FRY_VIEW_IS_WRONG:
        return false;
    }
    return true;
}

/* ---- what comes ---- */

static fry_slice *find(fry_peer_connection *connection, const fry_wire_header *header)
{
    for (size_t i = 0; i < FRY_CONNECTION_ASKED; i++) {
        fry_slice *slice = &connection->slices[i];
        if (slice->state == FRY_SLICE_ASKED && slice->slot == header->slot &&
            slice->number == header->number && slice->offset == header->offset &&
            slice->size_bytes == header->size_bytes)
            return slice;
    }
    return NULL;
}

bool fry_ask_arrived(fry_peer_connection *connection, const fry_wire_header *header,
                     const fry_arrival *arrival)
{
    if (header->slot >= connection->slot_count ||
        (int32_t)(header->number - connection->receive_number) >= 0)
        return false;
    const fry_record *record = connection->by_slot[header->slot];
    if (record == NULL || record->number != header->number) {
        if (arrival->token != NULL)
            connection->channel->ops->drop(connection->channel, arrival->token);
        return true; /* that launch has ended */
    }
    fry_slice *slice = find(connection, header);
    if (slice == NULL)
        return false;
    if (arrival->token != NULL) {
        pull(slice, arrival->token);
    } else {
        memcpy(slice->memory, arrival->data, slice->size_bytes);
        land(slice);
    }
    return true;
}

/* ---- ends ---- */

/* Ends a piece of a receive that is over, unless the channel writes it. */
static void give_up(fry_slice *slice)
{
    if (slice->is_view)
        fry_view_give_up(slice);
    else if (slice->state == FRY_SLICE_PULLING)
        slice->state = FRY_SLICE_GIVEN_UP;
    else if (slice->state != FRY_SLICE_GIVEN_UP)
        end(slice, false);
}

fry_record *fry_ask_end(fry_peer_connection *connection, const fry_message *message)
{
    fry_record *record = connection->by_slot[message->number];
    unlist(connection, record);
    fry_lots_forget(connection, message);
    for (size_t i = 0; i < FRY_CONNECTION_ASKED; i++) {
        if (connection->slices[i].state != FRY_SLICE_FREE &&
            connection->slices[i].message == message)
            give_up(&connection->slices[i]);
    }
    return record;
}

void fry_ask_detach(fry_peer_connection *connection)
{
    connection->asking_first = connection->asking_last = NULL;
    for (size_t i = 0; i < FRY_CONNECTION_ASKED; i++) {
        if (connection->slices[i].state != FRY_SLICE_FREE)
            give_up(&connection->slices[i]);
    }
}

void fry_ask_destroyed(fry_peer_connection *connection)
{
    for (size_t i = 0; i < FRY_CONNECTION_ASKED; i++) {
        fry_slice *slice = &connection->slices[i];
        if (slice->state != FRY_SLICE_FREE && slice->is_view)
            fry_view_destroyed(slice);
        else if (slice->state == FRY_SLICE_GIVEN_UP)
            end(slice, false);
    }
}
