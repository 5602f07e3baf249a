/* SPDX-License-Identifier: Apache-2.0 */
/* A store that was away, and what becomes of barriers, the living, the step to stop at, values. */
#include "tests/unit/group_test.h"

#define SEEDS 10
#define SIZE 3
#define LONG_NS (3 * RIG_LEASE_NS)

/* A case that holds for each seed, and each way that the store may be back. */
#define AWAY(name_)                                                                                \
    static void name_(uint64_t seed, rig_back back);                                               \
    Test(net_group_away_rounds, name_, .timeout = 60)                                              \
    {                                                                                              \
        for (group_seed = 1; group_seed <= SEEDS; group_seed++) {                                  \
            for (rig_back back = 0; back < RIG_BACKS; back++)                                      \
                name_(group_seed, back);                                                           \
        }                                                                                          \
    }                                                                                              \
    static void name_(uint64_t seed, rig_back back)

static void open_group(group_rig *rig, uint64_t seed)
{
    rig_open(rig, SIZE, seed);
    rig_join_all(rig, 0, SIZE, false);
    rig_pass(rig, 2 * RIG_LEASE_NS);
}

#define AWAY_RIG(name_, seed_)                                                                     \
    OWNED(rig_close) group_rig name_;                                                              \
    open_group(&(name_), seed_)

static void be_away(group_rig *rig, rig_back back, int64_t ns)
{
    rig_store_stop(rig, back);
    rig_pass(rig, ns);
    rig_store_go_on(rig, back);
}

/* Two wait, the store is away, the third comes: before, meanwhile, after. */
AWAY(a_barrier_under_way)
{
    for (int when = 0; when < 2; when++) {
        const ferry_status expected = back == RIG_BACK_EMPTIED ? FERRY_E_STORE : FERRY_OK;
        rig_ask asks[SIZE];
        AWAY_RIG(rig, seed);
        meet(&rig, 0, SIZE, NOBODY, "x", FERRY_OK);
        come(&rig, asks, 0, 2, NOBODY, "x", 0);
        rig_settle(&rig);
        rig_store_stop(&rig, back);
        if (when == 0)
            rig_barrier(&rig, 2, &asks[2], "x", 0);
        rig_pass(&rig, LONG_NS);
        rig_store_go_on(&rig, back);
        if (when == 1) {
            rig_pass(&rig, RIG_SECOND_NS);
            rig_barrier(&rig, 2, &asks[2], "x", 0);
        }
        expect_answers(&rig, asks, 0, SIZE, NOBODY, expected);
        if (back == RIG_BACK_EMPTIED)
            cr_assert(strstr(asks[0].message, "emptied or replaced") != NULL);
        meet(&rig, 0, SIZE, NOBODY, "x", FERRY_OK);
    }
}

/* Some have been told that it was passed, one has not: it is told so, or that nobody knows. */
AWAY(a_barrier_that_one_has_not_been_told_of)
{
    rig_ask asks[SIZE];
    AWAY_RIG(rig, seed);
    rig_barrier(&rig, 2, &asks[2], "x", 0);
    rig_settle(&rig);
    faulty_store_cut(rig.members[2].faulty, true);
    come(&rig, asks, 0, 2, NOBODY, "x", 0);
    expect_answers(&rig, asks, 0, 2, NOBODY, FERRY_OK);
    cr_assert(!asks[2].is_done);
    be_away(&rig, back, LONG_NS);
    cr_assert_eq(rig_answer(&rig, &asks[2]), back == RIG_BACK_EMPTIED ? FERRY_E_STORE : FERRY_OK);
    meet(&rig, 0, SIZE, NOBODY, "x", FERRY_OK);
    meet(&rig, 0, SIZE, NOBODY, "y", FERRY_OK);
}

