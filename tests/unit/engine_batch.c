/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches where the test holds the baton as a busy thread would, so that they go to the inbox, and
 * where there is no room for what they list.
 */
#include "engine/graph/buffer.h"
#include "engine/graph/node.h"
#include "engine/ground/context.h"
#include "engine/ground/ground.h"
#include "tests/support/held_call.h"
#include "tests/unit/inner_play.h"

INNER_SUITE(engine_batch);

enum { MANY = 600 /* more than are staged at a time */, SLICE = 64, BYTES = MANY * SLICE };

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

static struct {
    uint32_t clock;
    turn_taken turns[MANY];
    ferry_access access;
    ferry_op_options options;
    ferry_op ops[MANY];
    ferry_future *each[MANY];
} many;

/* Small copies, and functions that touch one span and so run in their order. */
static void make_many(void)
{
    play("buffer src %d of 1; buffer dst %d on 1", BYTES, BYTES);
    many.clock = 0;
    many.access = (ferry_access){the_span("src[0:1]"), FERRY_READ_WRITE};
    many.options = touching(&many.access, 1);
    for (size_t i = 0; i < MANY; i++) {
        many.turns[i] = (turn_taken){&many.clock, 0};
        many.ops[i] = i % 2 == 0 ? (ferry_op){.kind = FERRY_OP_COPY,
                                              .dst = span_of(the_buffer("dst"), i * SLICE, SLICE),
                                              .src = span_of(the_buffer("src"), i * SLICE, SLICE)}
                                 : (ferry_op){.kind = FERRY_OP_CALL,
                                              .fn = take_turn,
                                              .arg = &many.turns[i],
                                              .options = &many.options};
    }
}

/* The scene owns them; the future of all is called `name`. */
static void submit(const char *name, bool with_each, const ferry_op_options *options)
{
    ferry_future *all = ferry_batch(engine(), many.ops, sizeof many.ops[0], MANY,
                                    with_each ? many.each : NULL, options);
    cr_assert(scene_own_as(SCENE_FUTURE, all, name));
    for (size_t i = 0; with_each && i < MANY; i++)
        (void)own(many.each[i]);
}

static void submit_and_forget(void)
{
    ferry_future *all = ferry_batch(engine(), many.ops, sizeof many.ops[0], MANY, many.each, NULL);
    WAIT(all, OK);
    ferry_future_release(all);
    for (size_t i = 0; i < MANY; i++)
        ferry_future_release(many.each[i]);
}

static ferry_future *submit_taker(turn_taken *turn)
{
    *turn = (turn_taken){&many.clock, 0};
    return own(ferry_call(engine(), NULL, take_turn, turn, &many.options));
}

static void assert_each(bool with_each, ferry_status expected)
{
    for (size_t i = 0; with_each && i < MANY; i++)
        cr_assert_eq(ferry_future_poll(many.each[i]), expected, "operation %zu is %s", i,
                     ferry_status_name(ferry_future_poll(many.each[i])));
}

static void assert_done(void)
{
    for (size_t i = 0; i < MANY; i++) {
        if (i % 2 == 0)
            cr_assert(is_filled(the_buffer("dst"), i * SLICE, SLICE, 1), "copy %zu", i);
        else
            cr_assert_eq(many.turns[i].at - many.turns[1].at, (i - 1) / 2, "function %zu", i);
    }
}

/* With a future for each or not, with a deadline or without. */
static void try_all_sorts(void (*try)(bool with_each, int64_t deadline_ns))
{
    for (int sort = 0; sort < 4; sort++) {
        make_many();
        try(sort % 2 != 0, sort < 2 ? 0 : START_NS + 1000);
        scene_end();
    }
}

static void goes_through_the_inbox(bool with_each, int64_t deadline_ns)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.deadline_ns = deadline_ns;
    turn_taken before, after;
    play("baton taken");
    (void)submit_taker(&before);
    submit("all", with_each, &options);
    ferry_future *last = submit_taker(&after);
    play("now all PENDING");
    assert_each(with_each, FERRY_PENDING);
    play("baton given");
    WAIT(last, OK);
    play("settle; now all OK");
    cr_assert_eq(before.at, 1);
    cr_assert_eq(many.turns[1].at, 2);
    cr_assert_eq(after.at, MANY / 2 + 2);
    assert_done();
}

