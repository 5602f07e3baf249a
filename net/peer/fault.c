/* SPDX-License-Identifier: Apache-2.0 */
#include "net/peer/fault.h"

#include "net/peer/state.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

void fry_connection_fail(fry_peer_connection *connection, ferry_status status,
                         const fry_fault *from, const char *format, ...)
{
    if (!fry_connection_is_live(connection) && connection->state != FRY_CONNECTION_NEW)
        return;
    fry_fault *fault = &connection->fault;
    *fault = (fry_fault){.status = status, .rank = -1};
    va_list arguments;
    va_start(arguments, format);
    int used = vsnprintf(fault->message, sizeof(fault->message), format, arguments);
    va_end(arguments);
    if (from != NULL) {
        fault->native_code = from->native_code;
        fault->domain = from->domain;
        int room = (int)sizeof(fault->message) - used - (int)sizeof(": ");
        if (from->message[0] != 0 && used >= 0 && room > 0)
            (void)snprintf(fault->message + used, sizeof(fault->message) - (size_t)used, ": %.*s",
                           room, from->message);
    }
    bool is_told =
        connection->state == FRY_CONNECTION_ATTACHED || connection->state == FRY_CONNECTION_LEAVING;
    connection->state = FRY_CONNECTION_FAILED;
    if (!is_told)
        return;
    fry_peer *peer = connection->peer;
    fault->rank = peer->options.rank;
    if (status != FERRY_E_DEAD)
        fry_log_line(peer->options.log, FERRY_LOG_WARNING,
                     "the connection to rank %" PRId32 " fails: %s", fault->rank, fault->message);
    peer->options.events->connection_failed(peer->turn, peer, fault);
}

void fry_connection_broke(fry_peer_connection *connection, const char *what)
{
    fry_connection_fail(connection, FERRY_E_PEER, NULL, "the other end broke the protocol: %s",
                        what);
}

void fry_fault_for_other(const fry_peer *peer, const fry_fault *fault, fry_fault *told)
{
    if (fault != NULL)
        *told = *fault;
    else
        *told = (fry_fault){.status = FERRY_E_CANCELLED, .rank = -1};
    if (told->status >= FERRY_OK)
        told->status = FERRY_E_FAILED;
    if (told->rank < 0)
        told->rank = peer->options.own_rank;
}

void fry_fault_of_lengths(const fry_peer *peer, uint64_t send_bytes, uint64_t receive_bytes,
                          uint64_t other_op, fry_fault *fault)
{
    *fault = (fry_fault){.status = FERRY_E_LENGTH, .rank = peer->options.rank, .op = other_op};
    snprintf(fault->message, sizeof(fault->message),
             "the send has %" PRIu64 " bytes, its receive %" PRIu64, send_bytes, receive_bytes);
}

void fry_fault_of_leaving(const fry_peer *peer, fry_fault *fault)
{
    *fault = (fry_fault){.status = FERRY_E_DEAD, .rank = peer->options.own_rank};
    (void)snprintf(fault->message, sizeof(fault->message), "the member left");
}

ferry_status fry_status_of_fault(const fry_peer *peer, const fry_fault *fault)
{
    bool is_leaving = fault->status == FERRY_E_DEAD || fault->status == FERRY_E_SHUTDOWN;
    return is_leaving && fault->rank == peer->options.rank ? FERRY_E_DEAD : FERRY_E_DEPENDENCY;
}

void fry_fault_of_ghost(const fry_message *message, fry_fault *fault)
{
    if (message->flags & FRY_MESSAGE_GHOST) {
        *fault = ((const fry_ghost *)message)->fault;
        return;
    }
    *fault = (fry_fault){.status = (ferry_status)(int32_t)message->number,
                         .rank = message->peer->options.own_rank,
                         .op = message->op};
}
