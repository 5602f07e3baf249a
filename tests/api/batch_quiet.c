/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cancelling a batch cancels its operations, and a batch is quiet when all of them are: memory of a
 * batch that failed, was cancelled or passed its deadline is its owner's again when
 * ferry_future_quiet has resolved, and is not touched any more.
 */
#include "tests/support/batch_test.h"
#include "tests/support/held_call.h"

#include <ev.h>

SCENE_SUITE(batch_quiet);

enum { MINE = 9, THEIRS = 7, COUNT = 300 }; /* more than are staged at a time */

static thread_executor own_thread;

static void start_thread(void)
{
    cr_assert(thread_executor_start(&own_thread));
}

/* What the operations of a batch are. */
typedef enum shape {
    SMALL_COPIES, /* such as are done at once where nothing holds them */
    LARGE_COPIES,
    ROWS,
    CALLS,
    NOPS,
    SHAPES,
} shape;

/* A batch whose operations all wait for the promise "p". */
typedef struct waiting {
    ferry_buffer *dst;
    ferry_op ops[COUNT];
    ferry_access accesses[COUNT];
    ferry_op_options options[COUNT]; /* of the operations */
    ferry_op_options shared;
    ferry_future *each[COUNT];
} waiting;

static ferry_op op_of(const waiting *w, shape of, size_t i, ferry_span dst, ferry_span src)
{
    if (of == ROWS)
        return columns_op(w->dst, src.buffer, i % SLICE, 1, SLICE, 4);
    if (of == CALLS)
        return call_op(count_call, scene_calls());
    return of == NOPS ? nop_op() : copy_op(dst, src);
}

static void waiting_open(waiting *w, ferry_loop_mode loop, shape of)
{
    size_t slice = of == LARGE_COPIES ? BIG : SLICE;
    size_t size = (of == LARGE_COPIES ? 20 : COUNT) * slice;
    scene_begin(loop);
    play("promise p; buffer src %zu of %d; buffer dst %zu of %d on 1", size, THEIRS, size, MINE);
    w->dst = the_buffer("dst");
    w->shared = behind_promise();
    w->shared.label = "request";
    for (size_t i = 0; i < COUNT; i++) {
        ferry_span dst = span_of(w->dst, i * slice % size, slice);
        w->accesses[i] = (ferry_access){dst, FERRY_WRITE};
        w->options[i] = (ferry_op_options)FERRY_OP_OPTIONS_INIT;
        w->ops[i] = op_of(w, of, i, dst, span_of(the_buffer("src"), i * slice % size, slice));
        if (of >= CALLS) {
            w->options[i] = touching(&w->accesses[i], 1);
            w->ops[i].options = &w->options[i];
        }
    }
}

/* Those with a handle and a deadline of their own are counted by the batch in another way. */
static void waiting_set_deadlines(waiting *w)
{
    for (size_t i = 0; i < COUNT; i += 2) {
        w->options[i].deadline_ns = INT64_MAX;
        w->ops[i].options = &w->options[i];
    }
}

/* It resolves when the memory of all of them is quiet. */
static ferry_status quiet_of(ferry_future *future)
{
    return ferry_future_wait(own(ferry_future_quiet(future)), -1);
}

static void assert_cancelled_by(ferry_future *batch, ferry_future *member, size_t index)
{
    ferry_status status = ferry_future_wait(member, -1);
    cr_assert_eq(status, FERRY_E_CANCELLED, "operation %zu is %s", index,
                 ferry_status_name(status));
    const ferry_error *error = ferry_future_error(member);
    ASSERT_STATUS(error->status, FERRY_E_CANCELLED);
    cr_assert_eq(error->op, ferry_future_id(member));
    cr_assert_not_null(error->cause, "it does not say that its batch was cancelled");
    ASSERT_STATUS(error->cause->status, FERRY_E_CANCELLED);
    cr_assert_eq(error->cause->op, ferry_future_id(batch));
    cr_assert_str_eq(error->cause->label, "request");
}

