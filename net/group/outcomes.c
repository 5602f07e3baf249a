/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How rounds have ended, as the store has it, with a key for each name: what the watch tells of
 * these keys, ending a round, forgetting names. rounds.c has the argument.
 */
#include "net/group/outcomes.h"

#include "net/group/group.h"
#include "net/group/meet.h"
#include "net/group/stand.h"
#include "net/group/state.h"
#include "net/group/text.h"
#include "net/reactor.h"
#include "net/store/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define ROUNDS_MAX 65536
#define VERDICT_TEXT_BYTES(size) (256 + FRY_GROUP_SET_TEXT_BYTES(size))

static int by_name(fry_round *left, fry_round *right)
{
    return strcmp(left->name, right->name);
}

RB_GENERATE_INTERNAL(fry_rounds, fry_round, entry, by_name, static __attribute__((unused)))

/* ---- rounds known ---- */

fry_round *fry_round_find(fry_group *group, const char *name)
{
    fry_round key;

    (void)snprintf(key.name, sizeof key.name, "%s", name);
    return RB_FIND(fry_rounds, &group->rounds, &key);
}

static void timer_due(fry_timer *timer)
{
    const fry_round *round = timer->arg;

    fry_group_tell_later(round->group);
}

fry_round *fry_round_make(fry_group *group, fry_round_kind kind, const char *name)
{
    fry_round *round = fry_round_find(group, name);

    if (round != NULL || group->round_count >= ROUNDS_MAX)
        return round;
    round = fry_alloc(group->memory, sizeof *round, _Alignof(fry_round));
    if (round == NULL)
        return NULL;
    round->group = group;
    round->kind = kind;
    round->timer = (fry_timer){.fn = timer_due, .arg = round};
    (void)snprintf(round->name, sizeof round->name, "%s", name);
    RB_INSERT(fry_rounds, &group->rounds, round);
    group->round_count++;
    return round;
}

void fry_round_free(fry_round *round)
{
    fry_group *group = round->group;

    fry_timer_stop(group->reactor, &round->timer);
    RB_REMOVE(fry_rounds, &group->rounds, round);
    group->round_count--;
    if (round->is_own)
        group->own_round_count--;
    if (round->is_lost)
        group->lost_round_count--;
    fry_free(group->memory, round->ranks, round->ranks_room_bytes);
    fry_free(group->memory, round, sizeof *round);
}

static void set_own(fry_round *round, bool is_own)
{
    if (round->is_own != is_own)
        round->group->own_round_count += is_own ? 1U : UINT32_MAX;
    round->is_own = is_own;
}

static void set_lost(fry_round *round, bool is_lost)
{
    if (round->is_lost != is_lost)
        round->group->lost_round_count += is_lost ? 1U : UINT32_MAX;
    round->is_lost = is_lost;
}

const char *fry_round_user_name(const fry_round *round)
{
    return round->kind == FRY_ROUND_BARRIER ? round->name + 2 : round->name;
}

/* Number of the newest round that has ended in this life of the group. */
uint64_t fry_round_number(const fry_round *round)
{
    const fry_group *group = round->group;

    return group->roster != NULL && (round->version != 0 || round->is_lost) &&
                   round->verdict.life == group->roster->life
               ? round->verdict.number
               : 0;
}

/* ---- what the store tells ---- */

/* False: no memory. */
static bool set_verdict(fry_round *round, const fry_group_verdict *verdict)
{
    fry_group *group = round->group;

    if (verdict->ranks_bytes + 1 > round->ranks_room_bytes) {
        char *ranks = fry_alloc_raw(group->memory, verdict->ranks_bytes + 1, 1);

        if (ranks == NULL)
            return false;
        fry_free(group->memory, round->ranks, round->ranks_room_bytes);
        round->ranks = ranks;
        round->ranks_room_bytes = verdict->ranks_bytes + 1;
    }
    memcpy(round->ranks, verdict->ranks, verdict->ranks_bytes);
    round->ranks[verdict->ranks_bytes] = '\0';
    round->verdict = *verdict;
    round->verdict.ranks = round->ranks;
    return true;
}

static void apply(fry_round *round, const fry_group_verdict *verdict, uint64_t version)
{
    const uint64_t before = fry_round_number(round);

    if (!set_verdict(round, verdict)) {
        fry_group_lost_news(round->group);
        return;
    }
    round->version = round->version_seen = version;
    set_lost(round, false);
    if (fry_round_number(round) < before) {
        /* The name was forgotten and begun again, and the watch told both as one change. */
        round->own = 0;
        if (round->is_open)
            round->number = 1;
    }
}

