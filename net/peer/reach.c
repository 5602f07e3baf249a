/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gets and puts.
 *
 * On one host a get out of host memory is a read (fry_channel_ops.read): the other end does nothing
 * for it, and may be stopped. Its bytes count only if the other end's mark stood after it, as for
 * an offer, and the window is left only when no read is in flight; so the owner's memory is not
 * quiet before that.
 *
 * If the window is in memory that can be mapped (base/shared.h), a small one is a memcpy on the
 * spot: 0.1 us where a read takes 1.8. It is over before its start has returned, so nothing about
 * it can be in flight. The bytes count only if this end's mark stood behind them, as above.
 *
 * Everything else is a message like those of ferry_send, with all that these have: the end that
 * asks says GET or PUT, with a tag that it makes up, and enters a receive or a send of that tag;
 * the owner enters the other one, over the window's memory. So a put is pulled by its owner, and
 * nobody writes another process's memory; pieces, views, refusals, recalls and quiet need nothing
 * new. The tags are apart from those of programs: their receives stand in a table of their own
 * (fry_peer.apart), and their sends in none, as no two have the same tag.
 *
 * Each GET and PUT is answered. If the owner can't do it, it puts a ghost in the place of its
 * message, which fails the other one with the reason. An end that gives up withdraws its message as
 * any other, unless it has not asked yet: then nobody knows of it. A put is quiet no sooner than
 * its owner has answered, though its own memory may be: until then the owner may write the window.
 *
 * How many. An end has at most as many open as both ends' unexpected_max allow, like slots. The
 * owner may learn late of those that have ended, since answers gather; what is beyond any honest
 * end's number fails the connection.
 */
#include "net/peer/reach.h"

#include "base/lf.h"
#include "net/peer/connection.h"
#include "net/peer/fault.h"
#include "net/peer/find.h"
#include "net/peer/match.h"
#include "net/peer/receive.h"
#include "net/peer/send.h"
#include "net/peer/state.h"
#include "net/peer/wire.h"

#define COPY_BYTES_MAX ((size_t)64 << 10) /* more is copied in turns, by the channel */
#define OPEN_FACTOR 4 /* how many times slot_count the owner may see, with answers not heard */

/* ---- reads ---- */

static void read_is_done(fry_pull *pull, ferry_status status, const fry_fault *fault)
{
    fry_message *message = pull->arg;
    fry_peer_connection *connection = message->private_;
    connection->pulling--;
    message->is_read = false;
    if (message->state == FRY_MESSAGE_ENDED) {
        fry_message_make_quiet(message);
    } else if (status == FERRY_OK) {
        fry_receive_begin_end(message);
        fry_message_finish(message, FERRY_OK, NULL);
    } else if (status == FERRY_E_UNSUPPORTED && fry_connection_is_live(connection)) {
        message->state = FRY_MESSAGE_READY;
        fry_send_ask(message);
    } else {
        message->flags |= FRY_MESSAGE_LOST;
        message->state = FRY_MESSAGE_READY;
    }
    if (status != FERRY_OK && status != FERRY_E_UNSUPPORTED)
        fry_connection_fail(connection, FERRY_E_PEER, fault, "data could not be read");
}

/* False: the bytes have to come in another way. */
static bool copy_there(fry_peer_connection *connection, fry_message *message,
                       const fry_found *found)
{
    if (found->map == NULL || message->is_send || message->is_staged ||
        message->size_bytes > COPY_BYTES_MAX ||
        message->size_bytes > connection->windows->copyable_bytes)
        return false;
    connection->windows->copyable_bytes -= message->size_bytes;
    message->private_ = connection;
    if (fry_shared_read(found->map, message->memory, found->map_offset + message->reach_offset,
                        message->size_bytes)) {
        fry_receive_begin_end(message);
        fry_message_finish(message, FERRY_OK, NULL);
    } else {
        message->flags |= FRY_MESSAGE_LOST;
        fry_connection_fail(connection, FERRY_E_PEER, NULL, "data that its owner had given up");
    }
    return true;
}

/* False: it has to be asked for. */
static bool read_there(fry_peer_connection *connection, fry_message *message,
                       const fry_found *found, bool gathers)
{
    fry_channel *channel = connection->channel;
    if (found->address == 0 || message->is_send || message->is_staged || channel->ops->read == NULL)
        return false;
    message->is_read = true;
    message->state = FRY_MESSAGE_UNDER_WAY;
    message->private_ = connection;
    message->pull = (fry_pull){.address = found->address + message->reach_offset,
                               .map = found->map,
                               .map_offset = found->map_offset + message->reach_offset,
                               .memory = message->memory,
                               .size_bytes = message->size_bytes,
                               .may_wait = gathers,
                               .done = read_is_done,
                               .arg = message};
    connection->pulling++;
    if (channel->ops->read(channel, &message->pull))
        return true;
    connection->pulling--;
    message->is_read = false;
    message->state = FRY_MESSAGE_READY;
    return false;
}

