/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of rows: bytes, hazards and poison row by row, what is refused. */
#include "tests/support/api_test.h"

#include <stdlib.h>

TestSuite(rows, .timeout = HANG_S);

enum { PITCH = 10, LINES = 8, BYTES = PITCH * LINES };

typedef struct fixture {
    test_engine te;
    manual_executor executor;
    _Atomic int calls;
    ferry_buffer *matrix; /* LINES lines of PITCH bytes of 1 */
    ferry_buffer *other;  /* the same of 2 */
    ferry_promise *held;
} fixture;

static void fixture_open(fixture *f)
{
    test_engine_open(&f->te, FERRY_LOOP_EMBEDDED);
    manual_executor_init(&f->executor);
    atomic_init(&f->calls, 0);
    f->matrix = test_buffer(&f->te, 0, BYTES, 1);
    f->other = test_buffer(&f->te, 1, BYTES, 2);
    f->held = test_promise(&f->te);
}

static void fixture_close(fixture *f)
{
    ferry_promise_release(f->held);
    settle(&f->te);
    ferry_buffer_release(f->matrix);
    ferry_buffer_release(f->other);
    test_engine_close(&f->te);
}

/* Columns [begin, end) of the matrix are written, from the same ones of the other. */
static ferry_future *write_columns(fixture *f, size_t begin, size_t end, ferry_future *after)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = &after;
    options.after_count = after != NULL;
    return ferry_copy_rows(f->te.engine, span_of(f->matrix, begin, end - begin), PITCH,
                           span_of(f->other, begin, end - begin), PITCH, LINES, &options);
}

/* The same, once the promise is kept. */
static ferry_future *held_write(fixture *f, size_t begin, size_t end)
{
    ferry_future *after = ferry_promise_future(f->held);
    ferry_future *write = write_columns(f, begin, end, after);
    ferry_future_release(after);
    return write;
}

static ferry_status status_after_settling(fixture *f, ferry_future *future)
{
    settle(&f->te);
    return status_of(future);
}

static ferry_future *touch(fixture *f, size_t line, size_t column, ferry_access_mode mode)
{
    ferry_access access = {span_of(f->matrix, line * PITCH + column, 1), mode};
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.accesses = &access;
    options.access_count = 1;
    return ferry_nop(f->te.engine, &options);
}

/* Of each byte of the matrix, whether an operation on it can't go ahead. */
static void assert_columns_wait(fixture *f, ferry_access_mode mode, size_t begin, size_t end)
{
    for (size_t line = 0; line < LINES; line++) {
        for (size_t column = 0; column < PITCH; column++) {
            ferry_future *nop = touch(f, line, column, mode);
            settle(&f->te);
            bool waits = column >= begin && column < end;
            ASSERT_STATUS(ferry_future_poll(nop), waits ? FERRY_PENDING : FERRY_OK);
            ASSERT_STATUS(ferry_future_cancel(nop), FERRY_OK);
            settle(&f->te);
            ferry_future_release(nop);
        }
    }
}

/* Columns [begin, end) are poisoned, and no byte beside them. */
static void assert_columns_poisoned(fixture *f, size_t begin, size_t end)
{
    for (size_t line = 0; line < LINES; line++) {
        for (size_t column = 0; column < PITCH; column++) {
            bool poisoned = column >= begin && column < end;
            ASSERT_STATUS(status_after_settling(f, touch(f, line, column, FERRY_READ)),
                          poisoned ? FERRY_E_DEPENDENCY : FERRY_OK);
        }
    }
}

/* ---- bytes ---- */

typedef struct shape {
    size_t row_bytes, count, dst_at, dst_pitch, src_at, src_pitch;
} shape;

