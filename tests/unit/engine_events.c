/* SPDX-License-Identifier: Apache-2.0 */
/* Outside events: what waits for them, on which stream, and what becomes of them. */
#include "tests/unit/steps.h"

TestSuite(engine_events, .timeout = HANG_S);

/* An engine whose first device has so many streams of a kind. */
static void open_with(steps *s, size_t parked_count, size_t outside_count)
{
    s->count = 0;
    test_engine_open(&s->f.te, FERRY_LOOP_EMBEDDED);
    fake_engine_attach(
        &s->f, &(fake_options){.parked_count = parked_count, .outside_count = outside_count});
}

static ferry_status wait_for(steps *s, const char *name)
{
    return ferry_future_stream_wait(future_of(s, name), s->f.devices[0], NULL);
}

/* ---- an event by itself ---- */

Test(engine_events, resolves_when_it_fires)
{
    OPENED(steps, s);
    steps_play(&s, "record event 0.0; run; expect event PENDING; issued event;"
                   "fire 0.0; run; expect event OK; quiet event");
    cr_assert_null(ferry_future_error(future_of(&s, "event")));
}

Test(engine_events, of_the_default_stream_are_events_too)
{
    OPENED(steps, s);
    (void)name_future(&s, "event", ferry_event_record(s.f.devices[1], NULL));
    fake_user_go(s.f.gpus[1], NULL, 1);
    steps_play(&s, "run; expect event OK");
}

Test(engine_events, are_waited_for_by_whatever_waits_for_futures)
{
    OPENED(steps, s);
    steps_play(&s, "record event 0.0; nop nop after event; drain drain");
    counted_waiter waiter;
    counted_waiter_init(&waiter, NULL);
    ASSERT_STATUS(ferry_future_on_ready(future_of(&s, "event"), &waiter.waiter), FERRY_OK);
    steps_play(&s, "run; expect nop drain PENDING; fire 0.0; run; expect nop drain OK");
    cr_assert_eq(waiter.calls, 1);
}

Test(engine_events, nobody_has_a_handle_on_fire_all_the_same)
{
    play("record event 0.0; drop event; drain drain; run; expect drain PENDING;"
         "fire 0.0; run; expect drain OK");
}

/* ---- refusals ---- */

Test(engine_events, that_cannot_be_are_refused)
{
    OPENED_WITH(fake_engine, f, FERRY_LOOP_EMBEDDED);
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
}

Test(engine_events, more_than_a_device_holds_are_refused_until_some_have_fired)
{
    OPENED(steps, s);
    ferry_future *events[FRY_STREAM_DEPTH];
    for (size_t i = 0; i < FRY_STREAM_DEPTH; i++)
        events[i] = record(&s.f, 0, 0);
    steps_play(&s, "record more 0.0; expect more AGAIN; record a 0.1; record b 0.2; record c 0.3;"
                   "record more 0.4; expect more AGAIN");
    for (size_t i = 0; i < FRY_STREAM_DEPTH; i++)
        user_goes(&s.f, 0, 0);
    steps_play(&s, "run; fire 0.1 0.2 0.3; record d 0.4; fire 0.4; run; expect a b c d OK");
    for (size_t i = 0; i < FRY_STREAM_DEPTH; i++)
        ASSERT_STATUS(status_of(events[i]), FERRY_OK);
}

Test(engine_events, a_device_that_fails_gives_its_own_number)
{
    OPENED(steps, s);
    fake_refuse_event(s.f.gpus[0], FERRY_E_DEVICE);
    steps_play(&s, "record event 0.0; nop nop after event; settle;"
                   "fails event no event can be recorded; shares nop with event; quiet event;"
                   "record event 0.0; fire 0.0; run; expect event OK");
}

Test(engine_events, without_nodes_nothing_is_recorded)
{
    OWNED(steps_close) steps s = {.count = 0};
    ferry_engine_options options = test_engine_options(&s.f.te, FERRY_LOOP_EMBEDDED);
    options.max_nodes = 2;
    test_engine_create(&s.f.te, &options);
    fake_engine_attach(&s.f, &(fake_options){.parked_count = 1, .outside_count = 2});
    fry_stream *outside = fake_stream(s.f.gpus[0], FAKE_MAIN_COUNT + 1);
    steps_play(&s, "record a 0.0; record b 0.0");
    cr_assert_eq(issued_to(outside), 2);
    steps_play(&s, "record c 0.0; expect c AGAIN");
    cr_assert_eq(issued_to(outside), 2);
    steps_play(&s, "fire 0.0 0.0; run; expect a b OK");
}

