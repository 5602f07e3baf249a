/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans of reshards: what they wait for, how they fail and go on, who stays the same when it
 * restarts, and what is refused, in which words.
 */
#include "tests/support/member_test.h"
#include "tests/support/place.h"

#include <stdlib.h>

static void need_channels(void)
{
    PLACE_NEEDS(place_lacks_ucx);
}

MEMBER_SUITE(reshard_plans, .init = need_channels);

/* A matrix of bytes, by rows over some members, then by columns over some. */
enum { ROWS = 24, COLUMNS = 36 };

typedef struct sheet {
    ferry_mesh_axis axes[2];
    const char *name;
    ferry_split splits[2][2];
    ferry_layout layouts[2];
} sheet;

static void fill_sheet(sheet *self, const ferry_rank *from, size_t from_count, const ferry_rank *to,
                       size_t to_count)
{
    *self = (sheet){.axes = {{"x", from_count}, {"x", to_count}}, .name = "x"};
    self->splits[0][0] = self->splits[1][1] = (ferry_split){&self->name, 1};
    self->layouts[0] = (ferry_layout){sizeof(ferry_layout), &self->axes[0],  1, from,
                                      from_count,           self->splits[0], 2};
    self->layouts[1] =
        (ferry_layout){sizeof(ferry_layout), &self->axes[1], 1, to, to_count, self->splits[1], 2};
}

static ferry_reshard *reshard_of(const sheet *of)
{
    const uint64_t shape[] = {ROWS, COLUMNS};
    ferry_reshard *reshard = NULL;
    ASSERT_STATUS(
        ferry_reshard_create(shape, 2, 1, &of->layouts[0], &of->layouts[1], &reshard, NULL),
        FERRY_OK);
    return reshard;
}

/* A member's part: at most one position a layout. */
typedef struct part {
    ferry_buffer *from, *to; /* the scene's; NULL: it has none there */
    uint64_t first_row, rows, first_column, columns;
    ferry_plan *plan;
} part;

static ferry_tag the_tag; /* of all plans that are made next */

static void open_part(part *self, size_t member, ferry_rank rank, const sheet *of)
{
    ferry_reshard *reshard = reshard_of(of);
    ferry_reshard_part at = FERRY_RESHARD_PART_INIT;
    *self = (part){.from = NULL};
    for (uint32_t p = 0; ferry_reshard_part_at(reshard, FERRY_RESHARD_FROM, p, &at) == FERRY_OK;
         p++) {
        if (at.rank != rank)
            continue;
        self->from = buffer_of(member, 0, at.size_bytes, 0);
        self->first_row = at.offset[0];
        self->rows = at.extent[0];
    }
    for (uint32_t p = 0; ferry_reshard_part_at(reshard, FERRY_RESHARD_TO, p, &at) == FERRY_OK;
         p++) {
        if (at.rank != rank)
            continue;
        self->to = buffer_of(member, 1, at.size_bytes, 0);
        self->first_column = at.offset[1];
        self->columns = at.extent[1];
    }
    const ferry_span from = ferry_buffer_span(self->from), to = ferry_buffer_span(self->to);
    ferry_reshard_options options = FERRY_RESHARD_OPTIONS_INIT;
    options.from = &from;
    options.from_count = self->from != NULL;
    options.to = &to;
    options.to_count = self->to != NULL;
    options.tag = the_tag;
    ferry_error *error = NULL;
    ferry_status status =
        ferry_reshard_plan(members[member].group, reshard, &options, &self->plan, &error);
    cr_assert(status == FERRY_OK, "%s", error != NULL ? error->message : "?");
    ferry_reshard_release(reshard);
}

static unsigned char byte_of(uint64_t row, uint64_t column, int round)
{
    return (unsigned char)(row * 7 + column * 3 + (unsigned)round * 50);
}

static void fill_part(const part *self, int round)
{
    unsigned char *bytes = ferry_buffer_data(self->from);
    for (uint64_t i = 0; i < self->rows * COLUMNS; i++)
        bytes[i] = byte_of(self->first_row + i / COLUMNS, i % COLUMNS, round);
}

static bool is_right(const part *self, int round)
{
    const unsigned char *bytes = ferry_buffer_data(self->to);
    for (uint64_t i = 0; i < ROWS * self->columns; i++) {
        if (bytes[i] != byte_of(i / self->columns, self->first_column + i % self->columns, round))
            return false;
    }
    return true;
}

