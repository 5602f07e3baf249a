/* SPDX-License-Identifier: Apache-2.0 */
/* A store that was away, and what becomes of barriers, the living, the step to stop at, values. */
#include "tests/support/group_rig.h"

#include <criterion/criterion.h>
#include <string.h>

#define SEEDS 10
#define SIZE 3
#define LONG_NS (3 * RIG_LEASE_NS)

static void open_group(group_rig *rig, uint64_t seed)
{
    rig_open(rig, SIZE, seed);
    rig_join_all(rig, 0, SIZE, false);
    rig_pass(rig, 2 * RIG_LEASE_NS);
}

static void be_away(group_rig *rig, rig_back back, int64_t ns)
{
    rig_store_stop(rig, back);
    rig_pass(rig, ns);
    rig_store_go_on(rig, back);
}

static void meet(group_rig *rig, const char *name, ferry_status status)
{
    rig_ask asks[SIZE];

    for (size_t i = 0; i < SIZE; i++)
        rig_barrier(rig, i, &asks[i], name, 0);
    for (size_t i = 0; i < SIZE; i++)
        cr_assert_eq(rig_answer(rig, &asks[i]), status, "%zu at %s: %s", i, name, asks[i].message);
}

/* Two wait, the store is away, the third comes: before, meanwhile, after. */
Test(net_group_away_rounds, a_barrier_under_way, .timeout = 60)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        for (rig_back back = 0; back < RIG_BACKS; back++) {
            for (int when = 0; when < 2; when++) {
                const ferry_status expected = back == RIG_BACK_EMPTIED ? FERRY_E_STORE : FERRY_OK;
                group_rig rig;
                rig_ask asks[SIZE];

                open_group(&rig, seed);
                meet(&rig, "x", FERRY_OK);
                for (size_t i = 0; i < 2; i++)
                    rig_barrier(&rig, i, &asks[i], "x", 0);
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
                for (size_t i = 0; i < SIZE; i++)
                    cr_assert_eq(rig_answer(&rig, &asks[i]), expected, "%zu: %s", i,
                                 asks[i].message);
                if (back == RIG_BACK_EMPTIED)
                    cr_assert(strstr(asks[0].message, "emptied or replaced") != NULL);
                meet(&rig, "x", FERRY_OK);
                rig_close(&rig);
            }
        }
    }
}

/* Some have been told that it was passed, one has not: it is told so, or that nobody knows. */
Test(net_group_away_rounds, a_barrier_that_one_has_not_been_told_of, .timeout = 60)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        for (rig_back back = 0; back < RIG_BACKS; back++) {
            group_rig rig;
            rig_ask asks[SIZE];

            open_group(&rig, seed);
            rig_barrier(&rig, 2, &asks[2], "x", 0);
            rig_settle(&rig);
            faulty_store_cut(rig.members[2].faulty, true);
            for (size_t i = 0; i < 2; i++) {
                rig_barrier(&rig, i, &asks[i], "x", 0);
            }
            for (size_t i = 0; i < 2; i++)
                cr_assert_eq(rig_answer(&rig, &asks[i]), FERRY_OK);
            cr_assert(!asks[2].is_done);
            be_away(&rig, back, LONG_NS);
            cr_assert_eq(rig_answer(&rig, &asks[2]),
                         back == RIG_BACK_EMPTIED ? FERRY_E_STORE : FERRY_OK);
            meet(&rig, "x", FERRY_OK);
            meet(&rig, "y", FERRY_OK);
            rig_close(&rig);
        }
    }
}