Test(engine_batch, it_keeps_its_order_in_the_inbox)
{
    try_all_sorts(goes_through_the_inbox);
}

Test(engine_batch, it_waits_behind_what_is_in_the_inbox)
{
    enum { BEFORE = 500 /* more than a submitter works off */ };
    static turn_taken before[BEFORE];
    make_many();
    for (int i = 0; i < 2; i++)
        submit_and_forget(); /* so that there is room for everything */
    many.clock = 0;
    play("fill dst 0; baton taken");
    for (size_t i = 0; i < BEFORE; i++)
        (void)submit_taker(&before[i]);
    play("baton given");
    submit("all", false, NULL);
    play("wait all OK");
    for (size_t i = 0; i < BEFORE; i++)
        cr_assert_eq(before[i].at, i + 1, "function %zu", i);
    cr_assert_eq(many.turns[1].at, BEFORE + 1);
    assert_done();
}

/* A cancel of the batch comes to all of it, once it has entered. */
static void is_cancelled_in_the_inbox(bool with_each, int64_t deadline_ns)
{
    play("promise p; baton taken");
    ferry_future *after = the_future("p");
    ferry_op_options options = behind(&after, 1);
    options.deadline_ns = deadline_ns;
    submit("all", with_each, &options);
    play("cancel all; baton given; settle; quiet all; now it OK; now all CANCELLED");
    ASSERT_STATUS(ferry_future_error(the_future("all"))->status, FERRY_E_CANCELLED);
    play("keep p; settle");
    assert_each(with_each, FERRY_E_CANCELLED);
    cr_assert_eq(many.clock, 0);
    play("bytes dst 0");
}

Test(engine_batch, cancels_reach_it_in_the_inbox)
{
    try_all_sorts(is_cancelled_in_the_inbox);
}

/* A batch without operations comes after all that its options name, and so may enter in pieces. */
static void is_cancelled_half_way(bool is_half_way)
{
    ferry_future *after[MANY];
    play("promise p; baton taken");
    for (size_t i = 0; i < MANY; i++)
        after[i] = the_future("p");
    ferry_op_options options = behind(after, MANY);
    ferry_future *all = ferry_batch(engine(), NULL, sizeof(ferry_op), 0, NULL, &options);
    cr_assert(scene_own_as(SCENE_FUTURE, all, "all"));
    play("%s; baton given", is_half_way ? "" : "cancel all");
    const fry_node *node = fry_node_of(all);
    while (engine()->entering.node != node) {
        cr_assert_eq(node->state, FRY_NODE_NEW);
        (void)ferry_engine_progress(engine(), 1);
    }
    play("%s", is_half_way ? "cancel all" : "");
    while (ferry_future_poll(all) == FERRY_PENDING)
        (void)ferry_engine_progress(engine(), 1);
    play("now all CANCELLED");
    cr_assert_null(engine()->entering.node);
    play("end = quiet all; settle; now end OK; keep p; settle");
    scene_end();
}

Test(engine_batch, cancels_reach_one_of_none_half_way_in)
{
    is_cancelled_half_way(false);
    is_cancelled_half_way(true);
}

Test(engine_batch, a_cancel_of_one_in_the_inbox_fails_it_alone)
{
    make_many();
    play("baton taken");
    submit("all", true, NULL);
    ASSERT_STATUS(ferry_future_cancel(many.each[300]), FERRY_OK);
    play("baton given; settle; now all DEPENDENCY");
    cr_assert_eq(ferry_future_error(the_future("all"))->cause->op, ferry_future_id(many.each[300]));
    ASSERT_STATUS(ferry_future_poll(many.each[300]), FERRY_E_CANCELLED);
    many.each[300] = many.each[0]; /* and the others */
    assert_each(true, FERRY_OK);
}

