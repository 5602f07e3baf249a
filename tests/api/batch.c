/* SPDX-License-Identifier: Apache-2.0 */
/* Batches: as if submitted one by one in the order of the array, with one future for all. */
#include "tests/support/batch_test.h"

#include <stddef.h>
#include <stdlib.h>

TestSuite(batch, .timeout = HANG_S);

/* ---- order ---- */

/* Through four buffers and back, in one batch; each copy is ordered behind the one before. */
static void copy_along(ferry_loop_mode loop, size_t size, bool with_each)
{
    test_engine te;
    test_engine_open(&te, loop);
    ferry_buffer *buffers[4];
    for (size_t i = 0; i < 4; i++)
        buffers[i] = test_buffer(&te, i, size, (int)i + 1);
    ferry_op ops[6];
    static const size_t way[] = {0, 1, 2, 3, 2, 1, 0};
    for (size_t i = 0; i < 6; i++)
        ops[i] =
            copy_op(ferry_buffer_span(buffers[way[i + 1]]), ferry_buffer_span(buffers[way[i]]));
    ops[2].src = span_of(buffers[2], 1, size - 1);
    ops[2].dst = span_of(buffers[3], 1, size - 1); /* the first byte of the last stays a 4 */
    ferry_future *each[6];
    ASSERT_STATUS(end_of(submit(&te, ops, 6, with_each ? each : NULL, NULL)), FERRY_OK);
    for (size_t i = 0; i < 4; i++) {
        cr_assert(is_filled(buffers[i], 0, 1, 4), "buffer %zu", i);
        cr_assert(is_filled(buffers[i], 1, size - 1, 1), "buffer %zu", i);
        ferry_buffer_release(buffers[i]);
    }
    if (with_each) {
        for (size_t i = 0; i < 6; i++)
            ASSERT_STATUS(ferry_future_poll(each[i]), FERRY_OK);
        release_all(each, 6);
    }
    test_engine_close(&te);
}

Test(batch, copies_are_ordered_by_what_they_touch)
{
    static const ferry_loop_mode loops[] = {FERRY_LOOP_EMBEDDED, FERRY_LOOP_THREAD};
    for (size_t i = 0; i < 2; i++) {
        for (int with_each = 0; with_each < 2; with_each++) {
            copy_along(loops[i], SLICE, with_each != 0);
            copy_along(loops[i], BIG, with_each != 0);
        }
    }
}

/* Each adds the digit it stands for; their order is that of the number's digits. */
typedef struct digits {
    uint64_t number;
} digits;

typedef struct digit {
    digits *digits;
    uint64_t value;
} digit;

static ferry_status add_digit(void *arg)
{
    const digit *self = arg;
    self->digits->number = self->digits->number * 10 + self->value;
    return FERRY_OK;
}

Test(batch, functions_on_the_same_span_run_in_their_order)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_THREAD);
    ferry_buffer *buffer = test_buffer(&te, 0, SLICE, 0);
    digits sum = {0};
    digit parts[9];
    ferry_access access = {ferry_buffer_span(buffer), FERRY_READ_WRITE};
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.accesses = &access;
    options.access_count = 1;
    ferry_op ops[9];
    for (size_t i = 0; i < 9; i++) {
        parts[i] = (digit){&sum, i + 1};
        ops[i] = call_op(add_digit, &parts[i]);
        ops[i].options = &options;
    }
    ASSERT_STATUS(end_of(submit(&te, ops, 9, NULL, NULL)), FERRY_OK);
    cr_assert_eq(sum.number, 123456789);
    ferry_buffer_release(buffer);
    test_engine_close(&te);
}

