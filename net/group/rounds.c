/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rounds: what members do together. A barrier's calls are rounds of its name, numbered from 1 in
 * each life of the group; "alive" and "stop" are rounds of all members that live.
 *
 * A round takes two round trips. A member that comes writes so where the round's coordinator looks
 * (meet.c). The coordinator is the lowest rank of the round's members, or of those that live. Once
 * all have come, the coordinator ends the round: it writes the outcome to the round's key, which
 * every member watches. So a barrier of n members is n writes at once, one more, and 2 n messages;
 * only the coordinator reads all.
 *
 * One outcome. A member with a reason to end a round (all came; a deadline; a death; a cancel) does
 * so by SWAP of that key, from the outcome of the round before. One SWAP succeeds; the others are
 * answered with what it wrote. Nothing else resolves a call. So all that came to a round have one
 * outcome of it, whoever dies or is stopped at any time. If the coordinator is dead, or late
 * itself, others act: each waits a little longer the more members stand before it, so usually one
 * acts.
 *
 * The next round may overwrite an outcome before all have been told of it. So the key also says
 * which round was the newest to be passed. A member that waits in round n when n + 1 has failed
 * knows whether n was passed, because after that no round is passed without this member.
 *
 * No round is passed without a member. It ends with FERRY_OK only if an arrival of each member was
 * seen that names this very number and the incarnation that holds the rank. An older arrival names
 * an older number, a dead start's another incarnation.
 *
 * In step. `own` counts the rounds of a name that this member's calls were for. If the key's number
 * is above `own`, a call is late for a round that ended without it: it gets that round's outcome,
 * and counts. A start that came to the group later than others has not called for the rounds before
 * it: its first call gets FERRY_E_CHANGED and takes the key's number for its own. A call that is
 * cancelled or out of time before its turn stays in the line without its caller, and ends its round
 * when its turn comes.
 *
 * Names are forgotten. A key stays when its barrier is done: a restarted member must know of it. A
 * coordinator keeps the last 512 names whose rounds it ended. It deletes the key of an older name
 * if the last outcome was FERRY_OK and no arrival names it any more (a member that has not seen the
 * outcome yet still has its arrival there). Then all members are in step, and begin again from 1.
 *
 * The model of this is barrier.pml.
 */
#include "net/group/rounds.h"

#include "net/group/absent.h"
#include "net/group/group.h"
#include "net/group/meet.h"
#include "net/group/members.h"
#include "net/group/outcomes.h"
#include "net/group/settle.h"
#include "net/group/state.h"
#include "net/group/stop.h"
#include "net/group/text.h"
#include "net/reactor.h"
#include "net/store/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- calls ---- */

bool fry_round_is_for(const fry_round *round, const fry_round_call *call, uint32_t rank)
{
    uint32_t first = 0, end = call->member_count;

    if (round->kind != FRY_ROUND_BARRIER)
        return fry_group_rank_is_here(round->group, rank);
    if (end == 0)
        return true;
    while (first < end) {
        const uint32_t middle = first + (end - first) / 2;

        if (call->members[middle] == rank)
            return true;
        if (call->members[middle] < rank)
            first = middle + 1;
        else
            end = middle;
    }
    return false;
}

static void call_free(fry_round_call *call)
{
    fry_free(call->round->group->memory, call,
             sizeof *call + call->member_count * sizeof call->members[0]);
}

static void append(fry_round *round, fry_round_call *call)
{
    fry_group *group = round->group;

    call->round = round;
    if (round->first == NULL) {
        round->first = round->last = call;
        LIST_INSERT_HEAD(&group->active_rounds, round, active);
    } else {
        round->last->next = call;
        round->last = call;
    }
}

/* Takes a call out. If it was the first, its round is not open any more. */
static void take_out(fry_round_call *call)
{
    fry_round *round = call->round;
    fry_round_call **link = &round->first, *before = NULL;

    if (call == round->first) {
        round->is_open = false;
        round->act_ns = 0;
        fry_timer_stop(round->group->reactor, &round->timer);
        if (round->op != NULL)
            round->op->arg = NULL; /* the answer is only news */
        round->op = NULL;
    }
    while (*link != call) {
        before = *link;
        link = &before->next;
    }
    *link = call->next;
    if (round->last == call)
        round->last = before;
    if (round->first == NULL)
        LIST_REMOVE(round, active);
}

