/* SPDX-License-Identifier: Apache-2.0 */
/* Outside events: what waits for them, on which stream, and what becomes of them. */
#include "tests/unit/fake_engine.h"

TestSuite(engine_events, .timeout = HANG_S);

/* ---- an event by itself ---- */

Test(engine_events, resolves_when_it_fires)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    ferry_future *event = record(&f, 0, 0);
    run_all(&f);
    ASSERT_STATUS(ferry_future_poll(event), FERRY_PENDING);
    cr_assert(is_issued(event));
    user_goes(&f, 0, 0);
    run_all(&f);
    ASSERT_STATUS(ferry_future_poll(event), FERRY_OK);
    cr_assert(is_quiet(event));
    cr_assert_null(ferry_future_error(event));
    ferry_future_release(event);
    fake_engine_close(&f);
}

Test(engine_events, of_the_default_stream_are_events_too)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    ferry_future *event = ferry_event_record(f.devices[1], NULL);
    fake_user_go(f.gpus[1], NULL, 1);
    run_all(&f);
    ASSERT_STATUS(status_of(event), FERRY_OK);
    fake_engine_close(&f);
}

Test(engine_events, are_waited_for_by_whatever_waits_for_futures)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    ferry_future *event = record(&f, 0, 0);
    ferry_future *nop = nop_after(&f.te, event);
    ferry_future *drain = ferry_engine_drain(f.te.engine);
    counted_waiter waiter;
    counted_waiter_init(&waiter, NULL);
    ASSERT_STATUS(ferry_future_on_ready(event, &waiter.waiter), FERRY_OK);
    run_all(&f);
    ASSERT_STATUS(ferry_future_poll(nop), FERRY_PENDING);
    ASSERT_STATUS(ferry_future_poll(drain), FERRY_PENDING);
    user_goes(&f, 0, 0);
    run_all(&f);
    ASSERT_STATUS(status_of(nop), FERRY_OK);
    ASSERT_STATUS(status_of(drain), FERRY_OK);
    cr_assert_eq(waiter.calls, 1);
    ferry_future_release(event);
    fake_engine_close(&f);
}

Test(engine_events, nobody_has_a_handle_on_fire_all_the_same)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    ferry_future_release(record(&f, 0, 0));
    ferry_future *drain = ferry_engine_drain(f.te.engine);
    run_all(&f);
    ASSERT_STATUS(ferry_future_poll(drain), FERRY_PENDING);
    user_goes(&f, 0, 0);
    run_all(&f);
    ASSERT_STATUS(status_of(drain), FERRY_OK);
    fake_engine_close(&f);
}

/* ---- refusals ---- */

Test(engine_events, that_cannot_be_are_refused)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    fake_user_event event = {false};
    ASSERT_STATUS(status_of(ferry_event_record(NULL, NULL)), FERRY_E_INVALID);
    ASSERT_STATUS(status_of(ferry_event_wrap(NULL, &event, NULL)), FERRY_E_INVALID);
    ASSERT_STATUS(status_of(ferry_event_wrap(f.devices[0], NULL, NULL)), FERRY_E_INVALID);
    ASSERT_STATUS(status_of(ferry_event_record(f.devices[0], fake_user_stream(f.gpus[1], 0))),
                  FERRY_E_INVALID);
    ferry_device *host = ferry_device_at(f.te.engine, 0);
    ASSERT_STATUS(status_of(ferry_event_record(host, NULL)), FERRY_E_UNSUPPORTED);
    ASSERT_STATUS(status_of(ferry_event_wrap(host, &event, NULL)), FERRY_E_UNSUPPORTED);
    fake_user_capture(f.gpus[0], fake_user_stream(f.gpus[0], 1), true);
    ASSERT_STATUS(status_of(record(&f, 0, 1)), FERRY_E_CAPTURE);
    cr_assert_gt(f.te.log_lines, 0, "and somebody is told why");
    fake_engine_close(&f);
}

