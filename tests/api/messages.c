/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between members: two engines of one process, over real channels. */
#include "tests/support/dump_test.h"
#include "tests/support/member_test.h"
#include "tests/support/place.h"

#include <ev.h>
#include <stdlib.h>

static void need_channels(void)
{
    PLACE_NEEDS(place_lacks_ucx);
}

MEMBER_SUITE(messages, .init = need_channels);

enum { SIZE = 4096, TAGS = 200 };

static ferry_future *send_to(size_t from, size_t to, ferry_tag tag, ferry_span span)
{
    return ferry_send(members[from].group, (ferry_rank)to, tag, span, NULL);
}

static ferry_future *recv_from(size_t at, size_t from, ferry_tag tag, ferry_span span)
{
    return ferry_recv(members[at].group, (ferry_rank)from, tag, span, NULL);
}

static void assert_exchange(size_t from, size_t to, size_t size_bytes, bool recv_first)
{
    ferry_buffer *source = test_buffer(&members[from].te, 0, size_bytes + 1, 7);
    ferry_buffer *sink = test_buffer(&members[to].te, 1, size_bytes + 1, 1);
    ferry_span out = span_of(source, 0, size_bytes), in = span_of(sink, 0, size_bytes);
    ferry_future *recv = recv_first ? recv_from(to, from, 5, in) : NULL;
    ferry_future *send = send_to(from, to, 5, out);
    if (!recv_first)
        recv = recv_from(to, from, 5, in);
    size_t count = from == to ? 1 : 2;
    ASSERT_STATUS(test_await(members, count, recv), FERRY_OK);
    ASSERT_STATUS(test_await(members, count, send), FERRY_OK);
    cr_assert(is_filled(sink, 0, size_bytes, 7));
    cr_assert(is_filled(sink, size_bytes, 1, 1));
    ferry_buffer_release(source);
    ferry_buffer_release(sink);
}

static const size_t sizes[] = {0, 1, 8, 100, 4096, 8193, 65536, 1 << 20};

Test(messages, of_many_sizes_whichever_end_is_first)
{
    begin_members(2, FERRY_LOOP_THREAD);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        assert_exchange(0, 1, sizes[i], true);
        assert_exchange(1, 0, sizes[i], false);
    }
}

/* A message of no bytes is of no buffer either. */
Test(messages, of_nothing_name_no_buffer)
{
    begin_members(2, FERRY_LOOP_THREAD);
    ferry_buffer *buffer = buffer_of(0, 0, 8, 1);
    ferry_access access = {ferry_buffer_span(buffer), FERRY_READ_WRITE};
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.accesses = &access;
    for (size_t with_access = 0; with_access < 2; with_access++) {
        options.access_count = with_access;
        ferry_future *recv = recv_from(1, 0, 5, (ferry_span){NULL, 0, 0});
        ferry_future *send = ferry_send(members[0].group, 1, 5, (ferry_span){NULL, 9, 0}, &options);
        AWAIT(send, OK);
        AWAIT(recv, OK);
    }
}

Test(messages, to_oneself)
{
    begin_members(1, FERRY_LOOP_THREAD);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        assert_exchange(0, 0, sizes[i], i % 2 == 0);
    }
}

Test(messages, of_64_mib)
{
    begin_members(2, FERRY_LOOP_THREAD);
    assert_exchange(0, 1, (size_t)64 << 20, true);
}

Test(messages, in_embedded_engines)
{
    begin_members(2, FERRY_LOOP_EMBEDDED);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        assert_exchange(0, 1, sizes[i], i % 2 == 0);
}

Test(messages, between_an_embedded_engine_and_one_with_a_thread)
{
    (void)begin_member(FERRY_LOOP_THREAD);
    (void)begin_member(FERRY_LOOP_EMBEDDED);
    test_members_join(members, 2);
    assert_exchange(0, 1, SIZE, true);
    assert_exchange(1, 0, SIZE, false);
}

