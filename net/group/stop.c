/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stopping together. A notice is a key that the watch tells to all members; until then a step costs
 * nothing. From then on a member begins no step. Its group, whatever the program is doing, comes to
 * the one round "stop" with the last step that was begun. The round's value is the greatest of
 * these steps. Nobody has begun a later step, and members that have begun an earlier one go on up
 * to it, so all stop after the same step. Members whose steps need one another (a collective) don't
 * wait for each other here: one in the midst of a step that others have yet to begin has come all
 * the same.
 *
 * The round is of those that live, so a death in the midst leaves it to the others. It is the last
 * of its life: the step does not change any more.
 */
#include "net/group/stop.h"

#include "net/group/absent.h"
#include "net/group/group.h"
#include "net/group/meet.h"
#include "net/group/outcomes.h"
#include "net/group/rounds.h"
#include "net/group/state.h"
#include "net/group/text.h"
#include "net/reactor.h"
#include "net/store/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NAMING_NS INT64_C(100000000) /* given to the store for naming those who have come */

bool fry_stop_is_noticed(const fry_group *group)
{
    return group->roster != NULL && group->notice_life == group->roster->life;
}

/* ---- steps ---- */

static void finish_late(fry_group_request *request, const bool *is_absent)
{
    fry_group *group = request->group;
    char text[FRY_ERROR_MESSAGE_BYTES - 128] = "the absentees are not known";

    if (is_absent != NULL)
        fry_group_name_absentees(group, is_absent, group->view_count, text, sizeof text);
    fry_group_finish(
        request, FERRY_E_DEADLINE,
        fry_group_error(group, FERRY_E_DEADLINE, -1,
                        "the members did not agree in time on the step to stop after; absent: %s",
                        text),
        NULL, 0, 0);
}

static void listed(fry_group_op *op, ferry_status status, const fry_store_entry *entries,
                   size_t count, const char *why)
{
    fry_group_request *request = op->arg;
    fry_group *group = op->group;
    const fry_round *round = fry_round_find(group, "stop");
    bool *is_absent = fry_alloc(group->memory, group->view_count, 1);

    (void)why;
    if (request == NULL) {
        fry_free(group->memory, is_absent, group->view_count);
        return;
    }
    request->private_ = NULL;
    const bool is_known = status == FERRY_OK && is_absent != NULL && round != NULL &&
                          fry_meet_absentees(round, entries, count, is_absent);
    finish_late(request, is_known ? is_absent : NULL);
    fry_free(group->memory, is_absent, group->view_count);
}

void fry_stop_late(fry_group_request *request)
{
    fry_group *group = request->group;

    request->private_ =
        group->is_lost ? NULL
                       : fry_meet_list(group, fry_group_now_ns(group) + NAMING_NS, listed, request);
    if (request->private_ == NULL)
        finish_late(request, NULL);
}

void fry_stop_step(fry_group_request *request)
{
    fry_group *group = request->group;

    if (!fry_stop_is_noticed(group) || group->stop_step != UINT64_MAX) {
        if (group->stop_step == UINT64_MAX && request->step > group->step_begun)
            group->step_begun = request->step;
        fry_async_finish_soon(&request->async, FERRY_OK, NULL);
        return;
    }
    fry_async_set_deadline(&request->async, request->deadline_ns);
}

void fry_stop_cancel(fry_group_request *request)
{
    fry_group_op *op = request->private_;

    if (op != NULL)
        op->arg = NULL;
    request->private_ = NULL;
}

void fry_stop_consider(fry_group *group)
{
    fry_round *round = fry_round_find(group, "stop");
    fry_async *async;

    if (round != NULL && fry_round_number(round) > 0 && round->verdict.status == FERRY_OK)
        group->stop_step = round->verdict.value;
    if (group->stop_step == UINT64_MAX) {
        if (fry_stop_is_noticed(group) && (round == NULL || round->first == NULL))
            fry_rounds_come_to_stop(group, group->step_begun);
        return;
    }
    TAILQ_FOREACH(async, &group->requests.asyncs, entry) {
        if (((fry_group_request *)(void *)async)->verb == FRY_GROUP_STEP)
            fry_async_abort(async, FERRY_OK, NULL);
    }
}

/* ---- notices ---- */

