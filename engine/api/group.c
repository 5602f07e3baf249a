/* SPDX-License-Identifier: Apache-2.0 */
/* Groups' functions, in the caller's thread. Those that give a future are errands (errand.h). */
#include "base/options.h"
#include "engine/engine.h"
#include "engine/graph/node.h"
#include "engine/graph/promise.h"
#include "engine/ground/ground.h"
#include "engine/ground/refusal.h"
#include "engine/loop/late.h"
#include "engine/messages/errand.h"
#include "engine/messages/groups.h"
#include "engine/messages/members.h"
#include "engine/messages/membership.h"
#include "net/connect/hello.h"
#include "net/group/text.h"

#define STORE_BYTES_MAX 4096
#define TEXT_BYTES_MAX 4096
#define LEASE_DEFAULT_NS ((int64_t)5000000000)
#define WINDOW_MESSAGES_DEFAULT 1024
#define WINDOW_BYTES_DEFAULT ((size_t)4 << 20)
#define UNEXPECTED_DEFAULT 65536
#define REGISTRATION_DEFAULT_BYTES ((size_t)4 << 30)

/* Makes an errand with room for so many bytes, and its promise; NULL: *why_p says why. */
static fry_errand *errand_create(ferry_group *group, fry_errand_sort sort, size_t room_bytes,
                                 fry_refusal *why_p)
{
    ferry_engine *engine = group->engine;
    size_t size_bytes = sizeof(fry_errand) + room_bytes;
    fry_errand *errand = fry_alloc(&engine->memory, size_bytes, _Alignof(fry_errand));
    *why_p = FRY_REFUSED_NO_MEMORY;
    if (errand == NULL)
        return NULL;
    errand->sort = sort;
    errand->group = group;
    errand->size_bytes = size_bytes;
    *why_p = fry_promise_make(engine, &errand->promise);
    if (*why_p == FRY_TAKEN)
        return errand;
    fry_free(&engine->memory, errand, size_bytes);
    return NULL;
}

/* Hands the errand to the loop and returns the user's reference. */
static ferry_future *errand_submit(fry_errand *errand)
{
    fry_members *members = fry_load_acquire(&errand->group->engine->members);
    ferry_future *future = ferry_future_retain((ferry_future *)(void *)errand->promise);
    fry_members_push(members, errand);
    fry_late_call_ends(members->engine);
    return future;
}

/* ---- joining, leaving ---- */

static bool is_text(const char *text, size_t bytes_max)
{
    return text == NULL || strnlen(text, bytes_max + 1) <= bytes_max;
}

/* A zero field means its default. */
static void fill_defaults(ferry_group_options *options)
{
    if (options->size_min == 0)
        options->size_min = 1;
    if (options->lease_ns == 0)
        options->lease_ns = LEASE_DEFAULT_NS;
    if (options->window_messages == 0)
        options->window_messages = WINDOW_MESSAGES_DEFAULT;
    if (options->window_bytes == 0)
        options->window_bytes = WINDOW_BYTES_DEFAULT;
    if (options->unexpected_max == 0)
        options->unexpected_max = UNEXPECTED_DEFAULT;
    if (options->registration_cache_bytes == 0)
        options->registration_cache_bytes = REGISTRATION_DEFAULT_BYTES;
}

static fry_refusal check_rank(const ferry_group_options *options)
{
    if (options->reserved[0] != 0 || options->reserved[1] != 0 || options->reserved[2] != 0)
        return FRY_REFUSED_JOIN_RESERVED;
    if (!options->has_rank)
        return options->rank == 0 ? FRY_TAKEN : FRY_REFUSED_JOIN_RANK_UNSAID;
    if (options->size == 0)
        return FRY_REFUSED_JOIN_RANK_OF_ANY;
    return options->rank < options->size ? FRY_TAKEN : FRY_REFUSED_JOIN_RANK;
}

