/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop may sleep without a look at the graph while a waiting thread helps: whatever it would
 * have seen, that thread leaves it a wake for. One thread plays both here, step by step.
 */
#include "engine/engine.h"
#include "engine/graph/batch_node.h"
#include "engine/graph/node.h"
#include "engine/graph/turn.h"
#include "engine/ground/context.h"
#include "engine/ground/ground.h"
#include "engine/loop/handle.h"
#include "engine/loop/loop.h"
#include "tests/support/play.h"

SCENE_SUITE(engine_helpers);

#define BATCH "promise p; batch = batch nop , nop , nop , with after p"

/* All that there is to do is done, and the loop is awake. */
static void come_to_rest(void)
{
    while (ferry_engine_progress(engine(), 0) > 0)
        continue;
    fry_disarm(engine());
    cr_assert_eq(engine()->asleep, FRY_AWAKE);
}

/* The loop, which can't have the baton, has nothing to do that it knows of, and sleeps. */
static void fall_asleep(void)
{
    cr_assert(fry_baton_take(&engine()->role));
    cr_assert_eq(fry_tick(engine(), 1, true), 0);
    cr_assert(fry_arm(engine()));
    fry_baton_give(&engine()->role);
}

/* A helper's, that is none of the loop's. */
static void begin_turn(fry_turn *turn)
{
    cr_assert(fry_turn_begin(turn, engine(), fry_context_get(engine()), false));
}

static void end_turn(fry_turn *turn)
{
    (void)fry_turn_end(turn, engine()->submit_budget);
}

typedef void (*leave_fn)(fry_turn *turn, void *arg);

/*
 * A helper's holding leaves something, and the loop, which is awake, is not woken for it. It finds
 * the baton taken by the helper's next holding, and sleeps. Whether it is woken as the help ends.
 */
static bool is_woken(leave_fn leave, void *arg)
{
    fry_turn turn;
    (void)fry_fetch_add(&engine()->helpers, 1);
    begin_turn(&turn);
    leave(&turn, arg);
    end_turn(&turn);
    cr_assert_eq(engine()->asleep, FRY_AWAKE);

    begin_turn(&turn);
    fall_asleep();
    end_turn(&turn);
    cr_assert_eq(engine()->asleep, FRY_ASLEEP);

    fry_help_ends(engine(), fry_context_get(engine()));
    bool is_awake = engine()->asleep == FRY_AWAKE;
    fry_disarm(engine());
    return is_awake;
}

static void leave_nothing(fry_turn *turn, void *arg)
{
    (void)turn, (void)arg;
}

Test(engine_helpers, nothing_is_left_and_the_loop_sleeps_on)
{
    play("promise p");
    come_to_rest();
    cr_assert_not(is_woken(leave_nothing, NULL));
}

static void cancel_batch(fry_turn *turn, void *arg)
{
    fry_kind_batch.cancel(turn, arg);
}

Test(engine_helpers, a_batch_is_to_be_cancelled)
{
    play(BATCH);
    come_to_rest();
    cr_assert(is_woken(cancel_batch, fry_node_of(the_future("batch"))));
    while (ferry_future_poll(the_future("batch")) == FERRY_PENDING)
        cr_assert_gt(ferry_engine_progress(engine(), 0), 0);
    play("now batch CANCELLED");
}

/* It was begun by the loop itself, which has not come to its end. */
Test(engine_helpers, a_batch_is_being_cancelled)
{
    play(BATCH);
    come_to_rest();
    fry_turn turn;
    cr_assert(fry_turn_begin(&turn, engine(), fry_context_get(engine()), true));
    fry_kind_batch.cancel(&turn, fry_node_of(the_future("batch")));
    (void)fry_turn_end(&turn, 0);
    cr_assert(is_woken(leave_nothing, NULL));
    come_to_rest();
    play("now batch CANCELLED");
}

/* For whatever reason: it is not asked which. */
static void want_the_loop(fry_turn *turn, void *arg)
{
    (void)arg;
    turn->wake = true;
}

Test(engine_helpers, a_holding_wants_the_loop)
{
    play("promise p");
    come_to_rest();
    cr_assert(is_woken(want_the_loop, NULL));
    come_to_rest();
    cr_assert_not(is_woken(leave_nothing, NULL)); /* it has been there since */
}

/* The loop's tick did not get the baton, and it has it as it arms. */
Test(engine_helpers, the_loop_does_not_sleep_unless_it_has_been_there)
{
    play("promise p");
    come_to_rest();
    fry_turn turn;
    begin_turn(&turn);
    turn.wake = true;
    end_turn(&turn);
    cr_assert(fry_baton_take(&engine()->role));
    cr_assert_not(fry_arm(engine()));
    cr_assert_eq(fry_tick(engine(), 1, true), 0);
    cr_assert(fry_arm(engine()));
    fry_baton_give(&engine()->role);
    fry_disarm(engine());
}

/* Its time may have come while a helper had the baton: the loop looks again by itself. */
Test(engine_helpers, the_watchdog_has_a_timer)
{
    scene_options(FERRY_LOOP_EMBEDDED)->watchdog_ns = 1000000;
    play("promise p; nop after p");
    come_to_rest();
    fry_turn turn;
    (void)fry_fetch_add(&engine()->helpers, 1);
    begin_turn(&turn);
    cr_assert_eq(engine()->poller.timer_ns, 0);
    fall_asleep();
    cr_assert_neq(engine()->poller.timer_ns, 0);
    end_turn(&turn);
    fry_help_ends(engine(), fry_context_get(engine()));
}

Test(engine_helpers, a_deadline_stands)
{
    play("promise p; nop after p deadline 1000000000");
    come_to_rest();
    cr_assert(is_woken(leave_nothing, NULL));
}
