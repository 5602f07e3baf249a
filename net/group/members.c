/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is there. A member knows three things of its group: records of starts (presences), which come
 * and go with their leases; the roster, which names the start that holds each rank; and what it has
 * reported of each rank (views).
 *
 * One history. A rank's holder changes only by the roster, which changes only by SWAP. So the
 * holders of a rank are one sequence, with growing incarnations, and every member sees a
 * subsequence of it with the same end. A holder is HERE until the roster says that it is DEAD or
 * names another, or until it has said that it LEFT. It says so in its record, without a lease, so
 * that members who look late read it too. LEFT and DEAD are for good. A view reports the end of a
 * holder before it reports the next holder.
 *
 * Absence. A start is missing, which is less than an end (roster.c), if its record was told
 * to be deleted, or was not in a list that began after the roster naming it was read. A record that
 * just has not been told yet says nothing, because keys are told in no order between them. A member
 * that would act on a list asks for it at once. Other members ask after a tenth of a second, within
 * which the watch nearly always tells.
 *
 * Nobody goes missing while the store can't be reached: it tells no deletions then.
 */
#include "net/group/members.h"

#include "net/group/group.h"
#include "net/group/outcomes.h"
#include "net/group/roster.h"
#include "net/group/seal.h"
#include "net/group/seats.h"
#include "net/group/settle.h"
#include "net/group/state.h"
#include "net/group/stop.h"
#include "net/group/text.h"
#include "net/reactor.h"
#include "net/store/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const fry_group_member nobody = {.state = FERRY_MEMBER_ABSENT};

static void presence_free(fry_group *group, fry_presence *presence)
{
    fry_group_presence_remove(group, presence);
    fry_free(group->memory, presence->clear_held, presence->clear_held_bytes);
    fry_free(group->memory, presence, sizeof *presence);
}

bool fry_group_is_named(const fry_group *group, uint64_t id)
{
    for (uint32_t rank = 0; group->roster != NULL && rank < group->roster->size; rank++) {
        if (group->roster->slots[rank].id == id)
            return true;
    }
    for (uint32_t rank = 0; rank < group->view_count; rank++) {
        if (group->views[rank].id == id)
            return true;
    }
    return false;
}

/* Frees missing starts without a rank: once joined nobody asks for them. */
static void forget_missing(fry_group *group)
{
    fry_presence *next = NULL;

    for (fry_presence *p = fry_group_presence_first(group); p != NULL; p = next) {
        next = fry_group_presence_next(group, p);
        if (p->state == FRY_PRESENCE_MISSING && p->clear_seen == 0 &&
            !fry_group_is_named(group, p->id))
            presence_free(group, p);
    }
}

static fry_presence *presence_make(fry_group *group, uint64_t id)
{
    if (group->presence_count >= FRY_GROUP_PRESENCES_MAX)
        forget_missing(group);
    if (group->presence_count >= FRY_GROUP_PRESENCES_MAX)
        return NULL;
    fry_presence *presence = fry_alloc(group->memory, sizeof *presence, _Alignof(fry_presence));
    if (presence == NULL)
        return NULL;
    presence->id = id;
    presence->news = ++group->news;
    fry_group_presence_add(group, presence);
    return presence;
}

static void presence_fill(fry_presence *presence, const fry_group_record *record)
{
    presence->rank = record->rank;
    presence->size = record->size;
    presence->size_min = record->size_min;
    presence->lease_ns = record->lease_ns;
    presence->is_busy = record->state == FRY_RECORD_BUSY;
    presence->is_back = record->state == FRY_RECORD_BACK || presence->is_busy;
    presence->process = record->process;
    memcpy(presence->place, record->place, sizeof presence->place);
    presence->info.device_count = record->device_count;
    presence->info.pid = record->process.pid;
    memcpy(presence->info.endpoint, record->endpoint, sizeof presence->info.endpoint);
    memcpy(presence->info.host, record->host, sizeof presence->info.host);
}

