/* SPDX-License-Identifier: Apache-2.0 */
#include "net/peer/peer.h"

#include "base/lf.h"
#include "net/peer/any.h"
#include "net/peer/ask.h"
#include "net/peer/bundle.h"
#include "net/peer/connection.h"
#include "net/peer/fault.h"
#include "net/peer/find.h"
#include "net/peer/hide.h"
#include "net/peer/joint.h"
#include "net/peer/match.h"
#include "net/peer/reach.h"
#include "net/peer/receive.h"
#include "net/peer/send.h"
#include "net/peer/serve.h"
#include "net/peer/state.h"
#include "net/peer/wire.h"
#include "net/transport.h"

#define TURNS_MAX 8 /* turns for which an answer waits for others */

/* ---- opening ---- */

fry_peer *fry_peer_open(const fry_peer_options *options)
{
    fry_peer *peer = fry_alloc(options->memory, sizeof(*peer), FRY_CACHE_LINE);
    if (peer == NULL)
        return NULL;
    peer->options = *options;
    fry_list_init(&peer->open);
    fry_list_init(&peer->old);
    TAILQ_INIT(&peer->waiting);
    TAILQ_INIT(&peer->finds);
    TAILQ_INIT(&peer->notices);
    if (!fry_match_open(&peer->sends, options->memory))
        goto without_sends;
    if (!fry_match_open(&peer->receives, options->memory))
        goto without_receives;
    if (!fry_match_open(&peer->apart, options->memory))
        goto without_apart;
    return peer;

without_apart:
    fry_match_close(&peer->receives);
without_receives:
    fry_match_close(&peer->sends);
without_sends:
    fry_free(options->memory, peer, sizeof(*peer));
    return NULL;
}

void fry_peer_close(fry_peer *peer)
{
    if (peer == NULL)
        return;
    fry_match_close(&peer->apart);
    fry_match_close(&peer->receives);
    fry_match_close(&peer->sends);
    fry_free(peer->options.memory, peer, sizeof(*peer));
}

void *fry_peer_arg(const fry_peer *peer)
{
    return peer->options.arg;
}

/* ---- messages ---- */

fry_message *fry_message_leave_ghost(fry_message *message, fry_match *match, const fry_fault *fault)
{
    fry_peer *peer = message->peer;
    fry_ghost *ghost = fry_alloc(peer->options.memory, sizeof(*ghost), _Alignof(fry_ghost));
    message->state = FRY_MESSAGE_ENDED;
    if (ghost == NULL) {
        message->flags |= FRY_MESSAGE_BARE;
        message->number = (uint32_t)(fault != NULL ? fault->status : FERRY_E_CANCELLED);
        return message;
    }
    fry_fault_for_other(peer, fault, &ghost->fault);
    ghost->message = (fry_message){
        .tag = message->tag,
        .op = message->op,
        .is_send = message->is_send,
        .is_apart = message->is_apart,
        .state = FRY_MESSAGE_ENDED,
        .flags = FRY_MESSAGE_GHOST,
        .peer = peer,
    };
    if (match != NULL)
        fry_match_replace(match, message, &ghost->message);
    fry_list_add(&peer->open, &ghost->message);
    return &ghost->message;
}

/* False: no memory. */
static bool enter_table(fry_peer *peer, fry_message *message, fry_record **record_p)
{
    if (message->is_send)
        return message->is_apart || fry_match_enter_send(&peer->sends, message);
    return fry_match_enter_receive(fry_peer_receives(peer, message->is_apart), message, record_p);
}

