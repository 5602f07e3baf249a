/* SPDX-License-Identifier: Apache-2.0 */
/* Batches: as if submitted one by one in the order of the array, with one future for all. */
#include "tests/support/batch_test.h"

#include <stddef.h>
#include <stdlib.h>

SCENE_SUITE(batch);

/* ---- order ---- */

/* Through four buffers and back, in one batch; each copy is ordered behind the one before. */
static void copy_along(ferry_loop_mode loop, size_t size, bool with_each)
{
    scene_begin(loop);
    ferry_buffer *buffers[4];
    for (size_t i = 0; i < 4; i++)
        buffers[i] = own(test_buffer(scene(), i, size, (int)i + 1));
    ferry_op ops[6];
    static const size_t way[] = {0, 1, 2, 3, 2, 1, 0};
    for (size_t i = 0; i < 6; i++)
        ops[i] =
            copy_op(ferry_buffer_span(buffers[way[i + 1]]), ferry_buffer_span(buffers[way[i]]));
    ops[2].src = span_of(buffers[2], 1, size - 1);
    ops[2].dst = span_of(buffers[3], 1, size - 1); /* the first byte of the last stays a 4 */
    ferry_future *each[6];
    WAIT(submit(ops, 6, with_each ? each : NULL, NULL), OK);
    for (size_t i = 0; i < 4; i++) {
        cr_assert(is_filled(buffers[i], 0, 1, 4), "buffer %zu", i);
        cr_assert(is_filled(buffers[i], 1, size - 1, 1), "buffer %zu", i);
    }
    for (size_t i = 0; with_each && i < 6; i++)
        ASSERT_STATUS(ferry_future_poll(each[i]), FERRY_OK);
    scene_end();
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
    scene_begin(FERRY_LOOP_THREAD);
    ferry_buffer *buffer = own(test_buffer(scene(), 0, SLICE, 0));
    digits sum = {0};
    digit parts[9];
    ferry_access access = {ferry_buffer_span(buffer), FERRY_READ_WRITE};
    ferry_op_options options = touching(&access, 1);
    ferry_op ops[9];
    for (size_t i = 0; i < 9; i++) {
        parts[i] = (digit){&sum, i + 1};
        ops[i] = call_op(add_digit, &parts[i]);
        ops[i].options = &options;
    }
    WAIT(submit(ops, 9, NULL, NULL), OK);
    cr_assert_eq(sum.number, 123456789);
}

/* What was submitted before it comes before it, what comes after it after. */
Test(batch, it_has_its_place_among_others)
{
    play("buffer from 64 of 1; buffer by_way 64 of 2 on 1; buffer to 64 of 3 on 2; promise p;"
         "copy by_way <- from after p; b = batch copy to <- by_way;"
         "behind = copy from[0:10] <- to[0:10]; now b behind PENDING; keep p;"
         "wait behind b OK; bytes to 1");
}

/* The columns of a matrix one by one, and then all of it on to a third place. */
static void copy_columns(ferry_loop_mode loop, size_t rows, bool with_each)
{
    enum { COLUMNS = 16 };
    scene_begin(loop);
    play("buffer from %zu of 1; buffer by_way %zu of 2 on 1; buffer to %zu of 3 on 2",
         rows * COLUMNS, rows * COLUMNS, rows * COLUMNS);
    ferry_op ops[COLUMNS + 1];
    ferry_future *each[COLUMNS + 1];
    for (size_t i = 0; i < COLUMNS; i++)
        ops[i] = columns_op(the_buffer("by_way"), the_buffer("from"), i, 1, COLUMNS, rows);
    ops[COLUMNS] = columns_op(the_buffer("to"), the_buffer("by_way"), 0, COLUMNS, COLUMNS, rows);
    WAIT(submit(ops, COLUMNS + 1, with_each ? each : NULL, NULL), OK); /* the last without gaps */
    play("bytes by_way 1; bytes to 1");
    scene_end();
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
    play("buffer src 64 of 1; buffer dst 64 on 1;"
         "batch rows 0 dst[0:8] pitch 1 <- src[0:8] pitch 1 ,"
         " rows 1 dst[8:16] pitch 1 <- src[8:16] pitch 1;"
         "now it OK; bytes dst[0:16] 1; bytes dst[16:64] 0");
}

/* ---- many ---- */

