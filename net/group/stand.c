/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A member's standing in the store: its lease, and its record in that lease.
 *
 *     OPENING ── lease ──► is the store quick enough? ── record ──► registered
 *                 ▲                                                    │
 *                 └──────── the lease has ended, or the record is gone ┘
 *
 * Losing the standing is no verdict. The lease may have run out because the store was away, and the
 * record may be gone because the store was emptied. Only the roster says whether that has cost the
 * place (roster.c). So a member takes a new lease and writes its record again: the same
 * start, under the same id, because nothing has happened to it. Others only see it missing
 * meanwhile. If it was marked dead before it was back, or another start has its place, it reads
 * that and is fenced. Until it is back it decides nothing: what decides is written on the condition
 * that the writer's record is in its lease, so the store refuses what is late.
 *
 * When the watch tells that this member's record is deleted, that may be old news, of the record
 * before this one. So the member looks, and what it reads counts.
 *
 * If the store needs most of a lease for one answer, the lease and its keys would be lost with the
 * first late answer. Such a lease is refused at the join, after three slow answers. A store that
 * becomes slow later is reported in the log (net/store/store.c).
 */
#include "net/group/stand.h"

#include "net/group/group.h"
#include "net/group/join.h"
#include "net/group/meet.h"
#include "net/group/members.h"
#include "net/group/seal.h"
#include "net/group/seats.h"
#include "net/group/settle.h"
#include "net/group/state.h"
#include "net/group/text.h"
#include "net/store/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define ROUND_TRIPS_MEASURED 3
#define NS_PER_S INT64_C(1000000000)

static uint64_t new_id(void)
{
    struct timespec now;
    uint32_t random = 0;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)getrandom(&random, sizeof random, GRND_NONBLOCK);
    /* Milliseconds, then random bits within one. The store refuses an id that is in use. */
    return ((uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000) << 20 |
           (random & 0xfffff);
}

static void set_id(fry_group *group, uint64_t id)
{
    group->id = id;
    (void)snprintf(group->own_key, sizeof group->own_key, "%smember/" FRY_GROUP_ID_FORMAT,
                   group->prefix, id);
}

size_t fry_group_own_text(fry_group *group, char *text)
{
    return fry_group_seal_close(&group->seal, group->own_key, text,
                                fry_group_record_write(&group->record, text));
}

/* ---- the record ---- */

static void record_written(fry_group_op *op, ferry_status status, const fry_store_entry *entries,
                           size_t count, const char *why);

/* Does not replace a record from an earlier lease, unless its version is known. */
static void write_record(fry_group *group, uint64_t version)
{
    if (group->rank >= 0 && group->has_registered)
        group->record.state = fry_group_has_to_restore(group) ? FRY_RECORD_BUSY : FRY_RECORD_BACK;
    group->record_text_bytes = fry_group_own_text(group, group->record_text);
    const fry_store_request record = {.verb = version == 0 ? FRY_STORE_CREATE : FRY_STORE_SWAP,
                                      .key = group->own_key,
                                      .value = group->record_text,
                                      .value_bytes = group->record_text_bytes,
                                      .version = version,
                                      .lease = &group->lease,
                                      .deadline_ns =
                                          group->has_registered ? 0 : group->deadline_ns};
    group->own_op = fry_group_op_start(group, &record, record_written, NULL);
    if (group->own_op != NULL)
        return;
    if (group->has_registered)
        fry_group_lacks_memory(group);
    else
        fry_group_join_refused(group, FERRY_E_NO_MEMORY, NULL);
}

/* Whether the value at the key is this start's, written by this very process. */
static bool is_own_text(const fry_group *group, const fry_store_entry *entry)
{
    return group->has_registered ||
           (entry->value_bytes == group->record_text_bytes &&
            memcmp(entry->value, group->record_text, entry->value_bytes) == 0);
}

