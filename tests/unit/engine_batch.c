/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches where the test holds the baton as a busy thread would, so that they go to the inbox, and
 * where there is no room for what they list.
 */
#include "engine/graph.h"
#include "tests/support/api_test.h"

TestSuite(engine_batch, .timeout = HANG_S);

enum {
    MANY = 600,
    SLICE = 64,
    BIG = 8192
}; /* more than are staged at a time; too big to be done at once */

/* The first to be called writes a 1, and so on. */
typedef struct turn_taken {
    uint32_t *clock;
    uint32_t at;
} turn_taken;

static ferry_status take_turn(void *arg)
{
    turn_taken *self = arg;
    self->at = ++*self->clock;
    return FERRY_OK;
}

typedef struct fixture {
    test_engine te;
    ferry_buffer *src, *dst;
    uint32_t clock;
    turn_taken turns[MANY];
    ferry_access access;
    ferry_op_options options;
    ferry_op ops[MANY];
    ferry_future *each[MANY];
} fixture;

/* Small copies, and functions that touch one span and so run in their order. */
static void fixture_open(fixture *f)
{
    test_engine_open(&f->te, FERRY_LOOP_EMBEDDED);
    f->src = test_buffer(&f->te, 0, (size_t)MANY * SLICE, 1);
    f->dst = test_buffer(&f->te, 1, (size_t)MANY * SLICE, 0);
    f->clock = 0;
    f->access = (ferry_access){span_of(f->src, 0, 1), FERRY_READ_WRITE};
    f->options = (ferry_op_options)FERRY_OP_OPTIONS_INIT;
    f->options.accesses = &f->access;
    f->options.access_count = 1;
    for (size_t i = 0; i < MANY; i++) {
        f->turns[i] = (turn_taken){&f->clock, 0};
        if (i % 2 == 0)
            f->ops[i] = (ferry_op){.kind = FERRY_OP_COPY,
                                   .dst = span_of(f->dst, i * SLICE, SLICE),
                                   .src = span_of(f->src, i * SLICE, SLICE)};
        else
            f->ops[i] = (ferry_op){.kind = FERRY_OP_CALL,
                                   .fn = take_turn,
                                   .arg = &f->turns[i],
                                   .options = &f->options};
    }
}

static ferry_future *submit(fixture *f, bool with_each, const ferry_op_options *options)
{
    return ferry_batch(f->te.engine, f->ops, sizeof f->ops[0], MANY, with_each ? f->each : NULL,
                       options);
}

static void release_each(fixture *f)
{
    for (size_t i = 0; i < MANY; i++)
        ferry_future_release(f->each[i]);
}

static void fixture_close(fixture *f)
{
    settle(&f->te);
    ferry_buffer_release(f->src);
    ferry_buffer_release(f->dst);
    test_engine_close(&f->te);
}

static void check_done(const fixture *f)
{
    for (size_t i = 0; i < MANY; i++) {
        if (i % 2 == 0)
            cr_assert(is_filled(f->dst, i * SLICE, SLICE, 1), "copy %zu", i);
        else
            cr_assert_eq(f->turns[i].at - f->turns[1].at, (i - 1) / 2, "function %zu", i);
    }
}

static void goes_through_the_inbox(bool with_each, int64_t deadline_ns)
{
    static fixture f;
    fixture_open(&f);
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.deadline_ns = deadline_ns;
    turn_taken before = {&f.clock, 0}, after = {&f.clock, 0};
    cr_assert(fry_baton_take(&f.te.engine->baton));
    ferry_future *first = ferry_call(f.te.engine, NULL, take_turn, &before, &f.options);
    ferry_future *all = submit(&f, with_each, &options);
    ferry_future *last = ferry_call(f.te.engine, NULL, take_turn, &after, &f.options);
    ASSERT_STATUS(ferry_future_poll(all), FERRY_PENDING);
    for (size_t i = 0; with_each && i < MANY; i++)
        ASSERT_STATUS(ferry_future_poll(f.each[i]), FERRY_PENDING);
    fry_baton_give(&f.te.engine->baton);
    ASSERT_STATUS(ferry_future_wait(last, -1), FERRY_OK);
    settle(&f.te);
    ASSERT_STATUS(status_of(all), FERRY_OK);
    cr_assert_eq(before.at, 1);
    cr_assert_eq(f.turns[1].at, 2);
    cr_assert_eq(after.at, MANY / 2 + 2);
    check_done(&f);
    ferry_future_release(first);
    ferry_future_release(last);
    if (with_each)
        release_each(&f);
    fixture_close(&f);
}

Test(engine_batch, it_keeps_its_order_in_the_inbox)
{
    goes_through_the_inbox(false, 0);
    goes_through_the_inbox(true, 0);
    goes_through_the_inbox(false, START_NS + 1000);
    goes_through_the_inbox(true, START_NS + 1000);
}

