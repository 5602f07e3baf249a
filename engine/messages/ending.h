/* SPDX-License-Identifier: Apache-2.0 */
/* Members of an open group that have ended, until nothing of them is left here: ending.c. */
#ifndef FRY_ENGINE_MESSAGES_ENDING_H
#define FRY_ENGINE_MESSAGES_ENDING_H

#include "engine/graph/turn.h"
#include "engine/messages/route.h"

/* The member of the route is here, or has ended. The role, without the baton. */
void fry_ending_note(fry_route *route, bool is_here);

/* Something of an ended member may be gone. The role or the baton; who has it goes on looking. */
void fry_ending_look_soon(ferry_group *group);

/* Finds members of which nothing is left. The role and the baton. */
void fry_endings_look(ferry_group *group);

/* Says of them that their ranks may be given away. The role, without the baton. */
void fry_endings_step(ferry_group *group);

#endif