static void record_written(fry_group_op *op, ferry_status status, const fry_store_entry *entries,
                           size_t count, const char *why)
{
    fry_group *group = op->group;

    group->own_op = NULL;
    fry_group_tell_later(group);
    if (status == FERRY_OK && count == 1) {
        group->is_registered = group->has_registered = true;
        group->is_standing_in_doubt = false;
        group->own_version = entries[0].version;
        if (group->state == FRY_GROUP_OPENING)
            group->state = FRY_GROUP_WAITING;
        fry_meet_publish_all(group);
        fry_seats_are_lost(group);
    } else if (status == FERRY_E_CHANGED && !is_own_text(group, &entries[0])) {
        set_id(group, new_id()); /* another start has this id */
        write_record(group, 0);
    } else if (status == FERRY_E_CHANGED) {
        write_record(group, entries[0].version); /* its own, in the lease before this one */
    } else if (status == FERRY_E_FENCED || status == FERRY_E_NOT_FOUND) {
        group->is_standing_in_doubt = group->is_registered; /* the record is gone */
    } else if (group->has_registered) {
        fry_group_refused(group, op, status, why);
    } else if (status == FERRY_E_STORE && !group->has_been_refused) {
        /* The lease may have run out, not reported yet: tries once more with another. */
        group->has_been_refused = true;
        if (group->is_leased)
            fry_store_lease_close(&group->lease);
        group->is_leased = false;
    } else {
        fry_group_join_refused(group, status, why);
    }
}

/* ---- the lease ---- */

static bool is_too_slow(const fry_group *group)
{
    return fry_store_round_trip_ns(group->store) * FRY_STORE_ROUND_TRIPS_PER_LEASE >
           group->lease_ns;
}

static void refuse_slow(fry_group *group)
{
    const int64_t needed_ns =
        fry_store_round_trip_ns(group->store) * FRY_STORE_ROUND_TRIPS_PER_LEASE;
    char why[sizeof group->why];

    (void)snprintf(why, sizeof why,
                   "a lease of %.1f s is too short for it, as it takes %.1f s to answer: set "
                   "lease_ns to %" PRId64 " s or more",
                   (double)group->lease_ns / 1e9,
                   (double)fry_store_round_trip_ns(group->store) / 1e9,
                   (needed_ns + NS_PER_S - 1) / NS_PER_S);
    fry_group_join_refused(group, FERRY_E_INVALID, why);
}

static void measured(fry_group_op *op, ferry_status status, const fry_store_entry *entries,
                     size_t count, const char *why);

static void measure(fry_group *group)
{
    const fry_store_request get = {
        .verb = FRY_STORE_GET, .key = group->own_key, .deadline_ns = group->deadline_ns};
    group->own_op = fry_group_op_start(group, &get, measured, NULL);
    if (group->own_op == NULL)
        fry_group_join_refused(group, FERRY_E_NO_MEMORY, NULL);
}

/* One late answer says little, so some are measured. The first was the grant of the lease. */
static void go_on_if_quick(fry_group *group)
{
    if (group->has_registered || group->own_op != NULL)
        return; /* `work` goes on, or `measured` */
    if (!is_too_slow(group))
        write_record(group, 0);
    else
        measure(group);
}

static void measured(fry_group_op *op, ferry_status status, const fry_store_entry *entries,
                     size_t count, const char *why)
{
    fry_group *group = op->group;

    (void)entries, (void)count;
    group->own_op = NULL;
    fry_group_tell_later(group);
    if (status != FERRY_OK && status != FERRY_E_NOT_FOUND && status != FERRY_E_FENCED)
        fry_group_join_refused(group, status, why);
    else if (is_too_slow(group) && ++group->round_trips == ROUND_TRIPS_MEASURED - 1)
        refuse_slow(group);
    else if (group->is_leased && group->lease.is_granted)
        go_on_if_quick(group);
    /* Else the lease was lost meanwhile, and `work` takes another. */
}

