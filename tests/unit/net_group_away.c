/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store that was away: the table in docs/design.md, row by row. Three members meet, the store
 * stands still, something becomes of one of them, and the store is back, in one of the ways it can
 * be. Whoever lived goes on, and nobody heard anything of it; who did not is dead for all.
 */
#include "net/group/members.h"
#include "tests/support/faulty_space.h"
#include "tests/unit/group_test.h"

#define SEEDS 8
#define SIZE 3
#define SHORT_NS (RIG_LEASE_NS / 5)
#define LONG_NS (3 * RIG_LEASE_NS)
#define VICTIM 1

static void open_group(group_rig *rig, size_t count, uint64_t seed)
{
    rig_open(rig, count, seed);
    rig_join_all(rig, 0, SIZE, false);
    rig_pass(rig, 2 * RIG_LEASE_NS); /* long enough to know the store */
}

/* Members that lived, and what they were told of the victim: nothing, or one thing. */
static void check_told(const group_rig *rig, ferry_member_state state, size_t out)
{
    for (size_t i = 0; i < SIZE; i++) {
        const rig_member *m = &rig->members[i];

        if (i == out)
            continue;
        cr_assert(!m->is_fenced, "%zu: %s", i, m->message);
        cr_assert_eq(m->history_count, state == FERRY_MEMBER_HERE ? 0 : 1);
        if (m->history_count == 1)
            cr_assert(m->history[0].rank == VICTIM && m->history[0].state == state);
        for (uint32_t rank = 0; rank < SIZE; rank++)
            cr_assert_eq(fry_group_member_at(m->group, rank)->state,
                         rank == VICTIM ? state : FERRY_MEMBER_HERE);
    }
}

#define AWAY_RIG(name_, count_, seed_)                                                             \
    OWNED(rig_close) group_rig name_;                                                              \
    open_group(&(name_), count_, seed_)

typedef struct away {
    group_rig *rig;
    rig_back back;
    int64_t ns;
    uint64_t seed;
} away;

/* Each row with each length, each way to be back and some orders of events. */
static void each(void (*row)(const away *))
{
    static const int64_t lengths[] = {SHORT_NS, LONG_NS};

    for (group_seed = 1; group_seed <= SEEDS; group_seed++) {
        for (int i = 0; i < 2; i++) {
            for (rig_back back = 0; back < RIG_BACKS; back++) {
                AWAY_RIG(rig, SIZE + 1, group_seed);
                const away it = {&rig, back, lengths[i], group_seed};
                row(&it);
            }
        }
    }
}

/* A case that is a row of the table. */
#define AWAY(name_)                                                                                \
    static void name_(const away *it);                                                             \
    Test(net_group_away, name_, .timeout = 60)                                                     \
    {                                                                                              \
        each(name_);                                                                               \
    }                                                                                              \
    static void name_(const away *it)

/* ---- all see it ---- */

AWAY(all_live)
{
    group_rig *rig = it->rig;

    meet(rig, 0, SIZE, NOBODY, "before", FERRY_OK);
    rig_store_stop(rig, it->back);
    rig_pass(rig, it->ns);
    check_told(rig, FERRY_MEMBER_HERE, SIZE);
    rig_store_go_on(rig, it->back);
    meet(rig, 0, SIZE, NOBODY, "at-once", FERRY_OK);
    meet(rig, 0, SIZE, NOBODY, "before", FERRY_OK); /* and those of before are in step */
    rig_pass(rig, 4 * RIG_LEASE_NS);
    check_told(rig, FERRY_MEMBER_HERE, SIZE);
    for (size_t i = 0; i < SIZE; i++)
        cr_assert_eq(fry_group_incarnation(rig->members[i].group), 1);
    meet(rig, 0, SIZE, NOBODY, "later", FERRY_OK);
}

/* Again and again, with little time between. */
SEEDED(net_group_away, all_live_through_many)
{
    AWAY_RIG(rig, SIZE, seed);
    for (int i = 0; i < 20; i++) {
        const rig_back back = (rig_back)rig_random(&rig, RIG_BACKS);

        rig_store_stop(&rig, back);
        rig_pass(&rig, (int64_t)rig_random(&rig, 12) * RIG_SECOND_NS);
        rig_store_go_on(&rig, back);
        rig_pass(&rig, (int64_t)rig_random(&rig, 12) * (RIG_SECOND_NS / 2));
        if (i % 4 == 0)
            meet(&rig, 0, SIZE, NOBODY, "still", FERRY_OK);
    }
    check_told(&rig, FERRY_MEMBER_HERE, SIZE);
    meet(&rig, 0, SIZE, NOBODY, "still", FERRY_OK);
}