Test(messages, one_tags_meet_in_order_whatever_is_ready_first)
{
    begin_members(2, FERRY_LOOP_THREAD);
    ferry_buffer *source = buffer_of(0, 0, SIZE, 0), *sink = buffer_of(1, 0, SIZE, 0);
    unsigned char *bytes = ferry_buffer_data(source);
    for (size_t i = 0; i < 4; i++)
        bytes[i] = (unsigned char)(i + 1);
    ferry_promise *promises[4];
    ferry_future *sends[4], *recvs[4];
    for (size_t i = 0; i < 4; i++) {
        promises[i] = test_promise(&members[0].te);
        ferry_future *after = ferry_promise_future(promises[i]);
        ferry_op_options options = behind(&after, 1);
        sends[i] = ferry_send(members[0].group, 1, 9, span_of(source, i, 1), &options);
        recvs[i] = recv_from(1, 0, 9, span_of(sink, i, 1));
        ferry_future_release(after);
    }
    static const size_t order[] = {2, 0, 3, 1};
    for (size_t i = 0; i < 4; i++) {
        size_t at = order[i];
        keep_promise(promises[at], FERRY_OK);
        AWAIT(recvs[at], OK);
        AWAIT(sends[at], OK);
        cr_assert(is_filled(sink, at, 1, (int)at + 1));
    }
}

Test(messages, of_many_tags_in_another_order)
{
    begin_members(2, FERRY_LOOP_THREAD);
    ferry_buffer *source = buffer_of(0, 0, TAGS, 0), *sink = buffer_of(1, 0, TAGS, 0);
    unsigned char *bytes = ferry_buffer_data(source);
    ferry_future *sends[TAGS], *recvs[TAGS];
    for (size_t i = 0; i < TAGS; i++) {
        bytes[i] = (unsigned char)i;
        sends[i] = send_to(0, 1, i, span_of(source, i, 1));
    }
    for (size_t i = 0; i < TAGS; i++) {
        size_t tag = i * 77 % TAGS; /* no common factor */
        recvs[tag] = recv_from(1, 0, tag, span_of(sink, tag, 1));
    }
    for (size_t i = 0; i < TAGS; i++) {
        AWAIT(sends[i], OK);
        AWAIT(recvs[i], OK);
    }
    cr_assert_arr_eq(ferry_buffer_data(sink), bytes, TAGS);
}

Test(messages, in_a_batch)
{
    begin_members(2, FERRY_LOOP_THREAD);
    ferry_buffer *source = buffer_of(0, 0, SIZE, 3), *sink = buffer_of(1, 0, SIZE, 0);
    ferry_op sends[64], recvs[64];
    for (size_t i = 0; i < 64; i++) {
        sends[i] = (ferry_op){.kind = FERRY_OP_SEND,
                              .src = span_of(source, i * 64, 64),
                              .group = members[0].group,
                              .tag = i % 3,
                              .peer = 1};
        recvs[i] = (ferry_op){.kind = FERRY_OP_RECV,
                              .dst = span_of(sink, i * 64, 64),
                              .group = members[1].group,
                              .tag = i % 3,
                              .peer = 0};
    }
    ferry_future *each[64];
    ferry_future *sent = ferry_batch(members[0].te.engine, sends, sizeof sends[0], 64, NULL, NULL);
    ferry_future *received =
        ferry_batch(members[1].te.engine, recvs, sizeof recvs[0], 64, each, NULL);
    AWAIT(sent, OK);
    AWAIT(received, OK);
    for (size_t i = 0; i < 64; i++)
        ASSERT_STATUS(status_of(each[i]), FERRY_OK);
    cr_assert(is_filled(sink, 0, SIZE, 3));
}

Test(messages, in_a_batch_with_a_queue)
{
    begin_members(2, FERRY_LOOP_THREAD);
    ferry_buffer *source = buffer_of(0, 0, SIZE, 3), *sink = buffer_of(1, 0, SIZE, 0);
    ferry_op ops[2][8];
    ferry_queue *queues[2];
    ferry_queue_record records[9];
    ferry_future *batches[2];
    for (int m = 0; m < 2; m++) {
        for (size_t i = 0; i < 8; i++)
            ops[m][i] = (ferry_op){.kind = m == 0 ? FERRY_OP_SEND : FERRY_OP_RECV,
                                   .src = span_of(source, i * 64, 64),
                                   .dst = span_of(sink, i * 64, 64),
                                   .group = members[m].group,
                                   .peer = m == 0 ? 1 : 0};
        ferry_op_options options = FERRY_OP_OPTIONS_INIT;
        ferry_engine *engine = members[m].te.engine;
        ASSERT_STATUS(ferry_queue_create(engine, 8, &queues[m], NULL), FERRY_OK);
        options.queue = queues[m];
        batches[m] = ferry_batch(engine, ops[m], sizeof ops[m][0], 8, NULL, &options);
    }
    for (int m = 0; m < 2; m++) {
        AWAIT(batches[m], OK);
        cr_assert_eq(ferry_queue_take(queues[m], records, sizeof *records, 9), 8);
        for (size_t i = 0; i < 8; i++) {
            cr_assert_eq(records[i].kind, ops[m][i].kind);
            cr_assert(records[i].status == FERRY_OK && records[i].size_bytes == 64);
        }
        ferry_queue_release(queues[m]);
    }
}

