/* SPDX-License-Identifier: Apache-2.0 */
/* Open groups: members come and go, and ranks are given away again when nobody holds them. */
#include "net/group/members.h"
#include "tests/unit/group_test.h"

#define SEEDS 20
#define RANKS 4

static void begin_open(group_rig *rig, size_t index, int32_t rank)
{
    fry_group_options options = rig_options(rig, index, RANKS, rank);

    options.is_open = true;
    rig_join(rig, index, &options);
}

static void join_open(group_rig *rig, size_t index, int32_t rank)
{
    begin_open(rig, index, rank);
    join_within(rig, index, 2 * RIG_SECOND_NS, FERRY_OK);
}

static int32_t rank_of(const group_rig *rig, size_t index)
{
    return fry_group_rank(rig->members[index].group);
}

static void expect_event(const group_rig *rig, size_t index, size_t at, uint32_t rank,
                         ferry_member_state what)
{
    const rig_member *member = &rig->members[index];

    GROUP_ASSERT(at < member->event_count, "%zu was told %zu events", index, member->event_count);
    GROUP_ASSERT(member->events[at].rank == rank && member->events[at].what == what,
                 "%zu: event %zu is %d of %u", index, at, (int)member->events[at].what,
                 member->events[at].rank);
}

SEEDED(net_group_open, members_come_one_by_one)
{
    GROUP_RIG(rig, 4, seed);
    for (size_t i = 0; i < 4; i++) {
        join_open(&rig, i, FRY_RANK_ANY);
        rig_settle(&rig);
        cr_assert_eq(rank_of(&rig, i), (int32_t)i);
        cr_assert_eq(fry_group_size(rig.members[i].group), RANKS);
        for (uint32_t rank = 0; rank < RANKS; rank++)
            cr_assert_eq(fry_group_member_at(rig.members[0].group, rank)->state,
                         rank <= i ? FERRY_MEMBER_HERE : FERRY_MEMBER_ABSENT);
        cr_assert_eq(fry_group_member_at(rig.members[0].group, (uint32_t)i)->first_device, i << 16);
    }
    cr_assert_eq(rig.members[0].event_count, 3);
    cr_assert_eq(rig.members[3].event_count, 0);
    for (uint32_t i = 1; i < 4; i++)
        expect_event(&rig, 0, i - 1, i, FERRY_MEMBER_HERE);
}

SEEDED(net_group_open, many_come_at_once)
{
    uint32_t seen = 0;

    GROUP_RIG(rig, 4, seed);
    for (size_t i = 0; i < 4; i++)
        begin_open(&rig, i, FRY_RANK_ANY);
    rig_settle(&rig);
    for (size_t i = 0; i < 4; i++) {
        expect_join(&rig, i, FERRY_OK);
        seen |= 1U << rank_of(&rig, i);
    }
    cr_assert_eq(seen, 15);
}

Test(net_group_open, is_full, .timeout = 60)
{
    GROUP_RIG(rig, 6, 1);
    for (size_t i = 0; i < 4; i++)
        join_open(&rig, i, FRY_RANK_ANY);
    begin_open(&rig, 4, FRY_RANK_ANY);
    join_within(&rig, 4, RIG_SECOND_NS, FERRY_E_FENCED);
    cr_assert_str_eq(rig.members[4].message,
                     "the open group of job job is full: live members have all of its 4 ranks");
    rig_shut(&rig, 4);
    rig_leave(&rig, 2);
    join_open(&rig, 4, FRY_RANK_ANY);
    cr_assert_eq(rank_of(&rig, 4), 2);
}

Test(net_group_open, kinds_do_not_mix, .timeout = 60)
{
    GROUP_RIG(rig, 4, 1);
    join_open(&rig, 0, FRY_RANK_ANY);
    begin_join(&rig, 1, RANKS, FRY_RANK_ANY);
    join_within(&rig, 1, RIG_SECOND_NS, FERRY_E_INVALID);
    cr_assert_str_eq(rig.members[1].message, "job job is an open group of 4 members: this one "
                                             "does not ask for an open group");
    rig_shut(&rig, 1);
    begin_join_until(&rig, 1, 0, FRY_RANK_ANY, 1, 10 * RIG_SECOND_NS);
    join_within(&rig, 1, RIG_SECOND_NS, FERRY_E_INVALID);
    rig_shut(&rig, 1);
    rig_leave(&rig, 0);
    /* All have left: the next group may be another. */
    begin_join(&rig, 1, 1, FRY_RANK_ANY);
    join_within(&rig, 1, RIG_SECOND_NS, FERRY_OK);
    begin_open(&rig, 2, FRY_RANK_ANY);
    join_within(&rig, 2, RIG_SECOND_NS, FERRY_E_INVALID);
    cr_assert_str_eq(rig.members[2].message,
                     "job job is a closed group of 1 members: this one asks for an open group");
}