/* What was submitted before it comes before it, what comes after it after. */
Test(batch, it_has_its_place_among_others)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_buffer *from = test_buffer(&te, 0, SLICE, 1), *by_way = test_buffer(&te, 1, SLICE, 2);
    ferry_buffer *to = test_buffer(&te, 2, SLICE, 3);
    ferry_promise *promise = test_promise(&te);
    ferry_future *before =
        copy_after_promise(&te, ferry_buffer_span(by_way), ferry_buffer_span(from), promise);
    ferry_op op = copy_op(ferry_buffer_span(to), ferry_buffer_span(by_way));
    ferry_future *all = submit(&te, &op, 1, NULL, NULL);
    ferry_future *behind = ferry_copy(te.engine, span_of(from, 0, 10), span_of(to, 0, 10), NULL);
    ASSERT_STATUS(ferry_future_poll(all), FERRY_PENDING);
    ASSERT_STATUS(ferry_future_poll(behind), FERRY_PENDING);
    keep_promise(promise, FERRY_OK);
    ASSERT_STATUS(end_of(behind), FERRY_OK);
    ASSERT_STATUS(end_of(all), FERRY_OK);
    cr_assert(is_filled(to, 0, SLICE, 1));
    ferry_future_release(before);
    ferry_buffer_release(from);
    ferry_buffer_release(by_way);
    ferry_buffer_release(to);
    test_engine_close(&te);
}

/* The columns of a matrix one by one, and then all of it on to a third place. */
static void copy_columns(ferry_loop_mode loop, size_t rows, bool with_each)
{
    enum { COLUMNS = 16 };
    test_engine te;
    test_engine_open(&te, loop);
    ferry_buffer *from = test_buffer(&te, 0, rows * COLUMNS, 1);
    ferry_buffer *by_way = test_buffer(&te, 1, rows * COLUMNS, 2);
    ferry_buffer *to = test_buffer(&te, 2, rows * COLUMNS, 3);
    ferry_op ops[COLUMNS + 1];
    ferry_future *each[COLUMNS + 1];
    for (size_t i = 0; i < COLUMNS; i++)
        ops[i] = columns_op(by_way, from, i, 1, COLUMNS, rows);
    ops[COLUMNS] = columns_op(to, by_way, 0, COLUMNS, COLUMNS, rows); /* without gaps */
    ASSERT_STATUS(end_of(submit(&te, ops, COLUMNS + 1, with_each ? each : NULL, NULL)), FERRY_OK);
    cr_assert(is_filled(by_way, 0, rows * COLUMNS, 1));
    cr_assert(is_filled(to, 0, rows * COLUMNS, 1));
    if (with_each)
        release_all(each, COLUMNS + 1);
    ferry_buffer_release(from);
    ferry_buffer_release(by_way);
    ferry_buffer_release(to);
    test_engine_close(&te);
}

Test(batch, strided_copies)
{
    for (int with_each = 0; with_each < 2; with_each++) {
        copy_columns(FERRY_LOOP_EMBEDDED, 4, with_each != 0);
        copy_columns(FERRY_LOOP_EMBEDDED, 10000, with_each != 0);
        copy_columns(FERRY_LOOP_THREAD, 10000, with_each != 0);
    }
}

/* As plain ones, whatever the pitches say. */
Test(batch, no_rows_and_one_row_are_a_plain_copy)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_buffer *src = test_buffer(&te, 0, SLICE, 1), *dst = test_buffer(&te, 1, SLICE, 0);
    ferry_op ops[2] = {columns_op(dst, src, 0, 8, 1, 0), columns_op(dst, src, 8, 8, 1, 1)};
    ASSERT_STATUS(status_of(submit(&te, ops, 2, NULL, NULL)), FERRY_OK);
    cr_assert(is_filled(dst, 0, 16, 1));
    cr_assert(is_filled(dst, 16, SLICE - 16, 0));
    ferry_buffer_release(src);
    ferry_buffer_release(dst);
    test_engine_close(&te);
}

/* ---- many ---- */

Test(batch, small_copies_are_done_on_return)
{
    static slices s;
    slices_open_with(&s, FERRY_LOOP_EMBEDDED);
    ferry_future *all = submit(&s.te, s.ops, MANY, NULL, NULL);
    ASSERT_STATUS(status_of(all), FERRY_OK);
    cr_assert(is_filled(s.dst, 0, (size_t)MANY * SLICE, 7));
    slices_close(&s);
}

