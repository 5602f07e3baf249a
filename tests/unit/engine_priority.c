/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Priorities where READY operations wait: behind a full stream, whose copies a gate holds, and for
 * the loop to hand functions out. And how many may stand in a stream.
 */
#include "tests/support/api_test.h"
#include "tests/support/owned.h"
#include "tests/unit/copy_gate.h"

TestSuite(engine_priority, .timeout = HANG_S);

enum { SIZE = 8192 /* above the inline limit */, SLOTS = 64 };

static const ferry_priority low = FERRY_PRIORITY_LOW, normal = FERRY_PRIORITY_NORMAL,
                            high = FERRY_PRIORITY_HIGH;

typedef struct fixture {
    test_engine te;
    copy_gate gate;
    ferry_buffer *src, *dst; /* dst: SLOTS places of SIZE bytes */
    ferry_future *futures[SLOTS];
    size_t count;
    size_t arrived[SLOTS]; /* places in dst, in the order in which copies began; the gate's mutex */
    size_t arrived_count;
} fixture;

/* Notes who comes, then lets the gate hold him. */
static void note_and_pass(void *arg, const fry_copy *copy, size_t copied_bytes)
{
    fixture *f = arg;
    if (copied_bytes == 0) {
        size_t place =
            (size_t)((const char *)copy->dst - (const char *)ferry_buffer_data(f->dst)) / SIZE;
        (void)pthread_mutex_lock(&f->gate.mutex);
        f->arrived[f->arrived_count++] = place;
        (void)pthread_mutex_unlock(&f->gate.mutex);
    }
    copy_gate_pass(&f->gate, copy, copied_bytes);
}

static void fixture_open(fixture *f, uint32_t stream_depth)
{
    *f = (fixture){.count = 0};
    copy_gate_install(&f->gate);
    fry_test_host_gate = (fry_host_gate){note_and_pass, f};
    ferry_engine_options options = test_engine_options(&f->te, FERRY_LOOP_EMBEDDED);
    options.stream_depth = stream_depth;
    test_engine_create(&f->te, &options);
    f->src = test_buffer(&f->te, 0, SIZE, 1);
    f->dst = test_buffer(&f->te, 1, SLOTS * SIZE, 0);
    copy_gate_hold(&f->gate, ferry_buffer_data(f->dst), 0); /* the first to come */
}

static void fixture_close(fixture *f)
{
    for (size_t i = 0; i < f->count; i++)
        ferry_future_release(f->futures[i]);
    ferry_buffer_release(f->src);
    ferry_buffer_release(f->dst);
    test_engine_close(&f->te);
}

static size_t submit(fixture *f, ferry_priority priority)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.priority = priority;
    f->futures[f->count] = ferry_copy(f->te.engine, span_of(f->dst, f->count * SIZE, SIZE),
                                      ferry_buffer_span(f->src), &options);
    return f->count++;
}

static void open_gate_and_wait(fixture *f)
{
    copy_gate_open(&f->gate);
    for (size_t i = 0; i < f->count; i++)
        cr_assert_neq(ferry_future_wait(f->futures[i], -1), FERRY_PENDING);
    settle(&f->te);
}

static void assert_arrived(const fixture *f, const size_t *places, size_t count)
{
    cr_assert_eq(f->arrived_count, count);
    for (size_t i = 0; i < count; i++)
        cr_assert_eq(f->arrived[i], places[i], "number %zu is %zu, not %zu", i, f->arrived[i],
                     places[i]);
}

/* ---- streams ---- */

Test(engine_priority, the_higher_goes_first_onto_a_full_stream)
{
    OPENED_WITH(fixture, f, 1);
    (void)submit(&f, normal); /* held */
    size_t lows[] = {submit(&f, low), submit(&f, low)};
    size_t normals[] = {submit(&f, normal), submit(&f, normal)};
    size_t highs[] = {submit(&f, high), submit(&f, high)};
    copy_gate_wait_held(&f.gate);
    open_gate_and_wait(&f);
    assert_arrived(&f, (size_t[]){0, highs[0], highs[1], normals[0], normals[1], lows[0], lows[1]},
                   7);
    cr_assert(is_filled(f.dst, 0, 7 * SIZE, 1));
}