/* Answers the caller; takes the error. The round may be gone afterwards, or the group over. */
static void finish(fry_round_call *call, ferry_status status, fry_error *error, const void *value,
                   size_t value_bytes)
{
    fry_group_request *request = call->request;
    const uint64_t version = value != NULL ? call->round->version : 0; /* only with the living */

    take_out(call);
    call_free(call);
    if (request == NULL) {
        fry_error_release(error);
        return;
    }
    request->private_ = NULL;
    fry_group_finish(request, status, error, value, value_bytes, version);
}

static bool is_late(const fry_round_call *call)
{
    return call->request != NULL && call->request->async.state == FRY_ASYNC_LATE;
}

static int by_rank(const void *left, const void *right)
{
    const uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;

    return a < b ? -1 : a > b;
}

/* Sorts the members, and hashes them: those that name others have another set. */
static void fill_members(const fry_group *group, fry_round_call *call, const uint32_t *members)
{
    const uint32_t count = call->member_count;
    uint8_t bytes[4];
    uint64_t hash = count == 0 ? group->view_count : 0;

    for (uint32_t i = 0; i < count; i++)
        call->members[i] = members[i];
    qsort(call->members, count, sizeof call->members[0], by_rank);
    if (count == group->view_count)
        hash = count; /* naming all is the same as naming none */
    for (uint32_t i = 0; count < group->view_count && i < count; i++) {
        for (int b = 0; b < 4; b++)
            bytes[b] = (uint8_t)(call->members[i] >> (8 * b));
        const uint64_t both[2] = {hash, fry_group_hash(bytes, sizeof bytes)};
        uint8_t pair[16];
        for (int b = 0; b < 16; b++)
            pair[b] = (uint8_t)(both[b / 8] >> (8 * (b % 8)));
        hash = fry_group_hash(pair, sizeof pair);
    }
    call->set = hash;
}

void fry_rounds_submit(fry_group_request *request)
{
    fry_group *group = request->group;
    const bool is_barrier = request->verb == FRY_GROUP_BARRIER;
    const uint32_t count = is_barrier && request->members != NULL ? request->member_count : 0;
    char name[FRY_GROUP_NAME_BYTES + 3];

    if (request->verb == FRY_GROUP_NOTICE || request->verb == FRY_GROUP_STEP) {
        (request->verb == FRY_GROUP_STEP ? fry_stop_step : fry_stop_give_notice)(request);
        return;
    }
    (void)snprintf(name, sizeof name, "%s%s", is_barrier ? "b/" : "",
                   is_barrier ? request->name : "alive");
    fry_round_call *call = fry_alloc(group->memory, sizeof *call + count * sizeof call->members[0],
                                     _Alignof(uint64_t));
    fry_round *round =
        call != NULL ? fry_round_make(group, is_barrier ? FRY_ROUND_BARRIER : FRY_ROUND_ALIVE, name)
                     : NULL;
    if (round == NULL) {
        fry_free(group->memory, call, sizeof *call + count * sizeof call->members[0]);
        fry_async_finish_soon(&request->async, FERRY_E_NO_MEMORY, NULL);
        return;
    }
    call->member_count = count;
    if (is_barrier)
        fill_members(group, call, request->members);
    call->request = request;
    request->private_ = call;
    append(round, call);
    fry_async_set_deadline(&request->async, request->deadline_ns);
    fry_group_tell_later(group);
}

void fry_rounds_come_to_stop(fry_group *group, uint64_t step_begun)
{
    fry_round *round = fry_round_make(group, FRY_ROUND_STOP, "stop");
    fry_round_call *call =
        round != NULL ? fry_alloc(group->memory, sizeof *call, _Alignof(fry_round_call)) : NULL;

    if (call == NULL) {
        fry_group_lacks_memory(group);
        return;
    }
    call->value = step_begun;
    append(round, call);
}

/* The caller is gone. The call's place in line stays, to end the round when its turn comes. */
static void leave_place(fry_round_call *call, ferry_status status)
{
    call->request->private_ = NULL;
    call->request = NULL;
    call->status = status;
    fry_group_tell_later(call->round->group);
}

void fry_rounds_late(fry_group_request *request)
{
    if (request->verb == FRY_GROUP_STEP)
        fry_stop_late(request);
    else
        fry_group_tell_later(request->group);
}

void fry_rounds_cancel(fry_group_request *request)
{
    if (request->private_ == NULL)
        return;
    if (request->verb == FRY_GROUP_NOTICE || request->verb == FRY_GROUP_STEP) {
        fry_stop_cancel(request);
        return;
    }
    fry_round_call *call = request->private_;
    if (call->round->kind == FRY_ROUND_BARRIER) {
        leave_place(call, FERRY_E_CANCELLED);
        return;
    }
    fry_group_tell_later(request->group);
    take_out(call);
    call_free(call);
    request->private_ = NULL;
}

