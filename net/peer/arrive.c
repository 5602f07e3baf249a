/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Headers as they come: each is checked, and goes to who handles it.
 *
 * What a broken or hostile peer can do. Each header is checked by itself (net/peer/wire.c), and
 * what it names is checked here: a number comes once, and is among those that may be under way; a
 * slot is within bounds; no more messages are unanswered, and no more data is kept, than was
 * agreed; an answer names a slot that waits for one; data is as long as its header says. Any
 * violation fails the connection. What passes can make the peer's own messages end wrongly, or cost
 * the time to walk lists that are as long as the bounds say. It can write only to a receive, and
 * only as much as the receive's size.
 */
#include "net/peer/arrive.h"

#include "base/lf.h"
#include "net/mac.h"
#include "net/peer/ask.h"
#include "net/peer/connection.h"
#include "net/peer/fault.h"
#include "net/peer/find.h"
#include "net/peer/hide.h"
#include "net/peer/joint.h"
#include "net/peer/reach.h"
#include "net/peer/receive.h"
#include "net/peer/send.h"
#include "net/peer/serve.h"
#include "net/peer/state.h"
#include "net/peer/wire.h"

/* Whether the arrival has what its header says. */
static inline bool is_whole(const fry_wire_header *header, const fry_arrival *arrival)
{
    if (fry_likely(header->kind == FRY_WIRE_EAGER))
        return arrival->token == NULL && arrival->size_bytes == header->size_bytes &&
               (arrival->data != NULL || header->size_bytes == 0);
    if (header->kind == FRY_WIRE_BUNDLE)
        return arrival->token == NULL && arrival->data != NULL &&
               arrival->size_bytes >= header->series_count * (size_t)FRY_WIRE_SERIES_BYTES;
    if (header->kind == FRY_WIRE_PIECE)
        return arrival->size_bytes == header->size_bytes &&
               (arrival->token != NULL || arrival->data != NULL);
    if (header->kind == FRY_WIRE_HELD && header->size_bytes == 0)
        return false;
    if (header->kind == FRY_WIRE_PULLED)
        return arrival->token != NULL && arrival->size_bytes == header->size_bytes &&
               header->size_bytes > 0;
    return arrival->token == NULL && arrival->size_bytes == 0;
}

/* Those that a launch carries. False: the connection is over. */
static inline bool hear_answers(fry_peer_connection *connection, const fry_wire_header *header)
{
    if (header->acked.count == 0)
        return true;
    if (!fry_sends_acknowledged(connection, header->acked)) {
        fry_connection_broke(connection, "an answer to nothing");
        return false;
    }
    return fry_connection_is_live(connection);
}

static void message_arrived(fry_peer_connection *connection, const fry_wire_header *header,
                            const fry_arrival *arrival)
{
    if (!hear_answers(connection, header))
        return;
    if (fry_unlikely(header->slot >= connection->slot_count ||
                     connection->owed >= connection->slot_count)) {
        fry_connection_broke(connection, "more messages than its window allows");
        return;
    }
    connection->owed++;
    fry_receive_launch(connection, header, arrival);
}

static bool knows_notices(const fry_peer_connection *connection)
{
    return connection->windows != NULL && connection->peer->options.events->noticed != NULL;
}

/* Whether a bundle's table is valid, names no more messages than agreed, and its data is there. */
static bool is_bundle_right(fry_peer_connection *connection, const fry_wire_header *header,
                            const fry_arrival *arrival)
{
    size_t table_bytes = header->series_count * (size_t)FRY_WIRE_SERIES_BYTES;
    const uint8_t *table = arrival->data;
    uint64_t data_bytes = 0, messages = 0;
    bool is_agreed = true;
    for (uint32_t i = 0; i < header->series_count; i++) {
        fry_wire_series series;
        if (!fry_wire_unpack_series(table + i * FRY_WIRE_SERIES_BYTES, &series)) {
            fry_connection_broke(connection, "a table of an unknown kind");
            return false;
        }
        if (fry_unlikely(series.is_notice) && !knows_notices(connection)) {
            fry_connection_broke(connection, "notices, which were not agreed");
            return false;
        }
        data_bytes += (uint64_t)series.size_bytes * series.count;
        messages += series.count;
        is_agreed = is_agreed && series.slot < connection->slot_count &&
                    series.count <= connection->slot_count - series.slot;
    }
    if (data_bytes != arrival->size_bytes - table_bytes) {
        fry_connection_broke(connection, "data that its table does not list");
        return false;
    }
    if (!is_agreed || messages + connection->owed > connection->slot_count) {
        fry_connection_broke(connection, "more messages than its window allows");
        return false;
    }
    return true;
}

