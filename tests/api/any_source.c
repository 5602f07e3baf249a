/* SPDX-License-Identifier: Apache-2.0 */
/* Receives of any member and any tag, and probes: several engines of one process. */
#include "tests/support/dump_test.h"
#include "tests/support/member_test.h"
#include "tests/support/place.h"

#include <stdlib.h>

static void need_channels(void)
{
    PLACE_NEEDS(place_lacks_ucx);
}

MEMBER_SUITE(any_source, .init = need_channels);

enum { SIZE = 4096, WAITING_MAX = 16 };

/* All of them take from any source. */
static void begin_open_members(uint32_t count, ferry_loop_mode loop)
{
    ferry_future *joins[MEMBERS_MAX];
    for (uint32_t i = 0; i < count; i++)
        (void)begin_member(loop);
    for (uint32_t i = 0; i < count; i++) {
        ferry_group_options options = test_group_options(count, (ferry_rank)i);
        options.any_source_max = WAITING_MAX;
        joins[i] = join_group(i, &options);
    }
    for (uint32_t i = 0; i < count; i++)
        AWAIT(joins[i], OK);
}

static ferry_future *send_to(size_t from, size_t to, ferry_tag tag, ferry_span span)
{
    return ferry_send(members[from].group, (ferry_rank)to, tag, span, NULL);
}

static ferry_future *take(size_t at, ferry_rank from, ferry_tag tag, ferry_span span)
{
    return ferry_recv(members[at].group, from, tag, span, NULL);
}

static ferry_future *take_any(size_t at, ferry_span span)
{
    return take(at, FERRY_RANK_ANY, FERRY_TAG_ANY, span);
}

static ferry_future *probe(size_t at, ferry_rank from, ferry_tag tag)
{
    return ferry_message_probe(members[at].group, from, tag, NULL);
}

/* Gives the future back. */
static void expect_message(ferry_future *future, ferry_rank rank, ferry_tag tag, size_t size_bytes)
{
    ferry_message_info info = FERRY_MESSAGE_INFO_INIT;
    ASSERT_STATUS(await(ferry_future_retain(future)), FERRY_OK);
    ASSERT_STATUS(ferry_message_describe(future, &info), FERRY_OK);
    ferry_future_release(future);
    cr_assert_eq(info.rank, rank, "of member %u, not %u", info.rank, rank);
    cr_assert_eq(info.tag, tag, "tag %llu", (unsigned long long)info.tag);
    cr_assert_eq(info.size_bytes, size_bytes, "%zu bytes", info.size_bytes);
}

/* Sends, and waits until the receiver has it in its keeping. */
static ferry_future *send_kept(size_t from, size_t to, ferry_tag tag, ferry_span span)
{
    ferry_future *send = send_to(from, to, tag, span);
    expect_message(probe(to, (ferry_rank)from, tag), (ferry_rank)from, tag, span.size_bytes);
    return send;
}

static const size_t sizes[] = {0, 1, 32, 33, 4096, 8193, 65536, 1 << 20};

static void of_many_sizes(ferry_loop_mode loop)
{
    begin_open_members(2, loop);
    ferry_buffer *source = buffer_of(0, 0, 1 << 20, 7), *sink = buffer_of(1, 0, 1 << 20, 0);
    for (size_t i = 0; i < 2 * sizeof sizes / sizeof sizes[0]; i++) {
        size_t size_bytes = sizes[i / 2];
        memset(ferry_buffer_data(sink), 0, 1 << 20);
        ferry_future *take = i % 2 == 0 ? take_any(1, ferry_buffer_span(sink)) : NULL;
        ferry_future *send = send_to(0, 1, i, span_of(source, 0, size_bytes));
        if (take == NULL)
            take = take_any(1, ferry_buffer_span(sink));
        expect_message(take, 0, i, size_bytes);
        expect_message(send, 1, i, size_bytes);
        cr_assert(is_filled(sink, 0, size_bytes, 7));
        cr_assert(is_filled(sink, size_bytes, (1 << 20) - size_bytes, 0));
    }
}

Test(any_source, takes_messages_of_any_size_that_fit)
{
    of_many_sizes(FERRY_LOOP_THREAD);
}

Test(any_source, takes_them_in_embedded_engines)
{
    of_many_sizes(FERRY_LOOP_EMBEDDED);
}

