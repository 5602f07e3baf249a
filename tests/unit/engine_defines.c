/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Definitions by what stands on a device, the program's streams that wait for ferry, and what has
 * been handed to a device when: flushes and waits within a stream.
 */
#include "engine/buffer.h"
#include "engine/work.h"
#include "engine/ground.h"
#include "engine/turn.h"
#include "tests/unit/fake_engine.h"

TestSuite(engine_defines, .timeout = HANG_S);

static void define(ferry_buffer *buffer, ferry_future *future)
{
    ASSERT_STATUS(ferry_buffer_define(ferry_buffer_span(buffer), future), FERRY_OK);
}

static fry_stream *within(const fake_engine *f, size_t gpu)
{
    return fake_stream(f->gpus[gpu], FAKE_WITHIN);
}

/* ---- definitions by events ---- */

Test(engine_defines, readers_of_what_an_event_defines_are_issued_at_once)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    ferry_buffer *written = gpu_buffer(&f, 0, 1), *dst = gpu_buffer(&f, 1, 2);
    ferry_future *event = record(&f, 0, 0);
    define(written, event);
    ferry_future *reader = gpu_copy(&f, dst, written);
    cr_assert(is_issued(reader));
    cr_assert_eq(issued_to(parked(&f, 1, 0)), 1);
    memset(ferry_buffer_data(written), 7, GPU_SIZE); /* the program's kernel */
    user_goes(&f, 0, 0);
    (void)fake_run(f.world);
    cr_assert(is_filled(dst, 0, GPU_SIZE, 7));
    run_all(&f);
    ASSERT_STATUS(status_of(reader), FERRY_OK);
    ASSERT_STATUS(status_of(event), FERRY_OK);
    ferry_buffer_release(written);
    ferry_buffer_release(dst);
    fake_engine_close(&f);
}

Test(engine_defines, later_writers_wait_on_their_devices_too)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    ferry_buffer *defined = gpu_buffer(&f, 0, 1), *src = gpu_buffer(&f, 0, 2);
    ferry_buffer *dst = gpu_buffer(&f, 0, 3);
    ferry_future *event = record(&f, 0, 0);
    define(defined, event);
    ferry_future *reader = gpu_copy(&f, dst, defined);
    ferry_future *writer = gpu_copy(&f, defined, src);
    cr_assert(is_issued(writer));
    cr_assert_eq(issued_to(within(&f, 0)), 0);
    memset(ferry_buffer_data(defined), 7, GPU_SIZE);
    user_goes(&f, 0, 0);
    run_all(&f);
    cr_assert(is_filled(dst, 0, GPU_SIZE, 7));
    cr_assert(is_filled(defined, 0, GPU_SIZE, 2));
    ASSERT_STATUS(status_of(reader), FERRY_OK);
    ASSERT_STATUS(status_of(writer), FERRY_OK);
    ferry_future_release(event);
    ferry_buffer *buffers[] = {defined, src, dst};
    for (size_t i = 0; i < 3; i++)
        ferry_buffer_release(buffers[i]);
    fake_engine_close(&f);
}

/* The outside writer may still be writing. */
Test(engine_defines, an_event_cancelled_poisons_but_keeps_writers_off_until_it_fires)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    ferry_buffer *defined = gpu_buffer(&f, 0, 1), *src = gpu_buffer(&f, 0, 2);
    ferry_buffer *dst = gpu_buffer(&f, 1, 3);
    ferry_future *event = record(&f, 0, 0);
    define(defined, event);
    ferry_future *reader = gpu_copy(&f, dst, defined);
    ASSERT_STATUS(ferry_future_cancel(event), FERRY_OK);
    run_all(&f);
    ASSERT_STATUS(ferry_future_poll(reader), FERRY_E_DEPENDENCY);
    cr_assert_eq(ferry_future_error(reader)->cause->status, FERRY_E_CANCELLED);
    ferry_future *late_reader = gpu_copy(&f, dst, defined);
    run_all(&f);
    ASSERT_STATUS(ferry_future_poll(late_reader), FERRY_E_DEPENDENCY);
    ferry_future *writer = gpu_copy(&f, defined, src);
    run_all(&f);
    ASSERT_STATUS(ferry_future_poll(writer), FERRY_PENDING);
    cr_assert(is_filled(defined, 0, GPU_SIZE, 1), "nobody overwrites what a kernel may write");
    user_goes(&f, 0, 0);
    run_all(&f);
    ASSERT_STATUS(ferry_future_poll(writer), FERRY_OK);
    cr_assert(is_filled(defined, 0, GPU_SIZE, 2));
    ferry_future *healed = gpu_copy(&f, dst, defined);
    run_all(&f);
    ASSERT_STATUS(status_of(healed), FERRY_OK);
    ferry_future *futures[] = {event, reader, late_reader, writer};
    for (size_t i = 0; i < 4; i++)
        ferry_future_release(futures[i]);
    ferry_buffer *buffers[] = {defined, src, dst};
    for (size_t i = 0; i < 3; i++)
        ferry_buffer_release(buffers[i]);
    fake_engine_close(&f);
}