/* ---- what a verdict says to a caller ---- */

static void say_absent(const fry_round *round, char *text, size_t text_bytes)
{
    fry_group *group = round->group;
    bool *is_absent = fry_alloc(group->memory, group->view_count, 1);

    (void)snprintf(text, text_bytes, "the absentees are not known");
    if (is_absent != NULL && fry_group_set_read(round->verdict.ranks, round->verdict.ranks_bytes,
                                                is_absent, group->view_count))
        fry_group_name_absentees(group, is_absent, group->view_count, text, text_bytes);
    fry_free(group->memory, is_absent, group->view_count);
}

static fry_error *error_of(const fry_round *round)
{
    fry_group *group = round->group;
    const fry_group_verdict *v = &round->verdict;
    const char *what = round->kind == FRY_ROUND_BARRIER ? "barrier" : "the round of the living,";
    char text[FRY_ERROR_MESSAGE_BYTES];

    switch (v->status) {
    case FERRY_E_DEADLINE:
        say_absent(round, text, sizeof text - 128);
        return fry_group_error(group, v->status, -1,
                               "%s %s: deadline of rank %" PRIu32 " passed, did not come: %s", what,
                               fry_round_user_name(round), v->rank, text);
    case FERRY_E_DEAD:
        return fry_group_error(group, v->status, (int32_t)v->rank, "%s %s: rank %" PRIu32 " %s",
                               what, fry_round_user_name(round), v->rank,
                               v->has_left ? "has left" : "has died");
    case FERRY_E_CANCELLED:
        return fry_group_error(group, v->status, (int32_t)v->rank,
                               "%s %s: rank %" PRIu32 " cancelled it", what,
                               fry_round_user_name(round), v->rank);
    case FERRY_E_INVALID:
        return fry_group_error(group, v->status, (int32_t)v->rank,
                               "%s %s: rank %" PRIu32 " names other members than others", what,
                               fry_round_user_name(round), v->rank);
    case FERRY_E_STORE:
        return fry_group_error(group, v->status, -1,
                               "%s %s: %s was emptied or replaced meanwhile, and how it ended for "
                               "others is not known",
                               what, fry_round_user_name(round), fry_store_name(group->store));
    default:
        return NULL;
    }
}

static bool is_in_verdict(const fry_round *round, uint32_t rank)
{
    const fry_group *group = round->group;
    bool *is_in = fry_alloc(group->memory, group->view_count, 1);
    bool is = is_in != NULL &&
              fry_group_set_read(round->verdict.ranks, round->verdict.ranks_bytes, is_in,
                                 group->view_count) &&
              is_in[rank];

    fry_free(group->memory, is_in, group->view_count);
    return is;
}

/* Answers with the living, as the verdict names them. */
static void finish_alive(fry_round *round)
{
    fry_group *group = round->group;
    const size_t bytes = group->view_count * sizeof(uint32_t);
    bool *is_in = fry_alloc(group->memory, group->view_count, 1);
    uint32_t *ranks = fry_alloc(group->memory, bytes, _Alignof(uint32_t));
    uint32_t count = 0;

    if (is_in == NULL || ranks == NULL) {
        finish(round->first, FERRY_E_NO_MEMORY, NULL, NULL, 0);
    } else {
        (void)fry_group_set_read(round->verdict.ranks, round->verdict.ranks_bytes, is_in,
                                 group->view_count);
        for (uint32_t rank = 0; rank < group->view_count; rank++) {
            if (is_in[rank])
                ranks[count++] = rank;
        }
        finish(round->first, FERRY_OK, NULL, ranks, count * sizeof *ranks);
    }
    fry_free(group->memory, is_in, group->view_count);
    fry_free(group->memory, ranks, bytes);
}

/* ---- the first call's turn ---- */

/* Answers a call that is late for its round. */
static void finish_behind(fry_round *round)
{
    fry_group *group = round->group;
    const uint64_t number = fry_round_number(round);
    const bool is_new = !round->has_called && group->incarnation > group->roster->formed;

    round->has_called = true;
    if (is_new || round->verdict.passed > round->own) {
        round->own = number;
        finish(round->first, FERRY_E_CHANGED,
               fry_group_error(group, FERRY_E_CHANGED, -1,
                               "barrier %s: others have passed it %" PRIu64
                               " times before this member was started anew",
                               fry_round_user_name(round), number),
               NULL, 0);
        return;
    }
    round->own++;
    finish(round->first, round->verdict.status, error_of(round), NULL, 0);
}