AWAY(one_dies)
{
    group_rig *rig = it->rig;
    rig_ask asks[SIZE];

    rig_store_stop(rig, it->back);
    rig_pass(rig, it->ns / 2);
    rig_kill(rig, VICTIM);
    rig_pass(rig, it->ns / 2);
    rig_store_go_on(rig, it->back);
    for (size_t i = 0; i < SIZE; i += 2)
        rig_barrier(rig, i, &asks[i], "x", 0);
    /* Its lease, if it goes on, and a lease in which it would have been back. */
    rig_pass(rig, 9 * RIG_LEASE_NS / 4 + RIG_SECOND_NS);
    check_told(rig, FERRY_MEMBER_DEAD, VICTIM);
    for (size_t i = 0; i < SIZE; i += 2)
        cr_assert_eq(rig_answer(rig, &asks[i]), FERRY_E_DEAD);
    begin_join(rig, VICTIM, SIZE, VICTIM);
    join_within(rig, VICTIM, RIG_SECOND_NS, FERRY_OK);
    const uint64_t incarnation = fry_group_incarnation(rig->members[VICTIM].group);
    cr_assert(it->back == RIG_BACK_EMPTIED ? incarnation > 65536 : incarnation == 2, "%d",
              (int)incarnation);
    meet(rig, 0, SIZE, NOBODY, "y", FERRY_OK);
}

/* The kernel tells: nobody waits for a lease. */
AWAY(one_dies_as_the_kernel_says)
{
    group_rig *rig = it->rig;
    const uint64_t start = fry_group_member_at(rig->members[0].group, VICTIM)->start;

    rig_store_stop(rig, it->back);
    rig_pass(rig, it->ns / 2);
    rig_kill(rig, VICTIM);
    fry_group_report_death(rig->members[2].group, VICTIM, start);
    rig_pass(rig, it->ns / 2);
    check_told(rig, FERRY_MEMBER_HERE, VICTIM); /* what is not agreed is not told */
    rig_store_go_on(rig, it->back);
    rig_pass(rig, RIG_SECOND_NS);
    check_told(rig, FERRY_MEMBER_DEAD, VICTIM);
}

/* A process that is stopped, and goes on before the store is back, or soon after. */
AWAY(one_is_stopped_meanwhile)
{
    group_rig *rig = it->rig;

    rig_store_stop(rig, it->back);
    rig->members[VICTIM].is_stopped = true;
    rig_pass(rig, it->ns);
    if (it->seed % 2 == 0)
        rig->members[VICTIM].is_stopped = false;
    rig_store_go_on(rig, it->back);
    rig_pass(rig, RIG_LEASE_NS / 2);
    rig->members[VICTIM].is_stopped = false;
    rig_pass(rig, 4 * RIG_LEASE_NS);
    check_told(rig, FERRY_MEMBER_HERE, SIZE);
    meet(rig, 0, SIZE, NOBODY, "x", FERRY_OK);
}

/* One that is stopped for so long that it has its time twice is dead, and is told so. */
AWAY(one_is_stopped_for_longer)
{
    group_rig *rig = it->rig;
    rig_ask before, after;

    rig_barrier(rig, VICTIM, &before, "x", 0);
    rig_settle(rig);
    rig_store_stop(rig, it->back);
    rig->members[VICTIM].is_stopped = true;
    rig_pass(rig, it->ns);
    rig_store_go_on(rig, it->back);
    rig_pass(rig, 9 * RIG_LEASE_NS / 4 + RIG_SECOND_NS);
    check_told(rig, FERRY_MEMBER_DEAD, VICTIM);
    rig->members[VICTIM].is_stopped = false;
    cr_assert(rig_until(rig, is_fenced, &rig->members[VICTIM], RIG_SECOND_NS));
    const ferry_status status = rig_answer(rig, &before);
    cr_assert(status == FERRY_E_FENCED ||
              (it->back == RIG_BACK_EMPTIED && status == FERRY_E_STORE));
    rig_barrier(rig, VICTIM, &after, "x", 0);
    cr_assert_eq(rig_answer(rig, &after), FERRY_E_FENCED);
    cr_assert(strstr(rig->members[VICTIM].message, "declared dead") != NULL);
}

