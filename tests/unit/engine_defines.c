/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Definitions by what stands on a device, the program's streams that wait for ferry, and what has
 * been handed to a device when: flushes and waits within a stream.
 */
#include "engine/graph/buffer.h"
#include "engine/graph/turn.h"
#include "engine/graph/work.h"
#include "engine/ground/ground.h"
#include "tests/unit/steps.h"

TestSuite(engine_defines, .timeout = HANG_S);

static uint64_t flushes(const steps *s, size_t gpu)
{
    return fake_count(s->f.gpus[gpu]).flushes;
}

static void assert_user_waits(const steps *s, uint64_t expected)
{
    cr_assert_eq(fake_count(s->f.gpus[0]).user_waits, expected);
}

/* ---- definitions by events ---- */

Test(engine_defines, readers_of_what_an_event_defines_are_issued_at_once)
{
    play("buffer 0 written 1; buffer 1 dst 2; record event 0.0; define written event;"
         "copy reader dst written; issued reader; stands 1.p0 1;"
         "write written 7; fire 0.0; devices; filled dst 7; run; expect reader event OK");
}

Test(engine_defines, later_writers_wait_on_their_devices_too)
{
    play("buffer 0 defined 1 src 2 dst 3; record event 0.0; define defined event;"
         "copy reader dst defined; copy writer defined src; issued writer; stands 0.w 0;"
         "write defined 7; fire 0.0; run;"
         "filled dst 7 defined 2; expect reader writer OK");
}

/* The outside writer may still be writing. */
Test(engine_defines, an_event_cancelled_poisons_but_keeps_writers_off_until_it_fires)
{
    play("buffer 0 defined 1 src 2; buffer 1 dst 3; record event 0.0; define defined event;"
         "copy reader dst defined; cancel event; run; expect reader DEPENDENCY by CANCELLED;"
         "copy late dst defined; run; expect late DEPENDENCY;"
         "copy writer defined src; run; expect writer PENDING; filled defined 1;"
         "fire 0.0; run; expect writer OK; filled defined 2;"
         "copy healed dst defined; run; expect healed OK");
}

Test(engine_defines, an_event_cancelled_with_nobody_reading_keeps_writers_off_too)
{
    play("buffer 0 defined 1 src 2; record event 0.0; define defined event; cancel event; run;"
         "copy writer defined src; run; expect writer PENDING; fire 0.0; run; expect writer OK");
}

Test(engine_defines, an_event_cancelled_before_the_definition_enters_does_the_same)
{
    play("buffer 0 defined 1 src 2; record event 0.0; cancel event; run; define defined event;"
         "copy writer defined src; run; expect writer PENDING; fire 0.0; run; expect writer OK");
}

Test(engine_defines, with_ferry_still_at_the_span_it_resolves_after_both)
{
    play("buffer 0 defined 1 src 2; buffer 1 dst 3;"
         "copy writer defined src; record event 0.0; define defined event;"
         "copy reader dst defined; issued reader; waits 1.p0 1 2;" /* behind both, on its device */
         "devices; settle; expect reader PENDING;" /* the writer is done; the event is left */
         "fire 0.0; run; expect reader writer OK");
}

/* The event may have nothing to do with the span, and be there before. */
Test(engine_defines, readers_wait_for_earlier_writers_whatever_the_event_does)
{
    for (int is_reader_parked = 0; is_reader_parked < 2; is_reader_parked++) {
        OPENED(steps, s);
        steps_play(&s, "buffer 0 defined 1 src 2; buffer 1 dst 3; hold 0; record event 0.0;"
                       "copy writer defined src");
        if (!is_reader_parked)
            steps_play(&s, "fire 0.0; devices"); /* the engine has not seen it */
        steps_play(&s, "define defined event; copy reader dst defined; issued reader");
        if (is_reader_parked)
            steps_play(&s, "fire 0.0");
        steps_play(&s, "run; expect event OK; expect reader PENDING; filled dst 3;"
                       "free 0; run; expect reader writer OK; filled dst 2");
    }
}

/* Its event has fired, which says nothing of the reader that was there before. */
Test(engine_defines, who_overwrites_one_waits_for_readers_that_it_passed)
{
    play("buffer 0 defined 1 src 2; buffer 1 dst 3; copy reader dst defined; issued reader;"
         "record event 0.0; define defined event; fire 0.0; settle;"
         "copy writer defined src; settle; run;"
         "filled dst 1 defined 2; expect reader event writer OK");
}

Test(engine_defines, who_overwrites_one_waits_for_readers_that_those_before_it_passed)
{
    play("buffer 0 defined 1 src 2; buffer 1 dst 3; copy reader dst defined; issued reader;"
         "record event 0.0; define defined event event event; fire 0.0; settle;"
         "copy writer defined src; settle; run;"
         "filled dst 1 defined 2; expect reader event writer OK");
}