static fry_refusal check_meeting(const ferry_group_options *options)
{
    if (options->store == NULL || options->store[0] == '\0' ||
        !is_text(options->store, STORE_BYTES_MAX))
        return FRY_REFUSED_JOIN_STORE;
    if (!fry_group_is_name(options->job, FRY_GROUP_JOB_BYTES, false))
        return FRY_REFUSED_JOIN_JOB;
    if (options->place != NULL && !fry_group_is_name(options->place, FRY_GROUP_PLACE_BYTES, false))
        return FRY_REFUSED_JOIN_PLACE;
    if (options->place != NULL && strcmp(options->place, "-") == 0)
        return FRY_REFUSED_JOIN_PLACE_NONE;
    if (options->size > FERRY_GROUP_SIZE_MAX || options->size_min > FERRY_GROUP_SIZE_MAX)
        return FRY_REFUSED_JOIN_SIZE_MAX;
    if (options->size == 0 && options->deadline_ns == 0)
        return FRY_REFUSED_JOIN_SIZE_DEADLINE;
    if ((unsigned)options->kind > FERRY_GROUP_OPEN)
        return FRY_REFUSED_JOIN_KIND;
    if (options->kind == FERRY_GROUP_OPEN && (options->size == 0 || options->size_min > 1))
        return FRY_REFUSED_JOIN_OPEN_SIZE;
    if (options->events_max > FRY_HAPPENINGS_MOST)
        return FRY_REFUSED_JOIN_EVENTS;
    return check_rank(options);
}

static bool are_texts(const ferry_group_options *options)
{
    return is_text(options->network, TEXT_BYTES_MAX) &&
           is_text(options->store_user, TEXT_BYTES_MAX) &&
           is_text(options->store_password, TEXT_BYTES_MAX) &&
           is_text(options->store_ca_path, TEXT_BYTES_MAX) &&
           is_text(options->store_certificate_path, TEXT_BYTES_MAX) &&
           is_text(options->store_key_path, TEXT_BYTES_MAX);
}

static fry_refusal check_join(const ferry_group_options *options)
{
    fry_refusal why = check_meeting(options);
    if (why != FRY_TAKEN)
        return why;
    if (options->secret != NULL && (options->secret_bytes < 16 || options->secret_bytes > 1024))
        return FRY_REFUSED_JOIN_SECRET_SIZE;
    if (options->secret == NULL && options->secret_bytes != 0)
        return FRY_REFUSED_JOIN_SECRET_NULL;
    if (options->device_count > FRY_GROUP_DEVICES_MAX)
        return FRY_REFUSED_JOIN_DEVICES;
    if (options->lease_ns < FRY_STORE_LEASE_MIN_NS || options->lease_ns > FRY_GROUP_LEASE_MAX_NS)
        return FRY_REFUSED_JOIN_LEASE;
    if (!are_texts(options))
        return FRY_REFUSED_JOIN_TEXT;
    if (options->window_messages > FRY_HELLO_MESSAGES_MAX ||
        options->unexpected_max > FRY_HELLO_MESSAGES_MAX)
        return FRY_REFUSED_JOIN_MESSAGES;
    if (options->window_bytes > FRY_HELLO_WINDOW_BYTES_MAX)
        return FRY_REFUSED_JOIN_WINDOW;
    if ((unsigned)options->gpu_way > FERRY_GPU_WAY_ALL)
        return FRY_REFUSED_JOIN_GPU_WAY;
    if (options->any_source_max > FRY_HELLO_MESSAGES_MAX)
        return FRY_REFUSED_JOIN_ANY_SOURCE;
    if (options->any_source_max != 0 &&
        (options->gpu_way == FERRY_GPU_WAY_NCCL || options->gpu_way == FERRY_GPU_WAY_ALL))
        return FRY_REFUSED_JOIN_ANY_SOURCE_WAY;
    return FRY_TAKEN;
}

ferry_future *ferry_group_join(ferry_engine *engine, const ferry_group_options *given,
                               ferry_group **group_p)
{
    if (group_p != NULL)
        *group_p = NULL;
    fry_refusal why = fry_engine_refusal_open(engine);
    if (why != FRY_TAKEN)
        return fry_refusal_future(engine, why);
    ferry_group_options options;
    if (given == NULL || group_p == NULL)
        why = FRY_REFUSED_JOIN_NULL;
    else if (fry_options_read(&options, sizeof options, given) != FERRY_OK)
        why = FRY_REFUSED_JOIN_SIZE_OF;
    if (why == FRY_TAKEN) {
        fill_defaults(&options);
        why = check_join(&options);
    }
    if (why != FRY_TAKEN)
        return fry_refusal_future(engine, fry_refuse(engine, why));
    if (options.deadline_ns < 0)
        return fry_refusal_future(engine, FRY_REFUSED_DEADLINE);
    fry_members *members = fry_members_get(engine);
    ferry_group *group = members != NULL ? fry_membership_create(members, &options) : NULL;
    if (group == NULL)
        return fry_refusal_future(engine, FRY_REFUSED_NO_MEMORY);
    fry_errand *errand = errand_create(group, FRY_ERRAND_JOIN, 0, &why);
    if (errand == NULL) {
        fry_membership_unretain(group);
        return fry_refusal_future(engine, why);
    }
    *group_p = group;
    return errand_submit(errand);
}

