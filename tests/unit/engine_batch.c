/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches where the test holds the baton as a busy thread would, so that they go to the inbox, and
 * where there is no room for what they list.
 */
#include "engine/buffer.h"
#include "engine/context.h"
#include "engine/engine.h"
#include "engine/ground.h"
#include "engine/node.h"
#include "tests/support/held_call.h"
#include "tests/support/owned.h"

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

/* All of the batch goes to the inbox, behind that future; the test has the baton afterwards. */
static ferry_future *submit_to_inbox(fixture *f, bool with_each, int64_t deadline_ns,
                                     ferry_future *after)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.deadline_ns = deadline_ns;
    options.after = &after;
    options.after_count = 1;
    cr_assert(fry_baton_take(&f->te.engine->baton));
    return submit(f, with_each, &options);
}

/* A cancel of the batch comes to all of it, once it has entered. */
static void is_cancelled_in_the_inbox(bool with_each, int64_t deadline_ns)
{
    static fixture f;
    fixture_open(&f);
    ferry_promise *promise = test_promise(&f.te);
    ferry_future *after = ferry_promise_future(promise);
    ferry_future *all = submit_to_inbox(&f, with_each, deadline_ns, after);
    ASSERT_STATUS(ferry_future_cancel(all), FERRY_OK);
    fry_baton_give(&f.te.engine->baton);
    settle(&f.te);
    ferry_future *quiet = ferry_future_quiet(all);
    ASSERT_STATUS(status_of(quiet), FERRY_OK);
    ASSERT_STATUS(ferry_future_error(all)->status, FERRY_E_CANCELLED);
    ASSERT_STATUS(status_of(all), FERRY_E_CANCELLED);
    keep_promise(promise, FERRY_OK);
    settle(&f.te);
    for (size_t i = 0; with_each && i < MANY; i++)
        ASSERT_STATUS(ferry_future_poll(f.each[i]), FERRY_E_CANCELLED);
    cr_assert_eq(f.clock, 0);
    cr_assert(is_filled(f.dst, 0, (size_t)MANY * SLICE, 0));
    if (with_each)
        release_each(&f);
    ferry_future_release(after);
    fixture_close(&f);
}

Test(engine_batch, cancels_reach_it_in_the_inbox)
{
    is_cancelled_in_the_inbox(false, 0);
    is_cancelled_in_the_inbox(true, 0);
    is_cancelled_in_the_inbox(false, START_NS + 1000);
    is_cancelled_in_the_inbox(true, START_NS + 1000);
}

/* A batch without operations comes after all that its options name, and so may enter in pieces. */
static void is_cancelled_half_way(bool is_half_way)
{
    static fixture f;
    fixture_open(&f);
    ferry_promise *promise = test_promise(&f.te);
    ferry_future *after[MANY];
    for (size_t i = 0; i < MANY; i++)
        after[i] = ferry_promise_future(promise);
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = after;
    options.after_count = MANY;
    cr_assert(fry_baton_take(&f.te.engine->baton));
    ferry_future *all = ferry_batch(f.te.engine, NULL, sizeof f.ops[0], 0, NULL, &options);
    if (!is_half_way)
        ASSERT_STATUS(ferry_future_cancel(all), FERRY_OK);
    fry_baton_give(&f.te.engine->baton);
    const fry_node *own = fry_node_of(all);
    while (f.te.engine->entering.node != own) {
        cr_assert_eq(own->state, FRY_NODE_NEW);
        (void)ferry_engine_progress(f.te.engine, 1);
    }
    if (is_half_way)
        ASSERT_STATUS(ferry_future_cancel(all), FERRY_OK);
    while (ferry_future_poll(all) == FERRY_PENDING)
        (void)ferry_engine_progress(f.te.engine, 1);
    ASSERT_STATUS(ferry_future_poll(all), FERRY_E_CANCELLED);
    cr_assert_null(f.te.engine->entering.node);
    ferry_future *quiet = ferry_future_quiet(all);
    settle(&f.te);
    ASSERT_STATUS(status_of(quiet), FERRY_OK);
    keep_promise(promise, FERRY_OK);
    settle(&f.te);
    for (size_t i = 0; i < MANY; i++)
        ferry_future_release(after[i]);
    ferry_future_release(all);
    fixture_close(&f);
}

