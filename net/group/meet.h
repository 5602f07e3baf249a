/* SPDX-License-Identifier: Apache-2.0 */
/* Where rounds meet: arrivals in the store. The loop. */
#ifndef FRY_NET_GROUP_MEET_H
#define FRY_NET_GROUP_MEET_H

#include "net/group/group.h"

typedef struct fry_round fry_round;

/* Writes the first call's arrival, also again. */
void fry_meet_publish(fry_round *round);
void fry_meet_publish_all(fry_group *group); /* after what was written was lost */
void fry_meet_flush(fry_group *group);

/* For rounds that this member coordinates: ends a round to which all have come. */
void fry_meet_coordinate(fry_round *round);

/* The first call's deadline has passed: asks who has come, and ends the round. */
void fry_meet_late(fry_round *round);

/* Lists all arrivals; NULL: no memory. */
fry_group_op *fry_meet_list(fry_group *group, int64_t deadline_ns, fry_group_op_fn fn, void *arg);
/* Finds who has not come to the open round, by such a list. False: the round is not open. */
bool fry_meet_absentees(const fry_round *round, const fry_store_entry *entries, size_t count,
                        bool *is_absent);

/* Whether there is an arrival at a round of that name, which this member coordinates. */
bool fry_meet_is_mentioned(const fry_group *group, const char *name);
void fry_meet_stop(fry_group *group);
void fry_meet_end(fry_group *group);
void fry_meet_forget(fry_group *group); /* frees */

#endif