Test(engine_defines, an_event_cancelled_with_nobody_reading_keeps_writers_off_too)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    ferry_buffer *defined = gpu_buffer(&f, 0, 1), *src = gpu_buffer(&f, 0, 2);
    ferry_future *event = record(&f, 0, 0);
    define(defined, event);
    ASSERT_STATUS(ferry_future_cancel(event), FERRY_OK);
    run_all(&f);
    ferry_future *writer = gpu_copy(&f, defined, src);
    run_all(&f);
    ASSERT_STATUS(ferry_future_poll(writer), FERRY_PENDING);
    user_goes(&f, 0, 0);
    run_all(&f);
    ASSERT_STATUS(status_of(writer), FERRY_OK);
    ferry_future_release(event);
    ferry_buffer_release(defined);
    ferry_buffer_release(src);
    fake_engine_close(&f);
}

Test(engine_defines, an_event_cancelled_before_the_definition_enters_does_the_same)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    ferry_buffer *defined = gpu_buffer(&f, 0, 1), *src = gpu_buffer(&f, 0, 2);
    ferry_future *event = record(&f, 0, 0);
    ASSERT_STATUS(ferry_future_cancel(event), FERRY_OK);
    run_all(&f);
    define(defined, event);
    ferry_future *writer = gpu_copy(&f, defined, src);
    run_all(&f);
    ASSERT_STATUS(ferry_future_poll(writer), FERRY_PENDING);
    user_goes(&f, 0, 0);
    run_all(&f);
    ASSERT_STATUS(status_of(writer), FERRY_OK);
    ferry_future_release(event);
    ferry_buffer_release(defined);
    ferry_buffer_release(src);
    fake_engine_close(&f);
}

Test(engine_defines, with_ferry_still_at_the_span_it_resolves_after_both)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    ferry_buffer *defined = gpu_buffer(&f, 0, 1), *src = gpu_buffer(&f, 0, 2);
    ferry_buffer *dst = gpu_buffer(&f, 1, 3);
    ferry_future *writer = gpu_copy(&f, defined, src);
    ferry_future *event = record(&f, 0, 0);
    define(defined, event);
    ferry_future *reader = gpu_copy(&f, dst, defined);
    cr_assert(is_issued(reader)); /* behind both, on its device */
    fry_event waits[FRY_STREAM_WAITS];
    cr_assert_eq(fake_waits(parked(&f, 1, 0), 1, waits), 2);
    (void)fake_run(f.world);
    settle(&f.te); /* the writer is done; the event is what is left */
    ASSERT_STATUS(ferry_future_poll(reader), FERRY_PENDING);
    user_goes(&f, 0, 0);
    run_all(&f);
    ASSERT_STATUS(status_of(reader), FERRY_OK);
    ASSERT_STATUS(status_of(writer), FERRY_OK);
    ferry_future_release(event);
    ferry_buffer *buffers[] = {defined, src, dst};
    for (size_t i = 0; i < 3; i++)
        ferry_buffer_release(buffers[i]);
    fake_engine_close(&f);
}

