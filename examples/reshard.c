/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A matrix that lies over the members by rows comes to lie over them by columns, and back, again
 * and again, as between two steps of a computation. Each member names the two layouts and computes
 * the same schedule; its own part in it is a plan, which it posts once a step. Here the members are
 * four engines of one process; in a job each is a process of its own.
 */
#include <ferry/ferry.h>
#include <stdio.h>
#include <stdlib.h>

#define MEMBERS 4
#define ROWS ((uint64_t)64)
#define COLUMNS ((uint64_t)96)
#define STEPS 3

typedef struct member {
    ferry_engine *engine;
    ferry_group *group;
    ferry_buffer *by_rows, *by_columns;
    ferry_plan *forth, *back;
} member;

static const ferry_mesh_axis axes[] = {{"model", MEMBERS}};
static const char *const model[] = {"model"};
static const ferry_split rows[] = {{model, 1}, {NULL, 0}};
static const ferry_split columns[] = {{NULL, 0}, {model, 1}};

static void check(ferry_status status, ferry_error *error, const char *what)
{
    if (status == FERRY_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, error != NULL ? error->message : ferry_status_text(status));
    exit(1);
}

static void finish(ferry_future *future, const char *what)
{
    check(ferry_future_wait(future, -1), NULL, what);
    ferry_future_release(future);
}

static ferry_layout layout_of(const ferry_split *splits)
{
    ferry_layout layout = FERRY_LAYOUT_INIT;
    layout.axes = axes;
    layout.axis_count = 1;
    layout.splits = splits;
    layout.split_count = 2;
    return layout;
}

/* What every member computes for itself. */
static ferry_reshard *reshard_of(const ferry_layout *from, const ferry_layout *to)
{
    const uint64_t shape[] = {ROWS, COLUMNS};
    ferry_reshard *reshard = NULL;
    ferry_error *error = NULL;
    check(ferry_reshard_create(shape, 2, sizeof(float), from, to, &reshard, &error), error,
          "the reshard");
    return reshard;
}

static void tell(const ferry_reshard *reshard)
{
    ferry_reshard_info info = FERRY_RESHARD_INFO_INIT;
    ferry_reshard_member first = FERRY_RESHARD_MEMBER_INIT;
    ferry_reshard_move move = FERRY_RESHARD_MOVE_INIT;
    check(ferry_reshard_describe(reshard, &info), NULL, "what it comes to");
    check(ferry_reshard_member_at(reshard, 0, &first), NULL, "a member's part");
    check(ferry_reshard_move_at(reshard, 1, &move), NULL, "a move");
    printf("%llu bytes cross in %llu messages, of which member 0 sends %llu\n",
           (unsigned long long)info.crossing_bytes, (unsigned long long)info.message_count,
           (unsigned long long)first.send_count);
    printf("one of them: columns %llu to %llu of its rows, to member %u\n",
           (unsigned long long)move.offset[1],
           (unsigned long long)(move.offset[1] + move.extent[1] - 1), move.target_rank);
}

/* Memory for the part of a position, which is this member's rank here. */
static ferry_buffer *part_of(member *self, const ferry_reshard *reshard, ferry_reshard_side side,
                             uint32_t position)
{
    ferry_reshard_part part = FERRY_RESHARD_PART_INIT;
    ferry_buffer *buffer = NULL;
    check(ferry_reshard_part_at(reshard, side, position, &part), NULL, "a part");
    check(ferry_buffer_alloc(ferry_device_at(self->engine, 0), part.size_bytes, &buffer), NULL,
          "a buffer");
    return buffer;
}

static ferry_plan *plan_of(member *self, const ferry_reshard *reshard, ferry_buffer *from,
                           ferry_buffer *to)
{
    const ferry_span source = ferry_buffer_span(from), target = ferry_buffer_span(to);
    ferry_reshard_options options = FERRY_RESHARD_OPTIONS_INIT;
    options.from = &source;
    options.from_count = 1;
    options.to = &target;
    options.to_count = 1;
    options.tag = 1;
    ferry_plan *plan = NULL;
    ferry_error *error = NULL;
    check(ferry_reshard_plan(self->group, reshard, &options, &plan, &error), error, "the plan");
    return plan;
}

