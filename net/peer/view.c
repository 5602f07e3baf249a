/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Views: a receive reads its message where the sender has it, in the memory of a GPU of the same
 * host. The two ends:
 *
 *      receiver                                  sender (net/peer/show.c)
 *      VIEW, once its receive is ready    ─►     shows the place; it may be read from now on
 *      the engine reads                   ◄─     SHOW
 *      VIEWED, all was read               ─►     is it still offered? then nobody reads any more
 *      the receive has its bytes          ◄─     HOLDS
 *      answers the launch                 ─►     the send is done
 *
 * *Why OK means the right bytes.* The engine's reads end before VIEWED. If the sender says HOLDS to
 * that, the message was not withdrawn at that moment, so its bytes were as they should be during
 * all reads before. If it was withdrawn there is no HOLDS, but a recall. So this member may be
 * stopped for as long as you like, while the other gives the connection up and uses the memory for
 * something else: what is read then is never taken for a message.
 *
 * *Why the sender knows when it is quiet.* Each VIEW is answered by one SHOW, and each SHOW with a
 * place by one VIEWED, when nobody reads any more: also if the receive has failed meanwhile, which
 * the sender hears at once, by the answer to the launch. So a view outlives its receive, without a
 * message (is_given_up); what is read then belongs to nobody. The sender's message is quiet when
 * VIEWED has come, or the connection is destroyed.
 *
 * If there is no place, or the engine can't read there, the message comes in pieces.
 *
 * A view is one of the pieces that a connection may ask for, so views are bounded like those. What
 * is due and finds no control is counted in `unasked`, and told in the next progress.
 */
#include "net/peer/view.h"

#include "base/lf.h"
#include "net/peer/connection.h"
#include "net/peer/match.h"
#include "net/peer/state.h"
#include "net/peer/wire.h"

bool fry_view_is_for(const fry_peer_connection *connection, const fry_record *record)
{
    return record->receive->may_view && connection->session.has_views && !record->has_no_place &&
           record->kind == FRY_WIRE_HELD && record->pieces == 0 && record->asked_bytes == 0;
}

static void end(fry_slice *view)
{
    view->connection->views--;
    fry_slice_end(&view->connection->asks_free, view, true);
}

/* ---- telling ---- */

void fry_view_tell(fry_slice *view)
{
    fry_peer_connection *connection = view->connection;
    fry_wire_header header = {.kind = FRY_WIRE_VIEWED, .slot = view->slot, .number = view->number};
    if (view->state == FRY_SLICE_PLACED) {
        header.kind = FRY_WIRE_VIEW;
        view->state = FRY_SLICE_ASKED;
    } else if (view->state == FRY_SLICE_VIEWED) {
        header.is_yes = true;
        view->state = FRY_SLICE_CHECKING;
    } else { /* LEAVING */
        end(view);
    }
    (void)fry_connection_send(connection, &header);
}

/* Tells the other end, or leaves that to the next progress. */
static void is_due(fry_slice *view, fry_slice_state state)
{
    fry_peer_connection *connection = view->connection;
    view->state = (uint8_t)state;
    if (connection->controls_free == NULL)
        connection->unasked++;
    else
        fry_view_tell(view);
}

/* ---- a view ---- */

void fry_view_begin(fry_peer_connection *connection, fry_record *record)
{
    fry_slice *view = connection->asks_free;
    connection->asks_free = view->next;
    connection->views++;
    *view = (fry_slice){.message = record->receive,
                        .number = record->number,
                        .slot = record->slot,
                        .is_staged = true,
                        .is_view = true,
                        .connection = connection};
    record->asked_bytes = record->size_bytes;
    record->pieces = 1;
    is_due(view, FRY_SLICE_PLACED);
}

/* The message goes on without it. */
static void part(fry_slice *view)
{
    view->message = NULL;
    view->is_given_up = true;
}

fry_view_news fry_view_is_read(fry_slice *view, bool has_all)
{
    if (!fry_connection_is_live(view->connection)) {
        view->state = FRY_SLICE_CHECKING; /* it ends as the channel is destroyed */
        return FRY_VIEW_NOTHING;
    }
    bool is_refused = !has_all && !view->is_given_up;
    if (is_refused)
        part(view);
    is_due(view, view->is_given_up ? FRY_SLICE_LEAVING : FRY_SLICE_VIEWED);
    return is_refused ? FRY_VIEW_IS_REFUSED : FRY_VIEW_NOTHING;
}

void fry_view_give_up(fry_slice *view)
{
    part(view);
    if (view->state == FRY_SLICE_PLACED) {
        view->connection->unasked--;
        end(view);
    } else if (view->state == FRY_SLICE_VIEWED) {
        view->state = FRY_SLICE_LEAVING; /* due as before */
    } else if (view->state == FRY_SLICE_CHECKING) {
        end(view); /* the other end has been told, and what it says is not needed */
    } /* else its answer, or the engine's, is awaited: ASKED, VIEWING; or it is LEAVING */
}

void fry_view_destroyed(fry_slice *view)
{
    const fry_peer *peer = view->connection->peer;
    if (view->state == FRY_SLICE_PLACED || view->state == FRY_SLICE_VIEWED ||
        view->state == FRY_SLICE_LEAVING)
        view->connection->unasked--;
    if (view->state == FRY_SLICE_VIEWING)
        peer->options.events->over(peer->turn, view);
    end(view);
}

/* ---- what comes ---- */

static fry_slice *find(fry_peer_connection *connection, const fry_wire_header *header,
                       fry_slice_state state)
{
    for (size_t i = 0; i < FRY_CONNECTION_ASKED; i++) {
        fry_slice *view = &connection->slices[i];
        if (view->state == (uint8_t)state && view->is_view && view->slot == header->slot &&
            view->number == header->number)
            return view;
    }
    return NULL;
}

static fry_view_news is_shown(fry_slice *view, const fry_wire_header *header)
{
    const fry_peer *peer = view->connection->peer;
    if (view->is_given_up && header->is_yes) {
        is_due(view, FRY_SLICE_LEAVING);
    } else if (view->is_given_up || !header->is_yes) {
        bool is_refused = !view->is_given_up;
        end(view);
        return is_refused ? FRY_VIEW_IS_REFUSED : FRY_VIEW_NOTHING;
    } else {
        view->state = FRY_SLICE_VIEWING;
        peer->options.events->shown(peer->turn, view, &header->place);
    }
    return FRY_VIEW_NOTHING;
}

fry_view_news fry_view_heard(fry_peer_connection *connection, const fry_wire_header *header,
                             fry_slice **view_p)
{
    if (header->slot >= connection->slot_count ||
        (int32_t)(header->number - connection->receive_number) >= 0)
        return FRY_VIEW_IS_WRONG;
    if (header->kind == FRY_WIRE_SHOW) {
        *view_p = find(connection, header, FRY_SLICE_ASKED);
        return *view_p != NULL ? is_shown(*view_p, header) : FRY_VIEW_IS_WRONG;
    }
    *view_p = find(connection, header, FRY_SLICE_CHECKING);
    if (*view_p != NULL)
        return FRY_VIEW_HAS_ALL;
    const fry_record *record = connection->by_slot[header->slot];
    bool has_ended = record == NULL || record->number != header->number;
    return has_ended ? FRY_VIEW_NOTHING : FRY_VIEW_IS_WRONG;
}