static void check_shape(const test_engine *te, ferry_buffer *dst, ferry_buffer *src, shape s)
{
    unsigned char *to = ferry_buffer_data(dst), *from = ferry_buffer_data(src);
    unsigned char expected[BYTES];
    for (size_t i = 0; i < BYTES; i++) {
        to[i] = (unsigned char)(100 + i);
        from[i] = (unsigned char)i;
    }
    memcpy(expected, to, BYTES);
    for (size_t row = 0; row < s.count; row++)
        memcpy(expected + s.dst_at + row * s.dst_pitch, from + s.src_at + row * s.src_pitch,
               s.row_bytes);
    ferry_future *copy =
        ferry_copy_rows(te->engine, span_of(dst, s.dst_at, s.row_bytes), s.dst_pitch,
                        span_of(src, s.src_at, s.row_bytes), s.src_pitch, s.count, NULL);
    ASSERT_STATUS(ferry_future_wait(copy, -1), FERRY_OK);
    ferry_future_release(copy);
    cr_assert_eq(memcmp(to, expected, BYTES), 0, "%zu rows of %zu, pitches %zu and %zu", s.count,
                 s.row_bytes, s.dst_pitch, s.src_pitch);
}

static void check_shapes(size_t inline_copy_bytes)
{
    test_engine te;
    ferry_engine_options options = test_engine_options(&te, FERRY_LOOP_EMBEDDED);
    options.inline_copy_bytes = inline_copy_bytes;
    test_engine_create(&te, &options);
    ferry_buffer *dst = test_buffer(&te, 0, BYTES, 0), *src = test_buffer(&te, 1, BYTES, 0);
    for (size_t row_bytes = 0; row_bytes <= 8; row_bytes += 1 + row_bytes / 2)
        for (size_t count = 0; count <= 6; count++)
            for (size_t dst_gap = 0; dst_gap <= 3; dst_gap++)
                for (size_t src_gap = 0; src_gap <= 3; src_gap += 3)
                    check_shape(&te, dst, src,
                                (shape){row_bytes, count, 1 + src_gap, row_bytes + dst_gap,
                                        5 - dst_gap, row_bytes + src_gap});
    ferry_buffer_release(dst);
    ferry_buffer_release(src);
    test_engine_close(&te);
}

Test(rows, of_any_shape_arrive_and_nothing_else_is_touched)
{
    check_shapes(4096);
    check_shapes(1); /* on the stream */
}

Test(rows, the_pitch_of_one_row_or_none_means_nothing)
{
    fixture f;
    fixture_open(&f);
    for (size_t count = 0; count <= 1; count++) {
        ferry_future *copy = ferry_copy_rows(f.te.engine, span_of(f.matrix, 3, 4), 0,
                                             span_of(f.other, 7, 4), SIZE_MAX, count, NULL);
        ASSERT_STATUS(status_after_settling(&f, copy), FERRY_OK);
        cr_assert(is_filled(f.matrix, 3, 4, count == 0 ? 1 : 2));
    }
    cr_assert(is_filled(f.matrix, 0, 3, 1));
    cr_assert(is_filled(f.matrix, 7, BYTES - 7, 1));
    fixture_close(&f);
}

Test(rows, no_bytes_wait_for_after_alone)
{
    fixture f;
    fixture_open(&f);
    ferry_future *writer = held_write(&f, 0, PITCH), *after = ferry_promise_future(f.held);
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    ferry_span none = span_of(f.matrix, 3, 0), some = span_of(f.matrix, 3, 2);
    ferry_span none_src = span_of(f.other, 3, 0), some_src = span_of(f.other, 3, 2);
    ASSERT_STATUS(status_of(ferry_copy_rows(f.te.engine, none, 5, none_src, 5, LINES, &options)),
                  FERRY_OK);
    ASSERT_STATUS(status_of(ferry_copy_rows(f.te.engine, some, 5, some_src, 5, 0, &options)),
                  FERRY_OK);
    options.after = &after;
    options.after_count = 1;
    ferry_future *waiting = ferry_copy_rows(f.te.engine, none, 5, none_src, 5, LINES, &options);
    settle(&f.te);
    ASSERT_STATUS(ferry_future_poll(waiting), FERRY_PENDING);
    ASSERT_STATUS(ferry_promise_resolve(f.held, FERRY_E_FAILED, "on purpose"), FERRY_OK);
    ASSERT_STATUS(status_after_settling(&f, waiting), FERRY_E_DEPENDENCY);
    ferry_future_release(after);
    ferry_future_release(writer);
    fixture_close(&f);
}

