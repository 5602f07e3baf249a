/* SPDX-License-Identifier: Apache-2.0 */
/* Symmetric memory: several engines of one process. */
#include "tests/support/member_test.h"
#include "tests/support/place.h"
#include "tests/support/temporary_folder.h"

#include <stdlib.h>

static void need_channels(void)
{
    PLACE_NEEDS(place_lacks_ucx);
}

MEMBER_SUITE(symmetric, .init = need_channels);

enum { SIZE = 1 << 16 };

static ferry_future *ask_for(size_t rank, size_t size_bytes, const char *name, int64_t deadline_ns,
                             ferry_symmetric **symmetric_p)
{
    return ferry_symmetric_alloc(members[rank].group, ferry_device_at(members[rank].te.engine, 0),
                                 size_bytes, name, deadline_ns, symmetric_p);
}

static ferry_future *ask(size_t rank, const char *name, ferry_symmetric **symmetric_p)
{
    return ask_for(rank, SIZE, name, 0, symmetric_p);
}

/* All members ask. */
static void have(const char *name, ferry_symmetric *symmetrics[])
{
    ferry_future *asks[MEMBERS_MAX];
    for (size_t i = 0; i < member_count; i++)
        asks[i] = ask(i, name, &symmetrics[i]);
    for (size_t i = 0; i < member_count; i++)
        AWAIT(asks[i], OK);
}

static void let_go(ferry_symmetric *symmetrics[])
{
    for (size_t i = 0; i < member_count; i++)
        ferry_symmetric_release(symmetrics[i]);
}

static ferry_symmetric_info info_of(const ferry_symmetric *symmetric)
{
    ferry_symmetric_info info = FERRY_SYMMETRIC_INFO_INIT;
    ASSERT_STATUS(ferry_symmetric_describe(symmetric, &info), FERRY_OK);
    return info;
}

static void expect_failure(ferry_future *future, ferry_status status, int32_t rank,
                           const char *words)
{
    ASSERT_STATUS(await(ferry_future_retain(future)), status);
    const ferry_error *error = ferry_future_error(future);
    cr_assert(strstr(error->message, words) != NULL, "%s", error->message);
    cr_assert_eq(error->rank, (ferry_rank)rank, "%u: %s", error->rank, error->message);
    ferry_future_release(future);
}

/* More names than are kept, so that nothing that was kept before is kept any more. */
static void push_out(size_t from)
{
    for (size_t i = 0; i < FERRY_SYMMETRIC_IDLE_MAX; i++) {
        ferry_symmetric *symmetrics[MEMBERS_MAX];
        char name[16];
        (void)snprintf(name, sizeof name, "out/%zu", from + i);
        have(name, symmetrics);
        let_go(symmetrics);
    }
    for (int i = 0; i < 200; i++)
        test_members_move(members, member_count);
}

/* ---- bytes ---- */

/* Each writes into all others, a byte of its own, by stores and by puts. */
static void of_members(uint32_t count, ferry_loop_mode loop)
{
    begin_members(count, loop);
    ferry_symmetric *symmetrics[MEMBERS_MAX];
    have("kv/all", symmetrics);
    for (ferry_rank i = 0; i < count; i++) {
        ferry_symmetric_info info = info_of(symmetrics[i]);
        cr_assert_eq(info.state, FERRY_SYMMETRIC_IS_WHOLE);
        cr_assert_eq(info.failed_rank, -1);
        cr_assert_eq(info.mapped, count);
        cr_assert_eq(info.size_bytes, SIZE);
        cr_assert_str_eq(info.name, "kv/all");
        ferry_buffer *buffer = ferry_symmetric_buffer(symmetrics[i]);
        cr_assert_eq(ferry_symmetric_address(symmetrics[i], i), ferry_buffer_data(buffer));
        cr_assert_null(ferry_symmetric_window(symmetrics[i], i));
        cr_assert_null(ferry_symmetric_window(symmetrics[i], count));
        cr_assert_null(ferry_symmetric_address(symmetrics[i], count));
        cr_assert(is_filled(buffer, 0, SIZE, 0));
    }
    for (ferry_rank i = 0; i < count; i++) {
        for (ferry_rank k = 0; k < count; k++) {
            unsigned char *there = ferry_symmetric_address(symmetrics[i], k);
            there[i] = (unsigned char)(100 + i);
            there[SIZE - 1 - i] = (unsigned char)(200 + i);
        }
    }
    for (ferry_rank i = 0; i < count; i++) {
        const unsigned char *own = ferry_buffer_data(ferry_symmetric_buffer(symmetrics[i]));
        for (ferry_rank k = 0; k < count; k++)
            cr_assert(own[k] == 100 + k && own[SIZE - 1 - k] == 200 + k);
        ferry_buffer *local = buffer_of(i, 0, 64, (int)i + 1);
        for (ferry_rank k = 0; k < count; k++) {
            if (k == i)
                continue;
            ferry_window *window = ferry_symmetric_window(symmetrics[i], k);
            AWAIT(ferry_put(window, 4096 + 64 * i, ferry_buffer_span(local), NULL), OK);
            cr_assert(
                is_filled(ferry_symmetric_buffer(symmetrics[k]), 4096 + 64 * i, 64, (int)i + 1));
            AWAIT(ferry_get(window, 0, span_of(local, 0, 1), NULL), OK);
            cr_assert(is_filled(local, 0, 1, 100));
            memset(ferry_buffer_data(local), (int)i + 1, 1);
        }
    }
    let_go(symmetrics);
}

