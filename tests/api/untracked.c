/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FERRY_OP_UNTRACKED: spans that take no part in the order of their buffers. All else that holds
 * for operations holds for these.
 */
#include "tests/support/held_call.h"
#include "tests/support/member_test.h"
#include "tests/support/play.h"

#include <stdio.h>

static void end_all(void)
{
    scene_end();
    end_members();
}

TestSuite(untracked, .fini = end_all);

#define BUFFERS "buffer b 100 of 1; buffer other 100 of 2 on 1;"

/* ---- order ---- */

/* The second of two functions that use the buffer so runs beside the first. */
static void assert_no_order(const char *first, const char *second)
{
    play(BUFFERS "one = call by hand %s; two = call by hand %s; posted 2; run 2;"
                 "expect one two OK",
         first, second);
    scene_end();
}

Test(untracked, waits_for_nobody)
{
    assert_no_order("writes b", "writes b untracked");
    assert_no_order("writes b", "reads b untracked");
    assert_no_order("reads b", "writes b untracked");
    assert_no_order("changes b", "changes b[10:20] changes b[15:30] untracked");
}

Test(untracked, nobody_waits_for_it)
{
    assert_no_order("writes b untracked", "writes b");
    assert_no_order("writes b untracked", "reads b");
    assert_no_order("reads b untracked", "writes b");
    assert_no_order("changes b untracked", "changes b untracked");
}

/* Others keep the order that they have without it. */
Test(untracked, stands_beside_the_order_of_others)
{
    play(BUFFERS "one = call by hand writes b; beside = call by hand changes b untracked;"
                 "two = call by hand reads b; posted 2; run 2; expect one beside OK; posted 1;"
                 "run; expect two OK");
}

Test(untracked, comes_after_what_it_names)
{
    play(BUFFERS "promise p; c = copy other <- b after p untracked; expect c PENDING;"
                 "bytes other 2; keep p; expect c OK; bytes other 1;"
                 "promise q; d = copy other <- b after q untracked; resolve q FAILED;"
                 "expect d DEPENDENCY; cause d FAILED of q");
}

/* A small copy is made at once, though somebody else uses its bytes. */
Test(untracked, a_small_copy_is_made_at_once)
{
    play(BUFFERS "held = call by hand changes b[0:10] writes other; copy other <- b untracked;"
                 "now it OK; bytes other 1; run; expect held OK");
}

Test(untracked, rows_and_batches_take_no_part_either)
{
    play(BUFFERS "held = call by hand writes b writes other;"
                 "rows 3 other[0:4] pitch 10 <- b[0:4] pitch 20 untracked; expect it OK;"
                 "bytes other[0:4] other[10:14] other[20:24] 1; bytes other[4:10] 2;"
                 "some = batch each copy other[50:60] <- b[50:60] untracked"
                 " , copy other[60:70] <- b[0:10] ,;"
                 "expect some0 OK; expect some1 PENDING; bytes other[50:60] 1;"
                 "all_ = batch copy other[90:100] <- b[0:10] , nop changes b , with untracked;"
                 "expect all_ OK; bytes other[90:100] 1; expect held PENDING; run;"
                 "expect held some OK");
}

/* ---- poison ---- */

Test(untracked, leaves_no_poison)
{
    play(BUFFERS "call failing writes b untracked; expect it FAILED; healthy b;"
                 "promise p; c = copy other <- b after p untracked; cancel c;"
                 "expect c CANCELLED; healthy other; keep p; bytes other 2");
}

Test(untracked, finds_no_poison)
{
    play(BUFFERS "call failing writes b; expect it FAILED; poisoned b;"
                 "copy other <- b untracked; expect it OK; bytes other 1; healthy other;"
                 "nop writes b untracked; expect it OK; poisoned b");
}

Test(untracked, refused_for_lack_of_room_it_leaves_none)
{
    ferry_engine_options *options = scene_options(FERRY_LOOP_EMBEDDED);
    options->max_nodes = 2;
    play(BUFFERS "promise p; promise q; copy other <- b after p untracked; now it AGAIN;"
                 "batch copy other <- b after p , with untracked; now it AGAIN;"
                 "keep p; keep q; release p q; settle; writable; now it OK; settle;"
                 "nop reads other; expect it OK");
}

/* ---- what holds all the same ---- */

static ferry_op_options untracked(void)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.flags = FERRY_OP_UNTRACKED;
    return options;
}

Test(untracked, its_buffers_stay_until_it_is_quiet)
{
    play(BUFFERS "promise p; c = copy other <- b after p untracked;"
                 "n = call by hand changes b untracked;"
                 "release b other; settle; expect c n PENDING; keep p; expect c OK; run;"
                 "expect n OK");
}

/* It goes on after its cancel, and its buffer's memory stays until it has returned. */
Test(untracked, a_running_function_is_not_quiet)
{
    thread_executor thread;
    cr_assert(thread_executor_start(&thread));
    scene_begin(FERRY_LOOP_THREAD);
    play(BUFFERS);
    held_call call;
    held_call_init(&call, the_span("b"), 9);
    ferry_access writes = {the_span("b"), FERRY_WRITE};
    ferry_op_options options = untracked();
    options.accesses = &writes;
    options.access_count = 1;
    cr_assert(scene_own_as(
        SCENE_FUTURE, ferry_call(engine(), &thread.executor, held_call_run, &call, &options), "c"));
    held_call_await(&call);
    play("copy other <- b untracked; expect it OK; q = quiet c; cancel c; expect c CANCELLED");
    ASSERT_STATUS(ferry_future_wait(the_future("q"), 2000000), FERRY_PENDING);
    play("release b; settle");
    held_call_let_go(&call);
    WAIT(the_future("q"), OK);
    play("expect q OK");
    ASSERT_STATUS(ferry_engine_shutdown(engine(), -1), FERRY_OK); /* its task has gone, too */
    thread_executor_stop(&thread);
}