static int compare_ids(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

Test(batch, each_of_many_small_copies_has_a_whole_future)
{
    static slices s;
    static counted_waiter waiter;
    static uint64_t ids[MANY + 1];
    slices_open_with(&s, FERRY_LOOP_EMBEDDED);
    ferry_future *all = submit(&s.te, s.ops, MANY, s.each, NULL);
    ids[MANY] = ferry_future_id(all);
    settle_gpus(&s.te);
    for (size_t i = 0; i < MANY; i++) {
        ASSERT_STATUS(ferry_future_poll(s.each[i]), FERRY_OK);
        ids[i] = ferry_future_id(s.each[i]);
        cr_assert_neq(ids[i], 0);
        cr_assert_null(ferry_future_error(s.each[i]));
        ASSERT_STATUS(ferry_future_cancel(s.each[i]), FERRY_OK);
    }
    qsort(ids, MANY + 1, sizeof ids[0], compare_ids);
    for (size_t i = 0; i < MANY; i++)
        cr_assert_neq(ids[i], ids[i + 1], "two with one number");
    /* They can be combined and waited for like any other. */
    ASSERT_STATUS(status_of(ferry_future_issued(s.each[0])), FERRY_OK);
    ASSERT_STATUS(status_of(ferry_future_quiet(s.each[1])), FERRY_OK);
    ASSERT_STATUS(status_of(ferry_future_all(s.te.engine, s.each, MANY)), FERRY_OK);
    ASSERT_STATUS(status_of(ferry_future_any(s.te.engine, s.each, MANY)), FERRY_OK);
    counted_waiter_init(&waiter, NULL);
    ASSERT_STATUS(ferry_future_on_ready(s.each[2], &waiter.waiter), FERRY_OK);
    settle(&s.te);
    cr_assert_eq(waiter.calls, 1);
    ferry_future *kept = ferry_future_retain(s.each[3]);
    release_all(s.each, MANY);
    ASSERT_STATUS(status_of(kept), FERRY_OK);
    ASSERT_STATUS(status_of(all), FERRY_OK);
    slices_close(&s);
}

/* Nothing small is left to be done at once: all of them wait for the first. */
static void copies_that_wait(ferry_loop_mode loop, bool with_each)
{
    static slices s;
    slices_open_with(&s, loop);
    ferry_promise *promise = test_promise(&s.te);
    ferry_future *held =
        copy_after_promise(&s.te, ferry_buffer_span(s.src), ferry_buffer_span(s.dst), promise);
    ferry_future *all = submit(&s.te, s.ops, MANY, with_each ? s.each : NULL, NULL);
    ASSERT_STATUS(ferry_future_poll(all), FERRY_PENDING);
    for (size_t i = 0; with_each && i < MANY; i++)
        ASSERT_STATUS(ferry_future_poll(s.each[i]), FERRY_PENDING);
    memset(ferry_buffer_data(s.dst), 9, (size_t)MANY * SLICE); /* nobody is at it yet */
    keep_promise(promise, FERRY_OK);
    ASSERT_STATUS(end_of(all), FERRY_OK);
    ASSERT_STATUS(status_of(held), FERRY_OK);
    cr_assert(is_filled(s.dst, 0, (size_t)MANY * SLICE, 9));
    if (with_each)
        release_all(s.each, MANY);
    slices_close(&s);
}

Test(batch, small_copies_that_cannot_be_done_at_once_wait)
{
    copies_that_wait(FERRY_LOOP_EMBEDDED, false);
    copies_that_wait(FERRY_LOOP_EMBEDDED, true);
    copies_that_wait(FERRY_LOOP_THREAD, false);
    copies_that_wait(FERRY_LOOP_THREAD, true);
}

Test(batch, all_kinds_in_great_number)
{
    static slices s;
    _Atomic int calls = 0;
    slices_open_with(&s, FERRY_LOOP_THREAD);
    for (size_t i = 0; i < MANY; i++) {
        if (i % 3 == 1)
            s.ops[i] = call_op(count_call, &calls);
        else if (i % 7 == 2)
            s.ops[i] = nop_op();
        else if (i % 50 == 0)
            s.ops[i].dst.size_bytes = s.ops[i].src.size_bytes = 0;
    }
    for (int round = 0; round < 20; round++) {
        ferry_future **each = round % 2 == 0 ? s.each : NULL;
        calls = 0;
        ASSERT_STATUS(end_of(submit(&s.te, s.ops, MANY, each, NULL)), FERRY_OK);
        cr_assert_eq(calls, (MANY + 1) / 3);
        if (each != NULL)
            release_all(each, MANY);
    }
    slices_close(&s);
}

Test(batch, without_each_it_goes_a_long_way_with_few_nodes)
{
    test_engine te;
    ferry_engine_options options = test_engine_options(&te, FERRY_LOOP_EMBEDDED);
    options.max_nodes = 20;
    test_engine_create(&te, &options);
    static ferry_op ops[MANY];
    ferry_op_options late = FERRY_OP_OPTIONS_INIT;
    late.deadline_ns = START_NS + 1;
    for (size_t i = 0; i < MANY; i++)
        ops[i] = nop_op();
    ASSERT_STATUS(status_of(submit(&te, ops, MANY, NULL, NULL)), FERRY_OK);
    ASSERT_STATUS(status_of(submit(&te, ops, MANY, NULL, &late)), FERRY_OK);
    test_engine_close(&te);
}

Test(batch, zero_operations_resolve_when_after_has)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ASSERT_STATUS(status_of(submit(&te, NULL, 0, NULL, NULL)), FERRY_OK);
    for (int fails = 0; fails < 2; fails++) {
        ferry_promise *promise = test_promise(&te);
        ferry_future *after = ferry_promise_future(promise);
        ferry_op_options options = after_one(&after);
        ferry_future *all = submit(&te, NULL, 0, NULL, &options);
        ASSERT_STATUS(ferry_future_poll(all), FERRY_PENDING);
        keep_promise(promise, fails != 0 ? FERRY_E_FAILED : FERRY_OK);
        settle(&te);
        ASSERT_STATUS(status_of(all), fails != 0 ? FERRY_E_DEPENDENCY : FERRY_OK);
        ferry_future_release(after);
    }
    ferry_promise *promise = test_promise(&te);
    ferry_future *after = ferry_promise_future(promise);
    ferry_op_options options = after_one(&after);
    options.deadline_ns = START_NS + 10;
    ferry_future *late = submit(&te, NULL, 0, NULL, &options);
    stepped_clock_step(&te.time, 10);
    settle(&te);
    ASSERT_STATUS(status_of(late), FERRY_E_DEADLINE);
    keep_promise(promise, FERRY_OK);
    ferry_future_release(after);
    test_engine_close(&te);
}

