/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A group's life: opening, leaving, being fenced, closing; requests, and the group's own
 * operations. state.h says what is in the store and when conclusions are drawn.
 *
 * Fencing. Everything that a member writes for others to rely on (its record, its arrivals) is in
 * its lease. So a member that was stopped until its lease ran out can't write it any more: the
 * store refuses. The roster and the rounds, which decide, change only by SWAP, and only while the
 * writer's record is in its lease. So what a stopped member sends late is refused. In a new lease
 * (stand.c) it may write again, unless the roster says that it is dead: then it is fenced.
 */
#include "net/group/group.h"

#include "net/group/join.h"
#include "net/group/kernel.h"
#include "net/group/meet.h"
#include "net/group/members.h"
#include "net/group/roster.h"
#include "net/group/rounds.h"
#include "net/group/seal.h"
#include "net/group/seats.h"
#include "net/group/stand.h"
#include "net/group/state.h"
#include "net/group/text.h"
#include "net/group/values.h"
#include "net/reactor.h"
#include "net/store/open.h"
#include "net/store/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

int64_t fry_group_now_ns(const fry_group *group)
{
    return fry_reactor_now_ns(group->reactor);
}

uint64_t fry_group_start_of(uint64_t id, uint64_t incarnation)
{
    return incarnation << 16 | (fry_group_hash(&id, sizeof id) & 0xffff);
}

bool fry_group_is_over(const fry_group *group)
{
    return group->state >= FRY_GROUP_LEAVING;
}

void fry_group_tell_later(fry_group *group)
{
    if (!group->work.is_on)
        fry_timer_set_soon(group->reactor, &group->work);
}

void fry_group_again_at(fry_group *group, int64_t when_ns)
{
    if (group->again_ns == 0 || when_ns < group->again_ns)
        group->again_ns = when_ns;
}

/* ---- the group's own operations ---- */

static void op_done(fry_store_request *request, ferry_status status, const fry_store_entry *entries,
                    size_t count, const char *why)
{
    fry_group_op *op = (fry_group_op *)(void *)request;
    fry_group *group = op->group;

    fry_group_store_in(group);
    if (op->past != group->past) {
        status = FERRY_E_FENCED; /* the request was to a store that is no more */
        count = 0;
        why = NULL;
    }
    op->fn(op, status, entries, count, why);
    fry_free(group->memory, op, op->bytes);
    fry_group_store_out(group);
}

fry_group_op *fry_group_op_start(fry_group *group, const fry_store_request *asked,
                                 fry_group_op_fn fn, void *arg)
{
    const size_t bytes = sizeof(fry_group_op) + asked->value_bytes + 1;
    const bool is_written = asked->verb == FRY_STORE_PUT || asked->verb == FRY_STORE_CREATE ||
                            asked->verb == FRY_STORE_SWAP;
    fry_group_op *op = fry_alloc(group->memory, bytes, _Alignof(fry_group_op));

    if (op == NULL)
        return NULL;
    op->group = group;
    op->past = group->past;
    op->fn = fn;
    op->arg = arg;
    op->bytes = bytes;
    (void)snprintf(op->key, sizeof op->key, "%s", asked->key);
    if (asked->value_bytes > 0)
        memcpy(op->value, asked->value, asked->value_bytes);
    op->request = *asked;
    op->request.key = op->key;
    op->request.value = is_written ? op->value : NULL;
    op->request.value_bytes = is_written ? asked->value_bytes : 0;
    op->request.done = op_done;
    fry_store_submit(group->store, &op->request);
    return op;
}

fry_group_op *fry_group_decide(fry_group *group, const char *key, const void *value,
                               size_t value_bytes, uint64_t version, fry_group_op_fn fn, void *arg)
{
    const fry_store_request decided = {.verb = version == 0 ? FRY_STORE_CREATE : FRY_STORE_SWAP,
                                       .key = key,
                                       .value = value,
                                       .value_bytes = value_bytes,
                                       .version = version,
                                       .guard_key = group->own_key,
                                       .guard_lease = &group->lease};

    return fry_group_stands(group) ? fry_group_op_start(group, &decided, fn, arg) : NULL;
}

