/* SPDX-License-Identifier: Apache-2.0 */
/* The timers of an engine's members: what sleeps, wakes for them. On the real clock. */
#include "engine/engine.h"
#include "engine/graph/turn.h"
#include "engine/ground/context.h"
#include "engine/ground/ground.h"
#include "engine/loop/embedded.h"
#include "engine/loop/handle.h"
#include "engine/loop/loop.h"
#include "engine/messages/members.h"
#include "tests/support/api_test.h"

#include <poll.h>

TestSuite(engine_timers, .timeout = HANG_S);

enum { MS = 1000000 };
static const int64_t soon_ns = 10 * MS, far_ns = INT64_C(3600) * 1000 * MS;

typedef struct stage {
    test_engine te;
    ferry_engine *engine;
    fry_members *members;
    fry_timer timer;
    int calls;
    int64_t next_in_ns; /* the timer's next time, as it is called; 0: none */
} stage;

static int64_t from_now(int64_t in_ns)
{
    return fry_clock_monotonic_ns() + in_ns;
}

static void call(fry_timer *timer)
{
    stage *self = timer->arg;
    self->calls++;
    if (self->next_in_ns != 0)
        fry_timer_set(&self->members->reactor, timer, from_now(self->next_in_ns));
}

static void stage_open(stage *self)
{
    ferry_engine_options options = test_engine_options(&self->te, FERRY_LOOP_EMBEDDED);
    options.clock = NULL;
    test_engine_create(&self->te, &options);
    self->engine = self->te.engine;
    self->members = fry_members_get(self->engine);
    cr_assert_not_null(self->members);
    self->timer = (fry_timer){.fn = call, .arg = self};
    self->calls = 0;
    self->next_in_ns = 0;
    settle(&self->te);
}

static void stage_close(stage *self)
{
    fry_timer_stop(&self->members->reactor, &self->timer);
    test_engine_close(&self->te);
}

/* As a step of a group does. The next tick counts it. */
static void set(stage *self, int64_t when_ns)
{
    fry_timer_set(&self->members->reactor, &self->timer, when_ns);
    self->members->has_steps = true;
}

static void wait_readable(const stage *self)
{
    struct pollfd readable = {.fd = ferry_engine_fd(self->engine), .events = POLLIN};
    cr_assert_eq(poll(&readable, 1, -1), 1);
}

/* Makes progress, like a user's loop, until the timer was called so often. */
static void sleep_until(stage *self, int calls)
{
    while (self->calls < calls) {
        if (ferry_engine_arm(self->engine) == FERRY_OK)
            wait_readable(self);
        cr_assert_geq(ferry_engine_progress(self->engine, 0), 0);
    }
}

Test(engine_timers, end_the_sleep)
{
    stage self;
    stage_open(&self);
    int64_t when_ns = from_now(soon_ns);
    set(&self, when_ns);
    settle(&self.te);
    cr_assert(self.calls == 0 || fry_clock_monotonic_ns() >= when_ns);
    sleep_until(&self, 1);
    self.next_in_ns = soon_ns;
    set(&self, from_now(soon_ns));
    sleep_until(&self, 3);
    stage_close(&self);
}

Test(engine_timers, have_a_kernel_timer_while_the_loop_sleeps)
{
    stage self;
    stage_open(&self);
    set(&self, from_now(far_ns));
    settle(&self.te);
    cr_assert_eq(self.engine->poller.timer_ns, 0);
    ASSERT_STATUS(ferry_engine_arm(self.engine), FERRY_OK);
    cr_assert_eq(self.engine->poller.timer_ns, self.timer.link.when_ns);
    fry_timer_stop(&self.members->reactor, &self.timer);
    self.members->has_steps = true;
    settle(&self.te);
    ASSERT_STATUS(ferry_engine_arm(self.engine), FERRY_OK);
    cr_assert_eq(self.engine->poller.timer_ns, 0);
    stage_close(&self);
}

Test(engine_timers, that_are_due_let_nobody_sleep)
{
    static const int64_t past_ns[] = {INT64_MIN, 0, 1};
    stage self;
    stage_open(&self);
    for (int i = 0; i < 3; i++) {
        set(&self, past_ns[i]);
        cr_assert_geq(ferry_engine_progress(self.engine, 0), 0);
        cr_assert_eq(self.calls, i);
        ASSERT_STATUS(ferry_engine_arm(self.engine), FERRY_E_BUSY);
        cr_assert_eq(self.engine->poller.timer_ns, 0);
        cr_assert_geq(ferry_engine_progress(self.engine, 0), 1);
        cr_assert_eq(self.calls, i + 1);
    }
    ASSERT_STATUS(ferry_engine_arm(self.engine), FERRY_OK);
    stage_close(&self);
}

/* A helper has the baton, so the loop can't ask the sources. It looks again before the timer. */
Test(engine_timers, end_a_sleep_without_a_look)
{
    stage self;
    stage_open(&self);
    ferry_engine *engine = self.engine;
    fry_turn turn;
    set(&self, from_now(far_ns));
    settle(&self.te);
    (void)fry_fetch_add(&engine->helpers, 1);
    cr_assert(fry_turn_begin(&turn, engine, fry_context_get(engine), false));
    cr_assert(fry_baton_take(&engine->role));
    cr_assert_eq(fry_tick(engine, 1, true), 0);
    cr_assert(fry_arm(engine));
    cr_assert_neq(engine->poller.timer_ns, 0);
    cr_assert_leq(engine->poller.timer_ns, self.timer.link.when_ns);
    fry_disarm(engine);
    fry_baton_give(&engine->role);
    (void)fry_turn_end(&turn, engine->submit_budget);
    fry_help_ends(engine, fry_context_get(engine));
    stage_close(&self);
}

/* A waiting thread that is the loop for a moment. */
static void tick_for_others(const stage *self, int ticks)
{
    cr_assert(fry_role_borrow(self->engine));
    for (int i = 0; i < ticks; i++)
        (void)fry_tick(self->engine, 1, false);
    fry_role_return(self->engine);
}

Test(engine_timers, that_are_sooner_wake_who_sleeps_already)
{
    stage self;
    stage_open(&self);
    set(&self, from_now(far_ns));
    settle(&self.te);
    ASSERT_STATUS(ferry_engine_arm(self.engine), FERRY_OK);
    set(&self, from_now(soon_ns));
    tick_for_others(&self, 1);
    wait_readable(&self);
    sleep_until(&self, 1);
    stage_close(&self);
}

/* It takes the timer's expiry off the poller, and what comes next is the sleeper's again. */
Test(engine_timers, are_set_anew_by_who_takes_one_from_a_sleeper)
{
    stage self;
    stage_open(&self);
    self.next_in_ns = far_ns;
    int before;
    do { /* again, if its time comes before the loop sleeps */
        before = self.calls;
        set(&self, from_now(soon_ns));
        settle(&self.te);
    } while (ferry_engine_arm(self.engine) != FERRY_OK || self.calls != before);
    wait_readable(&self);
    tick_for_others(&self, 300); /* one of them looks at the poller */
    cr_assert_eq(self.calls, before + 1);
    cr_assert_eq(self.engine->poller.timer_ns, self.timer.link.when_ns);
    stage_close(&self);
}
