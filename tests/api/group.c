/* SPDX-License-Identifier: Apache-2.0 */
/* Groups: engines of one process that meet in a mem: store. */
#include "tests/support/member_test.h"
#include "tests/support/place.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

MEMBER_SUITE(group);

static void assert_value(ferry_future *future, const char *text)
{
    ferry_value value = FERRY_VALUE_INIT;
    ASSERT_STATUS(ferry_future_value(future, &value), FERRY_OK);
    cr_assert_eq(value.size_bytes, strlen(text));
    cr_assert_str_eq((const char *)value.data, text);
    cr_assert_neq(value.version, 0);
}

static void assert_joined(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        cr_assert_eq(ferry_group_rank(members[i].group), i);
        cr_assert_eq(ferry_group_size(members[i].group), count);
        for (uint32_t rank = 0; rank < count; rank++) {
            ferry_member_info info = FERRY_MEMBER_INFO_INIT;
            ASSERT_STATUS(ferry_group_member(members[i].group, rank, &info), FERRY_OK);
            cr_assert_eq(info.state, FERRY_MEMBER_HERE);
            cr_assert_eq(info.rank, rank);
            cr_assert_neq(info.incarnation, 0);
            cr_assert_eq(info.device_count, TEST_DEVICES);
            cr_assert(info.is_on_this_host);
            cr_assert_eq(info.pid, getpid());
        }
        ferry_member_info none = FERRY_MEMBER_INFO_INIT;
        ASSERT_STATUS(ferry_group_member(members[i].group, count, &none), FERRY_E_NOT_FOUND);
    }
}

Test(group, is_joined_by_engines_with_threads)
{
    PLACE_NEEDS(place_lacks_this_host);
    begin_members(3, FERRY_LOOP_THREAD);
    assert_joined(3);
}

Test(group, is_joined_by_embedded_engines)
{
    PLACE_NEEDS(place_lacks_this_host);
    begin_members(3, FERRY_LOOP_EMBEDDED);
    assert_joined(3);
}

Test(group, gives_ranks_to_who_names_none)
{
    ferry_future *joins[3];
    bool is_taken[3] = {false};
    for (size_t i = 0; i < 3; i++) {
        (void)begin_member(FERRY_LOOP_THREAD);
        ferry_group_options options = test_group_options(3, FERRY_RANK_NONE);
        joins[i] = join_group(i, &options);
    }
    for (size_t i = 0; i < 3; i++) {
        AWAIT(joins[i], OK);
        ferry_rank rank = ferry_group_rank(members[i].group);
        cr_assert(rank < 3 && !is_taken[rank]);
        is_taken[rank] = true;
    }
}

Test(group, knows_whose_a_device_is)
{
    begin_members(2, FERRY_LOOP_THREAD);
    uint32_t seen = 0;
    for (uint32_t device = 0; device < 2 * TEST_DEVICES; device++) {
        ferry_rank rank;
        uint32_t index;
        ASSERT_STATUS(ferry_group_device(members[0].group, device, &rank, &index), FERRY_OK);
        cr_assert_lt(index, TEST_DEVICES);
        seen += rank;
    }
    cr_assert_eq(seen, TEST_DEVICES);
    ferry_rank rank;
    uint32_t index;
    ASSERT_STATUS(ferry_group_device(members[0].group, 2 * TEST_DEVICES, &rank, &index),
                  FERRY_E_NOT_FOUND);
}

Test(group, names_all_who_did_not_come)
{
    (void)begin_member(FERRY_LOOP_THREAD);
    ferry_group_options options = test_group_options(4, 1);
    options.deadline_ns = test_in_ns(200000000);
    ferry_future *join = join_group(0, &options);
    cr_assert_not_null(members[0].group);
    ASSERT_STATUS(ferry_future_wait(join, -1), FERRY_E_DEADLINE);
    const char *message = ferry_future_error(join)->message;
    cr_assert(strchr(message, '0') != NULL && strchr(message, '2') != NULL &&
                  strchr(message, '3') != NULL,
              "%s", message);
    ferry_future_release(join);
    cr_assert_eq(ferry_group_rank(members[0].group), FERRY_RANK_NONE);
    cr_assert_eq(ferry_group_size(members[0].group), 0);
}

