/* SPDX-License-Identifier: Apache-2.0 */
/* The two ends of what goes between members have one flow in their records. */
#include "tests/support/member_test.h"
#include "tests/support/no_reading.h"
#include "tests/support/place.h"

#include <sched.h>

static void need_channels(void)
{
    PLACE_NEEDS(place_lacks_ucx);
}

MEMBER_SUITE(trace_flows, .init = need_channels);

enum { SIZE = 8192, RECORDS_MAX = 4096 };

/* Members whose engines record. */
static void begin(uint32_t count)
{
    for (; member_count < count; member_count++) {
        test_member *member = &members[member_count];
        ferry_engine_options options = test_engine_options(&member->te, FERRY_LOOP_THREAD);
        options.clock = NULL;
        options.flight_records = RECORDS_MAX;
        test_engine_create(&member->te, &options);
        member->loop = FERRY_LOOP_THREAD;
    }
    test_members_join(members, count);
}

/*
 * The record of a member's operation that has succeeded: of that number, or, if it is 0, the last
 * of that kind. It may come a moment after the other end's.
 */
static ferry_trace_record resolved(size_t member, ferry_op_kind kind, uint64_t op)
{
    static ferry_trace_record records[RECORDS_MAX];
    for (;;) {
        size_t count = ferry_engine_flight_records(members[member].te.engine, records,
                                                   sizeof records[0], RECORDS_MAX);
        for (size_t i = count; i-- > 0;) {
            if (records[i].what == FERRY_TRACE_RESOLVED && records[i].kind == kind &&
                records[i].status == FERRY_OK && (op == 0 || records[i].op == op))
                return records[i];
        }
        (void)sched_yield();
    }
}

/* Awaits the future, which it gives back, and says what was recorded of it. */
static ferry_trace_record ended(size_t member, ferry_op_kind kind, ferry_future *future)
{
    uint64_t op = ferry_future_id(future);
    AWAIT(future, OK);
    return resolved(member, kind, op);
}

/* The number of the flow that begins with a member's operation. */
static uint64_t flow_from(size_t member, uint64_t op)
{
    return ((uint64_t)member + 1) << 40 | op;
}

static void expect_flow(size_t from, const ferry_trace_record *sent,
                        const ferry_trace_record *received, size_t size_bytes)
{
    cr_assert_eq(sent->flow, flow_from(from, sent->op));
    cr_assert_eq(received->flow, sent->flow);
    cr_assert_eq(sent->size_bytes, size_bytes);
    cr_assert_eq(received->size_bytes, size_bytes);
}

Test(trace_flows, join_a_send_and_its_receive)
{
    begin(2);
    ferry_buffer *from = buffer_of(1, 0, SIZE, 7), *to = buffer_of(0, 0, SIZE, 0);
    ferry_future *receive = ferry_recv(members[0].group, 1, 5, span_of(to, 0, SIZE), NULL);
    ferry_trace_record sent =
        ended(1, FERRY_OP_SEND, ferry_send(members[1].group, 0, 5, span_of(from, 0, SIZE), NULL));
    ferry_trace_record received = ended(0, FERRY_OP_RECV, receive);
    expect_flow(1, &sent, &received, SIZE);
}

/* Several go in one message: each has its own. */
Test(trace_flows, join_a_notice_and_who_took_it)
{
    enum { COUNT = 20 };
    ferry_future *told[COUNT], *taken[COUNT];
    begin(2);
    for (size_t i = 0; i < COUNT; i++)
        told[i] = ferry_notice_send(members[1].group, 0, "twenty words and no more", i, NULL);
    for (size_t i = 0; i < COUNT; i++)
        taken[i] = ferry_notice_next(members[0].group, 0);
    for (size_t i = 0; i < COUNT; i++) {
        ferry_trace_record received = ended(0, FERRY_OP_NOTICE_NEXT, taken[i]);
        ferry_trace_record sent = ended(1, FERRY_OP_NOTICE, told[i]);
        expect_flow(1, &sent, &received, i);
    }
}