Test(engine_events, more_than_a_device_holds_are_refused_until_some_have_fired)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    ferry_future *events[FRY_STREAM_DEPTH + 3];
    for (size_t i = 0; i < FRY_STREAM_DEPTH; i++)
        events[i] = record(&f, 0, 0);
    ASSERT_STATUS(status_of(record(&f, 0, 0)), FERRY_E_AGAIN);
    for (size_t i = 0; i < 3; i++)
        events[FRY_STREAM_DEPTH + i] = record(&f, 0, 1 + i);
    ASSERT_STATUS(status_of(record(&f, 0, 4)), FERRY_E_AGAIN);
    for (size_t i = 0; i < FRY_STREAM_DEPTH; i++)
        user_goes(&f, 0, 0);
    run_all(&f);
    for (size_t i = 0; i < 3; i++)
        user_goes(&f, 0, 1 + i);
    ferry_future *event = record(&f, 0, 4);
    user_goes(&f, 0, 4);
    run_all(&f);
    ASSERT_STATUS(status_of(event), FERRY_OK);
    for (size_t i = 0; i < FRY_STREAM_DEPTH + 3; i++)
        ASSERT_STATUS(status_of(events[i]), FERRY_OK);
    fake_engine_close(&f);
}

Test(engine_events, a_device_that_fails_gives_its_own_number)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    fake_refuse_event(f.gpus[0], FERRY_E_DEVICE);
    ferry_future *event = record(&f, 0, 0);
    ferry_future *nop = nop_after(&f.te, event);
    settle(&f.te);
    ASSERT_STATUS(ferry_future_poll(event), FERRY_E_DEVICE);
    const ferry_error *error = ferry_future_error(event);
    cr_assert_str_eq(error->domain, "fake");
    cr_assert_eq(error->native_code, FAKE_ERROR_CODE);
    cr_assert_eq(error->op, ferry_future_id(event));
    cr_assert_str_eq(error->message, "no event can be recorded");
    ASSERT_STATUS(ferry_future_poll(nop), FERRY_E_DEPENDENCY);
    cr_assert_eq(ferry_future_error(nop)->cause->native_code, FAKE_ERROR_CODE);
    cr_assert(is_quiet(event));
    ferry_future_release(event);
    ferry_future_release(nop);
    event = record(&f, 0, 0);
    user_goes(&f, 0, 0);
    run_all(&f);
    ASSERT_STATUS(status_of(event), FERRY_OK);
    fake_engine_close(&f);
}

Test(engine_events, without_nodes_nothing_is_recorded)
{
    fake_engine f;
    ferry_engine_options options = test_engine_options(&f.te, FERRY_LOOP_EMBEDDED);
    options.max_nodes = 2;
    test_engine_create(&f.te, &options);
    fake_engine_attach(&f, &(fake_options){.parked_count = 1, .outside_count = 2});
    ferry_future *events[2] = {record(&f, 0, 0), record(&f, 0, 0)};
    fry_stream *outside = fake_stream(f.gpus[0], FAKE_MAIN_COUNT + 1);
    cr_assert_eq(issued_to(outside), 2);
    ASSERT_STATUS(status_of(record(&f, 0, 0)), FERRY_E_AGAIN);
    cr_assert_eq(issued_to(outside), 2);
    user_goes(&f, 0, 0);
    user_goes(&f, 0, 0);
    run_all(&f);
    ASSERT_STATUS(status_of(events[0]), FERRY_OK);
    ASSERT_STATUS(status_of(events[1]), FERRY_OK);
    fake_engine_close(&f);
}

/* ---- events of the program's own ---- */

Test(engine_events, wrapped_ones_resolve_at_once_if_they_have_fired)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    fake_user_event fired = {true}, unfired = {false};
    void *stream = fake_user_stream(f.gpus[0], 0);
    ASSERT_STATUS(status_of(ferry_event_wrap(f.devices[0], &fired, stream)), FERRY_OK);
    ferry_future *event = ferry_event_wrap(f.devices[0], &unfired, stream);
    run_all(&f);
    ASSERT_STATUS(ferry_future_poll(event), FERRY_PENDING);
    user_goes(&f, 0, 0);
    run_all(&f);
    ASSERT_STATUS(status_of(event), FERRY_OK);
    fake_engine_close(&f);
}

/* ---- copies behind events ---- */

