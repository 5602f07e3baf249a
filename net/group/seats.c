/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open groups: members come and go, and ranks are given away again.
 *
 * The roster has a slot for each rank that the group may have. A slot is one of
 *
 *     never used ── admitted ──► here ── marked ──► ended ── all have acknowledged, admitted ─┐
 *                                 ▲                                                           │
 *                                 └───────────────────────────────────────────────────────────┘
 *
 * Every step is a change of the roster, by SWAP, and each admission and each end takes the next of
 * the roster's numbers (`starts`): a slot has that of its holder's admission (incarnation) and that
 * of its end (ended). A member that leaves is marked like one that dies, with the word that it
 * left, so both are one decision that all members read.
 *
 * Acknowledging. A rank that ended may be given away once no member holds anything of its former
 * holder. A member says so under clear/ID, in its lease: it has been told of all ends up to number
 * `seen`, and still holds something of those in `held`. What it says stays true: once it was told
 * of an end it takes nothing new of that start, so of the ends up to `seen` it can only let go.
 * Late, doubled or old words of a member are therefore too careful, never too bold. (Had a store
 * lost a roster, an end that its keepers add to what was written anew gets a new number, which
 * nobody can have acknowledged before.)
 *
 * Why no rank is reused too early. Who admits makes the new roster from the version that it has
 * read, and the SWAP names that version, so between its judgement and the change nobody was
 * admitted or marked. It looks at each slot of this very roster that is not marked, and wants that
 * member's word for this end; only members that were admitted after the end need not give it,
 * since they were never told of its holder as here. A member that is missing, or slow, or has died
 * and is not marked yet, counts as one that holds: it is a slot that is not marked. A member that
 * is marked counts no more: it is dead or fenced, others have cut its connections and wiped the
 * marks without which it can't read their memory, and each of those others says by its own word
 * that this is done. So whoever is killed at whatever moment, before its word the rank waits until
 * that member is marked too, and after its word it held nothing. The admitting member's own word
 * is what it knows of itself at that moment; if it dies after the SWAP, the change stands and was
 * right, and if it dies before, nothing has happened and the next member judges anew.
 *
 * seats.pml checks this.
 *
 * Events. A slot keeps both its numbers until it is given away, and it is not given away before
 * this member has been told of its end. So each member sees every admission and every end since its
 * own, however many versions of the roster its watch has left out, and tells them in the order of
 * their numbers: the same for all.
 */
#include "net/group/seats.h"

#include "net/group/presence.h"
#include "net/group/seal.h"
#include "net/group/state.h"
#include "net/store/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define NUMBERS_PER_MS 16
#define STARTS_AHEAD 65536 /* if the clock is behind */

bool fry_seat_is_wanted(uint32_t size, uint32_t size_min)
{
    return size != 0 && size_min == 0;
}

bool fry_group_is_open(const fry_group *group)
{
    return group->roster != NULL && group->roster->is_open;
}

void fry_seat_end(fry_group_roster *roster, uint32_t rank, bool has_left)
{
    fry_group_slot *slot = &roster->slots[rank];

    slot->is_dead = true;
    slot->has_left = has_left;
    slot->ended = ++roster->starts;
    slot->device_count = 0;
    slot->process = (fry_group_process){0};
}

/* Who was let in by a roster that the writer has not seen has lower numbers, if clocks are right.
 */
void fry_seats_begin_anew(fry_group_roster *roster)
{
    struct timespec now;
    uint8_t random = 0;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)getrandom(&random, sizeof random, GRND_NONBLOCK);
    const uint64_t time_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    const uint64_t ahead = time_ms * NUMBERS_PER_MS + random % NUMBERS_PER_MS;
    roster->starts = ahead > roster->starts ? ahead : roster->starts + STARTS_AHEAD;
    for (uint32_t rank = 0; rank < roster->size; rank++) {
        if (roster->slots[rank].is_dead)
            roster->slots[rank].ended = roster->starts;
    }
}

/* ---- whether a rank is free ---- */

/* Whether a member may still hold something of who had a rank that ended. */
static bool may_hold(fry_group *group, const fry_group_roster *roster, uint32_t member,
                     uint32_t rank)
{
    const fry_group_slot *slot = &roster->slots[member], *ended = &roster->slots[rank];

    if (member == rank || slot->is_dead || slot->incarnation > ended->ended)
        return false;
    if (slot->id == group->id)
        return group->clear_seen < ended->ended || group->views[rank].is_held;
    const fry_presence *presence = fry_group_presence(group, slot->id);
    return presence == NULL || presence->clear_seen < ended->ended ||
           (presence->clear_held != NULL &&
            fry_group_set_has(presence->clear_held, presence->clear_held_bytes, rank));
}