/* The clock stands still until it is stepped: so only the loop's own question, what is due by it,
 * has the group go on. */
Test(group, an_embedded_engine_says_when_its_group_is_due_by_the_users_clock)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_group_options options = test_group_options(2, 0);
    options.deadline_ns = START_NS + 10000000000;
    ferry_group *group = NULL;
    ferry_future *join = ferry_group_join(te.engine, &options, &group);
    int64_t passed_ns = 0;
    while (ferry_future_poll(join) == FERRY_PENDING) {
        while (ferry_engine_arm(te.engine) == FERRY_E_BUSY)
            (void)ferry_engine_progress(te.engine, 0);
        if (ferry_future_poll(join) != FERRY_PENDING)
            break;
        int64_t left_ns = ferry_engine_timeout_ns(te.engine);
        cr_assert_gt(left_ns, 0, "it sleeps, though %lld ns", (long long)left_ns);
        stepped_clock_step(&te.time, left_ns);
        passed_ns += left_ns;
        cr_assert_eq(ferry_engine_timeout_ns(te.engine), 0);
        ASSERT_STATUS(ferry_engine_arm(te.engine), FERRY_E_BUSY);
    }
    cr_assert_geq(passed_ns, 10000000000);
    ASSERT_STATUS(ferry_future_poll(join), FERRY_E_DEADLINE);
    ferry_future_release(join);
    ferry_group_release(group);
    test_engine_close(&te);
}

Test(group, says_why_a_store_does_not_answer)
{
    (void)begin_member(FERRY_LOOP_THREAD);
    ferry_group_options options = test_group_options(2, 0);
    options.store = "etcd://127.0.0.1:1"; /* nobody is there */
    options.deadline_ns = test_in_ns(300000000);
    ferry_future *join = own(join_group(0, &options));
    ASSERT_STATUS(ferry_future_wait(join, -1), FERRY_E_DEADLINE);
    const char *message = ferry_future_error(join)->message;
    cr_assert_not_null(strstr(message, "etcd://127.0.0.1:1"), "%s", message);
    cr_assert_not_null(strstr(message, "connect"), "%s", message);
}

Test(group, says_why_a_folder_is_no_store)
{
    (void)begin_member(FERRY_LOOP_THREAD);
    ferry_group_options options = test_group_options(2, 0);
    options.store = "file:/nonexistent/folder";
    ferry_future *join = own(join_group(0, &options));
    ASSERT_STATUS(ferry_future_wait(join, -1), FERRY_E_STORE);
    const ferry_error *error = ferry_future_error(join);
    cr_assert_str_eq(error->domain, "errno");
    cr_assert_eq(error->native_code, ENOENT);
    cr_assert_not_null(strstr(error->message, "/nonexistent/folder"), "%s", error->message);
}

Test(group, is_not_joined_after_a_cancel)
{
    (void)begin_member(FERRY_LOOP_THREAD);
    for (int i = 0; i < 20; i++) {
        ferry_group_options options = test_group_options(2, 0);
        ferry_future *join = join_group(0, &options);
        if (i % 2 == 0)
            (void)ferry_future_wait(join, 2000000);
        ASSERT_STATUS(ferry_future_cancel(join), FERRY_OK);
        AWAIT(join, E_CANCELLED);
        ferry_group_release(members[0].group);
        members[0].group = NULL;
    }
}

static ferry_status join_with(test_member *member, const ferry_group_options *options)
{
    int lines = atomic_load(&member->te.log_lines);
    ferry_group *group = (ferry_group *)member;
    ferry_status status = status_of(ferry_group_join(member->te.engine, options, &group));
    cr_assert_null(group);
    cr_assert_gt(atomic_load(&member->te.log_lines), lines, "no line says why");
    return status;
}

