/* SPDX-License-Identifier: Apache-2.0 */
/* Random acts: plans, which are posted and released while their posts go on. */
#include "tests/support/random_api.h"

#include <string.h>

enum { OPS = 6, BYTES = 200 };

static ferry_status look(void *arg)
{
    (void)arg;
    return FERRY_OK;
}

static ferry_status fail(void *arg)
{
    (void)arg;
    return FERRY_E_FAILED;
}

static ferry_span span_of(api_actor *actor, ferry_buffer *buffer)
{
    return (ferry_span){buffer, api_below(&actor->random, 2000), BYTES};
}

static ferry_op random_op(api_actor *actor, ferry_access *access, ferry_op_options *options)
{
    ferry_buffer *to = api_buffer(actor), *from = api_buffer(actor);
    *options = (ferry_op_options)FERRY_OP_OPTIONS_INIT;
    if (to != NULL && from != NULL && api_one_in(&actor->random, 2)) {
        ferry_op op = {
            .kind = FERRY_OP_COPY, .dst = span_of(actor, to), .src = span_of(actor, from)};
        op.src.offset_bytes += 2200; /* they may be of one buffer */
        return op;
    }
    *access = (ferry_access){span_of(actor, to), FERRY_READ_WRITE};
    options->accesses = access;
    options->access_count = to != NULL;
    options->label = "of a plan";
    options->flags = api_one_in(&actor->random, 4) ? FERRY_OP_UNTRACKED : 0;
    ferry_op op = {.kind = api_one_in(&actor->random, 3) ? FERRY_OP_NOP : FERRY_OP_CALL};
    op.fn = api_one_in(&actor->random, 8) ? fail : look;
    op.executor = api_executor(actor);
    return op;
}

static bool post(api_actor *actor, ferry_plan *plan, uint32_t count)
{
    uint32_t picks[OPS], pick_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (api_one_in(&actor->random, 2))
            picks[pick_count++] = i;
    }
    api_room room;
    ferry_op_options options = api_options(actor, &room);
    bool is_whole = api_one_in(&actor->random, 2);
    ferry_future *future = ferry_plan_post(plan, is_whole ? NULL : picks, is_whole ? 0 : pick_count,
                                           api_one_in(&actor->random, 3) ? NULL : &options);
    bool is_taken = api_keep(actor, future);
    if (is_taken && api_one_in(&actor->random, 4))
        API_CHECK(ferry_future_cancel(future) == FERRY_OK);
    return is_taken;
}

bool api_act_plan(api_actor *actor)
{
    ferry_op ops[OPS];
    ferry_access accesses[OPS];
    ferry_op_options options[OPS];
    uint32_t count = api_below(&actor->random, OPS + 1);
    for (uint32_t i = 0; i < count; i++) {
        ops[i] = random_op(actor, &accesses[i], &options[i]);
        ops[i].options = &options[i];
    }
    ferry_plan *plan = NULL;
    ferry_status status =
        ferry_plan_create(actor->world->engine, ops, sizeof ops[0], count, &plan, NULL);
    API_CHECK((status == FERRY_OK) == (plan != NULL));
    if (plan == NULL)
        return false;
    ferry_plan_info info = FERRY_PLAN_INFO_INIT;
    API_CHECK(ferry_plan_describe(plan, &info) == FERRY_OK && info.op_count == count &&
              info.part_count <= count);
    API_CHECK(ferry_plan_enqueue(plan, ferry_device_at(actor->world->engine, 0), NULL, NULL) !=
              FERRY_OK); /* a host */
    bool is_taken = false;
    for (uint32_t i = api_below(&actor->random, 4); i > 0; i--)
        is_taken = post(actor, plan, count) || is_taken;
    ferry_plan_release(plan);
    return is_taken;
}