bool fry_peer_enter(fry_peer *peer, fry_message *message, void *turn)
{
    uint32_t *count = message->is_send ? &peer->send_count : &peer->receive_count;
    fry_record *record = NULL;
    peer->turn = turn;
    if (fry_unlikely(*count >= peer->options.unexpected_max && !message->is_apart))
        return false; /* what is apart was counted elsewhere */
    if (!enter_table(peer, message, &record))
        return false;
    ++*count;
    message->state = FRY_MESSAGE_ENTERED;
    message->private_ = NULL;
    fry_peer_add_open(peer, message);
    if (record != NULL) {
        message->flags = FRY_MESSAGE_TAKEN;
        message->private_ = record;
        message->other_op = record->op;
        record->receive = message;
    }
    if (fry_unlikely(peer->connection == NULL && !peer->has_wanted)) {
        peer->has_wanted = true;
        peer->options.events->wants_connection(turn, peer);
    }
    return true;
}

void fry_peer_ready(fry_message *message, void *turn)
{
    if (fry_unlikely(message->flags & FRY_MESSAGE_OLD))
        return; /* called within fry_peer_detach, which will finish it */
    fry_peer *peer = message->peer;
    peer->turn = turn;
    message->state = FRY_MESSAGE_READY;
    if (message->is_send) {
        fry_send_start(message, false); /* the message may be gone after this */
        fry_peer_flush(peer, turn);
    } else {
        fry_receive_ready(message);
    }
}

bool fry_peer_gather(fry_message *message, void *turn)
{
    fry_peer *peer = message->peer;
    if (!message->is_send || fry_unlikely(message->flags & FRY_MESSAGE_OLD)) {
        fry_peer_ready(message, turn);
        return false;
    }
    peer->turn = turn;
    message->state = FRY_MESSAGE_READY;
    fry_send_start(message, true);
    return peer->connection != NULL && peer->connection->bundle != NULL;
}

void fry_peer_flush(fry_peer *peer, void *turn)
{
    peer->turn = turn;
    if (peer->connection != NULL)
        fry_bundle_flush(peer->connection);
}

static void withdraw(fry_message *message, const fry_fault *fault)
{
    if (message->flags & FRY_MESSAGE_OLD) {
        /* Called within fry_peer_detach, which has not come to this message yet. */
        bool is_under_way = message->state == FRY_MESSAGE_UNDER_WAY;
        message->state = FRY_MESSAGE_ENDED;
        if (!is_under_way) {
            fry_message_make_quiet(message);
            return;
        }
        fry_peer_connection *connection = message->private_;
        fry_list_take(message);
        fry_list_add(&connection->ended, message);
    } else if (fry_unlikely(message->is_apart && message->is_untold)) {
        fry_send_withdraw_untold(message);
    } else if (message->is_send) {
        fry_send_withdraw(message, fault);
    } else {
        fry_receive_withdraw(message, fault);
    }
}

void fry_peer_withdraw(fry_message *message, const fry_fault *fault, void *turn)
{
    message->peer->turn = turn;
    withdraw(message, fault);
}

/* The message is in a list of the caller's. An event may take others out of that list. */
static void stop(fry_message *message, ferry_status status, const fry_fault *fault)
{
    fry_peer *peer = message->peer;
    fry_fault told;
    fry_fault_of_leaving(peer, &told);
    fry_list_take(message);
    fry_list_add(&peer->open, message);
    if (message->state >= FRY_MESSAGE_ENDED)
        return; /* an event has ended it, and it waits to be quiet */
    peer->options.events->resolved(peer->turn, message, status, fault);
    withdraw(message, &told);
}

/*
 * No receive gets a message any more: messages that come are turned away. So the ghosts and the
 * bare receives, which kept a place for one message each, are over, and later receives leave none.
 */
static void stop_receiving(fry_peer *peer)
{
    fry_message places;
    peer->has_stopped = true;
    fry_receives_stop(peer);
    fry_list_init(&places);
    for (fry_message *message = peer->open.open_next, *next; message != &peer->open;
         message = next) {
        next = message->open_next;
        if (message->is_send || !(message->flags & (FRY_MESSAGE_GHOST | FRY_MESSAGE_BARE)))
            continue;
        fry_list_take(message);
        fry_list_add(&places, message);
    }
    while (places.open_next != &places) {
        peer->receive_count--;
        fry_message_make_quiet(places.open_next);
    }
}

