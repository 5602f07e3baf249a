/* SPDX-License-Identifier: Apache-2.0 */
/* Scopes: closing, cancelling, deadlines, limits of the rate, ends. */
#include "tests/support/dump_test.h"
#include "tests/support/play.h"

#include <stdlib.h>

SCENE_SUITE(scopes);

#define SECOND_NS INT64_C(1000000000)

static ferry_scope *scope_with(const ferry_scope_options *options)
{
    ferry_scope *scope = NULL;
    ASSERT_STATUS(ferry_scope_create(engine(), options, &scope), FERRY_OK);
    cr_assert_not_null(scope);
    return scope;
}

static ferry_op_options in_scope(ferry_scope *scope)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.scope = scope;
    return options;
}

static ferry_future *nop_in(ferry_scope *scope, ferry_future *after)
{
    ferry_op_options options = in_scope(scope);
    options.after = &after;
    options.after_count = after != NULL;
    return own(ferry_nop(engine(), &options));
}

static ferry_future *copy_in(ferry_scope *scope, const char *to, const char *from)
{
    ferry_op_options options = in_scope(scope);
    return own(ferry_copy(engine(), the_span("%s", to), the_span("%s", from), &options));
}

static void expect_message(const ferry_future *future, const char *text)
{
    const ferry_error *error = ferry_future_error(future);
    cr_assert_not_null(error);
    cr_assert_not_null(strstr(error->message, text), "\"%s\"", error->message);
}

/* ---- closing ---- */

Test(scopes, closing_waits_for_all)
{
    play("promise p; promise q; buffer a 64 of 1; buffer b 64");
    ferry_scope *scope = scope_with(NULL);
    cr_assert_eq(ferry_scope_engine(scope), engine());
    (void)copy_in(scope, "b", "a");
    ferry_future *well = nop_in(scope, the_future("p")), *ill = nop_in(scope, the_future("q"));
    ferry_future *end = own(ferry_scope_close(scope));
    EXPECT(end, PENDING);
    ferry_future *again = own(ferry_scope_close(scope));
    cr_assert_eq(ferry_future_id(again), ferry_future_id(end));
    ferry_future *late = nop_in(scope, NULL);
    EXPECT_NOW(late, E_INVALID);
    expect_message(late, "the scope is closed");
    play("keep p");
    EXPECT(well, OK);
    EXPECT(end, PENDING);
    play("keep q FAILED");
    EXPECT(ill, E_DEPENDENCY);
    EXPECT(end, OK);
    EXPECT_NOW(own(ferry_scope_close(scope)), OK);
    ferry_scope_release(scope);
}

Test(scopes, closing_an_empty_scope)
{
    ferry_scope *scope = scope_with(NULL);
    EXPECT(own(ferry_scope_close(scope)), OK);
    EXPECT(own(ferry_scope_cancel(scope)), OK);
    ferry_scope_release(scope);
    scope = scope_with(NULL);
    EXPECT(own(ferry_scope_cancel(scope)), OK);
    ferry_scope_release(scope);
}

/* What waits for the end behind another thread's or this one's close. */
Test(scopes, the_end_can_be_waited_for_in_the_graph)
{
    play("promise p");
    ferry_scope *scope = scope_with(NULL);
    (void)nop_in(scope, the_future("p"));
    ferry_future *end = own(ferry_scope_close(scope));
    ferry_op_options options = behind(&end, 1);
    ferry_future *next = own(ferry_nop(engine(), &options));
    ferry_scope_release(scope);
    EXPECT(next, PENDING);
    play("keep p");
    EXPECT(next, OK);
}

/* ---- cancelling ---- */

