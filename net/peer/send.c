/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends: launched once, answered once.
 *
 * A send is in its tag's list until it is launched; then its slot points at it. It resolves by the
 * slot's answer, by being withdrawn, or by the connection's end, whichever is first. Each of these
 * keeps the others from it: an answer frees the slot, withdrawing clears the slot's pointer, and
 * the connection's end comes after all answers. The send is quiet when it has resolved and its post
 * is done. The channel reports that once, or never if it is destroyed before: then the send is
 * quiet when it was destroyed.
 *
 * A send that is withdrawn after it was launched to be pulled would have to wait for the receive,
 * perhaps for ever, because the receive reads its memory. So it is recalled. The recall is a launch
 * of its own, so that the other end looks at it after the message; it drops what is not being
 * pulled yet, and thereby the post is done. A send that left with its data is received as if it had
 * not been withdrawn: its memory is quiet as soon as the channel has it. (The sender's future says
 * that it was cancelled, the receiver's that the bytes are there. Both are true.) A put is quiet no
 * sooner than it is answered, as its end writes the window until then. A send whose
 * bytes go in pieces is recalled too, and no piece is served any more: net/peer/serve.c.
 *
 * A get or a put of a window (reach.c) for which the other end has to do something begins here,
 * too: it waits, untold, until there is a control to ask by. Nobody knows of it before that.
 */
#include "net/peer/send.h"

#include "base/lf.h"
#include "net/peer/bundle.h"
#include "net/peer/connection.h"
#include "net/peer/fault.h"
#include "net/peer/lots.h"
#include "net/peer/match.h"
#include "net/peer/peer.h"
#include "net/peer/receive.h"
#include "net/peer/serve.h"
#include "net/peer/state.h"
#include "net/peer/untaken.h"
#include "net/peer/wire.h"
#include "net/transport.h"

#include <stdio.h>

/* ---- waiting for a connection or room ---- */

static void wait(fry_message *message)
{
    message->flags |= FRY_MESSAGE_WAITS;
    TAILQ_INSERT_TAIL(&message->peer->waiting, message, waiting);
}

void fry_send_stop_waiting(fry_message *message)
{
    if (!(message->flags & FRY_MESSAGE_WAITS))
        return;
    message->flags &= (uint8_t)~FRY_MESSAGE_WAITS;
    TAILQ_REMOVE(&message->peer->waiting, message, waiting);
}

/* ---- launching ---- */

static void post_done(fry_post *post, ferry_status status, const fry_fault *fault)
{
    fry_message *message = post->arg;
    fry_peer_connection *connection = message->private_;
    if (!(message->flags & FRY_MESSAGE_PULLED))
        connection->posting--;
    fry_send_post_is_over(message);
    if (status != FERRY_OK)
        fry_connection_fail(connection, FERRY_E_PEER, fault, "a message could not be sent");
}

static inline bool fits_window(const fry_peer_connection *connection, size_t size_bytes)
{
    return connection->window_messages_used < connection->session.window_messages &&
           size_bytes <= connection->session.window_bytes - connection->window_bytes_used;
}

static inline void set_slot(fry_peer_connection *connection, uint32_t slot, fry_message *message,
                            bool is_in_window, size_t window_bytes)
{
    fry_connection_slot *entry = &connection->slots[slot];
    entry->message = message;
    entry->window_bytes = (uint32_t)window_bytes;
    entry->is_used = true;
    entry->is_in_window = is_in_window;
    entry->join = FRY_JOIN_NOT;
    entry->is_notice = false;
    entry->is_recalled = false;
    entry->number = connection->send_number;
    entry->recall = 0;
    entry->put = NULL;
    connection->window_messages_used += is_in_window;
    connection->window_bytes_used += window_bytes;
}

/*
 * Takes a slot (there must be one), a number and a share of the window for the message, and fills
 * in the rest of its header. Returns whether its data is pulled.
 */
static inline bool take_launch(fry_peer_connection *connection, fry_message *message,
                               uint32_t ahead, fry_wire_header *header)
{
    size_t size_bytes = message->size_bytes;
    uint32_t slot = fry_connection_take_slot(connection);
    bool is_notice = fry_unlikely(message->is_apart) && message->is_notice;
    bool is_in_window = message->memory != NULL && size_bytes > 0 && !is_notice &&
                        size_bytes <= connection->eager_bytes_max &&
                        fits_window(connection, size_bytes);
    set_slot(connection, slot, message, is_in_window, is_in_window ? size_bytes : 0);
    header->number = connection->send_number++;
    header->tag = message->tag;
    header->op = message->op;
    header->is_apart = message->is_apart;
    header->is_notice = is_notice;
    header->size_bytes = size_bytes;
    header->slot = slot;
    header->ahead = ahead;
#ifdef FRY_PLANT_IGNORE_AHEAD
    header->ahead = 0; /* a planted fault: tests/planted builds it and must see it */
#endif
    message->number = slot;
    message->private_ = connection;
    if (fry_unlikely(is_notice)) {
        connection->slots[slot].is_notice = true;
        connection->notices_out++;
        return false;
    }
    return size_bytes > 0 && !is_in_window;
}

/*
 * Needs a slot, and nothing gathered. Sets everything before it calls the channel, which may call
 * back.
 */
static void launch(fry_peer_connection *connection, fry_message *message, uint32_t ahead)
{
    fry_wire_header header;
    bool is_pulled = take_launch(connection, message, ahead, &header);
    bool is_held = fry_unlikely(message->is_staged) && is_pulled;
    header.is_yes = is_held && message->may_join && connection->joint != NULL;
    header.kind = is_held ? FRY_WIRE_HELD : is_pulled ? FRY_WIRE_PULLED : FRY_WIRE_EAGER;
    is_pulled = is_pulled && !is_held;
    header.acked = fry_connection_take_run(connection);
    uint8_t bytes[FRY_HEADER_BYTES_MAX];
    size_t header_bytes = FRY_WIRE_MESSAGE_BYTES;
    if (fry_likely(connection->has_short && fry_wire_can_be_short(&header, connection->op_sent)))
        header_bytes = fry_wire_pack_short(bytes, &header);
    else if (fry_unlikely(is_held))
        (void)fry_wire_pack(bytes, &header);
    else
        fry_wire_pack_message(bytes, &header);
    connection->op_sent = header.op;

    message->state = FRY_MESSAGE_UNDER_WAY;
    message->post.data = message->memory;
    message->post.size_bytes = is_held ? 0 : message->size_bytes;
    message->post.is_pulled = is_pulled;
    message->post.done = post_done;
    message->post.arg = message;
    if (is_held)
        message->flags |= FRY_MESSAGE_IN_PIECES;
    if (is_pulled)
        message->flags |= FRY_MESSAGE_PULLED;
    else
        connection->posting++;
    if (fry_connection_post(connection, &message->post, bytes, header_bytes) != FRY_POST_DONE)
        return;
    if (!is_pulled)
        connection->posting--;
    fry_send_post_is_over(message);
}

/* Needs a slot, and room in the window and in the bundle. */
static void gather(fry_peer_connection *connection, fry_message *message, uint32_t ahead)
{
    fry_wire_header header;
    (void)take_launch(connection, message, ahead, &header);
    fry_bundle_add(connection, &header, message->memory);
    message->state = FRY_MESSAGE_DELIVERED;
}

/*
 * Launches a poison in place of a message that failed, which the caller then makes quiet. The
 * fault's words count as a message of the window and take one chunk of it; if the window is full
 * the poison goes without them. Needs a slot and a control.
 */
static void launch_poison(fry_peer_connection *connection, fry_message *message,
                          const fry_fault *fault)
{
    fry_wire_header header = {.kind = FRY_WIRE_POISON,
                              .tag = message->tag,
                              .op = message->op,
                              .is_apart = message->is_apart};
    fry_fault_for_other(connection->peer, fault, &header.fault);
    bool has_words = header.fault.message[0] != 0 || header.fault.domain != NULL;
    bool is_in_window = has_words && fits_window(connection, 0);
    if (!is_in_window) {
        header.fault.message[0] = 0;
        header.fault.domain = NULL;
    }
    header.slot = fry_connection_take_slot(connection);
    set_slot(connection, header.slot, NULL, is_in_window, 0);
    header.number = connection->send_number++;
    if (!message->is_apart)
        header.ahead = fry_match_launch(&connection->peer->sends, message);
    fry_list_take(message); /* so that nobody else ends it */
    (void)fry_connection_send(connection, &header);
}

static inline bool can_launch(const fry_peer *peer)
{
    return peer->connection != NULL && peer->connection->state == FRY_CONNECTION_ATTACHED &&
           fry_connection_has_slot(peer->connection);
}

static inline bool can_launch_poison(const fry_peer *peer)
{
    return can_launch(peer) && peer->connection->controls_free != NULL;
}

/* Whether the message can be gathered. Only then is there room for it. */
static bool can_gather(const fry_peer_connection *connection, const fry_message *message)
{
    size_t size_bytes = message->size_bytes;
    if (fry_unlikely(message->is_apart))
        return message->is_notice && fry_bundle_takes(connection, size_bytes);
    return fry_bundle_takes(connection, size_bytes) &&
           (size_bytes == 0 || (message->memory != NULL && fits_window(connection, size_bytes)));
}

/* The message can only go in pieces, which the other end does not know. */
static void refuse_staged(fry_message *message)
{
    fry_peer *peer = message->peer;
    fry_fault fault = {.status = FERRY_E_UNSUPPORTED, .rank = peer->options.rank};
    (void)snprintf(fault.message, sizeof(fault.message), FRY_NO_PIECES);
    peer->options.events->resolved(peer->turn, message, FERRY_E_UNSUPPORTED, &fault);
    fault.rank = -1;
    fry_send_withdraw(message, &fault);
}

/* False: not launched, because posting the bundle has failed the connection. */
static bool start(fry_peer *peer, fry_message *message, bool gathers)
{
    fry_peer_connection *connection = peer->connection;
    if (fry_unlikely(message->is_staged && !connection->session.has_pieces)) {
        refuse_staged(message);
        return true;
    }
    bool joins = (gathers || connection->bundle != NULL) && can_gather(connection, message);
    if (connection->bundle != NULL &&
        (!joins || fry_bundle_is_full(connection, message->size_bytes))) {
        fry_bundle_post(connection);
        if (peer->connection != connection)
            return true; /* the connection was detached, and the message is over */
        if (!can_launch(peer))
            return false;
        joins = gathers && can_gather(connection, message);
    }
    uint32_t ahead = message->is_apart ? 0 : fry_match_launch(&peer->sends, message);
    if (joins)
        gather(connection, message, ahead);
    else
        launch(connection, message, ahead);
    return true;
}

bool fry_peer_can_send(const fry_peer *peer, const fry_message *message, bool gathers)
{
    if (!TAILQ_EMPTY(&peer->waiting) || !can_launch(peer) || fry_unlikely(message->is_staged) ||
        fry_unlikely(message->is_apart) || peer->send_count >= peer->options.unexpected_max)
        return false;
    const fry_peer_connection *connection = peer->connection;
    return gathers ? can_gather(connection, message) &&
                         !fry_bundle_is_full(connection, message->size_bytes)
                   : connection->bundle == NULL;
}

/* The message is never in its tag's list: all that are go before it. */
void fry_peer_send(fry_peer *peer, fry_message *message, bool gathers, void *turn)
{
    peer->turn = turn;
    const fry_tag_entry *entry = fry_match_entry(&peer->sends, message->tag);
    uint32_t ahead = entry != NULL ? entry->count : 0;
    peer->send_count++;
    fry_peer_add_open(peer, message);
    if (gathers)
        gather(peer->connection, message, ahead);
    else
        launch(peer->connection, message, ahead);
}

void fry_send_start(fry_message *message, bool gathers)
{
    fry_peer *peer = message->peer;
    if (fry_unlikely(!TAILQ_EMPTY(&peer->waiting) || !can_launch(peer) ||
                     !start(peer, message, gathers)))
        wait(message);
}

void fry_sends_start_waiting(fry_peer *peer)
{
    while (!TAILQ_EMPTY(&peer->waiting) && can_launch(peer)) {
        fry_message *message = TAILQ_FIRST(&peer->waiting);
        bool is_poison = message->flags & (FRY_MESSAGE_GHOST | FRY_MESSAGE_BARE);
        if (is_poison && !can_launch_poison(peer))
            return;
        fry_send_stop_waiting(message);
        if (is_poison) {
            fry_fault fault;
            fry_fault_of_ghost(message, &fault);
            launch_poison(peer->connection, message, &fault);
            fry_message_make_quiet(message);
        } else if (!start(peer, message, !TAILQ_EMPTY(&peer->waiting))) {
            wait(message);
        }
    }
    if (peer->connection != NULL)
        fry_bundle_flush(peer->connection);
}

/* ---- gets and puts that the other end is to be asked for: reach.c ---- */

static void leave_untold(fry_message *message)
{
    const fry_peer_connection *connection = message->private_;
    message->is_untold = false;
    if (message->is_notice)
        TAILQ_REMOVE(&message->peer->notices, message, waiting);
    else
        TAILQ_REMOVE(&connection->windows->untold, message, waiting);
}

/* Which of two ends has given a tag: the lower rank's are even. */
static ferry_tag next_tag(fry_peer *peer)
{
    return peer->reaches++ << 1 | (peer->options.own_rank > peer->options.rank);
}

static void fail_without_memory(fry_message *message)
{
    const fry_fault fault = {.status = FERRY_E_NO_MEMORY, .rank = -1};
    fry_receive_begin_end(message);
    fry_message_finish(message, FERRY_E_NO_MEMORY, &fault);
}

/* There is a control. The message enters before, so that what comes finds it. */
static void tell(fry_peer_connection *connection, fry_message *message)
{
    const fry_wire_header header = {.kind = message->is_send ? FRY_WIRE_PUT : FRY_WIRE_GET,
                                    .number = message->reach_number,
                                    .tag = next_tag(connection->peer),
                                    .offset = message->reach_offset,
                                    .size_bytes = message->size_bytes};
    fry_record *record = NULL;
    message->tag = header.tag;
    message->private_ = NULL;
    if (!message->is_send && !fry_match_enter_receive(&connection->peer->apart, message, &record)) {
        fail_without_memory(message);
        return;
    }
    if (record != NULL) { /* nobody has asked for it, but here it is */
        fry_receive_take(message, record);
        fry_receive_ready(message);
        return;
    }
    bool is_send = message->is_send;
    (void)fry_connection_send(connection, &header);
    if (is_send && connection->peer->connection == connection)
        fry_send_start(message, false);
}

void fry_send_ask(fry_message *message)
{
    fry_peer_connection *connection = message->peer->connection;
    fry_finds *windows = connection->windows;
    if (TAILQ_EMPTY(&windows->untold) && connection->controls_free != NULL) {
        tell(connection, message);
        return;
    }
    message->is_untold = true;
    message->private_ = connection;
    TAILQ_INSERT_TAIL(&windows->untold, message, waiting);
}

void fry_sends_ask(fry_peer_connection *connection)
{
    fry_message *message;
    while (connection->controls_free != NULL && fry_connection_is_live(connection) &&
           (message = TAILQ_FIRST(&connection->windows->untold)) != NULL) {
        leave_untold(message);
        tell(connection, message);
    }
}

void fry_send_withdraw_untold(fry_message *message)
{
    fry_peer *peer = message->peer;
    leave_untold(message);
    message->state = FRY_MESSAGE_ENDED;
    --*(message->is_send ? &peer->send_count : &peer->receive_count);
    fry_message_make_quiet(message);
}

/* ---- notices: notice.c ---- */

static void refuse_notice(fry_message *message)
{
    fry_peer *peer = message->peer;
    fry_fault fault = {.status = FERRY_E_UNSUPPORTED, .rank = peer->options.rank};
    (void)snprintf(fault.message, sizeof(fault.message),
                   "the other member's ferry does not know notices");
    message->state = FRY_MESSAGE_ENDED;
    peer->send_count--;
    peer->options.events->resolved(peer->turn, message, FERRY_E_UNSUPPORTED, &fault);
    fry_message_make_quiet(message);
}

/* Those that nobody takes leave half of the slots to messages. */
static bool has_notice_room(const fry_peer_connection *connection)
{
    return connection->notices_out < FRY_NOTICES_UNTAKEN &&
           connection->notices_out <= connection->slot_count / 2;
}

/* False: the first of those that wait has yet to wait. */
static bool notify_first(fry_peer *peer, bool gathers)
{
    fry_peer_connection *connection = peer->connection;
    fry_message *message = TAILQ_FIRST(&peer->notices);
    bool can_be = connection->windows == NULL || has_notice_room(connection);
    connection->notices_are_due = can_be; /* if it waits for a slot */
    if (!can_be || !can_launch(peer))
        return false;
    leave_untold(message);
    if (connection->windows == NULL) {
        refuse_notice(message);
        return true;
    }
    bool is_next = TAILQ_FIRST(&peer->notices) != NULL;
    if (start(peer, message, gathers || is_next))
        return true;
    message->is_untold = true;
    TAILQ_INSERT_HEAD(&peer->notices, message, waiting);
    return false;
}

void fry_sends_notify(fry_peer *peer, bool gathers)
{
    const fry_peer_connection *connection = peer->connection;
    while (peer->connection == connection && connection != NULL && !TAILQ_EMPTY(&peer->notices)) {
        if (!notify_first(peer, gathers))
            break;
    }
    if (peer->connection == NULL)
        return;
    if (TAILQ_EMPTY(&peer->notices))
        peer->connection->notices_are_due = false;
    if (!gathers)
        fry_bundle_flush(peer->connection);
}

/* ---- withdrawing ---- */

static void withdraw_unlaunched(fry_message *message, const fry_fault *fault)
{
    fry_peer *peer = message->peer;
    fry_send_stop_waiting(message);
    message->state = FRY_MESSAGE_ENDED;
    if (TAILQ_EMPTY(&peer->waiting) && can_launch_poison(peer)) {
        launch_poison(peer->connection, message, fault);
        fry_message_make_quiet(message);
        return;
    }
    fry_match *sends = message->is_apart ? NULL : &peer->sends;
    fry_message *ghost = fry_message_leave_ghost(message, sends, fault);
    wait(ghost);
    fry_message_be_replaced(message, ghost);
}

void fry_send_poison(fry_message *ghost)
{
    wait(ghost);
    fry_sends_start_waiting(ghost->peer);
}

void fry_sends_recall(fry_peer_connection *connection)
{
    for (uint32_t i = 0; i < connection->slots_fresh && connection->recalls > 0; i++) {
        fry_connection_slot *slot = &connection->slots[i];
        if (!slot->is_used || slot->recall == 0)
            continue;
        if (connection->controls_free == NULL)
            return;
        fry_wire_header header = {
            .kind = FRY_WIRE_RECALL, .number = connection->send_number++, .slot = i};
        header.fault.status = (ferry_status)slot->recall;
        header.fault.rank = connection->peer->options.own_rank;
        header.fault.op = slot->recalled_op;
        slot->recall = 0;
        slot->is_recalled = true;
        connection->recalls--;
        (void)fry_connection_send(connection, &header);
    }
}

/* Its answer counts like the end of one more post. */
static void await_answer(fry_connection_slot *slot, fry_message *message, bool is_posted)
{
    if (message->posts == 0 && !is_posted)
        message->posts = 1; /* its own post */
    message->posts++;
    slot->put = message;
}

static void withdraw_launched(fry_message *message, const fry_fault *fault)
{
    fry_peer_connection *connection = message->private_;
    bool is_over = message->state == FRY_MESSAGE_DELIVERED;
    bool is_put = message->is_apart && !message->is_notice && message->is_put;
    message->state = FRY_MESSAGE_ENDED;
    fry_connection_slot *slot = &connection->slots[message->number];
    if (is_put)
        await_answer(slot, message, is_over);
    fry_lots_forget(connection, message);
    slot->message = NULL;
    bool is_in_pieces = (message->flags & FRY_MESSAGE_IN_PIECES) != 0;
    bool is_awaited = is_in_pieces || (!is_over && (message->flags & FRY_MESSAGE_PULLED) != 0);
    uint64_t op = message->op;
    if (is_in_pieces)
        fry_serve_end(connection, message);
    if (is_over && !is_put)
        fry_message_make_quiet(message);
    if (is_awaited && connection->state == FRY_CONNECTION_ATTACHED) {
        fry_fault told;
        fry_fault_for_other(connection->peer, fault, &told);
        slot->recall = told.status;
        slot->recalled_op = told.op != 0 ? told.op : op;
        connection->recalls++;
        fry_sends_recall(connection);
    }
}

void fry_send_withdraw(fry_message *message, const fry_fault *fault)
{
    if (message->state == FRY_MESSAGE_ENTERED || message->state == FRY_MESSAGE_READY)
        withdraw_unlaunched(message, fault);
    else
        withdraw_launched(message, fault);
}

/* ---- answers ---- */

/* There is room for another, in the next progress. */
static void notice_was_answered(fry_peer_connection *connection)
{
    connection->notices_out--;
    connection->notices_are_due = !TAILQ_EMPTY(&connection->peer->notices);
}

static __attribute__((noinline)) void put_was_answered(fry_connection_slot *slot)
{
    fry_message *message = slot->put;
    slot->put = NULL;
    fry_send_post_is_over(message);
}

/* Frees a slot. Returns its message, or NULL. */
static inline fry_message *end_slot(fry_peer_connection *connection, uint32_t number)
{
    fry_connection_slot *slot = &connection->slots[number];
    fry_message *message = slot->message;
    connection->window_messages_used -= slot->is_in_window;
    connection->window_bytes_used -= slot->window_bytes;
    if (fry_unlikely(slot->recall != 0))
        connection->recalls--;
    slot->is_used = false;
    slot->recall = 0;
    connection->answers_heard++;
    connection->peer->send_count--;
    if (fry_unlikely(slot->is_notice))
        notice_was_answered(connection);
    if (fry_unlikely(slot->put != NULL))
        put_was_answered(slot);
    fry_connection_give_slot(connection, number);
    if (message != NULL && fry_unlikely((message->flags & FRY_MESSAGE_IN_PIECES) != 0)) {
        fry_serve_end(connection, message);
        fry_lots_forget(connection, message);
    }
    return message;
}

static inline bool is_slot_used(const fry_peer_connection *connection, uint32_t slot)
{
    return slot < connection->slots_fresh && connection->slots[slot].is_used;
}

bool fry_send_acknowledged(fry_peer_connection *connection, uint32_t slot)
{
    if (fry_unlikely(!is_slot_used(connection, slot)))
        return false;
    fry_message *message = end_slot(connection, slot);
    if (message != NULL)
        fry_message_finish(message, FERRY_OK, NULL);
    return true;
}

/* An event may end the connection: then the rest of the run is of no use. */
bool fry_sends_acknowledged(fry_peer_connection *connection, fry_wire_run run)
{
    for (uint32_t i = 0; i < run.count && fry_connection_is_live(connection); i++) {
        if (run.first + i < run.first || !fry_send_acknowledged(connection, run.first + i))
            return false;
    }
    return true;
}

bool fry_send_refused(fry_peer_connection *connection, const fry_wire_header *header)
{
    if (!is_slot_used(connection, header->slot))
        return false;
    fry_message *message = end_slot(connection, header->slot);
    if (message == NULL)
        return true;
    message->other_op = header->op;
    if (header->kind == FRY_WIRE_LENGTH) {
        fry_fault fault;
        fry_fault_of_lengths(connection->peer, message->size_bytes, header->size_bytes, header->op,
                             &fault);
        fry_message_finish(message, FERRY_E_LENGTH, &fault);
    } else {
        fry_message_finish(message, fry_status_of_fault(connection->peer, &header->fault),
                           &header->fault);
    }
    return true;
}
