/* SPDX-License-Identifier: Apache-2.0 */
/* Completion queues: one that all operations of the world may name, and others that come and go. */
#include "tests/support/random_api.h"

#include <poll.h>

static void check_record(const ferry_queue_record *record)
{
    API_CHECK(record->user_data < 1000 && record->op != 0);
    API_CHECK(record->status <= FERRY_OK);
    API_CHECK(record->kind >= FERRY_OP_NOP && record->kind <= FERRY_OP_SYMMETRIC);
    API_CHECK(record->status == FERRY_OK || record->size_bytes == 0);
}

static size_t take(ferry_queue *queue, size_t count)
{
    enum { MOST = 16 };
    ferry_queue_record records[MOST];
    size_t taken = ferry_queue_take(queue, records, sizeof *records, count < MOST ? count : MOST);
    for (size_t i = 0; i < taken; i++)
        check_record(&records[i]);
    return taken;
}

bool api_take_all(api_world *world)
{
    bool is_any = false;
    while (take(world->queue, SIZE_MAX) != 0)
        is_any = true;
    return is_any;
}

/* Takes some, or sleeps for a moment until there are some. */
bool api_act_take(api_actor *actor)
{
    api_world *world = actor->world;
    API_CHECK(ferry_queue_engine(world->queue) == world->engine);
    if (!api_one_in(&actor->random, 3))
        return take(world->queue, api_below(&actor->random, 12)) != 0;
    ferry_status status = ferry_queue_arm(world->queue);
    API_CHECK(status == FERRY_OK || status == FERRY_E_BUSY);
    struct pollfd descriptor = {.fd = world->queue_fd, .events = POLLIN};
    if (status == FERRY_OK && !actor->is_callback)
        API_CHECK(poll(&descriptor, 1, 1) >= 0);
    return take(world->queue, SIZE_MAX) != 0;
}

/* One that is released while its operation may be under way. */
bool api_act_queue(api_actor *actor)
{
    ferry_queue *queue = NULL;
    int fd = -1;
    bool has_fd = api_one_in(&actor->random, 2);
    ferry_status status = ferry_queue_create(actor->world->engine, 1 + api_below(&actor->random, 3),
                                             &queue, has_fd ? &fd : NULL);
    API_CHECK((status == FERRY_OK) == (queue != NULL));
    if (status != FERRY_OK)
        return false;
    API_CHECK(has_fd == (fd >= 0));
    api_room room;
    ferry_op_options options = api_options(actor, &room);
    options.queue = queue;
    bool is_taken = api_keep(actor, ferry_nop(actor->world->engine, &options));
    (void)take(queue, 1);
    ferry_queue_release(queue);
    return is_taken;
}
