/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cancelling a batch cancels its operations, and a batch is quiet when all of them are: memory of a
 * batch that failed, was cancelled or passed its deadline is its owner's again when
 * ferry_future_quiet has resolved, and is not touched any more.
 */
#include "tests/support/batch_test.h"
#include "tests/support/held_call.h"

#include <ev.h>

TestSuite(batch_quiet, .timeout = HANG_S);

enum { MINE = 9, THEIRS = 7, COUNT = 300 }; /* more than are staged at a time */

static thread_executor own_thread;

static void start_thread(void)
{
    cr_assert(thread_executor_start(&own_thread));
}

/* After the shutdown and ahead of the release: the last task of an executor's, which may not have
 * returned yet, keeps the engine's memory. */
static void stop_thread(void)
{
    thread_executor_stop(&own_thread);
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

typedef struct waiting {
    test_engine te;
    ferry_promise *promise; /* they all wait for this */
    ferry_future *after;
    ferry_buffer *src, *dst;
    ferry_op ops[COUNT];
    ferry_access accesses[COUNT];
    ferry_op_options options[COUNT]; /* of the operations */
    ferry_op_options shared;
    ferry_future *each[COUNT];
    _Atomic int calls;
} waiting;

static size_t slice_of(shape of)
{
    return of == LARGE_COPIES ? BIG : SLICE;
}

static void waiting_open(waiting *w, ferry_loop_mode loop, shape of)
{
    size_t slice = slice_of(of), size = (of == LARGE_COPIES ? 20 : COUNT) * slice;
    test_engine_open(&w->te, loop);
    w->promise = test_promise(&w->te);
    w->after = ferry_promise_future(w->promise);
    w->src = test_buffer(&w->te, 0, size, THEIRS);
    w->dst = test_buffer(&w->te, 1, size, MINE);
    w->shared = after_one(&w->after);
    w->shared.label = "request";
    atomic_init(&w->calls, 0);
    for (size_t i = 0; i < COUNT; i++) {
        ferry_span dst = span_of(w->dst, i * slice % size, slice);
        ferry_span src = span_of(w->src, i * slice % size, slice);
        w->accesses[i] = (ferry_access){dst, FERRY_WRITE};
        w->options[i] = (ferry_op_options)FERRY_OP_OPTIONS_INIT;
        w->ops[i] = copy_op(dst, src);
        if (of == ROWS)
            w->ops[i] = columns_op(w->dst, w->src, i % SLICE, 1, SLICE, 4);
        if (of == CALLS)
            w->ops[i] = call_op(count_call, &w->calls);
        if (of == NOPS)
            w->ops[i] = nop_op();
        if (of >= CALLS) {
            w->options[i].accesses = &w->accesses[i];
            w->options[i].access_count = 1;
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

static void waiting_close(waiting *w)
{
    ferry_future_release(w->after);
    ferry_promise_release(w->promise);
    ferry_buffer_release(w->src);
    ferry_buffer_release(w->dst);
    test_engine_close(&w->te);
}

/* It resolves when the memory of all of them is quiet. */
static ferry_status quiet_of(ferry_future *future)
{
    return end_of(ferry_future_quiet(future));
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
    ferry_future *all = submit(&w.te, w.ops, COUNT, with_each ? w.each : NULL, &w.shared);
    ferry_future *asked_before = ferry_future_quiet(all);
    ASSERT_STATUS(ferry_future_cancel(all), FERRY_OK);
    ASSERT_STATUS(ferry_future_wait(all, -1), FERRY_E_CANCELLED);
    ASSERT_STATUS(ferry_future_error(all)->status, FERRY_E_CANCELLED);
    cr_assert_eq(ferry_future_error(all)->op, ferry_future_id(all));
    cr_assert_null(ferry_future_error(all)->cause);
    ASSERT_STATUS(end_of(asked_before), FERRY_OK);
    ASSERT_STATUS(quiet_of(all), FERRY_OK);
    memset(ferry_buffer_data(w.dst), MINE, ferry_buffer_size_bytes(w.dst));
    ASSERT_STATUS(ferry_promise_resolve(w.promise, FERRY_OK, NULL), FERRY_OK);
    drain(&w.te);
    cr_assert(is_filled(w.dst, 0, ferry_buffer_size_bytes(w.dst), MINE));
    cr_assert_eq(w.calls, 0);
    for (size_t i = 0; with_each && i < COUNT; i++)
        assert_cancelled_by(all, w.each[i], i);
    if (with_each)
        release_all(w.each, COUNT);
    ferry_future_release(all);
    waiting_close(&w);
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
    test_engine te;
    ferry_engine_options engine_options = test_engine_options(&te, FERRY_LOOP_ATTACHED);
    engine_options.ev_loop = ev_loop_new(EVFLAG_AUTO);
    test_engine_create(&te, &engine_options);
    ferry_promise *promise = test_promise(&te);
    ferry_future *after = ferry_promise_future(promise);
    ferry_op_options options = after_one(&after);
    static ferry_op ops[LARGE];
    for (size_t i = 0; i < LARGE; i++)
        ops[i] = nop_op();
    ferry_future *all = submit(&te, ops, LARGE, NULL, &options), *quiet = ferry_future_quiet(all);
    loop_breaker self = {.waiter = FERRY_WAITER_INIT(break_loop, NULL),
                         .loop = engine_options.ev_loop};
    ASSERT_STATUS(ferry_future_on_ready(quiet, &self.waiter), FERRY_OK);
    ASSERT_STATUS(ferry_future_cancel(all), FERRY_OK);
    ev_run(engine_options.ev_loop, 0);
    ASSERT_STATUS(status_of(quiet), FERRY_OK);
    ASSERT_STATUS(status_of(all), FERRY_E_CANCELLED);
    keep_promise(promise, FERRY_OK);
    ferry_future_release(after);
    test_engine_close(&te);
    ev_loop_destroy(engine_options.ev_loop);
}

/* What depends on one of them fails with the cancel as its cause; others go on. */
Test(batch_quiet, a_cancel_leaves_others_alone)
{
    static waiting w;
    waiting_open(&w, FERRY_LOOP_EMBEDDED, SMALL_COPIES);
    ferry_buffer *sink = test_buffer(&w.te, 2, SLICE, 1);
    ferry_future *other =
        copy_after(&w.te, span_of(w.dst, 0, SLICE), span_of(w.src, 0, SLICE), w.after);
    ferry_future *all = submit(&w.te, w.ops + 1, COUNT - 1, w.each, &w.shared);
    ferry_future *later =
        copy_after(&w.te, span_of(sink, 0, SLICE), span_of(w.dst, 0, SLICE), w.after);
    ferry_future *reader =
        copy_after(&w.te, span_of(sink, 0, SLICE), span_of(w.dst, SLICE, SLICE), w.after);
    ferry_future *behind = nop_after(&w.te, all), *behind_one = nop_after(&w.te, w.each[5]);
    ASSERT_STATUS(ferry_future_cancel(all), FERRY_OK);
    ASSERT_STATUS(ferry_future_wait(all, -1), FERRY_E_CANCELLED);
    ASSERT_STATUS(ferry_promise_resolve(w.promise, FERRY_OK, NULL), FERRY_OK);
    drain(&w.te);
    ASSERT_STATUS(status_of(other), FERRY_OK);
    ASSERT_STATUS(status_of(later), FERRY_OK);
    ferry_future *failed[3] = {reader, behind, behind_one};
    for (size_t i = 0; i < 3; i++) {
        cr_assert_not_null(ferry_future_error(failed[i]), "%zu is %s", i,
                           ferry_status_name(ferry_future_poll(failed[i])));
        cr_assert_not_null(ferry_future_error(failed[i])->cause);
        ASSERT_STATUS(ferry_future_error(failed[i])->cause->status, FERRY_E_CANCELLED);
        cr_assert_eq(ferry_future_error(failed[i])->cause->op, ferry_future_id(all));
        ASSERT_STATUS(status_of(failed[i]), FERRY_E_DEPENDENCY);
    }
    cr_assert(is_filled(sink, 0, SLICE, THEIRS));
    release_all(w.each, COUNT - 1);
    ferry_future_release(all);
    ferry_buffer_release(sink);
    waiting_close(&w);
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
        ferry_future *all = submit(&w.te, w.ops, COUNT, w.each, &w.shared);
        pthread_t threads[4];
        for (size_t i = 0; i < 4; i++)
            cr_assert_eq(pthread_create(&threads[i], NULL, cancel_from_here, all), 0);
        for (size_t i = 0; i < 4; i++)
            cr_assert_eq(pthread_join(threads[i], NULL), 0);
        ASSERT_STATUS(ferry_future_wait(all, -1), FERRY_E_CANCELLED);
        ASSERT_STATUS(ferry_future_cancel(all), FERRY_OK);
        ASSERT_STATUS(quiet_of(all), FERRY_OK);
        for (size_t i = 0; i < COUNT; i++)
            assert_cancelled_by(all, w.each[i], i);
        release_all(w.each, COUNT);
        ASSERT_STATUS(ferry_future_cancel(all), FERRY_OK);
        ferry_future_release(all);
        waiting_close(&w);
    }
}

/* Too late: nothing happens, to it or to others. */
Test(batch_quiet, a_cancel_after_its_end_does_nothing)
{
    static waiting w;
    waiting_open(&w, FERRY_LOOP_EMBEDDED, SMALL_COPIES);
    ferry_future *done = submit(&w.te, w.ops, COUNT, NULL, NULL);
    ASSERT_STATUS(ferry_future_wait(done, -1), FERRY_OK);
    ferry_op none = {0};
    ferry_future *refused = submit(&w.te, &none, 1, NULL, NULL);
    ASSERT_STATUS(ferry_future_wait(refused, -1), FERRY_E_DEPENDENCY);
    ferry_future *all = submit(&w.te, w.ops, COUNT, w.each, &w.shared);
    ASSERT_STATUS(ferry_future_cancel(done), FERRY_OK);
    ASSERT_STATUS(ferry_future_cancel(refused), FERRY_OK);
    settle(&w.te);
    ASSERT_STATUS(quiet_of(done), FERRY_OK);
    ASSERT_STATUS(quiet_of(refused), FERRY_OK);
    ASSERT_STATUS(status_of(done), FERRY_OK);
    ASSERT_STATUS(status_of(refused), FERRY_E_DEPENDENCY);
    ASSERT_STATUS(ferry_future_poll(all), FERRY_PENDING);
    ASSERT_STATUS(ferry_promise_resolve(w.promise, FERRY_OK, NULL), FERRY_OK);
    ASSERT_STATUS(end_of(all), FERRY_OK);
    release_all(w.each, COUNT);
    waiting_close(&w);
}

/* The loop gives the graph to others meanwhile: a tick of it cancels so many and no more. */
Test(batch_quiet, a_large_one_is_cancelled_in_pieces)
{
    enum { LARGE = 20000, PIECE = 2048 };
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_promise *promise = test_promise(&te);
    ferry_future *after = ferry_promise_future(promise);
    ferry_op_options options = after_one(&after);
    static ferry_op ops[LARGE];
    static ferry_future *each[LARGE];
    for (size_t i = 0; i < LARGE; i++)
        ops[i] = nop_op();
    ferry_future *all = submit(&te, ops, LARGE, each, &options);
    settle(&te);
    ASSERT_STATUS(ferry_future_cancel(all), FERRY_OK);
    size_t cancelled = 0, ticks = 0;
    while (cancelled < LARGE) {
        size_t before = cancelled;
        cr_assert_gt(ferry_engine_progress(te.engine, 1), 0, "it stops at %zu", cancelled);
        cancelled = 0;
        for (size_t i = 0; i < LARGE; i++)
            cancelled += ferry_future_poll(each[i]) == FERRY_E_CANCELLED;
        cr_assert_leq(cancelled - before, PIECE);
        if (cancelled < LARGE)
            ASSERT_STATUS(ferry_future_poll(all), FERRY_PENDING);
        ticks++;
    }
    settle(&te); /* the batch itself comes last, perhaps in a tick of its own */
    ASSERT_STATUS(ferry_future_poll(all), FERRY_E_CANCELLED);
    cr_assert_leq(ticks, LARGE / 16, "%zu ticks", ticks);
    ASSERT_STATUS(quiet_of(all), FERRY_OK);
    release_all(each, LARGE);
    ferry_future_release(all);
    keep_promise(promise, FERRY_OK);
    ferry_future_release(after);
    test_engine_close(&te);
}

/* Several at once, and operations of others among theirs. */
Test(batch_quiet, several_are_cancelled_at_once)
{
    enum { BATCHES = 20, OPS = 50 };
    test_engine te;
    test_engine_open(&te, FERRY_LOOP_EMBEDDED);
    ferry_promise *promise = test_promise(&te);
    ferry_future *after = ferry_promise_future(promise);
    ferry_op_options options = after_one(&after);
    ferry_op ops[OPS];
    static ferry_future *each[BATCHES][OPS];
    ferry_future *all[BATCHES], *between[BATCHES];
    for (size_t i = 0; i < OPS; i++)
        ops[i] = nop_op();
    for (size_t i = 0; i < BATCHES; i++) {
        all[i] = submit(&te, ops, OPS, i % 2 == 0 ? each[i] : NULL, &options);
        between[i] = nop_after(&te, after);
    }
    for (size_t i = 0; i < BATCHES; i += 2 + i % 3)
        ASSERT_STATUS(ferry_future_cancel(all[i]), FERRY_OK);
    settle(&te);
    keep_promise(promise, FERRY_OK);
    settle(&te);
    for (size_t i = 0, next = 0; i < BATCHES; i++) {
        ferry_status expected = i == next ? FERRY_E_CANCELLED : FERRY_OK;
        next += i == next ? 2 + i % 3 : 0;
        ASSERT_STATUS(status_of(all[i]), expected);
        ASSERT_STATUS(status_of(between[i]), FERRY_OK);
        for (size_t k = 0; i % 2 == 0 && k < OPS; k++)
            ASSERT_STATUS(status_of(each[i][k]), expected);
    }
    ferry_future_release(after);
    test_engine_close(&te);
}

/* ---- operations that are under way ---- */

/* A batch with one function that stands still while it writes, and what else the test wants. */
typedef struct under_way {
    test_engine te;
    ferry_buffer *buffer;
    held_call held;
    ferry_access access;
    ferry_op_options writes;
    ferry_op ops[4];
    ferry_future *each[4];
} under_way;

static void under_way_open(under_way *u, ferry_loop_mode loop)
{
    start_thread();
    test_engine_open(&u->te, loop);
    u->buffer = test_buffer(&u->te, 0, SLICE, 0);
    held_call_init(&u->held, ferry_buffer_span(u->buffer), THEIRS);
    u->access = (ferry_access){ferry_buffer_span(u->buffer), FERRY_WRITE};
    u->writes = (ferry_op_options)FERRY_OP_OPTIONS_INIT;
    u->writes.accesses = &u->access;
    u->writes.access_count = 1;
    u->ops[0] = call_op(held_call_run, &u->held);
    u->ops[0].executor = &own_thread.executor;
    u->ops[0].options = &u->writes;
}

/* In embedded mode somebody must hand the function out. */
static void await_begun(under_way *u, bool is_embedded)
{
    if (is_embedded)
        settle(&u->te);
    held_call_await(&u->held);
}

/* The future is pending however long one looks, and resolves once the function has returned. */
static void assert_quiet_comes_with_the_end(under_way *u, ferry_future *quiet, bool is_embedded)
{
    if (is_embedded)
        settle(&u->te);
    ASSERT_STATUS(ferry_future_wait(quiet, 2000000), FERRY_PENDING);
    held_call_let_go(&u->held);
    ASSERT_STATUS(end_of(quiet), FERRY_OK);
    cr_assert(is_filled(u->buffer, 0, SLICE, THEIRS), "quiet came before its function had written");
}

static void under_way_close(under_way *u)
{
    drain(&u->te);
    ferry_buffer_release(u->buffer);
    ASSERT_STATUS(ferry_engine_shutdown(u->te.engine, -1), FERRY_OK);
    stop_thread();
    test_engine_close(&u->te);
}

static void cancels_under_way(ferry_loop_mode loop, bool with_each, bool with_deadline)
{
    static under_way u;
    bool is_embedded = loop == FERRY_LOOP_EMBEDDED;
    under_way_open(&u, loop);
    if (with_deadline)
        u.writes.deadline_ns = INT64_MAX;
    ferry_future *all = submit(&u.te, u.ops, 1, with_each ? u.each : NULL, NULL);
    await_begun(&u, is_embedded);
    ASSERT_STATUS(ferry_future_cancel(all), FERRY_OK);
    ASSERT_STATUS(ferry_future_wait(all, -1), FERRY_E_CANCELLED);
    if (with_each)
        ASSERT_STATUS(end_of(u.each[0]), FERRY_E_CANCELLED);
    assert_quiet_comes_with_the_end(&u, ferry_future_quiet(all), is_embedded);
    ferry_future_release(all);
    under_way_close(&u);
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
    ferry_promise *promise = test_promise(&u.te);
    ferry_future *after = ferry_promise_future(promise);
    ferry_op_options waits = after_one(&after), shared = FERRY_OP_OPTIONS_INIT;
    _Atomic int calls = 0;
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
    u.ops[2] = call_op(count_call, &calls);
    u.ops[2].options = &waits;
    ferry_future *all = submit(&u.te, u.ops, 3, with_each ? u.each : NULL, &shared);
    await_begun(&u, true);
    if (how == ONE_IS_CANCELLED)
        ASSERT_STATUS(ferry_future_cancel(u.each[1]), FERRY_OK);
    stepped_clock_step(&u.te.time, 100);
    settle(&u.te);
    ASSERT_STATUS(ferry_future_poll(all), FERRY_E_DEPENDENCY);
    ferry_future *quiet = ferry_future_quiet(all);
    settle(&u.te);
    ASSERT_STATUS(ferry_future_poll(quiet), FERRY_PENDING);
    if (is_cancelled) {
        ASSERT_STATUS(ferry_future_cancel(all), FERRY_OK);
        settle(&u.te);
    } else if (how != DEADLINE_PASSES) {
        held_call_let_go(&u.held);
        thread_executor_wait_idle(&own_thread);
        settle(&u.te);
        ASSERT_STATUS(ferry_future_poll(quiet), FERRY_PENDING); /* the third has yet to run */
        ASSERT_STATUS(ferry_promise_resolve(promise, FERRY_OK, NULL), FERRY_OK);
        ASSERT_STATUS(end_of(quiet), FERRY_OK);
        cr_assert_eq(calls, 1);
    }
    if (is_cancelled || how == DEADLINE_PASSES) {
        assert_quiet_comes_with_the_end(&u, quiet, true);
        cr_assert_eq(calls, 0);
    }
    ASSERT_STATUS(status_of(all), FERRY_E_DEPENDENCY);
    if (with_each) {
        ferry_status third = how == DEADLINE_PASSES ? FERRY_E_DEADLINE
                             : is_cancelled         ? FERRY_E_CANCELLED
                                                    : FERRY_OK;
        ASSERT_STATUS(ferry_future_poll(u.each[2]), third);
        ASSERT_STATUS(ferry_future_poll(u.each[0]), third);
        release_all(u.each, 3);
    }
    ferry_future_release(after);
    ferry_promise_release(promise);
    under_way_close(&u);
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
    ferry_buffer *defined = test_buffer(&u.te, 1, SLICE, 1), *src = test_buffer(&u.te, 2, SLICE, 3);
    ferry_future *all = submit(&u.te, u.ops, 1, NULL, NULL);
    ASSERT_STATUS(ferry_buffer_define(ferry_buffer_span(defined), all), FERRY_OK);
    ferry_future *writer =
        ferry_copy(u.te.engine, ferry_buffer_span(defined), ferry_buffer_span(src), NULL);
    await_begun(&u, true);
    ASSERT_STATUS(ferry_future_cancel(all), FERRY_OK);
    settle(&u.te);
    ASSERT_STATUS(ferry_future_poll(all), FERRY_E_CANCELLED);
    ASSERT_STATUS(ferry_future_poll(writer), FERRY_PENDING);
    cr_assert(is_filled(defined, 0, SLICE, 1));
    held_call_let_go(&u.held);
    ASSERT_STATUS(end_of(writer), FERRY_OK);
    cr_assert(is_filled(defined, 0, SLICE, 3));
    ferry_future_release(all);
    ferry_buffer_release(defined);
    ferry_buffer_release(src);
    under_way_close(&u);
}

/* The batch's slot and those of its operations come back. */
Test(batch_quiet, what_was_cancelled_gives_its_room_back)
{
    test_engine te;
    ferry_engine_options engine_options = test_engine_options(&te, FERRY_LOOP_EMBEDDED);
    engine_options.max_nodes = 64;
    test_engine_create(&te, &engine_options);
    ferry_op ops[40];
    for (size_t i = 0; i < 40; i++)
        ops[i] = nop_op();
    for (int round = 0; round < 100; round++) {
        ferry_promise *promise = test_promise(&te);
        ferry_future *after = ferry_promise_future(promise), *each[40];
        ferry_op_options options = after_one(&after);
        ferry_future *all = submit(&te, ops, 40, round % 2 != 0 ? each : NULL, &options);
        ASSERT_STATUS(ferry_future_cancel(all), FERRY_OK);
        if (round % 3 == 0)
            ferry_future_release(all); /* at once: nobody has the batch while it is cancelled */
        settle(&te);
        if (round % 3 != 0)
            ASSERT_STATUS(status_of(all), FERRY_E_CANCELLED);
        for (size_t i = 0; round % 2 != 0 && i < 40; i++)
            ASSERT_STATUS(status_of(each[i]), FERRY_E_CANCELLED);
        keep_promise(promise, FERRY_OK);
        ferry_future_release(after);
    }
    test_engine_close(&te);
}

/* The shutdown comes in the midst of it. */
Test(batch_quiet, a_shutdown_comes_while_it_is_cancelled)
{
    for (int how = 0; how < 4; how++) {
        static under_way u;
        under_way_open(&u, FERRY_LOOP_EMBEDDED);
        ferry_future *all = submit(&u.te, u.ops, 1, how % 2 != 0 ? u.each : NULL, NULL);
        await_begun(&u, true);
        ASSERT_STATUS(ferry_future_cancel(all), FERRY_OK);
        if (how / 2 != 0)
            settle(&u.te);
        ASSERT_STATUS(ferry_engine_shutdown(u.te.engine, 0), FERRY_E_DEADLINE);
        held_call_let_go(&u.held);
        ASSERT_STATUS(ferry_engine_shutdown(u.te.engine, -1), FERRY_OK);
        cr_assert(is_filled(u.buffer, 0, SLICE, THEIRS));
        ASSERT_STATUS(ferry_future_cancel(all), FERRY_OK);
        ferry_status status = status_of(all);
        cr_assert(status == FERRY_E_CANCELLED || status == FERRY_E_SHUTDOWN, "%s",
                  ferry_status_name(status));
        if (how % 2 != 0)
            ferry_future_release(u.each[0]);
        ferry_buffer_release(u.buffer);
        ASSERT_STATUS(ferry_engine_shutdown(u.te.engine, -1), FERRY_OK);
        stop_thread();
        test_engine_close(&u.te);
    }
}
