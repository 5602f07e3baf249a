/* SPDX-License-Identifier: Apache-2.0 */
/* Notices: several engines of one process. */
#include "tests/support/member_test.h"
#include "tests/support/place.h"

static void need_channels(void)
{
    PLACE_NEEDS(place_lacks_ucx);
}

MEMBER_SUITE(notices, .init = need_channels);

enum { UNTAKEN = 256 }; /* of one sender: notice.h */

static ferry_future *notify(size_t from, ferry_rank to, const void *data, size_t size_bytes)
{
    return ferry_notice_send(members[from].group, to, data, size_bytes, NULL);
}

/* Of a number. */
static ferry_future *count_to(size_t from, ferry_rank to, uint32_t number)
{
    return notify(from, to, &number, sizeof number);
}

static ferry_future *next(size_t by)
{
    return ferry_notice_next(members[by].group, 0);
}

/* What the future, which it gives back, has taken. */
static uint32_t number_of(ferry_future *future, ferry_rank *from_p)
{
    uint32_t number = UINT32_MAX;
    ferry_value value = FERRY_VALUE_INIT;
    ferry_message_info info = FERRY_MESSAGE_INFO_INIT;
    ASSERT_STATUS(await(ferry_future_retain(future)), FERRY_OK);
    ASSERT_STATUS(ferry_future_value(future, &value), FERRY_OK);
    ASSERT_STATUS(ferry_message_describe(future, &info), FERRY_OK);
    cr_assert_eq(value.size_bytes, sizeof number);
    cr_assert_eq(info.size_bytes, sizeof number);
    memcpy(&number, value.data, sizeof number);
    if (from_p != NULL)
        *from_p = info.rank;
    ferry_future_release(future);
    return number;
}

static void of_many_sizes(ferry_loop_mode loop)
{
    static const size_t sizes[] = {0, 1, 33, 64, 1000, 4095, FERRY_NOTICE_BYTES_MAX};
    char data[FERRY_NOTICE_BYTES_MAX];
    begin_members(2, loop);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        memset(data, (int)i + 1, sizeof data);
        ferry_future *told = notify(1, 0, data, sizes[i]), *taken;
        memset(data, 0, sizeof data); /* it was copied */
        taken = next(0);
        AWAIT(ferry_future_retain(taken), OK);
        AWAIT(told, OK);
        ferry_value value = FERRY_VALUE_INIT;
        ferry_message_info info = FERRY_MESSAGE_INFO_INIT;
        ASSERT_STATUS(ferry_future_value(taken, &value), FERRY_OK);
        ASSERT_STATUS(ferry_message_describe(taken, &info), FERRY_OK);
        cr_assert_eq(value.size_bytes, sizes[i]);
        cr_assert_eq(info.size_bytes, sizes[i]);
        cr_assert_eq(info.rank, 1);
        memset(data, (int)i + 1, sizeof data);
        cr_assert_eq(memcmp(value.data, data, sizes[i]), 0);
        cr_assert_eq(((const char *)value.data)[sizes[i]], '\0');
        ferry_future_release(taken);
    }
}

Test(notices, are_of_any_size)
{
    of_many_sizes(FERRY_LOOP_THREAD);
}

Test(notices, are_so_in_embedded_engines)
{
    of_many_sizes(FERRY_LOOP_EMBEDDED);
}

Test(notices, go_to_those_who_wait_in_their_order)
{
    enum { COUNT = 20 };
    ferry_future *taken[COUNT];
    begin_members(2, FERRY_LOOP_THREAD);
    for (uint32_t i = 0; i < COUNT; i++)
        taken[i] = next(0);
    for (uint32_t i = 0; i < COUNT; i++)
        AWAIT(count_to(1, 0, i), OK);
    for (uint32_t i = 0; i < COUNT; i++)
        cr_assert_eq(number_of(taken[i], NULL), i);
}