/* It has a deadline, and the store is away until after that. */
AWAY(a_deadline_meanwhile)
{
    rig_ask asks[SIZE];
    AWAY_RIG(rig, seed);
    meet(&rig, 0, SIZE, NOBODY, "x", FERRY_OK);
    rig_store_stop(&rig, back);
    come(&rig, asks, 0, SIZE, NOBODY, "x", RIG_LEASE_NS);
    rig_pass(&rig, RIG_LEASE_NS + RIG_SECOND_NS / 4);
    expect_done(asks, 0, SIZE, NOBODY, FERRY_E_DEADLINE, "does not answer who has come");
    rig_pass(&rig, RIG_LEASE_NS);
    rig_store_go_on(&rig, back);
    rig_pass(&rig, RIG_SECOND_NS);
    meet(&rig, 0, SIZE, NOBODY, "x", FERRY_OK);
}

/* A start that comes when the store is empty is told of what others have passed, once. */
AWAY(a_new_start_is_told_of_what_was_passed)
{
    rig_ask asks[SIZE];
    AWAY_RIG(rig, seed);
    for (int i = 0; i < 3; i++)
        meet(&rig, 0, SIZE, NOBODY, "x", FERRY_OK);
    meet(&rig, 0, SIZE, NOBODY, "once", FERRY_OK);
    rig_store_stop(&rig, back);
    rig_kill(&rig, 1);
    begin_join(&rig, 1, SIZE, 1);
    rig_pass(&rig, LONG_NS);
    rig_store_go_on(&rig, back);
    cr_assert(rig_until(&rig, is_joined, &rig.members[1], 3 * RIG_LEASE_NS));
    for (size_t i = 0; i < SIZE; i += 2)
        rig_barrier(&rig, i, &asks[i], "x", 0);
    rig_barrier(&rig, 1, &asks[1], "x", 0);
    cr_assert_eq(rig_answer(&rig, &asks[1]), FERRY_E_CHANGED, "%s", asks[1].message);
    rig_barrier(&rig, 1, &asks[1], "x", 0);
    expect_answers(&rig, asks, 0, SIZE, NOBODY, FERRY_OK);
    rig_barrier(&rig, 1, &asks[1], "once", 0);
    cr_assert_eq(rig_answer(&rig, &asks[1]), FERRY_E_CHANGED, "%s", asks[1].message);
    meet(&rig, 0, SIZE, NOBODY, "never", FERRY_OK);
}

AWAY(the_living_under_way)
{
    rig_ask asks[SIZE];
    AWAY_RIG(rig, seed);
    for (size_t i = 0; i < SIZE; i++) {
        rig_ask_begin(&rig, i, &asks[i], FRY_GROUP_ALIVE, NULL);
        if (i < 2)
            submit(&rig, i, &asks[i]);
    }
    rig_settle(&rig);
    be_away(&rig, back, LONG_NS);
    rig_settle(&rig);
    if (back == RIG_BACK_EMPTIED) {
        for (size_t i = 0; i < 2; i++) {
            cr_assert_eq(rig_answer(&rig, &asks[i]), FERRY_E_STORE);
            ask_for(&rig, i, &asks[i], FRY_GROUP_ALIVE, NULL);
        }
    }
    submit(&rig, 2, &asks[2]);
    for (size_t i = 0; i < SIZE; i++) {
        cr_assert_eq(rig_answer(&rig, &asks[i]), FERRY_OK, "%s", asks[i].message);
        cr_assert_eq(asks[i].value_bytes, SIZE * sizeof(uint32_t));
    }
}