Test(any_source, takes_from_oneself)
{
    begin_open_members(1, FERRY_LOOP_THREAD);
    ferry_buffer *source = buffer_of(0, 0, SIZE, 7), *sink = buffer_of(0, 1, SIZE, 0);
    ferry_future *take = take_any(0, ferry_buffer_span(sink));
    ferry_future *send = send_to(0, 0, 3, span_of(source, 0, 100));
    expect_message(take, 0, 3, 100);
    AWAIT(send, OK);
    cr_assert(is_filled(sink, 0, 100, 7));
}

/* Of what has come, the first; of what comes, as it comes. */
Test(any_source, takes_in_the_order_of_coming)
{
    begin_open_members(4, FERRY_LOOP_THREAD);
    ferry_buffer *source[4], *sink = buffer_of(0, 0, SIZE, 0);
    ferry_future *sends[8];
    static const ferry_rank order[] = {2, 1, 3, 3, 1, 2, 1, 3};
    for (size_t i = 0; i < 4; i++)
        source[i] = buffer_of(i, 0, SIZE, (int)i);
    for (size_t i = 0; i < 8; i++)
        sends[i] = send_kept(order[i], 0, 100 + i, span_of(source[order[i]], 0, 8));
    for (size_t i = 0; i < 8; i++) {
        expect_message(take_any(0, span_of(sink, 8 * i, 8)), order[i], 100 + i, 8);
        AWAIT(sends[i], OK);
        cr_assert(is_filled(sink, 8 * i, 8, (int)order[i]));
    }
}

Test(any_source, picks_by_member_or_by_tag)
{
    begin_open_members(3, FERRY_LOOP_THREAD);
    ferry_buffer *one = buffer_of(1, 0, SIZE, 1), *two = buffer_of(2, 0, SIZE, 2);
    ferry_buffer *sink = buffer_of(0, 0, SIZE, 0);
    ferry_future *sends[] = {
        send_kept(1, 0, 5, span_of(one, 0, 10)), send_kept(1, 0, 6, span_of(one, 0, 20)),
        send_kept(2, 0, 5, span_of(two, 0, 30)), send_kept(2, 0, 6, span_of(two, 0, 40))};
    expect_message(take(0, 2, FERRY_TAG_ANY, ferry_buffer_span(sink)), 2, 5, 30);
    expect_message(take(0, FERRY_RANK_ANY, 6, ferry_buffer_span(sink)), 1, 6, 20);
    expect_message(take(0, 2, 6, ferry_buffer_span(sink)), 2, 6, 40);
    expect_message(take_any(0, ferry_buffer_span(sink)), 1, 5, 10);
    for (size_t i = 0; i < 4; i++)
        AWAIT(sends[i], OK);
}

/* A message goes to the oldest receive that it suits, whatever that leaves open. */
Test(any_source, serves_receives_in_the_order_of_submitting)
{
    begin_open_members(2, FERRY_LOOP_THREAD);
    ferry_buffer *source = buffer_of(0, 0, SIZE, 1), *sink = buffer_of(1, 0, SIZE, 0);
    ferry_future *takes[] = {take(1, 0, 5, span_of(sink, 0, 100)),
                             take_any(1, span_of(sink, 100, 100)),
                             take(1, 0, 5, span_of(sink, 200, 100)),
                             take(1, FERRY_RANK_ANY, 5, span_of(sink, 300, 100)),
                             take(1, 0, FERRY_TAG_ANY, span_of(sink, 400, 100)),
                             take(1, 0, 6, span_of(sink, 500, 100))};
    static const ferry_tag tags[] = {6, 5, 5, 6, 5, 6};
    static const size_t by[] = {1, 0, 2, 4, 3, 5}; /* which of them gets the i-th */
    for (size_t i = 0; i < 6; i++)
        AWAIT(send_to(0, 1, tags[i], span_of(source, 0, i + 1)), OK);
    for (size_t i = 0; i < 6; i++)
        expect_message(takes[by[i]], 0, tags[i], i + 1);
}

