/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reshards of real bytes: several engines of one process, each with a plan of its own part, which
 * it has computed by itself.
 */
#include "tests/support/member_test.h"
#include "tests/support/place.h"
#include "tests/support/reshard_case.h"

#include <stdlib.h>

static void need_channels(void)
{
    PLACE_NEEDS(place_lacks_ucx);
}

MEMBER_SUITE(reshard_members, .init = need_channels);

enum { ROUNDS = 3 };

/* What a member has of a case: a buffer for each of its positions, on its devices by turns. */
typedef struct part {
    ferry_buffer *buffers[2][RESHARD_POSITIONS]; /* by position; NULL: another's, or empty */
    ferry_span spans[2][RESHARD_POSITIONS];      /* in the order of its positions */
    size_t counts[2];
    ferry_plan *plan;
} part;

static part parts[MEMBERS_MAX];

static ferry_reshard *reshard_of(const reshard_case *of)
{
    ferry_reshard *reshard = reshard_case_create(of);
    cr_assert_not_null(reshard);
    return reshard;
}

/* A byte of an element in a round. */
static unsigned char byte_of(uint64_t element, uint64_t byte, uint64_t round)
{
    return (unsigned char)((element * 31 + byte * 7 + round * 101) * 2654435761u >> 16);
}

/* Fills the bytes of a position, or compares them. */
static bool pass_over(const reshard_case *of, const ferry_reshard *reshard, int side,
                      uint32_t position, unsigned char *bytes, uint64_t round, bool is_filled)
{
    ferry_reshard_part at = FERRY_RESHARD_PART_INIT;
    cr_assert_eq(ferry_reshard_part_at(reshard, (ferry_reshard_side)side, position, &at), FERRY_OK);
    for (uint64_t i = 0; i < at.size_bytes; i++) {
        uint64_t element = reshard_case_element(of, at.offset, at.extent, i / of->element_bytes);
        unsigned char byte = byte_of(element, i % of->element_bytes, round);
        if (!is_filled)
            bytes[i] = byte;
        else if (bytes[i] != byte)
            return false;
    }
    return true;
}

/* The margin before and behind a part must stay as it is. */
enum { MARGIN = 64 };

static void open_part(size_t member, const reshard_case *of, const ferry_reshard *reshard)
{
    part *self = &parts[member];
    memset(self, 0, sizeof *self);
    for (int side = 0; side < 2; side++) {
        for (uint32_t p = 0; p < of->sides[side].position_count; p++) {
            ferry_reshard_part at = FERRY_RESHARD_PART_INIT;
            (void)ferry_reshard_part_at(reshard, (ferry_reshard_side)side, p, &at);
            if (at.rank != member)
                continue;
            cr_assert_eq(at.index, self->counts[side]);
            ferry_span *span = &self->spans[side][self->counts[side]++];
            if (at.size_bytes == 0)
                continue;
            ferry_buffer *buffer = test_buffer(&members[member].te, at.index % TEST_DEVICES,
                                               at.size_bytes + 2 * (size_t)MARGIN, 0xee);
            self->buffers[side][p] = buffer;
            *span = (ferry_span){buffer, MARGIN, at.size_bytes};
        }
    }
}

static void close_part(size_t member)
{
    part *self = &parts[member];
    ferry_plan_release(self->plan);
    for (int side = 0; side < 2; side++) {
        for (size_t p = 0; p < RESHARD_POSITIONS; p++)
            ferry_buffer_release(self->buffers[side][p]);
    }
}

static ferry_status plan_part(size_t member, const ferry_reshard *reshard, uint64_t scratch,
                              ferry_error **error_p)
{
    part *self = &parts[member];
    ferry_reshard_options options = FERRY_RESHARD_OPTIONS_INIT;
    options.from = self->spans[0];
    options.from_count = self->counts[0];
    options.to = self->spans[1];
    options.to_count = self->counts[1];
    options.tag = 7;
    options.scratch_bytes_max = scratch;
    return ferry_reshard_plan(members[member].group, reshard, &options, &self->plan, error_p);
}