/* All are told the same in the same order, also who joined in between. */
SEEDED(net_group_open, events_have_one_order)
{
    GROUP_RIG(rig, 4, seed);
    for (size_t i = 0; i < 3; i++)
        join_open(&rig, i, (int32_t)i);
    rig_settle(&rig);
    rig_leave(&rig, 1);
    rig_kill(&rig, 2);
    join_open(&rig, 3, FRY_RANK_ANY);
    rig_pass(&rig, 3 * RIG_LEASE_NS);
    cr_assert_eq(rank_of(&rig, 3), 3);
    cr_assert_eq(rig.members[0].event_count, 5);
    expect_event(&rig, 0, 2, 1, FERRY_MEMBER_LEFT);
    expect_event(&rig, 0, 3, 3, FERRY_MEMBER_HERE);
    expect_event(&rig, 0, 4, 2, FERRY_MEMBER_DEAD);
    cr_assert_eq(rig.members[3].event_count, 1);
    expect_event(&rig, 3, 0, 2, FERRY_MEMBER_DEAD);
    for (size_t i = 1; i < 5; i++)
        cr_assert_lt(rig.members[0].events[i - 1].number, rig.members[0].events[i].number);
}

/* ---- a rank that somebody holds something of ---- */

static void end_one(group_rig *rig, size_t index, bool leaves)
{
    if (leaves)
        rig_leave(rig, index);
    else
        rig_kill(rig, index);
    rig_pass(rig, 2 * RIG_LEASE_NS);
}

SEEDED(net_group_open, a_held_rank_is_not_given_away)
{
    for (int leaves = 0; leaves < 2; leaves++) {
        GROUP_RIG(rig, 6, seed);
        for (size_t i = 0; i < 4; i++)
            join_open(&rig, i, (int32_t)i);
        rig_settle(&rig);
        rig.members[1].keeps = true;
        end_one(&rig, 2, leaves);
        begin_open(&rig, 4, seed % 2 == 0 ? FRY_RANK_ANY : 2);
        rig_pass(&rig, 20 * RIG_SECOND_NS);
        GROUP_ASSERT(!rig.members[4].is_joined, "%s", rig.members[4].message);
        rig_let_go(&rig, 1);
        join_within(&rig, 4, RIG_SECOND_NS, FERRY_OK);
        cr_assert_eq(rank_of(&rig, 4), 2);
        rig_settle(&rig);
        cr_assert_eq(fry_group_member_at(rig.members[1].group, 2)->state, FERRY_MEMBER_HERE);
    }
}

Test(net_group_open, says_who_holds_a_rank, .timeout = 60)
{
    GROUP_RIG(rig, 6, 1);
    for (size_t i = 0; i < 4; i++)
        join_open(&rig, i, (int32_t)i);
    rig_settle(&rig);
    rig.members[0].keeps = rig.members[3].keeps = true;
    end_one(&rig, 2, true);
    fry_group_options options = rig_options(&rig, 4, RANKS, FRY_RANK_ANY);
    options.is_open = true;
    options.deadline_ns = fry_clock_now_ns(&rig.clock) + 3 * RIG_SECOND_NS;
    rig_join(&rig, 4, &options);
    join_within(&rig, 4, 5 * RIG_SECOND_NS, FERRY_E_DEADLINE);
    cr_assert_str_eq(rig.members[4].message,
                     "joining job job: rank 2 is not free yet: still held, or not yet "
                     "acknowledged to have ended, by member 0,3");
}