/* The step is agreed upon, one member has not been told, and the store is emptied. */
AWAY(the_step_to_stop_at_stays)
{
    for (int is_told = 0; is_told < 2; is_told++) {
        rig_ask notice, steps[SIZE];
        AWAY_RIG(rig, seed);
        for (size_t i = 0; i < SIZE; i++) {
            rig_ask_begin(&rig, i, &steps[i], FRY_GROUP_STEP, NULL);
            steps[i].request.step = 5 + i;
            submit(&rig, i, &steps[i]);
            cr_assert_eq(rig_answer(&rig, &steps[i]), FERRY_OK);
        }
        /* Rank 2 knows of the notice, and has come; what came of it it is not told. */
        rig.members[1].is_stopped = !is_told;
        ask_for(&rig, 0, &notice, FRY_GROUP_NOTICE, NULL);
        rig_settle(&rig);
        if (is_told)
            cr_assert_eq(fry_group_stop_step(rig.members[2].group), 7);
        else
            faulty_store_cut(rig.members[2].faulty, true);
        rig.members[1].is_stopped = false;
        rig_settle(&rig);
        be_away(&rig, back, LONG_NS);
        rig_pass(&rig, RIG_SECOND_NS);
        for (size_t i = 0; i < SIZE; i++) {
            cr_assert_eq(fry_group_stop_step(rig.members[i].group), 7, "%zu: %d", i,
                         (int)fry_group_stop_step(rig.members[i].group));
            rig_ask_begin(&rig, i, &steps[i], FRY_GROUP_STEP, NULL);
            steps[i].request.step = 6 + i;
            submit(&rig, i, &steps[i]);
            cr_assert_eq(rig_answer(&rig, &steps[i]), FERRY_OK);
        }
        /* Who knew it longest is gone: the others do. */
        rig_kill(&rig, 0);
        begin_join(&rig, 0, SIZE, 0);
        cr_assert(rig_until(&rig, is_joined, &rig.members[0], 3 * RIG_LEASE_NS));
        rig_settle(&rig);
        cr_assert_eq(fry_group_stop_step(rig.members[0].group), 7);
    }
}

/* Given while the store is away: it comes through then. */
AWAY(a_notice_meanwhile)
{
    rig_ask notice;
    AWAY_RIG(rig, seed);
    rig_store_stop(&rig, back);
    ask_for(&rig, 1, &notice, FRY_GROUP_NOTICE, NULL);
    rig_pass(&rig, LONG_NS);
    cr_assert(!notice.is_done);
    rig_store_go_on(&rig, back);
    cr_assert_eq(rig_answer(&rig, &notice), FERRY_OK, "%s", notice.message);
    rig_pass(&rig, RIG_SECOND_NS);
    for (size_t i = 0; i < SIZE; i++)
        cr_assert_eq(fry_group_stop_step(rig.members[i].group), 0);
}

static void set(group_rig *rig, rig_ask *ask, const char *value)
{
    rig_ask_begin(rig, 0, ask, FRY_GROUP_SET, "key");
    ask->request.value = value;
    ask->request.value_bytes = strlen(value);
    fry_group_submit(rig->members[0].group, &ask->request);
    cr_assert_eq(rig_answer(rig, ask), FERRY_OK, "%s", ask->message);
}

/* Values stay where the store keeps them; in an emptied one they are gone, and versions begin
 * anew, for who waits as well. */
AWAY(values)
{
    rig_ask ask, watch, try_;
    AWAY_RIG(rig, seed);
    set(&rig, &ask, "one");
    rig_ask_begin(&rig, 1, &watch, FRY_GROUP_WATCH, "key");
    watch.request.version = ask.version;
    submit(&rig, 1, &watch);
    rig_settle(&rig);
    be_away(&rig, back, LONG_NS);
    rig_pass(&rig, RIG_SECOND_NS);
    cr_assert(!watch.is_done);
    ask_for(&rig, 2, &try_, FRY_GROUP_TRY_GET, "key");
    cr_assert_eq(rig_answer(&rig, &try_), back == RIG_BACK_EMPTIED ? FERRY_E_NOT_FOUND : FERRY_OK);
    set(&rig, &ask, "two");
    cr_assert_eq(rig_answer(&rig, &watch), FERRY_OK);
    cr_assert_str_eq(watch.value, "two");
}