/* As little scratch as will do: moves take it by turns. */
static void plan_tightly(size_t member, const ferry_reshard *reshard)
{
    ferry_error *error = NULL;
    ferry_status status = FERRY_E_INVALID;
    for (uint64_t scratch = 64; status == FERRY_E_INVALID; scratch *= 2) {
        ferry_error_release(error);
        status = plan_part(member, reshard, scratch, &error);
        cr_assert(status == FERRY_OK || strstr(error->message, "scratch_bytes_max is") != NULL,
                  "%s", error->message);
        if (status == FERRY_OK)
            error = NULL;
    }
    ASSERT_STATUS(status, FERRY_OK);
}

static bool has_margins(ferry_buffer *buffer)
{
    const unsigned char *bytes = ferry_buffer_data(buffer);
    size_t size = ferry_buffer_size_bytes(buffer);
    for (size_t i = 0; i < MARGIN; i++) {
        if (bytes[i] != 0xee || bytes[size - 1 - i] != 0xee)
            return false;
    }
    return true;
}

static void run_round(const reshard_case *of, const ferry_reshard *reshard, uint64_t round,
                      uint64_t seed)
{
    ferry_future *posts[MEMBERS_MAX];
    for (uint32_t p = 0; p < of->sides[0].position_count; p++) {
        ferry_buffer *buffer = parts[reshard_case_rank(of, 0, p)].buffers[0][p];
        if (buffer != NULL)
            (void)pass_over(of, reshard, 0, p, (unsigned char *)ferry_buffer_data(buffer) + MARGIN,
                            round, false);
    }
    for (uint32_t i = 0; i < member_count; i++)
        posts[i] = ferry_plan_post(parts[i].plan, NULL, 0, NULL);
    for (uint32_t i = 0; i < member_count; i++)
        AWAIT(posts[i], OK);
    for (uint32_t p = 0; p < of->sides[1].position_count; p++) {
        ferry_buffer *buffer = parts[reshard_case_rank(of, 1, p)].buffers[1][p];
        cr_assert(buffer == NULL || (pass_over(of, reshard, 1, p,
                                               (unsigned char *)ferry_buffer_data(buffer) + MARGIN,
                                               round, true) &&
                                     has_margins(buffer)),
                  "seed %llu, round %llu, position %u", (unsigned long long)seed,
                  (unsigned long long)round, p);
    }
}

static void run_case(uint64_t seed, uint32_t count, uint64_t elements)
{
    reshard_case of;
    reshard_case_make(&of, seed, count, elements);
    for (uint32_t i = 0; i < member_count; i++) {
        ferry_reshard *reshard = reshard_of(&of);
        open_part(i, &of, reshard);
        if (seed % 2 == 0)
            ASSERT_STATUS(plan_part(i, reshard, 0, NULL), FERRY_OK);
        else
            plan_tightly(i, reshard);
        ferry_reshard_release(reshard);
    }
    ferry_reshard *reshard = reshard_of(&of);
    for (uint64_t round = 0; round < ROUNDS; round++)
        run_round(&of, reshard, round, seed);
    ferry_reshard_release(reshard);
    for (uint32_t i = 0; i < member_count; i++)
        close_part(i);
}

/* Every case has some of these members, from 2 up. */
static void run_cases(uint32_t count, ferry_loop_mode loop, uint64_t first, uint64_t cases,
                      uint64_t elements)
{
    begin_members(count, loop);
    for (uint64_t seed = first; seed < first + cases; seed++)
        run_case(seed, count, elements);
}

Test(reshard_members, bring_all_bytes_of_random_layouts)
{
    run_cases(4, FERRY_LOOP_THREAD, 1, SEEDS_OF(150), 2000);
}

Test(reshard_members, bring_all_bytes_of_embedded_engines)
{
    run_cases(3, FERRY_LOOP_EMBEDDED, 1000, SEEDS_OF(60), 500);
}

Test(reshard_members, bring_all_bytes_of_large_arrays)
{
    run_cases(4, FERRY_LOOP_THREAD, 2000, SEEDS_OF(30), 200000);
}