/* One that is not ready holds up those of its tag, but not those of others. */
Test(any_source, keeps_the_order_of_one_tag)
{
    begin_open_members(2, FERRY_LOOP_THREAD);
    ferry_buffer *source = buffer_of(0, 0, SIZE, 0), *sink = buffer_of(1, 0, SIZE, 0);
    ferry_promise *promise = test_promise(&members[0].te);
    ferry_future *after = ferry_promise_future(promise);
    ferry_op_options options = behind(&after, 1);
    ferry_future *sends[] = {ferry_send(members[0].group, 1, 9, span_of(source, 0, 1), &options),
                             send_to(0, 1, 9, span_of(source, 0, 2)),
                             send_to(0, 1, 9, span_of(source, 0, 3)),
                             send_to(0, 1, 8, span_of(source, 0, 4))};
    ferry_future_release(after);
    ferry_future *probes[] = {probe(1, 0, 9), probe(1, 0, FERRY_TAG_ANY)};
    expect_message(probes[1], 0, 8, 4);
    expect_message(take_any(1, span_of(sink, 0, 10)), 0, 8, 4);
    ferry_future *takes[] = {take_any(1, span_of(sink, 0, 10)),
                             take(1, 0, 9, span_of(sink, 10, 10)),
                             take_any(1, span_of(sink, 20, 10))};
    ASSERT_STATUS(ferry_future_wait(takes[0], 1000000), FERRY_PENDING);
    ASSERT_STATUS(ferry_future_poll(probes[0]), FERRY_PENDING);
    keep_promise(promise, FERRY_OK);
    for (size_t i = 0; i < 3; i++)
        expect_message(takes[i], 0, 9, i + 1);
    for (size_t i = 0; i < 4; i++)
        AWAIT(sends[i], OK);
    expect_message(probes[0], 0, 9, 1);
}

/* ---- probes ---- */

Test(any_source, finds_without_taking)
{
    begin_open_members(2, FERRY_LOOP_THREAD);
    ferry_buffer *source = buffer_of(0, 0, SIZE, 5), *sink = buffer_of(1, 0, SIZE, 0);
    ferry_future *waits[] = {probe(1, FERRY_RANK_ANY, FERRY_TAG_ANY),
                             probe(1, 0, 7),
                             probe(1, 0, FERRY_TAG_ANY),
                             probe(1, FERRY_RANK_ANY, 7),
                             probe(1, 1, FERRY_TAG_ANY),
                             probe(1, FERRY_RANK_ANY, 8)};
    for (size_t i = 0; i < 6; i++)
        ASSERT_STATUS(ferry_future_poll(waits[i]), FERRY_PENDING);
    ferry_future *send = send_to(0, 1, 7, span_of(source, 0, 300));
    for (size_t i = 0; i < 4; i++)
        expect_message(waits[i], 0, 7, 300);
    for (size_t i = 4; i < 6; i++) {
        ASSERT_STATUS(ferry_future_poll(waits[i]), FERRY_PENDING);
        ferry_future_cancel(waits[i]);
        AWAIT(waits[i], E_CANCELLED);
    }
    expect_message(probe(1, 0, 7), 0, 7, 300);
    ASSERT_STATUS(ferry_future_poll(send), FERRY_PENDING);
    expect_message(take(1, 0, 7, span_of(sink, 0, 300)), 0, 7, 300);
    AWAIT(send, OK);
    ferry_future *none = probe(1, 0, 7);
    ASSERT_STATUS(ferry_future_poll(none), FERRY_PENDING);
    ferry_future_cancel(none);
    AWAIT(none, E_CANCELLED);
}

/* What one would do who knows neither member nor size: look, make room, receive. */
Test(any_source, finds_then_receives_what_it_has_found)
{
    begin_open_members(3, FERRY_LOOP_THREAD);
    ferry_buffer *source[3];
    ferry_future *sends[2][20];
    for (size_t i = 1; i < 3; i++)
        source[i] = buffer_of(i, 0, 1 << 20, (int)i);
    for (size_t i = 0; i < 20; i++)
        for (size_t m = 1; m < 3; m++)
            sends[m - 1][i] =
                send_to(m, 0, i % 4, span_of(source[m], 0, (i * m * 7919) % (1 << 20)));
    for (size_t i = 0; i < 40; i++) {
        ferry_message_info info = FERRY_MESSAGE_INFO_INIT;
        ferry_future *found = probe(0, FERRY_RANK_ANY, FERRY_TAG_ANY);
        ASSERT_STATUS(await(ferry_future_retain(found)), FERRY_OK);
        ASSERT_STATUS(ferry_message_describe(found, &info), FERRY_OK);
        ferry_future_release(found);
        ferry_buffer *sink = test_buffer(&members[0].te, 0, info.size_bytes + 1, 0);
        expect_message(take(0, info.rank, info.tag, span_of(sink, 0, info.size_bytes)), info.rank,
                       info.tag, info.size_bytes);
        cr_assert(is_filled(sink, 0, info.size_bytes, (int)info.rank));
        ferry_buffer_release(sink);
    }
    for (size_t i = 0; i < 20; i++) {
        AWAIT(sends[0][i], OK);
        AWAIT(sends[1][i], OK);
    }
}