/* ---- options ---- */

Test(batch, its_deadline_is_that_of_operations_without_one)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_promise *promise = test_promise(&te);
    ferry_future *after = ferry_promise_future(promise);
    ferry_op_options options = after_one(&after), later = FERRY_OP_OPTIONS_INIT;
    options.deadline_ns = START_NS + 100;
    later.deadline_ns = START_NS + 200;
    ferry_op ops[3] = {nop_op(), nop_op(), nop_op()};
    ops[1].options = &later;
    for (int with_each = 0; with_each < 2; with_each++) {
        ferry_future *each[3];
        ferry_future *all = submit(&te, ops, 3, with_each ? each : NULL, &options);
        settle(&te);
        ASSERT_STATUS(ferry_future_poll(all), FERRY_PENDING);
        if (with_each)
            ASSERT_STATUS(ferry_future_poll(each[1]), FERRY_PENDING);
        stepped_clock_step(&te.time, 100);
        settle(&te);
        ASSERT_STATUS(ferry_future_poll(all), FERRY_E_DEPENDENCY);
        ASSERT_STATUS(ferry_future_error(all)->cause->status, FERRY_E_DEADLINE);
        if (with_each) {
            cr_assert_eq(ferry_future_error(all)->cause->op, ferry_future_id(each[0]));
            ASSERT_STATUS(ferry_future_poll(each[1]), FERRY_PENDING);
            stepped_clock_step(&te.time, 100);
            settle(&te);
            for (size_t i = 0; i < 3; i++)
                ASSERT_STATUS(status_of(each[i]), FERRY_E_DEADLINE);
        } else {
            stepped_clock_step(&te.time, 100);
            settle(&te);
        }
        ferry_future_release(all);
        options.deadline_ns += 200;
        later.deadline_ns += 200;
    }
    keep_promise(promise, FERRY_OK);
    ferry_future_release(after);
    drain(&te);
    test_engine_close(&te);
}

