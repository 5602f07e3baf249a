/* SPDX-License-Identifier: Apache-2.0 */
/* Devices that refuse, fail and are lost: what of it reaches whom. */
#include "engine/engine.h"
#include "engine/graph/buffer.h"
#include "engine/graph/lane.h"
#include "engine/graph/turn.h"
#include "engine/ground/ground.h"
#include "tests/unit/steps.h"

TestSuite(engine_device_errors, .timeout = HANG_S);

enum { PARTS = 8, PART_SIZE = GPU_SIZE / PARTS };

/* From src to dst0, to dst1, from dst1 to dst2. */
#define THREE_BUFFERS "buffer 0 src 1 dst0 2 dst1 2 dst2 2;"
#define THREE_COPIES "copy c0 dst0 src; copy c1 dst1 src; copy c2 dst2 dst1;"

/* Ends a test in which a device was lost: it goes on after all, and so all gets quiet. */
#define FIND_AGAIN "find 0; find 1; free 0; free 1; run;"

static void assert_all_retired(const steps *s)
{
    cr_assert(TAILQ_EMPTY(&s->f.te.engine->live), "all of them have retired");
}

/* ---- refused copies ---- */

Test(engine_device_errors, a_refused_copy_fails_alone_with_the_devices_number)
{
    play(THREE_BUFFERS "refuse 0 1;" THREE_COPIES "expect c1 PENDING;" /* its error takes memory */
                       "run; expect c0 OK; fails c1 the copy is refused; shares c2 with c1;"
                       "quiet c1; copy poisoned src dst1; run; shares poisoned with c1");
}

Test(engine_device_errors, what_comes_behind_a_refused_copy_is_issued_after_it_in_order)
{
    play(THREE_BUFFERS "refuse 0 0;" THREE_COPIES "stands 0.w 0;"
                       "refuse 0 0; run;" /* the next one, too */
                       "fails c0 the copy is refused; fails c1 the copy is refused;"
                       "shares c2 with c1");
}

Test(engine_device_errors, one_that_the_loop_issues_fails_at_once)
{
    play("buffer 0 src 1 dst 2; record event 1.0; nop nop after event; copy late dst src after nop;"
         "refuse 0 0; fire 1.0; run; fails late the copy is refused");
}

Test(engine_device_errors, one_that_is_cancelled_before_the_loop_comes_is_cancelled)
{
    play(THREE_BUFFERS "refuse 0 0;" THREE_COPIES "cancel c0; run;"
                       "expect c0 CANCELLED; expect c1 c2 OK");
}

Test(engine_device_errors, refused_on_a_parked_stream_it_is_the_same)
{
    play("buffer 0 src 1 dst0 2 dst1 3; record event 0.0; refuse 0 0;"
         "copy c0 dst0 src after event; copy c1 dst1 src after event;"
         "issued c1;" /* another parked stream takes it */
         "settle; fails c0 the copy is refused; fire 0.0; run; expect c1 OK");
}

/* Each part of one to the same part of the other. */
static ferry_future *batch_of_copies(const steps *s, ferry_buffer *dst, ferry_buffer *src,
                                     ferry_future **each, const ferry_op_options *options)
{
    ferry_op ops[PARTS];
    for (size_t i = 0; i < PARTS; i++)
        ops[i] = (ferry_op){.kind = FERRY_OP_COPY,
                            .dst = span_of(dst, i * PART_SIZE, PART_SIZE),
                            .src = span_of(src, i * PART_SIZE, PART_SIZE)};
    return ferry_batch(s->f.te.engine, ops, sizeof ops[0], PARTS, each, options);
}

Test(engine_device_errors, a_batch_goes_on_behind_a_refused_copy)
{
    OPENED(steps, s);
    steps_play(&s, "buffer 0 src 1 dst 2; refuse 0 3");
    ferry_buffer *dst = buffer_of(&s, "dst");
    ferry_future *each[PARTS];
    (void)name_future(&s, "batch", batch_of_copies(&s, dst, buffer_of(&s, "src"), each, NULL));
    (void)name_future(&s, "refused", each[3]);
    steps_play(&s, "run; fails refused the copy is refused; shares batch with refused");
    for (size_t i = 0; i < PARTS; i++) {
        cr_assert(is_filled(dst, i * PART_SIZE, PART_SIZE, i == 3 ? 2 : 1));
        if (i != 3)
            ASSERT_STATUS(status_of(each[i]), FERRY_OK);
    }
}

/* ---- copies that stood in a stream and failed ---- */