/* Answers the first call, whose round has ended. */
static void resolve(fry_round *round)
{
    const ferry_status status = round->verdict.status;
    bool has_passed;

    switch (round->kind) {
    case FRY_ROUND_BARRIER:
        has_passed = round->verdict.passed == round->number;
        if (round->verdict.passed > round->number) {
            /* Another start has this member's rank, and came to that round. */
            finish_behind(round);
            return;
        }
        round->own = round->number;
        finish(round->first, has_passed ? FERRY_OK : status, has_passed ? NULL : error_of(round),
               NULL, 0);
        break;
    case FRY_ROUND_ALIVE:
        /* A round that ended without this member, just before it came, is not its own. */
        if (is_in_verdict(round, (uint32_t)round->group->rank) != (status == FERRY_OK)) {
            round->number = fry_round_number(round) + 1;
            fry_meet_publish(round);
        } else if (status == FERRY_OK) {
            finish_alive(round);
        } else {
            finish(round->first, status, error_of(round), NULL, 0);
        }
        break;
    case FRY_ROUND_STOP:
        finish(round->first, FERRY_OK, NULL, NULL, 0);
        break;
    }
}

/* Opens the round of the first call. False: the call has its answer. */
static bool open_first(fry_round *round)
{
    const uint64_t number = fry_round_number(round);

    if (round->kind == FRY_ROUND_BARRIER) {
        if (number > 0 && round->verdict.set != round->first->set) {
            finish(round->first, FERRY_E_INVALID,
                   fry_group_error(round->group, FERRY_E_INVALID, -1,
                                   "barrier %s has met before, as other members",
                                   fry_round_user_name(round)),
                   NULL, 0);
            return false;
        }
        if (round->own < number) {
            finish_behind(round);
            return false;
        }
    }
    round->has_called = true;
    round->is_open = true;
    round->number = number + 1;
    round->coordinator = UINT32_MAX;
    return true;
}

static uint32_t coordinator_of(const fry_round *round)
{
    const fry_group *group = round->group;

    for (uint32_t rank = 0; rank < group->view_count; rank++) {
        if (fry_round_is_for(round, round->first, rank))
            return rank;
    }
    return (uint32_t)group->rank;
}

/* Whether it is this member's turn to act. Live members with lower ranks go first. */
static bool is_turn_to_act(fry_round *round)
{
    fry_group *group = round->group;
    const int64_t now_ns = fry_group_now_ns(group);
    int64_t aside_ns = 0;

    if (round->act_ns == 0) {
        for (uint32_t rank = 0; rank < (uint32_t)group->rank; rank++) {
            if (fry_round_is_for(round, round->first, rank) && fry_group_rank_is_here(group, rank))
                aside_ns += FRY_GROUP_STEP_ASIDE_NS;
        }
        round->act_ns =
            now_ns +
            (aside_ns < FRY_GROUP_STEP_ASIDE_MAX_NS ? aside_ns : FRY_GROUP_STEP_ASIDE_MAX_NS);
    }
    if (now_ns >= round->act_ns)
        return true;
    fry_timer_set(group->reactor, &round->timer, round->act_ns);
    return false;
}

/* A member of the barrier that will not come; UINT32_MAX: none. */
static uint32_t find_dead(const fry_round *round)
{
    const fry_group *group = round->group;

    for (uint32_t rank = 0; round->kind == FRY_ROUND_BARRIER && rank < group->view_count; rank++) {
        if ((group->views[rank].told == FERRY_MEMBER_DEAD ||
             group->views[rank].told == FERRY_MEMBER_LEFT) &&
            fry_round_is_for(round, round->first, rank))
            return rank;
    }
    return UINT32_MAX;
}

/* The store has not answered in time: the caller gets its answer, the call's place stays. */
static void give_up(fry_round *round)
{
    fry_group *group = round->group;
    fry_round_call *call = round->first;
    fry_group_request *request = call->request;
    fry_error *error = fry_group_error(group, FERRY_E_DEADLINE, -1,
                                       "%s %s: its deadline passed, and %s does not answer who "
                                       "has come",
                                       round->kind == FRY_ROUND_BARRIER ? "barrier" : "round",
                                       fry_round_user_name(round), fry_store_name(group->store));

    if (round->kind != FRY_ROUND_BARRIER) {
        finish(call, FERRY_E_DEADLINE, error, NULL, 0);
        return;
    }
    leave_place(call, FERRY_E_DEADLINE);
    fry_group_finish(request, FERRY_E_DEADLINE, error, NULL, 0, 0);
}