static void lease_told(fry_store_lease *lease, fry_lease_event event, const char *why)
{
    fry_group *group = lease->arg;
    const bool is_late = group->deadline_ns != 0 && fry_group_now_ns(group) >= group->deadline_ns;

    fry_group_store_in(group);
    switch (event) {
    case FRY_LEASE_GRANTED:
        go_on_if_quick(group);
        break;
    case FRY_LEASE_REFUSED:
        group->is_leased = false;
        if (!group->has_registered) {
            fry_group_join_refused(group, is_late ? FERRY_E_DEADLINE : FERRY_E_STORE, why);
        } else {
            if (!group->is_lost)
                fry_log_line(group->reactor->log, FERRY_LOG_ERROR, "job %s: no new lease in %s: %s",
                             group->job, fry_store_name(group->store), why != NULL ? why : "");
            fry_group_lacks_memory(group); /* tried again in a second */
        }
        break;
    case FRY_LEASE_ENDED:
        group->is_leased = group->is_registered = false;
        fry_log_line(group->reactor->log, FERRY_LOG_WARNING,
                     "job %s: the lease in %s has ended (%s): a new one is taken", group->job,
                     fry_store_name(group->store), why != NULL ? why : "it ran out");
        break;
    }
    fry_group_tell_later(group);
    fry_group_store_out(group);
}

static void take_lease(fry_group *group)
{
    group->lease = (fry_store_lease){.ttl_ns = group->lease_ns,
                                     .deadline_ns = group->has_registered ? 0 : group->deadline_ns,
                                     .fn = lease_told,
                                     .arg = group};
    group->is_leased = true;
    fry_store_lease_open(group->store, &group->lease);
}

void fry_group_register(fry_group *group)
{
    set_id(group, new_id());
    take_lease(group);
}

/* ---- the word, in an open group ---- */

static void acknowledged(fry_group_op *op, ferry_status status, const fry_store_entry *entries,
                         size_t count, const char *why)
{
    fry_group *group = op->group;

    (void)entries, (void)count;
    group->clear_op = NULL;
    fry_group_tell_later(group);
    if (status == FERRY_OK)
        return;
    fry_seats_are_lost(group);
    fry_group_refused(group, op, status, why);
}

static bool write_word(fry_group *group, char *text, bool *is_held)
{
    char key[FRY_STORE_KEY_BYTES + 1];

    (void)snprintf(key, sizeof key, "%sclear/" FRY_GROUP_ID_FORMAT, group->prefix, group->id);
    const fry_store_request put = {.verb = FRY_STORE_PUT,
                                   .key = key,
                                   .value = text,
                                   .value_bytes = fry_seats_word(group, key, text, is_held),
                                   .lease = &group->lease};
    group->clear_op = fry_group_op_start(group, &put, acknowledged, NULL);
    if (group->clear_op == NULL)
        return false;
    fry_seats_word_is_said(group, is_held);
    return true;
}

void fry_group_acknowledge(fry_group *group)
{
    if (group->clear_op != NULL || group->is_lost || !fry_seats_have_word(group) ||
        !fry_group_stands(group) || !fry_group_may_ask(group))
        return;
    const size_t text_bytes = FRY_SEATS_WORD_BYTES(group->view_count);
    char *text = fry_alloc_raw(group->memory, text_bytes, 1);
    bool *is_held = fry_alloc(group->memory, group->view_count, 1);
    if (text == NULL || is_held == NULL || !write_word(group, text, is_held))
        fry_group_lacks_memory(group);
    fry_free(group->memory, text, text_bytes);
    fry_free(group->memory, is_held, group->view_count);
}

/* ---- keeping the standing ---- */

bool fry_group_stands(const fry_group *group)
{
    return group->is_registered && !group->is_standing_in_doubt && group->own_op == NULL;
}

static void looked(fry_group_op *op, ferry_status status, const fry_store_entry *entries,
                   size_t count, const char *why)
{
    fry_group *group = op->group;

    (void)why;
    group->own_op = NULL;
    fry_group_tell_later(group);
    if (status == FERRY_OK && count == 1) {
        group->own_version = entries[0].version;
        return;
    }
    if (status != FERRY_E_NOT_FOUND) {
        group->is_standing_in_doubt = true;
        fry_group_lacks_memory(group); /* tried again in a second */
        return;
    }
    group->is_registered = false;
    if (group->is_leased) /* the record is gone, so the lease is gone too */
        fry_store_lease_close(&group->lease);
    group->is_leased = false;
}