Test(symmetric, is_written_and_read_by_all)
{
    of_members(4, FERRY_LOOP_THREAD);
}

Test(symmetric, is_so_in_embedded_engines)
{
    of_members(3, FERRY_LOOP_EMBEDDED);
}

Test(symmetric, is_so_in_a_member_alone)
{
    of_members(1, FERRY_LOOP_THREAD);
}

Test(symmetric, has_sizes_past_2_to_33)
{
    begin_members(2, FERRY_LOOP_THREAD);
    const size_t size_bytes = ((size_t)1 << 33) + 4097;
    ferry_symmetric *symmetrics[2];
    ferry_future *asks[2];
    for (size_t i = 0; i < 2; i++)
        asks[i] = ask_for(i, size_bytes, "large", 0, &symmetrics[i]);
    for (size_t i = 0; i < 2; i++)
        AWAIT(asks[i], OK);
    unsigned char *there = ferry_symmetric_address(symmetrics[0], 1);
    there[size_bytes - 1] = 9;
    unsigned char *own = ferry_symmetric_address(symmetrics[1], 1);
    cr_assert_eq(own[size_bytes - 1], 9);
    let_go(symmetrics);
}

/* ---- asks ---- */

Test(symmetric, is_asked_for_in_any_order)
{
    enum { NAMES = 5 };
    begin_members(3, FERRY_LOOP_THREAD);
    ferry_symmetric *symmetrics[3][NAMES];
    ferry_future *asks[3][NAMES];
    for (size_t i = 0; i < 3; i++) {
        for (size_t k = 0; k < NAMES; k++) {
            size_t which = i == 0 ? k : i == 1 ? NAMES - 1 - k : (k * 2 + 1) % NAMES;
            char name[8];
            (void)snprintf(name, sizeof name, "n%zu", which);
            asks[i][which] = ask(i, name, &symmetrics[i][which]);
        }
    }
    for (size_t k = 0; k < NAMES; k++) {
        for (size_t i = 0; i < 3; i++)
            AWAIT(asks[i][k], OK);
        unsigned char *there = ferry_symmetric_address(symmetrics[0][k], 2);
        *there = (unsigned char)(k + 1);
        cr_assert(is_filled(ferry_symmetric_buffer(symmetrics[2][k]), 0, 1, (int)k + 1));
    }
    for (size_t k = 0; k < NAMES; k++) {
        for (size_t i = 0; i < 3; i++)
            ferry_symmetric_release(symmetrics[i][k]);
    }
}

/*
 * Each member asks for each name equally often, in an order of its own, and gives each back as soon
 * as it has it. So one has a name whole, another has let go of it, and a third has yet to ask for
 * the first time. Whatever each has kept, every ask is answered.
 */
typedef struct asker {
    struct {
        ferry_symmetric *symmetric;
        ferry_future *future;
    } under_way[1024];
    size_t order[1024], next, count;
} asker;