Test(trace_flows, join_a_notice_to_the_member_itself)
{
    begin(1);
    ferry_future *told = ferry_notice_send(members[0].group, 0, "x", 1, NULL);
    ferry_trace_record received =
        ended(0, FERRY_OP_NOTICE_NEXT, ferry_notice_next(members[0].group, 0));
    ferry_trace_record sent = ended(0, FERRY_OP_NOTICE, told);
    expect_flow(0, &sent, &received, 1);
}

/* ---- windows ---- */

typedef struct windows_scene {
    ferry_buffer *memory, *local;
    ferry_window *opened, *found;
} windows_scene;

static void windows_open(windows_scene *s)
{
    begin(2);
    s->memory = buffer_of(0, 0, SIZE, 3);
    s->local = buffer_of(1, 0, SIZE, 4);
    AWAIT(ferry_window_open(members[0].group, ferry_buffer_span(s->memory), "w",
                            FERRY_WINDOW_GET_PUT, &s->opened),
          OK);
    AWAIT(ferry_window_find(members[1].group, 0, "w", 0, &s->found), OK);
}

static void windows_close(windows_scene *s)
{
    AWAIT(ferry_window_close(s->found), OK);
    AWAIT(ferry_window_close(s->opened), OK);
    ferry_window_release(s->found);
    ferry_window_release(s->opened);
}

/* The owner's engine takes part: its half is a receive. */
Test(trace_flows, join_a_put_and_what_the_owner_did)
{
    windows_scene s;
    windows_open(&s);
    ferry_trace_record sent =
        ended(1, FERRY_OP_PUT, ferry_put(s.found, 0, span_of(s.local, 0, SIZE), NULL));
    ferry_trace_record received = resolved(0, FERRY_OP_RECV, 0);
    expect_flow(1, &sent, &received, SIZE);
    windows_close(&s);
}

/* Or a send, if nobody may read its memory. */
Test(trace_flows, join_a_get_and_what_the_owner_did)
{
    windows_scene s;
    if (!forbid_reading())
        cr_skip_test("no seccomp");
    windows_open(&s);
    ferry_trace_record received =
        ended(1, FERRY_OP_GET, ferry_get(s.found, 0, span_of(s.local, 0, SIZE), NULL));
    ferry_trace_record sent = resolved(0, FERRY_OP_SEND, 0);
    expect_flow(0, &sent, &received, SIZE);
    windows_close(&s);
}

/* ---- plans ---- */

Test(trace_flows, join_the_parts_of_a_plan)
{
    windows_scene s;
    windows_open(&s);
    const ferry_op ops[] = {
        {.kind = FERRY_OP_PUT, .window = s.found, .src = span_of(s.local, 0, SIZE)},
        {.kind = FERRY_OP_NOTICE,
         .group = members[1].group,
         .peer = 0,
         .data = "there",
         .data_bytes = 5}};
    ferry_plan *plan = NULL;
    ASSERT_STATUS(ferry_plan_create(members[1].te.engine, ops, sizeof ops[0], 2, &plan, NULL),
                  FERRY_OK);
    ferry_future *next = ferry_notice_next(members[0].group, 0);
    AWAIT(ferry_plan_post(plan, NULL, 0, NULL), OK);
    ferry_trace_record taken = ended(0, FERRY_OP_NOTICE_NEXT, next);
    ferry_trace_record told = resolved(1, FERRY_OP_NOTICE, 0);
    expect_flow(1, &told, &taken, 5);
    ferry_trace_record sent = resolved(1, FERRY_OP_PUT, 0);
    ferry_trace_record received = resolved(0, FERRY_OP_RECV, 0);
    expect_flow(1, &sent, &received, SIZE);
    ferry_plan_release(plan);
    windows_close(&s);
}
