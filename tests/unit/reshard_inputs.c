/* SPDX-License-Identifier: Apache-2.0 */
/* What a reshard refuses, and in which words; what is large; and every lack of memory. */
#include "engine/reshard/schedule.h"
#include "tests/support/failing_allocator.h"
#include "tests/support/reshard_case.h"
#include "tests/support/suite.h"

#include <string.h>

TestSuite(reshard_inputs, .timeout = 60);

/* A mesh of data=4 and model=2, whose two axes split two dimensions; each case changes some. */
typedef struct sheet {
    uint64_t shape[9];
    size_t dimension_count;
    uint64_t element_bytes;
    ferry_mesh_axis axes[FERRY_RESHARD_AXES_MAX + 1];
    const char *names[4];
    ferry_split splits[3];
    ferry_layout layout;
    ferry_layout other; /* one position that has all */
} sheet;

static void begin(sheet *self)
{
    *self = (sheet){
        .shape = {16, 8},
        .dimension_count = 2,
        .element_bytes = 4,
        .axes = {{"data", 4}, {"model", 2}},
        .names = {"data", "model"},
        .layout = FERRY_LAYOUT_INIT,
        .other = FERRY_LAYOUT_INIT,
    };
    self->splits[0] = (ferry_split){&self->names[0], 1};
    self->splits[1] = (ferry_split){&self->names[1], 1};
    self->layout.axes = self->axes;
    self->layout.axis_count = 2;
    self->layout.splits = self->splits;
    self->layout.split_count = 2;
}

static ferry_status create(const sheet *self, ferry_reshard **reshard_p, ferry_error **error_p)
{
    return ferry_reshard_create(self->shape, self->dimension_count, self->element_bytes,
                                &self->layout, &self->other, reshard_p, error_p);
}

static void expect(const sheet *self, const char *message)
{
    ferry_reshard *reshard = NULL;
    ferry_error *error = NULL;
    cr_assert_eq(create(self, &reshard, &error), FERRY_E_INVALID, "not refused: %s", message);
    cr_assert_null(reshard);
    cr_assert_eq(error->status, FERRY_E_INVALID);
    cr_assert_str_eq(error->message, message);
    ferry_error_release(error);
    cr_assert_eq(create(self, &reshard, NULL), FERRY_E_INVALID);
}

Test(reshard_inputs, names_what_is_wrong_with_the_array)
{
    sheet s;
    begin(&s);
    s.shape[1] = 0;
    expect(&s, "dimension 1 of the shape is 0");
    begin(&s);
    s.dimension_count = 0;
    expect(&s, "the shape has 0 dimensions; it may have 1 to 8");
    s.dimension_count = 9;
    expect(&s, "the shape has 9 dimensions; it may have 1 to 8");
    begin(&s);
    s.element_bytes = 0;
    expect(&s, "element_bytes is 0");
    begin(&s);
    s.shape[0] = s.shape[1] = (uint64_t)1 << 32;
    expect(&s, "the array has 2^63 bytes or more: elements of 4 bytes times the shape up to "
               "dimension 1");
    s.shape[0] = (uint64_t)1 << 61;
    expect(&s, "the array has 2^63 bytes or more: elements of 4 bytes times the shape up to "
               "dimension 0");
    begin(&s);
    s.shape[0] = (uint64_t)1 << 60;
    s.shape[1] = 1;
    s.other.axes = &(ferry_mesh_axis){"copies", 4};
    s.other.axis_count = 1;
    expect(&s, "`to`: the parts of all positions together have 2^63 bytes or more");
}

Test(reshard_inputs, names_what_is_wrong_with_a_mesh)
{
    sheet s;
    begin(&s);
    s.axes[1].name = "data";
    expect(&s, "`from`: the mesh has two axes \"data\"");
    s.axes[1].name = "";
    expect(&s, "`from`: axis 1 of the mesh has no name");
    s.axes[1].name = NULL;
    expect(&s, "`from`: axis 1 of the mesh has no name");
    begin(&s);
    s.axes[0].size = 0;
    expect(&s, "`from`: axis \"data\" of the mesh has size 0; it may have 1 to 65536");
    s.axes[0].size = (uint64_t)1 << 40;
    expect(&s, "`from`: axis \"data\" of the mesh has size 1099511627776; it may have 1 to 65536");
    s.axes[0].size = 65536;
    expect(&s, "`from`: the mesh has more than 65536 positions");
    s.axes[0].size = 4096;
    expect(&s, "`from`: the mesh has 8192 positions and names no ranks; a group has at most 4096 "
               "members");
    begin(&s);
    s.layout.axis_count = FERRY_RESHARD_AXES_MAX + 1;
    expect(&s, "`from`: the mesh has 17 axes; it may have up to 16");
    s.layout.axis_count = 1;
    s.layout.axes = NULL;
    expect(&s, "`from`: the mesh has 1 axes, which are NULL; it may have up to 16");
    begin(&s);
    const ferry_rank ranks[] = {0, 1, 2, 3, 4, 5, 6, 4096};
    s.layout.ranks = ranks;
    s.layout.rank_count = 6;
    expect(&s, "`from`: the mesh has 8 positions, but 6 ranks");
    s.layout.rank_count = 8;
    expect(&s, "`from`: position 7 is of rank 4096; a group has at most 4096 members");
    s.layout.ranks = NULL;
    expect(&s, "`from`: the mesh has 8 positions, but 8 ranks, which are NULL");
}

