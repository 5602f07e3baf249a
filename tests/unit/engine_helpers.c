/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop may sleep without a look at the graph while a waiting thread helps: whatever it would
 * have seen, that thread leaves it a wake for. One thread plays both here, step by step.
 */
#include "engine/batch_node.h"
#include "engine/context.h"
#include "engine/engine.h"
#include "engine/ground.h"
#include "engine/handle.h"
#include "engine/loop.h"
#include "engine/node.h"
#include "engine/turn.h"
#include "tests/support/api_test.h"

TestSuite(engine_helpers, .timeout = HANG_S);

typedef struct stage {
    test_engine te;
    ferry_promise *promise;
    ferry_future *gate; /* of the promise */
} stage;

static void stage_open(stage *self, int64_t watchdog_ns)
{
    ferry_engine_options options = test_engine_options(&self->te, FERRY_LOOP_EMBEDDED);
    options.watchdog_ns = watchdog_ns;
    test_engine_create(&self->te, &options);
    ASSERT_STATUS(ferry_promise_create(self->te.engine, &self->promise), FERRY_OK);
    self->gate = ferry_promise_future(self->promise);
}

static void stage_close(stage *self)
{
    ferry_future_release(self->gate);
    ferry_promise_release(self->promise);
    test_engine_close(&self->te);
}

static ferry_future *batch_behind_the_gate(stage *self)
{
    ferry_op ops[3] = {{.kind = FERRY_OP_NOP}, {.kind = FERRY_OP_NOP}, {.kind = FERRY_OP_NOP}};
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = &self->gate;
    options.after_count = 1;
    return ferry_batch(self->te.engine, ops, sizeof ops[0], 3, NULL, &options);
}

/* All that there is to do is done, and the loop is awake. */
static void come_to_rest(stage *self)
{
    while (ferry_engine_progress(self->te.engine, 0) > 0)
        continue;
    fry_disarm(self->te.engine);
    cr_assert_eq(self->te.engine->asleep, FRY_AWAKE);
}

/* The loop, which can't have the baton, has nothing to do that it knows of, and sleeps. */
static void fall_asleep(ferry_engine *engine)
{
    cr_assert(fry_baton_take(&engine->role));
    cr_assert_eq(fry_tick(engine, 1, true), 0);
    cr_assert(fry_arm(engine));
    fry_baton_give(&engine->role);
}

typedef void (*leave_fn)(fry_turn *turn, void *arg);

/*
 * A helper's holding leaves something, and the loop, which is awake, is not woken for it. It finds
 * the baton taken by the helper's next holding, and sleeps. Whether it is woken as the help ends.
 */
static bool is_woken(stage *self, leave_fn leave, void *arg)
{
    ferry_engine *engine = self->te.engine;
    fry_context *context = fry_context_get(engine);
    fry_turn turn;
    (void)fry_fetch_add(&engine->helpers, 1);
    cr_assert(fry_turn_begin(&turn, engine, context, false));
    leave(&turn, arg);
    (void)fry_turn_end(&turn, engine->submit_budget);
    cr_assert_eq(engine->asleep, FRY_AWAKE);

    cr_assert(fry_turn_begin(&turn, engine, context, false));
    fall_asleep(engine);
    (void)fry_turn_end(&turn, engine->submit_budget);
    cr_assert_eq(engine->asleep, FRY_ASLEEP);

    fry_help_ends(engine, context);
    bool is_awake = engine->asleep == FRY_AWAKE;
    fry_disarm(engine);
    return is_awake;
}

static void leave_nothing(fry_turn *turn, void *arg)
{
    (void)turn, (void)arg;
}

Test(engine_helpers, nothing_is_left_and_the_loop_sleeps_on)
{
    stage self;
    stage_open(&self, 0);
    come_to_rest(&self);
    cr_assert_not(is_woken(&self, leave_nothing, NULL));
    stage_close(&self);
}

static void cancel_batch(fry_turn *turn, void *arg)
{
    fry_kind_batch.cancel(turn, arg);
}