static void series_arrived(fry_peer_connection *connection, fry_wire_header *header,
                           const fry_wire_series *series, const uint8_t *data)
{
    fry_arrival arrival = {.size_bytes = series->size_bytes};
    header->is_apart = header->is_notice = series->is_notice;
    header->tag = series->tag;
    header->ahead = series->ahead;
    header->size_bytes = series->size_bytes;
    for (uint32_t i = 0; i < series->count && fry_connection_is_live(connection); i++) {
        header->op = series->op + i;
        header->slot = series->slot + i;
        arrival.data = series->size_bytes > 0 ? data : NULL;
        data += series->size_bytes;
        connection->owed++;
        fry_receive_launch(connection, header, &arrival);
        header->number++;
    }
}

/* Handles a bundle as if its messages had come one by one. */
static void bundle_arrived(fry_peer_connection *connection, fry_wire_header *header,
                           const fry_arrival *arrival)
{
    if (!hear_answers(connection, header))
        return;
    if (!is_bundle_right(connection, header, arrival))
        return;
    const uint8_t *table = arrival->data;
    const uint8_t *data = table + header->series_count * (size_t)FRY_WIRE_SERIES_BYTES;
    header->kind = FRY_WIRE_EAGER;
    for (uint32_t i = 0; i < header->series_count && fry_connection_is_live(connection); i++) {
        fry_wire_series series;
        (void)fry_wire_unpack_series(table + i * FRY_WIRE_SERIES_BYTES, &series);
        series_arrived(connection, header, &series, data);
        data += (size_t)series.size_bytes * series.count;
    }
}

static void control_arrived(fry_peer_connection *connection, const fry_wire_header *header,
                            const fry_arrival *arrival)
{
    bool is_good = true;
    switch (header->kind) {
    case FRY_WIRE_RECALL:
        is_good = header->slot < connection->slot_count;
        if (is_good)
            fry_receive_launch(connection, header, arrival);
        break;
    case FRY_WIRE_BYE:
        fry_receive_launch(connection, header, arrival);
        break;
    case FRY_WIRE_FAREWELL:
        is_good = connection->is_bye_said && !connection->has_farewell;
        connection->has_farewell = is_good;
        break;
    case FRY_WIRE_WANT:
    case FRY_WIRE_VIEW:
        is_good = fry_serve_wanted(connection, header);
        break;
    case FRY_WIRE_PIECE:
        is_good = fry_ask_arrived(connection, header, arrival);
        break;
    case FRY_WIRE_SHOW:
    case FRY_WIRE_HOLDS:
        is_good = fry_ask_view_heard(connection, header);
        break;
    case FRY_WIRE_HIDE:
    case FRY_WIRE_HIDDEN:
        is_good = fry_hide_heard(connection, header);
        break;
    case FRY_WIRE_VIEWED:
        is_good = fry_serve_viewed(connection, header);
        break;
    case FRY_WIRE_OFFER:
    case FRY_WIRE_LOT:
    case FRY_WIRE_GO:
    case FRY_WIRE_BUSY:
    case FRY_WIRE_NUDGE:
    case FRY_WIRE_PAIR:
    case FRY_WIRE_RETIRE:
    case FRY_WIRE_UNPAIR:
    case FRY_WIRE_UNPAIRED:
    case FRY_WIRE_ALONE:
    case FRY_WIRE_FLOWN:
    case FRY_WIRE_WHOLE:
        is_good = fry_joint_heard(connection, header);
        break;
    case FRY_WIRE_FIND:
    case FRY_WIRE_FOUND:
    case FRY_WIRE_CLOSE:
    case FRY_WIRE_LEFT:
        is_good = fry_finds_heard(connection, header);
        break;
    case FRY_WIRE_GET:
    case FRY_WIRE_PUT:
        is_good = fry_reach_heard(connection, header);
        break;
    case FRY_WIRE_ACK:
        for (uint32_t i = 0; i < header->run_count && is_good && fry_connection_is_live(connection);
             i++)
            is_good = fry_sends_acknowledged(connection, header->runs[i]);
        break;
    default: /* FRY_WIRE_NACK, FRY_WIRE_LENGTH */
        is_good = fry_send_refused(connection, header);
        break;
    }
    if (!is_good)
        fry_connection_broke(connection, header->kind >= FRY_WIRE_HELD
                                             ? "a piece that nobody has or wants"
                                             : "an answer to nothing");
}

