/* SPDX-License-Identifier: Apache-2.0 */
/* Joining, leaving, dying, coming again. */
#include "net/group/members.h"
#include "tests/unit/group_test.h"

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

SEEDED(net_group, ranks_as_given)
{
    GROUP_JOINED(rig, 4, seed);
    for (uint32_t i = 0; i < 4; i++) {
        const fry_group *group = rig.members[i].group;

        cr_assert_eq(fry_group_rank(group), (int32_t)i);
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
}

SEEDED(net_group, ranks_assigned)
{
    uint32_t seen = 0;

    GROUP_RIG(rig, 8, seed);
    rig_join_all(&rig, 0, 8, true);
    for (uint32_t i = 0; i < 8; i++)
        seen |= 1U << fry_group_rank(rig.members[i].group);
    cr_assert_eq(seen, 0xff);
}

Test(net_group, leaving_is_told, .timeout = 60)
{
    GROUP_JOINED(rig, 3, 1);
    rig_leave(&rig, 1);
    rig_settle(&rig);
    cr_assert(every_one(&rig, 3, FERRY_MEMBER_LEFT, 1));
    cr_assert_eq(rig.members[0].history_count, 1);
}

SEEDED(net_group, a_barrier_meets)
{
    rig_ask asks[5];

    GROUP_RIG(rig, 5, seed);
    rig_join_all(&rig, 0, 5, true);
    for (int round = 0; round < 5; round++) {
        come(&rig, asks, 0, 4, NOBODY, "here", 0);
        rig_settle(&rig);
        expect_none_done(asks, 0, 4);
        rig_barrier(&rig, 4, &asks[4], "here", 0);
        expect_answers(&rig, asks, 0, 5, NOBODY, FERRY_OK);
    }
}

Test(net_group, values, .timeout = 60)
{
    rig_ask get, set, try_, watch;

    GROUP_JOINED(rig, 2, 1);
    ask_for(&rig, 0, &try_, FRY_GROUP_TRY_GET, "a/key");
    cr_assert_eq(rig_answer(&rig, &try_), FERRY_E_NOT_FOUND);
    ask_for(&rig, 0, &get, FRY_GROUP_GET, "a/key");
    rig_settle(&rig);
    cr_assert(!get.is_done);
    rig_ask_begin(&rig, 1, &set, FRY_GROUP_SET, "a/key");
    set.request.value = "value";
    set.request.value_bytes = 5;
    submit(&rig, 1, &set);
    cr_assert_eq(rig_answer(&rig, &set), FERRY_OK);
    cr_assert_eq(rig_answer(&rig, &get), FERRY_OK);
    cr_assert_str_eq(get.value, "value");
    cr_assert_eq(get.version, set.version);
    rig_ask_begin(&rig, 0, &watch, FRY_GROUP_WATCH, "a/key");
    watch.request.version = get.version;
    submit(&rig, 0, &watch);
    rig_settle(&rig);
    cr_assert(!watch.is_done);
    rig_ask_begin(&rig, 1, &set, FRY_GROUP_SET, "a/key");
    set.request.value = "other";
    set.request.value_bytes = 5;
    submit(&rig, 1, &set);
    cr_assert_eq(rig_answer(&rig, &watch), FERRY_OK);
    cr_assert_str_eq(watch.value, "other");
}

/* ---- dying and coming again ---- */

SEEDED(net_group, killed_then_started_anew)
{
    GROUP_JOINED(rig, 3, seed);
    rig_kill(&rig, 1);
    /* At once: the old lease has yet to end. */
    begin_join(&rig, 1, 3, 1);
    rig_pass(&rig, RIG_SECOND_NS);
    cr_assert(!rig.members[1].is_joined);
    cr_assert(every_one(&rig, 1, FERRY_MEMBER_HERE, 1));
    join_within(&rig, 1, RIG_LEASE_NS + RIG_SECOND_NS, FERRY_OK);
    rig_settle(&rig);
    cr_assert(every_one(&rig, 3, FERRY_MEMBER_HERE, 1));
    cr_assert_eq(fry_group_incarnation(rig.members[1].group), 2);
    for (size_t i = 0; i < 3; i += 2) {
        const rig_news *news = rig.members[i].history;

        cr_assert_eq(rig.members[i].history_count, 2);
        cr_assert(news[0].rank == 1 && news[0].incarnation == 1);
        cr_assert_eq(news[0].state, FERRY_MEMBER_DEAD);
        cr_assert(news[1].rank == 1 && news[1].incarnation == 2);
        cr_assert_eq(news[1].state, FERRY_MEMBER_HERE);
    }
}

SEEDED(net_group, stopped_for_longer_than_its_lease)
{
    rig_ask before, after;

    GROUP_JOINED(rig, 3, seed);
    rig_barrier(&rig, 2, &before, "b", 0);
    rig.members[2].is_stopped = true;
    rig_pass(&rig, RIG_LEASE_NS - 2 * RIG_SECOND_NS);
    cr_assert(every_one(&rig, 2, FERRY_MEMBER_HERE, 2));
    rig_pass(&rig, 3 * RIG_SECOND_NS);
    cr_assert(every_one(&rig, 2, FERRY_MEMBER_DEAD, 2));
    cr_assert(!rig.members[2].is_fenced);
    rig.members[2].is_stopped = false;
    cr_assert(rig_until(&rig, is_fenced, &rig.members[2], RIG_SECOND_NS));
    cr_assert_eq(rig_answer(&rig, &before), FERRY_E_FENCED);
    rig_barrier(&rig, 2, &after, "b", 0);
    cr_assert_eq(rig_answer(&rig, &after), FERRY_E_FENCED);
}

Test(net_group, stopped_for_less_than_its_lease, .timeout = 60)
{
    GROUP_JOINED(rig, 3, 1);
    rig.members[2].is_stopped = true;
    rig_pass(&rig, RIG_LEASE_NS - 2 * RIG_SECOND_NS);
    rig.members[2].is_stopped = false;
    rig_pass(&rig, 2 * RIG_LEASE_NS);
    cr_assert(every_one(&rig, 3, FERRY_MEMBER_HERE, 2));
    cr_assert(!rig.members[2].is_fenced);
}

SEEDED(net_group, of_two_that_claim_a_rank_one_gets_it)
{
    uint32_t got = 0, fenced = 0;

    GROUP_RIG(rig, 3, seed);
    begin_join(&rig, 0, 2, 0);
    begin_join(&rig, 1, 2, 1);
    begin_join(&rig, 2, 2, 1);
    rig_pass(&rig, RIG_LEASE_NS + 2 * RIG_SECOND_NS);
    for (size_t i = 0; i < 3; i++) {
        cr_assert(rig.members[i].is_joined);
        got += rig.members[i].status == FERRY_OK;
        fenced += rig.members[i].status == FERRY_E_FENCED;
    }
    cr_assert(got == 2 && fenced == 1);
    cr_assert_eq(rig.members[0].status, FERRY_OK);
    const size_t loser = rig.members[1].status == FERRY_OK ? 2 : 1;
    cr_assert(strstr(rig.members[loser].message, "rank of job job is another live member's"));
}

/* Who is nobody's former start, as it has neither rank nor place, is told at once. */
Test(net_group, one_too_many, .timeout = 60)
{
    for (uint32_t size = 0; size <= 2; size += 2) {
        GROUP_RIG(rig, 3, 1);
        for (size_t i = 0; i < 3; i++) {
            fry_group_options options = rig_options(&rig, i, size, FRY_RANK_ANY);

            if (i == 2)
                rig_pass(&rig, 4 * RIG_SECOND_NS);
            options.deadline_ns = fry_clock_now_ns(&rig.clock) + 3 * RIG_SECOND_NS;
            rig_join(&rig, i, &options);
        }
        rig_settle(&rig);
        expect_join(&rig, 2, FERRY_E_FENCED);
        cr_assert_str_eq(rig.members[2].message,
                         "this member came late: the group of job job is closed, formed with 2 "
                         "members before, and all of them are alive; a start with the rank or "
                         "place of one that ends is let in");
        /* A rank is free when one of them goes. */
        rig_shut(&rig, 2);
        const int32_t rank = fry_group_rank(rig.members[0].group);
        rig_leave(&rig, 0);
        begin_join_until(&rig, 2, size, FRY_RANK_ANY, 0, 20 * RIG_SECOND_NS);
        rig_settle(&rig);
        cr_assert_eq(rig.members[2].status, FERRY_OK, "%s", rig.members[2].message);
        cr_assert_eq(fry_group_rank(rig.members[2].group), rank);
    }
}

/* One of them may be dead, for all that is known: then it waits until that is known. */
Test(net_group, one_too_many_while_one_is_missing, .timeout = 60)
{
    for (int has_died = 0; has_died < 2; has_died++) {
        GROUP_RIG(rig, 3, 1);
        for (size_t i = 0; i < 2; i++)
            begin_join(&rig, i, 2, FRY_RANK_ANY);
        rig_settle(&rig);
        if (has_died)
            rig_kill(&rig, 0);
        else
            rig.members[0].is_stopped = true;
        rig_pass(&rig, RIG_LEASE_NS);
        begin_join(&rig, 2, 2, FRY_RANK_ANY);
        rig_settle(&rig);
        cr_assert(!rig.members[2].is_joined);
        rig.members[0].is_stopped = false;
        rig_pass(&rig, RIG_LEASE_NS);
        cr_assert(rig.members[2].is_joined);
        cr_assert_eq(rig.members[2].status, has_died ? FERRY_OK : FERRY_E_FENCED);
        cr_assert_eq(strncmp(rig.members[2].message, "this member came late", 21) == 0, !has_died);
    }
}

SEEDED(net_group, a_job_begun_anew_at_once)
{
    GROUP_JOINED(rig, 4, seed);
    for (int again = 0; again < 3; again++) {
        /* Some leave, some are killed, and one is slow to come again. */
        for (size_t i = 0; i < 4; i++) {
            if (rig_random(&rig, 2) == 0)
                rig_leave(&rig, i);
            else
                rig_kill(&rig, i);
        }
        for (size_t i = 0; i < 3; i++)
            begin_join(&rig, i, 4, (int32_t)i);
        rig_pass(&rig, (int64_t)rig_random(&rig, 8) * RIG_SECOND_NS);
        for (size_t i = 0; i < 3; i++)
            cr_assert(!rig.members[i].is_joined, "seed %d", (int)seed);
        begin_join(&rig, 3, 4, 3);
        rig_pass(&rig, RIG_LEASE_NS + 2 * RIG_SECOND_NS);
        for (size_t i = 0; i < 4; i++) {
            cr_assert(rig.members[i].is_joined, "seed %d", (int)seed);
            cr_assert_eq(rig.members[i].status, FERRY_OK, "%s", rig.members[i].message);
            cr_assert_eq(fry_group_incarnation(rig.members[i].group), (uint64_t)again + 2,
                         "seed %d again %d member %d: %d", (int)seed, again, (int)i,
                         (int)fry_group_incarnation(rig.members[i].group));
            cr_assert_eq(rig.members[i].history_count, 0);
        }
    }
}

Test(net_group, places_keep_ranks_and_devices, .timeout = 60)
{
    static const char *const places[] = {"node10.gpu0", "node9.gpu1", "node9.gpu0"};
    static const int32_t ranks[] = {2, 1, 0};

    GROUP_RIG(rig, 4, 1);
    for (size_t i = 0; i < 3; i++) {
        fry_group_options options = rig_options(&rig, i, 3, FRY_RANK_ANY);

        options.place = places[i];
        options.device_count = (uint32_t)ranks[i] + 1;
        rig_join(&rig, i, &options);
    }
    rig_settle(&rig);
    for (size_t i = 0; i < 3; i++)
        cr_assert_eq(fry_group_rank(rig.members[i].group), ranks[i]);
    cr_assert_eq(fry_group_member_at(rig.members[0].group, 1)->first_device, 1);
    cr_assert_eq(fry_group_member_at(rig.members[0].group, 2)->first_device, 3);
    rig_kill(&rig, 1);
    rig_kill(&rig, 0);
    rig_pass(&rig, RIG_LEASE_NS + RIG_SECOND_NS);
    fry_group_options options = rig_options(&rig, 0, 3, FRY_RANK_ANY);
    options.place = places[0];
    options.device_count = 3;
    rig_join(&rig, 0, &options);
    cr_assert(rig_until(&rig, is_joined, &rig.members[0], RIG_SECOND_NS));
    cr_assert_eq(fry_group_rank(rig.members[0].group), 2);
    cr_assert_eq(fry_group_member_at(rig.members[0].group, 2)->first_device, 3);
    cr_assert_eq(fry_group_member_at(rig.members[0].group, 1)->state, FERRY_MEMBER_DEAD);
    /* More devices than its rank began with are ids that others have. */
    options = rig_options(&rig, 1, 3, FRY_RANK_ANY);
    options.place = places[1];
    options.device_count = 3;
    rig_join(&rig, 1, &options);
    join_within(&rig, 1, RIG_SECOND_NS, FERRY_E_INVALID);
}

/* ---- whoever is there ---- */

SEEDED(net_group, whoever_is_there_by_then)
{
    GROUP_RIG(rig, 6, seed);
    for (size_t i = 0; i < 5; i++) {
        begin_join_until(&rig, i, 0, FRY_RANK_ANY, 3,
                         (10 + (int64_t)rig_random(&rig, 2)) * RIG_SECOND_NS);
    }
    rig_pass(&rig, 9 * RIG_SECOND_NS);
    for (size_t i = 0; i < 5; i++)
        cr_assert(!rig.members[i].is_joined);
    rig_pass(&rig, 3 * RIG_SECOND_NS);
    for (size_t i = 0; i < 5; i++) {
        cr_assert_eq(rig.members[i].status, FERRY_OK, "%s", rig.members[i].message);
        cr_assert_eq(fry_group_size(rig.members[i].group), 5);
        cr_assert_eq(fry_group_incarnation(rig.members[i].group), 1);
    }
    /* Late. */
    begin_join_until(&rig, 5, 0, FRY_RANK_ANY, 0, 20 * RIG_SECOND_NS);
    join_within(&rig, 5, 10 * RIG_SECOND_NS, FERRY_E_FENCED);
    cr_assert(strstr(rig.members[5].message, "late") != NULL, "%s", rig.members[5].message);
    rig_shut(&rig, 5);
    begin_join(&rig, 5, 6, FRY_RANK_ANY);
    join_within(&rig, 5, RIG_SECOND_NS, FERRY_E_INVALID);
    cr_assert_str_eq(rig.members[5].message,
                     "job job is a closed group of 5 members: this one has another size");
}

Test(net_group, too_few_by_then, .timeout = 60)
{
    GROUP_RIG(rig, 2, 1);
    for (size_t i = 0; i < 2; i++) {
        begin_join_until(&rig, i, 0, FRY_RANK_ANY, 3, 10 * RIG_SECOND_NS);
    }
    rig_pass(&rig, 11 * RIG_SECOND_NS);
    cr_assert_eq(rig.members[0].status, FERRY_E_DEADLINE);
    cr_assert_str_eq(rig.members[0].message, "joining job job: only 2 came of at least 3");
}

/* ---- who did not come ---- */

Test(net_group, absentees_are_named, .timeout = 60)
{
    GROUP_RIG(rig, 3, 1);
    for (size_t i = 0; i < 3; i++) {
        begin_join_until(&rig, i, 9, i == 2 ? 3 : (int32_t)i, 0, 20 * RIG_SECOND_NS);
    }
    rig_settle(&rig);
    rig_kill(&rig, 2);
    rig_pass(&rig, 21 * RIG_SECOND_NS);
    for (size_t i = 0; i < 2; i++) {
        cr_assert_eq(rig.members[i].status, FERRY_E_DEADLINE);
        cr_assert_str_eq(rig.members[i].message,
                         "joining job job: 7 of 9 did not come: rank 2 never, rank 3 was last seen "
                         "15.0 s ago, ranks 4-8 never");
    }
}

/* Each has its own word, however many. */
Test(net_group, many_absentees_are_named, .timeout = 60)
{
    const size_t half = RIG_MEMBERS_MAX / 2;
    char name[32];

    GROUP_RIG(rig, half, 1);
    for (size_t i = 0; i < half; i++) {
        begin_join_until(&rig, i, RIG_MEMBERS_MAX, (int32_t)(2 * i), 0, 5 * RIG_SECOND_NS);
    }
    rig_settle(&rig);
    rig_pass(&rig, 6 * RIG_SECOND_NS);
    cr_assert_eq(rig.members[0].status, FERRY_E_DEADLINE);
    for (size_t i = 0; i < half; i++) {
        (void)snprintf(name, sizeof name, "rank %zu never", 2 * i + 1);
        cr_expect_not_null(strstr(rig.members[0].message, name), "%s: %s", name,
                           rig.members[0].message);
    }
}

Test(net_group, sizes_that_differ, .timeout = 60)
{
    GROUP_RIG(rig, 3, 1);
    begin_join(&rig, 0, 2, 0);
    begin_join(&rig, 1, 3, 1);
    rig_settle(&rig);
    cr_assert(!rig.members[0].is_joined);
    begin_join(&rig, 2, 2, 1);
    rig_settle(&rig);
    cr_assert_eq(rig.members[0].status, FERRY_OK);
    cr_assert_eq(rig.members[2].status, FERRY_OK);
    cr_assert_eq(rig.members[1].status, FERRY_E_INVALID);
}

/* ---- without the store, without memory ---- */

SEEDED(net_group, the_store_is_lost_and_comes_back)
{
    rig_ask asks[3], get;

    GROUP_RIG(rig, 4, seed);
    rig_join_all(&rig, 0, 3, false);
    for (size_t i = 0; i < 3; i++)
        faulty_store_lose(rig.members[i].faulty, true);
    come(&rig, asks, 0, 3, NOBODY, "x", 5 * RIG_SECOND_NS);
    rig_ask_begin(&rig, 0, &get, FRY_GROUP_GET, "key");
    get.request.deadline_ns = fry_clock_now_ns(&rig.clock) + 5 * RIG_SECOND_NS;
    submit(&rig, 0, &get);
    begin_join_until(&rig, 3, 3, 1, 0, 5 * RIG_SECOND_NS);
    faulty_store_lose(rig.members[3].faulty, true);
    rig_pass(&rig, 5 * RIG_SECOND_NS - 1);
    expect_none_done(asks, 0, 3);
    rig_pass(&rig, 1);
    expect_done(asks, 0, 3, NOBODY, FERRY_E_DEADLINE, "does not answer");
    cr_assert(get.is_done && get.status == FERRY_E_DEADLINE);
    expect_join(&rig, 3, FERRY_E_DEADLINE);
    cr_assert(strstr(rig.members[3].message, "did not answer") != NULL);
    rig_pass(&rig, 20 * RIG_SECOND_NS);
    for (uint32_t rank = 0; rank < 3; rank++)
        cr_assert(every_one(&rig, 3, FERRY_MEMBER_HERE, rank));
    for (size_t i = 0; i < 3; i++)
        faulty_store_lose(rig.members[i].faulty, false);
    rig_settle(&rig);
    for (size_t i = 0; i < 3; i++) {
        cr_assert_eq(rig.members[i].history_count, 0);
        rig_barrier(&rig, i, &asks[i], "new", 0);
    }
    expect_answers(&rig, asks, 0, 3, NOBODY, FERRY_OK);
}

Test(net_group, memory_that_is_missing_hangs_nobody, .timeout = 100)
{
    for (size_t n = 1; n < 400; n++) {
        rig_ask asks[3];
        fry_error *error = NULL;

        GROUP_RIG(rig, 3, 1);
        failing_allocator_arm(&rig.allocator, n, n % 2 == 0);
        for (size_t i = 0; i < 3; i++) {
            fry_group_options options = rig_options(&rig, i, 3, (int32_t)i);

            options.deadline_ns = fry_clock_now_ns(&rig.clock) + 10 * RIG_SECOND_NS;
            if (rig_try_join(&rig, i, &options, &error) != FERRY_OK)
                fry_error_release(error);
        }
        rig_pass(&rig, 12 * RIG_SECOND_NS);
        for (size_t i = 0; i < 3; i++) {
            rig_member *m = &rig.members[i];

            if (m->group == NULL)
                continue;
            cr_assert(m->is_joined, "%zu: no answer", n);
            asks[i].is_done = false;
            if (m->status == FERRY_OK)
                rig_barrier(&rig, i, &asks[i], "x", 5 * RIG_SECOND_NS);
            else
                asks[i].is_done = true;
        }
        rig_pass(&rig, 6 * RIG_SECOND_NS);
        for (size_t i = 0; i < 3; i++) {
            if (rig.members[i].group != NULL)
                cr_assert(asks[i].is_done, "%zu: no answer to the barrier", n);
        }
        failing_allocator_arm(&rig.allocator, 0, false);
    }
}

Test(net_group, a_death_that_the_kernel_tells, .timeout = 60)
{
    GROUP_JOINED(rig, 3, 1);
    rig_kill(&rig, 2);
    fry_group_report_death(rig.members[0].group, 2, 7); /* nobody's */
    rig_settle(&rig);
    cr_assert(every_one(&rig, 2, FERRY_MEMBER_HERE, 2));
    const uint64_t start = fry_group_member_at(rig.members[0].group, 2)->start;
    fry_group_report_death(rig.members[0].group, 2, start);
    fry_group_report_death(rig.members[1].group, 2, start);
    rig_settle(&rig);
    cr_assert(every_one(&rig, 2, FERRY_MEMBER_DEAD, 2));
    begin_join(&rig, 2, 3, 2);
    rig_settle(&rig);
    cr_assert_eq(rig.members[2].status, FERRY_OK);
    cr_assert_eq(fry_group_incarnation(rig.members[2].group), 2);
}