Test(engine_batch, it_waits_behind_what_is_in_the_inbox)
{
    static fixture f;
    fixture_open(&f);
    turn_taken before[500];
    ferry_future *futures[500];
    for (int i = 0; i < 2; i++) { /* so that there is room for everything */
        ferry_future *all = submit(&f, true, NULL);
        ASSERT_STATUS(ferry_future_wait(all, -1), FERRY_OK);
        release_each(&f);
        ferry_future_release(all);
    }
    f.clock = 0;
    memset(ferry_buffer_data(f.dst), 0, (size_t)MANY * SLICE);
    cr_assert(fry_baton_take(&f.te.engine->baton));
    for (size_t i = 0; i < 500; i++) { /* more than a submitter works off */
        before[i] = (turn_taken){&f.clock, 0};
        futures[i] = ferry_call(f.te.engine, NULL, take_turn, &before[i], &f.options);
    }
    fry_baton_give(&f.te.engine->baton);
    ferry_future *all = submit(&f, false, NULL);
    ASSERT_STATUS(ferry_future_wait(all, -1), FERRY_OK);
    for (size_t i = 0; i < 500; i++) {
        cr_assert_eq(before[i].at, i + 1);
        ferry_future_release(futures[i]);
    }
    cr_assert_eq(f.turns[1].at, 501);
    check_done(&f);
    ferry_future_release(all);
    fixture_close(&f);
}

Test(engine_batch, cancels_reach_it_in_the_inbox)
{
    static fixture f;
    fixture_open(&f);
    cr_assert(fry_baton_take(&f.te.engine->baton));
    ferry_future *all = submit(&f, true, NULL), *other = submit(&f, false, NULL);
    ASSERT_STATUS(ferry_future_cancel(f.each[300]), FERRY_OK);
    ASSERT_STATUS(ferry_future_cancel(other), FERRY_OK);
    fry_baton_give(&f.te.engine->baton);
    settle(&f.te);
    ASSERT_STATUS(ferry_future_poll(all), FERRY_E_DEPENDENCY);
    cr_assert_eq(ferry_future_error(all)->cause->op, ferry_future_id(f.each[300]));
    ASSERT_STATUS(status_of(other), FERRY_E_CANCELLED);
    for (size_t i = 0; i < MANY; i++)
        ASSERT_STATUS(ferry_future_poll(f.each[i]), i == 300 ? FERRY_E_CANCELLED : FERRY_OK);
    ferry_future_release(all);
    release_each(&f);
    fixture_close(&f);
}

/* The shutdown comes while it is still there. */
Test(engine_batch, a_shutdown_finds_it_in_the_inbox)
{
    static fixture f;
    fixture_open(&f);
    cr_assert(fry_baton_take(&f.te.engine->baton));
    ferry_future *all = submit(&f, true, NULL), *other = submit(&f, false, NULL);
    ASSERT_STATUS(ferry_engine_shutdown(f.te.engine, 0), FERRY_E_DEADLINE);
    fry_baton_give(&f.te.engine->baton);
    ASSERT_STATUS(ferry_engine_shutdown(f.te.engine, -1), FERRY_OK);
    cr_assert_lt(status_of(all), 0);
    cr_assert_lt(status_of(other), 0);
    for (size_t i = 0; i < MANY; i++)
        ASSERT_STATUS(ferry_future_poll(f.each[i]), FERRY_E_SHUTDOWN);
    release_each(&f);
    fixture_close(&f);
}

/* The submitter sees to room in the access lists itself, as for single operations. */
Test(engine_batch, it_sees_to_room_itself)
{
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_engine *engine = te.engine;
    fry_context *context = fry_context_get(engine);
    ferry_buffer *src = test_buffer(&te, 0, BIG, 1), *dst = test_buffer(&te, 1, BIG, 0);
    enum { COPIES = 100 };
    ferry_op ops[COPIES];
    ferry_future *each[COPIES];
    for (size_t i = 0; i < COPIES; i++)
        ops[i] = (ferry_op){.kind = FERRY_OP_COPY,
                            .dst = ferry_buffer_span(i % 2 == 0 ? dst : src),
                            .src = ferry_buffer_span(i % 2 == 0 ? src : dst)};
    for (int round = 0; round < 3; round++) {
        /* What they had is lost to the pools until the engine goes. */
        context->segments = context->readers = context->edges = (fry_pool_cache){0};
        engine->segments.depot = engine->readers.depot = engine->edges.depot =
            (fry_counted_pointer){0};
        ferry_future *all = ferry_batch(engine, ops, sizeof ops[0], COPIES, each, NULL);
        for (size_t i = 0; i < COPIES; i++) {
            ferry_future *issued = ferry_future_issued(each[i]);
            ASSERT_STATUS(status_of(issued), FERRY_OK); /* and nobody made progress */
        }
        ASSERT_STATUS(ferry_future_wait(all, -1), FERRY_OK);
        for (size_t i = 0; i < COPIES; i++)
            ASSERT_STATUS(status_of(each[i]), FERRY_OK);
        ferry_future_release(all);
    }
    ferry_buffer_release(src);
    ferry_buffer_release(dst);
    test_engine_close(&te);
}