Test(group, refuses_options_that_cant_be)
{
    (void)begin_member(FERRY_LOOP_THREAD);
    const ferry_group_options good = test_group_options(2, 0);
    char long_name[200];
    memset(long_name, 'x', sizeof long_name);
    long_name[199] = '\0';
#define REFUSED(field, value)                                                                      \
    do {                                                                                           \
        ferry_group_options options_ = good;                                                       \
        options_.field = (value);                                                                  \
        ASSERT_STATUS(join_with(members, &options_), FERRY_E_INVALID);                             \
    } while (0)
    REFUSED(struct_size, 3);
    REFUSED(store, NULL);
    REFUSED(store, "");
    REFUSED(job, NULL);
    REFUSED(job, "");
    REFUSED(job, "a/b");
    REFUSED(job, long_name);
    REFUSED(job, "..");
    REFUSED(place, "");
    REFUSED(place, "a b");
    REFUSED(place, "-");
    REFUSED(place, long_name);
    REFUSED(size, FERRY_GROUP_SIZE_MAX + 1);
    REFUSED(size_min, FERRY_GROUP_SIZE_MAX + 1);
    REFUSED(size, 0); /* with a rank */
    REFUSED(rank, 2);
    REFUSED(rank, FERRY_RANK_NONE);
    REFUSED(reserved[1], 1);
    REFUSED(secret, "short");
    REFUSED(secret_bytes, 16);
    REFUSED(lease_ns, 1999999999);
    REFUSED(window_messages, UINT32_MAX);
    REFUSED(window_bytes, SIZE_MAX);
    REFUSED(unexpected_max, (1 << 24) + 1);
    REFUSED(lease_ns, INT64_C(3600000000001));
    REFUSED(device_count, 65536);
#undef REFUSED
    ferry_group_options unsaid = good; /* a rank, but nothing says that it is one */
    unsaid.rank = 1;
    unsaid.has_rank = false;
    ASSERT_STATUS(join_with(members, &unsaid), FERRY_E_INVALID);
    ASSERT_STATUS(join_with(members, NULL), FERRY_E_INVALID);
    ferry_group *group;
    ferry_group_options late = good;
    late.deadline_ns = -1;
    ASSERT_STATUS(status_of(ferry_group_join(members[0].te.engine, &late, &group)),
                  FERRY_E_DEADLINE);
    cr_assert_null(group);
    ASSERT_STATUS(status_of(ferry_group_join(NULL, &good, &group)), FERRY_E_INVALID);
    ASSERT_STATUS(status_of(ferry_group_join(members[0].te.engine, &good, NULL)), FERRY_E_INVALID);
    ferry_group_options none = good;
    none.store = "nothing:x";
    ferry_status status =
        test_await(members, 1, ferry_group_join(members[0].te.engine, &none, &group));
    cr_assert(status == FERRY_E_INVALID || status == FERRY_E_STORE, "%s",
              ferry_status_name(status));
    ferry_group_release(group);
    ferry_group_release(NULL);
}

Test(group, zero_is_the_default)
{
    ferry_future *joins[2];
    for (int i = 0; i < 2; i++) {
        (void)begin_member(FERRY_LOOP_THREAD);
        ferry_group_options options = {.struct_size = sizeof options,
                                       .store = "mem:test",
                                       .job = "job",
                                       .size = 2,
                                       .rank = (ferry_rank)i,
                                       .has_rank = true,
                                       .deadline_ns = test_in_ns(30000000000)};
        joins[i] = join_group((size_t)i, &options);
    }
    for (ferry_rank i = 0; i < 2; i++) {
        AWAIT(joins[i], OK);
        cr_assert_eq(ferry_group_rank(members[i].group), i);
    }
}

static void assert_fails(ferry_future *future, ferry_status status, const char *words)
{
    ASSERT_STATUS(ferry_future_wait(future, -1), status);
    const ferry_error *error = ferry_future_error(future);
    cr_assert(error != NULL && strstr(error->message, words) != NULL, "%s",
              error != NULL ? error->message : "no error");
    ferry_future_release(future);
}

/* A group that has been formed: who comes late is told so, and not that its deadline passed. */
Test(group, who_comes_late_is_told)
{
    ferry_future *joins[3];
    ferry_group_options options = {.struct_size = sizeof options,
                                   .store = "mem:test",
                                   .job = "kv",
                                   .deadline_ns = test_in_ns(INT64_C(300000000) * PATIENCE)};
    for (int i = 0; i < 3; i++) {
        (void)begin_member(FERRY_LOOP_THREAD);
        if (i == 2)
            options.deadline_ns = test_in_ns(3600 * INT64_C(1000000000));
        joins[i] = join_group((size_t)i, &options);
        if (i == 1)
            ASSERT_STATUS(ferry_future_wait(joins[i], -1), FERRY_OK);
    }
    ASSERT_STATUS(ferry_future_wait(joins[0], -1), FERRY_OK);
    assert_fails(joins[2], FERRY_E_FENCED,
                 "this member came late: the group of job kv is closed, formed with 2 members");
    ferry_future_release(joins[0]);
    ferry_future_release(joins[1]);
}

