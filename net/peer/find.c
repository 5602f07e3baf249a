/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows, as two peers tell each other of them.
 *
 *     who seeks                                 owner
 *     FIND number, name ────────────────────►   answers when the window is open
 *     uses it  ◄──────────────────── FOUND      counts one more who may touch the memory
 *              ◄──────────────────── CLOSE      would close it
 *     LEFT, when nothing of it is in flight ─►  counts one less
 *
 * The seeker says LEFT also by itself, and at any time after FIND. A window that was found belongs
 * to the connection, and goes with it; the owner counts until the channel is destroyed, as after
 * that nothing that the other end reads is of any use to it (net/ucx/mark.h). So the owner's count
 * is 0 only when nobody can get bytes of that memory any more, nor have the owner write there.
 *
 * Numbers. Words may overtake one another. A number is the seeker's: its lower digits are a slot,
 * of FRY_WINDOWS_MOST, at both ends, and the rest counts the uses of that slot. So the owner needs
 * no memory that the seeker does not allow for, and knows of each word whether it is of this use of
 * the slot, of an earlier one, or of a later one, which says that the earlier is left:
 *
 *  - LEFT before its FIND: the slot remembers, and the FIND means nothing.
 *  - FIND of a later use before the LEFT of the earlier: stands for both, and the LEFT, when it
 *    comes, is of an earlier use, and means nothing, nor does what it tells.
 *  - CLOSE before FOUND: the seeker remembers, and is told of both when FOUND comes.
 *  - FOUND or CLOSE of what was left meanwhile: means nothing, as LEFT is on its way.
 *
 * A slot with a word to be said is not used again before it was said. net/peer/find.pml.
 */
#include "net/peer/find.h"

#include "net/peer/connection.h"
#include "net/peer/state.h"
#include "net/peer/wire.h"

#include <stdio.h>
#include <string.h>

#define SIZE_MAX_BYTES ((uint64_t)1 << 48)

static uint32_t slot_of(uint32_t number)
{
    return number % FRY_WINDOWS_MOST;
}

/* How much later in the use of a slot; both numbers are of the same. */
static int32_t later(uint32_t number, uint32_t than)
{
    return (int32_t)(number - than);
}

static bool can_say(const fry_peer_connection *connection)
{
    return connection->controls_free != NULL;
}

/* CLOSE, LEFT. */
static void say(fry_peer_connection *connection, fry_wire_kind kind, uint32_t number, uint32_t told)
{
    const fry_wire_header header = {.kind = (uint8_t)kind, .number = number, .told = told};
    (void)fry_connection_send(connection, &header);
}

/* ---- who seeks ---- */

static void say_find(fry_peer_connection *connection, const fry_find_slot *slot)
{
    fry_wire_header header = {.kind = FRY_WIRE_FIND, .number = slot->number};
    (void)snprintf(header.name, sizeof header.name, "%s", slot->found->name);
    (void)fry_connection_send(connection, &header);
}

static void say_find_word(fry_peer_connection *connection, fry_find_slot *slot)
{
    uint8_t due = slot->due;
    slot->due = 0;
    connection->windows->due--;
    if (due == FRY_WIRE_FIND)
        say_find(connection, slot);
    else
        say(connection, FRY_WIRE_LEFT, slot->number, slot->told);
}

static void find_word_is_due(fry_peer_connection *connection, fry_find_slot *slot,
                             fry_wire_kind kind)
{
    slot->due = (uint8_t)kind;
    connection->windows->due++;
    if (can_say(connection))
        say_find_word(connection, slot);
}

static fry_find_slot *free_slot(fry_finds *windows)
{
    uint32_t i = 0;
    while (i < windows->find_count &&
           (windows->finds[i].found != NULL || windows->finds[i].due != 0))
        i++;
    if (i == FRY_WINDOWS_MOST)
        return NULL;
    if (i == windows->find_count)
        windows->finds[windows->find_count++].number = i;
    return &windows->finds[i];
}

static void lose(fry_found *found, ferry_status status, const fry_fault *fault)
{
    const fry_peer *peer = found->peer;
    found->state = FRY_FOUND_GONE;
    found->map = NULL;
    peer->options.events->window_lost(peer->turn, found, status, fault);
}

static void refuse(fry_found *found, ferry_status status, const char *words)
{
    fry_fault fault = {.status = status, .rank = found->peer->options.rank};
    (void)snprintf(fault.message, sizeof fault.message, "%s", words);
    lose(found, status, &fault);
}