/* ---- failures ---- */

Test(any_source, fails_with_a_message_that_is_too_large)
{
    begin_open_members(2, FERRY_LOOP_THREAD);
    ferry_buffer *source = buffer_of(0, 0, SIZE, 1), *sink = buffer_of(1, 0, SIZE, 0);
    /* Often, as it is described while the loop is still busy with its end. */
    for (int i = 0; i < 40; i++) {
        bool is_first = i % 2 != 0;
        ferry_future *take = is_first ? take_any(1, span_of(sink, 0, 100)) : NULL;
        ferry_future *send = send_to(0, 1, 4, span_of(source, 0, 101));
        if (!is_first)
            take = take_any(1, span_of(sink, 0, 100));
        ASSERT_STATUS(await(ferry_future_retain(take)), FERRY_E_LENGTH);
        AWAIT(send, E_LENGTH);
        ferry_message_info info = FERRY_MESSAGE_INFO_INIT;
        ASSERT_STATUS(ferry_message_describe(take, &info), FERRY_OK);
        cr_assert(info.rank == 0 && info.tag == 4 && info.size_bytes == 101);
        cr_assert_eq(ferry_future_error(take)->rank, 0);
        ferry_future_release(take);
    }
    /* What it would have written is poisoned, and nothing else is different. */
    AWAIT(ferry_copy(members[1].te.engine, span_of(sink, 1000, 10), span_of(sink, 0, 10), NULL),
          E_DEPENDENCY);
    ferry_future *send = send_to(0, 1, 4, span_of(source, 0, 100));
    expect_message(take_any(1, span_of(sink, 0, 100)), 0, 4, 100);
    AWAIT(send, OK);
}

Test(any_source, fails_with_a_send_that_failed)
{
    begin_open_members(2, FERRY_LOOP_THREAD);
    ferry_buffer *source = buffer_of(0, 0, SIZE, 1), *sink = buffer_of(1, 0, SIZE, 0);
    ferry_promise *promise = test_promise(&members[0].te);
    ferry_future *after = ferry_promise_future(promise);
    ferry_op_options options = behind(&after, 1);
    ferry_future *take = take_any(1, ferry_buffer_span(sink));
    ferry_future *first = ferry_send(members[0].group, 1, 4, span_of(source, 0, 10), &options);
    ferry_future *second = ferry_send(members[0].group, 1, 4, span_of(source, 0, 10), &options);
    ferry_future_release(after);
    keep_promise(promise, FERRY_E_FAILED);
    AWAIT(first, E_DEPENDENCY);
    AWAIT(second, E_DEPENDENCY);
    ASSERT_STATUS(await(ferry_future_retain(take)), FERRY_E_DEPENDENCY);
    const ferry_error *error = ferry_future_error(take);
    cr_assert_not_null(error->cause);
    cr_assert_eq(error->cause->rank, 0);
    ferry_future_release(take);
    expect_message(probe(1, 0, FERRY_TAG_ANY), 0, 4, 0);
    AWAIT(take_any(1, ferry_buffer_span(sink)), E_DEPENDENCY);
}