Test(engine_defines, of_parts_by_several_streams_keep_to_themselves)
{
    OPENED(steps, s);
    steps_play(&s, "buffer 0 defined 1 dst 2; record event0 0.0; record event1 0.1");
    for (size_t i = 0; i < 2; i++) {
        ferry_span half = span_of(buffer_of(&s, "defined"), i * GPU_SIZE / 2, GPU_SIZE / 2);
        ferry_span to = span_of(buffer_of(&s, "dst"), i * GPU_SIZE / 2, GPU_SIZE / 2);
        ferry_future *event = future_of(&s, i == 0 ? "event0" : "event1");
        ASSERT_STATUS(ferry_buffer_define(half, event), FERRY_OK);
        cr_assert(is_issued(name_future(&s, i == 0 ? "reader0" : "reader1",
                                        ferry_copy(s.f.te.engine, to, half, NULL))));
    }
    steps_play(&s, "fire 0.1; run; expect reader0 PENDING; expect reader1 OK;"
                   "fire 0.0; run; expect reader0 reader1 OK");
}

/* ---- definitions by copies ---- */

/* A copy of ferry's own is no outside event: its reader is not parked. */
Test(engine_defines, readers_of_what_a_copy_defines_are_issued_behind_it)
{
    play("buffer 0 src 1 alias 2 defined 3; buffer 1 dst 4; copy writer alias src;"
         "define defined writer; copy reader dst defined; issued reader;"
         "stands 1.w 1; waits 1.w 1 1 0.w; run; expect reader writer OK");
}

Test(engine_defines, by_a_parked_copy_are_parked_with_it)
{
    play("buffer 0 src 1 alias 2 defined 3; buffer 1 dst 4; record event 0.0;"
         "copy parked alias src after event; define defined parked;"
         "copy reader dst defined; issued reader; stands 1.w 0; stands 1.p0 1;"
         "cancel parked; settle; expect reader DEPENDENCY;"
         "copy writer defined src; settle; unissued writer;" /* the copy may yet write */
         "fire 0.0; run; expect writer OK");
}

Test(engine_defines, by_what_has_resolved_or_was_refused_are_as_ever)
{
    OPENED(steps, s);
    steps_play(&s, "buffer 0 defined 1 dst 2; record event 0.0; fire 0.0; run;"
                   "define defined event; copy reader dst defined; run; expect reader OK");
    (void)name_future(&s, "refused",
                      ferry_event_record(s.f.devices[0], fake_user_stream(s.f.gpus[1], 0)));
    steps_play(&s, "define defined refused; copy reader dst defined; run;"
                   "expect reader DEPENDENCY by INVALID");
}

/* ---- the program's streams wait ---- */

Test(engine_defines, a_stream_of_the_program_waits_for_a_copy)
{
    OPENED(steps, s);
    steps_play(&s, "buffer 0 src 1; buffer 1 dst 2; promise promise;"
                   "copy held dst src after promise; wait 0.0 held NOT_ISSUED");
    assert_user_waits(&s, 0);
    steps_play(&s, "keep promise OK; hold 1; wait 0.0 held OK; record event 0.0; fire 0.0; run;"
                   "expect event PENDING; free 1; run; expect event OK; wait 0.0 held OK");
    assert_user_waits(&s, 1); /* it is over */
}

Test(engine_defines, a_stream_of_the_program_waits_for_what_was_cancelled_until_it_is_quiet)
{
    OPENED(steps, s);
    steps_play(&s, "buffer 0 src 1; buffer 1 dst 2; copy stopped dst src; record event 0.1;"
                   "cancel stopped event; settle; wait 0.0 stopped OK; wait 0.0 event OK");
    assert_user_waits(&s, 2);
    steps_play(&s, "fire 0.1; run; wait 0.0 stopped OK; wait 0.0 event OK");
    assert_user_waits(&s, 2);
}

