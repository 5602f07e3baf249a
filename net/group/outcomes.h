/* SPDX-License-Identifier: Apache-2.0 */
/* How rounds have ended, as the store has it. The loop. */
#ifndef FRY_NET_GROUP_OUTCOMES_H
#define FRY_NET_GROUP_OUTCOMES_H

#include "net/group/state.h"

void fry_rounds_told(fry_group *group, const char *name, const fry_store_entry *entry,
                     bool is_deleted);
fry_round *fry_round_find(fry_group *group, const char *name); /* NULL: not known */
fry_round *fry_round_make(fry_group *group, fry_round_kind kind, const char *name);
void fry_round_free(fry_round *round);
const char *fry_round_user_name(const fry_round *round);
/* Number of the newest round that ended in this life of the group; 0: none. */
uint64_t fry_round_number(const fry_round *round);
/* Restores what the store has lost; `work` runs again when there is more to do. */
void fry_rounds_restore(fry_group *group);
void fry_rounds_forget_oldest(fry_group *group);
void fry_rounds_free_all(fry_group *group);

/* Ends all rounds under way with FERRY_E_STORE, because the store has lost its past. */
void fry_rounds_are_lost(fry_group *group);

/* Ends the first call's round in the store. ranks: as a set; "-": none. */
void fry_round_end(fry_round *round, ferry_status status, uint32_t rank, uint64_t value,
                   const char *ranks);

#endif