/* A receive that gives up takes nothing along. */
Test(any_source, leaves_messages_to_others_when_it_gives_up)
{
    begin_open_members(2, FERRY_LOOP_THREAD);
    ferry_buffer *source = buffer_of(0, 0, SIZE, 1), *sink = buffer_of(1, 0, SIZE, 0);
    ferry_promise *promise = test_promise(&members[1].te);
    ferry_future *after = ferry_promise_future(promise);
    ferry_op_options options = behind(&after, 1);
    ferry_future *takes[] = {
        take_any(1, span_of(sink, 0, 10)), take(1, 0, 4, span_of(sink, 10, 10)),
        take(1, 0, FERRY_TAG_ANY, span_of(sink, 20, 10)),
        ferry_recv(members[1].group, FERRY_RANK_ANY, 4, span_of(sink, 30, 10), &options)};
    ferry_future_release(after);
    for (size_t i = 0; i < 3; i++) {
        ferry_future_cancel(takes[i]);
        AWAIT(takes[i], E_CANCELLED);
    }
    keep_promise(promise, FERRY_E_FAILED);
    AWAIT(takes[3], E_DEPENDENCY);
    options = (ferry_op_options)FERRY_OP_OPTIONS_INIT;
    options.deadline_ns = test_in_ns(1000000);
    AWAIT(ferry_recv(members[1].group, 0, 4, span_of(sink, 0, 10), &options), E_DEADLINE);
    AWAIT(ferry_message_probe(members[1].group, FERRY_RANK_ANY, 4, &options), E_DEADLINE);
    ferry_future *send = send_to(0, 1, 4, span_of(source, 0, 10));
    expect_message(take(1, 0, 4, span_of(sink, 40, 10)), 0, 4, 10);
    AWAIT(send, OK);
}

/* With a message, and not ready yet: then it is that message's receive. */
Test(any_source, keeps_what_it_has_met_until_it_is_ready)
{
    begin_open_members(2, FERRY_LOOP_THREAD);
    ferry_buffer *source = buffer_of(0, 0, SIZE, 1), *sink = buffer_of(1, 0, SIZE, 0);
    ferry_promise *promises[2];
    ferry_future *takes[2];
    for (size_t i = 0; i < 2; i++) {
        promises[i] = test_promise(&members[1].te);
        ferry_future *after = ferry_promise_future(promises[i]);
        ferry_op_options options = behind(&after, 1);
        takes[i] = ferry_recv(members[1].group, FERRY_RANK_ANY, FERRY_TAG_ANY,
                              span_of(sink, 10 * i, 10), &options);
        ferry_future_release(after);
    }
    ferry_future *sends[] = {send_to(0, 1, 1, span_of(source, 0, 5)),
                             send_to(0, 1, 2, span_of(source, 0, 6))};
    ferry_future *third = send_kept(0, 1, 3, span_of(source, 0, 7));
    expect_message(probe(1, 0, FERRY_TAG_ANY), 0, 3, 7);
    keep_promise(promises[1], FERRY_OK);
    expect_message(takes[1], 0, 2, 6);
    AWAIT(sends[1], OK);
    keep_promise(promises[0], FERRY_E_FAILED);
    AWAIT(takes[0], E_DEPENDENCY);
    AWAIT(sends[0], E_DEPENDENCY);
    expect_message(take_any(1, span_of(sink, 0, 10)), 0, 3, 7);
    AWAIT(third, OK);
}

/* ---- members that go ---- */

