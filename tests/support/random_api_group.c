/* SPDX-License-Identifier: Apache-2.0 */
/* Acts of a member: a group of one that meets itself in memory, and sends to itself. */
#include "tests/support/effort.h"
#include "tests/support/random_api.h"

#include <stdio.h>
#include <string.h>

static void seen(void *arg, ferry_group *group, const ferry_member_info *member)
{
    (void)arg;
    API_CHECK(group != NULL && member->rank == 0);
}

ferry_group *api_group_join(api_world *world)
{
    char store[64];
    (void)snprintf(store, sizeof store, "mem:random-%llu", (unsigned long long)world->seed);
    ferry_group_options options = FERRY_GROUP_OPTIONS_INIT;
    options.store = store;
    options.job = "random";
    options.size = 1;
    options.unexpected_max = UNEXPECTED_FEW;
    options.any_source_max = world->seed % 2 == 0 ? 1 + (uint32_t)(world->seed / 2 % 8) : 0;
    options.rank = 0;
    options.has_rank = true;
    options.lease_ns = 600 * (int64_t)1000000000;
    options.deadline_ns = api_in_ns(60 * (int64_t)1000000000);
    options.on_member = seen;
    options.kind = world->seed % 3 == 0 ? FERRY_GROUP_OPEN : FERRY_GROUP_CLOSED;
    ferry_group *group = NULL;
    ferry_future *joined = ferry_group_join(world->engine, &options, &group);
    ferry_status status = ferry_future_wait(joined, -1);
    API_CHECK(status == FERRY_OK || world->fails_memory);
    API_CHECK(status != FERRY_OK || group != NULL);
    api_check_resolved(joined);
    ferry_future_release(joined);
    return group;
}

/* Nothing need come of it but by its deadline, or a cancel. */
static bool keep(api_actor *actor, ferry_future *future)
{
    API_CHECK(future != NULL);
    bool is_refused = ferry_future_poll(future) < 0;
    api_hold(actor, (api_held){.future = future, .may_last = true});
    return !is_refused;
}

static int64_t random_deadline(api_actor *actor)
{
    return api_one_in(&actor->random, 3) ? 0 : api_in_ns(api_below(&actor->random, 5000000));
}

static bool look_at_group(ferry_group *group)
{
    ferry_rank rank = ferry_group_rank(group);
    API_CHECK(ferry_group_engine(group) != NULL);
    API_CHECK(rank == 0 || rank == FERRY_RANK_NONE);
    API_CHECK(ferry_group_size(group) <= 1);
    ferry_member_info info = FERRY_MEMBER_INFO_INIT;
    ferry_status status = ferry_group_member(group, 0, &info);
    ferry_rank owner = 7;
    uint32_t index = 7;
    (void)ferry_group_device(group, 0, &owner, &index);
    API_CHECK(ferry_group_member(group, 5, &info) < 0);
    (void)ferry_group_stop_step(group);
    return status == FERRY_OK;
}

bool api_act_group(api_actor *actor)
{
    ferry_group *group = actor->world->group;
    if (group == NULL)
        return false;
    char key[8];
    (void)snprintf(key, sizeof key, "k%u", api_below(&actor->random, 3));
    ferry_barrier_options barrier = FERRY_BARRIER_OPTIONS_INIT;
    int64_t deadline_ns = barrier.deadline_ns = random_deadline(actor);
    switch (api_below(&actor->random, 27)) {
    case 26:
        return keep(actor, ferry_group_event_next(group, deadline_ns));
    case 24:
        return keep(actor, ferry_group_nccl_pause(group, deadline_ns));
    case 25:
        return keep(actor, ferry_group_nccl_resume(group));
    case 0:
        return keep(actor, ferry_group_leave(group));
    case 1:
        return keep(actor, ferry_group_give_notice(group));
    case 2:
    case 3:
        return keep(actor, ferry_group_step(group, 1 + api_below(&actor->random, 50), deadline_ns));
    case 4:
    case 5:
        return keep(actor, ferry_group_alive(group, deadline_ns));
    case 6:
    case 7:
    case 8:
        return keep(actor, ferry_barrier(group, key, &barrier));
    case 9:
    case 10:
    case 11:
        return keep(actor, ferry_group_set(group, key, "value", 5, deadline_ns));
    case 12:
    case 13:
        return keep(actor, ferry_group_get(group, key, deadline_ns));
    case 14:
    case 15:
        return keep(actor, ferry_group_try_get(group, key, deadline_ns));
    case 16:
    case 17:
        return keep(actor,
                    ferry_group_watch(group, key, api_below(&actor->random, 4), deadline_ns));
    default:
        return look_at_group(group);
    }
}

/* Without any source it is refused. */
static bool probe(api_actor *actor, ferry_group *group, ferry_rank peer, ferry_tag tag,
                  const ferry_op_options *options)
{
    ferry_message_info info = FERRY_MESSAGE_INFO_INIT;
    ferry_future *found = ferry_message_probe(group, peer, tag, options);
    ferry_status status = ferry_message_describe(found, &info);
    API_CHECK(status == FERRY_E_NOT_FOUND || (status == FERRY_OK && info.rank == 0));
    API_CHECK(status != FERRY_OK || tag == FERRY_TAG_ANY || info.tag == tag);
    return keep(actor, found);
}

bool api_act_message(api_actor *actor)
{
    ferry_group *group = actor->world->group;
    ferry_buffer *buffer = api_buffer(actor);
    if (group == NULL || buffer == NULL)
        return false;
    api_room room;
    ferry_op_options options = api_options(actor, &room);
    if (options.deadline_ns == 0 && api_one_in(&actor->random, 2))
        options.deadline_ns = random_deadline(actor);
    ferry_tag tag = api_one_in(&actor->random, 6) ? FERRY_TAG_ANY : api_below(&actor->random, 3);
    ferry_rank peer = api_one_in(&actor->random, 12)  ? 3
                      : api_one_in(&actor->random, 4) ? FERRY_RANK_ANY
                                                      : 0;
    if (api_one_in(&actor->random, 4))
        return probe(actor, group, peer, tag, &options);
    ferry_span span = {buffer, 512 * (size_t)api_below(&actor->random, 8),
                       api_one_in(&actor->random, 3) ? 512 : 8};
    return keep(actor, api_one_in(&actor->random, 2)
                           ? ferry_send(group, peer, tag, span, &options)
                           : ferry_recv(group, peer, tag, span, &options));
}