static void seek(fry_peer_connection *connection, fry_found *found)
{
    fry_find_slot *slot = connection->windows != NULL ? free_slot(connection->windows) : NULL;
    if (connection->windows == NULL) {
        refuse(found, FERRY_E_UNSUPPORTED, "the other member's ferry does not know windows");
    } else if (slot == NULL) {
        refuse(found, FERRY_E_AGAIN,
               "1024 windows of that member are sought, or found and not released");
    } else {
        slot->number += FRY_WINDOWS_MOST;
        slot->found = found;
        slot->is_closing = false;
        found->number = slot->number;
        found->state = FRY_FOUND_SOUGHT;
        find_word_is_due(connection, slot, FRY_WIRE_FIND);
    }
}

void fry_peer_find(fry_peer *peer, fry_found *found, void *turn)
{
    fry_peer_connection *connection = peer->connection;
    peer->turn = turn;
    found->peer = peer;
    if (connection != NULL && connection->state == FRY_CONNECTION_ATTACHED) {
        seek(connection, found);
        return;
    }
    found->state = FRY_FOUND_WAITS;
    TAILQ_INSERT_TAIL(&peer->finds, found, entry);
    if (connection != NULL || peer->has_wanted)
        return;
    peer->has_wanted = true;
    peer->options.events->wants_connection(turn, peer);
}

void fry_finds_attach(fry_peer *peer)
{
    fry_found *found;
    while (peer->connection != NULL && peer->connection->state == FRY_CONNECTION_ATTACHED &&
           (found = TAILQ_FIRST(&peer->finds)) != NULL) {
        TAILQ_REMOVE(&peer->finds, found, entry);
        seek(peer->connection, found);
    }
}

void fry_peer_leave_window(fry_found *found, void *turn)
{
    fry_peer *peer = found->peer;
    fry_peer_connection *connection = peer->connection;
    uint8_t state = found->state;
    peer->turn = turn;
    found->state = FRY_FOUND_GONE;
    found->map = NULL;
    if (state == FRY_FOUND_WAITS) {
        TAILQ_REMOVE(&peer->finds, found, entry);
        return;
    }
    if (state != FRY_FOUND_SOUGHT && state != FRY_FOUND_HERE)
        return;
    fry_find_slot *slot = &connection->windows->finds[slot_of(found->number)];
    slot->found = NULL;
    slot->told = found->told;
    fry_shared_close(&slot->map);     /* nothing of it is in flight */
    if (slot->due == FRY_WIRE_FIND) { /* nobody knows of it, or of its number, which is free */
        slot->due = 0;
        slot->number -= FRY_WINDOWS_MOST;
        connection->windows->due--;
        return;
    }
    find_word_is_due(connection, slot, FRY_WIRE_LEFT);
}

void fry_finds_detach(fry_peer *peer, fry_peer_connection *connection, ferry_status status,
                      const fry_fault *fault)
{
    fry_found *found;
    while ((found = TAILQ_FIRST(&peer->finds)) != NULL) {
        TAILQ_REMOVE(&peer->finds, found, entry);
        lose(found, status, fault);
    }
    fry_finds *windows = connection != NULL ? connection->windows : NULL;
    if (windows == NULL)
        return;
    windows->due = 0;
    TAILQ_INIT(&windows->untold);
    for (uint32_t i = 0; i < windows->find_count; i++) {
        found = windows->finds[i].found;
        windows->finds[i].found = NULL;
        if (found != NULL)
            lose(found, status, fault);
    }
}

/* The slot of a word about something that this end seeks or uses; NULL: it is left. */
static bool find_heard(fry_peer_connection *connection, uint32_t number, fry_find_slot **slot_p)
{
    fry_finds *windows = connection->windows;
    fry_find_slot *slot = &windows->finds[slot_of(number)];
    *slot_p = NULL;
    if (slot_of(number) >= windows->find_count || later(number, slot->number) > 0)
        return false;
    if (number != slot->number || slot->found == NULL)
        return true;
    *slot_p = slot;
    return slot->due != FRY_WIRE_FIND;
}

/* What can't be mapped is read in other ways. False: the other end broke the rules. */
static bool map(const fry_peer_connection *connection, fry_find_slot *slot,
                const fry_wire_header *header)
{
    fry_found *found = slot->found;
    const fry_shared_place *place = &header->mapped.place;
    uint64_t offset = header->mapped.offset;
    if (place->number == 0)
        return true;
    if (!connection->session.has_maps || header->size_bytes > place->size_bytes ||
        offset > place->size_bytes - header->size_bytes)
        return false;
    found->map = fry_shared_open(&slot->map, place) ? &slot->map : NULL;
    found->map_offset = offset;
    if (found->map != NULL)
        found->place = *place;
    return true;
}