Test(any_source, waits_for_others_until_nobody_is_left)
{
    begin_open_members(3, FERRY_LOOP_THREAD);
    ferry_buffer *source = buffer_of(2, 0, SIZE, 2), *sink = buffer_of(0, 0, SIZE, 0);
    ferry_future *ofs[] = {take(0, 1, FERRY_TAG_ANY, span_of(sink, 0, 10)),
                           take(0, 1, 5, span_of(sink, 10, 10)), probe(0, 1, 5),
                           probe(0, 1, FERRY_TAG_ANY)};
    ferry_future *first = take_any(0, span_of(sink, 20, 10));
    ferry_future *second = take(0, FERRY_RANK_ANY, 5, span_of(sink, 30, 10));
    ferry_future *third = probe(0, FERRY_RANK_ANY, 6);
    AWAIT(send_to(2, 0, 77, span_of(source, 0, 4000)), E_LENGTH);
    AWAIT(first, E_LENGTH); /* the oldest that it suits, though it is too large */
    AWAIT(ferry_group_leave(members[1].group), OK);
    for (size_t i = 0; i < 4; i++) {
        ASSERT_STATUS(ferry_future_wait(ofs[i], -1), FERRY_E_DEAD);
        cr_assert_eq(ferry_future_error(ofs[i])->rank, 1);
        ferry_future_release(ofs[i]);
    }
    AWAIT(take(0, 1, FERRY_TAG_ANY, span_of(sink, 0, 10)), E_DEAD);
    AWAIT(probe(0, 1, FERRY_TAG_ANY), E_DEAD);
    ferry_future *send = send_to(2, 0, 5, span_of(source, 0, 10));
    ferry_future *last = take_any(0, span_of(sink, 40, 10));
    expect_message(second, 2, 5, 10);
    AWAIT(send, OK);
    AWAIT(ferry_group_leave(members[2].group), OK);
    ASSERT_STATUS(ferry_future_wait(last, -1), FERRY_E_DEAD);
    cr_assert_eq(ferry_future_error(last)->rank, FERRY_RANK_NONE);
    cr_assert_not_null(strstr(ferry_future_error(last)->message, "no other member"));
    ferry_future_release(last);
    AWAIT(third, E_DEAD);
    AWAIT(take_any(0, span_of(sink, 0, 10)), E_DEAD);
    AWAIT(probe(0, FERRY_RANK_ANY, FERRY_TAG_ANY), E_DEAD);
}

/* What a member sent before it left in order is received, also by those that name nobody. */
Test(any_source, takes_what_a_member_sent_before_it_left)
{
    begin_open_members(2, FERRY_LOOP_THREAD);
    ferry_buffer *source = buffer_of(1, 0, SIZE, 2), *sink = buffer_of(0, 0, SIZE, 0);
    ferry_future *sends[] = {send_kept(1, 0, 1, span_of(source, 0, 10)),
                             send_to(1, 0, 2, span_of(source, 0, SIZE))};
    ferry_future *left = ferry_group_leave(members[1].group);
    expect_message(take_any(0, ferry_buffer_span(sink)), 1, 1, 10);
    expect_message(take_any(0, ferry_buffer_span(sink)), 1, 2, SIZE);
    AWAIT(left, OK);
    AWAIT(sends[0], OK);
    AWAIT(sends[1], OK);
    AWAIT(take_any(0, ferry_buffer_span(sink)), E_DEAD);
}

Test(any_source, ends_as_this_member_leaves)
{
    begin_open_members(2, FERRY_LOOP_THREAD);
    ferry_buffer *source = buffer_of(1, 0, SIZE, 2), *sink = buffer_of(0, 0, SIZE, 0);
    ferry_future *kept = send_kept(1, 0, 1, span_of(source, 0, 10));
    ferry_future *open[] = {take(0, FERRY_RANK_ANY, 5, span_of(sink, 0, 10)),
                            take(0, 1, FERRY_TAG_ANY, span_of(sink, 10, 10)),
                            probe(0, FERRY_RANK_ANY, 5), probe(0, 1, 6)};
    expect_message(open[1], 1, 1, 10);
    AWAIT(kept, OK);
    kept = send_kept(1, 0, 1, span_of(source, 0, 10));
    open[1] = take(0, 1, 5, span_of(sink, 10, 10));
    AWAIT(ferry_group_leave(members[0].group), OK);
    for (size_t i = 0; i < 4; i++)
        AWAIT(open[i], E_CANCELLED);
    AWAIT(kept, E_DEAD);
    AWAIT(take_any(0, ferry_buffer_span(sink)), E_DEAD);
    AWAIT(probe(0, 1, 1), E_DEAD);
}

/* A shutdown ends all of them, in any state. */
Test(any_source, ends_with_the_engine)
{
    begin_open_members(2, FERRY_LOOP_THREAD);
    ferry_buffer *source = buffer_of(1, 0, SIZE, 2), *sink = buffer_of(0, 0, SIZE, 0);
    ferry_promise *promise = test_promise(&members[0].te);
    ferry_future *after = ferry_promise_future(promise);
    ferry_op_options options = behind(&after, 1);
    ferry_future *send = send_to(1, 0, 3, span_of(source, 0, 10));
    ferry_future *open[] = {
        ferry_recv(members[0].group, 1, FERRY_TAG_ANY, span_of(sink, 0, 10), &options),
        ferry_recv(members[0].group, 1, FERRY_TAG_ANY, span_of(sink, 10, 10), &options),
        ferry_message_probe(members[0].group, 1, FERRY_TAG_ANY, &options),
        take_any(0, span_of(sink, 20, 10)),
        take(0, 1, 9, span_of(sink, 30, 10)),
        probe(0, 1, 9)};
    ferry_future_release(after);
    ASSERT_STATUS(ferry_engine_shutdown(members[0].te.engine, INT64_C(10000000000) * PATIENCE),
                  FERRY_OK);
    for (size_t i = 0; i < 6; i++) {
        cr_assert_lt(ferry_future_poll(open[i]), FERRY_OK);
        ferry_future_release(open[i]);
    }
    ferry_promise_release(promise);
    ASSERT_STATUS(await(send), FERRY_E_DEAD);
}