Test(reshard_inputs, names_what_is_wrong_with_splits)
{
    sheet s;
    begin(&s);
    s.layout.split_count = 1;
    expect(&s, "`from`: the shape has 2 dimensions, but 1 splits");
    s.layout.split_count = 2;
    s.layout.splits = NULL;
    expect(&s, "`from`: the shape has 2 dimensions, but 2 splits, which are NULL");
    begin(&s);
    s.names[1] = "data";
    expect(&s, "`from`: axis \"data\" is named twice, the second time for dimension 1");
    s.splits[0].axis_count = 2;
    expect(&s, "`from`: axis \"data\" is named twice, the second time for dimension 0");
    begin(&s);
    s.names[1] = "expert";
    expect(&s, "`from`: dimension 1 is split by axis \"expert\", which the mesh does not have");
    s.names[1] = NULL;
    expect(&s, "`from`: dimension 1 is split by axis \"(NULL)\", which the mesh does not have");
    begin(&s);
    s.splits[1].axes = NULL;
    expect(&s, "`from`: dimension 1 is split by 1 axes, which are NULL");
    begin(&s);
    s.layout.struct_size = 3;
    expect(&s, "`from`: struct_size is invalid, or unknown fields are set: use FERRY_LAYOUT_INIT");
    begin(&s);
    s.other.struct_size = 0;
    expect(&s, "`to`: struct_size is invalid, or unknown fields are set: use FERRY_LAYOUT_INIT");
}

Test(reshard_inputs, refuses_what_is_null)
{
    sheet s;
    ferry_reshard *reshard = NULL;
    ferry_error *error = NULL;
    begin(&s);
    cr_assert_eq(ferry_reshard_create(NULL, 2, 4, &s.layout, &s.other, &reshard, &error),
                 FERRY_E_INVALID);
    cr_assert_str_eq(error->message, "shape is NULL");
    ferry_error_release(error);
    cr_assert_eq(ferry_reshard_create(s.shape, 2, 4, NULL, &s.other, &reshard, &error),
                 FERRY_E_INVALID);
    cr_assert_str_eq(error->message, "`from` is NULL");
    ferry_error_release(error);
    cr_assert_eq(create(&s, NULL, &error), FERRY_E_INVALID);
    cr_assert_str_eq(error->message, "reshard_p is NULL");
    ferry_error_release(error);
    ferry_reshard_release(NULL);
    cr_assert_eq(create(&s, &reshard, NULL), FERRY_OK);
    ferry_reshard_info info = FERRY_RESHARD_INFO_INIT;
    ferry_reshard_part part = FERRY_RESHARD_PART_INIT;
    ferry_reshard_move move = FERRY_RESHARD_MOVE_INIT;
    ferry_reshard_member member = FERRY_RESHARD_MEMBER_INIT;
    cr_assert_eq(ferry_reshard_describe(NULL, &info), FERRY_E_INVALID);
    cr_assert_eq(ferry_reshard_describe(reshard, NULL), FERRY_E_INVALID);
    cr_assert_eq(ferry_reshard_part_at(reshard, FERRY_RESHARD_FROM, 8, &part), FERRY_E_NOT_FOUND);
    cr_assert_eq(ferry_reshard_part_at(reshard, FERRY_RESHARD_TO, 1, &part), FERRY_E_NOT_FOUND);
    cr_assert_eq(ferry_reshard_part_at(reshard, (ferry_reshard_side)2, 0, &part), FERRY_E_INVALID);
    cr_assert_eq(ferry_reshard_part_at(reshard, FERRY_RESHARD_FROM, 0, NULL), FERRY_E_INVALID);
    cr_assert_eq(ferry_reshard_move_at(reshard, 8, &move), FERRY_E_NOT_FOUND);
    cr_assert_eq(ferry_reshard_move_at(reshard, 0, NULL), FERRY_E_INVALID);
    cr_assert_eq(ferry_reshard_member_at(reshard, 0, NULL), FERRY_E_INVALID);
    cr_assert_eq(ferry_reshard_member_at(reshard, 4000, &member), FERRY_OK);
    cr_assert_eq(member.in_bytes + member.out_bytes + member.from_count, 0);
    member.struct_size = 1;
    cr_assert_eq(ferry_reshard_member_at(reshard, 0, &member), FERRY_E_INVALID);
    ferry_reshard_release(reshard);
}