static void shuffle(asker *a, size_t count, unsigned *seed)
{
    for (size_t i = count - 1; i > 0; i--) {
        size_t k = (size_t)rand_r(seed) % (i + 1), held = a->order[i];
        a->order[i] = a->order[k];
        a->order[k] = held;
    }
}

static void reap(asker *a)
{
    for (size_t i = 0; i < a->count;) {
        ferry_status status = ferry_future_poll(a->under_way[i].future);
        if (status == FERRY_PENDING) {
            i++;
            continue;
        }
        ASSERT_STATUS(status, FERRY_OK);
        ferry_future_release(a->under_way[i].future);
        ferry_symmetric_release(a->under_way[i].symmetric);
        a->under_way[i] = a->under_way[--a->count];
    }
}

static void step(asker *a, size_t rank, size_t total)
{
    reap(a);
    if (a->next == total)
        return;
    char name[16];
    (void)snprintf(name, sizeof name, "n%zu", a->order[a->next++]);
    a->under_way[a->count].future = ask(rank, name, &a->under_way[a->count].symmetric);
    a->count++;
}

static void in_orders_of_their_own(ferry_loop_mode loop, unsigned seed)
{
    enum { NAMES = 3 * FERRY_SYMMETRIC_IDLE_MAX, ROUNDS = 5, TOTAL = NAMES * ROUNDS };
    static asker askers[3];
    begin_members(3, loop);
    for (size_t i = 0; i < 3; i++) {
        askers[i].next = askers[i].count = 0;
        for (size_t k = 0; k < TOTAL; k++)
            askers[i].order[k] = i == 0 ? k / ROUNDS : k % NAMES;
    }
    shuffle(&askers[2], TOTAL, &seed);
    for (size_t left = 1; left > 0;) {
        size_t who = (size_t)rand_r(&seed) % 3;
        for (size_t i = (size_t)rand_r(&seed) % 60; i > 0; i--)
            step(&askers[who], who, TOTAL);
        test_members_move(members, 3);
        left = 0;
        for (size_t i = 0; i < 3; i++)
            left += TOTAL - askers[i].next;
    }
    for (size_t i = 0; i < 3; i++) {
        for (size_t k = 0; k < askers[i].count; k++) {
            AWAIT(askers[i].under_way[k].future, OK);
            ferry_symmetric_release(askers[i].under_way[k].symmetric);
        }
    }
}

Test(symmetric, is_had_in_the_end_whatever_each_has_kept)
{
    in_orders_of_their_own(FERRY_LOOP_THREAD, 1);
}

Test(symmetric, is_had_in_the_end_in_embedded_engines)
{
    in_orders_of_their_own(FERRY_LOOP_EMBEDDED, 2);
}

/* The same, and one is always ahead by all it can be, and lets go of all that it had. */
Test(symmetric, is_had_by_those_who_come_late)
{
    enum { ROUNDS = 4 };
    begin_members(2, FERRY_LOOP_EMBEDDED);
    for (int late = 0; late < 2; late++) {
        ferry_symmetric *early[ROUNDS], *own[ROUNDS];
        ferry_future *asks[ROUNDS];
        char name[8];
        (void)snprintf(name, sizeof name, "late%d", late);
        for (size_t i = 0; i < ROUNDS; i++)
            asks[i] = ask(!late, name, &early[i]);
        AWAIT(ask((size_t)late, name, &own[0]), OK);
        for (size_t i = 0; i < ROUNDS; i++) {
            AWAIT(asks[i], OK); /* one ask of the other's is enough, as its memory is there */
            ferry_symmetric_release(early[i]);
        }
        ferry_symmetric_release(own[0]);
        push_out((size_t)late * 100);
        for (size_t i = 1; i < ROUNDS; i++) {
            AWAIT(ask((size_t)late, name, &own[i]), OK);
            ferry_symmetric_release(own[i]);
            push_out((size_t)late * 100 + i * 20);
        }
        /* Both have asked equally often: the next ask is of both again. */
        ferry_symmetric *next[2];
        ferry_future *again = ask((size_t)late, name, &next[late]);
        for (int i = 0; i < 200; i++)
            test_members_move(members, 2);
        ASSERT_STATUS(ferry_future_poll(again), FERRY_PENDING);
        AWAIT(ask(!late, name, &next[!late]), OK);
        AWAIT(again, OK);
        let_go(next);
    }
}