/* Who holds something and dies holds nothing: others only have to know that it is dead. */
SEEDED(net_group_open, the_holder_is_killed)
{
    GROUP_RIG(rig, 6, seed);
    for (size_t i = 0; i < 4; i++)
        join_open(&rig, i, (int32_t)i);
    rig_settle(&rig);
    rig.members[1].keeps = true;
    end_one(&rig, 2, true);
    begin_open(&rig, 4, 2);
    rig_pass(&rig, RIG_SECOND_NS);
    cr_assert(!rig.members[4].is_joined);
    rig_kill(&rig, 1);
    join_within(&rig, 4, 3 * RIG_LEASE_NS, FERRY_OK);
}

/* A member that is stopped has not acknowledged: the rank waits for its return, or its death. */
SEEDED(net_group_open, a_stopped_member_has_not_acknowledged)
{
    for (int comes_back = 0; comes_back < 2; comes_back++) {
        GROUP_RIG(rig, 6, seed);
        for (size_t i = 0; i < 4; i++)
            join_open(&rig, i, (int32_t)i);
        rig_settle(&rig);
        rig.members[3].is_stopped = true;
        rig_leave(&rig, 2);
        begin_open(&rig, 4, FRY_RANK_ANY);
        rig_pass(&rig, RIG_LEASE_NS / 2);
        cr_assert(!rig.members[4].is_joined);
        if (comes_back)
            rig.members[3].is_stopped = false;
        join_within(&rig, 4, comes_back ? RIG_SECOND_NS : 3 * RIG_LEASE_NS, FERRY_OK);
        GROUP_ASSERT(rank_of(&rig, 4) == (comes_back ? 2 : rank_of(&rig, 4)), "%d",
                     rank_of(&rig, 4));
    }
}

Test(net_group_open, of_free_ranks_the_oldest_is_taken, .timeout = 60)
{
    GROUP_RIG(rig, 8, 1);
    for (size_t i = 0; i < 3; i++)
        join_open(&rig, i, (int32_t)i);
    rig_leave(&rig, 2);
    rig_settle(&rig);
    rig_leave(&rig, 1);
    rig_settle(&rig);
    for (size_t i = 3; i < 6; i++) {
        static const int32_t ranks[] = {3, 2, 1}; /* nobody has had 3 */

        join_open(&rig, i, FRY_RANK_ANY);
        cr_assert_eq(rank_of(&rig, i), ranks[i - 3]);
    }
}

Test(net_group_open, a_place_keeps_its_rank, .timeout = 60)
{
    GROUP_RIG(rig, 4, 1);
    for (int again = 0; again < 2; again++) {
        if (again == 0)
            join_open(&rig, 0, 0);
        fry_group_options options = rig_options(&rig, 1, RANKS, again == 0 ? 2 : FRY_RANK_ANY);
        options.is_open = true;
        options.place = "node";
        rig_join(&rig, 1, &options);
        join_within(&rig, 1, RIG_SECOND_NS, FERRY_OK);
        cr_assert_eq(rank_of(&rig, 1), 2);
        if (again == 0)
            rig_leave(&rig, 1);
    }
}

Test(net_group_open, all_leave_and_begin_anew, .timeout = 60)
{
    GROUP_RIG(rig, 2, 1);
    for (int life = 0; life < 5; life++) {
        join_open(&rig, 0, FRY_RANK_ANY);
        join_open(&rig, 1, FRY_RANK_ANY);
        rig_settle(&rig);
        rig_leave(&rig, (size_t)life % 2);
        rig_leave(&rig, 1 - (size_t)life % 2);
    }
}

/* ---- no memory, once at each place ---- */