static void take_size(void *arg, const ferry_trace_record *record)
{
    uint64_t *size_bytes = arg;
    *size_bytes = record->size_bytes;
}

Test(rows, the_trace_tells_all_their_bytes)
{
    fixture f;
    fixture_open(&f);
    uint64_t size_bytes = 0;
    ferry_trace_hooks hooks = {
        .struct_size = sizeof hooks, .record = take_size, .arg = &size_bytes};
    ASSERT_STATUS(ferry_engine_trace(f.te.engine, &hooks), FERRY_OK);
    ASSERT_STATUS(status_after_settling(&f, write_columns(&f, 2, 5, NULL)), FERRY_OK);
    cr_assert_eq(size_bytes, 3 * LINES);
    ASSERT_STATUS(ferry_engine_trace(f.te.engine, NULL), FERRY_OK);
    fixture_close(&f);
}

/* ---- hazards ---- */

Test(rows, copies_of_other_columns_do_not_wait)
{
    fixture f;
    fixture_open(&f);
    ferry_future *held = held_write(&f, 3, 6);
    ferry_future *left = write_columns(&f, 0, 3, NULL), *right = write_columns(&f, 6, 10, NULL);
    settle(&f.te);
    ASSERT_STATUS(ferry_future_poll(held), FERRY_PENDING);
    ASSERT_STATUS(status_of(left), FERRY_OK);
    ASSERT_STATUS(status_of(right), FERRY_OK);
    for (size_t line = 0; line < LINES; line++) {
        cr_assert(is_filled(f.matrix, line * PITCH, 3, 2));
        cr_assert(is_filled(f.matrix, line * PITCH + 3, 3, 1));
        cr_assert(is_filled(f.matrix, line * PITCH + 6, 4, 2));
    }
    ferry_future *same = write_columns(&f, 5, 7, NULL), *all = write_columns(&f, 0, 10, NULL);
    settle(&f.te);
    ASSERT_STATUS(ferry_future_poll(same), FERRY_PENDING);
    ASSERT_STATUS(ferry_future_poll(all), FERRY_PENDING);
    ASSERT_STATUS(ferry_promise_resolve(f.held, FERRY_OK, NULL), FERRY_OK);
    settle(&f.te);
    ASSERT_STATUS(status_of(held), FERRY_OK);
    ASSERT_STATUS(status_of(same), FERRY_OK);
    ASSERT_STATUS(status_of(all), FERRY_OK);
    cr_assert(is_filled(f.matrix, 0, BYTES, 2));
    fixture_close(&f);
}

Test(rows, what_comes_later_waits_for_their_bytes_and_no_others)
{
    fixture f;
    fixture_open(&f);
    ferry_future *held = held_write(&f, 3, 6);
    assert_columns_wait(&f, FERRY_READ, 3, 6);
    assert_columns_wait(&f, FERRY_WRITE, 3, 6);
    ferry_future_release(held);
    fixture_close(&f);
}

Test(rows, that_are_read_hold_writers_of_their_bytes_alone)
{
    fixture f;
    fixture_open(&f);
    ferry_future *after = ferry_promise_future(f.held);
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = &after;
    options.after_count = 1;
    ferry_future *held = ferry_copy_rows(f.te.engine, span_of(f.other, 0, 2), 2,
                                         span_of(f.matrix, 7, 2), PITCH, LINES, &options);
    assert_columns_wait(&f, FERRY_READ, 0, 0);
    assert_columns_wait(&f, FERRY_WRITE, 7, 9);
    ferry_future_release(held);
    ferry_future_release(after);
    fixture_close(&f);
}

