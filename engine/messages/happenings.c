/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The events of a group stand in a ring of a fixed size, and who takes the next stands in a list;
 * one of the two is empty. An event leaves the ring only when a future has really got it: one that
 * was cancelled meanwhile, or for whose value there is no memory, has taken none.
 */
#include "engine/messages/happenings.h"

#include "engine/engine.h"
#include "engine/graph/promise.h"
#include "engine/messages/errand.h"
#include "engine/messages/groups.h"
#include "engine/messages/members.h"
#include "engine/messages/membership.h"

#define MOST_AT_LEAST 64 /* by default */

uint32_t fry_happenings_most(uint32_t asked, uint32_t size)
{
    if (asked != 0)
        return asked;
    return 2 * size > MOST_AT_LEAST ? 2 * size : MOST_AT_LEAST;
}

bool fry_happenings_open(const fry_memory *memory, fry_happenings *happenings, uint32_t most)
{
    happenings->ring = fry_alloc(memory, most * sizeof *happenings->ring, _Alignof(fry_happening));
    happenings->most = most;
    return happenings->ring != NULL;
}

static fry_happening *at(const fry_happenings *happenings, uint32_t index)
{
    return &happenings->ring[(happenings->first + index) % happenings->most];
}

static void drop_first(fry_happenings *happenings)
{
    happenings->first = (happenings->first + 1) % happenings->most;
    happenings->count--;
}

static void take_no_more(fry_errand *errand)
{
    ferry_group *group = errand->group;
    if (!errand->is_taking)
        return;
    errand->is_taking = false;
    TAILQ_REMOVE(&group->happenings.takers, errand, taking);
    fry_timer_stop(&group->members->reactor, &errand->timer);
}

/* Whether the errand's future has got it. */
static bool give(fry_errand *errand, const fry_happening *happening)
{
    ferry_engine *engine = errand->group->engine;
    fry_value *value =
        fry_value_make(engine, &happening->event, sizeof happening->event, happening->number);
    if (value == NULL) {
        fry_promise_answer(errand->promise, FERRY_E_NO_MEMORY, NULL, NULL, 0, 0);
        return false;
    }
    if (fry_promise_end_with(errand->promise, FERRY_OK, NULL, value) == FERRY_OK)
        return true;
    fry_value_free(engine, value);
    return false;
}

static void match(fry_happenings *happenings)
{
    fry_errand *errand;
    while (happenings->count != 0 && (errand = TAILQ_FIRST(&happenings->takers)) != NULL) {
        take_no_more(errand);
        if (give(errand, at(happenings, 0)))
            drop_first(happenings);
    }
}

void fry_happenings_add(ferry_group *group, const fry_happening *happening)
{
    fry_happenings *happenings = &group->happenings;
    fry_happening added = *happening;
    if (happenings->count == happenings->most) {
        uint64_t lost = at(happenings, 0)->event.lost + 1;
        drop_first(happenings);
        if (happenings->count != 0)
            at(happenings, 0)->event.lost += lost;
        else
            added.event.lost = lost;
    }
    *at(happenings, happenings->count++) = added;
    match(happenings);
}

static void is_late(fry_timer *timer)
{
    fry_errand *errand = timer->arg;
    take_no_more(errand);
    fry_promise_answer(errand->promise, FERRY_E_DEADLINE, NULL, NULL, 0, 0);
}

void fry_happening_begin(fry_errand *errand)
{
    ferry_group *group = errand->group;
    ferry_status status = fry_membership_takes(group);
    if (status != FERRY_OK) {
        fry_promise_answer(errand->promise, status, NULL, NULL, 0, 0);
        return;
    }
    errand->is_taking = true;
    TAILQ_INSERT_TAIL(&group->happenings.takers, errand, taking);
    errand->timer = (fry_timer){.fn = is_late, .arg = errand};
    if (errand->request.deadline_ns != 0)
        fry_timer_set(&group->members->reactor, &errand->timer, errand->request.deadline_ns);
    match(&group->happenings);
}

void fry_happening_is_over(fry_errand *errand)
{
    take_no_more(errand);
}

void fry_happenings_step(const fry_members *members)
{
    for (ferry_group *group = members->groups; group != NULL; group = group->next) {
        ferry_status status = fry_membership_takes(group);
        fry_errand *errand;
        while (status != FERRY_OK && (errand = TAILQ_FIRST(&group->happenings.takers)) != NULL) {
            take_no_more(errand);
            fry_promise_answer(errand->promise, status, NULL, NULL, 0, 0);
        }
    }
}