Test(notices, go_to_the_member_itself)
{
    begin_members(1, FERRY_LOOP_THREAD);
    ferry_rank from;
    ferry_future *told = count_to(0, 0, 7);
    cr_assert_eq(number_of(next(0), &from), 7);
    cr_assert_eq(from, 0);
    AWAIT(told, OK);
}

/* 256 are with the receiver; the others wait, and go in order as those are taken. */
Test(notices, wait_for_those_before_them)
{
    enum { COUNT = 1000 };
    ferry_future *told[COUNT];
    begin_members(2, FERRY_LOOP_THREAD);
    for (uint32_t i = 0; i < COUNT; i++)
        told[i] = count_to(1, 0, i);
    for (uint32_t i = 0; i < COUNT; i++) {
        ASSERT_STATUS(ferry_future_poll(told[i]), FERRY_PENDING);
        cr_assert_eq(number_of(next(0), NULL), i);
        AWAIT(told[i], OK);
    }
}

/* Whoever takes none holds up notices alone. */
Test(notices, hold_up_no_messages)
{
    ferry_future *told[2 * UNTAKEN];
    for (uint32_t i = 0; i < 2; i++)
        (void)begin_member(FERRY_LOOP_THREAD);
    ferry_future *joins[2];
    for (uint32_t i = 0; i < 2; i++) {
        ferry_group_options options = test_group_options(2, i);
        options.window_messages = 4;
        joins[i] = join_group(i, &options);
    }
    for (uint32_t i = 0; i < 2; i++)
        AWAIT(joins[i], OK);
    size_t count = UNEXPECTED_FEW / 2 < 2 * UNTAKEN ? UNEXPECTED_FEW / 2 : 2 * UNTAKEN;
    for (uint32_t i = 0; i < count; i++)
        told[i] = count_to(1, 0, i);
    ferry_buffer *from = buffer_of(1, 0, 64, 7), *to = buffer_of(0, 0, 64, 0);
    for (ferry_tag tag = 0; tag < 100; tag++) {
        ferry_future *sent = ferry_send(members[1].group, 0, tag, ferry_buffer_span(from), NULL);
        AWAIT(ferry_recv(members[0].group, 1, tag, ferry_buffer_span(to), NULL), OK);
        AWAIT(sent, OK);
    }
    for (uint32_t i = 0; i < count; i++) {
        cr_assert_eq(number_of(next(0), NULL), i);
        AWAIT(told[i], OK);
    }
}

/* Members that have sent many get no more turns than others. */
Test(notices, are_taken_of_each_in_turn)
{
    enum { MANY = 100 };
    ferry_future *told[MANY], *few;
    begin_members(3, FERRY_LOOP_THREAD);
    ferry_rank from = FERRY_RANK_NONE;
    for (uint32_t i = 0; i < MANY; i++)
        told[i] = count_to(1, 0, i);
    few = count_to(2, 0, 0);
    /* Once the one has been heard, each round of two has it: at worst it is the first's. */
    uint32_t taken = 0, seen = 0;
    ferry_future *more = count_to(2, 0, 1);
    for (uint32_t at[3] = {0}; taken < MANY + 2; taken++) {
        uint32_t number = number_of(next(0), &from);
        cr_assert_eq(number, at[from]++);
        if (from == 2 && ++seen == 1) {
            (void)number_of(next(0), &from);
            at[from]++;
            taken++;
            if (from == 1) {
                cr_assert_eq(number_of(next(0), &from), 1);
                cr_assert_eq(from, 2, "the other has had two turns before");
                at[from]++;
                taken++;
            }
        }
    }
    AWAIT(few, OK);
    AWAIT(more, OK);
    for (uint32_t i = 0; i < MANY; i++)
        AWAIT(told[i], OK);
}

