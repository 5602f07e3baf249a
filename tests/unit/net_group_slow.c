/* SPDX-License-Identifier: Apache-2.0 */
/* A store that takes its time: refused if a lease can't bear it, and borne if it can. */
#include "net/group/members.h"
#include "tests/support/group_rig.h"

#include <criterion/criterion.h>
#include <string.h>

#define SEEDS 5
#define SIZE 3

static bool is_joined(void *arg)
{
    return ((rig_member *)arg)->is_joined;
}

static bool all_joined(void *arg)
{
    const group_rig *rig = arg;

    for (size_t i = 0; i < SIZE; i++) {
        if (!rig->members[i].is_joined)
            return false;
    }
    return true;
}

static void start(group_rig *rig, size_t index, int64_t lease_ns)
{
    fry_group_options options = rig_options(rig, index, SIZE, (int32_t)index);

    options.lease_ns = lease_ns;
    options.deadline_ns = fry_clock_now_ns(&rig->clock) + 60 * RIG_SECOND_NS;
    rig_join(rig, index, &options);
}

Test(net_group_slow, a_lease_that_is_too_short_is_refused, .timeout = 60)
{
    static const struct {
        int64_t way_ns, lease_ns;
        const char *words;
    } cases[] = {
        {600000000, 2000000000,
         "a lease of 2.0 s is too short for it, as it takes 1.2 s to answer: set lease_ns to 5 s "
         "or more"},
        {1000000000, 2000000000, "takes 2.0 s to answer: set lease_ns to 8 s or more"},
        {260000000, 2000000000, "takes 0.5 s to answer: set lease_ns to 3 s or more"},
        {3000000000, 5000000000, "takes 6.0 s to answer: set lease_ns to 24 s or more"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        GROUP_RIG(rig, SIZE, 1);
        rig.way_ns = cases[i].way_ns;
        start(&rig, 0, cases[i].lease_ns);
        /* Three answers, and no waiting for the others. */
        cr_assert(rig_until(&rig, is_joined, &rig.members[0], 7 * cases[i].way_ns));
        cr_assert_eq(rig.members[0].status, FERRY_E_INVALID);
        cr_assert(strstr(rig.members[0].message, cases[i].words) != NULL, "%s",
                  rig.members[0].message);
    }
}

/* One answer that is late is no reason. */
Test(net_group_slow, one_late_answer_is_borne, .timeout = 60)
{
    GROUP_RIG(rig, SIZE, 1);
    rig.way_ns = RIG_SECOND_NS;
    for (size_t i = 0; i < SIZE; i++) {
        start(&rig, i, 2 * RIG_SECOND_NS);
    }
    rig_settle(&rig); /* the lease is had, and the time it took is known */
    rig.way_ns = 0;
    for (size_t i = 0; i < SIZE; i++)
        faulty_store_slow(rig.members[i].faulty, 1000000);
    cr_assert(rig_until(&rig, all_joined, &rig, 10 * RIG_SECOND_NS));
    for (size_t i = 0; i < SIZE; i++)
        cr_assert_eq(rig.members[i].status, FERRY_OK, "%s", rig.members[i].message);
}

static void meet(group_rig *rig, const char *name)
{
    rig_ask asks[SIZE];

    for (size_t i = 0; i < SIZE; i++)
        rig_barrier(rig, i, &asks[i], name, 0);
    for (size_t i = 0; i < SIZE; i++)
        cr_assert_eq(rig_answer(rig, &asks[i]), FERRY_OK, "%s", asks[i].message);
}

/*
 * At every time that is borne, up to a quarter of the lease: they join, meet, nobody is taken for
 * dead, who dies is, and who is started anew gets in.
 */
Test(net_group_slow, what_is_accepted_works, .timeout = 100)
{
    static const int64_t leases_ns[] = {2 * RIG_SECOND_NS, 5 * RIG_SECOND_NS, 60 * RIG_SECOND_NS};

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        for (int64_t part = 4; part <= 64; part *= 2) {
            const int64_t lease_ns = leases_ns[seed % 3];

            GROUP_RIG(rig, SIZE, seed);
            rig.way_ns = lease_ns / part / 2;
            for (size_t i = 0; i < SIZE; i++)
                start(&rig, i, lease_ns);
            cr_assert(rig_until(&rig, all_joined, &rig, 4 * lease_ns));
            for (size_t i = 0; i < SIZE; i++)
                cr_assert_eq(rig.members[i].status, FERRY_OK, "%s", rig.members[i].message);
            rig_pass(&rig, 10 * lease_ns);
            meet(&rig, "x");
            for (size_t i = 0; i < SIZE; i++)
                cr_assert(!rig.members[i].is_fenced && rig.members[i].history_count == 0);
            rig_kill(&rig, 1);
            /* The lease; if the store is slow two more; and what it takes to agree. */
            rig_pass(&rig, lease_ns + (part < 8 ? 2 * lease_ns : 0) + 3 * lease_ns / part);
            for (size_t i = 0; i < SIZE; i += 2)
                cr_assert_eq(fry_group_member_at(rig.members[i].group, 1)->state,
                             FERRY_MEMBER_DEAD);
            start(&rig, 1, lease_ns);
            cr_assert(rig_until(&rig, is_joined, &rig.members[1], 2 * lease_ns));
            cr_assert_eq(rig.members[1].status, FERRY_OK, "%s", rig.members[1].message);
            meet(&rig, "y");
        }
    }
}

/* Told once, while the lease is still there; and again when it was fine in between. */
Test(net_group_slow, it_is_told_once, .timeout = 60)
{
    GROUP_RIG(rig, SIZE, 1);
    rig.log_word = "is slow";
    rig.way_ns = 10000000;
    start(&rig, 0, RIG_LEASE_NS);
    start(&rig, 1, RIG_LEASE_NS);
    start(&rig, 2, RIG_LEASE_NS);
    rig_pass(&rig, 2 * RIG_LEASE_NS);
    cr_assert_eq(rig.log_count, 0);
    for (size_t times = 1; times <= 3; times++) {
        faulty_store_slow(rig.members[1].faulty, 2 * RIG_LEASE_NS / 5);
        rig_pass(&rig, RIG_LEASE_NS / 3 + RIG_LEASE_NS / 4 + 1);
        cr_assert_eq(rig.log_count, times);
        cr_assert(rig.members[1].group->lease.is_on &&
                  rig.members[1].group->lease.ends_ns > fry_clock_now_ns(&rig.clock));
        cr_assert(strstr(rig.log_line, "the renewal of a lease of 5.0 s was not answered in 1.2 s"),
                  "%s", rig.log_line);
        rig_pass(&rig, 10 * RIG_LEASE_NS);
        cr_assert_eq(rig.log_count, times);
        faulty_store_slow(rig.members[1].faulty, 10000000);
        rig_pass(&rig, 2 * RIG_LEASE_NS);
    }
    meet(&rig, "x"); /* and nobody has died of it */
}