Test(engine_batch, cancels_reach_one_of_none_half_way_in)
{
    is_cancelled_half_way(false);
    is_cancelled_half_way(true);
}

Test(engine_batch, a_cancel_of_one_in_the_inbox_fails_it_alone)
{
    static fixture f;
    fixture_open(&f);
    cr_assert(fry_baton_take(&f.te.engine->baton));
    ferry_future *all = submit(&f, true, NULL);
    ASSERT_STATUS(ferry_future_cancel(f.each[300]), FERRY_OK);
    fry_baton_give(&f.te.engine->baton);
    settle(&f.te);
    ASSERT_STATUS(ferry_future_poll(all), FERRY_E_DEPENDENCY);
    cr_assert_eq(ferry_future_error(all)->cause->op, ferry_future_id(f.each[300]));
    for (size_t i = 0; i < MANY; i++)
        ASSERT_STATUS(ferry_future_poll(f.each[i]), i == 300 ? FERRY_E_CANCELLED : FERRY_OK);
    ferry_future_release(all);
    release_each(&f);
    fixture_close(&f);
}

/*
 * Half of it has entered, and one of those is under way past its deadline, when the other half does
 * with the batch itself: which is not quiet before that one. And cancelled meanwhile, or not.
 */
static void one_fails_under_way_before_it_enters(bool with_each, bool is_cancelled)
{
    static fixture f;
    static thread_executor executor;
    held_call held;
    fixture_open(&f);
    cr_assert(thread_executor_start(&executor));
    held_call_init(&held, span_of(f.src, 0, 1), 5);
    ferry_op_options options = f.options, other = f.options;
    ferry_access elsewhere = {span_of(f.src, 1, 1), FERRY_READ_WRITE};
    options.deadline_ns = START_NS + 100;
    other.accesses = &elsewhere;
    for (size_t i = 1; i < MANY; i += 2)
        f.ops[i].options = &other;
    f.ops[1] = (ferry_op){.kind = FERRY_OP_CALL,
                          .executor = &executor.executor,
                          .fn = held_call_run,
                          .arg = &held,
                          .options = &options};
    cr_assert(fry_baton_take(&f.te.engine->baton));
    ferry_future *all = submit(&f, with_each, NULL);
    fry_baton_give(&f.te.engine->baton);
    const fry_node *own = fry_node_of(all);
    for (int i = 0; i < 4; i++)
        (void)ferry_engine_progress(f.te.engine, 8);
    held_call_await(&held);
    cr_assert_eq(own->state, FRY_NODE_NEW);
    if (is_cancelled)
        ASSERT_STATUS(ferry_future_cancel(all), FERRY_OK);
    stepped_clock_step(&f.te.time, 100);
    (void)ferry_engine_progress(f.te.engine, 8);
    cr_assert_eq(own->state, FRY_NODE_NEW);
    settle(&f.te);
    ASSERT_STATUS(ferry_future_poll(all), is_cancelled ? FERRY_E_CANCELLED : FERRY_E_DEPENDENCY);
    ferry_future *quiet = ferry_future_quiet(all);
    settle(&f.te);
    ASSERT_STATUS(ferry_future_poll(quiet), FERRY_PENDING);
    held_call_let_go(&held);
    ASSERT_STATUS(ferry_future_wait(quiet, -1), FERRY_OK);
    cr_assert(is_filled(f.src, 0, 1, 5));
    if (with_each) {
        ASSERT_STATUS(ferry_future_poll(f.each[1]), FERRY_E_DEADLINE);
        release_each(&f);
    }
    ferry_future_release(quiet);
    ferry_future_release(all);
    thread_executor_stop(&executor);
    fixture_close(&f);
}

Test(engine_batch, it_counts_those_that_are_under_way_as_it_enters)
{
    one_fails_under_way_before_it_enters(false, false);
    one_fails_under_way_before_it_enters(true, false);
    one_fails_under_way_before_it_enters(false, true);
    one_fails_under_way_before_it_enters(true, true);
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
    OPENED_WITH(test_engine, te, FERRY_LOOP_EMBEDDED);
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
}