/* ---- gets and puts ---- */

bool fry_peer_reach(fry_message *message, const fry_found *found, uint64_t offset, bool gathers,
                    void *turn)
{
    fry_peer *peer = found->peer;
    fry_peer_connection *connection = peer->connection;
    uint32_t *count = message->is_send ? &peer->send_count : &peer->receive_count;
    peer->turn = turn;
    if (*count >= connection->slot_count)
        return false;
    ++*count;
    fry_peer_add_open(peer, message);
    message->private_ = NULL;
    message->is_apart = true;
    message->is_notice = false;
    message->is_untold = message->is_read = false;
    message->is_put = message->is_send;
    message->reach_number = found->number;
    message->reach_offset = offset;
    message->state = FRY_MESSAGE_READY;
    if (!copy_there(connection, message, found) && !read_there(connection, message, found, gathers))
        fry_send_ask(message);
    return true;
}

/* ---- the owner ---- */

bool fry_reach_heard(fry_peer_connection *connection, const fry_wire_header *header)
{
    fry_peer *peer = connection->peer;
    const fry_reach reach = {.tag = header->tag,
                             .offset = header->offset,
                             .size_bytes = header->size_bytes,
                             .epoch = peer->epoch,
                             .is_put = header->kind == FRY_WIRE_PUT};
    bool is_by_higher = peer->options.rank > peer->options.own_rank;
    uint64_t open = reach.is_put ? peer->receive_count : peer->send_count;
    if (peer->options.events->reached == NULL || (header->tag & 1) != is_by_higher ||
        open >= peer->options.unexpected_max + (uint64_t)connection->slot_count * OPEN_FACTOR)
        return false;
    if (connection->is_bye_said)
        return true; /* the connection is about to end, and says so */
    peer->options.events->reached(peer->turn, peer, fry_finds_granted(connection, header->number),
                                  &reach);
    return true;
}

static fry_ghost *make_ghost(fry_peer *peer, const fry_reach *reach, const fry_fault *fault)
{
    fry_ghost *ghost = fry_alloc(peer->options.memory, sizeof *ghost, _Alignof(fry_ghost));
    if (ghost == NULL)
        return NULL;
    fry_fault_for_other(peer, fault, &ghost->fault);
    ghost->message = (fry_message){.tag = reach->tag,
                                   .is_send = !reach->is_put,
                                   .is_apart = true,
                                   .state = FRY_MESSAGE_ENDED,
                                   .flags = FRY_MESSAGE_GHOST,
                                   .peer = peer};
    fry_list_add(&peer->open, &ghost->message);
    return ghost;
}

bool fry_peer_answer_reach(fry_peer *peer, fry_message *message, void *turn)
{
    static const fry_fault fault = {.status = FERRY_E_NO_MEMORY, .rank = -1};
    const fry_reach reach = {.tag = message->tag, .is_put = !message->is_send};
    message->is_untold = message->is_read = message->is_put = false;
    if (peer->connection == NULL || peer->epoch != message->reach_number ||
        (reach.is_put && peer->has_stopped))
        return false;
    if (fry_peer_enter(peer, message, turn))
        return true;
    fry_peer_refuse_reach(peer, &reach, &fault, turn);
    return false;
}

void fry_peer_refuse_reach(fry_peer *peer, const fry_reach *reach, const fry_fault *fault,
                           void *turn)
{
    fry_peer_connection *connection = peer->connection;
    peer->turn = turn;
    if (reach->is_put && peer->has_stopped)
        return; /* its message is turned away */
    fry_ghost *ghost = make_ghost(peer, reach, fault);
    fry_record *record = NULL;
    if (ghost == NULL ||
        (reach->is_put && !fry_match_enter_receive(&peer->apart, &ghost->message, &record))) {
        fry_connection_fail(connection, FERRY_E_NO_MEMORY, NULL,
                            "no memory to refuse what it asks of a window");
        if (ghost != NULL)
            fry_message_make_quiet(&ghost->message);
        return;
    }
    if (!reach->is_put) {
        peer->send_count++;
        fry_send_poison(&ghost->message);
        return;
    }
    peer->receive_count++;
    if (record != NULL)
        fry_receive_meet_ghost(connection, record, &ghost->message);
}