/* Operations with deadlines that are met, beside such without. */
Test(batch, deadlines_that_are_met)
{
    static slices s;
    slices_open_with(&s, FERRY_LOOP_EMBEDDED);
    ferry_op_options later = FERRY_OP_OPTIONS_INIT;
    later.deadline_ns = START_NS + 1000000;
    for (size_t i = 0; i < MANY; i += 2)
        s.ops[i].options = &later;
    for (int with_each = 0; with_each < 2; with_each++) {
        memset(ferry_buffer_data(s.dst), 0, (size_t)MANY * SLICE);
        ASSERT_STATUS(end_of(submit(&s.te, s.ops, MANY, with_each ? s.each : NULL, NULL)),
                      FERRY_OK);
        cr_assert(is_filled(s.dst, 0, (size_t)MANY * SLICE, 7));
    }
    release_all(s.each, MANY);
    slices_close(&s);
}

Test(batch, its_after_is_added_to_each_operations_own)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_promise *common = test_promise(&te), *own = test_promise(&te);
    ferry_future *common_after = ferry_promise_future(common);
    ferry_future *own_after = ferry_promise_future(own);
    ferry_op_options options = after_one(&common_after), of_one = after_one(&own_after);
    ferry_op ops[2] = {nop_op(), nop_op()};
    ops[1].options = &of_one;
    ferry_future *each[2];
    ferry_future *all = submit(&te, ops, 2, each, &options);
    keep_promise(common, FERRY_OK);
    settle(&te);
    ASSERT_STATUS(ferry_future_poll(each[0]), FERRY_OK);
    ASSERT_STATUS(ferry_future_poll(each[1]), FERRY_PENDING);
    ASSERT_STATUS(ferry_future_poll(all), FERRY_PENDING);
    keep_promise(own, FERRY_OK);
    settle(&te);
    ASSERT_STATUS(ferry_future_poll(each[1]), FERRY_OK);
    ASSERT_STATUS(status_of(all), FERRY_OK);
    release_all(each, 2);
    ferry_future_release(own_after);
    ferry_future_release(common_after);
    test_engine_close(&te);
}

/* With one that had failed at its submit, too: that future is static. */
Test(batch, a_failure_it_is_after_is_each_operations)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_promise *promise = test_promise(&te);
    ferry_future *failed[2] = {ferry_promise_future(promise), ferry_future_any(te.engine, NULL, 0)};
    ASSERT_STATUS(ferry_future_poll(failed[1]), FERRY_E_INVALID);
    keep_promise(promise, FERRY_E_FAILED);
    for (int i = 0; i < 2; i++) {
        ferry_op_options options = after_one(&failed[i]);
        _Atomic int calls = 0;
        ferry_op ops[2] = {call_op(count_call, &calls), nop_op()};
        ferry_future *each[2];
        ferry_future *all = submit(&te, ops, 2, each, &options);
        settle(&te);
        cr_assert_eq(calls, 0);
        ferry_status root = i == 0 ? FERRY_E_FAILED : FERRY_E_INVALID;
        ASSERT_STATUS(ferry_future_error(all)->cause->status, root);
        for (size_t k = 0; k < 2; k++) {
            ASSERT_STATUS(ferry_future_error(each[k])->cause->status, root);
            ASSERT_STATUS(status_of(each[k]), FERRY_E_DEPENDENCY);
        }
        ASSERT_STATUS(status_of(all), FERRY_E_DEPENDENCY);
        ASSERT_STATUS(end_of(submit(&te, ops, 2, NULL, &options)), FERRY_E_DEPENDENCY);
    }
    release_all(failed, 2);
    test_engine_close(&te);
}