Test(scopes, a_cancel_ends_operations_of_all_kinds)
{
    play("promise p; buffer a 64 of 1; buffer b 64");
    ferry_scope *scope = scope_with(NULL);
    ferry_future *after = the_future("p");
    ferry_op_options options = in_scope(scope);
    options.after = &after;
    options.after_count = 1;
    ferry_future *futures[] = {
        own(ferry_nop(engine(), &options)),
        own(ferry_copy(engine(), the_span("b"), the_span("a"), &options)),
        own(ferry_call(engine(), NULL, count_call, scene_calls(), &options)),
    };
    ferry_future *outside = own(ferry_nop(engine(), NULL));
    ferry_future *end = own(ferry_scope_cancel(scope));
    EXPECT(end, OK);
    for (size_t i = 0; i < 3; i++) {
        EXPECT(futures[i], E_CANCELLED);
        expect_message(futures[i], "the scope was cancelled");
        ASSERT_STATUS(ferry_future_poll(own(ferry_future_quiet(futures[i]))), FERRY_OK);
    }
    EXPECT(outside, OK);
    play("poisoned b; keep p; calls 0");
    ferry_scope_release(scope);
}

Test(scopes, what_joins_after_a_cancel_is_cancelled_and_poisons)
{
    play("buffer a 64 of 1; buffer b 64; buffer c 64; fill b 3");
    ferry_scope *scope = scope_with(NULL);
    EXPECT(own(ferry_scope_cancel(scope)), OK);
    ferry_future *late = copy_in(scope, "b", "a");
    EXPECT_NOW(late, E_CANCELLED);
    expect_message(late, "the scope was cancelled");
    play("poisoned b");
    ferry_op op = {.kind = FERRY_OP_COPY, .dst = the_span("c"), .src = the_span("a")};
    ferry_op_options options = in_scope(scope);
    ferry_future *each[1];
    EXPECT(own(ferry_batch(engine(), &op, sizeof op, 1, each, &options)), E_DEPENDENCY);
    EXPECT(own(each[0]), E_CANCELLED);
    play("poisoned c");
    ferry_scope_release(scope);
}

Test(scopes, cancelling_the_future_cancels_the_scope)
{
    play("promise p");
    ferry_scope *scope = scope_with(NULL);
    ferry_future *nop = nop_in(scope, the_future("p"));
    ferry_future *end = own(ferry_scope_close(scope));
    ferry_scope_release(scope);
    EXPECT(end, PENDING);
    ASSERT_STATUS(ferry_future_cancel(end), FERRY_OK);
    EXPECT(nop, E_CANCELLED);
    EXPECT(end, OK);
    ASSERT_STATUS(ferry_future_cancel(end), FERRY_OK);
}

/* A function that runs is not over when its future fails. */
Test(scopes, a_cancel_waits_until_memory_is_quiet)
{
    play("buffer a 64");
    ferry_scope *scope = scope_with(NULL);
    ferry_access access = {the_span("a"), FERRY_WRITE};
    ferry_op_options options = in_scope(scope);
    options.accesses = &access;
    options.access_count = 1;
    ferry_future *call =
        own(ferry_call(engine(), &by_hand()->executor, count_call, scene_calls(), &options));
    wait_posted(1);
    ferry_future *end = own(ferry_scope_cancel(scope));
    EXPECT(call, E_CANCELLED);
    EXPECT(end, OK);
    play("calls 0; run; calls 0");
    ferry_scope_release(scope);
}

/* The promise of what has begun is the end of its memory. */
static void take_promise(void *arg, ferry_promise *promise)
{
    *(ferry_promise **)arg = promise;
}

Test(scopes, a_cancel_waits_for_what_ends_later)
{
    ferry_promise *begun = NULL;
    ferry_scope *scope = scope_with(NULL);
    ferry_op_options options = in_scope(scope);
    ferry_future *async =
        own(ferry_call_async(engine(), NULL, take_promise, NULL, &begun, &options));
    scene_settle();
    cr_assert_not_null(begun);
    ferry_future *end = own(ferry_scope_cancel(scope));
    EXPECT(async, E_CANCELLED);
    EXPECT(end, PENDING);
    ASSERT_STATUS(ferry_promise_resolve(begun, FERRY_OK, NULL), FERRY_OK);
    ferry_promise_release(begun);
    EXPECT(end, OK);
    ferry_scope_release(scope);
}