/* What is submitted together crosses together, yet one of another length fails alone. */
static void each_of_a_batch_for_itself(ferry_loop_mode loop, bool behind_a_promise)
{
    enum { COUNT = 300, BYTES = 8, WRONG = 77 };
    begin_members(2, loop);
    ferry_buffer *source = buffer_of(0, 0, COUNT * BYTES, 3),
                 *sink = buffer_of(1, 0, COUNT * BYTES, 0);
    ferry_promise *promise = test_promise(&members[0].te);
    ferry_future *gate = ferry_promise_future(promise);
    ferry_op_options options = behind(&gate, behind_a_promise);
    ferry_op sends[COUNT], recvs[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        sends[i] = (ferry_op){.kind = FERRY_OP_SEND,
                              .src = span_of(source, i * BYTES, BYTES),
                              .group = members[0].group,
                              .tag = i % 100 == 99,
                              .peer = 1};
        recvs[i] = (ferry_op){.kind = FERRY_OP_RECV,
                              .dst = span_of(sink, i * BYTES, i == WRONG ? BYTES - 1 : BYTES),
                              .group = members[1].group,
                              .tag = i % 100 == 99,
                              .peer = 0};
    }
    ferry_future *sent[COUNT], *received[COUNT];
    ferry_future *all_received =
        ferry_batch(members[1].te.engine, recvs, sizeof recvs[0], COUNT, received, NULL);
    ferry_future *all_sent =
        ferry_batch(members[0].te.engine, sends, sizeof sends[0], COUNT, sent, &options);
    keep_promise(promise, FERRY_OK);
    ferry_future_release(gate);
    AWAIT(all_sent, E_DEPENDENCY);
    AWAIT(all_received, E_DEPENDENCY);
    for (size_t i = 0; i < COUNT; i++) {
        ferry_status expected = i == WRONG ? FERRY_E_LENGTH : FERRY_OK;
        ASSERT_STATUS(test_await(members, 2, sent[i]), expected);
        ASSERT_STATUS(test_await(members, 2, received[i]), expected);
        if (i != WRONG)
            cr_expect_arr_eq((char *)ferry_buffer_data(sink) + i * BYTES,
                             (char *)ferry_buffer_data(source) + i * BYTES, BYTES);
    }
    end_members();
}

Test(messages, each_of_a_batch_for_itself)
{
    each_of_a_batch_for_itself(FERRY_LOOP_THREAD, false);
}

Test(messages, each_of_a_batch_for_itself_embedded)
{
    each_of_a_batch_for_itself(FERRY_LOOP_EMBEDDED, false);
}

/* A promise's end makes all of them ready at once. */
Test(messages, each_of_many_that_become_ready_together)
{
    each_of_a_batch_for_itself(FERRY_LOOP_THREAD, true);
    each_of_a_batch_for_itself(FERRY_LOOP_EMBEDDED, true);
}

/* A copy, a send, a receive there, and a copy of that: ordered by what they touch. */
Test(messages, are_ordered_by_what_they_touch)
{
    begin_members(2, FERRY_LOOP_THREAD);
    enum { LARGE = 1 << 20 };
    ferry_buffer *first = buffer_of(0, 0, LARGE, 11), *second = buffer_of(0, 1, LARGE, 0);
    ferry_buffer *third = buffer_of(1, 0, LARGE, 0), *fourth = buffer_of(1, 1, LARGE, 0);
    ferry_future *futures[] = {
        recv_from(1, 0, 1, ferry_buffer_span(third)),
        ferry_copy(members[1].te.engine, ferry_buffer_span(fourth), ferry_buffer_span(third), NULL),
        ferry_copy(members[0].te.engine, ferry_buffer_span(second), ferry_buffer_span(first), NULL),
        send_to(0, 1, 1, ferry_buffer_span(second)),
        ferry_copy(members[0].te.engine, span_of(second, 0, 10), span_of(first, 10, 10), NULL),
    };
    for (size_t i = 0; i < 5; i++)
        AWAIT(futures[i], OK);
    cr_assert(is_filled(fourth, 0, LARGE, 11));
}