/* A function at one byte of the matrix holds a copy if that is in one of its rows. */
Test(rows, wait_for_who_is_at_one_of_them)
{
    for (size_t at = 0; at < BYTES; at++) {
        fixture f;
        fixture_open(&f);
        ferry_future *reader = call_on(&f.te, &f.executor.executor, count_call, &f.calls,
                                       span_of(f.matrix, at, 1), FERRY_READ);
        ferry_future *copy = write_columns(&f, 4, 6, NULL);
        settle(&f.te);
        bool is_within = at % PITCH == 4 || at % PITCH == 5;
        ASSERT_STATUS(ferry_future_poll(copy), is_within ? FERRY_PENDING : FERRY_OK);
        cr_assert_eq(is_filled(f.matrix, 4, 2, 1), is_within, "no byte of it comes early");
        manual_run_one(&f.executor);
        settle(&f.te);
        ASSERT_STATUS(status_of(copy), FERRY_OK);
        ASSERT_STATUS(status_of(reader), FERRY_OK);
        fixture_close(&f);
    }
}

/* Columns go round: each copy reads what the one before wrote, within one matrix. */
Test(rows, columns_move_within_one_matrix)
{
    fixture f;
    fixture_open(&f);
    unsigned char *bytes = ferry_buffer_data(f.matrix);
    for (size_t i = 0; i < BYTES; i++)
        bytes[i] = (unsigned char)i;
    ferry_future *copies[4];
    ferry_future *after = ferry_promise_future(f.held);
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = &after;
    options.after_count = 1;
    for (size_t i = 0; i < 4; i++)
        copies[i] =
            ferry_copy_rows(f.te.engine, span_of(f.matrix, 2 * i + 2, 2), PITCH,
                            span_of(f.matrix, 2 * i, 2), PITCH, LINES, i == 0 ? &options : NULL);
    settle(&f.te);
    ASSERT_STATUS(ferry_future_poll(copies[3]), FERRY_PENDING);
    ASSERT_STATUS(ferry_promise_resolve(f.held, FERRY_OK, NULL), FERRY_OK);
    for (size_t i = 0; i < 4; i++)
        ASSERT_STATUS(status_after_settling(&f, copies[i]), FERRY_OK);
    for (size_t i = 0; i < BYTES; i++)
        cr_assert_eq(bytes[i], i / PITCH * PITCH + i % 2);
    ferry_future_release(after);
    fixture_close(&f);
}

Test(rows, more_accesses_may_be_named)
{
    fixture f;
    fixture_open(&f);
    ferry_access access = {span_of(f.matrix, 9, 1), FERRY_READ};
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.accesses = &access;
    options.access_count = 1;
    ferry_future *held = held_write(&f, 9, 10);
    ferry_future *copy = ferry_copy_rows(f.te.engine, span_of(f.matrix, 0, 2), PITCH,
                                         span_of(f.other, 0, 2), PITCH, LINES, &options);
    settle(&f.te);
    ASSERT_STATUS(ferry_future_poll(copy), FERRY_PENDING);
    ASSERT_STATUS(ferry_promise_resolve(f.held, FERRY_OK, NULL), FERRY_OK);
    ASSERT_STATUS(status_after_settling(&f, copy), FERRY_OK);
    ferry_future_release(held);
    fixture_close(&f);
}

Test(rows, buffers_released_early_are_used_to_the_end)
{
    fixture f;
    fixture_open(&f);
    ferry_buffer *src = test_buffer(&f.te, 2, 4 * LINES, 7);
    ferry_future *after = ferry_promise_future(f.held);
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = &after;
    options.after_count = 1;
    ferry_future *copy = ferry_copy_rows(f.te.engine, span_of(f.matrix, 1, 3), PITCH,
                                         span_of(src, 0, 3), 4, LINES, &options);
    ferry_buffer_release(src);
    settle(&f.te);
    ASSERT_STATUS(ferry_promise_resolve(f.held, FERRY_OK, NULL), FERRY_OK);
    ASSERT_STATUS(status_after_settling(&f, copy), FERRY_OK);
    cr_assert(is_filled(f.matrix, (LINES - 1) * PITCH + 1, 3, 7));
    ferry_future_release(after);
    fixture_close(&f);
}

