/* SPDX-License-Identifier: Apache-2.0 */
/* Stopping together: the notice, and the step to stop after. The loop. */
#ifndef FRY_NET_GROUP_STOP_H
#define FRY_NET_GROUP_STOP_H

#include "net/group/group.h"

bool fry_stop_is_noticed(const fry_group *group);
void fry_stop_step(fry_group_request *request);
void fry_stop_give_notice(fry_group_request *request);
void fry_stop_late(fry_group_request *request); /* a step */
void fry_stop_cancel(fry_group_request *request);
void fry_stop_notice_told(fry_group *group, const fry_store_entry *entry);
void fry_stop_consider(fry_group *group);
void fry_stop_restore(fry_group *group);

#endif