void fry_peer_stop(fry_peer *peer, bool with_sends, ferry_status status, const fry_fault *fault,
                   void *turn)
{
    fry_message stopped;
    peer->turn = turn;
    if (!peer->has_stopped)
        stop_receiving(peer);
    fry_list_init(&stopped);
    for (fry_message *message = peer->open.open_next, *next; message != &peer->open;
         message = next) {
        next = message->open_next;
        if (message->state >= FRY_MESSAGE_ENDED || (message->is_send && !with_sends))
            continue;
        fry_list_take(message);
        fry_list_add(&stopped, message);
    }
    while (stopped.open_next != &stopped)
        stop(stopped.open_next, status, fault);
}

/* ---- the connection ---- */

void *fry_peer_channel_arg(fry_peer_connection *connection)
{
    return connection;
}

void fry_peer_attach(fry_peer *peer, fry_peer_connection *connection, fry_channel *channel,
                     void *turn)
{
    peer->turn = turn;
    connection->peer = peer;
    connection->channel = channel;
    connection->eager_bytes_max =
        channel->eager_bytes_max < UINT32_MAX ? (uint32_t)channel->eager_bytes_max : UINT32_MAX;
    peer->connection = connection;
    peer->epoch++;
    peer->has_wanted = false;
    if (connection->state == FRY_CONNECTION_FAILED) {
        connection->fault.rank = peer->options.rank;
        peer->options.events->connection_failed(turn, peer, &connection->fault);
        return;
    }
    connection->state = FRY_CONNECTION_ATTACHED;
    fry_sends_start_waiting(peer);
    fry_finds_attach(peer);
    fry_sends_notify(peer, false);
}

/*
 * Says BYE after all answers that can be given. Without a free control the other end hears of it by
 * the channel's end.
 */
static void say_bye(fry_peer_connection *connection)
{
    fry_bundle_flush(connection);
    fry_connection_answer(connection);
    if (!fry_connection_is_live(connection) || connection->controls_free == NULL)
        return;
    const fry_wire_header header = {.kind = FRY_WIRE_BYE,
                                    .number = connection->send_number,
                                    .answers = connection->answers_posted};
    connection->is_bye_said = true;
    (void)fry_connection_send(connection, &header);
}

/* Whether the other end finds all that it needs of this end, even if the channel ends. */
static bool has_parted(const fry_peer_connection *connection)
{
    if (connection->channel->path == FRY_PATH_NET)
        return connection->has_farewell;
    return connection->controls_used == 0 && connection->posting == 0 && connection->shown == 0 &&
           connection->channel->leaving == 0;
}

static void try_to_part(fry_peer_connection *connection)
{
    if (connection->state == FRY_CONNECTION_ATTACHED) {
        fry_bundle_flush(connection);
        fry_sends_recall(connection);
        if (connection->state == FRY_CONNECTION_ATTACHED && connection->recalls == 0)
            connection->state = FRY_CONNECTION_LEAVING;
    }
    if (connection->state != FRY_CONNECTION_LEAVING || connection->is_bye_said)
        return;
    fry_connection_answer(connection);
    if (connection->state == FRY_CONNECTION_LEAVING && !fry_connection_owes_answers(connection) &&
        connection->views == 0 && !fry_joint_is_busy(connection))
        say_bye(connection);
}

bool fry_peer_part(fry_peer *peer, void *turn)
{
    fry_peer_connection *connection = peer->connection;
    if (connection == NULL || !fry_connection_is_live(connection))
        return true;
    peer->turn = turn;
    try_to_part(connection);
    connection->is_parting =
        fry_connection_is_live(connection) && !(connection->is_bye_said && has_parted(connection));
    return !connection->is_parting;
}