Test(engine_events, copies_behind_them_wait_on_a_parked_stream)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    ferry_buffer *src = gpu_buffer(&f, 0, 1), *dst = gpu_buffer(&f, 0, 2);
    ferry_buffer *other = gpu_buffer(&f, 0, 3), *copied = gpu_buffer(&f, 0, 4);
    ferry_future *event = record(&f, 0, 0);
    ferry_future *behind = gpu_copy_after(&f, dst, src, event);
    ferry_future *free = gpu_copy(&f, copied, other);
    cr_assert(is_issued(behind));
    cr_assert_eq(issued_to(parked(&f, 0, 0)), 1);
    cr_assert_eq(issued_to(fake_stream(f.gpus[0], FAKE_WITHIN)), 1);
    fry_event waits[FRY_STREAM_WAITS];
    cr_assert_eq(fake_waits(parked(&f, 0, 0), 1, waits), 1);
    cr_assert_eq(waits[0].stream->kind, FRY_STREAM_OUTSIDE);
    cr_assert_eq(waits[0].sequence, 1);
    run_all(&f);
    ASSERT_STATUS(status_of(free), FERRY_OK);
    ASSERT_STATUS(ferry_future_poll(behind), FERRY_PENDING);
    user_goes(&f, 0, 0);
    cr_assert_eq(fake_run(f.world), 2, "nobody need call ferry for the copy to run");
    cr_assert(is_filled(dst, 0, GPU_SIZE, 1));
    run_all(&f);
    ASSERT_STATUS(status_of(behind), FERRY_OK);
    ferry_future_release(event);
    ferry_buffer *buffers[] = {src, dst, other, copied};
    for (size_t i = 0; i < 4; i++)
        ferry_buffer_release(buffers[i]);
    fake_engine_close(&f);
}

Test(engine_events, what_depends_on_a_parked_copy_is_parked_too)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    ferry_buffer *buffers[4];
    for (size_t i = 0; i < 4; i++)
        buffers[i] = gpu_buffer(&f, i % 2, (int)i + 1);
    ferry_future *event = record(&f, 0, 0);
    ferry_future *copies[3];
    copies[0] = gpu_copy_after(&f, buffers[1], buffers[0], event);
    copies[1] = gpu_copy(&f, buffers[2], buffers[1]);
    copies[2] = gpu_copy(&f, buffers[3], buffers[2]);
    for (size_t i = 0; i < 3; i++)
        cr_assert(is_issued(copies[i]), "copy %zu", i);
    for (size_t i = 0; i < 2; i++)
        cr_assert_eq(issued_to(fake_stream(f.gpus[i], FAKE_WITHIN)), 0);
    cr_assert_eq(issued_to(parked(&f, 0, 0)), 1);
    cr_assert_eq(issued_to(parked(&f, 1, 0)), 2, "one stream for one event");
    user_goes(&f, 0, 0);
    cr_assert_eq(fake_run(f.world), 4);
    cr_assert(is_filled(buffers[3], 0, GPU_SIZE, 1));
    run_all(&f);
    for (size_t i = 0; i < 3; i++)
        ASSERT_STATUS(status_of(copies[i]), FERRY_OK);
    ferry_future_release(event);
    /* And then it is over: what comes now is not parked. */
    ferry_future *next = gpu_copy(&f, buffers[2], buffers[1]);
    cr_assert_eq(issued_to(fake_stream(f.gpus[0], FAKE_WITHIN)), 1);
    run_all(&f);
    ASSERT_STATUS(status_of(next), FERRY_OK);
    for (size_t i = 0; i < 4; i++)
        ferry_buffer_release(buffers[i]);
    fake_engine_close(&f);
}

typedef struct row {
    ferry_future *event, *copy;
    ferry_buffer *src, *dst;
} row;

static row row_after(const fake_engine *f, size_t user)
{
    row r = {.event = record(f, 0, user), .src = gpu_buffer(f, 0, 1), .dst = gpu_buffer(f, 0, 2)};
    r.copy = gpu_copy_after(f, r.dst, r.src, r.event);
    return r;
}

