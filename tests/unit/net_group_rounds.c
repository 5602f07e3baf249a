/* SPDX-License-Identifier: Apache-2.0 */
/* Barriers, the living, the step to stop at. */
#include "tests/unit/group_test.h"

#define SEEDS 20

static void start_anew(group_rig *rig, size_t index, uint32_t size)
{
    begin_join(rig, index, size, (int32_t)index);
    RIG_CHECK(rig_until(rig, is_joined, &rig->members[index], 60 * RIG_SECOND_NS));
    RIG_CHECK(rig->members[index].status == FERRY_OK);
    rig_settle(rig);
}

static void among(rig_ask *ask, const uint32_t *members, uint32_t count)
{
    ask->request.members = members;
    ask->request.member_count = count;
}

Test(net_group_rounds, of_some_members, .timeout = 60)
{
    static const uint32_t some[] = {3, 1}, others[] = {0, 2};
    rig_ask a, b, c, d;

    GROUP_JOINED(rig, 4, 1);
    for (int round = 0; round < 3; round++) {
        rig_ask_begin(&rig, 1, &a, FRY_GROUP_BARRIER, "x");
        rig_ask_begin(&rig, 3, &b, FRY_GROUP_BARRIER, "x");
        rig_ask_begin(&rig, 0, &c, FRY_GROUP_BARRIER, "y");
        rig_ask_begin(&rig, 2, &d, FRY_GROUP_BARRIER, "y");
        among(&a, some, 2);
        among(&b, some, 2);
        among(&c, others, 2);
        among(&d, others, 2);
        submit(&rig, 3, &b);
        rig_settle(&rig);
        cr_assert(!b.is_done);
        submit(&rig, 0, &c);
        submit(&rig, 1, &a);
        cr_assert_eq(rig_answer(&rig, &a), FERRY_OK);
        cr_assert_eq(rig_answer(&rig, &b), FERRY_OK);
        cr_assert(!c.is_done);
        submit(&rig, 2, &d);
        cr_assert_eq(rig_answer(&rig, &c), FERRY_OK);
        cr_assert_eq(rig_answer(&rig, &d), FERRY_OK);
    }
}

Test(net_group_rounds, calls_of_one_member_queue_up, .timeout = 60)
{
    rig_ask a[3], b[3];

    GROUP_JOINED(rig, 2, 1);
    for (int i = 0; i < 3; i++)
        rig_barrier(&rig, 0, &a[i], "x", 0);
    for (int i = 0; i < 3; i++) {
        rig_settle(&rig);
        cr_assert(!a[i].is_done);
        rig_barrier(&rig, 1, &b[i], "x", 0);
        cr_assert_eq(rig_answer(&rig, &b[i]), FERRY_OK);
        cr_assert_eq(rig_answer(&rig, &a[i]), FERRY_OK);
    }
}

SEEDED(net_group_rounds, deadline_names_who_did_not_come)
{
    rig_ask asks[6];

    GROUP_JOINED(rig, 6, seed);
    /* Without the host, every other time. */
    const size_t first = seed % 2, end = first + 4;
    come(&rig, asks, first, end, NOBODY, "x", 10 * RIG_SECOND_NS);
    rig_pass(&rig, 10 * RIG_SECOND_NS - 1);
    expect_none_done(asks, first, end);
    rig_pass(&rig, RIG_SECOND_NS / 2);
    for (size_t i = first; i < end; i++) {
        cr_assert(asks[i].is_done, "seed %d", (int)seed);
        cr_assert_eq(asks[i].status, FERRY_E_DEADLINE);
        const char *who = first == 0 ? "did not come: ranks 4-5 were last seen 0.0 s ago"
                                     : "did not come: rank 0 was last seen 0.";
        cr_assert(strstr(asks[i].message, who) != NULL, "%s", asks[i].message);
        if (first == 1)
            cr_assert(strstr(asks[i].message, "rank 5 0.") != NULL, "%s", asks[i].message);
    }
    /* Who comes late has the same answer, and the next round is everybody's again. */
    for (size_t i = 0; i < 6; i++) {
        if (i >= first && i < end)
            continue;
        rig_barrier(&rig, i, &asks[i], "x", 0);
        cr_assert_eq(rig_answer(&rig, &asks[i]), FERRY_E_DEADLINE);
    }
    meet(&rig, 0, 6, NOBODY, "x", FERRY_OK);
}