static fry_refusal check_engine(const ferry_group *group)
{
    return group != NULL ? fry_engine_refusal_open(group->engine) : FRY_REFUSED_GROUP_NULL;
}

static fry_refusal check_group(ferry_group *group)
{
    fry_refusal why = check_engine(group);
    if (why == FRY_TAKEN)
        why = fry_membership_refusal(group);
    return why == FRY_REFUSED_GROUP_NOT_JOINED ? fry_refuse(group->engine, why) : why;
}

static ferry_future *refuse(const ferry_group *group, fry_refusal why)
{
    return fry_refusal_future(group != NULL ? group->engine : NULL, why);
}

ferry_future *ferry_group_leave(ferry_group *group)
{
    fry_refusal why = check_engine(group);
    fry_errand *errand = why == FRY_TAKEN ? errand_create(group, FRY_ERRAND_LEAVE, 0, &why) : NULL;
    return errand != NULL ? errand_submit(errand) : refuse(group, why);
}

void ferry_group_release(ferry_group *group)
{
    if (group == NULL || fry_engine_check(group->engine) != FERRY_OK)
        return;
    ferry_engine *engine = group->engine;
    group->release.sort = FRY_ERRAND_RELEASE;
    group->release.group = group;
    fry_engine_retain(engine); /* after a shutdown the push frees the group, and so the engine */
    fry_members_push(fry_load_acquire(&engine->members), &group->release);
    fry_late_call_ends(engine);
    fry_engine_unretain(engine, 1);
}

/* ---- asking ---- */

static ferry_future *request(ferry_group *group, fry_group_verb verb, const char *name,
                             const void *value, size_t value_bytes, const fry_group_request *rest)
{
    fry_refusal why;
    size_t name_bytes = name != NULL ? strlen(name) + 1 : 0;
    size_t aligned_bytes = (value_bytes + 7) & ~(size_t)7;
    fry_errand *errand = errand_create(group, FRY_ERRAND_REQUEST, aligned_bytes + name_bytes, &why);
    if (errand == NULL)
        return refuse(group, why);
    fry_group_request *asked = &errand->request;
    *asked = *rest;
    asked->verb = verb;
    char *room = (char *)(errand + 1);
    if (value_bytes != 0)
        memcpy(room, value, value_bytes);
    if (verb == FRY_GROUP_BARRIER) {
        asked->members = value_bytes != 0 ? (const uint32_t *)(const void *)room : NULL;
    } else {
        asked->value = room;
        asked->value_bytes = value_bytes;
    }
    if (name != NULL)
        asked->name = memcpy(room + aligned_bytes, name, name_bytes);
    return errand_submit(errand);
}

/* A deadline before all times is refused without a request. */
static fry_refusal check_deadline(ferry_group *group, int64_t deadline_ns)
{
    fry_refusal why = check_group(group);
    return why == FRY_TAKEN && deadline_ns < 0 ? FRY_REFUSED_DEADLINE : why;
}

static fry_refusal check_key(ferry_group *group, const char *key, int64_t deadline_ns)
{
    fry_refusal why = check_deadline(group, deadline_ns);
    if (why == FRY_TAKEN && !fry_group_is_name(key, FRY_GROUP_KEY_BYTES, true))
        why = fry_refuse(group->engine, FRY_REFUSED_KEY);
    return why;
}

ferry_future *ferry_group_alive(ferry_group *group, int64_t deadline_ns)
{
    fry_refusal why = check_deadline(group, deadline_ns);
    fry_group_request rest = {.deadline_ns = deadline_ns};
    return why == FRY_TAKEN ? request(group, FRY_GROUP_ALIVE, NULL, NULL, 0, &rest)
                            : refuse(group, why);
}