Test(batch, its_label_is_that_of_operations_without_one)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_op_options options = FERRY_OP_OPTIONS_INIT, own = FERRY_OP_OPTIONS_INIT;
    options.label = "weights";
    own.label = "bias";
    ferry_op ops[2] = {call_op(fail_call, NULL), call_op(fail_call, NULL)};
    ops[1].options = &own;
    ferry_future *each[2];
    ferry_future *all = submit(&te, ops, 2, each, &options);
    settle(&te);
    cr_assert_str_eq(ferry_future_error(all)->label, "weights");
    cr_assert_str_eq(ferry_future_error(each[0])->label, "weights");
    cr_assert_str_eq(ferry_future_error(each[1])->label, "bias");
    release_all(each, 2);
    ferry_future_release(all);
    test_engine_close(&te);
}

Test(batch, its_priority_is_that_of_operations_without_one)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_op_options low = FERRY_OP_OPTIONS_INIT, high = FERRY_OP_OPTIONS_INIT;
    low.priority = FERRY_PRIORITY_LOW;
    high.priority = FERRY_PRIORITY_HIGH;
    digits sum = {0};
    digit parts[3] = {{&sum, 3}, {&sum, 1}, {&sum, 2}};
    ferry_op ops[2] = {call_op(add_digit, &parts[0]), call_op(add_digit, &parts[1])};
    ops[1].options = &high;
    ferry_future *all = submit(&te, ops, 2, NULL, &low);
    ferry_future_release(ferry_call(te.engine, NULL, add_digit, &parts[2], NULL));
    settle(&te);
    cr_assert_eq(sum.number, 123);
    ASSERT_STATUS(status_of(all), FERRY_OK);
    test_engine_close(&te);
}

Test(batch, small_copies_with_a_label_are_done_on_return)
{
    static slices s;
    slices_open_with(&s, FERRY_LOOP_EMBEDDED);
    ferry_op_options own = FERRY_OP_OPTIONS_INIT;
    own.label = "slice";
    for (size_t i = 0; i < MANY; i++)
        s.ops[i].options = &own;
    ASSERT_STATUS(status_of(submit(&s.te, s.ops, MANY, NULL, NULL)), FERRY_OK);
    cr_assert(is_filled(s.dst, 0, (size_t)MANY * SLICE, 7));
    slices_close(&s);
}

/* ---- versions of the struct ---- */

Test(batch, operations_of_an_earlier_version)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_buffer *src = test_buffer(&te, 0, SLICE, 1), *dst = test_buffer(&te, 1, SLICE, 0);
    enum { BYTES = offsetof(ferry_op, executor) }; /* it knew copies only */
    static char ops[10 * BYTES];
    ferry_future *each[10];
    for (size_t i = 0; i < 10; i++) {
        ferry_op op = copy_op(span_of(dst, i, 1), span_of(src, i, 1));
        memcpy(ops + i * BYTES, &op, BYTES);
    }
    ferry_future *all =
        ferry_batch(te.engine, (const ferry_op *)(const void *)ops, BYTES, 10, each, NULL);
    ASSERT_STATUS(status_of(all), FERRY_OK);
    for (size_t i = 0; i < 10; i++)
        ASSERT_STATUS(status_of(each[i]), FERRY_OK);
    cr_assert(is_filled(dst, 0, 10, 1));
    cr_assert(is_filled(dst, 10, SLICE - 10, 0));
    ferry_buffer_release(src);
    ferry_buffer_release(dst);
    test_engine_close(&te);
}