static void join(member members[MEMBERS])
{
    ferry_future *joined[MEMBERS];
    for (ferry_rank rank = 0; rank < MEMBERS; rank++) {
        ferry_engine_options engine = FERRY_ENGINE_OPTIONS_INIT;
        ferry_group_options options = FERRY_GROUP_OPTIONS_INIT;
        options.store = "mem:example";
        options.job = "reshard";
        options.size = MEMBERS;
        options.rank = rank;
        options.has_rank = true;
        check(ferry_engine_create(&engine, &members[rank].engine, NULL), NULL, "an engine");
        joined[rank] = ferry_group_join(members[rank].engine, &options, &members[rank].group);
    }
    for (ferry_rank rank = 0; rank < MEMBERS; rank++)
        finish(joined[rank], "joining");
}

static void prepare(member *self, ferry_rank rank)
{
    const ferry_layout by_rows = layout_of(rows), by_columns = layout_of(columns);
    ferry_reshard *forth = reshard_of(&by_rows, &by_columns);
    ferry_reshard *back = reshard_of(&by_columns, &by_rows);
    if (rank == 0)
        tell(forth);
    self->by_rows = part_of(self, forth, FERRY_RESHARD_FROM, rank);
    self->by_columns = part_of(self, forth, FERRY_RESHARD_TO, rank);
    self->forth = plan_of(self, forth, self->by_rows, self->by_columns);
    self->back = plan_of(self, back, self->by_columns, self->by_rows);
    ferry_reshard_release(forth);
    ferry_reshard_release(back);
    float *at = ferry_buffer_data(self->by_rows);
    for (uint64_t i = 0; i < ROWS / MEMBERS * COLUMNS; i++)
        at[i] = (float)(rank * (ROWS / MEMBERS * COLUMNS) + i);
}

/* All posts are submitted at once: the way back starts as its columns come. */
static void step(member members[MEMBERS])
{
    ferry_future *posts[MEMBERS];
    for (ferry_rank rank = 0; rank < MEMBERS; rank++) {
        ferry_future_release(ferry_plan_post(members[rank].forth, NULL, 0, NULL));
        posts[rank] = ferry_plan_post(members[rank].back, NULL, 0, NULL);
    }
    for (ferry_rank rank = 0; rank < MEMBERS; rank++)
        finish(posts[rank], "a step");
}

static bool is_right(const member *self, ferry_rank rank)
{
    const float *by_columns = ferry_buffer_data(self->by_columns);
    const float *by_rows = ferry_buffer_data(self->by_rows);
    uint64_t width = COLUMNS / MEMBERS, first = rank * (ROWS / MEMBERS * COLUMNS);
    for (uint64_t i = 0; i < ROWS * width; i++) {
        if (by_columns[i] != (float)(i / width * COLUMNS + rank * width + i % width) ||
            by_rows[i] != (float)(first + i))
            return false;
    }
    return true;
}

int main(void)
{
    static member members[MEMBERS];
    int result = 0;
    join(members);
    for (ferry_rank rank = 0; rank < MEMBERS; rank++)
        prepare(&members[rank], rank);
    for (int i = 0; i < STEPS; i++)
        step(members);
    for (ferry_rank rank = 0; rank < MEMBERS; rank++)
        result |= !is_right(&members[rank], rank);
    printf("%s\n", result == 0 ? "every element is where it should be" : "WRONG");
    for (ferry_rank rank = 0; rank < MEMBERS; rank++) {
        ferry_plan_release(members[rank].forth);
        ferry_plan_release(members[rank].back);
        ferry_buffer_release(members[rank].by_rows);
        ferry_buffer_release(members[rank].by_columns);
        ferry_group_release(members[rank].group);
    }
    for (ferry_rank rank = 0; rank < MEMBERS; rank++) {
        check(ferry_engine_shutdown(members[rank].engine, -1), NULL, "the end");
        ferry_engine_release(members[rank].engine);
    }
    return result;
}
