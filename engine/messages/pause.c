/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pauses. A collective of the program stands on a GPU until all its members are there, and so does
 * a lot until its other end is. If a GPU has no room for both, they can wait for each other for
 * ever, also through third members. So a member pauses before its collective: it admits no lots
 * (fry_pairing_admit), and the pause resolves when none goes here.
 *
 * *That is enough*, though the other ends need not pause, nor hear of it. Who leads has what it
 * proposes until the answer has come and the lot, if any, is over; who follows has a lot from
 * before it says GO. So a lot that goes at one end goes at the other, is launched there within a
 * round trip, paused or not, and finds the GPU free: the program's collective comes after the
 * pause. pause.pml checks it, with three members that each have room for one kernel. What comes
 * meanwhile is refused with BUSY, and asked for anew after the nudge that the resume sends.
 *
 * *What went is over at both ends*, too, before the pause resolves: what was received has the other
 * end's word (net/peer/joint.c), and what was sent has been answered. After the pause the program
 * may wait for its collective without making progress, and the other end may wait for its receive
 * before it joins. No two wait for each other in this: an end whose pause has resolved owes
 * nothing.
 *
 * *Making* a communicator takes both ends, and calls that may wait for what stands on the GPU. So a
 * pairing that is being made when one end pauses is put off: both ends end it, and the leader wants
 * another as soon as it has messages for it; who is paused begins none. One that ends while the
 * member is paused frees what it has; a pause waits until this end has.
 *
 * *Whose.* The loop begins and ends pauses, with the role and the baton; whoever has the baton may
 * read `is_on`.
 */
#include "engine/messages/pause.h"
#include "engine/messages/membership.h"

#include "engine/engine.h"
#include "engine/messages/launch.h"
#include "engine/messages/members.h"
#include "engine/messages/pairing.h"

#include <stdio.h>

/* ---- a group's futures ---- */

static void look_soon(const ferry_group *group)
{
    group->members->has_steps = true;
    fry_store_relaxed(&group->members->has_looks, 1);
}

static void answer(const fry_errand *errand, ferry_status status, fry_error *error)
{
    if (!fry_future_is_resolved((ferry_future *)(void *)errand->promise))
        fry_promise_answer(errand->promise, status, error, NULL, 0, 0);
    else
        fry_error_release(error);
}

static void answer_all(const ferry_group *group, ferry_status status)
{
    const fry_errand *errand;
    LIST_FOREACH(errand, &group->errands, entry) {
        if (errand->sort == FRY_ERRAND_PAUSE)
            answer(errand, status, NULL);
    }
}

static void is_late(fry_timer *timer)
{
    const fry_errand *errand = timer->arg;
    const ferry_group *group = errand->group;
    const fry_fault fault = {.status = FERRY_E_DEADLINE, .rank = group->pause.waits_for};
    char with[64] = "";
    if (fault.rank >= 0)
        (void)snprintf(with, sizeof with, ": something still goes with member %d", (int)fault.rank);
    answer(errand, FERRY_E_DEADLINE,
           fry_error_create(&group->engine->memory, &fault, NULL,
                            "NCCL was not paused by the deadline%s", with));
}

void fry_pause_begin(fry_errand *errand)
{
    ferry_group *group = errand->group;
    ferry_status status = fry_membership_takes(group);
    group->pause.asked++;
    errand->timer = (fry_timer){.fn = is_late, .arg = errand};
    if (status != FERRY_OK)
        answer(errand, status, NULL);
    else if (errand->request.deadline_ns != 0)
        fry_timer_set(&group->members->reactor, &errand->timer, errand->request.deadline_ns);
    look_soon(group);
}

void fry_pause_resume(ferry_group *group)
{
    fry_errand *errand;
    group->pause.is_held = false;
    LIST_FOREACH(errand, &group->errands, entry)
        errand->is_resumed = true; /* also one that has succeeded and is not over yet */
    answer_all(group, FERRY_E_CANCELLED);
    look_soon(group);
}