/* Whether an allocation failed. One leaves and another takes its rank, in the end. */
static bool change_without_memory(uint64_t nth, bool is_for_long)
{
    GROUP_RIG(rig, 4, 1);
    for (size_t i = 0; i < 3; i++)
        join_open(&rig, i, (int32_t)i);
    rig_settle(&rig);
    rig.members[0].keeps = true;
    failing_allocator_arm(&rig.allocator, nth, is_for_long);
    rig_leave(&rig, 2);
    rig_pass(&rig, RIG_SECOND_NS / 4);
    fry_group_options options = rig_options(&rig, 3, RANKS, 2);
    fry_error *error = NULL;
    options.is_open = true;
    if (rig_try_join(&rig, 3, &options, &error) != FERRY_OK)
        fry_error_release(error);
    rig_pass(&rig, RIG_SECOND_NS);
    failing_allocator_arm(&rig.allocator, 0, false);
    const bool has_failed = failing_allocator_failures(&rig.allocator) != 0;
    cr_assert(rig.members[3].group == NULL || !rig.members[3].is_joined ||
              rig.members[3].status != FERRY_OK);
    rig.members[0].keeps = false;
    rig_let_go(&rig, 0);
    rig_pass(&rig, 3 * RIG_LEASE_NS);
    if (rig.members[3].group == NULL || rig.members[3].status != FERRY_OK) {
        if (rig.members[3].group != NULL)
            rig_shut(&rig, 3);
        join_open(&rig, 3, 2);
    }
    expect_join(&rig, 3, FERRY_OK);
    rig_settle(&rig);
    for (size_t i = 0; i < 2; i++) {
        const size_t count = rig.members[i].event_count;

        /* A goodbye for which there was no memory is a death. */
        const bool has_left = rig.members[i].events[count - 2].what == FERRY_MEMBER_LEFT;
        expect_event(&rig, i, count - 2, 2, has_left ? FERRY_MEMBER_LEFT : FERRY_MEMBER_DEAD);
        expect_event(&rig, i, count - 1, 2, FERRY_MEMBER_HERE);
    }
    return has_failed;
}

Test(net_group_open, without_memory, .timeout = 60)
{
    for (int is_for_long = 0; is_for_long < 2; is_for_long++) {
        uint64_t nth = 1;

        while (change_without_memory(nth, is_for_long != 0))
            nth++;
        cr_assert_gt(nth, 20);
    }
}

/* ---- at random ---- */

/* Whether a member's roster names the other one, as alive. */
static bool is_present_for(const fry_group *group, const fry_group *other)
{
    const fry_group_slot *slot = &group->roster->slots[other->rank];

    return group->roster->lineage == other->roster->lineage &&
           group->roster->life == other->roster->life && slot->id == other->id && !slot->is_dead;
}

/* Of two that are present for one another none holds something of who had the other's rank. */
static void check_held(const group_rig *rig)
{
    for (size_t i = 0; i < rig->count; i++) {
        const fry_group *group = rig->members[i].group;

        if (group == NULL || group->state != FRY_GROUP_JOINED)
            continue;
        for (size_t j = 0; j < rig->count; j++) {
            const rig_member *other = &rig->members[j];

            if (j == i || other->group == NULL || other->group->state != FRY_GROUP_JOINED ||
                !is_present_for(group, other->group) || !is_present_for(other->group, group) ||
                other->held[group->rank] == 0)
                continue;
            GROUP_ASSERT(other->held[group->rank] >> 16 >= group->incarnation,
                         "%zu holds start %llu of rank %d, whose newest is %llu", j,
                         (unsigned long long)(other->held[group->rank] >> 16), group->rank,
                         (unsigned long long)group->incarnation);
        }
    }
}

/* Numbers grow, and of each rank joining and ending take turns. */
static void check_events(const rig_member *member)
{
    ferry_member_state last[RANKS];

    for (uint32_t rank = 0; rank < RANKS; rank++)
        last[rank] = FERRY_MEMBER_ABSENT;
    for (size_t i = 0; i < member->event_count; i++) {
        const rig_event *event = &member->events[i];
        const bool joins = event->what == FERRY_MEMBER_HERE;

        GROUP_ASSERT(i == 0 || member->events[i - 1].number < event->number, "event %zu", i);
        GROUP_ASSERT(last[event->rank] == FERRY_MEMBER_ABSENT ||
                         joins == (last[event->rank] != FERRY_MEMBER_HERE),
                     "event %zu: rank %u twice", i, event->rank);
        last[event->rank] = event->what;
    }
}

/* Two members were told the same from the moment at which both had joined. */
static void check_agreement(const rig_member *one, const rig_member *other)
{
    const uint64_t from = one->group->incarnation > other->group->incarnation
                              ? one->group->incarnation
                              : other->group->incarnation;
    size_t at = 0, with = 0;

    for (;;) {
        while (at < one->event_count &&
               (one->events[at].number <= from ||
                one->events[at].rank == (uint32_t)fry_group_rank(other->group)))
            at++;
        while (with < other->event_count &&
               (other->events[with].number <= from ||
                other->events[with].rank == (uint32_t)fry_group_rank(one->group)))
            with++;
        if (at == one->event_count || with == other->event_count)
            break;
        GROUP_ASSERT(one->events[at].number == other->events[with].number &&
                         one->events[at].rank == other->events[with].rank &&
                         one->events[at].what == other->events[with].what,
                     "events %zu and %zu", at, with);
        at++;
        with++;
    }
    GROUP_ASSERT(at == one->event_count && with == other->event_count, "%zu of %zu, %zu of %zu", at,
                 one->event_count, with, other->event_count);
}