/* Makes all open messages messages of a connection that is over. */
static void make_old(fry_peer *peer)
{
    while (peer->open.open_next != &peer->open) {
        fry_message *message = peer->open.open_next;
        fry_list_take(message);
        message->flags |= FRY_MESSAGE_OLD;
        fry_list_add(&peer->old, message);
    }
    fry_match_clear(&peer->sends);
    fry_match_clear(&peer->receives);
    fry_match_clear(&peer->apart);
    TAILQ_INIT(&peer->waiting);
    TAILQ_INIT(&peer->notices);
    peer->send_count = 0;
    peer->receive_count = 0;
    peer->has_wanted = false;
    peer->connection = NULL;
}

fry_peer_connection *fry_peer_detach(fry_peer *peer, ferry_status status, const fry_fault *fault,
                                     fry_channel **channel_p, void *turn)
{
    fry_peer_connection *connection = peer->connection;
    peer->turn = turn;
    if (connection != NULL) {
        fry_connection_state old = connection->state;
        connection->state =
            fry_connection_is_live(connection) ? FRY_CONNECTION_ENDING : FRY_CONNECTION_OVER;
        if (old == FRY_CONNECTION_ATTACHED ||
            (old == FRY_CONNECTION_LEAVING && !connection->is_bye_said))
            say_bye(connection);
        else
            fry_connection_answer(connection);
        connection->state = FRY_CONNECTION_OVER;
        if (peer->options.any != NULL)
            fry_any_forget(peer->options.any, connection);
        fry_joint_detach(connection);
        fry_ask_detach(connection);
        fry_serve_detach(connection);
    }
    fry_finds_detach(peer, connection, status, fault);
    if (channel_p != NULL)
        *channel_p = connection != NULL ? connection->channel : NULL;
    make_old(peer);
    while (peer->old.open_next != &peer->old) {
        fry_message *message = peer->old.open_next;
        if (message->flags & (FRY_MESSAGE_GHOST | FRY_MESSAGE_BARE)) {
            fry_message_make_quiet(message);
            continue;
        }
        /* A message that was withdrawn or resolved, and is not quiet, is under way. */
        bool is_ended = message->state == FRY_MESSAGE_ENDED;
        fry_list_take(message);
        if (is_ended || message->state == FRY_MESSAGE_UNDER_WAY)
            fry_list_add(&connection->ended, message);
        if (!is_ended)
            fry_message_finish(message, status, fault);
    }
    if (peer->options.any != NULL)
        fry_any_fail(peer->options.any, FRY_ANY_OF_RANK, peer->options.rank, status, fault, turn);
    return connection;
}

void fry_peer_destroyed(fry_peer *peer, fry_peer_connection *connection, void *turn)
{
    peer->turn = turn;
    if (connection != NULL && connection->peer != NULL) {
        fry_ask_destroyed(connection);
        fry_serve_destroyed(connection);
        fry_finds_destroyed(connection);
    }
    while (connection != NULL && connection->ended.open_next != &connection->ended)
        fry_message_make_quiet(connection->ended.open_next);
    if (peer->options.events->gone != NULL)
        peer->options.events->gone(turn, peer);
}

/* ---- progress ---- */

/*
 * When answers go. What one turn of progress received is answered at the latest in the next turn
 * that finds nothing. Between the two the engine runs what waited for it, and a message that this
 * sends takes the answer along. So a ping-pong has only its own messages. An end that has nothing
 * to send answers one turn later, and does not sleep before that turn (fry_peer_is_busy). While
 * each turn finds something, more answers are due soon, so they gather, for at most TURNS_MAX
 * turns; many of them go at once, well before the other end's window is full.
 */
static bool is_answer_due(fry_peer_connection *connection, bool was_due, size_t count)
{
    if (connection->unsent >= connection->batch || fry_unlikely(connection->refusals_first != NULL))
        return true;
    return was_due && (count == 0 || ++connection->turns >= TURNS_MAX);
}

