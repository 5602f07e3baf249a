/* SPDX-License-Identifier: Apache-2.0 */
/* Batches of which one fails, is refused or is cancelled: the others go on. batch_quiet.c: what is
 * cancelled as a whole. */
#include "tests/support/batch_test.h"

SCENE_SUITE(batch_failures);

/* ---- failures ---- */

Test(batch_failures, a_failure_is_the_batchs_and_that_of_what_depends_on_it)
{
    play("buffer left 64 of 1; buffer right 64 of 2 on 1");
    for (int with_each = 0; with_each < 2; with_each++) {
        play("b = batch %s call , call failing writes left , copy right <- left , call;"
             "expect b DEPENDENCY; cause b FAILED; bytes right 2; calls %d",
             with_each ? "each" : "", 2 * (with_each + 1));
        ASSERT_STATUS(ferry_future_error(the_future("b"))->status, FERRY_E_DEPENDENCY);
        if (with_each)
            play("cause b FAILED of b1; now b0 b3 OK; now b1 FAILED; now b2 DEPENDENCY");
        play("release b");
    }
}

Test(batch_failures, it_fails_as_soon_as_one_has)
{
    play("promise first; promise second; b = batch nop after first , nop after second;"
         "expect b PENDING; resolve second BUSY; expect b DEPENDENCY; cause b BUSY of second;"
         "c = batch each nop after first , nop after second; expect c DEPENDENCY;"
         "cause c BUSY of second; now c0 PENDING; now c1 DEPENDENCY;"
         "d = drain; expect d PENDING;" /* the others are still there */
         "keep first; release second; expect d OK");
}

Test(batch_failures, what_is_wrong_fails_alone)
{
    play("buffer src 64 of 1; buffer dst 64 on 1");
    ferry_buffer *src = the_buffer("src"), *dst = the_buffer("dst");
    ferry_op_options no_future = FERRY_OP_OPTIONS_INIT, wrong_size = FERRY_OP_OPTIONS_INIT;
    no_future.after_count = 1;
    wrong_size.struct_size = 3;
    ferry_op ops[] = {
        call_op(count_call, scene_calls()),
        {0},
        {.kind = FERRY_OP_PROMISE},
        {.kind = FERRY_OP_BATCH},
        call_op(NULL, NULL),
        copy_op(ferry_buffer_span(NULL), ferry_buffer_span(NULL)),
        copy_op(span_of(dst, 0, 1), span_of(src, 0, 2)),
        copy_op(span_of(dst, 0, SLICE + 1), span_of(src, 0, SLICE + 1)),
        copy_op(span_of(src, 0, 2), span_of(src, 1, 2)),
        columns_op(dst, src, 0, 8, 7, 2),
        columns_op(dst, src, 0, 8, 8, 9),
        columns_op(src, src, 0, 8, 8, 2),
        {.kind = FERRY_OP_NOP, .options = &no_future},
        {.kind = FERRY_OP_NOP, .options = &wrong_size},
        copy_op(ferry_buffer_span(dst), ferry_buffer_span(src)),
        call_op(count_call, scene_calls()),
    };
    enum { COUNT = sizeof ops / sizeof ops[0] };
    ferry_future *each[COUNT];
    ferry_future *all = submit(ops, COUNT, each, NULL);
    scene_settle();
    for (size_t i = 0; i < COUNT; i++) {
        bool is_right = i == 0 || i >= COUNT - 2;
        ferry_status status = ferry_future_poll(each[i]);
        cr_assert_eq(status, is_right ? FERRY_OK : FERRY_E_INVALID, "op %zu is %s", i,
                     ferry_status_name(status));
    }
    play("calls 2; bytes dst 1");
    EXPECT_NOW(all, E_DEPENDENCY);
    ASSERT_STATUS(ferry_future_error(all)->cause->status, FERRY_E_INVALID);
    WAIT(submit(ops, COUNT, NULL, NULL), E_DEPENDENCY);
    drain();
    play("calls 4");
}

static void is_refused_whole(ferry_engine *to, const ferry_op *ops, size_t op_size_bytes,
                             size_t count, const ferry_op_options *options)
{
    ferry_future *each[3] = {NULL};
    EXPECT_NOW(own(ferry_batch(to, ops, op_size_bytes, count, NULL, options)), E_INVALID);
    if (count > 3)
        return;
    EXPECT_NOW(own(ferry_batch(to, ops, op_size_bytes, count, each, options)), E_INVALID);
    for (size_t i = 0; i < count; i++)
        EXPECT_NOW(own(each[i]), E_INVALID);
}

Test(batch_failures, what_is_wrong_with_the_batch_refuses_all_of_it)
{
    play("buffer b 64 of 1");
    ferry_op ops[3] = {call_op(count_call, scene_calls()), call_op(count_call, scene_calls()),
                       nop_op()};
    ferry_access access = {the_span("b"), FERRY_READ};
    ferry_op_options options = touching(&access, 1);
    is_refused_whole(NULL, ops, sizeof ops[0], 3, NULL);
    is_refused_whole(engine(), NULL, sizeof ops[0], 3, NULL);
    is_refused_whole(engine(), ops, 0, 3, NULL);
    is_refused_whole(engine(), ops, 4097, 3, NULL);
    is_refused_whole(engine(), ops, sizeof ops[0], ((size_t)1 << 20) + 1, NULL);
    is_refused_whole(engine(), ops, sizeof ops[0], SIZE_MAX, NULL);
    is_refused_whole(engine(), ops, sizeof ops[0], 3, &options);
    options = behind(NULL, 1);
    is_refused_whole(engine(), ops, sizeof ops[0], 3, &options);
    play("calls 0");
}

