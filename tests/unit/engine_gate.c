/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies that are stopped midway: edges that take effect at issue, resolved against quiet, and
 * cancels and deadlines of what stands in a stream.
 */
#include "tests/support/api_test.h"
#include "tests/support/owned.h"
#include "tests/unit/copy_gate.h"

TestSuite(engine_gate, .timeout = HANG_S);

enum { BUFFERS_MAX = 16, FUTURES_MAX = 700 };

enum { SMALL = 8192 /* above the inline limit */, CHUNK = 4 << 20, LARGE = 2 * CHUNK + 100 };

typedef struct fixture {
    test_engine te;
    copy_gate gate;
    bool by_deadline;
    ferry_status status; /* what stopped operations answer */
    int64_t deadline_ns;
    ferry_buffer *buffers[BUFFERS_MAX];
    ferry_future *futures[FUTURES_MAX];
    size_t buffer_count, future_count;
} fixture;

static void fixture_open(fixture *f, ferry_loop_mode loop, bool by_deadline)
{
    f->buffer_count = f->future_count = 0;
    copy_gate_install(&f->gate);
    test_engine_open(&f->te, loop);
    f->by_deadline = by_deadline;
    f->status = by_deadline ? FERRY_E_DEADLINE : FERRY_E_CANCELLED;
    f->deadline_ns = by_deadline ? START_NS + 1000 : 0;
}

static void fixture_close(fixture *f)
{
    while (f->future_count > 0)
        ferry_future_release(f->futures[--f->future_count]);
    while (f->buffer_count > 0)
        ferry_buffer_release(f->buffers[--f->buffer_count]);
    test_engine_close(&f->te);
}

/* What the fixture gives back as it closes. */
static ferry_future *own(fixture *f, ferry_future *future)
{
    cr_assert_lt(f->future_count, FUTURES_MAX);
    return f->futures[f->future_count++] = future;
}

static ferry_buffer *own_buffer(fixture *f, size_t device, size_t size_bytes, int fill)
{
    cr_assert_lt(f->buffer_count, BUFFERS_MAX);
    return f->buffers[f->buffer_count++] = test_buffer(&f->te, device, size_bytes, fill);
}

static void stop(fixture *f, ferry_future *future)
{
    if (f->by_deadline)
        stepped_clock_step(&f->te.time, 1000);
    else
        ASSERT_STATUS(ferry_future_cancel(future), FERRY_OK);
    settle(&f->te);
}

static ferry_future *copy(fixture *f, ferry_span dst, ferry_span src)
{
    return own(f, ferry_copy(f->te.engine, dst, src, NULL));
}

static ferry_future *copy_until(fixture *f, ferry_span dst, ferry_span src)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.deadline_ns = f->deadline_ns;
    return own(f, ferry_copy(f->te.engine, dst, src, &options));
}

/* ---- at issue ---- */

Test(engine_gate, a_chain_over_four_devices_is_queued_at_once_and_needs_no_progress)
{
    OPENED_WITH(fixture, f, FERRY_LOOP_EMBEDDED, false);
    ferry_buffer *buffers[5];
    ferry_future *copies[4], *issued[4];
    for (size_t i = 0; i < 5; i++)
        buffers[i] = own_buffer(&f, i == 0 ? 0 : i - 1, SMALL, (int)i + 1);
    copy_gate_hold(&f.gate, ferry_buffer_data(buffers[1]), 0);
    for (int i = 0; i < 4; i++)
        copies[i] = copy(&f, ferry_buffer_span(buffers[i + 1]), ferry_buffer_span(buffers[i]));
    for (int i = 0; i < 4; i++) {
        issued[i] = own(&f, ferry_future_issued(copies[i]));
        ASSERT_STATUS(ferry_future_poll(issued[i]), FERRY_OK);
        ASSERT_STATUS(ferry_future_poll(copies[i]), FERRY_PENDING);
    }
    copy_gate_wait_held(&f.gate);
    cr_assert_eq(copy_gate_begun(&f.gate), 1, "the others wait for it on their devices");
    copy_gate_open(&f.gate);
    copy_gate_wait_ended(&f.gate, ferry_buffer_data(buffers[4]));
    for (size_t i = 1; i < 5; i++)
        cr_assert(is_filled(buffers[i], 0, SMALL, 1));
    ASSERT_STATUS(ferry_future_poll(copies[3]), FERRY_PENDING);
    for (int i = 0; i < 4; i++) {
        ASSERT_STATUS(ferry_future_wait(copies[i], -1), FERRY_OK);
    }
}

