/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After a store has lost its past, members write again what they know of it and others may not
 * know: the roster, how rounds have ended, a notice. Until a member has done that, its record says
 * that it is busy. Nobody begins a round before no member is busy: a start that has just come would
 * take a barrier's first round, which others passed long ago, for its own.
 *
 * When no record says busy any more, all that was known has been written. But keys are told in no
 * order between them, so rounds are listed once more from then on. After that the group is settled
 * for this member, until the store loses its past again. A missing start is waited for: it will be
 * back, or be dead.
 */
#include "net/group/settle.h"

#include "net/group/group.h"
#include "net/group/members.h"
#include "net/group/outcomes.h"
#include "net/group/roster.h"
#include "net/group/stand.h"
#include "net/group/state.h"
#include "net/group/text.h"
#include "net/store/store.h"

#include <stdio.h>
#include <string.h>

bool fry_group_has_to_restore(const fry_group *group)
{
    return group->roster_version == 0 || group->is_roster_behind || group->lost_round_count > 0 ||
           group->is_notice_lost;
}

/*
 * Versions from before say nothing any more, and all that the store has is told anew. Perhaps
 * nobody else knows what this member knows of its group. Its record is looked up, and written anew
 * if gone.
 */
void fry_group_note_another_store(fry_group *group)
{
    group->past++;
    group->is_settled = false;
    group->roster_version = group->listed_roster_version = 0;
    if (group->rank < 0) {
        group->is_roster_behind = false;
        fry_group_forget_roster(group);
    }
    for (fry_presence *p = fry_group_presence_first(group); p != NULL;
         p = fry_group_presence_next(group, p))
        p->version = 0;
    group->is_standing_in_doubt |= group->is_registered;
    group->is_notice_lost = group->notice_life != 0;
    group->healthy_ns = fry_group_now_ns(group);
    fry_rounds_are_lost(group);
}

static bool are_all_back(const fry_group *group)
{
    if (!fry_group_stands(group) || group->is_lost || fry_group_has_to_restore(group) ||
        group->record.state == FRY_RECORD_BUSY)
        return false;
    for (uint32_t rank = 0; rank < group->view_count; rank++) {
        const fry_presence *presence = group->views[rank].presence;

        if (fry_group_rank_is_here(group, rank) && rank != (uint32_t)group->rank &&
            (presence->state != FRY_PRESENCE_HERE || presence->is_busy))
            return false;
    }
    return true;
}

static void listed(fry_group_op *op, ferry_status status, const fry_store_entry *entries,
                   size_t count, const char *why)
{
    fry_group *group = op->group;

    group->settle_op = NULL;
    fry_group_tell_later(group);
    if (status != FERRY_OK) {
        fry_group_refused(group, op, status, why);
        return;
    }
    for (size_t i = 0; i < count; i++)
        fry_rounds_told(group, entries[i].key + strlen(op->key), &entries[i], false);
    group->is_settled = true;
}

bool fry_group_is_settled(fry_group *group)
{
    char key[FRY_STORE_KEY_BYTES + 1];

    if (group->is_settled)
        return true;
    if (group->past == 0 && group->roster->restores == 0) {
        group->is_settled = true;
        return true;
    }
    if (group->settle_op != NULL || !are_all_back(group) || !fry_group_may_ask(group))
        return false;
    (void)snprintf(key, sizeof key, "%sround/", group->prefix);
    group->settle_op = fry_group_op_start(
        group, &(fry_store_request){.verb = FRY_STORE_LIST, .key = key}, listed, NULL);
    if (group->settle_op == NULL)
        fry_group_lacks_memory(group);
    return false;
}