/* It has a deadline, and the store is away until after that. */
Test(net_group_away_rounds, a_deadline_meanwhile, .timeout = 60)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        for (rig_back back = 0; back < RIG_BACKS; back++) {
            group_rig rig;
            rig_ask asks[SIZE];

            open_group(&rig, seed);
            meet(&rig, "x", FERRY_OK);
            rig_store_stop(&rig, back);
            for (size_t i = 0; i < SIZE; i++)
                rig_barrier(&rig, i, &asks[i], "x", RIG_LEASE_NS);
            rig_pass(&rig, RIG_LEASE_NS + RIG_SECOND_NS / 4);
            for (size_t i = 0; i < SIZE; i++) {
                cr_assert(asks[i].is_done);
                cr_assert_eq(asks[i].status, FERRY_E_DEADLINE);
                cr_assert(strstr(asks[i].message, "does not answer who has come") != NULL, "%s",
                          asks[i].message);
            }
            rig_pass(&rig, RIG_LEASE_NS);
            rig_store_go_on(&rig, back);
            rig_pass(&rig, RIG_SECOND_NS);
            meet(&rig, "x", FERRY_OK);
            rig_close(&rig);
        }
    }
}

static bool is_joined(void *arg)
{
    return ((rig_member *)arg)->is_joined;
}

/* A start that comes when the store is empty is told of what others have passed, once. */
Test(net_group_away_rounds, a_new_start_is_told_of_what_was_passed, .timeout = 60)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        for (rig_back back = 0; back < RIG_BACKS; back++) {
            group_rig rig;
            rig_ask asks[SIZE];

            open_group(&rig, seed);
            for (int i = 0; i < 3; i++)
                meet(&rig, "x", FERRY_OK);
            meet(&rig, "once", FERRY_OK);
            rig_store_stop(&rig, back);
            rig_kill(&rig, 1);
            const fry_group_options options = rig_options(&rig, 1, SIZE, 1);
            rig_join(&rig, 1, &options);
            rig_pass(&rig, LONG_NS);
            rig_store_go_on(&rig, back);
            cr_assert(rig_until(&rig, is_joined, &rig.members[1], 3 * RIG_LEASE_NS));
            for (size_t i = 0; i < SIZE; i += 2)
                rig_barrier(&rig, i, &asks[i], "x", 0);
            rig_barrier(&rig, 1, &asks[1], "x", 0);
            cr_assert_eq(rig_answer(&rig, &asks[1]), FERRY_E_CHANGED, "%s", asks[1].message);
            rig_barrier(&rig, 1, &asks[1], "x", 0);
            for (size_t i = 0; i < SIZE; i++)
                cr_assert_eq(rig_answer(&rig, &asks[i]), FERRY_OK, "%s", asks[i].message);
            rig_barrier(&rig, 1, &asks[1], "once", 0);
            cr_assert_eq(rig_answer(&rig, &asks[1]), FERRY_E_CHANGED, "%s", asks[1].message);
            meet(&rig, "never", FERRY_OK);
            rig_close(&rig);
        }
    }
}

Test(net_group_away_rounds, the_living_under_way, .timeout = 60)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        for (rig_back back = 0; back < RIG_BACKS; back++) {
            group_rig rig;
            rig_ask asks[SIZE];

            open_group(&rig, seed);
            for (size_t i = 0; i < SIZE; i++) {
                rig_ask_begin(&rig, i, &asks[i], FRY_GROUP_ALIVE, NULL);
                if (i < 2)
                    fry_group_submit(rig.members[i].group, &asks[i].request);
            }
            rig_settle(&rig);
            be_away(&rig, back, LONG_NS);
            rig_settle(&rig);
            if (back == RIG_BACK_EMPTIED) {
                for (size_t i = 0; i < 2; i++) {
                    cr_assert_eq(rig_answer(&rig, &asks[i]), FERRY_E_STORE);
                    rig_ask_begin(&rig, i, &asks[i], FRY_GROUP_ALIVE, NULL);
                    fry_group_submit(rig.members[i].group, &asks[i].request);
                }
            }
            fry_group_submit(rig.members[2].group, &asks[2].request);
            for (size_t i = 0; i < SIZE; i++) {
                cr_assert_eq(rig_answer(&rig, &asks[i]), FERRY_OK, "%s", asks[i].message);
                cr_assert_eq(asks[i].value_bytes, SIZE * sizeof(uint32_t));
            }
            rig_close(&rig);
        }
    }
}