static void row_end(row *r)
{
    ASSERT_STATUS(status_of(r->copy), FERRY_OK);
    cr_assert(is_filled(r->dst, 0, GPU_SIZE, 1));
    ferry_future_release(r->event);
    ferry_buffer_release(r->src);
    ferry_buffer_release(r->dst);
}

Test(engine_events, later_ones_of_a_stream_go_behind_earlier_ones_and_not_before)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    ferry_buffer *src = gpu_buffer(&f, 0, 1), *dst = gpu_buffer(&f, 0, 2);
    ferry_future *early = record(&f, 0, 0);
    row later = row_after(&f, 0);
    cr_assert_eq(issued_to(parked(&f, 0, 0)), 1);
    ferry_future *copy = gpu_copy_after(&f, dst, src, early);
    cr_assert(is_issued(copy));
    cr_assert_eq(issued_to(parked(&f, 0, 1)), 1, "it must not stand behind the later event");
    row last = row_after(&f, 0);
    cr_assert_eq(issued_to(parked(&f, 0, 0)), 2);
    user_goes(&f, 0, 0);
    run_all(&f);
    ASSERT_STATUS(status_of(copy), FERRY_OK);
    ASSERT_STATUS(ferry_future_poll(later.copy), FERRY_PENDING);
    user_goes(&f, 0, 0);
    user_goes(&f, 0, 0);
    run_all(&f);
    row_end(&later);
    row_end(&last);
    ferry_future_release(early);
    ferry_buffer_release(src);
    ferry_buffer_release(dst);
    fake_engine_close(&f);
}

/* A copy that depends on an early event through another lane must not stand behind a late one,
 * though that lane has later copies in it. */
Test(engine_events, how_far_a_parked_stream_waits_is_known_for_each_copy_in_it)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    ferry_buffer *a = gpu_buffer(&f, 0, 1), *b = gpu_buffer(&f, 1, 2), *c = gpu_buffer(&f, 0, 3);
    ferry_buffer *d = gpu_buffer(&f, 1, 4), *e = gpu_buffer(&f, 0, 5);
    ferry_future *early = record(&f, 0, 0), *middle = record(&f, 0, 0);
    ferry_future *first = gpu_copy_after(&f, b, a, early);   /* on gpu 1, behind event 1 */
    ferry_future *second = gpu_copy_after(&f, d, a, middle); /* there too, behind event 2 */
    ferry_future *other = gpu_copy_after(&f, e, a, middle);  /* on gpu 0, behind event 2 */
    ferry_future *third = gpu_copy(&f, c, b);                /* on gpu 0, behind event 1 */
    cr_assert_eq(issued_to(parked(&f, 1, 0)), 2);
    cr_assert_eq(issued_to(parked(&f, 0, 0)), 1);
    cr_assert_eq(issued_to(parked(&f, 0, 1)), 1);
    user_goes(&f, 0, 0);
    run_all(&f);
    ASSERT_STATUS(status_of(first), FERRY_OK);
    ASSERT_STATUS(status_of(third), FERRY_OK);
    ASSERT_STATUS(ferry_future_poll(second), FERRY_PENDING);
    user_goes(&f, 0, 0);
    run_all(&f);
    ASSERT_STATUS(status_of(second), FERRY_OK);
    ASSERT_STATUS(status_of(other), FERRY_OK);
    ferry_future_release(early);
    ferry_future_release(middle);
    ferry_buffer *buffers[] = {a, b, c, d, e};
    for (size_t i = 0; i < 5; i++)
        ferry_buffer_release(buffers[i]);
    fake_engine_close(&f);
}