/* Whether the store is the one that the watch has told of, by its roster. */
static bool is_known_roster(const fry_group *group, const fry_store_entry *entry)
{
    char key[FRY_STORE_KEY_BYTES + 1];
    size_t bytes = entry->value_bytes;
    bool is_text_bad, is_known = true;

    (void)snprintf(key, sizeof key, "%sroster", group->prefix);
    if (entry->version < group->roster_version)
        return false;
    if (!fry_group_seal_open(&group->seal, key, entry->value, &bytes))
        return true;
    fry_group_roster *roster =
        fry_group_roster_read(group->memory, entry->value, bytes, &is_text_bad);
    if (roster != NULL) {
        is_known = roster->lineage != group->roster->lineage ||
                   roster->restores <= group->roster->restores;
        fry_free(group->memory, roster, FRY_GROUP_ROSTER_BYTES(roster->size));
    }
    return is_known;
}

static void roster_looked_at(fry_group_op *op, ferry_status status, const fry_store_entry *entries,
                             size_t count, const char *why)
{
    fry_group *group = op->group;
    bool is_known = status == FERRY_E_NOT_FOUND && group->roster_version == 0;

    group->own_op = NULL;
    fry_group_tell_later(group);
    if (status != FERRY_OK && status != FERRY_E_NOT_FOUND) {
        fry_group_refused(group, op, status, why);
        return;
    }
    if (status == FERRY_OK && count == 1)
        is_known = group->roster_version == 0 || is_known_roster(group, &entries[0]);
    if (!is_known) {
        group->retry_ns = fry_group_now_ns(group) + FRY_GROUP_LOOK_AFTER_NS;
        return; /* waits until the watch tells of the other store */
    }
    if (group->is_leased && group->lease.is_granted)
        write_record(group, 0);
}

/*
 * A record says whether its writer has to restore what the store has lost, so it is not written
 * before that is known. The lease may be known to be over before the watch has told of another
 * store.
 */
static void come_back(fry_group *group)
{
    char key[FRY_STORE_KEY_BYTES + 1];

    if (!group->has_registered) {
        go_on_if_quick(group);
        return;
    }
    if (group->rank < 0 || group->roster == NULL) {
        write_record(group, 0);
        return;
    }
    (void)snprintf(key, sizeof key, "%sroster", group->prefix);
    group->own_op = fry_group_op_start(
        group, &(fry_store_request){.verb = FRY_STORE_GET, .key = key}, roster_looked_at, NULL);
    if (group->own_op == NULL)
        fry_group_lacks_memory(group);
}

static void look_at_own(fry_group *group)
{
    group->is_standing_in_doubt = false;
    group->own_op = fry_group_op_start(
        group, &(fry_store_request){.verb = FRY_STORE_GET, .key = group->own_key}, looked, NULL);
    if (group->own_op == NULL) {
        group->is_standing_in_doubt = true;
        fry_group_lacks_memory(group);
    }
}

void fry_group_keep_standing(fry_group *group)
{
    const fry_presence *own = group->is_registered ? fry_group_presence(group, group->id) : NULL;

    if (group->own_op != NULL || !fry_group_may_ask(group))
        return;
    if (own != NULL && own->state == FRY_PRESENCE_MISSING && own->version >= group->own_version)
        group->is_standing_in_doubt = true;
    if (!group->is_leased)
        take_lease(group);
    else if (!group->is_registered && group->lease.is_granted)
        come_back(group);
    else if (group->is_registered && group->is_standing_in_doubt)
        look_at_own(group);
    else if (group->is_registered && group->record.state == FRY_RECORD_BUSY &&
             !fry_group_has_to_restore(group))
        write_record(group, group->own_version); /* it is not busy any more */
}
