/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where rounds meet. A member keeps one key for each coordinator to which it has come, with a line
 * for each round in which it waits there. A new text replaces the old one, one write at a time. So
 * keys don't pile up, whatever the names, and one round costs the same write as many that come
 * together. The key is in the member's lease. The line of a round that is over stays until the next
 * text, and names a number that has passed.
 *
 * The coordinator watches meet/ITS RANK/ from the first round for which it has a call: earlier
 * rounds can't be complete. It looks at the lines whenever the watch has told something.
 *
 * Members that disagree about who belongs to a barrier may have different coordinators, each
 * waiting for the other. So a coordinator whose rounds are still open a second after the last
 * arrival reads, once, what all members have written for all coordinators. So does a member whose
 * deadline passes. A line for the same round of the same name with other members ends the round
 * with FERRY_E_INVALID.
 */
#include "net/group/meet.h"

#include "net/group/group.h"
#include "net/group/outcomes.h"
#include "net/group/rounds.h"
#include "net/group/stand.h"
#include "net/group/state.h"
#include "net/group/text.h"
#include "net/reactor.h"
#include "net/store/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINES_MAX 1024 /* rounds of one coordinator that a member is in at once */

/* ---- writing ---- */

static fry_round_coordinator *coordinator_record(fry_group *group, uint32_t rank)
{
    fry_round_coordinator *coordinator = group->coordinators;

    while (coordinator != NULL && coordinator->rank != rank)
        coordinator = coordinator->next;
    if (coordinator != NULL)
        return coordinator;
    coordinator = fry_alloc(group->memory, sizeof *coordinator, _Alignof(fry_round_coordinator));
    if (coordinator == NULL)
        return NULL;
    coordinator->group = group;
    coordinator->rank = rank;
    coordinator->next = group->coordinators;
    group->coordinators = coordinator;
    return coordinator;
}

void fry_meet_publish(fry_round *round)
{
    if (round->coordinator == UINT32_MAX)
        return; /* `see_to` has not chosen a coordinator yet */
    fry_round_coordinator *coordinator = coordinator_record(round->group, round->coordinator);
    if (coordinator != NULL)
        coordinator->is_due = true;
    else {
        round->coordinator = UINT32_MAX; /* tried again at the next look */
        fry_group_lacks_memory(round->group);
    }
}

void fry_meet_publish_all(fry_group *group)
{
    for (fry_round_coordinator *coordinator = group->coordinators; coordinator != NULL;
         coordinator = coordinator->next)
        coordinator->is_due = true;
    fry_group_tell_later(group);
}

static void published(fry_group_op *op, ferry_status status, const fry_store_entry *entries,
                      size_t count, const char *why)
{
    fry_round_coordinator *coordinator = op->arg;

    (void)entries, (void)count;
    coordinator->op = NULL;
    if (status != FERRY_OK) {
        coordinator->is_due = true;
        fry_group_refused(op->group, op, status, why);
    }
    if (coordinator->is_due)
        fry_group_tell_later(op->group);
}

static bool has_line(const fry_round *round, uint32_t coordinator)
{
    return round->is_open && round->coordinator == coordinator &&
           (round->first->request != NULL || round->kind == FRY_ROUND_STOP);
}

/* A coordinator that is ending the round itself need not write that it has come. */
static bool is_worth_a_line(const fry_round *round, const fry_round_coordinator *coordinator)
{
    return has_line(round, coordinator->rank) &&
           (coordinator->rank != (uint32_t)coordinator->group->rank || round->op == NULL);
}