Test(engine_events, a_parked_stream_waits_for_one_stream_of_the_program)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    row first = row_after(&f, 0), second = row_after(&f, 1);
    cr_assert_eq(issued_to(parked(&f, 0, 0)), 1);
    cr_assert_eq(issued_to(parked(&f, 0, 1)), 1);
    row third = row_after(&f, 2); /* no parked stream is left */
    cr_assert_not(is_issued(third.copy));
    user_goes(&f, 0, 2);
    run_all(&f);
    cr_assert_eq(issued_to(fake_stream(f.gpus[0], FAKE_WITHIN)), 1, "it waits no more");
    row_end(&third);
    user_goes(&f, 0, 1);
    run_all(&f);
    row_end(&second);
    ferry_future *again = record(&f, 0, 1); /* so that the next event is on another stream */
    row fourth = row_after(&f, 3);
    cr_assert_eq(issued_to(parked(&f, 0, 1)), 2, "it was given back");
    user_goes(&f, 0, 3);
    user_goes(&f, 0, 1);
    user_goes(&f, 0, 0);
    run_all(&f);
    ASSERT_STATUS(status_of(again), FERRY_OK);
    row_end(&fourth);
    row_end(&first);
    fake_engine_close(&f);
}

Test(engine_events, a_parked_stream_takes_copies_of_one_direction)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    row within = row_after(&f, 0);
    ferry_buffer *host = test_buffer(&f.te, 0, GPU_SIZE, 5), *dst = gpu_buffer(&f, 0, 2);
    ferry_future *in = gpu_copy_after(&f, dst, host, within.event);
    cr_assert_eq(issued_to(parked(&f, 0, 0)), 1);
    cr_assert_eq(issued_to(parked(&f, 0, 1)), 1);
    user_goes(&f, 0, 0);
    run_all(&f);
    ASSERT_STATUS(status_of(in), FERRY_OK);
    row_end(&within);
    ferry_buffer_release(host);
    ferry_buffer_release(dst);
    fake_engine_close(&f);
}

Test(engine_events, of_two_streams_one_is_waited_for_on_the_host)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    for (size_t first = 0; first < 2; first++) {
        ferry_buffer *src = gpu_buffer(&f, 0, 1), *dst = gpu_buffer(&f, 0, 2);
        ferry_future *events[2] = {record(&f, 0, 0), record(&f, 0, 1)};
        ferry_op_options options = FERRY_OP_OPTIONS_INIT;
        options.after = events;
        options.after_count = 2;
        ferry_future *copy =
            ferry_copy(f.te.engine, ferry_buffer_span(dst), ferry_buffer_span(src), &options);
        run_all(&f);
        cr_assert_not(is_issued(copy));
        user_goes(&f, 0, first);
        run_all(&f);
        ASSERT_STATUS(ferry_future_poll(copy), FERRY_PENDING);
        user_goes(&f, 0, 1 - first);
        run_all(&f);
        ASSERT_STATUS(status_of(copy), FERRY_OK);
        cr_assert(is_filled(dst, 0, GPU_SIZE, 1));
        ferry_future_release(events[0]);
        ferry_future_release(events[1]);
        ferry_buffer_release(src);
        ferry_buffer_release(dst);
    }
    fake_engine_close(&f);
}

Test(engine_events, a_full_parked_stream_is_no_place_to_wait)
{
    fake_engine f;
    ferry_engine_options options = test_engine_options(&f.te, FERRY_LOOP_EMBEDDED);
    options.stream_depth = 2;
    test_engine_create(&f.te, &options);
    fake_engine_attach(&f, &(fake_options){.parked_count = 1, .outside_count = 4});
    ferry_future *event = record(&f, 0, 0);
    ferry_buffer *src = gpu_buffer(&f, 0, 1), *dst[3];
    ferry_future *copies[3];
    for (size_t i = 0; i < 3; i++) {
        dst[i] = gpu_buffer(&f, 0, 2);
        copies[i] = gpu_copy_after(&f, dst[i], src, event);
        cr_assert_eq(is_issued(copies[i]), i < 2);
    }
    user_goes(&f, 0, 0);
    run_all(&f);
    cr_assert_eq(issued_to(parked(&f, 0, 0)), 2);
    cr_assert_eq(issued_to(fake_stream(f.gpus[0], FAKE_WITHIN)), 1);
    for (size_t i = 0; i < 3; i++) {
        ASSERT_STATUS(status_of(copies[i]), FERRY_OK);
        cr_assert(is_filled(dst[i], 0, GPU_SIZE, 1));
        ferry_buffer_release(dst[i]);
    }
    ferry_future_release(event);
    ferry_buffer_release(src);
    fake_engine_close(&f);
}