/* ---- poison ---- */

Test(rows, that_failed_are_poisoned_and_nothing_else)
{
    fixture f;
    fixture_open(&f);
    ferry_future *write = held_write(&f, 3, 6);
    ASSERT_STATUS(ferry_future_cancel(write), FERRY_OK);
    ASSERT_STATUS(status_after_settling(&f, write), FERRY_E_CANCELLED);
    assert_columns_poisoned(&f, 3, 6);
    ASSERT_STATUS(status_after_settling(&f, write_columns(&f, 4, 5, NULL)), FERRY_OK);
    ASSERT_STATUS(status_after_settling(&f, touch(&f, 2, 4, FERRY_READ)), FERRY_OK);
    ASSERT_STATUS(status_after_settling(&f, touch(&f, 2, 3, FERRY_READ)), FERRY_E_DEPENDENCY);
    ASSERT_STATUS(status_after_settling(&f, touch(&f, 2, 5, FERRY_READ)), FERRY_E_DEPENDENCY);
    ASSERT_STATUS(status_after_settling(&f, write_columns(&f, 2, 7, NULL)), FERRY_OK);
    assert_columns_poisoned(&f, 0, 0);
    fixture_close(&f);
}

Test(rows, that_read_poison_share_it_and_those_beside_it_do_not)
{
    fixture f;
    fixture_open(&f);
    ferry_future *write = held_write(&f, 3, 6);
    ASSERT_STATUS(ferry_future_cancel(write), FERRY_OK);
    settle(&f.te);
    ferry_future *beside = ferry_copy_rows(f.te.engine, span_of(f.other, 0, 3), PITCH,
                                           span_of(f.matrix, 6, 3), PITCH, LINES, NULL);
    ASSERT_STATUS(status_after_settling(&f, beside), FERRY_OK);
    ferry_future *within = ferry_copy_rows(f.te.engine, span_of(f.other, 6, 3), PITCH,
                                           span_of(f.matrix, 5, 3), PITCH, LINES, NULL);
    settle(&f.te);
    ASSERT_STATUS(ferry_future_poll(within), FERRY_E_DEPENDENCY);
    cr_assert_eq(ferry_future_error(within)->cause->op, ferry_future_id(write));
    ferry_future_release(within);
    ferry_future_release(write);
    ferry_buffer *matrix = f.matrix;
    f.matrix = f.other; /* now that is poisoned where the copy would have written */
    assert_columns_poisoned(&f, 6, 9);
    f.matrix = matrix;
    fixture_close(&f);
}

enum { FEW = 8 };

/* Every node is taken: what is submitted meanwhile is refused. */
static size_t take_all_nodes(fixture *f, ferry_promise *promises[FEW])
{
    ferry_engine_options options = test_engine_options(&f->te, FERRY_LOOP_EMBEDDED);
    options.max_nodes = FEW;
    test_engine_create(&f->te, &options);
    f->matrix = test_buffer(&f->te, 0, BYTES, 1);
    f->other = test_buffer(&f->te, 1, BYTES, 2);
    f->held = NULL;
    size_t count = 0;
    while (count < FEW && ferry_promise_create(f->te.engine, &promises[count]) == FERRY_OK)
        count++;
    ferry_promise *more = NULL;
    ASSERT_STATUS(ferry_promise_create(f->te.engine, &more), FERRY_E_AGAIN);
    return count;
}

Test(rows, that_were_refused_are_poisoned_and_nothing_else)
{
    fixture f;
    ferry_promise *promises[FEW];
    size_t count = take_all_nodes(&f, promises);
    ASSERT_STATUS(status_of(write_columns(&f, 3, 6, NULL)), FERRY_E_AGAIN);
    while (count > 0)
        ferry_promise_release(promises[--count]);
    settle(&f.te);
    assert_columns_poisoned(&f, 3, 6);
    ASSERT_STATUS(status_after_settling(&f, write_columns(&f, 3, 6, NULL)), FERRY_OK);
    assert_columns_poisoned(&f, 0, 0);
    fixture_close(&f);
}