Test(engine_device_errors, a_struck_copy_fails_alone_and_is_quiet)
{
    play(THREE_BUFFERS "strike 0 1;" THREE_COPIES "issued c0 c1 c2; run; expect c0 OK;"
                       "fails c1 the copy failed; quiet c1; shares c2 with c1; quiet c2;"
                       "filled dst1 2");
}

Test(engine_device_errors, nobody_asks_for_outcomes_where_nothing_was_struck)
{
    OPENED(steps, s);
    steps_play(&s, THREE_BUFFERS THREE_COPIES "run");
    cr_assert_eq(fake_count(s.f.gpus[0]).outcomes, 0);
}

Test(engine_device_errors, a_struck_copy_that_was_cancelled_is_cancelled_and_quiet)
{
    play(THREE_BUFFERS "strike 0 0;" THREE_COPIES "cancel c0; settle; run;"
                       "expect c0 CANCELLED; quiet c0; expect c2 OK");
}

Test(engine_device_errors, a_definition_by_a_struck_copy_poisons)
{
    play("buffer 0 src 1 alias 2 defined 3; buffer 1 dst 4; strike 0 0; copy struck alias src;"
         "define defined struck; copy reader dst defined; issued reader; run;"
         "fails struck the copy failed; shares reader with struck;"
         "copy late dst defined; run; shares late with struck");
}

/* A thread that is not the loop finds it: it leaves it to the loop. */
Test(engine_device_errors, what_others_find_struck_the_loop_fails)
{
    OPENED(steps, s);
    ferry_engine *engine = s.f.te.engine;
    steps_play(&s, THREE_BUFFERS "strike 0 0;" THREE_COPIES "devices");
    fry_turn turn;
    fry_store_seq_cst(&engine->asleep, FRY_ASLEEP);
    cr_assert(fry_turn_begin(&turn, engine, fry_context_get(engine), false));
    cr_assert_eq(fry_lanes_poll(&turn), 0);
    (void)fry_turn_end(&turn, 64);
    steps_play(&s, "expect c0 PENDING");
    cr_assert_eq(fry_load_relaxed(&engine->asleep), FRY_AWAKE, "the loop was woken");
    steps_play(&s, "run; fails c0 the copy failed; expect c2 OK");
}

/* ---- lost devices ---- */

Test(engine_device_errors, with_a_lost_device_what_stands_there_fails_and_is_not_quiet)
{
    OPENED(steps, s);
    steps_play(&s, THREE_BUFFERS "hold 0;" THREE_COPIES "record event 0.0; buffer 1 here 5 there 6;"
                                 "copy elsewhere there here; lose 0; run;"
                                 "fails c0 the device is lost; fails c1 the device is lost");
    cr_assert_lt(ferry_future_poll(future_of(&s, "c2")), 0);
    steps_play(&s, "fails event the device is lost; unquiet c0 c1 c2 event; expect elsewhere OK;"
                   "copy late dst0 there;" /* its memory may be written for ever */
                   "copy fresh here there; buffer 0 untouched 0; copy refused untouched there;"
                   "record late_event 0.0; run;"
                   "shares late with c0; expect fresh OK; fails refused the device is lost;"
                   "fails late_event no event can be recorded; shutdown 0 DEADLINE;"
                   /* so that this test can end */
                   "find 0; free 0; fire 0.0; devices; shutdown -1 OK");
}

Test(engine_device_errors, what_waits_for_room_in_a_lost_stream_fails_too)
{
    enum { COUNT = 6, PART = GPU_SIZE / COUNT };
    static const char *const copies[COUNT] = {"a", "b", "c", "d", "e", "f"};
    OWNED(steps_close) steps s = {.count = 0};
    ferry_engine_options options = test_engine_options(&s.f.te, FERRY_LOOP_EMBEDDED);
    options.stream_depth = 2;
    test_engine_create(&s.f.te, &options);
    fake_engine_attach(&s.f, &(fake_options){.parked_count = 1, .outside_count = 1});
    steps_play(&s, "buffer 0 src 1 dst 2");
    for (size_t i = 0; i < COUNT; i++) {
        ferry_span dst = span_of(buffer_of(&s, "dst"), i * PART, PART);
        ferry_span src = span_of(buffer_of(&s, "src"), i * PART, PART);
        (void)name_future(&s, copies[i], ferry_copy(s.f.te.engine, dst, src, NULL));
    }
    steps_play(&s, "lose 0; run; fails a the device is lost; fails b the device is lost;"
                   "fails c the device is lost; fails d the device is lost;"
                   "fails e the device is lost; fails f the device is lost;"
                   "unquiet a b; quiet c d e f; find 0; run");
}