/* The other end hears first of the receives that have ended early. */
static void ask_again(fry_peer_connection *connection)
{
    if (connection->refusals_first != NULL && fry_ask_can_go_on(connection))
        fry_connection_answer(connection);
    if (connection->refusals_first == NULL)
        fry_ask_go_on(connection);
}

size_t fry_peer_progress(fry_peer *peer, void *turn)
{
    fry_peer_connection *connection = peer->connection;
    if (connection == NULL || !fry_connection_is_live(connection))
        return 0;
    peer->turn = turn;
    fry_bundle_flush(connection);
    if (fry_unlikely(!fry_connection_is_live(connection)))
        return 1;
    bool was_due = connection->run_count > 0;
    size_t count = connection->channel->ops->progress(connection->channel);
    if (!fry_connection_is_live(connection))
        return count;
    if (fry_unlikely(connection->recalls > 0 && connection->state == FRY_CONNECTION_ATTACHED))
        fry_sends_recall(connection);
    if (fry_unlikely(connection->has_bye)) /* it waits for a control */
        fry_connection_hear_bye(connection);
    if (fry_unlikely(connection->unasked > 0 || connection->asking_first != NULL))
        ask_again(connection);
    if (fry_unlikely(connection->hide_is_due || connection->hidden_is_due))
        fry_hide_go_on(connection);
    if (fry_unlikely(connection->notices_are_due))
        fry_sends_notify(peer, false);
    if (connection->windows != NULL && /* not written anew each time that somebody looks */
        fry_unlikely(connection->windows->copyable_bytes != FRY_REACH_COPIES_BYTES))
        connection->windows->copyable_bytes = FRY_REACH_COPIES_BYTES;
    if (fry_unlikely(connection->windows != NULL) && fry_finds_are_due(connection->windows)) {
        fry_finds_go_on(connection);
        fry_sends_ask(connection);
    }
    if (fry_unlikely(connection->joint != NULL) && fry_joint_is_due(connection))
        fry_joint_go_on(connection);
    if (fry_unlikely(connection->want_count > 0 || connection->unsaid > 0))
        fry_serve_go_on(connection);
    if (fry_unlikely(!TAILQ_EMPTY(&peer->waiting)))
        fry_sends_start_waiting(peer);
    if (fry_connection_is_live(connection) && is_answer_due(connection, was_due, count)) {
        connection->turns = 0;
        count += connection->run_count;
        fry_connection_answer(connection);
    }
    if (fry_unlikely(connection->is_parting) && count > 0)
        peer->options.events->parted(turn, peer);
    return count;
}

bool fry_peer_is_busy(const fry_peer *peer)
{
    const fry_peer_connection *connection = peer->connection;
    return connection != NULL && fry_connection_is_live(connection) &&
           (connection->run_count > 0 || connection->posting > 0 || connection->pulling > 0 ||
            connection->controls_used > 0 || connection->channel->leaving > 0 ||
            connection->refusals_first != NULL || fry_ask_can_go_on(connection) ||
            (connection->joint != NULL && fry_joint_is_due(connection)) ||
            (connection->want_count > 0 && connection->serves_free != NULL) ||
            (connection->recalls > 0 && connection->state == FRY_CONNECTION_ATTACHED));
}

fry_arming fry_peer_arm(fry_peer *peer, void *turn)
{
    fry_peer_connection *connection = peer->connection;
    if (connection == NULL || !fry_connection_is_live(connection))
        return FRY_ARMING_ARMED;
    peer->turn = turn;
    fry_bundle_flush(connection);
    fry_connection_answer(connection);
    return fry_connection_is_live(connection) ? connection->channel->ops->arm(connection->channel)
                                              : FRY_ARMING_ARMED;
}

int64_t fry_peer_look_ns(const fry_peer *peer)
{
    const fry_peer_connection *connection = peer->connection;
    return connection != NULL && fry_connection_is_live(connection) ? connection->channel->look_ns
                                                                    : 0;
}