Test(group, refuses_what_cant_be_asked)
{
    begin_members(1, FERRY_LOOP_THREAD);
    ferry_group *group = members[0].group;
    ferry_rank twice[] = {0, 0}, absent[] = {0, 1};
    ferry_barrier_options barrier = FERRY_BARRIER_OPTIONS_INIT;
    char key[140];
    memset(key, 'k', sizeof key);
    key[139] = '\0';
    ferry_future *refused[] = {
        ferry_group_get(group, NULL, 0),
        ferry_group_get(group, "", 0),
        ferry_group_get(group, "a b", 0),
        ferry_group_get(group, key, 0),
        ferry_group_watch(group, NULL, 0, 0),
        ferry_group_set(group, "k", NULL, 1, 0),
        ferry_group_set(group, "k", key, 65537, 0),
        ferry_barrier(group, NULL, NULL),
        ferry_barrier(group, "a/b", NULL),
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        ASSERT_STATUS(status_of(refused[i]), FERRY_E_INVALID);
    ferry_future *late[] = {
        ferry_group_try_get(group, "k", -1),
        ferry_group_alive(group, -1),
        ferry_group_step(group, 1, -1),
        ferry_group_nccl_pause(group, -1),
    };
    for (size_t i = 0; i < sizeof late / sizeof late[0]; i++)
        ASSERT_STATUS(status_of(late[i]), FERRY_E_DEADLINE);
    barrier.members = twice;
    barrier.member_count = 2;
    ASSERT_STATUS(status_of(ferry_barrier(group, "b", &barrier)), FERRY_E_INVALID);
    barrier.members = absent;
    ASSERT_STATUS(status_of(ferry_barrier(group, "b", &barrier)), FERRY_E_INVALID);
    barrier.members = NULL;
    ASSERT_STATUS(status_of(ferry_barrier(group, "b", &barrier)), FERRY_E_INVALID);
    barrier.member_count = 0;
    barrier.deadline_ns = -1;
    ASSERT_STATUS(status_of(ferry_barrier(group, "b", &barrier)), FERRY_E_DEADLINE);
    barrier.deadline_ns = 0;
    barrier.reserved = 1;
    ASSERT_STATUS(status_of(ferry_barrier(group, "b", &barrier)), FERRY_E_INVALID);
    ASSERT_STATUS(status_of(ferry_group_get(NULL, "k", 0)), FERRY_E_INVALID);
    ASSERT_STATUS(status_of(ferry_group_leave(NULL)), FERRY_E_INVALID);
    ferry_value value = FERRY_VALUE_INIT;
    ASSERT_STATUS(ferry_future_value(NULL, &value), FERRY_E_INVALID);
    ferry_member_info info = FERRY_MEMBER_INFO_INIT;
    ASSERT_STATUS(ferry_group_member(NULL, 0, &info), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_group_member(group, 0, NULL), FERRY_E_INVALID);
    cr_assert_eq(ferry_group_rank(NULL), FERRY_RANK_NONE);
    cr_assert_eq(ferry_group_size(NULL), 0);
    cr_assert_eq(ferry_group_stop_step(NULL), UINT64_MAX);
}

Test(group, that_was_not_joined_takes_nothing)
{
    (void)begin_member(FERRY_LOOP_THREAD);
    ferry_group_options options = test_group_options(2, 0);
    ferry_future *join = join_group(0, &options);
    ferry_buffer *buffer = buffer_of(0, 0, 8, 0);
    ASSERT_STATUS(status_of(ferry_group_get(members[0].group, "k", 0)), FERRY_E_INVALID);
    ASSERT_STATUS(status_of(ferry_barrier(members[0].group, "b", NULL)), FERRY_E_INVALID);
    ASSERT_STATUS(status_of(ferry_send(members[0].group, 0, 0, ferry_buffer_span(buffer), NULL)),
                  FERRY_E_INVALID);
    AWAIT(ferry_group_leave(members[0].group), OK);
    AWAIT(join, E_CANCELLED);
    ASSERT_STATUS(status_of(ferry_group_get(members[0].group, "k", 0)), FERRY_E_DEAD);
}

Test(group, keeps_values_that_all_see)
{
    begin_members(2, FERRY_LOOP_THREAD);
    ferry_future *waits = ferry_group_get(members[1].group, "a/key", 0);
    AWAIT(ferry_group_try_get(members[0].group, "a/key", 0), E_NOT_FOUND);
    AWAIT(ferry_group_set(members[0].group, "a/key", "one", 3, 0), OK);
    ASSERT_STATUS(ferry_future_wait(waits, -1), FERRY_OK);
    assert_value(waits, "one");
    ferry_value seen = FERRY_VALUE_INIT;
    ASSERT_STATUS(ferry_future_value(waits, &seen), FERRY_OK);
    ferry_future *watch = ferry_group_watch(members[1].group, "a/key", seen.version, 0);
    AWAIT(ferry_group_set(members[0].group, "a/key", "", 0, 0), OK);
    ASSERT_STATUS(ferry_future_wait(watch, -1), FERRY_OK);
    assert_value(watch, "");
    ferry_future *nop = ferry_nop(members[0].te.engine, NULL);
    ASSERT_STATUS(ferry_future_value(nop, &seen), FERRY_E_NOT_FOUND);
    ferry_future_release(nop);
    ferry_future *pending = ferry_group_get(members[0].group, "never", 0);
    ASSERT_STATUS(ferry_future_value(pending, &seen), FERRY_E_NOT_FOUND);
    ASSERT_STATUS(ferry_future_cancel(pending), FERRY_OK);
    AWAIT(pending, E_CANCELLED);
    pending = ferry_group_get(members[0].group, "never", test_in_ns(1000000));
    AWAIT(pending, E_DEADLINE);
    /* A value outlives group and engine. */
    ferry_group_release(members[0].group);
    ferry_group_release(members[1].group);
    test_engine_close(&members[0].te);
    ASSERT_STATUS(ferry_engine_shutdown(members[1].te.engine, -1), FERRY_OK);
    ferry_engine_release(members[1].te.engine);
    assert_value(waits, "one");
    ferry_future_release(waits);
    ferry_future_release(watch);
    cr_assert_eq(failing_allocator_live_bytes(&members[1].te.memory), 0);
    member_count = 0; /* they are gone */
}

Test(group, has_barriers)
{
    begin_members(3, FERRY_LOOP_THREAD);
    for (int round = 0; round < 5; round++) {
        ferry_future *futures[3];
        for (size_t i = 0; i < 3; i++)
            futures[i] = ferry_barrier(members[i].group, "b", NULL);
        for (size_t i = 0; i < 3; i++)
            AWAIT(futures[i], OK);
    }
    /* The store has 0.15 s to say who came; beside a load it may take longer, and is asked again.
     */
    const char *message = "does not answer";
    for (int tries = 0; tries < 50 && strstr(message, "does not answer") != NULL; tries++) {
        ferry_barrier_options options = FERRY_BARRIER_OPTIONS_INIT;
        options.deadline_ns = test_in_ns(INT64_C(100000000) * PATIENCE);
        ferry_future *alone = own(ferry_barrier(members[1].group, "alone", &options));
        ASSERT_STATUS(ferry_future_wait(alone, -1), FERRY_E_DEADLINE);
        message = ferry_future_error(alone)->message;
    }
    cr_assert(strchr(message, '0') != NULL && strchr(message, '2') != NULL, "%s", message);
}

Test(group, agrees_on_who_is_alive)
{
    begin_members(3, FERRY_LOOP_THREAD);
    ferry_future *futures[6];
    uint64_t versions[2] = {0};
    for (size_t i = 0; i < 6; i++)
        futures[i] = ferry_group_alive(members[i % 3].group, 0);
    for (size_t i = 0; i < 6; i++) {
        ASSERT_STATUS(ferry_future_wait(futures[i], -1), FERRY_OK);
        ferry_value value = FERRY_VALUE_INIT;
        ASSERT_STATUS(ferry_future_value(futures[i], &value), FERRY_OK);
        uint64_t *version = &versions[i / 3];
        if (*version == 0)
            *version = value.version;
        cr_assert_eq(value.version, *version, "it is one round's");
        cr_assert_eq(value.size_bytes, 3 * sizeof(ferry_rank));
        for (uint32_t rank = 0; rank < 3; rank++)
            cr_assert_eq(((const ferry_rank *)value.data)[rank], rank);
        ferry_future_release(futures[i]);
    }
    cr_assert_gt(versions[1], versions[0]);
}

Test(group, agrees_on_a_step_to_stop_at)
{
    begin_members(2, FERRY_LOOP_THREAD);
    cr_assert_eq(ferry_group_stop_step(members[0].group), UINT64_MAX);
    for (uint64_t step = 1; step < 4; step++) {
        for (size_t i = 0; i < 2; i++)
            AWAIT(ferry_group_step(members[i].group, step, 0), OK);
    }
    AWAIT(ferry_group_give_notice(members[1].group), OK);
    uint64_t step = 4, stop = UINT64_MAX;
    for (; stop == UINT64_MAX || step <= stop; step++) {
        ferry_future *steps[2];
        for (size_t i = 0; i < 2; i++)
            steps[i] = ferry_group_step(members[i].group, step, 0);
        for (size_t i = 0; i < 2; i++)
            AWAIT(steps[i], OK);
        stop = ferry_group_stop_step(members[0].group);
        cr_assert_lt(step, 1000);
    }
    cr_assert_eq(ferry_group_stop_step(members[1].group), stop);
}

/* ---- who comes and goes ---- */

typedef struct member_log {
    _Atomic uint32_t left, calls;
    ferry_future *pending; /* waiting for it within a callback is refused */
    _Atomic int32_t waited;
} member_log;

static void note_member(void *arg, ferry_group *group, const ferry_member_info *member)
{
    member_log *log = arg;
    cr_assert_not_null(group);
    if (log->pending != NULL)
        atomic_store(&log->waited, ferry_future_wait(log->pending, -1));
    if (member->state == FERRY_MEMBER_LEFT)
        atomic_fetch_or(&log->left, (uint32_t)1 << member->rank);
    atomic_fetch_add(&log->calls, 1);
}

static void open_with_log(member_log *log, ferry_loop_mode loop)
{
    ferry_future *joins[3];
    for (int32_t i = 0; i < 3; i++) {
        (void)begin_member(i == 0 ? loop : FERRY_LOOP_THREAD);
        ferry_group_options options = test_group_options(3, (ferry_rank)i);
        if (i == 0) {
            options.on_member = note_member;
            options.on_member_arg = log;
        }
        joins[i] = join_group((size_t)i, &options);
    }
    for (int32_t i = 0; i < 3; i++)
        AWAIT(joins[i], OK);
}

static void await_left(member_log *log, uint32_t left)
{
    while (atomic_load(&log->left) != left) {
        test_members_move(members, 3);
        (void)sched_yield();
    }
}

Test(group, tells_who_leaves_and_who_is_released)
{
    member_log log = {0};
    open_with_log(&log, FERRY_LOOP_THREAD);
    log.pending = ferry_group_get(members[0].group, "never", 0);
    AWAIT(ferry_group_leave(members[1].group), OK);
    AWAIT(ferry_group_leave(members[1].group), OK);
    await_left(&log, 1 << 1);
    cr_assert_eq(atomic_load(&log.waited), FERRY_E_DEADLOCK);
    ferry_group_release(members[2].group);
    members[2].group = NULL;
    await_left(&log, 1 << 1 | 1 << 2);
    ferry_member_info info = FERRY_MEMBER_INFO_INIT;
    ASSERT_STATUS(ferry_group_member(members[0].group, 2, &info), FERRY_OK);
    cr_assert_eq(info.state, FERRY_MEMBER_LEFT);
    ASSERT_STATUS(status_of(ferry_barrier(members[1].group, "b", NULL)), FERRY_E_DEAD);
    ASSERT_STATUS(ferry_future_cancel(log.pending), FERRY_OK);
    AWAIT(log.pending, E_CANCELLED);
}

Test(group, tells_an_embedded_engine_in_its_progress)
{
    member_log log = {0};
    open_with_log(&log, FERRY_LOOP_EMBEDDED);
    ferry_group_release(members[2].group);
    members[2].group = NULL;
    await_left(&log, 1 << 2);
}

static void note_ready(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)future, (void)status;
    *(bool *)waiter->arg = true;
}