void fry_group_refused(fry_group *group, const fry_group_op *op, ferry_status status,
                       const char *why)
{
    const int64_t now_ns = fry_group_now_ns(group);

    if (status == FERRY_E_FENCED) {
        group->is_standing_in_doubt = true;
        return;
    }
    group->unwell_ns = now_ns;
    group->retry_ns = now_ns + FRY_GROUP_SLACK_NS;
    if (!group->is_lost)
        fry_log_line(group->reactor->log, FERRY_LOG_ERROR, "job %s: %s in %s: %s", group->job,
                     op->key, fry_store_name(group->store),
                     why != NULL ? why : ferry_status_text(status));
}

void fry_group_lacks_memory(fry_group *group)
{
    group->retry_ns = fry_group_now_ns(group) + FRY_GROUP_SLACK_NS;
    fry_timer_set(group->reactor, &group->retry_timer, group->retry_ns);
}

void fry_group_lost_news(fry_group *group)
{
    group->has_lost_news = true;
    fry_group_lacks_memory(group);
}

bool fry_group_may_ask(fry_group *group)
{
    if (fry_group_now_ns(group) >= group->retry_ns)
        return true;
    fry_timer_set(group->reactor, &group->retry_timer, group->retry_ns);
    return false;
}

bool fry_group_may_restore(fry_group *group, bool is_own)
{
    int64_t when_ns = group->healthy_ns;

    if (!fry_group_stands(group) || group->is_lost || !fry_group_may_ask(group))
        return false;
    if (!is_own)
        when_ns += FRY_GROUP_LOOK_AFTER_NS + group->rank * FRY_GROUP_STEP_ASIDE_NS;
    if (fry_group_now_ns(group) >= when_ns)
        return true;
    fry_group_again_at(group, when_ns);
    return false;
}

/* ---- requests ---- */

static void answer(fry_group_request *request, ferry_status status, fry_error *error,
                   const void *value, size_t value_bytes, uint64_t version)
{
    if (error == NULL && status != FERRY_OK)
        error = fry_error_static(status);
    request->done(request, status, error, value, value_bytes, version);
    fry_error_release(error);
}

void fry_group_finish(fry_group_request *request, ferry_status status, fry_error *error,
                      const void *value, size_t value_bytes, uint64_t version)
{
    fry_async_finish(&request->async);
    answer(request, status, error, value, value_bytes, version);
}

static void tell(fry_async *async, ferry_status verdict, const char *why)
{
    (void)why;
    answer((fry_group_request *)(void *)async, verdict, NULL, NULL, 0, 0);
}

static bool is_of_values(fry_group_verb verb)
{
    return verb == FRY_GROUP_SET || verb == FRY_GROUP_GET || verb == FRY_GROUP_TRY_GET ||
           verb == FRY_GROUP_WATCH;
}

static void is_late(fry_async *async)
{
    fry_group_request *request = (fry_group_request *)(void *)async;

    if (is_of_values(request->verb))
        fry_values_late(request);
    else
        fry_rounds_late(request);
}

static void drop(fry_async *async)
{
    fry_group_request *request = (fry_group_request *)(void *)async;

    if (is_of_values(request->verb))
        fry_values_cancel(request);
    else
        fry_rounds_cancel(request);
}

/* Whether a request can be begun: FERRY_OK, or the status it fails with. */
static ferry_status takes_requests(const fry_group *group)
{
    if (group->state == FRY_GROUP_FENCED)
        return FERRY_E_FENCED;
    if (fry_group_is_over(group))
        return FERRY_E_CANCELLED;
    if (group->requests.count > FRY_GROUP_REQUESTS_MAX)
        return FERRY_E_AGAIN;
    return group->state == FRY_GROUP_JOINED ? FERRY_OK : FERRY_E_INVALID;
}

void fry_group_submit(fry_group *group, fry_group_request *request)
{
    request->group = group;
    request->private_ = NULL;
    fry_async_begin(&request->async, &group->requests);
    const ferry_status status = takes_requests(group);
    if (status != FERRY_OK)
        fry_async_finish_soon(&request->async, status, NULL);
    else if (is_of_values(request->verb))
        fry_values_submit(request);
    else
        fry_rounds_submit(request);
}

void fry_group_cancel(fry_group_request *request)
{
    fry_async_cancel(&request->async);
}

/* Soon, because `done` may close the group. */
static void finish_all(fry_group *group, ferry_status status)
{
    fry_async *async;

    TAILQ_FOREACH(async, &group->requests.asyncs, entry)
        fry_async_abort(async, status, NULL);
}