SEEDED(net_group_rounds, a_death_fails_it)
{
    rig_ask asks[4];
    const size_t dead = seed % 4;

    GROUP_JOINED(rig, 4, seed);
    meet(&rig, 0, 4, NOBODY, "x", FERRY_OK);
    come(&rig, asks, 0, 4, dead, "x", 0);
    rig_settle(&rig);
    rig_kill(&rig, dead);
    rig_pass(&rig, RIG_LEASE_NS + RIG_SECOND_NS);
    for (size_t i = 0; i < 4; i++) {
        if (i == dead)
            continue;
        cr_assert(asks[i].is_done);
        cr_assert_eq(asks[i].status, FERRY_E_DEAD);
        cr_assert_eq(asks[i].rank, (int)dead);
    }
    /* And those that are called later, as long as it is dead. */
    meet(&rig, 0, 4, dead, "x", FERRY_E_DEAD);
    /* Started anew it is told once, and is in step then. */
    start_anew(&rig, dead, 4);
    rig_barrier(&rig, dead, &asks[dead], "x", 0);
    cr_assert_eq(rig_answer(&rig, &asks[dead]), FERRY_E_CHANGED);
    meet(&rig, 0, 4, NOBODY, "x", FERRY_OK);
    meet(&rig, 0, 4, NOBODY, "new", FERRY_OK);
}

SEEDED(net_group_rounds, two_outcomes_told_as_one)
{
    rig_ask asks[3], more[3];

    GROUP_JOINED(rig, 3, seed);
    rig_barrier(&rig, 2, &asks[2], "x", 0);
    rig_barrier(&rig, 2, &more[2], "x", 0);
    rig_settle(&rig);
    rig.members[2].is_stopped = true;
    come(&rig, asks, 0, 2, NOBODY, "x", 0);
    expect_answers(&rig, asks, 0, 2, NOBODY, FERRY_OK);
    come(&rig, more, 0, 2, NOBODY, "x", RIG_SECOND_NS);
    expect_answers(&rig, more, 0, 2, NOBODY, FERRY_E_DEADLINE);
    rig.members[2].is_stopped = false;
    cr_assert_eq(rig_answer(&rig, &asks[2]), FERRY_OK, "%s", asks[2].message);
    cr_assert_eq(rig_answer(&rig, &more[2]), FERRY_E_DEADLINE);
    meet(&rig, 0, 3, NOBODY, "x", FERRY_OK);
}

SEEDED(net_group_rounds, cancelled_by_one_for_all)
{
    rig_ask asks[4];
    const size_t who = seed % 3;

    GROUP_JOINED(rig, 4, seed);
    come(&rig, asks, 0, 3, NOBODY, "x", 0);
    if (seed % 2 == 0)
        rig_settle(&rig);
    fry_group_cancel(&asks[who].request);
    rig_barrier(&rig, who, &asks[who], "x", 0); /* the next round's */
    for (size_t i = 0; i < 3; i++) {
        if (i == who)
            continue;
        cr_assert_eq(rig_answer(&rig, &asks[i]), FERRY_E_CANCELLED);
        cr_assert_eq(asks[i].rank, (int)who);
        rig_barrier(&rig, i, &asks[i], "x", 0);
    }
    rig_barrier(&rig, 3, &asks[3], "x", 0);
    cr_assert_eq(rig_answer(&rig, &asks[3]), FERRY_E_CANCELLED);
    rig_settle(&rig);
    cr_assert(!asks[who].is_done);
    rig_barrier(&rig, 3, &asks[3], "x", 0);
    expect_answers(&rig, asks, 0, 4, NOBODY, FERRY_OK);
}

Test(net_group_rounds, others_name_other_members, .timeout = 60)
{
    static const uint32_t three[] = {0, 1, 2}, two[] = {1, 2};

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        rig_ask asks[3];

        GROUP_JOINED(rig, 3, seed);
        for (uint32_t i = 0; i < 3; i++) {
            rig_ask_begin(&rig, i, &asks[i], FRY_GROUP_BARRIER, "x");
            if ((seed & 1) != 0 ? i == 1 : i != 0)
                among(&asks[i], two, 2);
            else if ((seed & 2) != 0)
                among(&asks[i], three, 3);
            if ((seed & 1) == 0 && i == 2)
                among(&asks[i], three, 3);
            submit(&rig, i, &asks[i]);
        }
        rig_pass(&rig, 2 * RIG_SECOND_NS);
        expect_done(asks, 0, 3, NOBODY, FERRY_E_INVALID, NULL);
    }
}