/* Checks the hashes of header and bundle's table; takes the trailer of keyed ones off *bytes. */
static bool is_genuine(fry_peer_connection *connection, const fry_arrival *arrival, size_t *bytes)
{
    const uint8_t *header = arrival->header;
    uint64_t count;
    if (!fry_connection_accept(connection, header, bytes, &count))
        return false;
    if (*bytes == 0 || header[0] != FRY_WIRE_BUNDLE)
        return true;
    size_t table_bytes = header[1] * (size_t)FRY_WIRE_SERIES_BYTES;
    if (*bytes < FRY_MAC_BYTES || table_bytes > FRY_MAC_TABLE_BYTES_MAX || arrival->data == NULL ||
        table_bytes > arrival->size_bytes)
        return false;
    *bytes -= FRY_MAC_BYTES;
    return fry_mac_check_table(connection->session.receive_key, count, arrival->data, table_bytes,
                               header + *bytes);
}

static inline bool unpack(fry_peer_connection *connection, const fry_arrival *arrival, size_t bytes,
                          fry_wire_header *header)
{
    const uint8_t *from = arrival->header;
    bool is_right = true;
    header->is_apart = header->is_notice = false;
    if (fry_likely(connection->has_short && bytes > 0 && from[0] == FRY_WIRE_SHORT)) {
        is_right = fry_wire_unpack_short(from, bytes, connection->receive_number,
                                         connection->op_received, header);
        header->size_bytes = arrival->size_bytes;
    } else if (bytes == FRY_WIRE_MESSAGE_BYTES && from[0] == FRY_WIRE_EAGER && from[1] == 0) {
        fry_wire_unpack_message(from, header);
    } else {
        is_right = fry_wire_unpack(from, bytes, header);
    }
    if (is_right && (header->kind <= FRY_WIRE_PULLED || header->kind == FRY_WIRE_HELD))
        connection->op_received = header->op;
    if (fry_unlikely(is_right && (header->kind >= FRY_WIRE_FIND || header->is_apart)))
        return connection->windows != NULL && (!header->is_notice || knows_notices(connection));
    if (fry_unlikely(is_right && header->kind >= FRY_WIRE_OFFER))
        return connection->joint != NULL;
    if (fry_unlikely(is_right && header->kind >= FRY_WIRE_VIEW))
        return connection->session.has_views;
    if (fry_unlikely(is_right && header->kind >= FRY_WIRE_HELD))
        return connection->session.has_pieces;
    return is_right;
}

static void arrived(void *arg, const fry_arrival *arrival)
{
    fry_peer_connection *connection = arg;
    size_t size = arrival->header_bytes;
    fry_wire_header header;
    if (fry_unlikely(!fry_connection_is_live(connection)))
        return; /* its token goes with the channel */
    if (fry_unlikely(connection->is_keyed && !is_genuine(connection, arrival, &size))) {
        fry_connection_broke(connection, "a header that is forged or repeated");
        return;
    }
    if (fry_unlikely(!unpack(connection, arrival, size, &header))) {
        fry_connection_broke(connection, "a header of an unknown kind");
        return;
    }
    if (fry_unlikely(!is_whole(&header, arrival)))
        fry_connection_broke(connection, "data that its header does not announce");
    else if (header.kind <= FRY_WIRE_POISON || header.kind == FRY_WIRE_HELD)
        message_arrived(connection, &header, arrival);
    else if (header.kind == FRY_WIRE_BUNDLE)
        bundle_arrived(connection, &header, arrival);
    else
        control_arrived(connection, &header, arrival);
    if (fry_unlikely(connection->has_bye && fry_connection_is_live(connection)))
        fry_connection_hear_bye(connection);
}

static void channel_failed(void *arg, const fry_fault *fault)
{
    fry_connection_fail(arg, FERRY_E_PEER, fault, "the connection is lost");
}

const fry_channel_events fry_peer_channel_events = {
    .arrived = arrived,
    .failed = channel_failed,
};