Test(engine_device_errors, who_would_wait_for_what_a_lost_device_may_touch_fails)
{
    OPENED(steps, s);
    steps_play(&s, "buffer 0 src 1 dst 2; buffer host host 3; buffer 1 other 4; promise promise;"
                   "hold 0; copy struck dst src; copy waiting src host after promise;"
                   "copy behind host other;" /* overwrites what that one reads */
                   "copy cancelled dst host; copy last dst other; cancel cancelled; settle;"
                   "expect last PENDING; lose 0; settle; fails struck the device is lost;"
                   "shares waiting with struck;" /* it would overwrite what that may read */
                   "shares last with struck; expect cancelled CANCELLED;"
                   "shares behind with struck;"
                   "copy late src other; copy reader other dst; settle;"
                   "shares late reader with struck");
    ASSERT_STATUS(ferry_buffer_define(ferry_buffer_span(buffer_of(&s, "dst")), NULL), FERRY_OK);
    steps_play(&s, "copy redefined other dst; settle; shares redefined with struck;" FIND_AGAIN
                   "quiet struck");
    assert_all_retired(&s);
    steps_play(&s, "keep promise OK; settle");
}

/* Whichever of the two is looked at first. */
Test(engine_device_errors, what_depends_on_a_lost_device_and_stands_on_one_shares_the_first_failure)
{
    static const char *const beginnings[] = {"buffer 0 a 1 b 2; buffer 1 c 3; hold 0",
                                             "buffer 1 a 1 b 2; buffer 0 c 3; hold 1"};
    for (size_t i = 0; i < 2; i++) {
        OPENED(steps, s);
        steps_play(&s, beginnings[i]);
        steps_play(&s, "copy one b a; copy two c b; issued two; lose 0; lose 1; settle;"
                       "fails one the device is lost; shares two with one;" FIND_AGAIN);
    }
}

Test(engine_device_errors, what_depends_on_a_device_that_is_well_fails_when_that_is_done)
{
    play("buffer 0 a 1 b 2; buffer 1 c 3; hold 0; hold 1; copy one b a; copy two c b;"
         "promise promise; copy writer c a after promise; lose 1; settle; expect two PENDING;"
         "free 0; run; expect one OK; fails two the device is lost; shares writer with "
         "two;" FIND_AGAIN "keep promise OK; run");
}

/* What stands for several, of which one is lost, never gets quiet either; who may only write once
 * it is fails. In turn: a batch without each[], one with it, one with deadlines too, and an `all`;
 * each before and after it has failed for another reason. */
static void stand_for(steps *s, int how)
{
    ferry_buffer *dst = buffer_of(s, "dst"), *src = buffer_of(s, "src");
    ferry_future *beside = future_of(s, "beside");
    ferry_op_options waits = FERRY_OP_OPTIONS_INIT, has_deadline = FERRY_OP_OPTIONS_INIT;
    waits.after = &beside;
    waits.after_count = 1;
    has_deadline.deadline_ns = INT64_MAX;
    ferry_future *each[2] = {NULL, NULL}, *future;
    if (how < 3) {
        ferry_op ops[2] = {{.kind = FERRY_OP_COPY,
                            .dst = ferry_buffer_span(dst),
                            .src = ferry_buffer_span(src),
                            .options = how == 2 ? &has_deadline : NULL},
                           {.kind = FERRY_OP_NOP, .options = &waits}};
        future = ferry_batch(s->f.te.engine, ops, sizeof ops[0], 2, how == 0 ? NULL : each, NULL);
        ferry_future_release(each[1]);
    } else {
        each[0] = gpu_copy(&s->f, dst, src);
        ferry_future *const both[2] = {each[0], beside};
        future = ferry_future_all(s->f.te.engine, both, 2);
    }
    (void)name_future(s, "future", future);
    (void)name_future(s, "copy", each[0]);
}

Test(engine_device_errors, what_stands_for_a_lost_copy_among_others_is_never_quiet)
{
    for (int how = 0; how < 8; how++) {
        OPENED(steps, s);
        steps_play(&s,
                   "buffer 0 src 1 dst 2; buffer host defined 3 host 4; promise beside; hold 0");
        stand_for(&s, how % 4);
        steps_play(&s, "define defined future; copy writer defined host");
        if (how >= 4)
            steps_play(&s, "keep beside FAILED");
        steps_play(&s, "settle; expect writer PENDING; lose 0; settle;"
                       "expect future writer DEPENDENCY; unquiet future;"
                       "copy late defined host; settle; expect late DEPENDENCY; drop late");
        if (how < 4)
            steps_play(&s, "keep beside OK");
        steps_play(&s, FIND_AGAIN "quiet future");
        assert_all_retired(&s);
    }
}

