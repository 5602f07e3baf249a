/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every allocation fails in turn, once and then for ever: each call answers with a clear status,
 * every future resolves, and not a byte is left. A sweep ends on a run in which nothing was made to
 * fail.
 */
#include "tests/support/api_test.h"

TestSuite(memory_sweep, .timeout = HANG_S);

enum { PARTS = 8, SIZE = 8192, FUTURES_MAX = 160, RUNS_MAX = 2000 };
enum { POSTED = 70 }; /* functions on the executor: more than there are tasks to begin with */

typedef struct scenario {
    test_engine te;
    ferry_future *futures[FUTURES_MAX];
    int count;
    counted_waiter waiters[FUTURES_MAX];
    manual_executor executor;
    _Atomic int calls;
    bool has_failed; /* something was answered with want of memory */
} scenario;

static void keep(scenario *s, ferry_future *future)
{
    cr_assert_not_null(future);
    cr_assert_lt(s->count, FUTURES_MAX);
    s->futures[s->count++] = future;
}

static bool is_want(ferry_status status)
{
    return status == FERRY_E_NO_MEMORY || status == FERRY_E_AGAIN;
}

static ferry_buffer *try_buffer(scenario *s, size_t device)
{
    ferry_buffer *buffer = NULL;
    ferry_device *on = test_device(s->te.engine, device); /* a GPU is opened here */
    ferry_status status = on != NULL ? ferry_buffer_alloc(on, SIZE, &buffer) : FERRY_E_NO_MEMORY;
    cr_assert(status == FERRY_OK || status == FERRY_E_NO_MEMORY, "%s", ferry_status_name(status));
    cr_assert_eq(buffer != NULL, status == FERRY_OK);
    if (buffer != NULL)
        memset(ferry_buffer_data(buffer), 1, SIZE);
    s->has_failed |= buffer == NULL;
    return buffer;
}

static void submit_copies(scenario *s, ferry_buffer *buffers[3])
{
    for (int i = 0; i < 3; i++) {
        if (buffers[i] == NULL || buffers[(i + 1) % 3] == NULL)
            continue;
        keep(s, ferry_copy(s->te.engine, ferry_buffer_span(buffers[(i + 1) % 3]),
                           ferry_buffer_span(buffers[i]), NULL));
        keep(s, ferry_copy(s->te.engine, span_of(buffers[(i + 1) % 3], 10, 100),
                           span_of(buffers[i], 10, 100), NULL));
        keep(s, ferry_copy_rows(s->te.engine, span_of(buffers[(i + 1) % 3], 20, 10), 80,
                                span_of(buffers[i], 20, 10), 70, 90, NULL));
    }
}

static void begin_with_value(void *arg, ferry_promise *promise)
{
    scenario *s = arg;
    ferry_status status = ferry_promise_resolve_value(promise, "a value", 8);
    cr_assert(status == FERRY_OK || status == FERRY_E_NO_MEMORY);
    if (status != FERRY_OK) {
        s->has_failed = true;
        ASSERT_STATUS(ferry_promise_resolve(promise, status, NULL), FERRY_OK);
    }
    ferry_promise_release(promise);
}

static void begin_and_fail(void *arg, ferry_promise *promise)
{
    (void)arg;
    ASSERT_STATUS(ferry_promise_resolve(promise, FERRY_E_FAILED, "on purpose"), FERRY_OK);
    ferry_promise_release(promise);
}

static void submit_functions(scenario *s, ferry_buffer *buffers[3])
{
    ferry_access accesses[4];
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.accesses = accesses;
    options.label = "function";
    for (size_t i = 0; i < 3; i++) {
        if (buffers[i] == NULL)
            continue;
        accesses[options.access_count++] =
            (ferry_access){span_of(buffers[i], i * 10, 100), FERRY_READ_WRITE};
    }
    keep(s, ferry_call(s->te.engine, NULL, count_call, &s->calls, &options));
    keep(s, ferry_call(s->te.engine, ferry_executor_inline(), fail_call, NULL, &options));
    keep(s, ferry_call_async(s->te.engine, NULL, begin_with_value, NULL, s, &options));
    keep(s, ferry_call_async(s->te.engine, NULL, begin_and_fail, NULL, s, &options));
    if (buffers[0] != NULL) {
        ferry_status status = ferry_buffer_define(span_of(buffers[0], 0, 50), s->futures[0]);
        cr_assert(status == FERRY_OK || is_want(status), "%s", ferry_status_name(status));
    }
}