/* The event may have nothing to do with the span, and be there before. */
Test(engine_defines, readers_wait_for_earlier_writers_whatever_the_event_does)
{
    for (int is_reader_parked = 0; is_reader_parked < 2; is_reader_parked++) {
        fake_engine f;
        fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
        ferry_buffer *defined = gpu_buffer(&f, 0, 1), *src = gpu_buffer(&f, 0, 2);
        ferry_buffer *dst = gpu_buffer(&f, 1, 3);
        fake_hold(within(&f, 0), true);
        ferry_future *event = record(&f, 0, 0);
        ferry_future *writer = gpu_copy(&f, defined, src);
        if (!is_reader_parked) {
            user_goes(&f, 0, 0);
            (void)fake_run(f.world); /* the engine has not seen it */
        }
        define(defined, event);
        ferry_future *reader = gpu_copy(&f, dst, defined);
        cr_assert(is_issued(reader));
        if (is_reader_parked)
            user_goes(&f, 0, 0);
        run_all(&f);
        ASSERT_STATUS(ferry_future_poll(event), FERRY_OK);
        ASSERT_STATUS(ferry_future_poll(reader), FERRY_PENDING);
        cr_assert(is_filled(dst, 0, GPU_SIZE, 3));
        fake_hold(within(&f, 0), false);
        run_all(&f);
        ASSERT_STATUS(status_of(reader), FERRY_OK);
        ASSERT_STATUS(status_of(writer), FERRY_OK);
        cr_assert(is_filled(dst, 0, GPU_SIZE, 2));
        ferry_future_release(event);
        ferry_buffer *buffers[] = {defined, src, dst};
        for (size_t i = 0; i < 3; i++)
            ferry_buffer_release(buffers[i]);
        fake_engine_close(&f);
    }
}

/* Its event has fired, which says nothing of the reader that was there before. */
static void overwrite_past_reader(size_t definitions)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    ferry_buffer *defined = gpu_buffer(&f, 0, 1), *src = gpu_buffer(&f, 0, 2);
    ferry_buffer *dst = gpu_buffer(&f, 1, 3);
    ferry_future *reader = gpu_copy(&f, dst, defined);
    cr_assert(is_issued(reader));
    ferry_future *event = record(&f, 0, 0);
    for (size_t i = 0; i < definitions; i++)
        define(defined, event);
    user_goes(&f, 0, 0);
    settle(&f.te);
    ferry_future *writer = gpu_copy(&f, defined, src);
    settle(&f.te);
    run_all(&f);
    cr_assert(is_filled(dst, 0, GPU_SIZE, 1));
    cr_assert(is_filled(defined, 0, GPU_SIZE, 2));
    ferry_future *futures[] = {reader, event, writer};
    for (size_t i = 0; i < 3; i++)
        ASSERT_STATUS(status_of(futures[i]), FERRY_OK);
    ferry_buffer *buffers[] = {defined, src, dst};
    for (size_t i = 0; i < 3; i++)
        ferry_buffer_release(buffers[i]);
    fake_engine_close(&f);
}

Test(engine_defines, who_overwrites_one_waits_for_readers_that_it_passed)
{
    overwrite_past_reader(1);
}

Test(engine_defines, who_overwrites_one_waits_for_readers_that_those_before_it_passed)
{
    overwrite_past_reader(3);
}

Test(engine_defines, of_parts_by_several_streams_keep_to_themselves)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    ferry_buffer *defined = gpu_buffer(&f, 0, 1), *dst = gpu_buffer(&f, 0, 2);
    ferry_future *events[2], *readers[2];
    for (size_t i = 0; i < 2; i++) {
        events[i] = record(&f, 0, i);
        ferry_span half = span_of(defined, i * GPU_SIZE / 2, GPU_SIZE / 2);
        ASSERT_STATUS(ferry_buffer_define(half, events[i]), FERRY_OK);
        readers[i] =
            ferry_copy(f.te.engine, span_of(dst, i * GPU_SIZE / 2, GPU_SIZE / 2), half, NULL);
        cr_assert(is_issued(readers[i]));
    }
    user_goes(&f, 0, 1);
    run_all(&f);
    ASSERT_STATUS(ferry_future_poll(readers[0]), FERRY_PENDING);
    ASSERT_STATUS(ferry_future_poll(readers[1]), FERRY_OK);
    user_goes(&f, 0, 0);
    run_all(&f);
    for (size_t i = 0; i < 2; i++) {
        ASSERT_STATUS(status_of(readers[i]), FERRY_OK);
        ferry_future_release(events[i]);
    }
    ferry_buffer_release(defined);
    ferry_buffer_release(dst);
    fake_engine_close(&f);
}