enum batch_kind { BY_HANDLES, WITHOUT_HANDLES, WITH_DEADLINES, CANCELLED, BATCH_KINDS };

/* It touches so much that it enters in several steps. */
static ferry_future *nop_on_bytes(const steps *s, ferry_buffer *buffer)
{
    static ferry_access accesses[GPU_SIZE / 2];
    for (size_t i = 0; i < GPU_SIZE / 2; i++)
        accesses[i] = (ferry_access){span_of(buffer, 2 * i, 1), FERRY_WRITE};
    ferry_op_options options = touching(accesses, GPU_SIZE / 2);
    return ferry_nop(s->f.te.engine, &options);
}

/* A batch that was cancelled is, or it had failed before the cancel came to it. */
static void check_batch(steps *s, enum batch_kind kind, ferry_future *const *each)
{
    bool is_cancelled =
        kind == CANCELLED && ferry_future_poll(future_of(s, "batch")) == FERRY_E_CANCELLED;
    if (!is_cancelled)
        steps_play(s, "shares batch with struck");
    for (size_t i = 0; i < PARTS && each[i] != NULL; i++) {
        (void)name_future(s, "one", each[i]);
        if (!is_cancelled || ferry_future_poll(each[i]) != FERRY_E_CANCELLED)
            steps_play(s, "shares one with struck");
    }
    steps_play(s, "drop batch");
}

/*
 * Its operations enter, and learn that they would wait for ever, before the batch itself is in the
 * graph. What comes next is no part of it.
 */
Test(engine_device_errors, a_batch_behind_a_lost_copy_fails_and_nobody_else_does)
{
    for (enum batch_kind kind = 0; kind < BATCH_KINDS; kind++) {
        OPENED(steps, s);
        ferry_engine *engine = s.f.te.engine;
        steps_play(&s, "buffer 0 src 1 dst 2; buffer host host 3; hold 0; copy struck dst src;"
                       "lose 0; settle; fails struck the device is lost");
        bool is_kept = kind == CANCELLED && fry_baton_take(&engine->baton);
        ferry_op_options options = FERRY_OP_OPTIONS_INIT;
        options.deadline_ns = kind == WITH_DEADLINES ? INT64_MAX / 2 : 0;
        ferry_future *each[PARTS] = {NULL};
        ferry_future *batch =
            name_future(&s, "batch",
                        batch_of_copies(&s, buffer_of(&s, "dst"), buffer_of(&s, "host"),
                                        kind == WITHOUT_HANDLES ? NULL : each, &options));
        (void)name_future(&s, "stuck", ferry_future_all(engine, &batch, 1));
        if (is_kept) { /* else it has failed by now */
            steps_play(&s, "cancel batch");
            fry_baton_give(&engine->baton);
        }
        steps_play(&s, "buffer host fine 4");
        (void)name_future(&s, "beside", nop_on_bytes(&s, buffer_of(&s, "fine")));
        steps_play(&s, "settle; expect beside OK; drop beside; expect stuck DEPENDENCY");
        check_batch(&s, kind, each);
        steps_play(&s, FIND_AGAIN "quiet stuck");
        assert_all_retired(&s);
    }
}

/* An event's definition stands past earlier users of its span, one of which is lost. */
Test(engine_device_errors, a_definition_behind_a_lost_copy_fails_with_its_readers)
{
    play("buffer 0 span 1 dst 3; buffer 1 far 2; hold 1;"
         "copy older far span;" /* reads it on the device that is lost */
         "record event 0.0; define span event; copy reader dst span; issued reader;"
         "lose 1; fire 0.0; run; fails older the device is lost; expect event OK;"
         "shares reader with older;" FIND_AGAIN);
}

/* A thread that is not the loop meets it. Should the first fire after all, it is quiet. */
Test(engine_device_errors, a_submitter_leaves_a_lost_stream_to_the_loop)
{
    play(THREE_BUFFERS "hold 0; copy c0 dst0 src; lose 0; settle; fails c0 the device is lost;"
                       "copy c1 dst1 src; copy c2 dst2 src; expect c1 PENDING; settle;"
                       "fails c1 the device is lost; fails c2 the device is lost; quiet c2;"
                       "find 0; free 0; run; quiet c0");
}

/* ---- without memory ---- */

Test(engine_device_errors, without_memory_for_an_error_there_is_the_status)
{
    OPENED(steps, s);
    steps_play(&s, THREE_BUFFERS "refuse 0 0;" THREE_COPIES);
    failing_allocator_arm(&s.f.te.memory, 1, true);
    steps_play(&s, "settle");
    failing_allocator_arm(&s.f.te.memory, 0, false);
    steps_play(&s, "expect c0 DEVICE; run; expect c1 OK");
}
