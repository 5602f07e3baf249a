/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The roster: one key that says which start holds each rank, and which of these starts are dead.
 * Only SWAP changes it, from the version that the writer knew, and only if the writer's own record
 * is in its lease.
 *
 * Missing is not dead. A record goes when its lease has run out: because its holder died, was
 * stopped, or could not reach the store; or because the store itself was away, stood still, or lost
 * what it held. So a start whose record does not exist is *missing*. It is dead when the roster
 * says so: one decision, which all members read, and for good. A mark does not change back, and a
 * start that finds itself marked is fenced. Until then a missing start may come back by writing its
 * record anew (stand.c), and nobody is told of it.
 *
 * A member marks a missing start when the kernel says that its process has ended, or when it has
 * been silent for a lease while the store was there. Silent: a record that was seen to go has not
 * been renewed for a lease by then; one that was never seen is silent since it was missed. There: a
 * member knows of the store what came of its own renewals (fry_store_lease_steady_ns). So a member
 * that was itself stopped or cut off knows that it does not know, and begins to count when it is
 * back.
 *
 * Why a lease is enough. A live member asks each third of its lease, and after a failure again
 * within a sixth. Let the moments at which the store was there be at most half a lease apart. Then
 * an answer takes at most a sixth. And the store was never away for longer than a third less an
 * answer while nobody asked here, or than a sixth while somebody did. So the other member had an
 * answer after a third (until it asks), another third (away), and the time of an answer. If that
 * answer said that its lease was over, it wrote its record two answers later. All this is within a
 * lease. (An eighth of a lease is added for waits when the store has just come back.) For a store
 * that is slower, or comes and goes, this does not hold: while those moments are at most three
 * quarters of a lease apart, members wait for two leases.
 *
 * Usually the lowest rank whose record exists marks the dead and lets others in (join.c).
 *
 * A roster that the store has lost is written again by those who had it. Its numbers go on far
 * ahead, from the time of day. So a start that was let in by a roster unknown to the writer, also
 * by one that was written again before, has a lower number than all that are let in from now on, as
 * far as clocks are right; and a different number, if they are wrong. A member that knows something
 * newer than the store's roster writes that, rank by rank (fry_group_roster_merge), because what is
 * said of a rank only grows. A roster of another lineage is another group's, formed in an empty
 * store before this group was back: the store's roster counts, and members that are not in it are
 * fenced.
 */
#include "net/group/roster.h"

#include "net/connect/process.h"
#include "net/group/group.h"
#include "net/group/join.h"
#include "net/group/kernel.h"
#include "net/group/members.h"
#include "net/group/seal.h"
#include "net/group/seats.h"
#include "net/group/settle.h"
#include "net/group/stand.h"
#include "net/group/state.h"
#include "net/group/text.h"
#include "net/reactor.h"
#include "net/store/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define STARTS_AHEAD 65536 /* added to a roster's numbers when it is written again */

/* ---- reading ---- */

/*
 * The roster is of members with another secret. This one can't join them, and what they write
 * changes nothing here.
 */
static void note_unproven(fry_group *group, uint64_t version)
{
    group->roster_version = version;
    fry_log_line(group->reactor->log, FERRY_LOG_WARNING,
                 "job %s: the roster in %s is not proven with this job's secret: not looked at",
                 group->job, fry_store_name(group->store));
    if (group->is_joined_told)
        return;
    group->refusal = FERRY_E_INVALID;
    (void)snprintf(group->why, sizeof group->why,
                   "the job is others', who have another secret than this member");
    fry_group_tell_later(group);
}

static void drop(fry_group *group)
{
    if (group->roster != NULL)
        fry_free(group->memory, group->roster, FRY_GROUP_ROSTER_BYTES(group->roster->size));
    group->roster = NULL;
}

void fry_group_forget_roster(fry_group *group)
{
    drop(group);
}

/* The store has no roster. A member with a rank keeps what it knows, to write it again. */
static void note_none(fry_group *group)
{
    group->roster_version = 0;
    group->is_roster_behind = false;
    if (group->rank < 0)
        drop(group);
}

