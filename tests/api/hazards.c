/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order over buffers without after[]: read after write, write after read, write after write.
 * Functions on an executor that the test runs by hand stand for work that takes as long as it
 * likes.
 */
#include "tests/support/api_test.h"

TestSuite(hazards, .timeout = HANG_S);

typedef struct fixture {
    test_engine te;
    manual_executor executor;
    _Atomic int calls;
    ferry_buffer *buffer; /* 100 bytes of 1 */
    ferry_buffer *other;  /* 100 bytes of 2 */
} fixture;

static void fixture_open(fixture *f)
{
    test_engine_open(&f->te, FERRY_LOOP_EMBEDDED);
    manual_executor_init(&f->executor);
    atomic_init(&f->calls, 0);
    f->buffer = test_buffer(&f->te, 0, 100, 1);
    f->other = test_buffer(&f->te, 1, 100, 2);
}

static void fixture_close(fixture *f)
{
    settle(&f->te);
    ferry_buffer_release(f->buffer);
    ferry_buffer_release(f->other);
    test_engine_close(&f->te);
}

/* A function on a part of the buffer. */
static ferry_future *slow(fixture *f, size_t begin, size_t end, ferry_access_mode mode)
{
    return call_on(&f->te, &f->executor.executor, count_call, &f->calls,
                   span_of(f->buffer, begin, end - begin), mode);
}

static void run_next(fixture *f)
{
    settle(&f->te);
    manual_run_one(&f->executor);
    settle(&f->te);
}

static void assert_order(ferry_access_mode first, ferry_access_mode second, bool ordered)
{
    fixture f;
    fixture_open(&f);
    ferry_future *one = slow(&f, 0, 100, first), *two = slow(&f, 0, 100, second);
    settle(&f.te);
    cr_assert_eq(manual_waiting(&f.executor), ordered ? 1 : 2);
    run_next(&f);
    ASSERT_STATUS(ferry_future_poll(one), FERRY_OK);
    ASSERT_STATUS(ferry_future_poll(two), FERRY_PENDING);
    cr_assert_eq(manual_waiting(&f.executor), 1);
    run_next(&f);
    ASSERT_STATUS(status_of(two), FERRY_OK);
    ferry_future_release(one);
    fixture_close(&f);
}

Test(hazards, a_read_comes_after_the_write)
{
    assert_order(FERRY_WRITE, FERRY_READ, true);
}

Test(hazards, a_write_comes_after_the_read)
{
    assert_order(FERRY_READ, FERRY_WRITE, true);
}

Test(hazards, a_write_comes_after_the_write)
{
    assert_order(FERRY_WRITE, FERRY_WRITE, true);
}

Test(hazards, reads_go_together)
{
    assert_order(FERRY_READ, FERRY_READ, false);
}

Test(hazards, a_read_write_comes_after_a_read)
{
    assert_order(FERRY_READ, FERRY_READ_WRITE, true);
}

Test(hazards, a_read_comes_after_a_read_write)
{
    assert_order(FERRY_READ_WRITE, FERRY_READ, true);
}

Test(hazards, read_writes_come_one_after_another)
{
    assert_order(FERRY_READ_WRITE, FERRY_READ_WRITE, true);
}

Test(hazards, copies_form_a_chain_by_their_buffers)
{
    fixture f;
    fixture_open(&f);
    ferry_buffer *last = test_buffer(&f.te, 2, 100, 3);
    ferry_promise *promise = test_promise(&f.te);
    ferry_future *first =
        copy_after_promise(&f.te, ferry_buffer_span(f.other), ferry_buffer_span(f.buffer), promise);
    ferry_future *second =
        ferry_copy(f.te.engine, ferry_buffer_span(last), ferry_buffer_span(f.other), NULL);
    settle(&f.te);
    ASSERT_STATUS(ferry_future_poll(second), FERRY_PENDING);
    cr_assert(is_filled(last, 0, 100, 3));
    keep_promise(promise, FERRY_OK);
    settle(&f.te);
    ASSERT_STATUS(status_of(first), FERRY_OK);
    ASSERT_STATUS(status_of(second), FERRY_OK);
    cr_assert(is_filled(last, 0, 100, 1));
    ferry_buffer_release(last);
    fixture_close(&f);
}