/* ---- events of the program's own ---- */

Test(engine_events, wrapped_ones_resolve_at_once_if_they_have_fired)
{
    OPENED(steps, s);
    fake_user_event fired = {true}, unfired = {false};
    void *stream = fake_user_stream(s.f.gpus[0], 0);
    ASSERT_STATUS(status_of(ferry_event_wrap(s.f.devices[0], &fired, stream)), FERRY_OK);
    (void)name_future(&s, "event", ferry_event_wrap(s.f.devices[0], &unfired, stream));
    steps_play(&s, "run; expect event PENDING; fire 0.0; run; expect event OK");
}

/* ---- copies behind events ---- */

Test(engine_events, copies_behind_them_wait_on_a_parked_stream)
{
    play("buffer 0 src 1 dst 2 other 3 copied 4; record event 0.0;"
         "copy behind dst src after event; copy free copied other; issued behind;"
         "stands 0.p0 1; stands 0.w 1; waits 0.p0 1 1 outside 1; run;"
         "expect free OK; expect behind PENDING;"
         "fire 0.0; devices 2;" /* nobody need call ferry for the copy to run */
         "filled dst 1; run; expect behind OK");
}

/* And once that is over what comes is not parked. */
Test(engine_events, what_depends_on_a_parked_copy_is_parked_too)
{
    play("buffer 0 a 1 c 3; buffer 1 b 2 d 4; record event 0.0;"
         "copy ab b a after event; copy bc c b; copy cd d c; issued ab bc cd;"
         "stands 0.w 0; stands 1.w 0; stands 0.p0 1; stands 1.p0 2;" /* one stream for one event */
         "fire 0.0; devices 4; filled d 1; run; expect ab bc cd OK; drop event;"
         "copy next c b; stands 0.w 1; run; expect next OK");
}

/* An event, and a copy behind it. */
#define ROW(name_, user_)                                                                          \
    "record e" name_ " 0." user_ "; buffer 0 s" name_ " 1 d" name_ " 2;"                           \
    "copy c" name_ " d" name_ " s" name_ " after e" name_ ";"
#define ROW_ENDS(name_) "expect c" name_ " OK; filled d" name_ " 1; drop e" name_ ";"

/* The copy behind the early event must not stand behind the later one. */
Test(engine_events, later_ones_of_a_stream_go_behind_earlier_ones_and_not_before)
{
    play("buffer 0 src 1 dst 2; record early 0.0;" ROW(
        "later",
        "0") "stands 0.p0 1;"
             "copy behind dst src after early; issued behind; stands 0.p1 1;" ROW(
                 "last",
                 "0") "stands 0.p0 2; fire 0.0; run; expect behind OK; expect clater PENDING;"
                      "fire 0.0 0.0; run;" ROW_ENDS("later") ROW_ENDS("last"));
}

/* A copy that depends on an early event through another lane must not stand behind a late one,
 * though that lane has later copies in it. */
Test(engine_events, how_far_a_parked_stream_waits_is_known_for_each_copy_in_it)
{
    play("buffer 0 a 1 c 3 e 5; buffer 1 b 2 d 4; record early 0.0; record middle 0.0;"
         "copy first b a after early;"   /* on device 1, behind event 1 */
         "copy second d a after middle;" /* there too, behind event 2 */
         "copy other e a after middle;"  /* on device 0, behind event 2 */
         "copy third c b;"               /* on device 0, behind event 1 */
         "stands 1.p0 2; stands 0.p0 1; stands 0.p1 1;"
         "fire 0.0; run; expect first third OK; expect second PENDING;"
         "fire 0.0; run; expect second other OK");
}

Test(engine_events, a_parked_stream_waits_for_one_stream_of_the_program)
{
    play(ROW("1", "0") ROW("2", "1") "stands 0.p0 1; stands 0.p1 1;" ROW(
        "3", "2") "unissued c3;"                 /* no parked stream is left */
                  "fire 0.2; run; stands 0.w 1;" /* it waits no more */
         ROW_ENDS("3") "fire 0.1; run;" ROW_ENDS(
             "2") "record again 0.1;"   /* so that the next event is on another stream */
         ROW("4", "3") "stands 0.p1 2;" /* it was given back */
                       "fire 0.3 0.1 0.0; run; expect again OK;" ROW_ENDS("4") ROW_ENDS("1"));
}