Test(engine_events, without_parked_streams_the_host_waits)
{
    fake_engine f;
    test_engine_open(&f.te, FERRY_LOOP_EMBEDDED);
    fake_engine_attach(&f, &(fake_options){.parked_count = 0, .outside_count = 2});
    row waiting = row_after(&f, 0);
    cr_assert_not(is_issued(waiting.copy));
    user_goes(&f, 0, 0);
    run_all(&f);
    row_end(&waiting);
    fake_engine_close(&f);
}

/* A copy held by something else is issued after later ones: it must not land behind their event. */
Test(engine_events, what_is_issued_late_does_not_stand_behind_a_later_event)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    ferry_buffer *src = gpu_buffer(&f, 0, 1), *dst = gpu_buffer(&f, 0, 2);
    ferry_promise *promise = test_promise(&f.te);
    ferry_future *after[2] = {record(&f, 0, 0), ferry_promise_future(promise)};
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.after = after;
    options.after_count = 2;
    ferry_future *copy =
        ferry_copy(f.te.engine, ferry_buffer_span(dst), ferry_buffer_span(src), &options);
    row later = row_after(&f, 0);
    cr_assert_eq(issued_to(parked(&f, 0, 0)), 1);
    keep_promise(promise, FERRY_OK);
    cr_assert_eq(issued_to(parked(&f, 0, 1)), 1);
    user_goes(&f, 0, 0);
    run_all(&f);
    ASSERT_STATUS(status_of(copy), FERRY_OK);
    user_goes(&f, 0, 0);
    run_all(&f);
    row_end(&later);
    ferry_future_release(after[0]);
    ferry_future_release(after[1]);
    ferry_buffer_release(src);
    ferry_buffer_release(dst);
    fake_engine_close(&f);
}

/* ---- cancels, deadlines, the end ---- */

Test(engine_events, cancelled_they_are_quiet_when_they_fire)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    row behind = row_after(&f, 0);
    ASSERT_STATUS(ferry_future_cancel(behind.event), FERRY_OK);
    run_all(&f);
    ASSERT_STATUS(ferry_future_poll(behind.event), FERRY_E_CANCELLED);
    cr_assert_not(is_quiet(behind.event));
    ASSERT_STATUS(ferry_future_poll(behind.copy), FERRY_E_DEPENDENCY);
    cr_assert_eq(ferry_future_error(behind.copy)->cause->status, FERRY_E_CANCELLED);
    cr_assert_not(is_quiet(behind.copy), "it stands on a device");
    ferry_future *quiet = ferry_future_quiet(behind.event);
    user_goes(&f, 0, 0);
    run_all(&f);
    ASSERT_STATUS(status_of(quiet), FERRY_OK);
    cr_assert(is_quiet(behind.copy));
    ferry_future_release(behind.event);
    ferry_future_release(behind.copy);
    ferry_buffer_release(behind.src);
    ferry_buffer_release(behind.dst);
    fake_engine_close(&f);
}

Test(engine_events, a_copy_held_for_want_of_a_parked_stream_can_be_cancelled)
{
    fake_engine f;
    test_engine_open(&f.te, FERRY_LOOP_EMBEDDED);
    fake_engine_attach(&f, &(fake_options){.parked_count = 1, .outside_count = 4});
    row first = row_after(&f, 0), held = row_after(&f, 1);
    ASSERT_STATUS(ferry_future_cancel(held.copy), FERRY_OK);
    settle(&f.te);
    ASSERT_STATUS(ferry_future_poll(held.copy), FERRY_E_CANCELLED);
    cr_assert(is_quiet(held.copy));
    /* It is out of the way: the event has nothing to do with its memory. */
    ferry_future *next = gpu_copy(&f, held.dst, first.src);
    run_all(&f);
    ASSERT_STATUS(status_of(next), FERRY_OK);
    user_goes(&f, 0, 0);
    user_goes(&f, 0, 1);
    run_all(&f);
    row_end(&first);
    ferry_future_release(held.copy);
    held.copy = ferry_future_retain(held.event);
    row_end(&held);
    fake_engine_close(&f);
}

