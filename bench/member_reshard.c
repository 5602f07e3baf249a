/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/member_reshard.h"

#include "bench/bench.h"
#include "bench/rivals/pair.h"

#include <stdio.h>
#include <stdlib.h>

#define ROUNDS_MAX 100
#define COLUMNS ((uint64_t)16384)
#define ELEMENT_BYTES ((uint64_t)4)

/* How the matrix may lie; each layout points into the same. */
typedef struct ways {
    ferry_mesh_axis axis;
    const char *name;
    ferry_split splits[2][3];
    uint64_t shape[3];
    ferry_layout by_rows, by_columns, at_first;
} ways;

static void open_ways(ways *self, uint32_t members, size_t size, bool has_runs)
{
    uint64_t elements = size / ELEMENT_BYTES;
    *self = (ways){.axis = {"x", members}, .name = "x"};
    self->splits[0][0] = self->splits[1][1] = (ferry_split){&self->name, 1};
    self->by_rows =
        (ferry_layout){sizeof(ferry_layout), &self->axis, 1, NULL, 0, self->splits[0], 3};
    self->shape[0] = has_runs ? members : elements / COLUMNS;
    self->shape[1] = has_runs ? members : COLUMNS;
    self->shape[2] = has_runs ? elements / members / members : 1;
    self->by_columns = self->by_rows;
    self->by_columns.splits = self->splits[1];
    self->at_first = (ferry_layout)FERRY_LAYOUT_INIT;
}

/* Of what this member has in a layout: one part, or none. */
static ferry_plan *plan_of(ferry_group *group, const uint64_t *shape, const ferry_layout *from,
                           ferry_buffer *source, const ferry_layout *to, ferry_buffer *target)
{
    ferry_reshard *reshard = NULL;
    bench_check(ferry_reshard_create(shape, 3, ELEMENT_BYTES, from, to, &reshard, NULL),
                "a reshard");
    const ferry_span spans[] = {ferry_buffer_span(source), ferry_buffer_span(target)};
    ferry_reshard_options options = FERRY_RESHARD_OPTIONS_INIT;
    options.from = &spans[0];
    options.from_count = source != NULL;
    options.to = &spans[1];
    options.to_count = target != NULL;
    ferry_plan *plan = NULL;
    ferry_error *error = NULL;
    ferry_status status = ferry_reshard_plan(group, reshard, &options, &plan, &error);
    if (status != FERRY_OK)
        bench_fail("a plan of a reshard: %s", error->message);
    ferry_reshard_release(reshard);
    return plan;
}

static double post_s(ferry_group *group, ferry_plan *const *plans, size_t count)
{
    bench_finish(ferry_barrier(group, "reshard", NULL));
    double begin_s = pair_now_s();
    for (size_t i = 0; i + 1 < count; i++)
        ferry_future_release(ferry_plan_post(plans[i], NULL, 0, NULL));
    bench_finish(ferry_plan_post(plans[count - 1], NULL, 0, NULL));
    return pair_now_s() - begin_s;
}

void bench_member_reshard(ferry_group *group, size_t mebibytes, size_t rounds, bool has_runs)
{
    double plan_s[ROUNDS_MAX], gather_s[ROUNDS_MAX];
    ferry_engine *engine = ferry_group_engine(group);
    uint32_t members = ferry_group_size(group);
    size_t size = mebibytes << 20;
    bool is_first = ferry_group_rank(group) == 0;
    ways lie;
    open_ways(&lie, members, size, has_runs);
    ferry_buffer *by_rows = bench_buffer(engine, "host:0", size / members, 1);
    ferry_buffer *by_columns = bench_buffer(engine, "host:0", size / members, 2);
    ferry_buffer *whole = is_first ? bench_buffer(engine, "host:0", size, 3) : NULL;
    ferry_plan *plans[] = {
        plan_of(group, lie.shape, &lie.by_rows, by_rows, &lie.by_columns, by_columns),
        plan_of(group, lie.shape, &lie.by_rows, by_rows, &lie.at_first, whole),
        plan_of(group, lie.shape, &lie.at_first, whole, &lie.by_columns, by_columns)};
    rounds = rounds < ROUNDS_MAX ? rounds : ROUNDS_MAX;
    for (size_t i = 0; i <= rounds; i++) { /* the first finds no pages */
        size_t at = i == 0 ? 0 : i - 1;
        plan_s[at] = post_s(group, &plans[0], 1);
        gather_s[at] = post_s(group, &plans[1], 2);
    }
    printf("plan_us=%.3f gather_us=%.3f\n", pair_median(plan_s, rounds) * 1e6,
           pair_median(gather_s, rounds) * 1e6);
    for (size_t i = 0; i < 3; i++)
        ferry_plan_release(plans[i]);
    ferry_buffer_release(by_rows);
    ferry_buffer_release(by_columns);
    ferry_buffer_release(whole);
}