bool fry_seat_is_free(fry_group *group, const fry_group_roster *roster, uint32_t rank)
{
    const fry_group_slot *slot = &roster->slots[rank];

    if (!slot->is_dead)
        return false;
    const fry_presence *holder = fry_group_presence(group, slot->id);
    if (holder != NULL && holder->state == FRY_PRESENCE_HERE)
        return false; /* its record could be taken for a candidate's */
    for (uint32_t member = 0; member < roster->size; member++) {
        if (may_hold(group, roster, member, rank))
            return false;
    }
    return true;
}

fry_group_slot *fry_seat_for(fry_group *group, fry_group_roster *roster,
                             const fry_presence *candidate, uint64_t place)
{
    fry_group_slot *found = NULL;

    for (uint32_t rank = 0; rank < roster->size; rank++) {
        fry_group_slot *slot = &roster->slots[rank];
        const bool is_own = place != 0 && slot->place == place;

        if (is_own || candidate->rank == (int32_t)rank)
            return fry_seat_is_free(group, roster, rank) ? slot : NULL;
    }
    for (uint32_t rank = 0; candidate->rank < 0 && rank < roster->size; rank++) {
        fry_group_slot *slot = &roster->slots[rank];

        /* One that nobody has had, or else the one that ended first. */
        if ((found == NULL || slot->ended < found->ended) && fry_seat_is_free(group, roster, rank))
            found = slot;
    }
    return found;
}

bool fry_seats_name_holders(fry_group *group, char *text, size_t text_bytes)
{
    const fry_group_roster *roster = group->roster;
    char names[FRY_ERROR_MESSAGE_BYTES / 2];

    if (roster == NULL || !roster->is_open)
        return false;
    bool *is_in = fry_alloc(group->memory, roster->size, 1);
    for (uint32_t rank = 0; is_in != NULL && rank < roster->size; rank++) {
        bool has_any = false;

        if (!roster->slots[rank].is_dead ||
            (group->record.rank >= 0 && group->record.rank != (int32_t)rank))
            continue;
        for (uint32_t member = 0; member < roster->size; member++)
            has_any |= is_in[member] = may_hold(group, roster, member, rank);
        if (!has_any)
            continue;
        (void)fry_group_set_write(is_in, roster->size, names, sizeof names);
        (void)snprintf(text, text_bytes,
                       "rank %" PRIu32 " is not free yet: still held, or not yet acknowledged to "
                       "have ended, by member %s",
                       rank, names);
        fry_free(group->memory, is_in, roster->size);
        return true;
    }
    fry_free(group->memory, is_in, roster->size);
    return false;
}

/* ---- what members acknowledge ---- */

static void forget_word(fry_group *group, fry_presence *presence)
{
    fry_free(group->memory, presence->clear_held, presence->clear_held_bytes);
    presence->clear_held = NULL;
    presence->clear_held_bytes = 0;
    presence->clear_seen = 0;
}

static bool keep_word(fry_group *group, fry_presence *presence, const fry_group_clear *clear)
{
    const bool is_empty = clear->held_bytes == 1 && clear->held[0] == '-';
    char *held = is_empty ? NULL : fry_alloc_raw(group->memory, clear->held_bytes, 1);

    forget_word(group, presence);
    if (!is_empty && held == NULL)
        return false;
    presence->clear_seen = clear->seen;
    if (held == NULL)
        return true;
    memcpy(held, clear->held, clear->held_bytes);
    presence->clear_held = held;
    presence->clear_held_bytes = clear->held_bytes;
    return true;
}

bool fry_seats_acknowledged(fry_group *group, fry_presence *presence, const fry_store_entry *entry)
{
    size_t bytes = entry != NULL ? entry->value_bytes : 0;
    fry_group_clear clear;
    const bool is_word = entry != NULL &&
                         fry_group_seal_open(&group->seal, entry->key, entry->value, &bytes) &&
                         fry_group_clear_read(entry->value, bytes, &clear);

    if (presence->id == group->id) { /* an older word of this member may have come late */
        group->is_clear_lost |=
            group->clear_op == NULL && (!is_word || clear.seen < group->clear_written);
        return true;
    }
    if (is_word)
        return keep_word(group, presence, &clear);
    forget_word(group, presence);
    return true;
}

/* ---- what this member acknowledges ---- */

void fry_seats_are_lost(fry_group *group)
{
    group->is_clear_lost = true;
}

/* Whether nobody has the rank, as was told. */
static bool is_told_end(const fry_group *group, uint32_t rank)
{
    const fry_group_slot *slot = &group->roster->slots[rank];

    return slot->is_dead && slot->ended <= group->clear_seen;
}

