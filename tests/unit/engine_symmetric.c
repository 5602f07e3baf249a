/* SPDX-License-Identifier: Apache-2.0 */
/* Each reason for which an ask for symmetric memory is refused is given for its cause. */
#include "engine/ground/refusal.h"
#include "engine/messages/symmetric.h"
#include "engine/messages/symmetric_past.h"
#include "tests/support/member_test.h"

#include <stdlib.h>

MEMBER_SUITE(engine_symmetric);

/* Gives the future back. */
static void expect(fry_refusal why, ferry_future *future)
{
    const ferry_error *error = ferry_future_error(future);
    cr_assert_not_null(error);
    cr_assert_str_eq(error->message, fry_refusal_error(why)->public_.message);
    ASSERT_STATUS(ferry_future_poll(future), fry_refusal_status(why));
    ferry_future_release(future);
}

/* As if it had asked for all the names that it may ask for. */
static void expect_no_more_names(ferry_group *group, ferry_device *device, uint64_t members_number)
{
    ferry_symmetric *none = NULL;
    uint32_t count = group->past_count, room = group->past_room;
    fry_symmetric_past *past = group->past;
    group->past = calloc(FERRY_SYMMETRIC_NAMES_MAX, sizeof *past);
    cr_assert_not_null(group->past);
    for (uint32_t i = 0; i < FERRY_SYMMETRIC_NAMES_MAX; i++)
        group->past[i].members = members_number;
    group->past_count = group->past_room = FERRY_SYMMETRIC_NAMES_MAX;
    expect(FRY_REFUSED_SYMMETRIC_NAMES, ferry_symmetric_alloc(group, device, 2, "s", 0, &none));
    cr_assert_null(none);
    free(group->past);
    group->past = past;
    group->past_count = count;
    group->past_room = room;
}

Test(engine_symmetric, each_reason_is_given_for_its_cause)
{
    begin_members(2, FERRY_LOOP_EMBEDDED);
    ferry_group *group = members[0].group;
    ferry_symmetric *none = NULL, *held = NULL;
    ferry_device *device = ferry_device_at(members[0].te.engine, 0);
    ferry_device *second = ferry_device_at(members[0].te.engine, 1);
    ferry_device *theirs = ferry_device_at(members[1].te.engine, 0);
    expect(FRY_REFUSED_GROUP_NULL, ferry_symmetric_alloc(NULL, device, 1, "s", 0, &none));
    expect(FRY_REFUSED_SYMMETRIC_NULL, ferry_symmetric_alloc(group, device, 1, "s", 0, NULL));
    expect(FRY_REFUSED_DEVICE_NULL, ferry_symmetric_alloc(group, NULL, 1, "s", 0, &none));
    expect(FRY_REFUSED_SYMMETRIC_ENGINE, ferry_symmetric_alloc(group, theirs, 1, "s", 0, &none));
    expect(FRY_REFUSED_SYMMETRIC_NAME, ferry_symmetric_alloc(group, device, 1, "+", 0, &none));
    expect(FRY_REFUSED_SYMMETRIC_SIZE, ferry_symmetric_alloc(group, device, 0, "s", 0, &none));
    expect(FRY_REFUSED_DEADLINE, ferry_symmetric_alloc(group, device, 1, "s", -1, &none));
    group->options.kind = FERRY_GROUP_OPEN;
    expect(FRY_REFUSED_SYMMETRIC_OPEN, ferry_symmetric_alloc(group, device, 1, "s", 0, &none));
    group->options.kind = FERRY_GROUP_CLOSED;
    ferry_future *ask = ferry_symmetric_alloc(group, device, 1, "s", 0, &held);
    expect(FRY_REFUSED_SYMMETRIC_DEVICE, ferry_symmetric_alloc(group, second, 1, "s", 0, &none));
    expect_no_more_names(group, device, held->memory->members);
    cr_assert_null(none);
    ferry_symmetric_release(held);
    AWAIT(ask, E_NOT_FOUND);
}
