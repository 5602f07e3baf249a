/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errands: one for each call of a group's function that gives a future. An errand is a block with a
 * promise and the request, and goes to the loop by a stack. The loop asks net/group/group.h, which
 * answers by resolving the promise. A waiter on the promise's future is called at every end, also
 * after a user's cancel or the shutdown's: it cancels a request that still runs, and frees the
 * errand. So errands with a promise end in that one place.
 */
#include "engine/messages/errand.h"
#include "engine/messages/membership.h"

#include "engine/engine.h"
#include "engine/graph/node.h"
#include "engine/graph/promise.h"
#include "engine/messages/groups.h"
#include "engine/messages/happenings.h"
#include "engine/messages/members.h"
#include "engine/messages/pause.h"
#include "engine/tasks/waiter.h"

static void errand_free(fry_errand *errand)
{
    ferry_engine *engine = errand->group->engine;
    ferry_promise *promise = errand->promise;
    fry_free(&engine->memory, errand, errand->size_bytes);
    ferry_future_release((ferry_future *)(void *)promise); /* the promise has resolved */
}

/* On the loop: the errand's future has resolved, for whatever reason. */
static void errand_is_over(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)future;
    fry_errand *errand = FRY_CONTAINER(waiter, fry_errand, waiter);
    ferry_group *group = errand->group;
    if (errand->sort == FRY_ERRAND_PAUSE)
        fry_pause_is_over(errand, status);
    fry_happening_is_over(errand);
    fry_group_cancel(&errand->request); /* if it is under way still */
    LIST_REMOVE(errand, entry);
    if (group->join == errand) {
        group->join = NULL;
        fry_membership_join_is_over(group);
    }
    group->members->has_steps = true; /* this errand may have been the last to keep the group */
    errand_free(errand);
}

static void request_is_done(fry_group_request *request, ferry_status status, fry_error *error,
                            const void *value, size_t value_bytes, uint64_t version)
{
    fry_errand *errand = request->arg;
    fry_membership_refresh(errand->group);
    fry_promise_answer(errand->promise, status, error != NULL ? fry_error_retain(error) : NULL,
                       value, value_bytes, version);
}

void fry_errand_begin(fry_members *members, fry_errand *errand)
{
    ferry_group *group = errand->group;
    if (errand->sort == FRY_ERRAND_RELEASE) {
        fry_membership_leave_in_order(group);
        group->is_handle_gone = true;
        return;
    }
    LIST_INSERT_HEAD(&group->errands, errand, entry);
    errand->waiter = (ferry_waiter)FERRY_WAITER_INIT(errand_is_over, NULL);
    errand->waiter.executor = ferry_executor_inline();
    ferry_future *future = (ferry_future *)(void *)errand->promise;
    bool is_over = fry_future_is_resolved(future);
    if (!is_over && errand->sort == FRY_ERRAND_JOIN)
        group->join = errand;
    fry_waiter_listen(future, &errand->waiter); /* the loop calls the waiter, not this function */
    if (errand->sort == FRY_ERRAND_JOIN) {
        fry_membership_begin(members, group, is_over);
    } else if (errand->sort == FRY_ERRAND_PAUSE) {
        fry_pause_begin(errand); /* counts it, though it may be over */
    } else if (is_over) {
        return;
    } else if (errand->sort == FRY_ERRAND_LEAVE) {
        fry_membership_leave_in_order(group);
    } else if (errand->sort == FRY_ERRAND_EVENT) {
        fry_happening_begin(errand);
    } else if (errand->sort == FRY_ERRAND_RESUME) {
        fry_pause_resume(group);
        fry_promise_answer(errand->promise, FERRY_OK, NULL, NULL, 0, 0);
    } else {
        ferry_status status = fry_membership_takes(group);
        if (status != FERRY_OK) {
            fry_promise_answer(errand->promise, status, NULL, NULL, 0, 0);
            return;
        }
        errand->request.done = request_is_done;
        errand->request.arg = errand;
        fry_group_submit(group->net, &errand->request);
    }
}