static void note_missing(fry_group *group, fry_presence *presence)
{
    if (presence->state == FRY_PRESENCE_LEFT && !fry_group_is_named(group, presence->id)) {
        presence_free(group, presence); /* its record has been cleared away */
        return;
    }
    if (presence->state != FRY_PRESENCE_HERE)
        return;
    presence->state = FRY_PRESENCE_MISSING;
    presence->was_here = true;
    presence->has_looked = false;
    presence->missing_ns = presence->info.last_seen_ns = fry_group_now_ns(group);
}

fry_presence *fry_group_presence_missing(fry_group *group, uint64_t id)
{
    fry_presence *presence = presence_make(group, id);

    if (presence != NULL)
        presence->missing_ns = fry_group_now_ns(group);
    return presence;
}

/* A member's key has a value that is no record, or another's: it is ignored. */
static void note_bad_record(fry_group *group, fry_presence *presence, const char *key,
                            bool is_proven)
{
    if (!presence->is_bad)
        fry_log_line(group->reactor->log, FERRY_LOG_WARNING,
                     "job %s: what stands at %s in %s is %s: not looked at", group->job, key,
                     fry_store_name(group->store),
                     is_proven ? "not a member's record" : "not proven with this job's secret");
    presence->is_bad = true;
    note_missing(group, presence);
    if (presence->missing_ns == 0)
        presence->missing_ns = fry_group_now_ns(group);
}

static void note_record(fry_group *group, uint64_t id, const fry_store_entry *entry)
{
    fry_presence *presence = fry_group_presence(group, id);
    fry_group_record record;
    size_t value_bytes = entry->value_bytes;

    if (presence == NULL)
        presence = presence_make(group, id);
    if (presence == NULL) {
        fry_log_line(group->reactor->log, FERRY_LOG_ERROR,
                     "job %s: a member's record was dropped: %s", group->job,
                     ferry_status_text(FERRY_E_NO_MEMORY));
        fry_group_lost_news(group);
        return;
    }
    presence->is_listed = true;
    if (entry->version <= presence->version)
        return;
    presence->version = entry->version;
    const bool is_proven =
        fry_group_seal_open(&group->seal, entry->key, entry->value, &value_bytes);
    if (!is_proven || !fry_group_record_read(entry->value, value_bytes, &record)) {
        note_bad_record(group, presence, entry->key, is_proven);
        return;
    }
    presence->is_bad = false;
    presence->info.last_seen_ns = fry_group_now_ns(group);
    if (presence->state != FRY_PRESENCE_LEFT)
        presence->state = FRY_PRESENCE_HERE;
    if (record.state == FRY_RECORD_LEFT) {
        presence->state = FRY_PRESENCE_LEFT;
        presence->news = ++group->news;
    }
    presence_fill(presence, &record);
}

/* ---- what the store tells ---- */

/* What a member of an open group acknowledges; entry NULL: it is gone. */
static void note_word(fry_group *group, uint64_t id, const fry_store_entry *entry)
{
    fry_presence *presence = fry_group_presence(group, id);

    if (presence == NULL && entry != NULL)
        presence = fry_group_presence_missing(group, id); /* its record has yet to be told */
    if (presence != NULL ? !fry_seats_acknowledged(group, presence, entry) : entry != NULL)
        fry_group_lost_news(group);
}

/* The rest of a key after a prefix; NULL: it does not begin with that. */
static const char *behind(const char *key, const char *prefix)
{
    const size_t bytes = strlen(prefix);

    return strncmp(key, prefix, bytes) == 0 ? key + bytes : NULL;
}

static void note_entry(fry_group *group, const fry_store_entry *entry, bool is_deleted)
{
    const char *name = behind(entry->key, group->prefix);
    const char *rest;
    uint64_t id;

    if (name == NULL)
        return;
    if ((rest = behind(name, "member/")) != NULL && fry_group_id_read(rest, &id)) {
        fry_presence *presence = fry_group_presence(group, id);

        if (!is_deleted)
            note_record(group, id, entry);
        else if (presence != NULL)
            note_missing(group, presence);
    } else if ((rest = behind(name, "clear/")) != NULL && fry_group_id_read(rest, &id)) {
        note_word(group, id, is_deleted ? NULL : entry);
    } else if (strcmp(name, "roster") == 0) {
        if (!is_deleted)
            fry_group_note_roster(group, entry->value, entry->value_bytes, entry->version);
        else if (group->roster_version != 0)
            fry_group_roster_is_gone(group);
    } else if (strcmp(name, "notice") == 0) {
        if (!is_deleted)
            fry_stop_notice_told(group, entry);
    } else if ((rest = behind(name, "round/")) != NULL) {
        fry_rounds_told(group, rest, entry, is_deleted);
    }
}