static bool hear_found(fry_peer_connection *connection, const fry_wire_header *header)
{
    const fry_peer *peer = connection->peer;
    fry_find_slot *slot;
    if (!find_heard(connection, header->number, &slot) || header->size_bytes > SIZE_MAX_BYTES ||
        header->address > UINT64_MAX - header->size_bytes ||
        (header->rights & ~(FRY_WINDOW_GET | FRY_WINDOW_PUT)) != 0)
        return false;
    if (slot == NULL)
        return true;
    fry_found *found = slot->found;
    if (found->state != FRY_FOUND_SOUGHT || !map(connection, slot, header))
        return false;
    found->state = FRY_FOUND_HERE;
    found->rights = header->rights;
    found->size_bytes = header->size_bytes;
    found->address = header->address;
    peer->options.events->window_found(peer->turn, found);
    if (slot->is_closing && slot->found == found)
        peer->options.events->window_closing(peer->turn, found);
    return true;
}

static bool hear_close(fry_peer_connection *connection, uint32_t number)
{
    const fry_peer *peer = connection->peer;
    fry_find_slot *slot;
    if (!find_heard(connection, number, &slot))
        return false;
    if (slot == NULL)
        return true;
    if (slot->is_closing)
        return false;
    slot->is_closing = true;
    if (slot->found->state == FRY_FOUND_HERE)
        peer->options.events->window_closing(peer->turn, slot->found);
    return true;
}

/* ---- the owner ---- */

static void say_found(fry_peer_connection *connection, fry_grant_slot *slot)
{
    fry_wire_header header = {.kind = FRY_WIRE_FOUND,
                              .number = slot->number,
                              .rights = slot->grant.rights,
                              .size_bytes = slot->grant.size_bytes,
                              .address = slot->grant.address};
    header.mapped.place.number = 0;
    header.mapped.offset = slot->grant.shared_offset;
    slot->is_marked = connection->session.has_maps && slot->grant.shared != NULL &&
                      fry_shared_grant(slot->grant.shared, &header.mapped.place);
    slot->mark = header.mapped.place.mark;
    slot->is_found_due = false;
    connection->windows->due--;
    (void)fry_connection_send(connection, &header);
}

static void say_close(fry_peer_connection *connection, fry_grant_slot *slot)
{
    slot->is_close_due = false;
    connection->windows->due--;
    say(connection, FRY_WIRE_CLOSE, slot->number, 0);
}

static void forget_words(fry_peer_connection *connection, fry_grant_slot *slot)
{
    connection->windows->due -= (uint32_t)slot->is_found_due + slot->is_close_due;
    slot->is_found_due = slot->is_close_due = false;
}

/* Nothing that the other end reads of it from now on is of use. */
static void end_grant(fry_peer *peer, fry_grant_slot *slot, uint32_t told)
{
    if (slot->is_marked)
        fry_shared_withdraw(slot->grant.shared, slot->mark);
    slot->is_marked = false;
    peer->options.events->window_left(peer->turn, peer, slot->grant.window, told);
}

/* Whatever the other end had of the slot, it has no more. */
static void end_use(fry_peer_connection *connection, fry_grant_slot *slot, fry_grant_state state,
                    uint32_t told)
{
    fry_peer *peer = connection->peer;
    bool was_given = slot->state == FRY_GRANT_GIVEN || slot->state == FRY_GRANT_CLOSING;
    forget_words(connection, slot);
    slot->state = (uint8_t)state;
    if (was_given)
        end_grant(peer, slot, told);
}

static void offer(fry_peer_connection *connection, fry_grant_slot *slot)
{
    fry_peer *peer = connection->peer;
    slot->grant = (fry_grant){0};
    if (!peer->options.events->window_sought(peer->turn, peer, slot->name, &slot->grant))
        return;
    slot->state = FRY_GRANT_GIVEN;
    slot->is_found_due = true;
    connection->windows->due++;
    if (can_say(connection))
        say_found(connection, slot);
}

static bool hear_find(fry_peer_connection *connection, const fry_wire_header *header)
{
    fry_finds *windows = connection->windows;
    uint32_t index = slot_of(header->number);
    fry_grant_slot *slot = &windows->grants[index];
    if (later(header->number, slot->number) < 0)
        return true;
    if (header->number == slot->number && slot->state != FRY_GRANT_LEFT)
        return false;
    if (header->number == slot->number) {
        slot->state = FRY_GRANT_NONE;
        return true;
    }
    end_use(connection, slot, FRY_GRANT_SOUGHT, 0);
    slot->number = header->number;
    memcpy(slot->name, header->name, sizeof slot->name);
    if (index >= windows->grant_count)
        windows->grant_count = index + 1;
    offer(connection, slot);
    return true;
}