/* ---- what is kept ---- */

static bool is_had_at_once(size_t rank, const char *name)
{
    ferry_symmetric *symmetric;
    ferry_future *future = ask(rank, name, &symmetric);
    bool is = ferry_future_poll(future) == FERRY_OK; /* nothing has moved meanwhile */
    if (is)
        cr_assert_not_null(ferry_symmetric_address(symmetric, !rank));
    ferry_symmetric_release(symmetric);
    (void)await(future);
    return is;
}

Test(symmetric, is_kept_for_the_next_who_asks)
{
    begin_members(2, FERRY_LOOP_EMBEDDED);
    ferry_symmetric *held[2], *again[2], *none;
    have("held", held);
    void *there = ferry_symmetric_address(held[0], 1);
    cr_assert(is_had_at_once(0, "held"));
    cr_assert(is_had_at_once(1, "held"));
    let_go(held);
    for (int i = 0; i < 200; i++)
        test_members_move(members, 2);
    cr_assert(is_had_at_once(0, "held"));
    cr_assert(is_had_at_once(1, "held"));
    have("held", again);
    cr_assert_eq(ferry_symmetric_address(again[0], 1), there);
    let_go(again);
    push_out(0);
    ferry_future *future = ask(0, "held", &none);
    ASSERT_STATUS(ferry_future_poll(future), FERRY_PENDING);
    ferry_symmetric_release(none);
    AWAIT(future, E_NOT_FOUND);
}

/* One has thrown it away and finds what the other has kept, which is the same memory. */
Test(symmetric, is_found_with_who_has_kept_it)
{
    begin_members(2, FERRY_LOOP_EMBEDDED);
    ferry_symmetric *held[2], *again;
    have("held", held);
    unsigned char *at = ferry_symmetric_address(held[1], 1);
    at[5] = 55;
    at = ferry_symmetric_address(held[1], 0);
    at[6] = 66;
    ferry_symmetric_release(held[0]);
    push_out(0);
    ferry_future *future = ask(0, "held", &again);
    ASSERT_STATUS(ferry_future_poll(future), FERRY_PENDING);
    AWAIT(future, OK); /* the other's second ask has yet to come */
    at = ferry_symmetric_address(again, 1);
    cr_assert_eq(at[5], 55);
    at = ferry_symmetric_address(again, 0);
    cr_assert_eq(at[6], 66);
    ferry_symmetric_release(again);
    ferry_symmetric_release(held[1]);
}

/* Nothing is freed under those who have a handle. */
Test(symmetric, stays_for_the_others)
{
    begin_members(3, FERRY_LOOP_THREAD);
    ferry_symmetric *held[3];
    have("held", held);
    ferry_buffer *local = buffer_of(2, 0, 64, 3);
    ferry_symmetric_release(held[0]);
    ferry_symmetric_release(held[1]);
    push_out(0);
    for (ferry_rank i = 0; i < 2; i++) {
        unsigned char *there = ferry_symmetric_address(held[2], i);
        memset(there, 5, 64);
        AWAIT(ferry_get(ferry_symmetric_window(held[2], i), 0, ferry_buffer_span(local), NULL), OK);
        cr_assert(is_filled(local, 0, 64, 5));
        AWAIT(ferry_put(ferry_symmetric_window(held[2], i), 64, ferry_buffer_span(local), NULL),
              OK);
        cr_assert_eq(there[127], 5);
    }
    cr_assert_eq(info_of(held[2]).state, FERRY_SYMMETRIC_IS_WHOLE);
    ferry_symmetric_release(held[2]);
}

/* Of this process, which has all members: own ones, and those of others. */
/* By their heads: the kernel may list the rest apart, as it can be written. */
static size_t count_maps(void)
{
    char line[512];
    size_t count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    cr_assert_not_null(maps);
    while (fgets(line, sizeof line, maps) != NULL)
        count += strstr(line, " 00000000 ") != NULL && strstr(line, "memfd:ferry") != NULL;
    (void)fclose(maps);
    return count;
}

static void await_maps(size_t count)
{
    while (count_maps() != count)
        test_members_move(members, member_count);
    for (int i = 0; i < 200; i++)
        test_members_move(members, member_count);
    cr_assert_eq(count_maps(), count);
}