Test(scopes, a_cancel_of_many)
{
    enum { MANY = 20000 };
    play("promise p; buffer a 64; buffer b 64");
    ferry_scope *scope = scope_with(NULL);
    ferry_op_options options = in_scope(scope);
    ferry_future *after = the_future("p");
    options.after = &after;
    options.after_count = 1;
    ferry_future **futures = calloc(MANY, sizeof(ferry_future *));
    for (int i = 0; i < MANY; i++)
        futures[i] = i % 2 == 0 ? ferry_nop(engine(), &options)
                                : ferry_copy(engine(), the_span("b"), the_span("a"), &options);
    ferry_future *end = own(ferry_scope_cancel(scope));
    EXPECT(end, OK);
    for (int i = 0; i < MANY; i++) {
        ASSERT_STATUS(ferry_future_poll(futures[i]), FERRY_E_CANCELLED);
        ferry_future_release(futures[i]);
    }
    free(futures);
    ferry_scope_release(scope);
}

Test(scopes, a_batch_gives_its_scope_to_operations_that_have_none)
{
    play("promise p; buffer a 64; buffer b 64");
    ferry_scope *shared = scope_with(NULL), *other = scope_with(NULL);
    ferry_op_options its_own = in_scope(other), whole = in_scope(shared);
    ferry_future *after = the_future("p"), *each[3];
    whole.after = &after;
    whole.after_count = 1;
    ferry_op ops[3] = {{.kind = FERRY_OP_COPY, .dst = the_span("b"), .src = the_span("a")},
                       {.kind = FERRY_OP_NOP, .options = &its_own},
                       {.kind = FERRY_OP_NOP}};
    ferry_future *batch = own(ferry_batch(engine(), ops, sizeof *ops, 3, each, &whole));
    EXPECT(own(ferry_scope_cancel(shared)), OK);
    EXPECT(own(each[0]), E_CANCELLED);
    EXPECT(own(each[1]), PENDING);
    EXPECT(own(each[2]), E_CANCELLED);
    EXPECT(batch, E_DEPENDENCY);
    play("keep p");
    EXPECT(each[1], OK);
    whole = in_scope(other);
    EXPECT(own(ferry_batch(engine(), NULL, sizeof *ops, 0, NULL, &whole)), OK);
    ferry_scope_release(shared);
    ferry_scope_release(other);
}

/* ---- deadlines ---- */

Test(scopes, the_sooner_deadline_counts)
{
    play("promise p");
    ferry_scope_options limits = FERRY_SCOPE_OPTIONS_INIT;
    limits.deadline_ns = START_NS + 1000;
    ferry_scope *scope = scope_with(&limits);
    ferry_op_options options = in_scope(scope);
    ferry_future *after = the_future("p");
    options.after = &after;
    options.after_count = 1;
    ferry_future *of_scope = own(ferry_nop(engine(), &options));
    options.deadline_ns = START_NS + 500;
    ferry_future *sooner = own(ferry_nop(engine(), &options));
    options.deadline_ns = START_NS + 5000;
    ferry_future *later = own(ferry_nop(engine(), &options));
    play("settle; step 500");
    EXPECT(sooner, E_DEADLINE);
    EXPECT(of_scope, PENDING);
    play("step 500");
    EXPECT(of_scope, E_DEADLINE);
    EXPECT(later, E_DEADLINE);
    ferry_scope_release(scope);
}

/* ---- the rate ---- */

/* 1000 bytes a second, 100 at once. */
static ferry_scope *slow_scope(void)
{
    ferry_scope_options limits = FERRY_SCOPE_OPTIONS_INIT;
    limits.bytes_per_second = 1000;
    limits.burst_bytes = 100;
    return scope_with(&limits);
}