static ferry_future *post(const part *self)
{
    return ferry_plan_post(self->plan, NULL, 0, NULL);
}

static void run_round(part *parts, size_t count, int round)
{
    ferry_future *posts[MEMBERS_MAX];
    for (size_t i = 0; i < count; i++) {
        if (parts[i].from != NULL)
            fill_part(&parts[i], round);
    }
    for (size_t i = 0; i < count; i++)
        posts[i] = post(&parts[i]);
    for (size_t i = 0; i < count; i++)
        AWAIT(posts[i], OK);
    for (size_t i = 0; i < count; i++)
        cr_assert(parts[i].to == NULL || is_right(&parts[i], round), "member %zu", i);
}

static const ferry_rank ranks_up[] = {0, 1, 2, 3}, ranks_down[] = {3, 2, 1, 0};

static void move_between(const ferry_rank *from, size_t from_count, const ferry_rank *to,
                         size_t to_count)
{
    part parts[4];
    sheet of;
    begin_members(4, FERRY_LOOP_THREAD);
    fill_sheet(&of, from, from_count, to, to_count);
    for (size_t i = 0; i < 4; i++)
        open_part(&parts[i], i, (ferry_rank)i, &of);
    for (int round = 0; round < 4; round++)
        run_round(parts, 4, round);
    for (size_t i = 0; i < 4; i++)
        ferry_plan_release(parts[i].plan);
}

Test(reshard_plans, shrink_to_fewer_members)
{
    move_between(ranks_up, 4, ranks_down, 1);
}

Test(reshard_plans, grow_to_more_members)
{
    move_between(ranks_down, 1, ranks_up, 4);
}

Test(reshard_plans, go_from_some_members_to_others)
{
    move_between(ranks_up, 2, ranks_down, 2);
}

Test(reshard_plans, turn_the_members_around)
{
    move_between(ranks_up, 3, ranks_down, 4);
}

/* ---- order ---- */

Test(reshard_plans, wait_for_what_defines_their_parts)
{
    part parts[2];
    sheet of;
    begin_members(2, FERRY_LOOP_THREAD);
    fill_sheet(&of, ranks_up, 2, ranks_up, 2);
    ferry_promise *promises[2];
    ferry_future *posts[2];
    for (size_t i = 0; i < 2; i++) {
        open_part(&parts[i], i, (ferry_rank)i, &of);
        promises[i] = test_promise(&members[i].te);
        ferry_future *made = ferry_promise_future(promises[i]);
        ASSERT_STATUS(ferry_buffer_define(ferry_buffer_span(parts[i].from), made), FERRY_OK);
        ferry_future_release(made);
        posts[i] = post(&parts[i]);
    }
    for (size_t i = 0; i < 2; i++) {
        ASSERT_STATUS(ferry_future_poll(posts[0]), FERRY_PENDING);
        ASSERT_STATUS(ferry_future_poll(posts[1]), FERRY_PENDING);
        fill_part(&parts[i], 5);
        keep_promise(promises[i], FERRY_OK);
    }
    for (size_t i = 0; i < 2; i++) {
        AWAIT(posts[i], OK);
        cr_assert(is_right(&parts[i], 5));
    }
    /* A copy behind the post reads what has come. */
    ferry_buffer *copy = buffer_of(1, 2, ROWS * parts[1].columns, 0);
    for (size_t i = 0; i < 2; i++) {
        fill_part(&parts[i], 6);
        posts[i] = post(&parts[i]);
    }
    AWAIT(ferry_copy(members[1].te.engine, ferry_buffer_span(copy), ferry_buffer_span(parts[1].to),
                     NULL),
          OK);
    cr_assert(memcmp(ferry_buffer_data(copy), ferry_buffer_data(parts[1].to),
                     ferry_buffer_size_bytes(copy)) == 0);
    for (size_t i = 0; i < 2; i++) {
        AWAIT(posts[i], OK);
        cr_assert(is_right(&parts[i], 6));
        ferry_plan_release(parts[i].plan);
    }
}