/* Whether the store has lost the round, and this member knows newer than others wrote since. */
static bool knows_better(const fry_round *round, const fry_group_verdict *verdict)
{
    const uint64_t number = fry_round_number(round);

    if (!round->is_lost || number == 0)
        return false;
    if (verdict->life != round->verdict.life)
        return verdict->life < round->verdict.life;
    return verdict->number < number ||
           (verdict->number == number && verdict->passed < round->verdict.passed);
}

static void note_text(fry_round *round, const void *text, size_t text_bytes, uint64_t version)
{
    fry_group_verdict verdict;

    if (version <= round->version_seen)
        return;
    if (!fry_group_verdict_read(text, text_bytes, &verdict)) {
        fry_log_line(round->group->reactor->log, FERRY_LOG_WARNING,
                     "job %s: what stands for the last round of %s is none", round->group->job,
                     round->name);
        verdict = (fry_group_verdict){.ranks = ""};
    }
    if (knows_better(round, &verdict))
        round->version = round->version_seen = version;
    else
        apply(round, &verdict, version);
}

static void note_deleted(fry_round *round, uint64_t version)
{
    if (version < round->version_seen)
        return;
    round->version = 0;
    if (round->is_lost)
        return; /* it was not forgotten, and is to be written again */
    round->verdict = (fry_group_verdict){.ranks = ""};
    round->own = 0;
    set_own(round, false);
    if (round->is_open) {
        round->number = 1;
        fry_meet_publish(round);
    }
    if (round->first == NULL && round->op == NULL)
        fry_round_free(round);
}

void fry_rounds_told(fry_group *group, const char *name, const fry_store_entry *entry,
                     bool is_deleted)
{
    const bool is_barrier = strncmp(name, "b/", 2) == 0;
    fry_round *round;

    if (is_barrier ? !fry_group_is_name(name + 2, FRY_GROUP_NAME_BYTES, false)
                   : strcmp(name, "alive") != 0 && strcmp(name, "stop") != 0)
        return;
    if (is_deleted) {
        round = fry_round_find(group, name);
        if (round != NULL)
            note_deleted(round, entry->version);
        return;
    }
    round = fry_round_make(group,
                           is_barrier                   ? FRY_ROUND_BARRIER
                           : strcmp(name, "alive") == 0 ? FRY_ROUND_ALIVE
                                                        : FRY_ROUND_STOP,
                           name);
    if (round != NULL)
        note_text(round, entry->value, entry->value_bytes, entry->version);
    else if (group->round_count < ROUNDS_MAX)
        fry_group_lost_news(group);
}

/* ---- ending a round ---- */

static void ended(fry_group_op *op, ferry_status status, const fry_store_entry *entries,
                  size_t count, const char *why)
{
    fry_group *group = op->group;
    fry_round *round =
        op->arg != NULL ? op->arg : fry_round_find(group, strstr(op->key, "round/") + 6);

    if (round == NULL)
        return;
    if (round->op == op)
        round->op = NULL;
    if (status == FERRY_OK && count == 1) {
        note_text(round, op->request.value, op->request.value_bytes, entries[0].version);
        set_own(round, true);
    } else if (status == FERRY_E_CHANGED && count == 1) {
        note_text(round, entries[0].value, entries[0].value_bytes, entries[0].version);
    } else if (status == FERRY_E_NOT_FOUND) {
        note_deleted(round, round->version_seen);
    } else {
        fry_group_refused(group, op, status, why);
    }
    fry_group_tell_later(group);
}

static void write_verdict(fry_round *round, const fry_group_verdict *verdict)
{
    fry_group *group = round->group;
    const size_t room_bytes = VERDICT_TEXT_BYTES(group->view_count);
    char key[FRY_STORE_KEY_BYTES + 1];

    if (round->op != NULL || !fry_group_stands(group) || !fry_group_may_ask(group))
        return;
    char *text = fry_alloc_raw(group->memory, room_bytes, 1);
    if (text == NULL) {
        fry_group_lacks_memory(group);
        return;
    }
    const size_t bytes = fry_group_verdict_write(verdict, text, room_bytes);
    (void)snprintf(key, sizeof key, "%sround/%s", group->prefix, round->name);
    round->op = fry_group_decide(group, key, text, bytes, round->version, ended, round);
    if (round->op == NULL)
        fry_group_lacks_memory(group);
    fry_free(group->memory, text, room_bytes);
}

