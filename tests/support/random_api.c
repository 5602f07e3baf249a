/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/random_api.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

_Atomic uint64_t api_seed;

void api_fail(const char *file, int line, const char *what)
{
    (void)fprintf(stderr, "%s:%d: seed %llu: not so: %s\n", file, line,
                  (unsigned long long)atomic_load(&api_seed), what);
    abort();
}

uint32_t api_below(api_random *random, uint32_t bound)
{
    random->word ^= random->word << 13;
    random->word ^= random->word >> 7;
    random->word ^= random->word << 17;
    return (uint32_t)((random->word >> 32) * bound >> 32);
}

bool api_one_in(api_random *random, uint32_t bound)
{
    return api_below(random, bound) == 0;
}

int64_t api_in_ns(int64_t left_ns)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec + left_ns;
}

/* Another series than the one it is made of. */
static api_random fork_random(api_random *random)
{
    uint64_t high = (uint64_t)api_below(random, UINT32_MAX) << 32;
    return (api_random){high | api_below(random, UINT32_MAX) | 1};
}

/* ---- futures that are held ---- */

void api_actor_init(api_actor *actor, api_world *world, api_random random)
{
    actor->world = world;
    actor->random = random;
    actor->is_callback = false;
    actor->held_count = 0;
}

static void drop(api_held *held)
{
    if (held->may_last)
        API_CHECK(ferry_future_cancel(held->future) == FERRY_OK);
    ferry_future_release(held->future);
}

void api_hold(api_actor *actor, api_held held)
{
    API_CHECK(held.future != NULL);
    if (actor->held_count == API_HELD_MAX)
        drop(&held);
    else
        actor->held[actor->held_count++] = held;
}

void api_let_go(api_actor *actor)
{
    while (actor->held_count != 0)
        drop(&actor->held[--actor->held_count]);
}

api_held *api_some_held(api_actor *actor)
{
    if (actor->held_count == 0)
        return NULL;
    return &actor->held[api_below(&actor->random, actor->held_count)];
}

void api_check_resolved(ferry_future *future)
{
    ferry_status status = ferry_future_poll(future);
    const ferry_error *error = ferry_future_error(future);
    API_CHECK(status <= FERRY_OK);
    API_CHECK((status == FERRY_OK) == (error == NULL));
    if (error == NULL)
        return;
    API_CHECK(error->status == status);
    API_CHECK(error->domain != NULL && error->message != NULL && error->message[0] != '\0');
    API_CHECK(error->op == ferry_future_id(future) || error->op == 0);
    API_CHECK(error->cause == NULL || (error->cause->status < 0 && error->cause->cause == NULL));
}

bool api_check_held(api_held *held, bool must_be)
{
    ferry_status status = ferry_future_poll(held->future);
    if (status == FERRY_PENDING) {
        API_CHECK(!must_be);
        return false;
    }
    api_check_resolved(held->future);
    for (api_record *call = held->calls; call != NULL && status == FERRY_OK; call = call->sibling)
        API_CHECK(atomic_load(&call->ended) == 1);
    for (api_record *call = held->quiet_of; call != NULL && status == FERRY_OK;
         call = call->sibling) {
        atomic_store(&call->is_quiet, true);
        API_CHECK(atomic_load(&call->ended) == atomic_load(&call->begun));
    }
    return true;
}

/* ---- what the acts choose from ---- */

api_record *api_record_take(api_world *world, api_random *random)
{
    if (atomic_load(&world->record_count) >= API_RECORDS_MAX)
        return NULL;
    uint32_t i = atomic_fetch_add(&world->record_count, 1);
    if (i >= API_RECORDS_MAX)
        return NULL;
    api_record *record = &world->records[i]; /* all zero, and looked at from now on */
    record->world = world;
    record->random = fork_random(random);
    return record;
}

ferry_executor *api_executor(api_actor *actor)
{
    api_world *world = actor->world;
    switch (api_below(&actor->random, 6)) {
    case 0:
        return ferry_executor_loop();
    case 1:
        return ferry_executor_inline();
    case 2:
        return &world->own_thread->executor;
    case 3:
        return &world->bag.executor;
    case 4:
        return &world->direct;
    default:
        return NULL;
    }
}

ferry_buffer *api_buffer(api_actor *actor)
{
    return actor->world->shared[api_below(&actor->random, API_SHARED_BUFFERS)];
}

/* ---- the bag ---- */

static void bag_post(ferry_executor *executor, ferry_task *task)
{
    api_bag *bag = executor->arg;
    (void)pthread_mutex_lock(&bag->mutex);
    bool is_kept = !bag->is_open && bag->count < API_BAG_MAX;
    if (is_kept)
        bag->tasks[bag->count++] = task;
    (void)pthread_mutex_unlock(&bag->mutex);
    if (!is_kept)
        ferry_task_run(task);
}

void api_bag_init(api_bag *bag)
{
    bag->executor =
        (ferry_executor){.struct_size = sizeof bag->executor, .post = bag_post, .arg = bag};
    (void)pthread_mutex_init(&bag->mutex, NULL);
    bag->count = 0;
    bag->is_open = false;
}

bool api_bag_run_one(api_bag *bag, api_random *random)
{
    ferry_task *task = NULL;
    (void)pthread_mutex_lock(&bag->mutex);
    if (bag->count != 0) {
        uint32_t i = api_below(random, bag->count);
        task = bag->tasks[i];
        bag->tasks[i] = bag->tasks[--bag->count];
    }
    (void)pthread_mutex_unlock(&bag->mutex);
    ferry_task_run(task);
    return task != NULL;
}

void api_bag_open(api_bag *bag)
{
    api_random random = {1};
    (void)pthread_mutex_lock(&bag->mutex);
    bag->is_open = true;
    (void)pthread_mutex_unlock(&bag->mutex);
    while (api_bag_run_one(bag, &random))
        continue;
}
