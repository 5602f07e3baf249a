/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bundles: small messages launched one right after the other, as one message of the channel.
 *
 * A gathered message is launched in all but its post: it has its number, its slot and its share of
 * the window, its place is taken (`ahead`), and its data is copied, so its memory is quiet at once.
 * So a cancel, an answer and the connection's end treat it like a message that has left, and a
 * bundle lives only as long as its buffer is used.
 *
 * Nothing is forgotten, and nothing waits for long. A thread that gathers must call fry_peer_flush
 * before it gives the baton back (fry_messages_flush, at the end of each turn that gathered). So no
 * other thread ever finds a gathered bundle, and a message waits only while the next ones are
 * launched. Besides, a message that can't join the bundle posts the bundle first, as do BYE,
 * progress and arming. A poison or a recall, which is no message, does not wait for the bundle: the
 * receiver puts it in order. The numbers within a bundle are consecutive, so the bundle is full
 * after that.
 *
 * A bundle of one message goes as if it had not been gathered. When all buffers are under way
 * messages go one by one.
 *
 * Between hosts the header ends with a hash of the table under the header's count, before the
 * header's own hash. So what the table says of each message is guarded as in a header of its own;
 * data is no more guarded than elsewhere.
 */
#include "net/peer/bundle.h"

#include "base/lf.h"
#include "net/mac.h"
#include "net/peer/fault.h"
#include "net/peer/state.h"
#include "net/peer/wire.h"
#include "net/transport.h"

#include <string.h>

_Static_assert(FRY_WIRE_TABLE_BYTES_MAX <= FRY_MAC_TABLE_BYTES_MAX, "a table can be hashed");
_Static_assert(FRY_BUNDLE_MESSAGES <= FRY_WIRE_SERIES_MAX, "a series for each is enough");
_Static_assert(FRY_WIRE_SERIES_BYTES + FRY_BUNDLE_MESSAGE_BYTES <= FRY_BUNDLE_BYTES,
               "a message fits");

static void give(fry_peer_connection *connection, fry_bundle *bundle)
{
    bundle->next = connection->bundles_free;
    connection->bundles_free = bundle;
}

void fry_bundles_init(fry_peer_connection *connection)
{
    for (size_t i = 0; i < FRY_CONNECTION_BUNDLES; i++)
        give(connection, &connection->bundles[i]);
}

/* Whether a message continues the last series. */
static inline bool is_alike(const fry_bundle *bundle, const fry_wire_header *header)
{
    const fry_wire_series *last = &bundle->series[bundle->series_count - 1];
    return last->tag == header->tag && last->op + last->count == header->op &&
           last->slot + last->count == header->slot && last->ahead == header->ahead &&
           last->size_bytes == header->size_bytes && last->is_notice == header->is_notice &&
           last->count < FRY_WIRE_SERIES_COUNT_MAX;
}

bool fry_bundle_is_full(const fry_peer_connection *connection, size_t size_bytes)
{
    const fry_bundle *bundle = connection->bundle;
    if (bundle == NULL)
        return false;
    size_t bytes = (bundle->series_count + (size_t)1) * FRY_WIRE_SERIES_BYTES + bundle->data_bytes +
                   size_bytes;
    return bundle->first.number + bundle->message_count != connection->send_number ||
           bundle->message_count == FRY_BUNDLE_MESSAGES || bytes > FRY_BUNDLE_BYTES ||
           bytes > connection->eager_bytes_max;
}

static fry_bundle *begin(fry_peer_connection *connection, const fry_wire_header *header)
{
    fry_bundle *bundle = connection->bundles_free;
    connection->bundles_free = bundle->next;
    connection->bundle = bundle;
    bundle->first = *header;
    bundle->message_count = 0;
    bundle->series_count = 0;
    bundle->data_bytes = 0;
    return bundle;
}

void fry_bundle_add(fry_peer_connection *connection, const fry_wire_header *header,
                    const void *data)
{
    fry_bundle *bundle = connection->bundle;
    if (bundle == NULL)
        bundle = begin(connection, header);
    if (bundle->series_count > 0 && is_alike(bundle, header))
        bundle->series[bundle->series_count - 1].count++;
    else
        bundle->series[bundle->series_count++] =
            (fry_wire_series){.tag = header->tag,
                              .op = header->op,
                              .slot = header->slot,
                              .ahead = header->ahead,
                              .size_bytes = (uint32_t)header->size_bytes,
                              .count = 1,
                              .is_notice = header->is_notice};
    bundle->message_count++;
    if (header->size_bytes > 0)
        memcpy(bundle->bytes + FRY_WIRE_TABLE_BYTES_MAX + bundle->data_bytes, data,
               header->size_bytes);
    bundle->data_bytes += header->size_bytes;
}

static void bundle_done(fry_post *post, ferry_status status, const fry_fault *fault)
{
    fry_peer_connection *connection = post->arg;
    connection->posting--;
    give(connection, (fry_bundle *)post);
    if (status != FERRY_OK)
        fry_connection_fail(connection, FERRY_E_PEER, fault, "messages could not be sent");
}

/* Writes the table before the data. Returns the size of the header. */
static size_t pack(fry_peer_connection *connection, fry_bundle *bundle, uint8_t *to)
{
    fry_wire_header header = {.kind = FRY_WIRE_BUNDLE,
                              .number = bundle->first.number,
                              .acked = fry_connection_take_run(connection),
                              .series_count = bundle->series_count};
    size_t table_bytes = bundle->series_count * (size_t)FRY_WIRE_SERIES_BYTES;
    uint8_t *table = bundle->bytes + FRY_WIRE_TABLE_BYTES_MAX - table_bytes;
    for (uint32_t i = 0; i < bundle->series_count; i++)
        fry_wire_pack_series(table + i * FRY_WIRE_SERIES_BYTES, &bundle->series[i]);
    bundle->post.data = table;
    bundle->post.size_bytes = table_bytes + bundle->data_bytes;
    size_t bytes = fry_wire_pack(to, &header);
    if (connection->is_keyed) {
        fry_mac_write_table(connection->session.send_key, connection->headers_sent, table,
                            table_bytes, to + bytes);
        bytes += FRY_MAC_BYTES;
    }
    return bytes;
}

static size_t pack_one(fry_peer_connection *connection, fry_bundle *bundle, uint8_t *to)
{
    fry_wire_header *header = &bundle->first;
    header->kind = FRY_WIRE_EAGER;
    header->acked = fry_connection_take_run(connection);
    fry_wire_pack_message(to, header);
    bundle->post.data = bundle->data_bytes > 0 ? bundle->bytes + FRY_WIRE_TABLE_BYTES_MAX : NULL;
    bundle->post.size_bytes = bundle->data_bytes;
    return FRY_WIRE_MESSAGE_BYTES;
}

/* Sets everything before it calls the channel, which may call back. */
void fry_bundle_post(fry_peer_connection *connection)
{
    fry_bundle *bundle = connection->bundle;
    connection->bundle = NULL;
    if (!fry_connection_is_live(connection)) {
        give(connection, bundle);
        return;
    }
    uint8_t header[FRY_HEADER_BYTES_MAX];
    bundle->post = (fry_post){.done = bundle_done, .arg = connection};
    size_t bytes = bundle->message_count == 1 ? pack_one(connection, bundle, header)
                                              : pack(connection, bundle, header);
    connection->posting++;
    if (fry_connection_post(connection, &bundle->post, header, bytes) != FRY_POST_DONE)
        return;
    connection->posting--;
    give(connection, bundle);
}