/* ---- operations that have not begun ---- */

static void cancels_what_waits(ferry_loop_mode loop, shape of, bool with_each, bool with_deadlines)
{
    static waiting w;
    waiting_open(&w, loop, of);
    if (with_deadlines)
        waiting_set_deadlines(&w);
    ferry_future *all = submit(w.ops, COUNT, with_each ? w.each : NULL, &w.shared);
    ferry_future *asked_before = own(ferry_future_quiet(all));
    ASSERT_STATUS(ferry_future_cancel(all), FERRY_OK);
    WAIT(all, E_CANCELLED);
    ASSERT_STATUS(ferry_future_error(all)->status, FERRY_E_CANCELLED);
    cr_assert_eq(ferry_future_error(all)->op, ferry_future_id(all));
    cr_assert_null(ferry_future_error(all)->cause);
    WAIT(asked_before, OK);
    ASSERT_STATUS(quiet_of(all), FERRY_OK);
    play("fill dst %d; keep p", MINE);
    drain();
    play("bytes dst %d; calls 0", MINE);
    for (size_t i = 0; with_each && i < COUNT; i++)
        assert_cancelled_by(all, w.each[i], i);
    scene_end();
}

Test(batch_quiet, a_cancel_reaches_what_waits)
{
    for (int of = 0; of < SHAPES; of++) {
        for (int how = 0; how < 8; how++)
            cancels_what_waits(how < 4 ? FERRY_LOOP_EMBEDDED : FERRY_LOOP_THREAD, (shape)of,
                               how % 2 != 0, how / 2 % 2 != 0);
    }
}

/* The loop is libev's: it cancels in its own turns, of which a large batch takes several. */
typedef struct loop_breaker {
    ferry_waiter waiter; /* first */
    struct ev_loop *loop;
} loop_breaker;

static void break_loop(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)future, (void)status;
    ev_break(((loop_breaker *)(void *)waiter)->loop, EVBREAK_ALL);
}

Test(batch_quiet, a_cancel_is_carried_out_by_an_attached_loop)
{
    enum { LARGE = 10000 };
    static ferry_op ops[LARGE];
    for (size_t i = 0; i < LARGE; i++)
        ops[i] = nop_op();
    struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
    scene_options(FERRY_LOOP_ATTACHED)->ev_loop = loop;
    play("promise p");
    ferry_op_options options = behind_promise();
    ferry_future *all = submit(ops, LARGE, NULL, &options), *quiet = own(ferry_future_quiet(all));
    loop_breaker self = {.waiter = FERRY_WAITER_INIT(break_loop, NULL), .loop = loop};
    ASSERT_STATUS(ferry_future_on_ready(quiet, &self.waiter), FERRY_OK);
    ASSERT_STATUS(ferry_future_cancel(all), FERRY_OK);
    ev_run(loop, 0);
    EXPECT_NOW(quiet, OK);
    EXPECT_NOW(all, E_CANCELLED);
    play("keep p");
    scene_end();
    ev_loop_destroy(loop);
}