/* The thread makes progress meanwhile, and calls no callbacks. Gives the future back. */
static ferry_status waited(ferry_future *future)
{
    ferry_status status = ferry_future_wait(future, -1);
    ferry_future_release(future);
    return status;
}

Test(group, tells_nothing_after_a_leave)
{
    member_log log = {0};
    open_with_log(&log, FERRY_LOOP_EMBEDDED);
    const uint32_t told = atomic_load(&log.calls);
    ferry_group_release(members[2].group);
    members[2].group = NULL;
    ferry_member_info info = FERRY_MEMBER_INFO_INIT;
    do {
        ASSERT_STATUS(waited(ferry_group_set(members[0].group, "k", "v", 1, 0)), FERRY_OK);
        ASSERT_STATUS(ferry_group_member(members[0].group, 2, &info), FERRY_OK);
    } while (info.state != FERRY_MEMBER_LEFT);
    ASSERT_STATUS(waited(ferry_group_leave(members[0].group)), FERRY_OK);

    bool is_called = false;
    ferry_waiter waiter = FERRY_WAITER_INIT(note_ready, &is_called);
    ferry_future *nop = ferry_nop(members[0].te.engine, NULL);
    ASSERT_STATUS(ferry_future_on_ready(nop, &waiter), FERRY_OK);
    ferry_future_release(nop);
    while (!is_called)
        test_members_move(members, 1);
    cr_assert_eq(atomic_load(&log.calls), told);
}