Test(engine_defines, what_a_stream_cannot_wait_for_is_refused)
{
    OPENED(steps, s);
    ferry_device *gpu = s.f.devices[0], *host = ferry_device_at(s.f.te.engine, 0);
    void *user = fake_user_stream(s.f.gpus[0], 0);
    steps_play(&s, "promise promise; nop nop after promise");
    ferry_future *future = future_of(&s, "promise");
    ASSERT_STATUS(ferry_future_stream_wait(NULL, gpu, user), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_future_stream_wait(future, NULL, NULL), FERRY_E_INVALID);
    ASSERT_STATUS(ferry_future_stream_wait(future, host, NULL), FERRY_E_UNSUPPORTED);
    steps_play(&s, "wait 0.0 promise UNSUPPORTED; wait 0.0 nop UNSUPPORTED;"
                   "keep promise FAILED; settle; wait 0.0 promise OK; wait 0.0 nop OK");
    (void)name_future(&s, "refused", ferry_nop(NULL, NULL));
    steps_play(&s, "wait 0.0 refused OK");

    test_engine other;
    test_engine_open(&other, FERRY_LOOP_EMBEDDED);
    (void)name_future(&s, "foreign", ferry_nop(other.engine, NULL));
    steps_play(&s, "wait 0.0 foreign INVALID; drop foreign");
    test_engine_close(&other);

    steps_play(&s, "buffer 0 src 1; buffer 1 dst 2; copy under dst src");
    fake_user_capture(s.f.gpus[0], user, true);
    steps_play(&s, "wait 0.0 under CAPTURE; run; wait 0.0 under OK");
}

Test(engine_defines, no_stream_waits_once_the_shutdown_began)
{
    play("buffer 0 src 1; buffer 1 dst 2; copy under dst src; shutdown 0 DEADLINE;"
         "wait 0.0 under SHUTDOWN; devices; shutdown -1 OK; wait 0.0 under OK");
}

/* ---- what was handed to the device ---- */

Test(engine_defines, a_submit_flushes_what_it_copied_to)
{
    OPENED(steps, s);
    steps_play(&s, "buffer 0 src 1 dst0 2; buffer 1 dst1 3; copy copy0 dst0 src");
    cr_assert_eq(flushes(&s, 0), 1);
    steps_play(&s, "copy copy1 dst1 src");
    cr_assert_eq(flushes(&s, 1), 1);
    steps_play(&s, "devices 2; run; expect copy0 copy1 OK"); /* no progress is needed */
    cr_assert_eq(flushes(&s, 0), 1);
    cr_assert_eq(flushes(&s, 1), 1);
}

Test(engine_defines, a_batch_is_flushed_once)
{
    enum { COUNT = 64, PART = GPU_SIZE / COUNT };
    OPENED(steps, s);
    steps_play(&s, "buffer 0 src 1 dst 2");
    ferry_op ops[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        ops[i] = (ferry_op){.kind = FERRY_OP_COPY,
                            .dst = span_of(buffer_of(&s, "dst"), i * PART, PART),
                            .src = span_of(buffer_of(&s, "src"), i * PART, PART)};
    for (int round = 0; round < 2; round++) {
        fake_counts before = fake_count(s.f.gpus[0]);
        (void)name_future(&s, "batch",
                          ferry_batch(s.f.te.engine, ops, sizeof ops[0], COUNT, NULL, NULL));
        fake_counts after = fake_count(s.f.gpus[0]);
        cr_assert_eq(after.copies - before.copies, COUNT);
        if (round == 1) /* the first fetched memory for the access lists, without the baton */
            cr_assert_eq(after.flushes - before.flushes, 1);
        steps_play(&s, "run; expect batch OK; drop batch");
    }
    steps_play(&s, "filled dst 1");
}

/* Who hears that a copy is issued has streams wait for it. */
Test(engine_defines, what_is_said_to_be_issued_is_flushed)
{
    OPENED(steps, s);
    steps_play(&s, "buffer 0 src 1 dst 2; promise promise; copy held dst src after promise");
    ferry_future *issued = name_future(&s, "issued", ferry_future_issued(future_of(&s, "held")));
    fry_turn turn;
    cr_assert(fry_turn_begin(&turn, s.f.te.engine, fry_context_get(s.f.te.engine), false));
    steps_play(&s, "keep promise OK"); /* it is in the inbox: the baton is taken */
    while (fry_graph_work(&turn, 1) != 0 && ferry_future_poll(issued) == FERRY_PENDING)
        continue;
    steps_play(&s, "expect issued OK");
    cr_assert_eq(flushes(&s, 0), 1);
    steps_play(&s, "wait 0.0 held OK");
    (void)fry_turn_end(&turn, 64);
    steps_play(&s, "run; expect held OK");
}

Test(engine_defines, copies_of_one_stream_name_those_they_come_after)
{
    play("buffer 0 a 1 b 2 c 3; copy free b a; copy behind c b;"
         "waits 0.w 1 0; waits 0.w 2 1 0.w 1; run; filled c 1; expect free behind OK");
}

Test(engine_defines, a_stream_that_is_full_is_left_alone_until_something_has_fired)
{
    OPENED(steps, s);
    steps_play(&s, "buffer 0 src 1 a 2 b 2 c 2; copy first a src");
    fake_fill(fake_stream(s.f.gpus[0], FAKE_WITHIN));
    steps_play(&s, "copy second b src; copy third c src; stands 0.w 1; run; stands 0.w 3;"
                   "expect first second third OK");
}
