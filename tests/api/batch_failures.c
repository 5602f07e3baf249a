/* SPDX-License-Identifier: Apache-2.0 */
/* Batches of which one fails, is refused or is cancelled: the others go on. batch_quiet.c: what is
 * cancelled as a whole. */
#include "tests/support/batch_test.h"

TestSuite(batch_failures, .timeout = HANG_S);

/* ---- failures ---- */

Test(batch_failures, a_failure_is_the_batchs_and_that_of_what_depends_on_it)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_buffer *left = test_buffer(&te, 0, SLICE, 1), *right = test_buffer(&te, 1, SLICE, 2);
    ferry_access access = {ferry_buffer_span(left), FERRY_WRITE};
    ferry_op_options writes = FERRY_OP_OPTIONS_INIT;
    writes.accesses = &access;
    writes.access_count = 1;
    _Atomic int calls = 0;
    ferry_op ops[4] = {call_op(count_call, &calls), call_op(fail_call, NULL),
                       copy_op(ferry_buffer_span(right), ferry_buffer_span(left)),
                       call_op(count_call, &calls)};
    ops[1].options = &writes;
    for (int with_each = 0; with_each < 2; with_each++) {
        ferry_future *each[4];
        ferry_future *all = submit(&te, ops, 4, with_each ? each : NULL, NULL);
        settle(&te);
        ASSERT_STATUS(ferry_future_poll(all), FERRY_E_DEPENDENCY);
        const ferry_error *error = ferry_future_error(all);
        ASSERT_STATUS(error->status, FERRY_E_DEPENDENCY);
        ASSERT_STATUS(error->cause->status, FERRY_E_FAILED);
        cr_assert(is_filled(right, 0, SLICE, 2));
        if (with_each) {
            cr_assert_eq(error->cause->op, ferry_future_id(each[1]));
            ASSERT_STATUS(ferry_future_poll(each[0]), FERRY_OK);
            ASSERT_STATUS(ferry_future_poll(each[1]), FERRY_E_FAILED);
            ASSERT_STATUS(ferry_future_poll(each[2]), FERRY_E_DEPENDENCY);
            ASSERT_STATUS(ferry_future_poll(each[3]), FERRY_OK);
            release_all(each, 4);
        }
        ferry_future_release(all);
    }
    cr_assert_eq(calls, 4);
    ferry_buffer_release(left);
    ferry_buffer_release(right);
    test_engine_close(&te);
}

Test(batch_failures, it_fails_as_soon_as_one_has)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_promise *first = test_promise(&te), *second = test_promise(&te);
    ferry_future *after[2] = {ferry_promise_future(first), ferry_promise_future(second)};
    ferry_op_options options[2] = {after_one(&after[0]), after_one(&after[1])};
    for (int with_each = 0; with_each < 2; with_each++) {
        ferry_op ops[2] = {nop_op(), nop_op()};
        ops[0].options = &options[0];
        ops[1].options = &options[1];
        ferry_future *each[2];
        ferry_future *all = submit(&te, ops, 2, with_each ? each : NULL, NULL);
        settle(&te);
        ASSERT_STATUS(ferry_future_poll(all), with_each ? FERRY_E_DEPENDENCY : FERRY_PENDING);
        if (with_each == 0)
            ASSERT_STATUS(ferry_promise_resolve(second, FERRY_E_BUSY, NULL), FERRY_OK);
        settle(&te);
        ASSERT_STATUS(ferry_future_error(all)->cause->status, FERRY_E_BUSY);
        cr_assert_eq(ferry_future_error(all)->cause->op, ferry_future_id(after[1]));
        if (with_each) {
            ASSERT_STATUS(ferry_future_poll(each[0]), FERRY_PENDING);
            ASSERT_STATUS(ferry_future_poll(each[1]), FERRY_E_DEPENDENCY);
            release_all(each, 2);
        }
        ASSERT_STATUS(status_of(all), FERRY_E_DEPENDENCY);
    }
    ferry_future *drained = ferry_engine_drain(te.engine);
    settle(&te);
    ASSERT_STATUS(ferry_future_poll(drained), FERRY_PENDING); /* the others are still there */
    keep_promise(first, FERRY_OK);
    ferry_promise_release(second);
    settle(&te);
    ASSERT_STATUS(status_of(drained), FERRY_OK);
    release_all(after, 2);
    test_engine_close(&te);
}