/* ---- the ends ---- */

/* Stops everything that the store could call back. */
static void end_all(fry_group *group)
{
    fry_async *async;

    /* Users' requests have ended before: what the store still has is the group's own. */
    while ((async = TAILQ_FIRST(&group->store->requests.asyncs)) != NULL) {
        fry_group_op *op = (fry_group_op *)(void *)async;

        fry_async_cancel(async);
        fry_free(group->memory, op, op->bytes);
    }
    group->roster_op = NULL;
    group->list_op = NULL;
    group->own_op = group->settle_op = group->clear_op = NULL;
    fry_rounds_end(group);
    if (group->is_watched)
        fry_store_watch_stop(&group->watch);
    fry_meet_stop(group);
    if (group->is_leased)
        fry_store_lease_close(&group->lease);
    group->is_watched = group->is_leased = group->is_registered = false;
    fry_timer_stop(group->reactor, &group->retry_timer);
    fry_timer_stop(group->reactor, &group->join_timer);
    fry_timer_stop(group->reactor, &group->block_timer);
    fry_timer_stop(group->reactor, &group->look_timer);
    fry_timer_stop(group->reactor, &group->again_timer);
    fry_timer_stop(group->reactor, &group->aside_timer);
}

void fry_group_join_failed(fry_group *group, fry_error *error)
{
    const ferry_status status = error->public_.status;

    finish_all(group, status);
    end_all(group);
    group->state = status == FERRY_E_FENCED ? FRY_GROUP_FENCED : FRY_GROUP_OVER;
    group->is_joined_told = true;
    group->events.joined(group->arg, status, error);
    fry_error_release(error);
}

void fry_group_fence(fry_group *group, fry_error *error)
{
    if (!group->is_joined_told) {
        fry_group_join_failed(group, error);
        return;
    }
    finish_all(group, FERRY_E_FENCED);
    end_all(group);
    group->state = FRY_GROUP_FENCED;
    group->events.fenced(group->arg, error);
    fry_error_release(error);
}

static void free_all(fry_group *group)
{
    fry_rounds_forget(group);
    fry_group_forget_members(group);
    fry_group_forget_roster(group);
    fry_free(group->memory, group->record_text, FRY_GROUP_MEMBER_TEXT_BYTES);
    fry_group_seal_wipe(&group->seal);
    fry_free(group->memory, group, sizeof *group);
}

void fry_group_store_in(fry_group *group)
{
    group->store_depth++;
}

void fry_group_store_out(fry_group *group)
{
    group->store_depth--;
    if (group->state == FRY_GROUP_CLOSED)
        fry_group_tell_later(group);
}

void fry_group_close(fry_group *group)
{
    fry_async *async;

    if (group == NULL)
        return;
    while ((async = TAILQ_FIRST(&group->requests.asyncs)) != NULL)
        fry_async_cancel(async);
    end_all(group);
    group->state = FRY_GROUP_CLOSED;
    if (group->store_depth > 0)
        return; /* `work` does the rest when the store's callback has returned */
    fry_store_close(group->store);
    group->store = NULL;
    fry_timer_stop(group->reactor, &group->work);
    if (!group->is_working)
        free_all(group);
}

/* ---- leaving ---- */

static void left_known(fry_group_op *op, ferry_status status, const fry_store_entry *entries,
                       size_t count, const char *why)
{
    fry_group *group = op->group;

    (void)status, (void)entries, (void)count, (void)why;
    group->state = FRY_GROUP_OVER;
    fry_group_tell_later(group);
}

void fry_group_leave(fry_group *group, void (*left)(void *arg), void *arg)
{
    const bool is_over = fry_group_is_over(group);
    char text[FRY_GROUP_MEMBER_TEXT_BYTES];

    group->left = left;
    group->left_arg = arg;
    if (is_over) {
        fry_group_tell_later(group);
        return;
    }
    finish_all(group, FERRY_E_CANCELLED);
    if (group->is_watched)
        fry_store_watch_stop(&group->watch);
    group->is_watched = false;
    group->is_joined_told = true; /* nobody will be told any more */
    group->state = FRY_GROUP_OVER;
    if (group->rank >= 0 && group->is_registered) {
        /* Written without the lease, so that the record stays: others may look only later. */
        group->record.state = FRY_RECORD_LEFT;
        const size_t bytes = fry_group_own_text(group, text);
        const fry_store_request last = {.verb = FRY_STORE_SWAP,
                                        .key = group->own_key,
                                        .value = text,
                                        .value_bytes = bytes,
                                        .version = group->own_version,
                                        .deadline_ns =
                                            fry_group_now_ns(group) + FRY_GROUP_SLACK_NS};
        if (fry_group_op_start(group, &last, left_known, group) != NULL)
            group->state = FRY_GROUP_LEAVING;
    }
    fry_group_tell_later(group);
}