Test(symmetric, is_freed_when_all_have_let_go)
{
    enum { EACH = 3 * (1 + 2 * 2) }; /* of others twice, as windows are read by maps of their own */
    begin_members(3, FERRY_LOOP_EMBEDDED);
    ferry_symmetric *held[3], *early[3];
    ferry_future *asks[2];
    have("held", held);
    cr_assert_eq(count_maps(), EACH);
    let_go(held);
    for (size_t i = 0; i < 5; i++)
        push_out(i * FERRY_SYMMETRIC_IDLE_MAX);
    await_maps((size_t)EACH * FERRY_SYMMETRIC_IDLE_MAX);
    /* What one of them has let go of stays. */
    have("held", held);
    ferry_symmetric_release(held[0]);
    push_out(200);
    await_maps(EACH * FERRY_SYMMETRIC_IDLE_MAX + EACH - 4);
    ferry_symmetric_release(held[1]);
    ferry_symmetric_release(held[2]);
    push_out(300);
    await_maps((size_t)EACH * FERRY_SYMMETRIC_IDLE_MAX);
    /* An ask that fails leaves nothing, nor does a member that leaves. */
    for (size_t i = 0; i < 2; i++)
        asks[i] = ask_for(i, SIZE, "failed", test_in_ns(50000000), &early[i]);
    for (size_t i = 0; i < 2; i++) {
        cr_assert_lt(await(asks[i]), FERRY_OK);
        ferry_symmetric_release(early[i]);
    }
    await_maps((size_t)EACH * FERRY_SYMMETRIC_IDLE_MAX);
    have("held", held);
    AWAIT(ferry_group_leave(members[2].group), OK);
    await_maps(EACH - 4);
    let_go(held);
    await_maps(0);
}

/* The store is out of reach as soon as the members have joined: 0 round trips. */
Test(symmetric, needs_no_store)
{
    char folder[TEMPORARY_FOLDER_BYTES], away[TEMPORARY_FOLDER_BYTES + 8];
    char store[TEMPORARY_FOLDER_BYTES + 16];
    temporary_folder_make(folder);
    (void)snprintf(store, sizeof store, "file:%s/store", folder);
    ferry_future *joins[MEMBERS_MAX];
    ferry_symmetric *held[MEMBERS_MAX], *more[MEMBERS_MAX];
    for (ferry_rank i = 0; i < MEMBERS_MAX; i++) {
        (void)begin_member(FERRY_LOOP_THREAD);
        ferry_group_options options = test_group_options(MEMBERS_MAX, i);
        options.store = store;
        joins[i] = join_group(i, &options);
    }
    for (size_t i = 0; i < MEMBERS_MAX; i++)
        AWAIT(joins[i], OK);
    (void)snprintf(store, sizeof store, "%s/store", folder);
    (void)snprintf(away, sizeof away, "%s/away", folder);
    cr_assert_eq(rename(store, away), 0);
    have("first", held);
    have("first", more);
    let_go(more);
    cr_assert_eq(info_of(held[0]).mapped, MEMBERS_MAX);
    let_go(held);
    cr_assert_eq(rename(away, store), 0);
}

/* ---- what fails ---- */

Test(symmetric, is_waited_for_no_longer_than_wanted)
{
    begin_members(4, FERRY_LOOP_THREAD);
    ferry_symmetric *symmetrics[4], *other;
    ferry_future *second =
        ask_for(2, SIZE, "none", test_in_ns(INT64_C(20000000000)), &symmetrics[2]);
    ferry_future *first = ask_for(0, SIZE, "none", test_in_ns(500000000), &symmetrics[0]);
    expect_failure(ferry_future_retain(first), FERRY_E_DEADLINE, 1, "ranks 1, ");
    expect_failure(first, FERRY_E_DEADLINE, 1, ", 3"); /* the third may have been found in time */
    while (info_of(symmetrics[0]).state != FERRY_SYMMETRIC_HAS_FAILED)
        test_members_move(members, 4);
    cr_assert_null(ferry_symmetric_address(symmetrics[0], 2));
    ferry_status status = await(second); /* if it had found the first one's, that is closed */
    cr_assert(status == FERRY_E_NOT_FOUND || status == FERRY_E_DEADLINE, "%d", status);
    ferry_symmetric_release(symmetrics[0]);
    ferry_symmetric_release(symmetrics[2]);
    expect_failure(ask_for(1, SIZE + 1, "none", test_in_ns(1000000), &other), FERRY_E_DEADLINE, 0,
                   "ranks 0, 2, 3"); /* another size */
    ferry_symmetric_release(other);
    ferry_future *cancelled = ask(3, "none", &symmetrics[3]);
    ferry_future_cancel(cancelled);
    AWAIT(cancelled, E_CANCELLED);
    ferry_symmetric_release(symmetrics[3]);
    have("none", symmetrics); /* none of those counts */
    let_go(symmetrics);
}