/* Does what an open round needs. */
static void see_to(fry_round *round)
{
    fry_group *group = round->group;
    const fry_round_call *call = round->first;
    const uint32_t coordinator = coordinator_of(round);
    uint32_t dead;

    if (coordinator != round->coordinator) {
        round->coordinator = coordinator;
        fry_meet_publish(round);
    }
    if (call->request == NULL && round->kind != FRY_ROUND_STOP) {
        fry_round_end(round, call->status, (uint32_t)group->rank, 0, "-");
        return;
    }
    if (coordinator == (uint32_t)group->rank)
        fry_meet_coordinate(round);
    if (round->op != NULL && !is_late(call))
        return;
    dead = find_dead(round);
    if (dead != UINT32_MAX) {
        if (is_turn_to_act(round))
            fry_round_end(round, FERRY_E_DEAD, dead, 0, "-");
    } else if (!is_late(call)) {
        round->act_ns = 0;
    }
    if (!is_late(call))
        return;
    if (group->is_lost ||
        fry_group_now_ns(group) >= call->request->deadline_ns + FRY_GROUP_LATE_NS) {
        give_up(round);
        return;
    }
    if (dead == UINT32_MAX && is_turn_to_act(round))
        fry_meet_late(round);
    if (!round->timer.is_on)
        fry_timer_set(group->reactor, &round->timer,
                      call->request->deadline_ns + FRY_GROUP_LATE_NS);
}

/* Answers calls behind the first whose deadline has passed: they don't wait for their turn. */
static void finish_late(fry_round *round)
{
    for (fry_round_call *call = round->first->next; call != NULL; call = call->next) {
        fry_group_request *request = call->request;

        if (!is_late(call))
            continue;
        fry_error *error =
            fry_group_error(round->group, FERRY_E_DEADLINE, -1,
                            "%s: its deadline passed behind an earlier call of this member's",
                            fry_round_user_name(round));
        fry_group_tell_later(round->group);
        if (round->kind != FRY_ROUND_BARRIER) {
            finish(call, FERRY_E_DEADLINE, error, NULL, 0);
            return;
        }
        leave_place(call, FERRY_E_DEADLINE);
        fry_group_finish(request, FERRY_E_DEADLINE, error, NULL, 0, 0);
        return; /* the caller may have changed the line; `work` comes again */
    }
}

/* No round begins yet. Calls that can't wait any longer hear that the store does not answer. */
static void wait_to_be_settled(fry_round *round)
{
    if (is_late(round->first))
        give_up(round);
    else
        finish_late(round);
}

static void consider(fry_round *round)
{
    fry_group *group = round->group;

    while (round->first != NULL && !fry_group_is_over(group)) {
        if (!round->is_open && round->kind != FRY_ROUND_STOP && !fry_group_is_settled(group)) {
            wait_to_be_settled(round);
            return;
        }
        if (!round->is_open && !open_first(round))
            continue;
        if (fry_round_number(round) >= round->number) {
            resolve(round);
            continue;
        }
        see_to(round);
        if (round->is_open && !fry_group_is_over(group))
            finish_late(round);
        return;
    }
}

void fry_rounds_consider(fry_group *group)
{
    fry_round *round, *next;

    if (group->state != FRY_GROUP_JOINED)
        return;
    fry_stop_consider(group);
    LIST_FOREACH_SAFE(round, &group->active_rounds, active, next) {
        consider(round);
        if (fry_group_is_over(group))
            return;
    }
    fry_meet_flush(group);
    fry_rounds_restore(group);
    fry_stop_restore(group);
    if (group->own_round_count > FRY_GROUP_ROUNDS_KEPT)
        fry_rounds_forget_oldest(group);
}

void fry_rounds_end(fry_group *group)
{
    fry_round *round;

    LIST_FOREACH(round, &group->active_rounds, active) {
        round->op = NULL;
        fry_timer_stop(group->reactor, &round->timer);
    }
    fry_meet_end(group);
}

void fry_rounds_forget(fry_group *group)
{
    while (!LIST_EMPTY(&group->active_rounds)) {
        fry_round_call *call = LIST_FIRST(&group->active_rounds)->first;

        take_out(call);
        call_free(call);
    }
    fry_rounds_free_all(group);
    fry_meet_forget(group);
}