/* ---- what is due ---- */

/* Whether the roster names this member for its rank, and not as dead. */
static bool has_place(const fry_group *group)
{
    const fry_group_roster *roster = group->roster;

    return group->rank < 0 || roster == NULL ||
           ((uint32_t)group->rank < roster->size && roster->slots[group->rank].id == group->id &&
            !roster->slots[group->rank].is_dead);
}

static const char *why_no_place(const fry_group *group)
{
    const fry_group_roster *roster = group->roster;

    if ((uint32_t)group->rank < roster->size && roster->slots[group->rank].id == group->id)
        return "its record was missing for longer than its lease";
    return roster->lineage != group->lineage
               ? "another group of the job was formed in a store that had lost this one"
               : "another start has its rank now";
}

static void check_own(fry_group *group)
{
    if (group->refusal != FERRY_OK && !group->is_joined_told)
        fry_group_join_failed(group, fry_group_error(group, group->refusal, -1, "%s: %s",
                                                     fry_store_name(group->store), group->why));
    else if (!has_place(group))
        fry_group_fence(group, fry_group_error(group, FERRY_E_FENCED, -1,
                                               "rank %" PRId32 " of job %s was declared dead: %s",
                                               group->rank, group->job, why_no_place(group)));
}

/* Starts the watch anew, which tells all that the store has. A list shows what is gone. */
static void hear_again(fry_group *group)
{
    if (!group->has_lost_news || !group->is_watched || !fry_group_may_ask(group))
        return;
    group->has_lost_news = false;
    fry_store_watch_stop(&group->watch);
    fry_store_watch_start(group->store, &group->watch);
    fry_group_list_now(group);
}

static void work(fry_timer *timer)
{
    fry_group *group = timer->arg;

    if (group->state == FRY_GROUP_CLOSED) {
        if (group->store != NULL)
            fry_store_close(group->store);
        free_all(group);
        return;
    }
    group->is_working = true;
    group->again_ns = 0;
    if (!fry_group_is_over(group))
        hear_again(group);
    if (!fry_group_is_over(group))
        check_own(group);
    if (!fry_group_is_over(group))
        fry_group_consider_join(group);
    if (!fry_group_is_over(group))
        fry_group_keep_standing(group);
    if (!fry_group_is_over(group))
        fry_group_tell_members(group);
    if (!fry_group_is_over(group))
        fry_seats_tell(group);
    if (!fry_group_is_over(group))
        fry_group_acknowledge(group);
    if (!fry_group_is_over(group))
        fry_group_keep_roster(group);
    if (!fry_group_is_over(group))
        fry_rounds_consider(group);
    if (!fry_group_is_over(group) && group->again_ns != 0)
        fry_timer_set(group->reactor, &group->again_timer, group->again_ns);
    if (group->state == FRY_GROUP_OVER || group->state == FRY_GROUP_FENCED) {
        void (*left)(void *arg) = group->left;

        end_all(group);
        group->left = NULL;
        if (left != NULL)
            left(group->left_arg);
    }
    group->is_working = false;
    if (group->state == FRY_GROUP_CLOSED)
        free_all(group);
}

/* ---- opening ---- */

static void timer_due(fry_timer *timer)
{
    fry_group *group = timer->arg;

    if (timer == &group->join_timer)
        group->is_deadline_over = true;
    else if (timer == &group->block_timer)
        group->is_block_over = true;
    else if (timer == &group->look_timer)
        group->is_list_wanted = true;
    fry_group_tell_later(group);
}