/* ---- definitions by copies ---- */

Test(engine_defines, readers_of_what_a_copy_defines_are_issued_behind_it)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    ferry_buffer *src = gpu_buffer(&f, 0, 1), *alias = gpu_buffer(&f, 0, 2);
    ferry_buffer *defined = gpu_buffer(&f, 0, 3), *dst = gpu_buffer(&f, 1, 4);
    ferry_future *copy = gpu_copy(&f, alias, src);
    define(defined, copy);
    ferry_future *reader = gpu_copy(&f, dst, defined);
    cr_assert(is_issued(reader));
    cr_assert_eq(issued_to(within(&f, 1)), 1, "a copy of ferry's own is no outside event");
    fry_event waits[FRY_STREAM_WAITS];
    cr_assert_eq(fake_waits(within(&f, 1), 1, waits), 1);
    cr_assert_eq(waits[0].stream, within(&f, 0));
    run_all(&f);
    ASSERT_STATUS(status_of(reader), FERRY_OK);
    ASSERT_STATUS(status_of(copy), FERRY_OK);
    ferry_buffer *buffers[] = {src, alias, defined, dst};
    for (size_t i = 0; i < 4; i++)
        ferry_buffer_release(buffers[i]);
    fake_engine_close(&f);
}

Test(engine_defines, by_a_parked_copy_are_parked_with_it)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    ferry_buffer *src = gpu_buffer(&f, 0, 1), *alias = gpu_buffer(&f, 0, 2);
    ferry_buffer *defined = gpu_buffer(&f, 0, 3), *dst = gpu_buffer(&f, 1, 4);
    ferry_future *event = record(&f, 0, 0);
    ferry_future *copy = gpu_copy_after(&f, alias, src, event);
    define(defined, copy);
    ferry_future *reader = gpu_copy(&f, dst, defined);
    cr_assert(is_issued(reader));
    cr_assert_eq(issued_to(within(&f, 1)), 0);
    cr_assert_eq(issued_to(parked(&f, 1, 0)), 1);
    ASSERT_STATUS(ferry_future_cancel(copy), FERRY_OK);
    settle(&f.te);
    ASSERT_STATUS(ferry_future_poll(reader), FERRY_E_DEPENDENCY);
    ferry_future *writer = gpu_copy(&f, defined, src);
    settle(&f.te);
    cr_assert_not(is_issued(writer), "the copy may yet write");
    user_goes(&f, 0, 0);
    run_all(&f);
    ASSERT_STATUS(status_of(writer), FERRY_OK);
    ferry_future *futures[] = {event, copy, reader};
    for (size_t i = 0; i < 3; i++)
        ferry_future_release(futures[i]);
    ferry_buffer *buffers[] = {src, alias, defined, dst};
    for (size_t i = 0; i < 4; i++)
        ferry_buffer_release(buffers[i]);
    fake_engine_close(&f);
}

Test(engine_defines, by_what_has_resolved_or_was_refused_are_as_ever)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    ferry_buffer *defined = gpu_buffer(&f, 0, 1), *dst = gpu_buffer(&f, 0, 2);
    ferry_future *event = record(&f, 0, 0);
    user_goes(&f, 0, 0);
    run_all(&f);
    define(defined, event);
    ferry_future *reader = gpu_copy(&f, dst, defined);
    run_all(&f);
    ASSERT_STATUS(status_of(reader), FERRY_OK);
    ferry_future *refused = ferry_event_record(f.devices[0], fake_user_stream(f.gpus[1], 0));
    define(defined, refused);
    reader = gpu_copy(&f, dst, defined);
    run_all(&f);
    ASSERT_STATUS(ferry_future_poll(reader), FERRY_E_DEPENDENCY);
    cr_assert_eq(ferry_future_error(reader)->cause->status, FERRY_E_INVALID);
    ferry_future_release(reader);
    ferry_future_release(refused);
    ferry_future_release(event);
    ferry_buffer_release(defined);
    ferry_buffer_release(dst);
    fake_engine_close(&f);
}