Test(group, handles_outlive_the_engine)
{
    begin_members(2, FERRY_LOOP_THREAD);
    ferry_future *pending = ferry_group_get(members[0].group, "never", 0);
    ferry_future *barrier = ferry_barrier(members[0].group, "b", NULL);
    for (size_t i = 0; i < 2; i++)
        ASSERT_STATUS(ferry_engine_shutdown(members[i].te.engine, -1), FERRY_OK);
    ferry_status status = status_of(pending);
    cr_assert(status == FERRY_E_SHUTDOWN || status == FERRY_E_CANCELLED, "%s",
              ferry_status_name(status));
    status = status_of(barrier);
    cr_assert(status == FERRY_E_SHUTDOWN || status == FERRY_E_CANCELLED, "%s",
              ferry_status_name(status));
    for (size_t i = 0; i < 2; i++) {
        ASSERT_STATUS(status_of(ferry_group_get(members[i].group, "k", 0)), FERRY_E_SHUTDOWN);
        ASSERT_STATUS(status_of(ferry_group_leave(members[i].group)), FERRY_E_SHUTDOWN);
        ferry_engine_release(members[i].te.engine);
        cr_assert_eq(ferry_group_size(members[i].group), 2);
        ferry_group_release(members[i].group);
        cr_assert_eq(failing_allocator_live_bytes(&members[i].te.memory), 0);
    }
    member_count = 0; /* they are gone */
}

