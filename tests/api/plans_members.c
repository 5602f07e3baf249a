/* SPDX-License-Identifier: Apache-2.0 */
/* Plans of messages, gets, puts and notices: several engines of one process. */
#include "tests/support/member_test.h"
#include "tests/support/place.h"

#include <stdlib.h>

static void need_channels(void)
{
    PLACE_NEEDS(place_lacks_ucx);
}

MEMBER_SUITE(plans_members, .init = need_channels);

enum { BLOCK = 4096, BLOCKS = 128, WANTED = 48 };

static ferry_plan *plan_of(size_t member, const ferry_op *ops, size_t count)
{
    ferry_plan *plan = NULL;
    ferry_error *error = NULL;
    ferry_status status =
        ferry_plan_create(members[member].te.engine, ops, sizeof *ops, count, &plan, &error);
    cr_assert(status == FERRY_OK, "%s: %s", ferry_status_name(status),
              error != NULL ? error->message : "");
    return plan;
}

static ferry_future *post(ferry_plan *plan)
{
    return ferry_plan_post(plan, NULL, 0, NULL);
}

static ferry_op message(ferry_op_kind kind, size_t member, ferry_rank peer, ferry_tag tag,
                        ferry_span span)
{
    ferry_op op = {.kind = kind, .group = members[member].group, .peer = peer, .tag = tag};
    if (kind == FERRY_OP_SEND)
        op.src = span;
    else
        op.dst = span;
    return op;
}

/* ---- messages ---- */

/*
 * Both first have many receives, then as many sends, of large and small bytes: no bound on what is
 * under way may keep one waiting for the other.
 */
static void exchange(ferry_loop_mode loop, size_t size)
{
    enum { COUNT = 600 };
    begin_members(2, loop);
    ferry_buffer *from[2], *to[2];
    ferry_plan *plans[2];
    ferry_op *ops = calloc(2 * COUNT, sizeof *ops);
    for (size_t i = 0; i < 2; i++) {
        from[i] = buffer_of(i, 0, COUNT * size, 0);
        to[i] = buffer_of(i, 0, COUNT * size, 0);
        for (size_t j = 0; j < COUNT; j++) {
            ops[j] = message(FERRY_OP_RECV, i, (ferry_rank)(1 - i), j % 7,
                             span_of(to[i], j * size, size));
            ops[COUNT + j] = message(FERRY_OP_SEND, i, (ferry_rank)(1 - i), j % 7,
                                     span_of(from[i], j * size, size));
        }
        plans[i] = plan_of(i, ops, 2 * COUNT);
    }
    free(ops);
    for (int round = 0; round < 5; round++) {
        for (size_t i = 0; i < 2; i++) {
            unsigned char *bytes = ferry_buffer_data(from[i]);
            for (size_t j = 0; j < COUNT; j++)
                memset(bytes + j * size, (int)(j + i + (size_t)round), size);
        }
        ferry_future *posts[] = {post(plans[0]), post(plans[1])};
        AWAIT(posts[0], OK);
        AWAIT(posts[1], OK);
        for (size_t i = 0; i < 2; i++) {
            for (size_t j = 0; j < COUNT; j++)
                cr_assert(is_filled(to[i], j * size, size, (int)(j + 1 - i + (size_t)round)),
                          "message %zu of round %d", j, round);
        }
    }
    ferry_plan_release(plans[0]);
    ferry_plan_release(plans[1]);
}

Test(plans_members, exchange_small_messages)
{
    exchange(FERRY_LOOP_THREAD, 64);
}

Test(plans_members, exchange_larger_messages)
{
    exchange(FERRY_LOOP_THREAD, 10000);
}

Test(plans_members, exchange_messages_of_embedded_engines)
{
    exchange(FERRY_LOOP_EMBEDDED, 1000);
}

/* A ring: what comes in is changed, and goes on. */
static ferry_status add_one(void *arg)
{
    unsigned char *bytes = arg;
    for (size_t i = 0; i < BLOCK; i++)
        bytes[i]++;
    return FERRY_OK;
}