/* Changes that came while the store could not be heard may have been told as one. */
static void note_healthy(fry_group *group)
{
    const fry_presence *own = fry_group_presence(group, group->id);

    group->is_lost = false;
    group->healthy_ns = fry_group_now_ns(group);
    if (group->is_registered && (own == NULL || own->state == FRY_PRESENCE_MISSING))
        group->is_standing_in_doubt = true;
}

void fry_group_member_told(fry_store_watch *watch, fry_store_event event,
                           const fry_store_entry *entry)
{
    fry_group *group = watch->arg;

    fry_group_store_in(group);
    switch (event) {
    case FRY_STORE_IS_PUT:
    case FRY_STORE_IS_DELETED:
        note_entry(group, entry, event == FRY_STORE_IS_DELETED);
        break;
    case FRY_STORE_IS_LISTED:
        if (!group->is_listed)
            group->healthy_ns = fry_group_now_ns(group);
        group->is_listed = true;
        break;
    case FRY_STORE_IS_HEALTHY:
        note_healthy(group);
        break;
    case FRY_STORE_IS_LOST:
        group->is_lost = true;
        group->lost_since_ns = fry_group_now_ns(group);
        break;
    case FRY_STORE_IS_ANOTHER:
        fry_group_note_another_store(group);
        break;
    }
    fry_group_tell_later(group);
    fry_group_store_out(group);
}

/* ---- lists ---- */

/* What was known when the list began. */
typedef struct list_begun {
    uint64_t roster_version, news;
} list_begun;

static void listed(fry_group_op *op, ferry_status status, const fry_store_entry *entries,
                   size_t count, const char *why)
{
    fry_group *group = op->group;
    const list_begun *begun = (const list_begun *)(const void *)op->value;
    fry_presence *next = NULL;

    group->list_op = NULL;
    fry_group_tell_later(group);
    if (status != FERRY_OK) {
        fry_group_refused(group, op, status, why); /* whoever still wants it asks again */
        return;
    }
    for (fry_presence *p = fry_group_presence_first(group); p != NULL;
         p = fry_group_presence_next(group, p))
        p->is_listed = false;
    for (size_t i = 0; i < count; i++)
        note_entry(group, &entries[i], false);
    for (fry_presence *p = fry_group_presence_first(group); p != NULL; p = next) {
        next = fry_group_presence_next(group, p);
        /* What the watch has told since the list began may be newer than the list. */
        if (!p->is_listed && p->news <= begun->news)
            note_missing(group, p);
    }
    group->listed_roster_version = begun->roster_version;
}

void fry_group_list_now(fry_group *group)
{
    char key[FRY_STORE_KEY_BYTES + 1];
    const list_begun begun = {group->roster_version, group->news};

    if (group->list_op != NULL || group->is_lost || !fry_group_may_ask(group))
        return;
    group->is_list_wanted = false;
    fry_timer_stop(group->reactor, &group->look_timer);
    (void)snprintf(key, sizeof key, "%smember/", group->prefix);
    const fry_store_request list = {
        .verb = FRY_STORE_LIST, .key = key, .value = &begun, .value_bytes = sizeof begun};
    group->list_op = fry_group_op_start(group, &list, listed, NULL);
    if (group->list_op == NULL)
        fry_group_lacks_memory(group);
}

void fry_group_want_list(fry_group *group, bool now)
{
    if (now || group->is_list_wanted)
        fry_group_list_now(group);
    else if (!group->look_timer.is_on && group->list_op == NULL)
        fry_timer_set(group->reactor, &group->look_timer,
                      fry_group_now_ns(group) + FRY_GROUP_LOOK_AFTER_NS);
}

/* ---- telling ---- */