Test(engine_helpers, a_batch_is_to_be_cancelled)
{
    stage self;
    stage_open(&self, 0);
    ferry_future *batch = batch_behind_the_gate(&self);
    come_to_rest(&self);
    cr_assert(is_woken(&self, cancel_batch, fry_node_of(batch)));
    while (ferry_future_poll(batch) == FERRY_PENDING)
        cr_assert_gt(ferry_engine_progress(self.te.engine, 0), 0);
    ASSERT_STATUS(ferry_future_poll(batch), FERRY_E_CANCELLED);
    ferry_future_release(batch);
    stage_close(&self);
}

/* It was begun by the loop itself, which has not come to its end. */
Test(engine_helpers, a_batch_is_being_cancelled)
{
    stage self;
    stage_open(&self, 0);
    ferry_future *batch = batch_behind_the_gate(&self);
    come_to_rest(&self);
    fry_turn turn;
    cr_assert(fry_turn_begin(&turn, self.te.engine, fry_context_get(self.te.engine), true));
    fry_kind_batch.cancel(&turn, fry_node_of(batch));
    (void)fry_turn_end(&turn, 0);
    cr_assert(is_woken(&self, leave_nothing, NULL));
    come_to_rest(&self);
    ASSERT_STATUS(ferry_future_poll(batch), FERRY_E_CANCELLED);
    ferry_future_release(batch);
    stage_close(&self);
}

/* For whatever reason: it is not asked which. */
static void want_the_loop(fry_turn *turn, void *arg)
{
    (void)arg;
    turn->wake = true;
}

Test(engine_helpers, a_holding_wants_the_loop)
{
    stage self;
    stage_open(&self, 0);
    come_to_rest(&self);
    cr_assert(is_woken(&self, want_the_loop, NULL));
    come_to_rest(&self);
    cr_assert_not(is_woken(&self, leave_nothing, NULL)); /* it has been there since */
    stage_close(&self);
}

/* The loop's tick did not get the baton, and it has it as it arms. */
Test(engine_helpers, the_loop_does_not_sleep_unless_it_has_been_there)
{
    stage self;
    stage_open(&self, 0);
    ferry_engine *engine = self.te.engine;
    come_to_rest(&self);
    fry_turn turn;
    cr_assert(fry_turn_begin(&turn, engine, fry_context_get(engine), false));
    turn.wake = true;
    (void)fry_turn_end(&turn, engine->submit_budget);
    cr_assert(fry_baton_take(&engine->role));
    cr_assert_not(fry_arm(engine));
    cr_assert_eq(fry_tick(engine, 1, true), 0);
    cr_assert(fry_arm(engine));
    fry_baton_give(&engine->role);
    fry_disarm(engine);
    stage_close(&self);
}

/* Its time may have come while a helper had the baton: the loop looks again by itself. */
Test(engine_helpers, the_watchdog_has_a_timer)
{
    stage self;
    stage_open(&self, 1000000);
    ferry_engine *engine = self.te.engine;
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = &self.gate;
    options.after_count = 1;
    ferry_future *waiting = ferry_nop(engine, &options);
    come_to_rest(&self);
    fry_turn turn;
    (void)fry_fetch_add(&engine->helpers, 1);
    cr_assert(fry_turn_begin(&turn, engine, fry_context_get(engine), false));
    cr_assert_eq(engine->poller.timer_ns, 0);
    fall_asleep(engine);
    cr_assert_neq(engine->poller.timer_ns, 0);
    (void)fry_turn_end(&turn, engine->submit_budget);
    fry_help_ends(engine, fry_context_get(engine));
    ferry_future_release(waiting);
    stage_close(&self);
}

Test(engine_helpers, a_deadline_stands)
{
    stage self;
    stage_open(&self, 0);
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = &self.gate;
    options.after_count = 1;
    options.deadline_ns = START_NS + 1000000000;
    ferry_future *waiting = ferry_nop(self.te.engine, &options);
    come_to_rest(&self);
    cr_assert(is_woken(&self, leave_nothing, NULL));
    ferry_future_release(waiting);
    stage_close(&self);
}
