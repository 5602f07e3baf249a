/* SPDX-License-Identifier: Apache-2.0 */
/* Who is missing, in words. The loop. */
#ifndef FRY_NET_GROUP_ABSENT_H
#define FRY_NET_GROUP_ABSENT_H

#include "net/group/group.h"

/* Writes the absent ranks and when they were last seen, as far as there is room. */
void fry_group_name_absentees(const fry_group *group, const bool *is_absent, uint32_t size,
                              char *text, size_t text_bytes);
/* Writes who has not come to join. */
void fry_group_name_join_absentees(fry_group *group, char *text, size_t text_bytes);

#endif