/* Keeps the batch's future, and with `each` those of its operations. */
static void submit_batch(scenario *s, ferry_buffer *buffers[3], ferry_promise *promise,
                         bool with_each)
{
    ferry_access access = {.mode = FERRY_READ_WRITE};
    ferry_op_options own = FERRY_OP_OPTIONS_INIT, shared = FERRY_OP_OPTIONS_INIT;
    own.accesses = &access;
    ferry_future *after = promise != NULL ? ferry_promise_future(promise) : NULL;
    ferry_op ops[5] = {{.kind = FERRY_OP_CALL, .fn = count_call, .arg = &s->calls},
                       {.kind = FERRY_OP_NOP, .options = &own}};
    size_t count = 2;
    for (size_t i = 0; i < 3; i++) {
        if (buffers[i] == NULL || buffers[(i + 1) % 3] == NULL)
            continue;
        access.span = span_of(buffers[i], 50, 100);
        own.access_count = 1;
        size_t size = i == 0 ? SIZE : 64;
        ops[count++] = (ferry_op){.kind = FERRY_OP_COPY,
                                  .dst = span_of(buffers[(i + 1) % 3], 0, size),
                                  .src = span_of(buffers[i], 0, size)};
    }
    if (with_each && after != NULL) {
        own.after = &after;
        own.after_count = 1;
    }
    shared.deadline_ns = with_each ? INT64_MAX : 0;
    ferry_future *each[5];
    keep(s, ferry_batch(s->te.engine, ops, sizeof ops[0], count, with_each ? each : NULL, &shared));
    for (size_t i = 0; with_each && i < count; i++)
        keep(s, each[i]);
    ferry_future_release(after);
}

static void submit_graph(scenario *s, ferry_promise *promise)
{
    ferry_future *parts[PARTS];
    for (int i = 0; i < PARTS; i++) {
        parts[i] = nop_after_promise(&s->te, promise);
        keep(s, parts[i]);
    }
    ferry_op_options options = behind(parts, PARTS);
    keep(s, ferry_nop(s->te.engine, &options));
    keep(s, ferry_future_all(s->te.engine, parts, PARTS));
    keep(s, ferry_future_any(s->te.engine, parts, PARTS));
    keep(s, ferry_future_quiet(parts[0]));
    keep(s, ferry_future_issued(parts[1]));
    ASSERT_STATUS(ferry_future_cancel(parts[PARTS - 1]), FERRY_OK);
}

/* What is in a scope when the scope is cancelled, or what was refused. */
static void submit_in_scope(scenario *s, ferry_promise *promise)
{
    ferry_scope *scope = NULL;
    ferry_status status = ferry_scope_create(s->te.engine, NULL, &scope);
    cr_assert(status == FERRY_OK || is_want(status), "%s", ferry_status_name(status));
    s->has_failed |= scope == NULL;
    if (scope == NULL)
        return;
    ferry_future *after = ferry_promise_future(promise);
    ferry_op_options options = behind(&after, 1);
    options.scope = scope;
    for (int i = 0; i < PARTS; i++)
        keep(s, ferry_nop(s->te.engine, &options));
    keep(s, ferry_scope_cancel(scope));
    keep(s, ferry_nop(s->te.engine, &options));
    ferry_scope_release(scope);
    ferry_future_release(after);
}

static void run_posted(scenario *s)
{
    while (manual_waiting(&s->executor) != 0)
        manual_run_one(&s->executor);
}

/* All are posted before the first is run, as far as there is memory for tasks. */
static void use_executor(scenario *s, ferry_loop_mode loop)
{
    ferry_future *futures[POSTED];
    for (int i = 0; i < POSTED; i++) {
        futures[i] = ferry_call(s->te.engine, &s->executor.executor, count_call, &s->calls, NULL);
        keep(s, futures[i]);
    }
    for (int i = 0; i < POSTED; i++) {
        while (ferry_future_poll(futures[i]) == FERRY_PENDING) {
            if (loop == FERRY_LOOP_EMBEDDED)
                settle(&s->te);
            else
                sched_yield();
            run_posted(s);
        }
    }
}