static void write_lines(fry_round_coordinator *coordinator)
{
    fry_group *group = coordinator->group;
    char key[FRY_STORE_KEY_BYTES + 1];
    size_t lines = 0, bytes = 0;
    fry_round *round;

    LIST_FOREACH(round, &group->active_rounds, active)
        lines += is_worth_a_line(round, coordinator);
    if (lines > LINES_MAX)
        lines = LINES_MAX; /* the rest follows when these rounds are over */
    const size_t room_bytes = lines * FRY_GROUP_LINE_TEXT_BYTES;
    if (lines == 0) {
        coordinator->is_due = false;
        return;
    }
    char *text = fry_alloc_raw(group->memory, room_bytes, 1);
    if (text == NULL) {
        fry_group_lacks_memory(group);
        return;
    }
    LIST_FOREACH(round, &group->active_rounds, active) {
        if (lines == 0)
            break;
        if (!is_worth_a_line(round, coordinator))
            continue;
        fry_group_arrival arrival = {.number = round->number,
                                     .incarnation = group->incarnation,
                                     .set = round->first->set,
                                     .value = round->first->value};
        memcpy(arrival.name, round->name, sizeof arrival.name);
        bytes += fry_group_arrival_write(&arrival, text + bytes);
        lines--;
    }
    (void)snprintf(key, sizeof key, "ferry/%s/meet/%" PRIu32 "/%" PRId32, group->job,
                   coordinator->rank, group->rank);
    const fry_store_request put = {.verb = FRY_STORE_PUT,
                                   .key = key,
                                   .value = text,
                                   .value_bytes = bytes,
                                   .lease = &group->lease};
    coordinator->op = fry_group_op_start(group, &put, published, coordinator);
    coordinator->is_due = coordinator->op == NULL;
    if (coordinator->is_due)
        fry_group_lacks_memory(group);
    fry_free(group->memory, text, room_bytes);
}

void fry_meet_flush(fry_group *group)
{
    for (fry_round_coordinator *coordinator = group->coordinators; coordinator != NULL;
         coordinator = coordinator->next) {
        if (coordinator->is_due && coordinator->op == NULL && fry_group_stands(group) &&
            fry_group_may_ask(group))
            write_lines(coordinator);
    }
}

/* ---- reading ---- */

typedef enum coming {
    HAS_NOT_COME,
    HAS_COME,
    HAS_COME_AS_OTHERS, /* its line names other members */
} coming;

/* What a rank's text says of the round that is open. */
static coming look_for(const fry_round *round, uint32_t rank, const char *text, size_t text_bytes,
                       uint64_t *value_p)
{
    const fry_group *group = round->group;
    const char *at = text, *end = text + text_bytes;
    fry_group_arrival arrival;

    for (int lines = 0; at < end && lines < LINES_MAX; lines++) {
        if (!fry_group_arrival_next(&at, end, &arrival))
            return HAS_NOT_COME;
        if (strcmp(arrival.name, round->name) != 0 || arrival.number != round->number ||
            arrival.incarnation != group->views[rank].incarnation)
            continue;
        if (arrival.set != round->first->set)
            return HAS_COME_AS_OTHERS;
        *value_p = arrival.value;
        return HAS_COME;
    }
    return HAS_NOT_COME;
}

bool fry_meet_is_mentioned(const fry_group *group, const char *name)
{
    fry_group_arrival arrival;

    for (uint32_t rank = 0; group->arrivals != NULL && rank < group->view_count; rank++) {
        const char *at = group->arrivals[rank];

        if (at == NULL)
            continue;
        const char *end = at + strlen(at);
        while (at < end && fry_group_arrival_next(&at, end, &arrival)) {
            if (strcmp(arrival.name, name) == 0)
                return true;
        }
    }
    return false;
}

static bool read_rank(const char *text, uint32_t size, uint32_t *rank_p, const char **end_p)
{
    char *end;
    const unsigned long rank = text[0] >= '0' && text[0] <= '9' ? strtoul(text, &end, 10) : size;

    if (rank >= size)
        return false;
    *rank_p = (uint32_t)rank;
    *end_p = end;
    return true;
}

static void arrival_free(fry_group *group, uint32_t rank)
{
    char *text = group->arrivals[rank];

    if (text != NULL)
        fry_free(group->memory, text, strlen(text) + 1);
    group->arrivals[rank] = NULL;
}