Test(hazards, a_copy_does_not_overwrite_what_is_still_read)
{
    fixture f;
    fixture_open(&f);
    ferry_future *reader = slow(&f, 0, 100, FERRY_READ);
    ferry_future *copy =
        ferry_copy(f.te.engine, ferry_buffer_span(f.buffer), ferry_buffer_span(f.other), NULL);
    settle(&f.te);
    cr_assert(is_filled(f.buffer, 0, 100, 1));
    ASSERT_STATUS(ferry_future_poll(copy), FERRY_PENDING);
    run_next(&f);
    ASSERT_STATUS(status_of(reader), FERRY_OK);
    ASSERT_STATUS(status_of(copy), FERRY_OK);
    cr_assert(is_filled(f.buffer, 0, 100, 2));
    fixture_close(&f);
}

Test(hazards, a_write_waits_for_each_of_many_readers)
{
    fixture f;
    fixture_open(&f);
    ferry_future *readers[20];
    for (int i = 0; i < 20; i++)
        readers[i] = slow(&f, (size_t)i, 100 - (size_t)i, FERRY_READ);
    ferry_future *writer = slow(&f, 0, 100, FERRY_WRITE);
    settle(&f.te);
    cr_assert_eq(manual_waiting(&f.executor), 20);
    for (int i = 0; i < 20; i++) {
        ASSERT_STATUS(ferry_future_poll(writer), FERRY_PENDING);
        run_next(&f);
        ferry_future_release(readers[i]);
    }
    cr_assert_eq(manual_waiting(&f.executor), 1, "the writer, after the last");
    run_next(&f);
    ASSERT_STATUS(status_of(writer), FERRY_OK);
    fixture_close(&f);
}

Test(hazards, disjoint_slices_are_independent)
{
    fixture f;
    fixture_open(&f);
    ferry_future *slices[100];
    for (size_t i = 0; i < 100; i++)
        slices[i] = slow(&f, i, i + 1, i % 2 == 0 ? FERRY_WRITE : FERRY_READ_WRITE);
    settle(&f.te);
    cr_assert_eq(manual_waiting(&f.executor), 100);
    ferry_future *whole = slow(&f, 0, 100, FERRY_READ);
    settle(&f.te);
    cr_assert_eq(manual_waiting(&f.executor), 100);
    for (int i = 0; i < 100; i++) {
        manual_run_one(&f.executor);
        ferry_future_release(slices[i]);
    }
    settle(&f.te);
    cr_assert_eq(manual_waiting(&f.executor), 1);
    run_next(&f);
    ASSERT_STATUS(status_of(whole), FERRY_OK);
    fixture_close(&f);
}

Test(hazards, ten_thousand_slices_outstanding_are_independent)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    enum { SLICES = 10000 };
    static ferry_future *copies[SLICES];
    ferry_buffer *src = test_buffer(&te, 0, SLICES * 8, 5),
                 *dst = test_buffer(&te, 1, SLICES * 8, 0);
    ferry_promise *promise = test_promise(&te), *one = test_promise(&te);
    for (size_t i = 0; i < SLICES; i++)
        copies[i] = copy_after_promise(&te, span_of(dst, i * 8, 8), span_of(src, i * 8, 8),
                                       i == SLICES / 2 ? one : promise);
    keep_promise(one, FERRY_OK);
    settle(&te);
    for (size_t i = 0; i < SLICES; i++)
        ASSERT_STATUS(ferry_future_poll(copies[i]), i == SLICES / 2 ? FERRY_OK : FERRY_PENDING);
    keep_promise(promise, FERRY_OK);
    settle(&te);
    for (size_t i = 0; i < SLICES; i++)
        ASSERT_STATUS(status_of(copies[i]), FERRY_OK);
    cr_assert(is_filled(dst, 0, SLICES * 8, 5));
    ferry_buffer_release(src);
    ferry_buffer_release(dst);
    test_engine_close(&te);
}