/* No more can be taken apart than the reserve holds; then the whole buffer is poisoned. */
Test(rows, refused_many_times_are_poisoned_at_least)
{
    fixture f;
    ferry_promise *promises[FEW];
    size_t count = take_all_nodes(&f, promises);
    for (int i = 0; i < 100; i++)
        ASSERT_STATUS(status_of(write_columns(&f, 3, 6, NULL)), FERRY_E_AGAIN);
    while (count > 0)
        ferry_promise_release(promises[--count]);
    settle(&f.te);
    for (size_t line = 0; line < LINES; line++)
        ASSERT_STATUS(status_after_settling(&f, touch(&f, line, 4, FERRY_READ)),
                      FERRY_E_DEPENDENCY);
    ASSERT_STATUS(status_after_settling(&f, ferry_copy(f.te.engine, ferry_buffer_span(f.matrix),
                                                       ferry_buffer_span(f.other), NULL)),
                  FERRY_OK);
    assert_columns_poisoned(&f, 0, 0);
    fixture_close(&f);
}

/* As with any operation that finds no room to list its accesses. */
Test(rows, that_find_no_room_fail_and_poison_their_buffer)
{
    fixture f;
    ferry_engine_options options = test_engine_options(&f.te, FERRY_LOOP_EMBEDDED);
    options.max_accesses = 100;
    test_engine_create(&f.te, &options);
    f.matrix = test_buffer(&f.te, 0, 1000, 1);
    f.other = test_buffer(&f.te, 1, 1000, 2);
    f.held = test_promise(&f.te);
    ferry_future *after = ferry_promise_future(f.held);
    ferry_op_options held = FERRY_OP_OPTIONS_INIT;
    held.after = &after;
    held.after_count = 1;
    ferry_future *few = ferry_copy_rows(f.te.engine, span_of(f.matrix, 0, 1), 2,
                                        span_of(f.other, 0, 1), 2, 40, &held);
    ferry_future *many = ferry_copy_rows(f.te.engine, span_of(f.matrix, 100, 1), 2,
                                         span_of(f.other, 100, 1), 2, 45, &held);
    settle(&f.te);
    ASSERT_STATUS(ferry_future_poll(few), FERRY_PENDING);
    ASSERT_STATUS(status_of(many), FERRY_E_AGAIN);
    ASSERT_STATUS(status_after_settling(&f, touch(&f, 90, 0, FERRY_READ)), FERRY_E_DEPENDENCY);
    ASSERT_STATUS(ferry_promise_resolve(f.held, FERRY_OK, NULL), FERRY_OK);
    ASSERT_STATUS(status_after_settling(&f, few), FERRY_OK);
    ASSERT_STATUS(status_after_settling(&f, ferry_copy(f.te.engine, ferry_buffer_span(f.matrix),
                                                       ferry_buffer_span(f.other), NULL)),
                  FERRY_OK);
    ASSERT_STATUS(status_after_settling(&f, touch(&f, 90, 0, FERRY_READ)), FERRY_OK);
    ferry_future_release(after);
    fixture_close(&f);
}

/* ---- what is refused ---- */

static char log_line[256];

static void keep_line(void *arg, ferry_log_level level, const char *line)
{
    (void)arg, (void)level;
    (void)strncpy(log_line, line, sizeof log_line - 1);
}

static void fixture_open_logged(fixture *f)
{
    ferry_engine_options options = test_engine_options(&f->te, FERRY_LOOP_EMBEDDED);
    options.log = keep_line;
    test_engine_create(&f->te, &options);
    f->matrix = test_buffer(&f->te, 0, BYTES, 1);
    f->other = test_buffer(&f->te, 1, BYTES, 2);
    f->held = test_promise(&f->te);
}