Test(batch, small_copies_are_done_on_return)
{
    static slices s;
    slices_open(&s);
    ferry_future *all = submit(s.ops, MANY, NULL, NULL);
    EXPECT_NOW(all, OK);
    play("bytes dst 7");
}

static int compare_ids(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

Test(batch, each_of_many_small_copies_has_a_whole_future)
{
    static slices s;
    static uint64_t ids[MANY + 1];
    slices_open(&s);
    ferry_future *all = submit(s.ops, MANY, s.each, NULL);
    ids[MANY] = ferry_future_id(all);
    settle_gpus(scene());
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
    ASSERT_STATUS(status_of(ferry_future_all(engine(), s.each, MANY)), FERRY_OK);
    ASSERT_STATUS(status_of(ferry_future_any(engine(), s.each, MANY)), FERRY_OK);
    const counted_waiter *waiter = on_ready(s.each[2], NULL);
    scene_settle();
    cr_assert_eq(waiter->calls, 1);
    ferry_future *kept = ferry_future_retain(s.each[3]);
    ferry_future_release(s.each[3]);
    EXPECT_NOW(kept, OK);
    EXPECT_NOW(all, OK);
}

/* Nothing small is left to be done at once: all of them wait for the first. */
static void copies_that_wait(ferry_loop_mode loop, bool with_each)
{
    static slices s;
    scene_begin(loop);
    slices_open(&s);
    play("promise p; held = copy src <- dst after p");
    ferry_future *all = submit(s.ops, MANY, with_each ? s.each : NULL, NULL);
    ASSERT_STATUS(ferry_future_poll(all), FERRY_PENDING);
    for (size_t i = 0; with_each && i < MANY; i++)
        ASSERT_STATUS(ferry_future_poll(s.each[i]), FERRY_PENDING);
    play("fill dst 9; keep p"); /* nobody is at it yet */
    WAIT(all, OK);
    play("now held OK; bytes dst 9");
    scene_end();
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
    scene_begin(FERRY_LOOP_THREAD);
    slices_open(&s);
    for (size_t i = 0; i < MANY; i++) {
        if (i % 3 == 1)
            s.ops[i] = call_op(count_call, scene_calls());
        else if (i % 7 == 2)
            s.ops[i] = nop_op();
        else if (i % 50 == 0)
            s.ops[i].dst.size_bytes = s.ops[i].src.size_bytes = 0;
    }
    for (int round = 0; round < 20; round++) {
        ferry_future **each = round % 2 == 0 ? s.each : NULL;
        atomic_store(scene_calls(), 0);
        WAIT(submit(s.ops, MANY, each, NULL), OK);
        cr_assert_eq(*scene_calls(), (MANY + 1) / 3);
    }
}

Test(batch, without_each_it_goes_a_long_way_with_few_nodes)
{
    scene_options(FERRY_LOOP_EMBEDDED)->max_nodes = 20;
    static ferry_op ops[MANY];
    ferry_op_options late = FERRY_OP_OPTIONS_INIT;
    late.deadline_ns = START_NS + 1;
    for (size_t i = 0; i < MANY; i++)
        ops[i] = nop_op();
    EXPECT_NOW(submit(ops, MANY, NULL, NULL), OK);
    EXPECT_NOW(submit(ops, MANY, NULL, &late), OK);
}

Test(batch, zero_operations_resolve_when_after_has)
{
    play("batch; now it OK; promise good; promise bad; promise never; g = batch with after good;"
         "b = batch with after bad; now g b PENDING; keep good; expect g OK; keep bad FAILED;"
         "expect b DEPENDENCY; late = batch with after never deadline 10; step 10;"
         "expect late DEADLINE; keep never");
}

/* ---- options ---- */

Test(batch, its_deadline_is_that_of_operations_without_one)
{
    for (int with_each = 0; with_each < 2; with_each++) {
        play("promise p; b = batch %s nop , nop deadline 200 , nop , with after p deadline 100;"
             "expect b PENDING",
             with_each ? "each" : "");
        if (with_each)
            play("now b1 PENDING");
        play("step 100; expect b DEPENDENCY; cause b DEADLINE");
        if (with_each)
            play("cause b DEADLINE of b0; now b1 PENDING; step 100; expect b0 b1 b2 DEADLINE");
        else
            play("step 100; settle");
        play("keep p; drain; wait it OK");
        scene_end();
    }
}

/* Operations with deadlines that are met, beside such without. */
Test(batch, deadlines_that_are_met)
{
    static slices s;
    slices_open(&s);
    ferry_op_options later = FERRY_OP_OPTIONS_INIT;
    later.deadline_ns = START_NS + 1000000;
    for (size_t i = 0; i < MANY; i += 2)
        s.ops[i].options = &later;
    for (int with_each = 0; with_each < 2; with_each++) {
        play("fill dst 0");
        WAIT(submit(s.ops, MANY, with_each ? s.each : NULL, NULL), OK);
        play("bytes dst 7");
    }
}

Test(batch, its_after_is_added_to_each_operations_own)
{
    play("promise common; promise mine; b = batch each nop , nop after mine , with after common;"
         "keep common; expect b0 OK; expect b1 b PENDING; keep mine; expect b1 b OK");
}

/* With one that had failed at its submit, too: that future is static. */
Test(batch, a_failure_it_is_after_is_each_operations)
{
    static const char *const roots[] = {"FAILED", "INVALID"};
    play("promise f0; f1 = any; now f1 INVALID; keep f0 FAILED");
    for (int i = 0; i < 2; i++)
        play("b = batch each call , nop , with after f%d; calls 0;"
             "expect b b0 b1 DEPENDENCY; cause b %s; cause b0 %s; cause b1 %s;"
             "release b b0 b1; batch call , nop , with after f%d; expect it DEPENDENCY",
             i, roots[i], roots[i], roots[i], i);
}

Test(batch, its_label_is_that_of_operations_without_one)
{
    play("b = batch each call failing , call failing label bias , with label weights; settle");
    cr_assert_str_eq(ferry_future_error(the_future("b"))->label, "weights");
    cr_assert_str_eq(ferry_future_error(the_future("b0"))->label, "weights");
    cr_assert_str_eq(ferry_future_error(the_future("b1"))->label, "bias");
}

Test(batch, its_priority_is_that_of_operations_without_one)
{
    ferry_op_options low = FERRY_OP_OPTIONS_INIT, high = FERRY_OP_OPTIONS_INIT;
    low.priority = FERRY_PRIORITY_LOW;
    high.priority = FERRY_PRIORITY_HIGH;
    digits sum = {0};
    digit parts[3] = {{&sum, 3}, {&sum, 1}, {&sum, 2}};
    ferry_op ops[2] = {call_op(add_digit, &parts[0]), call_op(add_digit, &parts[1])};
    ops[1].options = &high;
    ferry_future *all = submit(ops, 2, NULL, &low);
    ferry_future_release(ferry_call(engine(), NULL, add_digit, &parts[2], NULL));
    scene_settle();
    cr_assert_eq(sum.number, 123);
    EXPECT_NOW(all, OK);
}

Test(batch, small_copies_with_a_label_are_done_on_return)
{
    static slices s;
    slices_open(&s);
    ferry_op_options own = FERRY_OP_OPTIONS_INIT;
    own.label = "slice";
    for (size_t i = 0; i < MANY; i++)
        s.ops[i].options = &own;
    EXPECT_NOW(submit(s.ops, MANY, NULL, NULL), OK);
    play("bytes dst 7");
}

/* ---- versions of the struct ---- */

Test(batch, operations_of_an_earlier_version)
{
    ferry_buffer *src = own(test_buffer(scene(), 0, SLICE, 1)),
                 *dst = own(test_buffer(scene(), 1, SLICE, 0));
    enum { BYTES = offsetof(ferry_op, executor) }; /* it knew copies only */
    static char ops[10 * BYTES];
    ferry_future *each[10];
    for (size_t i = 0; i < 10; i++) {
        ferry_op op = copy_op(span_of(dst, i, 1), span_of(src, i, 1));
        memcpy(ops + i * BYTES, &op, BYTES);
    }
    ferry_future *all =
        own(ferry_batch(engine(), (const ferry_op *)(const void *)ops, BYTES, 10, each, NULL));
    EXPECT_NOW(all, OK);
    for (size_t i = 0; i < 10; i++)
        EXPECT_NOW(own(each[i]), OK);
    cr_assert(is_filled(dst, 0, 10, 1));
    cr_assert(is_filled(dst, 10, SLICE - 10, 0));
}

Test(batch, operations_of_a_later_version)
{
    ferry_buffer *src = own(test_buffer(scene(), 0, SLICE, 1)),
                 *dst = own(test_buffer(scene(), 1, SLICE, 0));
    typedef struct later_op {
        ferry_op op;
        uint64_t more;
    } later_op;
    later_op ops[3] = {{copy_op(span_of(dst, 0, 1), span_of(src, 0, 1)), 0},
                       {copy_op(span_of(dst, 1, 1), span_of(src, 1, 1)), 5},
                       {copy_op(span_of(dst, 2, 1), span_of(src, 2, 1)), 0}};
    ferry_future *each[3];
    ferry_future *all = own(ferry_batch(engine(), &ops[0].op, sizeof ops[0], 3, each, NULL));
    ASSERT_STATUS(ferry_future_error(all)->cause->status, FERRY_E_INVALID);
    EXPECT_NOW(own(each[0]), OK);
    EXPECT_NOW(own(each[1]), E_INVALID);
    EXPECT_NOW(own(each[2]), OK);
    cr_assert(is_filled(dst, 0, 1, 1));
    cr_assert(is_filled(dst, 1, 1, 0));
    cr_assert(is_filled(dst, 2, 1, 1));
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
    slices_open(&s);
    ferry_trace_hooks hooks = {.struct_size = sizeof hooks, .record = take_record, .arg = &self};
    ASSERT_STATUS(ferry_engine_trace(engine(), &hooks), FERRY_OK);
    static const ferry_trace_what life[] = {FERRY_TRACE_SUBMITTED, FERRY_TRACE_READY,
                                            FERRY_TRACE_ISSUED,    FERRY_TRACE_FIRED,
                                            FERRY_TRACE_RESOLVED,  FERRY_TRACE_QUIET};
    for (int with_each = 0; with_each < 2; with_each++) {
        self.count = 0;
        ferry_future *all = submit(s.ops, MANY, with_each ? s.each : NULL, NULL);
        uint64_t id = ferry_future_id(all);
        EXPECT_NOW(all, OK);
        scene_settle();
        for (size_t i = 0; i < sizeof life / sizeof life[0]; i++)
            cr_assert_eq(count_records(&self, life[i], FERRY_OP_COPY), MANY, "%s",
                         ferry_trace_what_name(life[i]));
        cr_assert_eq(count_records(&self, FERRY_TRACE_RESOLVED, FERRY_OP_BATCH), 1);
        cr_assert_eq(self.records[self.count - 1].op, id);
        cr_assert_str_eq(ferry_op_kind_name((ferry_op_kind)self.records[self.count - 1].kind),
                         "batch");
    }
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
    self->all = submit(self->s->ops, MANY, NULL, NULL);
}

Test(batch, it_may_be_submitted_in_a_callback)
{
    static slices s;
    slices_open(&s);
    in_callback self = {.waiter = {.fn = submit_in_callback}, .s = &s};
    play("n = nop");
    ASSERT_STATUS(ferry_future_on_ready(the_future("n"), &self.waiter), FERRY_OK);
    scene_settle();
    EXPECT_NOW(self.all, OK);
    play("bytes dst 7");
}

Test(batch, buffers_and_futures_may_be_let_go_at_once)
{
    scene_begin(FERRY_LOOP_THREAD);
    for (int round = 0; round < 50; round++) {
        play("buffer src 65536 of 1; buffer dst 65536 on 1;"
             "b = batch %s copy dst <- src , copy src <- dst , nop; release b src dst",
             round % 2 == 0 ? "each" : "");
        if (round % 2 == 0)
            play("release b0 b1 b2");
    }
}

Test(batch, futures_outlive_the_engine)
{
    static slices s;
    slices_open(&s);
    ferry_future *all = submit(s.ops, MANY, s.each, NULL);
    settle_gpus(scene());
    play("release src dst");
    scene_leave();
    EXPECT_NOW(all, OK);
}

Test(batch, a_shutdown_ends_it_and_refuses_the_next)
{
    play(
        "promise p; b = batch each call , nop , with after p; c = batch call , nop , with after p");
    ASSERT_STATUS(ferry_engine_shutdown(engine(), -1), FERRY_OK);
    play("now b0 b1 SHUTDOWN");
    cr_assert_lt(ferry_future_poll(the_future("b")), 0);
    cr_assert_lt(ferry_future_poll(the_future("c")), 0);
    play("d = batch each call , nop; now d d0 d1 SHUTDOWN");
    cr_assert_eq(*scene_calls(), 0);
}