Test(engine_gate, double_buffering_is_queued_at_once)
{
    OPENED_WITH(fixture, f, FERRY_LOOP_EMBEDDED, false);
    enum { BATCHES = 8 };
    ferry_buffer *src = own_buffer(&f, 0, BATCHES * SMALL, 0);
    ferry_buffer *stage[2] = {own_buffer(&f, 1, SMALL, 0), own_buffer(&f, 1, SMALL, 0)};
    ferry_buffer *dst = own_buffer(&f, 2, BATCHES * SMALL, 0);
    for (size_t i = 0; i < BATCHES; i++)
        memset((char *)ferry_buffer_data(src) + i * SMALL, (int)i + 1, SMALL);
    copy_gate_hold(&f.gate, ferry_buffer_data(stage[0]), 0);
    ferry_future *copies[2 * BATCHES];
    for (size_t i = 0; i < BATCHES; i++) {
        ferry_span at = ferry_buffer_span(stage[i % 2]);
        copies[2 * i] = copy(&f, at, span_of(src, i * SMALL, SMALL));
        copies[2 * i + 1] = copy(&f, span_of(dst, i * SMALL, SMALL), at);
    }
    for (int i = 0; i < 2 * BATCHES; i++) {
        ferry_future *issued = own(&f, ferry_future_issued(copies[i]));
        ASSERT_STATUS(ferry_future_poll(issued), FERRY_OK);
    }
    copy_gate_open(&f.gate);
    copy_gate_wait_ended(&f.gate, (char *)ferry_buffer_data(dst) + (BATCHES - 1) * SMALL);
    for (size_t i = 0; i < BATCHES; i++)
        cr_assert(is_filled(dst, i * SMALL, SMALL, (int)i + 1), "batch %zu", i);
    for (int i = 0; i < 2 * BATCHES; i++) {
        ASSERT_STATUS(ferry_future_wait(copies[i], -1), FERRY_OK);
    }
}

Test(engine_gate, a_copy_that_ran_ahead_fails_with_what_it_overtook)
{
    OPENED_WITH(fixture, f, FERRY_LOOP_EMBEDDED, false);
    ferry_buffer *buffers[3];
    for (size_t i = 0; i < 3; i++)
        buffers[i] = own_buffer(&f, i, SMALL, (int)i + 1);
    copy_gate_hold(&f.gate, ferry_buffer_data(buffers[1]), 0);
    ferry_future *first = copy(&f, ferry_buffer_span(buffers[1]), ferry_buffer_span(buffers[0]));
    ferry_future *second = copy(&f, ferry_buffer_span(buffers[2]), ferry_buffer_span(buffers[1]));
    copy_gate_wait_held(&f.gate);
    ASSERT_STATUS(ferry_future_cancel(first), FERRY_OK);
    settle(&f.te);
    ASSERT_STATUS(ferry_future_poll(second), FERRY_E_DEPENDENCY);
    cr_assert_eq(ferry_future_error(second)->cause->op, ferry_future_id(first));
    ferry_future *quiet = own(&f, ferry_future_quiet(second));
    ASSERT_STATUS(ferry_future_poll(quiet), FERRY_PENDING);
    ferry_future *reader =
        own(&f, call_on(&f.te, NULL, fail_call, NULL, span_of(buffers[2], 0, 10), FERRY_READ));
    settle(&f.te);
    ASSERT_STATUS(ferry_future_poll(reader), FERRY_E_DEPENDENCY);
    copy_gate_open(&f.gate);
    ASSERT_STATUS(ferry_future_wait(quiet, -1), FERRY_OK);
    cr_assert(is_filled(buffers[2], 0, SMALL, 3), "it was skipped");
}

/* ---- resolved is not quiet ---- */