Test(symmetric, ends_its_ask_when_it_is_released)
{
    begin_members(2, FERRY_LOOP_THREAD);
    ferry_symmetric *symmetrics[2];
    for (int i = 0; i < 300; i++) {
        ferry_future *future = ask(0, "none", &symmetrics[0]);
        ferry_symmetric_release(symmetrics[0]);
        if (i % 2 != 0)
            ferry_future_cancel(future);
        ferry_status status = await(future);
        cr_assert(status == FERRY_E_NOT_FOUND || (i % 2 != 0 && status == FERRY_E_CANCELLED), "%d",
                  status);
    }
    have("none", symmetrics);
    let_go(symmetrics);
}

/* Others go on with what is left. */
Test(symmetric, is_broken_by_the_end_of_a_member)
{
    begin_members(3, FERRY_LOOP_THREAD);
    ferry_symmetric *held[3], *pending, *none;
    have("held", held);
    ferry_future *future = ask(0, "pending", &pending);
    AWAIT(ferry_group_leave(members[2].group), OK);
    expect_failure(future, FERRY_E_DEAD, 2, "");
    ferry_buffer *local = buffer_of(0, 0, 64, 3);
    AWAIT(ferry_get(ferry_symmetric_window(held[0], 2), 0, ferry_buffer_span(local), NULL), E_DEAD);
    while (info_of(held[0]).state != FERRY_SYMMETRIC_IS_BROKEN)
        (void)ferry_engine_progress(members[0].te.engine, 0);
    ferry_symmetric_info info = info_of(held[0]);
    cr_assert_eq(info.failed_rank, 2);
    cr_assert_eq(info.failed_status, FERRY_E_DEAD);
    cr_assert_eq(info.mapped, 3);
    for (ferry_rank i = 0; i < 3; i++)
        memset(ferry_symmetric_address(held[0], i), 7, SIZE);
    AWAIT(ferry_get(ferry_symmetric_window(held[0], 1), 0, span_of(local, 0, 64), NULL), OK);
    cr_assert(is_filled(local, 0, 64, 7));
    cr_assert(is_filled(ferry_symmetric_buffer(held[2]), 0, SIZE, 7));
    expect_failure(ask(0, "held", &none), FERRY_E_DEAD, 2, ""); /* it is no hit */
    ferry_symmetric_release(none);
    ferry_symmetric_release(pending);
    AWAIT(ask(2, "late", &none), E_DEAD);
    cr_assert_null(none);
    let_go(held);
    expect_failure(ask(0, "held", &none), FERRY_E_DEAD, 2, "");
    ferry_symmetric_release(none);
}