void fry_stop_notice_told(fry_group *group, const fry_store_entry *entry)
{
    uint64_t life;
    uint32_t rank;

    if (fry_group_notice_read(entry->value, entry->value_bytes, &life, &rank)) {
        group->notice_life = life;
        group->notice_rank = rank;
        group->is_notice_lost = false;
    }
}

static void noticed(fry_group_op *op, ferry_status status, const fry_store_entry *entries,
                    size_t count, const char *why);

static bool give(fry_group *group, fry_group_request *request, int64_t deadline_ns,
                 uint64_t version)
{
    const uint64_t life = group->roster != NULL ? group->roster->life : 0;
    char key[FRY_STORE_KEY_BYTES + 1], text[128];
    const size_t bytes = fry_group_notice_write(life, (uint32_t)group->rank, text, sizeof text);

    (void)snprintf(key, sizeof key, "%snotice", group->prefix);
    const fry_store_request notice = {.verb = version == 0 ? FRY_STORE_CREATE : FRY_STORE_SWAP,
                                      .key = key,
                                      .value = text,
                                      .value_bytes = bytes,
                                      .version = version,
                                      .deadline_ns = deadline_ns};
    fry_group_op *op = fry_group_op_start(group, &notice, noticed, request);
    if (op != NULL && request != NULL)
        request->private_ = op;
    return op != NULL;
}

static void noticed(fry_group_op *op, ferry_status status, const fry_store_entry *entries,
                    size_t count, const char *why)
{
    fry_group *group = op->group;
    fry_group_request *request = op->arg;
    const uint64_t life = group->roster != NULL ? group->roster->life : 0;
    uint64_t version = 0;

    if (request != NULL)
        request->private_ = NULL;
    if (status == FERRY_E_CHANGED && count == 1) {
        fry_stop_notice_told(group, &entries[0]);
        version = entries[0].version;
    }
    /* A notice of an earlier life is in the way, or the store is another one by now. */
    if (status == FERRY_E_FENCED || (status == FERRY_E_CHANGED && group->notice_life != life)) {
        if (give(group, request, op->request.deadline_ns, version))
            return;
        status = FERRY_E_NO_MEMORY;
    } else if (status == FERRY_E_CHANGED) {
        status = FERRY_OK; /* another member has given notice already */
    } else if (status == FERRY_OK) {
        group->notice_life = life;
    }
    fry_group_tell_later(group);
    if (request != NULL)
        fry_group_finish(request, status,
                         status == FERRY_OK
                             ? NULL
                             : fry_group_error(group, status, -1, "giving notice to job %s: %s",
                                               group->job,
                                               why != NULL ? why : ferry_status_text(status)),
                         NULL, 0, 0);
}

static void restored(fry_group_op *op, ferry_status status, const fry_store_entry *entries,
                     size_t count, const char *why)
{
    fry_group *group = op->group;

    if (status == FERRY_OK || status == FERRY_E_CHANGED) {
        group->is_notice_lost = false;
        if (count == 1 && status == FERRY_E_CHANGED)
            fry_stop_notice_told(group, &entries[0]);
    } else {
        fry_group_refused(group, op, status, why);
    }
    group->is_restoring_notice = false;
    fry_group_tell_later(group);
}

/* Writes the notice again, for members that have not heard of it yet. */
void fry_stop_restore(fry_group *group)
{
    char key[FRY_STORE_KEY_BYTES + 1], text[128];

    if (!group->is_notice_lost || group->is_restoring_notice || !fry_stop_is_noticed(group) ||
        !fry_group_may_restore(group, group->notice_rank == (uint32_t)group->rank))
        return;
    const size_t bytes =
        fry_group_notice_write(group->notice_life, group->notice_rank, text, sizeof text);
    (void)snprintf(key, sizeof key, "%snotice", group->prefix);
    group->is_restoring_notice =
        fry_group_decide(group, key, text, bytes, 0, restored, NULL) != NULL;
    if (!group->is_restoring_notice)
        fry_group_lacks_memory(group);
}

void fry_stop_give_notice(fry_group_request *request)
{
    if (!give(request->group, request, request->deadline_ns, 0))
        fry_async_finish_soon(&request->async, FERRY_E_NO_MEMORY, NULL);
}