static void note_arrival(fry_group *group, uint32_t rank, const fry_store_entry *entry)
{
    char *text = NULL;

    /* No member writes a text with a zero in it. */
    if (entry != NULL && strlen(entry->value) == entry->value_bytes) {
        text = fry_alloc_raw(group->memory, entry->value_bytes + 1, 1);
        if (text == NULL) {
            group->has_lost_arrivals = true;
            fry_group_lacks_memory(group);
            return;
        }
        memcpy(text, entry->value, entry->value_bytes + 1);
    }
    arrival_free(group, rank);
    group->arrivals[rank] = text;
}

static void meet_told(fry_store_watch *watch, fry_store_event event, const fry_store_entry *entry)
{
    fry_group *group = watch->arg;
    const char *end;
    uint32_t rank;

    fry_group_store_in(group);
    switch (event) {
    case FRY_STORE_IS_PUT:
    case FRY_STORE_IS_DELETED:
        if (read_rank(entry->key + strlen(group->meet_prefix), group->view_count, &rank, &end) &&
            *end == '\0')
            note_arrival(group, rank, event == FRY_STORE_IS_PUT ? entry : NULL);
        if (event == FRY_STORE_IS_PUT)
            fry_timer_set(group->reactor, &group->meet_timer,
                          fry_group_now_ns(group) + FRY_GROUP_SLACK_NS);
        break;
    case FRY_STORE_IS_LISTED:
    case FRY_STORE_IS_HEALTHY:
    case FRY_STORE_IS_LOST:
    case FRY_STORE_IS_ANOTHER:
        break; /* the group's own watch handles this */
    }
    fry_group_tell_later(group);
    fry_group_store_out(group);
}

/* ---- what all have written ---- */

static size_t find_entry(const fry_group *group, const fry_store_entry *entries, size_t count,
                         size_t first, uint32_t *rank_p)
{
    char prefix[FRY_GROUP_JOB_BYTES + 32];
    const int bytes = snprintf(prefix, sizeof prefix, "ferry/%s/meet/", group->job);
    uint32_t coordinator;
    const char *end;

    for (size_t i = first; i < count; i++) {
        if (strncmp(entries[i].key, prefix, (size_t)bytes) == 0 &&
            read_rank(entries[i].key + bytes, group->view_count, &coordinator, &end) &&
            *end == '/' && read_rank(end + 1, group->view_count, rank_p, &end) && *end == '\0')
            return i;
    }
    return count;
}

/* The rank that names other members for this round; UINT32_MAX: none. has_come may be NULL. */
static uint32_t compare(const fry_round *round, const fry_store_entry *entries, size_t count,
                        bool *has_come)
{
    uint32_t rank = 0, other = UINT32_MAX;
    uint64_t value;

    for (size_t i = find_entry(round->group, entries, count, 0, &rank); i < count;
         i = find_entry(round->group, entries, count, i + 1, &rank)) {
        switch (look_for(round, rank, entries[i].value, entries[i].value_bytes, &value)) {
        case HAS_COME:
            if (has_come != NULL)
                has_come[rank] = true;
            break;
        case HAS_COME_AS_OTHERS:
            other = rank;
            break;
        case HAS_NOT_COME:
            break;
        }
    }
    return other;
}

fry_group_op *fry_meet_list(fry_group *group, int64_t deadline_ns, fry_group_op_fn fn, void *arg)
{
    char key[FRY_STORE_KEY_BYTES + 1];
    const fry_store_request list = {.verb = FRY_STORE_LIST, .key = key, .deadline_ns = deadline_ns};

    (void)snprintf(key, sizeof key, "ferry/%s/meet/", group->job);
    return fry_group_op_start(group, &list, fn, arg);
}