Test(messages, of_two_lengths_fail_at_both_ends)
{
    begin_members(2, FERRY_LOOP_THREAD);
    ferry_buffer *source = buffer_of(0, 0, SIZE, 3), *sink = buffer_of(1, 0, SIZE, 0);
    ferry_future *send = send_to(0, 1, 1, span_of(source, 0, 100));
    ferry_future *recv = recv_from(1, 0, 1, span_of(sink, 0, 200));
    ASSERT_STATUS(ferry_future_wait(send, -1), FERRY_E_LENGTH);
    ASSERT_STATUS(ferry_future_wait(recv, -1), FERRY_E_LENGTH);
    const ferry_error *error = ferry_future_error(recv);
    cr_assert_not_null(strstr(error->message, "100"), "%s", error->message);
    cr_assert_not_null(strstr(error->message, "200"), "%s", error->message);
    cr_assert_eq(error->rank, 0);
    cr_assert_eq(ferry_future_error(send)->rank, 1);
    /* What it would have written is poisoned. */
    ferry_future *copy =
        ferry_copy(members[1].te.engine, span_of(sink, 1000, 10), span_of(sink, 0, 10), NULL);
    AWAIT(copy, E_DEPENDENCY);
    /* And the tag goes on. */
    ferry_future_release(send);
    ferry_future_release(recv);
    assert_exchange(0, 1, SIZE, true);
}

Test(messages, carry_the_first_cause_across)
{
    begin_members(3, FERRY_LOOP_THREAD);
    ferry_buffer *buffers[3];
    for (size_t i = 0; i < 3; i++)
        buffers[i] = test_buffer(&members[i].te, 0, SIZE, 0);
    ferry_promise *promise = test_promise(&members[0].te);
    ferry_future *after = ferry_promise_future(promise);
    ferry_op_options options = behind(&after, 1);
    ferry_span whole[3];
    for (size_t i = 0; i < 3; i++)
        whole[i] = ferry_buffer_span(buffers[i]);
    ferry_future *first = ferry_send(members[0].group, 1, 1, whole[0], &options);
    ferry_future *second = recv_from(1, 0, 1, whole[1]);
    ferry_future *third = send_to(1, 2, 2, whole[1]); /* what the second received */
    ferry_future *fourth = recv_from(2, 1, 2, whole[2]);
    ASSERT_STATUS(ferry_promise_resolve(promise, FERRY_E_FAILED, "the disk is full"), FERRY_OK);
    ferry_promise_release(promise);
    ASSERT_STATUS(ferry_future_wait(fourth, -1), FERRY_E_DEPENDENCY);
    const ferry_error *error = ferry_future_error(fourth);
    cr_assert_not_null(error->cause);
    cr_assert_eq(error->cause->status, FERRY_E_FAILED);
    cr_assert_eq(error->cause->rank, 0, "%d", error->cause->rank);
    cr_assert_eq(error->cause->op, ferry_future_id(after));
    cr_assert_not_null(strstr(error->cause->message, "the disk is full"), "%s",
                       error->cause->message);
    cr_assert_str_eq(error->cause->domain, "user");
    AWAIT(first, E_DEPENDENCY);
    AWAIT(second, E_DEPENDENCY);
    AWAIT(third, E_DEPENDENCY);
    ferry_future_release(after);
    ferry_future_release(fourth);
    for (size_t i = 0; i < 3; i++)
        ferry_buffer_release(buffers[i]);
}

/* Cancelled before its dependency resolves, while it waits for the other end. */
Test(messages, cancelled_at_either_end_fail_at_the_other)
{
    begin_members(2, FERRY_LOOP_THREAD);
    ferry_buffer *source = buffer_of(0, 0, SIZE, 3), *sink = buffer_of(1, 0, SIZE, 0);
    for (int is_large = 0; is_large < 2; is_large++) {
        ferry_span out = span_of(source, 0, is_large ? SIZE : 8);
        ferry_span in = span_of(sink, 0, is_large ? SIZE : 8);
        ferry_future *recv = recv_from(1, 0, 1, in);
        ASSERT_STATUS(ferry_future_cancel(recv), FERRY_OK);
        ASSERT_STATUS(ferry_future_wait(recv, -1), FERRY_E_CANCELLED);
        ferry_future *quiet = ferry_future_quiet(recv);
        AWAIT(quiet, OK);
        ferry_future *send = send_to(0, 1, 1, out);
        ASSERT_STATUS(ferry_future_wait(send, -1), FERRY_E_DEPENDENCY);
        cr_assert_eq(ferry_future_error(send)->cause->status, FERRY_E_CANCELLED);
        cr_assert_eq(ferry_future_error(send)->cause->rank, 1);
        cr_assert_eq(ferry_future_error(send)->cause->op, ferry_future_id(recv));
        ferry_future_release(recv);
        ferry_future_release(send);

        ferry_promise *promise = test_promise(&members[0].te);
        ferry_future *after = ferry_promise_future(promise);
        ferry_op_options options = behind(&after, 1);
        send = ferry_send(members[0].group, 1, 1, out, &options);
        recv = recv_from(1, 0, 1, in);
        ASSERT_STATUS(ferry_future_cancel(send), FERRY_OK);
        ASSERT_STATUS(ferry_future_wait(recv, -1), FERRY_E_DEPENDENCY);
        cr_assert_eq(ferry_future_error(recv)->cause->status, FERRY_E_CANCELLED);
        cr_assert_eq(ferry_future_error(recv)->cause->rank, 0);
        AWAIT(send, E_CANCELLED);
        keep_promise(promise, FERRY_OK);
        ferry_future_release(after);
        ferry_future_release(recv);
    }
    assert_exchange(0, 1, SIZE, false);
}