/* One never began, so that the other waits until it gives up; with another tag they go on. */
Test(reshard_plans, fail_with_their_parts_and_go_on)
{
    part parts[2];
    sheet of;
    begin_members(2, FERRY_LOOP_THREAD);
    fill_sheet(&of, ranks_up, 2, ranks_up, 2);
    for (size_t i = 0; i < 2; i++)
        open_part(&parts[i], i, (ferry_rank)i, &of);
    ferry_promise *promise = test_promise(&members[0].te);
    ferry_future *made = ferry_promise_future(promise);
    ASSERT_STATUS(ferry_buffer_define(ferry_buffer_span(parts[0].from), made), FERRY_OK);
    ferry_future_release(made);
    ferry_future *posts[] = {post(&parts[0]), post(&parts[1])};
    keep_promise(promise, FERRY_E_FAILED);
    AWAIT(posts[0], E_DEPENDENCY);
    ASSERT_STATUS(ferry_future_cancel(posts[1]), FERRY_OK);
    ASSERT_STATUS(await(posts[1]), FERRY_E_CANCELLED);
    /* What it was to write is poisoned. */
    ferry_buffer *copy = buffer_of(0, 2, ROWS * parts[0].columns, 0);
    AWAIT(ferry_copy(members[0].te.engine, ferry_buffer_span(copy), ferry_buffer_span(parts[0].to),
                     NULL),
          E_DEPENDENCY);
    the_tag++;
    for (size_t i = 0; i < 2; i++) {
        ferry_plan_release(parts[i].plan);
        open_part(&parts[i], i, (ferry_rank)i, &of);
    }
    run_round(parts, 2, 3);
    for (size_t i = 0; i < 2; i++)
        ferry_plan_release(parts[i].plan);
}

/* ---- a restart ---- */

/* Rank 1 ends and comes again, as another engine; rank 0 keeps its plan. */
/* The rank's present start, as another member sees it. */
static ferry_member_info member_seen(ferry_group *group, ferry_rank rank)
{
    ferry_member_info info = FERRY_MEMBER_INFO_INIT;
    ASSERT_STATUS(ferry_group_member(group, rank, &info), FERRY_OK);
    return info;
}

Test(reshard_plans, know_a_member_that_restarts)
{
    part parts[2];
    sheet of;
    begin_members(2, FERRY_LOOP_THREAD);
    uint64_t first = member_seen(members[0].group, 1).incarnation;
    fill_sheet(&of, ranks_up, 2, ranks_down + 2, 2);
    for (size_t i = 0; i < 2; i++)
        open_part(&parts[i], i, (ferry_rank)i, &of);
    run_round(parts, 2, 1);
    ferry_plan_release(parts[1].plan);
    AWAIT(ferry_group_leave(members[1].group), OK);
    (void)begin_member(FERRY_LOOP_THREAD);
    ferry_group_options options = test_group_options(2, 1);
    AWAIT(join_group(2, &options), OK);
    ferry_member_info next = FERRY_MEMBER_INFO_INIT;
    while (next.state != FERRY_MEMBER_HERE || next.incarnation == first) {
        next = member_seen(members[0].group, 1);
        (void)sched_yield();
    }
    open_part(&parts[1], 2, 1, &of);
    run_round(parts, 2, 2);
    for (size_t i = 0; i < 2; i++)
        ferry_plan_release(parts[i].plan);
}

/* ---- refusals ---- */

typedef struct attempt {
    ferry_group *group;
    ferry_reshard *reshard;
    ferry_reshard_options options;
} attempt;

static void expect(const attempt *self, const char *message)
{
    ferry_plan *plan = NULL;
    ferry_error *error = NULL;
    ASSERT_STATUS(ferry_reshard_plan(self->group, self->reshard, &self->options, &plan, &error),
                  FERRY_E_INVALID);
    cr_assert_null(plan);
    cr_assert_str_eq(error->message, message);
    ferry_error_release(error);
    ASSERT_STATUS(ferry_reshard_plan(self->group, self->reshard, &self->options, &plan, NULL),
                  FERRY_E_INVALID);
}

