/* SPDX-License-Identifier: Apache-2.0 */
#include "net/peer/seek.h"

#include "base/lf.h"
#include "net/peer/any.h"
#include "net/peer/match.h"
#include "net/peer/state.h"

static void init(fry_any *any, const fry_peer *peer, bool takes_any_tag, fry_message *message)
{
    message->peer = NULL;
    message->flags = 0;
    message->other_op = 0;
    message->state = FRY_MESSAGE_ENTERED;
    message->private_ = NULL;
    message->seek = (fry_seek){.any = any,
                               .place = ++any->places,
                               .rank = peer != NULL ? peer->options.rank : -1,
                               .takes_any_tag = takes_any_tag};
}

/* What it names may only be heard of by a connection: also that the member is gone. */
static void want_connection(fry_peer *peer)
{
    if (peer == NULL || peer->connection != NULL || peer->has_wanted)
        return;
    peer->has_wanted = true;
    peer->options.events->wants_connection(peer->turn, peer);
}

/* None of the kept messages is for it. */
static fry_seek_result wait(fry_any *any, fry_peer *peer, fry_message *message)
{
    if (any->waiting_count >= any->waiting_max)
        return FRY_SEEK_MANY;
    if (peer == NULL && any->is_alone)
        return FRY_SEEK_ALONE;
    fry_any_add(any, message);
    want_connection(peer);
    return FRY_SEEK_ENTERED;
}

/* Takes a first message for a receive that is the peer's. */
static void take(fry_peer *peer, fry_message *message, fry_record *record)
{
    fry_any_take(peer->connection, record);
    fry_match_unkeep(&peer->receives, record);
    fry_receive_meet(peer, message, record);
    fry_receive_take(message, record);
}

/*
 * A receive that names its member and its tag stands in the peer's table. Of those that stand there
 * none waits for a first message: it would have it.
 */
static fry_seek_result enter_table(fry_peer *peer, fry_message *message)
{
    fry_message *posted;
    if (peer->receive_count >= peer->options.unexpected_max)
        return FRY_SEEK_FULL;
    fry_record *record = fry_match_first(&peer->receives, message->tag, &posted);
    if (record == NULL && !fry_match_post(&peer->receives, message))
        return FRY_SEEK_FULL;
    fry_peer_adopt(peer, message);
    if (record != NULL)
        take(peer, message, record);
    else
        want_connection(peer);
    return FRY_SEEK_ENTERED;
}

fry_seek_result fry_seek_enter(fry_any *any, fry_peer *peer, bool takes_any_tag,
                               fry_message *message, void *turn)
{
    init(any, peer, takes_any_tag, message);
    if (peer != NULL)
        peer->turn = turn;
    if (peer != NULL && !takes_any_tag)
        return enter_table(peer, message);
    fry_unmatched *kept = fry_any_look(any, &message->seek, message->tag);
    if (kept == NULL)
        return wait(any, peer, message);
    fry_peer *from = kept->connection->peer;
    from->turn = turn;
    fry_peer_adopt(from, message);
    take(from, message, kept->record);
    return FRY_SEEK_ENTERED;
}

fry_seek_result fry_seek_probe(fry_any *any, fry_peer *peer, bool takes_any_tag,
                               fry_message *message, void *turn)
{
    fry_message *posted;
    init(any, peer, takes_any_tag, message);
    message->seek.is_probe = true;
    const fry_record *record = NULL;
    fry_peer *from = peer;
    if (peer != NULL)
        peer->turn = turn;
    if (peer != NULL && !takes_any_tag) {
        record = fry_match_first(&peer->receives, message->tag, &posted);
    } else {
        const fry_unmatched *kept = fry_any_look(any, &message->seek, message->tag);
        record = kept != NULL ? kept->record : NULL;
        from = kept != NULL ? kept->connection->peer : NULL;
    }
    if (record == NULL)
        return wait(any, peer, message);
    from->turn = turn;
    fry_receive_found(from, message, record);
    return FRY_SEEK_ENTERED;
}

void fry_seek_ready(fry_message *message)
{
    message->state = FRY_MESSAGE_READY;
}

void fry_seek_withdraw(fry_message *message, void *turn)
{
    fry_any *any = message->seek.any;
    fry_any_leave(any, message);
    message->state = FRY_MESSAGE_QUIET;
    any->events->quiet(turn, message);
}