Test(group, is_shut_down_while_it_joins)
{
    for (int i = 0; i < 20; i++) {
        test_member_open(members, i % 2 == 0 ? FERRY_LOOP_THREAD : FERRY_LOOP_EMBEDDED);
        ferry_group_options options = test_group_options(2, 0);
        ferry_future *join = join_group(0, &options);
        if (i % 4 < 2)
            (void)ferry_future_wait(join, 2000000);
        ASSERT_STATUS(ferry_engine_shutdown(members[0].te.engine, -1), FERRY_OK);
        ferry_status status = status_of(join);
        cr_assert(status == FERRY_E_SHUTDOWN || status == FERRY_E_CANCELLED, "%s",
                  ferry_status_name(status));
        ferry_group_release(members[0].group);
        test_engine_close(&members[0].te);
    }
}

Test(group, is_the_parents_after_a_fork)
{
    begin_members(1, FERRY_LOOP_THREAD);
    ferry_buffer *buffer = buffer_of(0, 0, 8, 0);
    pid_t child = fork();
    if (child == 0) {
        ferry_span span = ferry_buffer_span(buffer);
        ferry_member_info info = FERRY_MEMBER_INFO_INIT;
        bool good = status_of(ferry_group_get(members[0].group, "k", 0)) == FERRY_E_FORKED &&
                    status_of(ferry_barrier(members[0].group, "b", NULL)) == FERRY_E_FORKED &&
                    status_of(ferry_send(members[0].group, 0, 0, span, NULL)) == FERRY_E_FORKED &&
                    status_of(ferry_group_leave(members[0].group)) == FERRY_E_FORKED &&
                    ferry_group_member(members[0].group, 0, &info) == FERRY_E_FORKED &&
                    ferry_group_rank(members[0].group) == FERRY_RANK_NONE;
        ferry_group_release(members[0].group);
        _exit(good ? 0 : 1);
    }
    int status = -1;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%d", status);
}