Test(scopes, copies_begin_at_the_rate)
{
    play("buffer a 1000 of 1; buffer b 1000");
    ferry_scope *scope = slow_scope();
    ferry_future *copies[6];
    for (int i = 0; i < 6; i++) {
        ferry_op_options options = in_scope(scope);
        ferry_span to = {the_buffer("b"), (size_t)i * 100, 100};
        ferry_span from = {the_buffer("a"), (size_t)i * 100, 100};
        copies[i] = own(ferry_copy(engine(), to, from, &options));
    }
    /* A burst may begin, and what comes when it has been used up exactly. */
    EXPECT(copies[0], OK);
    EXPECT(copies[1], OK);
    EXPECT(copies[2], PENDING);
    cr_assert_eq(ferry_engine_timeout_ns(engine()), SECOND_NS / 10);
    play("step 99999999");
    EXPECT(copies[2], PENDING);
    play("step 1");
    EXPECT(copies[2], OK);
    EXPECT(copies[3], PENDING);
    play("step 200000000");
    EXPECT(copies[3], OK);
    EXPECT(copies[4], OK);
    EXPECT(copies[5], PENDING);
    play("step 100000000");
    EXPECT(copies[5], OK);
    cr_assert_eq(ferry_engine_timeout_ns(engine()), -1);
    play("bytes b[0:600] 1");
    ferry_scope_release(scope);
}

/* How many of so many copies have ended; they do in order. */
static size_t ended(ferry_future *const copies[], size_t count)
{
    size_t some = 0;
    scene_settle();
    while (some < count && ferry_future_poll(copies[some]) == FERRY_OK)
        some++;
    return some;
}

/* 5 bytes take 5 ms, and a quarter of the burst 25. */
Test(scopes, small_copies_begin_together)
{
    enum { COUNT = 30, BYTES = 5 };
    play("buffer a 1000 of 1; buffer b 1000");
    ferry_scope *scope = slow_scope();
    ferry_future *copies[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        ferry_op_options options = in_scope(scope);
        ferry_span to = {the_buffer("b"), i * BYTES, BYTES};
        ferry_span from = {the_buffer("a"), i * BYTES, BYTES};
        copies[i] = own(ferry_copy(engine(), to, from, &options));
    }
    static const struct {
        int64_t step_ns;
        size_t ended;
    } moments[] = {
        {0, 21},        {4999999, 21}, {1, 22}, /* who came first was alone then */
        {29999999, 22}, {1, 28},                /* 10 ms have been due for 25 */
        {29999999, 28}, {1, 30},
    };
    for (size_t i = 0; i < sizeof moments / sizeof *moments; i++) {
        play("step %lld", (long long)moments[i].step_ns);
        cr_expect_eq(ended(copies, COUNT), moments[i].ended, "moment %zu: %zu", i,
                     ended(copies, COUNT));
    }
    cr_assert_eq(ferry_engine_timeout_ns(engine()), -1);

    ferry_future *alone = copy_in(scope, "b[500:505]", "a[500:505]");
    EXPECT(alone, OK);
    ferry_future *next = copy_in(scope, "b[505:595]", "a[505:595]");
    ferry_future *last = copy_in(scope, "b[600:601]", "a[600:601]");
    EXPECT(next, OK);
    EXPECT(last, PENDING);
    cr_assert_eq(ferry_engine_timeout_ns(engine()), 80000000, "who is alone is not late");
    ferry_scope_release(scope);
}

Test(scopes, what_waits_for_the_rate_holds_nobody_up)
{
    play("buffer a 1000 of 1; buffer b 1000; buffer c 1000");
    ferry_scope *scope = slow_scope();
    (void)copy_in(scope, "b[0:500]", "a[0:500]"); /* larger than the burst: it begins */
    ferry_future *waits = copy_in(scope, "b[500:1000]", "a[500:1000]");
    ferry_future *behind_it =
        own(ferry_copy(engine(), the_span("c[500:1000]"), the_span("b[500:1000]"), NULL));
    ferry_future *beside =
        own(ferry_copy(engine(), the_span("c[0:500]"), the_span("a[0:500]"), NULL));
    ferry_future *no_bytes = nop_in(scope, NULL);
    EXPECT(beside, OK);
    EXPECT(no_bytes, OK);
    EXPECT(waits, PENDING);
    EXPECT(behind_it, PENDING);
    play("step 399999999");
    EXPECT(waits, PENDING);
    play("step 1");
    EXPECT(waits, OK);
    EXPECT(behind_it, OK);
    ferry_scope_release(scope);
}