/* Killed while the store is away, and started anew before it is back. */
AWAY(one_is_started_anew)
{
    group_rig *rig = it->rig;

    rig_store_stop(rig, it->back);
    rig_kill(rig, VICTIM);
    begin_join(rig, VICTIM, SIZE, VICTIM);
    rig_pass(rig, it->ns);
    cr_assert(!rig->members[VICTIM].is_joined);
    rig_store_go_on(rig, it->back);
    join_within(rig, VICTIM, 9 * RIG_LEASE_NS / 4 + RIG_SECOND_NS, FERRY_OK);
    rig_settle(rig);
    for (size_t i = 0; i < SIZE; i += 2) {
        const rig_member *m = &rig->members[i];

        cr_assert(!m->is_fenced && m->history_count == 2);
        cr_assert(m->history[0].state == FERRY_MEMBER_DEAD && m->history[0].incarnation == 1);
        cr_assert(m->history[1].state == FERRY_MEMBER_HERE && m->history[1].incarnation > 1);
    }
    meet(rig, 0, SIZE, NOBODY, "x", FERRY_OK);
}

/* A second start of one that lives: the first keeps the place, however the two come. */
AWAY(one_is_doubled)
{
    group_rig *rig = it->rig;
    const size_t twin = SIZE;

    rig_store_stop(rig, it->back);
    begin_join(rig, twin, SIZE, VICTIM);
    rig_pass(rig, it->ns);
    rig_store_go_on(rig, it->back);
    join_within(rig, twin, 4 * RIG_LEASE_NS, FERRY_E_FENCED);
    rig_shut(rig, twin);
    rig_pass(rig, RIG_LEASE_NS);
    check_told(rig, FERRY_MEMBER_HERE, SIZE);
    meet(rig, 0, SIZE, NOBODY, "x", FERRY_OK);
}

/* A new member: late, once it is known that all live; in the place of one that died. */
AWAY(another_comes)
{
    group_rig *rig = it->rig;
    const bool has_died = it->seed % 2 == 0;

    rig_store_stop(rig, it->back);
    if (has_died)
        rig_kill(rig, VICTIM);
    begin_join(rig, SIZE, SIZE, FRY_RANK_ANY);
    rig_pass(rig, it->ns);
    cr_assert(!rig->members[SIZE].is_joined);
    rig_store_go_on(rig, it->back);
    cr_assert(rig_until(rig, is_joined, &rig->members[SIZE], 9 * RIG_LEASE_NS / 4 + RIG_SECOND_NS));
    const bool is_late = strncmp(rig->members[SIZE].message, "this member came late", 21) == 0;
    if (has_died && !is_late) {
        cr_assert_eq(rig->members[SIZE].status, FERRY_OK, "%s", rig->members[SIZE].message);
        cr_assert_eq(fry_group_rank(rig->members[SIZE].group), VICTIM);
        return;
    }
    /* Its lease may have gone on: then it seemed to be alive. */
    cr_assert(is_late && (!has_died || it->back == RIG_BACK_WITH_LEASES || it->ns == SHORT_NS));
    cr_assert_eq(rig->members[SIZE].status, FERRY_E_FENCED);
}

/* One that says goodbye while nobody can hear it is taken for dead. */
AWAY(one_leaves)
{
    group_rig *rig = it->rig;

    rig_store_stop(rig, it->back);
    rig_pass(rig, it->ns / 2);
    rig_leave(rig, VICTIM);
    rig_pass(rig, it->ns / 2);
    rig_store_go_on(rig, it->back);
    rig_pass(rig, 9 * RIG_LEASE_NS / 4 + RIG_SECOND_NS);
    for (size_t i = 0; i < SIZE; i += 2)
        cr_assert_neq(fry_group_member_at(rig->members[i].group, VICTIM)->state, FERRY_MEMBER_HERE);
    begin_join(rig, VICTIM, SIZE, VICTIM);
    join_within(rig, VICTIM, RIG_SECOND_NS, FERRY_OK);
}