static void stopped_midway(bool by_deadline)
{
    OPENED_WITH(fixture, f, FERRY_LOOP_EMBEDDED, by_deadline);
    manual_executor executor;
    manual_executor_init(&executor);
    _Atomic int calls = 0;
    ferry_buffer *src = own_buffer(&f, 0, LARGE, 1), *dst = own_buffer(&f, 1, LARGE, 2);
    ferry_buffer *other = own_buffer(&f, 2, SMALL, 3);
    copy_gate_hold(&f.gate, ferry_buffer_data(dst), CHUNK);
    ferry_future *stopped = copy_until(&f, ferry_buffer_span(dst), ferry_buffer_span(src));
    ferry_future *quiet = own(&f, ferry_future_quiet(stopped));
    copy_gate_wait_held(&f.gate);
    stop(&f, stopped);
    ASSERT_STATUS(ferry_future_poll(stopped), f.status);
    ASSERT_STATUS(ferry_future_poll(quiet), FERRY_PENDING);

    /* A writer of what it writes, one of what it reads, and a copy over what it writes. */
    ferry_future *writers[3] = {
        own(&f, call_on(&f.te, &executor.executor, count_call, &calls, span_of(dst, LARGE - 10, 10),
                        FERRY_WRITE)),
        own(&f, call_on(&f.te, &executor.executor, count_call, &calls, span_of(src, LARGE - 10, 10),
                        FERRY_WRITE)),
        copy(&f, span_of(dst, CHUNK, SMALL), ferry_buffer_span(other)),
    };
    settle(&f.te);
    cr_assert_eq(manual_waiting(&executor), 0);
    cr_assert_eq(copy_gate_begun(&f.gate), 1);
    for (int i = 0; i < 3; i++)
        ASSERT_STATUS(ferry_future_poll(writers[i]), FERRY_PENDING);

    copy_gate_open(&f.gate);
    ASSERT_STATUS(ferry_future_wait(quiet, -1), FERRY_OK);
    ASSERT_STATUS(ferry_future_wait(writers[2], -1), FERRY_OK);
    settle(&f.te);
    cr_assert_eq(manual_waiting(&executor), 2);
    manual_run_one(&executor);
    manual_run_one(&executor);
    settle(&f.te);
    for (int i = 0; i < 3; i++)
        ASSERT_STATUS(ferry_future_poll(writers[i]), FERRY_OK);
    ASSERT_STATUS(ferry_future_poll(stopped), f.status);
    cr_assert(is_filled(dst, 0, CHUNK, 1), "what was copied before");
    cr_assert(is_filled(dst, CHUNK, SMALL, 3));
    cr_assert(is_filled(dst, CHUNK + SMALL, LARGE - CHUNK - SMALL, 2), "and nothing after");
}

Test(engine_gate, a_copy_cancelled_midway_is_resolved_and_not_quiet)
{
    stopped_midway(false);
}

Test(engine_gate, a_copy_late_midway_is_resolved_and_not_quiet)
{
    stopped_midway(true);
}

Test(engine_gate, a_drain_waits_for_a_cancelled_copy_to_be_quiet)
{
    OPENED_WITH(fixture, f, FERRY_LOOP_EMBEDDED, false);
    ferry_buffer *src = own_buffer(&f, 0, SMALL, 1), *dst = own_buffer(&f, 1, SMALL, 2);
    copy_gate_hold(&f.gate, ferry_buffer_data(dst), 0);
    ferry_future *held = copy(&f, ferry_buffer_span(dst), ferry_buffer_span(src));
    ferry_future *drain = own(&f, ferry_engine_drain(f.te.engine));
    copy_gate_wait_held(&f.gate);
    ASSERT_STATUS(ferry_future_cancel(held), FERRY_OK);
    settle(&f.te);
    ASSERT_STATUS(ferry_future_poll(held), FERRY_E_CANCELLED);
    ASSERT_STATUS(ferry_future_poll(drain), FERRY_PENDING);
    copy_gate_open(&f.gate);
    ASSERT_STATUS(ferry_future_wait(drain, -1), FERRY_OK);
}

static int frees;

static void count_free(void *arg, void *memory, size_t size_bytes)
{
    (void)arg, (void)memory, (void)size_bytes;
    frees++;
}

Test(engine_gate, released_memory_is_not_freed_under_a_copy)
{
    static char memory[SMALL];
    OPENED_WITH(fixture, f, FERRY_LOOP_EMBEDDED, false);
    ferry_buffer *src = test_buffer(&f.te, 0, SMALL, 1), *dst = NULL;
    ASSERT_STATUS(
        ferry_buffer_wrap(ferry_device_at(f.te.engine, 1), memory, SMALL, count_free, NULL, &dst),
        FERRY_OK);
    copy_gate_hold(&f.gate, memory, 0);
    ferry_future *held = copy(&f, ferry_buffer_span(dst), ferry_buffer_span(src));
    ferry_buffer_release(src);
    ferry_buffer_release(dst);
    copy_gate_wait_held(&f.gate);
    ASSERT_STATUS(ferry_future_cancel(held), FERRY_OK);
    settle(&f.te);
    ASSERT_STATUS(ferry_future_poll(held), FERRY_E_CANCELLED);
    cr_assert_eq(frees, 0);
    ferry_future *quiet = own(&f, ferry_future_quiet(held));
    copy_gate_open(&f.gate);
    ASSERT_STATUS(ferry_future_wait(quiet, -1), FERRY_OK);
    settle(&f.te);
    cr_assert_eq(frees, 1);
}