Test(engine_priority, the_lower_does_not_starve_behind_a_full_stream)
{
    OPENED_WITH(fixture, f, 1);
    size_t expected[SLOTS], count = 0;
    expected[count++] = submit(&f, high);
    size_t late = submit(&f, low), middle = submit(&f, normal);
    for (int i = 0; i < 16; i++) {
        if (i == 7) {
            expected[count++] = late;
            expected[count++] = middle;
        }
        expected[count++] = submit(&f, high);
    }
    copy_gate_wait_held(&f.gate);
    open_gate_and_wait(&f);
    assert_arrived(&f, expected, count);
}

Test(engine_priority, one_that_fails_while_it_waits_is_passed_over)
{
    OPENED_WITH(fixture, f, 1);
    (void)submit(&f, normal);
    size_t last = submit(&f, low), dead = submit(&f, high), next = submit(&f, high);
    copy_gate_wait_held(&f.gate);
    ASSERT_STATUS(ferry_future_cancel(f.futures[dead]), FERRY_OK);
    settle(&f.te);
    ASSERT_STATUS(ferry_future_poll(f.futures[dead]), FERRY_E_CANCELLED);
    open_gate_and_wait(&f);
    assert_arrived(&f, (size_t[]){0, next, last}, 3);
}

/* What stands in a stream is not overtaken. */
Test(engine_priority, no_more_stand_in_a_stream_than_the_option_says)
{
    static const uint32_t depths[] = {1, 2, 7, 40};
    for (size_t i = 0; i < sizeof depths / sizeof *depths; i++) {
        OPENED_WITH(fixture, f, depths[i]);
        size_t expected[SLOTS], count = 0;
        for (size_t at = 0; at < depths[i]; at++)
            expected[count++] = submit(&f, low);
        size_t behind = submit(&f, low), ahead = submit(&f, high);
        expected[count++] = ahead;
        expected[count++] = behind;
        for (size_t at = 0; at < f.count; at++) {
            ferry_future *issued = ferry_future_issued(f.futures[at]);
            ASSERT_STATUS(ferry_future_poll(issued), at < depths[i] ? FERRY_OK : FERRY_PENDING);
            ferry_future_release(issued);
        }
        open_gate_and_wait(&f);
        assert_arrived(&f, expected, count);
    }
}

/* Overtaking is between READY ones: order over buffers stays as it was submitted. */
Test(engine_priority, a_high_one_does_not_overtake_what_it_depends_on)
{
    OPENED_WITH(fixture, f, 1);
    (void)submit(&f, normal);
    size_t low_write = submit(&f, low);
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.priority = FERRY_PRIORITY_HIGH;
    ferry_buffer *out = test_buffer(&f.te, 2, SIZE, 0);
    ferry_future *read = ferry_copy(f.te.engine, ferry_buffer_span(out),
                                    span_of(f.dst, low_write * SIZE, SIZE), &options);
    size_t other = submit(&f, normal);
    copy_gate_wait_held(&f.gate);
    copy_gate_open(&f.gate);
    ASSERT_STATUS(ferry_future_wait(read, -1), FERRY_OK);
    cr_assert(is_filled(out, 0, SIZE, 1));
    ASSERT_STATUS(ferry_future_wait(f.futures[other], -1), FERRY_OK);
    ferry_future_release(read);
    ferry_buffer_release(out);
}

/* ---- functions ---- */

typedef struct called {
    char order[SLOTS];
    size_t count;
} called;

typedef struct call_args {
    called *called;
    char letter;
} call_args;