Test(untracked, bounds_are_checked)
{
    play(BUFFERS);
    ferry_op_options options = untracked();
    ferry_span past = the_span("b"), to = the_span("other");
    past.offset_bytes = 1;
    EXPECT_NOW(own(ferry_copy(engine(), to, past, &options)), E_INVALID);
    options.flags |= 4;
    past.offset_bytes = 0;
    EXPECT_NOW(own(ferry_copy(engine(), to, past, &options)), E_INVALID);
    options.flags = FERRY_OP_UNTRACKED | FERRY_OP_LABEL_COPIED;
    options.label = "both";
    EXPECT_NOW(own(ferry_copy(engine(), to, past, &options)), OK);
}

static void write_into(void *arg, const char *text, size_t size_bytes)
{
    (void)strncat(arg, text, size_bytes);
}

static const char *dump(ferry_dump_format format)
{
    static char text[65536];
    text[0] = '\0';
    ASSERT_STATUS(ferry_engine_dump(engine(), format, write_into, text), FERRY_OK);
    return text;
}

Test(untracked, dumps_say_so)
{
    play(BUFFERS "promise p; nop after p writes b");
    cr_assert_null(strstr(dump(FERRY_DUMP_JSON), "untracked"));
    cr_assert_null(strstr(dump(FERRY_DUMP_DOT), "untracked"));
    play("c = copy other <- b after p untracked");
    cr_assert_not_null(strstr(dump(FERRY_DUMP_JSON), "\"flags\":[\"untracked\"]"));
    cr_assert_not_null(strstr(dump(FERRY_DUMP_DOT), ", untracked"));
    play("keep p; expect c OK");
}

/* ---- messages ---- */

enum { SIZE = 100000, BLOCK = 10000, BLOCKS = SIZE / BLOCK };

/* Somebody uses all of the buffer until the promise is kept. */
static ferry_future *use_all(size_t member, ferry_buffer *buffer, ferry_promise **promise_p)
{
    *promise_p = test_promise(&members[member].te);
    ferry_future *after = ferry_promise_future(*promise_p);
    ferry_access all = {ferry_buffer_span(buffer), FERRY_READ_WRITE};
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = &after;
    options.after_count = 1;
    options.accesses = &all;
    options.access_count = 1;
    ferry_future *user = ferry_nop(members[member].te.engine, &options);
    ferry_future_release(after);
    return user;
}

static void end_use(ferry_future *user, ferry_promise *promise)
{
    ASSERT_STATUS(ferry_future_poll(user), FERRY_PENDING);
    ASSERT_STATUS(ferry_promise_resolve(promise, FERRY_OK, NULL), FERRY_OK);
    ferry_promise_release(promise);
    AWAIT(user, OK);
}

static ferry_op message_of(size_t member, ferry_buffer *buffer, size_t index)
{
    ferry_span span = {buffer, index * BLOCK, BLOCK};
    return (ferry_op){.kind = member == 0 ? FERRY_OP_SEND : FERRY_OP_RECV,
                      .group = members[member].group,
                      .peer = (ferry_rank)(1 - member),
                      .tag = index,
                      .src = span,
                      .dst = span};
}

/* Blocks of one buffer, which the program hands out, come and go while all of it is in use. */
static void move_blocks(bool in_batches)
{
    ferry_op_options options = untracked();
    ferry_buffer *buffers[2] = {buffer_of(0, 0, SIZE, 7), buffer_of(1, 0, SIZE, 0)};
    ferry_promise *held[2];
    ferry_future *users[2], *ends[2 * BLOCKS];
    size_t count = 0;
    for (size_t i = 0; i < 2; i++) {
        ferry_op ops[BLOCKS];
        users[i] = use_all(i, buffers[i], &held[i]);
        for (size_t j = 0; j < BLOCKS; j++) {
            ops[j] = message_of(i, buffers[i], j);
            if (in_batches)
                continue;
            ends[count++] = i == 0 ? ferry_send(members[0].group, 1, j, ops[j].src, &options)
                                   : ferry_recv(members[1].group, 0, j, ops[j].dst, &options);
        }
        if (in_batches)
            ends[count++] =
                ferry_batch(members[i].te.engine, ops, sizeof ops[0], BLOCKS, NULL, &options);
    }
    while (count > 0)
        AWAIT(ends[--count], OK);
    const unsigned char *bytes = ferry_buffer_data(buffers[1]);
    for (size_t i = 0; i < SIZE; i++)
        cr_assert_eq(bytes[i], 7, "byte %zu", i);
    for (size_t i = 0; i < 2; i++)
        end_use(users[i], held[i]);
}

Test(untracked, messages_take_no_part_either)
{
    begin_members(2, FERRY_LOOP_THREAD);
    move_blocks(false);
}

Test(untracked, nor_do_those_of_a_batch)
{
    begin_members(2, FERRY_LOOP_THREAD);
    move_blocks(true);
}