Test(scopes, those_who_wait_begin_by_priority)
{
    play("buffer a 1000 of 1; buffer b 1000");
    ferry_scope *scope = slow_scope();
    (void)copy_in(scope, "b[0:200]", "a[0:200]");
    static const ferry_priority priorities[] = {FERRY_PRIORITY_LOW, FERRY_PRIORITY_NORMAL,
                                                FERRY_PRIORITY_HIGH};
    ferry_future *copies[3];
    for (size_t i = 0; i < 3; i++) {
        ferry_op_options options = in_scope(scope);
        options.priority = priorities[i];
        ferry_span to = {the_buffer("b"), 200 + i * 100, 100};
        ferry_span from = {the_buffer("a"), 200 + i * 100, 100};
        copies[i] = own(ferry_copy(engine(), to, from, &options));
    }
    for (size_t i = 0; i < 3; i++) {
        EXPECT(copies[2 - i], PENDING);
        play("step 100000000");
        EXPECT(copies[2 - i], OK);
    }
    ferry_scope_release(scope);
}

Test(scopes, a_cancel_and_a_deadline_reach_those_who_wait)
{
    play("buffer a 1000 of 1; buffer b 1000");
    ferry_scope *scope = slow_scope();
    (void)copy_in(scope, "b[0:200]", "a[0:200]");
    ferry_future *cancelled = copy_in(scope, "b[200:300]", "a[200:300]");
    ferry_op_options options = in_scope(scope);
    options.deadline_ns = START_NS + 10;
    ferry_future *late =
        own(ferry_copy(engine(), the_span("b[300:400]"), the_span("a[300:400]"), &options));
    ferry_future *last = copy_in(scope, "b[400:500]", "a[400:500]");
    ASSERT_STATUS(ferry_future_cancel(cancelled), FERRY_OK);
    EXPECT(cancelled, E_CANCELLED);
    play("step 10");
    EXPECT(late, E_DEADLINE);
    play("step 99999990");
    EXPECT(last, OK); /* they have not used any of the rate */
    ferry_future *waits = copy_in(scope, "b[500:600]", "a[500:600]");
    EXPECT(waits, PENDING);
    EXPECT(own(ferry_scope_cancel(scope)), OK);
    EXPECT(waits, E_CANCELLED);
    cr_assert_eq(ferry_engine_timeout_ns(engine()), -1);
    ferry_scope_release(scope);
}

Test(scopes, rows_and_large_copies_have_all_their_bytes_counted)
{
    play("buffer a 100000 of 1; buffer b 100000");
    ferry_scope *scope = slow_scope();
    ferry_op_options options = in_scope(scope);
    ferry_future *rows = own(
        ferry_copy_rows(engine(), the_span("b[0:10]"), 50, the_span("a[0:10]"), 20, 100, &options));
    ferry_future *next = copy_in(scope, "b[50000:50001]", "a[50000:50001]");
    EXPECT(rows, OK);
    play("step 899999999");
    EXPECT(next, PENDING);
    play("step 1");
    EXPECT(next, OK);
    ferry_scope_release(scope);
}

Test(scopes, the_dump_says_who_waits_for_the_rate)
{
    play("buffer a 1000 of 1; buffer b 1000");
    ferry_scope *scope = slow_scope();
    (void)copy_in(scope, "b[0:200]", "a[0:200]");
    (void)copy_in(scope, "b[200:300]", "a[200:300]");
    ferry_future *end = own(ferry_scope_close(scope));
    scene_settle();
    dump_text text = {0};
    ASSERT_STATUS(ferry_engine_dump(engine(), FERRY_DUMP_JSON, dump_take, &text), FERRY_OK);
    cr_assert_not_null(strstr(text.bytes, "\"waits_for\":\"rate\""), "%s", text.bytes);
    cr_assert_not_null(strstr(text.bytes, "\"kind\":\"scope\""), "%s", text.bytes);
    dump_free(&text);
    play("step 100000000");
    EXPECT(end, OK);
    ferry_scope_release(scope);
}