/* Takes the store's roster. What this member knows better stays, and has to be written. */
static void take(fry_group *group, fry_group_roster *roster, uint64_t version)
{
    fry_group_roster *known = group->rank >= 0 ? group->roster : NULL;
    const bool is_of_kin = known != NULL && known->lineage == roster->lineage;

    /* The store lost the roster, and it was written again: the watch told both as one change. */
    if (is_of_kin && roster->restores > known->restores && group->roster_version != 0)
        fry_group_note_another_store(group);
    group->is_roster_behind = false;
    if (is_of_kin && known->life > roster->life) {
        if (roster->restores > known->restores)
            known->restores =
                roster->restores; /* or this store would seem to be another for ever */
        fry_free(group->memory, roster, FRY_GROUP_ROSTER_BYTES(roster->size));
        group->is_roster_behind = true;
    } else {
        if (is_of_kin && known->life == roster->life)
            group->is_roster_behind = fry_group_roster_merge(roster, known);
        drop(group);
        group->roster = roster;
    }
    group->roster_version = version;
    group->roster->version = version;
}

void fry_group_note_roster(fry_group *group, const void *text, size_t text_bytes, uint64_t version)
{
    char key[FRY_STORE_KEY_BYTES + 1];
    bool is_text_bad = false;

    if (version == 0) {
        note_none(group);
        return;
    }
    if (version <= group->roster_version)
        return;
    (void)snprintf(key, sizeof key, "%sroster", group->prefix);
    if (!fry_group_seal_open(&group->seal, key, text, &text_bytes)) {
        note_unproven(group, version);
        return;
    }
    fry_group_roster *roster = fry_group_roster_read(group->memory, text, text_bytes, &is_text_bad);
    if (roster != NULL) {
        take(group, roster, version);
        return;
    }
    if (!is_text_bad) {
        fry_log_line(group->reactor->log, FERRY_LOG_ERROR, "job %s: no memory for its roster",
                     group->job);
        fry_group_lost_news(group);
        return; /* the old roster still counts; a SWAP of it will be refused */
    }
    fry_log_line(group->reactor->log, FERRY_LOG_WARNING,
                 "job %s: what stands for its roster in %s is none", group->job,
                 fry_store_name(group->store));
    note_none(group);
    group->roster_version = version;
    group->is_roster_behind = group->roster != NULL;
}

void fry_group_roster_is_gone(fry_group *group)
{
    /* Nobody deletes the roster on purpose: the store has lost it, and may have lost more. */
    if (group->rank >= 0)
        fry_group_note_another_store(group);
    else
        note_none(group);
}

/* ---- judging ---- */

static bool kernel_says_ended(fry_group *group, fry_presence *presence,
                              const fry_group_process *process)
{
    if (presence->has_ended || presence->has_looked)
        return presence->has_ended;
    switch (fry_group_process_of(group, process)) {
    case FRY_PROCESS_ENDED:
        presence->has_ended = true;
        break;
    case FRY_PROCESS_ENDING: /* the kernel is asked again later */
        fry_group_again_at(group, fry_group_now_ns(group) + FRY_GROUP_LOOK_AFTER_NS);
        return false;
    case FRY_PROCESS_RUNS:
    case FRY_PROCESS_UNKNOWN:
        break;
    }
    presence->has_looked = true;
    return presence->has_ended;
}

/* Since when the store was there for this member, and its watch knew; INT64_MAX: not now. */
static int64_t steady_ns(const fry_group *group, bool is_strict)
{
    int64_t since_ns = INT64_MAX;

    if (group->is_leased && group->is_listed && !group->is_lost)
        since_ns = fry_store_lease_steady_ns(&group->lease, is_strict);
    if (since_ns < group->healthy_ns)
        since_ns = group->healthy_ns;
    return since_ns < group->unwell_ns ? group->unwell_ns : since_ns;
}

static int64_t later(int64_t one_ns, int64_t other_ns)
{
    return one_ns > other_ns ? one_ns : other_ns;
}

/* Whether a missing start can be called dead. */
static bool is_to_be_judged(fry_group *group, fry_presence *presence, const fry_group_slot *slot)
{
    int64_t lease_ns = presence->lease_ns > 0 ? presence->lease_ns : group->roster->lease_ns;
    int64_t when_ns = INT64_MAX;

    if (kernel_says_ended(group, presence, &slot->process))
        return true;
    if (lease_ns < FRY_STORE_LEASE_MIN_NS)
        lease_ns = FRY_STORE_LEASE_MIN_NS;
    const int64_t strict_ns = steady_ns(group, true), lax_ns = steady_ns(group, false);
    const int64_t silent_ns = presence->missing_ns - (presence->was_here ? lease_ns : 0);
    /* Own renewals that are further apart than the other's can't prove so short a time. */
    if (strict_ns != INT64_MAX && group->lease_ns <= lease_ns)
        when_ns = later(strict_ns + lease_ns / 8, silent_ns) + lease_ns;
    if (lax_ns != INT64_MAX && later(lax_ns, silent_ns) + 2 * lease_ns < when_ns)
        when_ns = later(lax_ns, silent_ns) + 2 * lease_ns;
    const int64_t now_ns = fry_group_now_ns(group);
    if (now_ns >= when_ns)
        return true;
    fry_group_again_at(group, when_ns != INT64_MAX ? when_ns : now_ns + group->lease_ns / 3);
    return false;
}

