/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of batches share, beside api_test.h. */
#ifndef FERRY_TESTS_BATCH_TEST_H
#define FERRY_TESTS_BATCH_TEST_H

#include "tests/support/api_test.h"

enum { BIG = 65536, MANY = 1000, SLICE = 64 };

static inline ferry_op copy_op(ferry_span dst, ferry_span src)
{
    return (ferry_op){.kind = FERRY_OP_COPY, .dst = dst, .src = src};
}

static inline ferry_op call_op(ferry_call_fn fn, void *arg)
{
    return (ferry_op){.kind = FERRY_OP_CALL, .fn = fn, .arg = arg};
}

static inline ferry_op nop_op(void)
{
    return (ferry_op){.kind = FERRY_OP_NOP};
}

static inline ferry_future *submit(const test_engine *te, const ferry_op *ops, size_t count,
                                   ferry_future *each[], const ferry_op_options *options)
{
    ferry_future *all = ferry_batch(te->engine, ops, sizeof *ops, count, each, options);
    cr_assert_not_null(all);
    for (size_t i = 0; each != NULL && i < count; i++)
        cr_assert_not_null(each[i], "future %zu", i);
    return all;
}

/* Waits for the batch's future and gives it back. */
static inline ferry_status end_of(ferry_future *all)
{
    ferry_status status = ferry_future_wait(all, -1);
    ferry_future_release(all);
    return status;
}

static inline void release_all(ferry_future *each[], size_t count)
{
    for (size_t i = 0; i < count; i++)
        ferry_future_release(each[i]);
}

/* Waits until everything is quiet. */
static inline void drain(const test_engine *te)
{
    ASSERT_STATUS(end_of(ferry_engine_drain(te->engine)), FERRY_OK);
}

static inline ferry_op_options after_one(ferry_future *const *after)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = after;
    options.after_count = 1;
    return options;
}

typedef struct slices {
    test_engine te;
    ferry_buffer *src, *dst;
    ferry_op ops[MANY];
    ferry_future *each[MANY];
} slices;

/* MANY small copies between disjoint slices. */
static inline void slices_open(slices *s, const ferry_engine_options *options)
{
    test_engine_create(&s->te, options);
    s->src = test_buffer(&s->te, 0, (size_t)MANY * SLICE, 7);
    s->dst = test_buffer(&s->te, 1, (size_t)MANY * SLICE, 0);
    for (size_t i = 0; i < MANY; i++)
        s->ops[i] = copy_op(span_of(s->dst, i * SLICE, SLICE), span_of(s->src, i * SLICE, SLICE));
}

static inline void slices_close(slices *s)
{
    ferry_buffer_release(s->src);
    ferry_buffer_release(s->dst);
    test_engine_close(&s->te);
}

static inline void slices_open_with(slices *s, ferry_loop_mode loop)
{
    ferry_engine_options options = test_engine_options(&s->te, loop);
    slices_open(s, &options);
}

/* Columns of a matrix: `columns` bytes from `column` on, of so many rows of `pitch` bytes. */
static inline ferry_op columns_op(ferry_buffer *dst, ferry_buffer *src, size_t column,
                                  size_t columns, size_t pitch, size_t rows)
{
    return (ferry_op){.kind = FERRY_OP_COPY,
                      .dst = span_of(dst, column, columns),
                      .src = span_of(src, column, columns),
                      .row_count = rows,
                      .dst_pitch_bytes = pitch,
                      .src_pitch_bytes = pitch};
}

#endif