bool fry_seats_have_word(const fry_group *group)
{
    if (group->state != FRY_GROUP_JOINED || !fry_group_is_open(group))
        return false;
    for (uint32_t rank = 0; rank < group->view_count; rank++) {
        const fry_group_view *view = &group->views[rank];

        if (is_told_end(group, rank) && !view->is_held &&
            (group->is_clear_lost || view->is_said_to_be_held ||
             group->roster->slots[rank].ended > group->clear_written))
            return true;
    }
    return false;
}

size_t fry_seats_word(fry_group *group, const char *key, char *text, bool *is_held)
{
    const size_t clear_bytes = FRY_GROUP_CLEAR_TEXT_BYTES(group->view_count);
    char *names = text + clear_bytes;

    for (uint32_t rank = 0; rank < group->view_count; rank++)
        is_held[rank] = is_told_end(group, rank) && group->views[rank].is_held;
    (void)fry_group_set_write(is_held, group->view_count, names,
                              FRY_GROUP_SET_TEXT_BYTES(group->view_count));
    const fry_group_clear clear = {
        .seen = group->clear_seen, .held = names, .held_bytes = strlen(names)};
    const size_t bytes = fry_group_clear_write(&clear, text, clear_bytes);
    return fry_group_seal_close(&group->seal, key, text, bytes);
}

void fry_seats_word_is_said(fry_group *group, const bool *is_held)
{
    group->is_clear_lost = false;
    group->clear_written = group->clear_seen;
    for (uint32_t rank = 0; rank < group->view_count; rank++)
        group->views[rank].is_said_to_be_held = is_held[rank];
}

/* ---- events ---- */

void fry_seats_begin(fry_group *group)
{
    for (uint32_t rank = 0; rank < group->view_count; rank++) {
        const fry_group_slot *slot = &group->roster->slots[rank];

        group->views[rank].has_joined_been_told = slot->incarnation <= group->incarnation;
        group->views[rank].has_end_been_told = slot->is_dead && slot->ended <= group->incarnation;
    }
}

static void tell(fry_group *group, uint32_t rank, ferry_member_state what, uint64_t number)
{
    fry_group_view *view = &group->views[rank];

    if (what == FERRY_MEMBER_HERE)
        view->has_joined_been_told = true;
    else
        view->has_end_been_told = true;
    group->events.happened(group->arg, rank, what, view->incarnation, number);
}

static ferry_member_state end_of(const fry_group_slot *slot)
{
    return slot->has_left ? FERRY_MEMBER_LEFT : FERRY_MEMBER_DEAD;
}

void fry_seat_is_replaced(fry_group *group, uint32_t rank)
{
    const fry_group_view *view = &group->views[rank];

    if (group->state == FRY_GROUP_JOINED && view->has_joined_been_told &&
        !view->has_end_been_told && view->id != 0)
        tell(group, rank, view->told == FERRY_MEMBER_LEFT ? view->told : FERRY_MEMBER_DEAD,
             group->roster->slots[rank].incarnation);
}

/* The number of what is to be told next of a rank; UINT64_MAX: nothing. */
static uint64_t next_of(const fry_group *group, uint32_t rank)
{
    const fry_group_slot *slot = &group->roster->slots[rank];
    const fry_group_view *view = &group->views[rank];

    if (slot->id == 0 || rank == (uint32_t)group->rank)
        return UINT64_MAX;
    if (view->id != slot->id || !view->has_joined_been_told)
        return slot->incarnation;
    return slot->is_dead && !view->has_end_been_told ? slot->ended : UINT64_MAX;
}

void fry_seats_tell(fry_group *group)
{
    if (group->state != FRY_GROUP_JOINED || !fry_group_is_open(group))
        return;
    while (group->state == FRY_GROUP_JOINED) {
        const fry_group_roster *roster = group->roster;
        uint64_t number = UINT64_MAX, seen = 0;
        uint32_t found = 0;

        for (uint32_t rank = 0; rank < group->view_count; rank++) {
            const uint64_t next = next_of(group, rank);

            if (roster->slots[rank].ended > seen)
                seen = roster->slots[rank].ended;
            if (next >= number)
                continue;
            number = next;
            found = rank;
        }
        if (number == UINT64_MAX) {
            if (seen > group->clear_seen)
                group->clear_seen = seen;
            return;
        }
        const fry_group_slot *slot = &roster->slots[found];
        if (group->views[found].id != slot->id)
            return; /* its record has yet to be told, and what came after it waits too */
        tell(group, found,
             group->views[found].has_joined_been_told ? end_of(slot) : FERRY_MEMBER_HERE, number);
    }
}