/* Every way in which [20, 60) and another range can lie. */
Test(hazards, partial_overlaps_are_ordered_and_neighbours_are_not)
{
    static const struct {
        size_t begin, end;
        bool overlaps;
    } ranges[] = {{0, 10, false},  {0, 20, false},   {0, 21, true},   {0, 60, true},
                  {0, 100, true},  {20, 30, true},   {20, 60, true},  {20, 70, true},
                  {30, 40, true},  {30, 60, true},   {59, 60, true},  {59, 61, true},
                  {60, 61, false}, {60, 100, false}, {19, 20, false}, {19, 21, true}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        for (int reads_first = 0; reads_first < 2; reads_first++) {
            fixture f;
            fixture_open(&f);
            ferry_future *first = slow(&f, 20, 60, reads_first ? FERRY_READ : FERRY_WRITE);
            ferry_future *second =
                slow(&f, ranges[i].begin, ranges[i].end, reads_first ? FERRY_WRITE : FERRY_READ);
            settle(&f.te);
            cr_assert_eq(manual_waiting(&f.executor), ranges[i].overlaps ? 1 : 2,
                         "[20, 60) and [%zu, %zu)", ranges[i].begin, ranges[i].end);
            run_next(&f);
            run_next(&f);
            ASSERT_STATUS(status_of(first), FERRY_OK);
            ASSERT_STATUS(status_of(second), FERRY_OK);
            fixture_close(&f);
        }
    }
}

Test(hazards, a_middle_write_leaves_both_ends_to_the_first_writer)
{
    fixture f;
    fixture_open(&f);
    ferry_future *whole = slow(&f, 0, 100, FERRY_WRITE);
    ferry_future *middle = slow(&f, 40, 60, FERRY_WRITE);
    ferry_future *left = slow(&f, 0, 10, FERRY_READ), *right = slow(&f, 90, 100, FERRY_READ);
    ferry_future *inner = slow(&f, 45, 55, FERRY_READ);
    run_next(&f); /* whole */
    ASSERT_STATUS(ferry_future_poll(whole), FERRY_OK);
    cr_assert_eq(manual_waiting(&f.executor), 3, "middle, left, right");
    for (int i = 0; i < 3; i++)
        run_next(&f);
    ASSERT_STATUS(status_of(middle), FERRY_OK);
    ASSERT_STATUS(status_of(left), FERRY_OK);
    ASSERT_STATUS(status_of(right), FERRY_OK);
    ASSERT_STATUS(ferry_future_poll(inner), FERRY_PENDING);
    run_next(&f);
    ASSERT_STATUS(status_of(inner), FERRY_OK);
    ferry_future_release(whole);
    fixture_close(&f);
}

Test(hazards, one_operation_may_name_overlapping_spans)
{
    fixture f;
    fixture_open(&f);
    ferry_access accesses[] = {{span_of(f.buffer, 0, 60), FERRY_READ},
                               {span_of(f.buffer, 40, 60), FERRY_WRITE},
                               {span_of(f.buffer, 50, 5), FERRY_READ_WRITE},
                               {span_of(f.buffer, 0, 100), FERRY_READ}};
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.accesses = accesses;
    options.access_count = 4;
    ferry_future *before = slow(&f, 0, 100, FERRY_READ);
    ferry_future *nop = ferry_nop(f.te.engine, &options);
    ferry_future *after = slow(&f, 70, 80, FERRY_READ);
    settle(&f.te);
    ASSERT_STATUS(ferry_future_poll(nop), FERRY_PENDING);
    cr_assert_eq(manual_waiting(&f.executor), 1);
    run_next(&f);
    ASSERT_STATUS(status_of(nop), FERRY_OK);
    run_next(&f);
    ASSERT_STATUS(status_of(before), FERRY_OK);
    ASSERT_STATUS(status_of(after), FERRY_OK);
    fixture_close(&f);
}

Test(hazards, no_bytes_wait_for_nobody)
{
    fixture f;
    fixture_open(&f);
    ferry_future *writer = slow(&f, 0, 100, FERRY_WRITE);
    settle(&f.te);
    ASSERT_STATUS(
        status_of(ferry_copy(f.te.engine, span_of(f.buffer, 50, 0), span_of(f.other, 0, 0), NULL)),
        FERRY_OK);
    ferry_future *call = slow(&f, 100, 100, FERRY_WRITE);
    settle(&f.te);
    cr_assert_eq(manual_waiting(&f.executor), 2);
    run_next(&f);
    run_next(&f);
    ASSERT_STATUS(status_of(call), FERRY_OK);
    ASSERT_STATUS(status_of(writer), FERRY_OK);
    fixture_close(&f);
}