void fry_round_end(fry_round *round, ferry_status status, uint32_t rank, uint64_t value,
                   const char *ranks)
{
    const fry_group *group = round->group;
    const fry_group_verdict verdict = {
        .life = group->roster->life,
        .number = round->number,
        .passed = status == FERRY_OK            ? round->number
                  : fry_round_number(round) > 0 ? round->verdict.passed
                                                : 0,
        .status = status,
        .rank = rank,
        .has_left = status == FERRY_E_DEAD && group->views[rank].told == FERRY_MEMBER_LEFT,
        .set = round->first->set,
        .value = value,
        .ranks = ranks,
        .ranks_bytes = strlen(ranks)};

    write_verdict(round, &verdict);
}

/* ---- a store that has lost the rounds ---- */

/*
 * Rounds go on from their numbers, in which all members are in step. So members that know a key
 * which the store has lost write it again, the one that ended the round before the others; a member
 * that knows a later round replaces an earlier one. A round that is open has not ended as far as
 * this member knows, but may have ended for others, and nothing in the store says so any more. So
 * it ends here with FERRY_E_STORE, which says only that its outcome can't be had, and this is
 * written for those who have yet to come to it. Those who had come can't pass it any more, and
 * nobody passes it without them. So it was passed before that, or never will be.
 *
 * The agreement on a step to stop after has no callers, and has the same end however often it is
 * begun: it goes on.
 */
static void lose(fry_round *round)
{
    fry_group *group = round->group;
    const uint64_t number = fry_round_number(round);
    const fry_group_verdict none = {.life = group->roster->life,
                                    .number = round->number,
                                    .passed = number > 0 ? round->verdict.passed : 0,
                                    .status = FERRY_E_STORE,
                                    .rank = (uint32_t)group->rank,
                                    .set = round->first != NULL ? round->first->set : 0,
                                    .ranks = "-",
                                    .ranks_bytes = 1};

    if (round->op != NULL)
        round->op->arg = NULL;
    round->op = NULL;
    round->version = round->version_seen = 0;
    if (round->is_open && round->kind != FRY_ROUND_STOP && number < round->number) {
        set_lost(round, true);
        if (!set_verdict(round, &none))
            fry_group_lacks_memory(group); /* the round goes on as if it had just begun */
    } else {
        set_lost(round, number > 0);
    }
}

void fry_rounds_are_lost(fry_group *group)
{
    fry_round *round;

    RB_FOREACH(round, fry_rounds, &group->rounds) {
        if (group->rank >= 0 && group->roster != NULL)
            lose(round);
        else /* a member without a part in them is told anew */
            round->version = round->version_seen = 0;
    }
}

void fry_rounds_restore(fry_group *group)
{
    fry_round *round;

    if (group->lost_round_count == 0)
        return;
    RB_FOREACH(round, fry_rounds, &group->rounds) {
        if (round->is_lost && round->op == NULL && fry_group_may_restore(group, round->is_own))
            write_verdict(round, &round->verdict);
    }
}

/* ---- forgetting names ---- */

static void forgotten(fry_group_op *op, ferry_status status, const fry_store_entry *entries,
                      size_t count, const char *why)
{
    fry_round *round = fry_round_find(op->group, strstr(op->key, "round/") + 6);

    (void)entries, (void)count, (void)why;
    if (round != NULL && (status == FERRY_OK || status == FERRY_E_NOT_FOUND))
        note_deleted(round, round->version_seen);
    fry_group_tell_later(op->group);
}

static bool is_forgettable(const fry_round *round)
{
    const bool is_of_life = fry_round_number(round) > 0;

    return round->kind == FRY_ROUND_BARRIER && round->is_own && round->version != 0 &&
           round->first == NULL && (!is_of_life || round->verdict.status == FERRY_OK) &&
           !fry_meet_is_mentioned(round->group, round->name);
}

void fry_rounds_forget_oldest(fry_group *group)
{
    fry_round *oldest = NULL, *round;
    char key[FRY_STORE_KEY_BYTES + 1];

    RB_FOREACH(round, fry_rounds, &group->rounds) {
        /* Rounds of earlier lives are nobody's: rank 0 forgets them. */
        if (group->rank == 0 && round->version != 0 && fry_round_number(round) == 0)
            set_own(round, true);
        if (is_forgettable(round) && (oldest == NULL || round->version < oldest->version))
            oldest = round;
    }
    if (oldest == NULL)
        return;
    set_own(oldest, false);
    (void)snprintf(key, sizeof key, "%sround/%s", group->prefix, oldest->name);
    const fry_store_request forgets = {
        .verb = FRY_STORE_DELETE, .key = key, .version = oldest->version};
    (void)fry_group_op_start(group, &forgets, forgotten, NULL);
}

void fry_rounds_free_all(fry_group *group)
{
    fry_round *round;

    while ((round = RB_MIN(fry_rounds, &group->rounds)) != NULL)
        fry_round_free(round);
}
