/* SPDX-License-Identifier: Apache-2.0 */
/* Joining, leaving, dying, coming again. */
#include "tests/support/group_rig.h"

#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

#define SEEDS 20

static bool every_one(const group_rig *rig, size_t count, ferry_member_state state, uint32_t rank)
{
    for (size_t i = 0; i < count; i++) {
        if (rig->members[i].group != NULL &&
            fry_group_member_at(rig->members[i].group, rank)->state != state)
            return false;
    }
    return true;
}

Test(net_group, ranks_as_given, .timeout = 60)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        group_rig rig;

        rig_open(&rig, 4, seed);
        rig_join_all(&rig, 0, 4, false);
        for (uint32_t i = 0; i < 4; i++) {
            const fry_group *group = rig.members[i].group;

            cr_assert_eq(fry_group_rank(group), i);
            cr_assert_eq(fry_group_size(group), 4);
            cr_assert_eq(fry_group_incarnation(group), 1);
            for (uint32_t rank = 0; rank < 4; rank++) {
                const fry_group_member *member = fry_group_member_at(group, rank);

                cr_assert_eq(member->state, FERRY_MEMBER_HERE);
                cr_assert_eq(member->first_device, rank);
                cr_assert_str_eq(member->endpoint, "endpoint");
                cr_assert_eq(member->pid, getpid());
            }
            cr_assert_null(fry_group_member_at(group, 4));
        }
        rig_close(&rig);
    }
}

Test(net_group, ranks_assigned, .timeout = 60)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        group_rig rig;
        uint32_t seen = 0;

        rig_open(&rig, 8, seed);
        rig_join_all(&rig, 0, 8, true);
        for (uint32_t i = 0; i < 8; i++)
            seen |= 1U << fry_group_rank(rig.members[i].group);
        cr_assert_eq(seen, 0xff);
        rig_close(&rig);
    }
}

Test(net_group, leaving_is_told, .timeout = 60)
{
    group_rig rig;

    rig_open(&rig, 3, 1);
    rig_join_all(&rig, 0, 3, false);
    rig_leave(&rig, 1);
    rig_settle(&rig);
    cr_assert(every_one(&rig, 3, FERRY_MEMBER_LEFT, 1));
    cr_assert_eq(rig.members[0].history_count, 1);
    rig_close(&rig);
}

Test(net_group, a_barrier_meets, .timeout = 60)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        group_rig rig;
        rig_ask asks[5];

        rig_open(&rig, 5, seed);
        rig_join_all(&rig, 0, 5, true);
        for (int round = 0; round < 5; round++) {
            for (size_t i = 0; i < 4; i++)
                rig_barrier(&rig, i, &asks[i], "here", 0);
            rig_settle(&rig);
            for (size_t i = 0; i < 4; i++)
                cr_assert(!asks[i].is_done);
            rig_barrier(&rig, 4, &asks[4], "here", 0);
            for (size_t i = 0; i < 5; i++)
                cr_assert_eq(rig_answer(&rig, &asks[i]), FERRY_OK);
        }
        rig_close(&rig);
    }
}

Test(net_group, values, .timeout = 60)
{
    group_rig rig;
    rig_ask get, set, try_, watch;

    rig_open(&rig, 2, 1);
    rig_join_all(&rig, 0, 2, false);
    rig_ask_begin(&rig, 0, &try_, FRY_GROUP_TRY_GET, "a/key");
    fry_group_submit(rig.members[0].group, &try_.request);
    cr_assert_eq(rig_answer(&rig, &try_), FERRY_E_NOT_FOUND);
    rig_ask_begin(&rig, 0, &get, FRY_GROUP_GET, "a/key");
    fry_group_submit(rig.members[0].group, &get.request);
    rig_settle(&rig);
    cr_assert(!get.is_done);
    rig_ask_begin(&rig, 1, &set, FRY_GROUP_SET, "a/key");
    set.request.value = "value";
    set.request.value_bytes = 5;
    fry_group_submit(rig.members[1].group, &set.request);
    cr_assert_eq(rig_answer(&rig, &set), FERRY_OK);
    cr_assert_eq(rig_answer(&rig, &get), FERRY_OK);
    cr_assert_str_eq(get.value, "value");
    cr_assert_eq(get.version, set.version);
    rig_ask_begin(&rig, 0, &watch, FRY_GROUP_WATCH, "a/key");
    watch.request.version = get.version;
    fry_group_submit(rig.members[0].group, &watch.request);
    rig_settle(&rig);
    cr_assert(!watch.is_done);
    rig_ask_begin(&rig, 1, &set, FRY_GROUP_SET, "a/key");
    set.request.value = "other";
    set.request.value_bytes = 5;
    fry_group_submit(rig.members[1].group, &set.request);
    cr_assert_eq(rig_answer(&rig, &watch), FERRY_OK);
    cr_assert_str_eq(watch.value, "other");
    rig_close(&rig);
}
