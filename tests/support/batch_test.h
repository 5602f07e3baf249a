/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of batches share, beside the scene. */
#ifndef FERRY_TESTS_BATCH_TEST_H
#define FERRY_TESTS_BATCH_TEST_H

#include "tests/support/play.h"

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

/* The scene owns the future of all, and those of each. */
static inline ferry_future *submit(const ferry_op *ops, size_t count, ferry_future *each[],
                                   const ferry_op_options *options)
{
    ferry_future *all = ferry_batch(engine(), ops, sizeof *ops, count, each, options);
    cr_assert_not_null(all);
    for (size_t i = 0; each != NULL && i < count; i++)
        cr_assert_not_null(own(each[i]), "future %zu", i);
    return own(all);
}

/* Waits until everything is quiet. */
static inline void drain(void)
{
    WAIT(own(ferry_engine_drain(engine())), OK);
}

/* Options of what waits for the promise "p". */
static inline ferry_op_options behind_promise(void)
{
    static ferry_future *after;
    after = own(ferry_promise_future(the_promise("p")));
    return behind(&after, 1);
}

/* MANY small copies between disjoint slices of "src" and "dst". */
typedef struct slices {
    ferry_buffer *src, *dst;
    ferry_op ops[MANY];
    ferry_future *each[MANY];
} slices;

static inline void slices_open(slices *s)
{
    play("buffer src %d of 7; buffer dst %d on 1", MANY * SLICE, MANY * SLICE);
    s->src = the_buffer("src");
    s->dst = the_buffer("dst");
    for (size_t i = 0; i < MANY; i++)
        s->ops[i] = copy_op(span_of(s->dst, i * SLICE, SLICE), span_of(s->src, i * SLICE, SLICE));
}

#endif