Test(batch, operations_of_a_later_version)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_buffer *src = test_buffer(&te, 0, SLICE, 1), *dst = test_buffer(&te, 1, SLICE, 0);
    typedef struct later_op {
        ferry_op op;
        uint64_t more;
    } later_op;
    later_op ops[3] = {{copy_op(span_of(dst, 0, 1), span_of(src, 0, 1)), 0},
                       {copy_op(span_of(dst, 1, 1), span_of(src, 1, 1)), 5},
                       {copy_op(span_of(dst, 2, 1), span_of(src, 2, 1)), 0}};
    ferry_future *each[3];
    ferry_future *all = ferry_batch(te.engine, &ops[0].op, sizeof ops[0], 3, each, NULL);
    ASSERT_STATUS(ferry_future_error(all)->cause->status, FERRY_E_INVALID);
    ferry_future_release(all);
    ASSERT_STATUS(status_of(each[0]), FERRY_OK);
    ASSERT_STATUS(status_of(each[1]), FERRY_E_INVALID);
    ASSERT_STATUS(status_of(each[2]), FERRY_OK);
    cr_assert(is_filled(dst, 0, 1, 1));
    cr_assert(is_filled(dst, 1, 1, 0));
    cr_assert(is_filled(dst, 2, 1, 1));
    ferry_buffer_release(src);
    ferry_buffer_release(dst);
    test_engine_close(&te);
}

/* ---- seeing ---- */

typedef struct sink {
    ferry_trace_record records[16384];
    size_t count;
} sink;

static void take_record(void *arg, const ferry_trace_record *record)
{
    sink *self = arg;
    cr_assert_lt(self->count, 16384);
    self->records[self->count++] = *record;
}

static size_t count_records(const sink *self, ferry_trace_what what, ferry_op_kind kind)
{
    size_t count = 0;
    for (size_t i = 0; i < self->count; i++)
        count += self->records[i].what == what && self->records[i].kind == kind;
    return count;
}

Test(batch, with_tracing_on_each_copy_tells_its_life)
{
    static slices s;
    static sink self;
    slices_open_with(&s, FERRY_LOOP_EMBEDDED);
    ferry_trace_hooks hooks = {.struct_size = sizeof hooks, .record = take_record, .arg = &self};
    ASSERT_STATUS(ferry_engine_trace(s.te.engine, &hooks), FERRY_OK);
    static const ferry_trace_what life[] = {FERRY_TRACE_SUBMITTED, FERRY_TRACE_READY,
                                            FERRY_TRACE_ISSUED,    FERRY_TRACE_FIRED,
                                            FERRY_TRACE_RESOLVED,  FERRY_TRACE_QUIET};
    for (int with_each = 0; with_each < 2; with_each++) {
        self.count = 0;
        ferry_future *all = submit(&s.te, s.ops, MANY, with_each ? s.each : NULL, NULL);
        uint64_t id = ferry_future_id(all);
        ASSERT_STATUS(status_of(all), FERRY_OK);
        settle(&s.te);
        for (size_t i = 0; i < sizeof life / sizeof life[0]; i++)
            cr_assert_eq(count_records(&self, life[i], FERRY_OP_COPY), MANY, "%s",
                         ferry_trace_what_name(life[i]));
        cr_assert_eq(count_records(&self, FERRY_TRACE_RESOLVED, FERRY_OP_BATCH), 1);
        cr_assert_eq(self.records[self.count - 1].op, id);
        cr_assert_str_eq(ferry_op_kind_name((ferry_op_kind)self.records[self.count - 1].kind),
                         "batch");
    }
    release_all(s.each, MANY);
    slices_close(&s);
}