/* What depends on one of them fails with the cancel as its cause; others go on. */
Test(batch_quiet, a_cancel_leaves_others_alone)
{
    static waiting w;
    waiting_open(&w, FERRY_LOOP_EMBEDDED, SMALL_COPIES);
    play("buffer sink 64 of 1 on 2; other = copy dst[0:64] <- src[0:64] after p");
    ferry_future *all = submit(w.ops + 1, COUNT - 1, w.each, &w.shared);
    play("later = copy sink <- dst[0:64] after p; reader = copy sink <- dst[64:128] after p");
    ferry_future *failed[] = {the_future("reader"), own(nop_after(scene(), all)),
                              own(nop_after(scene(), w.each[5]))};
    ASSERT_STATUS(ferry_future_cancel(all), FERRY_OK);
    WAIT(all, E_CANCELLED);
    play("resolve p");
    drain();
    play("now other later OK");
    for (size_t i = 0; i < 3; i++) {
        cr_assert_not_null(ferry_future_error(failed[i]), "%zu is %s", i,
                           ferry_status_name(ferry_future_poll(failed[i])));
        cr_assert_not_null(ferry_future_error(failed[i])->cause);
        ASSERT_STATUS(ferry_future_error(failed[i])->cause->status, FERRY_E_CANCELLED);
        cr_assert_eq(ferry_future_error(failed[i])->cause->op, ferry_future_id(all));
        EXPECT_NOW(failed[i], E_DEPENDENCY);
    }
    play("bytes sink %d", THEIRS);
}

static void *cancel_from_here(void *future)
{
    ASSERT_STATUS(ferry_future_cancel(future), FERRY_OK);
    return NULL;
}

Test(batch_quiet, a_cancel_comes_from_any_thread_and_twice)
{
    for (int loop = 0; loop < 2; loop++) {
        static waiting w;
        waiting_open(&w, loop == 0 ? FERRY_LOOP_THREAD : FERRY_LOOP_EMBEDDED, LARGE_COPIES);
        ferry_future *all = submit(w.ops, COUNT, w.each, &w.shared);
        pthread_t threads[4];
        for (size_t i = 0; i < 4; i++)
            threads[i] = begin_thread(cancel_from_here, all);
        for (size_t i = 0; i < 4; i++)
            (void)end_thread(threads[i]);
        WAIT(all, E_CANCELLED);
        ASSERT_STATUS(ferry_future_cancel(all), FERRY_OK);
        ASSERT_STATUS(quiet_of(all), FERRY_OK);
        for (size_t i = 0; i < COUNT; i++)
            assert_cancelled_by(all, w.each[i], i);
        ASSERT_STATUS(ferry_future_cancel(all), FERRY_OK);
        scene_end();
    }
}

/* Too late: nothing happens, to it or to others. */
Test(batch_quiet, a_cancel_after_its_end_does_nothing)
{
    static waiting w;
    waiting_open(&w, FERRY_LOOP_EMBEDDED, SMALL_COPIES);
    ferry_future *done = submit(w.ops, COUNT, NULL, NULL);
    WAIT(done, OK);
    ferry_op none = {0};
    ferry_future *refused = submit(&none, 1, NULL, NULL);
    WAIT(refused, E_DEPENDENCY);
    ferry_future *all = submit(w.ops, COUNT, w.each, &w.shared);
    ASSERT_STATUS(ferry_future_cancel(done), FERRY_OK);
    ASSERT_STATUS(ferry_future_cancel(refused), FERRY_OK);
    scene_settle();
    ASSERT_STATUS(quiet_of(done), FERRY_OK);
    ASSERT_STATUS(quiet_of(refused), FERRY_OK);
    EXPECT_NOW(done, OK);
    EXPECT_NOW(refused, E_DEPENDENCY);
    EXPECT_NOW(all, PENDING);
    play("resolve p");
    WAIT(all, OK);
}

/* The loop gives the graph to others meanwhile: a tick of it cancels so many and no more. */
Test(batch_quiet, a_large_one_is_cancelled_in_pieces)
{
    enum { LARGE = 20000, PIECE = 2048 };
    static ferry_op ops[LARGE];
    static ferry_future *each[LARGE];
    for (size_t i = 0; i < LARGE; i++)
        ops[i] = nop_op();
    play("promise p");
    ferry_op_options options = behind_promise();
    ferry_future *all = submit(ops, LARGE, each, &options);
    scene_settle();
    ASSERT_STATUS(ferry_future_cancel(all), FERRY_OK);
    size_t cancelled = 0, ticks = 0;
    while (cancelled < LARGE) {
        size_t before = cancelled;
        cr_assert_gt(ferry_engine_progress(engine(), 1), 0, "it stops at %zu", cancelled);
        cancelled = 0;
        for (size_t i = 0; i < LARGE; i++)
            cancelled += ferry_future_poll(each[i]) == FERRY_E_CANCELLED;
        cr_assert_leq(cancelled - before, PIECE);
        if (cancelled < LARGE)
            ASSERT_STATUS(ferry_future_poll(all), FERRY_PENDING);
        ticks++;
    }
    EXPECT(all, E_CANCELLED); /* the batch itself comes last, perhaps in a tick of its own */
    cr_assert_leq(ticks, LARGE / 16, "%zu ticks", ticks);
    ASSERT_STATUS(quiet_of(all), FERRY_OK);
}