static void assert_refused(ferry_future *future, const char *why)
{
    cr_assert_not_null(strstr(ferry_future_error(future)->message, why));
    ASSERT_STATUS(status_of(future), FERRY_E_INVALID);
    cr_assert_not_null(strstr(log_line, why), "it says: %s", log_line);
    log_line[0] = '\0';
}

Test(rows, bad_ones_are_refused_and_the_log_says_why)
{
    static const struct {
        size_t offset_bytes, size_bytes, pitch_bytes, count;
        const char *why;
    } cases[] = {
        {0, 5, 4, 2, "a pitch is smaller than its rows"},
        {0, 5, 0, 2, "a pitch is smaller than its rows"},
        {0, BYTES + 1, BYTES + 1, 1, "a span reaches past the end"},
        {0, 10, 10, LINES + 1, "the last row reaches past the end"},
        {1, 10, 10, LINES, "the last row reaches past the end"},
        {0, 4, 11, LINES, "the last row reaches past the end"},
        {0, 1, BYTES, 2, "the last row reaches past the end"},
        {0, 1, SIZE_MAX, 2, "the last row reaches past the end"},
        {0, 1, 2, SIZE_MAX / 2 + 1, "the last row reaches past the end"},
        {0, 1, 2, SIZE_MAX / 2 + 2, "overflows a size_t"},
        {0, 1, SIZE_MAX, 3, "overflows a size_t"},
        {0, 1, SIZE_MAX, SIZE_MAX, "overflows a size_t"},
        {0, 1, 1, SIZE_MAX, "the last row reaches past the end"},
    };
    fixture f;
    fixture_open_logged(&f);
    ferry_buffer *large = test_buffer(&f.te, 2, 1 << 20, 3);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ferry_span bad = span_of(f.matrix, cases[i].offset_bytes, cases[i].size_bytes);
        ferry_span good = span_of(large, 0, cases[i].size_bytes);
        size_t pitch = cases[i].pitch_bytes, count = cases[i].count;
        size_t fine = count <= 1000 ? 1000 : cases[i].size_bytes;
        assert_refused(ferry_copy_rows(f.te.engine, bad, pitch, good, fine, count, NULL),
                       cases[i].why);
        if (count <= 1000) /* else the first it looks at is wrong too */
            assert_refused(ferry_copy_rows(f.te.engine, good, fine, bad, pitch, count, NULL),
                           cases[i].why);
    }
    assert_refused(
        ferry_copy_rows(f.te.engine, span_of(f.matrix, 0, 2), 4, span_of(large, 0, 3), 4, 2, NULL),
        "differ in size");
    assert_refused(ferry_copy_rows(f.te.engine, span_of(f.matrix, 0, 2), 4,
                                   (ferry_span){NULL, 0, 2}, 4, 2, NULL),
                   "the buffer of a span is NULL");
    assert_columns_poisoned(&f, 0, 0);
    cr_assert(is_filled(f.matrix, 0, BYTES, 1));
    ferry_buffer_release(large);
    fixture_close(&f);
}

static bool do_meet(shape s)
{
    bool is_written[256] = {false};
    for (size_t row = 0; row < s.count; row++)
        for (size_t i = 0; i < s.row_bytes; i++)
            is_written[s.dst_at + row * s.dst_pitch + i] = true;
    for (size_t row = 0; row < s.count; row++)
        for (size_t i = 0; i < s.row_bytes; i++)
            if (is_written[s.src_at + row * s.src_pitch + i])
                return true;
    return false;
}