/* All have ended while it was away: a new group is formed, and not with the old. */
AWAY(all_end)
{
    group_rig *rig = it->rig;

    rig_store_stop(rig, it->back);
    for (size_t i = 0; i < SIZE; i++)
        rig_kill(rig, i);
    rig_pass(rig, it->ns);
    rig_store_go_on(rig, it->back);
    for (size_t i = 0; i < SIZE; i++) {
        begin_join(rig, i, SIZE, (int32_t)i);
    }
    for (size_t i = 0; i < SIZE; i++) {
        join_within(rig, i, 9 * RIG_LEASE_NS / 4 + RIG_SECOND_NS, FERRY_OK);
    }
    meet(rig, 0, SIZE, NOBODY, "x", FERRY_OK);
}

/* ---- one alone sees it ---- */

SEEDED(net_group_away, one_alone_is_cut_off)
{
    for (int is_long = 0; is_long < 2; is_long++) {
        rig_ask ask;
        AWAY_RIG(rig, SIZE, seed);
        faulty_store_cut(rig.members[VICTIM].faulty, true);
        rig_barrier(&rig, VICTIM, &ask, "x", 0);
        rig_pass(&rig, is_long ? RIG_LEASE_NS + RIG_SECOND_NS : RIG_LEASE_NS / 2);
        check_told(&rig, is_long ? FERRY_MEMBER_DEAD : FERRY_MEMBER_HERE, VICTIM);
        cr_assert(!rig.members[VICTIM].is_fenced); /* it does not know */
        faulty_store_cut(rig.members[VICTIM].faulty, false);
        rig_pass(&rig, RIG_LEASE_NS);
        cr_assert_eq(rig.members[VICTIM].is_fenced, is_long);
        if (is_long)
            cr_assert_eq(rig_answer(&rig, &ask), FERRY_E_FENCED);
        else
            fry_group_cancel(&ask.request);
    }
}

/* All but one are cut off: who can reach the store is right, and the others are fenced. */
SEEDED(net_group_away, one_alone_can_reach_it)
{
    AWAY_RIG(rig, SIZE, seed);
    for (size_t i = 1; i < SIZE; i++)
        faulty_store_cut(rig.members[i].faulty, true);
    rig_pass(&rig, 2 * RIG_LEASE_NS);
    for (size_t i = 1; i < SIZE; i++) {
        cr_assert_eq(fry_group_member_at(rig.members[0].group, (uint32_t)i)->state,
                     FERRY_MEMBER_DEAD);
        faulty_store_cut(rig.members[i].faulty, false);
    }
    rig_pass(&rig, RIG_LEASE_NS);
    cr_assert(!rig.members[0].is_fenced);
    for (size_t i = 1; i < SIZE; i++)
        cr_assert(rig.members[i].is_fenced);
}

/* Who was stopped itself judges nobody by what it missed: all were, as a machine is that sleeps. */
SEEDED(net_group_away, all_are_stopped)
{
    AWAY_RIG(rig, SIZE, seed);
    for (size_t i = 0; i < SIZE; i++)
        rig.members[i].is_stopped = true;
    stepped_clock_step(&rig.stepped, LONG_NS);
    for (size_t i = 0; i < SIZE; i++)
        rig.members[i].is_stopped = false;
    meet(&rig, 0, SIZE, NOBODY, "x", FERRY_OK);
    rig_pass(&rig, 4 * RIG_LEASE_NS);
    check_told(&rig, FERRY_MEMBER_HERE, SIZE);
}

/* ---- an emptied store, and who is back first ---- */

/* Another group of the job in it before its members are back: they are fenced, all of them. */
SEEDED(net_group_away, emptied_and_another_group_is_first)
{
    AWAY_RIG(rig, 2 * SIZE, seed);
    rig_store_stop(&rig, RIG_BACK_EMPTIED);
    rig_pass(&rig, LONG_NS);
    faulty_space_empty(rig.uri);
    rig.is_store_stopped = false;
    rig_join_all(&rig, SIZE, 2 * SIZE, false); /* the others are cut off yet */
    for (size_t i = 0; i < SIZE; i++)
        faulty_store_cut(rig.members[i].faulty, false);
    rig_pass(&rig, RIG_SECOND_NS);
    for (size_t i = 0; i < SIZE; i++) {
        cr_assert(rig.members[i].is_fenced);
        cr_assert(strstr(rig.members[i].message, "another group of the job was formed") != NULL,
                  "%s", rig.members[i].message);
        cr_assert_neq(fry_group_start(rig.members[i].group),
                      fry_group_start(rig.members[SIZE + i].group));
    }
    for (size_t i = SIZE; i < 2 * SIZE; i++) {
        cr_assert(!rig.members[i].is_fenced && rig.members[i].history_count == 0);
        cr_assert_eq(fry_group_incarnation(rig.members[i].group), 1);
    }
}