/*
 * A receive that nobody sends to is over as soon as it is cancelled, also where there is no memory
 * to keep its place with; and its member can leave, though it would linger for ever.
 */
static void cancel_and_leave(uint32_t count, bool has_memory)
{
    ferry_future *joins[2];
    for (uint32_t i = 0; i < count; i++) {
        (void)begin_member(FERRY_LOOP_THREAD);
        ferry_group_options options = test_group_options(count, (ferry_rank)i);
        options.linger_ns = -1;
        joins[i] = join_group(i, &options);
    }
    for (uint32_t i = 0; i < count; i++)
        AWAIT(joins[i], OK);
    assert_exchange(0, count - 1, 8, true); /* there is a connection */
    failing_allocator *memory = &members[count - 1].te.memory;
    ferry_buffer *sink = own(test_buffer(&members[count - 1].te, 0, SIZE, 0));
    ferry_future *recv = recv_from(count - 1, 0, 1, span_of(sink, 0, 8));
    ferry_future *left = recv_from(count - 1, 0, 1, span_of(sink, 8, 8));
    ferry_future *quiet = ferry_future_quiet(recv), *left_quiet = ferry_future_quiet(left);
    assert_exchange(0, count - 1, 8, true); /* they have entered */
    failing_allocator_arm(memory, has_memory ? 0 : 1, true);
    ASSERT_STATUS(ferry_future_cancel(recv), FERRY_OK);
    AWAIT(recv, E_CANCELLED);
    AWAIT(quiet, OK);
    failing_allocator_arm(memory, 0, false);
    ferry_future *leave = ferry_group_leave(members[count - 1].group);
    AWAIT(left, E_CANCELLED);
    AWAIT(left_quiet, OK);
    AWAIT(leave, OK);
    end_members();
}

Test(messages, cancelled_hold_nothing_up)
{
    for (uint32_t count = 1; count <= 2; count++) {
        cancel_and_leave(count, true);
        cancel_and_leave(count, false);
    }
}

Test(messages, have_deadlines)
{
    begin_members(2, FERRY_LOOP_THREAD);
    ferry_buffer *sink = buffer_of(1, 0, SIZE, 0);
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.deadline_ns = test_in_ns(20000000);
    ferry_future *recv = ferry_recv(members[1].group, 0, 1, ferry_buffer_span(sink), &options);
    AWAIT(recv, E_DEADLINE);
}

Test(messages, that_cant_be_are_refused_with_a_line)
{
    begin_members(2, FERRY_LOOP_THREAD);
    ferry_buffer *own = buffer_of(0, 0, SIZE, 0), *others = buffer_of(1, 0, SIZE, 0);
    ferry_span span = ferry_buffer_span(own);
    ferry_op_options bad = FERRY_OP_OPTIONS_INIT;
    bad.flags = 4;
    const struct {
        ferry_rank peer;
        ferry_span span;
        const ferry_op_options *options;
        ferry_status expected;
    } cases[] = {
        {2, span, NULL, FERRY_E_NOT_FOUND},
        {UINT32_MAX, span, NULL, FERRY_E_NOT_FOUND},
        {1, {NULL, 0, 8}, NULL, FERRY_E_INVALID},
        {1, {own, 1, SIZE}, NULL, FERRY_E_INVALID},
        {1, ferry_buffer_span(others), NULL, FERRY_E_INVALID},
        {1, span, &bad, FERRY_E_INVALID},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int sends = 0; sends < 2; sends++) {
            int lines = atomic_load(&members[0].te.log_lines);
            ferry_future *future = sends ? ferry_send(members[0].group, cases[i].peer, 1,
                                                      cases[i].span, cases[i].options)
                                         : ferry_recv(members[0].group, cases[i].peer, 1,
                                                      cases[i].span, cases[i].options);
            ASSERT_STATUS(status_of(future), cases[i].expected);
            cr_assert_gt(atomic_load(&members[0].te.log_lines), lines, "case %zu", i);
        }
    }
    ASSERT_STATUS(status_of(ferry_send(NULL, 0, 0, span, NULL)), FERRY_E_INVALID);
    ASSERT_STATUS(status_of(ferry_recv(NULL, 0, 0, span, NULL)), FERRY_E_INVALID);
}