Test(hazards, a_definition_is_waited_for)
{
    fixture f;
    fixture_open(&f);
    ferry_promise *promise = test_promise(&f.te);
    ferry_future *future = ferry_promise_future(promise);
    ASSERT_STATUS(ferry_buffer_define(span_of(f.buffer, 0, 50), future), FERRY_OK);
    ferry_future_release(future);
    ferry_future *reader = slow(&f, 0, 10, FERRY_READ), *elsewhere = slow(&f, 50, 60, FERRY_READ);
    settle(&f.te);
    cr_assert_eq(manual_waiting(&f.executor), 1);
    keep_promise(promise, FERRY_OK);
    settle(&f.te);
    cr_assert_eq(manual_waiting(&f.executor), 2);
    run_next(&f);
    run_next(&f);
    ASSERT_STATUS(status_of(reader), FERRY_OK);
    ASSERT_STATUS(status_of(elsewhere), FERRY_OK);
    fixture_close(&f);
}

Test(hazards, cancelling_a_reader_does_not_fail_the_next_writer)
{
    fixture f;
    fixture_open(&f);
    ferry_promise *promise = test_promise(&f.te);
    ferry_future *reader =
        copy_after_promise(&f.te, ferry_buffer_span(f.other), ferry_buffer_span(f.buffer), promise);
    ferry_future *writer = slow(&f, 0, 100, FERRY_WRITE);
    settle(&f.te);
    cr_assert_eq(manual_waiting(&f.executor), 0);
    ASSERT_STATUS(ferry_future_cancel(reader), FERRY_OK);
    settle(&f.te);
    ASSERT_STATUS(status_of(reader), FERRY_E_CANCELLED);
    cr_assert_eq(manual_waiting(&f.executor), 1);
    run_next(&f);
    ASSERT_STATUS(status_of(writer), FERRY_OK);
    keep_promise(promise, FERRY_OK);
    fixture_close(&f);
}

/* W1 and R work at the span; W2, behind them, is cancelled; W3 is listed behind W2 alone. */
static void cancelled_middle_writer(bool with_reader)
{
    fixture f;
    fixture_open(&f);
    ferry_future *first = slow(&f, 0, 100, FERRY_WRITE), *reader = NULL;
    settle(&f.te);
    if (with_reader) {
        run_next(&f);
        reader = slow(&f, 20, 30, FERRY_READ);
        settle(&f.te);
    }
    ferry_future *second = slow(&f, 0, 100, FERRY_WRITE), *third = slow(&f, 0, 100, FERRY_WRITE);
    ferry_future *quiet = ferry_future_quiet(second);
    ASSERT_STATUS(ferry_future_cancel(second), FERRY_OK);
    settle(&f.te);
    ASSERT_STATUS(ferry_future_poll(second), FERRY_E_CANCELLED);
    ASSERT_STATUS(status_of(quiet), FERRY_OK);
    cr_assert_eq(manual_waiting(&f.executor), 1, "the third must wait for the first");
    run_next(&f);
    cr_assert_eq(manual_waiting(&f.executor), 1, "the third");
    run_next(&f);
    ASSERT_STATUS(status_of(third), FERRY_OK);
    ASSERT_STATUS(status_of(first), FERRY_OK);
    ferry_future_release(second);
    ferry_future_release(reader);
    fixture_close(&f);
}

Test(hazards, a_cancelled_middle_writer_does_not_let_the_next_pass_a_writer)
{
    cancelled_middle_writer(false);
}

Test(hazards, a_cancelled_middle_writer_does_not_let_the_next_pass_a_reader)
{
    cancelled_middle_writer(true);
}

Test(hazards, memory_wrapped_and_released_early_is_used_to_the_end)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_buffer *src = test_buffer(&te, 0, 64, 9), *dst = test_buffer(&te, 1, 64, 0);
    ferry_buffer *result = test_buffer(&te, 2, 64, 0);
    ferry_promise *promise = test_promise(&te);
    ferry_future *first =
        copy_after_promise(&te, ferry_buffer_span(dst), ferry_buffer_span(src), promise);
    ferry_future *second =
        ferry_copy(te.engine, ferry_buffer_span(result), ferry_buffer_span(dst), NULL);
    ferry_buffer_release(src);
    ferry_buffer_release(dst);
    settle(&te);
    keep_promise(promise, FERRY_OK);
    settle(&te);
    ASSERT_STATUS(status_of(first), FERRY_OK);
    ASSERT_STATUS(status_of(second), FERRY_OK);
    cr_assert(is_filled(result, 0, 64, 9));
    ferry_buffer_release(result);
    test_engine_close(&te);
}