static bool hear_left(fry_peer_connection *connection, uint32_t number, uint32_t told)
{
    fry_finds *windows = connection->windows;
    uint32_t index = slot_of(number);
    fry_grant_slot *slot = &windows->grants[index];
    int32_t is_later = later(number, slot->number);
    if (is_later < 0)
        return true;
    if (is_later == 0 && (slot->state == FRY_GRANT_NONE || slot->state == FRY_GRANT_LEFT))
        return false;
    if (is_later > 0)
        end_use(connection, slot, FRY_GRANT_LEFT, 0);
    else
        end_use(connection, slot, FRY_GRANT_NONE, told);
    slot->number = number;
    if (index >= windows->grant_count)
        windows->grant_count = index + 1;
    return true;
}

void *fry_finds_granted(const fry_peer_connection *connection, uint32_t number)
{
    const fry_grant_slot *slot = &connection->windows->grants[slot_of(number)];
    bool is_given = slot->state == FRY_GRANT_GIVEN || slot->state == FRY_GRANT_CLOSING;
    return is_given && slot->number == number ? slot->grant.window : NULL;
}

static fry_finds *live_windows(const fry_peer *peer)
{
    const fry_peer_connection *connection = peer->connection;
    return connection != NULL && fry_connection_is_live(connection) ? connection->windows : NULL;
}

void fry_peer_window_opened(fry_peer *peer, void *turn)
{
    fry_finds *windows = live_windows(peer);
    peer->turn = turn;
    for (uint32_t i = 0; windows != NULL && i < windows->grant_count; i++) {
        if (windows->grants[i].state == FRY_GRANT_SOUGHT)
            offer(peer->connection, &windows->grants[i]);
    }
}

void fry_peer_close_window(fry_peer *peer, const void *window, void *turn)
{
    fry_finds *windows = live_windows(peer);
    peer->turn = turn;
    for (uint32_t i = 0; windows != NULL && i < windows->grant_count; i++) {
        fry_grant_slot *slot = &windows->grants[i];
        if (slot->state != FRY_GRANT_GIVEN || slot->grant.window != window)
            continue;
        slot->state = FRY_GRANT_CLOSING;
        slot->is_close_due = true;
        windows->due++;
        if (can_say(peer->connection))
            say_close(peer->connection, slot);
    }
}

void fry_finds_destroyed(const fry_peer_connection *connection)
{
    fry_peer *peer = connection->peer;
    fry_finds *windows = connection->windows;
    for (uint32_t i = 0; windows != NULL && i < windows->find_count; i++)
        fry_shared_close(&windows->finds[i].map);
    for (uint32_t i = 0; windows != NULL && i < windows->grant_count; i++) {
        fry_grant_slot *slot = &windows->grants[i];
        bool was_given = slot->state == FRY_GRANT_GIVEN || slot->state == FRY_GRANT_CLOSING;
        slot->state = FRY_GRANT_NONE;
        if (was_given)
            end_grant(peer, slot, 0);
    }
}

/* ---- what comes, and what is due ---- */

bool fry_finds_heard(fry_peer_connection *connection, const fry_wire_header *header)
{
    if (connection->peer->options.events->window_sought == NULL)
        return false;
    switch (header->kind) {
    case FRY_WIRE_FIND:
        return hear_find(connection, header);
    case FRY_WIRE_FOUND:
        return hear_found(connection, header);
    case FRY_WIRE_CLOSE:
        return hear_close(connection, header->number);
    default: /* FRY_WIRE_LEFT */
        return hear_left(connection, header->number, header->told);
    }
}

static bool goes_on(const fry_peer_connection *connection)
{
    return can_say(connection) && fry_connection_is_live(connection);
}

void fry_finds_go_on(fry_peer_connection *connection)
{
    fry_finds *windows = connection->windows;
    for (uint32_t i = 0; windows->due > 0 && i < windows->find_count && goes_on(connection); i++) {
        if (windows->finds[i].due != 0)
            say_find_word(connection, &windows->finds[i]);
    }
    for (uint32_t i = 0; windows->due > 0 && i < windows->grant_count && goes_on(connection); i++) {
        if (windows->grants[i].is_found_due)
            say_found(connection, &windows->grants[i]);
        if (windows->grants[i].is_close_due && goes_on(connection))
            say_close(connection, &windows->grants[i]);
    }
}