static ferry_status note_call(void *arg)
{
    call_args *args = arg;
    args->called->order[args->called->count++] = args->letter;
    return FERRY_OK;
}

static void assert_called(const char *submitted, const char *order)
{
    OPENED_WITH(test_engine, te, FERRY_LOOP_EMBEDDED);
    called called = {.count = 0};
    call_args args[SLOTS];
    ferry_future *futures[SLOTS];
    size_t count = strlen(submitted);
    for (size_t i = 0; i < count; i++) {
        ferry_op_options options = FERRY_OP_OPTIONS_INIT;
        options.priority = submitted[i] == 'H' ? high : submitted[i] == 'L' ? low : normal;
        args[i] = (call_args){&called, submitted[i]};
        futures[i] = ferry_call(te.engine, NULL, note_call, &args[i], &options);
    }
    settle(&te);
    cr_assert_str_eq(called.order, order);
    for (size_t i = 0; i < count; i++)
        ASSERT_STATUS(status_of(futures[i]), FERRY_OK);
}

Test(engine_priority, the_higher_function_is_handed_out_first)
{
    assert_called("NNN", "NNN");
    assert_called("LNH", "HNL");
    assert_called("LLNNHHLNH", "HHHNNNLLL");
}

Test(engine_priority, the_lower_function_does_not_starve)
{
    assert_called("LHHHHHHHHHH", "HHHHHHHLHHH");
    assert_called("NLHHHHHHHHHH", "HHHHHHHLNHHH");
}

/* ---- what waits for one operation ---- */

enum { AFTER = 6 };

typedef struct after_one {
    ferry_future *first;
    ferry_future *futures[AFTER];
    call_args args[AFTER];
    called called;
} after_one;

static void submit_after(after_one *f, const test_engine *te, ferry_future *first)
{
    *f = (after_one){.first = first};
    for (size_t i = 0; i < AFTER; i++) {
        ferry_op_options options = FERRY_OP_OPTIONS_INIT;
        options.after = &f->first;
        options.after_count = 1;
        f->args[i] = (call_args){&f->called, (char)('a' + i)};
        f->futures[i] = ferry_call(te->engine, NULL, note_call, &f->args[i], &options);
    }
}

static void assert_started(after_one *f, const char *order)
{
    cr_assert_str_eq(f->called.order, order);
    for (size_t i = 0; i < AFTER; i++)
        ferry_future_release(f->futures[i]);
    ferry_future_release(f->first);
}

/* Submits functions after one that the executor has, and cancels some of them meanwhile. */
static void assert_started_after_a_call(const char *cancelled, const char *order)
{
    OPENED_WITH(test_engine, te, FERRY_LOOP_EMBEDDED);
    static manual_executor executor;
    manual_executor_init(&executor);
    _Atomic int calls = 0;
    after_one f;
    submit_after(&f, &te, ferry_call(te.engine, &executor.executor, count_call, &calls, NULL));
    settle(&te);
    for (; *cancelled != '\0'; cancelled++)
        ASSERT_STATUS(ferry_future_cancel(f.futures[*cancelled - 'a']), FERRY_OK);
    settle(&te);
    manual_run_one(&executor);
    settle(&te);
    assert_started(&f, order);
}

static void assert_started_after_a_promise(const char *cancelled, const char *order)
{
    OPENED_WITH(test_engine, te, FERRY_LOOP_EMBEDDED);
    ferry_promise *promise = test_promise(&te);
    after_one f;
    submit_after(&f, &te, ferry_promise_future(promise));
    settle(&te);
    for (; *cancelled != '\0'; cancelled++)
        ASSERT_STATUS(ferry_future_cancel(f.futures[*cancelled - 'a']), FERRY_OK);
    settle(&te);
    keep_promise(promise, FERRY_OK);
    settle(&te);
    assert_started(&f, order);
}

