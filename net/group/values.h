/* SPDX-License-Identifier: Apache-2.0 */
/* Users' values. The loop. */
#ifndef FRY_NET_GROUP_VALUES_H
#define FRY_NET_GROUP_VALUES_H

#include "net/group/group.h"

void fry_values_submit(fry_group_request *request); /* SET, GET, TRY_GET, WATCH */
void fry_values_late(fry_group_request *request);
void fry_values_cancel(fry_group_request *request);

#endif