Test(plans_members, go_around_a_ring)
{
    begin_members(3, FERRY_LOOP_THREAD);
    ferry_plan *plans[3];
    ferry_buffer *buffers[3];
    for (size_t i = 0; i < 3; i++) {
        buffers[i] = buffer_of(i, 0, BLOCK, 0);
        ferry_span span = ferry_buffer_span(buffers[i]);
        ferry_access access = {span, FERRY_READ_WRITE};
        ferry_op_options options = FERRY_OP_OPTIONS_INIT;
        options.accesses = &access;
        options.access_count = 1;
        ferry_op receive = message(FERRY_OP_RECV, i, (ferry_rank)((i + 2) % 3), 1, span);
        ferry_op send = message(FERRY_OP_SEND, i, (ferry_rank)((i + 1) % 3), 1, span);
        ferry_op call = {.kind = FERRY_OP_CALL,
                         .fn = add_one,
                         .arg = ferry_buffer_data(buffers[i]),
                         .options = &options};
        ferry_op first[] = {send, receive, call}, others[] = {receive, call, send};
        plans[i] = plan_of(i, i == 0 ? first : others, 3);
    }
    for (int round = 1; round <= 50; round++) {
        ferry_future *posts[3];
        for (size_t i = 0; i < 3; i++)
            posts[i] = post(plans[i]);
        for (size_t i = 0; i < 3; i++)
            AWAIT(posts[i], OK);
        cr_assert(is_filled(buffers[0], 0, BLOCK, 3 * round), "round %d", round);
    }
    for (size_t i = 0; i < 3; i++)
        ferry_plan_release(plans[i]);
}

/* ---- windows ---- */

typedef struct windows_scene {
    ferry_buffer *memory, *local;
    ferry_window *opened, *found;
} windows_scene;