Test(engine_priority, what_waits_for_one_starts_in_the_order_of_its_submits)
{
    assert_started_after_a_call("", "abcdef");
    assert_started_after_a_call("c", "abdef");
    assert_started_after_a_call("fad", "bce");
    assert_started_after_a_promise("", "abcdef");
    assert_started_after_a_promise("c", "abdef");
    assert_started_after_a_promise("fad", "bce");
}

/* ---- functions that wait for a task ---- */

/* An executor that has all the tasks there are: calls wait for one, and go by priority then. */
static void assert_posted(const char *submitted, const char *order)
{
    OWNED(test_engine_close) test_engine te;
    ferry_engine_options options = test_engine_options(&te, FERRY_LOOP_EMBEDDED);
    options.max_tasks = 1;
    test_engine_create(&te, &options);
    static manual_executor executor;
    manual_executor_init(&executor);
    called called = {.count = 0};
    call_args args[SLOTS];
    ferry_future *futures[SLOTS];
    size_t count = strlen(submitted);
    for (size_t i = 0; i < count; i++) {
        ferry_op_options call = FERRY_OP_OPTIONS_INIT;
        call.priority = submitted[i] == 'H' ? high : submitted[i] == 'L' ? low : normal;
        args[i] = (call_args){&called, submitted[i]};
        bool is_inline = submitted[i] == 'i';
        futures[i] = ferry_call(te.engine, is_inline ? NULL : &executor.executor, note_call,
                                &args[i], &call);
        settle(&te); /* each finds those that came before waiting */
    }
    while (manual_waiting(&executor) != 0) {
        cr_assert_eq(manual_waiting(&executor), 1);
        manual_run_one(&executor);
        settle(&te);
    }
    cr_assert_str_eq(called.order, order);
    for (size_t i = 0; i < count; i++)
        ASSERT_STATUS(status_of(futures[i]), FERRY_OK);
}

Test(engine_priority, the_higher_call_gets_the_next_task)
{
    assert_posted("NNNN", "NNNN");
    assert_posted("NLNH", "NHNL");
    assert_posted("LLLNNHHLNH", "LHHHNNNLLL");
}

Test(engine_priority, the_lower_call_has_its_turn_at_a_task)
{
    assert_posted("NLHHHHHHHHHH", "NHHHHHHHLHHH");
    assert_posted("NNLHHHHHHHHHH", "NHHHHHHHLNHHH");
}

Test(engine_priority, the_loops_functions_pass_calls_that_wait_for_a_task)
{
    assert_posted("NHiLi", "iiNHL");
}

/* What has waited longer does not get the task that is free when a higher one is there too. */
Test(engine_priority, a_high_call_takes_a_task_that_came_back_meanwhile)
{
    OWNED(test_engine_close) test_engine te;
    ferry_engine_options options = test_engine_options(&te, FERRY_LOOP_EMBEDDED);
    options.max_tasks = 1;
    test_engine_create(&te, &options);
    static manual_executor executor;
    manual_executor_init(&executor);
    called called = {.count = 0};
    call_args args[] = {{&called, 'N'}, {&called, 'L'}, {&called, 'H'}};
    static const ferry_priority priorities[] = {FERRY_PRIORITY_NORMAL, FERRY_PRIORITY_LOW,
                                                FERRY_PRIORITY_HIGH};
    ferry_future *futures[3];
    for (size_t i = 0; i < 3; i++) {
        ferry_op_options call = FERRY_OP_OPTIONS_INIT;
        call.priority = priorities[i];
        if (i == 2)
            manual_run_one(&executor); /* and no tick before the high one comes */
        futures[i] = ferry_call(te.engine, &executor.executor, note_call, &args[i], &call);
        if (i < 2)
            settle(&te);
    }
    settle(&te);
    for (int i = 0; i < 2; i++) {
        manual_run_one(&executor);
        settle(&te);
    }
    cr_assert_str_eq(called.order, "NHL");
    for (int i = 0; i < 3; i++)
        ASSERT_STATUS(status_of(futures[i]), FERRY_OK);
}
