/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes that are refused when no node is left to stand for them: they poison their buffer for
 * those who come later in program order, and for nobody before. The test holds the baton as a loop
 * that does not come by, and takes the nodes that would stand for them.
 */
#include "engine/buffer.h"
#include "engine/context.h"
#include "engine/engine.h"
#include "engine/ground.h"
#include "engine/node.h"
#include "engine/refusal.h"
#include "engine/refused_mark.h"
#include "engine/turn.h"
#include "tests/support/api_test.h"
#include "tests/support/owned.h"

TestSuite(engine_refused_writes, .timeout = HANG_S);

enum { SIZE = 64, STAND_INS = 64, NODES = 40 };

typedef struct fixture {
    test_engine te;
    fry_node *stand_ins[STAND_INS];
    void *slots[NODES + 1]; /* so that there is no node */
    size_t slot_count;
    ferry_buffer *buffer, *other, *sink;
} fixture;

static void fixture_open(fixture *f, ferry_loop_mode loop)
{
    memset(f, 0, sizeof *f);
    ferry_engine_options options = test_engine_options(&f->te, loop);
    options.max_nodes = NODES;
    test_engine_create(&f->te, &options);
    f->buffer = test_buffer(&f->te, 0, SIZE, 1);
    f->other = test_buffer(&f->te, 1, SIZE, 2);
    f->sink = test_buffer(&f->te, 2, SIZE, 3);
    fry_context *context = fry_context_get(f->te.engine);
    for (size_t i = 0; i < STAND_INS; i++) {
        f->stand_ins[i] = fry_node_create_reserve(f->te.engine, context);
        cr_assert_not_null(f->stand_ins[i]);
    }
    cr_assert_null(fry_node_create_reserve(f->te.engine, context));
}

static void give_back(fixture *f)
{
    fry_context *context = fry_context_get(f->te.engine);
    for (size_t i = 0; i < STAND_INS; i++)
        fry_node_discard(f->te.engine, context, f->stand_ins[i]);
}

static void fixture_close(fixture *f)
{
    give_back(f);
    ferry_buffer_release(f->buffer);
    ferry_buffer_release(f->other);
    ferry_buffer_release(f->sink);
    test_engine_close(&f->te);
}

/* From now on whoever wants a node is refused. */
static void fill(fixture *f)
{
    ferry_engine *engine = f->te.engine;
    fry_context *context = fry_context_get(engine);
    while ((f->slots[f->slot_count] = fry_pool_take(&engine->nodes, &context->nodes)) != NULL)
        f->slot_count++;
}

static void empty(fixture *f)
{
    ferry_engine *engine = f->te.engine;
    fry_context *context = fry_context_get(engine);
    while (f->slot_count != 0)
        fry_pool_give(&engine->nodes, &context->nodes, f->slots[--f->slot_count]);
}

static void hold(const fixture *f)
{
    cr_assert(fry_baton_take(&f->te.engine->baton));
}

static void let_go(const fixture *f)
{
    fry_baton_give(&f->te.engine->baton);
    fry_wake(f->te.engine);
    settle(&f->te);
}

static ferry_future *read_of(const fixture *f, ferry_buffer *buffer)
{
    return ferry_copy(f->te.engine, ferry_buffer_span(f->sink), ferry_buffer_span(buffer), NULL);
}

static ferry_future *write_of(const fixture *f, ferry_buffer *buffer)
{
    return ferry_copy(f->te.engine, ferry_buffer_span(buffer), ferry_buffer_span(f->sink), NULL);
}

static void expect_refused(ferry_future *future, fry_refusal why)
{
    ASSERT_STATUS(ferry_future_poll(future), fry_refusal_status(why));
    cr_assert_eq(ferry_future_error(future), &fry_refusal_error(why)->public_, "\"%s\"",
                 ferry_future_error(future)->message);
    ferry_future_release(future);
}