/* Everything of a member that leaves fails at the other ends too, and none of it hangs. */
/* What it has taken by then goes back, and nothing that it has not. */
Test(messages, refused_for_what_they_wait_for_leave_others_alone)
{
    begin_members(2, FERRY_LOOP_THREAD);
    ferry_buffer *buffer = buffer_of(0, 0, SIZE, 7);
    ferry_future *elsewhere = own(ferry_nop(members[1].te.engine, NULL));
    ferry_op_options options = behind(&elsewhere, 1);
    for (ferry_tag tag = 0; tag < 8; tag++) {
        ferry_span span = span_of(buffer, 8 * tag, 8);
        ferry_future *refused = ferry_send(members[0].group, 0, tag, span, &options);
        ASSERT_STATUS(ferry_future_poll(refused), FERRY_E_INVALID);
        ferry_future_release(refused);
        ferry_future *send = send_to(0, 0, tag, span);
        ferry_future *recv = recv_from(0, 0, tag, span_of(buffer, SIZE - 8, 8));
        ASSERT_STATUS(test_await(members, 1, send), FERRY_OK);
        ASSERT_STATUS(test_await(members, 1, recv), FERRY_OK);
    }
}

Test(messages, of_a_member_that_leaves_fail_with_its_rank)
{
    begin_members(2, FERRY_LOOP_THREAD);
    assert_exchange(0, 1, SIZE, true); /* there is a connection */
    ferry_buffer *sink = buffer_of(0, 0, SIZE, 0), *own = buffer_of(1, 0, SIZE, 0);
    ferry_future *recv = recv_from(0, 1, 1, ferry_buffer_span(sink));
    ferry_future *theirs = recv_from(1, 0, 2, ferry_buffer_span(own));
    AWAIT(ferry_group_leave(members[1].group), OK);
    AWAIT(theirs, E_CANCELLED);
    ASSERT_STATUS(ferry_future_wait(recv, -1), FERRY_E_DEAD);
    cr_assert_eq(ferry_future_error(recv)->rank, 1);
    cr_assert_not_null(strstr(ferry_future_error(recv)->message, "member 1"), "%s",
                       ferry_future_error(recv)->message);
    ferry_future_release(recv);
    recv = recv_from(0, 1, 1, ferry_buffer_span(sink));
    AWAIT(recv, E_DEAD);
    recv = recv_from(1, 0, 1, ferry_buffer_span(own));
    AWAIT(recv, E_DEAD);
}

/* The store's news that it left may come before its answers, which are there all the same. */
static void leave_after_receiving(ferry_loop_mode senders)
{
    enum { COUNT = 32 }; /* whose answers fit into what a channel holds */
    ferry_future *sends[COUNT], *recvs[COUNT];
    (void)begin_member(FERRY_LOOP_THREAD);
    (void)begin_member(senders);
    test_members_join(members, 2);
    assert_exchange(1, 0, SIZE, true); /* there is a connection */
    ferry_buffer *source = buffer_of(1, 0, COUNT, 3), *sink = buffer_of(0, 0, COUNT, 0);
    for (size_t i = 0; i < COUNT; i++)
        sends[i] = send_to(1, 0, i, span_of(source, i, 1));
    for (int i = 0; i < 100; i++)
        test_members_move(members, 2);
    for (size_t i = 0; i < COUNT; i++)
        recvs[i] = recv_from(0, 1, i, span_of(sink, i, 1));
    /* An embedded sender does not move meanwhile. */
    for (size_t i = 0; i < COUNT; i++)
        ASSERT_STATUS(test_await(members, 1, recvs[i]), FERRY_OK);
    ASSERT_STATUS(test_await(members, 1, ferry_group_leave(members[0].group)), FERRY_OK);
    for (size_t i = 0; i < COUNT; i++)
        AWAIT(sends[i], OK);

    end_members();
}