/*
 * Half of it has entered, and one of those is under way past its deadline, when the other half does
 * with the batch itself: which is not quiet before that one. And cancelled meanwhile, or not.
 */
static void one_fails_under_way_before_it_enters(bool with_each, bool is_cancelled)
{
    static thread_executor executor;
    held_call held;
    make_many();
    cr_assert(thread_executor_start(&executor));
    held_call_init(&held, the_span("src[0:1]"), 5);
    ferry_access elsewhere = {the_span("src[1:2]"), FERRY_READ_WRITE};
    ferry_op_options options = many.options, other = touching(&elsewhere, 1);
    options.deadline_ns = START_NS + 100;
    for (size_t i = 1; i < MANY; i += 2)
        many.ops[i].options = &other;
    many.ops[1] = (ferry_op){.kind = FERRY_OP_CALL,
                             .executor = &executor.executor,
                             .fn = held_call_run,
                             .arg = &held,
                             .options = &options};
    play("baton taken");
    submit("all", with_each, NULL);
    play("baton given");
    const fry_node *node = fry_node_of(the_future("all"));
    for (int i = 0; i < 4; i++)
        (void)ferry_engine_progress(engine(), 8);
    held_call_await(&held);
    cr_assert_eq(node->state, FRY_NODE_NEW);
    play("%s; step 100", is_cancelled ? "cancel all" : "");
    (void)ferry_engine_progress(engine(), 8);
    cr_assert_eq(node->state, FRY_NODE_NEW);
    play("settle; now all %s; end = quiet all; settle; now end PENDING",
         is_cancelled ? "CANCELLED" : "DEPENDENCY");
    held_call_let_go(&held);
    play("wait end OK; bytes src[0:1] 5");
    if (with_each)
        ASSERT_STATUS(ferry_future_poll(many.each[1]), FERRY_E_DEADLINE);
    thread_executor_stop(&executor);
    scene_end();
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
    make_many();
    play("baton taken");
    submit("all", true, NULL);
    submit("other", false, NULL);
    ASSERT_STATUS(ferry_engine_shutdown(engine(), 0), FERRY_E_DEADLINE);
    play("baton given");
    ASSERT_STATUS(ferry_engine_shutdown(engine(), -1), FERRY_OK);
    cr_assert_lt(ferry_future_poll(the_future("all")), 0);
    cr_assert_lt(ferry_future_poll(the_future("other")), 0);
    assert_each(true, FERRY_E_SHUTDOWN);
}

/* What the pools had is lost to them until the engine goes. */
static void empty_the_pools(void)
{
    fry_context *context = fry_context_get(engine());
    context->segments = context->readers = context->edges = (fry_pool_cache){0};
    engine()->segments.depot = engine()->readers.depot = engine()->edges.depot =
        (fry_counted_pointer){0};
}

/* The submitter sees to room in the access lists itself, as for single operations. */
Test(engine_batch, it_sees_to_room_itself)
{
    enum { COPIES = 100 };
    ferry_op ops[COPIES];
    ferry_future *each[COPIES];
    play("buffer src 8192 of 1; buffer dst 8192 on 1"); /* too big to be done at once */
    for (size_t i = 0; i < COPIES; i++)
        ops[i] = (ferry_op){.kind = FERRY_OP_COPY,
                            .dst = the_span(i % 2 == 0 ? "dst" : "src"),
                            .src = the_span(i % 2 == 0 ? "src" : "dst")};
    for (int round = 0; round < 3; round++) {
        empty_the_pools();
        ferry_future *all = own(ferry_batch(engine(), ops, sizeof ops[0], COPIES, each, NULL));
        for (size_t i = 0; i < COPIES; i++)
            EXPECT_NOW(own(ferry_future_issued(own(each[i]))), OK); /* and nobody made progress */
        WAIT(all, OK);
        for (size_t i = 0; i < COPIES; i++)
            EXPECT_NOW(each[i], OK);
    }
}