const fry_group_member *fry_group_member_at(const fry_group *group, uint32_t rank)
{
    if (rank >= group->view_count)
        return NULL;
    fry_presence *presence = group->views[rank].presence;
    if (presence == NULL || group->views[rank].told == FERRY_MEMBER_ABSENT)
        return &nobody;
    /* As long as the store can be asked, it shows who is here. */
    if (presence->info.state == FERRY_MEMBER_HERE && presence->state == FRY_PRESENCE_HERE)
        presence->info.last_seen_ns =
            group->is_lost ? group->lost_since_ns : fry_group_now_ns(group);
    return &presence->info;
}

bool fry_group_rank_is_here(const fry_group *group, uint32_t rank)
{
    return rank < group->view_count && group->views[rank].told == FERRY_MEMBER_HERE;
}

static void tell(fry_group *group, uint32_t rank, ferry_member_state state)
{
    fry_group_view *view = &group->views[rank];

    view->told = state;
    /* What ended before this member had joined was never the caller's to hold. */
    view->is_held = state == FERRY_MEMBER_HERE ? rank != (uint32_t)group->rank
                                               : view->is_held && group->state == FRY_GROUP_JOINED;
    view->presence->info.state = state;
    view->presence->info.incarnation = view->incarnation;
    view->presence->info.start = fry_group_start_of(view->id, view->incarnation);
    if (group->state != FRY_GROUP_JOINED)
        return;
    group->events.changed(group->arg, rank);
    if (!fry_group_is_open(group) && !fry_group_is_over(group))
        group->events.happened(group->arg, rank, state, view->incarnation, 0);
}

/*
 * The state of a rank's holder, as all members report it; ABSENT: not known yet. In an open group
 * the roster alone says who has left.
 */
static ferry_member_state state_of(const fry_group *group, const fry_presence *presence,
                                   const fry_group_slot *slot)
{
    if (slot->has_left)
        return FERRY_MEMBER_LEFT;
    if (!group->roster->is_open && presence->state == FRY_PRESENCE_LEFT)
        return FERRY_MEMBER_LEFT;
    if (slot->is_dead)
        return FERRY_MEMBER_DEAD;
    /* A missing start that was never seen has no endpoint yet: it will be back, or be dead. */
    return presence->state != FRY_PRESENCE_MISSING || presence->info.last_seen_ns != 0
               ? FERRY_MEMBER_HERE
               : FERRY_MEMBER_ABSENT;
}

/* Makes the view show the start that the roster names now. False: that start is not known yet. */
static bool take_holder(fry_group *group, uint32_t rank)
{
    fry_group_view *view = &group->views[rank];
    const fry_group_slot *slot = &group->roster->slots[rank];
    fry_presence *before = view->presence, *presence = fry_group_presence(group, slot->id);

    if (slot->id == 0) { /* an older roster was written again, which does not know its holder */
        *view = (fry_group_view){.is_held = view->is_held,
                                 .is_said_to_be_held = view->is_said_to_be_held};
        return true;
    }
    if (presence == NULL && slot->is_dead)
        presence = fry_group_presence_missing(group, slot->id);
    else if (presence == NULL && fry_group_holder_of(group, slot) == FRY_HOLDER_UNKNOWN) {
        fry_group_want_list(group, false);
        return false;
    } else if (presence == NULL)
        presence = fry_group_presence(group, slot->id);
    if (presence == NULL) {
        fry_group_lacks_memory(group);
        return false;
    }
    *view = (fry_group_view){.id = slot->id,
                             .incarnation = slot->incarnation,
                             .presence = presence,
                             .is_held = view->is_held,
                             .is_said_to_be_held = view->is_said_to_be_held};
    presence->info.first_device = slot->first_device;
    if (presence->info.device_count > slot->device_count)
        presence->info.device_count = slot->device_count;
    if (before != NULL && before->state == FRY_PRESENCE_MISSING &&
        !fry_group_is_named(group, before->id))
        presence_free(group, before);
    return true;
}