/* Several at once, and operations of others among theirs. */
Test(batch_quiet, several_are_cancelled_at_once)
{
    enum { BATCHES = 20, OPS = 50 };
    ferry_op ops[OPS];
    static ferry_future *each[BATCHES][OPS];
    ferry_future *all[BATCHES];
    for (size_t i = 0; i < OPS; i++)
        ops[i] = nop_op();
    play("promise p");
    ferry_op_options options = behind_promise();
    for (size_t i = 0; i < BATCHES; i++) {
        all[i] = submit(ops, OPS, i % 2 == 0 ? each[i] : NULL, &options);
        play("between%zu = nop after p", i);
    }
    for (size_t i = 0; i < BATCHES; i += 2 + i % 3)
        ASSERT_STATUS(ferry_future_cancel(all[i]), FERRY_OK);
    play("settle; keep p; settle");
    for (size_t i = 0, next = 0; i < BATCHES; i++) {
        ferry_status expected = i == next ? FERRY_E_CANCELLED : FERRY_OK;
        next += i == next ? 2 + i % 3 : 0;
        ASSERT_STATUS(ferry_future_poll(all[i]), expected);
        play("now between%zu OK", i);
        for (size_t k = 0; i % 2 == 0 && k < OPS; k++)
            ASSERT_STATUS(ferry_future_poll(each[i][k]), expected);
    }
}

/* ---- operations that are under way ---- */

/* A batch with one function that stands still while it writes, and what else the test wants. */
typedef struct under_way {
    held_call held;
    ferry_access access;
    ferry_op_options writes;
    ferry_op ops[4];
    ferry_future *each[4];
} under_way;

static void under_way_open(under_way *u, ferry_loop_mode loop)
{
    start_thread();
    scene_begin(loop);
    play("buffer b %d", SLICE);
    held_call_init(&u->held, the_span("b"), THEIRS);
    u->access = (ferry_access){the_span("b"), FERRY_WRITE};
    u->writes = touching(&u->access, 1);
    u->ops[0] = call_op(held_call_run, &u->held);
    u->ops[0].executor = &own_thread.executor;
    u->ops[0].options = &u->writes;
}

/* In embedded mode somebody must hand the function out. */
static void await_begun(under_way *u)
{
    scene_settle();
    held_call_await(&u->held);
}

/* The future is pending however long one looks, and resolves once the function has returned. */
static void assert_quiet_comes_with_the_end(under_way *u, ferry_future *quiet)
{
    scene_settle();
    ASSERT_STATUS(ferry_future_wait(quiet, 2000000), FERRY_PENDING);
    held_call_let_go(&u->held);
    WAIT(quiet, OK);
    play("bytes b %d", THEIRS); /* or quiet came before its function had written */
}

/* The thread ends after the shutdown and ahead of the release: the last task of an executor's,
 * which may not have returned yet, keeps the engine's memory. */
static void under_way_close(void)
{
    ASSERT_STATUS(ferry_engine_shutdown(engine(), -1), FERRY_OK);
    thread_executor_stop(&own_thread);
    scene_end();
}