/* ---- the living ---- */

static void check_alive(rig_ask *ask, const uint32_t *ranks, uint32_t count)
{
    cr_assert_eq(ask->status, FERRY_OK, "%s", ask->message);
    cr_assert_eq(ask->value_bytes, count * sizeof *ranks);
    cr_assert_arr_eq(ask->value, ranks, count * sizeof *ranks);
}

static void ask_alive(group_rig *rig, size_t index, rig_ask *ask, int64_t within_ns)
{
    rig_ask_begin(rig, index, ask, FRY_GROUP_ALIVE, NULL);
    if (within_ns != 0)
        ask->request.deadline_ns = fry_clock_now_ns(&rig->clock) + within_ns;
    fry_group_submit(rig->members[index].group, &ask->request);
}

Test(net_group_rounds, who_is_alive, .timeout = 60)
{
    static const uint32_t all[] = {0, 1, 2, 3};

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        rig_ask asks[4], of_dead;
        const uint32_t dead = (uint32_t)seed % 4;
        uint32_t living[3], count = 0;

        GROUP_JOINED(rig, 4, seed);
        for (size_t i = 0; i < 4; i++)
            ask_alive(&rig, i, &asks[i], 0);
        for (size_t i = 0; i < 4; i++) {
            (void)rig_answer(&rig, &asks[i]);
            check_alive(&asks[i], all, 4);
        }
        for (uint32_t i = 0; i < 4; i++) {
            if (i == dead)
                continue;
            living[count++] = i;
            ask_alive(&rig, i, &asks[i], 0);
        }
        if (seed % 3 == 0)
            ask_alive(&rig, dead, &of_dead, 0);
        else
            rig_settle(&rig);
        rig_kill(&rig, dead);
        rig_pass(&rig, RIG_LEASE_NS + RIG_SECOND_NS);
        for (uint32_t i = 0; i < 4; i++) {
            if (i == dead)
                continue;
            cr_assert(asks[i].is_done);
            if (asks[i].value_bytes == sizeof all)
                check_alive(&asks[i], all, 4); /* it had come before it died */
            else
                check_alive(&asks[i], living, 3);
            cr_assert_eq(asks[i].value_bytes, asks[living[0]].value_bytes);
        }
        start_anew(&rig, dead, 4);
        for (size_t i = 0; i < 4; i++)
            ask_alive(&rig, i, &asks[i], 0);
        for (size_t i = 0; i < 4; i++) {
            (void)rig_answer(&rig, &asks[i]);
            check_alive(&asks[i], all, 4);
        }
    }
}

Test(net_group_rounds, who_does_not_say_it_is_alive, .timeout = 60)
{
    static const uint32_t all[] = {0, 1, 2};

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        rig_ask asks[3];
        const size_t silent = seed % 3;

        GROUP_JOINED(rig, 3, seed);
        for (size_t i = 0; i < 3; i++) {
            if (i != silent)
                ask_alive(&rig, i, &asks[i], RIG_SECOND_NS);
        }
        rig_pass(&rig, 2 * RIG_SECOND_NS);
        char who[32];
        (void)snprintf(who, sizeof who, "did not come: rank %zu was", silent);
        expect_done(asks, 0, 3, silent, FERRY_E_DEADLINE, who);
        for (size_t i = 0; i < 3; i++)
            ask_alive(&rig, i, &asks[i], RIG_SECOND_NS);
        for (size_t i = 0; i < 3; i++) {
            (void)rig_answer(&rig, &asks[i]);
            check_alive(&asks[i], all, 3);
        }
    }
}

/* ---- stopping ---- */