static ferry_status end_of(const fixture *f, ferry_future *future)
{
    settle(&f->te);
    ferry_status status = ferry_future_wait(future, -1);
    ferry_future_release(future);
    return status;
}

/* It reads what a refused write was to write. */
static void expect_poisoned(const fixture *f, ferry_buffer *buffer)
{
    ferry_future *reader = read_of(f, buffer);
    settle(&f->te);
    ASSERT_STATUS(ferry_future_wait(reader, -1), FERRY_E_DEPENDENCY);
    cr_assert_eq(ferry_future_error(reader)->cause,
                 &fry_refusal_error(FRY_REFUSED_MAX_NODES)->public_);
    ferry_future_release(reader);
}

static void heal(const fixture *f, ferry_buffer *buffer)
{
    ASSERT_STATUS(ferry_buffer_define(ferry_buffer_span(buffer), NULL), FERRY_OK);
    settle(&f->te);
}

/* ---- in program order ---- */

Test(engine_refused_writes, come_between_who_is_before_and_who_is_after)
{
    OPENED_WITH(fixture, f, FERRY_LOOP_EMBEDDED);
    hold(&f);
    ferry_future *before = read_of(&f, f.buffer);
    fill(&f);
    expect_refused(write_of(&f, f.buffer), FRY_REFUSED_MAX_NODES);
    empty(&f);
    expect_refused(read_of(&f, f.buffer), FRY_REFUSED_BARRED); /* there is room, but not for it */
    expect_refused(read_of(&f, f.other), FRY_REFUSED_BARRED);  /* that one was to write the sink */
    _Atomic int calls = 0;
    ferry_future *aside =
        call_on(&f.te, NULL, count_call, &calls, ferry_buffer_span(f.other), FERRY_READ);
    let_go(&f);
    ASSERT_STATUS(end_of(&f, before), FERRY_OK);
    ASSERT_STATUS(end_of(&f, aside), FERRY_OK);
    expect_poisoned(&f, f.buffer);
    heal(&f, f.buffer);
    heal(&f, f.sink);
    ASSERT_STATUS(end_of(&f, read_of(&f, f.buffer)), FERRY_OK);
}

/* Of each sort of submit. */
Test(engine_refused_writes, bar_their_buffer_to_every_submit)
{
    OPENED_WITH(fixture, f, FERRY_LOOP_EMBEDDED);
    hold(&f);
    fill(&f);
    expect_refused(write_of(&f, f.buffer), FRY_REFUSED_MAX_NODES);
    empty(&f);
    ferry_engine *engine = f.te.engine;
    ferry_span span = span_of(f.buffer, 0, 8), there = span_of(f.other, 0, 8);
    ferry_access access = {span, FERRY_READ};
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.accesses = &access;
    options.access_count = 1;
    _Atomic int calls = 0;
    expect_refused(ferry_copy(engine, span, there, NULL), FRY_REFUSED_BARRED);
    expect_refused(ferry_copy_rows(engine, span, 16, there, 16, 2, NULL), FRY_REFUSED_BARRED);
    expect_refused(ferry_copy_rows(engine, there, 16, span, 16, 2, NULL), FRY_REFUSED_BARRED);
    expect_refused(ferry_nop(engine, &options), FRY_REFUSED_BARRED);
    expect_refused(ferry_call(engine, NULL, count_call, &calls, &options), FRY_REFUSED_BARRED);
    ASSERT_STATUS(ferry_buffer_define(span, NULL), FERRY_E_AGAIN);
    ferry_op ops[2] = {{.kind = FERRY_OP_COPY, .dst = there, .src = span}, {.kind = FERRY_OP_NOP}};
    ferry_future *each[2], *batch = ferry_batch(engine, ops, sizeof ops[0], 2, each, NULL);
    expect_refused(each[0], FRY_REFUSED_BARRED);
    let_go(&f);
    ASSERT_STATUS(end_of(&f, each[1]), FERRY_OK);
    cr_assert_eq(ferry_future_error(batch)->cause, &fry_refusal_error(FRY_REFUSED_BARRED)->public_);
    ferry_future_release(batch);
    cr_assert_eq(calls, 0);
    expect_poisoned(&f, f.buffer);
    ASSERT_STATUS(end_of(&f, read_of(&f, f.other)), FERRY_E_DEPENDENCY);
}