Test(batch_failures, what_is_wrong_fails_alone)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_buffer *src = test_buffer(&te, 0, SLICE, 1), *dst = test_buffer(&te, 1, SLICE, 0);
    ferry_op_options no_future = FERRY_OP_OPTIONS_INIT, wrong_size = FERRY_OP_OPTIONS_INIT;
    no_future.after_count = 1;
    wrong_size.struct_size = 3;
    _Atomic int calls = 0;
    ferry_op ops[] = {
        call_op(count_call, &calls),
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
        call_op(count_call, &calls),
    };
    enum { COUNT = sizeof ops / sizeof ops[0] };
    ferry_future *each[COUNT];
    ferry_future *all = submit(&te, ops, COUNT, each, NULL);
    settle(&te);
    for (size_t i = 0; i < COUNT; i++) {
        bool is_right = i == 0 || i >= COUNT - 2;
        ferry_status status = ferry_future_poll(each[i]);
        cr_assert_eq(status, is_right ? FERRY_OK : FERRY_E_INVALID, "op %zu is %s", i,
                     ferry_status_name(status));
    }
    cr_assert_eq(calls, 2);
    cr_assert(is_filled(dst, 0, SLICE, 1));
    ASSERT_STATUS(ferry_future_poll(all), FERRY_E_DEPENDENCY);
    ASSERT_STATUS(ferry_future_error(all)->cause->status, FERRY_E_INVALID);
    ferry_future_release(all);
    release_all(each, COUNT);
    ASSERT_STATUS(end_of(submit(&te, ops, COUNT, NULL, NULL)), FERRY_E_DEPENDENCY);
    drain(&te);
    cr_assert_eq(calls, 4);
    ferry_buffer_release(src);
    ferry_buffer_release(dst);
    test_engine_close(&te);
}

static void is_refused_whole(ferry_engine *engine, const ferry_op *ops, size_t op_size_bytes,
                             size_t count, const ferry_op_options *options)
{
    ferry_future *each[3] = {NULL};
    ASSERT_STATUS(status_of(ferry_batch(engine, ops, op_size_bytes, count, NULL, options)),
                  FERRY_E_INVALID);
    if (count > 3)
        return;
    ASSERT_STATUS(status_of(ferry_batch(engine, ops, op_size_bytes, count, each, options)),
                  FERRY_E_INVALID);
    for (size_t i = 0; i < count; i++)
        ASSERT_STATUS(status_of(each[i]), FERRY_E_INVALID);
}

Test(batch_failures, what_is_wrong_with_the_batch_refuses_all_of_it)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_buffer *buffer = test_buffer(&te, 0, SLICE, 1);
    _Atomic int calls = 0;
    ferry_op ops[3] = {call_op(count_call, &calls), call_op(count_call, &calls), nop_op()};
    ferry_access access = {ferry_buffer_span(buffer), FERRY_READ};
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    is_refused_whole(NULL, ops, sizeof ops[0], 3, NULL);
    is_refused_whole(te.engine, NULL, sizeof ops[0], 3, NULL);
    is_refused_whole(te.engine, ops, 0, 3, NULL);
    is_refused_whole(te.engine, ops, 4097, 3, NULL);
    is_refused_whole(te.engine, ops, sizeof ops[0], ((size_t)1 << 20) + 1, NULL);
    is_refused_whole(te.engine, ops, sizeof ops[0], SIZE_MAX, NULL);
    options.accesses = &access;
    options.access_count = 1;
    is_refused_whole(te.engine, ops, sizeof ops[0], 3, &options);
    options = (ferry_op_options)FERRY_OP_OPTIONS_INIT;
    options.after_count = 1;
    is_refused_whole(te.engine, ops, sizeof ops[0], 3, &options);
    settle(&te);
    cr_assert_eq(calls, 0);
    ferry_buffer_release(buffer);
    test_engine_close(&te);
}

