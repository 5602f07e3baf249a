/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members for tests of the public API: several engines in one process that meet in a mem: store.
 * For Criterion programs.
 */
#ifndef FERRY_TESTS_MEMBER_TEST_H
#define FERRY_TESTS_MEMBER_TEST_H

#include "tests/support/effort.h"
#include "tests/support/patience.h"
#include "tests/support/scene.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <time.h>

#define MEMBERS_MAX 8
/* Longer than any test: nobody is dead for want of a core. */
#define TEST_LEASE_NS (INT64_C(20000000000) * PATIENCE)

typedef struct test_member {
    test_engine te;
    ferry_group *group;
    ferry_loop_mode loop;
} test_member;

static inline int64_t test_in_ns(int64_t left_ns)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec + left_ns;
}

/* rank FERRY_RANK_NONE: the member names none. */
static inline ferry_group_options test_group_options(uint32_t size, ferry_rank rank)
{
    ferry_group_options options = FERRY_GROUP_OPTIONS_INIT;
    options.store = "mem:test";
    options.job = "job";
    options.size = size;
    options.has_rank = rank != FERRY_RANK_NONE;
    options.rank = options.has_rank ? rank : 0;
    options.lease_ns = TEST_LEASE_NS;
    options.unexpected_max = UNEXPECTED_FEW;
    options.deadline_ns = test_in_ns(INT64_C(30000000000) * PATIENCE);
    return options;
}

/* An engine with real time, also where it is embedded: leases go by it. */
static inline void test_member_open(test_member *member, ferry_loop_mode loop)
{
    ferry_engine_options options = test_engine_options(&member->te, loop);
    options.clock = NULL;
    test_engine_create(&member->te, &options);
    member->group = NULL;
    member->loop = loop;
}

/* Embedded engines of a test move only here. */
static inline void test_members_move(test_member *members, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (members[i].loop == FERRY_LOOP_EMBEDDED)
            (void)ferry_engine_progress(members[i].te.engine, 0);
    }
}

/* Gives the future back. */
static inline ferry_status test_await(test_member *members, size_t count, ferry_future *future)
{
    ferry_status status;
    while ((status = ferry_future_wait(future, 1000000)) == FERRY_PENDING)
        test_members_move(members, count);
    ferry_future_release(future);
    return status;
}

static inline void test_members_join(test_member *members, uint32_t count)
{
    ferry_future *joins[MEMBERS_MAX];
    for (uint32_t i = 0; i < count; i++) {
        ferry_group_options options = test_group_options(count, (ferry_rank)i);
        joins[i] = ferry_group_join(members[i].te.engine, &options, &members[i].group);
    }
    for (uint32_t i = 0; i < count; i++)
        ASSERT_STATUS(test_await(members, count, joins[i]), FERRY_OK);
}

/* ---- the members of a case ---- */

/* Buffers of theirs, their futures and promises are the scene's. */
static test_member members[MEMBERS_MAX];
static uint32_t member_count;

/* One more, which joins no group yet. */
static inline test_member *begin_member(ferry_loop_mode loop)
{
    cr_assert_lt(member_count, MEMBERS_MAX);
    test_member_open(&members[member_count], loop);
    return &members[member_count++];
}

static inline ferry_future *join_group(size_t member, const ferry_group_options *options)
{
    return ferry_group_join(members[member].te.engine, options, &members[member].group);
}

/* Engines that have joined one group, ranks in order. */
static inline void begin_members(uint32_t count, ferry_loop_mode loop)
{
    for (uint32_t i = 0; i < count; i++)
        (void)begin_member(loop);
    test_members_join(members, count);
}

/* A buffer of a member's, filled with a byte; the scene's. */
static inline ferry_buffer *buffer_of(size_t rank, size_t device, size_t size_bytes, int fill)
{
    return own(test_buffer(&members[rank].te, device, size_bytes, fill));
}

/* Gives the future back. */
static inline ferry_status await(ferry_future *future)
{
    return test_await(members, member_count, future);
}

#define AWAIT(future, expected) ASSERT_STATUS(await(future), FERRY_##expected)

/* Groups go with their engines; all other handles are back by now, so all memory goes too. */
static inline void test_members_close(test_member *members, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        ferry_group_release(members[i].group);
    for (uint32_t i = 0; i < count; i++)
        test_engine_close(&members[i].te);
}

static inline void end_members(void)
{
    scene_end();
    if (!suite_has_failed())
        test_members_close(members, member_count);
    member_count = 0;
}

#define MEMBER_SUITE(...) TestSuite(__VA_ARGS__, .fini = end_members, .timeout = HANG_S)

#endif