Test(messages, received_by_one_who_leaves_were_sent)
{
    leave_after_receiving(FERRY_LOOP_EMBEDDED);
    for (int round = 0; round < 20; round++)
        leave_after_receiving(FERRY_LOOP_THREAD);
}

/* Sends and receives in every state when an engine is shut down. */
Test(messages, in_flight_end_with_a_shutdown)
{
    for (int round = 0; round < 4; round++) {
        begin_members(2, FERRY_LOOP_THREAD);
        enum { LARGE = 4 << 20, COUNT = 16 };
        ferry_buffer *source = test_buffer(&members[0].te, 0, LARGE, 3);
        ferry_buffer *sink = test_buffer(&members[1].te, 0, LARGE, 0);
        ferry_promise *promise = test_promise(&members[0].te);
        ferry_future *after = ferry_promise_future(promise), *futures[2 * COUNT];
        ferry_op_options options = behind(&after, 1);
        for (size_t i = 0; i < COUNT; i++) {
            size_t part = LARGE / COUNT;
            futures[2 * i] = ferry_send(members[0].group, 1, i, span_of(source, i * part, part),
                                        i % 3 == 0 ? &options : NULL);
            futures[2 * i + 1] =
                recv_from(1, 0, i % 5 == 0 ? 99 : i, span_of(sink, i * part, part));
        }
        int first = round % 2;
        ASSERT_STATUS(ferry_engine_shutdown(members[first].te.engine, -1), FERRY_OK);
        for (size_t i = 0; i < COUNT; i++) {
            ferry_status status = ferry_future_wait(futures[2 * i + (size_t)first], 0);
            cr_assert_neq(status, FERRY_PENDING);
        }
        ASSERT_STATUS(ferry_engine_shutdown(members[1 - first].te.engine, -1), FERRY_OK);
        for (size_t i = 0; i < 2 * COUNT; i++)
            cr_assert_neq(status_of(futures[i]), FERRY_PENDING);
        (void)ferry_promise_resolve(promise, FERRY_OK, NULL);
        ferry_promise_release(promise);
        ferry_future_release(after);
        ferry_buffer_release(source);
        ferry_buffer_release(sink);
        end_members();
    }
}

Test(messages, ping_and_pong)
{
    begin_members(2, FERRY_LOOP_THREAD);
    ferry_buffer *buffers[2];
    for (size_t i = 0; i < 2; i++)
        buffers[i] = test_buffer(&members[i].te, 0, 8, 0);
    for (int round = 0; round < 2000; round++) {
        for (size_t from = 0; from < 2; from++) {
            ferry_future *recv = recv_from(1 - from, from, 1, ferry_buffer_span(buffers[1 - from]));
            ferry_future *send = send_to(from, 1 - from, 1, ferry_buffer_span(buffers[from]));
            AWAIT(recv, OK);
            AWAIT(send, OK);
        }
    }
    for (size_t i = 0; i < 2; i++)
        ferry_buffer_release(buffers[i]);
}

/* Nothing is written once the cancelled receive is quiet, whatever was under way. */
Test(messages, cancelled_under_way_leave_memory_alone_once_quiet)
{
    begin_members(2, FERRY_LOOP_THREAD);
    enum { LARGE = 32 << 20 };
    ferry_buffer *source = buffer_of(0, 0, LARGE, 3), *sink = buffer_of(1, 0, LARGE, 0);
    for (int round = 0; round < 12; round++) {
        ferry_future *send = send_to(0, 1, 1, ferry_buffer_span(source));
        ferry_future *recv = recv_from(1, 0, 1, ferry_buffer_span(sink));
        for (int i = 0; i < round * 20; i++)
            (void)sched_yield();
        ferry_future *cancelled = round % 2 == 0 ? recv : send;
        ASSERT_STATUS(ferry_future_cancel(cancelled), FERRY_OK);
        ferry_status status = ferry_future_wait(cancelled, -1);
        cr_assert(status == FERRY_OK || status == FERRY_E_CANCELLED, "%s",
                  ferry_status_name(status));
        cr_assert_neq(ferry_future_wait(recv, -1), FERRY_PENDING);
        cr_assert_neq(ferry_future_wait(send, -1), FERRY_PENDING);
        AWAIT(ferry_future_quiet(recv), OK);
        memset(ferry_buffer_data(sink), 99, LARGE);
        AWAIT(ferry_future_quiet(send), OK);
        cr_assert(is_filled(sink, 0, LARGE, 99));
        ferry_future_release(send);
        ferry_future_release(recv);
    }
    assert_exchange(0, 1, SIZE, true);
}