static void cancels_under_way(ferry_loop_mode loop, bool with_each, bool with_deadline)
{
    static under_way u;
    under_way_open(&u, loop);
    if (with_deadline)
        u.writes.deadline_ns = INT64_MAX;
    ferry_future *all = submit(u.ops, 1, with_each ? u.each : NULL, NULL);
    await_begun(&u);
    ASSERT_STATUS(ferry_future_cancel(all), FERRY_OK);
    WAIT(all, E_CANCELLED);
    if (with_each)
        WAIT(u.each[0], E_CANCELLED);
    assert_quiet_comes_with_the_end(&u, own(ferry_future_quiet(all)));
    drain();
    under_way_close();
}

Test(batch_quiet, it_is_quiet_when_what_was_cancelled_under_way_is)
{
    for (int how = 0; how < 8; how++)
        cancels_under_way(how < 4 ? FERRY_LOOP_EMBEDDED : FERRY_LOOP_THREAD, how % 2 != 0,
                          how / 2 % 2 != 0);
}

/* One has failed, was refused, or its deadline has passed: the others go on, and it is not quiet
 * before they are; a cancel still reaches them. */
typedef enum early_end { ONE_FAILS, ONE_IS_REFUSED, DEADLINE_PASSES, ONE_IS_CANCELLED } early_end;

static void ends_early(early_end how, bool with_each, bool is_cancelled)
{
    static under_way u;
    under_way_open(&u, FERRY_LOOP_EMBEDDED);
    play("promise p");
    ferry_op_options waits = behind_promise(), shared = FERRY_OP_OPTIONS_INIT;
    atomic_store(scene_calls(), 0);
    u.ops[1] = nop_op();
    if (how == ONE_FAILS)
        u.ops[1] = call_op(fail_call, NULL);
    if (how == ONE_IS_REFUSED)
        u.ops[1].kind = FERRY_OP_PROMISE;
    if (how == ONE_IS_CANCELLED)
        u.ops[1].options = &waits;
    if (how == DEADLINE_PASSES)
        shared.deadline_ns = START_NS + 100;
    else
        waits.deadline_ns = INT64_MAX;
    u.ops[2] = call_op(count_call, scene_calls());
    u.ops[2].options = &waits;
    ferry_future *all = submit(u.ops, 3, with_each ? u.each : NULL, &shared);
    await_begun(&u);
    if (how == ONE_IS_CANCELLED)
        ASSERT_STATUS(ferry_future_cancel(u.each[1]), FERRY_OK);
    stepped_clock_step(&scene()->time, 100);
    EXPECT(all, E_DEPENDENCY);
    ferry_future *quiet = own(ferry_future_quiet(all));
    EXPECT(quiet, PENDING);
    if (is_cancelled) {
        ASSERT_STATUS(ferry_future_cancel(all), FERRY_OK);
        scene_settle();
    } else if (how != DEADLINE_PASSES) {
        held_call_let_go(&u.held);
        thread_executor_wait_idle(&own_thread);
        EXPECT(quiet, PENDING); /* the third has yet to run */
        play("resolve p");
        WAIT(quiet, OK);
        cr_assert_eq(*scene_calls(), 1);
    }
    if (is_cancelled || how == DEADLINE_PASSES) {
        assert_quiet_comes_with_the_end(&u, quiet);
        cr_assert_eq(*scene_calls(), 0);
    }
    EXPECT_NOW(all, E_DEPENDENCY);
    if (with_each) {
        ferry_status third = how == DEADLINE_PASSES ? FERRY_E_DEADLINE
                             : is_cancelled         ? FERRY_E_CANCELLED
                                                    : FERRY_OK;
        ASSERT_STATUS(ferry_future_poll(u.each[2]), third);
        ASSERT_STATUS(ferry_future_poll(u.each[0]), third);
    }
    play("release p");
    drain();
    under_way_close();
}