Test(net_group_rounds, all_stop_after_one_step, .timeout = 60)
{
    for (uint64_t seed = 1; seed <= 4 * SEEDS; seed++) {
        enum { SIZE = 4, STEPS = 60 };
        rig_ask steps[SIZE], notice;
        uint64_t at[SIZE] = {0};
        uint64_t stop = UINT64_MAX;
        size_t dead = SIZE;
        bool is_noticed = false;

        GROUP_JOINED(rig, SIZE, seed);
        const size_t before = faulty_store_requests(rig.members[0].faulty);
        for (size_t i = 0; i < SIZE; i++)
            steps[i].is_done = true;
        for (int turn = 0; turn < 4000; turn++) {
            const size_t i = (size_t)rig_random(&rig, SIZE);

            if (i != dead && steps[i].is_done) {
                if (at[i] > 0) {
                    const uint64_t own = fry_group_stop_step(rig.members[i].group);

                    cr_assert_eq(steps[i].status, FERRY_OK);
                    /* Before the step at[i], after the one before. */
                    cr_assert(own == UINT64_MAX || own + 1 >= at[i],
                              "asked to stop at a step that it has passed");
                    if (own != UINT64_MAX) {
                        cr_assert(stop == UINT64_MAX || stop == own);
                        stop = own;
                    }
                    if (own != UINT64_MAX && at[i] > own)
                        continue; /* it has come to its end */
                }
                rig_ask_begin(&rig, i, &steps[i], FRY_GROUP_STEP, NULL);
                steps[i].request.step = ++at[i];
                submit(&rig, i, &steps[i]);
            }
            if (turn == 500) {
                cr_assert_eq(faulty_store_requests(rig.members[0].faulty), before);
                ask_for(&rig, 1, &notice, FRY_GROUP_NOTICE, NULL);
                is_noticed = true;
            }
            if (is_noticed && turn == 510 && seed % 2 == 0) {
                do
                    dead = (size_t)rig_random(&rig, SIZE);
                while (dead == 1); /* it may not have given notice yet */
                rig_kill(&rig, dead);
            }
            (void)driven_reactor_run(rig.members[rig_random(&rig, SIZE)].reactor, 0);
            if (turn == 2000)
                rig_pass(&rig, RIG_LEASE_NS + RIG_SECOND_NS);
        }
        cr_assert_neq(stop, UINT64_MAX);
        for (size_t i = 0; i < SIZE; i++) {
            if (i != dead)
                cr_assert_eq(at[i], stop + 1, "seed %d rank %d is at %d, not after %d", (int)seed,
                             (int)i, (int)at[i], (int)stop);
        }
    }
}

/* ---- what it costs ---- */

static void count_requests(size_t size)
{
    rig_ask *asks = calloc(size, sizeof *asks);

    GROUP_RIG(rig, size, size);
    rig_join_all(&rig, 0, size, true);
    for (int round = 0; round < 4; round++) {
        size_t before[RIG_MEMBERS_MAX], events[RIG_MEMBERS_MAX], all = 0, told = 0;

        for (size_t i = 0; i < size; i++) {
            before[i] = faulty_store_requests(rig.members[i].faulty) +
                        faulty_store_counts(rig.members[i].faulty)->watches;
            events[i] = faulty_store_counts(rig.members[i].faulty)->events;
        }
        come(&rig, asks, 0, size, NOBODY, "x", 0);
        expect_answers(&rig, asks, 0, size, NOBODY, FERRY_OK);
        for (size_t i = 0; i < size; i++) {
            const size_t requests = faulty_store_requests(rig.members[i].faulty) +
                                    faulty_store_counts(rig.members[i].faulty)->watches - before[i];

            cr_assert(requests <= 3, "%zu requests of one member of %zu", requests, size);
            all += requests;
            told += faulty_store_counts(rig.members[i].faulty)->events - events[i];
        }
        cr_assert(all <= size + 2, "%zu requests for %zu members", all, size);
        cr_assert(told <= 2 * size, "%zu messages for %zu members", told, size);
    }
    free(asks);
}

Test(net_group_rounds, three_round_trips_at_most, .timeout = 60)
{
    for (size_t size = 2; size <= 64; size *= 2)
        count_requests(size);
}

Test(net_group_rounds, names_do_not_pile_up, .timeout = 60)
{
    rig_ask asks[2];
    char name[32];

    GROUP_JOINED(rig, 2, 1);
    for (int i = 0; i < FRY_GROUP_ROUNDS_KEPT + 300; i++) {
        (void)snprintf(name, sizeof name, "step-%d", i);
        rig_barrier(&rig, 0, &asks[0], name, 0);
        rig_barrier(&rig, 1, &asks[1], name, 0);
        cr_assert_eq(rig_answer(&rig, &asks[0]), FERRY_OK);
        cr_assert_eq(rig_answer(&rig, &asks[1]), FERRY_OK);
    }
    rig_settle(&rig);
    for (size_t i = 0; i < 2; i++)
        cr_assert(rig.members[i].group->round_count <= FRY_GROUP_ROUNDS_KEPT + 2, "%u",
                  rig.members[i].group->round_count);
    /* One that was forgotten begins again. */
    meet(&rig, 0, 2, NOBODY, "step-0", FERRY_OK);
    meet(&rig, 0, 2, NOBODY, "step-799", FERRY_OK);
}