static void compared(fry_group_op *op, ferry_status status, const fry_store_entry *entries,
                     size_t count, const char *why)
{
    fry_group *group = op->group;
    fry_round *round;

    (void)why;
    group->meet_op = NULL;
    if (status != FERRY_OK || group->state != FRY_GROUP_JOINED || group->roster == NULL)
        return;
    LIST_FOREACH(round, &group->active_rounds, active) {
        if (round->kind != FRY_ROUND_BARRIER || !has_line(round, (uint32_t)group->rank))
            continue;
        const uint32_t other = compare(round, entries, count, NULL);
        if (other != UINT32_MAX)
            fry_round_end(round, FERRY_E_INVALID, other, 0, "-");
    }
}

static void compare_due(fry_timer *timer)
{
    fry_group *group = timer->arg;
    bool is_open = false;
    fry_round *round;

    LIST_FOREACH(round, &group->active_rounds, active)
        is_open |= round->kind == FRY_ROUND_BARRIER && has_line(round, (uint32_t)group->rank);
    if (is_open && group->meet_op == NULL && !group->is_lost)
        group->meet_op = fry_meet_list(group, 0, compared, NULL);
}

/* ---- coordinating ---- */

static void start_coordinating(fry_group *group)
{
    if (group->arrivals == NULL)
        group->arrivals =
            fry_alloc(group->memory, group->view_count * sizeof *group->arrivals, _Alignof(char *));
    if (group->arrivals == NULL) {
        fry_group_lacks_memory(group);
        return;
    }
    (void)snprintf(group->meet_prefix, sizeof group->meet_prefix, "ferry/%s/meet/%" PRId32 "/",
                   group->job, group->rank);
    group->meet_timer = (fry_timer){.fn = compare_due, .arg = group};
    group->meet_watch =
        (fry_store_watch){.prefix = group->meet_prefix, .fn = meet_told, .arg = group};
    group->is_coordinating = true;
    fry_store_watch_start(group->store, &group->meet_watch);
    fry_timer_set(group->reactor, &group->meet_timer, fry_group_now_ns(group) + FRY_GROUP_SLACK_NS);
}

/* Ends the round if every member of it is in has_come. True: it was ended. */
static bool end_if_complete(fry_round *round, const bool *has_come, uint64_t value)
{
    fry_group *group = round->group;
    const size_t room_bytes = FRY_GROUP_SET_TEXT_BYTES(group->view_count);

    for (uint32_t rank = 0; rank < group->view_count; rank++) {
        if (fry_round_is_for(round, round->first, rank) && !has_come[rank])
            return false;
    }
    char *ranks = fry_alloc_raw(group->memory, room_bytes, 1);
    if (ranks == NULL) {
        fry_group_lacks_memory(group);
        return false;
    }
    if (round->kind == FRY_ROUND_BARRIER ||
        !fry_group_set_write(has_come, group->view_count, ranks, room_bytes))
        (void)snprintf(ranks, room_bytes, "-");
    fry_round_end(round, FERRY_OK, (uint32_t)group->rank, value, ranks);
    fry_free(group->memory, ranks, room_bytes);
    return true;
}

void fry_meet_coordinate(fry_round *round)
{
    fry_group *group = round->group;
    const uint32_t size = group->view_count;
    uint64_t value = round->first->value;

    if (group->has_lost_arrivals && fry_group_may_ask(group)) {
        group->has_lost_arrivals = false;
        fry_meet_stop(group); /* a watch that begins anew tells all that the store has */
    }
    if (!group->is_coordinating)
        start_coordinating(group);
    if (group->arrivals == NULL || round->op != NULL)
        return;
    bool *has_come = fry_alloc(group->memory, size, 1);
    if (has_come == NULL) {
        fry_group_lacks_memory(group);
        return;
    }
    has_come[group->rank] = true;
    for (uint32_t rank = 0; rank < size && round->op == NULL; rank++) {
        const char *text = group->arrivals[rank];
        uint64_t its_value = 0;

        if (text == NULL || rank == (uint32_t)group->rank)
            continue;
        switch (look_for(round, rank, text, strlen(text), &its_value)) {
        case HAS_COME:
            /* In rounds of the living, a member that is not alive any more has no say. */
            has_come[rank] = fry_round_is_for(round, round->first, rank);
            if (has_come[rank] && its_value > value)
                value = its_value;
            break;
        case HAS_COME_AS_OTHERS:
            fry_round_end(round, FERRY_E_INVALID, rank, 0, "-");
            break;
        case HAS_NOT_COME:
            break;
        }
    }
    if (round->op == NULL)
        (void)end_if_complete(round, has_come, value);
    fry_free(group->memory, has_come, size);
}