/* ---- no room ---- */

/* Room for some of a batch's copies: those behind are refused, and what they would have written is
 * poisoned; as if submitted one by one. */
static void runs_out_of_nodes(bool with_each)
{
    enum { COUNT = 30 };
    scene_options(FERRY_LOOP_EMBEDDED)->max_nodes = 12;
    play("buffer src 30 of 1; buffer dst 30 on 1; promise p");
    ferry_buffer *src = the_buffer("src"), *dst = the_buffer("dst");
    ferry_op_options options = behind_promise();
    ferry_op ops[COUNT];
    ferry_future *each[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        ops[i] = copy_op(span_of(dst, i, 1), span_of(src, i, 1));
    ferry_future *all =
        ferry_batch(engine(), ops, sizeof ops[0], COUNT, with_each ? each : NULL, &options);
    scene_settle();
    ASSERT_STATUS(ferry_future_error(all)->cause->status, FERRY_E_AGAIN);
    ASSERT_STATUS(status_of(all), FERRY_E_DEPENDENCY);
    play("keep p; settle; release p");
    size_t done = 0;
    while (done < COUNT && is_filled(dst, done, 1, 1))
        done++;
    cr_assert_geq(done, 5, "only %zu went through", done);
    cr_assert_lt(done, 12);
    for (size_t i = 0; with_each && i < COUNT; i++)
        ASSERT_STATUS(status_of(each[i]), i < done ? FERRY_OK : FERRY_E_AGAIN);
    for (size_t i = 0; i < COUNT; i++)
        play("%s dst[%zu:%zu]", i < done ? "healthy" : "poisoned", i, i + 1);
    scene_end();
}

Test(batch_failures, want_of_room_refuses_one_by_one)
{
    runs_out_of_nodes(true);
    runs_out_of_nodes(false);
}

/* Of a strided copy that is refused, its rows alone are poisoned. */
Test(batch_failures, want_of_room_refuses_rows)
{
    scene_options(FERRY_LOOP_EMBEDDED)->max_nodes = 2; /* the batch and a nop */
    play("buffer src 64 of 1; buffer dst 64 on 1; kept = nop;"
         "b = batch each rows 2 dst[8:16] pitch 32 <- src[8:16] pitch 32;"
         "now b DEPENDENCY; now b0 AGAIN; release b b0 kept");
    for (int at = 0; at < SLICE; at += 8)
        play("%s dst[%d:%d]", at == 8 || at == 40 ? "poisoned" : "healthy", at, at + 8);
}

/* The refused one stands in its place: the write behind it heals, the one before it does not. */
Test(batch_failures, what_is_refused_keeps_its_place)
{
    ONLY_ON_HOSTS(HOSTS_COPY_INLINE);
    scene_options(FERRY_LOOP_EMBEDDED)->max_nodes = 2; /* a nop and the batch */
    play("buffer src 64 of 1; buffer dst 64 on 1; kept = nop;"
         "b = batch copy dst[0:32] <- src[0:32] , nop writes dst ," /* for which there is no node */
         " copy dst[32:64] <- src[32:64];"
         "expect b DEPENDENCY; bytes dst[0:32] 1; release b kept; poisoned dst[0:32]");
}

Test(batch_failures, without_a_node_of_its_own_nothing_is_submitted)
{
    scene_options(FERRY_LOOP_EMBEDDED)->max_nodes = 1;
    play("buffer src 64 of 1; buffer dst 64 on 1; kept = nop");
    ferry_op ops[3] = {copy_op(the_span("dst[0:32]"), the_span("src[0:32]")), nop_op(), {0}};
    ferry_future *each[3];
    EXPECT_NOW(submit(ops, 3, each, NULL), E_AGAIN);
    for (size_t i = 0; i < 3; i++)
        EXPECT_NOW(each[i], E_AGAIN);
    play("bytes dst 0; release kept; poisoned dst[0:32]; healthy dst[32:64]");
}

/* ---- cancel ---- */

Test(batch_failures, a_cancelled_operation_fails_it)
{
    static slices s;
    slices_open(&s);
    play("promise p");
    ferry_op_options options = behind_promise();
    ferry_future *all = submit(s.ops, MANY, s.each, &options);
    ASSERT_STATUS(ferry_future_cancel(s.each[500]), FERRY_OK);
    EXPECT(all, E_DEPENDENCY);
    cr_assert_eq(ferry_future_error(all)->cause->op, ferry_future_id(s.each[500]));
    play("keep p; settle");
    drain();
    for (size_t i = 0; i < MANY; i++)
        ASSERT_STATUS(ferry_future_poll(s.each[i]), i == 500 ? FERRY_E_CANCELLED : FERRY_OK);
}