/* ---- in a full stream ---- */

enum { COPIES = 300, ISSUED = 100, READY = 280 };

static void stopped_in_a_full_stream(bool by_deadline)
{
    OPENED_WITH(fixture, f, FERRY_LOOP_EMBEDDED, by_deadline);
    ferry_buffer *src = own_buffer(&f, 0, SMALL, 1);
    ferry_buffer *dst = own_buffer(&f, 1, COPIES * SMALL, 0);
    ferry_future *copies[COPIES];
    copy_gate_hold(&f.gate, ferry_buffer_data(dst), 0);
    for (size_t i = 0; i < COPIES; i++) {
        ferry_span at = span_of(dst, i * SMALL, SMALL);
        copies[i] = i == ISSUED || i == READY ? copy_until(&f, at, ferry_buffer_span(src))
                                              : copy(&f, at, ferry_buffer_span(src));
    }
    copy_gate_wait_held(&f.gate);
    for (int i = 0; i < COPIES; i++) {
        ferry_future *issued = own(&f, ferry_future_issued(copies[i]));
        ASSERT_STATUS(ferry_future_poll(issued), i < FRY_STREAM_DEPTH ? FERRY_OK : FERRY_PENDING);
    }
    stop(&f, copies[ISSUED]);
    if (!by_deadline)
        stop(&f, copies[READY]);
    ferry_future *quiet[2] = {own(&f, ferry_future_quiet(copies[ISSUED])),
                              own(&f, ferry_future_quiet(copies[READY]))};
    ASSERT_STATUS(ferry_future_poll(copies[ISSUED]), f.status);
    ASSERT_STATUS(ferry_future_poll(copies[READY]), f.status);
    ASSERT_STATUS(ferry_future_poll(quiet[0]), FERRY_PENDING);
    ASSERT_STATUS(ferry_future_poll(quiet[1]), FERRY_OK);

    copy_gate_open(&f.gate);
    for (int i = 0; i < COPIES; i++) {
        bool is_stopped = i == ISSUED || i == READY;
        ASSERT_STATUS(ferry_future_wait(copies[i], -1), is_stopped ? f.status : FERRY_OK);
        cr_assert(is_filled(dst, (size_t)i * SMALL, SMALL, is_stopped ? 0 : 1), "copy %d", i);
    }
    ASSERT_STATUS(ferry_future_wait(quiet[0], -1), FERRY_OK);
}

Test(engine_gate, cancels_reach_what_stands_in_a_full_stream_and_behind_it)
{
    stopped_in_a_full_stream(false);
}

Test(engine_gate, deadlines_reach_what_stands_in_a_full_stream_and_behind_it)
{
    stopped_in_a_full_stream(true);
}

Test(engine_gate, a_cancel_after_the_last_byte_may_come_too_late)
{
    OPENED_WITH(fixture, f, FERRY_LOOP_EMBEDDED, false);
    ferry_buffer *src = own_buffer(&f, 0, SMALL, 1), *dst = own_buffer(&f, 1, SMALL, 2);
    ferry_future *done = copy(&f, ferry_buffer_span(dst), ferry_buffer_span(src));
    ASSERT_STATUS(ferry_future_wait(done, -1), FERRY_OK);
    ASSERT_STATUS(ferry_future_cancel(done), FERRY_OK);
    settle(&f.te);
    ASSERT_STATUS(ferry_future_poll(done), FERRY_OK);
    cr_assert(is_filled(dst, 0, SMALL, 1));
}

/* ---- shutdown ---- */

static void shutdown_with_a_held_copy(ferry_loop_mode loop)
{
    OPENED_WITH(fixture, f, loop, false);
    ferry_buffer *src = own_buffer(&f, 0, SMALL, 1), *dst = own_buffer(&f, 1, SMALL, 2);
    copy_gate_hold(&f.gate, ferry_buffer_data(dst), 0);
    ferry_future *held = copy(&f, ferry_buffer_span(dst), ferry_buffer_span(src));
    copy_gate_wait_held(&f.gate);
    ASSERT_STATUS(ferry_engine_shutdown(f.te.engine, 0), FERRY_E_DEADLINE);
    ASSERT_STATUS(ferry_engine_shutdown(f.te.engine, 1000000), FERRY_E_DEADLINE);
    cr_assert_gt(f.te.log_lines, 0);
    ASSERT_STATUS(ferry_future_wait(held, -1), FERRY_E_SHUTDOWN);
    ASSERT_STATUS(status_of(ferry_nop(f.te.engine, NULL)), FERRY_E_SHUTDOWN);
    copy_gate_open(&f.gate);
    ASSERT_STATUS(ferry_engine_shutdown(f.te.engine, -1), FERRY_OK);
    ASSERT_STATUS(ferry_engine_shutdown(f.te.engine, 0), FERRY_OK);
    cr_assert(is_filled(dst, 0, SMALL, 2));
}