Test(engine_events, a_deadline_passes_while_a_copy_is_parked_or_held)
{
    fake_engine f;
    test_engine_open(&f.te, FERRY_LOOP_EMBEDDED);
    fake_engine_attach(&f, &(fake_options){.parked_count = 1, .outside_count = 4});
    ferry_buffer *src = gpu_buffer(&f, 0, 1),
                 *dst[2] = {gpu_buffer(&f, 0, 2), gpu_buffer(&f, 0, 3)};
    ferry_future *events[2] = {record(&f, 0, 0), record(&f, 0, 1)}, *copies[2];
    for (size_t i = 0; i < 2; i++) {
        ferry_op_options options = FERRY_OP_OPTIONS_INIT;
        options.after = &events[i];
        options.after_count = 1;
        options.deadline_ns = START_NS + 1000;
        copies[i] =
            ferry_copy(f.te.engine, ferry_buffer_span(dst[i]), ferry_buffer_span(src), &options);
    }
    cr_assert(is_issued(copies[0]));
    cr_assert_not(is_issued(copies[1]));
    stepped_clock_step(&f.te.time, 1000);
    settle(&f.te);
    for (size_t i = 0; i < 2; i++)
        ASSERT_STATUS(ferry_future_poll(copies[i]), FERRY_E_DEADLINE);
    cr_assert_not(is_quiet(copies[0]));
    cr_assert(is_quiet(copies[1]));
    cr_assert_eq(fake_count(f.gpus[0]).cancels, 1);
    for (size_t i = 0; i < 2; i++) {
        user_goes(&f, 0, i);
        run_all(&f);
        ASSERT_STATUS(status_of(events[i]), FERRY_OK);
        cr_assert(is_quiet(copies[i]));
        ferry_future_release(copies[i]);
        ferry_buffer_release(dst[i]);
    }
    ferry_buffer_release(src);
    fake_engine_close(&f);
}

Test(engine_events, a_shutdown_waits_until_they_have_fired)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    row behind = row_after(&f, 0);
    ASSERT_STATUS(ferry_engine_shutdown(f.te.engine, 0), FERRY_E_DEADLINE);
    ASSERT_STATUS(ferry_future_poll(behind.event), FERRY_E_SHUTDOWN);
    cr_assert_lt(ferry_future_poll(behind.copy), 0);
    ASSERT_STATUS(status_of(record(&f, 0, 0)), FERRY_E_SHUTDOWN);
    user_goes(&f, 0, 0);
    (void)fake_run(f.world);
    ferry_future_release(behind.event);
    ferry_future_release(behind.copy);
    ferry_buffer_release(behind.src);
    ferry_buffer_release(behind.dst);
    fake_engine_close(&f);
}

/* It passes the check, and is then overtaken by the shutdown: the device has recorded it. */
Test(engine_events, one_that_enters_as_the_engine_closes_stands_in_its_stream)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    row behind = row_after(&f, 0);
    ASSERT_STATUS(ferry_engine_shutdown(f.te.engine, 0), FERRY_E_DEADLINE);
    fry_store_seq_cst(&f.te.engine->closing, 0); /* as it was when it looked */
    ferry_future *late = record(&f, 0, 1);
    fry_store_seq_cst(&f.te.engine->closing, 1);
    ASSERT_STATUS(ferry_future_poll(late), FERRY_E_SHUTDOWN);
    user_goes(&f, 0, 0);
    (void)fake_run(f.world);
    ASSERT_STATUS(ferry_engine_shutdown(f.te.engine, 0), FERRY_E_DEADLINE);
    user_goes(&f, 0, 1);
    (void)fake_run(f.world);
    ferry_future_release(late);
    ferry_future_release(behind.event);
    ferry_future_release(behind.copy);
    ferry_buffer_release(behind.src);
    ferry_buffer_release(behind.dst);
    fake_engine_close(&f);
}

/* Who is at a device is not left alone with it, however long the device keeps him; meanwhile the
 * loop sleeps, and is woken by whoever leaves a device. */