static fry_refusal check_barrier(const ferry_group *group, const char *name,
                                 const ferry_barrier_options *options)
{
    if (!fry_group_is_name(name, FRY_GROUP_NAME_BYTES, false))
        return FRY_REFUSED_BARRIER_NAME;
    if ((options->members == NULL) != (options->member_count == 0) ||
        options->member_count > FERRY_GROUP_SIZE_MAX)
        return FRY_REFUSED_BARRIER_MEMBERS;
    if (options->reserved != 0)
        return FRY_REFUSED_BARRIER_RESERVED;
    if (options->members == NULL && group->options.kind == FERRY_GROUP_OPEN)
        return FRY_REFUSED_BARRIER_OPEN;
    bool has_own = options->members == NULL;
    for (uint32_t i = 0; i < options->member_count; i++) {
        has_own |= options->members[i] == (uint32_t)group->rank;
        if (options->members[i] >= group->size)
            return FRY_REFUSED_BARRIER_RANK;
        for (uint32_t j = 0; j < i; j++) {
            if (options->members[j] == options->members[i])
                return FRY_REFUSED_BARRIER_TWICE;
        }
    }
    return has_own ? FRY_TAKEN : FRY_REFUSED_BARRIER_OWN;
}

ferry_future *ferry_barrier(ferry_group *group, const char *name,
                            const ferry_barrier_options *given)
{
    ferry_barrier_options options;
    fry_refusal why = check_group(group);
    if (why != FRY_TAKEN)
        return refuse(group, why);
    why = fry_options_read(&options, sizeof options, given) == FERRY_OK
              ? check_barrier(group, name, &options)
              : FRY_REFUSED_BARRIER_SIZE_OF;
    if (why != FRY_TAKEN)
        return refuse(group, fry_refuse(group->engine, why));
    if (options.deadline_ns < 0)
        return refuse(group, FRY_REFUSED_DEADLINE);
    fry_group_request rest = {.deadline_ns = options.deadline_ns,
                              .member_count = options.member_count};
    return request(group, FRY_GROUP_BARRIER, name, options.members,
                   options.member_count * sizeof *options.members, &rest);
}

ferry_future *ferry_group_set(ferry_group *group, const char *key, const void *data,
                              size_t size_bytes, int64_t deadline_ns)
{
    fry_refusal why = check_key(group, key, deadline_ns);
    if (why == FRY_TAKEN && size_bytes > FRY_GROUP_VALUE_BYTES)
        why = fry_refuse(group->engine, FRY_REFUSED_VALUE_SIZE);
    if (why == FRY_TAKEN && data == NULL && size_bytes != 0)
        why = fry_refuse(group->engine, FRY_REFUSED_VALUE_NULL);
    fry_group_request rest = {.deadline_ns = deadline_ns};
    return why == FRY_TAKEN ? request(group, FRY_GROUP_SET, key, data, size_bytes, &rest)
                            : refuse(group, why);
}

static ferry_future *ask_key(ferry_group *group, fry_group_verb verb, const char *key,
                             uint64_t seen, int64_t deadline_ns)
{
    fry_refusal why = check_key(group, key, deadline_ns);
    fry_group_request rest = {.deadline_ns = deadline_ns, .version = seen};
    return why == FRY_TAKEN ? request(group, verb, key, NULL, 0, &rest) : refuse(group, why);
}

ferry_future *ferry_group_get(ferry_group *group, const char *key, int64_t deadline_ns)
{
    return ask_key(group, FRY_GROUP_GET, key, 0, deadline_ns);
}

ferry_future *ferry_group_try_get(ferry_group *group, const char *key, int64_t deadline_ns)
{
    return ask_key(group, FRY_GROUP_TRY_GET, key, 0, deadline_ns);
}

ferry_future *ferry_group_watch(ferry_group *group, const char *key, uint64_t seen,
                                int64_t deadline_ns)
{
    return ask_key(group, FRY_GROUP_WATCH, key, seen, deadline_ns);
}

ferry_future *ferry_group_give_notice(ferry_group *group)
{
    fry_refusal why = check_group(group);
    fry_group_request rest = {0};
    return why == FRY_TAKEN ? request(group, FRY_GROUP_NOTICE, NULL, NULL, 0, &rest)
                            : refuse(group, why);
}

ferry_future *ferry_group_step(ferry_group *group, uint64_t step, int64_t deadline_ns)
{
    fry_refusal why = check_deadline(group, deadline_ns);
    fry_group_request rest = {.deadline_ns = deadline_ns, .step = step};
    return why == FRY_TAKEN ? request(group, FRY_GROUP_STEP, NULL, NULL, 0, &rest)
                            : refuse(group, why);
}

