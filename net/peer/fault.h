/* SPDX-License-Identifier: Apache-2.0 */
/* Faults as peers tell them to each other. */
#ifndef FRY_NET_PEER_FAULT_H
#define FRY_NET_PEER_FAULT_H

#include "net/peer/match.h"

/* Fails the connection, which must then be detached. `from`: a channel's fault, or NULL. */
void fry_connection_fail(fry_peer_connection *connection, ferry_status status,
                         const fry_fault *from, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Fails it because the other end did what no end does. */
void fry_connection_broke(fry_peer_connection *connection, const char *what);

/* The fault for the other end: it names this member where this end says "here". */
void fry_fault_for_other(const fry_peer *peer, const fry_fault *fault, fry_fault *told);

/* The fault for ends with different sizes. */
void fry_fault_of_lengths(const fry_peer *peer, uint64_t send_bytes, uint64_t receive_bytes,
                          uint64_t other_op, fry_fault *fault);

/* The fault for messages that a leaving member will not handle any more. */
void fry_fault_of_leaving(const fry_peer *peer, fry_fault *fault);

/*
 * The status of an operation whose other end failed: a dependency's failure, or that the member
 * leaves, in order or by its engine's shutdown.
 */
ferry_status fry_status_of_fault(const fry_peer *peer, const fry_fault *fault);

/* The fault that a ghost or a bare message holds. */
void fry_fault_of_ghost(const fry_message *message, fry_fault *fault);

#endif