/* ---- the program's streams wait ---- */

static ferry_status wait_for(const fake_engine *f, ferry_future *future, size_t user)
{
    return ferry_future_stream_wait(future, f->devices[0], fake_user_stream(f->gpus[0], user));
}

Test(engine_defines, a_stream_of_the_program_waits_for_a_copy)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    ferry_buffer *src = gpu_buffer(&f, 0, 1), *dst = gpu_buffer(&f, 1, 2);
    ferry_promise *promise = test_promise(&f.te);
    ferry_future *copy =
        copy_after_promise(&f.te, ferry_buffer_span(dst), ferry_buffer_span(src), promise);
    ASSERT_STATUS(wait_for(&f, copy, 0), FERRY_E_NOT_ISSUED);
    cr_assert_eq(fake_count(f.gpus[0]).user_waits, 0);
    keep_promise(promise, FERRY_OK);
    fake_hold(within(&f, 1), true);
    ASSERT_STATUS(wait_for(&f, copy, 0), FERRY_OK);
    ferry_future *event = record(&f, 0, 0);
    user_goes(&f, 0, 0);
    run_all(&f);
    ASSERT_STATUS(ferry_future_poll(event), FERRY_PENDING);
    fake_hold(within(&f, 1), false);
    run_all(&f);
    ASSERT_STATUS(ferry_future_poll(event), FERRY_OK);
    ASSERT_STATUS(wait_for(&f, copy, 0), FERRY_OK);
    cr_assert_eq(fake_count(f.gpus[0]).user_waits, 1, "it is over");
    ferry_future_release(event);
    ferry_future_release(copy);
    ferry_buffer_release(src);
    ferry_buffer_release(dst);
    fake_engine_close(&f);
}

Test(engine_defines, a_stream_of_the_program_waits_for_what_was_cancelled_until_it_is_quiet)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    ferry_buffer *src = gpu_buffer(&f, 0, 1), *dst = gpu_buffer(&f, 1, 2);
    ferry_future *copy = gpu_copy(&f, dst, src), *event = record(&f, 0, 1);
    ASSERT_STATUS(ferry_future_cancel(copy), FERRY_OK);
    ASSERT_STATUS(ferry_future_cancel(event), FERRY_OK);
    settle(&f.te);
    ASSERT_STATUS(wait_for(&f, copy, 0), FERRY_OK);
    ASSERT_STATUS(wait_for(&f, event, 0), FERRY_OK);
    cr_assert_eq(fake_count(f.gpus[0]).user_waits, 2);
    user_goes(&f, 0, 1);
    run_all(&f);
    ASSERT_STATUS(wait_for(&f, copy, 0), FERRY_OK);
    ASSERT_STATUS(wait_for(&f, event, 0), FERRY_OK);
    cr_assert_eq(fake_count(f.gpus[0]).user_waits, 2);
    ferry_future_release(event);
    ferry_future_release(copy);
    ferry_buffer_release(src);
    ferry_buffer_release(dst);
    fake_engine_close(&f);
}

