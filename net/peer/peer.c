/* SPDX-License-Identifier: Apache-2.0 */
#include "net/peer/peer.h"

#include "base/lf.h"
#include "net/peer/bundle.h"
#include "net/peer/fault.h"
#include "net/peer/lane.h"
#include "net/peer/match.h"
#include "net/peer/receive.h"
#include "net/peer/send.h"
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
    if (!fry_match_open(&peer->sends, options->memory))
        goto without_sends;
    if (!fry_match_open(&peer->receives, options->memory))
        goto without_receives;
    return peer;

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
        .state = FRY_MESSAGE_ENDED,
        .flags = FRY_MESSAGE_GHOST,
        .peer = peer,
    };
    fry_match_replace(match, message, &ghost->message);
    fry_list_add(&peer->open, &ghost->message);
    return &ghost->message;
}

bool fry_peer_enter(fry_peer *peer, fry_message *message, void *turn)
{
    uint32_t *count = message->is_send ? &peer->send_count : &peer->receive_count;
    fry_record *record = NULL;
    peer->turn = turn;
    if (fry_unlikely(*count >= peer->options.unexpected_max))
        return false;
    if (message->is_send ? !fry_match_enter_send(&peer->sends, message)
                         : !fry_match_enter_receive(&peer->receives, message, &record))
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
    if (fry_unlikely(peer->lane == NULL && !peer->has_wanted)) {
        peer->has_wanted = true;
        peer->options.events->wants_lane(turn, peer);
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
    return peer->lane != NULL && peer->lane->bundle != NULL;
}

void fry_peer_flush(fry_peer *peer, void *turn)
{
    peer->turn = turn;
    if (peer->lane != NULL)
        fry_bundle_flush(peer->lane);
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
        fry_peer_lane *lane = message->private_;
        fry_list_take(message);
        fry_list_add(&lane->ended, message);
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

/* ---- the lane ---- */

static void channel_failed(void *arg, const fry_fault *fault)
{
    fry_lane_fail(arg, FERRY_E_PEER, fault, "the connection is lost");
}

const fry_channel_events fry_peer_channel_events = {
    .arrived = fry_lane_arrived,
    .failed = channel_failed,
};

void *fry_peer_channel_arg(fry_peer_lane *lane)
{
    return lane;
}

void fry_peer_attach(fry_peer *peer, fry_peer_lane *lane, fry_channel *channel, void *turn)
{
    peer->turn = turn;
    lane->peer = peer;
    lane->channel = channel;
    lane->eager_bytes_max =
        channel->eager_bytes_max < UINT32_MAX ? (uint32_t)channel->eager_bytes_max : UINT32_MAX;
    peer->lane = lane;
    peer->has_wanted = false;
    if (lane->state == FRY_LANE_FAILED) {
        lane->fault.rank = peer->options.rank;
        peer->options.events->lane_failed(turn, peer, &lane->fault);
        return;
    }
    lane->state = FRY_LANE_ATTACHED;
    fry_sends_start_waiting(peer);
}

/*
 * Says BYE after all answers that can be given. Without a free control the other end hears of it by
 * the channel's end.
 */
static void say_bye(fry_peer_lane *lane)
{
    fry_bundle_flush(lane);
    fry_lane_answer(lane);
    if (!fry_lane_is_live(lane) || lane->controls_free == NULL)
        return;
    const fry_wire_header header = {
        .kind = FRY_WIRE_BYE, .number = lane->send_number, .answers = lane->answers_posted};
    lane->is_bye_said = true;
    (void)fry_lane_send(lane, &header);
}

/* Whether the other end finds all that it needs of this end, even if the channel ends. */
static bool has_parted(const fry_peer_lane *lane)
{
    if (lane->channel->path == FRY_PATH_NET)
        return lane->has_farewell;
    return lane->controls_used == 0 && lane->posting == 0 && lane->channel->leaving == 0;
}

static void try_to_part(fry_peer_lane *lane)
{
    if (lane->state == FRY_LANE_ATTACHED) {
        fry_bundle_flush(lane);
        fry_sends_recall(lane);
        if (lane->state == FRY_LANE_ATTACHED && lane->recalls == 0)
            lane->state = FRY_LANE_LEAVING;
    }
    if (lane->state != FRY_LANE_LEAVING || lane->is_bye_said)
        return;
    fry_lane_answer(lane);
    if (lane->state == FRY_LANE_LEAVING && !fry_lane_owes_answers(lane))
        say_bye(lane);
}

bool fry_peer_part(fry_peer *peer, void *turn)
{
    fry_peer_lane *lane = peer->lane;
    if (lane == NULL || !fry_lane_is_live(lane))
        return true;
    peer->turn = turn;
    try_to_part(lane);
    lane->is_parting = fry_lane_is_live(lane) && !(lane->is_bye_said && has_parted(lane));
    return !lane->is_parting;
}

/* Makes all open messages messages of a lane that is over. */
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
    peer->waiting_first = NULL;
    peer->waiting_last = NULL;
    peer->send_count = 0;
    peer->receive_count = 0;
    peer->has_wanted = false;
    peer->lane = NULL;
}

fry_peer_lane *fry_peer_detach(fry_peer *peer, ferry_status status, const fry_fault *fault,
                               fry_channel **channel_p, void *turn)
{
    fry_peer_lane *lane = peer->lane;
    peer->turn = turn;
    if (lane != NULL) {
        fry_lane_state old = lane->state;
        lane->state = fry_lane_is_live(lane) ? FRY_LANE_ENDING : FRY_LANE_OVER;
        if (old == FRY_LANE_ATTACHED || (old == FRY_LANE_LEAVING && !lane->is_bye_said))
            say_bye(lane);
        else
            fry_lane_answer(lane);
        lane->state = FRY_LANE_OVER;
    }
    if (channel_p != NULL)
        *channel_p = lane != NULL ? lane->channel : NULL;
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
            fry_list_add(&lane->ended, message);
        if (!is_ended)
            fry_message_finish(message, status, fault);
    }
    return lane;
}