Test(engine_events, a_parked_stream_takes_copies_of_one_direction)
{
    play(ROW("1", "0") "buffer host host 5; buffer 0 dst 2; copy in dst host after e1;"
                       "stands 0.p0 1; stands 0.p1 1; fire 0.0; run; expect in OK;" ROW_ENDS("1"));
}

Test(engine_events, of_two_streams_one_is_waited_for_on_the_host)
{
    static const char *const orders[2][2] = {{"fire 0.0; run", "fire 0.1; run"},
                                             {"fire 0.1; run", "fire 0.0; run"}};
    OPENED(steps, s);
    for (size_t i = 0; i < 2; i++) {
        steps_play(&s, "buffer 0 src 1 dst 2; record a 0.0; record b 0.1;"
                       "copy behind dst src after a b; run; unissued behind");
        steps_play(&s, orders[i][0]);
        steps_play(&s, "expect behind PENDING");
        steps_play(&s, orders[i][1]);
        steps_play(&s, "expect behind OK; filled dst 1");
    }
}

Test(engine_events, a_full_parked_stream_is_no_place_to_wait)
{
    OWNED(steps_close) steps s = {.count = 0};
    ferry_engine_options options = test_engine_options(&s.f.te, FERRY_LOOP_EMBEDDED);
    options.stream_depth = 2;
    test_engine_create(&s.f.te, &options);
    fake_engine_attach(&s.f, &(fake_options){.parked_count = 1, .outside_count = 4});
    steps_play(&s, "record event 0.0; buffer 0 src 1 a 2 b 2 c 2; copy ca a src after event;"
                   "copy cb b src after event; copy cc c src after event;"
                   "issued ca cb; unissued cc; fire 0.0; run; stands 0.p0 2; stands 0.w 1;"
                   "expect ca cb cc OK; filled a 1 b 1 c 1");
}

Test(engine_events, without_parked_streams_the_host_waits)
{
    OWNED(steps_close) steps s;
    open_with(&s, 0, 2);
    steps_play(&s, ROW("1", "0") "unissued c1; fire 0.0; run;" ROW_ENDS("1"));
}

/* A copy held by something else is issued after later ones: it must not land behind their event. */
Test(engine_events, what_is_issued_late_does_not_stand_behind_a_later_event)
{
    play("buffer 0 src 1 dst 2; promise promise; record event 0.0;"
         "copy late dst src after event promise;" ROW(
             "later", "0") "stands 0.p0 1;"
                           "keep promise OK; stands 0.p1 1; fire 0.0; run; expect late OK;"
                           "fire 0.0; run;" ROW_ENDS("later"));
}

/* ---- cancels, deadlines, the end ---- */

Test(engine_events, cancelled_they_are_quiet_when_they_fire)
{
    OPENED(steps, s);
    steps_play(&s, ROW("1", "0") "cancel e1; run; expect e1 CANCELLED; unquiet e1;"
                                 "expect c1 DEPENDENCY by CANCELLED;"
                                 "unquiet c1"); /* it stands on a device */
    (void)name_future(&s, "quiet", ferry_future_quiet(future_of(&s, "e1")));
    steps_play(&s, "fire 0.0; run; expect quiet OK; quiet c1");
}

/* Then it is out of the way: the event has nothing to do with its memory. */
Test(engine_events, a_copy_held_for_want_of_a_parked_stream_can_be_cancelled)
{
    OWNED(steps_close) steps s;
    open_with(&s, 1, 4);
    steps_play(
        &s, ROW("first", "0")
                ROW("held",
                    "1") "cancel cheld; settle; expect cheld CANCELLED; quiet cheld;"
                         "copy next dheld sfirst; run; expect next OK; fire 0.0 0.1; run;" ROW_ENDS(
                             "first") "expect eheld OK; filled dheld 1");
}

Test(engine_events, a_deadline_passes_while_a_copy_is_parked_or_held)
{
    OWNED(steps_close) steps s;
    open_with(&s, 1, 4);
    steps_play(&s, "buffer 0 src 1 a 2 b 3; record ea 0.0; record eb 0.1;"
                   "copy parked a src after ea until 1000;"
                   "copy held b src after eb until 1000;"
                   "issued parked; unissued held; pass 1000;"
                   "expect parked held DEADLINE; unquiet parked; quiet held");
    cr_assert_eq(fake_count(s.f.gpus[0]).cancels, 1);
    steps_play(&s, "fire 0.0; run; expect ea OK; quiet parked;"
                   "fire 0.1; run; expect eb OK; quiet held");
}