/* The step is agreed upon, one member has not been told, and the store is emptied. */
Test(net_group_away_rounds, the_step_to_stop_at_stays, .timeout = 60)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        for (rig_back back = 0; back < RIG_BACKS; back++) {
            for (int is_told = 0; is_told < 2; is_told++) {
                group_rig rig;
                rig_ask notice, steps[SIZE];

                open_group(&rig, seed);
                for (size_t i = 0; i < SIZE; i++) {
                    rig_ask_begin(&rig, i, &steps[i], FRY_GROUP_STEP, NULL);
                    steps[i].request.step = 5 + i;
                    fry_group_submit(rig.members[i].group, &steps[i].request);
                    cr_assert_eq(rig_answer(&rig, &steps[i]), FERRY_OK);
                }
                /* Rank 2 knows of the notice, and has come; what came of it it is not told. */
                rig.members[1].is_stopped = !is_told;
                rig_ask_begin(&rig, 0, &notice, FRY_GROUP_NOTICE, NULL);
                fry_group_submit(rig.members[0].group, &notice.request);
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
                    fry_group_submit(rig.members[i].group, &steps[i].request);
                    cr_assert_eq(rig_answer(&rig, &steps[i]), FERRY_OK);
                }
                /* Who knew it longest is gone: the others do. */
                rig_kill(&rig, 0);
                const fry_group_options options = rig_options(&rig, 0, SIZE, 0);
                rig_join(&rig, 0, &options);
                cr_assert(rig_until(&rig, is_joined, &rig.members[0], 3 * RIG_LEASE_NS));
                rig_settle(&rig);
                cr_assert_eq(fry_group_stop_step(rig.members[0].group), 7);
                rig_close(&rig);
            }
        }
    }
}

/* Given while the store is away: it comes through then. */
Test(net_group_away_rounds, a_notice_meanwhile, .timeout = 60)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        for (rig_back back = 0; back < RIG_BACKS; back++) {
            group_rig rig;
            rig_ask notice;

            open_group(&rig, seed);
            rig_store_stop(&rig, back);
            rig_ask_begin(&rig, 1, &notice, FRY_GROUP_NOTICE, NULL);
            fry_group_submit(rig.members[1].group, &notice.request);
            rig_pass(&rig, LONG_NS);
            cr_assert(!notice.is_done);
            rig_store_go_on(&rig, back);
            cr_assert_eq(rig_answer(&rig, &notice), FERRY_OK, "%s", notice.message);
            rig_pass(&rig, RIG_SECOND_NS);
            for (size_t i = 0; i < SIZE; i++)
                cr_assert_eq(fry_group_stop_step(rig.members[i].group), 0);
            rig_close(&rig);
        }
    }
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
Test(net_group_away_rounds, values, .timeout = 60)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        for (rig_back back = 0; back < RIG_BACKS; back++) {
            group_rig rig;
            rig_ask ask, watch, try_;

            open_group(&rig, seed);
            set(&rig, &ask, "one");
            rig_ask_begin(&rig, 1, &watch, FRY_GROUP_WATCH, "key");
            watch.request.version = ask.version;
            fry_group_submit(rig.members[1].group, &watch.request);
            rig_settle(&rig);
            be_away(&rig, back, LONG_NS);
            rig_pass(&rig, RIG_SECOND_NS);
            cr_assert(!watch.is_done);
            rig_ask_begin(&rig, 2, &try_, FRY_GROUP_TRY_GET, "key");
            fry_group_submit(rig.members[2].group, &try_.request);
            cr_assert_eq(rig_answer(&rig, &try_),
                         back == RIG_BACK_EMPTIED ? FERRY_E_NOT_FOUND : FERRY_OK);
            set(&rig, &ask, "two");
            cr_assert_eq(rig_answer(&rig, &watch), FERRY_OK);
            cr_assert_str_eq(watch.value, "two");
            rig_close(&rig);
        }
    }
}