void fry_peer_destroyed(fry_peer *peer, fry_peer_lane *lane, void *turn)
{
    peer->turn = turn;
    while (lane != NULL && lane->ended.open_next != &lane->ended)
        fry_message_make_quiet(lane->ended.open_next);
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
static bool is_answer_due(fry_peer_lane *lane, bool was_due, size_t count)
{
    if (lane->unsent >= lane->batch || fry_unlikely(lane->refusals_first != NULL))
        return true;
    return was_due && (count == 0 || ++lane->turns >= TURNS_MAX);
}

size_t fry_peer_progress(fry_peer *peer, void *turn)
{
    fry_peer_lane *lane = peer->lane;
    if (lane == NULL || !fry_lane_is_live(lane))
        return 0;
    peer->turn = turn;
    fry_bundle_flush(lane);
    if (fry_unlikely(!fry_lane_is_live(lane)))
        return 1;
    bool was_due = lane->run_count > 0;
    size_t count = lane->channel->ops->progress(lane->channel);
    if (!fry_lane_is_live(lane))
        return count;
    if (fry_unlikely(lane->recalls > 0 && lane->state == FRY_LANE_ATTACHED))
        fry_sends_recall(lane);
    if (fry_unlikely(lane->has_bye)) /* it waits for a control */
        fry_lane_hear_bye(lane);
    if (fry_unlikely(peer->waiting_first != NULL))
        fry_sends_start_waiting(peer);
    if (fry_lane_is_live(lane) && is_answer_due(lane, was_due, count)) {
        lane->turns = 0;
        count += lane->run_count;
        fry_lane_answer(lane);
    }
    if (fry_unlikely(lane->is_parting) && count > 0)
        peer->options.events->parted(turn, peer);
    return count;
}

bool fry_peer_is_busy(const fry_peer *peer)
{
    const fry_peer_lane *lane = peer->lane;
    return lane != NULL && fry_lane_is_live(lane) &&
           (lane->run_count > 0 || lane->posting > 0 || lane->pulling > 0 ||
            lane->controls_used > 0 || lane->channel->leaving > 0 || lane->refusals_first != NULL ||
            (lane->recalls > 0 && lane->state == FRY_LANE_ATTACHED));
}

fry_arming fry_peer_arm(fry_peer *peer, void *turn)
{
    fry_peer_lane *lane = peer->lane;
    if (lane == NULL || !fry_lane_is_live(lane))
        return FRY_ARMING_ARMED;
    peer->turn = turn;
    fry_bundle_flush(lane);
    fry_lane_answer(lane);
    return fry_lane_is_live(lane) ? lane->channel->ops->arm(lane->channel) : FRY_ARMING_ARMED;
}

int64_t fry_peer_look_ns(const fry_peer *peer)
{
    const fry_peer_lane *lane = peer->lane;
    return lane != NULL && fry_lane_is_live(lane) ? lane->channel->look_ns : 0;
}