fry_group_holder fry_group_holder_of(fry_group *group, const fry_group_slot *slot)
{
    fry_presence *presence = fry_group_presence(group, slot->id);

    if (slot->is_dead)
        return FRY_HOLDER_ENDED;
    if (presence == NULL &&
        (group->roster == NULL || group->listed_roster_version < group->roster->version))
        return FRY_HOLDER_UNKNOWN;
    if (presence == NULL)
        presence = fry_group_presence_missing(group, slot->id);
    if (presence == NULL) {
        fry_group_lacks_memory(group);
        return FRY_HOLDER_UNKNOWN;
    }
    switch (presence->state) {
    case FRY_PRESENCE_HERE:
        return FRY_HOLDER_HERE;
    case FRY_PRESENCE_LEFT:
        return FRY_HOLDER_ENDED;
    case FRY_PRESENCE_MISSING:
        break;
    }
    return is_to_be_judged(group, presence, slot) ? FRY_HOLDER_ENDED : FRY_HOLDER_MISSING;
}

/* ---- writing ---- */

static void written(fry_group_op *op, ferry_status status, const fry_store_entry *entries,
                    size_t count, const char *why)
{
    fry_group *group = op->group;

    group->roster_op = NULL;
    fry_group_tell_later(group);
    if (status == FERRY_OK && count == 1) {
        fry_group_note_roster(group, op->request.value, op->request.value_bytes,
                              entries[0].version);
        if (group->roster != NULL)
            fry_group_clear_words(group);
    } else if (status == FERRY_E_CHANGED && count == 1)
        fry_group_note_roster(group, entries[0].value, entries[0].value_bytes, entries[0].version);
    else if (status == FERRY_E_NOT_FOUND)
        fry_group_note_roster(group, NULL, 0, 0);
    else
        fry_group_refused(group, op, status, why);
}

void fry_group_write_roster(fry_group *group, fry_group_roster *roster)
{
    char key[FRY_STORE_KEY_BYTES + 1];
    const size_t bytes_max = FRY_GROUP_ROSTER_TEXT_BYTES(roster->size);
    char *text = fry_group_may_ask(group) ? fry_alloc_raw(group->memory, bytes_max, 1) : NULL;

    if (text != NULL) {
        size_t bytes = fry_group_roster_write(roster, text);

        (void)snprintf(key, sizeof key, "%sroster", group->prefix);
        bytes = fry_group_seal_close(&group->seal, key, text, bytes);
        group->roster_op =
            fry_group_decide(group, key, text, bytes, group->roster_version, written, NULL);
        fry_free(group->memory, text, bytes_max);
    }
    if (group->roster_op == NULL && fry_group_stands(group) && fry_group_may_ask(group))
        fry_group_lacks_memory(group);
    fry_free(group->memory, roster, FRY_GROUP_ROSTER_BYTES(roster->size));
}

fry_group_roster *fry_group_roster_make(fry_group *group, uint32_t size)
{
    fry_group_roster *roster =
        fry_alloc(group->memory, FRY_GROUP_ROSTER_BYTES(size), _Alignof(fry_group_roster));

    if (roster != NULL)
        roster->size = size;
    else
        fry_group_lacks_memory(group);
    return roster;
}

fry_group_roster *fry_group_roster_copy(fry_group *group)
{
    const uint32_t size = group->roster->size;
    fry_group_roster *roster = fry_group_roster_make(group, size);

    if (roster != NULL)
        memcpy(roster, group->roster, FRY_GROUP_ROSTER_BYTES(size));
    return roster;
}

/* ---- keeping the roster ---- */

/* Counts the members of lower ranks whose records exist. */
static uint32_t count_before(fry_group *group)
{
    uint32_t count = 0;

    for (uint32_t rank = 0; rank < (uint32_t)group->rank && rank < group->roster->size; rank++)
        count += fry_group_holder_of(group, &group->roster->slots[rank]) == FRY_HOLDER_HERE;
    return count;
}