Test(engine_events, a_shutdown_waits_for_threads_that_record)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    ferry_future *event = record(&f, 0, 0);
    (void)fry_fetch_add(&f.te.engine->outside_calls, 1);
    ASSERT_STATUS(ferry_engine_shutdown(f.te.engine, 0), FERRY_E_DEADLINE);
    settle(&f.te);
    ASSERT_STATUS(ferry_engine_arm(f.te.engine), FERRY_OK);
    ASSERT_STATUS(ferry_future_stream_wait(event, f.devices[0], NULL), FERRY_E_SHUTDOWN);
    cr_assert_eq(f.te.engine->asleep, FRY_AWAKE);
    ferry_future_release(event);
    user_goes(&f, 0, 0);
    (void)fake_run(f.world);
    settle(&f.te);
    ASSERT_STATUS(ferry_engine_arm(f.te.engine), FERRY_OK);
    (void)fry_fetch_sub(&f.te.engine->outside_calls, 1);
    ASSERT_STATUS(ferry_engine_arm(f.te.engine), FERRY_E_BUSY);
    fake_engine_close(&f);
}

/* Between the two stores that end an operation: whoever hears that there is nothing to wait for
 * looks how it ended, and would find it pending. */
Test(engine_events, no_stream_goes_on_before_the_status_of_a_copy_that_failed_is_there)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    ferry_promise *gate = NULL;
    ASSERT_STATUS(ferry_promise_create(f.te.engine, &gate), FERRY_OK);
    ferry_future *opened = ferry_promise_future(gate);
    ferry_buffer *src = gpu_buffer(&f, 0, 1), *dst = gpu_buffer(&f, 0, 2);
    ferry_future *copy = gpu_copy_after(&f, dst, src, opened);
    settle(&f.te);
    ASSERT_STATUS(ferry_future_stream_wait(copy, f.devices[0], NULL), FERRY_E_NOT_ISSUED);
    fry_node *node = fry_node_of(copy);
    cr_assert_eq(node->state, FRY_NODE_WAITING);
    fry_store_release(&node->state, FRY_NODE_RESOLVED);
    ASSERT_STATUS(ferry_future_stream_wait(copy, f.devices[0], NULL), FERRY_E_NOT_ISSUED);
    fry_store_release(&node->state, FRY_NODE_WAITING);
    ASSERT_STATUS(ferry_future_cancel(copy), FERRY_OK);
    settle(&f.te);
    ASSERT_STATUS(ferry_future_stream_wait(copy, f.devices[0], NULL), FERRY_OK);
    ASSERT_STATUS(status_of(copy), FERRY_E_CANCELLED);
    ASSERT_STATUS(ferry_promise_resolve(gate, FERRY_OK, NULL), FERRY_OK);
    ferry_promise_release(gate);
    ferry_future_release(opened);
    ferry_buffer_release(src);
    ferry_buffer_release(dst);
    fake_engine_close(&f);
}

/* It has failed, and one of its copies still stands in a stream, where no single place tells of all
 * that it stands for. */
Test(engine_events, no_stream_waits_for_a_batch_that_is_not_quiet)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    ferry_buffer *src = gpu_buffer(&f, 0, 1), *dst = gpu_buffer(&f, 0, 2);
    fake_hold(fake_stream(f.gpus[0], FAKE_WITHIN), true);
    ferry_op ops[2] = {{.kind = FERRY_OP_COPY,
                        .dst = ferry_buffer_span(dst),
                        .src = ferry_buffer_span(src)},
                       {.kind = FERRY_OP_CALL, .fn = fail_call}};
    ferry_future *batch = ferry_batch(f.te.engine, ops, sizeof ops[0], 2, NULL, NULL);
    settle(&f.te);
    ASSERT_STATUS(ferry_future_poll(batch), FERRY_E_DEPENDENCY);
    ASSERT_STATUS(ferry_future_stream_wait(batch, f.devices[0], NULL), FERRY_E_UNSUPPORTED);
    fake_hold(fake_stream(f.gpus[0], FAKE_WITHIN), false);
    run_all(&f);
    ASSERT_STATUS(ferry_future_stream_wait(batch, f.devices[0], NULL), FERRY_OK);
    ferry_future_release(batch);
    ferry_buffer_release(src);
    ferry_buffer_release(dst);
    fake_engine_close(&f);
}