Test(engine_defines, what_a_stream_cannot_wait_for_is_refused)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    ferry_promise *promise = test_promise(&f.te);
    ferry_future *future = ferry_promise_future(promise), *nop = nop_after_promise(&f.te, promise);
    ASSERT_STATUS(wait_for(&f, NULL, 0), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_future_stream_wait(future, NULL, NULL), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_future_stream_wait(future, ferry_device_at(f.te.engine, 0), NULL),
                  FERRY_E_UNSUPPORTED);
    ASSERT_STATUS(wait_for(&f, future, 0), FERRY_E_UNSUPPORTED);
    ASSERT_STATUS(wait_for(&f, nop, 0), FERRY_E_UNSUPPORTED);
    keep_promise(promise, FERRY_E_FAILED);
    settle(&f.te);
    ASSERT_STATUS(wait_for(&f, future, 0), FERRY_OK);
    ASSERT_STATUS(wait_for(&f, nop, 0), FERRY_OK);
    ferry_future *refused = ferry_nop(NULL, NULL);
    ASSERT_STATUS(wait_for(&f, refused, 0), FERRY_OK);
    ferry_future_release(refused);

    test_engine other;
    test_engine_open(&other, FERRY_LOOP_EMBEDDED);
    ferry_future *foreign = ferry_nop(other.engine, NULL);
    ASSERT_STATUS(wait_for(&f, foreign, 0), FERRY_E_INVALID);
    ferry_future_release(foreign);
    test_engine_close(&other);

    ferry_buffer *src = gpu_buffer(&f, 0, 1), *dst = gpu_buffer(&f, 1, 2);
    ferry_future *copy = gpu_copy(&f, dst, src);
    fake_user_capture(f.gpus[0], fake_user_stream(f.gpus[0], 0), true);
    ASSERT_STATUS(wait_for(&f, copy, 0), FERRY_E_CAPTURE);
    run_all(&f);
    ASSERT_STATUS(wait_for(&f, copy, 0), FERRY_OK);
    ferry_future *futures[] = {future, nop, copy};
    for (size_t i = 0; i < 3; i++)
        ferry_future_release(futures[i]);
    ferry_buffer_release(src);
    ferry_buffer_release(dst);
    fake_engine_close(&f);
}

Test(engine_defines, no_stream_waits_once_the_shutdown_began)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    ferry_buffer *src = gpu_buffer(&f, 0, 1), *dst = gpu_buffer(&f, 1, 2);
    ferry_future *copy = gpu_copy(&f, dst, src);
    ASSERT_STATUS(ferry_engine_shutdown(f.te.engine, 0), FERRY_E_DEADLINE);
    ASSERT_STATUS(wait_for(&f, copy, 0), FERRY_E_SHUTDOWN);
    (void)fake_run(f.world);
    ASSERT_STATUS(ferry_engine_shutdown(f.te.engine, -1), FERRY_OK);
    ASSERT_STATUS(wait_for(&f, copy, 0), FERRY_OK);
    ferry_future_release(copy);
    ferry_buffer_release(src);
    ferry_buffer_release(dst);
    fake_engine_close(&f);
}

/* ---- what was handed to the device ---- */

Test(engine_defines, a_submit_flushes_what_it_copied_to)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    ferry_buffer *src = gpu_buffer(&f, 0, 1),
                 *dst[2] = {gpu_buffer(&f, 0, 2), gpu_buffer(&f, 1, 3)};
    ferry_future *copies[2];
    for (size_t i = 0; i < 2; i++) {
        copies[i] = gpu_copy(&f, dst[i], src);
        cr_assert_eq(fake_count(f.gpus[i]).flushes, 1);
    }
    cr_assert_eq(fake_run(f.world), 2, "no progress is needed");
    run_all(&f);
    for (size_t i = 0; i < 2; i++) {
        ASSERT_STATUS(status_of(copies[i]), FERRY_OK);
        cr_assert_eq(fake_count(f.gpus[i]).flushes, 1);
        ferry_buffer_release(dst[i]);
    }
    ferry_buffer_release(src);
    fake_engine_close(&f);
}

Test(engine_defines, a_batch_is_flushed_once)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    enum { COUNT = 64, PART = GPU_SIZE / COUNT };
    ferry_buffer *src = gpu_buffer(&f, 0, 1), *dst = gpu_buffer(&f, 0, 2);
    ferry_op ops[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        ops[i] = (ferry_op){.kind = FERRY_OP_COPY,
                            .dst = span_of(dst, i * PART, PART),
                            .src = span_of(src, i * PART, PART)};
    for (int round = 0; round < 2; round++) {
        fake_counts before = fake_count(f.gpus[0]);
        ferry_future *batch = ferry_batch(f.te.engine, ops, sizeof ops[0], COUNT, NULL, NULL);
        fake_counts after = fake_count(f.gpus[0]);
        cr_assert_eq(after.copies - before.copies, COUNT);
        if (round == 1) /* the first fetched memory for the access lists, without the baton */
            cr_assert_eq(after.flushes - before.flushes, 1);
        run_all(&f);
        ASSERT_STATUS(status_of(batch), FERRY_OK);
    }
    cr_assert(is_filled(dst, 0, GPU_SIZE, 1));
    ferry_buffer_release(src);
    ferry_buffer_release(dst);
    fake_engine_close(&f);
}