/* ---- many requests ---- */

enum { OLDEST = 500 };

static int64_t thread_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* What the loop takes for the end of the oldest of so many requests. */
static int64_t ends_oldest_in_ns(test_member *member, size_t count)
{
    ferry_future **asked = calloc(count, sizeof(ferry_future *));
    cr_assert_not_null(asked);
    for (size_t i = 0; i < count; i++)
        asked[i] = ferry_group_get(member->group, "never-set", 0);
    while (ferry_engine_progress(member->te.engine, 0) > 0)
        continue;
    for (size_t i = 0; i < OLDEST; i++)
        (void)ferry_future_cancel(asked[i]);
    int64_t before_ns = thread_ns();
    while (ferry_engine_progress(member->te.engine, 0) > 0)
        continue;
    int64_t took_ns = thread_ns() - before_ns;
    for (size_t i = 0; i < count; i++) {
        ASSERT_STATUS(ferry_future_poll(asked[i]), i < OLDEST ? FERRY_E_CANCELLED : FERRY_PENDING);
        (void)ferry_future_cancel(asked[i]);
        ferry_future_release(asked[i]);
    }
    while (ferry_engine_progress(member->te.engine, 0) > 0)
        continue;
    free(asked);
    return took_ns;
}

/* Else a loop with many of them does nothing else. The CPU's time, in the same run. */
Test(group, ends_a_request_as_soon_beside_many_others)
{
    (void)begin_member(FERRY_LOOP_EMBEDDED);
    test_members_join(members, 1);
    int64_t beside_few_ns = ends_oldest_in_ns(members, 1000);
    int64_t beside_many_ns = ends_oldest_in_ns(members, 60000);
    cr_assert_lt(beside_many_ns, 12 * beside_few_ns, "%lld ns beside few, %lld beside many",
                 (long long)beside_few_ns, (long long)beside_many_ns);
}

/* Long past: nobody has been waited for yet, so nobody is named. */
Test(group, a_pause_that_was_late_at_once_names_nobody)
{
    begin_members(2, FERRY_LOOP_THREAD);
    ferry_future *late = ferry_group_nccl_pause(members[0].group, 1);
    ASSERT_STATUS(ferry_future_wait(late, -1), FERRY_E_DEADLINE);
    cr_assert_eq(ferry_future_error(late)->rank, FERRY_RANK_NONE);
    ferry_future_release(late);
    AWAIT(ferry_group_nccl_pause(members[0].group, 0), OK);
}

/* Where nothing goes over NCCL there is nothing to wait for. */
Test(group, pauses_and_resumes)
{
    begin_members(2, FERRY_LOOP_THREAD);
    for (int i = 0; i < 3; i++) {
        AWAIT(ferry_group_nccl_pause(members[0].group, 0), OK);
        AWAIT(ferry_group_nccl_pause(members[0].group, 0), OK);
        AWAIT(ferry_group_nccl_resume(members[0].group), OK);
        AWAIT(ferry_group_nccl_resume(members[1].group), OK);
    }
    AWAIT(ferry_group_leave(members[1].group), OK);
    AWAIT(ferry_group_nccl_pause(members[1].group, 0), E_DEAD);
    AWAIT(ferry_group_nccl_resume(members[1].group), E_DEAD);
    AWAIT(ferry_group_nccl_pause(NULL, 0), E_INVALID);
    AWAIT(ferry_group_nccl_resume(NULL), E_INVALID);
}