/* ---- no room ---- */

/* A nop that reads it, after all else is over. */
static ferry_status read_of(const test_engine *te, ferry_span span)
{
    ferry_access access = {span, FERRY_READ};
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.accesses = &access;
    options.access_count = 1;
    ferry_future *nop = ferry_nop(te->engine, &options);
    settle(te);
    return status_of(nop);
}

/* Room for some of a batch's copies: those behind are refused, and what they would have written is
 * poisoned; as if submitted one by one. */
static void runs_out_of_nodes(bool with_each)
{
    test_engine te;
    ferry_engine_options engine_options = test_engine_options(&te, FERRY_LOOP_EMBEDDED);
    engine_options.max_nodes = 12;
    test_engine_create(&te, &engine_options);
    enum { COUNT = 30 };
    ferry_buffer *src = test_buffer(&te, 0, COUNT, 1), *dst = test_buffer(&te, 1, COUNT, 0);
    ferry_promise *promise = test_promise(&te);
    ferry_future *after = ferry_promise_future(promise);
    ferry_op_options options = after_one(&after);
    ferry_op ops[COUNT];
    ferry_future *each[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        ops[i] = copy_op(span_of(dst, i, 1), span_of(src, i, 1));
    ferry_future *all = submit(&te, ops, COUNT, with_each ? each : NULL, &options);
    settle(&te);
    ASSERT_STATUS(ferry_future_poll(all), FERRY_E_DEPENDENCY);
    ASSERT_STATUS(ferry_future_error(all)->cause->status, FERRY_E_AGAIN);
    ferry_future_release(all);
    keep_promise(promise, FERRY_OK);
    ferry_future_release(after);
    settle(&te);
    size_t done = 0;
    while (done < COUNT && is_filled(dst, done, 1, 1))
        done++;
    cr_assert_geq(done, 5, "only %zu went through", done);
    cr_assert_lt(done, 12);
    if (with_each) {
        for (size_t i = 0; i < COUNT; i++)
            ASSERT_STATUS(ferry_future_poll(each[i]), i < done ? FERRY_OK : FERRY_E_AGAIN);
        release_all(each, COUNT);
    }
    for (size_t i = 0; i < COUNT; i++)
        ASSERT_STATUS(read_of(&te, span_of(dst, i, 1)), i < done ? FERRY_OK : FERRY_E_DEPENDENCY);
    ferry_buffer_release(src);
    ferry_buffer_release(dst);
    test_engine_close(&te);
}

Test(batch_failures, want_of_room_refuses_one_by_one)
{
    runs_out_of_nodes(true);
    runs_out_of_nodes(false);
}

/* Of a strided copy that is refused, its rows alone are poisoned. */
Test(batch_failures, want_of_room_refuses_rows)
{
    test_engine te;
    ferry_engine_options engine_options = test_engine_options(&te, FERRY_LOOP_EMBEDDED);
    engine_options.max_nodes = 2; /* the batch and a nop */
    test_engine_create(&te, &engine_options);
    ferry_buffer *src = test_buffer(&te, 0, SLICE, 1), *dst = test_buffer(&te, 1, SLICE, 0);
    ferry_future *kept = ferry_nop(te.engine, NULL);
    ferry_op op = columns_op(dst, src, 8, 8, 32, 2);
    ferry_future *each[1];
    ASSERT_STATUS(status_of(submit(&te, &op, 1, each, NULL)), FERRY_E_DEPENDENCY);
    ASSERT_STATUS(status_of(each[0]), FERRY_E_AGAIN);
    ferry_future_release(kept);
    for (size_t at = 0; at < SLICE; at += 8)
        ASSERT_STATUS(read_of(&te, span_of(dst, at, 8)),
                      at == 8 || at == 40 ? FERRY_E_DEPENDENCY : FERRY_OK);
    ferry_buffer_release(src);
    ferry_buffer_release(dst);
    test_engine_close(&te);
}

/* The refused one stands in its place: the write behind it heals, the one before it does not. */
Test(batch_failures, what_is_refused_keeps_its_place)
{
    test_engine te;
    ONLY_ON_HOSTS(HOSTS_COPY_INLINE);
    ferry_engine_options engine_options = test_engine_options(&te, FERRY_LOOP_EMBEDDED);
    engine_options.max_nodes = 2; /* a nop and the batch */
    test_engine_create(&te, &engine_options);
    ferry_buffer *src = test_buffer(&te, 0, SLICE, 1), *dst = test_buffer(&te, 1, SLICE, 0);
    ferry_future *kept = ferry_nop(te.engine, NULL);
    ferry_op_options labelled = FERRY_OP_OPTIONS_INIT;
    ferry_access access = {ferry_buffer_span(dst), FERRY_WRITE};
    labelled.accesses = &access;
    labelled.access_count = 1;
    ferry_op ops[3] = {copy_op(span_of(dst, 0, 32), span_of(src, 0, 32)), nop_op(),
                       copy_op(span_of(dst, 32, 32), span_of(src, 32, 32))};
    ops[1].options = &labelled; /* needs a node, and there is none */
    ferry_future *all = submit(&te, ops, 3, NULL, NULL);
    settle(&te);
    ASSERT_STATUS(status_of(all), FERRY_E_DEPENDENCY);
    cr_assert(is_filled(dst, 0, 32, 1));
    ferry_future_release(kept);
    ASSERT_STATUS(read_of(&te, span_of(dst, 0, 32)), FERRY_E_DEPENDENCY);
    ferry_buffer_release(src);
    ferry_buffer_release(dst);
    test_engine_close(&te);
}

Test(batch_failures, without_a_node_of_its_own_nothing_is_submitted)
{
    test_engine te;
    ferry_engine_options engine_options = test_engine_options(&te, FERRY_LOOP_EMBEDDED);
    engine_options.max_nodes = 1;
    test_engine_create(&te, &engine_options);
    ferry_buffer *src = test_buffer(&te, 0, SLICE, 1), *dst = test_buffer(&te, 1, SLICE, 0);
    ferry_future *kept = ferry_nop(te.engine, NULL);
    ferry_op ops[3] = {copy_op(span_of(dst, 0, 32), span_of(src, 0, 32)), nop_op(), {0}};
    ferry_future *each[3];
    ferry_future *all = submit(&te, ops, 3, each, NULL);
    ASSERT_STATUS(status_of(all), FERRY_E_AGAIN);
    for (size_t i = 0; i < 3; i++)
        ASSERT_STATUS(status_of(each[i]), FERRY_E_AGAIN);
    cr_assert(is_filled(dst, 0, SLICE, 0));
    ferry_future_release(kept);
    ASSERT_STATUS(read_of(&te, span_of(dst, 0, 32)), FERRY_E_DEPENDENCY);
    ASSERT_STATUS(read_of(&te, span_of(dst, 32, 32)), FERRY_OK);
    ferry_buffer_release(src);
    ferry_buffer_release(dst);
    test_engine_close(&te);
}

/* ---- cancel ---- */

Test(batch_failures, a_cancelled_operation_fails_it)
{
    static slices s;
    slices_open_with(&s, FERRY_LOOP_EMBEDDED);
    ferry_promise *promise = test_promise(&s.te);
    ferry_future *after = ferry_promise_future(promise);
    ferry_op_options options = after_one(&after);
    ferry_future *all = submit(&s.te, s.ops, MANY, s.each, &options);
    ASSERT_STATUS(ferry_future_cancel(s.each[500]), FERRY_OK);
    settle(&s.te);
    ASSERT_STATUS(ferry_future_poll(all), FERRY_E_DEPENDENCY);
    cr_assert_eq(ferry_future_error(all)->cause->op, ferry_future_id(s.each[500]));
    keep_promise(promise, FERRY_OK);
    settle(&s.te);
    drain(&s.te);
    for (size_t i = 0; i < MANY; i++)
        ASSERT_STATUS(ferry_future_poll(s.each[i]), i == 500 ? FERRY_E_CANCELLED : FERRY_OK);
    release_all(s.each, MANY);
    ferry_future_release(all);
    ferry_future_release(after);
    slices_close(&s);
}