/* One that knew less is first to write the roster again; who was let in since keeps the rank. */
SEEDED(net_group_away, emptied_and_the_first_knows_less)
{
    AWAY_RIG(rig, SIZE, seed);
    /* Rank 2 hears nothing of a death and a new start. */
    faulty_store_cut(rig.members[2].faulty, true);
    const uint64_t start = fry_group_member_at(rig.members[0].group, VICTIM)->start;
    rig_kill(&rig, VICTIM);
    fry_group_report_death(rig.members[0].group, VICTIM, start);
    begin_join(&rig, VICTIM, SIZE, VICTIM);
    join_within(&rig, VICTIM, RIG_SECOND_NS, FERRY_OK);
    rig_store_stop(&rig, RIG_BACK_EMPTIED);
    rig_pass(&rig, RIG_SECOND_NS);
    faulty_space_empty(rig.uri);
    faulty_store_cut(rig.members[2].faulty, false);
    rig_pass(&rig, RIG_SECOND_NS);
    rig.is_store_stopped = false;
    for (size_t i = 0; i < 2; i++)
        faulty_store_cut(rig.members[i].faulty, false);
    rig_pass(&rig, 3 * RIG_LEASE_NS);
    for (size_t i = 0; i < SIZE; i++) {
        cr_assert(!rig.members[i].is_fenced, "%zu: %s", i, rig.members[i].message);
        for (uint32_t rank = 0; rank < SIZE; rank++) {
            const fry_group_member *m = fry_group_member_at(rig.members[i].group, rank);

            cr_assert_eq(m->state, FERRY_MEMBER_HERE);
            cr_assert_eq(m->incarnation, rank == VICTIM ? 2 : 1);
        }
    }
    meet(&rig, 0, SIZE, NOBODY, "x", FERRY_OK);
}

/* One that was replaced, and did not hear it before the store was emptied, is fenced by those who
 * did. */
SEEDED(net_group_away, emptied_and_the_first_was_replaced)
{
    const size_t heir = SIZE;
    AWAY_RIG(rig, SIZE + 1, seed);
    faulty_store_cut(rig.members[VICTIM].faulty, true);
    begin_join(&rig, heir, SIZE, VICTIM);
    join_within(&rig, heir, 2 * RIG_LEASE_NS, FERRY_OK);
    rig_store_stop(&rig, RIG_BACK_EMPTIED);
    rig_pass(&rig, RIG_SECOND_NS);
    faulty_space_empty(rig.uri);
    faulty_store_cut(rig.members[VICTIM].faulty, false);
    rig_pass(&rig, RIG_SECOND_NS);
    cr_assert(!rig.members[VICTIM].is_fenced); /* nobody is there who knows */
    rig.is_store_stopped = false;
    for (size_t i = 0; i < SIZE + 1; i++)
        faulty_store_cut(rig.members[i].faulty, false);
    rig_pass(&rig, 3 * RIG_LEASE_NS);
    cr_assert(rig.members[VICTIM].is_fenced);
    cr_assert(!rig.members[0].is_fenced && !rig.members[2].is_fenced);
    cr_assert(!rig.members[heir].is_fenced, "%s", rig.members[heir].message);
    cr_assert_eq(fry_group_member_at(rig.members[0].group, VICTIM)->incarnation, 2);
}

/* A key that somebody deletes is as good as an emptied store: it is written again. */
SEEDED(net_group_away, the_roster_is_deleted)
{
    fry_store_request request = {.verb = FRY_STORE_DELETE, .key = "ferry/job/group/roster"};
    rig_ask asks[SIZE];
    AWAY_RIG(rig, SIZE, seed);
    for (size_t i = 0; i < SIZE; i++)
        rig_barrier(&rig, i, &asks[i], "x", i < 2 ? 0 : RIG_SECOND_NS);
    cr_assert_eq(rig_ask_store(&rig, &request), FERRY_OK);
    expect_answers(&rig, asks, 0, SIZE, NOBODY, FERRY_OK);
    rig_pass(&rig, RIG_LEASE_NS);
    check_told(&rig, FERRY_MEMBER_HERE, SIZE);
    rig_kill(&rig, VICTIM);
    rig_pass(&rig, 2 * RIG_LEASE_NS);
    check_told(&rig, FERRY_MEMBER_DEAD, VICTIM);
}