Test(symmetric, is_refused_where_it_makes_no_sense)
{
    begin_members(2, FERRY_LOOP_THREAD);
    ferry_group *group = members[0].group;
    ferry_device *device = ferry_device_at(members[0].te.engine, 0);
    ferry_device *theirs = ferry_device_at(members[1].te.engine, 0);
    ferry_device *second = ferry_device_at(members[0].te.engine, 1);
    ferry_symmetric *s = (ferry_symmetric *)(uintptr_t)1, *held[2];
    static const char *const names[] = {"", "a b", "a//b", "..", "/a", NULL, "+a"};
    AWAIT(ferry_symmetric_alloc(NULL, device, 1, "a", 0, &s), E_INVALID);
    cr_assert_null(s);
    AWAIT(ferry_symmetric_alloc(group, NULL, 1, "a", 0, &s), E_INVALID);
    AWAIT(ferry_symmetric_alloc(group, theirs, 1, "a", 0, &s), E_INVALID);
    AWAIT(ferry_symmetric_alloc(group, device, 0, "a", 0, &s), E_INVALID);
    AWAIT(ferry_symmetric_alloc(group, device, (size_t)1 << 48, "a", 0, &s), E_INVALID);
    AWAIT(ferry_symmetric_alloc(group, device, SIZE_MAX, "a", 0, &s), E_INVALID);
    AWAIT(ferry_symmetric_alloc(group, device, 1, "a", 0, NULL), E_INVALID);
    AWAIT(ferry_symmetric_alloc(group, device, 1, "a", -1, &s), E_DEADLINE);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        AWAIT(ferry_symmetric_alloc(group, device, 1, names[i], 0, &s), E_INVALID);
    char name[66];
    memset(name, 'a', 65);
    name[65] = '\0';
    AWAIT(ferry_symmetric_alloc(group, device, 1, name, 0, &s), E_INVALID);
    cr_assert_null(s);
    name[64] = '\0';
    have(name, held);
    AWAIT(ferry_symmetric_alloc(group, second, SIZE, name, 0, &s), E_CHANGED);
    cr_assert_null(s);
    let_go(held);
    ferry_symmetric_release(NULL);
    cr_assert_null(ferry_symmetric_buffer(NULL));
    cr_assert_null(ferry_symmetric_window(NULL, 0));
    cr_assert_null(ferry_symmetric_address(NULL, 0));
    ASSERT_STATUS(ferry_symmetric_describe(NULL, NULL), FERRY_E_INVALID);
    ferry_window *window; /* nobody finds it by the name of a window */
    AWAIT(ferry_window_find(group, 1, "+a/10000", 0, &window), E_INVALID);
}

/* The handle outlives its group, and the engine's other handles. */
Test(symmetric, stays_where_it_is_until_it_is_released)
{
    begin_members(2, FERRY_LOOP_THREAD);
    ferry_symmetric *held[2];
    have("held", held);
    for (size_t i = 0; i < 2; i++) {
        AWAIT(ferry_group_leave(members[i].group), OK);
        ferry_group_release(members[i].group);
        members[i].group = NULL;
    }
    for (ferry_rank i = 0; i < 2; i++)
        memset(ferry_symmetric_address(held[0], i), 7, SIZE);
    cr_assert(is_filled(ferry_symmetric_buffer(held[1]), 0, SIZE, 7));
    cr_assert_eq(info_of(held[0]).state, FERRY_SYMMETRIC_IS_BROKEN);
    let_go(held);
}

/* ---- without memory ---- */

/* Whatever fails, all of it ends. Returns whether nothing has failed. */
static bool use_without(size_t who, uint64_t nth, bool is_for_ever)
{
    begin_members(2, FERRY_LOOP_THREAD);
    ferry_symmetric *first[2];
    have("first", first);
    let_go(first);
    failing_allocator *allocator = &members[who].te.memory;
    uint64_t before = failing_allocator_failures(allocator);
    failing_allocator_arm(allocator, nth, is_for_ever);
    ferry_symmetric *symmetrics[2];
    ferry_future *asks[2];
    int64_t end_ns = test_in_ns(is_for_ever || nth > 0 ? 200000000 : 0);
    for (size_t i = 0; i < 2; i++)
        asks[i] = ask_for(i, SIZE, "s", end_ns, &symmetrics[i]);
    for (size_t i = 0; i < 2; i++) {
        if (await(asks[i]) == FERRY_OK)
            memset(ferry_symmetric_address(symmetrics[i], (ferry_rank)i), 7, SIZE);
    }
    let_go(symmetrics);
    failing_allocator_arm(allocator, 0, false);
    bool is_whole = failing_allocator_failures(allocator) == before;
    end_members();
    return is_whole;
}

static void sweep(bool is_for_ever)
{
    for (size_t who = 0; who < 2; who++) {
        uint64_t nth = 1;
        while (!use_without(who, nth, is_for_ever))
            cr_assert_lt(++nth, 2000);
        cr_assert_gt(nth, 1);
    }
}

Test(symmetric, ends_without_memory_once)
{
    sweep(false);
}

Test(symmetric, ends_without_memory_for_ever)
{
    sweep(true);
}
