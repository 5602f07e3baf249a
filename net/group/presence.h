/* SPDX-License-Identifier: Apache-2.0 */
/* The starts that a group knows of, by id. The loop. */
#ifndef FRY_NET_GROUP_PRESENCE_H
#define FRY_NET_GROUP_PRESENCE_H

#include "net/group/group.h"

typedef struct fry_presence fry_presence;

fry_presence *fry_group_presence(const fry_group *group, uint64_t id); /* NULL: not known */
fry_presence *fry_group_presence_first(const fry_group *group);
fry_presence *fry_group_presence_next(const fry_group *group, fry_presence *presence);

/* Adds one, whose id is not there yet, or takes it out; and counts. */
void fry_group_presence_add(fry_group *group, fry_presence *presence);
void fry_group_presence_remove(fry_group *group, fry_presence *presence);

#endif