void fry_pause_is_over(fry_errand *errand, ferry_status status)
{
    ferry_group *group = errand->group;
    fry_timer_stop(&group->members->reactor, &errand->timer);
    group->pause.asked--;
    group->pause.is_held |= status == FERRY_OK && !errand->is_resumed;
    look_soon(group);
}

static void step(const ferry_group *group)
{
    if (group->pause.asked == 0 && !group->pause.is_on)
        return;
    ferry_status status = fry_membership_takes(group);
    if (status != FERRY_OK) {
        answer_all(group, status);
        if (group->pause.is_on) /* a member that leaves takes part again */
            fry_store_relaxed(&group->members->has_looks, 1);
    } else if (group->pause.is_quiet) {
        answer_all(group, FERRY_OK);
    }
}

void fry_pauses_step(const fry_members *members)
{
    for (const ferry_group *group = members->groups; group != NULL; group = group->next)
        step(group);
}

/* ---- a group's pairings ---- */

/* One whose connection is over may be any group's. */
static bool is_of(const fry_pairing *pairing, const ferry_group *group)
{
    return pairing->route == NULL || pairing->route->group == group;
}

/* Whether nothing of it is on a GPU that lives, and nothing will be before the resume. */
static bool is_quiet(const fry_pairing *pairing)
{
    if (pairing->state == FRY_PAIRING_ENDED)
        return pairing->is_left_behind || fry_launches_are_over(pairing);
    return pairing->state == FRY_PAIRING_OPEN ||
           (fry_pairing_is_open(pairing) && fry_pairing_is_idle(pairing) &&
            fry_peer_joint_is_answered(fry_pairing_peer(pairing)));
}

static void begin(fry_turn *turn, ferry_group *group)
{
    static const fry_fault put_off = {.status = FERRY_E_PEER,
                                      .message = "a member has paused NCCL meanwhile"};
    fry_pairing *pairing;
    group->pause.is_on = true;
    group->pause.is_quiet = false;
    LIST_FOREACH(pairing, &fry_pairings_of(turn->engine)->all, entry) {
        bool is_made = pairing->state == FRY_PAIRING_NAMING || pairing->state == FRY_PAIRING_MAKING;
        if (pairing->route != NULL && is_of(pairing, group) && is_made && !pairing->is_failing) {
            pairing->is_put_off = true;
            fry_pairing_fail(turn, pairing, &put_off);
        }
    }
    fry_pairings_note(turn);
}

/* Both ends ask for lots again. */
static void end(fry_turn *turn, ferry_group *group)
{
    fry_pairing *pairing;
    group->pause.is_on = group->pause.is_quiet = false;
    LIST_FOREACH(pairing, &fry_pairings_of(turn->engine)->all, entry) {
        if (!fry_pairing_is_open(pairing) || !is_of(pairing, group))
            continue;
        fry_peer_joint_go_on(fry_pairing_peer(pairing), turn);
        fry_route_launched(turn, pairing->route);
    }
    fry_pairings_note(turn);
}

/* Whether all are, or else which member's is not. */
static bool are_quiet(fry_turn *turn, ferry_group *group)
{
    const fry_pairing *pairing;
    LIST_FOREACH(pairing, &fry_pairings_of(turn->engine)->all, entry) {
        if (!is_of(pairing, group) || is_quiet(pairing))
            continue;
        group->pause.waits_for = pairing->route != NULL ? (int32_t)pairing->route->rank : -1;
        return false;
    }
    group->pause.waits_for = -1;
    return true;
}

static void look(fry_turn *turn, ferry_group *group)
{
    fry_membership_pause *pause = &group->pause;
    bool is_wanted =
        (pause->asked != 0 || pause->is_held) && fry_load_relaxed(&group->life) == FRY_GROUP_HERE;
    if (is_wanted && !pause->is_on)
        begin(turn, group);
    else if (!is_wanted && pause->is_on)
        end(turn, group);
    if (pause->is_on && !pause->is_quiet && are_quiet(turn, group)) {
        pause->is_quiet = true;
        group->members->has_steps = true;
    }
}

void fry_pauses_look(fry_turn *turn, const fry_members *members)
{
    for (ferry_group *group = members->groups; group != NULL; group = group->next)
        look(turn, group);
}