/* Who hears that a copy is issued has streams wait for it. */
Test(engine_defines, what_is_said_to_be_issued_is_flushed)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    ferry_buffer *src = gpu_buffer(&f, 0, 1), *dst = gpu_buffer(&f, 0, 2);
    ferry_promise *promise = test_promise(&f.te);
    ferry_future *copy =
        copy_after_promise(&f.te, ferry_buffer_span(dst), ferry_buffer_span(src), promise);
    ferry_future *issued = ferry_future_issued(copy);
    fry_turn turn;
    cr_assert(fry_turn_begin(&turn, f.te.engine, fry_context_get(f.te.engine), false));
    keep_promise(promise, FERRY_OK); /* it is in the inbox: the baton is taken */
    while (fry_graph_work(&turn, 1) != 0 && ferry_future_poll(issued) == FERRY_PENDING)
        continue;
    ASSERT_STATUS(ferry_future_poll(issued), FERRY_OK);
    cr_assert_eq(fake_count(f.gpus[0]).flushes, 1);
    ASSERT_STATUS(wait_for(&f, copy, 0), FERRY_OK);
    (void)fry_turn_end(&turn, 64);
    run_all(&f);
    ferry_future_release(issued);
    ASSERT_STATUS(status_of(copy), FERRY_OK);
    ferry_buffer_release(src);
    ferry_buffer_release(dst);
    fake_engine_close(&f);
}

Test(engine_defines, copies_of_one_stream_name_those_they_come_after)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    ferry_buffer *buffers[3];
    for (size_t i = 0; i < 3; i++)
        buffers[i] = gpu_buffer(&f, 0, (int)i + 1);
    ferry_future *free = gpu_copy(&f, buffers[1], buffers[0]);
    ferry_future *behind = gpu_copy(&f, buffers[2], buffers[1]);
    fry_event waits[FRY_STREAM_WAITS];
    cr_assert_eq(fake_waits(within(&f, 0), 1, waits), 0);
    cr_assert_eq(fake_waits(within(&f, 0), 2, waits), 1);
    cr_assert_eq(waits[0].stream, within(&f, 0));
    cr_assert_eq(waits[0].sequence, 1);
    run_all(&f);
    cr_assert(is_filled(buffers[2], 0, GPU_SIZE, 1));
    ASSERT_STATUS(status_of(free), FERRY_OK);
    ASSERT_STATUS(status_of(behind), FERRY_OK);
    for (size_t i = 0; i < 3; i++)
        ferry_buffer_release(buffers[i]);
    fake_engine_close(&f);
}

Test(engine_defines, a_stream_that_is_full_is_left_alone_until_something_has_fired)
{
    fake_engine f;
    fake_engine_open(&f, FERRY_LOOP_EMBEDDED);
    ferry_buffer *src = gpu_buffer(&f, 0, 1), *dst[3];
    ferry_future *copies[3];
    for (size_t i = 0; i < 3; i++) {
        dst[i] = gpu_buffer(&f, 0, 2);
        copies[i] = gpu_copy(&f, dst[i], src);
        if (i == 0)
            fake_fill(within(&f, 0));
    }
    cr_assert_eq(issued_to(within(&f, 0)), 1);
    run_all(&f);
    cr_assert_eq(issued_to(within(&f, 0)), 3);
    for (size_t i = 0; i < 3; i++) {
        ASSERT_STATUS(status_of(copies[i]), FERRY_OK);
        ferry_buffer_release(dst[i]);
    }
    ferry_buffer_release(src);
    fake_engine_close(&f);
}
