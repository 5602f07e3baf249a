/* SPDX-License-Identifier: Apache-2.0 */
/* Connections: memory, control headers, answers. */
#ifndef FRY_NET_PEER_CONNECTION_H
#define FRY_NET_PEER_CONNECTION_H

#include "net/peer/peer.h"

typedef struct fry_record fry_record;
typedef struct fry_wire_header fry_wire_header;

/* What attaching needs, made by the loop without the baton; NULL: no memory. */
fry_peer_connection *fry_peer_connection_open(const fry_peer_options *options,
                                              const fry_connection_session *session);

/* Closes a connection whose channel was destroyed; on the loop. NULL is allowed. */
void fry_peer_connection_close(fry_peer_connection *connection);

/* ---- for the files of a peer ---- */

/* Takes a record. NULL: there is none, which happens only if the peer breaks the rules. */
fry_record *fry_connection_take_record(fry_peer_connection *connection);

/* Frees a record and its data, but not its token. */
void fry_connection_give_record(fry_peer_connection *connection, fry_record *record);

/*
 * Stores a record's data. False: there is no room, which happens only if the peer breaks the rules.
 */
bool fry_connection_store(fry_peer_connection *connection, fry_record *record, const void *data,
                          size_t size_bytes);
void fry_connection_load(const fry_record *record, size_t offset, void *memory, size_t size_bytes);

/*
 * Stores a fault, and its words if it has some: they count as data. Without words, or by
 * fry_record_keep_fault, it takes no room.
 */
bool fry_connection_store_fault(fry_peer_connection *connection, fry_record *record,
                                const fry_fault *fault);
void fry_record_keep_fault(fry_record *record, const fry_fault *fault);
void fry_record_fault(const fry_record *record, fry_fault *fault);

/* Ends a keyed header with its count and hash; returns the bytes. */
size_t fry_connection_seal(fry_peer_connection *connection, uint8_t *header, size_t bytes);

/* Sends a control header, or poison. False: too many are under way. */
bool fry_connection_send(fry_peer_connection *connection, const fry_wire_header *header);

/* Acknowledges a received message; the answer goes together with others. */
void fry_connection_acknowledge(fry_peer_connection *connection, uint32_t slot);

/* Refuses a message: NACK with a fault, or LENGTH with the receive's size. */
void fry_connection_refuse(fry_peer_connection *connection, const fry_wire_header *header);

/* Posts all answers that are due, as far as possible. */
void fry_connection_answer(fry_peer_connection *connection);

/*
 * Whether a keyed header is genuine and new; removes its trailer from *bytes, and returns its
 * count.
 */
bool fry_connection_accept(fry_peer_connection *connection, const uint8_t *header, size_t *bytes,
                           uint64_t *count_p);

#endif