static void tell_rank(fry_group *group, uint32_t rank)
{
    fry_group_view *view = &group->views[rank];
    const fry_group_slot *slot = &group->roster->slots[rank];

    if (view->id != slot->id) {
        if (group->roster->is_open)
            fry_seat_is_replaced(group, rank);
        if (view->told == FERRY_MEMBER_HERE)
            tell(group, rank,
                 view->presence->state == FRY_PRESENCE_LEFT ? FERRY_MEMBER_LEFT
                                                            : FERRY_MEMBER_DEAD);
        if (fry_group_is_over(group) || !take_holder(group, rank))
            return;
    }
    if (slot->id == 0)
        return; /* nobody has had it yet */
    const ferry_member_state state = state_of(group, view->presence, slot);
    if (view->told == FERRY_MEMBER_ABSENT ? state != FERRY_MEMBER_ABSENT
                                          : view->told == FERRY_MEMBER_HERE && state != view->told)
        tell(group, rank, state);
}

void fry_group_tell_members(fry_group *group)
{
    uint32_t known = 0;

    if (group->state < FRY_GROUP_PLACED || group->roster == NULL)
        return;
    for (uint32_t rank = 0; rank < group->view_count; rank++) {
        tell_rank(group, rank);
        if (fry_group_is_over(group))
            return;
        /* Who is missing, and was never seen, does not hold up others in an open group. */
        known += group->views[rank].told != FERRY_MEMBER_ABSENT ||
                 (group->roster->is_open && group->views[rank].id == group->roster->slots[rank].id);
    }
    if (group->state != FRY_GROUP_PLACED || known < group->view_count)
        return;
    group->state = FRY_GROUP_JOINED;
    fry_seats_begin(group);
    group->is_joined_told = true;
    fry_timer_stop(group->reactor, &group->join_timer);
    fry_timer_stop(group->reactor, &group->look_timer);
    forget_missing(group);
    group->events.joined(group->arg, FERRY_OK, NULL);
}

/* ---- deaths reported by the kernel ---- */

static void deleted(fry_group_op *op, ferry_status status, const fry_store_entry *entries,
                    size_t count, const char *why)
{
    fry_presence *presence = fry_group_presence(op->group, *(uint64_t *)(void *)op->value);

    (void)entries, (void)count, (void)why;
    if (presence == NULL)
        return;
    presence->is_being_deleted = false;
    if (status == FERRY_OK || status == FERRY_E_NOT_FOUND)
        note_missing(op->group, presence);
    fry_group_tell_later(op->group);
}

void fry_group_delete_presence(fry_group *group, fry_presence *presence)
{
    char key[FRY_STORE_KEY_BYTES + 1];

    presence->has_ended = true;
    if (presence->is_being_deleted)
        return;
    (void)snprintf(key, sizeof key, "%smember/" FRY_GROUP_ID_FORMAT, group->prefix, presence->id);
    const fry_store_request ended = {.verb = FRY_STORE_DELETE,
                                     .key = key,
                                     .value = &presence->id,
                                     .value_bytes = sizeof presence->id,
                                     .version = presence->version};
    presence->is_being_deleted = fry_group_op_start(group, &ended, deleted, NULL) != NULL;
    if (!presence->is_being_deleted)
        fry_group_lacks_memory(group);
}

void fry_group_report_death(fry_group *group, uint32_t rank, uint64_t start)
{
    if (fry_group_is_over(group) || rank >= group->view_count)
        return;
    fry_group_view *view = &group->views[rank];
    if (fry_group_start_of(view->id, view->incarnation) != start || view->presence == NULL)
        return;
    view->presence->has_ended = true;
    if (view->presence->state == FRY_PRESENCE_HERE)
        fry_group_delete_presence(group, view->presence);
    fry_group_tell_later(group);
}

void fry_group_let_go(fry_group *group, uint32_t rank)
{
    if (fry_group_is_over(group) || rank >= group->view_count ||
        group->views[rank].told == FERRY_MEMBER_HERE)
        return;
    group->views[rank].is_held = false;
    fry_group_tell_later(group);
}

void fry_group_forget_members(fry_group *group)
{
    while (group->presence_count > 0)
        presence_free(group, fry_group_presence_first(group));
    fry_free(group->memory, group->views, group->view_count * sizeof *group->views);
}
