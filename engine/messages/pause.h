/* SPDX-License-Identifier: Apache-2.0 */
/* Pauses: a program's collectives have its GPUs for themselves: pause.c. */
#ifndef FRY_ENGINE_MESSAGES_PAUSE_H
#define FRY_ENGINE_MESSAGES_PAUSE_H

#include "engine/messages/errand.h"
#include "engine/messages/pairing_state.h"

/* ---- a group's; the role, without the baton ---- */

void fry_pause_begin(fry_errand *errand);
void fry_pause_resume(ferry_group *group);

/* The errand's future has resolved. */
void fry_pause_is_over(fry_errand *errand, ferry_status status);

/* ---- all groups' ---- */

/* Answers what can be answered. The role, without the baton. */
void fry_pauses_step(const fry_members *members);

/*
 * Begins and ends pauses as is wanted, and finds out whether nothing goes any more. The role and
 * the baton.
 */
void fry_pauses_look(fry_turn *turn, const fry_members *members);

/* ---- with the baton ---- */

/* Whether this member has paused: its pairing admits no lots, and is not made. */
static inline bool fry_pause_holds(const fry_pairing *pairing)
{
    return pairing->route != NULL && pairing->route->group->pause.is_on;
}

#endif