static void *close_scope(void *arg)
{
    return ferry_scope_close(arg);
}

/* A record of it needs what a thread keeps of an engine, for which there is no memory. */
Test(scopes, closed_by_a_new_thread_that_has_no_memory)
{
    scene_options(FERRY_LOOP_EMBEDDED)->flight_records = 64;
    play("promise p; settle");
    ferry_scope *scope = scope_with(NULL);
    ferry_future *nop = nop_in(scope, the_future("p"));
    failing_allocator_arm(&scene()->memory, 1, true);
    pthread_t thread = begin_thread(close_scope, scope);
    ferry_future *end = own((ferry_future *)end_thread(thread));
    failing_allocator_arm(&scene()->memory, 0, false);
    EXPECT(end, PENDING);
    play("keep p");
    EXPECT(nop, OK);
    EXPECT(end, OK);
    ferry_scope_release(scope);
}

/* ---- ends ---- */

Test(scopes, released_before_its_operations_end)
{
    play("promise p; buffer a 1000; buffer b 1000");
    for (int i = 0; i < 20; i++) {
        ferry_scope *scope = i % 2 == 0 ? scope_with(NULL) : slow_scope();
        (void)nop_in(scope, the_future("p"));
        (void)copy_in(scope, "b[0:300]", "a[0:300]");
        (void)copy_in(scope, "b[0:300]", "a[0:300]");
        if (i % 3 == 0)
            ferry_future_release(ferry_scope_close(scope));
        if (i % 3 == 1)
            ferry_future_release(ferry_scope_cancel(scope));
        ferry_scope_release(scope);
        ferry_scope_release(scope_with(NULL));
    }
    play("keep p; step 20000000000; settle"); /* and all memory goes: see scene_end */
}

Test(scopes, the_shutdown_fails_the_end)
{
    scene_begin(FERRY_LOOP_THREAD);
    play("promise p");
    ferry_scope *scope = scope_with(NULL), *open = scope_with(NULL);
    ferry_future *nop = nop_in(scope, the_future("p")), *other = nop_in(open, the_future("p"));
    ferry_future *end = own(ferry_scope_close(scope));
    scene_leave();
    cr_assert(ferry_future_poll(nop) < 0 && ferry_future_poll(other) < 0);
    ferry_status status = ferry_future_poll(end);
    cr_assert(status == FERRY_E_SHUTDOWN || status == FERRY_OK, "%d", status);
    EXPECT_NOW(own(ferry_scope_close(open)), OK); /* all are quiet */
    ASSERT_STATUS(ferry_future_poll(own(ferry_scope_cancel(scope))), status);
    ferry_scope_release(scope);
    ferry_scope_release(open); /* perhaps the last handle */
}

static ferry_status use_a_scope(void *arg)
{
    ferry_scope *scope = NULL;
    ferry_status status = ferry_scope_create(engine(), NULL, &scope);
    if (status != FERRY_OK)
        return status;
    ferry_op_options options = in_scope(scope);
    ferry_future **futures = arg;
    futures[0] = ferry_nop(engine(), &options);
    futures[1] = ferry_scope_close(scope);
    futures[2] = ferry_scope_cancel(scope);
    ferry_scope_release(scope);
    return FERRY_OK;
}

Test(scopes, from_a_callback)
{
    ferry_future *futures[3] = {NULL};
    scene_begin(FERRY_LOOP_THREAD);
    WAIT(own(ferry_call(engine(), NULL, use_a_scope, futures, NULL)), OK);
    WAIT(own(futures[1]), OK);
    WAIT(own(futures[2]), OK);
    cr_assert_leq(ferry_future_wait(own(futures[0]), -1), FERRY_OK);
}