static void act(group_rig *rig, size_t index, bool may_lose_store)
{
    rig_member *member = &rig->members[index];
    const bool is_over = member->group != NULL && fry_group_is_over(member->group);

    switch (rig_random(rig, 10)) {
    case 0:
        if (member->group != NULL && !is_over && !member->is_stopped)
            rig_kill(rig, index);
        break;
    case 1:
        if (member->group != NULL && member->is_joined && !is_over && !member->is_stopped)
            rig_leave(rig, index);
        break;
    case 2:
        if (member->group != NULL)
            member->is_stopped = !member->is_stopped;
        break;
    case 3:
        member->keeps = true;
        break;
    case 4:
    case 5:
        member->keeps = false;
        if (member->group != NULL && member->is_joined && !is_over)
            rig_let_go(rig, index);
        break;
    case 6:
        if (may_lose_store) {
            const rig_back back = (rig_back)rig_random(rig, RIG_BACKS);

            rig_store_stop(rig, back);
            rig_pass(rig, (int64_t)rig_random(rig, 12) * RIG_SECOND_NS);
            rig_store_go_on(rig, back);
        }
        break;
    default:
        if (is_over && !member->is_stopped)
            rig_shut(rig, index);
        if (member->group == NULL && !member->is_stopped)
            begin_open(rig, index, rig_random(rig, 2) ? FRY_RANK_ANY : (int32_t)rig_random(rig, 4));
        break;
    }
}

static void live(uint64_t seed, bool may_lose_store)
{
    GROUP_RIG(rig, 6, seed);
    for (int i = 0; i < 200; i++) {
        act(&rig, (size_t)rig_random(&rig, rig.count), may_lose_store);
        for (uint64_t turns = rig_random(&rig, 30); turns > 0; turns--) {
            (void)rig_turn(&rig);
            check_held(&rig);
        }
        if (rig_random(&rig, 4) == 0)
            rig_pass(&rig, (int64_t)rig_random(&rig, 8) * RIG_SECOND_NS);
        check_held(&rig);
    }
    for (size_t i = 0; i < rig.count; i++) {
        rig.members[i].is_stopped = rig.members[i].keeps = false;
        if (rig.members[i].group != NULL && rig.members[i].is_joined &&
            !fry_group_is_over(rig.members[i].group))
            rig_let_go(&rig, i);
    }
    rig_pass(&rig, 5 * RIG_LEASE_NS);
    check_held(&rig);
    for (size_t i = 0; i < rig.count; i++) {
        const rig_member *member = &rig.members[i];

        if (member->group == NULL || member->group->state != FRY_GROUP_JOINED)
            continue;
        if (!may_lose_store)
            check_events(member);
        for (size_t j = 0; j < i && !may_lose_store; j++) {
            if (rig.members[j].group != NULL && rig.members[j].group->state == FRY_GROUP_JOINED)
                check_agreement(member, &rig.members[j]);
        }
    }
    /* Nothing is held by now: whoever is not in gets a rank, until it is full. */
    for (int again = 0; again < 3; again++) {
        for (size_t i = 0; i < rig.count; i++) {
            if (rig.members[i].group != NULL && fry_group_is_over(rig.members[i].group))
                rig_shut(&rig, i);
            if (rig.members[i].group == NULL)
                begin_open(&rig, i, FRY_RANK_ANY);
        }
        rig_pass(&rig, 5 * RIG_LEASE_NS);
    }
    uint32_t here = 0;
    for (size_t i = 0; i < rig.count; i++)
        here += rig.members[i].group != NULL && rig.members[i].group->state == FRY_GROUP_JOINED;
    GROUP_ASSERT(here == RANKS, "%u are in", here);
}

#undef SEEDS
#define SEEDS 60

SEEDED(net_group_open, at_random)
{
    live(seed, false);
}

SEEDED(net_group_open, at_random_with_a_store_that_is_lost)
{
    live(seed, true);
}
