/* SPDX-License-Identifier: Apache-2.0 */
/* Rounds: what members do together. The loop. */
#ifndef FRY_NET_GROUP_ROUNDS_H
#define FRY_NET_GROUP_ROUNDS_H

#include "net/group/group.h"

typedef struct fry_round fry_round;
typedef struct fry_round_call fry_round_call;

void fry_rounds_submit(fry_group_request *request); /* BARRIER, ALIVE, STEP, NOTICE */
void fry_rounds_late(fry_group_request *request);
void fry_rounds_cancel(fry_group_request *request);
void fry_rounds_consider(fry_group *group);
void fry_rounds_end(fry_group *group);    /* its requests were dropped */
void fry_rounds_forget(fry_group *group); /* frees */

/* Whether a member takes part in a call. */
bool fry_round_is_for(const fry_round *round, const fry_round_call *call, uint32_t rank);

/* Makes this member take part in the agreement on the step to stop after. */
void fry_rounds_come_to_stop(fry_group *group, uint64_t step_begun);

#endif