/* 2^34 rows of 2^20 elements, gathered: sizes need 64 bits everywhere. */
Test(reshard_inputs, counts_in_64_bits)
{
    sheet s;
    ferry_reshard *reshard = NULL;
    begin(&s);
    s.shape[0] = (uint64_t)1 << 34;
    s.shape[1] = (uint64_t)1 << 20;
    cr_assert_eq(create(&s, &reshard, NULL), FERRY_E_INVALID); /* the pieces would be too many */
    s.layout.split_count = 0;
    s.layout.splits = NULL;
    s.other.axes = s.axes;
    s.other.axis_count = 2;
    s.splits[1].axis_count = 0;
    s.other.splits = s.splits;
    s.other.split_count = 2;
    s.layout.axis_count = 0;
    cr_assert_eq(create(&s, &reshard, NULL), FERRY_OK);
    ferry_reshard_info info = FERRY_RESHARD_INFO_INIT;
    ferry_reshard_part part = FERRY_RESHARD_PART_INIT;
    (void)ferry_reshard_describe(reshard, &info);
    cr_assert_eq(info.array_bytes, (uint64_t)1 << 56);
    /* Position 0 has its part and copies it; 7 others get one, of a quarter each. */
    cr_assert_eq(info.crossing_bytes, 7 * ((uint64_t)1 << 54));
    cr_assert_eq(info.local_bytes, (uint64_t)1 << 54);
    cr_assert_eq(info.busiest_bytes, info.bound_bytes);
    cr_assert_eq(ferry_reshard_part_at(reshard, FERRY_RESHARD_TO, 7, &part), FERRY_OK);
    cr_assert_eq(part.offset[0], 3 * ((uint64_t)1 << 32));
    cr_assert_eq(part.extent[0], (uint64_t)1 << 32);
    ferry_reshard_release(reshard);
}

/* Every member wants all 8,192 blocks. */
Test(reshard_inputs, refuses_more_moves_than_there_may_be)
{
    static ferry_rank ranks[8192];
    const ferry_mesh_axis many = {"all", 8192}, members = {"all", 4096};
    const char *name = "all";
    const ferry_split split = {&name, 1};
    const uint64_t shape[] = {(uint64_t)1 << 40};
    for (uint32_t i = 0; i < 8192; i++)
        ranks[i] = i / 2;
    ferry_layout from = {sizeof from, &many, 1, ranks, 8192, &split, 1};
    ferry_layout to = {sizeof to, &members, 1, NULL, 0, NULL, 0};
    ferry_reshard *reshard = NULL;
    ferry_error *error = NULL;
    cr_assert_eq(ferry_reshard_create(shape, 1, 1, &from, &to, &reshard, &error), FERRY_E_INVALID);
    cr_assert_str_eq(error->message, "the reshard takes more than 16777216 moves");
    ferry_error_release(error);
}

static ferry_status make(ferry_reshard *reshard, const reshard_case *of)
{
    fry_reshard_wrong wrong = {.status = FERRY_OK};
    if (fry_reshard_array_read(&reshard->array, of->shape, of->dimension_count, of->element_bytes,
                               &wrong) == FERRY_OK &&
        fry_reshard_layout_read(&reshard->layouts[0], &reshard->memory, &reshard->array,
                                &of->sides[0].layout, "from", &wrong) == FERRY_OK &&
        fry_reshard_layout_read(&reshard->layouts[1], &reshard->memory, &reshard->array,
                                &of->sides[1].layout, "to", &wrong) == FERRY_OK)
        (void)fry_reshard_schedule_make(reshard, &wrong);
    return wrong.status;
}

Test(reshard_inputs, leaves_nothing_behind_without_memory)
{
    for (uint64_t seed = 1; seed < 40; seed++) {
        reshard_case of;
        ferry_status status = FERRY_E_NO_MEMORY;
        reshard_case_make(&of, seed, RESHARD_MEMBERS, 500);
        for (uint64_t nth = 1; status != FERRY_OK; nth++) {
            failing_allocator memory;
            failing_allocator_init(&memory);
            ferry_allocator allocator = failing_allocator_interface(&memory);
            ferry_reshard reshard = {.rank_count = 0};
            fry_memory_init(&reshard.memory, &allocator);
            failing_allocator_arm(&memory, nth, false);
            status = make(&reshard, &of);
            cr_assert(status == FERRY_OK || status == FERRY_E_NO_MEMORY);
            cr_assert(status != FERRY_OK || nth > 10);
            fry_reshard_schedule_free(&reshard);
            cr_assert_eq(failing_allocator_live_bytes(&memory), 0);
        }
    }
}