static void describe_own(fry_group *group, const fry_group_options *options)
{
    fry_group_record *record = &group->record;

    *record = (fry_group_record){.rank = options->rank,
                                 .size = options->size,
                                 .size_min = options->is_open        ? 0
                                             : options->size_min > 0 ? options->size_min
                                                                     : 1,
                                 .device_count = options->device_count,
                                 .lease_ns = options->lease_ns};
    (void)snprintf(record->place, sizeof record->place, "%s",
                   options->place != NULL ? options->place : "");
    (void)snprintf(record->endpoint, sizeof record->endpoint, "%s",
                   options->endpoint != NULL ? options->endpoint : "");
    fry_group_own_process(record);
}

static void begin(fry_group *group, const fry_group_options *options)
{
    (void)snprintf(group->job, sizeof group->job, "%s", options->job);
    (void)snprintf(group->prefix, sizeof group->prefix, "ferry/%s/group/", options->job);
    group->lease_ns = options->lease_ns;
    group->deadline_ns = options->deadline_ns;
    group->rank = FRY_RANK_ANY;
    group->stop_step = UINT64_MAX;
    group->work = (fry_timer){.fn = work, .arg = group};
    group->join_timer = (fry_timer){.fn = timer_due, .arg = group};
    group->block_timer = (fry_timer){.fn = timer_due, .arg = group};
    group->look_timer = (fry_timer){.fn = timer_due, .arg = group};
    group->retry_timer = (fry_timer){.fn = timer_due, .arg = group};
    group->again_timer = (fry_timer){.fn = timer_due, .arg = group};
    group->aside_timer = (fry_timer){.fn = timer_due, .arg = group};
    describe_own(group, options);
    group->watch =
        (fry_store_watch){.prefix = group->prefix, .fn = fry_group_member_told, .arg = group};
    group->is_watched = true;
    fry_store_watch_start(group->store, &group->watch);
    fry_group_register(group);
    if (group->deadline_ns != 0)
        fry_timer_set(group->reactor, &group->join_timer, group->deadline_ns);
}

ferry_status fry_group_open(const fry_group_options *options, const fry_group_events *events,
                            void *arg, fry_group **group_p, fry_error **error_p)
{
    static const fry_provider_ops of_requests = {.late = is_late, .drop = drop, .tell = tell};
    fry_reactor *reactor = options->reactor;
    const fry_memory *memory = reactor->memory;
    ferry_status status;

    *group_p = NULL;
    *error_p = NULL;
    fry_group *group = fry_alloc(memory, sizeof *group, _Alignof(fry_group));
    if (group == NULL)
        goto no_memory;
    group->reactor = reactor;
    group->memory = memory;
    group->events = *events;
    group->arg = arg;
    fry_provider_init(&group->requests, reactor, &of_requests);
    if (!fry_group_seal_init(&group->seal, options->job, options->secret, options->secret_bytes)) {
        status = FERRY_E_SYSTEM;
        *error_p = fry_error_create(memory, &(fry_fault){.status = status, .rank = -1}, NULL,
                                    "libsodium has no source of random numbers");
        goto no_seal;
    }
    group->record_text = fry_alloc(memory, FRY_GROUP_MEMBER_TEXT_BYTES, 1);
    if (group->record_text == NULL) {
        status = FERRY_E_NO_MEMORY;
        *error_p = fry_error_static(status);
        goto no_text;
    }
    status =
        fry_store_open(reactor, options->store, &options->store_options, &group->store, error_p);
    if (status != FERRY_OK)
        goto no_store;
    begin(group, options);
    *group_p = group;
    return FERRY_OK;

no_store:
    fry_free(memory, group->record_text, FRY_GROUP_MEMBER_TEXT_BYTES);
no_text:
    fry_group_seal_wipe(&group->seal);
no_seal:
    fry_free(memory, group, sizeof *group);
    return status;
no_memory:
    *error_p = fry_error_static(FERRY_E_NO_MEMORY);
    return FERRY_E_NO_MEMORY;
}

/* ---- looking ---- */

int32_t fry_group_rank(const fry_group *group)
{
    return group->rank;
}

uint64_t fry_group_incarnation(const fry_group *group)
{
    return group->incarnation;
}

uint64_t fry_group_start(const fry_group *group)
{
    return fry_group_start_of(group->id, group->incarnation);
}

uint32_t fry_group_size(const fry_group *group)
{
    return group->view_count;
}

uint64_t fry_group_stop_step(const fry_group *group)
{
    return group->stop_step;
}
