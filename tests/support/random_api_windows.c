/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random acts: windows, symmetric memory and notices. The group has one member, which can find no
 * windows of others; tests/api/windows and tests/stress/random_windows have those.
 */
#include "tests/support/random_api.h"

#include <stdio.h>
#include <string.h>

static bool keep(api_actor *actor, ferry_future *future)
{
    API_CHECK(future != NULL);
    bool is_refused = ferry_future_poll(future) < 0;
    api_hold(actor, (api_held){.future = future, .may_last = true});
    return !is_refused;
}

static void look_at(const ferry_window *window, const char *name)
{
    ferry_window_info info = FERRY_WINDOW_INFO_INIT;
    API_CHECK(ferry_window_describe(window, &info) == FERRY_OK);
    API_CHECK(info.state <= FERRY_WINDOW_IS_CLOSED && strcmp(info.name, name) == 0);
    API_CHECK(info.owner == 0 && info.rights == FERRY_WINDOW_GET);
}

/* It is this member's own, which nothing is got from or put into. */
static void misuse(api_actor *actor, ferry_window *window, ferry_buffer *buffer)
{
    ferry_span span = {buffer, 0, 8};
    ferry_future *future = api_one_in(&actor->random, 2) ? ferry_get(window, 0, span, NULL)
                                                         : ferry_put(window, 0, span, NULL);
    API_CHECK(ferry_future_poll(future) < 0);
    ferry_future_release(future);
}

bool api_act_window(api_actor *actor)
{
    ferry_group *group = actor->world->group;
    ferry_buffer *buffer = api_buffer(actor);
    if (group == NULL || buffer == NULL)
        return false;
    char name[8];
    (void)snprintf(name, sizeof name, "w%u", api_below(&actor->random, 4));
    ferry_window *window;
    ferry_future *find = ferry_window_find(group, 0, name, 0, &window);
    API_CHECK(ferry_future_poll(find) < 0 && window == NULL);
    ferry_future_release(find);
    ferry_span span = {buffer, 512 * (size_t)api_below(&actor->random, 8), 512};
    bool is_taken = keep(actor, ferry_window_open(group, span, name, FERRY_WINDOW_GET, &window));
    API_CHECK(window != NULL || !is_taken);
    if (window == NULL)
        return false;
    look_at(window, name);
    misuse(actor, window, buffer);
    if (api_one_in(&actor->random, 2))
        (void)keep(actor, ferry_window_close(window));
    ferry_window_release(window);
    return true;
}

/* The group has one member, so its asks are answered at once, and it has no windows of others. */
bool api_act_symmetric(api_actor *actor)
{
    ferry_group *group = actor->world->group;
    if (group == NULL)
        return false;
    char name[8];
    (void)snprintf(name, sizeof name, "s%u", api_below(&actor->random, 40));
    size_t size_bytes = 1 + api_below(&actor->random, 3) * (size_t)5000;
    ferry_symmetric *symmetric;
    bool is_taken =
        keep(actor, ferry_symmetric_alloc(group, ferry_device_at(actor->world->engine, 0),
                                          size_bytes, name, 0, &symmetric));
    API_CHECK(symmetric != NULL || !is_taken);
    if (symmetric == NULL)
        return false;
    ferry_symmetric_info info = FERRY_SYMMETRIC_INFO_INIT;
    API_CHECK(ferry_symmetric_describe(symmetric, &info) == FERRY_OK);
    API_CHECK(info.size_bytes == size_bytes && strcmp(info.name, name) == 0);
    char *own = ferry_symmetric_address(symmetric, 0);
    API_CHECK(own == NULL || own == ferry_buffer_data(ferry_symmetric_buffer(symmetric)));
    if (own != NULL)
        own[size_bytes - 1] = 1;
    API_CHECK(ferry_symmetric_window(symmetric, 0) == NULL);
    ferry_symmetric_release(symmetric);
    return true;
}

/* To itself; what it takes may be another thread's. */
bool api_act_notice(api_actor *actor)
{
    static const char data[FERRY_NOTICE_BYTES_MAX];
    ferry_group *group = actor->world->group;
    if (group == NULL)
        return false;
    size_t size_bytes = api_below(&actor->random, FERRY_NOTICE_BYTES_MAX + 1);
    bool is_sent = keep(actor, ferry_notice_send(group, 0, data, size_bytes, NULL));
    (void)keep(actor, ferry_notice_next(group, 0));
    return is_sent;
}