/* Of every small shape within one buffer, whether it is refused is whether a byte is in both. */
Test(rows, that_overlap_are_refused_byte_for_byte)
{
    fixture f;
    fixture_open_logged(&f);
    size_t refused = 0, accepted = 0;
    for (unsigned seed = 1, i = 0; i < 20000; i++) {
        shape s = {.row_bytes = 1 + (size_t)rand_r(&seed) % 5,
                   .count = 2 + (size_t)rand_r(&seed) % 5};
        s.dst_pitch = s.row_bytes + (size_t)rand_r(&seed) % 6;
        s.src_pitch =
            rand_r(&seed) % 2 == 0 ? s.dst_pitch : s.row_bytes + (size_t)rand_r(&seed) % 6;
        s.dst_at = (size_t)rand_r(&seed) % 19;
        s.src_at = (size_t)rand_r(&seed) % 19;
        ferry_status status = status_of(
            ferry_copy_rows(f.te.engine, span_of(f.matrix, s.dst_at, s.row_bytes), s.dst_pitch,
                            span_of(f.matrix, s.src_at, s.row_bytes), s.src_pitch, s.count, NULL));
        ASSERT_STATUS(status, do_meet(s) ? FERRY_E_INVALID : FERRY_OK);
        refused += status != FERRY_OK;
        accepted += status == FERRY_OK;
    }
    cr_assert_gt(refused, 1000);
    cr_assert_gt(accepted, 1000);
    cr_assert_not_null(strstr(log_line, "dst and src overlap"));
    fixture_close(&f);
}

/* ---- many ---- */

Test(rows, as_many_as_the_header_allows_work)
{
    test_engine te;
    ferry_engine_options options = test_engine_options(&te, FERRY_LOOP_EMBEDDED);
    options.log = keep_line;
    test_engine_create(&te, &options);
    enum { MANY = 1 << 16 };
    ferry_buffer *dst = test_buffer(&te, 0, 3 * MANY + 3, 0),
                 *src = test_buffer(&te, 1, 3 * MANY + 3, 4);
    ferry_promise *promise = test_promise(&te);
    int64_t before_bytes = failing_allocator_live_bytes(&te.memory);
    ferry_future *after = ferry_promise_future(promise);
    ferry_op_options held = FERRY_OP_OPTIONS_INIT;
    held.after = &after;
    held.after_count = 1;
    ferry_future *copy =
        ferry_copy_rows(te.engine, span_of(dst, 0, 1), 3, span_of(src, 0, 1), 3, MANY, &held);
    ferry_future *beside =
        ferry_copy_rows(te.engine, span_of(dst, 1, 1), 3, span_of(src, 1, 1), 3, MANY, NULL);
    ASSERT_STATUS(ferry_future_wait(beside, -1), FERRY_OK);
    int64_t a_row = (failing_allocator_live_bytes(&te.memory) - before_bytes) / MANY;
    cr_assert_lt(a_row, 1024, "%lld bytes a row", (long long)a_row);
    keep_promise(promise, FERRY_OK);
    ASSERT_STATUS(ferry_future_wait(copy, -1), FERRY_OK);
    const unsigned char *bytes = ferry_buffer_data(dst);
    for (size_t i = 0; i < 3 * MANY; i++)
        cr_assert_eq(bytes[i], i % 3 == 2 ? 0 : 4);
    ferry_future_release(copy);
    ferry_future_release(beside);
    ferry_future_release(after);

    assert_refused(
        ferry_copy_rows(te.engine, span_of(dst, 0, 1), 3, span_of(src, 0, 1), 1, MANY + 1, NULL),
        "row_count is above 65536");
    assert_refused(
        ferry_copy_rows(te.engine, span_of(dst, 0, 1), 1, span_of(src, 0, 1), 2, MANY + 1, NULL),
        "row_count is above 65536");
    /* Without gaps they are one span, however many they are. */
    copy = ferry_copy_rows(te.engine, span_of(dst, 0, 1), 1, span_of(src, 0, 1), 1, 3 * MANY, NULL);
    ASSERT_STATUS(ferry_future_wait(copy, -1), FERRY_OK);
    cr_assert(is_filled(dst, 0, 3 * MANY, 4));
    cr_assert(is_filled(dst, 3 * MANY, 3, 0));
    ferry_future_release(copy);
    ferry_buffer_release(dst);
    ferry_buffer_release(src);
    test_engine_close(&te);
}