/* ---- deadlines ---- */

static void end_late(fry_round *round, bool *has_come)
{
    fry_group *group = round->group;
    const size_t room_bytes = FRY_GROUP_SET_TEXT_BYTES(group->view_count);

    has_come[group->rank] = true;
    if (round->kind == FRY_ROUND_BARRIER && end_if_complete(round, has_come, 0))
        return; /* all have come: the coordinator is only slow */
    for (uint32_t rank = 0; rank < group->view_count; rank++)
        has_come[rank] = fry_round_is_for(round, round->first, rank) && !has_come[rank];
    char *ranks = fry_alloc_raw(group->memory, room_bytes, 1);
    if (ranks == NULL)
        return;
    (void)fry_group_set_write(has_come, group->view_count, ranks, room_bytes);
    fry_round_end(round, FERRY_E_DEADLINE, (uint32_t)group->rank, 0, ranks);
    fry_free(group->memory, ranks, room_bytes);
}

static void asked_late(fry_group_op *op, ferry_status status, const fry_store_entry *entries,
                       size_t count, const char *why)
{
    fry_round *round = op->arg;
    fry_group *group = op->group;

    (void)why;
    fry_group_tell_later(group);
    if (round == NULL)
        return; /* the round has ended meanwhile */
    round->op = NULL;
    if (status != FERRY_OK || group->state != FRY_GROUP_JOINED || !round->is_open)
        return; /* the waiting call gives up in time */
    bool *has_come = fry_alloc(group->memory, group->view_count, 1);
    if (has_come == NULL)
        return;
    const uint32_t other = compare(round, entries, count, has_come);
    if (other != UINT32_MAX)
        fry_round_end(round, FERRY_E_INVALID, other, 0, "-");
    else
        end_late(round, has_come);
    fry_free(group->memory, has_come, group->view_count);
}

bool fry_meet_absentees(const fry_round *round, const fry_store_entry *entries, size_t count,
                        bool *is_absent)
{
    const fry_group *group = round->group;

    if (!round->is_open)
        return false;
    (void)compare(round, entries, count, is_absent);
    is_absent[group->rank] = true;
    for (uint32_t rank = 0; rank < group->view_count; rank++)
        is_absent[rank] = fry_round_is_for(round, round->first, rank) && !is_absent[rank];
    return true;
}

void fry_meet_late(fry_round *round)
{
    fry_group *group = round->group;

    if (round->op == NULL && fry_group_may_ask(group))
        round->op = fry_meet_list(group, round->first->request->deadline_ns + FRY_GROUP_LATE_NS,
                                  asked_late, round);
}

void fry_meet_stop(fry_group *group)
{
    if (group->is_coordinating)
        fry_store_watch_stop(&group->meet_watch);
    group->is_coordinating = false;
    fry_timer_stop(group->reactor, &group->meet_timer);
}

void fry_meet_end(fry_group *group)
{
    group->meet_op = NULL;
    for (fry_round_coordinator *coordinator = group->coordinators; coordinator != NULL;
         coordinator = coordinator->next)
        coordinator->op = NULL;
}

void fry_meet_forget(fry_group *group)
{
    while (group->coordinators != NULL) {
        fry_round_coordinator *coordinator = group->coordinators;

        group->coordinators = coordinator->next;
        fry_free(group->memory, coordinator, sizeof *coordinator);
    }
    for (uint32_t rank = 0; group->arrivals != NULL && rank < group->view_count; rank++)
        arrival_free(group, rank);
    fry_free(group->memory, group->arrivals, group->view_count * sizeof *group->arrivals);
}