/* What it names has ended well by then. */
Test(notices, tell_that_bytes_are_there)
{
    enum { SIZE = 1 << 20 };
    ferry_window *own_window, *window;
    begin_members(2, FERRY_LOOP_THREAD);
    ferry_buffer *memory = buffer_of(0, 0, SIZE, 0), *local = buffer_of(1, 0, SIZE, 0);
    AWAIT(ferry_window_open(members[0].group, ferry_buffer_span(memory), "w", FERRY_WINDOW_GET_PUT,
                            &own_window),
          OK);
    AWAIT(ferry_window_find(members[1].group, 0, "w", 0, &window), OK);
    for (uint32_t round = 1; round < 20; round++) {
        memset(ferry_buffer_data(local), (int)round, SIZE);
        ferry_future *put = ferry_put(window, 0, ferry_buffer_span(local), NULL);
        ferry_op_options options = FERRY_OP_OPTIONS_INIT;
        options.after = &put;
        options.after_count = 1;
        ferry_future *told = ferry_notice_send(members[1].group, 0, &round, sizeof round, &options);
        cr_assert_eq(number_of(next(0), NULL), round);
        cr_assert(is_filled(memory, 0, SIZE, (int)round));
        AWAIT(told, OK);
        AWAIT(put, OK);
    }
    AWAIT(ferry_window_close(window), OK);
    AWAIT(ferry_window_close(own_window), OK);
    ferry_window_release(window);
    ferry_window_release(own_window);
}

Test(notices, are_not_sent_after_a_failure)
{
    begin_members(2, FERRY_LOOP_THREAD);
    ferry_promise *promise = NULL;
    ASSERT_STATUS(ferry_promise_create(members[1].te.engine, &promise), FERRY_OK);
    ferry_future *before = ferry_promise_future(promise);
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = &before;
    options.after_count = 1;
    ferry_future *told = ferry_notice_send(members[1].group, 0, "x", 1, &options);
    ASSERT_STATUS(ferry_promise_resolve(promise, FERRY_E_INVALID, "no"), FERRY_OK);
    AWAIT(told, E_DEPENDENCY);
    ferry_promise_release(promise);
    ferry_future_release(before);
    ferry_future *after = count_to(1, 0, 5);
    cr_assert_eq(number_of(next(0), NULL), 5);
    AWAIT(after, OK);
}

Test(notices, that_nobody_takes_are_late_and_say_who_is_slow)
{
    begin_members(2, FERRY_LOOP_THREAD);
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.deadline_ns = test_in_ns(2000000);
    ferry_future *told = ferry_notice_send(members[1].group, 0, "late", 4, &options);
    ASSERT_STATUS(await(ferry_future_retain(told)), FERRY_E_DEADLINE);
    const ferry_error *error = ferry_future_error(told);
    cr_assert_not_null(error);
    cr_assert_eq(error->rank, 0);
    ferry_future_release(told);
}

/* A next that is over has taken none. */
Test(notices, are_not_lost_to_one_that_waits_no_more)
{
    begin_members(2, FERRY_LOOP_THREAD);
    AWAIT(ferry_notice_next(members[0].group, test_in_ns(1000000)), E_DEADLINE);
    ferry_future *first = next(0), *second = next(0);
    ferry_future_cancel(first);
    AWAIT(first, E_CANCELLED);
    ferry_future *told = count_to(1, 0, 3);
    cr_assert_eq(number_of(second, NULL), 3);
    AWAIT(told, OK);
}

Test(notices, that_have_not_left_can_be_cancelled)
{
    enum { COUNT = UNTAKEN + 10 };
    ferry_future *told[COUNT];
    begin_members(2, FERRY_LOOP_THREAD);
    for (uint32_t i = 0; i < COUNT; i++)
        told[i] = count_to(1, 0, i);
    for (uint32_t i = UNTAKEN; i < COUNT; i += 2) {
        ferry_future_cancel(told[i]);
        ASSERT_STATUS(await(ferry_future_retain(told[i])), FERRY_E_CANCELLED);
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        if (i < UNTAKEN || (i - UNTAKEN) % 2 != 0)
            cr_assert_eq(number_of(next(0), NULL), i);
        (void)await(told[i]);
    }
}