/* What was open fails; the newcomer of the same rank is talked to over a connection of its own. */
Test(messages, go_on_with_a_member_that_was_started_anew)
{
    begin_members(2, FERRY_LOOP_THREAD);
    ferry_buffer *sink = buffer_of(0, 0, SIZE, 0);
    for (int round = 0; round < 3; round++) {
        assert_exchange(0, 1, SIZE, true);
        ferry_member_info before = FERRY_MEMBER_INFO_INIT, after = FERRY_MEMBER_INFO_INIT;
        ASSERT_STATUS(ferry_group_member(members[0].group, 1, &before), FERRY_OK);
        ferry_future *recv = recv_from(0, 1, 1, ferry_buffer_span(sink));
        ferry_group_release(members[1].group);
        test_engine_close(&members[1].te);
        ASSERT_STATUS(test_await(members, 1, recv), FERRY_E_DEAD);
        test_member_open(&members[1], FERRY_LOOP_THREAD);
        ferry_group_options options = test_group_options(2, 1);
        ferry_future *join = join_group(1, &options);
        AWAIT(join, OK);
        do {
            (void)sched_yield();
            ASSERT_STATUS(ferry_group_member(members[0].group, 1, &after), FERRY_OK);
        } while (after.state != FERRY_MEMBER_HERE || after.incarnation == before.incarnation);
        cr_assert_gt(after.incarnation, before.incarnation);
    }
    assert_exchange(0, 1, SIZE, true);
    assert_exchange(1, 0, SIZE, false);
}

Test(messages, show_in_dumps)
{
    begin_members(2, FERRY_LOOP_THREAD);
    ferry_buffer *sink = buffer_of(0, 0, SIZE, 0);
    ferry_future *recv = recv_from(0, 1, 4711, ferry_buffer_span(sink));
    ferry_future *issued = ferry_future_issued(recv);
    AWAIT(issued, OK);
    json_t *whole = dump_json(members[0].te.engine);
    const json_t *nodes = json_object_get(whole, "nodes");
    cr_assert_eq(json_array_size(nodes), 1);
    const json_t *node = json_array_get(nodes, 0);
    cr_assert_str_eq(json_string_value(json_object_get(node, "kind")), "recv");
    cr_assert_str_eq(json_string_value(json_object_get(node, "waits_for")), "member");
    cr_assert_eq(dump_number(node, "size_bytes"), SIZE);
    cr_assert_eq(dump_number(node, "peer"), 1);
    cr_assert_eq(dump_number(node, "tag"), 4711);
    json_decref(whole);
    ASSERT_STATUS(ferry_future_cancel(recv), FERRY_OK);
    AWAIT(recv, E_CANCELLED);
}

/* ---- attached to a libev loop ---- */

Test(messages, in_an_engine_attached_to_libev)
{
    struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
    cr_assert_not_null(loop);
    ferry_engine_options options = test_engine_options(&members[0].te, FERRY_LOOP_ATTACHED);
    options.ev_loop = loop;
    test_engine_create(&members[0].te, &options);
    members[0].loop = FERRY_LOOP_ATTACHED;
    member_count = 1;
    (void)begin_member(FERRY_LOOP_THREAD);
    ferry_future *joins[2];
    for (int32_t i = 0; i < 2; i++) {
        ferry_group_options group = test_group_options(2, (ferry_rank)i);
        joins[i] = join_group((size_t)i, &group);
    }
    while (ferry_future_poll(joins[0]) == FERRY_PENDING)
        (void)ev_run(loop, EVRUN_ONCE);
    ASSERT_STATUS(status_of(joins[0]), FERRY_OK);
    AWAIT(joins[1], OK);
    ferry_buffer *mine = buffer_of(0, 0, SIZE, 0), *others = buffer_of(1, 0, SIZE, 5);
    for (int round = 0; round < 50; round++) {
        ferry_future *recv = recv_from(0, 1, 1, ferry_buffer_span(mine));
        ferry_future *send = send_to(1, 0, 1, ferry_buffer_span(others));
        while (ferry_future_poll(recv) == FERRY_PENDING)
            (void)ev_run(loop, EVRUN_ONCE); /* it sleeps until something comes */
        ASSERT_STATUS(status_of(recv), FERRY_OK);
        while (ferry_future_poll(send) == FERRY_PENDING)
            (void)ev_run(loop, EVRUN_NOWAIT);
        ASSERT_STATUS(status_of(send), FERRY_OK);
    }
    cr_assert(is_filled(mine, 0, SIZE, 5));
    end_members();
    ev_loop_destroy(loop);
}
