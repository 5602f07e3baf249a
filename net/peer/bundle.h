/* SPDX-License-Identifier: Apache-2.0 */
/* Bundles: small messages launched one right after the other, as one message of the channel. */
#ifndef FRY_NET_PEER_BUNDLE_H
#define FRY_NET_PEER_BUNDLE_H

#include "net/peer/state.h"
#include "net/peer/wire.h"

void fry_bundles_init(fry_peer_connection *connection);

/*
 * Whether a launch with that much data may be gathered at all: it then fits, with the gathered ones
 * or after they were posted.
 */
static inline bool fry_bundle_takes(const fry_peer_connection *connection, size_t size_bytes)
{
    return size_bytes <= FRY_BUNDLE_MESSAGE_BYTES &&
           FRY_WIRE_SERIES_BYTES + size_bytes <= connection->eager_bytes_max &&
           (connection->bundle != NULL || connection->bundles_free != NULL);
}

/* Whether the gathered messages must be posted before such a message fits. */
bool fry_bundle_is_full(const fry_peer_connection *connection, size_t size_bytes);

/* Adds a launch, whose number follows the last one's. Its data is copied. */
void fry_bundle_add(fry_peer_connection *connection, const fry_wire_header *header,
                    const void *data);

/* Posts the gathered messages. The connection may fail, and be detached. */
void fry_bundle_post(fry_peer_connection *connection);

static inline void fry_bundle_flush(fry_peer_connection *connection)
{
    if (fry_unlikely(connection->bundle != NULL))
        fry_bundle_post(connection);
}

#endif
