/* SPDX-License-Identifier: Apache-2.0 */
/* Scopes: two that all operations of the world may name, and others that come and go. */
#include "tests/support/random_api.h"

void api_scopes_open(api_world *world)
{
    ferry_scope_options limits = FERRY_SCOPE_OPTIONS_INIT;
    limits.bytes_per_second = 100000000;
    limits.burst_bytes = 1000;
    API_CHECK(ferry_scope_create(world->engine, &limits, &world->scopes[0]) == FERRY_OK);
    API_CHECK(ferry_scope_create(world->engine, NULL, &world->scopes[1]) == FERRY_OK);
}

void api_scopes_release(api_world *world)
{
    for (size_t i = 0; i < API_SCOPES; i++) {
        API_CHECK(ferry_scope_engine(world->scopes[i]) == world->engine);
        ferry_scope_release(world->scopes[i]);
    }
}

ferry_scope *api_scope(api_actor *actor)
{
    uint32_t number = api_below(&actor->random, 8);
    return number < API_SCOPES ? actor->world->scopes[number] : NULL;
}

/* Closes or cancels it. What ends it may last; a cancel of it ends that. */
static bool end_scope(api_actor *actor, ferry_scope *scope)
{
    ferry_future *end =
        api_one_in(&actor->random, 2) ? ferry_scope_close(scope) : ferry_scope_cancel(scope);
    ferry_status status = ferry_future_poll(end);
    API_CHECK(status == FERRY_PENDING || status == FERRY_OK || status == FERRY_E_SHUTDOWN);
    api_hold(actor, (api_held){.future = end, .may_last = true});
    return true;
}

/* Figures only grow. */
bool api_act_stats(api_actor *actor)
{
    ferry_stats before = FERRY_STATS_INIT, after = FERRY_STATS_INIT;
    ferry_scope *scope = api_scope(actor);
    ferry_engine *engine = scope == NULL ? actor->world->engine : NULL;
    ferry_status status = ferry_stats_read(engine, scope, &before);
    API_CHECK(status == FERRY_OK || status == FERRY_E_UNSUPPORTED);
    if (status != FERRY_OK)
        return false;
    API_CHECK(ferry_stats_read(engine, scope, &after) == FERRY_OK);
    API_CHECK(before.resolved <= after.resolved && before.entered <= after.entered);
    API_CHECK(after.failure_count <= FERRY_STATS_FAILURES);
    API_CHECK(after.bytes_by_way[FERRY_WAY_SENT_NCCL] == 0);
    API_CHECK(*ferry_way_name((ferry_way)api_below(&actor->random, FERRY_WAYS)) != '?');
    for (int i = 0; i < FERRY_STATS_KINDS; i++)
        API_CHECK(before.resolved_by_kind[i] <= after.resolved_by_kind[i]);
    return true;
}

/* One that is closed, cancelled and released at any time while its operations are under way. */
bool api_act_scope(api_actor *actor)
{
    if (api_one_in(&actor->random, 12))
        return end_scope(actor, actor->world->scopes[api_below(&actor->random, API_SCOPES)]);
    ferry_scope *scope = NULL;
    ferry_scope_options limits = FERRY_SCOPE_OPTIONS_INIT;
    limits.bytes_per_second = api_one_in(&actor->random, 2) ? 0 : 10000000;
    if (api_one_in(&actor->random, 3))
        limits.deadline_ns =
            ferry_engine_deadline_in(actor->world->engine, api_below(&actor->random, 100000));
    ferry_status status = ferry_scope_create(actor->world->engine, &limits, &scope);
    API_CHECK((status == FERRY_OK) == (scope != NULL));
    if (status != FERRY_OK)
        return false;
    for (uint32_t i = api_below(&actor->random, 4); i != 0; i--) {
        api_room room;
        ferry_op_options options = api_options(actor, &room);
        options.scope = scope;
        (void)api_keep(actor, ferry_nop(actor->world->engine, &options));
        if (api_one_in(&actor->random, 4))
            (void)end_scope(actor, scope);
    }
    ferry_scope_release(scope);
    return true;
}