Test(batch_quiet, it_is_quiet_when_those_behind_a_failure_are)
{
    for (int how = 0; how < 4; how++) {
        ends_early(ONE_FAILS, how % 2 != 0, how / 2 != 0);
        ends_early(ONE_IS_REFUSED, how % 2 != 0, how / 2 != 0);
        ends_early(DEADLINE_PASSES, how % 2 != 0, how / 2 != 0);
    }
    ends_early(ONE_IS_CANCELLED, true, false);
    ends_early(ONE_IS_CANCELLED, true, true);
}

/* Somebody writes for the batch while a buffer is said to be valid with its end: who overwrites
 * that buffer waits for them, though the batch has failed. */
Test(batch_quiet, who_overwrites_what_it_defines_waits_for_all_of_it)
{
    static under_way u;
    under_way_open(&u, FERRY_LOOP_EMBEDDED);
    play("buffer defined 64 of 1 on 1; buffer src 64 of 3 on 2");
    ferry_future *all = submit(u.ops, 1, NULL, NULL);
    ASSERT_STATUS(ferry_buffer_define(the_span("defined"), all), FERRY_OK);
    play("writer = copy defined <- src");
    await_begun(&u);
    ASSERT_STATUS(ferry_future_cancel(all), FERRY_OK);
    EXPECT(all, E_CANCELLED);
    play("expect writer PENDING; bytes defined 1");
    held_call_let_go(&u.held);
    play("wait writer OK; bytes defined 3");
    drain();
    under_way_close();
}

/* The batch's slot and those of its operations come back. */
Test(batch_quiet, what_was_cancelled_gives_its_room_back)
{
    scene_options(FERRY_LOOP_EMBEDDED)->max_nodes = 64;
    ferry_op ops[40];
    for (size_t i = 0; i < 40; i++)
        ops[i] = nop_op();
    for (int round = 0; round < 100; round++) {
        ferry_promise *promise = test_promise(scene());
        ferry_future *after = ferry_promise_future(promise), *each[40];
        ferry_op_options options = behind(&after, 1);
        ferry_future *all =
            ferry_batch(engine(), ops, sizeof ops[0], 40, round % 2 != 0 ? each : NULL, &options);
        ASSERT_STATUS(ferry_future_cancel(all), FERRY_OK);
        if (round % 3 == 0)
            ferry_future_release(all); /* at once: nobody has the batch while it is cancelled */
        scene_settle();
        if (round % 3 != 0)
            ASSERT_STATUS(status_of(all), FERRY_E_CANCELLED);
        for (size_t i = 0; round % 2 != 0 && i < 40; i++)
            ASSERT_STATUS(status_of(each[i]), FERRY_E_CANCELLED);
        keep_promise(promise, FERRY_OK);
        ferry_future_release(after);
    }
}

/* The shutdown comes in the midst of it. */
Test(batch_quiet, a_shutdown_comes_while_it_is_cancelled)
{
    for (int how = 0; how < 4; how++) {
        static under_way u;
        under_way_open(&u, FERRY_LOOP_EMBEDDED);
        ferry_future *all = submit(u.ops, 1, how % 2 != 0 ? u.each : NULL, NULL);
        await_begun(&u);
        ASSERT_STATUS(ferry_future_cancel(all), FERRY_OK);
        if (how / 2 != 0)
            scene_settle();
        ASSERT_STATUS(ferry_engine_shutdown(engine(), 0), FERRY_E_DEADLINE);
        held_call_let_go(&u.held);
        ASSERT_STATUS(ferry_engine_shutdown(engine(), -1), FERRY_OK);
        play("bytes b %d", THEIRS);
        ASSERT_STATUS(ferry_future_cancel(all), FERRY_OK);
        ferry_status status = ferry_future_poll(all);
        cr_assert(status == FERRY_E_CANCELLED || status == FERRY_E_SHUTDOWN, "%s",
                  ferry_status_name(status));
        under_way_close();
    }
}