static void look_at_all(scenario *s)
{
    for (int i = 0; i < s->count; i++) {
        ferry_status status = ferry_future_wait(s->futures[i], -1);
        cr_assert(status == FERRY_OK || is_want(status) || status == FERRY_E_DEPENDENCY ||
                      status == FERRY_E_CANCELLED || status == FERRY_E_FAILED,
                  "future %d: %s", i, ferry_status_name(status));
        const ferry_error *error = ferry_future_error(s->futures[i]);
        cr_assert_eq(error != NULL, status != FERRY_OK);
        if (error != NULL)
            ASSERT_STATUS(error->status, status);
        s->has_failed |= is_want(status);
    }
}

static void use_engine(scenario *s, ferry_loop_mode loop)
{
    ferry_buffer *buffers[3];
    for (size_t i = 0; i < 3; i++)
        buffers[i] = try_buffer(s, i);
    ferry_promise *promise = NULL;
    ferry_status status = ferry_promise_create(s->te.engine, &promise);
    cr_assert(status == FERRY_OK || is_want(status), "%s", ferry_status_name(status));
    s->has_failed |= promise == NULL;
    keep(s, ferry_nop(s->te.engine, NULL));
    submit_copies(s, buffers);
    submit_functions(s, buffers);
    use_executor(s, loop);
    submit_batch(s, buffers, promise, false);
    submit_batch(s, buffers, promise, true);
    if (promise != NULL)
        submit_graph(s, promise);
    if (promise != NULL)
        submit_in_scope(s, promise);
    for (int i = 0; i < s->count; i++) {
        counted_waiter_init(&s->waiters[i], i % 2 == 0 ? NULL : &s->executor.executor);
        ASSERT_STATUS(ferry_future_on_ready(s->futures[i], &s->waiters[i].waiter), FERRY_OK);
    }
    if (promise != NULL)
        ASSERT_STATUS(ferry_promise_resolve(promise, FERRY_E_FAILED, "on purpose"), FERRY_OK);
    look_at_all(s);
    for (int i = 0; i < 3; i++)
        ferry_buffer_release(buffers[i]);
    ferry_promise_release(promise);
}

/* Whether something was made to fail. */
static bool run(ferry_loop_mode loop, uint64_t nth, bool persistent)
{
    static scenario s;
    memset(&s, 0, sizeof s);
    ferry_engine_options options = test_engine_options(&s.te, loop);
    options.host_workers = 1;
    options.flight_records = 64;
    failing_allocator_arm(&s.te.memory, nth, persistent);
    ferry_error *error = NULL;
    ferry_status status = ferry_engine_create(&options, &s.te.engine, &error);
    if (status == FERRY_OK) {
        manual_executor_init(&s.executor);
        use_engine(&s, loop);
        ASSERT_STATUS(ferry_engine_shutdown(s.te.engine, -1), FERRY_OK);
        run_posted(&s);
        for (int i = 0; i < s.count; i++) {
            cr_assert_eq(s.waiters[i].calls, 1, "callback %d", i);
            ferry_future_release(s.futures[i]);
        }
        ferry_engine_release(s.te.engine);
    } else {
        cr_assert(status == FERRY_E_NO_MEMORY || status == FERRY_E_SYSTEM, "%s",
                  ferry_status_name(status));
        cr_assert_null(s.te.engine);
        ferry_error_release(error);
    }
    cr_assert_eq(failing_allocator_live_bytes(&s.te.memory), 0, "%lld bytes left, allocation %llu",
                 (long long)failing_allocator_live_bytes(&s.te.memory), (unsigned long long)nth);
    if (failing_allocator_failures(&s.te.memory) == 0)
        cr_assert_not(s.has_failed, "nothing failed, yet something was refused");
    return failing_allocator_failures(&s.te.memory) != 0;
}

static void sweep(ferry_loop_mode loop, bool persistent)
{
    uint64_t nth = 1;
    while (run(loop, nth, persistent)) {
        nth++;
        cr_assert_lt(nth, RUNS_MAX);
    }
    cr_assert_gt(nth, 20, "it got as far as the graph");
}

Test(memory_sweep, each_allocation_fails_once_embedded)
{
    sweep(FERRY_LOOP_EMBEDDED, false);
}

Test(memory_sweep, all_allocations_fail_from_one_on_embedded)
{
    sweep(FERRY_LOOP_EMBEDDED, true);
}

Test(memory_sweep, each_allocation_fails_once)
{
    sweep(FERRY_LOOP_THREAD, false);
}

Test(memory_sweep, all_allocations_fail_from_one_on)
{
    sweep(FERRY_LOOP_THREAD, true);
}