Test(reshard_plans, name_what_is_wrong)
{
    sheet of;
    begin_members(2, FERRY_LOOP_THREAD);
    fill_sheet(&of, ranks_up, 2, ranks_up, 2);
    ferry_buffer *buffer = buffer_of(0, 0, 4000, 0), *others = buffer_of(1, 0, 4000, 0);
    ferry_span from = {buffer, 0, 12 * COLUMNS}, to = {buffer, 1000, ROWS * 18};
    attempt self = {members[0].group, reshard_of(&of), FERRY_RESHARD_OPTIONS_INIT};
    const attempt empty = self;
    expect(&self, "from_count is 0; rank 0 has 1 positions in the layout `from`");
    self.options.from_count = 1;
    expect(&self, "from_count is 1, but the spans are NULL; rank 0 has 1 positions in the layout "
                  "`from`");
    self.options.from = &from;
    expect(&self, "to_count is 0; rank 0 has 1 positions in the layout `to`");
    self.options.to = &to;
    self.options.to_count = 1;
    from.size_bytes--;
    expect(&self, "span 0 of `from` has 431 bytes; the part of position 0 has 432");
    from.size_bytes++;
    to.buffer = NULL;
    expect(&self, "span 0 of `to` has no buffer");
    to.buffer = others;
    expect(&self, "span 0 of `to` is of another engine than the group");
    to = (ferry_span){buffer, 3600, ROWS * 18};
    expect(&self, "span 0 of `to` reaches past the end of its buffer");
    to.offset_bytes = 431;
    expect(&self, "span 0 of `to` overlaps span 0 of `from`");
    to.offset_bytes = 432;
    self.options.scratch_bytes_max = 100;
    expect(&self, "scratch_bytes_max is 100; the largest strided moves of each device and "
                  "direction take 256 bytes, all moves together 256");
    self.options.struct_size = 3;
    expect(&self, "struct_size of the options is invalid, or unknown fields are set: use "
                  "FERRY_RESHARD_OPTIONS_INIT");
    self.options.struct_size = empty.options.struct_size;
    self.options.scratch_bytes_max = 256;
    ferry_plan *plan = NULL;
    ASSERT_STATUS(ferry_reshard_plan(self.group, self.reshard, &self.options, &plan, NULL),
                  FERRY_OK);
    ferry_plan_release(plan);
    ferry_reshard *small = self.reshard;
    self.reshard = NULL;
    expect(&self, "the reshard is NULL");
    self.reshard = small;
    self.group = NULL;
    expect(&self, "the group is NULL");
    ASSERT_STATUS(ferry_reshard_plan(members[0].group, small, &self.options, NULL, NULL),
                  FERRY_E_INVALID);
    ferry_reshard_release(small);
    fill_sheet(&of, ranks_up, 2, ranks_up, 3);
    self = (attempt){members[0].group, reshard_of(&of), empty.options};
    expect(&self, "`to`: position 2 is of rank 2; the group has 2 members");
    ferry_reshard_release(self.reshard);
}

/* Both have all of it, and want one column each: rows of a byte, which nothing joins. */
Test(reshard_plans, say_when_a_post_would_touch_too_much)
{
    enum { LONG = 4000 };
    ferry_engine_options engine = test_engine_options(&members[0].te, FERRY_LOOP_THREAD);
    engine.clock = NULL;
    engine.max_accesses = 4096;
    test_engine_create(&members[0].te, &engine);
    members[0].loop = FERRY_LOOP_THREAD;
    member_count = 1;
    (void)begin_member(FERRY_LOOP_THREAD);
    test_members_join(members, 2);
    const uint64_t shape[] = {LONG, 2};
    const ferry_mesh_axis axis = {"x", 2};
    const char *name = "x";
    const ferry_split splits[] = {{NULL, 0}, {&name, 1}};
    const ferry_layout whole = {sizeof whole, &axis, 1, NULL, 0, NULL, 0};
    const ferry_layout halves = {sizeof halves, &axis, 1, NULL, 0, splits, 2};
    attempt self = {.options = FERRY_RESHARD_OPTIONS_INIT};
    ASSERT_STATUS(ferry_reshard_create(shape, 2, 1, &whole, &halves, &self.reshard, NULL),
                  FERRY_OK);
    for (size_t i = 2; i-- > 0;) {
        ferry_span from = ferry_buffer_span(buffer_of(i, 0, 2 * (size_t)LONG, 1));
        ferry_span to = ferry_buffer_span(buffer_of(i, 0, LONG, 0));
        self.group = members[i].group;
        self.options.from = &from;
        self.options.to = &to;
        self.options.from_count = self.options.to_count = 1;
        if (i == 0) {
            expect(&self, "a post would touch 4001 spans, by rows; the engine's max_accesses and "
                          "max_edges allow 512");
            continue;
        }
        ferry_plan *plan = NULL;
        ASSERT_STATUS(ferry_reshard_plan(self.group, self.reshard, &self.options, &plan, NULL),
                      FERRY_OK);
        AWAIT(ferry_plan_post(plan, NULL, 0, NULL), OK);
        cr_assert(is_filled(to.buffer, 0, LONG, 1));
        ferry_plan_release(plan);
    }
    ferry_reshard_release(self.reshard);
}