/* Many of one buffer and of several, some of them healed between; one after the other, and with the
 * mark on its way. */
Test(engine_refused_writes, take_their_places_one_after_the_other)
{
    OPENED_WITH(fixture, f, FERRY_LOOP_EMBEDDED);
    for (int round = 0; round < 20; round++) {
        hold(&f);
        ferry_future *before = read_of(&f, f.buffer);
        fill(&f);
        for (int i = 0; i < 100; i++)
            expect_refused(write_of(&f, i % 3 == 0 ? f.other : f.buffer),
                           i < 3 && i != 2 ? FRY_REFUSED_MAX_NODES : FRY_REFUSED_BARRED);
        if (round % 2 == 0)
            empty(&f);
        let_go(&f);
        empty(&f);
        settle(&f.te);
        ASSERT_STATUS(end_of(&f, before), FERRY_OK);
        expect_poisoned(&f, f.buffer);
        expect_poisoned(&f, f.other);
        heal(&f, f.buffer);
        heal(&f, f.other);
        heal(&f, f.sink);
        ASSERT_STATUS(end_of(&f, read_of(&f, f.buffer)), FERRY_OK);
        cr_assert_eq(f.te.engine->mark_is_pushed, 0);
    }
}

/* The mark has had its first turn, and another buffer is barred while it stands there again. */
Test(engine_refused_writes, of_buffers_that_are_barred_while_the_mark_is_on_its_way)
{
    OPENED_WITH(fixture, f, FERRY_LOOP_EMBEDDED);
    ferry_engine *engine = f.te.engine;
    fry_context *context = fry_context_get(engine);
    hold(&f);
    fill(&f);
    expect_refused(write_of(&f, f.buffer), FRY_REFUSED_MAX_NODES);
    fry_turn turn = {.engine = engine, .context = context};
    fry_link *item = fry_stack_take_all(&engine->inbox);
    cr_assert_eq(item, &engine->mark.link);
    fry_kind_mark.arrive(&turn, &engine->mark); /* it notes the buffer, and goes on */
    empty(&f);
    ferry_future *before = read_of(&f, f.other);
    fill(&f);
    expect_refused(write_of(&f, f.other), FRY_REFUSED_MAX_NODES);
    empty(&f);
    let_go(&f);
    ASSERT_STATUS(end_of(&f, before), FERRY_OK);
    expect_poisoned(&f, f.buffer);
    expect_poisoned(&f, f.other);
}

/* ---- who waits for room ---- */

Test(engine_refused_writes, room_comes_with_the_marks_turn)
{
    OPENED_WITH(fixture, f, FERRY_LOOP_EMBEDDED);
    hold(&f);
    fill(&f);
    expect_refused(write_of(&f, f.buffer), FRY_REFUSED_MAX_NODES);
    empty(&f);
    ASSERT_STATUS(status_of(ferry_engine_writable(f.te.engine)), FERRY_OK); /* nodes there are */
    expect_refused(read_of(&f, f.buffer), FRY_REFUSED_BARRED);
    ferry_future *writable = ferry_engine_writable(f.te.engine);
    ASSERT_STATUS(ferry_future_poll(writable), FERRY_PENDING);
    let_go(&f);
    ASSERT_STATUS(end_of(&f, writable), FERRY_OK);
    ferry_future *reader = read_of(&f, f.buffer);
    settle(&f.te);
    ASSERT_STATUS(status_of(reader), FERRY_E_DEPENDENCY);
}

/* ---- ends ---- */