/* ---- where and when ---- */

typedef struct in_callback {
    ferry_waiter waiter; /* first */
    slices *s;
    ferry_future *all;
} in_callback;

static void submit_in_callback(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)future, (void)status;
    in_callback *self = (in_callback *)(void *)waiter;
    self->all = submit(&self->s->te, self->s->ops, MANY, NULL, NULL);
}

Test(batch, it_may_be_submitted_in_a_callback)
{
    static slices s;
    slices_open_with(&s, FERRY_LOOP_EMBEDDED);
    in_callback self = {.waiter = {.fn = submit_in_callback}, .s = &s};
    ferry_future *nop = ferry_nop(s.te.engine, NULL);
    ASSERT_STATUS(ferry_future_on_ready(nop, &self.waiter), FERRY_OK);
    settle(&s.te);
    ASSERT_STATUS(status_of(self.all), FERRY_OK);
    cr_assert(is_filled(s.dst, 0, (size_t)MANY * SLICE, 7));
    ferry_future_release(nop);
    slices_close(&s);
}

Test(batch, buffers_and_futures_may_be_let_go_at_once)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_THREAD);
    for (int round = 0; round < 50; round++) {
        ferry_buffer *src = test_buffer(&te, 0, BIG, 1), *dst = test_buffer(&te, 1, BIG, 0);
        ferry_op ops[3] = {copy_op(ferry_buffer_span(dst), ferry_buffer_span(src)),
                           copy_op(ferry_buffer_span(src), ferry_buffer_span(dst)), nop_op()};
        ferry_future *each[3];
        ferry_future_release(submit(&te, ops, 3, round % 2 == 0 ? each : NULL, NULL));
        ferry_buffer_release(src);
        ferry_buffer_release(dst);
        if (round % 2 == 0)
            release_all(each, 3);
    }
    test_engine_close(&te);
}

Test(batch, futures_outlive_the_engine)
{
    static slices s;
    slices_open_with(&s, FERRY_LOOP_EMBEDDED);
    ferry_future *all = submit(&s.te, s.ops, MANY, s.each, NULL);
    settle_gpus(&s.te);
    ferry_buffer_release(s.src);
    ferry_buffer_release(s.dst);
    ASSERT_STATUS(ferry_engine_shutdown(s.te.engine, -1), FERRY_OK);
    ferry_engine_release(s.te.engine);
    ASSERT_STATUS(status_of(all), FERRY_OK);
    release_all(s.each, MANY);
    cr_assert_eq(failing_allocator_live_bytes(&s.te.memory), 0);
}

Test(batch, a_shutdown_ends_it_and_refuses_the_next)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_promise *promise = test_promise(&te);
    ferry_future *after = ferry_promise_future(promise);
    ferry_op_options options = after_one(&after);
    _Atomic int calls = 0;
    ferry_op ops[2] = {call_op(count_call, &calls), nop_op()};
    ferry_future *each[2];
    ferry_future *all = submit(&te, ops, 2, each, &options);
    ferry_future *other = submit(&te, ops, 2, NULL, &options);
    ASSERT_STATUS(ferry_engine_shutdown(te.engine, -1), FERRY_OK);
    for (size_t i = 0; i < 2; i++)
        ASSERT_STATUS(status_of(each[i]), FERRY_E_SHUTDOWN);
    cr_assert_lt(status_of(all), 0);
    cr_assert_lt(status_of(other), 0);
    ASSERT_STATUS(status_of(submit(&te, ops, 2, each, NULL)), FERRY_E_SHUTDOWN);
    for (size_t i = 0; i < 2; i++)
        ASSERT_STATUS(status_of(each[i]), FERRY_E_SHUTDOWN);
    cr_assert_eq(calls, 0);
    ferry_future_release(after);
    ferry_promise_release(promise);
    ferry_engine_release(te.engine);
    cr_assert_eq(failing_allocator_live_bytes(&te.memory), 0);
}