Test(engine_events, a_shutdown_waits_until_they_have_fired)
{
    OPENED(steps, s);
    steps_play(&s, ROW("1", "0") "shutdown 0 DEADLINE; expect e1 SHUTDOWN");
    cr_assert_lt(ferry_future_poll(future_of(&s, "c1")), 0);
    steps_play(&s, "record late 0.0; expect late SHUTDOWN; fire 0.0; devices");
}

/* It passes the check, and is then overtaken by the shutdown: the device has recorded it. */
Test(engine_events, one_that_enters_as_the_engine_closes_stands_in_its_stream)
{
    OPENED(steps, s);
    steps_play(&s, ROW("1", "0") "shutdown 0 DEADLINE");
    fry_store_seq_cst(&s.f.te.engine->closing, 0); /* as it was when it looked */
    steps_play(&s, "record late 0.1");
    fry_store_seq_cst(&s.f.te.engine->closing, 1);
    steps_play(&s, "expect late SHUTDOWN; fire 0.0; devices; shutdown 0 DEADLINE;"
                   "fire 0.1; devices");
}

/* Who is at a device is not left alone with it, however long the device keeps him; meanwhile the
 * loop sleeps, and is woken by whoever leaves a device. */
Test(engine_events, a_shutdown_waits_for_threads_that_record)
{
    OPENED(steps, s);
    ferry_engine *engine = s.f.te.engine;
    steps_play(&s, "record event 0.0");
    (void)fry_fetch_add(&engine->outside_calls, 1);
    steps_play(&s, "shutdown 0 DEADLINE; settle");
    ASSERT_STATUS(ferry_engine_arm(engine), FERRY_OK);
    ASSERT_STATUS(wait_for(&s, "event"), FERRY_E_SHUTDOWN);
    cr_assert_eq(engine->asleep, FRY_AWAKE);
    steps_play(&s, "drop event; fire 0.0; devices; settle");
    ASSERT_STATUS(ferry_engine_arm(engine), FERRY_OK);
    (void)fry_fetch_sub(&engine->outside_calls, 1);
    ASSERT_STATUS(ferry_engine_arm(engine), FERRY_E_BUSY);
}

/* Between the two stores that end an operation: whoever hears that there is nothing to wait for
 * looks how it ended, and would find it pending. */
Test(engine_events, no_stream_goes_on_before_the_status_of_a_copy_that_failed_is_there)
{
    OPENED(steps, s);
    steps_play(&s, "promise gate; buffer 0 src 1 dst 2; copy held dst src after gate; settle");
    ASSERT_STATUS(wait_for(&s, "held"), FERRY_E_NOT_ISSUED);
    fry_node *node = fry_node_of(future_of(&s, "held"));
    cr_assert_eq(node->state, FRY_NODE_WAITING);
    fry_store_release(&node->state, FRY_NODE_RESOLVED);
    ASSERT_STATUS(wait_for(&s, "held"), FERRY_E_NOT_ISSUED);
    fry_store_release(&node->state, FRY_NODE_WAITING);
    steps_play(&s, "cancel held; settle");
    ASSERT_STATUS(wait_for(&s, "held"), FERRY_OK);
    steps_play(&s, "expect held CANCELLED; keep gate OK");
}

/* It has failed, and one of its copies still stands in a stream, where no single place tells of all
 * that it stands for. */
Test(engine_events, no_stream_waits_for_a_batch_that_is_not_quiet)
{
    OPENED(steps, s);
    steps_play(&s, "buffer 0 src 1 dst 2; hold 0");
    ferry_op ops[2] = {{.kind = FERRY_OP_COPY,
                        .dst = ferry_buffer_span(buffer_of(&s, "dst")),
                        .src = ferry_buffer_span(buffer_of(&s, "src"))},
                       {.kind = FERRY_OP_CALL, .fn = fail_call}};
    (void)name_future(&s, "batch", ferry_batch(s.f.te.engine, ops, sizeof ops[0], 2, NULL, NULL));
    steps_play(&s, "settle; expect batch DEPENDENCY");
    ASSERT_STATUS(wait_for(&s, "batch"), FERRY_E_UNSUPPORTED);
    steps_play(&s, "free 0; run");
    ASSERT_STATUS(wait_for(&s, "batch"), FERRY_OK);
}