/* Nobody has a handle to the buffer any more; its memory stays as long as it is barred. */
Test(engine_refused_writes, of_a_buffer_that_is_released)
{
    OPENED_WITH(fixture, f, FERRY_LOOP_EMBEDDED);
    ferry_buffer *buffer = test_buffer(&f.te, 0, SIZE, 1);
    hold(&f);
    fill(&f);
    expect_refused(write_of(&f, buffer), FRY_REFUSED_MAX_NODES);
    ferry_buffer_release(buffer);
    empty(&f);
    let_go(&f);
}

static void is_shut_down(ferry_loop_mode loop)
{
    OPENED_WITH(fixture, f, loop);
    hold(&f);
    fill(&f);
    expect_refused(write_of(&f, f.buffer), FRY_REFUSED_MAX_NODES);
    ASSERT_STATUS(ferry_engine_shutdown(f.te.engine, 0), FERRY_E_DEADLINE);
    fry_baton_give(&f.te.engine->baton);
    fry_wake(f.te.engine);
    ASSERT_STATUS(ferry_engine_shutdown(f.te.engine, -1), FERRY_OK);
    cr_assert_eq(f.te.engine->mark_is_pushed, 0);
    empty(&f);
}

Test(engine_refused_writes, are_placed_by_a_shutdown)
{
    is_shut_down(FERRY_LOOP_EMBEDDED);
    is_shut_down(FERRY_LOOP_THREAD);
}

/* ---- threads without memory ---- */

typedef struct stranger {
    fixture *f;
    ferry_future *copy, *nop;
    ferry_status defined;
} stranger;

static void *refused_as_a_stranger(void *arg)
{
    stranger *self = arg;
    ferry_access access = {ferry_buffer_span(self->f->other), FERRY_WRITE};
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.accesses = &access;
    options.access_count = 1;
    self->copy = write_of(self->f, self->f->buffer);
    self->nop = ferry_nop(self->f->te.engine, &options);
    self->defined = ferry_buffer_define(ferry_buffer_span(self->f->sink), NULL);
    return NULL;
}

/* With nodes to stand for them and without. */
Test(engine_refused_writes, of_a_thread_that_can_have_no_context)
{
    for (int with_stand_ins = 0; with_stand_ins < 2; with_stand_ins++) {
        OPENED_WITH(fixture, f, FERRY_LOOP_EMBEDDED);
        if (with_stand_ins)
            give_back(&f);
        stranger self = {.f = &f};
        pthread_t thread;
        ferry_buffer *target = test_buffer(&f.te, 3, SIZE, 4);
        failing_allocator_arm(&f.te.memory, 1, true);
        cr_assert_eq(pthread_create(&thread, NULL, refused_as_a_stranger, &self), 0);
        cr_assert_eq(pthread_join(thread, NULL), 0);
        failing_allocator_arm(&f.te.memory, 0, false);
        expect_refused(self.copy, FRY_REFUSED_NO_MEMORY);
        expect_refused(self.nop, FRY_REFUSED_NO_MEMORY);
        ASSERT_STATUS(self.defined, FERRY_E_NO_MEMORY);
        settle(&f.te);
        ferry_buffer *const written[] = {f.buffer, f.other, f.sink};
        for (size_t i = 0; i < 3; i++) {
            ferry_future *reader = ferry_copy(f.te.engine, ferry_buffer_span(target),
                                              ferry_buffer_span(written[i]), NULL);
            settle(&f.te);
            ASSERT_STATUS(status_of(reader), FERRY_E_DEPENDENCY);
        }
        ferry_buffer_release(target);
        if (with_stand_ins) {
            settle(&f.te);
            fry_context *context = fry_context_get(f.te.engine);
            for (size_t i = 0; i < STAND_INS; i++) {
                f.stand_ins[i] = fry_node_create_reserve(f.te.engine, context);
                cr_assert_not_null(f.stand_ins[i], "%zu", i);
            }
        }
    }
}