/* Whether this member has waited for `count` others that may do the same first. */
static bool is_own_turn(fry_group *group, uint32_t count)
{
    const int64_t now_ns = fry_group_now_ns(group);
    int64_t aside_ns = (int64_t)count * FRY_GROUP_STEP_ASIDE_NS;

    if (aside_ns > FRY_GROUP_STEP_ASIDE_MAX_NS)
        aside_ns = FRY_GROUP_STEP_ASIDE_MAX_NS;
    if (group->aside_end_ns == 0)
        group->aside_end_ns = now_ns + aside_ns;
    if (now_ns >= group->aside_end_ns)
        return true;
    fry_timer_set(group->reactor, &group->aside_timer, group->aside_end_ns);
    return false;
}

/*
 * How many starts are to be marked; *known_p: how many of them ended by the kernel's word, or by
 * their own: in an open group who has left is marked too.
 */
static uint32_t find_dead(fry_group *group, fry_group_roster *into, uint32_t *known_p)
{
    uint32_t count = 0;

    *known_p = 0;
    for (uint32_t rank = 0; rank < group->roster->size; rank++) {
        const fry_group_slot *slot = &group->roster->slots[rank];
        const fry_presence *presence = fry_group_presence(group, slot->id);

        const bool has_left = presence != NULL && presence->state == FRY_PRESENCE_LEFT;

        if (slot->is_dead || rank == (uint32_t)group->rank || (has_left && !group->roster->is_open))
            continue;
        const bool is_known = presence != NULL && (presence->has_ended || has_left);
        if (!is_known && fry_group_holder_of(group, slot) != FRY_HOLDER_ENDED)
            continue;
        count++;
        *known_p += is_known;
        if (into != NULL && into->is_open)
            fry_seat_end(into, rank, has_left);
        else if (into != NULL)
            into->slots[rank].is_dead = true;
    }
    return count;
}

static bool may_change(const fry_group *group)
{
    return (group->state == FRY_GROUP_PLACED || group->state == FRY_GROUP_JOINED) &&
           group->roster != NULL && group->roster_op == NULL && fry_group_stands(group) &&
           !group->is_lost;
}

/* A number above all that may have been given. Only its order matters. */
static uint64_t starts_ahead(uint64_t starts)
{
    struct timespec now;
    uint16_t random = 0;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)getrandom(&random, sizeof random, GRND_NONBLOCK);
    const uint64_t time_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    starts += STARTS_AHEAD;
    return (starts > time_ms ? starts : time_ms) + random;
}

/* Writes the roster, of which the store has none or an older one. */
static void restore(fry_group *group)
{
    /* Who is here is not known yet, so this member's rank says how many go first. */
    if (!is_own_turn(group, (uint32_t)group->rank))
        return;
    fry_group_roster *roster = fry_group_roster_copy(group);
    if (roster == NULL)
        return;
    if (roster->is_open)
        fry_seats_begin_anew(roster);
    if (group->roster_version == 0) {
        fry_log_line(group->reactor->log, FERRY_LOG_WARNING,
                     "job %s: %s has lost the roster: it is written again", group->job,
                     fry_store_name(group->store));
        if (!roster->is_open)
            roster->starts = starts_ahead(roster->starts);
        roster->restores++;
    }
    fry_group_write_roster(group, roster);
}

void fry_group_keep_roster(fry_group *group)
{
    uint32_t known = 0;

    if (!may_change(group))
        return;
    if (group->roster_version == 0 || group->is_roster_behind) {
        restore(group);
        return;
    }
    const uint32_t before = count_before(group);
    const uint32_t dead = find_dead(group, NULL, &known);
    /* Others may not know what the kernel told this member: it acts itself. */
    const bool is_due = before == 0 || (known > 0 && is_own_turn(group, before));
    if (known == 0)
        group->aside_end_ns = 0;
    if (!is_due || (dead == 0 && (before > 0 || !fry_group_has_candidates(group))))
        return;
    fry_group_roster *roster = fry_group_roster_copy(group);
    if (roster == NULL)
        return;
    (void)find_dead(group, roster, &known);
    const bool has_new = before == 0 && fry_group_admit(group, roster);
    if (dead > 0 || has_new)
        fry_group_write_roster(group, roster);
    else
        fry_free(group->memory, roster, FRY_GROUP_ROSTER_BYTES(roster->size));
}