/* ---- NCCL beside the program's ---- */

ferry_future *ferry_group_nccl_pause(ferry_group *group, int64_t deadline_ns)
{
    fry_refusal why = check_deadline(group, deadline_ns);
    fry_errand *errand = why == FRY_TAKEN ? errand_create(group, FRY_ERRAND_PAUSE, 0, &why) : NULL;
    if (errand == NULL)
        return refuse(group, why);
    errand->request.deadline_ns = deadline_ns;
    return errand_submit(errand);
}

ferry_future *ferry_group_event_next(ferry_group *group, int64_t deadline_ns)
{
    fry_refusal why = check_deadline(group, deadline_ns);
    fry_errand *errand = why == FRY_TAKEN ? errand_create(group, FRY_ERRAND_EVENT, 0, &why) : NULL;
    if (errand == NULL)
        return refuse(group, why);
    errand->request.deadline_ns = deadline_ns;
    return errand_submit(errand);
}

ferry_future *ferry_group_nccl_resume(ferry_group *group)
{
    fry_refusal why = check_group(group);
    fry_errand *errand = why == FRY_TAKEN ? errand_create(group, FRY_ERRAND_RESUME, 0, &why) : NULL;
    return errand != NULL ? errand_submit(errand) : refuse(group, why);
}

/* ---- reading what is known; any thread ---- */

ferry_rank ferry_group_rank(const ferry_group *group)
{
    if (group == NULL || fry_engine_check(group->engine) != FERRY_OK ||
        fry_membership_takes(group) == FERRY_E_INVALID || group->routes == NULL)
        return FERRY_RANK_NONE;
    return (ferry_rank)group->rank;
}

ferry_engine *ferry_group_engine(const ferry_group *group)
{
    return group != NULL ? group->engine : NULL;
}

uint32_t ferry_group_size(const ferry_group *group)
{
    return ferry_group_rank(group) != FERRY_RANK_NONE ? group->size : 0;
}

uint64_t ferry_group_stop_step(const ferry_group *group)
{
    if (group == NULL || fry_engine_check(group->engine) != FERRY_OK)
        return UINT64_MAX;
    return fry_load_acquire(&group->stop_step);
}

/* FERRY_OK: the tables exist. */
static ferry_status check_asked(const ferry_group *group, const void *to)
{
    if (group == NULL || to == NULL)
        return FERRY_E_INVALID;
    ferry_status status = fry_engine_check(group->engine);
    if (status == FERRY_OK && ferry_group_rank(group) == FERRY_RANK_NONE)
        status = FERRY_E_NOT_FOUND;
    return status;
}

ferry_status ferry_group_member(const ferry_group *group, ferry_rank rank, ferry_member_info *info)
{
    ferry_status status = check_asked(group, info);
    if (status != FERRY_OK)
        return status;
    if (rank >= group->size)
        return FERRY_E_NOT_FOUND;
    pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&group->lock;
    (void)pthread_mutex_lock(lock);
    ferry_member_info found = group->news[rank].info;
    (void)pthread_mutex_unlock(lock);
    found.nccl_groups = fry_load_relaxed(&group->routes[rank].nccl_groups);
    found.nccl_bytes = fry_load_relaxed(&group->routes[rank].nccl_bytes);
    found.ipc_bytes = fry_load_relaxed(&group->routes[rank].ipc_bytes);
    found.staged_bytes = fry_load_relaxed(&group->routes[rank].staged_bytes);
    return fry_struct_hand_out(info, &found, sizeof found);
}

ferry_status ferry_group_device(const ferry_group *group, uint32_t device, ferry_rank *rank_p,
                                uint32_t *index_p)
{
    ferry_status status = check_asked(group, rank_p);
    if (status != FERRY_OK || index_p == NULL)
        return status != FERRY_OK ? status : FERRY_E_INVALID;
    status = FERRY_E_NOT_FOUND;
    pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&group->lock;
    (void)pthread_mutex_lock(lock);
    for (uint32_t i = 0; i < group->size && status != FERRY_OK; i++) {
        const ferry_member_info *info = &group->news[i].info;
        if (device < info->first_device || device - info->first_device >= info->device_count)
            continue;
        *rank_p = i;
        *index_p = device - info->first_device;
        status = FERRY_OK;
    }
    (void)pthread_mutex_unlock(lock);
    return status;
}