/* ---- bounds ---- */

Test(any_source, is_bounded_and_says_so)
{
    begin_open_members(2, FERRY_LOOP_THREAD);
    ferry_buffer *source = buffer_of(0, 0, SIZE, 1), *sink = buffer_of(1, 0, SIZE, 0);
    ferry_future *takes[WAITING_MAX];
    for (size_t i = 0; i < WAITING_MAX; i++)
        takes[i] = i % 4 == 3 ? probe(1, FERRY_RANK_ANY, 1)
                              : take(1, FERRY_RANK_ANY, 1, span_of(sink, 10 * i, 10));
    ferry_future *past[] = {take_any(1, span_of(sink, 1000, 10)),
                            probe(1, FERRY_RANK_ANY, FERRY_TAG_ANY), probe(1, 0, 2)};
    for (size_t i = 0; i < 3; i++) {
        ASSERT_STATUS(ferry_future_wait(past[i], -1), FERRY_E_AGAIN);
        cr_assert_not_null(strstr(ferry_future_error(past[i])->message, "any_source_max"));
        ferry_future_release(past[i]);
    }
    /* What finds its message waits for nothing; nor do receives that leave nothing open. */
    ferry_future *named = take(1, 0, 3, span_of(sink, 2000, 10));
    AWAIT(send_to(0, 1, 3, span_of(source, 0, 1)), OK);
    AWAIT(named, OK);
    ferry_future *sends[2] = {send_to(0, 1, 2, span_of(source, 0, 4)),
                              send_to(0, 1, 4, span_of(source, 0, 4))};
    expect_message(take(1, 0, 4, span_of(sink, 2000, 10)), 0, 4, 4); /* both have come */
    expect_message(probe(1, FERRY_RANK_ANY, FERRY_TAG_ANY), 0, 2, 4);
    expect_message(take_any(1, span_of(sink, 2000, 10)), 0, 2, 4);
    AWAIT(sends[0], OK);
    AWAIT(sends[1], OK);
    for (size_t i = 0; i < WAITING_MAX; i++) {
        ferry_future_cancel(takes[i]);
        AWAIT(takes[i], E_CANCELLED);
    }
}

/* ---- what is told ---- */

Test(any_source, describes_only_what_has_met_a_message)
{
    begin_open_members(2, FERRY_LOOP_THREAD);
    ferry_buffer *source = buffer_of(0, 0, SIZE, 1), *sink = buffer_of(1, 0, SIZE, 0);
    ferry_message_info info = FERRY_MESSAGE_INFO_INIT;
    ferry_future *take = take_any(1, span_of(sink, 0, 10));
    ferry_future *nop = ferry_nop(members[1].te.engine, NULL);
    ASSERT_STATUS(ferry_message_describe(NULL, &info), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_message_describe(take, NULL), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_message_describe(take, &info), FERRY_E_NOT_FOUND);
    cr_assert_eq(info.rank, FERRY_RANK_NONE);
    AWAIT(ferry_future_retain(nop), OK);
    ASSERT_STATUS(ferry_message_describe(nop, &info), FERRY_E_NOT_FOUND);
    ferry_future_release(nop);
    info.struct_size = 3;
    ASSERT_STATUS(ferry_message_describe(take, &info), FERRY_E_INVALID);
    ferry_future_cancel(take);
    ASSERT_STATUS(ferry_future_wait(take, -1), FERRY_E_CANCELLED);
    info.struct_size = sizeof info;
    ASSERT_STATUS(ferry_message_describe(take, &info), FERRY_E_NOT_FOUND);
    ferry_future_release(take);
    take = take_any(1, span_of(sink, 0, 10));
    AWAIT(send_to(0, 1, 6, span_of(source, 0, 3)), OK);
    AWAIT(ferry_future_retain(take), OK);
    /* One of a version that knew less is filled as far as it goes. */
    ferry_message_info shorter = {.struct_size = offsetof(ferry_message_info, tag), .tag = 99};
    ASSERT_STATUS(ferry_message_describe(take, &shorter), FERRY_OK);
    cr_assert(shorter.rank == 0 && shorter.tag == 99);
    ferry_future_release(take);
}