Test(notices, wait_no_more_when_members_leave)
{
    begin_members(2, FERRY_LOOP_THREAD);
    ferry_future *told = count_to(1, 0, 1), *waits = next(1);
    AWAIT(ferry_group_leave(members[0].group), OK);
    AWAIT(next(0), E_DEAD);
    ferry_status status = await(told);
    cr_assert(status == FERRY_E_DEPENDENCY || status == FERRY_E_DEAD, "%s",
              ferry_status_name(status));
    ASSERT_STATUS(ferry_future_poll(waits), FERRY_PENDING);
    AWAIT(ferry_group_leave(members[1].group), OK);
    AWAIT(waits, E_DEAD);
}

/* Those that it has sent are taken first. */
Test(notices, are_heard_of_a_member_that_leaves)
{
    begin_members(2, FERRY_LOOP_THREAD);
    ferry_future *told = count_to(1, 0, 9), *left = ferry_group_leave(members[1].group);
    ASSERT_STATUS(ferry_future_poll(left), FERRY_PENDING);
    cr_assert_eq(number_of(next(0), NULL), 9);
    AWAIT(told, OK);
    AWAIT(left, OK);
}

Test(notices, end_with_the_engine)
{
    begin_members(2, FERRY_LOOP_THREAD);
    ferry_promise *promise = NULL;
    ASSERT_STATUS(ferry_promise_create(members[1].te.engine, &promise), FERRY_OK);
    ferry_future *before = ferry_promise_future(promise);
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = &before;
    options.after_count = 1;
    ferry_future *futures[] = {next(0), next(1), count_to(1, 0, 1), count_to(1, 0, 2),
                               ferry_notice_send(members[1].group, 0, "x", 1, &options)};
    for (size_t i = 0; i < 2; i++)
        ASSERT_STATUS(ferry_engine_shutdown(members[i].te.engine, -1), FERRY_OK);
    /* The one may have been taken, or one of both ends was the first that was gone. */
    ferry_status taken = await(futures[0]), sent = await(futures[2]), late = await(futures[3]);
    cr_assert(taken == FERRY_OK || taken == FERRY_E_SHUTDOWN, "%s", ferry_status_name(taken));
    cr_assert(sent == FERRY_OK || sent == FERRY_E_DEAD || sent == FERRY_E_SHUTDOWN, "%s",
              ferry_status_name(sent));
    cr_assert(taken == FERRY_OK || sent != FERRY_OK, "nobody has taken it");
    cr_assert_neq(late, FERRY_OK, "nobody takes a second");
    AWAIT(futures[1], E_SHUTDOWN);
    AWAIT(futures[4], E_SHUTDOWN);
    ferry_promise_release(promise);
    ferry_future_release(before);
}

Test(notices, that_are_wrong_are_refused)
{
    char data[FERRY_NOTICE_BYTES_MAX + 1] = {0};
    begin_members(2, FERRY_LOOP_THREAD);
    ferry_group *group = members[0].group;
    AWAIT(ferry_notice_send(NULL, 1, data, 1, NULL), E_INVALID);
    AWAIT(ferry_notice_send(group, 2, data, 1, NULL), E_NOT_FOUND);
    AWAIT(ferry_notice_send(group, FERRY_RANK_ANY, data, 1, NULL), E_NOT_FOUND);
    AWAIT(ferry_notice_send(group, 1, data, sizeof data, NULL), E_INVALID);
    AWAIT(ferry_notice_send(group, 1, NULL, 1, NULL), E_INVALID);
    AWAIT(ferry_notice_next(NULL, 0), E_INVALID);
    AWAIT(ferry_notice_next(group, -1), E_DEADLINE);
    ferry_value value = FERRY_VALUE_INIT;
    ferry_message_info info = FERRY_MESSAGE_INFO_INIT;
    ferry_future *told = ferry_notice_send(group, 1, NULL, 0, NULL);
    ASSERT_STATUS(ferry_future_value(told, &value), FERRY_E_NOT_FOUND);
    ASSERT_STATUS(ferry_message_describe(told, &info), FERRY_E_NOT_FOUND);
    AWAIT(next(1), OK);
    AWAIT(told, OK);
}