Test(engine_gate, shutdown_gives_up_on_a_held_copy_and_ends_once_it_goes_on)
{
    shutdown_with_a_held_copy(FERRY_LOOP_THREAD);
}

Test(engine_gate, shutdown_gives_up_on_a_held_copy_and_ends_once_it_goes_on_embedded)
{
    shutdown_with_a_held_copy(FERRY_LOOP_EMBEDDED);
}

static void *shut_down(void *arg)
{
    ferry_status status;
    while ((status = ferry_engine_shutdown(arg, -1)) == FERRY_E_BUSY)
        sched_yield();
    return status == FERRY_OK ? arg : NULL;
}

static void shutdown_by_two(ferry_loop_mode loop)
{
    OPENED_WITH(fixture, f, loop, false);
    ferry_buffer *src = own_buffer(&f, 0, SMALL, 1), *dst = own_buffer(&f, 1, SMALL, 2);
    copy_gate_hold(&f.gate, ferry_buffer_data(dst), 0);
    (void)copy(&f, ferry_buffer_span(dst), ferry_buffer_span(src));
    copy_gate_wait_held(&f.gate);
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, shut_down, f.te.engine), 0);
    ferry_status status;
    while ((status = ferry_engine_shutdown(f.te.engine, 0)) != FERRY_E_BUSY) {
        ASSERT_STATUS(status, FERRY_E_DEADLINE);
        sched_yield();
    }
    copy_gate_open(&f.gate);
    void *ended = NULL;
    cr_assert_eq(pthread_join(thread, &ended), 0);
    cr_assert_eq(ended, f.te.engine);
    ASSERT_STATUS(ferry_engine_shutdown(f.te.engine, 0), FERRY_OK);
}

Test(engine_gate, a_second_shutdown_at_once_is_busy)
{
    shutdown_by_two(FERRY_LOOP_THREAD);
}

Test(engine_gate, a_second_shutdown_at_once_is_busy_embedded)
{
    shutdown_by_two(FERRY_LOOP_EMBEDDED);
}

/* ---- very many ---- */

/* It names one predecessor so often that a count of 16 bits would begin anew. */
Test(engine_gate, a_copy_behind_a_copy_that_it_names_65536_times)
{
    enum { NAMED = 1 << 16 };
    OPENED_WITH(fixture, f, FERRY_LOOP_EMBEDDED, false);
    ferry_buffer *source = own_buffer(&f, 0, SMALL, 1), *target = own_buffer(&f, 1, SMALL, 0);
    ferry_buffer *other = own_buffer(&f, 1, SMALL, 0);
    copy_gate_hold(&f.gate, ferry_buffer_data(target), 0);
    ferry_future *held = copy(&f, ferry_buffer_span(target), ferry_buffer_span(source));
    copy_gate_wait_held(&f.gate);
    static ferry_future *after[NAMED];
    for (size_t i = 0; i < NAMED; i++)
        after[i] = held;
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = after;
    options.after_count = NAMED;
    ferry_span to = ferry_buffer_span(other), from = ferry_buffer_span(source);
    ferry_future *behind = own(&f, ferry_copy(f.te.engine, to, from, &options));
    ASSERT_STATUS(ferry_future_cancel(held), FERRY_OK);
    settle(&f.te);
    ASSERT_STATUS(ferry_future_poll(held), FERRY_E_CANCELLED);
    ASSERT_STATUS(ferry_future_wait(behind, 0), FERRY_E_DEPENDENCY);
    ferry_future *quiet = own(&f, ferry_future_quiet(held));
    copy_gate_open(&f.gate);
    ASSERT_STATUS(ferry_future_wait(quiet, -1), FERRY_OK);

    copy_gate_hold(&f.gate, ferry_buffer_data(target), 0);
    held = copy(&f, ferry_buffer_span(target), ferry_buffer_span(source));
    copy_gate_wait_held(&f.gate);
    for (size_t i = 0; i < NAMED; i++)
        after[i] = held;
    behind = own(&f, ferry_copy(f.te.engine, to, from, &options));
    copy_gate_open(&f.gate);
    ASSERT_STATUS(ferry_future_wait(behind, -1), FERRY_OK);
    ASSERT_STATUS(ferry_future_poll(held), FERRY_OK);
}
