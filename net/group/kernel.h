/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel knows of members of this host. The loop. */
#ifndef FRY_NET_GROUP_KERNEL_H
#define FRY_NET_GROUP_KERNEL_H

#include "net/connect/process.h"
#include "net/group/text.h"

/* Records which kernel runs this process, and since when it runs. */
void fry_group_own_process(fry_group_record *record);

/* State of a process; UNKNOWN also for one on another host, and for this very process. */
fry_process_state fry_group_process_of(const fry_group *group, const fry_group_process *process);

#endif