Test(scopes, wrong_arguments)
{
    ferry_scope *scope = (ferry_scope *)(void *)&scope, *untouched = scope;
    ferry_scope_options limits = FERRY_SCOPE_OPTIONS_INIT;
    ASSERT_STATUS(ferry_scope_create(NULL, NULL, &scope), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_scope_create(engine(), NULL, NULL), FERRY_E_INVALID);
    limits.burst_bytes = 1;
    ASSERT_STATUS(ferry_scope_create(engine(), &limits, &scope), FERRY_E_INVALID);
    limits.bytes_per_second = ((uint64_t)1 << 60) + 1;
    ASSERT_STATUS(ferry_scope_create(engine(), &limits, &scope), FERRY_E_INVALID);
    limits.bytes_per_second = 1;
    limits.burst_bytes = 3601;
    ASSERT_STATUS(ferry_scope_create(engine(), &limits, &scope), FERRY_E_INVALID);
    limits.struct_size = 3;
    ASSERT_STATUS(ferry_scope_create(engine(), &limits, &scope), FERRY_E_INVALID);
    cr_assert_eq(scope, untouched);
    EXPECT_NOW(own(ferry_scope_close(NULL)), E_INVALID);
    EXPECT_NOW(own(ferry_scope_cancel(NULL)), E_INVALID);
    cr_assert_null(ferry_scope_engine(NULL));
    ferry_scope_release(NULL);
}

/*
 * What a copy follows on its device need only be issued for it to be READY, and to wait for its
 * rate. That the other has ended then steps it again, which must not put it in line again.
 */
Test(scopes, a_copy_waits_once_however_often_it_is_stepped)
{
    enum { LARGE = 64 << 20 };
    play("buffer a 1000 of 1; buffer b 1000");
    ferry_buffer *from = own(test_buffer(scene(), 0, LARGE, 5));
    ferry_buffer *to = own(test_buffer(scene(), 0, LARGE, 0));
    ferry_scope *scope = slow_scope();
    ferry_op_options options = in_scope(scope);
    for (size_t i = 0; i < 2; i++)
        EXPECT(own(ferry_copy(engine(), (ferry_span){the_buffer("b"), i * 100, 100},
                              (ferry_span){the_buffer("a"), 0, 100}, &options)),
               OK);
    options.priority = FERRY_PRIORITY_HIGH;
    ferry_future *large =
        own(ferry_copy(engine(), ferry_buffer_span(to), ferry_buffer_span(from), NULL));
    ferry_future *behind = own(ferry_copy(engine(), (ferry_span){the_buffer("b"), 0, 100},
                                          (ferry_span){to, 0, 100}, &options));
    WAIT(large, OK);
    EXPECT(behind, PENDING);
    play("step 100000000");
    EXPECT(behind, OK);
    cr_assert(is_filled(the_buffer("b"), 0, 100, 5));
    ferry_scope_release(scope);
}

/* All that a scope needs to end it has from its creation on. */
Test(scopes, closing_and_cancelling_need_no_memory)
{
    play("promise p; settle");
    ferry_scope *closed = scope_with(NULL), *cancelled = scope_with(NULL);
    ferry_future *one = nop_in(closed, the_future("p"));
    ferry_future *two = nop_in(cancelled, the_future("p"));
    failing_allocator_arm(&scene()->memory, 1, true);
    ferry_future *ends[] = {ferry_scope_close(closed), ferry_scope_cancel(cancelled)};
    scene_settle();
    failing_allocator_arm(&scene()->memory, 0, false);
    EXPECT(two, E_CANCELLED);
    EXPECT(own(ends[1]), OK);
    EXPECT(own(ends[0]), PENDING);
    play("keep p");
    EXPECT(one, OK);
    EXPECT(ends[0], OK);
    ferry_scope_release(closed);
    ferry_scope_release(cancelled);
}