/* In a batch and with a queue a receive is one like others; its record has the message's bytes. */
Test(any_source, goes_in_a_batch_with_a_queue)
{
    begin_open_members(2, FERRY_LOOP_THREAD);
    ferry_buffer *source = buffer_of(0, 0, SIZE, 3), *sink = buffer_of(1, 0, SIZE, 0);
    ferry_op takes[8];
    ferry_queue *queue;
    ferry_queue_record records[10];
    ferry_future *each[8];
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    ASSERT_STATUS(ferry_queue_create(members[1].te.engine, 9, &queue, NULL), FERRY_OK);
    options.queue = queue;
    for (size_t i = 0; i < 8; i++)
        takes[i] = (ferry_op){.kind = FERRY_OP_RECV,
                              .dst = span_of(sink, i * 64, 64),
                              .group = members[1].group,
                              .peer = i % 2 == 0 ? FERRY_RANK_ANY : 0,
                              .tag = i % 4 == 0 ? FERRY_TAG_ANY : 5};
    ferry_future *batch =
        ferry_batch(members[1].te.engine, takes, sizeof *takes, 8, each, &options);
    ferry_future *found = ferry_message_probe(members[1].group, 0, 9, &options);
    for (size_t i = 0; i < 8; i++)
        AWAIT(send_to(0, 1, 5, span_of(source, 0, i + 1)), OK);
    ferry_future *send = send_to(0, 1, 9, span_of(source, 0, 9));
    AWAIT(batch, OK);
    AWAIT(ferry_future_quiet(found), OK); /* so its record is there */
    expect_message(found, 0, 9, 9);
    for (size_t i = 0; i < 8; i++)
        expect_message(each[i], 0, 5, i + 1);
    cr_assert_eq(ferry_queue_take(queue, records, sizeof *records, 10), 9);
    for (size_t i = 0; i < 8; i++)
        cr_assert(records[i].kind == FERRY_OP_RECV && records[i].size_bytes == i + 1);
    cr_assert(records[8].kind == FERRY_OP_PROBE && records[8].size_bytes == 0);
    ferry_queue_release(queue);
    AWAIT(take_any(1, span_of(sink, 0, 64)), OK);
    AWAIT(send, OK);
}

Test(any_source, shows_in_dumps)
{
    begin_open_members(2, FERRY_LOOP_THREAD);
    ferry_buffer *source = buffer_of(0, 0, SIZE, 1), *sink = buffer_of(1, 0, SIZE, 0);
    ferry_future *open = take_any(1, ferry_buffer_span(sink)), *found = probe(1, 0, 9);
    AWAIT(ferry_future_issued(open), OK);
    AWAIT(ferry_future_issued(found), OK);
    json_t *whole = dump_json(members[1].te.engine);
    const json_t *node = dump_of(whole, open);
    cr_assert_str_eq(dump_word(node, "kind"), "recv");
    cr_assert_str_eq(dump_word(node, "peer"), "any");
    cr_assert_str_eq(dump_word(node, "tag"), "any");
    cr_assert_str_eq(dump_word(node, "waits_for"), "member");
    node = dump_of(whole, found);
    cr_assert_str_eq(dump_word(node, "kind"), "probe");
    cr_assert_eq(dump_number(node, "peer"), 0);
    cr_assert_eq(dump_number(node, "tag"), 9);
    json_decref(whole);
    AWAIT(send_to(0, 1, 4, span_of(source, 0, 8)), OK);
    AWAIT(open, OK);
    ASSERT_STATUS(ferry_future_cancel(found), FERRY_OK);
    AWAIT(found, E_CANCELLED);
}
