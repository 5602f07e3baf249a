/* SPDX-License-Identifier: Apache-2.0 */
/* Random acts: reshards, on paper and of the group of one, whose plans are copies alone. */
#include "tests/support/random_api.h"

#include <string.h>

enum { BYTES = 96, POSITIONS_MAX = 3 };

typedef struct sheet {
    ferry_mesh_axis axis;
    ferry_rank ranks[POSITIONS_MAX];
    const char *name;
    ferry_split split;
    ferry_layout layout;
    ferry_span spans[POSITIONS_MAX];
} sheet;

/* Split, or as often as it has positions. */
static void fill(api_actor *actor, sheet *self, size_t at)
{
    uint32_t count = 1 + api_below(&actor->random, POSITIONS_MAX);
    bool is_split = api_one_in(&actor->random, 2);
    ferry_buffer *buffer = api_buffer(actor);
    memset(self, 0, sizeof *self);
    self->axis = (ferry_mesh_axis){"axis", count};
    self->name = "axis";
    self->split = (ferry_split){&self->name, is_split};
    self->layout =
        (ferry_layout){sizeof self->layout, &self->axis, 1, self->ranks, count, &self->split, 1};
    for (uint32_t i = 0; i < count; i++)
        self->spans[i] = (ferry_span){buffer, at + i * BYTES, is_split ? BYTES / count : BYTES};
}

static void look_at(api_actor *actor, const ferry_reshard *reshard)
{
    ferry_reshard_info info = FERRY_RESHARD_INFO_INIT;
    ferry_reshard_part part = FERRY_RESHARD_PART_INIT;
    ferry_reshard_move move = FERRY_RESHARD_MOVE_INIT;
    ferry_reshard_member member = FERRY_RESHARD_MEMBER_INIT;
    API_CHECK(ferry_reshard_describe(reshard, &info) == FERRY_OK && info.crossing_bytes == 0);
    uint32_t index = api_below(&actor->random, 6);
    ferry_status status = ferry_reshard_move_at(reshard, index, &move);
    API_CHECK((status == FERRY_OK) == (index < info.move_count));
    status = ferry_reshard_part_at(reshard, FERRY_RESHARD_TO, index, &part);
    API_CHECK((status == FERRY_OK) == (index < info.to_positions));
    API_CHECK(ferry_reshard_member_at(reshard, index, &member) == FERRY_OK);
    API_CHECK(member.local_bytes == (index == 0 ? info.local_bytes : 0));
}

bool api_act_reshard(api_actor *actor)
{
    const uint64_t shape[] = {BYTES};
    sheet from, to;
    ferry_reshard *reshard = NULL;
    fill(actor, &from, 0);
    fill(actor, &to, (size_t)POSITIONS_MAX * BYTES);
    ferry_status status =
        ferry_reshard_create(shape, 1, 1, &from.layout, &to.layout, &reshard, NULL);
    API_CHECK(status == FERRY_OK);
    look_at(actor, reshard);
    ferry_reshard_options options = FERRY_RESHARD_OPTIONS_INIT;
    options.from = from.spans;
    options.from_count = from.layout.rank_count;
    options.to = to.spans;
    options.to_count = to.layout.rank_count;
    options.tag = api_below(&actor->random, 3);
    options.scratch_bytes_max = api_below(&actor->random, 2) * 4096;
    ferry_plan *plan = NULL;
    ferry_error *error = NULL;
    status = ferry_reshard_plan(actor->world->group, reshard, &options, &plan, &error);
    API_CHECK((status == FERRY_OK) == (plan != NULL) && (plan == NULL) == (error != NULL));
    ferry_error_release(error);
    ferry_reshard_release(reshard);
    bool is_taken = false;
    for (uint32_t i = api_below(&actor->random, 3); plan != NULL && i > 0; i--)
        is_taken = api_keep(actor, ferry_plan_post(plan, NULL, 0, NULL)) || is_taken;
    ferry_plan_release(plan);
    return is_taken;
}