static void windows_open(windows_scene *s)
{
    begin_members(2, FERRY_LOOP_THREAD);
    s->memory = buffer_of(0, 0, BLOCKS * BLOCK, 0);
    s->local = buffer_of(1, 0, WANTED * BLOCK, 0);
    unsigned char *bytes = ferry_buffer_data(s->memory);
    for (size_t i = 0; i < BLOCKS; i++)
        memset(bytes + i * BLOCK, (int)i, BLOCK);
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

static size_t block_at(size_t i)
{
    return i * 37 % BLOCKS;
}

static void fill_reaches(const windows_scene *s, ferry_op_kind kind, ferry_op ops[WANTED])
{
    for (size_t i = 0; i < WANTED; i++) {
        ops[i] = (ferry_op){.kind = kind, .window = s->found, .window_offset = block_at(i) * BLOCK};
        *(kind == FERRY_OP_GET ? &ops[i].dst : &ops[i].src) = span_of(s->local, i * BLOCK, BLOCK);
    }
}

Test(plans_members, get_scattered_blocks)
{
    windows_scene s;
    ferry_op ops[WANTED];
    windows_open(&s);
    fill_reaches(&s, FERRY_OP_GET, ops);
    ferry_plan *plan = plan_of(1, ops, WANTED);
    ferry_plan_info info = FERRY_PLAN_INFO_INIT;
    ASSERT_STATUS(ferry_plan_describe(plan, &info), FERRY_OK);
    cr_assert_eq(info.access_count, 1); /* here the blocks lie behind each other */
    for (int round = 0; round < 10; round++) {
        memset(ferry_buffer_data(s.local), 255, WANTED * BLOCK);
        AWAIT(post(plan), OK);
        for (size_t i = 0; i < WANTED; i++)
            cr_assert(is_filled(s.local, i * BLOCK, BLOCK, (int)block_at(i)), "block %zu", i);
    }
    ferry_plan_release(plan);
    windows_close(&s);
}

/* The notice at a plan's end comes when its puts are there. */
Test(plans_members, put_blocks_and_tell)
{
    windows_scene s;
    ferry_op ops[WANTED + 1];
    windows_open(&s);
    fill_reaches(&s, FERRY_OP_PUT, ops);
    char words[] = "they are there";
    ops[WANTED] = (ferry_op){.kind = FERRY_OP_NOTICE,
                             .group = members[1].group,
                             .peer = 0,
                             .data = words,
                             .data_bytes = sizeof words};
    ferry_plan *plan = plan_of(1, ops, WANTED + 1);
    memset(words, 0, sizeof words); /* the plan has a copy */
    for (int round = 1; round < 20; round++) {
        memset(ferry_buffer_data(s.local), round, WANTED * BLOCK);
        ferry_future *posted = post(plan), *next = ferry_notice_next(members[0].group, 0);
        AWAIT(ferry_future_retain(next), OK);
        ferry_value value = FERRY_VALUE_INIT;
        ASSERT_STATUS(ferry_future_value(next, &value), FERRY_OK);
        cr_assert_eq(value.size_bytes, sizeof words);
        cr_assert_str_eq(value.data, "they are there");
        for (size_t i = 0; i < WANTED; i++)
            cr_assert(is_filled(s.memory, block_at(i) * BLOCK, BLOCK, round), "block %zu", i);
        ferry_future_release(next);
        AWAIT(posted, OK);
    }
    ferry_plan_release(plan);
    windows_close(&s);
}

/* A plan outlives its window, and its posts say what has become of that. */
Test(plans_members, say_that_their_window_is_gone)
{
    windows_scene s;
    ferry_op ops[WANTED];
    windows_open(&s);
    fill_reaches(&s, FERRY_OP_GET, ops);
    ferry_plan *plan = plan_of(1, ops, WANTED);
    windows_close(&s);
    ferry_future *failed = post(plan);
    ASSERT_STATUS(await(ferry_future_retain(failed)), FERRY_E_DEPENDENCY);
    const ferry_error *cause = ferry_future_error(failed)->cause;
    cr_assert_not_null(cause);
    ASSERT_STATUS(cause->status, FERRY_E_NOT_FOUND);
    cr_assert_eq(cause->rank, 0);
    AWAIT(ferry_future_quiet(failed), OK);
    ferry_future_release(failed);
    ferry_plan_release(plan);
}

/* ---- ends ---- */

/*
 * Receives that nobody sends to. Those of all rounds together have room at the other end
 * (unexpected_max), which may be late to forget the withdrawn ones.
 */
Test(plans_members, are_cancelled_with_all_that_has_begun)
{
    enum { COUNT = 300 };
    begin_members(2, FERRY_LOOP_THREAD);
    ferry_buffer *to = buffer_of(1, 0, COUNT * 64, 3);
    ferry_op *ops = calloc(COUNT, sizeof *ops);
    for (size_t i = 0; i < COUNT; i++)
        ops[i] = message(FERRY_OP_RECV, 1, 0, i, span_of(to, i * 64, 64));
    ferry_plan *plan = plan_of(1, ops, COUNT);
    free(ops);
    for (int round = 0; round < 10; round++) {
        ferry_future *future = post(plan);
        if (round % 2 != 0)
            AWAIT(ferry_future_issued(future), OK);
        ferry_future_cancel(future);
        AWAIT(ferry_future_retain(future), E_CANCELLED);
        AWAIT(ferry_future_quiet(future), OK);
        ferry_future_release(future);
        ASSERT_STATUS(ferry_buffer_define(ferry_buffer_span(to), NULL), FERRY_OK);
    }
    cr_assert(is_filled(to, 0, COUNT * 64, 3));
    ferry_plan_release(plan);
}

Test(plans_members, fail_when_a_member_leaves)
{
    begin_members(2, FERRY_LOOP_THREAD);
    ferry_buffer *to = buffer_of(1, 0, 128, 3);
    ferry_op ops[] = {message(FERRY_OP_RECV, 1, 0, 1, span_of(to, 0, 64)),
                      message(FERRY_OP_RECV, 1, 0, 2, span_of(to, 64, 64))};
    ferry_plan *plan = plan_of(1, ops, 2);
    ferry_future *future = post(plan);
    AWAIT(ferry_future_issued(future), OK);
    AWAIT(ferry_group_leave(members[0].group), OK);
    ASSERT_STATUS(await(ferry_future_retain(future)), FERRY_E_DEPENDENCY);
    const ferry_error *cause = ferry_future_error(future)->cause;
    cr_assert_not_null(cause);
    ASSERT_STATUS(cause->status, FERRY_E_DEAD);
    cr_assert_eq(cause->rank, 0);
    ferry_future_release(future);
    AWAIT(ferry_group_leave(members[1].group), OK);
    ASSERT_STATUS(await(post(plan)), FERRY_E_DEPENDENCY); /* later ones, too */
    ferry_plan_release(plan);
}

/* ---- bad input ---- */

static void refuse(const ferry_op *op, ferry_status status)
{
    ferry_plan *plan = NULL;
    ASSERT_STATUS(ferry_plan_create(members[1].te.engine, op, sizeof *op, 1, &plan, NULL), status);
    cr_assert_null(plan);
}

Test(plans_members, refuse_what_their_operations_would)
{
    windows_scene s;
    windows_open(&s);
    ferry_span span = span_of(s.local, 0, 64);
    ferry_op op = message(FERRY_OP_SEND, 1, 2, 1, span);
    refuse(&op, FERRY_E_NOT_FOUND);
    op = message(FERRY_OP_RECV, 1, FERRY_RANK_ANY, 1, span);
    refuse(&op, FERRY_E_INVALID);
    op = message(FERRY_OP_SEND, 0, 1, 1, span); /* a group of the other engine */
    refuse(&op, FERRY_E_INVALID);
    op = (ferry_op){
        .kind = FERRY_OP_GET, .window = s.found, .window_offset = BLOCKS * BLOCK - 32, .dst = span};
    refuse(&op, FERRY_E_INVALID);
    op.window_offset = UINT64_C(1) << 33;
    refuse(&op, FERRY_E_INVALID);
    op.window_offset = 0;
    op.window = s.opened;
    refuse(&op, FERRY_E_INVALID);
    op = (ferry_op){.kind = FERRY_OP_NOTICE, .group = members[1].group, .peer = 7};
    refuse(&op, FERRY_E_NOT_FOUND);
    op.peer = 0;
    op.data_bytes = 4097;
    op.data = &op;
    refuse(&op, FERRY_E_INVALID);
    op = (ferry_op){.kind = FERRY_OP_NOTICE, .group = members[0].group, .peer = 1};
    refuse(&op, FERRY_E_INVALID);
    windows_close(&s);
}

/* ---- memory ---- */

Test(plans_members, allocate_nothing_once_they_are_warm)
{
    enum { QUIET_ROUNDS = 30 };
    windows_scene s;
    ferry_op ops[WANTED + 1];
    windows_open(&s);
    fill_reaches(&s, FERRY_OP_GET, ops);
    ops[WANTED] = (ferry_op){.kind = FERRY_OP_NOTICE, .group = members[1].group, .peer = 0};
    ferry_plan *plan = plan_of(1, ops, WANTED + 1);
    for (int round = 0, quiet = 0; quiet < QUIET_ROUNDS; round++) {
        uint64_t before = failing_allocator_calls(&members[1].te.memory);
        ferry_future *posted = post(plan);
        AWAIT(ferry_notice_next(members[0].group, 0), OK);
        AWAIT(posted, OK);
        quiet = failing_allocator_calls(&members[1].te.memory) == before ? quiet + 1 : 0;
        cr_assert_lt(round, 100 * QUIET_ROUNDS);
    }
    ferry_plan_release(plan);
    windows_close(&s);
}
